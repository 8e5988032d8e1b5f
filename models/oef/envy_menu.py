"""The best menu of bundles for given groups of tenants: cooperative OEF with far fewer columns.

Envy-freeness means that every tenant takes its favourite from a menu of bundles (GPUs per unit of weight). If all
tenants of a group take the same bundle, the program [OEF, eq. 10] has one column per group and GPU type instead of per
tenant and GPU type, and one row per tenant and other group, few of which bind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Floats
from hetopt.programs.linear import LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import FINE

Ints = NDArray[np.intp]

ROWS_PER_TENANT = 3
"""Rows that a tenant may add in one pass: with one, passes double; with more, most rows do not bind."""

STALL = 2
"""Limit of dual simplex iterations per column; it usually takes less than one. Some highly degenerate programs of a
group, with optimum 0, stall it for ever (1,000 tenants, one round in some tens)."""


@dataclass(frozen=True, eq=False)
class Market:
    """Tenants that differ in taste, in units in which bundles and prices are about 1.

    Attributes
    ----------
    taste:
        (n, k) value of a GPU of each type, largest entry of a row 1; no two rows alike.
    worth:
        (n,) objective per unit of ``taste @ bundle``.
    weight:
        (n,) units of weight; a bundle is what one unit gets. Mean 1.
    capacity:
        (k,) GPUs.
    """

    taste: Floats
    worth: Floats
    weight: Floats
    capacity: Floats

    @property
    def size(self) -> int:
        """Tenants n."""
        return len(self.taste)

    def part(self, rows: Ints) -> Market:
        """The market of a sample of tenants, scaled to the total weight."""
        grown = self.weight.sum() / self.weight[rows].sum()
        return Market(self.taste[rows], self.worth[rows] * grown, self.weight[rows] * grown, self.capacity)


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
        Total worth.
    prices:
        (k,) objective per GPU.
    envious, envied:
        r tenants and the groups that they must not envy: the binding rows.
    dual:
        (r,) duals of these rows, > 0: objective per unit of taste.
    """

    group: Ints
    bundles: Floats
    objective: float
    prices: Floats
    envious: Ints
    envied: Ints
    dual: Floats


def best_menu(market: Market, group: Ints, envious: Ints, envied: Ints, options: Options) -> Menu:
    """The best bundles for ``group``.

    Initially, rows forbid tenant ``envious[r]`` to envy group ``envied[r]``; others are added as they are violated.
    """
    n, k = market.taste.shape
    groups = int(group.max()) + 1
    session = Session(_without_envy(market, group, groups), options, presolve=False, approximate=True)
    session.set_tolerance(FINE)
    session.set_stall(STALL * groups * k)
    present = np.zeros((n, groups), dtype=bool)
    present[np.arange(n), group] = True
    first, second = [], []
    while True:
        present[envious, envied] = True
        first.append(envious)
        second.append(envied)
        add_envy_rows(session, market.taste[envious], group[envious], envied, groups * k)
        x, row_dual, objective = session.values()
        bundles = np.maximum(x, 0.0).reshape(groups, k)
        envious, envied = _envy(market.taste, bundles, group, present)
        if not len(envious):
            break
    dual = -row_dual[k:]
    binding = dual > 0
    rows, columns = np.concatenate(first)[binding], np.concatenate(second)[binding]
    return Menu(group, bundles, objective, np.maximum(row_dual[:k], 0.0), rows, columns, dual[binding])


def _without_envy(market: Market, group: Ints, groups: int) -> LinearProgram:
    """Columns: the bundles. Rows: capacity."""
    k = len(market.capacity)
    weight = np.bincount(group, market.weight, groups)
    worth = np.zeros((groups, k))
    np.add.at(worth, group, market.taste * market.worth[:, None])
    matrix = (np.repeat(weight, k), np.tile(np.arange(k, dtype=np.int32), groups), np.arange(groups * k + 1))
    rows = sparse.csc_array(matrix, shape=(k, groups * k))
    return LinearProgram.of(worth.ravel(), rows, np.full(k, -np.inf), market.capacity)


def add_envy_rows(session: Session, taste: Floats, own: Ints, other: Ints, columns: int) -> None:
    """Rows ``taste[r] . (bundle own[r] - bundle other[r]) >= 0``; bundles are the first columns."""
    r, k = taste.shape
    types = np.arange(k)
    index = np.concatenate([own[:, None] * k + types, other[:, None] * k + types], axis=1).ravel()
    data = np.concatenate([taste, -taste], axis=1).ravel()
    matrix = sparse.csr_array((data, index, np.arange(r + 1) * 2 * k), shape=(r, columns))
    session.add_rows(matrix, np.zeros(r), np.full(r, np.inf), ())


def _envy(taste: Floats, bundles: Floats, group: Ints, present: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """For each tenant the few groups that it envies most, among pairs without a row."""
    n, groups = present.shape
    value = taste @ bundles.T
    excess = value - value[np.arange(n), group][:, None]
    excess[present] = 0.0
    few = min(ROWS_PER_TENANT, groups)
    most = np.argpartition(-excess, few - 1, axis=1)[:, :few].ravel()
    who = np.repeat(np.arange(n), few)
    found = excess[who, most] > FINE * value.max()
    return who[found], most[found]
