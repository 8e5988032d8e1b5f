"""How a stage's AllReduce is cut least when its replicas are split into parts of given sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from hetopt.errors import InvalidOption
from hetopt.stages.job_graph import AllReduce, multiplicities

Sizes = tuple[int, ...]
"""Sizes of the parts, largest first."""

MOST_REPLICAS = 10
"""Trees of so many replicas have 115,975 partitions, which take a second; of one more, six times as many."""


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
    """All ways to put n things into parts, as the part of each; a new part has the next number."""

    def extended(part: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
        if len(part) == n:
            yield part
            return
        for i in range(parts + 1):
            yield from extended((*part, i), max(parts, i + 1))

    yield from extended((), 0)
