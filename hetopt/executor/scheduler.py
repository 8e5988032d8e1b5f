"""When a round begins, and what comes of it: the policy's answer, written into the books in one transaction."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetopt.errors import HetoptError
from hetopt.executor.alerts import Alerts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.reconciler import write_targets
from hetopt.executor.round_decision import ClusterState, RoundDecider, Target, fitted
from hetopt.executor.speeds import restart_seconds
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import raised

AGAIN_SECONDS = 60.0
"""After so long a policy that could not decide is asked again where there are no rounds."""

UNDECIDED, WAITS = "policy", "waits"
"""What alerts of rounds are about."""

MOST_NAMED = 3
"""So many jobs that cannot run are named on the terminal."""

TRIES = 2
"""After so many decisions in a row that failed a policy is asked without what it remembers."""


@dataclass(frozen=True)
class RoundDecision:
    """What a round brings.

    Parameters
    ----------
    targets:
        Who shall have what.
    state:
        What the policy remembers from now on.
    waits:
        Number of a job that gets nothing -> why.
    unable:
        Those of them that the policy was not shown: there is nothing that they could have.
    gpus:
        How many are given.
    seconds:
        That the decision took.
    """

    targets: list[Target]
    state: bytes
    waits: Mapping[int, str]
    unable: Mapping[int, str]
    gpus: int = 0
    seconds: float = 0.0


@dataclass
class Scheduler:
    """The rounds of a controller.

    Parameters
    ----------
    database:
        The books.
    decider:
        Request the policy.
    policy:
        Its name with its settings, under which its memory is kept.
    seconds:
        Length of a round; None: decisions when jobs or nodes come or go.
    strict:
        Whoever comes waits for the next round, also where nothing runs.
    alerts:
        Told where the policy cannot decide.

    Attributes
    ----------
    number:
        The last round's.
    next:
        The cluster's second at which the next begins.
    """

    database: StateDatabase
    decider: RoundDecider
    policy: str
    seconds: float | None
    strict: bool
    alerts: Alerts
    number: int = 0
    next: float = 0.0
    _told_short: bool = False
    _seen: object = None
    _placed: frozenset[int] = frozenset()  # jobs to which the last decision gave something
    _failures: int = 0  # of the policy, in a row

    def __post_init__(self) -> None:
        self._base = self.decider.system

    def resume(self) -> None:
        """Go on where the books say, with what the policy remembered; another policy or length decides at once."""
        chosen = {"policy": self.policy, "round_seconds": json.dumps(self.seconds)}
        with self.database.writing() as connection:
            self.number = int(self.database.meta(connection, "round") or 0)
            self.next = float(self.database.meta(connection, "next_round") or 0.0)
            if {key: self.database.meta(connection, key) for key in chosen} != chosen:
                self.next = 0.0
            mixes = "yes" if self.decider.steps.mixes else "no"  # for who hands in jobs
            for key, value in {**chosen, "mixes": mixes}.items():
                self.database.set_meta(connection, key, value)
            state = connection.value("SELECT state FROM memories WHERE policy = :policy", policy=self.policy)
        if state is not None and not self.decider.recall(state):
            self.alerts.report(f"what {self.policy} remembered is of another version of hetopt; it starts anew")

    def due(self, cluster_state: ClusterState, targets: Collection[Target], *, idle: bool) -> bool:
        """Whether it is time to ask the policy; where nothing runs, whoever comes need not wait for the next round."""
        now = self.database.now()
        dropped = self._placed - {target.job for target in targets}  # since then, such as those that have failed
        new = any(row["id"] in dropped for row in cluster_state.jobs) or _shown(cluster_state) != self._seen
        if self.seconds is not None:
            return now >= self.next or (idle and not self.strict and bool(cluster_state.jobs) and new)
        return new or now >= self.decider.wake

    def decide(self, cluster_state: ClusterState) -> None:
        """Ask the policy, and write down what it wants, with what it remembers, at once."""
        self._fit()
        report = {lease.tag: LeaseReport(lease) for lease in cluster_state.leases}
        cluster_state = replace(
            cluster_state, report=report, speeds=cluster_state.speeds.with_progress(report.values())
        )
        before, kept = (self.decider.memory, self.decider.wake), False
        try:
            answer, why = self._answer(cluster_state)
            if answer is not None:
                self._keep(cluster_state, answer)
                kept = True
        finally:
            if not kept:  # nothing of it is in the books
                self.decider.memory, self.decider.wake = before
        self._seen = _shown(cluster_state)
        if answer is None:
            self.alerts.set(UNDECIDED, f"{self.policy} cannot decide, so what runs goes on: {why}")
            self._failures += 1
            self.decider.wake = self.database.now() + AGAIN_SECONDS
            self._placed = frozenset()
            self._postpone(why)
        else:
            self._failures = 0
            self.alerts.clear(UNDECIDED)

    def _fit(self) -> None:
        """Tell the policy how long a round is, and what a restart was measured to cost."""
        with self.database.reading() as connection:
            cost = restart_seconds(connection)
        self.decider.system = fitted(self._base, self.seconds, cost)
        if self.seconds is not None and cost is not None and cost > self.seconds / 2 and not self._told_short:
            self._told_short = True
            self.alerts.report(f"a restart takes {cost:.1f} s here, more than half a round; take longer ones")

    def _answer(self, cluster_state: ClusterState) -> tuple[RoundDecision | None, str]:
        """The policy's, or why there is none. A job that it cannot take is left out: it is not the others' trouble."""
        ids = {row["name"]: row["id"] for row in cluster_state.jobs}
        before = self.decider.memory, self.decider.wake
        left_out: dict[int, str] = {}
        while True:
            able = replace(cluster_state, jobs=[row for row in cluster_state.jobs if row["id"] not in left_out])
            try:
                answer = self._ask(able, ids)
            except (Exception, SystemExit) as problem:  # a policy may be anybody's
                self.decider.memory, self.decider.wake = before
                why = str(problem) if isinstance(problem, HetoptError) else raised(problem)
                culprit = ids.get(_job_of(problem) or "")
                if culprit is not None and culprit not in left_out:
                    left_out[culprit] = why
                elif self._failures >= TRIES and self.decider.memory is not None:  # say, of GPUs that are gone
                    self.alerts.report(f"{self.policy} begins without what it remembered: {why}")
                    self.decider.memory = None
                    before = self.decider.memory, self.decider.wake
                else:
                    return None, why
            else:
                return replace(answer, waits={**answer.waits, **left_out}), ""

    def _ask(self, cluster_state: ClusterState, ids: Mapping[str, int]) -> RoundDecision:
        instance, waits = self.decider.instance(cluster_state)
        if instance is None:
            self.decider.wake = math.inf
            return RoundDecision([], self.decider.remembered(), waits, waits)
        targets, decision, took = self.decider.decide(instance, ids)
        unable = waits
        if decision.placement is not None:
            waits = {**waits, **{ids[name]: str(why) for name, why in decision.placement.waiting.items()}}
        return RoundDecision(targets, self.decider.remembered(), waits, unable, int(decision.gpus.sum()), took)

    def _keep(self, cluster_state: ClusterState, answer: RoundDecision) -> None:
        number, following = self.number + 1, self._after()
        placed = {target.job for target in answer.targets}
        row: dict[str, Any] = {
            "number": number,
            "time": cluster_state.now,
            "policy": self.policy,
            "jobs": len(cluster_state.jobs),
            "placed": len(placed),
            "gpus": answer.gpus,
            "capacity": sum(len(node.seats) for node in cluster_state.nodes),
            "seconds": answer.seconds,
        }
        with self.database.writing() as connection:
            write_targets(connection, answer.targets)
            self.database.set_meta(connection, "round", str(number))
            self.database.set_meta(connection, "undecided", "")
            self.database.set_meta(connection, "next_round", repr(following))
            connection.change(
                "INSERT OR REPLACE INTO memories (policy, state) VALUES (:policy, :state)",
                policy=self.policy,
                state=answer.state,
            )
            connection.insert("rounds", **row)
            self.database.record_event(connection, "round", **row)
            for job in cluster_state.jobs:
                if job["id"] not in placed and job["failure"] is None:
                    why = answer.waits.get(job["id"], "others come first this round" if placed else "the policy waits")
                    if why != job["reason"]:
                        connection.update("jobs", {"reason": why}, "id = :job", job=job["id"])
        self.number, self.next = number, following
        self._placed = frozenset(placed)
        self._tell_unable(cluster_state, answer.unable)

    def _tell_unable(self, cluster_state: ClusterState, unable: Mapping[int, str]) -> None:
        """Jobs that nothing there is can run are said to whoever waits for them at the terminal."""
        told = [f"{row['name']} waits: {unable[row['id']]}" for row in cluster_state.jobs if row["id"] in unable]
        more = [f"{len(told) - MOST_NAMED} more jobs wait so"] if len(told) > MOST_NAMED else []
        if told:
            self.alerts.set(WAITS, "; ".join(told[:MOST_NAMED] + more))
        else:
            self.alerts.clear(WAITS)

    def _postpone(self, why: str) -> None:
        self.next = self._after()
        with self.database.writing() as connection:
            self.database.set_meta(connection, "next_round", repr(self.next))
            self.database.set_meta(connection, "undecided", why)

    def _after(self) -> float:
        """When the next round begins: on a grid, so that a late look does not shift all that follow."""
        if self.seconds is None:
            return 0.0
        return (math.floor(self.database.now() / self.seconds) + 1) * self.seconds


def _job_of(problem: BaseException) -> str | None:
    """Name of the job that an error is about; None for other errors."""
    path = problem.path if isinstance(problem, HetoptError) else ()
    return str(path[1]) if len(path) > 1 and path[0] == "jobs" else None


def _shown(cluster_state: ClusterState) -> object:
    """What a decision without rounds goes by."""
    nodes = [(node.name, Counter(seat.gpu_type for seat in node.seats)) for node in cluster_state.nodes]
    return nodes, [(row["id"], cluster_state.speeds.impossible(row["id"])) for row in cluster_state.jobs]
