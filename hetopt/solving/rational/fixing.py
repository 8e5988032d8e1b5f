"""Columns of a core that stay at a bound, by reduced costs.

At duals y, every solution at least as good as the best known one has ``sum r_j (x_j - bound_j) <= gap`` over the
columns with reduced cost r_j. An integer column with ``|r_j| > gap`` thus stays at its bound; divided by the least of
these ``|r_j|`` and rounded, one constraint proves it for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from flint import fmpq

from hetopt.solving.rational.core import Core, Number
from hetopt.solving.rational.derivations import AT_LEAST, AT_MOST, Constraint, Form
from hetopt.solving.rational.kernel import ZERO, Rational

FEW = 16
"""Fixed columns of a row for each of which it is proven alone that it is fixed; for more, all are used together."""


def reduced_core(core: Core, y: Mapping[int, Rational]) -> Core:
    """The core without the columns that the duals ``y`` fix; the same one if there are none."""
    found = core.weak_bound(core.cost, y)
    if found is None or core.cutoff is None:
        return core
    reduced, gap = found.reduced, core.right - found.total
    fixed = {j: bool(r < 0) for j, r in enumerate(reduced) if core.integer[j] and abs(r) > gap}
    if len(fixed) == len(core.columns):
        fixed.popitem()  # HiGHS solves no program without columns
    return _Fixing(core, core.cutoff, y, reduced, fixed).core() if fixed and gap >= 0 else core


class _Fixing:
    """Columns of a core that are fixed at their upper (True) or lower bound."""

    def __init__(
        self, core: Core, cutoff: int, y: Mapping[int, Rational], reduced: list[Number], fixed: dict[int, bool]
    ) -> None:
        self.old, self.cutoff, self.fixed = core, cutoff, fixed
        least = min(abs(reduced[j]) for j in fixed)
        rest = [r / least for r in reduced]
        for j, at_upper in fixed.items():
            rest[j] += 1 if at_upper else -1
        n = len(core.columns)
        multipliers = {j: r for j, r in enumerate(rest) if r} | {n + i: v / least for i, v in y.items()}
        terms = {at: -v for at, v in core.by_bounds(multipliers).items()}
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

    def _separate(self, columns: Sequence[int]) -> None:
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

    def _multipliers_against(self, own: Mapping[int, Rational]) -> dict[int, Rational]:
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

    def _without_fixed(self, own: Mapping[int, Rational], at: int, sense: int) -> int:
        """Position of the constraint at ``at`` without the fixed columns, which have the coefficients ``own``."""
        if sense == AT_LEAST:
            terms = {place: -v for place, v in self._multipliers_against({j: -v for j, v in own.items()}).items()}
        else:
            terms = self._multipliers_against(own)
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
        self._separate(self._needed())
        stay = [j for j in range(n) if j not in fixed]
        place = {j: p for p, j in enumerate(stay)}
        lost = {j: old.cost[j] for j in fixed if old.cost[j]}
        cutoff = self._without_fixed(lost, self.cutoff, AT_MOST) if lost else self.cutoff
        exact = {j: old.objective[j] for j in fixed if old.objective[j]}
        rest = old.rest
        if exact:
            terms = {at: -v for at, v in self._multipliers_against(exact).items()}
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
                sides.append((bound - shift, self._without_fixed(own, at, sense) if own else at))
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
