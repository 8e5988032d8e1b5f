"""The lease manager: starts, renews, stops, gives up and seals leases, as the engine and their files allow.

Each step may be repeated after a crash at any point: the state database has what is to be done, and each step
first checks what exists.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.damaged_rows import DamagedRow
from hetopt.executor.engines.engine import Engine, EngineDown, Node, Phase, Refused
from hetopt.executor.lease_record import INTENT, PROFILE, LeaseRecord, LeaseTimeouts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import (
    LeaseResult,
    OpenLease,
    StopReason,
    mark_started,
    open_leases,
    request_stop,
    seal,
    set_leases,
)
from hetopt.executor.speeds import learn
from hetopt.executor.state_database import LEASES, Cache, StateDatabase
from hetopt.executor.state_folder import check_leases_folder

ANSWERS_SINCE = "engine_back"
"""Key in table meta: the second at which the engine answered again after its last outage; inf during one."""

OUTAGE_SECONDS = 60.0
"""Shorter outages change nothing: an engine that often fails to answer must not keep a lease waiting for ever."""

MAX_REPORTS = 100
"""Leases at most, of those that just train, whose files are read in one pass; of more, each has its turn."""

SLOW_SECONDS = 2.0
"""After an answer of the engine that takes longer, the pass ends: the same for all leases would take too long."""


class Heartbeat:
    """Renews each lease four times in its time to live, or more often.

    It has a separate thread, so that neither a long decision nor a slow engine lets leases expire.
    """

    def __init__(self) -> None:
        self._pause = math.inf  # a quarter of the shortest time to live so far
        self._folders: dict[str, Path] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, lease: OpenLease) -> None:
        """Renew this lease now and from now on.

        Raises
        ------
        OSError
            No thread can be started.
        """
        with self._lock:
            if lease.tag not in self._folders:
                _renew(lease.folder)
            self._folders[lease.tag] = lease.folder
            self._pause = min(self._pause, lease.ttl_seconds / 4)
        if not self.is_alive:
            thread = threading.Thread(target=self._run, daemon=True)
            try:
                thread.start()
            except RuntimeError as problem:  # this user has too many processes now
                raise OSError(f"leases cannot be renewed: {problem}") from None
            self._thread = thread

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def remove(self, tag: str) -> None:
        """Do not renew it any more once this returns."""
        with self._lock:
            self._folders.pop(tag, None)

    def close(self) -> None:
        """Stop."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._pause):
            for tag, folder in list(self._folders.items()):
                with self._lock:
                    if tag in self._folders:
                        _renew(folder)


def _renew(folder: Path) -> None:
    with suppress(OSError):  # removed with its lease, or its file server is away for now
        files.renew(folder, int(files.now() * 1000))


@dataclass
class _Observed:
    """What this controller has seen of a lease."""

    since: float  # it waits for the engine since then, in seconds of the cluster's clock
    ended: float | None = None  # the engine has no process of it since then
    requested: float = -math.inf  # time of the last request to stop
    claims: dict[int, dict[str, Any]] = field(default_factory=dict)


class LeaseManager:
    """Manages the open leases. Their directories are in ``folder``; None: inside the state folder.

    Attributes
    ----------
    problems:
        Problems of single leases in the last pass; they are retried in the next.
    """

    def __init__(
        self, database: StateDatabase, engine: Engine, timeouts: LeaseTimeouts, folder: Path | None = None
    ) -> None:
        self.database, self.engine, self.timeouts = database, engine, timeouts
        self.folder = database.folder / LEASES if folder is None else folder
        self.heartbeat, self.cache = Heartbeat(), Cache(database)
        with database.reading() as connection:
            since = database.meta(connection, ANSWERS_SINCE)
        self._answers_since = self._before_outage = 0.0 if since is None else float(since)
        self._down_since = -math.inf
        self.problems: list[str] = []
        self._nodes: dict[str, Node] = {}
        self._made: dict[int, tuple[object, OpenLease]] = {}
        self._observed: dict[str, _Observed] = {}
        self._strays: set[str] = set()
        self._attempted: set[str] = set()  # starts in this pass
        self._failed: set[str] = set()  # leases with a problem in this pass
        self._passes = 0
        self._renewed: Iterable[OpenLease] | None = None  # the same list again: all are renewed

    def leases(self) -> list[OpenLease]:
        """All leases that are not sealed."""

        def read() -> list[OpenLease]:
            with self.database.reading() as connection:
                return open_leases(connection, self.folder, self._made)

        return self.cache.get("leases", read)

    # -- one pass over all leases

    def renew(self, leases: Iterable[OpenLease]) -> None:
        """Renew all leases that may run, whether or not the engine answers."""
        if leases is self._renewed and self.heartbeat.is_alive:
            return
        for lease in leases:
            if not lease.is_lost and (lease.state != INTENT or os.path.isdir(lease.folder)):
                self.heartbeat.add(lease)
        self._renewed = leases

    def advance(self, leases: Collection[OpenLease], nodes: Collection[Node], *, ask: bool = True) -> None:
        """Bring every lease one step forward.

        What runs on a node that is not up continues until the engine reports its end; what has not begun there is
        revoked.

        Parameters
        ----------
        ask:
            Whether to ask the engine for its phases; otherwise only files are read.

        Raises
        ------
        EngineDown
            The engine does not answer; what was done before stays done.
        UnusableFile
            The folder of all leases is gone.
        """
        self.problems, self._attempted = [], set()
        check_leases_folder(self.folder)
        self._nodes = {node.name: node for node in nodes}
        self.start([lease for lease in leases if lease.state == INTENT])
        phases = dict[str, Phase]()
        if ask:
            phases |= self.engine.status([lease.tag for lease in leases])
            self._record_engine(answers=True)
        before = self._observed
        now = self.database.now()  # what the engine has not accepted is submitted only now
        since = {one.tag: now if one.state == INTENT else one.granted for one in leases}
        self._observed = {tag: before.get(tag) or _Observed(second) for tag, second in since.items()}
        alive = {tag for tag, phase in phases.items() if phase is not Phase.ENDED}
        for tag in alive & self._observed.keys():
            self._observed[tag].ended = None
        ended, failed, self._failed = phases.keys() - alive, self._failed, set()
        training = {one.tag for one in leases if one.is_training}
        self._passes, turns = self._passes + 1, math.ceil(len(training) / MAX_REPORTS) or 1
        unended = training - ended
        quiet = unended - failed
        reports = [
            LeaseReport(one, self._observed[one.tag].claims)
            for one in leases
            if one.tag not in quiet or (one.id + self._passes) % turns == 0
        ]
        self._record(reports)
        for report in reports:
            if report.lease.tag in unended and report.trains_on:
                continue
            self._isolated(report.lease, partial(self._advance, report, phases.get(report.lease.tag)))
        if strays := alive - self._observed.keys():
            self._kill_strays(strays)

    def record_outage(self) -> None:
        """Record that the engine does not answer: what it has not begun waits from its next answer on."""
        self._record_engine(answers=False)

    def _record_engine(self, *, answers: bool) -> None:
        if answers == (self._answers_since < math.inf):
            return
        now, since = self.database.now(), math.inf
        if answers:
            since = now if now - self._down_since >= OUTAGE_SECONDS else self._before_outage
        else:
            self._down_since, self._before_outage = now, self._answers_since
        with self.database.writing() as connection:
            self.database.set_meta(connection, ANSWERS_SINCE, repr(since))
        self._answers_since = since

    def _isolated(self, lease: OpenLease, do: Callable[[], bool]) -> bool:
        """Do something with one lease; its problems do not delay the others.

        Raises
        ------
        EngineDown
            It took so long that the same for all others would take too long.
        """
        began = files.now()
        try:
            return do()
        except EngineDown as problem:
            if files.now() - began > SLOW_SECONDS:
                raise
            self.problems.append(f"{lease.job}: {problem}")
        except UnusableFile:
            raise  # of the state database
        except DamagedRow as problem:
            self.problems.append(str(problem))
        except OSError as problem:
            self.problems.append(f"{lease.job}: {problem.filename or lease.folder}: {problem.strerror or problem}")
        self._failed.add(lease.tag)
        return False

    # -- start

    def start(self, leases: Collection[OpenLease]) -> None:
        """Write the directories, ask the engine, record that they have started; in this order, again after a crash."""
        new = [lease for lease in leases if lease.tag not in self._attempted]
        self._attempted.update(lease.tag for lease in new)
        started: list[OpenLease] = []
        try:
            started.extend(lease for lease in new if self._isolated(lease, partial(self._start, lease)))
        finally:
            if started:
                mark_started(self.database, started)

    def _start(self, lease: OpenLease) -> bool:
        """Whether the engine has accepted it."""
        report = LeaseReport(lease)
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not lease.command and report.revoke():
            return self._refuse(lease, LeaseResult("refused", failure="its specification is damaged"))
        if not _is_written(lease.folder):
            self._complete(lease).write()
        self.heartbeat.add(lease)
        if lease.is_stopping and report.revoke():
            self._seal(report)
            return False
        resume = lease.resume_dir
        if resume is not None and not files.is_complete(Path(resume)) and report.revoke():
            failure = f"its checkpoint {resume} is damaged or gone; once it is back, hetopt retry {lease.job}"
            return self._refuse(lease, LeaseResult("refused", failure=failure, fatal=True))
        try:
            self.engine.start(lease)
        except Refused as problem:
            if report.revoke():
                return self._refuse(lease, LeaseResult("refused", failure=str(problem)))
        return True  # also of a start that was refused, but had succeeded before

    def _refuse(self, lease: OpenLease, result: LeaseResult) -> bool:
        self.heartbeat.remove(lease.tag)
        seal(self.database, lease, result)
        return False

    def _complete(self, lease: OpenLease) -> OpenLease:
        """The lease with what this controller knows of hosts and times."""
        return replace(
            lease,
            addresses={name: self._nodes[name].address for name in lease.nodes if name in self._nodes},
            bound_by_engine=not self.engine.exact_slots,
            most_seconds=self.timeouts.profile_seconds if lease.kind == PROFILE else None,
            most_seconds_to_first_tick=self.timeouts.first_tick_seconds,
        )

    # -- what runs

    def _record(self, reports: Iterable[LeaseReport]) -> None:
        """Record which leases are seen to run for the first time, and when training began."""
        changes, now = dict[int, dict[str, float]](), self.database.now()
        for report in reports:
            lease = report.lease
            if lease.running is None and lease.state != INTENT and report.claims:
                changes.setdefault(lease.id, {})["running"] = now
            if lease.first_tick is None and report.progress:  # some steps ago, by the clock of the job
                changes.setdefault(lease.id, {})["first_tick"] = max(lease.granted, now - report.timed[1])
        if changes:
            set_leases(self.database, changes)

    def _advance(self, report: LeaseReport, phase: Phase | None) -> bool:
        """Whether it is sealed now; the phase is None where the engine was not asked."""
        lease = report.lease
        if report.has_ended:
            self._seal(report)
            return True
        reason = self._why_not_begun(report, phase)
        if lease.state == INTENT:
            if lease.cancelled or lease.is_stopping or reason is not None:
                if self._revoked(report, reason):
                    return True
                mark_started(self.database, [lease])  # a runner was faster
            return False
        if report.is_absent:
            if not lease.is_lost:
                self._give_up(lease, "its directory is gone")
                return False
            return phase is not None and self._fence(report)
        if lease.cancelled and not lease.is_stopping:
            self.stop([(lease, StopReason.CANCELLED)])
        if report.exits and not lease.is_stopping:
            self.stop([(lease, StopReason.PART_ENDED)])
        if lease.is_stopping and self._repeat_stop(report):
            return True
        if phase is None:
            return False
        if lease.is_lost:
            return self._fence(report)
        if phase is Phase.ENDED:
            observed = self._observed[lease.tag]
            observed.ended = files.now() if observed.ended is None else observed.ended
            patience = 0.0 if self.engine.exact_slots else self.timeouts.visible_seconds  # of files of runners
            if files.now() - observed.ended >= patience:
                return self._revoked(report) or self._give_up(lease, "the engine has no such process any more")
        elif reason is not None:
            return self._revoked(report, reason)
        return False

    def _why_not_begun(self, report: LeaseReport, phase: Phase | None) -> StopReason | None:
        """Why a lease without a runner is to be revoked; None where it may still begin."""
        lease = report.lease
        if report.claims or lease.is_stopping:
            return None
        if phase in (Phase.WAITING, Phase.ENDED):
            up = {name for name, node in self._nodes.items() if node.up}
            if not up.issuperset(lease.nodes):
                return StopReason.NODE_DOWN
        since = max(self._observed[lease.tag].since, self._answers_since)
        late = self.database.now() - since > self.timeouts.start_seconds
        return StopReason.NOT_STARTED if late else None

    # -- stop

    def stop(self, requests: Sequence[tuple[OpenLease, StopReason]]) -> None:
        """Ask leases to stop: in the database, then by the file that runners read; the engine is asked later."""
        if requests:
            request_stop(self.database, requests)
        for lease, reason in requests:
            _write_stop(lease, reason)

    def _repeat_stop(self, report: LeaseReport) -> bool:
        """Request the stop by file and engine again; True where it is sealed now."""
        lease = report.lease
        now, observed = files.now(), self._observed[lease.tag]
        if not report.claims and self._revoked(report):
            return True
        if now - observed.requested > max(1.0, self.timeouts.visible_seconds):
            observed.requested = now
            _write_stop(lease, str(lease.stop_reason))
            self.engine.stop([lease.tag])
        waited = self.database.now() - (lease.stop_requested or self.database.now())
        if not lease.is_lost and waited > lease.grace_seconds + self.timeouts.margin_seconds:
            return self._revoked(report) or self._give_up(lease, "it does not stop")
        return False

    def _revoked(self, report: LeaseReport, reason: StopReason | None = None) -> bool:
        """Claim the nodes without a runner, so that none begins any more; True where it is sealed now.

        Also of a gang of which some nodes have begun: no other node may.
        """
        if not report.revoke():
            return False
        if reason is not None:
            request_stop(self.database, [(report.lease, reason)])
        self.engine.kill([report.lease.tag])
        self._seal(report)
        return True

    def _give_up(self, lease: OpenLease, why: str) -> bool:
        """End its heartbeat and have it killed; its GPUs stay held until it is certainly dead. False: not sealed."""
        self.heartbeat.remove(lease.tag)
        set_leases(self.database, {lease.id: {"lost_since": self.database.now()}})
        with self.database.writing() as connection:
            self.database.record_event(connection, "lost", lease.job, tag=lease.tag, why=why)
        self.engine.kill([lease.tag])
        return False

    def _fence(self, report: LeaseReport) -> bool:
        """Seal it once it is certainly dead: by the engine's proof, or since it has expired; whether it is sealed."""
        lease = report.lease
        waited = self.database.now() - (lease.lost_since or 0.0)
        expires = lease.ttl_seconds + lease.grace_seconds + self.timeouts.margin_seconds
        try:
            self.engine.kill([lease.tag])
            certain = self.engine.fenced_after(lease.tag)
        except EngineDown:
            if waited < expires:
                raise
            certain = None
        if waited < (expires if certain is None else certain):
            return False
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # the job may have removed it
        report.revoke()
        self._seal(report, "lost")
        return True

    def _seal(self, report: LeaseReport, outcome: str | None = None) -> None:
        lease = report.lease
        for unfinished in (lease.folder / files.CHECKPOINTS).glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        seal(self.database, lease, report.result(outcome), partial(learn, lease=lease, report=report))
        self.heartbeat.remove(lease.tag)

    def _kill_strays(self, tags: Collection[str]) -> None:
        """Kill processes under a tag of this cluster whose lease is sealed, or was never recorded."""
        with self.database.writing() as connection:
            for tag in set(tags) - self._strays:
                self.database.record_event(connection, "stray", tag=tag)
        self._strays = set(tags)
        try:
            self.engine.kill(tags)
        except EngineDown as problem:  # this concerns no lease
            self.problems.append(f"{', '.join(sorted(tags))}: {problem}")


def _is_written(folder: Path) -> bool:
    try:
        return LeaseRecord.read(folder) is not None
    except ValueError:  # of another version
        return False


def _write_stop(lease: OpenLease, reason: str) -> None:
    with suppress(OSError):  # repeated with each request to the engine, whose signal has the same effect
        (lease.folder / files.STOP).write_text(reason, encoding="utf-8")
