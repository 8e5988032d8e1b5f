"""Allocation of GPUs to jobs in queue order: the pool of free GPUs, preemption, and the choice of a GPU type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.errors import InvalidInstance, Item
from hetopt.results.allocation import Plan
from hetopt.tolerances import INTEGRAL

PlacedGPUs: TypeAlias = tuple[tuple[int, int], ...]
"""(place, GPUs) of a gang. A place is a GPU type, or the GPUs of one type in one server."""


class Preemption(Enum):
    """Which running jobs may be preempted."""

    NONE = "none"
    LAST_FIRST = "last first"
    """A job that needs GPUs preempts running jobs behind it, the last in the order first."""
    ALL = "all"
    """All running jobs are preempted at first, and every job is placed again in its turn."""


class GPUChoice(Protocol):
    """A rule that chooses the GPUs of a job."""

    def __call__(self, job: int, free: Sequence[int]) -> PlacedGPUs | None:
        """GPUs for the gang of ``job`` (position) among the ``free`` GPUs of each place; None if these are too few."""
        ...


class GPUPool:
    """GPUs of each place: allocated, held by running jobs whose turn has not come, or open.

    Parameters
    ----------
    capacity:
        GPUs of each place.
    running:
        Running job -> its GPUs, in queue order. Jobs keep them unless :meth:`serve` preempts the job.

    Attributes
    ----------
    free:
        GPUs of each place that are not allocated.
    open:
        GPUs of ``free`` that no job holds.
    left:
        Sum of ``free``.
    given:
        Job -> its allocated GPUs.
    """

    def __init__(self, capacity: Sequence[int], running: Mapping[int, PlacedGPUs]) -> None:
        self.free, self.open, self.left = list(capacity), list(capacity), sum(capacity)
        self.held, self.given = dict(running), dict[int, PlacedGPUs]()
        for placed in running.values():
            _change(self.open, placed, -1)

    def keep(self, job: int) -> bool:
        """Allocate to a job the GPUs that it holds. Returns False if it holds none or was preempted."""
        placed = self.held.pop(job, None)
        if placed is None:
            return job in self.given
        self._take(job, placed)
        return True

    def keep_all(self) -> None:
        """Allocate to all running jobs the GPUs that they hold, so that no job is preempted from now on."""
        for job in list(self.held):
            self.keep(job)

    def start(self, job: int, choose: GPUChoice) -> bool:
        """Allocate open GPUs to a job. Returns False if they do not suffice."""
        placed = choose(job, self.open)
        if placed is None:
            return False
        self.give(job, placed)
        return True

    def give(self, job: int, placed: PlacedGPUs) -> None:
        """Allocate these open GPUs to a job."""
        _change(self.open, placed, -1)
        self._take(job, placed)

    def serve(self, job: int, choose: GPUChoice) -> bool:
        """Like :meth:`start`, but preempt running jobs, the last first, until the open GPUs suffice.

        A preempted job whose GPUs are not taken keeps running.
        """
        if self.start(job, choose):
            return True
        if not self.held or choose(job, self.free) is None:
            return False
        preempted: list[tuple[int, PlacedGPUs]] = []
        while not self.start(job, choose):
            preempted.append(self.held.popitem())
            _change(self.open, preempted[-1][1], 1)
        for other, placed in reversed(preempted):
            if all(self.open[place] >= gpus for place, gpus in placed):
                self.held[other] = placed
                _change(self.open, placed, -1)
        return True

    def _take(self, job: int, placed: PlacedGPUs) -> None:
        self.given[job] = placed
        _change(self.free, placed, -1)
        self.left -= sum(gpus for _, gpus in placed)


def _change(gpus: list[int], placed: PlacedGPUs, sign: int) -> None:
    for place, number in placed:
        gpus[place] += sign * number


def allocate_in_order(
    order: Iterable[int],
    capacity: Sequence[int],
    running: Mapping[int, PlacedGPUs],
    choose: GPUChoice,
    *,
    preemption: Preemption,
    backfill: bool,
) -> dict[int, PlacedGPUs]:
    """Job -> its GPUs, for the jobs that run from now on.

    Parameters
    ----------
    order:
        Jobs in queue order; other jobs get nothing.
    capacity:
        GPUs of each place.
    running:
        Running job -> its GPUs.
    choose:
        Rule that chooses the GPUs of a job.
    preemption:
        Which running jobs may be preempted.
    backfill:
        Jobs behind a job that does not fit may start before it.
    """
    order = list(order)
    kept = {} if preemption is Preemption.ALL else {job: running[job] for job in order if job in running}
    pool = GPUPool(capacity, kept)
    if preemption is Preemption.NONE:
        pool.keep_all()
    for job in order:
        if not pool.left or not (pool.keep(job) or pool.serve(job, choose) or backfill):
            break
    pool.keep_all()
    return pool.given


IN_ORDER = "jobs wait behind the first that does not fit"
"""Why GPUs may idle in queues without backfill (``Traits.idles``)."""

TypeRule: TypeAlias = Literal["fastest", "roomiest"]
"""``"fastest"``: the type on which the job is fastest, for heterogeneity-aware schedulers; in a tie the type that it
holds now. ``"roomiest"``: the type with the most free GPUs, for other schedulers. Further ties: the first type of the
cluster."""


def first_type_that_fits(demand: Sequence[int], preferences: Sequence[Sequence[int]]) -> GPUChoice:
    """Each job takes the first of its ``preferences`` (positions of GPU types) with ``demand`` free GPUs."""

    def choose(job: int, free: Sequence[int]) -> PlacedGPUs | None:
        need = demand[job]
        for kind in preferences[job]:
            if free[kind] >= need:
                return ((kind, need),)
        return None

    return choose


def fastest_type(jobs: Entities) -> GPUChoice:
    """Each job takes the fastest type with enough free GPUs."""
    held = np.zeros(jobs.shape) if jobs.held is None else jobs.held
    ranked = np.lexsort(np.stack([-held, -jobs.speed]), axis=-1).tolist()
    able = jobs.allowed.sum(axis=1).tolist()
    return first_type_that_fits(gang_sizes(jobs), [row[:n] for row, n in zip(ranked, able, strict=True)])


def emptiest_type(jobs: Entities) -> GPUChoice:
    """Each job takes the type with the most free GPUs, regardless of speed."""
    demand, able = gang_sizes(jobs), [np.flatnonzero(row).tolist() for row in jobs.allowed]

    def choose(job: int, free: Sequence[int]) -> PlacedGPUs | None:
        kind = max(able[job], key=free.__getitem__)
        return ((kind, demand[job]),) if free[kind] >= demand[job] else None

    return choose


TYPES: Mapping[TypeRule, Callable[[Entities], GPUChoice]] = {"fastest": fastest_type, "roomiest": emptiest_type}


def gang_sizes(jobs: Entities) -> list[int]:
    """GPUs of each gang."""
    result: list[int] = np.rint(jobs.demand).astype(int).tolist()
    return result


def type_capacities(jobs: Entities) -> list[int]:
    """GPUs of each type."""
    result: list[int] = np.rint(jobs.capacity).astype(int).tolist()
    return result


def can_run(jobs: Entities) -> NDArray[np.bool_]:
    """(n,) whether the job has work left and some GPU type can run its gang now."""
    return np.asarray(jobs.allowed.any(axis=1) & (jobs.source.job_array("work_left") > 0))


def sorted_jobs(jobs: Entities, *keys: Floats) -> list[int]:
    """Jobs that can run, in ascending order of the keys, then of arrival, then of position in the instance."""
    order = np.lexsort((jobs.source.job_array("arrival"), *reversed(keys)))
    result: list[int] = order[can_run(jobs)[order]].tolist()
    return result


def running_gangs(jobs: Entities, order: Sequence[int] = ()) -> dict[int, PlacedGPUs]:
    """Job -> the GPUs that it holds, for jobs that hold a whole gang on one type that can run it.

    Of the jobs that share the GPUs of gangs of one size and type, and hold half of them, the first half in ``order``,
    rounded up.
    """
    if jobs.held is None:
        return {}
    kind = jobs.held.argmax(axis=1)
    whole, need = _hold(jobs, jobs.demand), gang_sizes(jobs)
    if jobs.source.packings:
        sharing, halves = defaultdict[tuple[int, int], list[int]](list), _hold(jobs, jobs.demand / 2)
        for e in order:
            if halves[e]:
                sharing[int(kind[e]), need[e]].append(e)
        for own in sharing.values():
            whole[own[: (len(own) + 1) // 2]] = True
    return {e: ((int(kind[e]), need[e]),) for e in np.flatnonzero(whole).tolist()}


def _hold(jobs: Entities, gpus: Floats) -> NDArray[np.bool_]:
    """(n,) whether jobs hold so many GPUs, all of one type that can run them."""
    assert jobs.held is not None
    kind = jobs.held.argmax(axis=1)
    able = jobs.allowed[np.arange(len(kind)), kind]
    most, total = jobs.held[np.arange(len(kind)), kind], jobs.held.sum(axis=1)
    return np.asarray(able & (np.abs(most - gpus) <= INTEGRAL) & (np.abs(total - gpus) <= INTEGRAL))


def running_gangs_checked(jobs: Entities, policy: str) -> dict[int, PlacedGPUs]:
    """Like :func:`running_gangs`, for a ``policy`` that never preempts: all held GPUs must belong to such gangs.

    Of jobs that share GPUs, those that arrived first keep them; the others may be packed beside them again. A job
    whose partner has ended keeps them.

    Raises
    ------
    InvalidInstance
        A job holds part of a gang (half of it may be shared), GPUs of several types, or GPUs on which it cannot run.
    """
    running = running_gangs(jobs, np.argsort(jobs.source.job_array("arrival"), kind="stable").tolist())
    if jobs.held is not None:
        shared = _hold(jobs, jobs.demand / 2) & bool(jobs.source.packings)
        for e in np.flatnonzero((jobs.held.sum(axis=1) > INTEGRAL) & ~shared).tolist():
            if e not in running:
                holds = {t: n for t, n in zip(jobs.types, jobs.held[e].tolist(), strict=True) if n}
                raise InvalidInstance(
                    f"is {holds}; under {policy} a job that runs holds its "
                    f"{jobs.demand[e]:g} GPUs, all of one type on which it can run",
                    ("held", Item(jobs.names[e])),
                )
    return running


def type_plan(jobs: Entities, given: Mapping[int, PlacedGPUs], wake: float | None = None) -> Plan:
    """The plan in which jobs have the ``given`` GPUs; places are GPU types. Its ``given_up`` counts idle GPUs."""
    x = np.zeros(jobs.shape)
    for job, placed in given.items():
        for kind, gpus in placed:
            x[job, kind] = gpus
    return Plan(jobs, x, given_up={"idle": float(jobs.capacity.sum() - x.sum())}, wake=wake)
