"""Sums over stretches of time, and where a sum is reached, against counting on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetopt.metrics.step_functions import merged, present_over_time, range_sums, reach

VALUES = st.lists(st.integers(0, 9), max_size=20)


@given(VALUES, st.data())
def test_sums_of_ranges(values: list[int], data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, len(values))] * 2).map(sorted), max_size=6))
    first, last = (np.array([pair[i] for pair in pairs], dtype=np.intp) for i in (0, 1))
    found = range_sums(np.array(values, dtype=float), first, last)
    assert found.tolist() == [sum(values[a:b]) for a, b in pairs]


@given(VALUES, st.data())
def test_where_a_sum_is_reached(values: list[int], data: st.DataObject) -> None:
    """By counting on from each beginning."""
    asked = data.draw(st.lists(st.tuples(st.integers(0, len(values)), st.integers(0, 60)), max_size=6))
    first, need = np.array([a for a, _ in asked], dtype=np.intp), np.array([float(n) for _, n in asked])
    at, rest = reach(np.array(values, dtype=float), first, need)
    for (position, missing), p, r in zip(asked, at.tolist(), rest.tolist(), strict=True):
        while position < len(values) and values[position] <= missing:
            missing -= values[position]
            position += 1
        assert (p, r) == (position, missing)


def test_short_stretches_late_in_a_log_keep_their_digits() -> None:
    values = np.array([2.0**60, 2.0**-20, 2.0**-20])
    assert range_sums(values, np.array([1]), np.array([3])).tolist() == [2.0**-19]
    at, rest = reach(values, np.array([1]), np.array([1.5 * 2.0**-20]))
    assert (at.tolist(), rest.tolist()) == ([2], [2.0**-21])


def test_who_is_there_when() -> None:
    times, number = present_over_time(np.array([0.0, 2.0, 2.0]), np.array([4.0, 2.5, np.inf]))
    assert (times.tolist(), number.tolist()) == ([0, 2, 2.5, 4], [1, 3, 2, 1])


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(1, 5)), max_size=8))
def test_intervals_put_together(rows: list[tuple[int, int, int]]) -> None:
    """Every second is in one interval of its key, and they do not touch."""
    table = np.array(rows, dtype=float).reshape(-1, 3)
    whole = merged(table[:, 0].astype(np.intp), table[:, 1], table[:, 1] + table[:, 2])
    found = [(int(k), int(b), int(e)) for k, b, e in zip(*whole, strict=True)]
    inside = [(k, t) for k in (0, 1) for t in range(20) if any(k == o and b <= t < b + n for o, b, n in rows)]
    assert [(k, t) for k, b, e in found for t in range(b, e)] == inside
    assert all(k != other or end < begin for (k, _, end), (other, begin, _) in pairwise(found))
