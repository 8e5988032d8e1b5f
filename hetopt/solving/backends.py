"""Dispatch of a linear program to HiGHS, Gurobi, or any solver that Pyomo can call."""

from __future__ import annotations

from hetopt.data.entities import Floats
from hetopt.programs.linear import LinearProgram
from hetopt.programs.point import Point
from hetopt.solving.blocks import is_binary
from hetopt.solving.highs import Session
from hetopt.solving.options import Options


def run(program: LinearProgram, options: Options, start: Floats | None = None) -> Point:
    """Solve ``program`` (its last objective) with the solver and method in ``options``.

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
    if options.solver == "highs" and options.method == "auto" and is_binary(program):
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
