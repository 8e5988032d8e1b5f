"""Constraints of a program and what follows from them, step by step: the contents of a certificate in VIPR's format.

Cheung, Gleixner, Steffy: Verifying integer programming results, IPCO 2017. A constraint is ``form . x >= right``,
``<=`` or ``==``. Each derived constraint names its reason: a linear combination of earlier ones; one that is rounded,
as its form is whole at every point; an assumption; or the two sides of a split, one of which holds at every point. The
objective is minimised, as in VIPR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flint import fmpq

from hetopt.solving.rational.kernel import ZERO, Rational
from hetopt.solving.rational.program import RationalProgram

AT_LEAST, EQUATION, AT_MOST = 1, 0, -1
LETTER = {AT_LEAST: "G", EQUATION: "E", AT_MOST: "L"}

Form = Mapping[int, Rational]
"""Column -> coefficient, none of them 0."""

Terms = Mapping[int, Rational]
"""Position of a constraint -> its multiplier, none of them 0."""


class Constraint(NamedTuple):
    """``form . x >= right`` (sense 1), ``<= right`` (-1) or ``== right`` (0)."""

    sense: int
    right: Rational
    form: Form


class Derivations:
    """The constraints of ``program``, and those derived from them, by position.

    The constraints of the program are the bounds of its columns, then its rows (two if both bounds exist and differ),
    then one ``kept`` row for each earlier objective, whose bound is set when it is known.

    Parameters
    ----------
    program:
        The program; columns that are ``integer`` take whole values.
    kept:
        Forms of earlier objectives, minimised.

    Attributes
    ----------
    lower, upper:
        (n + m,) position of the constraint that states the bound of each column and row, None without one.
    kept:
        Positions of the rows that keep earlier objectives.
    objective:
        The objective that is derived at present.
    constraints:
        All of them; the first ``stated`` are of the program, of which the first ``bounds`` are of its columns.
    reasons:
        Of the derived ones, as in the file.
    ends:
        Positions of the final constraint of each objective; whatever they do not rest on is not needed.
    """

    def __init__(self, program: RationalProgram, kept: Sequence[Form] = ()) -> None:
        self.program = program
        self.objective: Form = {}
        self.constraints: list[Constraint] = []
        self.bounds = 0
        n = program.shape[1]
        self.lower: list[int | None] = [None] * len(program.lower)
        self.upper: list[int | None] = [None] * len(program.upper)
        for j, (low, high) in enumerate(zip(program.lower, program.upper, strict=True)):
            form = {j: fmpq(1)} if j < n else dict(program.by_row[j - n])
            if j == n:
                self.bounds = len(self.constraints)
            if j >= n and low is not None and low == high:
                self.lower[j] = self.upper[j] = self._stated(EQUATION, low, form)
                continue
            if low is not None:
                self.lower[j] = self._stated(AT_LEAST, low, form)
            if high is not None:
                self.upper[j] = self._stated(AT_MOST, high, form)
        if not program.by_row:
            self.bounds = len(self.constraints)
        self.kept = [self._stated(AT_MOST, None, form) for form in kept]
        self.stated = len(self.constraints)
        self.reasons: list[str] = []
        self.ends: list[int] = []

    def _stated(self, sense: int, right: Rational, form: Form) -> int:
        self.constraints.append(Constraint(sense, right, form))
        return len(self.constraints) - 1

    def keep(self, position: int, right: Rational) -> None:
        """Set the bound of a row that keeps an earlier objective."""
        sense, _, form = self.constraints[position]
        self.constraints[position] = Constraint(sense, right, form)

    def truncate(self, length: int) -> None:
        """Forget all constraints from this position on."""
        del self.constraints[length:], self.reasons[length - self.stated :]

    def satisfied_by(self, x: Sequence[Rational]) -> bool:
        """Whether a (columns,) point satisfies the program and keeps all earlier objectives that are known."""
        integer = self.program.integer
        if not all(is_whole(v) for v, whole in zip(x, integer, strict=True) if whole):
            return False
        for sense, right, form in self.constraints[: self.stated]:
            if right is not None:
                over = sum((v * x[j] for j, v in form.items() if x[j]), ZERO) - right
                if over and over * sense <= 0:
                    return False
        return True

    def needed(self) -> list[tuple[Constraint, str, int]]:
        """The derived constraints on which the :attr:`ends` rest: (constraint, reason, position of its last use or -1).

        Positions are those without the other constraints.
        """
        used, wanted = dict[int, list[int]](), set(self.ends)
        for position in range(len(self) - 1, self.stated - 1, -1):
            if position in wanted:
                used[position] = _positions(self.reasons[position - self.stated])
                wanted.update(used[position])
        order = [*range(self.stated), *sorted(used)]
        place, last = {old: new for new, old in enumerate(order)}, [-1] * len(order)
        for old in sorted(used):
            for other in used[old]:
                last[place[other]] = place[old]
        return [
            (self.constraints[old], _renumbered(self.reasons[old - self.stated], place), last[place[old]])
            for old in sorted(used)
        ]

    def __len__(self) -> int:
        return len(self.constraints)

    def whole(self, form: Form) -> bool:
        """Whether ``form`` is whole at every point: whole coefficients of integer columns."""
        integer = self.program.integer
        return all(integer[j] and is_whole(v) for j, v in form.items())

    def combined(self, terms: Terms) -> Constraint:
        """The sum of constraints times their multipliers; all in one direction."""
        sense, right, form = 0, ZERO, dict[int, Rational]()
        for position, factor in terms.items():
            own, bound, coefficients = self.constraints[position]
            direction = own if factor > 0 else -own
            assert direction * sense >= 0, "constraints of opposite directions cannot be added"
            sense = sense or direction
            right += factor * bound
            for j, v in coefficients.items():
                form[j] = form.get(j, ZERO) + factor * v
        return Constraint(sense, right, {j: v for j, v in form.items() if v})

    def add(self, terms: Terms) -> int:
        """The linear combination of ``terms``, whose result is computed here."""
        return self.add_stated(self.combined(terms), terms)

    def add_rounded(self, terms: Terms, equation: int = AT_MOST) -> int:
        """The linear combination of ``terms``, its right side rounded to the next whole number that it allows.

        Parameters
        ----------
        equation:
            The sense in which an equation is taken, as VIPR rounds none.
        """
        sense, right, form = self.combined(terms)
        assert self.whole(form), "only a form that is whole at every point can be rounded"
        if sense == EQUATION:
            return self.add_rounded({self.add_stated(Constraint(equation, right, form), terms): fmpq(1)})
        return self.add_stated(Constraint(sense, ceiling(right) if sense > 0 else floor(right), form), terms, "rnd")

    def add_stated(self, constraint: Constraint, terms: Terms, why: str = "lin") -> int:
        """The linear combination of ``terms`` (rounded for ``"rnd"``), which the caller has computed."""
        text = "".join([f" {position} {factor}" for position, factor in terms.items()])
        return self._derived(constraint, f"{why} {len(terms)}{text}")

    def add_solution(self, value: Rational) -> int:
        """The objective is at most ``value``, its value at the solution in the certificate."""
        return self._derived(Constraint(AT_MOST, value, self.objective), "sol")

    def assume(self, sense: int, right: Rational, form: Form) -> int:
        """An assumption: one side of a split."""
        return self._derived(Constraint(sense, right, form), "asm")

    def add_split(self, constraint: Constraint, below: tuple[int, int], above: tuple[int, int]) -> int:
        """A constraint that follows on both sides of a split.

        Parameters
        ----------
        below, above:
            Position of what follows on that side, and of its assumption, ``form <= b`` and ``form >= b + 1``.
        """
        return self._derived(constraint, f"uns {below[0]} {below[1]} {above[0]} {above[1]}")

    def _derived(self, constraint: Constraint, reason: str) -> int:
        self.constraints.append(constraint)
        self.reasons.append(reason)
        return len(self.constraints) - 1


def _places(words: Sequence[str]) -> range:
    """Where a reason has positions: after ``uns``, or as every other word after the number of terms."""
    return range(1, 5) if words[0] == "uns" else range(2, len(words), 2)


def _positions(reason: str) -> list[int]:
    words = reason.split()
    return [int(words[i]) for i in _places(words)]


def _renumbered(reason: str, place: Mapping[int, int]) -> str:
    words = reason.split()
    for i in _places(words):
        words[i] = str(place[int(words[i])])
    return " ".join(words)


def is_whole(value: Rational) -> bool:
    """Whether an integer or fraction is whole."""
    return isinstance(value, int) or value.q == 1


def floor(value: Rational) -> int:
    """The largest whole number up to ``value``."""
    return value if isinstance(value, int) else int(value.p // value.q)


def ceiling(value: Rational) -> int:
    """The smallest whole number from ``value`` on."""
    return -floor(-value)
