"""The exact optimum of a program with integer columns: objective by objective, each with a proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from flint import fmpq

from hetopt.data.array_types import Floats
from hetopt.data.rationals import number_text
from hetopt.errors import NotSolved
from hetopt.solving.options import Options
from hetopt.solving.rational.alike_columns import summed
from hetopt.solving.rational.core import full_core
from hetopt.solving.rational.derivations import Derivations, Form
from hetopt.solving.rational.kernel import ZERO, Rational, SingularError
from hetopt.solving.rational.program import RationalProgram, fraction
from hetopt.solving.rational.root import prove
from hetopt.solving.rational.search import Improved, OutOfTime
from hetopt.solving.rational.simplex import InfeasibleError, UnboundedError, Vertex, maximise
from hetopt.solving.rational.vipr_file import Proof

Find: TypeAlias = Callable[[Sequence[tuple[Form, Rational]]], Floats | None]
"""Finds a (columns,) whole point of the program at which these forms have these values; None if it finds none."""


class IntegerOptimum(NamedTuple):
    """The optimum: (columns,) values, the value of each objective, and the proof for the last one."""

    x: list[Rational]
    values: list[Rational]
    proof: Proof


@dataclass(frozen=True, eq=False)
class IntegerProgram:
    """A program with integer columns.

    Attributes
    ----------
    program:
        The program in rationals.
    costs:
        For each objective its (columns,) coefficients; they are maximised in this order.
    offsets:
        Their constants.
    names:
        (columns,) names.
    find:
        Finds a point at which forms have given values.
    """

    program: RationalProgram
    costs: Sequence[Sequence[Rational]]
    offsets: Sequence[Fraction]
    names: Sequence[str]
    find: Find

    @property
    def forms(self) -> list[Form]:
        """The objectives, minimised."""
        return [{j: -v for j, v in enumerate(cost) if v} for cost in self.costs]


def integer_optimum(what: IntegerProgram, start: Floats, options: Options) -> IntegerOptimum:
    """The exact optimum of a program with integer columns.

    Parameters
    ----------
    start:
        (columns,) a good point in floats.
    options:
        Only the time limit is used.

    Raises
    ------
    NotSolved
        No point satisfies the program exactly, status ``"inexact"``; or the time limit is exceeded, then the error has
        the bound that is proven.
    """
    forms = what.forms
    derived = Derivations(what.program, forms[:-1])
    values, x = list[Rational](), list[Rational]()
    for k, form in enumerate(forms):
        stage = _Stage(derived, what.costs[: k + 1], options, what.find)
        x = stage.completed(x) if k else stage.first(start)
        derived.objective, kept = form, derived.kept[k] if k < len(derived.kept) else None
        try:
            x = stage.proven(kept, x)
        except OutOfTime as stopped:
            best = fraction(-_value(form, x)) + what.offsets[k]
            bound = None if stopped.bound is None else fraction(-stopped.bound) + what.offsets[k]
            raise _out_of_time(options, best, bound, (k, len(forms))) from None
        values.append(-_value(form, x))
    if not derived.satisfied_by(x) or values != [-_value(form, x) for form in forms]:
        raise NotSolved("the point that is proven to be optimal does not satisfy the program", "error")
    return IntegerOptimum(x, values, Proof(derived, what.names, derived.objective, x, -values[-1]))


def _value(form: Form, x: Sequence[Rational]) -> Rational:
    return sum((v * x[j] for j, v in form.items() if x[j]), ZERO)


def _out_of_time(options: Options, best: Fraction, bound: Fraction | None, stage: tuple[int, int]) -> NotSolved:
    """The error with the ``best`` value found and the ``bound`` on an objective, ``stage`` is its (number, of)."""
    number, of = stage
    which = "the objective" if of == 1 else f"objective {number + 1} of {of}"
    known = "nothing is proven" if bound is None else f"it is proven to be at most {float(bound):.9g}"
    error = NotSolved(
        f"{which} is not proven within time_limit={options.time_limit:g} s: the best solution found has "
        f"{number_text(best)}, and {known}; raise the limit",
        "time_limit",
    )
    error.objective, error.bound = best, bound
    return error


def infeasibility(what: IntegerProgram, options: Options, error: NotSolved) -> Floats:
    """A (columns,) point of a program that a float solver calls infeasible; else its ``error``, with the proof.

    Raises
    ------
    NotSolved
        ``error``, with the proof unless the time limit is exceeded, which its message says then.
    """
    derived = Derivations(what.program)
    try:
        x = _Stage(derived, [], options, what.find).feasible()
    except (OutOfTime, NotSolved) as stopped:
        late = isinstance(stopped, OutOfTime) or stopped.status == "time_limit"
        if late and options.time_limit is not None:
            error.problem += f"; it is not proven within time_limit={options.time_limit:g} s"
        raise error from None
    if x is None:
        error.proof = Proof(derived, what.names, what.forms[-1], None, ZERO)
        raise error
    return np.array([float(v) for v in x])


@dataclass(frozen=True)
class _Stage:
    """One objective, the last of ``costs``, with those before it; none: any point is sought."""

    derived: Derivations
    costs: Sequence[Sequence[Rational]]
    options: Options
    find: Find

    def completed(self, x: Sequence[Rational] | Floats) -> list[Rational]:
        """The point with the same integer columns whose other columns are best for these objectives in order."""
        program = self.derived.program
        places = [j for j, whole in enumerate(program.integer) if whole]
        whole = [v if isinstance(v, fmpq) else fmpq(round(v)) for v in map(x.__getitem__, places)]
        left = program.within((j, v, v) for j, v in zip(places, whole, strict=True))
        try:
            for cost in self.costs or [[ZERO] * program.shape[1]]:
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

    def first(self, start: Floats) -> list[Rational]:
        """The completed ``start``, or if it satisfies the program only within tolerances, that of another point."""
        try:
            return self.completed(start)
        except NotSolved as error:
            if error.status != "inexact":
                raise
            x = _Stage(Derivations(self.derived.program), [], self.options, self.find).feasible()
            if x is None:
                raise
        return self.completed(x)

    def proven(self, kept: int | None, x: list[Rational]) -> list[Rational]:
        """``x``, or a better point, with a proof that none is better.

        The search is over sums of alike columns. If the sums that it finds are those of no point, fewer are summed.

        Parameters
        ----------
        kept:
            Position of the row that keeps this objective; None for the last one.
        """
        derived, form = self.derived, self.derived.objective
        length, apart = len(derived), 0
        while True:
            value = _value(form, x)
            if kept is None:
                cutoff = derived.add_solution(value)
            else:
                derived.keep(kept, value)
                cutoff = kept
            if self.options.left == 0:
                raise OutOfTime(None)
            try:
                derived.ends.append(prove(summed(full_core(derived, cutoff), apart), self.options))
            except Improved as better:
                derived.truncate(length)
                found = self._point(better.sums)
                if found is not None and _value(form, found) < value:
                    x = found
                else:
                    apart += 1
            else:
                return x

    def feasible(self) -> list[Rational] | None:
        """A point of the program; None with a proof that there is none."""
        derived = self.derived
        for apart in count():
            if self.options.left == 0:
                raise OutOfTime(None)
            try:
                derived.ends.append(prove(summed(full_core(derived, None), apart), self.options))
            except Improved as better:
                derived.truncate(derived.stated)
                if (found := self._point(better.sums)) is not None:
                    return found
            else:
                break
        return None

    def _point(self, sums: Sequence[tuple[Form, Rational]]) -> list[Rational] | None:
        """A point of the program with these sums, optimal for the earlier objectives; None if none is found."""
        derived = self.derived
        if all(len(form) == 1 for form, _ in sums):
            value = {j: v for form, v in sums for j in form}
            return [value[j] for j in range(len(value))]
        earlier = [derived.constraints[at] for at in derived.kept[: max(0, len(self.costs) - 1)]]
        found = self.find([*sums, *((form, right) for _, right, form in earlier)])
        with suppress(NotSolved):
            if found is not None and derived.satisfied_by(x := self.completed(found)):
                return x
        return None
