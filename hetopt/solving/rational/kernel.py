"""Square sparse linear systems in rational numbers: singletons are eliminated first, python-flint solves the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from flint import fmpq, fmpq_mat

Rational: TypeAlias = Any
"""A ``flint.fmpq`` (flint is not typed)."""

ZERO: Rational = fmpq(0)

Entries: TypeAlias = list[list[tuple[int, Rational]]]
"""For each row (or column) its (position, value) pairs."""

DIXON_FROM = 30
"""Size from which nuclei are solved by lifting modulo a prime; smaller ones by fraction-free elimination."""


class SingularError(ArithmeticError):
    """The matrix has no inverse."""


class Kernel:
    """A square sparse matrix K, prepared for solving K x = b and K' y = c exactly.

    Row singletons are solved first, column singletons last; the remainder is the nucleus.
    In that order K is block triangular::

        first     L  .  .
        last      *  U  *
        nucleus   *  .  N

    Parameters
    ----------
    by_row:
        For each of s rows its (column, value) pairs, without zeros.

    Raises
    ------
    SingularError
        A solve finds that K has no inverse.
    """

    def __init__(self, by_row: Entries) -> None:
        self.by_row = by_row
        self.by_column: Entries = [[] for _ in by_row]
        for i, row in enumerate(by_row):
            for j, value in row:
                self.by_column[j].append((i, value))
        rows, columns = set(range(len(by_row))), set(range(len(by_row)))
        self._first = _peel(self.by_row, self.by_column, rows, columns)
        self._last = [(i, j) for j, i in _peel(self.by_column, self.by_row, columns, rows)]
        self._rows, self._columns = sorted(rows), sorted(columns)
        self._nucleus = self._dense()

    def _dense(self) -> Any:
        position = {j: p for p, j in enumerate(self._columns)}
        size = len(self._rows)
        flat = [fmpq(0)] * (size * size)
        for p, i in enumerate(self._rows):
            for j, value in self.by_row[i]:
                if j in position:
                    flat[p * size + position[j]] = value
        return fmpq_mat(size, size, flat)

    def solve(self, b: Sequence[Rational]) -> list[Rational]:
        """Return x with K x = b."""
        x: list[Rational] = [None] * len(b)
        _substitute(self.by_row, self._first, b, x)
        self._solve_nucleus(self.by_row, self._rows, self._columns, self._nucleus, b, x)
        _substitute(self.by_row, self._last[::-1], b, x)
        return x

    def solve_transposed(self, c: Sequence[Rational]) -> list[Rational]:
        """Return y with K' y = c."""
        y: list[Rational] = [None] * len(c)
        _substitute(self.by_column, [(j, i) for i, j in self._last], c, y)
        self._solve_nucleus(self.by_column, self._columns, self._rows, self._nucleus.transpose(), c, y)
        _substitute(self.by_column, [(j, i) for i, j in self._first[::-1]], c, y)
        return y

    def _solve_nucleus(
        self, entries: Entries, rows: list[int], columns: list[int], matrix: Any, b: Sequence[Rational], x: list[Any]
    ) -> None:
        if not rows:
            return
        right = [b[i] - sum((v * x[j] for j, v in entries[i] if x[j] is not None), fmpq(0)) for i in rows]
        algorithm = "dixon" if len(rows) >= DIXON_FROM else "fflu"
        try:
            found = matrix.solve(fmpq_mat(len(rows), 1, right), algorithm=algorithm)
        except ZeroDivisionError:
            raise SingularError("the basis has no inverse") from None
        for p, j in enumerate(columns):
            x[j] = found[p, 0]


def _peel(by_row: Entries, by_column: Entries, rows: set[int], columns: set[int]) -> list[tuple[int, int]]:
    """Remove row singletons from ``rows`` and ``columns``; return their (row, column) pairs in order."""
    left = {i: sum(1 for j, _ in by_row[i] if j in columns) for i in rows}
    queue = deque(i for i in sorted(rows) if left[i] == 1)
    peeled = []
    while queue:
        i = queue.popleft()
        if left[i] != 1:
            continue  # another row took its last column: K is singular, which the nucleus detects
        j = next(j for j, _ in by_row[i] if j in columns)
        rows.remove(i)
        columns.remove(j)
        peeled.append((i, j))
        for other, _ in by_column[j]:
            if other in rows:
                left[other] -= 1
                if left[other] == 1:
                    queue.append(other)
    return peeled


def _substitute(entries: Entries, pairs: Sequence[tuple[int, int]], b: Sequence[Rational], x: list[Any]) -> None:
    """Solve equation i for unknown j, pair by pair; its other unknowns are already known."""
    for i, j in pairs:
        total, own = b[i], None
        for q, value in entries[i]:
            if q == j:
                own = value
            elif x[q]:
                total -= value * x[q]
        x[j] = total / own
