"""Hadar as its theorem requires it: each job is committed to its best schedule at its arrival, or rejected for good.

:class:`Irrevocable` solves an offline problem in this way, :class:`Committing` is the policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect, one_of, whole
from hetopt.data.array_types import Integers
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.hadar.hadar_policy import placed_plan
from hetopt.models.hadar.job_schedules import JobSchedule, OfflineSolution, best_schedule, solved
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.models.hadar.prices import Prices, largest_fraction, limits, printed_prices, proven_prices
from hetopt.models.hadar.round_market import ServerGPUs
from hetopt.models.hadar.utilities import NegativeJCT, Utility, as_utility
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK


@dataclass(frozen=True, eq=False)
class Committed:
    """Result of committing the jobs one after another.

    Attributes
    ----------
    solved:
        The schedules; their bound is the final dual objective D where that proves it, else infinite.
    prices:
        The price function.
    steps:
        One row per job in the order of arrival: ``payoff`` (of its best schedule at the current prices; NaN without a
        schedule), ``committed``, and the growth of the two objectives, ``primal`` (P_j - P_{j-1}) and ``dual`` (D_j -
        D_{j-1}).
    initial:
        D_0, the value of all GPUs at their lowest price.
    """

    solved: OfflineSolution
    prices: Prices
    steps: pd.DataFrame
    initial: float

    @property
    def utility(self) -> float:
        """Sum of the utilities, ALG."""
        return self.solved.utility

    @property
    def dual(self) -> float:
        """The final dual objective D.

        With proven prices it bounds the utility of all schedules that take at most ``delta`` of a cell, since prices
        never fall. With printed prices a job with a positive payoff may be rejected because too few GPUs are left; then
        D is no bound.
        """
        return self.initial + float(self.steps["dual"].sum())


@dataclass(frozen=True)
class Irrevocable:
    """Commit each job at its arrival to the schedule with the largest payoff > 0, s* of [Hadar, eq. 4], or reject it.

    Parameters
    ----------
    prices:
        ``"proven"``: schedules that take at most ``delta`` of a cell in a slot have at most ``prices.factor`` times the
        utility of the result, and prices alone enforce capacity. ``"printed"``: [Hadar, eq. 5 to 7], whose factor 2
        alpha does not hold; capacity is enforced by the check in [Hadar, eq. 8].
    delta:
        With proven prices: the largest fraction of a server's GPUs of a type that a job may take. By default the
        largest fraction that any gang may take, so that the guarantee covers all schedules; a smaller value excludes
        some schedules.
    eta:
        Scaling factor of printed prices, see :func:`~hetopt.models.hadar.prices.printed_prices`.

    Raises
    ------
    InvalidOption
        ``prices`` is neither ``"proven"`` nor ``"printed"``; ``delta`` or ``eta`` is not positive.
    """

    prices: str = "proven"
    delta: float | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        one_of(self.prices, PRICES, "Irrevocable.prices")
        if self.delta is not None:
            at_least(self.delta, "Irrevocable.delta", 0.0, InvalidOption, strict=True)
        if self.eta is not None:
            at_least(self.eta, "Irrevocable.eta", 0.0, InvalidOption, strict=True)

    @property
    def is_proven(self) -> bool:
        """Whether prices alone enforce capacity."""
        return self.prices == "proven"

    def price_function(self, problem: OfflineProblem) -> Prices:
        """The prices.

        Raises
        ------
        InvalidInstance, InvalidOption
            They are not defined; see :mod:`hetopt.models.hadar.prices`.
        """
        return proven_prices(problem, self.delta) if self.is_proven else printed_prices(problem, self.eta)

    def __call__(self, problem: OfflineProblem) -> Committed:
        """The schedules of the jobs, committed in the order of arrival, then of the instance.

        Raises
        ------
        InvalidInstance, InvalidOption
            The prices are not defined; see :mod:`hetopt.models.hadar.prices`.
        """
        prices = self.price_function(problem)
        order = sorted(range(len(problem.demand)), key=lambda j: problem.instance.jobs[j].arrival)
        used, taken, rows = problem.none_used(), [], []
        initial = float((prices(used) * problem.capacity).sum())
        for job, payoff, schedule in commit(
            problem, prices, order, used, proven=self.is_proven, guarded=not self.is_proven
        ):
            rows.append(
                (problem.name(job), payoff, schedule is not None, *_growth(problem, prices, used, schedule, payoff))
            )
            if schedule is not None:
                taken.append(schedule)
        steps = pd.DataFrame(rows, columns=["job", "payoff", "committed", "primal", "dual"]).set_index("job")
        covered = self.is_proven and prices.delta >= largest_fraction(problem)
        bound = initial + float(steps["dual"].sum()) if covered else np.inf
        return Committed(solved(problem, taken, bound, "gap"), prices, steps, initial)


PRICES = ("proven", "printed")


def commit(
    problem: OfflineProblem, prices: Prices, order: Iterable[int], used: Integers, *, proven: bool, guarded: bool = True
) -> Iterable[tuple[int, float, JobSchedule | None]]:
    """(job, payoff, schedule or None) of the jobs in ``order``; ``used`` (T, C) grows with what is committed.

    Parameters
    ----------
    proven:
        A job takes at most ``delta`` of a cell.
    guarded:
        Check the free GPUs, [Hadar, eq. 8]. Proven prices do not need the check if their bounds hold for all jobs.
    """
    most = np.broadcast_to(limits(problem, prices.delta) if proven else problem.capacity, used.shape)
    for job in order:
        best = best_schedule(problem, job, prices(used), np.minimum(most, problem.capacity - used) if guarded else most)
        payoff = np.nan if best is None else float(best.payoff)
        schedule = best.schedule if best is not None and payoff > 0 else None
        for t, c, n in schedule.gpus if schedule else ():
            used[t, c] += n
        yield job, payoff, schedule


def _growth(
    problem: OfflineProblem, prices: Prices, used: Integers, schedule: JobSchedule | None, payoff: float
) -> tuple[float, float]:
    """P_j - P_{j-1} and D_j - D_{j-1}, where ``used`` already holds the schedule."""
    if schedule is None:
        return 0.0, 0.0
    before = used.copy()
    for t, c, n in schedule.gpus:
        before[t, c] -= n
    with np.errstate(invalid="ignore"):  # prices beyond the largest float
        risen = np.where(used > before, (prices(used) - prices(before)) * problem.capacity, 0.0).sum()
    return float(schedule.value(problem)), payoff + float(risen)


@dataclass(frozen=True, eq=False)
class Commitments:
    """GPUs reserved for committed jobs; the state of :class:`Committing`.

    Attributes
    ----------
    cluster:
        Cluster of the reserved GPUs.
    start:
        Time in seconds at which slot 0 begins.
    prices:
        The price function.
    used:
        (T, C) reserved GPUs.
    schedules:
        Job -> its schedule, or None if it was rejected.
    """

    cluster: Cluster
    start: float
    prices: Prices
    used: Integers
    schedules: Mapping[str, JobSchedule | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", FrozenDict(self.schedules))


@dataclass(frozen=True)
class Committing:
    """Commit each job in its first call to its best schedule over the remaining slots, or reject it for good.

    The bounds of the prices are those of the jobs present at the first call. With ``prices="proven"`` the guarantee of
    :class:`Irrevocable` holds if the utilities of later jobs are within these bounds, no later gang is larger, and
    restarts take no time. It needs servers with more GPUs of each type than any gang has, so printed prices are the
    default. GPUs are never reserved twice. A job that is not done at the end of its schedule, because of restarts, is
    treated as a new job.

    Parameters
    ----------
    slots:
        T, number of rounds from the first call on for which GPUs can be reserved.
    round_seconds:
        Length of a round in seconds.
    utility:
        Utility of jobs that name none: a utility or its name.
    prices, delta, eta:
        See :class:`Irrevocable`.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    slots: int = 100
    round_seconds: float = GAVEL_ROUND_SECONDS
    utility: Utility | str = field(default_factory=NegativeJCT)
    prices: str = "printed"
    delta: float | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        whole(self.slots, "Committing.slots", 1)
        check_round_seconds(self)
        as_utility(self.utility, "Committing.utility")
        self.rule  # noqa: B018 - rejects other prices

    @property
    def rule(self) -> Irrevocable:
        """The commitment rule."""
        return Irrevocable(self.prices, self.delta, self.eta)

    @property
    def traits(self) -> Traits:
        """It decides in rounds, chooses servers, mixes GPU types, and runs no jobs after its last slot."""
        idles = "jobs run in the slots reserved at their arrival, or never"
        return Traits(self.round_seconds, places=True, mixes=True, terminates=True, idles=idles)

    def __call__(self, instance: Instance, state: Commitments | None = None) -> tuple[Plan, Commitments | None]:
        """The plan of the round that begins now, as reserved, and the reservations as the next state.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later, a gang that is too large, other servers than at the first call, or prices
            that are not defined (a gang may fill a server).
        """
        jobs = present_entities(instance, "jobs", type(self).__name__, mixed=True)
        if state is not None and expect(Commitments, state, "state", InvalidOption).cluster != instance.cluster:
            raise InvalidInstance("the servers are not those of the reservations; start without a state")
        start = instance.time if state is None else state.start
        there = tuple(job for job, speeds in zip(instance.jobs, jobs.task_speed_now, strict=True) if speeds.any())
        if not there and state is None:  # prices need a job
            return placed_plan(instance, jobs, {}), None
        slot, placed, refused = math.floor((instance.time - start) / self.round_seconds + WORK), {}, 0
        if there:
            now = instance.replace(jobs=there, time=start, **_tables_of(instance, there))
            problem = OfflineProblem.of(now, int(self.slots), self.round_seconds, self.utility)
            problem = replace(problem, first=np.maximum(problem.first, slot))
            if state is None:
                state = Commitments(instance.cluster, start, self.rule.price_function(problem), problem.none_used())
            state = self._committed(problem, state, slot)
            for job in there:
                schedule = state.schedules[job.name]
                refused += schedule is None
                if schedule is not None and (own := _gpus_in_slot(problem, schedule, slot)):
                    placed[job.name] = own
        plan = placed_plan(instance, jobs, placed)
        return replace(plan, given_up={**plan.given_up, "refused": float(refused)}), state

    def _committed(self, problem: OfflineProblem, state: Commitments, slot: int) -> Commitments:
        """``state`` with reservations for the jobs that have none."""
        schedules, used = dict(state.schedules), state.used.copy()
        names = [job.name for job in problem.instance.jobs]
        over = {name for name, own in schedules.items() if own is not None and own.last < slot}
        order = [j for j, name in enumerate(names) if name not in schedules or name in over]
        order.sort(key=lambda j: problem.instance.jobs[j].arrival)
        for j, _, schedule in commit(problem, state.prices, order, used, proven=self.rule.is_proven):
            schedules[names[j]] = schedule
        gone = schedules.keys() - set(names)
        return replace(state, used=used, schedules={n: s for n, s in schedules.items() if n not in gone})


def _tables_of(instance: Instance, jobs: tuple[Job, ...]) -> dict[str, Any]:
    """``held``, ``done`` and ``placed`` of these jobs only."""
    names = {job.name for job in jobs}
    tables = {key: getattr(instance, key) for key in ("held", "done", "placed")}
    return {key: {name: row for name, row in table.items() if name in names} for key, table in tables.items()}


def _gpus_in_slot(problem: OfflineProblem, schedule: JobSchedule, slot: int) -> ServerGPUs:
    """(server, GPU type, GPUs) as positions."""
    servers = {server.name: h for h, server in enumerate(problem.instance.cluster.servers)}
    own = schedule.by_slot.get(slot, ())
    return tuple((servers[problem.cells[c][0]], int(problem.gpu_type[c]), n) for c, n in own)
