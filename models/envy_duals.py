"""From bundles and forces of a market back to the program [OEF, eq. 10]: shares, duals, and the bound they prove."""

from __future__ import annotations

import numpy as np

from hetopt.entities import Entities, Floats
from hetopt.models.envy_menu import Ints
from hetopt.models.fairness import EnvyFree
from hetopt.models.oef_arrays import capacity_program
from hetopt.point import Point

Forces = tuple[Ints, Ints, Floats]
"""Tenants, those whom they must not envy, and how hard."""


def proven_point(entities: Entities, kind: Ints, bundles: Floats, forces: Forces, seconds: float, passes: int) -> Point:
    """The point of ``bundles`` and the bound of ``forces``.

    Parameters
    ----------
    entities, kind:
        n entities, and which tenant of the market each of them is.
    bundles:
        (n, k) GPUs per unit of weight, in any unit.
    forces:
        Between tenants of the market, objective per unit of taste in the market's unit.

    Returns
    -------
    Point
        ``row_dual`` is feasible in the dual by construction: prices of the GPU types are the least that leave no
        column with a gain, whatever the forces are.
    """
    share = _shares(entities, bundles)
    first, second, dual = _between_entities(entities, kind, forces)
    rows = EnvyFree().rows(entities, first, second)
    program = capacity_program(entities)
    worth = (program.c - rows.share.T @ dual).reshape(entities.shape)
    prices = np.maximum(np.where(entities.allowed, worth / entities.demand[:, None], 0.0).max(axis=0), 0.0)
    program = program.with_rows(rows)
    row_dual = np.concatenate([prices, dual])
    return Point(
        program,
        share.ravel(),
        objective=float(program.c @ share.ravel()),
        bound=float(prices @ entities.capacity),
        status="optimal",
        row_dual=row_dual,
        reduced_cost=program.c - program.A.T @ row_dual,
        seconds=seconds,
        method="bundles",
        passes=passes,
    )


def _shares(entities: Entities, bundles: Floats) -> Floats:
    """(n, k) shares in proportion to weight times bundle, as many as the fullest GPU type allows."""
    gpus = np.where(entities.allowed, bundles * entities.weight[:, None], 0.0)
    used = gpus.sum(axis=0)
    fits = np.divide(entities.capacity, used, out=np.full(len(used), np.inf), where=used > 0).min()
    return np.asarray(gpus * fits / entities.demand[:, None])


def _between_entities(entities: Entities, kind: Ints, forces: Forces) -> Forces:
    """Pairs of entities and the dual of their row (<= 0, since the rows are bounded from below).

    A force between two tenants of the market is divided among the entities that they stand for by weight.
    """
    envious, envied, force = forces
    first, second, part = envious, envied, np.ones(len(force))
    if len(np.unique(kind)) < len(kind):
        first, second, part, source = _divided(entities.weight, kind, envious, envied)
        force = force[source]
    else:
        position = np.argsort(kind)
        first, second = position[envious], position[envied]
    top = entities.per_gpu.max(axis=1)
    unit = np.bincount(kind, entities.weight * top).mean()
    return first, second, -unit * force * part / (entities.weight[first] * entities.weight[second] * top[first])


def _divided(weight: Floats, kind: Ints, envious: Ints, envied: Ints) -> tuple[Ints, Ints, Floats, Ints]:
    """Pairs of members, their part of the force between their kinds, and which force that is.

    Only what each member sends and receives in all matters, so few pairs suffice: lay the members of both kinds along
    the interval [0, 1] by weight; a pair's part is the overlap.
    """
    order = np.argsort(kind, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(kind))[:-1])
    ends = [np.cumsum(weight[m]) / weight[m].sum() for m in members]
    first, second, part, source = [], [], [], []
    for r, (a, b) in enumerate(zip(envious.tolist(), envied.tolist(), strict=True)):
        cuts = np.union1d(ends[a][:-1], ends[b][:-1])
        middle = (np.append(0.0, cuts) + np.append(cuts, 1.0)) / 2
        first.append(members[a][np.searchsorted(ends[a][:-1], middle)])
        second.append(members[b][np.searchsorted(ends[b][:-1], middle)])
        part.append(np.diff(np.concatenate([[0.0], cuts, [1.0]])))
        source.append(np.full(len(middle), r))
    none = [np.empty(0, dtype=np.intp)]
    joined = [np.concatenate(parts or none) for parts in (first, second, part, source)]
    return joined[0], joined[1], joined[2], joined[3]
