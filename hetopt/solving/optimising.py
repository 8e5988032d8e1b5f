"""How compiled formulations and linear programs are solved: the method, the solver, and the order of the objectives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from hetopt.checks import expect
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidFormulation, InvalidOption, NotSolved
from hetopt.plugins import METHODS
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Cuts, LinearProgram, Point, Status, main_priority
from hetopt.solving.highs import Session
from hetopt.solving.options import DEFAULT, Options
from hetopt.tolerances import EQUAL, FEASIBILITY, FINE, GAP, KEPT_OPTIMUM, PROVEN, scale

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum


def solve_compiled(compiled: Compiled, options: Options) -> tuple[Point, ExactOptimum | None]:
    """The optimum of a compiled formulation, by a method for its structure or by the solver in ``options``.

    Returns
    -------
    tuple
        The point; the exact optimum if ``options.exact``, else None.

    Raises
    ------
    NotSolved
        No usable solution.
    """
    options = options.started()
    if not options.exact:
        if (method := method_for(compiled, options)) is not None:
            return method.solve(compiled, options), None
        return optimise(compiled.program, options, compiled.separation()), None
    from hetopt.solving.exact import exact_optimum_of, point_or_proof

    if compiled.curved:
        compiled.linear()  # raises the reason
    try:
        if compiled.program.integer.any():
            point, _ = solve_compiled(compiled, options.for_start())
        else:
            point = optimise(compiled.program, options, compiled.separation())
    except NotSolved as error:
        point = point_or_proof(error, compiled.program, options, compiled)
    exact = exact_optimum_of(compiled, point, options).agreeing_with(point)
    return exact.as_point(point), exact


@dataclass(frozen=True)
class Method:
    """An algorithm for programs of one structure that is faster than a general solver.

    Parameters
    ----------
    name:
        Name of the method; a later method of the same name replaces it.
    serves:
        Whether it solves this program; see :func:`exactly`.
    solve:
        Returns the optimum: a point of ``compiled.program`` with a bound proven by weak duality, or the result of
        :func:`hetopt.optimise` if the proof fails.
    """

    name: str
    serves: Callable[[Compiled], bool]
    solve: Callable[[Compiled, Options], Point]


_registered: dict[str, Method] = {}


def register_method(method: Method) -> None:
    """Use ``method`` for all programs that it serves, before methods registered earlier.

    Packages declare methods as entry points of the group ``hetopt.methods``.
    """
    expect(Method, method, "method", InvalidOption)
    _registered.pop(method.name, None)
    _registered[method.name] = method


@cache
def _installed() -> dict[str, Method]:
    return {name: METHODS.load(name) for name in METHODS.points}


def method_for(compiled: Compiled, options: Options) -> Method | None:
    """The method that serves the program, or None; only if ``options`` leave the choice to hetopt."""
    if options.method != "auto" or options.solver != "highs" or options.exact:
        return None
    known = {**_installed(), **_registered}
    return next((method for method in reversed(known.values()) if method.serves(compiled)), None)


def exactly(*classes: type) -> Callable[[Compiled], bool]:
    """A function for :attr:`Method.serves`: one component of each of these classes, in any order."""
    wanted = sorted(map(id, classes))

    def serves(compiled: Compiled) -> bool:
        return sorted(id(type(part)) for part in compiled.formulation.components) == wanted

    return serves


Violated = Callable[[Point], Sequence[Cuts]]
"""Point -> rows that it violates; empty if all hold."""


def optimise(
    program: LinearProgram,
    options: Options | None = None,
    violated: Violated | None = None,
    *,
    session: Session | None = None,
) -> Point:
    """Maximise the objectives of ``program`` in order, adding lazy rows as points violate them.

    Parameters
    ----------
    program:
        The program to solve.
    options:
        ``time_limit`` applies to all objectives and passes together; ``exact`` is ignored, see
        :func:`hetopt.exact_optimum`.
    violated:
        Point -> rows that it violates; empty if all hold.
    session:
        HiGHS with ``program.scaled()``; for linear programs of one objective.

    Returns
    -------
    Point
        Point that maximises the last objective; its status is the weakest of all objectives.

    Raises
    ------
    NotSolved
        No usable solution.
    """
    expect(LinearProgram, program, "program", InvalidFormulation)
    options = replace(options or DEFAULT, exact=False).started()
    began = time.perf_counter()
    thorough = options  # a gap of an earlier objective would enlarge the feasible set of later ones
    if program.earlier and options.gap > GAP:
        thorough = replace(options, gap=GAP)
    done: list[Point] = []
    while True:
        first = program.with_objectives(program.objectives[0]) if program.earlier else program
        try:
            point = _one_objective(first, thorough if program.earlier else options, violated, session)
        except NotSolved as problem:
            if problem.status != "time_limit" or not done:
                raise
            point = stopped(program, done[-1])
            break
        if not program.earlier:
            break
        done.append(point)
        program = point.program.with_objectives(*program.objectives).keep(least_kept(point))
    every = (*done, point)
    return replace(
        point,
        passes=sum(each.passes for each in every),
        status=max((each.status for each in every), key=_STATUS_ORDER.index),
        seconds=time.perf_counter() - began,
        earlier=tuple(done),
    )


_STATUS_ORDER: tuple[Status, ...] = ("optimal", "gap", "time_limit")


def stopped(program: LinearProgram, last: Point) -> Point:
    """The point of the ``last`` objective maximised, as a point of ``program`` without a bound on its objective."""
    program = replace(program, earlier=())
    value = program.objective(last.x)
    return replace(last, program=program, objective=value, bound=np.inf, status="time_limit", row_dual=None, passes=0)


def _one_objective(
    program: LinearProgram, options: Options, violated: Violated | None, session: Session | None = None
) -> Point:
    """Maximise one objective with lazy rows; HiGHS re-solves a linear program warm as rows are added."""
    scaled = program.scaled() if session is None else session.program
    if session is None and options.solver == "highs" and not program.integer.any():
        session = Session(scaled, options)
    options.check_time()
    point = (session.solve() if session else run(scaled, options)).unscaled(program)
    point = _checked(_with_lazy_rows(point, options, violated, session))
    by_simplex = point.basis is not None and point.status == "optimal"
    if session and by_simplex and point.bound - point.objective > EQUAL * scale(point.bound):
        return _refined(point, options, violated, session)
    return point


def _with_lazy_rows(point: Point, options: Options, violated: Violated | None, session: Session | None) -> Point:
    """``point`` after rows that it violates have been added, until all hold."""
    program, passes = point.program, point.passes
    seen: set[str] = set()  # a row violated within the solver's tolerance is separated again and again
    while violated is not None and (cuts := violated(replace(point, requested_gap=options.gap))):
        names = [name for part in cuts for name in part.names]
        if seen.issuperset(names):
            break
        seen.update(names)
        options.check_time()
        longer = point.program.with_rows(*cuts)
        if session:
            for part in cuts:
                own = part.scaled(program)
                session.add_rows(own.matrix, own.lower, own.upper, own.names)
            point = session.solve().unscaled(longer)
        else:
            point = run(longer.scaled(), options).unscaled(longer)
        passes += 1
    return point if passes == point.passes else replace(point, passes=passes)


def _refined(point: Point, options: Options, violated: Violated | None, session: Session) -> Point:
    """``point`` solved again with the smallest tolerances of HiGHS, if these prove more.

    Its reduced costs may be up to the tolerance wrong: too much where a share is worth a millionth of another.
    """
    session.set_tolerance(FINE)
    try:
        finer = _with_lazy_rows(session.solve().unscaled(point.program), options, violated, session)
    except NotSolved:
        return point
    finally:
        session.set_tolerance(FEASIBILITY)
    finer = replace(_checked(finer), passes=point.passes + finer.passes)
    return finer if finer.bound - finer.objective < point.bound - point.objective else point


def _checked(point: Point) -> Point:
    """``point`` with the bound that its duals prove, if the solver claims a better one."""
    if point.row_dual is None or point.program.integer.any():
        return point
    proven = point.program.dual_bound(point.row_dual)
    if proven - point.bound <= PROVEN * scale(point.bound, proven):
        return point
    return replace(point, bound=proven)


def run(program: LinearProgram, options: Options, start: Floats | None = None) -> Point:
    """Solve ``program`` (its last objective) with the solver and method in ``options``; if ``exact``, prove it.

    Parameters
    ----------
    start:
        (columns,) a point from which HiGHS and Gurobi start an integer search, or None.

    Raises
    ------
    NotSolved
        No usable solution.
    SolverUnavailable
        The solver is unknown, not installed or not licensed.
    """
    if options.exact:
        from hetopt.solving.exact import exact_optimum, point_or_proof

        options = options.started()
        try:
            point = run(program, options.for_start(), start)
        except NotSolved as error:
            point = point_or_proof(error, program, options)
        return exact_optimum(point, options).agreeing_with(point).as_point(point)
    if options.solver == "highs" and options.method == "auto" and program.is_binary:
        from hetopt.solving.integer import solve_binary

        return solve_binary(program, options, start)
    if options.solver == "highs":
        session = Session(program, options)
        if start is not None:
            session.start_from(start)
        return session.solve()
    if options.solver == "gurobi":
        from hetopt.solving import gurobi

        return gurobi.solve(program, options, start)
    from hetopt.solving import pyomo_solvers

    return pyomo_solvers.solve(program, options)


def least_kept(point: Point, value: float | None = None) -> float:
    """Lower bound of an objective while later ones are maximised: its optimum less a tolerance for the solver.

    Nothing is subtracted for integer columns with integer coefficients.

    Parameters
    ----------
    value:
        The optimum, if it differs from the objective of ``point``.
    """
    program, best = point.program, _value(point) if value is None else value
    used = program.c != 0
    if program.integer[used].all() and program.offset == 0 and (program.c == np.rint(program.c)).all():
        return float(round(best))
    return best - KEPT_OPTIMUM * scale(best)


def kept_optima(compiled: Compiled) -> dict[int, float]:
    """Priority -> lower bound that keeps its gains, for all priorities but the one in the certificate."""
    program, objectives = compiled.program, compiled.program.objectives
    main = main_priority(objective.priority for objective in objectives)
    if program.priority == main:
        objectives = objectives[:-1]  # the last need not be maximised
    last = optimise(program.with_objectives(*objectives), violated=compiled.separation())
    found = {}
    for point in (*last.earlier, last):
        priority, value = point.program.priority, None
        if compiled.curved:  # tangents overestimate the curves
            value = min(_value(point), compiled.measure(point.share, priority)[0].gain)
        if priority != main:
            found[priority] = least_kept(point, value)
    return found


def _value(point: Point) -> float:
    """Objective of the point, with integer columns rounded so that the row that keeps it contains no noise."""
    if not point.program.integer.any():
        return point.objective
    return point.program.objective(np.where(point.program.integer, np.rint(point.x), point.x))
