"""Cooperative OEF for many tenants: an optimum has few distinct bundles, so start with few groups and split them.

Tenants in a group take the same bundle (GPUs per unit of weight). Each round has two steps:

1. :func:`best_menu` finds the best bundles for the current groups. Envy-freeness means that every tenant takes its
   favourite from the menu of bundles, so [OEF, eq. 10] has one column per group and GPU type instead of per tenant and
   GPU type, and one row per tenant and other group, few of which bind.
2. :func:`splits` finds for each group whether splitting it improves the objective. Let p (capacity) and f (envy) be the
   duals of the best menu. The members of a group gain by a split if bundles y (one per member) exist with

       sum_i (gain[i] + f_out[i]) taste[i].y[i]  -  sum_o f[o] max_i taste[o].y[i]  -  sum_i weight[i] p.y[i]  >  0

   where no member envies another, f_out[i] is the dual of member i's own rows, and f[o] the dual of the row in which
   the outsider o does not envy the group. If none exist, the duals of this program distribute those of the group over
   its members, which proves that no split improves the menu. The total cost of the y is scaled to 1, so the largest
   gain of a group bounds the relative gap of the objective. Small groups are batched into one block-diagonal program,
   since calling a solver takes longer than solving.

Groups with the same bundle are joined. If no group gains by a split, :func:`proven_point` maps bundles and duals to the
whole program, and they prove optimality. The initial groups come from the menu of every third tenant, found in the same
way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.errors import NotSolved
from hetopt.models.fairness_components import EnvyFree, row_of_pair
from hetopt.models.objectives import TotalRate
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point
from hetopt.solving.highs import Session
from hetopt.solving.optimising import Method, exactly, optimise
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, FINE, PROVEN, START, VIOLATED, scale

ROWS_PER_TENANT = 3
"""Rows that a tenant may add in one pass: with one, the number of passes doubles; with more, most rows do not bind."""

STALL = 2
"""Limit of dual simplex iterations per column; it usually takes less than one. Some highly degenerate programs of a
group, with optimum 0, would stall it indefinitely (about one round in thirty with 1,000 tenants)."""


@dataclass(frozen=True, eq=False)
class BundleMarket:
    """Tenants that differ in taste, in units in which bundles and prices are about 1.

    Attributes
    ----------
    taste:
        (n, k) value of a GPU of each type, largest entry of a row 1; no two rows alike.
    gain:
        (n,) objective per unit of ``taste @ bundle``.
    weight:
        (n,) units of weight; a bundle is what one unit gets. Mean 1.
    capacity:
        (k,) GPUs.
    """

    taste: Floats
    gain: Floats
    weight: Floats
    capacity: Floats

    @property
    def size(self) -> int:
        """Tenants n."""
        return len(self.taste)

    def part(self, rows: Positions) -> BundleMarket:
        """The market of a sample of tenants, scaled to the total weight."""
        grown = self.weight.sum() / self.weight[rows].sum()
        return BundleMarket(self.taste[rows], self.gain[rows] * grown, self.weight[rows] * grown, self.capacity)


@dataclass(frozen=True, eq=False)
class Menu:
    """The best bundles for given groups, and the duals that prove it.

    Attributes
    ----------
    group:
        (n,) bundle of each tenant.
    bundles:
        (groups, k) GPUs per unit of weight.
    objective:
        Total rate of all tenants, in the market's unit.
    prices:
        (k,) objective per GPU.
    envious, envied:
        r tenants and the groups that they must not envy: the binding rows.
    dual:
        (r,) duals of these rows, > 0: objective per unit of taste.
    """

    group: Positions
    bundles: Floats
    objective: float
    prices: Floats
    envious: Positions
    envied: Positions
    dual: Floats


def best_menu(market: BundleMarket, group: Positions, envious: Positions, envied: Positions, options: Options) -> Menu:
    """The best bundles for ``group``.

    Initially, rows forbid tenant ``envious[r]`` to envy group ``envied[r]``; others are added as they are violated.
    """
    n, k = market.taste.shape
    groups = int(group.max()) + 1
    session = Session(_without_envy(market, group, groups), options, presolve=False, approximate=True)
    session.set_tolerance(FINE)
    session.set_stall(STALL * groups * k)
    free = np.ones((n, groups), dtype=bool)
    free[np.arange(n), group] = False
    first, second = [], []
    while True:
        free[envious, envied] = False
        first.append(envious)
        second.append(envied)
        add_envy_rows(session, market.taste[envious], group[envious], envied, groups * k)
        x, row_dual, objective = session.values()
        bundles = np.maximum(x, 0.0).reshape(groups, k)
        value = market.taste @ bundles.T
        envious, envied = _most_envied(value, group, free, FINE * value.max())
        if not len(envious):
            break
    dual = -row_dual[k:]
    binding = dual > 0
    rows, columns = np.concatenate(first)[binding], np.concatenate(second)[binding]
    return Menu(group, bundles, objective, np.maximum(row_dual[:k], 0.0), rows, columns, dual[binding])


def _without_envy(market: BundleMarket, group: Positions, groups: int) -> LinearProgram:
    """Columns: the bundles. Rows: capacity."""
    k = len(market.capacity)
    weight = np.bincount(group, market.weight, groups)
    gain = np.zeros((groups, k))
    np.add.at(gain, group, market.taste * market.gain[:, None])
    matrix = (np.repeat(weight, k), np.tile(np.arange(k, dtype=np.int32), groups), np.arange(groups * k + 1))
    rows = sparse.csc_array(matrix, shape=(k, groups * k))
    return LinearProgram.of(gain.ravel(), rows, np.full(k, -np.inf), market.capacity)


def add_envy_rows(session: Session, taste: Floats, own: Positions, other: Positions, columns: int) -> None:
    """Rows ``taste[r] . (bundle own[r] - bundle other[r]) >= 0``; bundles are the first columns."""
    r, k = taste.shape
    types = np.arange(k)
    index = np.concatenate([own[:, None] * k + types, other[:, None] * k + types], axis=1).ravel()
    data = np.concatenate([taste, -taste], axis=1).ravel()
    matrix = sparse.csr_array((data, index, np.arange(r + 1) * 2 * k), shape=(r, columns))
    session.add_rows(matrix, np.zeros(r), np.full(r, np.inf), ())


def _most_envied(value: Floats, own: Positions, free: NDArray[np.bool_], least: float) -> tuple[Positions, Positions]:
    """For each tenant the few bundles that it envies most, by more than ``least``: (tenants, bundles).

    Parameters
    ----------
    value:
        (n, b) value of each bundle to each tenant.
    own:
        (n,) the tenant's bundle.
    free:
        (n, b) pairs without a row.
    """
    n, bundles = value.shape
    excess = np.where(free, value - value[np.arange(n), own][:, None], 0.0)
    few = min(ROWS_PER_TENANT, bundles)
    most = np.argpartition(-excess, few - 1, axis=1)[:, :few].ravel()
    tenants = np.repeat(np.arange(n), few)
    found = excess[tenants, most] > least
    return tenants[found], most[found]


TOGETHER = 100
"""Largest number of members of the groups in a batch."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Best splits of the groups of a menu, and their gains.

    Attributes
    ----------
    gain:
        (groups,) relative to the objective; 0 (up to rounding) if the group should not be split.
    bundles:
        (n, k) direction of change for each member.
    envious, envied, dual:
        Rows "tenant o does not envy tenant i" with their duals: those of the group, distributed over its members.
    """

    gain: Floats
    bundles: Floats
    envious: Positions
    envied: Positions
    dual: Floats


def splits(market: BundleMarket, menu: Menu, least: float, options: Options) -> Splits:
    """The best split of each group; the search for a group ends once its gain is below ``least``."""
    size = np.bincount(menu.group)
    gain, bundles = np.zeros(len(size)), np.zeros_like(market.taste)
    alone = size[menu.envied] == 1  # the only member gets the whole dual
    one = np.zeros(len(size), dtype=np.intp)
    one[menu.group] = np.arange(market.size)
    answers = [(menu.envious[alone], one[menu.envied[alone]], menu.dual[alone])]
    for groups in _batches(size):
        search = _GroupProgram(market, menu, groups, options)
        gain[groups], bundles[search.members] = search.run(least)
        answers.append(search.duals())
    return Splits(gain, bundles, *(np.concatenate(parts) for parts in zip(*answers, strict=True)))


def _batches(size: Positions) -> Iterator[Positions]:
    """Batches of groups with two or more members."""
    several = np.flatnonzero(size > 1)
    several = several[np.argsort(size[several], kind="stable")]
    batch: list[int] = []
    for group in several.tolist():
        if batch and size[batch].sum() + size[group] > TOGETHER:
            yield np.array(batch)
            batch = []
        batch.append(group)
    if batch:
        yield np.array(batch)


class _GroupProgram:
    """The program of a batch of groups: columns y (member by member) and, per outsider, its largest value of any y.

    Rows: per group the cost of its y; per outsider o and member i ``seen[o] - taste[o].y[i] >= 0``; envy rows among
    the members of a group, added lazily.
    """

    def __init__(self, market: BundleMarket, menu: Menu, groups: Positions, options: Options) -> None:
        block = np.full(int(menu.group.max()) + 1, -1)
        block[groups] = np.arange(len(groups))
        self.blocks = len(groups)
        self.members = np.flatnonzero(block[menu.group] >= 0)
        self.block = block[menu.group[self.members]]
        self.taste = market.taste[self.members]
        pressing = np.flatnonzero(block[menu.envied] >= 0)
        outsiders, dual = menu.envious[pressing], menu.dual[pressing]
        pressed = block[menu.envied[pressing]]
        outsider, member = np.nonzero(pressed[:, None] == self.block)
        cost = market.weight[self.members, None] * np.maximum(menu.prices, FINE)
        out = np.bincount(menu.envious, menu.dual, market.size)[self.members]
        own = (market.gain[self.members] + out)[:, None] * self.taste - cost
        self.gain = np.concatenate([own.ravel(), -dual])
        self.block_of_column = np.concatenate([np.repeat(self.block, self.taste.shape[1]), pressed])
        rows = sparse.vstack(
            [_costs(cost, self.block, self.gain.size), _seen(self.taste, market.taste[outsiders], outsider, member)]
        )
        self.session = Session(_program(self.gain, rows, self.blocks), options, presolve=False, approximate=True)
        self.session.set_tolerance(FINE)
        self.session.set_stall(STALL * len(self.gain))
        self.envious, self.envied = [outsiders[outsider]], [self.members[member]]
        self.free = (self.block[:, None] == self.block) & ~np.eye(len(self.block), dtype=bool)

    def run(self, least: float) -> tuple[Floats, Floats]:
        """(gain of each group, bundle of each member): solve, adding envy rows in groups that gain more than this."""
        s, k = self.taste.shape
        while True:
            x, row_dual, _ = self.session.values()
            bundles = np.maximum(x[: s * k], 0.0).reshape(s, k)
            gain = np.bincount(self.block_of_column, self.gain * x, self.blocks).astype(float)
            value, searched = self.taste @ bundles.T, self.free & (gain > least)[self.block][:, None]
            first, second = _most_envied(value, np.arange(s), searched, VIOLATED * scale(value))
            if not len(first):
                self.dual = np.maximum(-row_dual[self.blocks :], 0.0)
                return gain, bundles
            self._add_rows(first, second)

    def duals(self) -> tuple[Positions, Positions, Floats]:
        """(envious, envied, dual) after :meth:`run`."""
        return np.concatenate(self.envious), np.concatenate(self.envied), self.dual

    def _add_rows(self, first: Positions, second: Positions) -> None:
        self.free[first, second] = False
        add_envy_rows(self.session, self.taste[first], first, second, len(self.gain))
        self.envious.append(self.members[first])
        self.envied.append(self.members[second])


def _costs(cost: Floats, block: Positions, columns: int) -> sparse.csr_array:
    """Rows with the cost of each block's y, which are the first columns; ``cost`` is (members, k)."""
    entries = (cost.ravel(), (np.repeat(block, cost.shape[1]), np.arange(cost.size)))
    return sparse.csr_array(entries, shape=(int(block.max()) + 1, columns))


def _seen(member_taste: Floats, outsider_taste: Floats, outsider: Positions, member: Positions) -> sparse.csr_array:
    """Rows ``seen[outsider] - outsider_taste[outsider].y[member] >= 0``, one per pair."""
    s, k = member_taste.shape
    r = len(outsider)
    index = np.concatenate([member[:, None] * k + np.arange(k), s * k + outsider[:, None]], axis=1)
    data = np.concatenate([-outsider_taste[outsider], np.ones((r, 1))], axis=1)
    entries = (data.ravel(), index.ravel(), np.arange(r + 1) * (k + 1))
    return sparse.csr_array(entries, shape=(r, s * k + len(outsider_taste)))


def _program(gain: Floats, rows: sparse.csr_array, blocks: int) -> LinearProgram:
    """The program of :class:`_GroupProgram` without envy rows among members."""
    r = rows.shape[0]
    lower = np.concatenate([np.full(blocks, -np.inf), np.zeros(r - blocks)])
    return LinearProgram.of(gain, rows, lower, np.concatenate([np.ones(blocks), np.full(r - blocks, np.inf)]))


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
    return np.asarray(gpus * fits / entities.demand[:, None])


def _between_entities(entities: Entities, kind: Positions, duals: Duals) -> Duals:
    """Pairs of entities and the dual (<= 0) of their row."""
    top = entities.per_gpu.max(axis=1)
    envious, envied, dual = duals
    scaled = dual * np.bincount(kind, entities.weight * top).mean()
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
    gain = entities.weight * entities.per_gpu.max(axis=1)
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


SINGLE_GROUPS_UP_TO = 40
"""Up to this number of tenants every tenant starts in its own group."""

STRIDE = 3
"""The initial menu is that of every third tenant."""

PARTS = 6
"""Largest number of groups that one group is split into; more cost more in the next menu than they save in rounds."""


def by_bundles(compiled: Compiled, options: Options) -> Point:
    """The optimum of :func:`hetopt.models.oef.oef_formulations.cooperative`, with a bound proven by weak duality.

    Instances with a proven relative gap above ``FEASIBILITY``, the accuracy of the shares, are solved by a general
    solver.

    Raises
    ------
    NotSolved
        The time limit of ``options`` was reached.
    """
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
    """Whether these are tenants without envy, so many that their rows are lazy; fewer are for a general solver."""
    of_class = exactly(TotalRate, EnvyFree)(compiled) and compiled.entities.kind == "tenants"
    return of_class and bool(compiled.lazy_families)


METHOD = Method("oef-cooperative", _serves, by_bundles)


@dataclass(frozen=True, eq=False)
class _Found:
    """A menu, the best splits of its groups, and the number of rounds."""

    menu: Menu
    splits: Splits
    rounds: int


def _solve(market: BundleMarket, gap: float, options: Options, began: float) -> _Found:
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


def _first_groups(market: BundleMarket, options: Options, began: float) -> Positions:
    """Groups of tenants with the same favourite bundle in the menu of a sample."""
    if market.size <= SINGLE_GROUPS_UP_TO:
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


def _alike(bundles: Floats) -> Positions:
    """Class of each of the ``bundles``; equal up to rounding means same class."""
    rounded = np.round(bundles / (EQUAL * scale(bundles)))
    return np.asarray(np.unique(rounded, axis=0, return_inverse=True)[1]).ravel()


def _parts(market: BundleMarket, tenants: Positions, bundles: Floats, most: int) -> Positions:
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


def _split(menu: Menu, members: list[Positions], parts: list[Positions]) -> tuple[Positions, Positions, Positions]:
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


def market_of(entities: Entities) -> tuple[BundleMarket, Positions]:
    """The market of distinct tastes, and the tenant of the market for each entity.

    Entities with equal taste can take the same bundle per weight: the mean of envy-free bundles is envy-free.
    """
    top = entities.per_gpu.max(axis=1)
    taste, kind = np.unique(entities.per_gpu / top[:, None], axis=0, return_inverse=True)
    kind = kind.ravel()
    weight, gain = np.bincount(kind, entities.weight), np.bincount(kind, entities.weight * top)
    n = len(taste)
    capacity = entities.capacity / entities.capacity.max() * n
    return BundleMarket(taste, gain / gain.mean(), weight / weight.mean(), capacity), kind
