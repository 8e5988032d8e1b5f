"""What is left of an integer program once a bound is known: fewer columns, and more rows, all of them derived.

**Reduced costs.** At duals y, every solution at least as good as the best known one has ``sum r_j (x_j - bound_j) <=
gap`` over the columns with reduced cost r_j. An integer column with ``|r_j| > gap`` thus stays at its bound; divided by
the least of these ``|r_j|`` and rounded, one constraint proves it for all.

**Cuts.** A row ``sum a_j x_j <= b`` of whole numbers over columns >= 0 implies ``sum floor(a_j / g) x_j <=
floor(b / g)`` for each g (Chvatal, Gomory). For a row of GPUs in gangs, these are the numbers of gangs of a size, or of
which one could run in their place. They bound, and the search branches on them: on how many gangs of a size a type
runs, not on which, where too many choices are nearly alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import fmpq
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.programs.linear import LinearProgram, nearest_powers
from hetopt.solving.derivations import AT_LEAST, AT_MOST, ZERO, Constraint, Derivations, Form, ceiling, floor, is_whole
from hetopt.solving.kernel import Rational

DIGITS = 44
"""Binary digits of costs and multipliers, relative to the largest cost, so that the numbers of proofs are short."""

FEW = 16
"""Fixed columns of a row for each of which it is proven alone that it is fixed; for more, all are used together."""

MOST_CUTS = 64
"""Largest number of cuts of a row."""


@dataclass
class Core:
    """The program that the search is about: the solutions at least as good as the best known one, in fewer columns.

    Each bound has the position of the constraint that states it. With ``scale`` and the rounding of costs, ``cost.x <=
    right`` for every solution with ``objective.x + constant <= best``, where the program's objective is at least
    ``objective.x + constant``.

    A column of the core is one of the program, or the sum of alike ones. Columns are numbered 0 … n-1, and row i is
    variable n + i, as in :class:`~hetopt.solving.rational_program.RationalProgram`.

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

    def bounded(self, cost: list[Rational], y: list[Rational]) -> tuple[list[Rational], Rational | None]:
        """Reduced costs at (m,) duals y, and the bound on cost.x that they prove; None without one."""
        reduced, total, n = list(cost), ZERO, len(self.columns)
        for i, v in enumerate(y):
            if v:
                side = self.lower[n + i] if v > 0 else self.upper[n + i]
                if side is None:
                    return reduced, None
                total += v * side
                for j, a in self.rows[i].items():
                    reduced[j] -= v * a
        for j, r in enumerate(reduced):
            if r:
                side = self.lower[j] if r > 0 else self.upper[j]
                if side is None:
                    return reduced, None
                total += r * side
        return reduced, total

    def proven(self, total: Rational) -> Rational:
        """The bound on the program's objective that follows from ``cost.x >= total``."""
        return self.best - max(ZERO, self.right - total) / self.scale

    def terms(self, y: list[Rational], reduced: list[Rational], factor: Rational) -> dict[int, Rational]:
        """Multipliers of rows and of columns in the proof of that bound, times ``factor``."""
        n = len(self.columns)
        pairs = [*enumerate(reduced), *((n + i, v) for i, v in enumerate(y))]
        return {at: factor * v for at, v in self.by_bounds({j: v for j, v in pairs if v}).items()}

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
            _add_row(core, dict(form), right, at)
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


def _add_row(core: Core, row: dict[int, Rational], right: Rational, at: int, *, integer: bool = False) -> None:
    """Add ``row . x <= right``, which is stated at ``at``."""
    core.rows.append(row)
    core.lower.append(None)
    core.lower_at.append(None)
    core.upper.append(right)
    core.upper_at.append(at)
    core.integer.append(integer)


def _tighten(core: Core) -> None:
    """Whole bounds of integer columns, and upper bounds that rows imply where there are none."""
    n, derived = len(core.columns), core.derived
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


def rounded_duals(core: Core, dual: Floats) -> list[Rational]:
    """(m,) duals of :meth:`Core.program`, maximised, as short fractions of the core, minimised."""
    n, unit = len(core.columns), core.unit()
    short = np.rint(np.ldexp(-dual, DIGITS))
    y = [fmpq(int(v)) * unit / 2**DIGITS if v else ZERO for v in short.tolist()]
    return [ZERO if v and (core.lower if v > 0 else core.upper)[n + i] is None else v for i, v in enumerate(y)]


def reduced_core(core: Core, y: list[Rational]) -> Core:
    """The core without the columns that the duals ``y`` fix; the same one if there are none."""
    reduced, bound = core.bounded(core.cost, y)
    if bound is None or core.cutoff is None:
        return core
    gap = core.right - bound
    fixed = {j: bool(r < 0) for j, r in enumerate(reduced) if core.integer[j] and abs(r) > gap}
    if len(fixed) == len(core.columns):
        fixed.popitem()  # HiGHS solves no program without columns
    return _Fixing(core, core.cutoff, y, reduced, fixed).core() if fixed and gap >= 0 else core


class _Fixing:
    """Columns of a core that are fixed at their upper (True) or lower bound."""

    def __init__(
        self, core: Core, cutoff: int, y: list[Rational], reduced: list[Rational], fixed: dict[int, bool]
    ) -> None:
        self.old, self.cutoff, self.fixed = core, cutoff, fixed
        least = min(abs(reduced[j]) for j in fixed)
        rest = [r / least for r in reduced]
        for j, at_upper in fixed.items():
            rest[j] += 1 if at_upper else -1
        terms = core.terms([v / least for v in y], rest, fmpq(-1))
        terms[cutoff] = terms.get(cutoff, ZERO) + 1 / least
        self.all_at = core.derived.add_rounded({at: v for at, v in terms.items() if v})
        """Position of ``sum of the distances from these bounds <= 0``."""
        self.alone = dict[int, int]()
        """Column -> position of the constraint that it is not beyond its bound."""
        self.value: dict[int, Rational] = {
            j: (core.upper if at_upper else core.lower)[j] for j, at_upper in fixed.items()
        }
        total = sum((-v if fixed[j] else v for j, v in self.value.items()), ZERO)
        assert core.derived.constraints[self.all_at].right == total, "the rounding fixes the columns"

    def _direct(self, j: int) -> int:
        """Position of the bound of column j from which its distance is counted."""
        at = (self.old.upper_at if self.fixed[j] else self.old.lower_at)[j]
        assert at is not None
        return at

    def _distance(self, columns: Iterable[int]) -> Form:
        """Sum of the distances of these columns from their bounds, without its constant."""
        return self.old.form({j: fmpq(-1 if self.fixed[j] else 1) for j in columns})

    def _sum_at(self, columns: Sequence[int], of: int, others: Iterable[int]) -> int:
        """Position of ``sum of the distances of the columns <= 0``, given the sum that also has the ``others``."""
        derived = self.old.derived
        terms = {of: fmpq(1)} | {self._direct(j): fmpq(1 if self.fixed[j] else -1) for j in others}
        right = sum((-self.value[j] if self.fixed[j] else self.value[j] for j in columns), ZERO)
        return derived.add_stated(Constraint(AT_MOST, right, self._distance(columns)), terms)

    def separate(self, columns: Sequence[int]) -> None:
        """Prove for each of these columns alone that it stays at its bound, halving their set."""
        if not columns:
            return
        chosen = set(columns)
        at = self._sum_at(columns, self.all_at, [j for j in self.fixed if j not in chosen])
        parts = [(list(columns), at)]
        while parts:
            part, at = parts.pop()
            if len(part) == 1:
                self.alone[part[0]] = at
                continue
            first, second = part[: len(part) // 2], part[len(part) // 2 :]
            parts += [(first, self._sum_at(first, at, second)), (second, self._sum_at(second, at, first))]

    def _is_bad(self, j: int, v: Rational) -> bool:
        """Whether its direct bound does not take a column with coefficient v out of a row ``<=``."""
        return bool(v > 0) if self.fixed[j] else bool(v < 0)

    def removal(self, own: Mapping[int, Rational]) -> dict[int, Rational]:
        """Multipliers that take the fixed columns with these coefficients out of the left side of a row ``<=``."""
        bad = [j for j, v in own.items() if self._is_bad(j, v)]
        if all(j in self.alone for j in bad):
            terms = {self.alone[j]: abs(own[j]) for j in bad}
            return terms | {self._direct(j): -v for j, v in own.items() if not self._is_bad(j, v)}
        top = max(abs(own[j]) for j in bad)
        terms = {self.all_at: top}
        for j, at_upper in self.fixed.items():
            v = own.get(j, ZERO) + (-top if at_upper else top)
            if v:
                terms[self._direct(j)] = -v
        return terms

    def _cleaned(self, own: Mapping[int, Rational], at: int, sense: int) -> int:
        """Position of the constraint at ``at`` without the fixed columns, which have the coefficients ``own``."""
        if sense == AT_LEAST:
            terms = {place: -v for place, v in self.removal({j: -v for j, v in own.items()}).items()}
        else:
            terms = self.removal(own)
        return self.old.derived.add({at: fmpq(1), **terms})

    def _total(self, own: Mapping[int, Rational]) -> Rational:
        return sum((v * self.value[j] for j, v in own.items()), ZERO)

    def _needed(self) -> list[int]:
        """Columns of rows with few columns that their direct bounds do not take out."""
        needed = dict[int, None]()
        for i, row in enumerate(self.old.rows):
            own = {j: v for j, v in row.items() if j in self.fixed}
            for sense, bounds in ((1, self.old.lower), (-1, self.old.upper)):
                if own and bounds[len(self.old.columns) + i] is not None:
                    bad = [j for j, v in own.items() if self._is_bad(j, -sense * v)]
                    needed |= dict.fromkeys(bad) if len(bad) <= FEW else {}
        return list(needed)

    def core(self) -> Core:
        """The core of the other columns, without rows that always hold."""
        old, fixed, n = self.old, self.fixed, len(self.old.columns)
        self.separate(self._needed())
        stay = [j for j in range(n) if j not in fixed]
        place = {j: p for p, j in enumerate(stay)}
        lost = {j: old.cost[j] for j in fixed if old.cost[j]}
        cutoff = self._cleaned(lost, self.cutoff, -1) if lost else self.cutoff
        exact = {j: old.objective[j] for j in fixed if old.objective[j]}
        rest = old.rest
        if exact:
            terms = {at: -v for at, v in self.removal(exact).items()}
            rest = old.derived.add(terms if rest is None else {rest: fmpq(1), **terms})
        new = replace(
            old,
            columns=[old.columns[j] for j in stay],
            rows=[],
            objective=[old.objective[j] for j in stay],
            cost=[old.cost[j] for j in stay],
            fixed=[*old.fixed, *((old.columns[j], v) for j, v in self.value.items())],
            cutoff=cutoff,
            right=old.right - self._total(lost),
            rest=rest,
            constant=old.constant + self._total(exact),
            lower=[old.lower[j] for j in stay],
            upper=[old.upper[j] for j in stay],
            lower_at=[old.lower_at[j] for j in stay],
            upper_at=[old.upper_at[j] for j in stay],
            integer=[old.integer[j] for j in stay],
        )
        for i, row in enumerate(old.rows):
            self._keep_row(new, n + i, row, place)
        return new

    def _keep_row(self, new: Core, variable: int, row: Mapping[int, Rational], place: Mapping[int, int]) -> None:
        old = self.old
        own = {j: v for j, v in row.items() if j in self.fixed}
        left = {place[j]: v for j, v in row.items() if j not in self.fixed}
        shift = self._total(own)
        sides = list[tuple[Rational | None, int | None]]()
        for sense, bounds, places in ((1, old.lower, old.lower_at), (-1, old.upper, old.upper_at)):
            bound, at = bounds[variable], places[variable]
            if bound is None or at is None or _always(new, left, bound - shift, sense):
                sides.append((None, None))
            else:
                sides.append((bound - shift, self._cleaned(own, at, sense) if own else at))
        if sides == [(None, None)] * 2 and not (old.integer[variable] and left):
            return
        new.rows.append(left)
        new.integer.append(old.integer[variable])
        for (bound, at), bounds, places in zip(
            sides, (new.lower, new.upper), (new.lower_at, new.upper_at), strict=True
        ):
            bounds.append(bound)
            places.append(at)


def _always(core: Core, row: Mapping[int, Rational], bound: Rational, sense: int) -> bool:
    """Whether the bounds of the columns imply that side of a row."""
    total = ZERO
    for j, v in row.items():
        side = core.lower[j] if (v > 0) == (sense > 0) else core.upper[j]
        if side is None:
            return False
        total += v * side
    return bool(total >= bound if sense > 0 else total <= bound)


def add_cuts(core: Core) -> None:
    """Add Chvatal-Gomory cuts of all rows of whole numbers."""
    n, seen = len(core.columns), {frozenset(row.items()) for row in core.rows}
    for i in range(len(core.rows)):
        row, right, at = core.rows[i], core.upper[n + i], core.upper_at[n + i]
        if right is None or at is None or not _countable(core, row):
            continue
        sizes = sorted({int(v.p) for v in row.values()})
        for g in sorted({math.gcd(*sizes), *sizes}, reverse=True)[:MOST_CUTS]:
            part = {j: fmpq(int(v.p) // g) for j, v in row.items() if v >= g}
            key = frozenset(part.items())
            if g == 1 or key in seen:
                continue
            seen.add(key)
            _add_cut(core, row, at, g, part)


def _countable(core: Core, row: Mapping[int, Rational]) -> bool:
    """Whether a row has only whole positive coefficients, of integer columns >= 0."""
    return (
        all(
            core.integer[j] and v > 0 and is_whole(v) and (low := core.lower[j]) is not None and low >= 0
            for j, v in row.items()
        )
        and len(row) > 1
    )


def _add_cut(core: Core, row: Mapping[int, Rational], at: int, g: int, part: dict[int, Rational]) -> None:
    terms = {at: fmpq(1, g)}
    for j, v in row.items():
        fraction = part.get(j, ZERO) - v / g
        if fraction:
            own = core.lower_at[j]
            assert own is not None
            terms[own] = terms.get(own, ZERO) + fraction
    if len(part) == 1:
        ((j, v),) = part.items()
        _, right, _ = core.derived.combined(terms)
        high = core.upper[j]
        if v != 1 or (high is not None and floor(right) >= high):
            return
        core.upper_at[j] = core.derived.add_rounded(terms)
        core.upper[j] = fmpq(floor(right))
        return
    where = core.derived.add_rounded(terms)
    _add_row(core, part, fmpq(core.derived.constraints[where].right), where, integer=True)
