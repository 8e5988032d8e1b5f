"""What trained in a round, integrated over spans."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.simulation.log import integrals
from hetopt.tolerances import PROVEN

TIMES = st.integers(0, 40).map(lambda n: n / 4)
SPANS = st.lists(st.tuples(TIMES, TIMES, st.integers(0, 5)).map(lambda s: (min(s[:2]), max(s[:2]), s[2])), max_size=6)


@given(SPANS, st.lists(TIMES, min_size=2, max_size=6, unique=True).map(sorted), st.data())
def test_integrals_of_overlapping_spans(
    spans: list[tuple[float, float, int]], cuts: list[float], data: st.DataObject
) -> None:
    """Against the overlap of each span with each round; some rounds are left out."""
    rounds = [pair for pair in pairwise(cuts) if data.draw(st.booleans())] or [(cuts[0], cuts[1])]
    starts, stops = (np.array(column) for column in zip(*rounds, strict=True))
    begins, ends, rates = (np.array([s[i] for s in spans], dtype=float) for i in range(3))
    by_overlap = [sum(r * max(0.0, min(e, b) - max(s, a)) for s, e, r in spans) for a, b in rounds]
    assert integrals(begins, ends, rates, starts, stops) == pytest.approx(by_overlap, rel=PROVEN)


def test_short_rounds_after_long_ones_keep_their_digits() -> None:
    """A microsecond after 10 million seconds of 2,000 GPUs."""
    late = 1e7 + 2.0**-20
    found = integrals(np.zeros(2000), np.full(2000, late), np.ones(2000), np.array([0.0, 1e7]), np.array([1e7, late]))
    assert found.tolist() == [2e10, 2000 * 2.0**-20]
