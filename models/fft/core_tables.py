"""Least cost of an FFT round with few jobs in its core: one table of the GPUs in use of all types.

Prices of GPUs bound the cost, and the loss if a job runs on a type or waits (:class:`~.round_search.Round`). With the
places of at most some loss as the core, dynamic programming over the jobs finds the cheapest plan of the core: the
state is the number of GPUs at each place, that is, of each type and of the jobs that wait. All other plans cost more
than the bound and that loss. So the first core needs only a few places: the plan that it contains limits the loss of
the places in the second core, which then proves it. After some jobs, a place has no more than their GPUs, and no less
than what the other jobs leave for them.

The tables grow with the product of the places' GPUs, without the place of the widest range: all jobs are somewhere, so
its number follows from the others. Larger cores are left to :func:`.round_search.solve`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from operator import add, lt

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.round_search import Found, Round
from hetopt.tolerances import PROVEN

CELLS = 3_000_000
"""Largest size of all tables of a core (24 MB, some 10 ms)."""

WHOLE = 300_000
"""Size of the tables of all places up to which no prices are needed."""

NARROW = 50_000
"""Size of the tables from which narrowing the ranges first saves time."""

TOO_LARGE = 1_000_000_000
"""Size of tables that are not narrowed, because they would hardly become small enough: narrowing takes off a factor of
1 to 1,000."""

FIRST = 100
"""Places in the first core, besides the best ones."""

TOTAL = 2.0
"""The first plan is sought among those that lose at most this many times the largest loss in the core."""

WIDER = 2
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
    best, slack, many = Found(None, np.inf, round_.relaxed.bound, 0), 0.0, FIRST
    if start is not None:
        best, slack = _with(best, round_, start, gap)
    loss = np.column_stack(round_.relaxed[1:])
    losses = np.sort(loss[np.isfinite(loss) & (loss > 0)])
    while best.cost - best.bound > slack:
        needed = best.cost - slack - round_.relaxed.bound
        width = min(max(float(losses[many]) if many < len(losses) else np.inf, 2 * slack), needed)
        tables = _Tables(round_, np.where(loss <= width, loss, np.inf))
        if tables.cells > TOO_LARGE or (tables.cells > NARROW and tables.single_cells > CELLS):
            return None
        if tables.cells > NARROW:
            tables.narrow(min(needed, TOTAL * width))
        if tables.cells > CELLS:
            return None
        choice = tables.cheapest()
        best = Found(best.choice, best.cost, min(round_.relaxed.bound + width, best.cost), best.passes + 1)
        if choice is not None and (other := _with(best, round_, choice, gap))[0].cost < best.cost:
            best, slack = other
        elif width == needed:
            break
        many *= WIDER
    return None if best.choice is None else replace(best, bound=min(best.bound, best.cost))


def solve_whole(round_: Round) -> Found | None:
    """The cheapest plan by tables of all places, which need no prices; None if they are large or there is no plan."""
    if len(round_.room) > TYPES:
        return None
    tables = _Tables(round_, np.column_stack(round_.relaxed[1:]))
    if tables.cells > WHOLE or (choice := tables.cheapest()) is None:
        return None
    found, _ = _with(Found(None, np.inf, -np.inf, 1), round_, choice, 0.0)
    return replace(found, bound=found.cost)


def _with(found: Found, round_: Round, choice: Positions, gap: float) -> tuple[Found, float]:
    """``found`` with another plan, and the gap that it may have."""
    cost, size = round_.worth(choice)
    return Found(choice, cost, found.bound, found.passes), max(gap, PROVEN) * size


class _Tables:
    """Least cost of the first t jobs of a core, smallest gangs first, for each number of GPUs at each place.

    Parameters
    ----------
    loss:
        (n, k + 1) loss of each job at each place, infinite outside of the core; waiting is the last place.
    """

    def __init__(self, round_: Round, loss: Floats) -> None:
        self.round = round_
        one = np.isfinite(loss).sum(axis=1) == 1
        self.fixed, free = np.flatnonzero(one), np.flatnonzero(~one)
        self.at = loss[self.fixed].argmin(axis=1)  # place of each fixed job
        self.jobs = free[np.argsort(round_.demand[free], kind="stable")]
        self.loss, demand, places = loss[self.jobs], round_.demand[self.jobs], np.arange(loss.shape[1])
        cost = np.column_stack([round_.cost, np.zeros(len(round_.cost))])
        self.cost = np.where(np.isfinite(self.loss), cost[self.jobs], np.inf)
        self.room = np.append(round_.room, round_.demand.sum() - round_.room.sum() + round_.idle)
        self.room -= np.bincount(self.at, round_.demand[self.fixed], len(places)).astype(np.intp)
        self.feasible = bool((self.room >= 0).all())
        self.base = float(loss[self.fixed, self.at].sum())
        least = self.room - np.where(places < places[-1], round_.idle, 0)
        need = np.where(np.isfinite(self.loss), demand[:, None], 0).cumsum(axis=0)
        need = np.concatenate([np.zeros((1, len(places)), dtype=np.intp), need])
        self.feasible &= bool((least <= need[-1]).all())
        self.high = np.minimum(need, self.room)
        self.low = np.minimum(np.maximum(least - (need[-1] - need), 0), self.high)
        self._size_up()

    def _size_up(self) -> None:
        """Leave out the place with which the tables are smallest."""
        size = self.high - self.low + 1.0
        cells = (size.prod(axis=1)[:, None] / size).sum(axis=0)
        self.left_out, self.cells = int(cells.argmin()), float(cells.min())
        places = np.arange(len(self.room))
        self.kept = np.delete(places, self.left_out)

    @cached_property
    def shift(self) -> Positions:
        """By how much each job moves the tables in each dimension if it is at each place."""
        demand, places = self.round.demand[self.jobs], np.arange(len(self.room))
        return np.asarray(demand[:, None, None] * (places[:, None] == self.kept))

    @property
    def single_cells(self) -> int:
        """Size of the tables of single places."""
        return (len(self.jobs) + 1) * len(self.room) * (int(self.room.max()) + 1)

    def narrow(self, limit: float) -> None:
        """Narrow the ranges to those of plans that lose at most ``limit``.

        For each place, a table of its GPUs alone, as if the other places had room, bounds the loss of the first jobs,
        and one in reverse order that of the others.
        """
        m, places, demand = len(self.jobs), len(self.room), self.round.demand[self.jobs].tolist()
        least, second = np.partition(self.loss, 1, axis=1)[:, :2].T
        other = np.where(self.loss == least[:, None], second[:, None], least[:, None])
        stay, go = other[:, :, None], self.loss[:, :, None]
        ahead = np.full((m + 1, places, int(self.room.max()) + 1), np.inf)
        behind, gpus = ahead.copy(), np.arange(ahead.shape[2])
        behind[0, :, 0] = 0.0
        ahead[-1][(self.low[-1, :, None] <= gpus) & (gpus <= self.high[-1, :, None])] = 0.0
        for t, need in enumerate(demand):
            np.add(behind[t], stay[t], out=behind[t + 1])
            part = behind[t + 1, :, need:]
            np.minimum(part, behind[t, :, : part.shape[1]] + go[t], out=part)
        for t in range(m - 1, -1, -1):
            np.add(ahead[t + 1], stay[t], out=ahead[t])
            part = ahead[t + 1, :, demand[t] :]
            np.minimum(ahead[t, :, : part.shape[1]], part + go[t], out=ahead[t, :, : part.shape[1]])
        total = behind + ahead
        inside = (total <= limit - self.base) & (total < np.inf)
        if not inside.any(axis=2).all():
            self.feasible, self.cells = False, 0.0
            return
        self.low, self.high = inside.argmax(axis=2), len(gpus) - 1 - inside[:, :, ::-1].argmax(axis=2)
        self._size_up()

    def cheapest(self) -> Positions | None:
        """(n,) the type of each job in the cheapest plan, -1 where it waits; None if there is none."""
        if not self.feasible:
            return None
        tables = self._filled()
        at = np.unravel_index(int(np.argmin(total := self._total(tables[-1]))), total.shape)
        if not np.isfinite(total[at]):
            return None
        choice = np.empty(len(self.round.demand), dtype=np.intp)
        choice[self.fixed] = self.at
        choice[self.jobs] = self._places(tables, [int(a) for a in at])
        return np.where(choice < len(self.round.room), choice, -1)

    def _total(self, last: Floats) -> Floats:
        """The costs in the last table; infinite outside of the room."""
        low, high = self.low[-1], self.high[-1]
        used = np.ix_(*[np.arange(a, b + 1) for a, b in zip(low[self.kept], high[self.kept], strict=True)])
        other = self.round.demand[self.jobs].sum() - sum(used)
        return np.where((low[self.left_out] <= other) & (other <= high[self.left_out]), last, np.inf)

    def _filled(self) -> list[Floats]:
        """The tables."""
        low, high = self.low[:, None, self.kept], self.high[:, None, self.kept]
        first = np.maximum(low[:-1] + self.shift, low[1:])
        stop = np.maximum(np.minimum(high[:-1] + self.shift, high[1:]) + 1, first)
        moves = [first - low[1:], stop - low[1:], first - self.shift - low[:-1], stop - self.shift - low[:-1]]
        tables = [np.zeros(np.ones(len(self.kept), dtype=int))]
        shapes = (high - low + 1)[1:, 0].tolist()
        for shape, costs, *ends in zip(shapes, self.cost.tolist(), *(part.tolist() for part in moves), strict=True):
            before, now = tables[-1], np.full(shape, np.inf)
            for cost, a, b, c, d in zip(costs, *ends, strict=True):
                if cost < np.inf:
                    part = now[tuple(map(slice, a, b))]
                    np.minimum(part, before[tuple(map(slice, c, d))] + cost, out=part)
            tables.append(now)
        return tables

    def _places(self, tables: list[Floats], at: list[int]) -> list[int]:
        """The place of each job in the cheapest plan that ends at this cell of the last table."""
        low, places, costs = self.low[:, None, self.kept], [], self.cost.tolist()
        steps = (low[1:] - low[:-1] - self.shift).tolist()
        for t in range(len(self.jobs) - 1, -1, -1):
            value, before = tables[t + 1][tuple(at)], tables[t]
            for place, cost in enumerate(costs[t]):
                if cost < np.inf:
                    source = list(map(add, at, steps[t][place]))
                    inside = min(source) >= 0 and all(map(lt, source, before.shape))
                    if inside and before[tuple(source)] + cost == value:
                        break
            places.append(place)
            at = source
        return places[::-1]
