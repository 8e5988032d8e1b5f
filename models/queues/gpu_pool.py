"""Allocation of GPUs to jobs in queue order: the pool of free GPUs, preemption, and the choice of a GPU type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidInstance
from hetopt.results.allocation import Plan
from hetopt.tolerances import INTEGRAL

PlacedGPUs: TypeAlias = tuple[tuple[int, int], ...]
"""(place, GPUs) of a gang. A place is a GPU type, or the GPUs of one type in one server."""

Preemption: TypeAlias = Literal["nobody", "last", "all"]
"""Which jobs that run may be stopped: none; the last in the order, where those ahead need their GPUs; or all, so that
everybody is placed anew."""


class GPUChoice(Protocol):
    """Which GPUs a job takes."""

    def __call__(self, job: int, free: Sequence[int]) -> PlacedGPUs | None:
        """The seats of the gang of ``job`` (position) among ``free`` GPUs of each place; None without enough room."""
        ...


class GPUPool:
    """GPUs of each place: given away, held by jobs that run and whose turn has not come, or open.

    Parameters
    ----------
    capacity:
        GPUs of each place.
    running:
        Job -> its seats, in the order in which their turns come; they keep them unless :meth:`serve` needs them.

    Attributes
    ----------
    free:
        GPUs of each place that are not given away.
    open:
        Of these, the GPUs that no job holds.
    left:
        Sum of ``free``.
    given:
        Job -> its seats, of those who have got some.
    """

    def __init__(self, capacity: Sequence[int], running: Mapping[int, PlacedGPUs]) -> None:
        self.free, self.open, self.left = list(capacity), list(capacity), sum(capacity)
        self.held, self.given = dict(running), dict[int, PlacedGPUs]()
        for seats in running.values():
            _change(self.open, seats, -1)

    def keep(self, job: int) -> bool:
        """Give a job what it holds; False if it holds nothing, or nothing any more."""
        seats = self.held.pop(job, None)
        if seats is None:
            return job in self.given
        self._take(job, seats)
        return True

    def keep_all(self) -> None:
        """Give all jobs what they hold: nobody is stopped from now on."""
        for job in list(self.held):
            self.keep(job)

    def start(self, job: int, choose: GPUChoice) -> bool:
        """Give a job open GPUs; False without enough room."""
        seats = choose(job, self.open)
        if seats is None:
            return False
        self.give(job, seats)
        return True

    def give(self, job: int, seats: PlacedGPUs) -> None:
        """Give a job these seats, which are open."""
        _change(self.open, seats, -1)
        self._take(job, seats)

    def serve(self, job: int, choose: GPUChoice) -> bool:
        """The same, but if the open GPUs are too few, jobs that run are stopped until they suffice, the last first.

        Of these, those whose GPUs are not taken hold them on.
        """
        if self.start(job, choose):
            return True
        if not self.held or choose(job, self.free) is None:
            return False
        stopped: list[tuple[int, PlacedGPUs]] = []
        while not self.start(job, choose):
            stopped.append(self.held.popitem())
            _change(self.open, stopped[-1][1], 1)
        for other, seats in reversed(stopped):
            if all(self.open[place] >= gpus for place, gpus in seats):
                self.held[other] = seats
                _change(self.open, seats, -1)
        return True

    def _take(self, job: int, seats: PlacedGPUs) -> None:
        self.given[job] = seats
        _change(self.free, seats, -1)
        self.left -= sum(gpus for _, gpus in seats)


def _change(gpus: list[int], seats: PlacedGPUs, sign: int) -> None:
    for place, number in seats:
        gpus[place] += sign * number


def walk(
    order: Iterable[int],
    capacity: Sequence[int],
    running: Mapping[int, PlacedGPUs],
    choose: GPUChoice,
    *,
    stops: Preemption,
    backfill: bool,
) -> dict[int, PlacedGPUs]:
    """The seats of those who run from now on.

    Parameters
    ----------
    order:
        Jobs, first in turn first; others get nothing.
    capacity:
        GPUs of each place.
    running:
        Jobs that run now -> their seats.
    choose:
        What a job takes.
    stops:
        Who may be stopped.
    backfill:
        Those behind a job that finds no room may still start; else nobody starts before it does.
    """
    order = list(order)
    room = GPUPool(capacity, {} if stops == "all" else {job: running[job] for job in order if job in running})
    if stops == "nobody":
        room.keep_all()
    for job in order:
        if not room.left or not (room.keep(job) or room.serve(job, choose) or backfill):
            break
    room.keep_all()
    return room.given


TypeRule: TypeAlias = Literal["fastest", "roomiest"]
"""The type on which the job is fastest (a scheduler that knows of types), or that with most free GPUs (one that does
not). Ties: the type that it holds now, where types are known; then the first of the cluster."""


def first_with_room(demand: Sequence[int], wishes: Sequence[Sequence[int]]) -> GPUChoice:
    """Each job takes the first of its ``wishes`` (positions of GPU types) that has room for its ``demand``."""

    def choose(job: int, free: Sequence[int]) -> PlacedGPUs | None:
        need = demand[job]
        for kind in wishes[job]:
            if free[kind] >= need:
                return ((kind, need),)
        return None

    return choose


def fastest(jobs: Entities) -> GPUChoice:
    """The fastest type with room."""
    held = np.zeros(jobs.shape) if jobs.held is None else jobs.held
    ranked = np.lexsort(np.stack([-held, -jobs.speed]), axis=-1).tolist()
    able = jobs.allowed.sum(axis=1).tolist()
    return first_with_room(demands(jobs), [row[:n] for row, n in zip(ranked, able, strict=True)])


def roomiest(jobs: Entities) -> GPUChoice:
    """The type with most free GPUs, whatever its speed."""
    demand, able = demands(jobs), [np.flatnonzero(row).tolist() for row in jobs.allowed]

    def choose(job: int, free: Sequence[int]) -> PlacedGPUs | None:
        kind = max(able[job], key=free.__getitem__)
        return ((kind, demand[job]),) if free[kind] >= demand[job] else None

    return choose


TYPES: Mapping[TypeRule, Callable[[Entities], GPUChoice]] = {"fastest": fastest, "roomiest": roomiest}


def demands(jobs: Entities) -> list[int]:
    """GPUs of each gang."""
    result: list[int] = np.rint(jobs.demand).astype(int).tolist()
    return result


def capacities(jobs: Entities) -> list[int]:
    """GPUs of each type."""
    result: list[int] = np.rint(jobs.capacity).astype(int).tolist()
    return result


def able(jobs: Entities) -> NDArray[np.bool_]:
    """(n,) whether there are GPUs now that the gang can run on, and work to do."""
    return np.asarray(jobs.allowed.any(axis=1) & (jobs.source.job_array("work_left") > 0))


def in_order(jobs: Entities, *keys: Floats) -> list[int]:
    """The jobs that are :func:`able`, least first key first, then by the others, arrival, and place in the instance."""
    order = np.lexsort((jobs.source.job_array("arrival"), *reversed(keys)))
    result: list[int] = order[able(jobs)[order]].tolist()
    return result


def gangs(jobs: Entities) -> dict[int, PlacedGPUs]:
    """Job -> the GPUs that it holds, of the jobs that hold a whole gang on one type that can run it."""
    if jobs.held is None:
        return {}
    kind = jobs.held.argmax(axis=1)
    most = jobs.held[np.arange(len(kind)), kind]
    whole = (np.abs(most - jobs.demand) <= INTEGRAL) & (np.abs(jobs.held.sum(axis=1) - jobs.demand) <= INTEGRAL)
    whole &= jobs.allowed[np.arange(len(kind)), kind]
    need = demands(jobs)
    return {e: ((int(kind[e]), need[e]),) for e in np.flatnonzero(whole).tolist()}


def unstoppable(jobs: Entities, policy: str) -> dict[int, PlacedGPUs]:
    """The same for ``policy``, which never stops a job.

    Raises
    ------
    InvalidInstance
        A job holds part of a gang, GPUs of several types, or GPUs on which it cannot run.
    """
    running = gangs(jobs)
    if jobs.held is not None:
        for e in np.flatnonzero(jobs.held.sum(axis=1) > INTEGRAL).tolist():
            if e not in running:
                holds = {t: n for t, n in zip(jobs.types, jobs.held[e].tolist(), strict=True) if n}
                raise InvalidInstance(
                    f"held[{jobs.names[e]!r}] is {holds}; under {policy} a job that runs holds its "
                    f"{jobs.demand[e]:g} GPUs, all of one type on which it can run"
                )
    return running


def plan_of(jobs: Entities, given: Mapping[int, PlacedGPUs], wake: float | None = None) -> Plan:
    """The plan in which jobs have ``given`` GPUs; places are GPU types. ``given_up``: GPUs that stay idle."""
    x = np.zeros(jobs.shape)
    for job, seats in given.items():
        for kind, gpus in seats:
            x[job, kind] = gpus
    return Plan(jobs, x, given_up={"idle": float(jobs.capacity.sum() - x.sum())}, wake=wake)
