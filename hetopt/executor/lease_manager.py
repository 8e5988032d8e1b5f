"""The lease manager: starts, renews, stops, gives up and seals leases, as the engine and their files allow.

Each step may be repeated after a crash at any point: the state database has what is to be done, and each step
first checks what exists.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.damaged_rows import DamagedRow
from hetopt.executor.engines.engine import Engine, EngineDown, Node, Phase, Refused
from hetopt.executor.heartbeat import Heartbeat
from hetopt.executor.lease_record import INTENT, PROFILE, LeaseRecord, LeaseTimeouts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import (
    LeaseResult,
    OpenLease,
    StopReason,
    ask_stop,
    mark_started,
    mark_trained,
    open_leases,
    seal,
    set_leases,
)
from hetopt.executor.speeds import learn
from hetopt.executor.state_database import LEASES, Cache, StateDatabase
from hetopt.executor.state_folder import check_leases_folder

ENGINE_BACK = "engine_back"
"""Key in table meta: the second at which the engine answered again after its last outage; inf during one."""

OUTAGE_SECONDS = 60.0
"""Shorter outages change nothing: an engine that often fails to answer must not keep a lease waiting for ever."""

MAX_REPORTS = 100
"""Leases at most, of those that just train, whose files are read in one pass; of more, each has its turn."""

SLOW_SECONDS = 2.0
"""After an answer of the engine that takes longer, the pass ends: the same for all leases would take too long."""


@dataclass
class _Observed:
    """What this controller has seen of a lease.

    Parameters
    ----------
    since:
        Since when it waits for the engine, in seconds of the cluster's clock.
    ended:
        Since when the engine has no process of it.
    asked:
        Time of the last request to stop.
    claims:
        Rank -> identity of its runner.
    """

    since: float
    ended: float | None = None
    asked: float = -math.inf
    claims: dict[int, dict[str, Any]] = field(default_factory=dict)


class LeaseManager:
    """Manages the open leases.

    Parameters
    ----------
    database, engine, timeouts:
        State, processes, and times.
    folder:
        Folder of lease directories; None: inside the state folder.

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
        self.heartbeat, self.cache = Heartbeat(timeouts.ttl_seconds), Cache(database)
        with database.reading() as connection:
            back = database.meta(connection, ENGINE_BACK)
        self._engine_back = self._back_before = 0.0 if back is None else float(back)
        self._down_since = -math.inf
        self.problems: list[str] = []
        self._addresses: dict[str, str] = {}
        self._observed: dict[str, _Observed] = {}
        self._up: frozenset[str] = frozenset()  # nodes that accept leases
        self._strays: set[str] = set()
        self._attempted: set[str] = set()  # starts in this pass
        self._failed: set[str] = set()  # leases with a problem in this pass
        self._passes = 0

    def leases(self) -> list[OpenLease]:
        """All leases that are not sealed."""
        return self.cache.get("leases", self._read_leases)

    def _read_leases(self) -> list[OpenLease]:
        with self.database.reading() as connection:
            return open_leases(connection, self.folder)

    # -- one pass over all leases

    def renew(self, leases: Iterable[OpenLease]) -> None:
        """Renew all leases that may run, whether or not the engine answers."""
        for lease in leases:
            if not lease.is_lost and (lease.state != INTENT or lease.folder.is_dir()):
                self.heartbeat.add(lease.tag, lease.folder)

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
        self._addresses = {node.name: node.address for node in nodes}
        self._up = frozenset(node.name for node in nodes if node.up)
        self.start([lease for lease in leases if lease.state == INTENT])
        phases = self.engine.status([lease.tag for lease in leases]) if ask else None
        if ask:
            self._record_engine(answers=True)
        before = self._observed
        self._observed = {one.tag: before.get(one.tag) or _Observed(self._waits_since(one)) for one in leases}
        ended = {tag for tag, phase in (phases or {}).items() if phase is Phase.ENDED} | self._failed
        for tag, phase in (phases or {}).items():
            if phase is not Phase.ENDED and tag in self._observed:
                self._observed[tag].ended = None
        self._passes, self._failed, turns = self._passes + 1, set(), -(-len(leases) // MAX_REPORTS) or 1
        turn = [(lease.id + self._passes) % turns == 0 for lease in leases]
        due = [one for one, now in zip(leases, turn, strict=True) if now or not one.is_training or one.tag in ended]
        reports = [LeaseReport(lease, self._observed[lease.tag].claims) for lease in due]
        self._record(reports)
        for report in reports:
            self._isolated(report.lease, partial(self._advance, report, phases))
        known = {lease.tag for lease in leases}
        strays = [tag for tag, phase in (phases or {}).items() if tag not in known and phase is not Phase.ENDED]
        if strays:
            self._kill_strays(strays)

    def record_outage(self) -> None:
        """Record that the engine does not answer: what it has not begun waits from its next answer on."""
        self._record_engine(answers=False)

    def _record_engine(self, *, answers: bool) -> None:
        if answers == (self._engine_back < math.inf):
            return
        now, back = self.database.now(), math.inf
        if answers:
            back = now if now - self._down_since >= OUTAGE_SECONDS else self._back_before
        else:
            self._down_since, self._back_before = now, self._engine_back
        with self.database.writing() as connection:
            self.database.set_meta(connection, ENGINE_BACK, repr(back))
        self._engine_back = back

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
        if not lease.command and report.revoke():  # its specification is damaged
            return self._refuse(lease, LeaseResult("refused"))
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_written(lease.folder):
            self._complete(lease).write()
        self.heartbeat.add(lease.tag, lease.folder)
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
            addresses={node: self._addresses.get(node, node) for node in lease.nodes},
            bound_by_engine=not self.engine.exact_slots,
            ttl_seconds=self.timeouts.ttl_seconds,
            most_seconds=self.timeouts.profile_seconds if lease.kind == PROFILE else None,
            most_seconds_to_first_tick=self.timeouts.first_tick_seconds,
        )

    # -- what runs

    def _record(self, reports: Iterable[LeaseReport]) -> None:
        """Record which leases are seen to run for the first time, and when training began."""
        running, first, now = [], dict[int, float](), self.database.now()
        for report in reports:
            lease = report.lease
            if lease.running is None and lease.state != INTENT and report.claims:
                running.append(lease)
            if lease.first_tick is None and report.progress:  # some steps ago, by the clock of the job
                first[lease.id] = max(lease.granted, now - report.timed[1])
        if running:
            set_leases(self.database, running, running=now)
        if first:
            mark_trained(self.database, first)

    def _advance(self, report: LeaseReport, phases: Mapping[str, Phase] | None) -> bool:
        """Whether it is sealed now."""
        lease = report.lease
        observed = self._observed[lease.tag]
        if report.has_ended:
            self._seal(report)
            return True
        reason = self._why_not_begun(report, phases)
        if lease.state == INTENT:
            if lease.cancelled or lease.is_stopping or reason is not None:
                if self._revoked(report, reason):
                    return True
                mark_started(self.database, [lease])  # a runner was faster
            return False
        if not lease.folder.is_dir():
            if not lease.is_lost:
                self._give_up(lease, "its directory is gone")
                return False
            return phases is not None and self._fence(report)
        if lease.cancelled and not lease.is_stopping:
            self.stop([(lease, StopReason.CANCELLED)])
        if report.exits and not lease.is_stopping:
            self.stop([(lease, StopReason.PART_ENDED)])
        if lease.is_stopping and self._request_stop(report):
            return True
        if phases is None:
            return False
        if lease.is_lost:
            return self._fence(report)
        if phases.get(lease.tag, Phase.ENDED) is Phase.ENDED:
            observed.ended = files.now() if observed.ended is None else observed.ended
            if files.now() - observed.ended >= self._patience():
                return self._revoked(report) or self._give_up(lease, "the engine has no such process any more")
        elif reason is not None:
            return self._revoked(report, reason)
        return False

    def _waits_since(self, lease: OpenLease) -> float:
        """Since when it waits for the engine; one that the engine has not accepted is submitted only now."""
        return self.database.now() if lease.state == INTENT else lease.granted

    def _why_not_begun(self, report: LeaseReport, phases: Mapping[str, Phase] | None) -> StopReason | None:
        """Why a lease without a runner is to be revoked; None where it may still begin."""
        lease = report.lease
        if report.claims or lease.is_stopping:
            return None
        phase = Phase.RUNNING if phases is None else phases.get(lease.tag, Phase.ENDED)
        if phase is not Phase.RUNNING and not self._up.issuperset(lease.nodes):
            return StopReason.NODE_DOWN
        since = max(self._observed[lease.tag].since, self._engine_back)
        late = self.database.now() - since > self.timeouts.start_seconds
        return StopReason.NOT_STARTED if late else None

    def _patience(self) -> float:
        """Seconds until files of runners are certainly visible; none where the engine is this machine."""
        return 0.0 if self.engine.exact_slots else self.timeouts.visible_seconds

    # -- stop

    def stop(self, requests: Sequence[tuple[OpenLease, StopReason]]) -> None:
        """Ask leases to stop: in the database, then by the file that runners read; the engine is asked later."""
        if requests:
            ask_stop(self.database, requests)
        for lease, reason in requests:
            if lease.folder.is_dir():
                _write_stop(lease, reason)

    def _request_stop(self, report: LeaseReport) -> bool:
        """Ask it to stop by file and engine, repeatedly; True where it is sealed now."""
        lease = report.lease
        now, observed = files.now(), self._observed[lease.tag]
        if not report.claims and self._revoked(report):
            return True
        if now - observed.asked > max(1.0, self.timeouts.visible_seconds):
            observed.asked = now
            _write_stop(lease, str(lease.stop_reason))
            self.engine.stop([lease.tag])
        waited = self.database.now() - (lease.stop_asked or self.database.now())
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
            ask_stop(self.database, [(report.lease, reason)])
        self.engine.kill([report.lease.tag])
        self._seal(report)
        return True

    def _give_up(self, lease: OpenLease, why: str) -> bool:
        """End its heartbeat and have it killed; its GPUs stay held until it is certainly dead. False: not sealed."""
        self.heartbeat.remove(lease.tag)
        set_leases(self.database, [lease], lost_since=self.database.now())
        with self.database.writing() as connection:
            self.database.record_event(connection, "lost", lease.job, tag=lease.tag, why=why)
        self.engine.kill([lease.tag])
        return False

    def _fence(self, report: LeaseReport) -> bool:
        """Seal it once it is certainly dead: by the engine's proof, or since it has expired; whether it is sealed."""
        lease = report.lease
        waited = self.database.now() - (lease.lost_since or 0.0)
        expires = self.timeouts.ttl_seconds + lease.grace_seconds + self.timeouts.margin_seconds
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
        self._seal(LeaseReport(lease), "lost")
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
    """Whether there is a ``lease.json`` of this version."""
    try:
        return LeaseRecord.read(folder) is not None
    except ValueError:
        return False


def _write_stop(lease: OpenLease, reason: str) -> None:
    with suppress(OSError):  # repeated with each request to the engine, whose signal has the same effect
        (lease.folder / files.STOP).write_text(reason, encoding="utf-8")
