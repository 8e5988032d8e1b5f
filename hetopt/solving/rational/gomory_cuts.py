"""Gomory's mixed-integer cuts, each proven by a split of the points into two sides.

A row of the optimal tableau states a whole column as ``x_i = b - sum a_k t_k`` over the distances t_k >= 0 of other
columns and rows from their bounds. With the fraction f of b, ``sum max(f_k / f, (1 - f_k) / (1 - f)) t_k >= 1`` over
the fractions f_k of the a_k, the smaller of both for whole t_k. Its multipliers are rounded before the row is summed,
and what is left of basic columns is counted from their bounds (Cook, Dash, Fukasawa, Goycoolea: Numerically safe Gomory
mixed-integer cuts, INFORMS Journal on Computing 21(4), 2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import fmpq
from scipy import sparse
from scipy.sparse.linalg import splu

from hetopt.data.array_types import Floats
from hetopt.programs.linear import AT_UPPER, BASIC, Basis
from hetopt.solving.rational.core import Core
from hetopt.solving.rational.derivations import AT_LEAST, AT_MOST, Constraint, ceiling, floor, is_whole
from hetopt.solving.rational.kernel import ZERO, Rational
from hetopt.tolerances import INTEGRAL, PROVEN

DENOMINATOR = 1_000
"""Largest denominator of a multiplier that is read as a fraction; others are rounded to multiples of 2^-20."""

FRACTION = fmpq(1, 50)
"""Least distance of b from a whole number: other cuts are numerically weak."""

MOST, LARGEST = 100, 2**14
"""Most cuts of a round, and their largest multiplier of a distance; all are rounded up to whole numbers."""


class Cut(NamedTuple):
    """``row . x >= right`` over the columns of the core.

    Attributes
    ----------
    split, below:
        The whole form that is ``<= below`` on one side, and larger on the other.
    sides:
        Multipliers of the assumption of each side, and of columns and rows.
    depth:
        Distance of the point that is cut off.
    """

    row: dict[int, Rational]
    right: Rational
    split: dict[int, Rational]
    below: int
    sides: tuple[tuple[Rational, dict[int, Rational]], tuple[Rational, dict[int, Rational]]]
    depth: float


def add_gomory_cuts(core: Core, x: Floats, basis: Basis) -> None:
    """Add the deepest cuts of the optimal basis, with the (columns,) values ``x``, to the rows of the core."""
    every = (_cut(core, i, y, x, basis) for i, y in _tableau(core, x, basis))
    for cut in sorted((cut for cut in every if cut), key=lambda cut: -cut.depth)[:MOST]:
        _add(core, cut)


def _tableau(core: Core, x: Floats, basis: Basis) -> list[tuple[int, dict[int, Rational]]]:
    """Whole columns that are fractional, with short multipliers of the rows of which they are the sum."""
    m, n = core.shape
    where = np.concatenate([np.flatnonzero(basis.columns == BASIC), n + np.flatnonzero(basis.rows == BASIC)])
    wanted = [
        (p, i) for p, i in enumerate(where.tolist()) if i < n and core.integer[i] and INTEGRAL < x[i] % 1 < 1 - INTEGRAL
    ]
    if not wanted or len(where) != m:
        return []
    both = sparse.hstack([sparse.csc_array(core.program().A), -sparse.eye_array(m)], format="csc")
    try:
        factors = splu(sparse.csc_matrix(both[:, where].T))
    except RuntimeError:  # singular in floats
        return []
    found = []
    for p, i in wanted:
        unit = np.zeros(m)
        unit[p] = 1.0
        y = factors.solve(unit)
        short = {r: _short(float(y[r])) for r in np.flatnonzero(abs(y) > PROVEN).tolist()}
        found.append((i, {r: v for r, v in short.items() if v}))
    return found


def _short(value: float) -> Rational:
    near = Fraction(value).limit_denominator(DENOMINATOR)
    if abs(near - Fraction(value)) > PROVEN:
        near = Fraction(round(value * 2**20), 2**20)
    return fmpq(near.numerator, near.denominator)


def _cut(core: Core, i: int, y: Mapping[int, Rational], x: Floats, basis: Basis) -> Cut | None:
    """The cut of the row of the tableau of column i with these multipliers of rows; None without a useful one."""
    n = len(core.columns)
    weight = {i: fmpq(1)}
    for r, v in y.items():
        weight[n + r] = v
        for j, a in core.rows[r].items():
            weight[j] = weight.get(j, ZERO) - v * a
    b, distances = ZERO, list[tuple[int, int, Rational, Rational]]()
    for v, own in weight.items():
        if own:
            side = _side(core, v, x, basis)
            bound = (core.upper if side < 0 else core.lower)[v]
            if bound is None:
                return None
            b += own * bound
            distances.append((v, side, bound, -own * side))
    f = b - floor(b)
    if not FRACTION <= f <= 1 - FRACTION:
        return None
    steps = {v: _steps(core, v, bound, a, f) for v, _, bound, a in distances}
    exact = {
        v: ZERO if core.lower[v] == core.upper[v] else max((a - steps[v]) * (1 - f), (steps[v] - a) * f)
        for v, _, _, a in distances
    }
    if not (largest := max(exact.values())):
        return None
    unit = LARGEST / largest
    row, right = dict[int, Rational](), f * (1 - f) * unit
    split, below = {i: fmpq(1)}, fmpq(floor(b))
    down, up = dict[int, Rational](), dict[int, Rational]()
    for v, side, bound, a in distances:
        c, step = fmpq(ceiling(exact[v] * unit)), steps[v]
        right += side * c * bound
        below += side * step * bound
        _add_to(row, core, v, side * c)
        _add_to(split, core, v, side * step)
        down[v] = side * (c - (a - step) * (1 - f) * unit)
        up[v] = side * (c + (a - step) * f * unit)
    left = sum(float(v) * x[j] for j, v in row.items())
    if not row:
        return None
    return Cut(
        row=row,
        right=right,
        split=split,
        below=floor(below),
        sides=(((f - 1) * unit, down), (f * unit, up)),
        depth=(float(right) - left) / math.sqrt(sum(float(v) ** 2 for v in row.values())),
    )


def _steps(core: Core, v: int, bound: Rational, a: Rational, f: Rational) -> Rational:
    """How often the distance of a variable is in the split: ``a`` rounded to the better side."""
    if core.lower[v] == core.upper[v] or not _is_whole(core, v, bound):
        return ZERO
    return fmpq(floor(a) if a - floor(a) <= f else floor(a) + 1)


def _add_to(form: dict[int, Rational], core: Core, v: int, factor: Rational) -> None:
    """Add a column or row, times ``factor``, to a form over the columns."""
    n = len(core.columns)
    for j, a in core.rows[v - n].items() if v >= n else ((v, fmpq(1)),):
        total = form.get(j, ZERO) + factor * a
        if total:
            form[j] = total
        else:
            form.pop(j, None)


def _side(core: Core, v: int, x: Floats, basis: Basis) -> int:
    """1: the variable is counted from its lower bound, -1: from its upper one."""
    n, low, high = len(core.columns), core.lower[v], core.upper[v]
    if low is None or high is None:
        return -1 if low is None else 1
    code = basis.columns[v] if v < n else basis.rows[v - n]
    if code == BASIC and v < n:
        return 1 if x[v] - float(low) <= float(high) - x[v] else -1
    return -1 if code == AT_UPPER else 1


def _is_whole(core: Core, v: int, bound: Rational) -> bool:
    n = len(core.columns)
    if not is_whole(bound):
        return False
    return core.integer[v] if v < n else all(core.integer[j] and is_whole(a) for j, a in core.rows[v - n].items())


def _add(core: Core, cut: Cut) -> None:
    """Derive a cut, and add it to the rows of the core."""
    derived, ends = core.derived, []
    for (factor, terms), sense, right in zip(cut.sides, (AT_MOST, AT_LEAST), (cut.below, cut.below + 1), strict=True):
        at = derived.assume(sense, fmpq(right), core.form(cut.split))
        ends.append((derived.add({at: factor, **core.by_bounds({v: m for v, m in terms.items() if m})}), at))
    low = derived.constraints[ends[0][0]]
    assert low.form == core.form(cut.row), "both sides prove the cut"
    assert low.right == cut.right == derived.constraints[ends[1][0]].right, "both sides prove the cut"
    at = derived.add_split(Constraint(AT_LEAST, cut.right, low.form), *ends)
    core.rows.append(cut.row)
    core.lower.append(cut.right)
    core.lower_at.append(at)
    core.upper.append(None)
    core.upper_at.append(None)
    core.integer.append(False)


def without_slack(core: Core, dual: Floats, first: int) -> Core:
    """The core without the rows from ``first`` on whose dual is 0."""
    m, n = core.shape
    stay = [i for i in range(m) if i < first or dual[i]]
    both = [*range(n), *(n + i for i in stay)]
    return replace(
        core,
        rows=[core.rows[i] for i in stay],
        lower=[core.lower[v] for v in both],
        upper=[core.upper[v] for v in both],
        lower_at=[core.lower_at[v] for v in both],
        upper_at=[core.upper_at[v] for v in both],
        integer=[core.integer[v] for v in both],
    )
