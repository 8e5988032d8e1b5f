"""Who exchanges gradients with whom in an AllReduce: rings, and the double binary trees of NCCL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from hetopt.errors import InvalidOption

Edge: TypeAlias = tuple[int, int]
"""Two ranks, the smaller one first."""


class AllReduce(StrEnum):
    """Algorithm of the AllReduce; it decides the job graph's edges, not the time of an iteration."""

    RING = "ring"
    TREE = "tree"


def algorithm(value: str, owner: str) -> AllReduce:
    """The algorithm of that name.

    Raises
    ------
    InvalidOption
        There is none.
    """
    try:
        return AllReduce(value)
    except ValueError:
        raise InvalidOption(f"{owner}.allreduce is {value!r}; it must be one of {', '.join(AllReduce)}") from None


def ring(ranks: int) -> list[Edge]:
    """The ring 0, 1, …, back to 0; a ring of two is one edge, of one rank none."""
    if ranks <= 2:
        return [(0, 1)] if ranks == 2 else []
    return [(i, i + 1) for i in range(ranks - 1)] + [(0, ranks - 1)]


def double_binary_tree(ranks: int) -> tuple[list[Edge], list[Edge]]:
    """The two trees over which NCCL reduces half of the data each.

    In the first, whose root is 0, a rank's lowest set bit says how high it stands: leaves are odd. The second is its
    mirror image for an even number of ranks, else the first shifted by one rank, so that nearly every rank is a leaf
    in one of them [Sanders, Speck and Träff, 2009; NCCL, ``src/graph/trees.cc``].
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
    """Edge -> halves of the ``2 (k-1)/k h`` bytes of the AllReduce that it carries in an iteration.

    An edge of a ring carries both; an edge of one tree carries one, for each tree works on half of the data
    [ASRPT, section IV-B].
    """
    if algorithm is AllReduce.RING:
        return dict.fromkeys(ring(ranks), 2)
    return Counter(edge for tree in double_binary_tree(ranks) for edge in tree)
