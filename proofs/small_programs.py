"""Exact solution of many small linear programs in integers, fast and independent of solvers.

The simplex method with integer pivots (Edmonds; Bareiss): all entries of the table share one denominator, so no
fraction is reduced. Programs have the form ``max c.x, A x <= b, x >= 0``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

Number = Fraction | int
RowVector = Sequence[Number]


@dataclass(frozen=True)
class SmallOptimum:
    """An optimum in fractions.

    Attributes
    ----------
    value:
        The largest ``c.x``.
    x:
        An optimal vertex.
    dual:
        A price >= 0 per row, with ``dual.b = value`` and ``dual.A >= c``, which proves the optimum.
    unique:
        Whether no other x is optimal.
    """

    value: Fraction
    x: tuple[Fraction, ...]
    dual: tuple[Fraction, ...]
    unique: bool


class Unbounded(ArithmeticError):
    """The objective grows without limit."""


class Infeasible(ArithmeticError):
    """No x meets all rows."""


def maximise_exactly(c: RowVector, rows: Iterable[tuple[RowVector, Number]]) -> SmallOptimum:
    """The optimum of ``max c.x, a.x <= b for all (a, b) in rows, x >= 0``, proven, and whether it is unique.

    Parameters
    ----------
    c:
        (columns,) whole numbers or fractions.
    rows:
        Pairs of (columns,) coefficients and a right side.

    Raises
    ------
    Unbounded
        The objective grows without limit.
    Infeasible
        No x meets all rows.
    """
    table = _Table(c, list(rows))
    table.start()
    table.optimise(range(table.width))
    return SmallOptimum(table.value(), table.point(), table.duals(), table.is_unique())


class _Table:
    """Rows of integers over the common denominator ``self.den``; columns are variables, then slacks, then b."""

    def __init__(self, c: RowVector, rows: list[tuple[RowVector, Number]]) -> None:
        self.n, self.m = len(c), len(rows)
        self.width = self.n + self.m
        self.den = 1
        self.scales: list[int] = []
        self.body: list[list[int]] = []
        for i, (a, b) in enumerate(rows):
            scale = lcm(*(Fraction(v).denominator for v in (*a, b)))
            slack = [int(j == i) for j in range(self.m)]  # in units of 1/scale, see duals()
            self.body.append([int(v * scale) for v in a] + slack + [int(b * scale)])
            self.scales.append(scale)
        self.cost_scale = lcm(*(Fraction(v).denominator for v in c))
        self.cost = [int(v * self.cost_scale) for v in c] + [0] * (self.m + 1)
        self.basis = [self.n + i for i in range(self.m)]

    def start(self) -> None:
        """Make all right sides >= 0 by phase 1 with one artificial variable."""
        first = min(range(self.m), key=lambda i: Fraction(self.body[i][-1], self.scales[i]), default=None)
        if first is None or self.body[first][-1] >= 0:
            return
        cost, artificial = self.cost, self.width
        for row, scale in zip(self.body, self.scales, strict=True):
            row.insert(artificial, -scale)
        self.cost = [0] * artificial + [-1, 0]
        self.body[first] = [-v for v in self.body[first]]
        self._pivot(first, artificial)
        self.optimise(range(artificial))
        if self.cost[-1] != 0:
            raise Infeasible("no point meets all rows")
        if artificial in self.basis:  # at 0: any column can replace it
            p = self.basis.index(artificial)
            q = next(j for j in range(artificial) if self.body[p][j])
            if self.body[p][q] < 0:
                self.body[p] = [-v for v in self.body[p]]
            self._pivot(p, q)
        for row in self.body:
            del row[artificial]
        self.cost = [v * self.den for v in cost]  # the reduced costs of the basis
        for i, j in enumerate(self.basis):
            if cost[j]:
                self.cost = [v - cost[j] * w for v, w in zip(self.cost, self.body[i], strict=True)]

    def optimise(self, columns: Iterable[int]) -> None:
        """Pivot until none of ``columns`` raises the objective; Bland's rule while the objective stalls."""
        allowed, stalled = list(columns), False
        while True:
            entering = [j for j in allowed if self.cost[j] > 0]
            if not entering:
                return
            q = entering[0] if stalled else max(entering, key=lambda j: self.cost[j])
            p = self._leaving(q)
            stalled = self.body[p][-1] == 0
            self._pivot(p, q)

    def _leaving(self, q: int) -> int:
        """The row with the least ratio, ties by the basic variable."""
        best = -1
        for i, row in enumerate(self.body):
            if row[q] > 0:
                if best < 0:
                    best = i
                    continue
                ratio, least = row[-1] * self.body[best][q], self.body[best][-1] * row[q]
                if ratio < least or (ratio == least and self.basis[i] < self.basis[best]):
                    best = i
        if best < 0:
            raise Unbounded("the objective grows without limit")
        return best

    def _pivot(self, p: int, q: int) -> None:
        row, den = self.body[p], self.den
        pivot = row[q]
        for other in (*self.body, self.cost):
            if other is not row:
                factor = other[q]
                if factor:
                    other[:] = [(v * pivot - factor * w) // den for v, w in zip(other, row, strict=True)]
                elif pivot != den:
                    other[:] = [v * pivot // den for v in other]
        self.den = pivot
        self.basis[p] = q

    def value(self) -> Fraction:
        """The objective at the vertex: the last entry of the cost row is minus it."""
        return Fraction(-self.cost[-1], self.den * self.cost_scale)

    def point(self) -> tuple[Fraction, ...]:
        x = [Fraction(0)] * self.n
        for i, j in enumerate(self.basis):
            if j < self.n:
                x[j] = Fraction(self.body[i][-1], self.den)
        return tuple(x)

    def duals(self) -> tuple[Fraction, ...]:
        under = self.den * self.cost_scale
        return tuple(Fraction(-self.cost[self.n + i] * s, under) for i, s in enumerate(self.scales))

    def is_unique(self) -> bool:
        """Whether no nonbasic variable with reduced cost 0 can increase: their largest sum over the optima is 0.

        Changes the table. Variables with a nonzero reduced cost stay at 0, so only the others may enter.
        """
        basic = set(self.basis)
        idle = [j for j in range(self.width) if j not in basic and self.cost[j] == 0]
        if not idle:
            return True
        self.cost = [self.den * (j in idle) for j in range(self.width)] + [0]
        try:
            self.optimise(idle + sorted(basic))
        except Unbounded:
            return False
        return self.cost[-1] == 0
