"""Brings open leases forward: starts, renews, stops, gives up and seals them, as the engine and their files allow.

Everything here may be repeated after a crash at any point: the books say what is to be done, and each step looks first.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.cache import Cache
from hetopt.executor.damaged_rows import DamagedRow
from hetopt.executor.engines.engine import Engine, EngineDown, Node, Phase, Refused
from hetopt.executor.heartbeat import Heartbeat
from hetopt.executor.lease_file import written
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.lease_timeouts import LeaseTimeouts
from hetopt.executor.leases import (
    INTENT,
    PROFILE,
    LeaseRecord,
    LeaseResult,
    StopReason,
    ask_stop,
    mark_started,
    mark_trained,
    open_leases,
    seal,
    set_leases,
)
from hetopt.executor.leases_folder import check_there
from hetopt.executor.queue import grace_of, spec_of
from hetopt.executor.speeds import learn
from hetopt.executor.state_database import LEASES, StateDatabase

MOST_STEP = 60.0
"""Seconds that count at most between two answers of the engine: after longer ones it was away."""

MOST_QUIET = 100
"""Leases at most, of those that just train, whose files are read at one look; of more each has its turn."""

SLOW_SECONDS = 2.0
"""An engine's answer that takes longer is not waited for again and again."""


@dataclass
class _Seen:
    """What a lease has shown; another controller sees it anew.

    Parameters
    ----------
    since:
        When it was first looked at, in seconds in which the engine answers.
    ended:
        Since when the engine has no process of it.
    asked:
        When it was last asked to stop.
    claims:
        Rank -> who runs there.
    """

    since: float
    ended: float | None = None
    asked: float = -math.inf
    claims: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass
class LeaseManager:
    """Keeps the leases.

    Parameters
    ----------
    database, engine, timeouts:
        The books, who runs the processes, and the times.
    folder:
        Where lease directories lie.

    Attributes
    ----------
    problems:
        What went wrong with single leases at the last look; it is tried again.
    """

    database: StateDatabase
    engine: Engine
    timeouts: LeaseTimeouts
    folder: Path
    heartbeat: Heartbeat
    cache: Cache
    addresses: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _answered: float = 0.0  # seconds in which the engine did
    _last: float = math.inf  # when it did last
    _strays: set[str] = field(default_factory=set)
    _tried: set[str] = field(default_factory=set)
    _looks: int = 0
    _troubled: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls, database: StateDatabase, engine: Engine, timeouts: LeaseTimeouts, folder: Path | None = None
    ) -> LeaseManager:
        """With lease directories in ``folder``, by default within the state's own."""
        folder = database.folder / LEASES if folder is None else folder
        return cls(database, engine, timeouts, folder, Heartbeat(timeouts.ttl_seconds), Cache(database))

    def leases(self) -> list[LeaseRecord]:
        """All that are not sealed."""
        return self.cache.get("leases", self._leases)

    def _leases(self) -> list[LeaseRecord]:
        with self.database.reading() as connection:
            return open_leases(connection, self.folder)

    # -- one look at everything

    def renew(self, leases: Iterable[LeaseRecord]) -> None:
        """Renew all that may run, whether or not the engine answers."""
        for lease in leases:
            begun = lease.row["state"] != INTENT or lease.folder.is_dir()
            if begun and lease.row["lost_since"] is None:
                self.heartbeat.keep(lease.tag, lease.folder)

    def advance(self, leases: Collection[LeaseRecord], nodes: Collection[Node], *, ask: bool = True) -> None:
        """Bring every lease one step forward.

        What runs on a node that takes nothing new goes on; the engine says when it is over.

        Parameters
        ----------
        ask:
            Whether to ask the engine how far they are; without, only their files tell.

        Raises
        ------
        EngineDown
            The engine does not answer; what was done before stays done.
        UnusableFile
            The folder of all leases is gone.
        """
        self.problems, self._tried = [], set()
        check_there(self.folder)
        self.addresses = {node.name: node.address for node in nodes}
        self.begin([lease for lease in leases if lease.row["state"] == INTENT])
        phases = self.engine.status([lease.tag for lease in leases]) if ask else None
        if ask:
            now = self.database.now()
            self._answered, self._last = self._answered + max(0.0, min(now - self._last, MOST_STEP)), now
        self._seen = {lease.tag: self._seen.get(lease.tag) or _Seen(self._answered) for lease in leases}
        ended = {tag for tag, phase in (phases or {}).items() if phase is Phase.ENDED} | self._troubled
        for tag, phase in (phases or {}).items():
            if phase is not Phase.ENDED and tag in self._seen:
                self._seen[tag].ended = None
        self._looks, self._troubled, turns = self._looks + 1, set(), -(-len(leases) // MOST_QUIET) or 1
        turn = [(one.row["id"] + self._looks) % turns == 0 for one in leases]
        due = [one for one, now in zip(leases, turn, strict=True) if now or not one.trains or one.tag in ended]
        found = [LeaseReport(lease, self._seen[lease.tag].claims) for lease in due]
        self._observe(found)
        for report in found:
            self._apart(report.lease, partial(self._advance, report, phases))
        known = {lease.tag for lease in leases}
        others = [tag for tag, phase in (phases or {}).items() if tag not in known and phase is not Phase.ENDED]
        if others:
            self._kill_strays(others)

    def begin(self, leases: Collection[LeaseRecord]) -> None:
        """Write the directories, ask the engine, note that they have begun; in this order, and again after a crash."""
        begun: list[LeaseRecord] = []
        new = [lease for lease in leases if lease.tag not in self._tried]  # once a look
        self._tried.update(lease.tag for lease in new)
        try:
            begun.extend(lease for lease in new if self._apart(lease, partial(self._begin, lease)))
        finally:
            if begun:
                mark_started(self.database, begun)

    def _apart(self, lease: LeaseRecord, do: Callable[[], bool]) -> bool:
        """Do something with one lease; what goes wrong there keeps no other one waiting.

        Raises
        ------
        EngineDown
            It took so long that the same with all others would take too long.
        """
        began, name = files.now(), lease.job["name"]
        try:
            return do()
        except EngineDown as problem:
            if files.now() - began > SLOW_SECONDS:
                raise
            self.problems.append(f"{name}: {problem}")
        except UnusableFile:
            raise  # of the books
        except DamagedRow as problem:
            self.problems.append(str(problem))
        except OSError as problem:
            self.problems.append(f"{name}: {problem.filename or lease.folder}: {problem.strerror or problem}")
        self._troubled.add(lease.tag)
        return False

    def _begin(self, lease: LeaseRecord) -> bool:
        """Whether the engine has taken it."""
        report = LeaseReport(lease)
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if files.read_json(lease.folder / files.LEASE) is None:
            files.write_json(lease.folder / files.LEASE, self._said(lease))
        self.heartbeat.keep(lease.tag, lease.folder)
        if lease.row["stop_asked"] is not None and report.revoke():
            self._seal(lease, report)
            return False
        resume = lease.row["resume_dir"]
        if resume is not None and not files.is_complete(Path(resume)) and report.revoke():
            self.heartbeat.drop(lease.tag)
            failure = f"its checkpoint {resume} is damaged or gone; once it is back, hetopt retry {lease.job['name']}"
            seal(self.database, lease, LeaseResult("refused", failure=failure, fatal=True))
            return False
        try:
            self.engine.start(lease.grant)
        except Refused as problem:
            if report.revoke():
                self.heartbeat.drop(lease.tag)
                seal(self.database, lease, LeaseResult("refused", failure=str(problem)))
                return False
        return True  # also of a start that was refused, but had come through before

    def _said(self, lease: LeaseRecord) -> dict[str, Any]:
        """The content of ``lease.json``."""
        spec, row, profile = spec_of(lease.job), lease.row, lease.row["kind"] == PROFILE
        return written(
            lease.grant,
            self.addresses,
            command=spec.command,
            cwd=spec.cwd or str(lease.folder),
            bound_by_engine=not self.engine.exact_slots,
            job=spec.name,
            copy=row["copy"],
            kind=row["kind"],
            environment=spec.environment,
            launch=spec.launch,
            port=20000 + row["id"] % 20000,
            resume_step=row["from_step"],
            resume_dir=row["resume_dir"],
            until_step=row["until_step"],
            total_steps=spec.steps,
            checkpoint_seconds=spec.checkpoint,
            ttl_seconds=self.timeouts.ttl_seconds,
            grace_seconds=spec.grace,
            most_seconds=self.timeouts.profile_seconds if profile else None,
            most_seconds_to_first_tick=self.timeouts.first_tick_seconds,
        )

    def stop(self, asked: Sequence[tuple[LeaseRecord, StopReason]]) -> None:
        """Ask leases to stop: in the books, then by the file, which a runner reads; the engine is asked later."""
        if asked:
            ask_stop(self.database, asked)
        for lease, reason in asked:
            with suppress(OSError):  # it is written again when the engine is asked
                if lease.folder.is_dir():
                    (lease.folder / files.STOP).write_text(reason, encoding="utf-8")

    def _advance(self, report: LeaseReport, phases: Mapping[str, Phase] | None) -> bool:
        """Whether it is sealed now."""
        lease, row = report.lease, report.lease.row
        seen = self._seen[lease.tag]
        late = self._answered - seen.since > self.timeouts.start_seconds
        if report.over:
            self._seal(lease, report)
            return True
        if row["state"] == INTENT:
            if late and row["stop_asked"] is None:
                ask_stop(self.database, [(lease, StopReason.NOT_STARTED)])
            if lease.job["cancelled"] or row["stop_asked"] is not None or late:
                return self._take_back(lease, report)
            return False
        if not lease.folder.is_dir():
            if row["lost_since"] is None:
                self._lose(lease, "its directory is gone")
                return False
            return phases is not None and self._fence(lease, report)
        if lease.job["cancelled"] and row["stop_asked"] is None:
            self.stop([(lease, StopReason.CANCELLED)])
        if report.exits and row["stop_asked"] is None:
            self.stop([(lease, StopReason.PART_ENDED)])
        if row["stop_asked"] is not None and self._ask(lease, report):
            return True
        if phases is None:
            return False
        if row["lost_since"] is not None:
            return self._fence(lease, report)
        if phases.get(lease.tag, Phase.ENDED) is Phase.ENDED:
            seen.ended = files.now() if seen.ended is None else seen.ended
            if files.now() - seen.ended >= self._patience():
                return self._give_up(lease, report, "the engine has no such process any more")
        elif late and not report.claims and row["stop_asked"] is None:
            self.stop([(lease, StopReason.NOT_STARTED)])
        return False

    def _take_back(self, lease: LeaseRecord, report: LeaseReport) -> bool:
        """What the engine has not taken yet shall not begin any more; where it has begun all the same, it is known."""
        if report.revoke():
            self.engine.kill([lease.tag])
            self._seal(lease, report)
            return True
        mark_started(self.database, [lease])
        return False

    def _patience(self) -> float:
        """Where the engine is this machine, what was written is seen at once."""
        return 0.0 if self.engine.exact_slots else self.timeouts.visible_seconds

    def _observe(self, found: Iterable[LeaseReport]) -> None:
        """Write down which leases are seen to run for the first time, and when those that train began to."""
        running, first, now = [], dict[int, float](), self.database.now()
        for report in found:
            row = report.lease.row
            if row["running"] is None and row["state"] != INTENT and report.claims:
                running.append(report.lease)
            if row["first_tick"] is None and report.progress:  # some steps before this look, by the job's own clock
                first[row["id"]] = max(row["granted"], now - report.timed[1])
        if running:
            set_leases(self.database, running, running=now)
        if first:
            mark_trained(self.database, first)

    def _ask(self, lease: LeaseRecord, report: LeaseReport) -> bool:
        """Have it stop: by the file and by the engine, again from time to time; True where it is sealed now."""
        now, seen = files.now(), self._seen[lease.tag]
        if not report.claims and report.revoke():
            self.engine.kill([lease.tag])
            self._seal(lease, report)
            return True
        if now - seen.asked > max(1.0, self.timeouts.visible_seconds):
            seen.asked = now
            with suppress(OSError):  # the engine's signal says the same
                (lease.folder / files.STOP).write_text(str(lease.row["stop_reason"]), encoding="utf-8")
            self.engine.stop([lease.tag])
        grace = grace_of(lease.job)
        waited = self.database.now() - (lease.row["stop_asked"] or self.database.now())
        if lease.row["lost_since"] is None and waited > grace + self.timeouts.margin_seconds:
            return self._give_up(lease, report, "it does not stop")
        return False

    def _give_up(self, lease: LeaseRecord, report: LeaseReport, why: str) -> bool:
        """Let it go; True where it is sealed already."""
        if report.revoke():  # also of a gang of which some have begun: nobody else shall
            self.engine.kill([lease.tag])
            self._seal(lease, report)
            return True
        self._lose(lease, why)
        return False

    def _lose(self, lease: LeaseRecord, why: str) -> None:
        """Renew it no longer, and have it killed; its GPUs stay taken until it is certainly dead."""
        self.heartbeat.drop(lease.tag)
        set_leases(self.database, [lease], lost_since=self.database.now())
        with self.database.writing() as connection:
            self.database.record_event(connection, "lost", lease.job["name"], tag=lease.tag, why=why)
        self.engine.kill([lease.tag])

    def _fence(self, lease: LeaseRecord, report: LeaseReport) -> bool:
        """Seal it once it is certainly dead: the engine says so, or its time to live has run out. Whether it is."""
        waited = self.database.now() - lease.row["lost_since"]
        expires = self.timeouts.ttl_seconds + grace_of(lease.job) + self.timeouts.margin_seconds
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
        self._seal(lease, LeaseReport(lease), "lost")
        return True

    def _seal(self, lease: LeaseRecord, report: LeaseReport, word: str | None = None) -> None:
        for unfinished in (lease.folder / files.CHECKPOINTS).glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        seal(self.database, lease, report.ending(word), partial(learn, lease=lease, report=report))
        self.heartbeat.drop(lease.tag)

    def _kill_strays(self, tags: Collection[str]) -> None:
        """Processes under a tag of ours whose lease is sealed, or was never written: they must not run."""
        with self.database.writing() as connection:
            for tag in set(tags) - self._strays:
                self.database.record_event(connection, "stray", tag=tag)
        self._strays = set(tags)
        try:
            self.engine.kill(tags)
        except EngineDown as problem:  # which is no trouble of those that have leases
            self.problems.append(f"{', '.join(sorted(tags))}: {problem}")
