"""All exchanges of replicas between one server and the others, judged at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from hetopt.models.asrpt.contents import Whole
from hetopt.models.asrpt.lookup import Lookup

MOST_PARTS = 32
"""Ways to take replicas from a server that are tried: all of them, or else those with the fewest replicas."""

FEW = 10
"""The best exchanges that are offered; of worse ones the walk would hardly return."""

NOTHING = 1 << 62
"""As stages: taking none on both sides is no exchange."""


class Parts(NamedTuple):
    """n ways to take replicas from a server; the first takes none.

    Attributes
    ----------
    there:
        Stages that it has.
    ways:
        (n, those stages) replicas that are taken.
    table:
        (n, 2 S + 2) by how far that moves the places of all stages, and where these are then; GPUs that it takes, and
        that are free then.
    stages:
        (n,) those of which some are taken, as bits.
    """

    there: Whole
    ways: Whole
    table: Whole
    stages: Whole


class Ways:
    """All :class:`Parts`; walks on the same servers share them.

    Attributes
    ----------
    near:
        (S,) each stage and its neighbours, as bits.
    empty, placed:
        (M, 2 S + 2) and (S, 2 S + 2): what the first row of :attr:`Parts.table` is for empty servers, and how much each
        replica that is there adds to it.
    """

    def __init__(self, lookup: Lookup) -> None:
        self.lookup, self.room = lookup, lookup.room
        slices, zero = self.room.pipeline.slices, np.zeros_like(lookup.strides)
        # beyond 62 stages two share a bit, and some exchanges are left out
        self.bit = 1 << (np.arange(len(slices)) % 62)
        self.near = self.bit.copy()
        self.near[:-1] |= self.bit[1:]
        self.near[1:] |= self.bit[:-1]
        self.placed = np.column_stack([zero, lookup.strides, zero[0], -slices])
        self.taken = np.column_stack([lookup.strides, -lookup.strides, slices, slices])
        self.empty = np.zeros((len(self.room.free), self.placed.shape[1]), dtype=np.int64)
        self.empty[:, len(slices) : -2], self.empty[:, -1] = lookup.first, self.room.free
        self._known: dict[tuple[bytes, tuple[int, int]], Parts] = {}

    def of(self, m: int, contents: Whole, none: Whole) -> Parts:
        """What can be taken from server m with (S,) contents; ``none`` is the row of taking none."""
        key = contents.tobytes(), self.room.like(m)
        if key not in self._known:
            there = contents.nonzero()[0]
            ways, some = _ways(tuple(contents[there].tolist()))
            stages = some @ self.bit[there]
            stages[0] = NOTHING
            self._known[key] = Parts(there, ways, ways @ self.taken[there] + none, stages)
        return self._known[key]


class Exchange(NamedTuple):
    """What one server gives to another and gets from it.

    Attributes
    ----------
    server, partner:
        Positions of the two.
    gained:
        (S,) replicas that the server has more of afterwards, and the partner fewer.
    """

    server: int
    partner: int
    gained: Whole


class Exchanges:
    """A placement, and all exchanges between one of its servers and the others that can speed up a stage of it.

    Both give some of their replicas, none of a stage of which they get some. Empty servers that are equal count once.

    Parameters
    ----------
    x:
        (M, S) contents of the servers to begin with.

    Attributes
    ----------
    x, place:
        (M, S) contents, and where their stages are in the lookup.
    """

    def __init__(self, ways: Ways, x: Whole) -> None:
        self.ways, self.lookup = ways, ways.lookup
        self.x, self.none = x.copy(), ways.empty + x @ ways.placed
        self.place = self.none[:, x.shape[1] : -2]
        self.parts = [ways.of(m, *rows) for m, rows in enumerate(zip(self.x, self.none, strict=True))]
        self.alike = [ways.room.like(m) for m in range(len(x))]
        self.ones = np.ones(2 * x.shape[1])  # a product with it is the fastest sum of short rows

    def slowest(self) -> tuple[float, int, int]:
        """Seconds of an iteration, and the server and the stage that hold it up."""
        seconds = self.lookup.seconds.take(self.place)
        worst = int(seconds.argmax())
        return float(seconds.take(worst)), *divmod(worst, seconds.shape[1])

    def best(self, server: int, stage: int, aim: float) -> Iterator[Exchange]:
        """The :data:`FEW` best of ``server`` that it and its partner have room for: with the least lateness after.

        Only those that give or get something of ``stage`` or of its neighbours: nothing else changes its seconds.

        Parameters
        ----------
        aim:
            Stages that take longer are late, in seconds; see :meth:`Lookup.late`.
        """
        stages, late, touched = self.x.shape[1], self.lookup.late(aim), self.ways.near[stage]
        give, partners = self.parts[server], self._partners(server)
        take = [self.parts[m] for m in partners]
        if not partners:
            return
        sizes = [len(parts.stages) for parts in take]
        ends = list(accumulate(sizes))
        before = (late.take(self.place.take(partners, axis=0)) @ self.ones[:stages]).repeat(sizes)
        theirs = np.concatenate([parts.table for parts in take])
        what, my_what = np.concatenate([parts.stages for parts in take]), give.stages[:, None]
        allowed = what & my_what == 0
        allowed &= (what & touched != 0) | (my_what & touched != 0)
        allowed &= give.table[:, -2:-1] <= theirs[:, -1]
        allowed &= give.table[:, -1:] >= theirs[:, -2]
        i, j = np.divmod(allowed.ravel().nonzero()[0], ends[-1])
        mine = np.concatenate([give.table[:, stages:-2], give.table[:, :stages]], axis=1)
        total = late.take(theirs[:, :-2].take(j, axis=0) + mine.take(i, axis=0)) @ self.ones - before.take(j)
        for _ in range(min(FEW, len(total))):
            e = int(total.argmin())
            total[e] = np.inf
            n = bisect_right(ends, int(j[e]))
            gained = np.zeros(stages, dtype=np.int64)
            gained[take[n].there] = take[n].ways[j[e] - ends[n]]
            gained[give.there] -= give.ways[i[e]]
            yield Exchange(server, partners[n], gained)

    def after(self, exchange: Exchange) -> Whole:
        """(M, S) contents once it is made."""
        x = self.x.copy()
        x[exchange.server] += exchange.gained
        x[exchange.partner] -= exchange.gained
        return x

    def make(self, exchange: Exchange) -> None:
        """Let the two servers exchange that."""
        server, partner, gained = exchange
        moved = gained @ self.ways.placed
        self.x[server] += gained
        self.x[partner] -= gained
        self.none[server] += moved
        self.none[partner] -= moved
        for m in (server, partner):
            self.parts[m] = self.ways.of(m, self.x[m], self.none[m])

    def _partners(self, server: int) -> list[int]:
        found, empty = [], set()
        for m, parts in enumerate(self.parts):
            if m != server:
                if len(parts.there):
                    found.append(m)
                elif self.alike[m] not in empty:
                    found.append(m)
                    empty.add(self.alike[m])
        return found


@lru_cache(maxsize=4096)
def _ways(contents: tuple[int, ...]) -> tuple[Whole, Whole]:
    """(n, stages) numbers of replicas to take, at most so many of each; and 1 where there are some.

    All, or as many as there are of up to a number of replicas without being more than :data:`MOST_PARTS`.
    """
    shape = tuple(n + 1 for n in contents)
    if prod(shape) <= MOST_PARTS:
        ways = np.indices(shape).reshape(len(shape), prod(shape)).T.copy()
        return ways, np.minimum(ways, 1)
    sizes = np.ones(1)  # how many ways there are to take so many replicas in all
    for n in contents:
        sizes = np.convolve(sizes[: MOST_PARTS + 1], np.ones(n + 1))
    most = max(1, int((sizes.cumsum() <= MOST_PARTS).sum()) - 1)
    one = np.eye(len(contents), dtype=np.int64)
    levels = [np.zeros((1, len(contents)), dtype=np.int64), one]
    for _ in range(most - 1):
        more = (levels[-1][:, None, :] + one).reshape(-1, len(contents))
        levels.append(np.unique(more[(more <= contents).all(axis=1)], axis=0))
    ways = np.vstack(levels)
    return ways, np.minimum(ways, 1)
