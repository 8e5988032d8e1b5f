"""The graph of a job: replicas that exchange data, and the bytes that a placement cuts [ASRPT, section IV-B].

Replicas of a stage exchange gradients in an AllReduce, over a ring or over NCCL's double binary trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import one_of, require
from hetopt.data.array_types import Numbers
from hetopt.data.entities import read_only
from hetopt.stages.pipeline import Pipeline

if TYPE_CHECKING:
    import networkx as nx

Edge: TypeAlias = tuple[int, int]
"""Two ranks, the smaller one first."""


class AllReduce(StrEnum):
    """Algorithm of the AllReduce; it determines the edges of the job graph, not the time of an iteration."""

    RING = "ring"
    TREE = "tree"


def algorithm(value: str, owner: str) -> AllReduce:
    """The algorithm of that name.

    Raises
    ------
    InvalidOption
        The name is unknown.
    """
    return AllReduce(one_of(value, AllReduce, f"{owner}.allreduce"))


def ring(ranks: int) -> list[Edge]:
    """The edges of the ring 0, 1, …, 0; one edge for two ranks, none for one."""
    if ranks <= 2:
        return [(0, 1)] if ranks == 2 else []
    return [(i, i + 1) for i in range(ranks - 1)] + [(0, ranks - 1)]


def double_binary_tree(ranks: int) -> tuple[list[Edge], list[Edge]]:
    """The edges of the two trees over which NCCL reduces half of the data each.

    In the first, whose root is 0, the lowest set bit of a rank is its height: leaves are odd. The second is its mirror
    image for an even number of ranks, else the first shifted by one rank, so that nearly every rank is a leaf in one of
    them [Sanders, Speck and Träff, 2009; NCCL, ``src/graph/trees.cc``].
    """
    first = [(rank, _parent(rank, ranks)) for rank in range(1, ranks)]
    if ranks % 2:
        second = [((a + 1) % ranks, (b + 1) % ranks) for a, b in first]
    else:
        second = [(ranks - 1 - a, ranks - 1 - b) for a, b in first]
    return [_ordered(e) for e in first], [_ordered(e) for e in second]


def _parent(rank: int, ranks: int) -> int:
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return up if up < ranks else rank ^ bit


def _ordered(edge: Edge) -> Edge:
    return min(edge), max(edge)


def multiplicities(ranks: int, algorithm: AllReduce) -> Mapping[Edge, int]:
    """Edge -> number of halves of the ``2 (k-1)/k h`` bytes of the AllReduce that it carries in an iteration.

    An edge of a ring carries both, an edge of one tree one: each tree reduces half of the data [ASRPT, section IV-B].
    """
    if algorithm is AllReduce.RING:
        return dict.fromkeys(ring(ranks), 2)
    return Counter(edge for tree in double_binary_tree(ranks) for edge in tree)


@dataclass(frozen=True, eq=False)
class JobGraph:
    """V replicas and the bytes that they exchange in an iteration; see :func:`job_graph`.

    Attributes
    ----------
    pipeline:
        The stages.
    stage, replica:
        (V,) stage and replica of each vertex, both from 0; ordered by stage.
    size:
        (V,) GPUs of one server that each vertex needs (its slices).
    edges:
        (E, 2) vertices, the smaller one first.
    weight:
        (E,) bytes.
    """

    pipeline: Pipeline
    stage: NDArray[np.int64]
    replica: NDArray[np.int64]
    size: NDArray[np.int64]
    edges: NDArray[np.int64]
    weight: Numbers

    def __post_init__(self) -> None:
        for key in ("stage", "replica", "size", "edges", "weight"):
            object.__setattr__(self, key, read_only(np.array(getattr(self, key))))

    def __len__(self) -> int:
        return len(self.stage)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """``S1-R1, S1-R2, S2-R1, …`` as the paper's Fig. 2 names the vertices."""
        return tuple(f"S{s + 1}-R{r + 1}" for s, r in zip(self.stage.tolist(), self.replica.tolist(), strict=True))

    @cached_property
    def neighbours(self) -> tuple[tuple[tuple[Any, int], ...], ...]:
        """For each vertex (bytes, other vertex) of its edges."""
        found: list[list[tuple[Any, int]]] = [[] for _ in range(len(self))]
        for (a, b), w in zip(self.edges.tolist(), self.weight.tolist(), strict=True):
            found[a].append((w, b))
            found[b].append((w, a))
        return tuple(map(tuple, found))

    @cached_property
    def total_weight(self) -> tuple[Any, ...]:
        """(V,) bytes of all edges of a vertex."""
        return tuple(sum(w for w, _ in own) for own in self.neighbours)

    @cached_property
    def heaviest_first(self) -> tuple[tuple[int, int], ...]:
        """Edges in descending order of bytes, then in that of their vertices."""
        rows = zip(self.edges.tolist(), self.weight.tolist(), strict=True)
        return tuple((a, b) for (a, b), _ in sorted(rows, key=lambda row: (-row[1], row[0])))

    def networkx(self) -> nx.Graph[str]:
        """The graph with nodes ``S1-R1`` (stage, replica, gpus) and edges with ``bytes``.

        Raises
        ------
        MissingPackage
            networkx is not installed.
        """
        require("networkx")
        import networkx as nx

        graph: nx.Graph[str] = nx.Graph(name=self.pipeline.name)
        for v, label in enumerate(self.labels):
            numbers = {"stage": int(self.stage[v]), "replica": int(self.replica[v]), "gpus": int(self.size[v])}
            graph.add_node(label, **numbers)
        for (a, b), w in zip(self.edges.tolist(), self.weight.tolist(), strict=True):
            graph.add_edge(self.labels[a], self.labels[b], bytes=w)
        return graph

    def cut(self, server: NDArray[np.int64]) -> Any:
        """Bytes on edges between vertices of different servers; (..., V) servers give (...) sums."""
        ends = np.asarray(server)[..., self.edges]
        return np.asarray(np.where(ends[..., 0] != ends[..., 1], self.weight, 0).sum(axis=-1))[()]

    def counts(self, server: NDArray[np.int64], servers: int) -> NDArray[np.int64]:
        """(S, M) replicas of each stage on each of ``servers`` servers, for (V,) servers of the vertices."""
        table = np.zeros((len(self.pipeline), servers), dtype=np.int64)
        np.add.at(table, (self.stage, server), 1)
        return table


@lru_cache(maxsize=4096)
def job_graph(pipeline: Pipeline, allreduce: AllReduce = AllReduce.RING) -> JobGraph:
    """The graph of a pipeline's replicas; cached for each pipeline.

    Replicas of neighbouring stages exchange activations and gradients, ``2 d_out[s] / k[s+1]`` bytes for each pair.
    Those of one stage reduce their parameters: in a ring each edge carries ``2 (k-1)/k h`` bytes, in double binary
    trees half of that per tree. Tokens of expert parallelism go between all pairs of a stage. Slices of a replica are
    one vertex, since they stay on one server.

    Parameters
    ----------
    allreduce:
        Ring, or NCCL's trees.

    Raises
    ------
    InvalidOption
        ``allreduce`` is unknown.
    """
    pattern = algorithm(allreduce, "job_graph")
    k = pipeline.replicas.tolist()
    first = np.concatenate([[0], np.cumsum(pipeline.replicas)]).tolist()
    weights: dict[tuple[int, int], Any] = {}
    reduced, exchanged = pipeline.reduced.tolist(), pipeline.tokens.tolist()
    links = np.diagonal(pipeline.links, 1).tolist()
    for s, ranks in enumerate(k):
        half, tokens, at, after = reduced[s] / 2, exchanged[s], first[s], first[s + 1]
        if ranks > 1:
            for (a, b), times in multiplicities(ranks, pattern).items():
                weights[at + a, at + b] = times * half
        if tokens > 0:
            for a in range(ranks):
                for b in range(a + 1, ranks):
                    weights[at + a, at + b] = weights.get((at + a, at + b), 0) + tokens
        if s + 1 < len(k):
            between = product(range(at, after), range(after, first[s + 2]))
            weights.update(dict.fromkeys(between, links[s]))
    pairs = sorted(weights)
    return JobGraph(
        pipeline,
        stage=np.repeat(np.arange(len(k)), k),
        replica=np.arange(first[-1]) - np.repeat(first[:-1], k),
        size=np.repeat(pipeline.slices, k),
        edges=np.array(pairs, dtype=np.int64).reshape(-1, 2),
        weight=np.array([weights[pair] for pair in pairs], dtype=pipeline.outputs.dtype),
    )
