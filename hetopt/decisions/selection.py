"""Which of a tenant's jobs run on the tenant's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hetopt.checks import FrozenDict
from hetopt.data.array_types import Floats
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
        """Whether it mixes GPU types."""
        return Traits(mixes=self.mix)

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
        x = np.zeros(jobs.shape)
        left = np.rint(plan.x)
        names, belongs = job_type_keys(instance), members(instance)
        for row, name in zip(left, plan.entities.names, strict=True):
            own = set(belongs[names[name]])
            self._fill(x, row, jobs, [i for i in order if i in own])
        if self.lend:
            spare = left.sum(axis=0)
            self._fill(x, spare, jobs, [i for i in order if not x[i].any()])
            left = spare[None, :]
        given_up = {**plan.given_up, "idle": plan.given_up.get("idle", 0.0) + float(left.sum())}
        return Plan(jobs, x, None, given_up, plan.certificate), FrozenDict(ran)

    def _fill(self, x: Floats, left: Floats, jobs: Entities, order: list[int]) -> None:
        """Give the GPUs ``left`` (k,) to the jobs in ``order``; changes ``x`` and ``left``."""
        for i in order:
            if not left.any():
                return
            gang = _gang(jobs, i, left, self.mix)
            x[i] += gang
            left -= gang


def _gang(jobs: Entities, i: int, left: Floats, mix: bool) -> Floats:
    """(k,) GPUs that job i takes of the GPUs ``left``: all that it demands, or none."""
    demand, gang = jobs.demand[i], np.zeros(len(left))
    held = np.zeros(len(left)) if jobs.held is None else jobs.held[i]
    fastest = np.lexsort((-held, -jobs.task_speed[i]))  # by speed, then by GPUs held, then in the cluster's order
    fastest = fastest[jobs.task_speed[i][fastest] > 0]
    for k in fastest.tolist():
        if left[k] >= demand:
            gang[k] = demand
            return gang
    if mix and left[fastest].sum() >= demand:
        for k in fastest.tolist():
            gang[k] = min(left[k], demand - gang.sum())
    return gang


def _last_ran(instance: Instance, state: Mapping[str, float]) -> dict[str, float]:
    """Job -> second at which it last ran: now, if it holds GPUs."""
    ran = {job.name: state[job.name] for job in instance.jobs if job.name in state}
    now = {job.name: instance.time for job in instance.jobs if any(instance.held.get(job.name, {}).values())}
    return ran | now


def _starved_first(instance: Instance, ran: Mapping[str, float]) -> list[int]:
    """Positions of the jobs, longest starved first."""
    since = [ran.get(job.name, job.arrival) for job in instance.jobs]
    return sorted(range(len(since)), key=lambda i: (since[i], instance.jobs[i].arrival, i))
