"""Which solver runs a linear program: HiGHS, Gurobi, or anything Pyomo can call."""

from __future__ import annotations

from hetopt.blocks import is_binary
from hetopt.entities import Floats
from hetopt.highs import Session
from hetopt.linear import LinearProgram
from hetopt.options import Options
from hetopt.point import Point


def run(program: LinearProgram, options: Options, start: Floats | None = None) -> Point:
    """Solve ``program`` (its last objective) with the solver and method that ``options`` name.

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
        from hetopt.integer import solve_binary

        return solve_binary(program, options, start)
    if options.solver == "highs":
        session = Session(program, options)
        if start is not None:
            session.start_from(start)
        return session.solve()
    if options.solver == "gurobi":
        from hetopt import gurobi

        return gurobi.solve(program, options, start)
    from hetopt import pyomo_solvers

    return pyomo_solvers.solve(program, options)
