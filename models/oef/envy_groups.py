"""Would a group of tenants that share a bundle gain by parting? Answered by a small program for each group alone.

Let prices p and forces f be the duals of the best menu (:mod:`hetopt.models.oef.envy_menu`). The members of a group
gain by parting if bundles y (one per member) exist with

    sum_i (worth[i] + f_out[i]) taste[i].y[i]  -  sum_o f[o] max_i taste[o].y[i]  -  sum_i weight[i] p.y[i]  >  0

where no member envies another, f_out[i] is the force of member i's own rows and f[o] the force by which the outsider o
presses on the group. If none exist, the duals of this program divide the forces on the group among its members, and
that proves the menu best, parted or not. The y are scaled to cost 1 in all, so the largest gain of a group bounds how
much better, relative to the objective, any allocation can be.

Small groups are asked together, their programs side by side as the blocks of one: solving takes less than calling.
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
"""Groups are asked together while they have at most so many members in all."""


@dataclass(frozen=True, eq=False)
class Partings:
    """What the groups of a menu gain by parting.

    Attributes
    ----------
    gain:
        (groups,) relative to the objective; 0 (up to rounding) if the group should stay.
    bundles:
        (n, k) direction in which each member would go.
    envious, envied, force:
        Tenant o must not envy tenant i, and how hard: the forces on the group, divided among its members.
    """

    gain: Floats
    bundles: Floats
    envious: Ints
    envied: Ints
    force: Floats


def partings(market: Market, menu: Menu, least: float, options: Options) -> Partings:
    """The best way for each group to part; the search for a group ends once its gain is below ``least``."""
    size = np.bincount(menu.group)
    gain, bundles = np.zeros(len(size)), np.zeros_like(market.taste)
    alone = size[menu.envied] == 1  # nothing to divide: all the force is on the only member
    one = np.zeros(len(size), dtype=np.intp)
    one[menu.group] = np.arange(market.size)
    answers = [(menu.envious[alone], one[menu.envied[alone]], menu.force[alone])]
    for groups in _batches(size):
        search = _Search(market, menu, groups, options)
        gain[groups], bundles[search.members] = search.run(least)
        answers.append(search.forces())
    return Partings(gain, bundles, *(np.concatenate(parts) for parts in zip(*answers, strict=True)))


def _batches(size: Ints) -> Iterator[Ints]:
    """Groups of two members and more, as many at a time as may be asked together."""
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
    """The program of some groups: columns y (member by member) and, per outsider, the largest value that it sees.

    Rows: per group the cost of its y; per outsider o and member i ``seen[o] - taste[o].y[i] >= 0``; envy among the
    members of a group as it appears.
    """

    def __init__(self, market: Market, menu: Menu, groups: Ints, options: Options) -> None:
        block = np.full(int(menu.group.max()) + 1, -1)
        block[groups] = np.arange(len(groups))
        self.blocks = len(groups)
        self.members = np.flatnonzero(block[menu.group] >= 0)
        self.block = block[menu.group[self.members]]
        self.taste = market.taste[self.members]
        pressing = np.flatnonzero(block[menu.envied] >= 0)
        outsiders, force = menu.envious[pressing], menu.force[pressing]
        pressed = block[menu.envied[pressing]]
        outsider, member = np.nonzero(pressed[:, None] == self.block)
        cost = market.weight[self.members, None] * np.maximum(menu.prices, FINE)
        out = np.bincount(menu.envious, menu.force, market.size)[self.members]
        own = (market.worth[self.members] + out)[:, None] * self.taste - cost
        self.gain = np.concatenate([own.ravel(), -force])
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
        """(gain of each group, bundle of each member): solve, adding rows of envy inside groups that gain more."""
        s, k = self.taste.shape
        while True:
            x, dual, _ = self.session.values()
            bundles = np.maximum(x[: s * k], 0.0).reshape(s, k)
            gain = np.bincount(self.block_of_column, self.gain * x, self.blocks).astype(float)
            first, second = self._envy(bundles, gain > least)
            if not len(first):
                self.force = np.maximum(-dual[self.blocks :], 0.0)
                return gain, bundles
            self._add_rows(first, second)

    def forces(self) -> tuple[Ints, Ints, Floats]:
        """(envious, envied, force) after :meth:`run`."""
        return np.concatenate(self.envious), np.concatenate(self.envied), self.force

    def _envy(self, bundles: Floats, gaining: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """For each member the few others of its group that it envies most, as long as no row forbids it yet."""
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
    """Per block the cost of its y, which are the first columns; ``cost`` is (members, k)."""
    entries = (cost.ravel(), (np.repeat(block, cost.shape[1]), np.arange(cost.size)))
    return sparse.csr_array(entries, shape=(int(block.max()) + 1, columns))


def _seen(member_taste: Floats, outsider_taste: Floats, outsider: Ints, member: Ints) -> sparse.csr_array:
    """Per pair ``seen[outsider] - outsider_taste[outsider].y[member] >= 0``."""
    s, k = member_taste.shape
    r = len(outsider)
    index = np.concatenate([member[:, None] * k + np.arange(k), s * k + outsider[:, None]], axis=1)
    data = np.concatenate([-outsider_taste[outsider], np.ones((r, 1))], axis=1)
    entries = (data.ravel(), index.ravel(), np.arange(r + 1) * (k + 1))
    return sparse.csr_array(entries, shape=(r, s * k + len(outsider_taste)))


def _program(gain: Floats, rows: sparse.csr_array, blocks: int) -> LinearProgram:
    """The program of :class:`_Search` before any envy among members."""
    r = rows.shape[0]
    lower = np.concatenate([np.full(blocks, -np.inf), np.zeros(r - blocks)])
    return LinearProgram.of(gain, rows, lower, np.concatenate([np.ones(blocks), np.full(r - blocks, np.inf)]))
