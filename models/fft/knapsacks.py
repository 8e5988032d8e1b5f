"""Lower bounds on the cost of an FFT round by knapsacks: one for each GPU type, and one for all types together.

Jobs j with whole demands d[j] cost c[j, i] on type i. A job runs on one type at most, type i has Y[i] GPUs, and K GPUs
are in use in all, so S = sum(Y) - K stay idle. Let x[j, i] be 1 if j runs on i, and z[j] 1 if j runs at all. Then ::

    minimise  sum_ji c[j, i] x[j, i]
    subject to  z[j] = sum_i x[j, i]  for all j                                                               (1)
                Y[i] - S <= sum_j d[j] x[j, i] <= Y[i]  for all i,   sum_j d[j] z[j] = K,   x, z in {0, 1}    (2)

is the round. With prices p[j] (of any sign) on (1) it falls apart into k + 1 knapsacks ::

    L(p) = sum_i min {sum_j (c[j, i] + p[j]) x[j, i] : (2)} + min {- sum_j p[j] z[j] : (2)} <= optimum

by weak duality, because ``sum_j p[j] (sum_i x[j, i] - z[j])`` is 0 at every feasible point. A knapsack is solved by
dynamic programming over the number of GPUs left. Its tables also contain the bounds of all partly decided rounds. A
table without the jobs of one demand gives the least loss if one of these runs on a type or waits. Where types are
alike, the knapsacks of single types hardly bound more than the linear relaxation; the one of all types still does.

All nodes (types, then all together) share one array: node q has the places ``start[q] .. start[q] + most[q]``, one for
each number of GPUs left, after as many infinite places as the largest demand. So one shift serves all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.transport import cheapest_assignment
from hetopt.solving.blocks import Flags

LARGEST = 30_000_000
"""Largest tables of jobs (240 MB) in a search; larger cores are only bounded."""

Part = tuple[int, Positions]
"""A demand, and the jobs that have it."""


class Losses(NamedTuple):
    """A lower bound on the cost of plans; (m, k) and (m,): at least how much more they cost if a job runs, or waits."""

    bound: float
    runs: Floats
    waits: Floats


@dataclass(frozen=True, eq=False)
class Core:
    """A round in which some jobs are decided already.

    Attributes
    ----------
    cost:
        (m, k) cost of each job on each type; infinite where it must not run.
    demand:
        (m,) GPUs of each gang.
    room:
        (k,) GPUs left on each type.
    idle:
        Number of GPUs that stay idle in all.
    jobs:
        (m,) position of each job in the whole round.
    fixed:
        Positions in the whole round, and types, of jobs that run.
    base:
        Cost of the fixed jobs.
    """

    cost: Floats
    demand: Positions
    room: Positions
    idle: int
    jobs: Positions
    fixed: tuple[tuple[int, int], ...] = ()
    base: float = 0.0

    @cached_property
    def knapsacks(self) -> Knapsacks:
        """The knapsacks of all nodes."""
        return Knapsacks(self)

    @cached_property
    def by_demand(self) -> list[Part]:
        """The jobs of each demand, most jobs first."""
        parts = [(int(d), np.flatnonzero(self.demand == d)) for d in np.unique(self.demand)]
        return sorted(parts, key=lambda part: -len(part[1]))

    def part_of(self, whole: Core, values: Floats) -> Floats:
        """The ``values`` of the jobs of a larger core for the jobs of this one."""
        return values[np.searchsorted(whole.jobs, self.jobs)]

    def restricted(self, allowed: Flags, must: Flags) -> Core | None:
        """This core with only the ``allowed`` (m, k) places, and with jobs that ``must`` (m,) run; None if none can.

        Jobs that must run and have a single place are fixed.
        """
        number = allowed.sum(axis=1)
        if (must & (number == 0)).any():
            return None
        set_ = np.flatnonzero(must & (number == 1))
        type_ = allowed[set_].argmax(axis=1)
        room = self.room - np.bincount(type_, weights=self.demand[set_], minlength=len(self.room)).astype(np.intp)
        if (room < 0).any() or room.sum() < self.idle:
            return None
        left = np.flatnonzero((number > 0) & ~(must & (number == 1)))
        fixed = zip(self.jobs[set_].tolist(), type_.tolist(), strict=True)
        return Core(
            cost=np.where(allowed[left], self.cost[left], np.inf),
            demand=self.demand[left],
            room=room,
            idle=self.idle,
            jobs=self.jobs[left],
            fixed=(*self.fixed, *fixed),
            base=self.base + float(self.cost[set_, type_].sum()),
        )

    def numbers_of(self, choice: Positions) -> list[Positions]:
        """For each demand, the (k,) gangs on each type in a plan."""
        return [np.bincount(choice[jobs] + 1, minlength=len(self.room) + 1)[1:] for _, jobs in self.by_demand]

    def with_numbers(self, numbers: Sequence[Positions], near: Positions) -> Positions | None:
        """(m,) types of the cheapest plan with these numbers of gangs, or None.

        Parameters
        ----------
        numbers:
            (k,) gangs on each type, for each demand in the order of ``by_demand``.
        near:
            (m,) types of the jobs in a plan with similar numbers, or -1.
        """
        gpus = sum((demand * own for (demand, _), own in zip(self.by_demand, numbers, strict=True)), 0 * self.room)
        if (gpus > self.room).any() or gpus.sum() != self.room.sum() - self.idle:
            return None
        choice = np.full(len(self.demand), -1)
        for (_, jobs), own in zip(self.by_demand, numbers, strict=True):
            if (types := cheapest_assignment(self.cost[jobs], own, near[jobs])) is None:
                return None
            choice[jobs] = types
        return choice


class Knapsacks:
    """Dynamic programming over the jobs of a core, at all nodes at once."""

    def __init__(self, core: Core) -> None:
        k = len(core.room)
        self.core, self.k = core, k
        self.able = np.isfinite(core.cost)
        self.most = np.append(core.room, core.room.sum() - core.idle)
        margin = int(core.demand.max(initial=1))
        size = self.most + 1 + margin
        self.start = np.cumsum(size) - size + margin
        self.node = np.full(int(size.sum()), k + 1)
        self.first = np.full(len(self.node), np.inf)  # no job left: fill nothing more
        for q, (start, most) in enumerate(zip(self.start.tolist(), self.most.tolist(), strict=True)):
            self.node[start : start + most + 1] = q
            self.first[start : start + 1 + (min(core.idle, most) if q < k else 0)] = 0.0

    @property
    def cells(self) -> int:
        """Size of the tables of all jobs."""
        return len(self.first) * (len(self.core.jobs) + 1)

    @property
    def steps(self) -> int:
        """Steps of one bound over cells of its tables, about."""
        most = int(self.most[:-1].max(initial=0))
        return len(self.first) * sum(min(len(jobs), most // demand) for demand, jobs in self.core.by_demand)

    def values(self, prices: Floats) -> Floats:
        """(m, k + 2) cost of each job at each node with its price; the last column, of the infinite places, is inf."""
        value = np.full((len(prices), self.k + 2), np.inf)
        value[:, : self.k] = self.core.cost + prices[:, None]
        value[:, self.k] = np.where(self.able.any(axis=1), -prices, np.inf)
        return value

    def tables(self, value: Floats, order: Positions) -> Floats:
        """(len(order) + 1, places) least cost of the jobs ``order[t:]`` for each number of GPUs left."""
        table = np.empty((len(order) + 1, len(self.first)))
        table[-1] = self.first
        for t in range(len(order) - 1, -1, -1):
            self._add(table[t + 1], value[order[t]], int(self.core.demand[order[t]]), table[t])
        return table

    def _add(self, before: Floats, value: Floats, demand: int, out: Floats) -> None:
        """The table ``before`` with one more job."""
        taken = np.take(value, self.node[demand:])
        taken += before[:-demand]
        out[:demand] = before[:demand]
        np.minimum(before[demand:], taken, out=out[demand:])

    def bound(self, prices: Floats) -> tuple[float, Flags]:
        """L(prices), and (m, k + 1) the jobs that the nodes choose.

        At each node, jobs of equal demand are chosen in order of value, so that tables between the demands suffice.
        """
        value = self.values(prices)[:, :-1]
        table, steps = self.first, []
        for demand, jobs in self.core.by_demand:
            most = min(len(jobs), int(self.most.max()) // demand)
            order = np.argsort(value[jobs], axis=0)[:most]
            sorted_ = np.take_along_axis(value[jobs], order, axis=0)
            steps.append((demand, jobs[order], sorted_, table))
            table = self._with_alike(table, sorted_, demand)
        place = self.start + self.most
        total = self.core.base + float(table[place].sum())
        chosen: Flags = np.zeros(value.shape, dtype=bool)
        if np.isfinite(total):
            for demand, jobs, sorted_, before in reversed(steps):
                sums = np.concatenate([np.zeros((1, self.k + 1)), np.cumsum(sorted_, axis=0)])
                number = np.arange(len(sums))[:, None]
                below = np.maximum(place - number * demand, self.start - 1)
                taken = np.argmin(before[below] + sums, axis=0)
                runs, node = np.nonzero(number[:-1] < taken)
                chosen[jobs[runs, node], node] = True
                place = place - taken * demand
        return total, chosen

    def _with_alike(self, table: Floats, sorted_: Floats, demand: int) -> Floats:
        """The table with jobs of one demand, whose values are sorted at each node."""
        if table is self.first and not self.core.idle:
            sums = np.cumsum(sorted_, axis=0)
            number = np.arange(1, len(sums) + 1)[:, None]
            fits = number * demand <= self.most
            table = table.copy()
            table[(self.start + number * demand)[fits]] = sums[fits]
            return table
        table, root = table.copy(), self.start[self.k]
        both = int(self.most[:-1].max(initial=0)) // demand  # more jobs do not fit on one type
        for values in np.column_stack([sorted_, np.full(len(sorted_), np.inf)])[:both]:
            self._add(table, values, demand, table)
        for value, number in zip(*np.unique(sorted_[both:, -1], return_counts=True), strict=True):
            for part in halves(int(number)):
                gpus = part * demand
                np.minimum(table[root + gpus :], table[root:-gpus] + part * value, out=table[root + gpus :])
        return table

    def losses(self, prices: Floats) -> Losses:
        """L(prices), and by how much it grows if a job runs on a type, or waits."""
        value, k = self.values(prices)[:, :-1], self.k
        with_, without = np.empty(value.shape), np.empty(value.shape)
        best = self.first[self.start + self.most]
        for (demand, jobs), table in self._without_each(self.first, value, self.core.by_demand):
            best = self._forced(table, value, demand, jobs, with_, without)
        total = self.core.base + float(best.sum())
        with_, without = np.maximum(with_ - best, 0.0), np.maximum(without - best, 0.0)
        waits = without.sum(axis=1)
        others = np.array([np.delete(without[:, :k], i, axis=1).sum(axis=1) for i in range(k)]).T
        return Losses(total, with_[:, :k] + others + with_[:, k:], waits)

    def _without_each(self, table: Floats, value: Floats, parts: list[Part]) -> Iterator[tuple[Part, Floats]]:
        """For each of the ``parts``, ``table`` with the jobs of all others."""
        if len(parts) <= 1:
            yield from ((part, table) for part in parts)
            return
        half = len(parts) // 2
        for own, others in ((parts[:half], parts[half:]), (parts[half:], parts[:half])):
            rest = table
            for demand, jobs in others:
                most = int(self.most.max()) // demand
                rest = self._with_alike(rest, np.sort(value[jobs], axis=0)[:most], demand)
            yield from self._without_each(rest, value, own)

    def _forced(
        self, table: Floats, value: Floats, demand: int, jobs: Positions, with_: Floats, without: Floats
    ) -> Floats:
        """(k + 1,) least cost at each node; writes the least costs if each of the ``jobs`` runs there, or does not.

        Of q jobs of one demand, the q of least value run; if another job must, it replaces the last of them.

        Parameters
        ----------
        table:
            With the jobs of other demands.
        """
        own = value[jobs]
        order = np.argsort(own, axis=0)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(len(jobs))[:, None], axis=0)
        most = min(len(jobs), int(self.most.max()) // demand)
        sums = np.full((most + 2, self.k + 1), np.inf)
        sums[0] = 0.0
        np.cumsum(np.take_along_axis(own, order[: most + 1], axis=0), axis=0, out=sums[1 : len(jobs) + 1])
        number = np.arange(most + 1)[:, None]
        rest = table[np.maximum(self.start + self.most - number * demand, self.start - 1)]
        same = rest + sums[:-1]
        up_to = np.minimum.accumulate(same)  # q jobs or fewer
        from_ = np.minimum.accumulate(same[::-1])[::-1]
        fewer, more = rest[1:] + sums[:-2], rest + sums[1:]  # one job less, or more, at the same places
        fewer = np.minimum.accumulate(np.vstack([fewer, np.full(self.k + 1, np.inf)]))
        more = np.minimum.accumulate(more[::-1])[::-1]
        node, last = np.arange(self.k + 1), np.minimum(rank, most)
        beyond = np.where(rank < most, from_[np.minimum(rank + 1, most), node], np.inf)
        with_[jobs] = np.minimum(own + fewer[last, node], beyond)
        finite = np.isfinite(own) & (rank < most)
        replaced = np.where(finite, more[np.minimum(rank + 1, most), node] - np.where(finite, own, 0.0), np.inf)
        without[jobs] = np.minimum(up_to[last, node], replaced)
        return np.asarray(same.min(axis=0))


def halves(number: int) -> list[int]:
    """Whole parts of a number, the sums of which are all numbers up to it: 5 is 3 + 1 + 1."""
    parts = []
    while number > 0:
        parts.append((number + 1) // 2)
        number //= 2
    return parts
