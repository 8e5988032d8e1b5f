"""Small programs that decide for each group of tenants with a common bundle whether a split improves the objective.

Let p (capacity) and f (envy) be the duals of the best menu (:mod:`hetopt.models.oef.envy_menu`). The members of a group
gain by a split if bundles y (one per member) exist with

    sum_i (worth[i] + f_out[i]) taste[i].y[i]  -  sum_o f[o] max_i taste[o].y[i]  -  sum_i weight[i] p.y[i]  >  0

where no member envies another, f_out[i] is the dual of member i's own rows, and f[o] the dual of the row in which the
outsider o does not envy the group. If none exist, the duals of this program distribute those of the group over its
members, which proves that no split improves the menu. The total cost of the y is scaled to 1, so the largest gain of a
group bounds the relative gap of the objective.

Small groups are batched into one block-diagonal program, since calling a solver takes longer than solving.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Floats
from hetopt.models.oef.envy_menu import ROWS_PER_TENANT, STALL, Ints, Market, Menu, add_envy_rows
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import FINE, VIOLATED, scale

TOGETHER = 100
"""Groups are batched up to so many members in total."""


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
    envious: Ints
    envied: Ints
    dual: Floats


def splits(market: Market, menu: Menu, least: float, options: Options) -> Splits:
    """The best split of each group; the search for a group ends once its gain is below ``least``."""
    size = np.bincount(menu.group)
    gain, bundles = np.zeros(len(size)), np.zeros_like(market.taste)
    alone = size[menu.envied] == 1  # the only member gets the whole dual
    one = np.zeros(len(size), dtype=np.intp)
    one[menu.group] = np.arange(market.size)
    answers = [(menu.envious[alone], one[menu.envied[alone]], menu.dual[alone])]
    for groups in _batches(size):
        search = _Search(market, menu, groups, options)
        gain[groups], bundles[search.members] = search.run(least)
        answers.append(search.duals())
    return Splits(gain, bundles, *(np.concatenate(parts) for parts in zip(*answers, strict=True)))


def _batches(size: Ints) -> Iterator[Ints]:
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


class _Search:
    """The program of a batch of groups: columns y (member by member) and, per outsider, its largest value of any y.

    Rows: per group the cost of its y; per outsider o and member i ``seen[o] - taste[o].y[i] >= 0``; envy rows among
    the members of a group, added lazily.
    """

    def __init__(self, market: Market, menu: Menu, groups: Ints, options: Options) -> None:
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
        own = (market.worth[self.members] + out)[:, None] * self.taste - cost
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
            first, second = self._envy(bundles, gain > least)
            if not len(first):
                self.dual = np.maximum(-row_dual[self.blocks :], 0.0)
                return gain, bundles
            self._add_rows(first, second)

    def duals(self) -> tuple[Ints, Ints, Floats]:
        """(envious, envied, dual) after :meth:`run`."""
        return np.concatenate(self.envious), np.concatenate(self.envied), self.dual

    def _envy(self, bundles: Floats, gaining: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """For each member the few others of its group that it envies most, among pairs without a row."""
        s = len(bundles)
        value = self.taste @ bundles.T
        excess = np.where(self.free, value - np.diag(value)[:, None], 0.0)
        few = min(ROWS_PER_TENANT, s)
        most = np.argpartition(-excess, few - 1, axis=1)[:, :few].ravel()
        who = np.repeat(np.arange(s), few)
        found = (excess[who, most] > VIOLATED * scale(value)) & gaining[self.block[who]]
        return who[found], most[found]

    def _add_rows(self, first: Ints, second: Ints) -> None:
        self.free[first, second] = False
        add_envy_rows(self.session, self.taste[first], first, second, len(self.gain))
        self.envious.append(self.members[first])
        self.envied.append(self.members[second])


def _costs(cost: Floats, block: Ints, columns: int) -> sparse.csr_array:
    """Rows with the cost of each block's y, which are the first columns; ``cost`` is (members, k)."""
    entries = (cost.ravel(), (np.repeat(block, cost.shape[1]), np.arange(cost.size)))
    return sparse.csr_array(entries, shape=(int(block.max()) + 1, columns))


def _seen(member_taste: Floats, outsider_taste: Floats, outsider: Ints, member: Ints) -> sparse.csr_array:
    """Rows ``seen[outsider] - outsider_taste[outsider].y[member] >= 0``, one per pair."""
    s, k = member_taste.shape
    r = len(outsider)
    index = np.concatenate([member[:, None] * k + np.arange(k), s * k + outsider[:, None]], axis=1)
    data = np.concatenate([-outsider_taste[outsider], np.ones((r, 1))], axis=1)
    entries = (data.ravel(), index.ravel(), np.arange(r + 1) * (k + 1))
    return sparse.csr_array(entries, shape=(r, s * k + len(outsider_taste)))


def _program(gain: Floats, rows: sparse.csr_array, blocks: int) -> LinearProgram:
    """The program of :class:`_Search` without envy rows among members."""
    r = rows.shape[0]
    lower = np.concatenate([np.full(blocks, -np.inf), np.zeros(r - blocks)])
    return LinearProgram.of(gain, rows, lower, np.concatenate([np.ones(blocks), np.full(r - blocks, np.inf)]))
