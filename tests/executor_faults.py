"""Runs jobs under a controller while faults are injected, and checks the invariants afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from executor_invariants import violations_of
from executor_zygote import KILLED_AT_A_WRITE
from slurm_cluster import SlurmCluster
from waiting import PATIENCE

from hetopt.errors import UnknownName
from hetopt.executor import lease_directory as files
from hetopt.executor.job_file import JobSpec
from hetopt.executor.processes import tagged
from hetopt.executor.queue import drain, submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import EVENTS, StateDatabase

HERE = Path(__file__).parent
STEPS = {"job0": 150, "job1": 250, "job2": 600}
TTL = 1.5
OTHERS = "others"
"""Name of the jobs of other users on a Slurm cluster."""

SLOTS = "nodes:\n  a: {slots: {slow: 2}}\n  b: {slots: {fast: 1, slow: 1}}\n"


class Zygote:
    """The process that makes controllers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "executor_zygote.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def controller(self, plan: dict[str, Any]) -> int:
        """Make one; its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(plan) + "\n")
        self.process.stdin.flush()
        return int(self._answer())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Trial:
    """Some jobs, and the faults that are injected; everything random follows from the seed.

    Parameters
    ----------
    longer:
        Factor of the numbers of steps in :data:`STEPS`.
    """

    def __init__(
        self, zygote: Zygote, folder: Path, seed: int, slurm: SlurmCluster | None = None, *, longer: int = 1
    ) -> None:
        self.steps = {name: longer * number for name, number in STEPS.items()}
        self.zygote, self.folder, self.seed, self.slurm = zygote, folder, seed, slurm
        self.draw = random.Random(seed)
        self.witness = folder / "witness.jsonl"
        self.database = StateDatabase(folder / "state")
        (folder / "slots.yaml").write_text(SLOTS)
        self.faults: list[str] = []
        self._kills = Counter[str]()
        self.pid: int | None = None
        self._looked = 0.0
        for i in range(3):
            self.submit(f"job{i}", workers=1 + i % 2, stubborn=i == 2, wrapped=i > 0)

    def submit(self, name: str, *, workers: int = 1, stubborn: bool = False, wrapped: bool = False) -> None:
        """Submit a job; a wrapped one is a grandchild of its runner, and does not die with it."""
        program = [sys.executable, str(HERE / "executor_job.py"), str(self.witness), "0.004"]
        if wrapped:
            program = ["sh", "-c", 'trap : TERM; "$@" & wait; wait; wait $!', "sh", *program]
        spec = JobSpec(
            name=name,
            command=program + ["stubborn"] * stubborn,
            workers=workers,
            steps=self.steps[name],
            checkpoint=0.2,
            grace=0.4,
            cwd=str(self.folder),
            launch="node",
        )
        submit(self.database, spec)

    # -- controllers

    def start(self, **wrong: Any) -> None:
        """A controller with these faults."""
        plan = {
            "state": str(self.database.folder),
            "slots": str(self.folder / "slots.yaml"),
            "log": str(self.folder / "controller.log"),
            "seed": self.seed,
            "ttl": TTL,
        }
        if self.slurm is not None:
            plan["slurm"] = str(self.slurm.configuration)
        self.pid = self.zygote.controller(plan | wrong)

    def alive(self) -> bool:
        """Whether the controller lives."""
        return self.pid is not None and files.started(self.pid) is not None

    def close(self) -> None:
        """Kill all that runs."""
        self._others_go()
        self.kill()
        self.database.close()

    @property
    def kills(self) -> Counter[str]:
        """Numbers of kill -9 so far, by kind of process."""
        log = self.folder / "controller.log"
        at_writes = log.read_bytes().count(KILLED_AT_A_WRITE) if log.exists() else 0
        return self._kills + Counter({"controller at a write": at_writes})

    def kill(self) -> None:
        """Kill the controller."""
        if self.pid is not None and self.alive():
            self._kills["controller"] += 1
            os.kill(self.pid, signal.SIGKILL)
            self.until(lambda: not self.alive(), "the controller is dead")

    def until(self, what: Callable[[], object], meaning: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, (
                f"seed {self.seed}: not within {PATIENCE:g} s: {meaning}\n{self.report()}"
            )
            time.sleep(0.02)

    def report(self) -> str:
        """The faults, the controllers' log, and what is still open."""
        log = files.read_text(self.folder / "controller.log") or ""
        now = snapshot(self.database)
        jobs = [(job["name"], job["state"], job["step"], job["reason"]) for job in now.jobs]
        events = (files.read_text(self.database.folder / EVENTS) or "").splitlines()[-15:]
        slurm = self.slurm.call("squeue", "-o", "%j %T %N %r", check=False) if self.slurm is not None else ""
        parts = [f"faults: {self.faults}", log[-2000:], *map(str, [*jobs, *now.leases, *now.nodes]), *events, slurm]
        return "\n".join(parts)

    # -- faults

    def fault(self, only: str = "") -> None:
        """Inject one fault, at random among those whose names match ``only``."""
        kinds = ("fault_", "slurm_fault_") if self.slurm is not None else ("fault_",)
        names = [name for name in dir(self) if name.startswith(kinds) and re.search(only, name)]
        name = self.draw.choice(names)
        self.faults.append(name)
        getattr(self, name)()

    def pause(self, most: float = 1.0) -> None:
        """Wait for a random time."""
        time.sleep(self.draw.uniform(0.05, most))

    def fault_die_at_a_write(self) -> None:
        """Kill -9 of the controller at one of its write points."""
        self.kill()
        number = self.draw.choice([self.draw.randint(1, 40), self.draw.randint(1, 400)])
        self.faults[-1] += f" {number}"
        self.start(die_at=number)
        deadline = time.monotonic() + 4.0
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)

    def die_at_every_write(self, most: int) -> None:
        """One controller after another, each killed one write later than the previous one."""
        for number in range(1, most + 1):
            self.faults.append(f"die_at_a_write {number}")
            self.start(die_at=number)
            self.until(lambda: not self.alive(), f"death at write {number}")

    def fault_kill_controller(self) -> None:
        """At any time."""
        self._running_controller()
        self.pause()
        self.kill()

    def fault_hang(self) -> None:
        """Stop a controller for up to longer than the lease timeout, then continue it."""
        self._running_controller()
        self.pause()
        if self.alive() and self.pid is not None:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.5, TTL + 1.5))
            os.kill(self.pid, signal.SIGCONT)

    def fault_kill_a_runner(self) -> None:
        """Kill -9."""
        self._kill_one("runner", lambda tag: tag.endswith(".runner"))

    def fault_kill_a_job(self) -> None:
        """Kill -9."""
        self._kill_one("job", lambda tag: not tag.endswith(".runner"))

    def fault_full_disk(self) -> None:
        """For some writes of the controller."""
        self.kill()
        self.start(full_disk=(self.draw.randint(1, 100), self.draw.randint(1, 60)))
        self.pause(2.0)

    def fault_engine_down(self) -> None:
        """For longer or shorter than the lease timeout."""
        self.kill()
        self.start(engine_down=(0.2, self.draw.uniform(0.5, 3.0)))
        self.pause(2.0)

    def fault_clock_jump(self) -> None:
        """The wall clock is set by a day, or back."""
        self.kill()
        self.start(clock_jump=self.draw.choice([-86400.0, 86400.0, 30.0]))
        self.pause()

    def fault_damage_a_file(self) -> None:
        """A file of an open lease is truncated, or filled with random bytes."""
        self._running_controller()
        self.pause()
        names = (files.PROGRESS, files.OUTCOME, files.LEASE, files.exit_file(0), files.RENEWED, files.LOSSES)
        found = [p for name in names for p in (self.database.folder / "leases").glob(f"*/{name}")]
        found += self._uncommitted()
        found += [self.database.folder / EVENTS] * (self.database.folder / EVENTS).exists()
        if found:
            path = self.draw.choice(sorted(found))
            self.faults[-1] += f" {path.parent.name}/{path.name}"
            self._damage(path)

    def _uncommitted(self) -> list[Path]:
        """The newest checkpoints of open leases: a committed one must not be damaged, or the job is lost."""
        with self.database.reading() as connection:
            tags = connection.column("SELECT tag FROM leases WHERE state != 'sealed'")
        newest = [next(iter(files.published(self.database.folder / "leases" / tag)), None) for tag in tags]
        return [folder / "model.json" for _, folder in filter(None, newest)]

    def _damage(self, path: Path) -> None:
        try:
            size = path.stat().st_size
            if path.name == EVENTS:
                os.truncate(path, max(0, size - self.draw.randint(1, 30)))
            elif path.name != "model.json" and self.draw.random() < 0.5:
                path.write_bytes(self.draw.randbytes(size))
            else:
                os.truncate(path, size // 2)
        except OSError:
            return  # removed meanwhile

    def fault_drain(self) -> None:
        """Drain a node; often it is in use again soon, at the latest in the end."""
        self._running_controller()
        self.pause()
        node = self.draw.choice(sorted(self.slurm.nodes) if self.slurm is not None else ["a", "b"])
        self.faults[-1] += f" {node}"
        try:
            drain(self.database, node)
        except UnknownName:
            return  # no controller has recorded it yet
        self.pause(2.0)
        if self.draw.random() < 0.7:
            drain(self.database, node, undo=True)

    def slurm_fault_others(self) -> None:
        """Jobs of another user request all GPUs of a node, get them when they are free, and end."""
        assert self.slurm is not None
        self._running_controller()
        self.pause()
        node = self.draw.choice(sorted(self.slurm.nodes))
        kind, number = self.slurm.nodes[node]
        self.faults[-1] += f" {node}"
        for _ in range(number):
            self.slurm.submit(f"--nodelist={node}", f"--gres=gpu:{kind}:1", "--mem=10M", name=OTHERS)
        self.pause(8.0)
        if self.draw.random() < 0.7:
            self._others_go()

    def _others_go(self) -> None:
        if self.slurm is not None:
            self.slurm.call("scancel", f"--name={OTHERS}", check=False)

    def slurm_fault_kill_slurmctld(self) -> None:
        """Kill -9; it is restarted after a while, and may have lost or added jobs."""
        assert self.slurm is not None
        self._running_controller()
        self.pause()
        self.slurm.kill_daemon("slurmctld")
        self._kills["slurmctld"] += 1
        self.pause(3.0)
        self.slurm.start_controller()

    def slurm_fault_kill_slurmd(self) -> None:
        """Kill -9 of one node's daemon: Slurm sets the node down, and processes there live on."""
        assert self.slurm is not None
        self._running_controller()
        self.pause()
        name = self.draw.choice(sorted(self.slurm.nodes))
        self.faults[-1] += f" {name}"
        self.slurm.kill_daemon(name)
        self._kills["slurmd"] += 1
        self.pause(8.0)
        self.slurm.start_node(name)

    def slurm_fault_partition(self) -> None:
        """Stop a node's daemon for a while, as if the network were cut."""
        assert self.slurm is not None
        self._running_controller()
        self.pause()
        pid = self.slurm.daemons[self.draw.choice(sorted(self.slurm.nodes))].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.draw.uniform(1.0, 8.0))
        os.kill(pid, signal.SIGCONT)

    def _running_controller(self) -> None:
        if not self.alive():
            self.start()

    def _kill_one(self, kind: str, which: Callable[[str], bool]) -> None:
        self._running_controller()
        self.pause()
        prefix = f"hetopt-{self.database.cluster}-"
        found = sorted(pid for pid, tag in tagged() if tag.startswith(prefix) and which(tag))
        if found:
            try:
                os.kill(self.draw.choice(found), signal.SIGKILL)
                self._kills[kind] += 1
            except ProcessLookupError:
                return

    # -- the end

    def finish(self) -> None:
        """No further faults: all jobs finish."""
        self._running_controller()
        self._others_go()
        with self.database.reading() as connection:
            drained = connection.column("SELECT name FROM nodes WHERE drained")
        for node in drained:
            drain(self.database, node, undo=True)

        def over() -> bool:
            if not self.alive():
                if self.done():
                    return True
                self.start()
            self.operator()
            return False

        self.until(over, "all jobs have finished")

    def done(self) -> bool:
        """Whether all jobs have finished."""
        with self.database.reading() as connection:
            return connection.value("SELECT id FROM jobs WHERE state = 'queued'") is None

    def operator(self) -> None:
        """Resume nodes that Slurm has set down or drained, as their note requests of an operator."""
        if self.slurm is not None and time.monotonic() - self._looked > 2.0:
            self._looked = time.monotonic()
            for line in self.slurm.call("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines():
                node, _, state = line.partition(" ")
                if state.startswith(("down", "drain")):
                    self.slurm.call("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def check(self) -> None:
        """Check every invariant; the message about a violation has the seed."""
        violations = violations_of(self.database, self.witness, self.steps)
        assert not violations, f"seed {self.seed}: {violations}\n{self.report()}"
