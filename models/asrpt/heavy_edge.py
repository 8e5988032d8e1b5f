"""Heavy-Edge, the greedy GPU mapping of [ASRPT, section IV-B]."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from hetopt.errors import InvalidInstance
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.job_graph import AllReduce, JobGraph, algorithm, job_graph
from hetopt.stages.mapping import GPUMapping, check_room
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass(frozen=True)
class HeavyEdge:
    """Fill servers in descending order of free GPUs along the heaviest edges [ASRPT, section IV-B].

    If more GPUs are free than the job needs, it uses the servers with the most free GPUs. Servers are filled in
    descending order of the GPUs used. A server that can hold all remaining vertices takes them; a server with a single
    GPU takes the vertex with the least total edge weight. Any other server starts with the heaviest edge between two
    remaining vertices, and repeatedly adds the vertex with the heaviest edge to its vertices or, without such an edge,
    any vertex.

    The paper leaves ties open. Here ties are broken by position: servers in order, edges by their vertices (first the
    vertex in the server, then the one outside), vertices by stage and replica; "any vertex" is the first one. Vertices
    of several slices only go to servers that can hold all slices; if some are left over, the largest go first, each to
    the server with the fewest sufficient free GPUs, without regard to edges.

    Parameters
    ----------
    allreduce:
        Edges of a stage's replicas.
    timing:
        Model of the iteration time for evaluation; it does not change the mapping.

    Raises
    ------
    InvalidOption
        ``allreduce`` is not an AllReduce algorithm.
    """

    allreduce: AllReduce = AllReduce.RING
    timing: Timing = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allreduce", algorithm(self.allreduce, "HeavyEdge"))

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping.

        Raises
        ------
        InvalidInstance
            Too few free GPUs, or sliced replicas do not fit in the order of filling.
        """
        began = time.perf_counter()
        check_room(pipeline, servers)
        graph = job_graph(pipeline, self.allreduce)
        server = heavy_edge(graph, gpus_to_use(pipeline, servers.free.tolist()))
        seconds = time.perf_counter() - began
        return GPUMapping(graph, servers, np.array(server), self.timing, "heavy-edge", seconds=seconds)


def gpus_to_use(pipeline: Pipeline, free: Sequence[int]) -> list[int]:
    """GPUs to use per server: those of the servers with the most free GPUs [ASRPT, Algorithm 1, line 9].

    A job with slices may use all of them, since it may not be able to use all GPUs of a server.
    """
    if pipeline.slices.max() > 1:
        return list(free)
    left, use = pipeline.gpus, [0] * len(free)
    for m in sorted(range(len(free)), key=lambda m: -free[m]):
        use[m] = min(free[m], left)
        left -= use[m]
        if not left:
            break
    return use


def heavy_edge(graph: JobGraph, free: Sequence[int]) -> list[int]:
    """Server of each vertex, for ``free`` GPUs to use per server; 0 for servers that are not used.

    Raises
    ------
    InvalidInstance
        Sliced replicas do not fit, even in descending order of size.
    """
    filling = _Filling(graph)
    for m in sorted((m for m in range(len(free)) if free[m]), key=lambda m: -free[m]):
        if not filling.left:
            break
        filling.fill(m, free[m])
    return _largest_first(graph, list(free)) if filling.left else filling.server


def _largest_first(graph: JobGraph, room: list[int]) -> list[int]:
    """Servers by best fit in descending order of replica sizes."""
    server = [-1] * len(graph)
    for v in sorted(range(len(graph)), key=lambda v: -graph.size[v]):
        fits = [m for m, n in enumerate(room) if n >= graph.size[v]]
        if not fits:
            raise InvalidInstance(
                f"Heavy-Edge does not fit all {len(graph)} replicas of job {graph.pipeline.name!r}: a sliced replica "
                "needs all its GPUs on one server; the exact mappings decide whether a mapping exists"
            )
        server[v] = min(fits, key=lambda m: room[m])
        room[server[v]] -= int(graph.size[v])
    return server


class _Filling:
    """The partial mapping: server of each vertex, -1 if it has none yet."""

    def __init__(self, graph: JobGraph) -> None:
        self.size = graph.size.tolist()
        self.neighbours = graph.neighbours
        self.total = graph.total_weight
        self.heaviest = iter(graph.heaviest_first)
        self.server = [-1] * len(graph)
        self.left = len(graph)
        self.gpus_left = sum(self.size)

    def fill(self, m: int, room: int) -> None:
        if self.gpus_left <= room:
            for v in self._rest():
                self._put(v, m)
        elif room == 1:
            single = [v for v in self._rest() if self.size[v] == 1]
            if single:
                self._put(min(single, key=lambda v: (self.total[v], v)), m)
        else:
            self._grow(m, room)

    def _rest(self) -> list[int]:
        return [v for v, m in enumerate(self.server) if m < 0]

    def _put(self, v: int, m: int) -> None:
        self.server[v] = m
        self.left -= 1
        self.gpus_left -= self.size[v]

    def _grow(self, m: int, room: int) -> None:
        edges: list[tuple[float, int, int]] = []  # (-bytes, vertex on the server, remaining vertex)
        for v in self._first_pair(room):
            room -= self.size[v]
            self._put(v, m)
            self._push(edges, v)
        while room and self.left:
            v = self._next(edges, room)
            if v < 0:
                return
            room -= self.size[v]
            self._put(v, m)
            self._push(edges, v)

    def _push(self, edges: list[tuple[float, int, int]], v: int) -> None:
        server = self.server
        for weight, u in self.neighbours[v]:
            if server[u] < 0:
                heappush(edges, (-weight, v, u))

    def _first_pair(self, room: int) -> tuple[int, ...]:
        """The heaviest edge between two remaining vertices that fit together; later servers have no more free GPUs."""
        for a, b in self.heaviest:
            if self.server[a] < 0 and self.server[b] < 0 and self.size[a] + self.size[b] <= room:
                return a, b
        return ()

    def _next(self, edges: list[tuple[float, int, int]], room: int) -> int:
        while edges:
            v = heappop(edges)[2]
            if self.server[v] < 0 and self.size[v] <= room:
                return v
        return next((v for v in self._rest() if self.size[v] <= room), -1)
