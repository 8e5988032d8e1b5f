"""What policies are told about jobs where that is not the truth: noisy profiles, wrong lengths, tenants that lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import FrozenDict, at_least, choices, is_text, shown, whole
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.data.workload import Tenant
from hetopt.errors import InvalidOption

OVERRUN = 0.05
"""A job that has done all the work that it was said to have is estimated to have this part of it left."""


@dataclass(frozen=True)
class EstimateErrors:
    """Relative errors, each drawn evenly from ``-error`` to ``error`` and then kept.

    The jobs run as the instance says; policies see the instance with errors. The work that a job has done is known.
    Once that is all that it was said to have, policies are told that a 20th of that is left.

    Parameters
    ----------
    throughput:
        Error of the work per second of each job (speedup of each tenant's job type) on each GPU type, below 1
        [OEF, section 6.4.2].
    work:
        Error of the work of each job, below 1 [FFT, section 6.4.2].
    seed:
        The same seed gives the same errors. Those of the work do not depend on whether throughputs have some.
    lies:
        Tenant -> by which part it overstates the speedups of all its job types, and the throughputs of its jobs, on
        each GPU type but the slowest that runs them [OEF, section 2.3.1 (1)]; 0.2 for 20 % more.

    Raises
    ------
    InvalidOption
        An error below 0, or of 1 and more; a lie below 0. When used: somebody lies who is no tenant.
    """

    throughput: float = 0.0
    work: float = 0.0
    seed: int = 0
    lies: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("throughput", "work"):
            value = at_least(getattr(self, key), f"EstimateErrors.{key}", 0.0, InvalidOption)
            if value >= 1:
                raise InvalidOption(
                    f"EstimateErrors.{key} is {value!r}; it must be below 1: 0.2 stands for 20 % more or less"
                )
        whole(self.seed, "EstimateErrors.seed", 0)
        if not isinstance(self.lies, Mapping) or not all(map(is_text, self.lies)):
            raise InvalidOption(
                f"EstimateErrors.lies is {shown(self.lies)}; it must be a mapping from tenants to numbers"
            )
        lies = {
            name: at_least(v, f"EstimateErrors.lies[{name!r}]", 0.0, InvalidOption) for name, v in self.lies.items()
        }
        object.__setattr__(self, "lies", FrozenDict(lies))

    def of(self, instance: Instance) -> Instance:
        """The instance as policies believe it to be at its beginning."""
        names = [tenant.name for tenant in instance.tenants]
        for name in self.lies:
            if name not in names:
                raise InvalidOption(f"EstimateErrors.lies names {name!r}, which is no tenant; {choices(name, names)}")
        k = len(instance.cluster.type_names)
        speed, work, tenant = (np.random.default_rng([self.seed, part]) for part in range(3))
        factor = _factors(speed, self.throughput, (len(instance.jobs), k))
        longer = _factors(work, self.work, (len(instance.jobs), 1))[:, 0]
        jobs = tuple(
            replace(
                job,
                throughput=self._told(job.tenant, _times(dict(job.throughput), own, instance.cluster.type_names)),
                work=job.work * float(more),
            )
            for job, own, more in zip(instance.jobs, factor, longer, strict=True)
        )
        tenants = tuple(self._tenant(t, tenant, instance.cluster.type_names) for t in instance.tenants)
        return replace(instance, jobs=jobs, tenants=tenants)

    def _tenant(self, tenant: Tenant, random: np.random.Generator, types: tuple[str, ...]) -> Tenant:
        errors = _factors(random, self.throughput, (len(tenant.job_types), len(types)))
        kinds = tuple(
            replace(kind, speedup=self._told(tenant.name, _times(dict(kind.speedup), own, types)), any_scale=True)
            for kind, own in zip(tenant.job_types, errors, strict=True)
        )
        return replace(tenant, job_types=kinds)

    def _told(self, tenant: str | None, speeds: dict[str, float]) -> dict[str, float]:
        """The speeds as a tenant tells them that overstates them, or as they are."""
        more = 1.0 + self.lies.get(tenant or "", 0.0)
        slowest = min(speed for speed in speeds.values() if speed > 0)
        return {t: speed * more if speed > slowest else speed for t, speed in speeds.items()}


def _factors(random: np.random.Generator, error: float, shape: tuple[int, int]) -> Floats:
    return 1.0 + error * random.uniform(-1.0, 1.0, shape)


def _times(speeds: dict[str, float], factors: Floats, types: tuple[str, ...]) -> dict[str, float]:
    return {t: speeds[t] * float(f) for t, f in zip(types, factors, strict=True)}


def estimated_left(said: Floats, done: Floats) -> Floats:
    """(n,) work that jobs are estimated to have left, of ``said`` in all, when they have ``done`` so much."""
    return np.asarray(np.where(done < said, said - done, OVERRUN * said))
