"""The exact optimum of a program with integer columns: objective by objective, each with a proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flint import fmpq

from hetopt.data.array_types import Floats
from hetopt.data.rationals import number_text
from hetopt.errors import NotSolved
from hetopt.solving.derivations import ZERO, Derivations, Form
from hetopt.solving.exact_search import Improved, OutOfTime, prove
from hetopt.solving.integer_core import full_core
from hetopt.solving.kernel import Rational, SingularError
from hetopt.solving.options import Options
from hetopt.solving.rational_program import RationalProgram, fraction
from hetopt.solving.rational_simplex import InfeasibleError, UnboundedError, Vertex, maximise
from hetopt.solving.vipr_file import Proof


class IntegerOptimum(NamedTuple):
    """The optimum: (columns,) values, the value of each objective, and the proof for the last one."""

    x: list[Rational]
    values: list[Rational]
    proof: Proof


def integer_optimum(
    program: RationalProgram, costs: Sequence[Sequence[Rational]], names: Sequence[str], start: Floats, options: Options
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
        x = _best_near(program, [*costs[: k + 1]], start if x is None else x, options)
        x = _proven(derived, form, derived.kept[k] if k < len(derived.kept) else None, x, options, (k, len(forms)))
        values.append(-_value(form, x))
    assert x is not None
    return IntegerOptimum(x, values, Proof(derived, names, x, -values[-1]))


def _value(form: Form, x: Sequence[Rational]) -> Rational:
    return sum((v * x[j] for j, v in form.items() if x[j]), ZERO)


def _best_near(
    program: RationalProgram, costs: Sequence[Sequence[Rational]], x: Sequence[Rational] | Floats, options: Options
) -> list[Rational]:
    """The point with the same whole values that is best for these objectives in order.

    Columns that are not whole take the exact optimum of what is left of the program.
    """
    near = [v if isinstance(v, fmpq) else fmpq(round(v)) for v, whole in zip(x, program.integer, strict=True) if whole]
    places = [j for j, whole in enumerate(program.integer) if whole]
    left = program.within((j, v, v) for j, v in zip(places, near, strict=True))
    try:
        for cost in costs:
            vertex, _ = maximise(Vertex.of_rows(left.with_cost(cost)), None, options.check_time)
            left = vertex.face()
    except (InfeasibleError, SingularError):
        raise NotSolved(
            "read as fractions, the whole values of the solver's point satisfy the program only within tolerances",
            "inexact",
        ) from None
    except UnboundedError:
        raise NotSolved.unbounded() from None
    return list(vertex.value[: program.shape[1]])


def _proven(
    derived: Derivations, form: Form, kept: int | None, x: list[Rational], options: Options, stage: tuple[int, int]
) -> list[Rational]:
    """``x``, or a better solution for the objective, with a proof that none is better."""
    derived.objective, length = form, len(derived)
    while True:
        value = _value(form, x)
        if kept is None:
            cutoff = derived.add_solution(value)
        else:
            derived.keep(kept, value)
            cutoff = kept
        try:
            prove(full_core(derived, cutoff), options)
        except Improved as better:
            derived.truncate(length)
            x = better.x
        except OutOfTime as stopped:
            raise _out_of_time(options, value, stopped.bound, stage) from None
        else:
            return x


def _out_of_time(options: Options, value: Rational, bound: Rational | None, stage: tuple[int, int]) -> NotSolved:
    number, of = stage
    which = "the objective" if of == 1 else f"objective {number + 1} of {of}"
    best = number_text(fraction(-value))
    known = "nothing is proven" if bound is None else f"it is proven to be at most {float(-bound):.9g}"
    error = NotSolved(
        f"{which} is not proven within time_limit={options.time_limit:g} s: the best solution found has {best}, and "
        f"{known}; raise the limit",
        "time_limit",
    )
    error.objective, error.bound = fraction(-value), None if bound is None else fraction(-bound)
    return error
