"""The controller: observe, bring leases forward, decide where a round begins, stop what moves, start the rest."""

from __future__ import annotations

import gc
import json
import math
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hetopt.decisions.system import System
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.alerts import Alerts
from hetopt.executor.clock import Wall
from hetopt.executor.engines.engine import Engine, EngineDown
from hetopt.executor.lease_manager import LeaseManager
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.leases import directory
from hetopt.executor.leases_folder import make_leases_folder
from hetopt.executor.merging import Merges
from hetopt.executor.node_monitor import NodeMonitor
from hetopt.executor.profiler import Profiler
from hetopt.executor.reconciler import Reconciler, read_targets
from hetopt.executor.round_decision import RoundDecider, Target
from hetopt.executor.scheduler import UNDECIDED, WAITS, Scheduler
from hetopt.executor.speeds import Estimator
from hetopt.executor.state_database import StateDatabase

POLL_SECONDS = 1.0
"""How often the controller looks by default."""

STOP_SECONDS = 0.5
"""How soon it sees that it shall end."""


@dataclass(frozen=True)
class Settings:
    """How a cluster is driven.

    Parameters
    ----------
    policy:
        Its name with its settings, under which its memory is kept.
    round_seconds:
        Length of a round; None: decisions when jobs or nodes come or go.
    profile:
        Run new jobs for a short time on each GPU type first; otherwise estimates stand until ticks come.
    timeouts:
        Times of the leases.
    leases:
        Where lease directories lie; None: with the state.
    strict_rounds:
        Whoever comes waits for the next round, as in simulations, also where nothing runs.
    """

    policy: str
    round_seconds: float | None = None
    profile: bool = True
    timeouts: LeaseTimeouts = field(default_factory=LeaseTimeouts)
    leases: Path | None = None
    strict_rounds: bool = False


class Controller:
    """Drives a cluster with a policy.

    Parameters
    ----------
    database:
        The books; this process becomes the one controller of them.
    engine:
        Who runs processes.
    system:
        The policy, rounding and placement.
    estimator:
        Speeds where none were measured.
    settings:
        See :class:`Settings`.
    say:
        Told what people should know, a line at a time.
    """

    def __init__(
        self,
        database: StateDatabase,
        engine: Engine,
        system: System,
        estimator: Estimator,
        settings: Settings,
        say: Callable[[str], None] = print,
    ) -> None:
        database.lock()
        self.database, self.engine, self.settings = database, engine, settings
        self.alerts, self._alerts = Alerts(say), list[str]()
        self.manager = LeaseManager(database, engine, settings.timeouts, settings.leases)
        make_leases_folder(database, self.manager.folder)
        self.reconciler = Reconciler(database, self.manager)
        self.merges = Merges(database, self.manager.folder, self.manager.cache)
        often, decider = (settings.round_seconds, settings.strict_rounds), RoundDecider(system, estimator)
        self.scheduler = Scheduler(database, decider, settings.policy, *often, self.alerts)
        self.wall = Wall()
        self.monitor = NodeMonitor(database, engine, self.manager.cache)
        self.profiler = Profiler(database, self.manager.cache, self.monitor, profile=settings.profile)
        self._asked = -math.inf
        self.scheduler.resume()
        with database.writing() as connection:
            database.set_meta(connection, "alerts", "[]")
            database.set_meta(connection, "ttl_seconds", repr(settings.timeouts.ttl_seconds))
            database.record_event(connection, "controller", policy=settings.policy, engine=engine.name)

    # -- life

    def run(
        self, *, until_idle: bool = False, poll: float = POLL_SECONDS, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Look again and again until ``stop`` says so, or, with ``until_idle``, nothing is left to do."""
        gc.collect()
        gc.freeze()  # what is there by now stays: it need not be searched for garbage for ever
        while not stop():
            self.step()
            if until_idle and self._is_idle():
                return
            until = time.monotonic() + poll
            while not stop() and (left := until - time.monotonic()) > 0:
                time.sleep(min(left, STOP_SECONDS))

    def step(self) -> None:
        """Look once. What goes wrong for a while is told once, and tried again at the next look."""
        self._try("look", self._look)
        self._try("log", self.database.write_events)
        if self.manager.problems:
            self.alerts.set("leases", "; ".join(self.manager.problems[:3]))
        else:
            self.alerts.clear("leases")
        self._keep_troubles()

    def _try(self, what: str, do: Callable[[], object]) -> bool:
        """Whether that went well; what did not is told."""
        try:
            do()
        except EngineDown as problem:
            self.alerts.clear(what)
            self._try("down", partial(self._tell_down, problem))
        except UnusableFile as problem:
            self.alerts.set(what, str(problem))
        except OSError as problem:
            self.alerts.set(what, f"{problem.filename or self.database.folder}: {problem.strerror or problem}")
        else:
            self.alerts.clear(what)
            return True
        return False

    def _look(self) -> None:
        if jump := self.wall.jumped():
            with self.database.writing() as connection:
                self.database.record_event(connection, "clock", jumped=jump)
            self.alerts.report(f"the clock on the wall was set by {jump:+.0f} s; nothing here goes by it")
        leases, now = self.manager.leases(), files.now()
        ask = now - self._asked >= self.engine.look_seconds
        self.manager.renew(leases)
        if ask:
            self.monitor.observe(leases)
        self.manager.advance(leases, self.monitor.nodes, ask=ask)
        self._asked = now if ask else self._asked
        self._merge_and_decide()
        if "engine" in self.alerts.active:
            self.alerts.clear("engine")
            self.alerts.report(f"{self.engine.name} answers again")

    def _merge_and_decide(self) -> None:
        self.merges.step()
        leases = self.manager.leases()
        cluster_state, runs = self.profiler.cluster_state(leases)
        targets = self._targets()
        if self.scheduler.is_due(cluster_state, targets, idle=not targets and not leases):
            self.scheduler.decide(cluster_state)
            targets = self._targets()
        usable = self.monitor.usable(leases)
        self.reconciler.stop(leases, targets, self.scheduler.number, self.monitor.to_stop(leases))
        blocked = self.reconciler.profile(runs, leases, usable, pause=True)
        self.reconciler.start(
            targets, self.manager.leases(), usable, blocked=blocked, round_number=self.scheduler.number
        )
        fresh = [lease for lease in self.manager.leases() if lease.state == "intent"]
        self.manager.start(fresh)
        self._clear_away()

    def _targets(self) -> list[Target]:
        return self.manager.cache.get("targets", lambda: read_targets(self.database))

    # -- the rest

    def idle(self) -> bool:
        """Whether nothing is left to do."""
        with self.database.reading() as connection:
            return not connection.value(
                """SELECT EXISTS (SELECT * FROM jobs WHERE state = 'queued')
                OR EXISTS (SELECT * FROM leases WHERE state != 'sealed') OR EXISTS (SELECT * FROM merges WHERE done = 0)
                """
            )

    def _is_idle(self) -> bool:
        """Whether certainly nothing is left to do."""
        found: list[bool] = []
        return self._try("books", lambda: found.append(self.idle())) and found[0]

    def _clear_away(self) -> None:
        """Remove checkpoints that nothing will be resumed from any more."""
        self.merges.clear_away()
        for number, folder in self.manager.cache.get("passed", self._passed):
            shutil.rmtree(folder / files.CHECKPOINTS, ignore_errors=True)
            with self.database.writing() as connection:
                connection.update("leases", {"checkpoint": None}, "id = :lease", lease=number)

    def _passed(self) -> list[tuple[int, Path]]:
        with self.database.reading() as connection:
            rows = connection.rows(
                """SELECT leases.id, tag, folder FROM leases JOIN jobs ON jobs.id = leases.job
                WHERE leases.state = 'sealed' AND leases.checkpoint IS NOT NULL AND (forked = 0 OR merged = 1)
                AND jobs.state != 'failed' AND jobs.checkpoint IS NOT leases.checkpoint"""
            )
        return [(row["id"], directory(row, self.manager.folder)) for row in rows]

    def _tell_down(self, problem: EngineDown) -> None:
        self._asked = -math.inf  # at the next look, whether it answers again
        if "engine" not in self.alerts.active:  # each of its commands may put it differently
            what = "does not answer, so nothing is decided and what runs goes on"
            self.alerts.set("engine", f"{self.engine.name} {what}: {problem}")
            with self.database.writing() as connection:
                self.database.record_event(connection, "engine", down=str(problem))
        self.manager.outages.failed()

    def _keep_troubles(self) -> None:
        """For whoever looks at the books, without what stands there anyway."""
        told = [text for about, text in self.alerts.active.items() if about not in (UNDECIDED, WAITS)]
        if told != self._alerts:
            with suppress(OSError), self.database.writing() as connection:
                self.database.set_meta(connection, "alerts", json.dumps(told))
                self._alerts = told

    def close(self) -> None:
        """Stop looking; leases go on until they run out, and another controller takes them over before."""
        self.manager.heartbeat.close()
        self.merges.close()
        self.engine.close()
        self.database.close()


def check_same(database: StateDatabase, engine: str, leases: Path | None) -> None:
    """Raise :class:`InvalidOption` where open leases are another engine's, or have their directories elsewhere.

    An engine knows nothing of the processes of another, and would take them for dead.
    """
    wanted = {"engine": engine, "leases": "" if leases is None else str(leases.absolute())}
    with database.writing() as connection:
        before = {key: database.meta(connection, key) for key in wanted}
        if connection.rows("SELECT id FROM leases WHERE state != 'sealed'"):
            for key, value in wanted.items():
                if before[key] is not None and before[key] != value:
                    raise InvalidOption(
                        f"is {value or 'the default'}, but leases that run are of --{key} "
                        f"{before[key] or 'by default'}; let them end with that first",
                        f"--{key}",
                    )
        for key, value in wanted.items():
            database.set_meta(connection, key, value)
    database.leases = wanted["leases"] or None
