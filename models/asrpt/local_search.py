"""Better than Heavy-Edge: replicas redistributed between two servers at a time, judged by the iteration itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from hetopt.checks import at_least
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.models.asrpt.contents import Room, Whole
from hetopt.models.asrpt.heavy_edge import heavy_edge, taken
from hetopt.models.asrpt.packing import packings
from hetopt.pipelines.allreduce import AllReduce, algorithm
from hetopt.pipelines.graph import job_graph
from hetopt.pipelines.iteration_time import Asynchronous
from hetopt.pipelines.mapping import GPUMapping, Stopwatch, check_room, in_order
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers
from hetopt.tolerances import PROVEN

AIM = 0.95
"""Stages count as too slow from this part of the best iteration found; tuned on random jobs, where 0.9 to 0.97 are as
good and 1 lets the search walk among equals."""

PATIENCE = 4
"""Steps without a better iteration after which the next start has its turn."""

MOST_WAYS = 600
"""Two servers whose replicas can be divided in more ways are passed over."""


@dataclass(frozen=True)
class LocalSearch:
    """Divide the replicas of the worst server and of another anew, in the best of all ways; repeat.

    One step takes the server that holds up the iteration, and for each other server tries every division of both
    servers' replicas among the two: all moves, swaps and moves of several at once. The division with which least is
    too slow is taken, also where it is worse than before, but never a placement that has been seen. The starts are the
    mapping of Heavy-Edge and packings of whole stages (:mod:`hetopt.models.asrpt.packing`), best first. It is never
    worse than Heavy-Edge, and stops early where a bound proves that nothing is better.

    Parameters
    ----------
    divisions:
        Pairs of servers that are divided anew at most.
    timing:
        How long an iteration takes.
    allreduce:
        Edges of the graph that Heavy-Edge starts from.

    Raises
    ------
    InvalidOption
        ``divisions`` is no whole number >= 0, or ``timing`` is another than :class:`Asynchronous`.
    """

    divisions: int = 150
    timing: Asynchronous = field(default_factory=Asynchronous)
    allreduce: AllReduce = AllReduce.RING

    def __post_init__(self) -> None:
        object.__setattr__(self, "allreduce", algorithm(self.allreduce, "LocalSearch"))
        if at_least(self.divisions, "LocalSearch.divisions", 0, InvalidOption) != int(self.divisions):
            raise InvalidOption(f"LocalSearch.divisions is {self.divisions!r}; it must be a whole number >= 0")
        if not isinstance(self.timing, Asynchronous):
            raise InvalidOption(f"LocalSearch.timing is {self.timing!r}; it must be Asynchronous: the search judges "
                                "each server by its own contents")  # fmt: skip

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; as its bound, seconds that no mapping can fall below.

        Raises
        ------
        InvalidInstance
            There is no room.
        """
        watch = Stopwatch()
        check_room(pipeline, servers)
        graph, room = job_graph(pipeline, self.allreduce), Room(pipeline, servers, self.timing)
        first = np.array(heavy_edge(graph, taken(pipeline, servers.free.tolist())))
        start = graph.counts(first, len(servers)).T
        search = _Search(room, self.divisions)
        best = search.run([start, *packings(pipeline, room)])
        server = first if best is start else in_order(best.T)
        proven = search.value <= room.bound * (1 + PROVEN)
        status = "optimal" if proven else "heuristic"
        return GPUMapping(graph, servers, server, self.timing, "local", room.bound, status, watch.seconds)


class _Search:
    def __init__(self, room: Room, divisions: int) -> None:
        self.room, self.left = room, divisions
        self.seen: set[bytes] = set()
        self.value, self.best = np.inf, np.empty(0, dtype=np.int64)
        self.ways: dict[tuple[int, bytes], _Ways | None] = {}
        self.slices = room.pipeline.slices

    def run(self, starts: list[Whole]) -> Whole:
        """The best placement found, as (M, S) contents."""
        values = [self.room.iteration(x) for x in starts]
        for i in np.argsort(values, kind="stable").tolist():
            if values[i] < self.value:
                self.value, self.best = values[i], starts[i]
        tried: set[float] = set()
        for i in np.argsort(values, kind="stable").tolist():
            if self._done():
                break
            if values[i] not in tried:  # equal values mostly are equal placements
                tried.add(values[i])
                self._descend(starts[i].copy(), values[i])
        return self.best

    def _done(self) -> bool:
        return self.left <= 0 or self.value <= self.room.bound * (1 + PROVEN)

    def _descend(self, x: Whole, value: float) -> None:
        """Walk from ``x`` until nothing better has been seen for a while; ``value`` is the best on this walk."""
        self.seen.add(x.tobytes())
        stale = 0
        while stale <= PATIENCE and not self._done():
            if not self._step(x, max(self.room.bound, AIM * value)):
                return
            now = self.room.iteration(x)
            stale = 0 if now < value else stale + 1
            value = min(value, now)
            if now < self.value:
                self.value, self.best = now, x.copy()

    def _step(self, x: Whole, aim: float) -> bool:
        """Divide the worst server and another anew, in place; False where all that is in reach has been seen."""
        late = np.maximum(self.room.seconds(x) - aim, 0.0).sum(axis=1)
        worst = int(late.argmax())
        found = []
        for m in self._partners(x, worst):
            self.left -= 1
            if (division := self._division(x[worst] + x[m], worst, m, aim)) is not None:
                least = float(division.late.min())
                found.append((least - float(late[m]), m, division))
                if least <= 0:
                    break
        found.sort(key=lambda row: row[0])
        return any(self._take(x, worst, m, division) for _, m, division in found)

    def _take(self, x: Whole, worst: int, m: int, division: _Division) -> bool:
        """Let the best division that leads to a placement not yet seen hold in ``x``."""
        both, before, late = x[worst] + x[m], x[worst].copy(), division.late
        few = late.argpartition(3)[:3] if len(late) > 3 else np.arange(len(late))
        for z in few[late[few].argsort()].tolist():
            if late[z] < np.inf:
                x[worst] = 0
                x[worst, division.stages] = division.ways[z]
                x[m] = both - x[worst]
                if (key := x.tobytes()) not in self.seen:
                    self.seen.add(key)
                    return True
        x[worst], x[m] = before, both - before
        return False

    def _partners(self, x: Whole, worst: int) -> Iterator[int]:
        """Other servers, those with most room first; of empty ones only the largest of each kind."""
        used = (x @ self.slices).tolist()
        room = [free - n for free, n in zip(self.room.free, used, strict=True)]
        empty: set[int] = set()
        for m in sorted((m for m in range(len(room)) if m != worst), key=lambda m: -room[m]):
            kind = self.room.kind[m]
            if used[m] or kind not in empty:
                yield m
            if not used[m]:
                empty.add(kind)

    def _division(self, both: Whole, a: int, b: int, aim: float) -> _Division | None:
        """Every way to divide the contents ``both`` among a and b; None where there are too many."""
        kinds, free = self.room.kind, self.room.free
        ways = self._ways(kinds[a], both)
        if ways is None:
            return None
        late = _lateness(ways.seconds, aim)
        if kinds[a] == kinds[b]:
            late = late + late[::-1]  # what b gets is the rest: the same list backwards
        else:
            other = self._ways(kinds[b], both)
            assert other is not None
            late = late + _lateness(other.seconds, aim)[::-1]
        gpus = ways.gpus
        if gpus[-1] > min(free[a], free[b]):
            late[(gpus > free[a]) | (gpus[-1] - gpus > free[b])] = np.inf
        return _Division(ways.stages, ways.ways, late)

    def _ways(self, kind: int, both: Whole) -> _Ways | None:
        key = kind, both.tobytes()
        if key not in self.ways:
            stages = both.nonzero()[0]
            shape = (both[stages] + 1).tolist()
            self.ways[key] = self._made(kind, stages, tuple(shape)) if prod(shape) <= MOST_WAYS else None
        return self.ways[key]

    def _made(self, kind: int, stages: Whole, shape: tuple[int, ...]) -> _Ways:
        ways, present = _grid(shape)
        cost = self.room.costs[kind]
        seconds = cost.base[stages, ways] - ways @ cost.saving.T[stages[:, None], stages]
        return _Ways(stages, ways, seconds * present, ways @ self.slices[stages])


class _Ways(NamedTuple):
    """N ways to put up to so many replicas of these stages on a server, in lexicographic order."""

    stages: Whole
    ways: Whole
    seconds: Floats  # (N, stages)
    gpus: Whole  # (N,)


class _Division(NamedTuple):
    stages: Whole
    ways: Whole  # what the first server gets
    late: Floats  # (N,) seconds over the aim, of all stages on both servers


def _lateness(seconds: Floats, aim: float) -> Floats:
    stages = seconds.shape[1]
    return np.asarray(np.maximum(seconds, aim) @ np.ones(stages) - aim * stages)


@cache
def _grid(shape: tuple[int, ...]) -> tuple[Whole, Floats]:
    """All whole points below ``shape`` in lexicographic order, and 1.0 where they are not 0."""
    points = np.indices(shape).reshape(len(shape), -1).T.copy()
    return points, (points > 0).astype(float)
