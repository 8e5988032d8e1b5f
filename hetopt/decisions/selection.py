"""Which of a tenant's jobs run on the tenant's GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hetopt.checks import FrozenDict
from hetopt.data.entities import Entities, job_type_keys, members
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.results.allocation import Plan


class Selection(Protocol):
    """From a plan over tenants to a plan over their jobs.

    A selection that gives a gang GPUs of several types has an attribute ``traits`` with ``mixes``.
    """

    def __call__(self, plan: Plan, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The jobs' plan, and the state for the next round."""
        ...


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
        GPUs that a tenant's own jobs leave idle go to waiting jobs of any tenant, longest starved first.

    Notes
    -----
    State: job -> second at which it was last seen running.
    """

    mix: bool = False
    lend: bool = False

    @property
    def traits(self) -> Traits:
        """Whether it mixes GPU types; without lending GPUs stay idle that no gang of their tenant fills."""
        idles = "GPUs of no tenant stay idle" if self.lend else "tenants do not lend GPUs that their own gangs leave"
        return Traits(mixes=self.mix, idles=idles)

    def __call__(
        self, plan: Plan, instance: Instance, state: Mapping[str, float] | None = None
    ) -> tuple[Plan, Mapping[str, float]]:
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
        ran = _last_ran(instance, state or {})
        order = _starved_first(instance, ran)
        fill = _Filling(jobs, self.mix)
        left = np.rint(plan.x).tolist()
        names, belongs = job_type_keys(instance), members(instance)
        rank = np.argsort(order)  # the inverse permutation
        for row, name in zip(left, plan.entities.names, strict=True):
            fill(row, sorted(belongs[names[name]], key=rank.item))
        if self.lend:
            spare = np.sum(left, axis=0).tolist()
            fill(spare, [i for i in order if i not in fill.gangs])
            left = [spare]
        x = np.zeros(jobs.shape)
        for i, gang in fill.gangs.items():
            x[i, list(gang)] = list(gang.values())
        given_up = {**plan.given_up, "idle": plan.given_up.get("idle", 0.0) + float(np.sum(left))}
        return Plan(jobs, x, None, given_up, plan.certificate), FrozenDict(ran)


class _Filling:
    """Gives GPUs to jobs in some order; lists of Python numbers are faster than arrays for one job at a time.

    Attributes
    ----------
    gangs:
        Position of each job that runs -> GPU type, by position -> GPUs.
    """

    def __init__(self, jobs: Entities, mix: bool) -> None:
        held = np.zeros(jobs.shape) if jobs.held is None else jobs.held
        self.fastest = np.lexsort((-held, -jobs.task_speed)).tolist()  # by speed, GPUs held, the cluster's order
        self.number = (jobs.task_speed > 0).sum(axis=1).tolist()  # of types that can run the job, the first of these
        self.demand, self.mix = jobs.demand.tolist(), mix
        self.gangs: dict[int, dict[int, float]] = {}

    def __call__(self, left: list[float], order: Iterable[int]) -> None:
        """Give the GPUs ``left`` of each type to the jobs in ``order``, in place."""
        for i in order:
            if not any(left):
                return
            if gang := self._gang(i, left):
                self.gangs[i] = gang
                for k, n in gang.items():
                    left[k] -= n

    def _gang(self, i: int, left: list[float]) -> dict[int, float]:
        """The GPUs that job i takes of ``left``: all that it demands, or none."""
        types, demand = self.fastest[i][: self.number[i]], self.demand[i]
        for k in types:
            if left[k] >= demand:
                return {k: demand}
        if not self.mix or sum(left[k] for k in types) < demand:
            return {}
        gang: dict[int, float] = {}
        for k in types:
            gang[k] = min(left[k], demand - sum(gang.values()))
        return gang


def _last_ran(instance: Instance, state: Mapping[str, float]) -> dict[str, float]:
    """Job -> second at which it last ran: now, if it holds GPUs."""
    jobs = instance.entities("jobs")
    holders = [] if jobs.held is None else np.flatnonzero(jobs.held.any(axis=1)).tolist()
    ran = {name: state[name] for name in jobs.names if name in state}
    return ran | {jobs.names[i]: instance.time for i in holders}


def _starved_first(instance: Instance, ran: Mapping[str, float]) -> list[int]:
    """Positions of the jobs, longest starved first."""
    arrival = instance.job_array("arrival")
    since = np.array([ran.get(job.name, job.arrival) for job in instance.jobs])
    order: list[int] = np.lexsort((arrival, since)).tolist()
    return order
