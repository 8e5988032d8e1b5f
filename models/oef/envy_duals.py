"""Mapping bundles and duals of a market to the program [OEF, eq. 10]: shares, duals, and the proven bound."""

from __future__ import annotations

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.models.fairness import place
from hetopt.models.oef.envy_menu import Ints
from hetopt.programs.compiled import Compiled
from hetopt.programs.point import Point
from hetopt.tolerances import FINE

Duals = tuple[Ints, Ints, Floats]
"""(envious, envied, dual) of envy rows."""


def proven_point(compiled: Compiled, kind: Ints, bundles: Floats, duals: Duals, seconds: float, passes: int) -> Point:
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
        Duals of envy rows between tenants of the market, objective per unit of taste in the market's unit.

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
    ((name, family),) = compiled.families
    cuts = compiled.cuts([(name, family.make(place(first, second, n)))])
    program, at = compiled.program.with_rows(cuts), compiled.rows_of("capacity")
    worth = (program.c - cuts.matrix.T @ dual).reshape(n, k)
    prices = np.maximum(np.where(entities.allowed, worth / entities.demand[:, None], 0.0).max(axis=0), 0.0)
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
    return np.asarray(gpus * fits / entities.demand[:, None])


def _between_entities(entities: Entities, kind: Ints, duals: Duals) -> Duals:
    """Pairs of entities and the dual (<= 0) of their row."""
    top = entities.per_gpu.max(axis=1)
    worth = entities.weight * top
    envious, envied, dual = duals
    scaled = dual * np.bincount(kind, worth).mean()
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


def _across(weight: Floats, members: list[Ints], duals: Duals) -> list[Duals]:
    """Duals between tenants of the market, divided among their entities by weight."""
    result: list[Duals] = [(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0))]
    for a, b, dual in zip(*(f.tolist() for f in duals), strict=True):
        first, second, part = _overlaps(weight[members[a]], weight[members[b]])
        result.append((members[a][first], members[b][second], dual * part))
    return result


def _within(entities: Entities, members: list[Ints]) -> list[Duals]:
    """Duals between entities of one taste: from those with less worth per weight to those with more."""
    worth = entities.weight * entities.per_gpu.max(axis=1)
    result: list[Duals] = []
    for own in members:
        lack = entities.weight[own] * (worth[own].sum() / entities.weight[own].sum()) - worth[own]
        less, more = np.flatnonzero(lack > FINE * worth[own]), np.flatnonzero(lack < -FINE * worth[own])
        if len(less) and len(more):
            first, second, part = _overlaps(lack[less], -lack[more])
            result.append((own[less][first], own[more][second], lack[less].sum() * part))
    return result


def _overlaps(a: Floats, b: Floats) -> tuple[Ints, Ints, Floats]:
    """Pairs (i, j) and parts (sum 1) that transport ``a`` to ``b`` in proportion, with few pairs.

    Only row and column sums matter: both are laid along the interval [0, 1], and the parts are the overlaps.
    """
    ends_a, ends_b = (np.cumsum(amounts)[:-1] / amounts.sum() for amounts in (a, b))
    cuts = np.union1d(ends_a, ends_b)
    low, high = np.append(0.0, cuts), np.append(cuts, 1.0)
    middle = (low + high) / 2
    return np.searchsorted(ends_a, middle), np.searchsorted(ends_b, middle), high - low
