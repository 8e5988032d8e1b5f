"""The GPU mapping that sends the fewest bytes between servers, as an integer program."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyomo.environ as pyo

from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidOption
from hetopt.models.asrpt.exact_mapping import (
    REDUCED,
    STAGES,
    first_servers_first,
    one_minute,
    settled,
    solve_from,
    started,
)
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.placement_costs import in_units
from hetopt.programs.mathematics import Mathematics, described
from hetopt.programs.model import linear
from hetopt.solving.options import Options
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.job_graph import AllReduce, JobGraph, algorithm, job_graph, multiplicities
from hetopt.stages.mapping import GPUMapping, Mapper, in_order
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

Sizes = tuple[int, ...]
"""Sizes of the parts, largest first."""

MOST_REPLICAS = 10
"""Largest number of replicas of trees: 10 replicas have 115,975 partitions, which take a second; 11 six times as
many."""


@cache
def least_cuts(replicas: int, algorithm: AllReduce) -> Mapping[Sizes, tuple[int, tuple[int, ...]]]:
    """Sizes -> (halves of the AllReduce's bytes that must cross, part of each replica); parts in the order of sizes.

    Raises
    ------
    InvalidOption
        More replicas than can be enumerated.
    """
    if replicas > MOST_REPLICAS:
        raise InvalidOption(
            f"a stage has {replicas} replicas; the least cuts of AllReduce trees are enumerated up to {MOST_REPLICAS}. "
            "Use allreduce='ring', or Heavy-Edge"
        )
    edges = list(multiplicities(replicas, algorithm).items())
    best: dict[Sizes, tuple[int, tuple[int, ...]]] = {}
    for part in _partitions(replicas):
        counts = [part.count(i) for i in range(max(part) + 1)]
        order = sorted(range(len(counts)), key=lambda i: -counts[i])
        sizes = tuple(counts[i] for i in order)
        cut = sum(times for (a, b), times in edges if part[a] != part[b])
        if sizes not in best or cut < best[sizes][0]:
            rank = {i: place for place, i in enumerate(order)}
            best[sizes] = cut, tuple(rank[i] for i in part)
    return best


def _partitions(n: int) -> Iterator[tuple[int, ...]]:
    """All partitions of n items, as the part of each item; parts are numbered in order of appearance."""

    def extended(part: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
        if len(part) == n:
            yield part
            return
        for i in range(parts + 1):
            yield from extended((*part, i), max(parts, i + 1))

    yield from extended((), 0)


Step = tuple[int, int, int, int, int]
"""(free GPUs of the server, stage from 0, GPUs used before it, replicas of the stage before, replicas of it)."""


_WITH_TREES = Mathematics.read(
    r"""
    A-SRPT: the GPU mapping that cuts fewest bytes
    minimise
      bytes [ASRPT, section IV-B] | bytes sent between servers in an iteration | unit
        (apart - inside + reduced) / unit
    subject to
      walk [ASRPT, eq. (3)]
        | flow conservation between stages; all servers enter the first stage; none uses more than its free GPUs
        | servers
        sum(f[g, s, u, b, c] for c in {0, ..., K}) == (n[g] if s == 0 else sum(f[g, s - 1, u - t[s - 1] * b, d, b]
          for d in {0, ..., K})) for g, s, u, b in nodes
      placed [ASRPT, eq. (2)] | every replica is on some server | replicas
        sum(c * N[s, c] for c in {1, ..., k[s]}) == k[s] for s in S
      partition | exactly one partition of each stage is chosen
        sum(w[s, p] for p in P[s]) == 1 for s in S
      sizes | the parts of a stage are its replicas by server | servers
        N[s, c] == sum(parts[s, p, c] * w[s, p] for p in P[s]) for s in S for c in {1, ..., k[s]}
    with
      f[g, s, u, b, c]
        | servers of g free GPUs that used u before stage s, took b replicas of the stage before and take c of s
        | servers
        f[g, s, u, b, c] in {0, ..., n[g]}
        for g, s, u, b in nodes for c in {0, ..., min(k[s], (g - u) // t[s])}, else 0
      w[s, p] | whether stage s is split into p
        w[s, p] in {0, 1} for s in S for p in P[s]
    where
      apart [ASRPT, section IV-B] | links and tokens if no two replicas were on one server | bytes
        apart == sum(l[r, s] * k[r] * k[s] for s in S for r in S if r < s) + sum(e[s] * k[s] * (k[s] - 1) / 2 for s
          in S)
      inside [ASRPT, section IV-B] | links and tokens within servers | bytes
        inside == sum((l[s - 1, s] * b * c + e[s] * c * (c - 1) / 2) * f[g, s, u, b, c] for g, s, u, b in nodes for
          c in {0, ..., K})
      reduced [ASRPT, section IV-B] | AllReduce between servers | bytes
        reduced == sum(cut[s, p] * a[s] / 2 * w[s, p] for s in S for p in P[s])
      N[s, c] | servers that take c replicas of stage s | servers
        N[s, c] == sum(f[g, r, u, b, c] for g, r, u, b in nodes if r == s) for s in S for c in {1, ..., k[s]}
    symbols
      S | stages of the job, from 0 on
      K | most replicas of a stage | replicas
      n[g] | servers with g free GPUs | servers
      nodes | reachable (g, s, u, b); the first are (g, 0, 0, 0)
      unit | largest number of bytes that two replicas exchange, or one sends in its AllReduce | bytes
      P[s] | ways to split stage s into parts, by their sizes
      parts[s, p, c] | parts of c replicas in p
      cut[s, p] | halves of a that are cut at least if stage s is split into p
    """,
    definitions=(REDUCED,),
    symbols=STAGES,
)
_RING_REDUCED = "reduced == sum(a[s] / (2 if k[s] == 2 else 1) * N[s, c] for s in S for c in {1, ..., k[s] - 1})"


@cache
def mathematics(allreduce: AllReduce = AllReduce.RING) -> Mathematics:
    """The GPU mapping with the least cut in bytes, for this AllReduce algorithm."""
    title = f"{_WITH_TREES.title}, with {allreduce} AllReduce"
    if allreduce is not AllReduce.RING:
        return replace(_WITH_TREES, title=title)
    definitions = tuple(
        replace(one, formula=_RING_REDUCED) if one.name == "reduced" else one for one in _WITH_TREES.definitions
    )
    rows = tuple(one for one in _WITH_TREES.rows if one.name not in ("partition", "sizes"))
    variables = tuple(one for one in _WITH_TREES.variables if one.name != "w")
    return replace(_WITH_TREES, title=title, rows=rows, variables=variables, definitions=definitions)


@dataclass(frozen=True)
class MinimumCut:
    """Minimise the weight of the edges between servers: the graph partition of [ASRPT, section IV-B].

    Servers with equally many free GPUs are interchangeable, and so are replicas of a stage. The program is an arc-flow
    formulation as for bin packing: each server is a walk through the stages that takes some replicas of each, and the
    flow of all servers decomposes into such walks. The relaxation is nearly integral. A ring of k > 2 replicas in p > 1
    parts is cut p times, a ring of two once. For trees a partition of the stage is chosen, at the cost of the least cut
    with parts of these sizes. ``print(MinimumCut().mathematics)`` shows the program.

    Parameters
    ----------
    start:
        Mapper whose result is the initial solution; the search never returns a worse one.
    allreduce:
        AllReduce algorithm, which determines the edges between a stage's replicas.
    timing:
        Model of the iteration time for evaluation; it does not change the mapping.
    options:
        Solver, time limit (a minute by default; the gap is then reported), gap, threads, seed.

    Raises
    ------
    InvalidOption
        ``allreduce`` is invalid. When called: a tree has more replicas than can be enumerated.
    """

    start: Mapper = field(default_factory=HeavyEdge)
    allreduce: AllReduce = AllReduce.RING
    timing: Timing = field(default_factory=Asynchronous)
    options: Options = field(default_factory=one_minute)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allreduce", algorithm(self.allreduce, "MinimumCut"))

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; its bound is in bytes.

        Raises
        ------
        InvalidInstance
            Too few free GPUs.
        NotSolved
            The time limit was reached before any mapping was found.
        SolverUnavailable
            The solver is unknown, not installed or not licensed.
        """
        began = time.perf_counter()
        model, graph = self.build(pipeline, servers), job_graph(pipeline, self.allreduce)
        point = solve_from(model, self.options, presolve=False)
        chosen = {step: n for step, f in model.f.items() if (n := round(pyo.value(f)))}
        counts = first_servers_first(_counts(pipeline, servers, chosen), servers)
        if self.allreduce is AllReduce.RING:
            server = in_order(counts)
        else:
            server = _by_partition(graph, counts, self.allreduce)
        bound = max(0.0, -point.bound * pyo.value(model.unit)) if point else 0.0
        status = settled(point.status if point else "time_limit", float(graph.cut(server)), bound)
        seconds = time.perf_counter() - began
        return GPUMapping(graph, servers, server, self.timing, "exact-cut", bound, status, seconds, "bytes")

    @property
    def mathematics(self) -> Mathematics:
        """The program."""
        return mathematics(self.allreduce)

    def build(self, pipeline: Pipeline, servers: Servers) -> Any:
        """The Pyomo model; its variables have the start's values, ``model.unit`` is the objective's unit in bytes."""
        start = started(self.start, pipeline, servers)
        model = pyo.ConcreteModel(name=f"{pipeline.name}: minimum cut")
        most = float(max(pipeline.links.max(), pipeline.reduced.max()))
        model.unit = pyo.Param(initialize=most or 1.0, doc="what the objective is divided by (bytes)")
        sent = _Sent.of(pipeline, most or 1.0)
        alike = Counter(servers.free.tolist())
        model.f = pyo.Var(list(_steps(pipeline, alike)), domain=pyo.NonNegativeIntegers, initialize=0)
        for (g, *_), f in model.f.items():
            f.setub(alike[g])
        for m, contents in enumerate([] if start is None else start.T.tolist()):
            for step in _walk(pipeline, int(servers.free[m]), contents):
                model.f[step].value += 1
        _rows(model, pipeline, alike)
        terms = [(-sent.inside(step), f) for step, f in model.f.items()]
        terms += _reducing(model, sent, self.allreduce, start)
        every = linear((value, variable) for value, variable in terms if value)
        model.bytes = pyo.Objective(expr=every + sent.apart(), sense=pyo.minimize)
        described(model, self.mathematics)
        return model


@dataclass(frozen=True, eq=False)
class _Sent:
    """What replicas send, in units; rounded, so that what cancels in sums does so exactly.

    Attributes
    ----------
    replicas:
        (S,) of each stage.
    links:
        (S, S) between replicas of two stages.
    tokens, reduced:
        (S,) between two replicas of a stage, and by one in its AllReduce.
    """

    replicas: Integers
    links: Floats
    tokens: Floats
    reduced: Floats

    @classmethod
    def of(cls, pipeline: Pipeline, unit: float) -> _Sent:
        """Of a pipeline, in multiples of ``unit`` bytes."""
        parts = (in_units(part, unit) for part in (pipeline.links, pipeline.tokens, pipeline.reduced))
        return cls(pipeline.replicas, *parts)

    def apart(self) -> float:
        """Links and tokens if all replicas are on different servers."""
        k = self.replicas
        across = sum(self.links[s, s + 1] * k[s] * k[s + 1] for s in range(len(k) - 1))
        return float(across + (self.tokens * k * (k - 1) / 2).sum())

    def inside(self, step: Step) -> float:
        """What stays within a server through this step."""
        _, s, _, a, c = step
        linked = self.links[s - 1, s] * a * c if s else 0.0
        return float(linked + self.tokens[s] * c * (c - 1) / 2)


def _steps(pipeline: Pipeline, alike: Counter[int]) -> Iterator[Step]:
    for g in sorted(alike, reverse=True):
        there = {(0, 0)}  # (GPUs used, replicas of the stage before)
        for s, (k, t) in enumerate(zip(pipeline.replicas.tolist(), pipeline.slices.tolist(), strict=True)):
            after = set()
            for u, a in sorted(there):
                for c in range(min(k, (g - u) // t) + 1):
                    yield g, s, u, a, c
                    after.add((u + t * c, c))
            there = after


def _walk(pipeline: Pipeline, g: int, contents: list[int]) -> Iterator[Step]:
    used, before = 0, 0
    for s, c in enumerate(contents):
        yield g, s, used, before, c
        used, before = used + c * int(pipeline.slices[s]), c


def _rows(model: Any, pipeline: Pipeline, alike: Counter[int]) -> None:
    enter: dict[tuple[int, int, int, int], list[tuple[float, Any]]] = {}
    taken: list[list[tuple[float, Any]]] = [[] for _ in range(len(pipeline))]
    last = len(pipeline) - 1
    for (g, s, u, a, c), f in model.f.items():
        enter.setdefault((g, s, u, a), []).append((-1, f))
        if s < last:
            enter.setdefault((g, s + 1, u + c * int(pipeline.slices[s]), c), []).append((1, f))
        if c:
            taken[s].append((c, f))
    model.walk, model.placed = pyo.Constraint(pyo.Any), pyo.Constraint(pyo.Any)
    for (g, s, u, a), terms in enter.items():
        model.walk[g, s, u, a] = linear(terms) == (0 if s else -alike[g])
    for s, terms in enumerate(taken):
        model.placed[s] = linear(terms) == int(pipeline.replicas[s])


def _reducing(model: Any, sent: _Sent, algorithm: AllReduce, start: Integers | None) -> list[tuple[float, Any]]:
    """(units, variable) of the cuts of AllReduces."""
    parts: list[dict[int, list[Any]]] = [{} for _ in range(len(sent.replicas))]  # stage -> count -> variables
    for (_, s, _, _, c), f in model.f.items():
        if c:
            parts[s].setdefault(c, []).append(f)
    if algorithm is AllReduce.RING:
        return [
            (float(sent.reduced[s]) / (2 if k == 2 else 1), f)
            for s, k in enumerate(sent.replicas.tolist())
            for c, own in parts[s].items()
            if c < k
            for f in own
        ]
    cuts = [least_cuts(k, algorithm) for k in sent.replicas.tolist()]
    indices = [(s, _label(sizes)) for s, cut in enumerate(cuts) for sizes in cut]
    model.w = pyo.Var(indices, domain=pyo.Binary, initialize=0)
    model.partition, model.sizes = pyo.Constraint(pyo.Any), pyo.Constraint(pyo.Any)
    for s, cut in enumerate(cuts):
        model.partition[s] = linear((1, model.w[s, _label(sizes)]) for sizes in cut) == 1
        if start is not None:
            model.w[s, _label(sorted(filter(None, start[s].tolist()), reverse=True))].value = 1
        for c in range(1, int(sent.replicas[s]) + 1):
            chosen = [(-sizes.count(c), model.w[s, _label(sizes)]) for sizes in cut if c in sizes]
            model.sizes[s, c] = linear([*((1, f) for f in parts[s].get(c, ())), *chosen]) == 0
    return [
        (cut * float(sent.reduced[s]) / 2, model.w[s, _label(sizes)])
        for s, found in enumerate(cuts)
        for sizes, (cut, _) in found.items()
    ]


def _label(sizes: Iterable[int]) -> str:
    """Label such as ``3+1``: Pyomo does not support tuples within indices."""
    return "+".join(map(str, sizes))


def _counts(pipeline: Pipeline, servers: Servers, chosen: dict[Step, int]) -> Integers:
    """(S, M) counts, by decomposition of the flow into a walk per server."""
    left = Counter(chosen)
    counts = np.zeros((len(pipeline), len(servers)), dtype=np.int64)
    by_node: dict[tuple[int, int, int, int], list[Step]] = {}
    for step in chosen:
        by_node.setdefault(step[:4], []).append(step)
    for m, g in enumerate(servers.free.tolist()):
        used, before = 0, 0
        for s in range(len(pipeline)):
            step = next(step for step in by_node[g, s, used, before] if left[step])
            left[step] -= 1
            counts[s, m] = before = step[4]
            used += before * int(pipeline.slices[s])
    return counts


def _by_partition(graph: JobGraph, counts: Integers, algorithm: AllReduce) -> Integers:
    """(V,) servers for (S, M) counts, with the least cut of each stage's AllReduce."""
    server = []
    for s, row in enumerate(counts):
        there = sorted(np.flatnonzero(row).tolist(), key=lambda m: -row[m])
        sizes = tuple(int(row[m]) for m in there)
        server += [there[part] for part in least_cuts(int(graph.pipeline.replicas[s]), algorithm)[sizes][1]]
    return np.array(server)
