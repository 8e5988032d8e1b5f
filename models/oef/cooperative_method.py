"""Cooperative OEF for many tenants, by an interior-point method over bundles with lazy envy rows.

Tenants of one taste (speeds up to a factor) take the same bundle (GPUs per unit of weight), since the mean of envy-free
bundles is envy-free. :func:`~hetopt.models.oef.bundle_interior_point.best_bundles` solves the market of distinct
tastes, and :func:`proven_point` maps bundles and multipliers to the whole program, where they prove optimality.

**Nearly equal tastes.** If every entry of t[i] is within the relative distance a of t[c], the bundle of c in a market
without i is also free of envy for i up to 2 a of its value: ``t[i].(y[j] - y[c]) <= t[c].(y[j] - y[c]) + a t[c].(y[j] +
y[c])``, with ``t[c].y[j] <= t[c].y[c]``. So tastes closer than ``PROVEN``, or ``ALIKE``, are solved as one. Weak
duality holds for any multipliers, but errors raise columns of small tenants most, and one such column raises a price
for all: what it exceeds the price by is moved to a large tenant by a further envy row, where it counts little.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.errors import NotSolved
from hetopt.models.fairness_components import EnvyFree, pair_of_row, row_excess, row_of_pair
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.bundle_interior_point import BundleMarket, best_bundles, levelling
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point
from hetopt.solving.optimising import Method, exactly, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import ALIKE, FEASIBILITY, FINE, PROVEN

Duals = tuple[Positions, Positions, Floats]
"""(envious, envied, dual) of envy rows."""

FEW_MERGED = 0.9
"""Tastes are not merged further if more than this part of them remain: the market would be as hard as before."""


def proven_point(
    compiled: Compiled, kind: Positions, bundles: Floats, duals: Duals, price: Floats, seconds: float, passes: int
) -> Point:
    """The point of ``bundles`` and the bound of ``duals``.

    Parameters
    ----------
    compiled:
        The program; of its envy rows, only those with a nonzero dual are written out.
    kind:
        (n,) tenant of the market for each entity.
    bundles:
        (n, k) GPUs per unit of weight, in any unit.
    duals:
        Duals of envy rows between tenants of the market, objective per unit of taste.
    price:
        (k,) prices of GPUs, objective per GPU, that columns should not exceed; see :func:`_levelled`.

    Returns
    -------
    Point
        ``row_dual`` is dual feasible by construction: for any ``duals``, prices of the GPU types are the smallest for
        which no column has a positive reduced cost.
    """
    entities = compiled.entities
    share = _shares(entities, bundles)
    duals = _between_entities(entities, kind, duals)
    point, excess = _with_duals(compiled, share, duals, price)
    if point.bound - point.objective > PROVEN * point.bound:
        levelled, _ = _with_duals(compiled, share, _levelled(entities, excess, duals), price)
        point = min(point, levelled, key=lambda p: p.bound)
    return replace(point, seconds=seconds, passes=passes)


def _with_duals(compiled: Compiled, share: Floats, duals: Duals, price: Floats) -> tuple[Point, Floats]:
    """The point of ``share`` with the bound of ``duals``, and (n, k) by how much columns exceed ``price`` per GPU."""
    entities, (first, second, dual) = compiled.entities, duals
    n, k = entities.shape
    ((name, family),) = compiled.lazy_families
    cuts = compiled.cuts([(name, family.make(row_of_pair(first, second, n)))])
    program, at = compiled.program.with_rows(cuts), compiled.rows_of("capacity")
    gain = (program.c - cuts.matrix.T @ dual).reshape(n, k)
    per_gpu = np.where(entities.allowed, gain / entities.demand[:, None], 0.0)
    prices = np.maximum(per_gpu.max(axis=0), 0.0)
    row_dual = np.zeros(program.shape[0])
    row_dual[at], row_dual[len(row_dual) - len(dual) :] = prices, dual
    objective, bound = float(program.c @ share.ravel()), float(prices @ entities.capacity)
    point = Point(
        program, share.ravel(), objective=objective, bound=bound, status="optimal", row_dual=row_dual, method="bundles"
    )
    return point, per_gpu - price


def _levelled(entities: Entities, excess: Floats, duals: Duals) -> Duals:
    """Duals with those of :func:`~hetopt.models.oef.bundle_interior_point.levelling`."""
    able = np.where(entities.allowed, entities.per_gpu, 0.0) * entities.weight[:, None]
    first, second, on, moved = levelling(able, excess)
    rows = np.concatenate([row_of_pair(*duals[:2], len(able)), row_of_pair(first, second, len(able))])
    row, place = np.unique(rows, return_inverse=True)
    dual = np.zeros(len(row))
    np.add.at(dual, place, np.concatenate([duals[2], -moved / able[first, on]]))
    return *pair_of_row(row, len(able)), dual


def _shares(entities: Entities, bundles: Floats) -> Floats:
    """(n, k) shares in proportion to weight times bundle, scaled to fill the tightest GPU type."""
    gpus = np.where(entities.allowed, bundles * entities.weight[:, None], 0.0)
    used = gpus.sum(axis=0)
    fits = np.divide(entities.capacity, used, out=np.full(len(used), np.inf), where=used > 0).min()
    return np.asarray(gpus * (fits if np.isfinite(fits) else 0.0) / entities.demand[:, None])


def _between_entities(entities: Entities, kind: Positions, duals: Duals) -> Duals:
    """Pairs of entities and the dual (<= 0) of their row."""
    top = _top(entities)
    members = np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])
    parts = *_across(entities.weight, members, duals), *_among_alike(entities, members)
    first, second, scaled = (np.concatenate(own) for own in zip(*parts, strict=True))
    return first, second, -scaled / (entities.weight[first] * entities.weight[second] * top[first])


def _across(weight: Floats, members: list[Positions], duals: Duals) -> list[Duals]:
    """Duals between tenants of the market, divided among their entities by weight."""
    size = np.array([len(own) for own in members])
    head = np.array([own[0] for own in members])
    envious, envied, dual = duals
    single = (size[envious] == 1) & (size[envied] == 1)
    result: list[Duals] = [(head[envious[single]], head[envied[single]], dual[single])]
    for a, b, part_of in zip(*(f[~single].tolist() for f in duals), strict=True):
        first, second, part = _overlaps(weight[members[a]], weight[members[b]])
        result.append((members[a][first], members[b][second], part_of * part))
    return result


def _among_alike(entities: Entities, members: list[Positions]) -> list[Duals]:
    """Duals between entities of one taste: from those with less gain per weight to those with more."""
    gain = entities.weight * _top(entities)
    result: list[Duals] = []
    for own in members:
        lack = entities.weight[own] * (gain[own].sum() / entities.weight[own].sum()) - gain[own]
        less, more = np.flatnonzero(lack > FINE * gain[own]), np.flatnonzero(lack < -FINE * gain[own])
        if len(less) and len(more):
            first, second, part = _overlaps(lack[less], -lack[more])
            result.append((own[less][first], own[more][second], lack[less].sum() * part))
    return result


def _overlaps(a: Floats, b: Floats) -> tuple[Positions, Positions, Floats]:
    """Pairs (i, j) and parts (sum 1) that transport ``a`` to ``b`` in proportion, with few pairs.

    Only row and column sums matter: both are laid along the interval [0, 1], and the parts are the overlaps.
    """
    ends_a, ends_b = (np.cumsum(amounts)[:-1] / amounts.sum() for amounts in (a, b))
    cuts = np.union1d(ends_a, ends_b)
    low, high = np.append(0.0, cuts), np.append(cuts, 1.0)
    middle = (low + high) / 2
    return np.searchsorted(ends_a, middle), np.searchsorted(ends_b, middle), high - low


def by_bundles(compiled: Compiled, options: Options) -> Point:
    """The optimum of :func:`hetopt.models.oef.oef_formulations.cooperative`, with a bound proven by weak duality.

    At the time limit it returns the best shares and bound found. With nearly equal tastes, the proven relative gap may
    stay above ``FEASIBILITY``, the accuracy of the shares; if it is above ``options.gap`` as well, a general solver
    continues from the rows that nearly bind.
    """
    options = options.started()
    point = bundled_point(compiled, options)
    if _within(point, FEASIBILITY):
        return point
    if options.left == 0:
        return replace(point, status="time_limit")
    if _within(point, options.gap):
        return replace(point, status="gap")
    try:
        found = optimise(_with_active_rows(compiled, point), options, compiled.separation())
    except NotSolved as failure:
        if failure.status == "time_limit":
            return replace(point, status="time_limit")
        gap = (point.bound - point.objective) / point.bound
        raise NotSolved(f"{failure}; with gap={2 * gap:.1g}, shares are proven without it", failure.status) from failure
    if found.status == "time_limit" and found.objective < point.objective:
        return replace(point, bound=min(point.bound, found.bound), status="time_limit")
    if point.bound < found.bound:
        found = replace(point, x=found.x, objective=found.objective, status=found.status, method=found.method)
    return found


def _with_active_rows(compiled: Compiled, point: Point) -> LinearProgram:
    """The program with the envy rows that nearly bind at ``point``: if it is nearly optimal, few others matter."""
    entities, ((name, family),) = compiled.entities, compiled.lazy_families
    tight = row_excess(entities, point.share) >= -FEASIBILITY * entities.rate(point.share)[:, None]
    np.fill_diagonal(tight, False)
    first, second = np.nonzero(tight)
    rows = family.make(row_of_pair(first, second, len(tight)))
    return compiled.program.with_rows(compiled.cuts([(name, rows)]))


def _within(point: Point, gap: float) -> bool:
    return point.bound - point.objective <= gap * point.bound


def bundled_point(compiled: Compiled, options: Options) -> Point:
    """:func:`by_bundles` for any size, and without the check of the proof.

    Tastes that differ by up to ``PROVEN`` count as one; if the gap stays above ``options.gap``, by up to ``ALIKE``.
    """
    began, distinct = time.perf_counter(), _tastes(compiled.entities)
    merged = _merged(*distinct, PROVEN)
    point = _of_tastes(compiled, options, began, *merged)
    more = _merged(*distinct, ALIKE)
    few = len(more[0]) > FEW_MERGED * len(merged[0])
    if _within(point, options.gap) or few or options.left == 0:
        return point
    other = _of_tastes(compiled, options, began, *more)
    duals, shares = min(point, other, key=lambda p: p.bound), max(point, other, key=lambda p: p.objective)
    passes = point.passes + other.passes
    return replace(duals, x=shares.x, objective=shares.objective, seconds=other.seconds, passes=passes)


def _of_tastes(compiled: Compiled, options: Options, began: float, taste: Floats, kind: Positions) -> Point:
    """The point of the market of these tastes, of which entity e has ``kind[e]``."""
    entities = compiled.entities
    served, types = np.flatnonzero(taste.any(axis=1)), np.flatnonzero(taste.any(axis=0))
    bundles, price, none = np.zeros(taste.shape), np.zeros(taste.shape[1]), np.empty(0, dtype=np.intp)
    duals, steps = (none, none, np.empty(0)), 0
    if len(served):
        market, unit, weight = _market(entities, taste, kind, served, types)
        found = best_bundles(market, options)
        bundles[np.ix_(served, types)], price[types] = found.bundles, found.price * unit / weight
        duals, steps = (served[found.envious], served[found.envied], unit * found.dual), found.steps
    return proven_point(compiled, kind, bundles[kind], duals, price, time.perf_counter() - began, steps)


def _top(entities: Entities) -> Floats:
    """(n,) speed on the fastest GPU of the cluster; 1 for entities that can use none."""
    top = np.where(entities.capacity > 0, entities.per_gpu, 0.0).max(axis=1)
    return np.where(top > 0, top, 1.0)


def _tastes(entities: Entities) -> tuple[Floats, Positions]:
    """The distinct tastes, 0 for types without GPUs, and the one of each entity."""
    speeds = np.where(entities.capacity > 0, entities.per_gpu, 0.0)
    taste, kind = np.unique(speeds / _top(entities)[:, None], axis=0, return_inverse=True)
    return taste, kind.ravel()


def _merged(taste: Floats, kind: Positions, apart: float) -> tuple[Floats, Positions]:
    """With one of all tastes whose entries differ relatively by up to ``apart`` from it."""
    group, first = np.full(len(taste), -1), list[int]()
    for i, own in enumerate(taste):
        if group[i] < 0:
            rest = np.flatnonzero(group < 0)
            group[rest[(np.abs(taste[rest] - own) <= apart * own).all(axis=1)]] = len(first)
            first.append(i)
    return taste[first], group[kind]


def _market(
    entities: Entities, taste: Floats, kind: Positions, served: Positions, types: Positions
) -> tuple[BundleMarket, float, float]:
    """The market of the tastes ``served`` over ``types``, and the units of its objective and of weight."""
    weight = np.bincount(kind, entities.weight)[served]
    gain = np.bincount(kind, entities.weight * _top(entities))[served]
    capacity, unit = entities.capacity[types], float(gain.mean())
    part = taste[np.ix_(served, types)]
    scaled = capacity / capacity.max() * len(served)
    return BundleMarket(part, gain / unit, weight / weight.mean(), scaled), unit, float(weight.mean())


def _serves(compiled: Compiled) -> bool:
    """Whether these are tenants without envy, so many that their rows are lazy; fewer are for a general solver."""
    of_class = exactly(TotalRate, EnvyFree)(compiled) and compiled.entities.kind == "tenants"
    return of_class and bool(compiled.lazy_families)


METHOD = Method("oef-cooperative", _serves, by_bundles)
