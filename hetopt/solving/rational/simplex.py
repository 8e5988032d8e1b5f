"""The simplex method in rational numbers, for the few steps from a float basis to the exact optimum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from flint import fmpq

from hetopt.programs.linear import AT_LOWER, AT_UPPER, AT_ZERO, BASIC
from hetopt.solving.rational.kernel import ZERO, Kernel, Rational, SingularError
from hetopt.solving.rational.program import RationalProgram


class InfeasibleError(ArithmeticError):
    """No rational point satisfies all rows and bounds.

    Attributes
    ----------
    proof:
        Variable -> multiplier: the sum of the variables is 0 at every point, but positive by their bounds, the lower
        one for a positive multiplier, else the upper one.
    """

    def __init__(self, proof: dict[int, Rational]) -> None:
        super().__init__("a row cannot be met within the bounds of its columns")
        self.proof = proof


class UnboundedError(ArithmeticError):
    """The objective is unbounded, in rationals."""


class LimitError(ArithmeticError):
    """The limit of steps is reached."""


@dataclass(frozen=True)
class Vertex:
    """A basis of ``program``, with exact values and duals.

    Attributes
    ----------
    status:
        (n + m,) for every column and row :data:`~hetopt.programs.linear.BASIC` or its nonbasic bound.
    """

    program: RationalProgram
    status: tuple[int, ...]

    @classmethod
    def of(cls, program: RationalProgram, status: list[int]) -> Vertex:
        """The vertex of a basis; a code for a missing bound is replaced by that of the existing one."""
        codes = list(status)
        for j, code in enumerate(codes):
            if code != BASIC:
                codes[j] = _place(program, j, code)
        return cls(program, tuple(codes))

    @classmethod
    def of_rows(cls, program: RationalProgram) -> Vertex:
        """The slack basis: all rows are basic, every column is at a bound."""
        m, n = program.shape
        return cls.of(program, [AT_LOWER] * n + [BASIC] * m)

    @cached_property
    def _columns(self) -> list[int]:
        """Basic columns."""
        return [j for j in range(self.program.shape[1]) if self.status[j] == BASIC]

    @cached_property
    def _tight(self) -> list[int]:
        """Nonbasic rows, which are at a bound."""
        m, n = self.program.shape
        return [i for i in range(m) if self.status[n + i] != BASIC]

    @cached_property
    def _kernel(self) -> Kernel:
        """The submatrix of tight rows and basic columns."""
        position = {j: p for p, j in enumerate(self._columns)}
        if len(position) != len(self._tight):
            raise SingularError(f"{len(position)} basic columns and {len(self._tight)} rows at a bound are no basis")
        rows = self.program.by_row
        return Kernel([[(position[j], v) for j, v in rows[i] if j in position] for i in self._tight])

    @cached_property
    def value(self) -> list[Rational]:
        """(n + m,) values of all columns and rows."""
        return self._completed([self._at_bound(j) for j in range(len(self.status))])

    def _completed(self, value: list[Rational]) -> list[Rational]:
        """(n + m,) ``value`` of the nonbasic variables (0 for basic ones), with the values of the basic ones."""
        n = self.program.shape[1]
        right = [value[n + i] - _dot(self.program.by_row[i], value) for i in self._tight]
        for j, x in zip(self._columns, self._kernel.solve(right), strict=True):
            value[j] = x
        for i, row in enumerate(self.program.by_row):
            if self.status[n + i] == BASIC:
                value[n + i] = _dot(row, value)
        return value

    def _at_bound(self, j: int) -> Rational:
        code = self.status[j]
        if code == AT_LOWER:
            return self.program.lower[j]
        return self.program.upper[j] if code == AT_UPPER else ZERO

    @cached_property
    def price(self) -> list[Rational]:
        """(n + m,) reduced costs of columns, duals of rows: increase of the objective per unit of the variable."""
        program, (m, n) = self.program, self.program.shape
        y = [-program.cost[n + i] for i in range(m)]  # of basic rows; row costs are rarely nonzero
        for i in self._tight:
            y[i] = ZERO
        right = [program.cost[j] - _dot(program.by_column[j], y) for j in self._columns]
        for i, dual in zip(self._tight, self._kernel.solve_transposed(right), strict=True):
            y[i] = dual
        columns = [
            ZERO if self.status[j] == BASIC else program.cost[j] - _dot(program.by_column[j], y) for j in range(n)
        ]
        return [*columns, *(program.cost[n + i] + y[i] for i in range(m))]

    def objective(self) -> Rational:
        """cost.(x, r)."""
        return sum((c * v for c, v in zip(self.program.cost, self.value, strict=True) if c), ZERO)

    def movable(self, j: int) -> bool:
        """Whether a variable is not fixed by its bounds."""
        low = self.program.lower[j]
        return low is None or low != self.program.upper[j]

    def outside(self) -> list[tuple[int, Rational]]:
        """Basic variables outside their bounds, with the violation."""
        found = []
        for j, v in enumerate(self.value):
            if self.status[j] == BASIC:
                low, high = self.program.lower[j], self.program.upper[j]
                if low is not None and v < low:
                    found.append((j, low - v))
                elif high is not None and v > high:
                    found.append((j, v - high))
        return found

    def attractive(self) -> list[int]:
        """Nonbasic variables whose reduced cost allows an increase of the objective."""
        return [j for j, code in enumerate(self.status) if code != BASIC and self.movable(j) and self._gains(j, code)]

    def _gains(self, j: int, code: int) -> bool:
        d = self.price[j]
        return bool(d > 0 if code == AT_LOWER else d < 0 if code == AT_UPPER else d != 0)

    def column(self, q: int) -> list[tuple[int, Rational]]:
        """(basic variable, change per unit of the variable q), without zeros."""
        move = self._completed([fmpq(1) if j == q else ZERO for j in range(len(self.status))])
        return [(j, v) for j, v in enumerate(move) if self.status[j] == BASIC and v]

    def row(self, p: int) -> list[tuple[int, Rational]]:
        """(nonbasic variable, change of the basic variable p per unit of it), without zeros."""
        program, (_, n) = self.program, self.program.shape
        own = dict(program.by_row[p - n]) if p >= n else {p: fmpq(1)}
        z = self._kernel.solve_transposed([own.get(j, ZERO) for j in self._columns])
        change: dict[int, Rational] = {j: v for j, v in own.items() if p >= n}
        for i, factor in zip(self._tight, z, strict=True):
            if factor:
                change[n + i] = factor
                for j, v in program.by_row[i]:
                    change[j] = change.get(j, ZERO) - factor * v
        return [(j, v) for j, v in sorted(change.items()) if self.status[j] != BASIC and v]

    def face(self) -> RationalProgram:
        """The program restricted to the optimal face: variables with a nonzero reduced cost are fixed."""
        priced = [j for j, price in enumerate(self.price) if price and self.status[j] != BASIC]
        return self.program.within((j, self.value[j], self.value[j]) for j in priced)

    def exchanged(self, entering: int, leaving: int, code: int) -> Vertex:
        """The basis with ``entering`` in place of ``leaving``, which moves to the bound ``code``; both may be equal."""
        status = list(self.status)
        status[entering], status[leaving] = BASIC, code
        return Vertex(self.program, tuple(status))


def _place(program: RationalProgram, j: int, code: int) -> int:
    low, high = program.lower[j], program.upper[j]
    if code == AT_UPPER and high is not None:
        return AT_UPPER
    if low is not None:
        return AT_LOWER
    return AT_UPPER if high is not None else AT_ZERO


def _dot(entries: list[tuple[int, Rational]], values: list[Rational]) -> Rational:
    return sum((v * values[j] for j, v in entries if values[j]), ZERO)


Check = Callable[[], None]
"""Called before each step; raises an exception to stop the search."""


def never(*_: object) -> None:
    """Never stop the search."""


def maximise(start: Vertex, limit: int | None = None, check: Check = never) -> tuple[Vertex, int]:
    """A proven optimal vertex (primal and dual feasible), and the number of steps.

    A start that is neither primal nor dual feasible gets modified costs that make it dual feasible; dual steps then
    make it primal feasible, and primal steps optimise the original costs.

    Parameters
    ----------
    limit:
        Limit of steps, or None.
    check:
        Called before each step; raises an exception to stop the search.

    Raises
    ------
    InfeasibleError, UnboundedError, LimitError
        There is no optimum, or none was found within ``limit``.
    kernel.SingularError
        ``start`` is not a basis.
    """
    vertex, steps = start, 0
    if vertex.outside():
        vertex, steps = _dual(_unattractive(vertex), limit, check)
        vertex = Vertex(start.program, vertex.status)
    return _primal(vertex, limit, steps, check)


def _unattractive(vertex: Vertex) -> Vertex:
    """Make a vertex dual feasible: move attractive variables to their other bound, else change their cost."""
    cost, status = list(vertex.program.cost), list(vertex.status)
    for j in vertex.attractive():
        other = AT_UPPER if status[j] == AT_LOWER else AT_LOWER
        bound = vertex.program.upper[j] if other == AT_UPPER else vertex.program.lower[j]
        if status[j] != AT_ZERO and bound is not None:
            status[j] = other
        else:
            cost[j] -= vertex.price[j]
    return Vertex(replace(vertex.program, cost=cost), tuple(status))


def _count(steps: int, limit: int | None, check: Check) -> int:
    check()
    if limit is not None and steps >= limit:
        raise LimitError(f"no optimum within {limit} exact steps")
    return steps + 1


def _primal(vertex: Vertex, limit: int | None, steps: int, check: Check) -> tuple[Vertex, int]:
    """Primal simplex; Bland's rule applies during degenerate steps, which ensures termination."""
    stalled = False
    while attractive := vertex.attractive():
        price = vertex.price
        q = attractive[0] if stalled else max(attractive, key=lambda j: abs(price[j]))
        steps = _count(steps, limit, check)
        vertex, length = _primal_step(vertex, q)
        stalled = length == 0
    return vertex, steps


def _primal_step(vertex: Vertex, q: int) -> tuple[Vertex, Rational]:
    """Move q from its bound up to the limit of the ratio test; the blocking variable of lowest index leaves."""
    program, sign = vertex.program, 1 if vertex.price[q] > 0 else -1
    low, high = program.lower[q], program.upper[q]
    length = None if low is None or high is None else high - low
    leaving = (q, AT_UPPER if sign > 0 else AT_LOWER)
    for j, change in vertex.column(q):
        code = AT_UPPER if change * sign > 0 else AT_LOWER
        bound = program.upper[j] if code == AT_UPPER else program.lower[j]
        if bound is not None:
            room = (bound - vertex.value[j]) / (change * sign)
            if length is None or room < length or (room == length and j < leaving[0]):
                length, leaving = room, (j, code)
    if length is None:
        raise UnboundedError("the objective grows without limit")
    return vertex.exchanged(q, *leaving), length


def _dual(vertex: Vertex, limit: int | None, check: Check) -> tuple[Vertex, int]:
    """Dual simplex until primal feasible; Bland's rule applies during degenerate steps."""
    stalled, steps = False, 0
    while outside := vertex.outside():
        p = outside[0][0] if stalled else max(outside, key=lambda pair: pair[1])[0]
        steps = _count(steps, limit, check)
        low = vertex.program.lower[p]
        below = low is not None and vertex.value[p] < low
        entering, ratio = _dual_choice(vertex, p, 1 if below else -1)
        vertex = vertex.exchanged(entering, p, AT_LOWER if below else AT_UPPER)
        stalled = ratio == 0
    return vertex, steps


def _dual_choice(vertex: Vertex, p: int, sign: int) -> tuple[int, Rational]:
    """Dual ratio test: the entering variable that moves p back (upwards for sign 1) at the least change of duals."""
    best: tuple[Rational, int] | None = None
    row = vertex.row(p)
    for j, change in row:
        up = change * sign > 0
        code = vertex.status[j]
        if vertex.movable(j) and (code == AT_ZERO or (code == AT_LOWER) == up):
            ratio = abs(vertex.price[j] / change)
            if best is None or ratio < best[0]:
                best = (ratio, j)
    if best is None:
        raise InfeasibleError({p: fmpq(sign), **{j: -sign * change for j, change in row}})
    return best[1], best[0]
