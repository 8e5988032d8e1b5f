"""AlloX: placement and order of jobs that minimise the total completion time, as one assignment problem.

Le, Sun, Chowdhury, Liu: AlloX: Compute Allocation in Hybrid Clusters, EuroSys 2020. A slot is a set of GPUs of one type
that carries one job at a time. The job that is p-th from the end of its slot's queue delays itself and the p - 1 jobs
behind it, so it adds p times its running time to the total: the problem is to assign jobs to (slot, p) at these costs.
Jobs that hold GPUs are never preempted; jobs queued behind a running job wait until it is done.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidInstance
from hetopt.formulations.traits import Traits
from hetopt.models.queues.gpu_pool import running_gangs_checked
from hetopt.results.allocation import Plan
from hetopt.results.certificate import Certificate


@dataclass(frozen=True, eq=False)
class Queues:
    """s slots and the jobs on them.

    Attributes
    ----------
    kind:
        (s,) GPU type (position) of each slot.
    ready:
        (s,) seconds from now until the slot is free.
    running:
        (s,) position of the job that holds the slot now, or -1.
    queue:
        Positions of the jobs that wait for each slot, the next one first. Jobs whose types have no GPUs now are in no
        queue.
    total:
        Sum of the completion times of the jobs that run or are queued, in seconds from now.
    """

    kind: NDArray[np.intp]
    ready: Floats
    running: NDArray[np.intp]
    queue: tuple[tuple[int, ...], ...]
    total: float


@dataclass(frozen=True)
class AlloX:
    """Least total completion time of the present jobs, which must have one common demand.

    ``policy(instance)`` gives a Plan for now: running jobs keep their GPUs, and the head of each free slot's queue
    starts. :meth:`queues` gives the whole schedule.

    Raises
    ------
    InvalidInstance
        Jobs have different demands; a job holds part of a gang, or GPUs on which it cannot run; see also
        :func:`~hetopt.data.instance.present_entities`.
    """

    @property
    def traits(self) -> Traits:
        """A job is not given a slot on which it would be done later than behind other jobs on another."""
        return Traits(idles="jobs wait for slots on which the total of completion times is less")

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, None]:
        """The current plan, and no state."""
        began = time.perf_counter()
        entities = _jobs(instance)
        found, solving = self._schedule(instance)
        x = np.zeros(entities.shape)
        for kind, running, queue in zip(found.kind, found.running, found.queue, strict=True):
            now = int(running) if running >= 0 else queue[0] if queue else None
            if now is not None:
                x[now, kind] = entities.demand[now]
        return Plan(entities, x, certificate=_certificate(found.total, time.perf_counter() - began, solving)), None

    def queues(self, instance: Instance) -> Queues:
        """The optimal schedule of all present jobs."""
        return self._schedule(instance)[0]

    def _schedule(self, instance: Instance) -> tuple[Queues, float]:
        """The optimal schedule, and the seconds that its assignment took."""
        entities = _jobs(instance)
        demand = _common_demand(entities)
        kind, ready, running = _slots(instance, entities, demand)
        work = instance.job_array("work_left")
        able = entities.allowed.any(axis=1)
        waiting = np.setdiff1d(np.flatnonzero(able & (work > 0)), running)
        queue, total, seconds = _assigned(entities, work, waiting, kind, ready)
        return Queues(kind, ready, running, queue, total + float(ready[running >= 0].sum())), seconds


def _certificate(total: float, seconds: float, solving: float) -> Certificate:
    """Certificate with objective minus the total completion time; the assignment is exact."""
    return Certificate(
        status="optimal",
        objective=-total,
        bound=-total,
        violation=0.0,
        measured=True,
        seconds=seconds,
        solver_seconds=solving,
        solver="scipy",
        method="assignment",
    )


def _jobs(instance: Instance) -> Entities:
    return present_entities(instance, "jobs", "AlloX")


def _common_demand(entities: Entities) -> int:
    demands = np.unique(entities.demand)
    if len(demands) > 1:
        first = int(np.argmax(entities.demand != entities.demand[0]))
        raise InvalidInstance(
            f"AlloX needs jobs of one common demand, but jobs[{entities.names[0]!r}].demand is "
            f"{entities.demand[0]:g} and jobs[{entities.names[first]!r}].demand is {entities.demand[first]:g}"
        )
    return int(demands[0])


def _slots(instance: Instance, entities: Entities, demand: int) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
    """(GPU type, seconds until free, job that runs there or -1) of each slot; earliest free first within a type."""
    held = np.full(len(entities.names), -1, dtype=np.intp)
    for e, ((k, _),) in running_gangs_checked(entities, "AlloX").items():
        held[e] = k
    work = instance.job_array("work_left")
    kinds: list[int] = []
    ready: list[float] = []
    running: list[int] = []
    for k, gpus in enumerate(entities.capacity.tolist()):
        busy = sorted((work[e] / entities.speed[e, k], e) for e in np.flatnonzero(held == k).tolist())
        free = int(gpus) // demand - len(busy)
        if free < 0:
            raise InvalidInstance(f"jobs hold {len(busy) * demand} GPUs of type {entities.types[k]!r}, of {gpus:g}")
        kinds += [k] * (free + len(busy))
        ready += [0.0] * free + [seconds for seconds, _ in busy]
        running += [-1] * free + [e for _, e in busy]
    return np.array(kinds, dtype=np.intp), np.array(ready), np.array(running, dtype=np.intp)


def _assigned(
    entities: Entities, work: Floats, waiting: NDArray[np.intp], kind: NDArray[np.intp], ready: Floats
) -> tuple[tuple[tuple[int, ...], ...], float, float]:
    """Queues of the waiting jobs, the sum of their completion times, and the seconds that the assignment took."""
    n = len(waiting)
    slot, place = _places(kind, n)
    with np.errstate(divide="ignore"):
        seconds = work[waiting, None] / entities.speed[waiting][:, kind[slot]]
    cost = ready[slot] + place * seconds
    began = time.perf_counter()
    row, column = linear_sum_assignment(cost)
    taken = time.perf_counter() - began
    order = np.lexsort((-place[column], slot[column]))
    queues: list[list[int]] = [[] for _ in kind]
    for i in order.tolist():
        queues[slot[column[i]]].append(int(waiting[row[i]]))
    _earlier_first(queues, kind, ready, work[:, None] / np.where(entities.allowed, entities.speed, np.nan))
    return tuple(map(tuple, queues)), float(cost[row, column].sum()), taken


def _earlier_first(queues: list[list[int]], kind: NDArray[np.intp], ready: Floats, seconds: Floats) -> None:
    """Order jobs of equal running times as in the instance; the cost does not change."""
    places: dict[bytes, list[tuple[float, int, int]]] = {}
    for slot, queue in enumerate(queues):
        start = float(ready[slot])
        for place, job in enumerate(queue):
            places.setdefault(seconds[job].tobytes(), []).append((start, slot, place))
            start += float(seconds[job, kind[slot]])
    for alike in places.values():
        jobs = sorted(queues[slot][place] for _, slot, place in alike)
        for job, (_, slot, place) in zip(jobs, sorted(alike), strict=True):
            queues[slot][place] = job


def _places(kind: NDArray[np.intp], n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(slot, position from the end) of all columns that an optimum needs.

    There is an optimum in which, of two slots of a type, the one that is free earlier has at least as many jobs
    (otherwise the head of the other queue could move to its end). So the i-th slot of a type, counted from 0, has at
    most n / (i + 1) jobs.
    """
    rank = np.arange(len(kind)) - np.searchsorted(kind, kind)
    most = n // (rank + 1)
    slot = np.repeat(np.arange(len(kind)), most)
    place = np.arange(len(slot)) - np.repeat(np.cumsum(most) - most, most) + 1
    return slot, place


def allox() -> AlloX:
    """Least total completion time of jobs of one common demand, without preemption."""
    return AlloX()
