"""Rates of entities with their own GPUs and with those of others, fair rates, and measures of envy and of sharing.

With v[e](x) the rate of entity e with GPUs x, pi the weights and m all GPUs of the cluster, e compares its rate ``own =
v[e](x[e])`` with ``cross = v[e](pi[e]/pi[o] x[o])``, its rate with the GPUs of o. The difference, in the unit of rates,
is its envy of o. Tables need it without a unit, and there are two ways to divide it:

relative envy
    ``cross / own - 1``: by how many times its own rate e would gain. :func:`relative_envy`; used where policies are
    compared.
cluster envy
    ``(cross - own) / v[e](m)``: the gain as a part of e's rate with the whole cluster. :func:`cluster_envy`; used by
    audits and by the metrics of simulations. It is finite for an entity that has nothing, and adds up over time.

The rate that a policy must at least give to be fair differs among papers. For tenants, whose rates are linear, all
three are the same; for a job, whose gang runs at most all the time, none is less than the next:

equal-share rate
    ``pi[e] / sum(pi) sum_k v[e,k] m[k]``, not limited to the gang: the reference of Gavel's max-min fairness and
    makespan. :func:`equal_share_rate`.
fair-part rate
    ``v[e](pi[e] / sum(pi) m)``: the best rate with the fair part of every GPU type, the fastest types first. The
    reference of the sharing incentive. :func:`fair_part_rate`.
isolated rate
    The equal share, its parts of time scaled down in proportion where they sum to more than the whole time: the
    reference of Gavel's finish-time fairness. :func:`isolated_rate`.

The sharing incentive compares ``own`` with the fair-part rate ``fair``:

sharing ratio
    ``own / fair``; from 1 on the sharing incentive holds. :func:`sharing_ratio`; used where policies are compared, and
    by the metrics of simulations.
cluster surplus
    ``(own - fair) / v[e](m)``; from 0 on the sharing incentive holds. :func:`cluster_surplus`; used by audits. It is
    finite for an entity whose fair-part rate is 0.

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


def weight_part(weight: Numbers) -> Numbers:
    """Each weight's part of their sum, along the last axis; 0 where all are 0."""
    whole = weight.sum(axis=-1, keepdims=True)
    return np.asarray(weight / np.where(whole > 0, whole, 1))


def fair_part(weight: Numbers, capacity: Numbers) -> Numbers:
    """(n, k) GPUs of each entity if every GPU type is divided by weight."""
    return np.asarray(weight_part(weight)[:, None] * capacity)


def fair_part_rate(per_gpu: Numbers, weight: Numbers, capacity: Numbers, most: Numbers | None = None) -> Numbers:
    """(n,) fair-part rate: the rate with the part ``weight / sum(weight)`` of every GPU type.

    The reference of the sharing incentive, [OEF, section 2.3.1 (3)]: ``w[l].m / n`` for n tenants of equal weight.
    Parameters as in :func:`rate_with`.
    """
    return rate_with(per_gpu, fair_part(weight, capacity), most)


def equal_share_rate(entities: Entities, weight: Numbers | None = None) -> Numbers:
    """(..., n) equal-share rate: that part of the rate with the whole cluster that the weight is of all weights.

    ``throughput(e, X_equal)`` of [Gavel, section 4.1], up to a factor common to all. It is linear, so a job may need
    more than all its time for it; for tenants it is the :func:`fair_part_rate`.

    Parameters
    ----------
    entities:
        n tenants or jobs.
    weight:
        (..., n) weights, e.g. of the tenants that are present; default those of the entities.
    """
    part = weight_part(entities.weight if weight is None else weight)
    return np.asarray(part * (entities.per_gpu @ entities.capacity))


def isolated_rate(entities: Entities) -> Numbers:
    """(n,) isolated rate: with :func:`isolated_time` on each GPU type; work per second for jobs, no unit for tenants.

    ``throughput(e, X_isolated)`` of [Gavel, section 4.2].
    """
    return np.asarray((entities.speed @ entities.capacity) * isolated_time(entities))


def isolated_time(entities: Entities) -> Numbers:
    """(n,) share of each entity per GPU of every type, if it is isolated in its fair part; of jobs, parts of time."""
    part = weight_part(entities.weight) / entities.demand
    return isolated_part(part, entities.capacity.sum()) if entities.kind == "jobs" else part


def isolated_part(part: Numbers, gpus: float) -> Numbers:
    """Part of time that jobs alone on ``part`` of a cluster run per GPU of it: together at most all the time."""
    return np.minimum(part, 1.0 / max(gpus, 1.0))


def sharing_ratio(own: Numbers, fair: Numbers) -> Numbers:
    """``own`` rate relative to the fair-part rate; below 1: the sharing incentive is violated. NaN where that is 0."""
    return np.asarray(np.divide(own, fair, out=np.full(fair.shape, np.nan), where=fair > 0))


def cluster_surplus(own: Numbers, fair: Numbers, whole: Numbers) -> Numbers:
    """``own`` rate beyond the fair-part rate, as a part of the rate with the whole cluster.

    Below 0: the sharing incentive is violated.
    """
    return np.asarray((own - fair) / whole)


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
    if most is None:
        return np.asarray((per_gpu * gpus).sum(axis=1))
    gpus = np.broadcast_to(gpus, per_gpu.shape)
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
