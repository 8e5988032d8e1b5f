"""A linear program in rational numbers: every float is read as the simple fraction that it rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import fmpq
from scipy import sparse

from hetopt.data.array_types import Floats, Numbers
from hetopt.data.rationals import simple_fractions
from hetopt.programs.linear import LinearProgram
from hetopt.solving.rational.kernel import Entries, Rational


def read(values: Numbers) -> list[Rational]:
    """Every float as the simple fraction that it rounds; Fractions are converted unchanged."""
    return [ratio(value) for value in simple_fractions(values)]


@dataclass(frozen=True, eq=False)
class ExactRow:
    """A row in rationals.

    Attributes
    ----------
    entries:
        (column, value) pairs, none of them 0, sorted.
    lower, upper:
        Bounds; None: no bound.
    """

    entries: list[tuple[int, Rational]]
    lower: Rational | None
    upper: Rational | None


def _transposed(by_row: Entries, columns: int) -> Entries:
    by_column: Entries = [[] for _ in range(columns)]
    for i, row in enumerate(by_row):
        for j, value in row:
            by_column[j].append((i, value))
    return by_column


def ratio(value: Fraction) -> Rational:
    """A Python fraction as a ``flint.fmpq``."""
    return fmpq(value.numerator, value.denominator)


def fraction(value: Rational) -> Fraction:
    """A ``flint.fmpq`` as a Python fraction."""
    return Fraction(int(value.p), int(value.q))


def entries(matrix: sparse.csr_array | sparse.csc_array) -> Entries:
    """For each row of a CSR (column of a CSC) matrix its (position, value) pairs without zeros."""
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    values, where = read(matrix.data), matrix.indices.tolist()
    pairs = list(zip(where, values, strict=True))
    starts = matrix.indptr.tolist()
    return [pairs[a:b] for a, b in pairwise(starts)]


@dataclass(frozen=True)
class RationalProgram:
    """max cost.(x, r)  subject to  A x - r = 0,  lower <= (x, r) <= upper.

    The activities r of the m rows are variables, numbered after the n columns: variable n + i is row i.

    Attributes
    ----------
    by_row, by_column:
        The matrix A.
    cost:
        (n + m,); zero for rows, except while the simplex method repairs a basis.
    lower, upper:
        (n + m,) bounds; None: no bound.
    integer:
        (n,) whether the column must be whole; the simplex method ignores it.
    """

    by_row: Entries
    by_column: Entries
    cost: list[Rational]
    lower: list[Rational | None]
    upper: list[Rational | None]
    integer: list[bool]

    @classmethod
    def of(cls, program: LinearProgram, known: Mapping[str, ExactRow] | None = None) -> RationalProgram:
        """``program`` (its last objective, without the offset) in rationals; rows in ``known`` replace its own."""
        m, n = program.shape
        by_row = entries(sparse.csr_array(program.A))
        lower = _bounds([program.col_lower, program.row_lower])
        upper = _bounds([program.col_upper, program.row_upper])
        if known:
            for i, name in enumerate(program.row_names):
                if name in known:
                    row = known[name]
                    by_row[i], lower[n + i], upper[n + i] = row.entries, row.lower, row.upper
        return cls(
            by_row=by_row,
            by_column=_transposed(by_row, n),
            cost=[*read(program.c), *[fmpq(0)] * m],
            lower=lower,
            upper=upper,
            integer=program.integer.tolist(),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.by_row), len(self.by_column)

    def activity(self, x: Sequence[Rational]) -> list[Rational]:
        """A x."""
        return [sum((v * x[j] for j, v in row if x[j]), fmpq(0)) for row in self.by_row]

    def with_cost(self, columns: Sequence[Rational]) -> RationalProgram:
        """The same program with another objective, (n,)."""
        return replace(self, cost=[*columns, *[fmpq(0)] * self.shape[0]])

    def within(self, bounds: Iterable[tuple[int, Rational, Rational]]) -> RationalProgram:
        """The same program with other bounds: (variable, lower, upper)."""
        lower, upper = list(self.lower), list(self.upper)
        for j, low, high in bounds:
            lower[j], upper[j] = low, high
        return replace(self, lower=lower, upper=upper)

    def floats(self, program: LinearProgram) -> LinearProgram:
        """``program`` with the bounds and the objective of this one, for finding a basis with a float solver."""
        n = self.shape[1]
        low = np.array([-np.inf if v is None else float(fraction(v)) for v in self.lower])
        high = np.array([np.inf if v is None else float(fraction(v)) for v in self.upper])
        return replace(
            program,
            c=np.array([float(fraction(v)) for v in self.cost[:n]]),
            offset=0.0,
            col_lower=low[:n],
            col_upper=high[:n],
            row_lower=low[n:],
            row_upper=high[n:],
        )


def _bounds(parts: Sequence[Floats]) -> list[Rational | None]:
    values = np.concatenate(parts)
    finite = np.isfinite(values)
    exact = iter(read(values[finite]))
    return [next(exact) if is_finite else None for is_finite in finite.tolist()]
