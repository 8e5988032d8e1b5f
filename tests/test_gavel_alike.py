"""Jobs that max-min fairness does not distinguish are solved as classes: same level, same prices, equal shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, Options
from hetopt.models import gavel
from hetopt.tolerances import PROVEN

KINDS = st.tuples(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=3, max_size=3).filter(any), st.sampled_from([1, 2, 4])
)


@given(st.lists(KINDS, min_size=2, max_size=5), st.integers(70, 90), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_classes_against_simplex(kinds: list[tuple[list[float], int]], n: int, dice: object) -> None:
    which = np.random.default_rng(dice.randrange(2**32)).integers(0, len(kinds), n)  # type: ignore[attr-defined]
    instance = Instance.from_jobs(
        [kinds[c][0] for c in which], [kinds[c][1] for c in which], 1.0, [8, 4, 6], weight=[1.0 + c % 2 for c in which]
    )
    formulation = gavel.max_min_fairness()
    found, expected = (
        hetopt.solve(formulation, instance),
        hetopt.solve(formulation, instance, Options(method="simplex")),
    )
    assert found.certificate.objective == pytest.approx(expected.certificate.objective, rel=PROVEN, abs=PROVEN)
    assert found.certificate.violation <= PROVEN
    point = found.certificate._point
    assert point is not None
    assert point.row_dual is not None
    assert point.program.dual_bound(point.row_dual) == pytest.approx(point.objective, rel=PROVEN, abs=PROVEN)
    for c in set(which.tolist()):
        rows = found.x[which == c]
        assert (rows == rows[0]).all() or point.method == "simplex"
