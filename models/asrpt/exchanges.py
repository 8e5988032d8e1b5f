"""All exchanges of replicas between one server and the others, judged at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from hetopt.data.entities import Floats
from hetopt.models.asrpt.contents import Room, Whole

MOST_PARTS = 32
"""Ways to take replicas from a server that are tried: all of them, or else those with the fewest replicas."""

FEW = 10
"""The best exchanges that are offered; of worse ones the walk would hardly return."""

MOST_ENTRIES = 4_000_000
"""Of a table of seconds; jobs that need a larger one (three neighbouring stages with more than 100 replicas each on
servers of more than 100 GPUs) are not searched."""


class Lookup:
    """Seconds of every stage by how many replicas of it and of its neighbours are on a server.

    The place in the table is linear in the contents of a server, so also in what it is given: ``contents @ strides``
    plus ``first`` says where to look up each of its stages.

    Attributes
    ----------
    seconds:
        (E,) of all stages on all kinds of servers; 0 where nothing of the stage is there.
    strides:
        (S, S) how far a replica of the first stage moves the place of the second.
    first:
        (M, S) places of the stages of an empty server.
    """

    def __init__(self, room: Room) -> None:
        counts = self._counts(room)
        stages = len(counts) - 2
        sizes = counts[:-2] * counts[1:-1] * counts[2:]  # by the stage before, the stage itself, the stage after
        own, after = counts[2:], np.ones(stages - 1, dtype=np.int64)
        self.strides = np.diag(own) + np.diag((counts[1:-1] * own)[1:], 1) + np.diag(after, -1)
        self.first = np.cumsum(sizes) - sizes + np.array(room.kind)[:, None] * int(sizes.sum())
        count = np.arange(max(counts.tolist()))
        around = list(zip(counts.tolist(), counts[1:].tolist(), counts[2:].tolist(), strict=False))
        tables = []
        for costs in room.costs:
            before = np.append(0.0, np.diagonal(costs.saving, -1))
            after = np.append(np.diagonal(costs.saving, 1), 0.0)
            for s, (p, n, q) in enumerate(around):
                found: Floats = costs.base[s, :n, None] - after[s] * count[:q] - (before[s] * count[:p])[:, None, None]
                found[:, 0] = 0.0
                tables.append(found.ravel())
        self.seconds: Floats = np.concatenate(tables)

    @staticmethod
    def fits(room: Room) -> bool:
        """Whether the table has at most :data:`MOST_ENTRIES`."""
        counts = Lookup._counts(room).astype(float)
        return float((counts[:-2] * counts[1:-1] * counts[2:]).sum()) * len(room.costs) <= MOST_ENTRIES

    @staticmethod
    def _counts(room: Room) -> Whole:
        """(S+2,) how many different numbers of replicas of each stage a server can have; 1 beyond both ends."""
        inner = np.minimum(room.pipeline.replicas, max(room.free)) + 1
        return np.concatenate([[1], inner, [1]]).astype(np.int64)


@dataclass(frozen=True)
class Exchange:
    """What one server gives to another and gets from it.

    Attributes
    ----------
    partner:
        Position of the other server.
    gained:
        (S,) replicas that the first server has more of afterwards, and the partner fewer.
    """

    partner: int
    gained: Whole


class Exchanges:
    """A placement, and all exchanges between one of its servers and the others.

    Both give some of their replicas, none of a stage of which they get some. Empty servers that are equal count once.

    Parameters
    ----------
    x:
        (M, S) contents of the servers to begin with.
    known:
        What can be taken from which contents; shared by placements on the same servers.

    Attributes
    ----------
    x, place:
        (M, S) contents, and where their stages are in the lookup.
    """

    def __init__(self, room: Room, lookup: Lookup, x: Whole, known: dict[bytes, Parts]) -> None:
        self.room, self.strides, self.known = room, lookup.strides, known
        self.slices = room.pipeline.slices
        # beyond 63 stages two share a bit, and exchanges of the one against the other are left out
        self.bit = 1 << (np.arange(len(room.pipeline)) % 63)
        self.ones = np.ones(len(room.pipeline))  # a product with it is the fastest sum of short rows
        self.x, self.place = x.copy(), x @ lookup.strides + lookup.first
        self.left = np.array(room.free) - x @ self.slices
        self.parts = [self._parts(row) for row in self.x]

    def best(self, server: int, late: Floats) -> Iterator[Exchange]:
        """The :data:`FEW` best that both servers have room for, by the sum of ``late`` over all stages of all servers.

        Parameters
        ----------
        late:
            (E,) what counts against an entry of the lookup.
        """
        give, partners = self.parts[server], self._partners(server)
        if not partners:
            return
        take = [self.parts[m] for m in partners]
        sizes = [len(parts.gpus) for parts in take]
        shift = np.concatenate([parts.shift for parts in take])
        gpus = np.concatenate([parts.gpus for parts in take])
        stages = np.concatenate([parts.stages for parts in take])
        partner = np.array(partners).repeat(sizes)
        gained = gpus - give.gpus[:, None]
        allowed = (gained <= self.left[server]) & (gained >= -self.left[partner])
        allowed &= (stages & give.stages[:, None]) == 0
        allowed[0] &= gpus > 0  # the first part of each is nothing
        i, j = allowed.nonzero()
        with_whom = partner[j]
        moved = shift.take(j, axis=0) - give.shift.take(i, axis=0)
        before = late.take(self.place) @ self.ones
        here = late.take(self.place[server] + moved) @ self.ones
        there = late.take(self.place.take(with_whom, axis=0) - moved) @ self.ones
        total = here + there - before[with_whom]
        few = total.argpartition(FEW)[:FEW] if len(total) > FEW else np.arange(len(total))
        for e in few[total[few].argsort()].tolist():
            n = partners.index(with_whom[e])
            moving = np.zeros(len(self.slices), dtype=np.int64)
            moving[take[n].there] = take[n].ways[j[e] - sum(sizes[:n])]
            moving[give.there] -= give.ways[i[e]]
            yield Exchange(partners[n], moving)

    def after(self, server: int, exchange: Exchange) -> Whole:
        """(M, S) contents once it is made."""
        x = self.x.copy()
        x[server] += exchange.gained
        x[exchange.partner] -= exchange.gained
        return x

    def make(self, server: int, exchange: Exchange) -> None:
        """Let ``server`` and its partner exchange that."""
        shift, gpus = exchange.gained @ self.strides, int(exchange.gained @ self.slices)
        self.x = self.after(server, exchange)
        for m, sign in ((server, 1), (exchange.partner, -1)):
            self.place[m] += sign * shift
            self.left[m] -= sign * gpus
            self.parts[m] = self._parts(self.x[m])

    def _partners(self, server: int) -> list[int]:
        found, empty = [], set()
        for m, parts in enumerate(self.parts):
            used = len(parts.there)
            if m != server and (used or (like := self.room.like(m)) not in empty):
                found.append(m)
                if not used:
                    empty.add(like)
        return found

    def _parts(self, contents: Whole) -> Parts:
        key = contents.tobytes()
        if key not in self.known:
            there = contents.nonzero()[0]
            ways, some = _ways(tuple(contents[there].tolist()))
            shift, gpus = ways @ self.strides[there], ways @ self.slices[there]
            self.known[key] = Parts(there, ways, shift, gpus, (some * self.bit[there]).sum(axis=1))
        return self.known[key]


class Parts(NamedTuple):
    """n ways to take replicas from a server; the first takes none."""

    there: Whole  # stages that it has
    ways: Whole  # (n, those stages)
    shift: Whole  # (n, S) how far they move the places of all stages
    gpus: Whole  # (n,)
    stages: Whole  # (n,) their stages as bits


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
