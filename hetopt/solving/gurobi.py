"""Gurobi through its own Python package (``pip install 'hetopt[gurobi]'``)."""

from __future__ import annotations

import time
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.errors import NotSolved, SolverUnavailable
from hetopt.programs.linear import AT_LOWER, AT_UPPER, AT_ZERO, BASIC, Basis, LinearProgram, Point, Status
from hetopt.solving.options import Options

_CODES = {0: BASIC, -1: AT_LOWER, -2: AT_UPPER, -3: AT_ZERO}  # Gurobi's VBasis -> ours
_TOO_LARGE, _NO_LICENSE = 10010, 10009


def solve(program: LinearProgram, options: Options, start: Floats | None = None) -> Point:
    """Maximise ``program`` (its last objective) with Gurobi.

    Every row becomes ``A x - r = 0`` with a column ``r`` between the row's bounds, so that ranges need no special case:
    the equation has the dual of the row, and ``r`` has its basis status.

    Parameters
    ----------
    start:
        (columns,) a point to start an integer search from, or None.

    Raises
    ------
    SolverUnavailable
        gurobipy is not installed, there is no valid licence, or the program is too large for the licence.
    NotSolved
        No usable solution.
    """
    try:
        import gurobipy
    except ImportError:
        raise SolverUnavailable(
            "solver 'gurobi' needs the package gurobipy; install it with: pip install 'hetopt[gurobi]'"
        ) from None
    began = time.perf_counter()
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            columns, equations = _fill(model, program, start)
            status = _optimise(gurobipy, model, program, options)
            return _point(model, program, options, status, (columns, equations), time.perf_counter() - began)
    except gurobipy.GurobiError as problem:
        _refuse(problem)


def _fill(model: Any, program: LinearProgram, start: Floats | None) -> tuple[Any, Any]:
    """Columns and equations of ``program`` in ``model``."""
    rows, columns = program.shape
    types = np.where(program.integer, "I", "C").tolist() + ["C"] * rows
    x = model.addMVar(
        rows + columns,
        lb=np.concatenate([program.col_lower, program.row_lower]),
        ub=np.concatenate([program.col_upper, program.row_upper]),
        obj=np.concatenate([program.c, np.zeros(rows)]),
        vtype=types,
    )
    model.ModelSense = -1
    model.ObjCon = program.offset
    matrix = sparse.csr_array(sparse.hstack([program.A, -sparse.eye_array(rows)]))
    equations = model.addMConstr(matrix, x, "=", np.zeros(rows))
    if start is not None:
        x[:columns].Start = start
    return x, equations


def _optimise(gurobipy: Any, model: Any, program: LinearProgram, options: Options) -> Status:
    settings = {"Threads": options.threads, "Seed": options.seed % 2_000_000_000, "MIPGap": options.gap, "MIPGapAbs": 0}
    if options.left is not None:
        settings["TimeLimit"] = options.left
    if options.method == "interior-point":
        settings |= {"Method": 2, "Crossover": 0}
    elif options.method in ("simplex", "auto"):
        settings["Method"] = 1
    for name, value in settings.items():
        model.setParam(name, value)
    model.optimize()
    status = gurobipy.GRB
    if model.Status == status.INF_OR_UNBD:
        model.setParam("DualReductions", 0)
        model.optimize()
    if model.Status == status.INFEASIBLE:
        from hetopt.solving.conflicts import infeasible
        from hetopt.solving.highs import Session

        raise infeasible(program, Session)
    if model.Status == status.UNBOUNDED:
        raise NotSolved.unbounded()
    if model.Status == status.TIME_LIMIT and program.integer.any() and model.SolCount:
        return "time_limit"
    if model.Status == status.TIME_LIMIT:
        raise NotSolved.out_of_time(options.time_limit)
    if model.Status != status.OPTIMAL:
        raise NotSolved(f"Gurobi stopped with status {model.Status}", "error")
    return "gap" if program.integer.any() and model.MIPGap > 0 else "optimal"


def _point(
    model: Any, program: LinearProgram, options: Options, status: Status, parts: tuple[Any, Any], seconds: float
) -> Point:
    (rows, columns), (x, equations) = program.shape, parts
    whole, inner = bool(program.integer.any()), options.method == "interior-point"
    return Point(
        program=program,
        x=np.asarray(x.X[:columns], dtype=float),
        objective=float(model.ObjVal),
        bound=float(model.ObjBound) if whole else float(model.ObjVal),
        status=status,
        row_dual=None if whole else np.asarray(equations.Pi, dtype=float).reshape(rows),
        basis=None if whole or inner else _basis(x.VBasis, equations.CBasis, columns),
        seconds=seconds,
        solver="gurobi",
        method="branch-and-cut" if whole else "interior-point" if inner else "simplex",
        iterations=int(model.IterCount),
    )


def _basis(variables: NDArray[np.integer], equations: NDArray[np.integer], columns: int) -> Basis | None:
    """The basis by columns and rows; None if an artificial variable of an equation is basic in Gurobi."""
    if (np.asarray(equations) == 0).any():
        return None
    codes = [_CODES[int(code)] for code in variables]
    return Basis(lambda: (codes[:columns], codes[columns:]))


def _refuse(problem: Any) -> NoReturn:
    if problem.errno == _TOO_LARGE:
        reason = "the program is too large for the licence that is installed"
    elif problem.errno == _NO_LICENSE:
        reason = "there is no valid licence"
    else:
        raise NotSolved(f"Gurobi failed: {problem}", "error")
    raise SolverUnavailable(f"solver 'gurobi' cannot be used: {reason} ({problem}); solver='highs' needs none")
