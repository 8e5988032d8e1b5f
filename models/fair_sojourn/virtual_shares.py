"""When each job would finish if the cluster were divided: the reference of fair sojourn.

Of jobs with weights w, job j has the part p[j] = w[j] / sum(w) of every GPU type. There its gang works at the rate r[j]
of :func:`~hetopt.data.rates.rate_with`, on the fastest types first, with at most its demand of GPUs at once: the ideal
of Themis [Themis]. Its virtual work falls at that rate from its arrival on; where it would reach 0, if the jobs stayed
as they are, is its fair finish.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
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
    names:
        n jobs: those present, and with :data:`Divided` ``"unfinished"`` those that have left with virtual work.
    left:
        (n,) virtual work left (unit of ``Job.work``).
    finish:
        (n,) fair finish in seconds: expected, or past where no virtual work is left.
    per_gpu, demand, weight:
        (n, k) work per second and GPU, (n,) GPUs, (n,) weights.
    """

    time: float
    names: tuple[str, ...] = ()
    left: Floats = field(default_factory=lambda: np.zeros(0))
    finish: Floats = field(default_factory=lambda: np.zeros(0))
    per_gpu: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    demand: Floats = field(default_factory=lambda: np.zeros(0))
    weight: Floats = field(default_factory=lambda: np.zeros(0))

    def advanced(self, instance: Instance, jobs: Entities, among: Among, divided: Divided) -> VirtualShares:
        """The virtual work at the instance's time, of its jobs first; jobs that are new have their work left.

        Raises
        ------
        InvalidInstance
            The time is before that of these shares.
        """
        elapsed_since(instance, self.time)
        left, finish = self._at(instance.time, jobs.capacity, divided)
        position, names = {name: i for i, name in enumerate(self.names)}, jobs.names
        rows = np.array([position.get(name, -1) for name in names], dtype=np.intp)
        known = rows >= 0
        own = np.where(known, np.append(left, 0.0)[rows], instance.job_array("work_left"))
        ends, weight = np.append(finish, np.nan)[rows], _weights(instance, jobs, among)
        per_gpu, demand = jobs.per_gpu, jobs.demand
        if divided == "unfinished" and self.per_gpu.shape[1] == per_gpu.shape[1]:
            gone = np.setdiff1d(np.flatnonzero(left > 0), rows[known])
            names += tuple(self.names[i] for i in gone.tolist())
            own, ends, weight, per_gpu, demand = (
                np.concatenate([now, before[gone]])
                for now, before in (
                    (own, left),
                    (ends, finish),
                    (weight, self.weight),
                    (per_gpu, self.per_gpu),
                    (demand, self.demand),
                )
            )
        now = VirtualShares(instance.time, names, own, ends, per_gpu, demand, weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = instance.time + own / now._rates(jobs.capacity, divided)
        object.__setattr__(now, "finish", np.where(own > 0, expected, ends))
        return now

    def _rates(self, capacity: Floats, divided: Divided) -> Floats:
        """(n,) work per second of each job in its part of the cluster."""
        counted = np.where(self.left > 0, self.weight, 0.0) if divided == "unfinished" else self.weight
        part = weight_part(counted)
        return np.asarray(rate_with(self.per_gpu, part[:, None] * capacity, self.demand))

    def _at(self, time: float, capacity: Floats, divided: Divided) -> tuple[Floats, Floats]:
        """(n,) virtual work left, and fair finish, at a later second, if no job comes until then."""
        if not self.names or self.per_gpu.shape[1] != len(capacity):
            return self.left, self.finish
        now = self
        while True:
            rate = now._rates(capacity, divided)
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(now.left > 0, now.time + now.left / rate, now.finish)
            coming = ends[(now.left > 0) & (ends < time)]
            step = float(coming.min()) if divided == "unfinished" and len(coming) else time
            left = np.where(ends <= step, 0.0, now.left - rate * (step - now.time))
            now = VirtualShares(step, self.names, left, ends, self.per_gpu, self.demand, self.weight)
            if step >= time:
                return left, ends


def _weights(instance: Instance, jobs: Entities, among: Among) -> Floats:
    """(n,) weights: of the jobs, or of their tenants, divided equally among a tenant's jobs."""
    if among == "jobs":
        return jobs.weight
    owners = [job.tenant for job in instance.jobs]
    number, weight = Counter(owners), {tenant.name: tenant.weight for tenant in instance.tenants}
    return np.array([weight.get(owner or "", 1.0) / number[owner] for owner in owners])
