"""Would a group of tenants that share a bundle gain by parting? Answered by a small program of that group alone.

Let prices p and forces f be the duals of the best menu (:mod:`hetopt.models.oef.envy_menu`). The members of a group
gain by parting if bundles y (one per member) exist with

    sum_i (worth[i] + f_out[i]) taste[i].y[i]  -  sum_o f[o] max_i taste[o].y[i]  -  sum_i weight[i] p.y[i]  >  0

where no member envies another, f_out[i] is the force of member i's own rows and f[o] the force by which the outsider o
presses on the group. If none exist, the duals of this program divide the forces on the group among its members, and
that proves the menu best, parted or not. The y are scaled to cost 1 in all, so the largest gain of a group bounds how
much better, relative to the objective, any allocation can be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hetopt.data.entities import Floats
from hetopt.models.oef.envy_menu import ROWS_PER_TENANT, STALL, Ints, Market, Menu
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import FINE, VIOLATED, scale


@dataclass(frozen=True, eq=False)
class Parting:
    """What a group gains by parting.

    Attributes
    ----------
    gain:
        Relative to the objective; 0 (up to rounding) if the group should stay.
    bundles:
        (s, k) direction in which each member would go.
    envious, envied, force:
        Tenant o must not envy tenant i, and how hard: the forces on the group, divided among its members.
    """

    gain: float
    bundles: Floats
    envious: Ints
    envied: Ints
    force: Floats


def parting(market: Market, menu: Menu, members: Ints, least: float, options: Options) -> Parting:
    """The best way for ``members`` of one group to part; search ends once the gain is below ``least``."""
    pressing = menu.envied == menu.group[members[0]]
    outsiders, force = menu.envious[pressing], menu.force[pressing]
    if len(members) == 1:
        alone = np.repeat(members, len(outsiders))
        return Parting(0.0, np.zeros((1, len(menu.prices))), outsiders, alone, force)
    return _Search(market, menu, members, outsiders, force, options).run(least)


class _Search:
    """The group's program: columns y (member by member) and, per outsider, the largest value that it sees.

    Rows: the cost of y; per outsider o and member i ``seen[o] - taste[o].y[i] >= 0``; envy among members as it appears.
    """

    def __init__(
        self, market: Market, menu: Menu, members: Ints, outsiders: Ints, force: Floats, options: Options
    ) -> None:
        self.members, self.taste = members, market.taste[members]
        cost = market.weight[members, None] * np.maximum(menu.prices, FINE)
        out = np.bincount(menu.envious, menu.force, market.size)[members]
        gain = (market.worth[members] + out)[:, None] * self.taste - cost
        self.columns = self.taste.size + len(outsiders)
        self.session = Session(_program(gain.ravel(), force, cost.ravel(), market.taste[outsiders]), options)
        self.session.set_tolerance(FINE)
        self.session.set_stall(STALL * self.columns)
        self.envious = [np.repeat(outsiders, len(members))]
        self.envied = [np.tile(members, len(outsiders))]
        self.present = np.eye(len(members), dtype=bool)

    def run(self, least: float) -> Parting:
        """Solve, adding rows of envy among members, until there is none or the gain is below ``least``."""
        s, k = self.taste.shape
        while True:
            x, dual, gain = self.session.values()
            bundles = np.maximum(x[: s * k], 0.0).reshape(s, k)
            first, second = self._envy(bundles)
            if gain <= least or not len(first):
                force = np.maximum(-dual[1:], 0.0)
                return Parting(gain, bundles, np.concatenate(self.envious), np.concatenate(self.envied), force)
            self._add_rows(first, second)

    def _envy(self, bundles: Floats) -> tuple[Ints, Ints]:
        """For each member the few others that it envies most, as long as no row forbids it yet."""
        s = len(bundles)
        value = self.taste @ bundles.T
        excess = np.where(self.present, 0.0, value - np.diag(value)[:, None])
        few = min(ROWS_PER_TENANT, s)
        most = np.argpartition(-excess, few - 1, axis=1)[:, :few].ravel()
        who = np.repeat(np.arange(s), few)
        found = excess[who, most] > VIOLATED * scale(value)
        return who[found], most[found]

    def _add_rows(self, first: Ints, second: Ints) -> None:
        self.present[first, second] = True
        r, k = len(first), self.taste.shape[1]
        types = np.arange(k)
        columns = np.concatenate([first[:, None] * k + types, second[:, None] * k + types], axis=1)
        data = np.concatenate([self.taste[first], -self.taste[first]], axis=1)
        entries = (data.ravel(), columns.ravel(), np.arange(r + 1) * 2 * k)
        self.session.add_rows(sparse.csr_array(entries, shape=(r, self.columns)), np.zeros(r), np.full(r, np.inf), ())
        self.envious.append(self.members[first])
        self.envied.append(self.members[second])


def _program(gain: Floats, force: Floats, cost: Floats, seen: Floats) -> LinearProgram:
    """The program of :class:`_Search` before any envy among members; ``seen`` is the outsiders' taste, (q, k)."""
    q, k = seen.shape
    s = len(cost) // k
    r, columns = q * s, len(cost) + q
    y = np.tile(np.arange(s * k).reshape(s, k), (q, 1))
    index = np.concatenate([y, s * k + np.repeat(np.arange(q), s)[:, None]], axis=1).ravel()
    data = np.concatenate([-np.repeat(seen, s, axis=0), np.ones((r, 1))], axis=1).ravel()
    starts = np.concatenate([[0], len(cost) + np.arange(r + 1) * (k + 1)])
    entries = (np.concatenate([cost, data]), np.concatenate([np.arange(s * k), index]), starts)
    return LinearProgram(
        c=np.concatenate([gain, -force]),
        A=sparse.csc_array(sparse.csr_array(entries, shape=(1 + r, columns))),
        row_lower=np.concatenate([[-np.inf], np.zeros(r)]),
        row_upper=np.concatenate([[1.0], np.full(r, np.inf)]),
        col_lower=np.zeros(columns),
        col_upper=np.full(columns, np.inf),
        integer=np.zeros(columns, dtype=bool),
        row_names=(),
        col_names=(),
    )
