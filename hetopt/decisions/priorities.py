"""Gavel's rounds: jobs run in the order of what they should have had over what they have had, [Gavel, section 5]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Entities, Floats, read_only
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.results.allocation import Allocation, Plan

Ints: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Received:
    """What :class:`ByPriority` remembers of the shares that are being given.

    Attributes
    ----------
    allocation:
        The shares.
    job, kind:
        (m,) positions of the pairs with a share, the larger share first, then the earlier job and type.
    share:
        (m,) their shares.
    rounds:
        (m,) rounds that each has run since these shares hold.
    number:
        Rounds since then.
    """

    allocation: Allocation
    job: Ints
    kind: Ints
    share: Floats
    rounds: Floats = field(repr=False)
    number: int = 0

    @classmethod
    def of(cls, allocation: Allocation) -> Received:
        """Nothing has been given yet."""
        job, kind = np.nonzero((allocation.x > 0) & allocation.entities.allowed)
        share = allocation.x[job, kind]
        order = np.lexsort((kind, job, -share))
        return cls(allocation, job[order], kind[order], share[order], np.zeros(len(order)))


@dataclass(frozen=True)
class ByPriority:
    """Jobs' shares of time as rounds, greedily by priority: Gavel's mechanism.

    The priority of job j on type k is ``x[j, k] / f[j, k]``, with f the part of the rounds in which j ran on k since
    the shares hold (infinite where it has not run there yet; the larger share first among equal priorities, then the
    earlier job, then the earlier type). In that order, jobs that do not run in this round yet and whose gang fits get
    their type. Types on which a job has no share are given to nobody: GPUs may stay idle. A new allocation starts the
    count anew. :class:`~hetopt.decisions.whole_jobs.WholeJobs` is the exact counterpart, which searches each round.

    Raises
    ------
    InvalidOption
        When called: the allocation is over tenants.
    """

    def __call__(
        self, allocation: Allocation, instance: Instance, state: Received | None = None
    ) -> tuple[Plan, Received]:
        """The jobs that run now, and what they have received with that."""
        entities = allocation.entities
        if entities.kind != "jobs":
            raise InvalidOption("ByPriority rounds shares of jobs; for those of tenants take hetopt.WholeGPUs")
        if state is None or state.allocation is not allocation:
            state = Received.of(allocation)
        due = np.full(len(state.share), -np.inf)  # minus the priority: infinite where it has not run
        np.divide(-max(state.number, 1) * state.share, state.rounds, out=due, where=state.rounds > 0)
        order = np.argsort(due, kind="stable")
        chosen = order[_greedy(state.job[order], state.kind[order], entities)]
        gpus, rounds = np.zeros(entities.shape), state.rounds.copy()
        gpus[state.job[chosen], state.kind[chosen]] = entities.demand[state.job[chosen]]
        rounds[chosen] += 1
        idle = float(entities.capacity.sum() - gpus.sum())
        plan = Plan(entities, read_only(gpus), None, {"idle": idle}, allocation.certificate)
        return plan, Received(allocation, state.job, state.kind, state.share, rounds, state.number + 1)


def _greedy(job: Ints, kind: Ints, entities: Entities) -> list[int]:
    """Positions of the pairs, in order, whose job is not there yet and that fit."""
    free, taken, chosen = entities.capacity.tolist(), set[int](), []
    left = sum(free)
    for i, (j, k, need) in enumerate(zip(job.tolist(), kind.tolist(), entities.demand[job].tolist(), strict=True)):
        if need <= free[k] and j not in taken:
            free[k] -= need
            left -= need
            taken.add(j)
            chosen.append(i)
            if left <= 0:
                break
    return chosen
