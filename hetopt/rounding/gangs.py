"""Whole GPUs that gangs can use, and the nearest point that is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance
from hetopt.data.membership import Owner, members, owners
from hetopt.errors import InvalidInstance
from hetopt.rounding.deviations import Ints


def demands(entities: Entities, instance: Instance) -> list[list[list[int]]]:
    """For each tenants' row and GPU type the demands of its jobs that can run on that type.

    Raises
    ------
    InvalidInstance
        A job demands more GPUs than any type that it can run on has.
    """
    if not instance.jobs:
        return [[[] for _ in entities.types] for _ in entities.names]
    jobs, belongs, names = instance.entities("jobs"), members(instance), owners(instance)
    usable = jobs.allowed
    for i in np.flatnonzero(~usable.any(axis=1)).tolist():
        raise InvalidInstance(
            f"jobs[{jobs.names[i]!r}].demand is {int(jobs.demand[i])} GPUs, more than any GPU type that it can run on "
            f"has; the largest has {int(jobs.capacity[jobs.task_speed[i] > 0].max())}"
        )
    sizes = jobs.demand.astype(int).tolist()
    own: list[Owner] = [names[name] for name in entities.names]
    return [[[sizes[i] for i in belongs[o] if usable[i, k]] for k in range(len(entities.types))] for o in own]


def at_least_the_smallest(demand: Sequence[int], most: int) -> Ints:
    """No GPUs, or enough for the smallest gang: OEF's starvation rule. Without any gang everything is usable."""
    return np.array([0, *range(min(demand), most + 1)] if demand else range(most + 1), dtype=np.int64)


def sums(demand: Sequence[int], most: int) -> Ints:
    """Numbers of GPUs that some of the gangs fill exactly (sums of distinct gangs), at most ``most``."""
    reachable, mask = 1, (1 << (most + 1)) - 1  # bit s: s GPUs can be filled
    for gang in demand:
        reachable |= (reachable << gang) & mask
    return np.array([s for s in range(most + 1) if reachable >> s & 1], dtype=np.int64)


def nearest(target: Floats, sizes: Sequence[Ints], seats: int) -> Ints:
    """The point x with x[e] among ``sizes[e]``, all ``seats`` given, that minimises sum_e (target[e] - x[e])².

    Parameters
    ----------
    target:
        (n + 1,) GPUs due now (they may be negative); the last entry is nobody's, for whom every number is possible.
    sizes:
        n arrays of possible numbers of GPUs, each with 0.
    seats:
        GPUs of the type.

    Returns
    -------
    Ints
        (n + 1,) whole GPUs that sum to ``seats``.

    Notes
    -----
    Dynamic programme over the seats used by the first e entities: exact. If the promised shares are an average of
    possible points, the squared deviation grows by at most the points' squared diameter D² per round (the nearest
    point is at least as near as the average over those points), so that the deviation is at most D·sqrt(rounds).
    """
    best = np.full(seats + 1, np.inf)
    best[0] = 0.0
    chosen: list[Ints] = []
    for due, possible in zip(target[:-1], sizes, strict=True):
        cost = np.full((len(possible), seats + 1), np.inf)
        for row, size in zip(cost, possible.tolist(), strict=True):
            row[size:] = best[: seats + 1 - size] + (due - size) ** 2
        pick = cost.argmin(axis=0)
        best = cost[pick, np.arange(seats + 1)]
        chosen.append(possible[pick])
    used = int(np.argmin(best + (target[-1] - (seats - np.arange(seats + 1))) ** 2))
    x = np.zeros(len(target), dtype=np.int64)
    x[-1] = seats - used
    for e in range(len(chosen) - 1, -1, -1):
        x[e] = chosen[e][used]
        used -= int(x[e])
    return x
