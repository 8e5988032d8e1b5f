"""Non-cooperative OEF for many tenants: its linear program as balancing of divisible work over k GPU types.

With t[e, j] = weight[e] / (v[e, j] * capacity[j]) (v: speed per GPU) a tenant's work is one unit of rate per weight,
and the least time in which the types can do all work is the inverse of the largest common level of [OEF, eq. 9]. Its
dual has one price per GPU type; :mod:`~hetopt.models.oef.price_tree` finds prices and split. The prices of any split
bound the least time from below (weak duality), which proves the result.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.rates import equal_share_rate
from hetopt.models.fairness_components import EqualRates
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.price_tree import balance, busiest
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.solving.optimising import Method, exactly, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import FINE, PROVEN


def distributed(split: Floats, group: NDArray[np.intp], weight: Floats) -> Floats:
    """(n, k) split of every member from the (g, k) ``split`` of its group: members fill one type after the other.

    So all members of a group except at most (types of the group - 1) use a single type, and a vertex stays a vertex.
    Members and types are taken in increasing order of weight and part, so that differences of sums keep their digits.
    """
    result = np.asarray(split[group])
    for g in np.flatnonzero((split > 0).sum(axis=1) > 1):
        types = np.flatnonzero(split[g])
        types = types[split[g, types].argsort(kind="stable")]
        members = np.flatnonzero(group == g)
        members = members[weight[members].argsort(kind="stable")]
        until, filled = np.cumsum(weight[members]), np.cumsum(split[g, types])
        filled *= until[-1] / filled[-1]
        begun = np.maximum(np.append(0.0, until[:-1])[:, None], np.append(0.0, filled[:-1]))
        part = np.minimum(until[:, None], filled) - begun
        part[part <= FINE * weight[members, None]] = 0.0
        result[np.ix_(members, types)] = part / part.sum(axis=1, keepdims=True)
    return result


def by_prices(compiled: Compiled, options: Options) -> Point:
    """The optimum of :func:`~hetopt.models.oef.oef_formulations.noncooperative`, a vertex, proven by weak duality.

    If the proof fails, a general solver is used; at the time limit, the point is feasible and its bound is proven.
    """
    began, entities = time.perf_counter(), compiled.entities
    usable = entities.capacity > 0
    able = equal_share_rate(entities) > 0
    program = compiled.program
    if not able.any():
        return Point(program, np.zeros(len(program.c)), 0.0, bound=0.0, status="optimal", method="prices")
    weight = entities.weight[able]
    speeds, group = _distinct(entities.per_gpu[np.ix_(able, usable)])
    with np.errstate(divide="ignore"):
        unit = 1.0 / (speeds * entities.capacity[usable])
    balanced = balance(unit * np.bincount(group, weight)[:, None], options)
    split = distributed(balanced.split, group, weight)
    shares, level = _columns(entities, able, usable, split, busiest(unit[group] * weight[:, None], split))
    x = np.append(shares, level)
    prices, dual = _duals(entities, able, usable, balanced.prices / entities.capacity[usable])
    dual = np.concatenate([prices, dual])
    point = Point(
        program,
        x,
        objective=program.objective(x),
        bound=float(prices @ entities.capacity),
        status="optimal",
        row_dual=dual,
        seconds=time.perf_counter() - began,
        method="prices",
    )
    if point.bound - point.objective <= PROVEN * point.bound:
        return point
    return replace(point, status="time_limit") if options.left == 0 else optimise(program, options)


METHOD = Method("oef-noncooperative", exactly(TotalRate, EqualRates), by_prices)


def _distinct(rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """The distinct ``rows``, and the index of each row among them; tenants often run the same few models.

    Equal rows have equal random sums, which are faster to sort.
    """
    key = (rows * np.random.default_rng(0).random(rows.shape[1])).sum(axis=1)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if (rows[first[group]] == rows).all():
        return rows[first], group
    distinct, group = np.unique(rows, axis=0, return_inverse=True)
    return distinct, group.ravel()


def _columns(
    entities: Entities, able: NDArray[np.bool_], usable: NDArray[np.bool_], split: Floats, least_time: float
) -> tuple[Floats, float]:
    """(n * k,) shares that give the able tenant e the rate weight[e] / least_time, and that rate per weight."""
    rate, them = split * (entities.weight[able] / least_time)[:, None], np.ix_(able, usable)
    share = np.zeros(entities.shape)
    share[them] = np.divide(rate, entities.speed[them], out=np.zeros_like(rate), where=rate > 0)
    return share.ravel(), 1.0 / least_time


def _duals(
    entities: Entities, able: NDArray[np.bool_], usable: NDArray[np.bool_], prices: Floats
) -> tuple[Floats, Floats]:
    """(k,) and (n,) duals of capacity and of equal rates from any ``prices`` per GPU of the usable types.

    A unit of rate costs tenant e ``least[e] = min_j price[j] / v[e, j]``. Once prices are scaled so that ``weight @
    least = sum(weight)``, they and ``1 - least`` on the rows ``rate[e] - weight[e] * level = 0`` are dual feasible.
    Tenants that can use no GPU are excluded: their ``least`` is 0.
    """
    v = entities.per_gpu[:, usable]
    least = np.divide(prices, v, out=np.full(v.shape, np.inf), where=v > 0).min(axis=1)
    least[~able] = 0.0
    factor = entities.weight[able].sum() / (entities.weight @ least)
    least *= factor
    capacity = np.zeros(len(usable))
    capacity[usable] = factor * prices
    capacity[~usable] = (least[:, None] * entities.per_gpu[:, ~usable]).max(axis=0)
    return capacity, 1.0 - least
