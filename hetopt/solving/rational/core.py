"""The program that a search is about, whose bounds are all derived: in fewer columns, with more rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from flint import fmpq
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.programs.linear import LinearProgram, nearest_powers
from hetopt.solving.rational.derivations import (
    AT_LEAST,
    AT_MOST,
    Constraint,
    Derivations,
    Form,
    ceiling,
    floor,
    is_whole,
)
from hetopt.solving.rational.kernel import ZERO, Rational

Number: TypeAlias = int | Rational

DIGITS = 44
"""Binary digits of costs and multipliers, relative to the largest cost, so that the numbers of proofs are short."""


class WeakBound(NamedTuple):
    """``cost.x >= total`` by weak duality.

    Attributes
    ----------
    reduced:
        (n,) reduced costs.
    terms:
        Position of a constraint -> its multiplier in the proof.
    """

    total: Rational
    reduced: list[Number]
    terms: dict[int, Number]


@dataclass
class Core:
    """The program that the search is about: the solutions at least as good as the best known one, in fewer columns.

    Each bound has the position of the constraint that states it. With ``scale`` and the rounding of costs, ``cost.x <=
    right`` for every solution with ``objective.x + constant <= best``, where the program's objective is at least
    ``objective.x + constant``.

    A column of the core is one of the program, or the sum of alike ones. Columns are numbered 0 … n-1, and row i is
    variable n + i, as in :class:`~hetopt.solving.rational.program.RationalProgram`.

    Attributes
    ----------
    derived:
        The constraints.
    columns:
        (n,) each over the columns of the program.
    rows:
        (m,) core column -> coefficient.
    objective:
        (n,) minimised.
    cost, scale:
        (n,) the objective times ``scale``, rounded to whole numbers where a bound makes that a weaker constraint.
    is_exact:
        Whether no cost is rounded.
    lower, upper:
        (n + m,) bounds, None without one.
    lower_at, upper_at:
        (n + m,) positions of the constraints that state them.
    integer:
        (n + m,) whether the search may branch on the variable.
    fixed:
        Columns that are left out, over those of the program, with their values.
    cutoff, right:
        Position of the constraint ``cost.x <= right``: not worse than the best known solution; None without one.
    best:
        The program's objective at that solution.
    rest, constant:
        Position of ``program's objective - objective.x >= constant``; None if they are equal.
    """

    derived: Derivations
    columns: list[Form]
    rows: list[dict[int, Rational]]
    objective: list[Rational]
    cost: list[Rational]
    scale: Rational
    is_exact: bool
    lower: list[Rational | None]
    upper: list[Rational | None]
    lower_at: list[int | None]
    upper_at: list[int | None]
    integer: list[bool]
    fixed: list[tuple[Form, Rational]]
    cutoff: int | None
    right: Rational
    best: Rational
    rest: int | None = None
    constant: Rational = ZERO

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.rows), len(self.columns)

    def form(self, row: Mapping[int, Rational]) -> Form:
        """A row over the columns of the program."""
        return {i: v * a for j, v in row.items() for i, a in self.columns[j].items()}

    def weak_bound(
        self,
        cost: Sequence[Number],
        y: Mapping[int, Number],
        rows: Sequence[Iterable[tuple[int, Number]]] | None = None,
    ) -> WeakBound | None:
        """The bound on cost.x by these multipliers of rows; None if a bound that it needs is missing.

        Parameters
        ----------
        rows:
            (m,) the same rows, whole numbers as int, with which sums are faster.
        """
        n = len(self.columns)
        reduced, total, terms = list(cost), ZERO, dict[int, Number]()
        for i, v in y.items():
            places, sides = (self.lower_at, self.lower) if v > 0 else (self.upper_at, self.upper)
            at, side = places[n + i], sides[n + i]
            if at is None or side is None:
                return None
            terms[at] = terms.get(at, 0) + v
            total += v * side
            for j, a in self.rows[i].items() if rows is None else rows[i]:
                reduced[j] -= v * a
        lower, upper, lower_at, upper_at = self.lower, self.upper, self.lower_at, self.upper_at
        for j, r in enumerate(reduced):
            if not r:
                continue
            at, side = (lower_at[j], lower[j]) if r > 0 else (upper_at[j], upper[j])
            if at is None:
                return None
            if side:
                total += r * side
            terms[at] = terms.get(at, 0) + r
        return WeakBound(total, reduced, terms)

    def rounded_multipliers(self, dual: Floats, scale: float) -> dict[int, int]:
        """Row -> multiplier, minimised: the nearest whole multiple of 1 / ``scale`` to its dual, maximised.

        Rows without the bound that the multiplier needs are left out.
        """
        n = len(self.columns)
        y = {i: -int(v) for i, v in enumerate(np.rint(dual * scale).tolist()) if v}
        return {i: v for i, v in y.items() if (self.lower if v > 0 else self.upper)[n + i] is not None}

    def proven(self, total: Rational) -> Rational:
        """The bound on the program's objective that follows from ``cost.x >= total``."""
        return self.best - max(ZERO, self.right - total) / self.scale

    def by_bounds(self, multipliers: Mapping[int, Rational]) -> dict[int, Rational]:
        """Multipliers of columns and rows as those of their bounds: of the lower one if positive, else of the upper."""
        terms = dict[int, Rational]()
        for v, factor in multipliers.items():
            at = (self.lower_at if factor > 0 else self.upper_at)[v]
            assert at is not None, "only bounds that exist are used"
            terms[at] = terms.get(at, ZERO) + factor
        return terms

    def unit(self) -> Rational:
        """A power of two near the largest cost."""
        return power_of_two(max((abs(float(v)) for v in self.cost if v), default=1.0))

    def program(self) -> LinearProgram:
        """This core in floats, maximised, its costs in :meth:`unit`."""
        m, n = self.shape
        unit = self.unit()
        entries = [(i, j, float(v)) for i, row in enumerate(self.rows) for j, v in row.items()]
        row, column, value = np.array(entries, dtype=float).reshape(-1, 3).T
        matrix = sparse.csc_array((value, (row.astype(np.intp), column.astype(np.intp))), shape=(m, n))
        lower, upper = _floats(self.lower, -np.inf), _floats(self.upper, np.inf)
        largest = abs(sparse.csr_array(matrix)).max(axis=1).toarray().ravel() if entries else np.zeros(m)
        return replace(
            LinearProgram.of(-np.array([float(v / unit) for v in self.cost]), matrix, lower[n:], upper[n:]),
            col_lower=lower[:n],
            col_upper=upper[:n],
            row_unit=nearest_powers(largest),
        )


def contradiction(core: Core) -> int | None:
    """Position of ``objective >= best``, if a lower bound of a column or row is above its upper one."""
    for low, high, low_at, high_at in zip(core.lower, core.upper, core.lower_at, core.upper_at, strict=True):
        if low is not None and high is not None and low > high and low_at is not None and high_at is not None:
            every = Constraint(AT_LEAST, core.best, core.derived.objective)
            return core.derived.add_stated(every, {core.derived.add({low_at: fmpq(1), high_at: fmpq(-1)}): fmpq(1)})
    return None


def power_of_two(size: float) -> Rational:
    """The power of two up to ``size``, exactly."""
    exponent = math.floor(math.log2(size)) if size > 0 else 0
    return fmpq(2) ** exponent


def _floats(values: list[Rational | None], missing: float) -> Floats:
    return np.array([missing if v is None else float(v) for v in values])


def full_core(derived: Derivations, cutoff: int | None) -> Core:
    """All columns and rows of the program and of earlier objectives, with tightened bounds.

    Parameters
    ----------
    cutoff:
        Position of the constraint that the objective is not worse than at the best known solution. None: without an
        objective; that there is no solution is then the bound 0 >= 1.
    """
    program, n = derived.program, derived.program.shape[1]
    objective = [derived.objective.get(j, ZERO) for j in range(n)]
    best = fmpq(1) if cutoff is None else derived.constraints[cutoff].right
    core = Core(
        derived=derived,
        columns=[{j: fmpq(1)} for j in range(n)],
        rows=[dict(row) for row in program.by_row],
        objective=objective,
        cost=objective,
        scale=fmpq(1),
        is_exact=True,
        lower=list(program.lower),
        upper=list(program.upper),
        lower_at=list(derived.lower),
        upper_at=list(derived.upper),
        integer=[*program.integer, *[False] * len(program.by_row)],
        fixed=[],
        cutoff=cutoff,
        right=best,
        best=best,
    )
    for at in derived.kept:
        _, right, form = derived.constraints[at]
        if right is not None and at != cutoff:
            add_row(core, dict(form), right, at)
    _tighten(core)
    _shorten(core)
    return core


def _shorten(core: Core) -> None:
    """Round the costs to whole multiples of a small unit."""
    common, limit = 1, 2**DIGITS
    for v in core.objective:
        common = math.lcm(common, int(v.q))
        if common > limit:
            break
    largest = max((abs(v) for v in core.objective), default=ZERO) * common
    core.is_exact = common <= limit and largest < limit
    if core.is_exact and largest:
        common *= 2 ** (DIGITS - int(ceiling(largest)).bit_length())  # duals are rounded to whole numbers, too
    core.scale = fmpq(common) if core.is_exact else limit / core.unit()
    core.cost, terms = list[Rational](), dict[int, Rational]()
    for j, v in enumerate(core.objective):
        low, high = core.lower_at[j], core.upper_at[j]
        own = core.scale * v
        short = own if low is None and high is None else fmpq(floor(own) if low is not None else ceiling(own))
        if own != short:
            terms[high if low is None else low] = short - own  # type: ignore[index]
        core.cost.append(short)
    if core.cutoff is not None and (terms or core.scale != 1):
        terms[core.cutoff] = core.scale
        found = core.derived.combined(terms)
        core.right = fmpq(ceiling(found.right))
        core.cutoff = core.derived.add_stated(found._replace(right=core.right), terms)


def add_row(core: Core, row: dict[int, Rational], right: Rational, at: int, *, integer: bool = False) -> None:
    """Add ``row . x <= right``, which is stated at ``at``."""
    core.rows.append(row)
    core.lower.append(None)
    core.lower_at.append(None)
    core.upper.append(right)
    core.upper_at.append(at)
    core.integer.append(integer)


def _tighten(core: Core) -> None:
    """Whole bounds of integer columns and of rows of them, and bounds that rows imply where columns have none."""
    n, derived = len(core.columns), core.derived
    for i, row in enumerate(core.rows):
        _round_bounds(core, n + i, row)
    for j in range(n):
        for bounds, at in ((core.lower, core.lower_at), (core.upper, core.upper_at)):
            bound, own = bounds[j], at[j]
            if core.integer[j] and bound is not None and own is not None and not is_whole(bound):
                at[j] = derived.add_rounded({own: fmpq(1)})
                bounds[j] = fmpq(derived.constraints[-1].right)
    missing = [j for j in range(n) if core.lower[j] is None or core.upper[j] is None]
    by_column: dict[int, list[int]] = {j: [] for j in missing}
    for i, row in enumerate(core.rows if missing else ()):
        for j in by_column.keys() & row.keys():
            by_column[j].append(i)
    for j in missing:
        for way, bounds in ((1, core.upper), (-1, core.lower)):
            if bounds[j] is None:
                _imply(core, j, by_column[j], way)


def _round_bounds(core: Core, variable: int, row: Mapping[int, Rational]) -> None:
    """Bounds of a row of whole numbers over integer columns: multiples of their greatest common divisor."""
    if not all(core.integer[j] and is_whole(v) for j, v in row.items()):
        return
    divisor = math.gcd(*(int(v.p) for v in row.values()))
    for bounds, at in ((core.lower, core.lower_at), (core.upper, core.upper_at)):
        bound, own = bounds[variable], at[variable]
        if divisor and bound is not None and own is not None and not is_whole(bound / divisor):
            equation = AT_LEAST if bounds is core.lower else AT_MOST
            rounded = core.derived.add_rounded({own: fmpq(1, divisor)}, equation)
            at[variable] = core.derived.add({rounded: fmpq(divisor)})
            bounds[variable] = fmpq(core.derived.constraints[-1].right)


def _imply(core: Core, j: int, rows: list[int], way: int) -> None:
    """The tightest bound of column j, upper (1) or lower (-1), by one of these rows and the bounds of its columns."""
    n = len(core.columns)

    def side(factor: Rational) -> tuple[list[Rational | None], list[int | None]]:
        return (core.upper, core.upper_at) if factor * way > 0 else (core.lower, core.lower_at)

    best: tuple[Rational, dict[Any, Rational]] | None = None
    for i in rows:
        row = core.rows[i]
        a = row[j]
        bounds, places = side(a)
        if (right := bounds[n + i]) is None:
            continue
        terms: dict[Any, Rational] = {places[n + i]: 1 / a}
        total = right / a
        for k, v in row.items():
            if k == j:
                continue
            bounds, places = side(-v / a)
            if (bound := bounds[k]) is None:
                break
            terms[places[k]] = terms.get(places[k], ZERO) - v / a
            total -= v / a * bound
        else:
            if best is None or (total - best[0]) * way < 0:
                best = (total, terms)
    if best is not None:
        derived = core.derived
        at = derived.add_rounded(best[1], -way) if core.integer[j] else derived.add(best[1])
        bounds, places = side(fmpq(1))
        bounds[j], places[j] = fmpq(derived.constraints[at].right), at


def rounded_duals(core: Core, dual: Floats) -> dict[int, Rational]:
    """Row -> dual of :meth:`Core.program`, maximised, as a short fraction of the core, minimised."""
    unit = core.unit() / 2**DIGITS
    return {i: v * unit for i, v in core.rounded_multipliers(dual, 2.0**DIGITS).items()}
