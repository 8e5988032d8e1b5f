"""Who would gain by how much with another's GPUs, as plain ratios for tables and pictures.

Verdicts with slack and witness are in :mod:`hetopt.auditing.fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hetopt.data.entities import Entities, Floats, Numbers

BLOCK = 2_000_000
"""Pairs of entities compared at once, so that 100,000 tenants fit in memory."""


def envy_ratio(entities: Entities, gpus: Floats, rows: list[int] | slice = slice(None)) -> Floats:
    """(len(rows), n) rate of the row's entity with the column's GPUs (per weight), relative to its own rate.

    Parameters
    ----------
    entities:
        n tenants or jobs; a job's rate ends where its gang runs all the time.
    gpus:
        (n, k) GPUs that each has.
    rows:
        Positions of the entities that compare; default all.

    Returns
    -------
    numpy.ndarray
        1 where an entity looks at itself; above 1 it envies the column's. Infinite for an entity that has nothing
        and would like something.
    """
    value, most = entities.per_gpu, most_at_once(entities)
    own = worth(value, gpus, most)[rows, None]
    other = tempting(value, gpus, entities.weight, most, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(own > 0, other / own, np.where(other > 0, np.inf, 1.0)))


def largest_envy(entities: Entities, gpus: Floats) -> float:
    """The largest gain that someone would have with another's GPUs, in parts of its own rate; 0: nobody envies."""
    n = len(entities.names)
    step = max(1, BLOCK // n)
    blocks = (envy_ratio(entities, gpus, slice(start, start + step)) for start in range(0, n, step))
    return max(0.0, max(float(block.max()) for block in blocks) - 1.0)


def most_at_once(entities: Entities, time_limited: bool | None = None) -> Floats | None:
    """(n,) GPUs that each can use at a time: a gang's size; None where there is no limit.

    ``time_limited`` None: jobs have the limit and tenants do not. Tenants with it are jobs of one GPU.
    """
    limited = entities.kind == "jobs" if time_limited is None else time_limited
    return entities.demand if limited else None


def worth(value: Numbers, gpus: Numbers, most: Numbers | None = None) -> Numbers:
    """(n,) rate of each with its own row of ``gpus``.

    Parameters
    ----------
    value:
        (n, k) rate per GPU.
    gpus:
        (n, k) GPUs on average over time, or (k,) the same for all.
    most:
        (n,) GPUs that each can use at a time; None: no limit. With one, negative GPUs count as none.
    """
    gpus = np.broadcast_to(gpus, value.shape)
    if most is None:
        return np.asarray((value * gpus).sum(axis=1))
    order = np.argsort(-value, axis=1, kind="stable")
    best, there = np.take_along_axis(value, order, axis=1), np.take_along_axis(gpus, order, axis=1)
    return _used(zip(best.T, there.T, strict=True), most)


def tempting(
    value: Numbers, gpus: Numbers, weight: Numbers, most: Numbers | None = None, rows: slice | list[int] = slice(None)
) -> Numbers:
    """(len(rows), n) rate of the row's entity with the column's GPUs times ``weight[row] / weight[column]``.

    Who can use so many at a time has them when the other has them: of a gang of ``most[o]`` GPUs that runs part of the
    time, e uses ``min(weight[e] / weight[o] most[o], most[e])`` in that time. Where the other has more GPUs than it can
    use all the time, they count as averages, as in :func:`worth`.

    Parameters
    ----------
    value, gpus, most:
        As in :func:`worth`; ``gpus`` is (n, k).
    weight:
        (n,) importance.
    rows:
        Positions of those who compare; default all.
    """
    per_weight, mine, value = (gpus / weight[:, None]).T, weight[rows, None], value[rows]
    if most is None:
        return np.asarray((value @ per_weight) * mine)
    order = np.argsort(-value, axis=1, kind="stable")
    best = np.take_along_axis(value, order, axis=1)
    used = ((best[:, [j]], per_weight[order[:, j]]) for j in range(value.shape[1]))
    on_average = _used(used, most[rows, None] / mine) * mine  # up to m of c times the GPUs: c times (m/c of the GPUs)
    return np.asarray(np.minimum(on_average, (value @ gpus.T) * usable(weight, most, rows)))


def usable(weight: Numbers, most: Numbers | None, rows: slice | list[int] = slice(None)) -> Numbers:
    """(len(rows), n) part of the column's GPUs, times the ratio of weights, that the row's entity can use."""
    ratio = weight[rows, None] / weight
    return np.asarray(ratio if most is None else np.minimum(ratio, most[rows, None] / most))


def _used(types: Iterable[tuple[Numbers, Numbers]], left: Numbers) -> Numbers:
    """Sum of value times GPUs used, where at most ``left`` are; (value, GPUs) of each type, the fastest first."""
    total: Any = 0
    for value, gpus in types:
        used = np.minimum(np.maximum(gpus, 0), left)
        total, left = total + value * used, left - used
    return np.asarray(total)
