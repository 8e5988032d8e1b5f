"""From a formulation or a policy and an instance to a result: the whole road."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np

from hetopt.allocation import Allocation, Plan
from hetopt.certificate import certify
from hetopt.entities import Entities
from hetopt.errors import InvalidOption
from hetopt.formulation import Formulation, Lazy, components_of
from hetopt.highs import Session
from hetopt.instance import Instance
from hetopt.linear import LinearProgram, from_pyomo
from hetopt.options import Options
from hetopt.point import Point
from hetopt.rows import Rows
from hetopt.tolerances import STAGE, scale

Violated = Callable[[Point], Rows]


@runtime_checkable
class Policy(Protocol):
    """Decides what everyone gets now: a frozen dataclass whose fields are its settings.

    What it has to remember is the state that it returns and is given back.
    """

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation | Plan, Any]:
        """The result for ``instance``, and the state for the next call."""
        ...


@overload
def solve(what: Formulation, instance: Instance, options: Options | None = None, **settings: Any) -> Allocation: ...
@overload
def solve(what: Policy, instance: Instance, options: Options | None = None, **settings: Any) -> Allocation | Plan: ...
def solve(
    what: Formulation | Policy, instance: Instance, options: Options | None = None, **settings: Any
) -> Allocation | Plan:
    """Solve a formulation, or run a policy once from its beginning.

    Parameters
    ----------
    what:
        A :class:`Formulation` or a policy.
    instance:
        The data.
    options, settings:
        An :class:`Options`, and single settings that override it (``exact=True``, ``time_limit=5``). A policy
        has its own options, so none may be given for it.

    Returns
    -------
    Allocation | Plan

    Raises
    ------
    NotSolved
        No usable solution; for an infeasible program with the conflicting rows.
    InvalidInstance, InvalidFormulation, InvalidOption
        Bad input; nothing has been solved.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> hetopt.solve(oef.cooperative(), inst).certificate.objective
    5.25
    """
    if isinstance(what, Formulation):
        return solve_formulation(what, instance, _options(options, settings))
    if options is not None or settings:
        raise InvalidOption(f"{type(what).__name__} is a policy: give its options when making it, not to solve()")
    return what(instance)[0]


def _options(options: Options | None, settings: dict[str, Any]) -> Options:
    try:
        return replace(options or Options(), **settings)
    except TypeError:
        known = ", ".join(Options.__dataclass_fields__)
        bad = ", ".join(sorted(set(settings) - set(Options.__dataclass_fields__)))
        raise InvalidOption(f"there is no option {bad!r}; known: {known}") from None


def solve_formulation(formulation: Formulation, instance: Instance, options: Options | None = None) -> Allocation:
    """Build, compile, optimise and certify ``formulation``; see :func:`solve`."""
    options = options or Options()
    began = time.perf_counter()
    entities = formulation.entities(instance)
    if (
        formulation.specialist is not None
        and options.method == "auto"
        and not options.exact
        and options.road != "pyomo"
    ):
        point = formulation.specialist(instance, options)
    else:
        point = optimise(compile_program(formulation, instance, options), options, lazy_rows(formulation, entities))
    exact = None
    if options.exact:
        from hetopt.exact import exact_optimum

        exact = exact_optimum(point, entities)
    share = np.maximum(point.share, 0.0)
    seconds = time.perf_counter() - began
    return Allocation(entities, share, certify(formulation, entities, point, seconds, exact))


def compile_program(formulation: Formulation, instance: Instance, options: Options | None = None) -> LinearProgram:
    """The linear program of ``formulation`` by the road that ``options`` ask for."""
    road = (options or Options()).road
    if road == "arrays" and formulation.compile is None:
        raise InvalidOption(f"{formulation.title or formulation.names} has no array road; use road='pyomo'")
    if formulation.compile is not None and road != "pyomo":
        return formulation.compile(instance)
    return from_pyomo(formulation.build(instance))


def lazy_rows(formulation: Formulation, entities: Entities) -> Violated | None:
    """One function for the lazy rows of all components, or None if there are none."""
    parts = components_of(formulation, Lazy)
    if not parts:
        return None

    def violated(point: Point) -> Rows:
        return _joined([part.violated(entities, point) for part in parts], entities)

    return violated


def _joined(found: list[Rows], entities: Entities) -> Rows:
    found = [rows for rows in found if len(rows)]
    if len(found) <= 1:
        return found[0] if found else Rows.none(entities.speed.size)
    return Rows.stacked(found)


def optimise(program: LinearProgram, options: Options | None = None, violated: Violated | None = None) -> Point:
    """Maximise the objectives of ``program`` in their order, adding lazy rows as points violate them.

    Raises
    ------
    NotSolved
        No usable solution.
    """
    options = options or Options()
    began, passes = time.perf_counter(), 0
    while program.earlier:
        stage = replace(program, c=program.earlier[0], offset=0.0, earlier=())
        point = _one_stage(stage, options, violated)
        passes += point.passes
        best = point.objective if not program.integer.any() else _floor_of(point)
        kept = replace(program, **_rows_of(point.program))
        program = kept.keep(best - STAGE * scale(best))
    point = _one_stage(program, options, violated)
    return replace(point, passes=passes + point.passes, seconds=time.perf_counter() - began)


def _floor_of(point: Point) -> float:
    """The value of an integer point, recomputed from its rounded integers so that no noise is kept as a row."""
    x = np.where(point.program.integer, np.rint(point.x), point.x)
    return point.program.objective(x)


def _rows_of(program: LinearProgram) -> dict[str, Any]:
    return {key: getattr(program, key) for key in ("A", "row_lower", "row_upper", "row_names")}


def _one_stage(program: LinearProgram, options: Options, violated: Violated | None) -> Point:
    from hetopt.backends import run

    point = run(program, options)
    if violated is None:
        return point
    return _with_lazy_rows(point, options, violated)


def _with_lazy_rows(point: Point, options: Options, violated: Violated) -> Point:
    from hetopt.backends import run

    rows, passes = violated(point), 1
    if not len(rows):
        return point
    if point.program.integer.any() or options.solver != "highs":
        while len(rows):
            point = run(point.program.with_rows(rows), options)
            rows, passes = violated(point), passes + 1
        return replace(point, passes=passes)
    session = Session(point.program, options)
    while len(rows):
        session.add_rows(point.program.on_columns(rows), rows.lower, rows.upper, rows.names)
        point = session.solve()
        rows, passes = violated(point), passes + 1
    return replace(point, passes=passes)
