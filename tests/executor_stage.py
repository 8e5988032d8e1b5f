"""A controller with a fake engine: no processes, jobs and time that the test controls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from executor_cluster import rows

from hetopt.executor import lease_directory as files
from hetopt.executor.controller import Controller, Settings, system_of
from hetopt.executor.engines.engine import EngineDown, Node, Phase
from hetopt.executor.lease_record import PROFILE, LeaseTimeouts
from hetopt.executor.leases import OpenLease
from hetopt.executor.state_database import StateDatabase
from hetopt.models.hadare.corrected_throughput import estimated


class Puppet:
    """An engine that starts nothing.

    Attributes
    ----------
    hosts:
        That it reports.
    down:
        Why it does not answer; empty if it does.
    waits:
        Nodes on which it begins nothing.
    stuck:
        Tags of leases whose processes cannot die.
    fails:
        Tags that it fails to kill.
    strays:
        Tags under which something runs that the controller did not start.
    """

    name, look_seconds = "puppet", 0.0

    def __init__(self, *hosts: Node) -> None:
        self.hosts, self.down, self.exact_slots = list(hosts), "", False
        self.waits, self.stuck, self.fails, self.strays = set[str](), set[str](), set[str](), set[str]()
        self.live: dict[str, OpenLease] = {}

    def _answer(self) -> None:
        if self.down:
            raise EngineDown(self.down)

    def nodes(self) -> tuple[Node, ...]:
        """The hosts."""
        self._answer()
        return tuple(self.hosts)

    def start(self, grant: OpenLease) -> None:
        """Queue it."""
        self._answer()
        self.live[grant.tag] = grant

    def begins(self, grant: OpenLease) -> bool:
        """Whether it begins where it was granted."""
        return self.waits.isdisjoint(grant.nodes)

    def status(self, tags: Collection[str]) -> Mapping[str, Phase]:
        """The phases of these leases and the strays."""
        self._answer()
        found = dict.fromkeys(tags, Phase.ENDED)
        for tag, grant in self.live.items():
            found[tag] = Phase.RUNNING if self.begins(grant) else Phase.WAITING
        return found | dict.fromkeys(self.strays, Phase.RUNNING)

    def stop(self, tags: Collection[str]) -> None:
        """The jobs read the request."""
        self._answer()

    def kill(self, tags: Collection[str]) -> None:
        """Remove them, unless they cannot die."""
        self._answer()
        if not self.fails.isdisjoint(tags):
            raise EngineDown("it cannot be killed")
        for tag in set(tags) - self.stuck:
            self.live.pop(tag, None)

    def fenced_after(self, tag: str) -> float | None:
        """Unknown, or never for stuck ones."""
        return float("inf") if tag in self.stuck else None

    def close(self) -> None:
        """Nothing is open."""


class Stage:
    """A controller with that engine, and jobs that train for ``passes`` passes and stop on request.

    Further arguments are settings of the policy.
    """

    def __init__(
        self,
        folder: Path,
        *hosts: Node,
        policy: str = "fifo",
        seconds: float | None = None,
        profile: bool = False,
        **own: Any,
    ) -> None:
        self.folder, self.engine, self.messages = folder, Puppet(*hosts), list[str]()
        self.policy, self.settings = policy, Settings(policy, seconds, profile, LeaseTimeouts(ttl_seconds=20.0))
        self.own = own
        self.passes: float = 3
        self.too_small: dict[str, set[str]] = {}
        self.database = StateDatabase(folder)
        self.controller = self._controller()

    def _controller(self) -> Controller:
        system = system_of(self.policy, self.own, self.settings.round_seconds)
        return Controller(self.database, self.engine, system, estimated, self.settings, print_line=self.messages.append)

    def restart(self) -> None:
        """Start another controller; the cluster's second stays."""
        base = self.database.now()
        self.controller.close()
        self.database = StateDatabase(self.folder)
        self.database.clock.base += base - self.database.now()
        try:
            self.controller = self._controller()
        except BaseException:
            self.database.close()
            raise

    def leases(self) -> list[OpenLease]:
        """The open leases."""
        return self.controller.manager.leases()

    def held(self) -> dict[str, dict[str, dict[str, int]]]:
        """Job -> node -> GPU type -> GPUs, of open leases."""
        return {lease.job: lease.held for lease in self.leases()}

    def states(self) -> dict[str, str]:
        """Job -> its state."""
        return {row["name"]: row["state"] for row in rows(self.database)}

    def play(self, number: int = 1, seconds: float = 1.0) -> None:
        """This number of passes, with this time after each; jobs act between them."""
        for _ in range(number):
            self.controller.step()
            self.database.clock.base += seconds
            for lease in self.leases():
                if lease.tag in self.engine.live and self.engine.begins(lease):
                    self._act(lease)

    def _act(self, lease: OpenLease) -> None:
        """What a lease's processes do between two passes."""
        ranks = range(len(lease.nodes))
        for rank in ranks:
            files.claim(lease.folder, rank, files.identity())
        reported = files.read_json(lease.folder / files.PROGRESS)
        passes = 1 if reported is None else int(reported["step"]) + 1
        type_small = lease.gpu_types in self.too_small.get(lease.job, ())
        asked = lease.stop_requested is not None
        if lease.tag in self.engine.stuck:
            return
        if type_small:
            self.end(lease, "failed", 1, out_of_memory=True)
        elif lease.kind == PROFILE and passes > 2:
            self.end(lease, "profiled")
        elif asked:
            self.end(lease, "stopped")
        elif passes > self.passes:
            self.end(lease, "ended", finished=True, step=lease.total_steps)
        else:
            progress = {"step": passes, "first_step": 1, "seconds": float(passes), "time": 1.0}
            files.write_json(lease.folder / files.PROGRESS, progress, durable=False)

    def end(self, lease: OpenLease, reason: str, code: int = 0, **outcome: Any) -> None:
        """End a lease."""
        if outcome:
            files.write_json(lease.folder / files.OUTCOME, outcome, durable=False)
        for rank in range(len(lease.nodes)):
            content = {"reason": reason, "codes": [code], "problem": None, "left": []}
            files.write_json(lease.folder / files.exit_file(rank), content, durable=False)
        self.engine.live.pop(lease.tag, None)

    def hang(self, lease: OpenLease) -> None:
        """Its processes can no longer be found, nor be killed."""
        self.engine.exact_slots = True  # a missing process counts at once
        self.engine.stuck.add(lease.tag)
        self.play()
        del self.engine.live[lease.tag]

    def host(self, name: str, **changed: Any) -> None:
        """Change a host."""
        self.engine.hosts = [replace(h, **changed) if h.name == name else h for h in self.engine.hosts]

    def close(self) -> None:
        """Close the state database."""
        self.controller.close()
