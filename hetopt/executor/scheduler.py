"""The scheduler: when a round begins, what the policy is asked, and its answer, recorded in one transaction."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hetopt.errors import HetoptError
from hetopt.executor.event_log import Alerts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.reconciler import write_targets
from hetopt.executor.round_decision import ClusterState, RoundDecider, Target, fitted
from hetopt.executor.speeds import restart_seconds
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import raised

RETRY_SECONDS = 60.0
"""Without rounds, a policy that could not decide is asked again after this time."""

UNDECIDED, WAITS = "policy", "waits"
"""Subjects of the scheduler's alerts."""

MAX_NAMED = 3
"""Jobs that cannot run and are named on the terminal."""

MAX_ERRORS = 2
"""Errors of a policy in a row after which it is asked without its memory."""


@dataclass(frozen=True)
class RoundDecision:
    """The result of a round.

    Parameters
    ----------
    targets:
        What is to run where.
    memory:
        State of the policy for the next round.
    waits:
        Number of a job without GPUs -> why.
    unable:
        Those of them that no GPU of the cluster could run now; the policy has not seen them.
    gpus:
        Number of GPUs that are given.
    seconds:
        Duration of the decision.
    """

    targets: list[Target]
    memory: bytes
    waits: Mapping[int, str]
    unable: Mapping[int, str]
    gpus: int = 0
    seconds: float = 0.0


class Scheduler:
    """Asks the policy at the begin of each round.

    Parameters
    ----------
    database:
        State.
    decider:
        Asks the policy.
    policy:
        Name of the policy with its settings; its memory is stored under it.
    seconds:
        Length of a round; None: decisions when jobs or nodes come or go.
    strict:
        New jobs wait for the next round even where nothing runs.
    alerts:
        Messages for the terminal.

    Attributes
    ----------
    number, next:
        Number of the last round, and begin of the next, in seconds of the cluster's clock.
    """

    def __init__(
        self,
        database: StateDatabase,
        decider: RoundDecider,
        policy: str,
        seconds: float | None,
        strict: bool,
        alerts: Alerts,
    ) -> None:
        self.database, self.decider, self.policy, self.alerts = database, decider, policy, alerts
        self.seconds, self.strict = seconds, strict
        self.number, self.next = 0, 0.0
        self._system = decider.system
        self._seen: object = None  # what the last decision was based on
        self._placed: frozenset[int] = frozenset()  # jobs to which it gave something
        self._errors = 0  # of the policy, in a row
        self._reported_cost = False

    def resume(self) -> None:
        """Continue from the state database; another policy or another length decides at once."""
        chosen = {"policy": self.policy, "round_seconds": json.dumps(self.seconds)}
        with self.database.writing() as connection:
            self.number = int(connection.value("SELECT max(number) FROM rounds") or 0)
            self.next = float(self.database.meta(connection, "next_round") or 0.0)
            if {key: self.database.meta(connection, key) for key in chosen} != chosen:
                self.next = 0.0
            mixes = "yes" if self.decider.steps.mixes else "no"  # for `hetopt submit`
            for key, value in {**chosen, "mixes": mixes}.items():
                self.database.set_meta(connection, key, value)
            memory = connection.value("SELECT state FROM memories WHERE policy = :policy", policy=self.policy)
        if memory is not None and not self.decider.restore(memory):
            self.alerts.report(f"the memory of {self.policy} is of another version of hetopt; it starts without")

    def is_due(self, state: ClusterState, targets: Collection[Target], *, idle: bool) -> bool:
        """Whether a decision is due; where nothing runs, new jobs do not wait for the next round."""
        now = self.database.now()
        dropped = self._placed - {target.job for target in targets}  # since the last decision, by failures for instance
        new = any(row["id"] in dropped for row in state.jobs) or _basis(state) != self._seen
        if self.seconds is not None:
            return now >= self.next or (idle and not self.strict and bool(state.jobs) and new)
        return new or now >= self.decider.wake

    def decide(self, state: ClusterState) -> None:
        """Ask the policy, and record targets and memory together."""
        self._fit()
        reports = {lease.tag: LeaseReport(lease) for lease in state.leases}
        state = replace(state, reports=reports, speeds=state.speeds.with_progress(reports.values()))
        before, recorded = (self.decider.memory, self.decider.wake), False
        try:
            answer, why = self._answer(state)
            if answer is not None:
                self._record(state, answer)
                recorded = True
        finally:
            if not recorded:
                self.decider.memory, self.decider.wake = before
        self._seen = _basis(state)
        if answer is None:
            self.alerts.set(UNDECIDED, f"{self.policy} cannot decide, so running jobs continue: {why}")
            self._errors += 1
            self.decider.wake = self.database.now() + RETRY_SECONDS
            self._placed = frozenset()
            self._postpone(why)
        else:
            self._errors = 0
            self.alerts.clear(UNDECIDED)

    def _fit(self) -> None:
        """Give the policy the length of a round, and the measured cost of a restart."""
        with self.database.reading() as connection:
            cost = restart_seconds(connection)
        self.decider.system = fitted(self._system, self.seconds, cost)
        if self.seconds is not None and cost is not None and cost > self.seconds / 2 and not self._reported_cost:
            self._reported_cost = True
            self.alerts.report(f"a restart takes {cost:.1f} s here, more than half a round; use longer rounds")

    def _answer(self, state: ClusterState) -> tuple[RoundDecision | None, str]:
        """The decision of the policy, or why there is none. A job that causes an error is left out."""
        ids = {row["name"]: row["id"] for row in state.jobs}
        before = self.decider.memory, self.decider.wake
        left_out: dict[int, str] = {}
        while True:
            able = replace(state, jobs=[row for row in state.jobs if row["id"] not in left_out])
            try:
                answer = self._ask(able, ids)
            except (Exception, SystemExit) as problem:  # policies may be code of users
                self.decider.memory, self.decider.wake = before
                why = str(problem) if isinstance(problem, HetoptError) else raised(problem)
                culprit = ids.get(_job_of(problem) or "")
                if culprit is not None and culprit not in left_out:
                    left_out[culprit] = why
                elif self._errors >= MAX_ERRORS and self.decider.memory is not None:  # of GPUs that are gone, say
                    self.alerts.report(f"{self.policy} starts without its memory: {why}")
                    self.decider.memory = None
                    before = self.decider.memory, self.decider.wake
                else:
                    return None, why
            else:
                return replace(answer, waits={**answer.waits, **left_out}), ""

    def _ask(self, state: ClusterState, ids: Mapping[str, int]) -> RoundDecision:
        instance, unable = self.decider.instance(state)
        if instance is None:
            self.decider.wake = math.inf
            return RoundDecision([], self.decider.stored(), unable, unable)
        targets, decision, seconds = self.decider.decide(instance, ids)
        waits = dict(unable)
        if decision.placement is not None:
            waits |= {ids[name]: str(why) for name, why in decision.placement.waiting.items()}
        return RoundDecision(targets, self.decider.stored(), waits, unable, int(decision.gpus.sum()), seconds)

    def _record(self, state: ClusterState, answer: RoundDecision) -> None:
        number, following = self.number + 1, self._next_round()
        placed = frozenset(target.job for target in answer.targets)
        row: dict[str, Any] = {
            "number": number,
            "time": state.now,
            "policy": self.policy,
            "jobs": len(state.jobs),
            "placed": len(placed),
            "gpus": answer.gpus,
            "capacity": sum(len(node.seats) for node in state.nodes),
            "seconds": answer.seconds,
        }
        with self.database.writing() as connection:
            write_targets(connection, answer.targets)
            for key, value in {"round": str(number), "undecided": "", "next_round": repr(following)}.items():
                self.database.set_meta(connection, key, value)
            connection.change(
                "INSERT OR REPLACE INTO memories (policy, state) VALUES (:policy, :memory)",
                policy=self.policy,
                memory=answer.memory,
            )
            connection.insert("rounds", **row)
            self.database.record_event(connection, "round", **row)
            for job in state.jobs:
                if job["id"] not in placed and job["failure"] is None:
                    why = answer.waits.get(job["id"], "others come first this round" if placed else "the policy waits")
                    if why != job["reason"]:
                        connection.update("jobs", {"reason": why}, "id = :job", job=job["id"])
        self.number, self.next, self._placed = number, following, placed
        self._report_unable(state, answer.unable)

    def _report_unable(self, state: ClusterState, unable: Mapping[int, str]) -> None:
        """An alert about jobs that no GPU of the cluster can run now."""
        waiting = [f"{row['name']} waits: {unable[row['id']]}" for row in state.jobs if row["id"] in unable]
        more = [f"{len(waiting) - MAX_NAMED} more jobs wait so"] if len(waiting) > MAX_NAMED else []
        if waiting:
            self.alerts.set(WAITS, "; ".join(waiting[:MAX_NAMED] + more))
        else:
            self.alerts.clear(WAITS)

    def _postpone(self, why: str) -> None:
        self.next = self._next_round()
        with self.database.writing() as connection:
            self.database.set_meta(connection, "next_round", repr(self.next))
            self.database.set_meta(connection, "undecided", why)

    def _next_round(self) -> float:
        """Begin of the next round: on a grid, so that a late decision does not shift all that follow."""
        if self.seconds is None:
            return 0.0
        return (math.floor(self.database.now() / self.seconds) + 1) * self.seconds


def _job_of(problem: BaseException) -> str | None:
    """Name of the job that an error is about; None for other errors."""
    path = problem.path if isinstance(problem, HetoptError) else ()
    return str(path[1]) if len(path) > 1 and path[0] == "jobs" else None


def _basis(state: ClusterState) -> object:
    """What a decision without rounds depends on."""
    nodes = [(node.name, Counter(seat.gpu_type for seat in node.seats)) for node in state.nodes]
    return nodes, [(row["id"], state.speeds.impossible(row["id"])) for row in state.jobs]
