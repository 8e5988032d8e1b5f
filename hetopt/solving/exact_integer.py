"""The exact optimum of a program with integer columns: objective by objective, each with a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from flint import fmpq

from hetopt.data.array_types import Floats
from hetopt.data.rationals import number_text
from hetopt.errors import NotSolved
from hetopt.solving.alike_columns import summed
from hetopt.solving.derivations import ZERO, Derivations, Form
from hetopt.solving.exact_root import prove
from hetopt.solving.exact_search import Improved, OutOfTime
from hetopt.solving.integer_core import full_core
from hetopt.solving.kernel import Rational, SingularError
from hetopt.solving.options import Options
from hetopt.solving.rational_program import RationalProgram, fraction
from hetopt.solving.rational_simplex import InfeasibleError, UnboundedError, Vertex, maximise
from hetopt.solving.vipr_file import Proof

Find: TypeAlias = Callable[[Sequence[tuple[Form, Rational]]], Floats | None]
"""Finds a (columns,) whole point at which each of these sums has its value, in floats; None if there is none."""


class IntegerOptimum(NamedTuple):
    """The optimum: (columns,) values, the value of each objective, and the proof for the last one."""

    x: list[Rational]
    values: list[Rational]
    proof: Proof


def integer_optimum(
    program: RationalProgram,
    costs: Sequence[Sequence[Rational]],
    names: Sequence[str],
    start: Floats,
    options: Options,
    find: Find,
) -> IntegerOptimum:
    """The exact optimum of a program with integer columns.

    Parameters
    ----------
    program:
        The program.
    costs:
        For each objective its (columns,) coefficients; they are maximised in this order.
    start:
        (columns,) a good point in floats.
    options:
        Only the time limit is used.
    find:
        Finds a point for values of sums of columns.

    Raises
    ------
    NotSolved
        No point with the whole values of ``start`` satisfies the program, status ``"inexact"``; or the time limit is
        exceeded, then the error has the bound that is proven.
    """
    forms: list[Form] = [{j: -v for j, v in enumerate(cost) if v} for cost in costs]
    derived = Derivations(program, forms[:-1])
    values = list[Rational]()
    x: list[Rational] | None = None
    for k, form in enumerate(forms):
        stage = _Stage(derived, costs[: k + 1], options, find)
        x = stage.near(start if x is None else x)
        derived.objective, kept = form, derived.kept[k] if k < len(derived.kept) else None
        try:
            x = stage.proven(kept, x)
        except OutOfTime as stopped:
            raise _out_of_time(options, -_value(form, x), stopped.bound, (k, len(forms))) from None
        values.append(-_value(form, x))
    assert x is not None
    return IntegerOptimum(x, values, Proof(derived, names, derived.objective, x, -values[-1]))


def _value(form: Form, x: Sequence[Rational]) -> Rational:
    return sum((v * x[j] for j, v in form.items() if x[j]), ZERO)


def infeasibility(
    program: RationalProgram,
    cost: Sequence[Rational],
    names: Sequence[str],
    options: Options,
    find: Find,
    error: NotSolved,
) -> Floats:
    """A (columns,) point of a program that a float solver calls infeasible; else its ``error``, with the proof.

    Parameters
    ----------
    cost:
        (columns,) coefficients of the objective, maximised, which is stated in the proof.

    Raises
    ------
    NotSolved
        ``error``, with the proof unless the time limit is exceeded.
    """
    derived = Derivations(program)
    stage = _Stage(derived, [[ZERO] * program.shape[1]], options, find)
    try:
        x = stage.feasible()
    except (OutOfTime, NotSolved):
        raise error from None
    if x is None:
        error.proof = Proof(derived, names, {j: -v for j, v in enumerate(cost) if v}, None, ZERO)
        raise error
    return np.array([float(v) for v in x])


@dataclass(frozen=True)
class _Stage:
    """One objective, the last of ``costs``, with those before it."""

    derived: Derivations
    costs: Sequence[Sequence[Rational]]
    options: Options
    find: Find

    def near(self, x: Sequence[Rational] | Floats) -> list[Rational]:
        """The point with the same whole values that is best for these objectives in order.

        Columns that are not whole take the exact optimum of what is left of the program.
        """
        program = self.derived.program
        places = [j for j, whole in enumerate(program.integer) if whole]
        whole = [v if isinstance(v, fmpq) else fmpq(round(v)) for v in map(x.__getitem__, places)]
        left = program.within((j, v, v) for j, v in zip(places, whole, strict=True))
        try:
            for cost in self.costs:
                vertex, _ = maximise(Vertex.of_rows(left.with_cost(cost)), None, self.options.check_time)
                left = vertex.face()
        except (InfeasibleError, SingularError):
            raise NotSolved(
                "read as fractions, the whole values of the solver's point satisfy the program only within tolerances",
                "inexact",
            ) from None
        except UnboundedError:
            raise NotSolved.unbounded() from None
        return list(vertex.value[: program.shape[1]])

    def proven(self, kept: int | None, x: list[Rational]) -> list[Rational]:
        """``x``, or a better point, with a proof that none is better.

        The search is over sums of alike columns, unless the sums that it finds are those of no point.

        Parameters
        ----------
        kept:
            Position of the row that keeps this objective; None for the last one.
        """
        derived, form = self.derived, self.derived.objective
        length, alike = len(derived), True
        while True:
            value = _value(form, x)
            cutoff = derived.add_solution(value) if kept is None else derived.keep(kept, value)
            core = full_core(derived, cutoff)
            try:
                prove(summed(core) if alike else core, self.options)
            except Improved as better:
                derived.truncate(length)
                found = self._point(better.sums)
                if found is None or _value(form, found) >= value:
                    assert alike, "a point of the program is found"
                    alike = False
                else:
                    x = found
            else:
                return x

    def feasible(self) -> list[Rational] | None:
        """A point of the program; None with a proof that there is none."""
        derived = self.derived
        for alike in (True, False):
            core = full_core(derived, None)
            try:
                prove(summed(core) if alike else core, self.options)
            except Improved as better:
                derived.truncate(derived.stated)
                if (found := self._point(better.sums)) is not None:
                    return found
            else:
                return None
        raise AssertionError("a point of the program is found")

    def _point(self, sums: Sequence[tuple[Form, Rational]]) -> list[Rational] | None:
        """A point of the program with these sums; None if there is none."""
        if all(len(form) == 1 for form, _ in sums):
            x = {j: v for form, v in sums for j in form}
            return [x[j] for j in range(len(x))]
        found = self.find(sums)
        with suppress(NotSolved):
            return None if found is None else self.near(found)
        return None


def _out_of_time(options: Options, value: Rational, bound: Rational | None, stage: tuple[int, int]) -> NotSolved:
    """``value`` of the best solution and ``bound`` on the minimised objective, of which ``stage`` is (number, of)."""
    number, of = stage
    which = "the objective" if of == 1 else f"objective {number + 1} of {of}"
    best = number_text(fraction(value))
    known = "nothing is proven" if bound is None else f"it is proven to be at most {float(-bound):.9g}"
    error = NotSolved(
        f"{which} is not proven within time_limit={options.time_limit:g} s: the best solution found has {best}, and "
        f"{known}; raise the limit",
        "time_limit",
    )
    error.objective, error.bound = fraction(value), None if bound is None else fraction(-bound)
    return error
