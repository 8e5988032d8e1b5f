"""The capacity scheduler of Apache YARN: queues with guaranteed parts of the cluster, first in, first out in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from hetopt.checks import FrozenDict, at_least, boolean, choices, mapping
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.models.queues.checking import one_of, seconds_or_events
from hetopt.models.queues.choosing import TYPES, TypeRule, capacities, demands, in_order, plan_of, unstoppable
from hetopt.models.queues.room import Room
from hetopt.results.allocation import Plan
from hetopt.tolerances import FEASIBILITY

DEFAULT = "default"
"""The queue of jobs without a tenant."""


@dataclass(frozen=True)
class YARN:
    """A queue for each tenant, and the most under-served queue first; nobody is stopped, GPU types mean nothing.

    Most under-served is the queue that uses the least part of its guaranteed GPUs (in a tie that whose first job is
    earlier in the instance). Its first job starts if there is room for the whole gang; else the queue waits, and the
    others go on. Beyond its guarantee a queue may use what others leave, up to ``maximum``.

    Parameters
    ----------
    capacities:
        Tenant -> its guaranteed part of the cluster's GPUs, in any unit: only their ratios count. None: the weights of
        the tenants, 1 where the instance does not tell. Jobs without a tenant are in the queue ``"default"``, of
        weight 1.
    maximum:
        The part of the cluster's GPUs that a queue may use at most, of (0, 1]; for all, or tenant -> part (1 for those
        that are absent). A gang that is larger waits, and holds nobody up.
    types:
        :data:`~hetopt.models.queues.choosing.TypeRule`.
    backfill:
        Within a queue, jobs may overtake those that find no room.
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
            _part(self.maximum, "YARN.maximum", 1.0)
        one_of(self.types, TYPES, "YARN.types")
        boolean(self.backfill, "YARN.backfill")
        seconds_or_events(self.round_seconds, "YARN.round_seconds")

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, None]:
        """Who runs from now on; nothing to remember.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; a job that holds anything but its gang on one type, or
            of a tenant that ``capacities`` does not name.
        """
        jobs = present_entities(instance, "jobs", "YARN")
        running, need = unstoppable(jobs, "YARN"), demands(jobs)
        room, choose = Room(capacities(jobs), running), TYPES[self.types](jobs)
        room.keep_all()
        queues: defaultdict[str, list[int]] = defaultdict(list)  # jobs that wait, the last one first
        used: defaultdict[str, int] = defaultdict(int)
        for job in running:
            used[_queue(instance, job)] += need[job]
        for job in reversed(in_order(jobs)):
            if job not in running:
                queues[_queue(instance, job)].append(job)
        due, total = self._due(instance, queues), float(jobs.capacity.sum()) * (1 + FEASIBILITY)
        part = self.maximum if isinstance(self.maximum, Mapping) else dict.fromkeys(queues, self.maximum)
        most = {name: part.get(name, 1.0) * total for name in queues}
        for name, own in queues.items():  # nobody waits behind a gang that is larger than what its queue may use
            queues[name] = [job for job in own if need[job] <= most[name]]
        turns = [(used[name] / due[name], min(own), name) for name, own in queues.items() if own]
        heapify(turns)
        while turns and room.left:
            _, first, name = heappop(turns)
            while queues[name]:
                job = queues[name].pop()
                if used[name] + need[job] <= most[name] and room.start(job, choose):
                    used[name] += need[job]
                    heappush(turns, (used[name] / due[name], first, name))
                    break
                if not self.backfill:
                    break
        return plan_of(jobs, room.given), None

    def _due(self, instance: Instance, queues: Mapping[str, list[int]]) -> dict[str, float]:
        """Queue -> its guaranteed part, in any unit."""
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


def _parts(value: Any, key: str, most: float | None = None) -> FrozenDict[str, float]:
    try:
        given = mapping(value, key)
    except InvalidInstance as problem:
        raise InvalidOption(str(problem)) from None
    return FrozenDict({name: _part(part, f"{key}[{name!r}]", most) for name, part in given.items()})


def _part(value: Any, key: str, most: float | None) -> float:
    part = at_least(value, key, 0.0, InvalidOption, strict=True)
    if most is not None and part > most:
        raise InvalidOption(f"{key} is {part:g}; it may be {most:g} at most")
    return part
