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
from hetopt.executor.engines.engine import Engine, EngineDown, Node, Phase, Refused
from hetopt.executor.evidence import Evidence
from hetopt.executor.kept import Kept
from hetopt.executor.lease_file import written
from hetopt.executor.lease_timeouts import LeaseTimeouts
from hetopt.executor.leases import (
    INTENT,
    PROFILE,
    Ending,
    Open,
    StopReason,
    ask_stop,
    mark_started,
    mark_trained,
    open_leases,
    seal,
    set_leases,
)
from hetopt.executor.leases_folder import check_there
from hetopt.executor.queue import form_of
from hetopt.executor.renewing import Renewer
from hetopt.executor.speeds import learn
from hetopt.executor.store import LEASES, StateStore

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
class Tender:
    """Keeps the leases.

    Parameters
    ----------
    store, engine, terms:
        The books, who runs the processes, and the times.
    folder:
        Where lease directories lie.

    Attributes
    ----------
    problems:
        What went wrong with single leases at the last look; it is tried again.
    """

    store: StateStore
    engine: Engine
    terms: LeaseTimeouts
    folder: Path
    renewer: Renewer
    kept: Kept
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
    def of(cls, store: StateStore, engine: Engine, terms: LeaseTimeouts, folder: Path | None = None) -> Tender:
        """With lease directories in ``folder``, by default within the state's own."""
        folder = store.folder / LEASES if folder is None else folder
        return cls(store, engine, terms, folder, Renewer(terms.ttl_seconds), Kept(store))

    def leases(self) -> list[Open]:
        """All that are not sealed."""
        return self.kept.get("leases", self._leases)

    def _leases(self) -> list[Open]:
        with self.store.reading() as connection:
            return open_leases(connection, self.folder)

    # -- one look at everything

    def renew(self, leases: Iterable[Open]) -> None:
        """Renew all that may run, whether or not the engine answers."""
        for lease in leases:
            begun = lease.row["state"] != INTENT or lease.folder.is_dir()
            if begun and lease.row["lost_since"] is None:
                self.renewer.keep(lease.tag, lease.folder)

    def tend(self, leases: Collection[Open], nodes: Collection[Node], *, ask: bool = True) -> None:
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
            now = self.store.now()
            self._answered, self._last = self._answered + max(0.0, min(now - self._last, MOST_STEP)), now
        self._seen = {lease.tag: self._seen.get(lease.tag) or _Seen(self._answered) for lease in leases}
        ended = {tag for tag, phase in (phases or {}).items() if phase is Phase.ENDED} | self._troubled
        for tag, phase in (phases or {}).items():
            if phase is not Phase.ENDED and tag in self._seen:
                self._seen[tag].ended = None
        self._looks, self._troubled, turns = self._looks + 1, set(), -(-len(leases) // MOST_QUIET) or 1
        turn = [(one.row["id"] + self._looks) % turns == 0 for one in leases]
        due = [one for one, now in zip(leases, turn, strict=True) if now or not one.trains or one.tag in ended]
        found = [Evidence(lease, self._seen[lease.tag].claims) for lease in due]
        self._observe(found)
        for evidence in found:
            self._apart(evidence.lease, partial(self._tend, evidence, phases))
        known = {lease.tag for lease in leases}
        others = [tag for tag, phase in (phases or {}).items() if tag not in known and phase is not Phase.ENDED]
        if others:
            self._kill_strays(others)

    def begin(self, leases: Collection[Open]) -> None:
        """Write the directories, ask the engine, note that they have begun; in this order, and again after a crash."""
        begun: list[Open] = []
        new = [lease for lease in leases if lease.tag not in self._tried]  # once a look
        self._tried.update(lease.tag for lease in new)
        try:
            begun.extend(lease for lease in new if self._apart(lease, partial(self._begin, lease)))
        finally:
            if begun:
                mark_started(self.store, begun)

    def _apart(self, lease: Open, do: Callable[[], bool]) -> bool:
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
        except OSError as problem:
            self.problems.append(f"{name}: {problem.filename or lease.folder}: {problem.strerror or problem}")
        self._troubled.add(lease.tag)
        return False

    def _begin(self, lease: Open) -> bool:
        """Whether the engine has taken it."""
        evidence = Evidence(lease)
        lease.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if files.read_json(lease.folder / files.LEASE) is None:
            files.write_json(lease.folder / files.LEASE, self._said(lease))
        self.renewer.keep(lease.tag, lease.folder)
        if lease.row["stop_asked"] is not None and evidence.revoke():
            self._seal(lease, evidence)
            return False
        resume = lease.row["resume_dir"]
        if resume is not None and not files.is_complete(Path(resume)) and evidence.revoke():
            self.renewer.drop(lease.tag)
            failure = f"its checkpoint {resume} is damaged or gone; once it is back, hetopt retry {lease.job['name']}"
            seal(self.store, lease, Ending("refused", failure=failure, fatal=True))
            return False
        try:
            self.engine.start(lease.grant)
        except Refused as problem:
            if evidence.revoke():
                self.renewer.drop(lease.tag)
                seal(self.store, lease, Ending("refused", failure=str(problem)))
                return False
        return True  # also of a start that was refused, but had come through before

    def _said(self, lease: Open) -> dict[str, Any]:
        """The content of ``lease.json``."""
        form, row, profile = form_of(lease.job), lease.row, lease.row["kind"] == PROFILE
        return written(
            lease.grant,
            self.addresses,
            command=form.command,
            cwd=form.cwd or str(lease.folder),
            bound_by_engine=not self.engine.exact_slots,
            job=form.name,
            copy=row["copy"],
            kind=row["kind"],
            environment=form.environment,
            launch=form.launch,
            port=20000 + row["id"] % 20000,
            resume_step=row["from_step"],
            resume_dir=row["resume_dir"],
            until_step=row["until_step"],
            total_steps=form.steps,
            checkpoint_seconds=form.checkpoint,
            ttl_seconds=self.terms.ttl_seconds,
            grace_seconds=form.grace,
            most_seconds=self.terms.profile_seconds if profile else None,
            most_seconds_to_first_tick=self.terms.first_tick_seconds,
        )

    def stop(self, asked: Sequence[tuple[Open, StopReason]]) -> None:
        """Ask leases to stop: in the books, then by the file, which a runner reads; the engine is asked later."""
        if asked:
            ask_stop(self.store, asked)
        for lease, reason in asked:
            with suppress(OSError):  # it is written again when the engine is asked
                if lease.folder.is_dir():
                    (lease.folder / files.STOP).write_text(reason, encoding="utf-8")

    def _tend(self, evidence: Evidence, phases: Mapping[str, Phase] | None) -> bool:
        """Whether it is sealed now."""
        lease, row = evidence.lease, evidence.lease.row
        seen = self._seen[lease.tag]
        late = self._answered - seen.since > self.terms.start_seconds
        if evidence.over:
            self._seal(lease, evidence)
            return True
        if row["state"] == INTENT:
            if late and row["stop_asked"] is None:
                ask_stop(self.store, [(lease, StopReason.NOT_STARTED)])
            if lease.job["cancelled"] or row["stop_asked"] is not None or late:
                return self._take_back(lease, evidence)
            return False
        if not lease.folder.is_dir():
            if row["lost_since"] is None:
                self._lose(lease, "its directory is gone")
                return False
            return phases is not None and self._fence(lease, evidence)
        if lease.job["cancelled"] and row["stop_asked"] is None:
            self.stop([(lease, StopReason.CANCELLED)])
        if evidence.exits and row["stop_asked"] is None:
            self.stop([(lease, StopReason.PART_ENDED)])
        if row["stop_asked"] is not None and self._ask(lease, evidence):
            return True
        if phases is None:
            return False
        if row["lost_since"] is not None:
            return self._fence(lease, evidence)
        if phases.get(lease.tag, Phase.ENDED) is Phase.ENDED:
            seen.ended = files.now() if seen.ended is None else seen.ended
            if files.now() - seen.ended >= self._patience():
                return self._give_up(lease, evidence, "the engine has no such process any more")
        elif late and not evidence.claims and row["stop_asked"] is None:
            self.stop([(lease, StopReason.NOT_STARTED)])
        return False

    def _take_back(self, lease: Open, evidence: Evidence) -> bool:
        """What the engine has not taken yet shall not begin any more; where it has begun all the same, it is known."""
        if evidence.revoke():
            self.engine.kill([lease.tag])
            self._seal(lease, evidence)
            return True
        mark_started(self.store, [lease])
        return False

    def _patience(self) -> float:
        """Where the engine is this machine, what was written is seen at once."""
        return 0.0 if self.engine.exact_slots else self.terms.visible_seconds

    def _observe(self, found: Iterable[Evidence]) -> None:
        """Write down which leases are seen to run for the first time, and when those that train began to."""
        running, first, now = [], dict[int, float](), self.store.now()
        for evidence in found:
            row = evidence.lease.row
            if row["running"] is None and row["state"] != INTENT and evidence.claims:
                running.append(evidence.lease)
            if row["first_tick"] is None and evidence.progress:  # some steps before this look, by the job's own clock
                first[row["id"]] = max(row["granted"], now - evidence.timed[1])
        if running:
            set_leases(self.store, running, running=now)
        if first:
            mark_trained(self.store, first)

    def _ask(self, lease: Open, evidence: Evidence) -> bool:
        """Have it stop: by the file and by the engine, again from time to time; True where it is sealed now."""
        now, seen = files.now(), self._seen[lease.tag]
        if not evidence.claims and evidence.revoke():
            self.engine.kill([lease.tag])
            self._seal(lease, evidence)
            return True
        if now - seen.asked > max(1.0, self.terms.visible_seconds):
            seen.asked = now
            with suppress(OSError):  # the engine's signal says the same
                (lease.folder / files.STOP).write_text(str(lease.row["stop_reason"]), encoding="utf-8")
            self.engine.stop([lease.tag])
        grace = form_of(lease.job).grace
        waited = self.store.now() - (lease.row["stop_asked"] or self.store.now())
        if lease.row["lost_since"] is None and waited > grace + self.terms.margin_seconds:
            return self._give_up(lease, evidence, "it does not stop")
        return False

    def _give_up(self, lease: Open, evidence: Evidence, why: str) -> bool:
        """Let it go; True where it is sealed already."""
        if evidence.revoke():  # also of a gang of which some have begun: nobody else shall
            self.engine.kill([lease.tag])
            self._seal(lease, evidence)
            return True
        self._lose(lease, why)
        return False

    def _lose(self, lease: Open, why: str) -> None:
        """Renew it no longer, and have it killed; its GPUs stay taken until it is certainly dead."""
        self.renewer.drop(lease.tag)
        set_leases(self.store, [lease], lost_since=self.store.now())
        with self.store.writing() as connection:
            self.store.note(connection, "lost", lease.job["name"], tag=lease.tag, why=why)
        self.engine.kill([lease.tag])

    def _fence(self, lease: Open, evidence: Evidence) -> bool:
        """Seal it once it is certainly dead: the engine says so, or its time to live has run out. Whether it is."""
        waited = self.store.now() - lease.row["lost_since"]
        expires = self.terms.ttl_seconds + form_of(lease.job).grace + self.terms.margin_seconds
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
        evidence.revoke()
        self._seal(lease, Evidence(lease), "lost")
        return True

    def _seal(self, lease: Open, evidence: Evidence, word: str | None = None) -> None:
        for unfinished in (lease.folder / files.CHECKPOINTS).glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        seal(self.store, lease, evidence.ending(word), partial(learn, lease=lease, evidence=evidence))
        self.renewer.drop(lease.tag)

    def _kill_strays(self, tags: Collection[str]) -> None:
        """Processes under a tag of ours whose lease is sealed, or was never written: they must not run."""
        with self.store.writing() as connection:
            for tag in set(tags) - self._strays:
                self.store.note(connection, "stray", tag=tag)
        self._strays = set(tags)
        try:
            self.engine.kill(tags)
        except EngineDown as problem:  # which is no trouble of those that have leases
            self.problems.append(f"{', '.join(sorted(tags))}: {problem}")
