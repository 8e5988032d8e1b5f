"""Least cost of an FFT round with few jobs in its core: one table of the GPUs in use of all types.

Prices of GPUs bound the cost, and the loss if a job runs on a type or waits (:class:`~.round_search.Round`). With the
places of at most some loss as the core, dynamic programming over the jobs finds the cheapest plan of the core: the
state is the number of GPUs in use of each type. All other plans cost more than the bound and that loss. So the first
core needs only a few places: the plan that it contains limits the loss of the places in the second core, which then
proves it. After some jobs, a type uses no more than their GPUs, and no less than what the other jobs leave for them.

The tables grow with the product of the types' GPUs; larger cores are left to :func:`.round_search.solve`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.knapsacks import Core
from hetopt.models.fft.round_search import Found, Round
from hetopt.tolerances import PROVEN

CELLS = 3_000_000
"""Largest size of all tables of a core (24 MB, some 10 ms)."""

FIRST = 12
"""Places in the first core, besides the best ones of jobs that run."""

WIDER = 3
"""Growth of the number of places while the core contains no plan."""


TYPES = 16
"""Most types: the dimensions of a table."""


def solve_small(round_: Round, gap: float, start: Positions | None = None) -> Found | None:
    """The cheapest plan, proven up to ``gap`` times the sum of its absolute costs; None without small tables or a plan.

    Parameters
    ----------
    start:
        (n,) type of each job in a plan, or None.
    """
    if len(round_.room) > TYPES:
        return None
    best, slack, many = Found(None, np.inf, round_.bound, 0), 0.0, FIRST
    if start is not None:
        best, slack = _with(best, round_, start, gap)
    losses = np.sort(round_.loss[np.isfinite(round_.loss) & ((round_.loss > 0) | (round_.waits <= 0)[:, None])])
    while best.cost - best.bound > slack:
        needed = best.cost - slack - round_.bound
        width = min(max(float(losses[many]) if many < len(losses) else np.inf, 2 * slack), needed)
        tables = None if (core := round_.core(width)) is None else _Tables(core)
        if tables is not None and tables.cells > CELLS:
            return None
        choice = None if tables is None else tables.cheapest(len(round_.demand))
        best = Found(best.choice, best.cost, min(round_.bound + width, best.cost), best.passes + 1)
        if choice is not None and (other := _with(best, round_, choice, gap))[0].cost < best.cost:
            best, slack = other
        elif width == needed:
            break
        many *= WIDER
    return None if best.choice is None else replace(best, bound=min(best.bound, best.cost))


def _with(found: Found, round_: Round, choice: Positions, gap: float) -> tuple[Found, float]:
    """``found`` with another plan, and the gap that it may have."""
    runs = np.flatnonzero(choice >= 0)
    costs = round_.cost[runs, choice[runs]]
    size = float(np.abs(costs).sum())
    return Found(choice, float(costs.sum()), found.bound, found.passes), max(gap, PROVEN) * size


class _Tables:
    """Least cost of the first t jobs of a core, smallest gangs first, for each number of GPUs in use of each type."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.order = np.argsort(core.demand, kind="stable")
        able = np.isfinite(core.cost[self.order])
        need = np.cumsum(np.where(able, core.demand[self.order, None], 0), axis=0)
        need = np.concatenate([np.zeros((1, len(core.room)), dtype=np.intp), need])
        self.high = np.minimum(need, core.room)
        self.low = np.minimum(np.maximum(core.room - core.idle - (need[-1] - need), 0), self.high)
        self.able = [np.flatnonzero(row).tolist() for row in able]

    @property
    def cells(self) -> float:
        """Size of all tables."""
        return float(np.prod(self.high - self.low + 1.0, axis=1).sum())

    def cheapest(self, jobs_in_all: int) -> Positions | None:
        """(n,) the type of each job in the cheapest plan, -1 where it waits; None if there is none."""
        core, tables = self.core, self._filled()
        ranges = [np.arange(a, b + 1) for a, b in zip(self.low[-1].tolist(), self.high[-1].tolist(), strict=True)]
        used = sum(np.ix_(*ranges))
        total = np.where(used == core.room.sum() - core.idle, tables[-1], np.inf)
        at = np.unravel_index(int(np.argmin(total)), total.shape)
        if not np.isfinite(total[at]):
            return None
        choice = np.full(jobs_in_all, -1)
        for e, i in core.fixed:
            choice[e] = i
        where = [int(a) for a in at + self.low[-1]]
        for t in range(len(self.order) - 1, -1, -1):
            choice[core.jobs[self.order[t]]] = self._last(tables, t, where)
        return choice

    def _filled(self) -> list[Floats]:
        tables = [np.zeros(np.ones(len(self.core.room), dtype=int))]
        low, high = self.low.tolist(), self.high.tolist()
        for t, j in enumerate(self.order.tolist()):
            now = np.full([b - a + 1 for a, b in zip(low[t + 1], high[t + 1], strict=True)], np.inf)
            demand, costs = int(self.core.demand[j]), self.core.cost[j].tolist()
            for i in (-1, *self.able[t]):
                to, source = [], []
                for q, (a, b, c, d) in enumerate(zip(low[t], high[t], low[t + 1], high[t + 1], strict=True)):
                    shift = demand if q == i else 0
                    first, last = max(a + shift, c), min(b + shift, d) + 1
                    to.append(slice(first - c, max(last - c, 0)))
                    source.append(slice(first - shift - a, max(last - shift - a, 0)))
                part = now[tuple(to)]
                np.minimum(part, tables[t][tuple(source)] + (costs[i] if i >= 0 else 0.0), out=part)
            tables.append(now)
        return tables

    def _last(self, tables: list[Floats], t: int, where: list[int]) -> int:
        """The type of the t-th job in the plan that uses the GPUs ``where``, from which its own are taken."""
        cost, demand = self.core.cost[self.order[t]], int(self.core.demand[self.order[t]])
        value = self._value(tables, t + 1, where)
        for i in self.able[t]:
            where[i] -= demand
            if self._value(tables, t, where) + cost[i] == value:
                return i
            where[i] += demand
        return -1

    def _value(self, tables: list[Floats], t: int, where: list[int]) -> float:
        place = [a - b for a, b in zip(where, self.low[t].tolist(), strict=True)]
        inside = all(0 <= a < size for a, size in zip(place, tables[t].shape, strict=True))
        return float(tables[t][tuple(place)]) if inside else np.inf
