"""Better than Heavy-Edge: replicas exchanged between two servers at a time, judged by the iteration itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hetopt.checks import at_least
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.asrpt.contents import Room, Whole
from hetopt.models.asrpt.exchanges import Exchanges, Ways
from hetopt.models.asrpt.heavy_edge import heavy_edge, taken
from hetopt.models.asrpt.lookup import Lookup
from hetopt.models.asrpt.packing import fills, packings
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import AllReduce, algorithm, job_graph
from hetopt.stages.mapping import GPUMapping, Stopwatch, check_room, in_order
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import PROVEN

AIM = 0.97
"""Stages count as late from this part of the best iteration found; tuned on random jobs, where 0.95 to 0.99 are about
as good and 1 lets the search walk among equals."""

PROMISING = 0.75
"""Starts are tried by how late they are, counted from this part of the best iteration of them."""

PATIENCE = 6
"""Steps without a better iteration after which the next start has its turn."""


@dataclass(frozen=True)
class LocalSearch:
    """Exchange replicas of the worst server and of another, in the best of all ways; repeat.

    One step takes the stage and server that hold up the iteration and tries all exchanges with each other server that
    can speed this up: moves and swaps of any number of replicas (of crowded servers, of few). That with which least is
    too slow is taken, also where it is worse than before, but never a placement that has been seen. The starts are the
    mapping of Heavy-Edge, packings of whole stages and servers filled in random order
    (:mod:`hetopt.models.asrpt.packing`), most promising first. It is never worse than Heavy-Edge, and stops early where
    a bound proves that nothing is better. The same input always gives the same mapping, unless there is a time limit.

    Parameters
    ----------
    steps:
        Exchanges that are made at most.
    timing:
        How long an iteration takes.
    allreduce:
        Edges of the graph that Heavy-Edge starts from.
    time_limit:
        No step begins later than so many seconds after the call. The mapping then depends on the machine as well.

    Raises
    ------
    InvalidOption
        ``steps`` is no whole number >= 0, ``timing`` is another than :class:`Asynchronous`, or ``time_limit`` is not
        > 0.
    """

    steps: int = 20
    timing: Asynchronous = field(default_factory=Asynchronous)
    allreduce: AllReduce = AllReduce.RING
    time_limit: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "allreduce", algorithm(self.allreduce, "LocalSearch"))
        if at_least(self.steps, "LocalSearch.steps", 0, InvalidOption) != int(self.steps):
            raise InvalidOption(f"LocalSearch.steps is {self.steps!r}; it must be a whole number >= 0")
        if not isinstance(self.timing, Asynchronous):
            raise InvalidOption(f"LocalSearch.timing is {self.timing!r}; it must be Asynchronous: the search judges "
                                "each server by its own contents")  # fmt: skip
        if self.time_limit is not None:
            at_least(self.time_limit, "LocalSearch.time_limit", 0.0, InvalidOption, strict=True)

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
        starts = packings(pipeline, room) + fills(pipeline, room)
        first = None
        try:
            first = np.array(heavy_edge(graph, taken(pipeline, servers.free.tolist())))
            starts.insert(0, graph.counts(first, len(servers)).T)
        except InvalidInstance:  # the others may find room for slices
            if not starts:
                raise
        search = _Search(room, self.steps, watch, np.inf if self.time_limit is None else self.time_limit)
        best = search.run(starts)
        server = in_order(best.T) if first is None or best is not starts[0] else first
        proven = search.value <= room.bound * (1 + PROVEN)
        status = "optimal" if proven else "heuristic"
        return GPUMapping(graph, servers, server, self.timing, "local", room.bound, status, watch.seconds)


class _Search:
    def __init__(self, room: Room, steps: int, watch: Stopwatch, time_limit: float) -> None:
        self.room, self.left, self.watch, self.time_limit = room, steps, watch, time_limit
        self.seen: set[bytes] = set()
        self.value, self.best = np.inf, np.empty(0, dtype=np.int64)

    def run(self, starts: list[Whole]) -> Whole:
        """The best placement found, as (M, S) contents."""
        seconds = self.room.seconds(np.array(starts))
        values = seconds.max(axis=(1, 2))
        first = int(values.argmin())
        self.value, self.best = float(values[first]), starts[first]
        if self._done() or not Lookup.fits(self.room):
            return self.best
        self.ways = Ways(Lookup(self.room))
        late = np.maximum(seconds - PROMISING * self.value, 0.0).sum(axis=(1, 2))
        tried: set[float] = set()
        for i in late.argsort(kind="stable").tolist():
            if self._done():
                break
            if late[i] not in tried:  # equal sums mostly are equal placements
                tried.add(late[i])
                self._descend(starts[i])
        return self.best

    def _done(self) -> bool:
        return self.left <= 0 or self.watch.seconds >= self.time_limit or self.value <= self.room.bound * (1 + PROVEN)

    def _descend(self, start: Whole) -> None:
        """Walk from ``start`` until nothing better has been seen for a while."""
        self.seen.add(start.tobytes())
        walk = Exchanges(self.ways, start)
        best, *worst = walk.slowest()
        stale = 0
        while stale <= PATIENCE and not self._done() and self._step(walk, *worst):
            now, *worst = walk.slowest()
            stale = 0 if now < best else stale + 1
            best = min(best, now)
            if now < self.value:
                self.value, self.best = now, walk.x.copy()

    def _step(self, walk: Exchanges, server: int, stage: int) -> bool:
        """Exchange replicas of the worst server and another; False where all that is offered was seen."""
        self.left -= 1
        for exchange in walk.best(server, stage, max(self.room.bound, AIM * self.value)):
            if (key := walk.after(exchange).tobytes()) not in self.seen:
                self.seen.add(key)
                walk.make(exchange)
                return True
        return False
