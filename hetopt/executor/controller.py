"""The controller: observe, bring leases forward, decide where a round begins, stop what moves, start the rest."""

from __future__ import annotations

import gc
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hetopt.decisions.system import System
from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import runner
from hetopt.executor.clock import Wall
from hetopt.executor.cluster_state import ClusterObserver
from hetopt.executor.damaged_rows import DamagedRow, damaged_rows
from hetopt.executor.engines.engine import Engine, EngineDown, make_engine
from hetopt.executor.event_log import Alerts, EventLog
from hetopt.executor.lease_manager import LeaseManager
from hetopt.executor.lease_record import INTENT, LeaseTimeouts
from hetopt.executor.leases import directory
from hetopt.executor.merging import Merges
from hetopt.executor.node_monitor import NodeMonitor
from hetopt.executor.queue import FAILED, spec_of
from hetopt.executor.reconciler import Reconciler, read_targets
from hetopt.executor.round_decision import RoundDecider, Target, fitted
from hetopt.executor.scheduler import UNDECIDED, WAITS, Scheduler
from hetopt.executor.speeds import Estimator
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import MARK, UnwritableDisk, check_leases_folder, disk_problem, is_read_only
from hetopt.formulations.traits import traits_of
from hetopt.plugins import ESTIMATORS
from hetopt.presentation import console
from hetopt.registry import make_system

POLL_SECONDS = 1.0
"""Time between two steps of the controller by default."""

STOP_SECONDS = 0.5
"""How soon the controller sees the request to end."""

SETTLE_SECONDS = 60.0
"""The alert about a disk ends after this time without it, so that one whose room comes and goes is reported once."""

READS = 20
"""How often a runner reads the counter at least within a lease's time to live, in which it is renewed four times."""


@dataclass(frozen=True)
class Settings:
    """How a cluster is driven.

    Parameters
    ----------
    policy:
        Its name with its settings, under which its memory is stored.
    round_seconds:
        Length of a round; None: decisions when jobs or nodes come or go.
    profile:
        Run new jobs for a short time on each GPU type first; otherwise estimates hold until ticks come.
    timeouts:
        Of the leases, in seconds.
    leases:
        Folder of the lease directories; None: with the state.
    strict_rounds:
        New jobs wait for the next round, as in simulations, also where nothing runs.
    """

    policy: str
    round_seconds: float | None = None
    profile: bool = True
    timeouts: LeaseTimeouts = field(default_factory=LeaseTimeouts)
    leases: Path | None = None
    strict_rounds: bool = False


class Controller:
    """Drives a cluster with a policy. On a disk that is full or read-only it renews leases, and waits for room.

    Parameters
    ----------
    database:
        The state database; this process becomes its one controller.
    engine:
        Runs the processes.
    system:
        The policy, rounding and placement.
    estimator:
        Speeds where none were measured.
    settings:
        See :class:`Settings`.
    print_line:
        Prints a message.

    Raises
    ------
    InvalidOption
        Another process is the controller; or open leases are another engine's, or in another folder.
    UnusableFile
        The folder of lease directories is not there, or the state database cannot be written though its disk can.
    """

    def __init__(
        self,
        database: StateDatabase,
        engine: Engine,
        system: System,
        estimator: Estimator,
        settings: Settings,
        print_line: Callable[[str], None] = print,
    ) -> None:
        database.lock()
        self._facts = lease_facts(database, engine.name, settings.leases)
        self.database, self.engine, self.settings = database, engine, settings
        self.alerts, self._written_alerts = Alerts(print_line), list[str]()
        self.manager = LeaseManager(database, engine, settings.timeouts, settings.leases)
        self.reconciler = Reconciler(database, self.manager)
        self.merges = Merges(database, self.manager.folder, self.manager.cache)
        rounds = settings.round_seconds, settings.strict_rounds
        self.scheduler = Scheduler(database, RoundDecider(system, estimator), settings.policy, *rounds, self.alerts)
        self.wall, self.log = Wall(), EventLog(database)
        self.monitor = NodeMonitor(database, engine, self.manager.cache)
        self.observer = ClusterObserver(database, self.manager.cache, self.monitor, profile=settings.profile)
        self._observed = -math.inf  # when the engine answered last
        self._unwritable = -math.inf  # when the disk was last full or read-only, in the cluster's seconds
        self._resumed = False
        try:
            self._resume()
        except OSError as problem:
            if self._disk_problem(problem) is None:
                raise

    def _resume(self) -> None:
        """Continue from the database, and write to it what other processes read of this controller."""
        make_leases_folder(self.database, self.manager.folder)
        self.scheduler.resume()
        with self.database.writing() as connection:
            facts = {"alerts": "[]", "clock": self.database.clock.text, **self._facts}
            for key, value in facts.items():
                self.database.set_meta(connection, key, value)
            self.database.record_event(connection, "controller", policy=self.settings.policy, engine=self.engine.name)
        self._resumed = True

    # -- life

    def run(
        self, *, until_idle: bool = False, poll: float = POLL_SECONDS, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Repeat :meth:`step` every ``poll`` seconds until ``stop()``, or until :meth:`idle` where that is wanted."""
        gc.collect()
        gc.freeze()  # what is there by now stays: it need not be searched for garbage again
        while not stop():
            self.step()
            if until_idle and self.idle():
                return
            until = time.monotonic() + poll
            while (left := until - time.monotonic()) > 0 and not stop():
                time.sleep(min(left, STOP_SECONDS))

    def step(self) -> None:
        """Observe, decide and act once. A lasting problem is reported once, and tried again at the next step."""
        done = [self._try("step", self._act), self._try("log", self.log.write)]
        if (why := disk_problem(self.database.folder)) is not None:
            self._report_disk(why)  # also where nothing was to be written
        if "disk" not in self.alerts.active:
            self.alerts.set("leases", "; ".join(self.manager.problems[:3]))
        elif all(done) and self.database.now() - self._unwritable > SETTLE_SECONDS:
            self.alerts.clear("disk")
            self.alerts.report(f"{self.database.folder} can be written again")
        self._write_alerts()

    def _try(self, what: str, do: Callable[[], object]) -> bool:
        """Whether that succeeded; else there is an alert. A disk that cannot be written is one alert for all."""
        try:
            do()
        except EngineDown as problem:
            self.alerts.clear(what)
            self._try("down", partial(self._report_down, problem))
        except (DamagedRow, OSError) as problem:
            if (why := self._disk_problem(problem)) is not None:
                self._report_disk(why)
            elif isinstance(problem, HetoptError):
                self.alerts.set(what, str(problem))
            else:
                self.alerts.set(what, f"{problem.filename or self.database.folder}: {problem.strerror or problem}")
        else:
            self.alerts.clear(what)
            return True
        return False

    def _disk_problem(self, problem: Exception) -> str | None:
        """Why the disk of the state cannot be written; None where the problem is another one."""
        return problem.problem if isinstance(problem, UnwritableDisk) else disk_problem(self.database.folder)

    def _report_disk(self, why: str) -> None:
        self._unwritable = self.database.now()
        renewed = "leases expire" if is_read_only(self.manager.folder) else "leases are renewed"
        self.alerts.set("disk", f"{why}: {renewed}, and nothing is decided while it cannot be written")

    def _act(self) -> None:
        leases, now = self.manager.leases(), files.now()
        self.manager.renew(leases)
        if not self._resumed:
            self._resume()
        if jump := self.wall.jumped():
            self.alerts.report(f"the wall clock was set by {jump:+.0f} s; nothing here depends on it")
            with self.database.writing() as connection:
                self.database.record_event(connection, "clock", jumped=jump)
        self.alerts.set("rows", self.manager.cache.get("damaged", self._handle_damage))
        ask = now - self._observed >= self.engine.look_seconds
        if ask:
            self.monitor.observe(leases)
        self.manager.advance(leases, self.monitor.nodes, ask=ask)
        self._observed = now if ask else self._observed
        self._merge_and_decide()
        if "engine" in self.alerts.active:
            self.alerts.clear("engine")
            self.alerts.report(f"{self.engine.name} answers again")

    def _merge_and_decide(self) -> None:
        self.merges.step()
        state = self.observer.observe(self.manager.leases())
        self.scheduler.step(state, self._targets())
        self.reconciler.reconcile(state, self._targets(), self.scheduler.number)
        self.manager.start([lease for lease in self.manager.leases() if lease.state == INTENT])
        self._clear_away()

    def _targets(self) -> list[Target]:
        return self.manager.cache.get("targets", lambda: read_targets(self.database))

    # -- the rest

    def _handle_damage(self) -> str:
        """Fail jobs whose specification cannot be read, and drop targets that cannot; the alert about all damage."""
        with self.database.reading() as connection:
            damaged = damaged_rows(connection, spec_of)
        if failed := [one for one in damaged if one.table in ("jobs", "targets")]:
            with self.database.writing() as connection:
                for one in failed:
                    connection.change("DELETE FROM targets WHERE job = :job", job=one.job)
                    self.database.record_event(connection, "damaged", row=str(one))
                    if one.table == "jobs":
                        values = {"state": FAILED, "finished": self.database.now(), "reason": str(one)}
                        connection.update("jobs", values, "id = :job", job=one.job)
            self.scheduler.next = 0.0  # decide again: a job that lost its targets is not to stop for it
        return "; ".join(map(str, damaged[:3]))

    def idle(self) -> bool:
        """Whether certainly nothing is left to do."""
        with suppress(UnusableFile), self.database.reading() as connection:  # else the next step reports it
            return not connection.value(
                """SELECT EXISTS (SELECT * FROM jobs WHERE state = 'queued')
                OR EXISTS (SELECT * FROM leases WHERE state != 'sealed') OR EXISTS (SELECT * FROM merges WHERE done = 0)
                """
            )
        return False

    def _clear_away(self) -> None:
        """Remove checkpoints from which no job will be resumed."""
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

    def _report_down(self, problem: EngineDown) -> None:
        self._observed = -math.inf  # so that it is asked again at the next step
        if "engine" not in self.alerts.active:  # each of its commands may put it differently
            what = "does not answer, so nothing is decided and what runs goes on"
            self.alerts.set("engine", f"{self.engine.name} {what}: {problem}")
            with self.database.writing() as connection:
                self.database.record_event(connection, "engine", down=str(problem))
        self.manager.record_outage()

    def _write_alerts(self) -> None:
        """For status views; without the alerts that they derive from other rows."""
        active = {text: subject for subject, text in self.alerts.active.items()}
        texts = [text for text, subject in active.items() if subject not in (UNDECIDED, WAITS)]
        if texts != self._written_alerts:
            with suppress(OSError):
                with self.database.writing() as connection:
                    self.database.set_meta(connection, "alerts", json.dumps(texts))
                self._written_alerts = texts

    def close(self) -> None:
        """End; leases run until they time out, unless another controller takes them over before."""
        self.manager.heartbeat.close()
        self.merges.close()
        self.engine.close()
        self.database.close()


def lease_facts(database: StateDatabase, engine: str, leases: Path | None) -> dict[str, str]:
    """Rows of table meta by which the next controller sees the engine and the folder of open leases.

    Parameters
    ----------
    engine, leases:
        As given on the command line; the folder is absolute.

    Raises
    ------
    InvalidOption
        Open leases are another engine's, which would take their processes for dead, or have another folder.
    """
    facts = {"engine": engine, "leases": "" if leases is None else str(leases)}
    with database.reading() as connection:
        before = {key: database.meta(connection, key) for key in facts}
        if connection.rows("SELECT id FROM leases WHERE state != 'sealed'"):
            for key, value in facts.items():
                if before[key] is not None and before[key] != value:
                    raise InvalidOption(
                        f"is {value or 'the default'}, but leases that run are of --{key} "
                        f"{before[key] or 'by default'}; let them end with that first",
                        f"--{key}",
                    )
    database.leases = facts["leases"] or None
    return facts


def make_leases_folder(database: StateDatabase, folder: Path) -> None:
    """Make the folder of lease directories, for its owner alone; where it is there, nothing is written.

    Raises
    ------
    UnusableFile
        Leases run in it, or jobs are to resume from checkpoints in it, and it is not there; it cannot be made; or it is
        open to other users.
    """
    new = not (folder / MARK).exists()
    if new and _is_used(database, folder):
        check_leases_folder(folder)
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = folder.stat().st_mode & 0o777
        safe = not mode & 0o077 or folder.is_relative_to(database.folder)
        if new and safe:
            (folder / MARK).touch()
    except OSError as problem:
        raise UnusableFile(f"--leases {folder}: {problem.strerror}") from None
    if not safe:
        raise UnusableFile(
            f"--leases {folder} may be entered by others (mode {mode:o}), and would hold files of jobs; name a "
            f"separate folder, or chmod 700 {folder}"
        )


def _is_used(database: StateDatabase, folder: Path) -> bool:
    with database.reading() as connection:
        folders = connection.column("SELECT folder FROM leases WHERE state != 'sealed'")  # NULL: this one
        folders += connection.column("SELECT checkpoint FROM jobs WHERE state = 'queued' AND checkpoint IS NOT NULL")
    return any(not path or Path(path).is_relative_to(folder) for path in folders)


def make_controller(
    database: StateDatabase,
    *,
    policy: str,
    settings: Mapping[str, Any],
    engine: str,
    round_seconds: float | None,
    slots: Path | None,
    partition: str | None,
    engine_settings: Mapping[str, Any],
    leases: Path | None,
    profile: bool,
    profile_seconds: float,
    ttl_seconds: float,
    strict_rounds: bool = False,
) -> Controller:
    """The controller of the cluster.

    Raises
    ------
    InvalidOption
        Settings that do not fit together, a policy that cannot drive a cluster, or another controller.
    UnknownName
        No such policy or engine.
    """
    system = system_of(policy, settings, round_seconds)
    made = make_engine(engine, database.cluster, engine_settings, {"slots": slots, "partition": partition})
    timeouts = LeaseTimeouts(ttl_seconds=ttl_seconds, profile_seconds=profile_seconds)
    # runners, or a file server twice in a row, may be late to see a renewal
    least = max(READS * runner.CHECK_SECONDS, 0.0 if made.exact_slots else 2 * timeouts.visible_seconds)
    if ttl_seconds < least:
        why = f"it must be {least:g} s at least, or jobs may not see their leases renewed in time"
        raise InvalidOption(f"is {ttl_seconds:g} s; {why}", "--ttl")
    listed = ",".join(f"{key}={value}" for key, value in sorted(settings.items()))
    name = f"{policy}[{listed}]" if listed else policy
    leases = None if leases is None else leases.expanduser().absolute()
    chosen = Settings(name, system.seconds, profile, timeouts, leases, strict_rounds)
    return Controller(database, made, system, ESTIMATORS.factory("hadar"), chosen, console.note)


def system_of(policy: str, settings: Mapping[str, Any], round_seconds: float | None) -> System:
    """The system of that name with rounds of that length.

    Raises
    ------
    InvalidOption
        It runs shares of jobs as rates, which no host can, or runs no job after a number of rounds.
    """
    system = make_system(policy, settings)
    if system.fluid:
        raise InvalidOption(f"{policy} runs shares of jobs as rates, which hosts cannot; take a policy with rounds")
    if traits_of(system.policy).terminates:
        raise InvalidOption(
            f"{policy} plans for a number of rounds, and gives no job GPUs after them; it is for simulations"
        )
    if round_seconds is None:
        return system
    return replace(fitted(system, round_seconds, None), round_seconds=round_seconds)
