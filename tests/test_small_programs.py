"""Small programs in integers against scipy, their own duals, and a second look at uniqueness."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hetopt.proofs.small_programs import Infeasible, Unbounded, maximise_exactly
from hetopt.tolerances import EQUAL

F = Fraction
NUMBERS = st.builds(F, st.integers(-4, 6), st.integers(1, 3))


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[F], list[tuple[list[F], F]]]:
    """A few rows, and one that bounds all."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    rows = [([draw(NUMBERS) for _ in range(n)], draw(NUMBERS)) for _ in range(m)]
    return [draw(NUMBERS) for _ in range(n)], [*rows, ([F(1)] * n, F(10))]


@given(programs())
def test_optima_are_proven_by_their_duals_and_agree_with_scipy(
    program: tuple[list[F], list[tuple[list[F], F]]],
) -> None:
    c, rows = program
    matrix, right = [[float(v) for v in a] for a, _ in rows], [float(b) for _, b in rows]
    other = linprog([-float(v) for v in c], A_ub=matrix, b_ub=right)
    try:
        found = maximise_exactly(c, rows)
    except Infeasible:
        assert other.status == 2
        return
    assert other.status == 0
    assert float(found.value) == pytest.approx(-other.fun, abs=EQUAL)
    assert min(found.x) >= 0
    assert min(found.dual) >= 0
    assert all(sum(a * x for a, x in zip(row, found.x, strict=True)) <= b for row, b in rows)
    assert sum(a * x for a, x in zip(c, found.x, strict=True)) == found.value
    assert sum(y * b for y, (_, b) in zip(found.dual, rows, strict=True)) == found.value
    for j, price in enumerate(c):
        assert sum(y * row[j] for y, (row, _) in zip(found.dual, rows, strict=True)) >= price


@given(programs())
def test_unique_says_whether_any_coordinate_can_move_among_the_optima(
    program: tuple[list[F], list[tuple[list[F], F]]],
) -> None:
    """Oracle: each coordinate raised and lowered, exactly, on the face of optima."""
    c, rows = program
    try:
        found = maximise_exactly(c, rows)
    except Infeasible:
        return
    kept = [*rows, ([-v for v in c], -found.value)]
    moves = False
    for j in range(len(c)):
        for sign in (1, -1):
            most = maximise_exactly([F(sign) if i == j else F(0) for i in range(len(c))], kept)
            moves = moves or most.value != sign * found.x[j]
    assert found.unique == (not moves)


def test_what_has_no_optimum() -> None:
    with pytest.raises(Unbounded):
        maximise_exactly([1, 0], [([-1, 1], 3)])
    with pytest.raises(Infeasible):
        maximise_exactly([1], [([1], 1), ([-1], -2)])
    assert maximise_exactly([1], [([2], 1)]).x == (F(1, 2),)


def test_cycling_ends() -> None:
    """Beale's example, on which the largest coefficient alone cycles for ever."""
    rows = [
        ([F(1, 4), -60, F(-1, 25), 9], 0),
        ([F(1, 2), -90, F(-1, 50), 3], 0),
        ([0, 0, 1, 0], 1),
    ]
    assert maximise_exactly([F(3, 4), -150, F(1, 50), -6], rows).value == F(1, 20)


def test_degenerate_starts_by_equations() -> None:
    """Two rows that make an equation, and the helper that stays in the basis at 0."""
    found = maximise_exactly([1, 1], [([1, -1], 0), ([-1, 1], 0), ([1, 1], 4), ([-1, -1], -4)])
    assert found.x == (2, 2)
    assert found.unique
    assert np.isclose(float(found.value), 4)
