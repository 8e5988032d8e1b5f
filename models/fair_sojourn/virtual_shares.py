"""When each job would finish if the cluster were divided: the reference of fair sojourn.

Of jobs with weights w, job j has the part p[j] = w[j] / sum(w) of every GPU type. There its gang works at the rate r[j]
of :func:`~hetopt.data.rates.rate_with`, on the fastest types first, with at most its demand of GPUs at once: the ideal
of Themis [Themis]. Its virtual work falls at that rate from its arrival on; where it would reach 0, if the jobs stayed
as they are, is its fair finish.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.rates import rate_with, weight_part
from hetopt.models.policy_checks import elapsed_since

Among: TypeAlias = Literal["jobs", "tenants"]
Divided: TypeAlias = Literal["present", "unfinished"]
"""The jobs among which the cluster is divided: those that are present, or those that would be if it were divided."""


@dataclass(frozen=True, eq=False)
class VirtualShares:
    """The virtual work of jobs at some second.

    Attributes
    ----------
    time:
        The second.
    types:
        k GPU types.
    names:
        n jobs: those present, and with :data:`Divided` ``"unfinished"`` those that have left with virtual work.
    owners:
        Each job, or its tenant, among which the cluster is divided; the part of an owner is divided among its jobs.
    left:
        (n,) virtual work left (unit of ``Job.work``).
    finish:
        (n,) fair finish in seconds: expected, or past where no virtual work is left.
    per_gpu, demand, weight:
        (n, k) work per second and GPU, (n,) GPUs, (n,) weights of the owners.
    """

    time: float
    types: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    left: Floats = field(default_factory=lambda: np.zeros(0))
    finish: Floats = field(default_factory=lambda: np.zeros(0))
    per_gpu: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    demand: Floats = field(default_factory=lambda: np.zeros(0))
    weight: Floats = field(default_factory=lambda: np.zeros(0))

    def advanced(self, instance: Instance, jobs: Entities, among: Among, divided: Divided) -> VirtualShares:
        """The virtual work at the instance's time, of its jobs first; jobs that are new have their work left.

        Parameters
        ----------
        jobs:
            The jobs of ``instance``.
        among, divided:
            As of :class:`~hetopt.models.fair_sojourn.fair_sojourn_policy.FairSojourn`.

        Raises
        ------
        InvalidInstance
            The time is before that of these shares.
        """
        elapsed_since(instance, self.time)
        there = dict(zip(jobs.types, jobs.capacity.tolist(), strict=True))
        before = self._at(instance.time, np.array([there.get(t, 0.0) for t in self.types]), divided)
        position, names, owners = {name: i for i, name in enumerate(self.names)}, jobs.names, list[str]()
        weight = np.zeros(len(names))
        tenants = {tenant.name: tenant.weight for tenant in instance.tenants}
        for e, job in enumerate(instance.jobs):
            owners.append(job.name if among == "jobs" else job.tenant or "")
            weight[e] = job.weight if among == "jobs" else tenants.get(owners[-1], 1.0)
        rows = np.array([position.get(name, -1) for name in names], dtype=np.intp)
        left = np.where(rows >= 0, np.append(before.left, 0.0)[rows], instance.job_array("work_left"))
        finish, per_gpu, demand = np.append(before.finish, np.nan)[rows], jobs.per_gpu, jobs.demand
        if divided == "unfinished":
            gone = np.setdiff1d(np.flatnonzero(before.left > 0), rows)
            names += tuple(self.names[i] for i in gone.tolist())
            owners += [self.owners[i] for i in gone.tolist()]
            speeds = np.zeros((len(gone), len(jobs.types)))
            for k, t in enumerate(self.types):
                if t in there:
                    speeds[:, jobs.types.index(t)] = self.per_gpu[gone, k]
            left, finish, weight, per_gpu, demand = (
                np.concatenate(pair)
                for pair in (
                    (left, before.left[gone]),
                    (finish, before.finish[gone]),
                    (weight, self.weight[gone]),
                    (per_gpu, speeds),
                    (demand, self.demand[gone]),
                )
            )
        now = VirtualShares(instance.time, jobs.types, names, tuple(owners), left, finish, per_gpu, demand, weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = instance.time + left / now._rates(jobs.capacity, divided)
        return replace(now, finish=np.where(left > 0, expected, finish))

    def _rates(self, capacity: Floats, divided: Divided) -> Floats:
        """(n,) work per second of each job in its part of the cluster."""
        counted = self.left > 0 if divided == "unfinished" else np.ones(len(self.left), dtype=bool)
        number = Counter(owner for owner, one in zip(self.owners, counted.tolist(), strict=True) if one)
        share = self.weight / np.array([max(1, number[owner]) for owner in self.owners])
        part = weight_part(np.where(counted, share, 0.0))
        return np.asarray(rate_with(self.per_gpu, part[:, None] * capacity, self.demand))

    def _at(self, time: float, capacity: Floats, divided: Divided) -> VirtualShares:
        """The virtual work, and past finishes, at a later second, if no job comes until then."""
        now = self
        while now.names and now.time < time:
            rate = now._rates(capacity, divided)
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(now.left > 0, now.time + now.left / rate, now.finish)
            coming = ends[(now.left > 0) & (ends < time)]
            step = float(coming.min()) if divided == "unfinished" and len(coming) else time
            left = np.where(ends <= step, 0.0, now.left - rate * (step - now.time))
            now = replace(now, time=step, left=left, finish=ends)
        return now
