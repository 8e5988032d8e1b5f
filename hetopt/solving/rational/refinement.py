"""A better basis for exact optima: what is wrong with a basis in rationals, magnified, is a linear program in floats.

Gleixner, Steffy, Wolter: Iterative refinement for linear programming, INFORMS Journal on Computing 28(3), 2016. Reduced
costs of the wrong sign that a float solver takes for 0, and violations of bounds, are scaled to 1; its new optimal
basis corrects them. A round replaces hundreds of exact simplex steps where many columns are nearly alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from flint import fmpq
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.errors import NotSolved
from hetopt.programs.linear import AT_LOWER, BASIC, Basis, LinearProgram
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.rational.kernel import Rational, SingularError
from hetopt.solving.rational.simplex import Vertex
from hetopt.tolerances import FINE

FEW, ROUNDS = 4, 6
"""Errors up to which exact simplex steps are as fast, and most rounds."""

LARGEST = 10.0**6
"""Magnified numbers are cut off here: they are far from mattering."""


def refined(vertex: Vertex, options: Options) -> Vertex:
    """``vertex``, or one with fewer variables out of bounds or of attractive reduced cost.

    Parameters
    ----------
    options:
        Only the time limit is used.
    """
    with suppress(NotSolved, SingularError):
        errors = _errors(vertex)
        for _ in range(ROUNDS):
            if errors <= FEW:
                break
            other = _corrected(vertex, options)
            fewer = _errors(other)
            if fewer >= errors:
                break
            vertex, errors = other, fewer
    return vertex


def _errors(vertex: Vertex) -> int:
    return len(vertex.outside()) + len(vertex.attractive())


def _corrected(vertex: Vertex, options: Options) -> Vertex:
    """The optimal basis of the magnified program, whose columns are the columns and rows of the original."""
    program, (m, n) = vertex.program, vertex.program.shape
    wrong = max((abs(vertex.price[j]) for j in vertex.attractive()), default=fmpq(1))
    outside = max((size for _, size in vertex.outside()), default=fmpq(1))
    lower, upper = (
        [None if bound is None else (bound - v) / outside for bound, v in zip(bounds, vertex.value, strict=True)]
        for bounds in (program.lower, program.upper)
    )
    entries = [(i, j, float(v)) for i, row in enumerate(program.by_row) for j, v in row]
    row, column, value = np.array([*entries, *((i, n + i, -1.0) for i in range(m))], dtype=float).reshape(-1, 3).T
    matrix = sparse.csc_array((value, (row.astype(np.intp), column.astype(np.intp))), shape=(m, n + m))
    none = np.zeros(m)
    magnified = replace(
        LinearProgram.of(_floats([v / wrong for v in vertex.price], 0.0), matrix, none, none),
        col_lower=_floats(lower, -np.inf),
        col_upper=_floats(upper, np.inf),
    )
    session = Session(magnified, options.for_simplex(), presolve=False, explain=False, approximate=True)
    session.set_tolerance(FINE)
    session.start_at(Basis(lambda: (vertex.status, [AT_LOWER] * m)))
    basis = session.solve().basis
    if basis is None:
        raise SingularError("HiGHS returns no basis")
    status = basis.columns.tolist()
    for i in np.flatnonzero(basis.rows == BASIC).tolist():
        status[n + i] = BASIC
    return Vertex.of(program, status)


def _floats(values: Sequence[Rational | None], missing: float) -> Floats:
    found = [missing if v is None else min(max(float(v), -LARGEST), LARGEST) for v in values]
    return np.array(found)
