"""The scheduler: when a round begins, what the policy is asked, and its answer, recorded in one transaction."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetopt.checks import counted
from hetopt.errors import HetoptError
from hetopt.executor.cluster_state import ClusterState
from hetopt.executor.connection import Row
from hetopt.executor.event_log import Alerts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.reconciler import write_targets
from hetopt.executor.round_decision import RoundDecider, RoundDecision, Target, fitted
from hetopt.executor.speeds import restart_seconds
from hetopt.executor.state_database import StateDatabase
from hetopt.plugins import raised

RETRY_SECONDS = 60.0
"""Without rounds, a policy that could not decide is asked again after this time."""

UNDECIDED, WAITS = "policy", "waits"
"""Subjects of the scheduler's alerts."""

OTHERS_FIRST, NONE_STARTED = "other jobs have priority in this round", "the policy starts no job in this round"
"""Why a job waits where the policy gives no reason."""

RECLAIMED = "the GPUs that it borrowed are no longer idle, or another job's turn to borrow them has come"
"""Why a job waits that ran on borrowed GPUs in the last round, where the policy gives no reason."""

MAX_NAMED = 3
"""Jobs that cannot run and are named on the terminal."""

MAX_ERRORS = 2
"""Errors of a policy in a row after which it is asked without its memory."""


class Scheduler:
    """Asks the policy at the beginning of each round.

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
        Number of the last round, and beginning of the next, in seconds of the cluster's clock.
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
        self.memory: Any = None
        self._seen: object = None  # what the last decision was based on
        self._placed: frozenset[int] = frozenset()  # jobs to which it gave something
        self._unable: Mapping[int, str] | None = None  # jobs that cannot run now, as recorded
        self._explained: tuple[object, list[Any]] | None = None  # what that was based on: nodes, jobs
        self._basis_of: tuple[object, ...] = (None,) * 3  # what the basis was read from
        self._basis_found = list[Any](), list[Any]()  # nodes, jobs
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
        if memory is not None:
            try:
                self.memory = pickle.loads(memory)
            except Exception:  # of classes of another version
                self.alerts.report(f"the memory of {self.policy} is of another version of hetopt; it starts without")

    def step(self, state: ClusterState, targets: Collection[Target]) -> None:
        """Decide if a decision is due, and record which jobs cannot run now.

        Parameters
        ----------
        targets:
            Those of the last decision.
        """
        due = self._is_due(state, targets)
        if due:
            self._decide(state)
        (nodes, jobs), before = self._basis(state), self._explained
        basis = (nodes, state.all_gpus), jobs
        if due or basis != before:
            explained = set(before[1]) if before is not None and before[0] == basis[0] and not due else set()
            self._record_unable(state, [row for row, job in zip(state.jobs, jobs, strict=True) if job not in explained])
            self._explained = basis

    def _is_due(self, state: ClusterState, targets: Collection[Target]) -> bool:
        """Whether a decision is due; where nothing runs, new jobs do not wait for the next round."""
        if self.database.now() >= self.next:
            return True
        usable = {node.name for node in state.usable}
        waiting = [target for target in targets if usable.issuperset(target.seats)]  # others have lost their nodes
        idle = not (waiting or state.leases or self.strict) and bool(state.jobs)
        if self.seconds is not None and not idle:
            return False
        dropped = self._placed - {target.job for target in targets}  # since the last decision, by failures for instance
        return any(row["id"] in dropped for row in state.jobs) or self._basis(state) != self._seen

    def _decide(self, state: ClusterState) -> None:
        """Ask the policy, and record targets and memory together."""
        decider = self._fitted()
        reports = [LeaseReport(lease) for lease in state.training]
        state = replace(state, reports=reports, speeds=state.speeds.with_progress(reports))
        decision, why = self._answer(decider, state)
        if decision is not None:
            self._record(state, decision)
        else:
            self._postpone(why)
        undecided = f"{self.policy} cannot decide, so running jobs continue: {why}"
        self._errors = 0 if decision is not None else self._errors + 1
        self.alerts.set(UNDECIDED, undecided if self._errors else "")
        self._seen = self._basis(state)

    def _fitted(self) -> RoundDecider:
        """The decider with the length of a round, and the measured cost of a restart."""
        with self.database.reading() as connection:
            cost = restart_seconds(connection)
        if self.seconds is not None and cost is not None and cost > self.seconds / 2 and not self._reported_cost:
            self._reported_cost = True
            self.alerts.report(f"a restart takes {cost:.1f} s here, more than half a round; use longer rounds")
        return replace(self.decider, system=fitted(self.decider.system, self.seconds, cost))

    def _answer(self, decider: RoundDecider, state: ClusterState) -> tuple[RoundDecision | None, str]:
        """The decision of the policy, or why there is none. A job that causes an error is left out."""
        ids, memory = {row["name"]: row["id"] for row in state.jobs}, self.memory
        left_out, without = dict[int, str](), ""
        while True:
            able = replace(state, jobs=[row for row in state.jobs if row["id"] not in left_out])
            try:
                decision = decider.decide(able, memory)
            except (Exception, SystemExit) as problem:  # policies may be code of users
                why = str(problem) if isinstance(problem, HetoptError) else raised(problem)
                culprit = ids.get(_job_of(problem) or "")
                if culprit is not None and culprit not in left_out:
                    left_out[culprit] = why
                elif self._errors >= MAX_ERRORS and memory is not None:  # of GPUs that are gone, say
                    without, memory = f"{self.policy} starts without its memory: {why}", None
                else:
                    return None, why
            else:
                if without:
                    self.alerts.report(without)
                return replace(decision, waits={**decision.waits, **left_out}), ""

    def _record(self, state: ClusterState, decision: RoundDecision) -> None:
        number, following = self.number + 1, self._next_round(decision.wake)
        placed = frozenset(target.job for target in decision.targets)
        row: dict[str, Any] = {
            "number": number,
            "time": state.now,
            "policy": self.policy,
            "jobs": len(state.jobs),
            "placed": len(placed),
            "gpus": decision.gpus,
            "capacity": sum(len(node.seats) for node in state.nodes),
            "seconds": decision.seconds,
        }
        facts = {"round": str(number), "undecided": "", "next_round": repr(following)}
        facts["borrowers"] = json.dumps(list(decision.borrowers))
        with self.database.writing() as connection:
            write_targets(connection, decision.targets)
            borrowed = set(json.loads(self.database.meta(connection, "borrowers") or "[]"))  # until this decision
            for key, value in facts.items():
                self.database.set_meta(connection, key, value)
            connection.change(
                "INSERT OR REPLACE INTO memories (policy, state) VALUES (:policy, :memory)",
                policy=self.policy,
                memory=decision.stored,
            )
            connection.insert("rounds", **row)
            self.database.record_event(connection, "round", **row)
            for job in state.jobs:
                if job["id"] not in placed and job["failure"] is None:
                    usual = RECLAIMED if job["id"] in borrowed else OTHERS_FIRST if placed else NONE_STARTED
                    why = decision.waits.get(job["id"], usual)
                    if why != job["reason"]:
                        connection.update("jobs", {"reason": why}, "id = :job", job=job["id"])
        self.number, self.next, self._placed, self.memory = number, following, placed, decision.memory

    def _basis(self, state: ClusterState) -> tuple[list[Any], list[Any]]:
        """Nodes and jobs on which a decision without rounds depends; made again where what is read has changed."""
        basis_of = state.nodes, state.jobs, state.speeds
        if any(a is not b for a, b in zip(basis_of, self._basis_of, strict=True)):
            nodes = [(node.name, node.gpus) for node in state.nodes]
            jobs = [(row["id"], state.speeds.out_of_memory_on(row["id"])) for row in state.jobs]
            self._basis_of, self._basis_found = basis_of, (nodes, jobs)
        return self._basis_found

    def _record_unable(self, state: ClusterState, changed: Sequence[Row]) -> None:
        """Record why jobs cannot run now, of which these have changed; views show it in place of the last reasons."""
        others = {row["id"] for row in state.jobs}.difference(row["id"] for row in changed)
        unable = {job: why for job, why in (self._unable or {}).items() if job in others}
        unable |= self.decider.unable(replace(state, jobs=changed))
        if unable != self._unable:
            with self.database.writing() as connection:
                self.database.set_meta(connection, "unable", json.dumps(unable))
            self._unable = unable
        waiting = [f"{row['name']} waits: {unable[row['id']]}" for row in state.jobs if row["id"] in unable]
        more = [f"and {counted(len(waiting) - MAX_NAMED, 'more job')}"] if len(waiting) > MAX_NAMED else []
        self.alerts.set(WAITS, "; ".join(waiting[:MAX_NAMED] + more))

    def _postpone(self, why: str) -> None:
        self.next, self._placed = self._next_round(self.database.now() + RETRY_SECONDS), frozenset()
        with self.database.writing() as connection:
            self.database.set_meta(connection, "next_round", repr(self.next))
            self.database.set_meta(connection, "undecided", why)

    def _next_round(self, wake: float) -> float:
        """Beginning of the next round: on a grid, so that a late decision does not shift all that follow.

        Without rounds it is ``wake``.
        """
        if self.seconds is None:
            return wake
        return (math.floor(self.database.now() / self.seconds) + 1) * self.seconds


def _job_of(problem: BaseException) -> str | None:
    """Name of the job that an error is about; None for other errors."""
    path = problem.path if isinstance(problem, HetoptError) else ()
    return str(path[1]) if len(path) > 1 and path[0] == "jobs" else None
