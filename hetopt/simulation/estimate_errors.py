"""Errors of the estimates that policies get of jobs: noisy profiles, wrong lengths, overstated speedups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import FrozenDict, at_least, known, mapping, whole
from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Tenant
from hetopt.errors import InvalidOption

OVERRUN = 0.05
"""Part of its estimated work that a job is estimated to have left once it has done that work."""


@dataclass(frozen=True)
class EstimateErrors:
    """Relative errors, each drawn once, uniformly from ``-error`` to ``error``.

    Jobs run with the true values; policies see the instance with errors. The work done is known. Once it reaches the
    estimated work of a job, policies see a 20th of the estimate as left.

    Parameters
    ----------
    throughput:
        Error of the work per second of each job (speedup of each tenant's job type) on each GPU type, below 1
        [OEF, section 6.4.2].
    work:
        Error of the work of each job, below 1 [FFT, section 6.4.2].
    seed:
        The same seed gives the same errors. Errors of the work do not depend on those of throughputs.
    overstated:
        Tenant -> part by which it overstates the speedups of its job types, and the throughputs of its jobs, on each
        GPU type except the slowest that runs them [OEF, section 2.3.1 (1)]; 0.2 for 20 % more.

    Raises
    ------
    InvalidOption
        An error outside [0, 1); an overstatement below 0. When used: a name in ``overstated`` is no tenant.
    """

    throughput: float = 0.0
    work: float = 0.0
    seed: int = 0
    overstated: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("throughput", "work"):
            at_least(getattr(self, key), f"EstimateErrors.{key}", 0.0, InvalidOption, below=1.0)
        whole(self.seed, "EstimateErrors.seed", 0)
        given = mapping(self.overstated, "EstimateErrors.overstated", InvalidOption).items()
        overstated = {n: at_least(v, f"EstimateErrors.overstated[{n!r}]", 0.0, InvalidOption) for n, v in given}
        object.__setattr__(self, "overstated", FrozenDict(overstated))

    def of(self, instance: Instance) -> Instance:
        """The instance with errors, as policies see it at the beginning."""
        names = [tenant.name for tenant in instance.tenants]
        for name in self.overstated:
            known(name, names, "EstimateErrors.overstated", "tenant", InvalidOption)
        k = len(instance.cluster.type_names)
        speed, work, tenant = (np.random.default_rng([self.seed, part]) for part in range(3))
        factor = _factors(speed, self.throughput, (len(instance.jobs), k))
        longer = _factors(work, self.work, (len(instance.jobs), 1))[:, 0]
        jobs = list[Job]()
        for job, own, more in zip(instance.jobs, factor, longer.tolist(), strict=True):
            seen = self._reported(job.tenant, _times(dict(job.throughput), own, instance.cluster.type_names))
            phases = tuple(replace(phase, epoch_work=phase.epoch_work * more) for phase in job.phases)
            jobs.append(replace(job.with_throughput(seen), work=job.work * more, phases=phases))
        tenants = tuple(self._tenant(t, tenant, instance.cluster.type_names) for t in instance.tenants)
        return replace(instance, jobs=tuple(jobs), tenants=tenants)

    def _tenant(self, tenant: Tenant, random: np.random.Generator, types: tuple[str, ...]) -> Tenant:
        errors = _factors(random, self.throughput, (len(tenant.job_types), len(types)))
        kinds = tuple(
            replace(kind, speedup=self._reported(tenant.name, _times(dict(kind.speedup), own, types)), any_scale=True)
            for kind, own in zip(tenant.job_types, errors, strict=True)
        )
        return replace(tenant, job_types=kinds)

    def _reported(self, tenant: str | None, speeds: dict[str, float]) -> dict[str, float]:
        """The speeds as the tenant reports them."""
        more = 1.0 + self.overstated.get(tenant or "", 0.0)
        slowest = min(speed for speed in speeds.values() if speed > 0)
        return {t: speed * more if speed > slowest else speed for t, speed in speeds.items()}


def _factors(random: np.random.Generator, error: float, shape: tuple[int, int]) -> Floats:
    return 1.0 + error * random.uniform(-1.0, 1.0, shape)


def _times(speeds: dict[str, float], factors: Floats, types: tuple[str, ...]) -> dict[str, float]:
    return {t: speeds[t] * float(f) for t, f in zip(types, factors, strict=True)}


def estimated_left(work: Floats, done: Floats) -> Floats:
    """(n,) estimated work left of jobs with ``work`` estimated in all and ``done`` done."""
    return np.asarray(np.where(done < work, work - done, OVERRUN * work))
