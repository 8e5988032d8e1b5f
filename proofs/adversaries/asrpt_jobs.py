"""Jobs in stages, computed a second time: iterations replica by replica, all placements, and Heavy-Edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, pairwise, product
from operator import le
from typing import NamedTuple

from hetopt.data.workload import Job
from hetopt.stages.pipeline import Pipeline

F = Fraction
Placement = tuple[tuple[int, ...], ...]
"""Replicas of each stage on each server."""


class Stages(NamedTuple):
    """The stages of a job: replicas, seconds of computation, bytes of parameters, and bytes to the next stage."""

    replicas: tuple[int, ...]
    seconds: tuple[Fraction, ...]
    parameters: tuple[Fraction, ...]
    outputs: tuple[Fraction, ...]

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return sum(self.replicas)


class Links(NamedTuple):
    """B_inter / g and B_intra."""

    nic: Fraction
    intra: Fraction


def stages_of(job: Job) -> Stages:
    """The stages of a job."""
    rows = [(s.replicas, F(s.forward_s) + F(s.backward_s), F(s.parameter_bytes), F(s.output_bytes)) for s in job.stages]
    return Stages(*(tuple(column) for column in zip(*rows, strict=True)))


@lru_cache(maxsize=4096)
def stages_in(pipeline: Pipeline) -> Stages:
    """The stages of a pipeline in fractions."""
    seconds = [F(f) + F(b) for f, b in zip(pipeline.forward.tolist(), pipeline.backward.tolist(), strict=True)]
    sizes = [tuple(map(F, column.tolist())) for column in (pipeline.parameters, pipeline.outputs)]
    return Stages(tuple(pipeline.replicas.tolist()), tuple(seconds), *sizes)


# -- iterations ------------------------------------------------------------------------------------------------------


def pair_bytes(stages: Stages, s: int, r: int) -> Fraction:
    """Bytes that a replica of stage s and one of the adjacent stage r exchange in an iteration."""
    first, second = min(s, r), max(s, r)
    return 2 * stages.outputs[first] / stages.replicas[second]


def neighbours(stages: Stages, s: int) -> list[int]:
    """The stages next to a stage."""
    return [r for r in (s - 1, s + 1) if 0 <= r < len(stages.replicas)]


def reduced_bytes(stages: Stages, s: int) -> Fraction:
    """Bytes that each replica of a stage sends in its AllReduce."""
    k = stages.replicas[s]
    return F(2 * (k - 1), k) * stages.parameters[s]


@lru_cache(maxsize=20000)
def stage_seconds(stages: Stages, table: Placement, links: Links) -> tuple[Fraction, ...]:
    """Seconds of each stage on the slowest of its servers."""
    found = []
    for s, row in enumerate(table):
        times = []
        for m, here in enumerate(row):
            if here:
                exchange = sum(
                    (
                        count * pair_bytes(stages, s, r) / (links.intra if other == m else links.nic)
                        for r in neighbours(stages, s)
                        for other, count in enumerate(table[r])
                    ),
                    F(0),
                )
                band = links.intra if here == stages.replicas[s] else here * links.nic
                times.append(stages.seconds[s] + exchange + reduced_bytes(stages, s) / band)
        found.append(max(times))
    return tuple(found)


def iteration(stages: Stages, table: Placement, links: Links) -> Fraction:
    """Alpha: seconds of an iteration."""
    return max(stage_seconds(stages, table, links))


@lru_cache(maxsize=4096)
def all_apart(stages: Stages, links: Links) -> Fraction:
    """alpha_max as printed: every replica on its own server."""
    servers = [s for s, k in enumerate(stages.replicas) for _ in range(k)]
    table = tuple(tuple(int(s == r) for s in servers) for r in range(len(stages.replicas)))
    return iteration(stages, table, links)


@lru_cache(maxsize=512)
def every_table(stages: Stages, free: tuple[int, ...]) -> list[Placement]:
    """All placements: every stage's replicas on any servers."""
    servers = range(len(free))
    rows = [[tuple(map(c.count, servers)) for c in combinations_with_replacement(servers, k)] for k in stages.replicas]
    return [table for table in product(*rows) if all(map(le, map(sum, zip(*table, strict=True)), free))]


# -- Heavy-Edge ------------------------------------------------------------------------------------------------------


def edges_of(stages: Stages) -> dict[tuple[int, int], Fraction]:
    """Edges of the job's graph, whose vertices are the replicas stage by stage, and their bytes."""
    stage = [s for s, k in enumerate(stages.replicas) for _ in range(k)]
    found = {
        (a, b): pair_bytes(stages, stage[a], stage[b])
        for a, b in combinations(range(len(stage)), 2)
        if stage[b] == stage[a] + 1
    }
    for s, k in enumerate(stages.replicas):
        ring = [v for v, own in enumerate(stage) if own == s]
        if k > 1:
            found |= {tuple(sorted((ring[i - 1], ring[i]))): reduced_bytes(stages, s) for i in range(k)}  # type: ignore[misc]
    return found


@lru_cache(maxsize=20000)
def heavy_edge(stages: Stages, use: tuple[int, ...], last: bool) -> Placement:
    """Heavy-Edge's placement on these GPUs of each server; ties go to the first or the last vertices and servers."""
    edges, stage = edges_of(stages), [s for s, k in enumerate(stages.replicas) for _ in range(k)]
    sign = 1 if last else -1
    weight = {v: sum((w for edge, w in edges.items() if v in edge), F(0)) for v in range(len(stage))}
    table, left = [[0] * len(use) for _ in stages.replicas], set(range(len(stage)))

    def next_vertices(here: set[int], room: int) -> set[int]:
        inside = [(w, sign * a, sign * b, {a, b} & left) for (a, b), w in edges.items() if len({a, b} & here) == 1]
        inside = [edge for edge in inside if edge[3]]
        if not here and room > 1:
            inside = [(w, sign * a, sign * b, {a, b}) for (a, b), w in edges.items() if {a, b} <= left]
        return max(inside)[3] if inside else {max(left) if last else min(left)}

    for m in sorted(range(len(use)), key=lambda m: (use[m], sign * m), reverse=True):
        here = set[int]()
        while left and len(here) < use[m]:
            if len(left) <= use[m] - len(here):
                chosen = set(left)
            elif use[m] == 1:
                chosen = {min(left, key=lambda v: (weight[v], -sign * v))}
            else:
                chosen = next_vertices(here, use[m] - len(here))
            here |= chosen
            left -= chosen
        for v in here:
            table[stage[v]][m] += 1
    return tuple(map(tuple, table))


def filled(gpus: int, free: Sequence[int]) -> tuple[int, ...]:
    """GPUs of a job on servers that are filled one after another."""
    use = []
    for n in free:
        use.append(min(n, gpus))
        gpus -= use[-1]
    return tuple(use)


def greedy(stages: Stages, free: Sequence[int], links: Links, *, last: bool) -> Fraction:
    """alpha~_min: Heavy-Edge on servers that are filled one after another."""
    return iteration(stages, heavy_edge(stages, filled(stages.gpus, free), last), links)


def paths(stages: int, iterations: int) -> Iterator[tuple[int, ...]]:
    """How often a path through the grid of stages and iterations visits each stage, for all paths."""
    length = iterations + stages - 1
    for turns in combinations(range(1, length), stages - 1):
        yield tuple(b - a for a, b in pairwise((0, *turns, length)))
