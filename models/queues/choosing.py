"""Which GPU type a job takes, of those that have room for its gang."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidInstance
from hetopt.models.queues.room import Choose, Seats
from hetopt.results.allocation import Plan
from hetopt.tolerances import INTEGRAL

TypeRule: TypeAlias = Literal["fastest", "roomiest"]
"""The type on which the job is fastest (a scheduler that knows of types), or that with most free GPUs (one that does
not). Ties: the type that it holds now, where types are known; then the first of the cluster."""


def first_with_room(demand: Sequence[int], wishes: Sequence[Sequence[int]]) -> Choose:
    """Each job takes the first of its ``wishes`` (positions of GPU types) that has room for its ``demand``."""

    def choose(job: int, free: Sequence[int]) -> Seats | None:
        need = demand[job]
        for kind in wishes[job]:
            if free[kind] >= need:
                return ((kind, need),)
        return None

    return choose


def fastest(jobs: Entities) -> Choose:
    """The fastest type with room."""
    held = np.zeros(jobs.shape) if jobs.held is None else jobs.held
    ranked = np.lexsort(np.stack([-held, -jobs.speed]), axis=-1).tolist()
    able = jobs.allowed.sum(axis=1).tolist()
    return first_with_room(demands(jobs), [row[:n] for row, n in zip(ranked, able, strict=True)])


def roomiest(jobs: Entities) -> Choose:
    """The type with most free GPUs, whatever its speed."""
    demand, able = demands(jobs), [np.flatnonzero(row).tolist() for row in jobs.allowed]

    def choose(job: int, free: Sequence[int]) -> Seats | None:
        kind = max(able[job], key=free.__getitem__)
        return ((kind, demand[job]),) if free[kind] >= demand[job] else None

    return choose


TYPES: Mapping[TypeRule, Callable[[Entities], Choose]] = {"fastest": fastest, "roomiest": roomiest}


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


def gangs(jobs: Entities) -> dict[int, Seats]:
    """Job -> the GPUs that it holds, of the jobs that hold a whole gang on one type that can run it."""
    if jobs.held is None:
        return {}
    kind = jobs.held.argmax(axis=1)
    most = jobs.held[np.arange(len(kind)), kind]
    whole = (np.abs(most - jobs.demand) <= INTEGRAL) & (np.abs(jobs.held.sum(axis=1) - jobs.demand) <= INTEGRAL)
    whole &= jobs.allowed[np.arange(len(kind)), kind]
    need = demands(jobs)
    return {e: ((int(kind[e]), need[e]),) for e in np.flatnonzero(whole).tolist()}


def unstoppable(jobs: Entities, policy: str) -> dict[int, Seats]:
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


def plan_of(jobs: Entities, given: Mapping[int, Seats], wake: float | None = None) -> Plan:
    """The plan in which jobs have ``given`` GPUs; places are GPU types. ``given_up``: GPUs that stay idle."""
    x = np.zeros(jobs.shape)
    for job, seats in given.items():
        for kind, gpus in seats:
            x[job, kind] = gpus
    return Plan(jobs, x, given_up={"idle": float(jobs.capacity.sum() - x.sum())}, wake=wake)
