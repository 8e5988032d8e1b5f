"""Which solver runs a linear program: HiGHS, Gurobi, or anything Pyomo can call."""

from __future__ import annotations

from hetopt.highs import Session
from hetopt.linear import LinearProgram
from hetopt.options import Options
from hetopt.point import Point


def run(program: LinearProgram, options: Options) -> Point:
    """Solve ``program`` (its last objective) with the solver and method that ``options`` name.

    Raises
    ------
    NotSolved
        No usable solution.
    SolverUnavailable
        The solver is unknown, not installed or not licensed.
    """
    if options.solver == "highs":
        return Session(program, options).solve()
    raise NotImplementedError
