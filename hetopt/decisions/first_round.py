"""From any policy's result to jobs on servers in one round, and why the other jobs wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict
from hetopt.data.array_types import Floats
from hetopt.data.entities import job_type_key, job_type_keys
from hetopt.data.gpu_locations import Placed
from hetopt.data.instance import Instance
from hetopt.decisions.placers import HierarchicalPlacer, Placer
from hetopt.decisions.rounders import ByKind
from hetopt.decisions.system import Decision, DecisionSteps
from hetopt.errors import InvalidInstance
from hetopt.results.allocation import Allocation, Plan, WaitReason
from hetopt.tolerances import SUPPORT


@dataclass(frozen=True)
class NoUsableGPUs:
    """The cluster has no GPUs now of the types that the job can run on."""

    def __str__(self) -> str:
        return "the GPU types that it can run on have no GPU now"


@dataclass(frozen=True)
class HeldBack:
    """The policy decides on whole jobs, and gives this one no GPUs.

    Attributes
    ----------
    wake:
        Second at which the policy decides again if nothing happens before; None: not specified.
    """

    wake: float | None = None

    def __str__(self) -> str:
        again = "" if self.wake is None else f", and decides again at {self.wake:.6g} s"
        return f"the policy keeps it waiting in this round{again}"


@dataclass(frozen=True)
class NoShare:
    """The policy's allocation gives the job no time."""

    def __str__(self) -> str:
        return "its share of the time is 0"


@dataclass(frozen=True)
class LaterRound:
    """The job has a share of time, but other jobs have a higher deficit in this round.

    Attributes
    ----------
    share:
        Part of the time that the policy gives the job.
    """

    share: float

    def __str__(self) -> str:
        return f"its share is {self.share:.0%} of the time; in this round the GPUs go to jobs with a higher deficit"


@dataclass(frozen=True)
class TenantsGPUsInUse:
    """The whole GPUs of the job's tenant are too few for it, or other jobs of the tenant use them.

    Attributes
    ----------
    tenant:
        The tenant, or the tenant's job type.
    share:
        GPUs that the allocation gives it.
    gpus:
        GPU type -> whole GPUs in this round.
    used:
        GPUs of these that its other jobs use.
    demand, types:
        GPUs that the job needs, and the GPU types that can run it; empty: all types.
    """

    tenant: str
    share: float
    gpus: Mapping[str, float]
    used: int
    demand: int
    types: tuple[str, ...] = ()

    def __str__(self) -> str:
        gpus = " + ".join(_listed(self.gpus)) or "no GPU"
        used = f", its other jobs use {self.used}" if self.used else ""
        need = f"it needs {self.demand} of {' or '.join(self.types) or 'one type'}"
        return f"{self.tenant} has a share of {self.share:.4g} GPUs and gets {gpus} in this round{used}; {need}"


def _listed(gpus: Mapping[str, float]) -> list[str]:
    """GPUs by type, such as ``4 T4``."""
    return [f"{n:g} {t}" for t, n in gpus.items()]


@dataclass(frozen=True, eq=False)
class FirstRound:
    """A result, rounded and placed for the first of many rounds.

    Attributes
    ----------
    instance, result:
        The instance, and the policy's result for it.
    plan:
        The result in whole GPUs, over tenants or jobs.
    decision:
        The jobs that run, their servers, and the losses of each step.
    """

    instance: Instance
    result: Allocation | Plan
    plan: Plan
    decision: Decision

    @property
    def hosts(self) -> Placed:
        """Job that runs -> server -> GPU type -> GPUs."""
        return {} if self.decision.placement is None else self.decision.placement.hosts

    @property
    def copies(self) -> Mapping[str, Mapping[str, float]]:
        """Forked job -> server -> work of the copy there until the next decision."""
        return {} if self.decision.placement is None else self.decision.placement.dispatch

    @property
    def rows(self) -> list[tuple[str, list[str], list[str]]]:
        """(job that runs, GPUs such as ``4 T4``, servers such as ``t4-0: 3``), in the order of the instance.

        For a forked job, servers with the work of their copies until the next decision. Jobs that share their GPUs name
        each other.
        """
        rows = []
        for name, gpus in zip(self.decision.entities.names, self.decision.gpus, strict=True):
            if hosts := self.hosts.get(name):
                servers = list(hosts) if len(hosts) == 1 else [f"{s}: {sum(n.values())}" for s, n in hosts.items()]
                if name in self.copies:
                    servers = [f"{s}: work {self.copies[name][s]:.4g}" for s in hosts]
                if name in self.decision.packed:
                    servers = [f"{server}, with {self.decision.packed[name]}" for server in servers]
                rows.append((name, _listed(self._gpus(gpus)), servers))
        return rows

    @property
    def waiting(self) -> dict[str, WaitReason]:
        """Job without GPUs in this round -> why, in the order of the instance."""
        refused = {} if self.decision.placement is None else self.decision.placement.waiting
        idle = np.flatnonzero(~self.decision.gpus.any(axis=1)).tolist()
        names = [self.decision.entities.names[i] for i in idle]
        return {name: refused.get(name) or self._reason(name) for name in names}

    def _gpus(self, row: Floats) -> dict[str, float]:
        """GPU type -> GPUs, types without GPUs left out; whole, or halves of those that two jobs share."""
        pairs = zip(self.decision.entities.types, row.tolist(), strict=True)
        return {t: int(n) if n.is_integer() else n for t, n in pairs if n}

    def _reason(self, name: str) -> WaitReason:
        if self.plan.entities.kind == "tenants":
            return self._tenants_reason(name)
        jobs = self.instance.entities("jobs")
        if not jobs.task_speed_now[jobs.position[name]].any():
            return NoUsableGPUs()
        if isinstance(self.result, Plan):
            return HeldBack(self.result.wake)
        share = float(self.result.x[self.result.entities.position[name]].sum())
        return NoShare() if share <= SUPPORT else LaterRound(share)

    def _tenants_reason(self, name: str) -> TenantsGPUsInUse:
        tenants = {t.name: t for t in self.instance.tenants}
        key = job_type_key(self.instance.job[name], tenants)
        row = next(row for row, own in job_type_keys(self.instance).items() if own == key)
        position = self.plan.entities.position[row]
        share = self.result.gpu_array[position].sum()
        others = [i for i, job in enumerate(self.instance.jobs) if job_type_key(job, tenants) == key]
        jobs = self.instance.entities("jobs")
        able = tuple(t for t, ok in zip(jobs.types, jobs.allowed[jobs.position[name]], strict=True) if ok)
        return TenantsGPUsInUse(
            tenant=row,
            share=float(share),
            gpus=FrozenDict(self._gpus(self.plan.x[position])),
            used=int(self.decision.gpus[others].sum()),
            demand=self.instance.job[name].demand,
            types=able if len(able) < len(jobs.types) else (),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data: job -> GPUs, servers and work per second; jobs that wait, with reasons; losses of each step.

        For a forked job also ``copies``: server -> work of the copy there until the next decision; for jobs that share
        their GPUs ``with``: the other.
        """
        entities = self.decision.entities
        jobs = {
            name: {
                "gpus": self._gpus(row),
                "servers": {server: dict(gpus) for server, gpus in self.hosts[name].items()},
                "rate": float(rate),
                **({"copies": dict(self.copies[name])} if name in self.copies else {}),
                **({"with": self.decision.packed[name]} if name in self.decision.packed else {}),
            }
            for name, row, rate in zip(entities.names, self.decision.gpus, self.decision.rate, strict=True)
            if row.any()
        }
        waiting = {name: str(reason) for name, reason in self.waiting.items()}
        given_up = {key: float(value) for key, value in self.decision.given_up.items()}
        return {"jobs": jobs, "waiting": waiting, "given_up": given_up}


def place(instance: Instance, result: Allocation | Plan, placer: Placer | None = None) -> FirstRound:
    """Round a result to whole GPUs, select tenants' jobs, and put them on servers.

    Parameters
    ----------
    instance:
        The instance of the result; jobs run now where its ``held`` and ``placed`` state.
    result:
        Over tenants or jobs, of any policy.
    placer:
        Default: :class:`~hetopt.HierarchicalPlacer` for all policies.

    Raises
    ------
    InvalidInstance
        There are no jobs, or jobs of no tenant where the result is over tenants.
    InvalidPlan
        The result cannot be carried out.
    """
    if not instance.jobs:
        raise InvalidInstance("the instance has no jobs, and only jobs are placed on servers; add at least one")
    plan = result if isinstance(result, Plan) else ByKind()(result, instance)[0]
    steps = DecisionSteps(lambda *_: (plan, None), placer=placer or HierarchicalPlacer())
    return FirstRound(instance, result, plan, steps(instance)[0])
