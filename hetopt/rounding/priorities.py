"""Gavel's rounds: jobs run in the order of what they should have had over what they have had, [Gavel, section 5]."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetopt.allocation import Allocation, Plan
from hetopt.data.entities import Floats, read_only
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption


@dataclass(frozen=True, eq=False)
class Received:
    """What :class:`ByPriority` remembers.

    Attributes
    ----------
    allocation:
        The shares that are being given.
    names:
        The jobs.
    rounds:
        (n, k) rounds that each job has run on each type since these shares hold.
    number:
        Rounds since then.
    """

    allocation: Allocation
    names: tuple[str, ...]
    rounds: Floats = field(repr=False)
    number: int


@dataclass(frozen=True)
class ByPriority:
    """Jobs' shares of time as rounds, greedily by priority: Gavel's mechanism.

    The priority of job j on type k is ``x[j, k] / f[j, k]``, with f the part of the rounds in which j ran on k since
    the shares hold (infinite where it has not run there yet; the larger share first among equal priorities, then the
    earlier job, then the earlier type). In that order, jobs that do not run in this round yet and whose gang fits get
    their type. Types on which a job has no share are given to nobody: GPUs may stay idle. A new allocation starts the
    count anew. :class:`~hetopt.rounding.whole_jobs.WholeJobs` is the exact counterpart, which searches each round.

    Raises
    ------
    InvalidOption
        When called: the allocation is over tenants.
    """

    def __call__(
        self, allocation: Allocation, instance: Instance, state: Received | None = None
    ) -> tuple[Plan, Received]:
        """The jobs that run now, and what they have received with that."""
        entities, x = allocation.entities, allocation.x
        if entities.kind != "jobs":
            raise InvalidOption("ByPriority rounds shares of jobs; for those of tenants take hetopt.WholeGPUs")
        if state is None or state.allocation is not allocation:
            state = Received(allocation, entities.names, np.zeros(entities.shape), 0)
        job, kind = np.nonzero((x > 0) & entities.allowed)
        share, had = x[job, kind], state.rounds[job, kind]
        with np.errstate(divide="ignore"):
            priority = np.where(had > 0, share * max(state.number, 1) / had, np.inf)
        order = np.lexsort((kind, job, -share, -priority))
        chosen = _greedy(job[order], kind[order], entities.demand, entities.capacity)
        gpus, rounds = np.zeros(entities.shape), state.rounds.copy()
        who, where = np.array(chosen, dtype=np.intp).reshape(-1, 2).T
        gpus[who, where] = entities.demand[who]
        rounds[who, where] += 1
        idle = float(entities.capacity.sum() - gpus.sum())
        plan = Plan(entities, read_only(gpus), None, {"idle": idle}, allocation.certificate)
        return plan, Received(allocation, entities.names, rounds, state.number + 1)


def _greedy(job: np.ndarray, kind: np.ndarray, demand: Floats, capacity: Floats) -> list[tuple[int, int]]:
    """(job, type) pairs in order, those whose job is not there yet and that fit."""
    free, taken, chosen = capacity.tolist(), set[int](), []
    left, need = sum(free), demand.tolist()
    for j, k in zip(job.tolist(), kind.tolist(), strict=True):
        if j not in taken and need[j] <= free[k]:
            free[k] -= need[j]
            left -= need[j]
            taken.add(j)
            chosen.append((j, k))
            if left <= 0:
                break
    return chosen
