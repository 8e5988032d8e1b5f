"""Lexicographic maximisation of a program's objectives, with separation of lazy rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.errors import NotSolved
from hetopt.programs.linear import Cuts, LinearProgram, Objective, main_priority
from hetopt.programs.point import Point, Status
from hetopt.solving.backends import run
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.solving.units import restored, scaled, scaled_cuts
from hetopt.tolerances import GAP, PROVEN, STAGE, scale

if TYPE_CHECKING:
    from hetopt.programs.compiled import Compiled

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
        ``time_limit`` applies to all stages and passes together.
    violated:
        Point -> rows that it violates; empty if all hold.
    session:
        HiGHS with the program, scaled (:func:`~hetopt.solving.units.scaled`); for linear programs of one objective.

    Returns
    -------
    Point
        Point of the last stage; its status is the weakest of all stages.

    Raises
    ------
    NotSolved
        No usable solution.
    """
    options = (options or Options()).started()
    began = time.perf_counter()
    thorough = options  # a gap in an earlier stage would enlarge the feasible set of later ones
    if program.earlier and options.gap > GAP:
        thorough = replace(options, gap=GAP)
    done: list[Point] = []
    while True:
        try:
            point = _one_stage(program.first_stage, thorough if program.earlier else options, violated, session)
        except NotSolved as problem:
            if problem.status != "time_limit" or not done:
                raise
            point = _stopped(program, done[-1])
            break
        if not program.earlier:
            break
        done.append(point)
        rows = {key: getattr(point.program, key) for key in ("A", "row_lower", "row_upper", "row_names", "row_unit")}
        program = replace(program, **rows).keep(least_kept(point))
    every = (*done, point)
    return replace(
        point,
        passes=sum(stage.passes for stage in every),
        status=max((stage.status for stage in every), key=_STATUS_ORDER.index),
        seconds=time.perf_counter() - began,
        earlier=tuple(done),
    )


def least_kept(point: Point, value: float | None = None) -> float:
    """Lower bound of a stage's objective in later stages: its optimum less a tolerance for the solver.

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
    return best - STAGE * scale(best)


def kept_stages(compiled: Compiled) -> dict[int, float]:
    """Priority -> lower bound that keeps its gains, for all priorities but the one in the certificate."""
    program = compiled.program
    stages = [*program.earlier, Objective(program.c, program.offset, program.priority)]
    about = main_priority(stage.priority for stage in stages)
    if program.priority == about:
        stages.pop()  # the last need not be solved
    *earlier, last = stages
    point = optimise(
        replace(program, c=last.c, offset=last.offset, priority=last.priority, earlier=tuple(earlier)),
        violated=compiled.separation(),
    )
    found = {}
    for stage in (*point.earlier, point):
        priority, value = stage.program.priority, None
        if compiled.curved:  # tangents overestimate the curves
            value = min(_value(stage), compiled.measure(stage.share, priority)[0].gain)
        if priority != about:
            found[priority] = least_kept(stage, value)
    return found


_STATUS_ORDER: tuple[Status, ...] = ("optimal", "gap", "time_limit")


def _stopped(program: LinearProgram, last: Point) -> Point:
    """The point of the ``last`` completed stage, as a point of ``program`` without a bound on its objective."""
    stage = replace(program, earlier=())
    value = stage.objective(last.x)
    return replace(last, program=stage, objective=value, bound=np.inf, status="time_limit", row_dual=None, passes=0)


def _value(point: Point) -> float:
    """Objective of the point, with integer columns rounded so that the row that keeps it contains no noise."""
    if not point.program.integer.any():
        return point.objective
    return point.program.objective(np.where(point.program.integer, np.rint(point.x), point.x))


def _one_stage(
    program: LinearProgram, options: Options, violated: Violated | None, session: Session | None = None
) -> Point:
    """Maximise one objective with lazy rows; HiGHS re-solves a linear program warm as rows are added."""
    inside = scaled(program) if session is None else session.program
    if session is None and violated is not None and options.solver == "highs" and not program.integer.any():
        session = Session(inside, options)
    options.check_time()
    point, passes = restored(session.solve() if session else run(inside, options), program), 1
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
                own = scaled_cuts(part, program)
                session.add_rows(own.matrix, own.lower, own.upper, own.names)
            point = restored(session.solve(), longer)
        else:
            point = restored(run(scaled(longer), options), longer)
        passes += 1
    point = _checked(point)
    return point if passes == point.passes else replace(point, passes=passes)


def _checked(point: Point) -> Point:
    """``point`` with the bound that its duals prove, if the solver claims a better one."""
    if point.row_dual is None or point.program.integer.any():
        return point
    proven = point.program.dual_bound(point.row_dual)
    if proven - point.bound <= PROVEN * scale(point.bound, proven):
        return point
    return replace(point, bound=proven)
