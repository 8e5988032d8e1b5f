"""Which of a tenant's jobs run on the tenant's GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import inf
from typing import Any, Protocol

import numpy as np

from hetopt.checks import FrozenDict, boolean
from hetopt.data.entities import Entities, job_type_keys, members
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.results.allocation import Plan


class Selection(Protocol):
    """From a plan over tenants to a plan over their jobs.

    A selection that mixes GPU types in a gang, or leaves idle what a gang could use, declares it in ``traits``.
    """

    def __call__(self, plan: Plan, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The jobs' plan, and the state for the next round."""
        ...


@dataclass(frozen=True)
class LastSeen:
    """State of :class:`LongestStarved`.

    Attributes
    ----------
    ran:
        Job -> second at which it was last seen running.
    borrowed:
        Tenant -> second at which it last borrowed.
    """

    ran: Mapping[str, float] = field(default_factory=dict)
    borrowed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ran", FrozenDict(self.ran))
        object.__setattr__(self, "borrowed", FrozenDict(self.borrowed))


@dataclass(frozen=True)
class LongestStarved:
    """Select the job that has not run for the longest time first, [OEF, section 6.1.3]: round-robin within each tenant.

    In that order each job takes the fastest of its tenant's GPU types that has room for its whole gang (of equally
    fast types the one that it holds, then the first in the cluster), or waits. A job that has never run has starved
    since its arrival; ties go to the earlier arrival, then to the earlier job in the instance.

    Parameters
    ----------
    mix:
        A gang that fits on no single type may take GPUs of several types, fastest first; the slowest sets its rate.
    lend:
        Waiting jobs borrow the GPUs that would otherwise be idle: those of no tenant, and those that their tenant's
        jobs cannot use. Tenants take turns, a gang at a time: next is the one that has borrowed the fewest GPUs per
        weight in this round, then the one that borrowed last the longest ago, then the one of the longest starved job.
        Of its jobs those that run are first, on the types that they hold, so that a loan goes on without restarts.

    Notes
    -----
    In each round jobs are first selected for their own tenant's GPUs, so lent GPUs return to their owner (reclaim).
    Lending changes neither the plan nor this selection, so no rounder charges a tenant for what it borrows. Time on
    borrowed GPUs counts as running: afterwards the job comes behind the tenant's longer starved jobs.

    Raises
    ------
    InvalidOption
        ``mix`` or ``lend`` is neither True nor False.
    """

    mix: bool = False
    lend: bool = False

    def __post_init__(self) -> None:
        for key in ("mix", "lend"):
            boolean(getattr(self, key), f"LongestStarved.{key}")

    @property
    def traits(self) -> Traits:
        """Whether it mixes GPU types; without lending GPUs stay idle that no gang of their tenant fills."""
        return Traits(mixes=self.mix, idles="" if self.lend else "tenants do not lend GPUs that their own gangs leave")

    def __call__(self, plan: Plan, instance: Instance, state: LastSeen | None = None) -> tuple[Plan, LastSeen]:
        """The jobs' plan; its ``given_up`` also counts the GPUs that no job can use (``"idle"``).

        Raises
        ------
        InvalidOption
            The plan is not over tenants.
        InvalidInstance
            A job belongs to no tenant, or names none of the several job types of its tenant.
        """
        if plan.entities.kind != "tenants":
            raise InvalidOption("the plan is over jobs already; selection is for plans over tenants")
        jobs = instance.entities("jobs")
        ran, before = _last_ran(instance, state), {} if state is None else state.borrowed
        borrowed = {tenant.name: before[tenant.name] for tenant in instance.tenants if tenant.name in before}
        order = _starved_first(instance, ran)
        fill = _Filling(jobs, self.mix)
        left = np.rint(plan.x).tolist()
        names, belongs = job_type_keys(instance), members(instance)
        rank = np.argsort(order)  # the inverse permutation
        for row, name in zip(left, plan.entities.names, strict=True):
            fill(row, sorted(belongs[names[name]], key=rank.item))
        idle = plan.given_up.get("idle", 0.0) + float(np.sum(left))
        borrowers = frozenset[str]()
        if self.lend:
            waiting = fill.waiting(instance, order)
            pairs = zip(left, plan.entities.names, strict=True)  # those of a tenant are adjacent
            for tenant, rows in groupby(pairs, lambda pair: names[pair[1]][0]):
                own = np.sum([row for row, _ in rows], axis=0).tolist()  # of all its job types
                fill(own, waiting.get(tenant, ()))
            lent = _lend(fill, fill.waiting(instance, order), instance, borrowed)
            idle = float(sum(fill.idle()))
            borrowers = frozenset(jobs.names[i] for i in lent)
            borrowed |= {str(instance.jobs[i].tenant): instance.time for i in lent}
        x = np.zeros(jobs.shape)
        for i, gang in fill.gangs.items():
            x[i, list(gang)] = list(gang.values())
        given_up = {**plan.given_up, "idle": idle}
        return Plan(jobs, x, None, given_up, plan.certificate, borrowers=borrowers), LastSeen(ran, borrowed)


class _Filling:
    """Gives GPUs to jobs in some order; lists of Python numbers are faster than arrays for one job at a time.

    Attributes
    ----------
    gangs:
        Position of each job that runs -> GPU type, by position -> GPUs.
    """

    def __init__(self, jobs: Entities, mix: bool) -> None:
        self.held = np.zeros(jobs.shape) if jobs.held is None else jobs.held
        self.fastest = np.lexsort((-self.held, -jobs.task_speed)).tolist()  # by speed, GPUs held, the cluster's order
        self.number = (jobs.task_speed > 0).sum(axis=1).tolist()  # of types that can run the job, the first of these
        self.demand, self.mix = jobs.demand.tolist(), mix
        self.capacity: list[float] = jobs.capacity.tolist()
        self.gangs: dict[int, dict[int, float]] = {}

    def __call__(self, left: list[float], order: Iterable[int]) -> None:
        """Give the GPUs ``left`` of each type to the jobs in ``order``, in place."""
        for i in order:
            if not any(left):
                return
            self.runs(i, left)

    def idle(self) -> list[float]:
        """GPUs of each type that no job has."""
        left = [*self.capacity]
        for gang in self.gangs.values():
            for k, n in gang.items():
                left[k] -= n
        return left

    def waiting(self, instance: Instance, order: Iterable[int]) -> dict[str, list[int]]:
        """Tenant -> its jobs without GPUs, both in ``order``."""
        result: dict[str, list[int]] = {}
        for i in order:
            if i not in self.gangs:
                result.setdefault(str(instance.jobs[i].tenant), []).append(i)
        return result

    def runs(self, i: int, left: list[float], keep: bool = False) -> bool:
        """Whether job i takes its gang from ``left``, in place; with ``keep`` first of the types that it holds most."""
        types = self.fastest[i][: self.number[i]]
        if keep:
            types = sorted(types, key=lambda k: -self.held[i, k])
        if gang := self._gang(self.demand[i], types, left):
            self.gangs[i] = gang
            for k, n in gang.items():
                left[k] -= n
        return bool(gang)

    def _gang(self, demand: float, types: Sequence[int], left: Sequence[float]) -> dict[int, float]:
        """The GPUs that a job takes of ``left``: all that it demands, or none; of earlier ``types`` first."""
        for k in types:
            if left[k] >= demand:
                return {k: demand}
        if not self.mix or sum(left[k] for k in types) < demand:
            return {}
        gang: dict[int, float] = {}
        for k in types:
            gang[k] = min(left[k], demand - sum(gang.values()))
        return gang


def _lend(
    fill: _Filling, waiting: Mapping[str, list[int]], instance: Instance, borrowed: Mapping[str, float]
) -> list[int]:
    """Let the ``waiting`` jobs of each tenant, longest starved first, borrow the idle GPUs; return the borrowers.

    Parameters
    ----------
    borrowed:
        Tenant -> second at which it last borrowed.
    """
    weight = {tenant.name: tenant.weight for tenant in instance.tenants}
    running = set(np.flatnonzero(fill.held.any(axis=1)).tolist())
    left, lent = fill.idle(), list[int]()
    turns = [
        (0.0, borrowed.get(t, -inf), n, t, iter(sorted(own, key=lambda i: i not in running)))
        for n, (t, own) in enumerate(waiting.items())
    ]
    heapify(turns)
    while turns and any(left):
        gpus, last, n, tenant, own = heappop(turns)
        job = next((i for i in own if fill.runs(i, left, keep=True)), None)
        if job is not None:
            lent.append(job)
            heappush(turns, (gpus + fill.demand[job] / weight[tenant], last, n, tenant, own))
    return lent


def _last_ran(instance: Instance, state: LastSeen | None) -> dict[str, float]:
    """Job -> second at which it last ran: now, if it holds GPUs."""
    jobs, before = instance.entities("jobs"), {} if state is None else state.ran
    holders = [] if jobs.held is None else np.flatnonzero(jobs.held.any(axis=1)).tolist()
    ran = {name: before[name] for name in jobs.names if name in before}
    return ran | {jobs.names[i]: instance.time for i in holders}


def _starved_first(instance: Instance, ran: Mapping[str, float]) -> list[int]:
    """Positions of the jobs, longest starved first."""
    arrival = instance.job_array("arrival")
    since = np.array([ran.get(job.name, job.arrival) for job in instance.jobs])
    order: list[int] = np.lexsort((arrival, since)).tolist()
    return order
