"""Rings and double binary trees."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.stages.job_graph import AllReduce, double_binary_tree, multiplicities, ring


def test_the_tree_of_fourteen_ranks_is_the_one_that_nccl_draws() -> None:
    """The drawing in a comment of NCCL's ``trees.cc``, rank by rank."""
    children = {0: [8], 8: [4, 12], 4: [2, 6], 12: [10, 13], 2: [1, 3], 6: [5, 7], 10: [9, 11]}
    drawn = {(min(a, b), max(a, b)) for a, under in children.items() for b in under}
    assert set(double_binary_tree(14)[0]) == drawn
    assert set(double_binary_tree(14)[1]) == {(13 - max(e), 13 - min(e)) for e in drawn}, "even: the mirror image"


def test_an_odd_number_of_ranks_shifts_the_second_tree() -> None:
    first, second = double_binary_tree(5)
    assert set(first) == {(0, 4), (2, 4), (1, 2), (2, 3)}
    assert set(second) == {(0, 1), (0, 3), (2, 3), (3, 4)}


@given(st.integers(1, 200))
def test_both_trees_span_all_ranks_and_are_shallow(ranks: int) -> None:
    for i, edges in enumerate(double_binary_tree(ranks)):
        tree = nx.Graph(edges)
        tree.add_nodes_from(range(ranks))
        assert nx.is_tree(tree)
        root = 0 if not i else (1 % ranks if ranks % 2 else ranks - 1)
        depth = max(nx.single_source_shortest_path_length(tree, root).values())
        assert depth <= ranks.bit_length()
        assert max((d for _, d in tree.degree), default=0) <= 3, "a parent and two children"


@given(st.integers(1, 100).map(lambda n: 2 * n))
def test_with_an_even_number_every_rank_is_a_leaf_of_one_tree(ranks: int) -> None:
    leaves = [{v for v, d in nx.Graph(edges).degree if d == 1} for edges in double_binary_tree(ranks)]
    assert leaves[0] | leaves[1] == set(range(ranks))


@pytest.mark.parametrize(("ranks", "edges"), [(1, []), (2, [(0, 1)]), (3, [(0, 1), (1, 2), (0, 2)])])
def test_small_rings(ranks: int, edges: list[tuple[int, int]]) -> None:
    """A ring of two is one edge."""
    assert ring(ranks) == edges


@given(st.integers(2, 64))
def test_what_an_edge_carries(ranks: int) -> None:
    """Ring: both halves of the data on each edge. Trees: a half per tree, so both where the trees share an edge."""
    assert set(multiplicities(ranks, AllReduce.RING).values()) == {2}
    trees = multiplicities(ranks, AllReduce.TREE)
    assert sum(trees.values()) == 2 * (ranks - 1)
    assert set(trees.values()) <= {1, 2}
