"""The capacity scheduler of Apache YARN: queues with guaranteed fractions of the cluster, FIFO within each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from hetopt.checks import MOST, FrozenDict, at_least, boolean, check_round_seconds, choices, mapping, one_of
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.formulations.traits import Traits
from hetopt.models.queues.gpu_pool import (
    IN_ORDER,
    TYPES,
    GPUPool,
    TypeRule,
    gang_sizes,
    running_gangs_checked,
    sorted_jobs,
    type_capacities,
    type_plan,
)
from hetopt.results.allocation import Plan
from hetopt.tolerances import FEASIBILITY

DEFAULT = "default"
"""The queue of jobs without a tenant."""


@dataclass(frozen=True)
class YARN:
    """One queue per tenant, the most under-served queue first, without preemption and without regard to GPU types.

    The most under-served queue is the one that uses the smallest fraction of its guaranteed GPUs (in a tie the one
    whose first job is earlier in the instance). Its first job starts if the whole gang fits; otherwise the queue waits
    while other queues continue. Beyond its guarantee a queue may use idle GPUs of other queues, up to ``maximum``.

    Parameters
    ----------
    capacities:
        Tenant -> its guaranteed fraction of the cluster's GPUs, in any unit: only ratios matter. None: the weights of
        the tenants, 1 if the instance does not specify them. Jobs without a tenant are in the queue ``"default"`` of
        weight 1.
    maximum:
        The largest fraction of the cluster's GPUs that a queue may use, in (0, 1]: one number for all queues, or tenant
        -> fraction (1 for absent tenants). A larger gang waits and does not block other jobs.
    types:
        ``"fastest"`` or ``"roomiest"``: :data:`~hetopt.models.queues.gpu_pool.TypeRule`.
    backfill:
        Within a queue, jobs may start before jobs ahead of them that do not fit.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    capacities: Mapping[str, float] | None = None
    maximum: float | Mapping[str, float] = 1.0
    types: TypeRule = "roomiest"
    backfill: bool = False
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.capacities is not None:
            object.__setattr__(self, "capacities", _parts(self.capacities, "YARN.capacities"))
        if isinstance(self.maximum, Mapping):
            object.__setattr__(self, "maximum", _parts(self.maximum, "YARN.maximum", most=1.0))
        else:
            at_least(self.maximum, "YARN.maximum", 0.0, InvalidOption, strict=True, most=1.0)
        one_of(self.types, TYPES, "YARN.types")
        boolean(self.backfill, "YARN.backfill")
        check_round_seconds(self, or_none=True)

    @property
    def traits(self) -> Traits:
        """It decides in rounds, if it has any; without ``backfill``, and at their maximum, queues wait."""
        reasons = [] if self.backfill else [f"in each queue {IN_ORDER}"]
        if isinstance(self.maximum, Mapping) or self.maximum < 1:
            reasons.append("queues have at most their maximum")
        return Traits(self.round_seconds, idles="; ".join(reasons))

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, None]:
        """The plan from now on, and no state.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; a job holds anything but its gang on one type, or
            belongs to a tenant that ``capacities`` does not name.
        """
        jobs = present_entities(instance, "jobs", "YARN")
        running, need = running_gangs_checked(jobs, "YARN"), gang_sizes(jobs)
        pool, choose = GPUPool(type_capacities(jobs), running), TYPES[self.types](jobs)
        pool.keep_all()
        queues: defaultdict[str, list[int]] = defaultdict(list)  # waiting jobs, the last one first
        used: defaultdict[str, int] = defaultdict(int)
        for job in running:
            used[_queue(instance, job)] += need[job]
        for job in reversed(sorted_jobs(jobs)):
            if job not in running:
                queues[_queue(instance, job)].append(job)
        guaranteed, total = self._guaranteed(instance, queues), float(jobs.capacity.sum()) * (1 + FEASIBILITY)
        part = self.maximum if isinstance(self.maximum, Mapping) else dict.fromkeys(queues, self.maximum)
        most = {name: part.get(name, 1.0) * total for name in queues}
        for name, own in queues.items():  # no job waits behind a gang that is larger than the maximum of its queue
            queues[name] = [job for job in own if need[job] <= most[name]]
        turns = [(used[name] / guaranteed[name], min(own), name) for name, own in queues.items() if own]
        heapify(turns)
        while turns and pool.left:
            _, first, name = heappop(turns)
            while queues[name]:
                job = queues[name].pop()
                if used[name] + need[job] <= most[name] and pool.start(job, choose):
                    used[name] += need[job]
                    heappush(turns, (used[name] / guaranteed[name], first, name))
                    break
                if not self.backfill:
                    break
        return type_plan(jobs, pool.given), None

    def _guaranteed(self, instance: Instance, queues: Mapping[str, list[int]]) -> dict[str, float]:
        """Queue -> its guaranteed fraction, in any unit."""
        if self.capacities is None:
            weight = {tenant.name: tenant.weight for tenant in instance.tenants}
            return {name: weight.get(name, 1.0) for name in queues}
        for name, own in queues.items():
            if name not in self.capacities:
                raise InvalidInstance(
                    f"belongs to queue {name!r}, which is not in YARN.capacities; {choices(name, self.capacities)}",
                    ("jobs", Item(instance.jobs[own[-1]].name)),
                )
        return dict(self.capacities)


def _queue(instance: Instance, job: int) -> str:
    return instance.jobs[job].tenant or DEFAULT


def _parts(value: Any, key: str, most: float = MOST) -> FrozenDict[str, float]:
    given = mapping(value, key, InvalidOption).items()
    return FrozenDict({n: at_least(v, f"{key}[{n!r}]", 0.0, InvalidOption, strict=True, most=most) for n, v in given})
