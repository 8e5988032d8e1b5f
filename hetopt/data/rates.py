"""Rates of entities with their own GPUs and with those of others, and measures of envy.

With v[e](x) the rate of entity e with GPUs x, pi the weights and m all GPUs of the cluster, e compares its rate ``own =
v[e](x[e])`` with ``cross = v[e](pi[e]/pi[o] x[o])``, its rate with the GPUs of o. The difference, in the unit of rates,
is its envy of o. Tables need it without a unit, and there are two ways to divide it:

relative envy
    ``cross / own - 1``: by how many times its own rate e would gain. :func:`relative_envy`; used where policies are
    compared.
cluster envy
    ``(cross - own) / v[e](m)``: the gain as a part of e's rate with the whole cluster. :func:`cluster_envy`; used by
    audits and by the metrics of simulations. It is finite for an entity that has nothing, and adds up over time.

Verdicts with slack and witness are in :mod:`hetopt.auditing.fairness`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hetopt.data.array_types import Floats, Numbers
from hetopt.data.entities import Entities

BLOCK = 2_000_000
"""Number of pairs of entities compared at once, so that 100,000 tenants fit in memory."""


def row_blocks(n: int) -> Iterator[slice]:
    """Slices of the rows of an (n, n) matrix, at most :data:`BLOCK` entries each."""
    step = max(1, BLOCK // n)
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def cluster_envy(own: Numbers, cross: Numbers, whole: Numbers) -> Numbers:
    """Gain with another's GPUs as a part of the rate with the whole cluster; above 0: envy.

    Parameters
    ----------
    own, whole:
        (rows, 1) rate with the own GPUs, and with all GPUs of the cluster.
    cross:
        (rows, n) rate with the GPUs of each entity, as of :func:`cross_rates`.
    """
    return np.asarray((cross - own) / whole)


def relative_envy(entities: Entities, gpus: Floats, rows: list[int] | slice = slice(None)) -> Floats:
    """(len(rows), n) gain of the row's entity with the column's GPUs (per weight), relative to its rate.

    Parameters
    ----------
    entities:
        n tenants or jobs; the rate of a job is limited by the size of its gang.
    gpus:
        (n, k) GPUs of each.
    rows:
        Positions of the entities that compare; default all.

    Returns
    -------
    numpy.ndarray
        0 on the diagonal; above 0: envy. Infinite for an entity that has nothing and could use the column's GPUs.
    """
    per_gpu, most = entities.per_gpu, most_at_once(entities)
    own = rate_with(per_gpu, gpus, most)[rows, None]
    cross = cross_rates(per_gpu, gpus, entities.weight, most, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(own > 0, cross / own, np.where(cross > 0, np.inf, 1.0)) - 1.0)


def largest_relative_envy(entities: Entities, gpus: Floats) -> float:
    """The largest :func:`relative_envy` of any pair; 0 for an envy-free allocation."""
    blocks = (relative_envy(entities, gpus, rows) for rows in row_blocks(len(entities.names)))
    return max(0.0, max(float(block.max()) for block in blocks))


def most_at_once(entities: Entities, demand_limited: bool | None = None) -> Floats | None:
    """(n,) GPUs that each can use at a time: the size of its gang; None: no limit.

    ``demand_limited`` None: jobs have the limit and tenants do not. Tenants with it count as jobs of one GPU.
    """
    limited = entities.kind == "jobs" if demand_limited is None else demand_limited
    return entities.demand if limited else None


def cluster_rate(per_gpu: Numbers, capacity: Numbers, most: Numbers | None = None) -> Numbers:
    """(n,) rate of each entity with all GPUs of the cluster, by which cluster envy and slacks are divided.

    1 for an entity that can use none of the GPUs, so that its violations count.
    """
    rate = rate_with(per_gpu, capacity, most)
    return np.where(rate > 0, rate, rate * 0 + 1)


def fair_part(weight: Numbers, capacity: Numbers) -> Numbers:
    """(n, k) GPUs of each entity if every GPU type is divided by weight."""
    return np.asarray((weight / weight.sum())[:, None] * capacity)


def rate_with(per_gpu: Numbers, gpus: Numbers, most: Numbers | None = None) -> Numbers:
    """(n,) rate of each entity with its own row of ``gpus``.

    Parameters
    ----------
    per_gpu:
        (n, k) rate per GPU.
    gpus:
        (n, k) GPUs on average over time, or (k,) the same for all.
    most:
        (n,) GPUs that each can use at a time; None: no limit. With a limit, negative GPUs count as none.
    """
    gpus = np.broadcast_to(gpus, per_gpu.shape)
    if most is None:
        return np.asarray((per_gpu * gpus).sum(axis=1))
    order = np.argsort(-per_gpu, axis=1, kind="stable")
    best, there = np.take_along_axis(per_gpu, order, axis=1), np.take_along_axis(gpus, order, axis=1)
    return _used(zip(best.T, there.T, strict=True), most)


def cross_rates(
    per_gpu: Numbers, gpus: Numbers, weight: Numbers, most: Numbers | None = None, rows: slice | list[int] = slice(None)
) -> Numbers:
    """(len(rows), n) rate of the row's entity with the column's GPUs times ``weight[row] / weight[column]``.

    Two entities with a limit use the column's GPUs at the times at which the column has them: of a gang of ``most[o]``
    GPUs that runs part of the time, e uses ``min(weight[e] / weight[o] most[o], most[e])`` in that time. Where the
    other has more GPUs than it can use all the time, they count as averages, as in :func:`rate_with`.

    Parameters
    ----------
    per_gpu, gpus, most:
        As in :func:`rate_with`; ``gpus`` is (n, k).
    weight:
        (n,) importance.
    rows:
        Positions of the entities that compare; default all.
    """
    per_weight, mine, per_gpu = (gpus / weight[:, None]).T, weight[rows, None], per_gpu[rows]
    if most is None:
        return np.asarray((per_gpu @ per_weight) * mine)
    order = np.argsort(-per_gpu, axis=1, kind="stable")
    best = np.take_along_axis(per_gpu, order, axis=1)
    used = ((best[:, [j]], per_weight[order[:, j]]) for j in range(per_gpu.shape[1]))
    on_average = _used(used, most[rows, None] / mine) * mine  # up to m of c times the GPUs: c times (m/c of the GPUs)
    return np.asarray(np.minimum(on_average, (per_gpu @ gpus.T) * usable(weight, most, rows)))


def usable(weight: Numbers, most: Numbers | None, rows: slice | list[int] = slice(None)) -> Numbers:
    """(len(rows), n) part of the column's GPUs, times the ratio of weights, that the row's entity can use."""
    ratio = weight[rows, None] / weight
    return np.asarray(ratio if most is None else np.minimum(ratio, most[rows, None] / most))


def _used(types: Iterable[tuple[Numbers, Numbers]], left: Numbers) -> Numbers:
    """Sum of rates of GPUs used, at most ``left`` GPUs; ``types``: (rate per GPU, GPUs) of each, the fastest first."""
    total: Any = 0
    for per_gpu, gpus in types:
        used = np.minimum(np.maximum(gpus, 0), left)
        total, left = total + per_gpu * used, left - used
    return np.asarray(total)
