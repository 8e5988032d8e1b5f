"""Cooperative OEF for many tenants: an optimum has few distinct bundles, so start with few groups and split them.

Tenants in a group take the same bundle (per unit of weight). Each round finds the best bundles for the current groups
(:func:`~hetopt.models.oef.envy_menu.best_menu`) and splits every group that gains by it
(:func:`~hetopt.models.oef.envy_groups.splits`); groups with the same bundle are joined. If no group gains by a split,
the duals prove optimality for the whole program [OEF, eq. 10]. The initial groups come from the menu of every third
tenant, found in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from hetopt.data.entities import Entities, Floats
from hetopt.errors import NotSolved
from hetopt.models.fairness import EnvyFree
from hetopt.models.objectives import TotalRate
from hetopt.models.oef.envy_duals import proven_point
from hetopt.models.oef.envy_groups import Splits, splits
from hetopt.models.oef.envy_menu import Ints, Market, Menu, best_menu
from hetopt.programs.compiled import Compiled
from hetopt.programs.point import Point
from hetopt.solving.methods import Method, exactly
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN, START, scale

FEW = 40
"""Up to so many tenants every tenant starts in its own group."""

STRIDE = 3
"""The initial menu is that of every third tenant."""

PARTS = 6
"""Largest number of groups that one group is split into; more cost more in the next menu than they save in rounds."""


def by_bundles(compiled: Compiled, options: Options) -> Point:
    """The optimum of :func:`hetopt.models.oef.programs.cooperative`, with a bound proven by weak duality.

    Instances with few tenants are solved by a general solver, and so are those with a proven relative gap above
    ``FEASIBILITY``, the accuracy of the shares.

    Raises
    ------
    NotSolved
        The time limit of ``options`` came first.
    """
    if compiled.families:
        point = part_by_part(compiled, options)
        if point.bound - point.objective <= FEASIBILITY * point.bound:
            return point
    return optimise(compiled.program, options, compiled.separation())


def part_by_part(compiled: Compiled, options: Options) -> Point:
    """:func:`by_bundles` for any size, and without the check of the proof."""
    began = time.perf_counter()
    market, kind = market_of(compiled.entities)
    found = _solve(market, PROVEN, options, began)
    bundles = found.menu.bundles[found.menu.group][kind]
    duals = found.splits.envious, found.splits.envied, found.splits.dual
    return proven_point(compiled, kind, bundles, duals, time.perf_counter() - began, found.rounds)


def _serves(compiled: Compiled) -> bool:
    return compiled.entities.kind == "tenants" and exactly(TotalRate, EnvyFree)(compiled)


METHOD = Method("oef-cooperative", _serves, by_bundles)


@dataclass(frozen=True, eq=False)
class _Found:
    """A menu, the best splits of its groups, and the number of rounds."""

    menu: Menu
    splits: Splits
    rounds: int


def _solve(market: Market, gap: float, options: Options, began: float) -> _Found:
    """The best menu for ``market`` up to the relative ``gap``."""
    group = _first_groups(market, options, began)
    envious = envied = np.empty(0, dtype=np.intp)
    best, rounds = -np.inf, 0
    while True:
        menu = best_menu(market, group, envious, envied, options)
        rounds += 1
        better = menu.objective > best * (1 + PROVEN)
        if better:  # only then, so that joining and splitting cannot cycle
            best, menu = menu.objective, _joined(menu)
        members = np.split(np.argsort(menu.group, kind="stable"), np.cumsum(np.bincount(menu.group))[:-1])
        answer = splits(market, menu, gap, options)
        parts = [
            _parts(market, t, answer.bundles[t], PARTS if better else len(t)) if gain > gap else np.zeros_like(t)
            for t, gain in zip(members, answer.gain, strict=True)
        ]
        if not any(part.any() for part in parts):
            return _Found(menu, answer, rounds)
        if options.time_limit is not None and time.perf_counter() - began > options.time_limit:
            raise NotSolved(f"no proof within time_limit={options.time_limit:g} s; raise the limit", "time_limit")
        group, envious, envied = _split(menu, members, parts)


def _first_groups(market: Market, options: Options, began: float) -> Ints:
    """Groups of tenants with the same favourite bundle in the menu of a sample."""
    if market.size <= FEW:
        return np.arange(market.size)
    menu = _solve(market.part(np.arange(0, market.size, STRIDE)), START, options, began).menu
    favourite = (market.taste @ menu.bundles.T).argmax(axis=1)
    return np.unique(favourite, return_inverse=True)[1]


def _joined(menu: Menu) -> Menu:
    """``menu`` with groups that take the same bundle joined into one."""
    alike = _alike(menu.bundles)
    groups = int(alike.max()) + 1
    group, envied = alike[menu.group], alike[menu.envied]
    bundles = np.empty((groups, menu.bundles.shape[1]))
    bundles[alike] = menu.bundles
    other = group[menu.envious] != envied
    pair, where = np.unique(menu.envious[other] * groups + envied[other], return_inverse=True)
    dual = np.bincount(where, menu.dual[other], len(pair)).astype(float)
    return Menu(group, bundles, menu.objective, menu.prices, pair // groups, pair % groups, dual)


def _alike(bundles: Floats) -> Ints:
    """Class of each of the ``bundles``; equal up to rounding means same class."""
    rounded = np.round(bundles / (EQUAL * scale(bundles)))
    return np.asarray(np.unique(rounded, axis=0, return_inverse=True)[1]).ravel()


def _parts(market: Market, tenants: Ints, bundles: Floats, most: int) -> Ints:
    """The part, 0 … most - 1, of each of ``tenants`` of a group, given the directions ``bundles`` of its split."""
    alike = _alike(bundles)
    if alike.max() < most:
        return alike
    size = np.bincount(alike, market.weight[tenants])
    largest = np.argsort(-size, kind="stable")[:most]
    directions = bundles[np.unique(alike, return_index=True)[1][largest]]
    favourite = (market.taste[tenants] @ directions.T).argmax(axis=1)
    parts = np.unique(favourite, return_inverse=True)[1]
    return parts if parts.any() else alike


def _split(menu: Menu, members: list[Ints], parts: list[Ints]) -> tuple[Ints, Ints, Ints]:
    """New groups, and the initial rows: the binding ones, towards every part of the envied group."""
    group, children, groups = menu.group.copy(), [], len(members)
    for g, (tenants, part) in enumerate(zip(members, parts, strict=True)):
        own = np.append(g, np.arange(groups, groups + part.max()))
        groups += int(part.max())
        group[tenants] = own[part]
        children.append(own)
    counts = np.array([len(own) for own in children])
    envied = [children[g] for g in menu.envied] or [menu.envied]
    return group, np.repeat(menu.envious, counts[menu.envied]), np.concatenate(envied)


def market_of(entities: Entities) -> tuple[Market, Ints]:
    """The market of distinct tastes, and the tenant of the market for each entity.

    Entities with equal taste can take the same bundle per weight: the mean of envy-free bundles is envy-free.
    """
    top = entities.per_gpu.max(axis=1)
    taste, kind = np.unique(entities.per_gpu / top[:, None], axis=0, return_inverse=True)
    kind = kind.ravel()
    weight, worth = np.bincount(kind, entities.weight), np.bincount(kind, entities.weight * top)
    n = len(taste)
    capacity = entities.capacity / entities.capacity.max() * n
    return Market(taste, worth / worth.mean(), weight / weight.mean(), capacity), kind
