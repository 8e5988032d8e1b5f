"""The controller: observe, bring leases forward, decide where a round begins, stop what moves, start the rest."""

from __future__ import annotations

import gc
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select, update

from hetopt.announced import raised
from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import tables
from hetopt.executor.clock import Wall
from hetopt.executor.complaints import Complaints
from hetopt.executor.deciding import Decider, Scene, Target, fitted
from hetopt.executor.engines.engine import Engine, EngineDown
from hetopt.executor.evidence import Evidence
from hetopt.executor.leases import SEALED
from hetopt.executor.merging import Merges
from hetopt.executor.queue import FAILED, QUEUED
from hetopt.executor.reconciling import Reconciler, read_targets, write_targets
from hetopt.executor.speeds import Estimator
from hetopt.executor.store import StateStore
from hetopt.executor.surveying import Survey
from hetopt.executor.switching import restart_seconds
from hetopt.executor.tending import Tender, Terms, make_leases_folder
from hetopt.simulation.system import System

OF_A_JOB = re.compile(r"jobs\['(.*?)'\]")
"""How messages about a job begin."""

POLL_SECONDS = 1.0
"""How often the controller looks by default."""


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
    terms:
        Times of the leases.
    leases:
        Where lease directories lie; None: with the state.
    """

    policy: str
    round_seconds: float | None = None
    profile: bool = True
    terms: Terms = field(default_factory=Terms)
    leases: Path | None = None


class Controller:
    """Drives a cluster with a policy.

    Parameters
    ----------
    store:
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
        store: StateStore,
        engine: Engine,
        system: System,
        estimator: Estimator,
        settings: Settings,
        say: Callable[[str], None] = print,
    ) -> None:
        store.lock()
        self.store, self.engine, self.settings, self.complaints = store, engine, settings, Complaints(say)
        self.tender = Tender.of(store, engine, settings.terms, settings.leases)
        make_leases_folder(self.tender.folder)
        self.reconciler = Reconciler(store, self.tender)
        self.merges = Merges(store, self.tender.folder, self.tender.kept)
        self.base = system
        self.decider = Decider(system, estimator)
        self.wall = Wall()
        self.survey = Survey(store, engine, self.tender.kept, profile=settings.profile)
        self._asked = -math.inf
        self._down = False
        self._told_short = False
        self._seen: Any = None
        self._refused: set[int] = set()  # jobs that the last decision gave nothing
        with store.writing() as connection:
            self.round = int(store.fact(connection, "round") or 0)
            self.next = float(store.fact(connection, "next_round") or 0.0)
            state = connection.execute(
                select(tables.memories.c.state).where(tables.memories.c.policy == settings.policy)
            ).scalar()
            chosen = {"policy": settings.policy, "round_seconds": json.dumps(settings.round_seconds)}
            before = {key: store.fact(connection, key) for key in chosen}
            for key, value in chosen.items():
                store.say(connection, key, value)
            store.note(connection, "controller", policy=settings.policy, engine=engine.name)
        if before != chosen:
            self.next = 0.0  # another policy, or rounds of another length: it decides at once
        if state is not None and not self.decider.recall(state):
            self.complaints.say(f"what {settings.policy} remembered is of another version of hetopt; it starts anew")

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
            time.sleep(poll)

    def step(self) -> None:
        """Look once. What goes wrong for a while is told once, and tried again at the next look."""
        self._try("look", self._look)
        self._try("log", self.store.write_events)
        if self.tender.problems:
            self.complaints.tell("leases", "; ".join(self.tender.problems[:3]))
        else:
            self.complaints.over("leases")

    def _try(self, what: str, do: Callable[[], object]) -> bool:
        """Whether that went well; what did not is told."""
        try:
            do()
        except EngineDown as problem:
            self._try("down", partial(self._tell_down, problem))
        except UnusableFile as problem:
            self.complaints.tell(what, str(problem))
        except OSError as problem:
            self.complaints.tell(what, f"{problem.filename or self.store.folder}: {problem.strerror or problem}")
        else:
            self.complaints.over(what)
            return True
        return False

    def _look(self) -> None:
        if jump := self.wall.jumped():
            with self.store.writing() as connection:
                self.store.note(connection, "clock", jumped=jump)
            self.complaints.say(f"the clock on the wall was set by {jump:+.0f} s; nothing here goes by it")
        leases, now = self.tender.leases(), files.now()
        ask = now - self._asked >= self.engine.look_seconds
        if ask:
            self.survey.look()
        self.tender.tend(leases, self.survey.nodes, ask=ask)
        self._asked = now if ask else self._asked
        self._merge_and_decide()
        if self._down:
            self._down = False
            self.complaints.say(f"{self.engine.name} answers again")

    def _merge_and_decide(self) -> None:
        self.merges.step()
        leases = self.tender.leases()
        scene, trials = self.survey.scene(leases)
        if self._due(scene, idle=not self._targets() and not leases):
            self._decide(scene)
        targets = self._targets()
        usable = scene.nodes
        self.reconciler.stop(leases, targets, self.round, self.survey.drained)
        blocked = self.reconciler.profile(trials, leases, usable, pause=True)
        self.reconciler.start(targets, self.tender.leases(), usable, blocked=blocked, round_number=self.round)
        fresh = [lease for lease in self.tender.leases() if lease.row["state"] == "intent"]
        self.tender.begin(fresh)
        self._clear_away()

    def _targets(self) -> list[Target]:
        return self.tender.kept.get("targets", lambda: read_targets(self.store))

    # -- deciding

    def _due(self, scene: Scene, *, idle: bool) -> bool:
        """Whether it is time to ask the policy; where nothing runs, whoever comes need not wait for the next round."""
        now = self.store.now()
        if self.settings.round_seconds is not None:
            return now >= self.next or (idle and bool(scene.jobs) and scene.jobs[-1]["id"] not in self._refused)
        return self._now(scene) != self._seen or now >= self.decider.wake

    @staticmethod
    def _now(scene: Scene) -> object:
        """What a decision without rounds goes by."""
        nodes = [(node.name, len(node.seats)) for node in scene.nodes]
        return nodes, [row["id"] for row in scene.jobs]

    def _decide(self, scene: Scene) -> None:
        """Ask the policy, and write down what it wants, with what it remembers, at once."""
        seconds = self.settings.round_seconds
        with self.store.reading() as connection:
            cost = restart_seconds(connection)
        self.decider.system = fitted(self.base, seconds, cost)
        if seconds is not None and cost is not None and cost > seconds / 2 and not self._told_short:
            self._told_short = True
            self.complaints.say(f"a restart takes {cost:.1f} s here, more than half a round; take longer ones")
        evidence = {lease.tag: Evidence(lease) for lease in scene.leases}
        scene = replace(scene, evidence=evidence, speeds=scene.speeds.with_progress(evidence.values()))
        number, took, gpus = self.round + 1, 0.0, 0
        targets: list[Target] = []
        ids = {row["name"]: row["id"] for row in scene.jobs}
        before = self.decider.memory, self.decider.wake
        state, left_out = b"", dict[int, str]()
        while True:
            able = replace(scene, jobs=[row for row in scene.jobs if row["id"] not in left_out])
            try:
                instance, waits = self.decider.instance(able)
                if instance is not None:
                    targets, decision, took = self.decider.decide(instance, ids)
                    gpus = int(decision.gpus.sum())
                    if decision.placement is not None:
                        waits |= {ids[name]: why for name, why in decision.placement.waiting.items()}
                state = self.decider.remembered()
                break
            except Exception as problem:  # a policy may be anybody's
                self.decider.memory, self.decider.wake = before
                why = str(problem) if isinstance(problem, HetoptError) else raised(problem)
                culprit = ids.get(named[1]) if (named := OF_A_JOB.match(why)) else None
                if culprit is not None and culprit not in left_out:
                    left_out[culprit] = why  # what is wrong with one job is not the others' trouble
                    continue
                self.complaints.tell("policy", f"{self.settings.policy} cannot decide, so what runs goes on: {why}")
                self._refused, self._seen = set(ids.values()), self._now(scene)
                self._postpone(seconds, why)
                return
        self.complaints.over("policy")
        waits |= left_out
        try:
            self._keep(scene, number, targets, state, took, gpus, waits)
        except BaseException:  # nothing of it is in the books
            self.decider.memory, self.decider.wake = before
            raise
        self._seen = self._now(scene)

    def _postpone(self, seconds: float | None, why: str) -> None:
        self.next = self._after(seconds)
        with self.store.writing() as connection:
            self.store.say(connection, "next_round", repr(self.next))
            self.store.say(connection, "undecided", why)

    def _after(self, seconds: float | None) -> float:
        """When the next round begins: on a grid, so that a late look does not shift all that follow."""
        if seconds is None:
            return 0.0
        return (math.floor(self.store.now() / seconds) + 1) * seconds

    def _keep(
        self,
        scene: Scene,
        number: int,
        targets: list[Target],
        state: bytes,
        took: float,
        gpus: int,
        waits: Mapping[int, str],
    ) -> None:
        following = self._after(self.settings.round_seconds)
        placed = {target.job for target in targets}
        capacity = sum(len(node.seats) for node in scene.nodes)
        with self.store.writing() as connection:
            write_targets(connection, targets)
            self.store.say(connection, "round", str(number))
            self.store.say(connection, "undecided", "")
            self.store.say(connection, "next_round", repr(following))
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO memories (policy, state) VALUES (?, ?)", (self.settings.policy, state)
            )
            row: dict[str, Any] = {
                "number": number,
                "time": scene.now,
                "policy": self.settings.policy,
                "jobs": len(scene.jobs),
                "placed": len(placed),
                "gpus": gpus,
                "capacity": capacity,
                "seconds": took,
            }
            connection.execute(insert(tables.rounds).values(row))
            self.store.note(connection, "round", **row)
            for job in scene.jobs:
                if job["id"] not in placed and not job["failures"]:
                    why = waits.get(job["id"], "others come first this round")
                    if why != job["reason"]:
                        connection.execute(update(tables.jobs).where(tables.jobs.c.id == job["id"]).values(reason=why))

        self.round, self.next = number, following
        self._refused = {row["id"] for row in scene.jobs} - placed

    # -- the rest

    def idle(self) -> bool:
        """Whether nothing is left to do."""
        with self.store.reading() as connection:
            left = connection.execute(select(tables.jobs.c.id).where(tables.jobs.c.state == QUEUED)).first()
            runs = connection.execute(select(tables.leases.c.id).where(tables.leases.c.state != SEALED)).first()
            merges = connection.execute(select(tables.merges.c.id).where(~tables.merges.c.done)).first()
        return left is None and runs is None and merges is None

    def _is_idle(self) -> bool:
        """Whether certainly nothing is left to do."""
        found: list[bool] = []
        return self._try("books", lambda: found.append(self.idle())) and found[0]

    def _clear_away(self) -> None:
        """Remove checkpoints that nothing will be resumed from any more."""
        self.merges.clear_away()
        for number, tag in self.tender.kept.get("passed", self._passed):
            shutil.rmtree(self.tender.folder / tag / "checkpoints", ignore_errors=True)
            with self.store.writing() as connection:
                connection.execute(update(tables.leases).where(tables.leases.c.id == number).values(checkpoint=None))

    def _passed(self) -> list[tuple[int, str]]:
        with self.store.reading() as connection:
            rows = connection.execute(
                select(tables.leases.c.id, tables.leases.c.tag, tables.leases.c.checkpoint, tables.jobs.c.checkpoint)
                .join(tables.jobs, tables.jobs.c.id == tables.leases.c.job)
                .where(tables.leases.c.state == SEALED, tables.leases.c.checkpoint.is_not(None))
                .where(~tables.leases.c.forked | tables.leases.c.merged, tables.jobs.c.state != FAILED)
                .where(tables.jobs.c.checkpoint != tables.leases.c.checkpoint)
            )
            return [(number, str(tag)) for number, tag, _, _ in rows]

    def _tell_down(self, problem: EngineDown) -> None:
        self._asked = -math.inf  # at the next look, whether it answers again
        if not self._down:
            self._down = True
            what = "does not answer, so nothing is decided and what runs goes on"
            self.complaints.say(f"{self.engine.name} {what}: {problem}")
            with self.store.writing() as connection:
                self.store.note(connection, "engine", down=str(problem))

    def close(self) -> None:
        """Stop looking; leases go on until they run out, and another controller takes them over before."""
        self.tender.renewer.close()
        self.merges.close()
        self.engine.close()
        self.store.close()


def check_same(store: StateStore, engine: str, leases: Path | None) -> None:
    """Raise :class:`InvalidOption` where open leases are another engine's, or have their directories elsewhere.

    An engine knows nothing of the processes of another, and would take them for dead.
    """
    wanted = {"engine": engine, "leases": "" if leases is None else str(leases.absolute())}
    with store.writing() as connection:
        before = {key: store.fact(connection, key) for key in wanted}
        if connection.execute(select(tables.leases.c.id).where(tables.leases.c.state != SEALED)).first() is not None:
            for key, value in wanted.items():
                if before[key] is not None and before[key] != value:
                    raise InvalidOption(
                        f"--{key} is {value or 'the default'}, but leases that run are of --{key} "
                        f"{before[key] or 'by default'}; let them end with that first"
                    )
        for key, value in wanted.items():
            store.say(connection, key, value)
