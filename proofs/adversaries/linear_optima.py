"""All optima of a linear program at once, as a system of linear inequalities that z3 decides in fractions.

Columns are optimal if and only if prices of the rows exist that meet the dual program and have the same value. So "some
optimum violates the conclusion" needs no simplex table, no vertex and no tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog

F = Fraction

HOLDS, FAILS = F(1), F(-1)
"""Slacks of adversaries that decide without a measure."""

Lines: TypeAlias = list[str]
"""Commands of SMT-LIB."""


@dataclass(frozen=True)
class Form:
    """A linear form: column -> coefficient; the constant is that of the column ``""``."""

    parts: Mapping[str, Fraction] = field(default_factory=dict)

    @classmethod
    def total(cls, forms: Iterable[Form]) -> Form:
        """The sum of several forms."""
        found: dict[str, Fraction] = {}
        for one in forms:
            for name, value in one.parts.items():
                found[name] = found.get(name, F(0)) + value
        return cls(found)

    def __add__(self, other: Form) -> Form:
        return Form.total((self, other))

    def __sub__(self, other: Form) -> Form:
        return Form.total((self, F(-1) * other))

    def __rmul__(self, factor: Fraction | int) -> Form:
        return Form({name: factor * value for name, value in self.parts.items()})

    def __str__(self) -> str:
        terms = [f"(* {_number(v)} {name})" if name else _number(v) for name, v in self.parts.items() if v]
        return f"(+ {' '.join(terms)} 0)"


def _number(value: Fraction) -> str:
    text = f"(/ {abs(value.numerator)} {value.denominator})"
    return f"(- {text})" if value < 0 else text


def column(name: str) -> Form:
    """A single column."""
    return Form({name: F(1)})


def constant(value: Fraction | int) -> Form:
    """A form without columns."""
    return Form({"": F(value)})


def compare(left: Form, relation: str, right: Form) -> str:
    """A comparison of two forms; ``"distinct"`` means unequal."""
    return f"({relation} {left} {right})"


def both(*conditions: str) -> str:
    """All of these conditions."""
    return f"(and true {' '.join(conditions)})"


def either(conditions: Iterable[str]) -> str:
    """Any of these conditions."""
    return f"(or false {' '.join(conditions)})"


def require(*conditions: str) -> Lines:
    """Assertions of these conditions."""
    return [f"(assert {condition})" for condition in conditions]


def amounts(names: Iterable[str]) -> Lines:
    """Declarations of columns that are at least 0."""
    return [line for name in names for line in (f"(declare-const {name} Real)", f"(assert (>= {name} 0))")]


def model_of(lines: Lines) -> Any | None:
    """A solution of these commands, or None if there is none.

    Raises
    ------
    ArithmeticError
        z3 reaches no result, which cannot occur for linear conditions without a time limit.
    """
    import z3

    solver = z3.SolverFor("QF_LRA")
    solver.from_string("\n".join(lines))
    answer = solver.check()
    if answer == z3.unknown:
        raise ArithmeticError(f"z3 reached no result: {solver.reason_unknown()}")
    return solver.model() if answer == z3.sat else None


def value_in(model: Any, form: Form) -> Fraction:
    """The value of a form in a solution."""
    import z3

    def one(name: str) -> Fraction:
        return F(model.eval(z3.Real(name), model_completion=True).as_fraction()) if name else F(1)

    return sum((v * one(name) for name, v in form.parts.items()), F(0))


def holds_unless(*lines: Lines) -> Fraction:
    """The slack of a claim that fails if all these commands have a solution; the last ones say how it fails.

    Raises
    ------
    ValueError
        The other commands, which describe the optima, have no solution themselves.
    """
    given = tuple(chain.from_iterable(lines[:-1]))
    if model_of([*given, *lines[-1]]) is not None:
        return FAILS
    if not _have_solution(given):
        raise ValueError("the conditions of optima contradict each other")
    return HOLDS


@lru_cache(maxsize=8)
def _have_solution(lines: tuple[str, ...]) -> bool:
    return model_of(list(lines)) is not None


def extremes(lines: Lines, form: Form) -> Iterator[Fraction]:
    """The smallest and the largest value of a form."""
    import z3

    for direction in ("minimize", "maximize"):
        search = z3.Optimize()
        search.from_string("\n".join([*lines, f"({direction} {form})"]))
        assert search.check() == z3.sat
        yield value_in(search.model(), form)


@dataclass(frozen=True)
class Row:
    """A row of a program: ``form <= 0``, or ``form = 0``."""

    form: Form
    equal: bool = False


@dataclass(frozen=True)
class Program:
    """A linear program: the largest ``gain`` under ``rows``, all columns at least 0.

    Attributes
    ----------
    name:
        First part of the names of its prices.
    columns:
        Names of the columns.
    """

    name: str
    columns: tuple[str, ...]
    gain: Form
    rows: tuple[Row, ...]

    def price(self, row: int) -> Form:
        """The price of a row."""
        return column(f"price_{self.name}_{row}")

    @property
    def feasible(self) -> Lines:
        """The columns meet all rows."""
        rows = (compare(row.form, "=" if row.equal else "<=", Form()) for row in self.rows)
        return [*amounts(self.columns), *require(*rows)]

    @property
    def prices(self) -> Lines:
        """The prices meet the dual program: no column gains more than it costs."""
        lines: Lines = []
        for i, row in enumerate(self.rows):
            (name,) = self.price(i).parts
            lines += [f"(declare-const {name} Real)"] if row.equal else amounts([name])
        for c in self.columns:
            cost = Form.total(row.form.parts.get(c, F(0)) * self.price(i) for i, row in enumerate(self.rows))
            lines += require(compare(cost, ">=", constant(self.gain.parts.get(c, F(0)))))
        return lines

    @property
    def dual_value(self) -> Form:
        """The value of the prices, an upper bound of the gain."""
        return Form.total(-row.form.parts.get("", F(0)) * self.price(i) for i, row in enumerate(self.rows))

    @property
    def optimal(self) -> Lines:
        """The columns are an optimum, any of them."""
        return [*self.feasible, *self.prices, *require(compare(self.dual_value, "<=", self.gain))]

    @cached_property
    def optimum(self) -> Any:
        """A solution of :attr:`optimal`.

        Raises
        ------
        ArithmeticError
            The program has no optimum.
        """
        found = model_of(self.optimal)
        if found is None:
            raise ArithmeticError("the program has no optimum")
        return found

    @property
    def value(self) -> Fraction:
        """The largest gain, exact."""
        return value_in(self.optimum, self.gain)

    @property
    def value_in_floats(self) -> float:
        """The largest gain by HiGHS."""
        at = {name: i for i, name in enumerate(self.columns)}
        table = np.array([[float(row.form.parts.get(c, F(0))) for c in at] for row in self.rows])
        right = np.array([-float(row.form.parts.get("", F(0))) for row in self.rows])
        equal = np.array([row.equal for row in self.rows])
        cost = [-float(self.gain.parts.get(c, F(0))) for c in at]
        equations = (table[equal], right[equal]) if equal.any() else (None, None)
        found = linprog(cost, table[~equal], right[~equal], *equations)
        assert found.success, found.message
        return -float(np.asarray(found.fun))
