"""Cooperative OEF for many tenants, by an interior-point method over bundles with lazy envy rows.

Tenants of one taste (speeds up to a factor) take the same bundle (GPUs per unit of weight), since the mean of envy-free
bundles is envy-free. :func:`~hetopt.models.oef.bundle_interior_point.best_bundles` solves the market of distinct
tastes, and :func:`proven_point` maps bundles and multipliers to the whole program, where they prove optimality.
"""

from __future__ import annotations

import time

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.models.fairness_components import EnvyFree, row_of_pair
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.bundle_interior_point import BundleMarket, best_bundles
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.solving.optimising import Method, exactly, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import FEASIBILITY, FINE

Duals = tuple[Positions, Positions, Floats]
"""(envious, envied, dual) of envy rows."""


def proven_point(
    compiled: Compiled, kind: Positions, bundles: Floats, duals: Duals, seconds: float, passes: int
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

    Returns
    -------
    Point
        ``row_dual`` is dual feasible by construction: for any ``duals``, prices of the GPU types are the smallest for
        which no column has a positive reduced cost.
    """
    entities = compiled.entities
    n, k = entities.shape
    share = _shares(entities, bundles)
    first, second, dual = _between_entities(entities, kind, duals)
    ((name, family),) = compiled.lazy_families
    cuts = compiled.cuts([(name, family.make(row_of_pair(first, second, n)))])
    program, at = compiled.program.with_rows(cuts), compiled.rows_of("capacity")
    gain = (program.c - cuts.matrix.T @ dual).reshape(n, k)
    prices = np.maximum(np.where(entities.allowed, gain / entities.demand[:, None], 0.0).max(axis=0), 0.0)
    row_dual = np.zeros(program.shape[0])
    row_dual[at], row_dual[len(row_dual) - len(dual) :] = prices, dual
    return Point(
        program,
        share.ravel(),
        objective=float(program.c @ share.ravel()),
        bound=float(prices @ entities.capacity),
        status="optimal",
        row_dual=row_dual,
        seconds=seconds,
        method="bundles",
        passes=passes,
    )


def _shares(entities: Entities, bundles: Floats) -> Floats:
    """(n, k) shares in proportion to weight times bundle, scaled to fill the tightest GPU type."""
    gpus = np.where(entities.allowed, bundles * entities.weight[:, None], 0.0)
    used = gpus.sum(axis=0)
    fits = np.divide(entities.capacity, used, out=np.full(len(used), np.inf), where=used > 0).min()
    return np.asarray(gpus * (fits if np.isfinite(fits) else 0.0) / entities.demand[:, None])


def _between_entities(entities: Entities, kind: Positions, duals: Duals) -> Duals:
    """Pairs of entities and the dual (<= 0) of their row."""
    top = _top(entities)
    envious, envied, scaled = duals
    if len(np.unique(kind)) == len(kind):
        position = np.argsort(kind)
        first, second = position[envious], position[envied]
    else:
        order = np.argsort(kind, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(kind))[:-1])
        across = _across(entities.weight, members, (envious, envied, scaled))
        first, second, scaled = (
            np.concatenate(parts) for parts in zip(*across, *_within(entities, members), strict=True)
        )
    return first, second, -scaled / (entities.weight[first] * entities.weight[second] * top[first])


def _across(weight: Floats, members: list[Positions], duals: Duals) -> list[Duals]:
    """Duals between tenants of the market, divided among their entities by weight."""
    result: list[Duals] = [(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0))]
    for a, b, dual in zip(*(f.tolist() for f in duals), strict=True):
        first, second, part = _overlaps(weight[members[a]], weight[members[b]])
        result.append((members[a][first], members[b][second], dual * part))
    return result


def _within(entities: Entities, members: list[Positions]) -> list[Duals]:
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

    Instances with a proven relative gap above ``FEASIBILITY``, the accuracy of the shares, are solved by a general
    solver.

    Raises
    ------
    NotSolved
        The time limit of ``options`` was reached.
    """
    point = bundled_point(compiled, options)
    if point.bound - point.objective <= FEASIBILITY * point.bound:
        return point
    return optimise(compiled.program, options, compiled.separation())


def bundled_point(compiled: Compiled, options: Options) -> Point:
    """:func:`by_bundles` for any size, and without the check of the proof."""
    began, entities = time.perf_counter(), compiled.entities
    taste, kind = _tastes(entities)
    served, types = np.flatnonzero(taste.any(axis=1)), np.flatnonzero(taste.any(axis=0))
    bundles, none = np.zeros(taste.shape), np.empty(0, dtype=np.intp)
    duals, steps = (none, none, np.empty(0)), 0
    if len(served):
        market, unit = _market(entities, taste, kind, served, types)
        found = best_bundles(market, options, began)
        bundles[np.ix_(served, types)] = found.bundles
        duals, steps = (served[found.envious], served[found.envied], unit * found.dual), found.steps
    return proven_point(compiled, kind, bundles[kind], duals, time.perf_counter() - began, steps)


def _top(entities: Entities) -> Floats:
    """(n,) speed on the fastest GPU of the cluster; 1 for entities that can use none."""
    top = np.where(entities.capacity > 0, entities.per_gpu, 0.0).max(axis=1)
    return np.where(top > 0, top, 1.0)


def _tastes(entities: Entities) -> tuple[Floats, Positions]:
    """The distinct tastes, 0 for types without GPUs, and the one of each entity."""
    speeds = np.where(entities.capacity > 0, entities.per_gpu, 0.0)
    taste, kind = np.unique(speeds / _top(entities)[:, None], axis=0, return_inverse=True)
    return taste, kind.ravel()


def _market(
    entities: Entities, taste: Floats, kind: Positions, served: Positions, types: Positions
) -> tuple[BundleMarket, float]:
    """The market of the tastes ``served`` over ``types``, and the unit of its objective."""
    weight = np.bincount(kind, entities.weight)[served]
    gain = np.bincount(kind, entities.weight * _top(entities))[served]
    capacity, unit = entities.capacity[types], float(gain.mean())
    part = taste[np.ix_(served, types)]
    scaled = capacity / capacity.max() * len(served)
    return BundleMarket(part, gain / unit, weight / weight.mean(), scaled), unit


def _serves(compiled: Compiled) -> bool:
    """Whether these are tenants without envy, so many that their rows are lazy; fewer are for a general solver."""
    of_class = exactly(TotalRate, EnvyFree)(compiled) and compiled.entities.kind == "tenants"
    return of_class and bool(compiled.lazy_families)


METHOD = Method("oef-cooperative", _serves, by_bundles)
