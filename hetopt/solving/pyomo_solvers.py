"""Solvers of Pyomo, by their name in ``SolverFactory``."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.common.errors import ApplicationError
from pyomo.common.gc_manager import PauseGC
from pyomo.opt import TerminationCondition
from scipy import sparse

from hetopt.checks import expect
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidFormulation, NotSolved, SolverUnavailable
from hetopt.programs.linear import LinearProgram, Point, Status
from hetopt.programs.model import bounded, linear
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, FEASIBILITY, scale

_SETTINGS = {  # part of a solver's name -> its option names for gap, threads and seed; None: unsupported
    "highs": ("mip_rel_gap", "threads", "random_seed"),
    "gurobi": ("MIPGap", "Threads", "Seed"),
    "glpk": ("mipgap", None, None),
    "cbc": ("ratioGap", "threads", "randomSeed"),
    "cplex": ("mip_tolerances_mipgap", "threads", "randomseed"),
    "scip": ("limits/gap", "lp/threads", "randomization/randomseedshift"),
    "xpress": ("miprelstop", "threads", "randomseed"),
}
_LINEAR = (  # Pyomo's LP solvers without special set-up, for messages
    *("appsi_cbc", "appsi_cplex", "appsi_gurobi", "appsi_highs", "cbc", "cplex", "cplex_direct", "cuopt", "glpk"),
    *("gurobi_direct", "ipopt", "mosek_direct", "scip", "scip_direct", "xpress_direct"),
)


def to_pyomo(program: LinearProgram) -> Any:
    """``program`` (its last objective) as a Pyomo model with ``column[i]``, ``row[i]`` by position.

    :func:`hetopt.from_pyomo` returns the same arrays.
    """
    expect(LinearProgram, program, "program", InvalidFormulation)
    with PauseGC():
        model = pyo.ConcreteModel()
        model.column = pyo.Var(range(program.shape[1]))
        columns = [model.column[i] for i in range(program.shape[1])]
        for variable, low, high, whole in zip(
            columns, program.col_lower.tolist(), program.col_upper.tolist(), program.integer.tolist(), strict=True
        ):
            variable.setlb(low)
            variable.setub(high)
            if whole:
                variable.domain = pyo.Integers
        gains = [(value, column) for value, column in zip(program.c.tolist(), columns, strict=True) if value]
        model.objective = pyo.Objective(expr=linear(gains or [(0.0, columns[0])], program.offset), sense=pyo.maximize)
        model.row = pyo.Constraint(range(program.shape[0]))
        matrix = sparse.csr_array(program.A)
        for i in range(program.shape[0]):
            part = slice(matrix.indptr[i], matrix.indptr[i + 1])
            terms = zip(matrix.data[part].tolist(), (columns[j] for j in matrix.indices[part].tolist()), strict=True)
            low, high = float(program.row_lower[i]), float(program.row_upper[i])
            model.row[i] = bounded([*terms], low, high, columns[0])
    return model


def solve(program: LinearProgram, options: Options) -> Point:
    """Maximise ``program`` (its last objective) with Pyomo's solver ``options.solver``.

    The time limit is passed on, and gap, threads and seed if the solver is known to support them.
    ``options.method`` is ignored: the solver chooses its method.

    Raises
    ------
    SolverUnavailable
        Pyomo has no such solver, or cannot run it here.
    NotSolved
        No usable solution.
    """
    solver = _solver(options)
    model = to_pyomo(program)
    for i in np.flatnonzero(_free(program)).tolist():
        model.row[i].deactivate()  # some of Pyomo's solvers reject rows without bounds
    if not program.integer.any():
        model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    began = time.perf_counter()
    options.check_time()
    limit = {} if options.left is None else {"timelimit": options.left}
    try:
        with _quiet():
            try:
                results = _run(solver, model, limit)
            except NotImplementedError:  # it provides no duals
                model.del_component("dual")
                results = _run(solver, model, limit)
    except (ApplicationError, RuntimeError, ValueError, OSError) as problem:
        raise NotSolved(f"solver {options.solver!r} failed: {problem}", "error") from problem
    seconds = time.perf_counter() - began
    condition, x = results.solver.termination_condition, _values(program, model)
    status = _status(program, options, condition, x)
    bound = _bound(options, results, status, program.objective(x))
    if status == "gap" and bound <= program.objective(x):
        status = "optimal"
    row_dual = _row_dual(program, model, x) if status == "optimal" else None
    return Point(
        program=program,
        x=x,
        objective=program.objective(x),
        bound=bound,
        status=status,
        row_dual=row_dual,
        seconds=seconds,
        solver=options.solver,
        method="chosen by the solver",
    )


def _run(solver: Any, model: Any, limit: dict[str, float]) -> Any:
    results = solver.solve(model, load_solutions=False, **limit)
    if results.solver.termination_condition in (TerminationCondition.optimal, TerminationCondition.maxTimeLimit):
        model.solutions.load_from(results)
    return results


def _values(program: LinearProgram, model: Any) -> Floats:
    """(columns,) the solver's values; columns without entries, which some solvers omit, are set within their bounds."""
    x = np.array([np.nan if v.value is None else v.value for v in model.column.values()], dtype=float)
    idle = np.isnan(x) & (program.c == 0) & (np.diff(program.A.indptr) == 0)
    low = np.where(program.integer, np.ceil(program.col_lower), program.col_lower)
    x[idle] = np.clip(0.0, low, program.col_upper)[idle]
    return x


def _free(program: LinearProgram) -> NDArray[np.bool_]:
    """Rows without any bound."""
    return ~np.isfinite(program.row_lower) & ~np.isfinite(program.row_upper)


def _solver(options: Options) -> Any:
    with _quiet():
        known = options.solver in list(pyo.SolverFactory)
        solver = pyo.SolverFactory(options.solver) if known else None
        usable = known and _available(solver)
    if solver is None or not usable:
        here = ", ".join(["highs", *(["gurobi"] if find_spec("gurobipy") else []), *usable_names()])
        why = "cannot run here" if known else "is not known to Pyomo"
        raise SolverUnavailable(f"solver {options.solver!r} {why}; these can run here: {here}")
    words = next((words for part, words in _SETTINGS.items() if part in options.solver), (None, None, None))
    for word, value in zip(words, (options.gap, options.threads, options.seed), strict=True):
        if word is not None:
            solver.options[word] = value
    return solver


def usable_names() -> list[str]:
    """Names of Pyomo's LP solvers that can run here."""
    with _quiet():
        known = set(pyo.SolverFactory)
        return [name for name in _LINEAR if name in known and _available(pyo.SolverFactory(name))]


def _available(solver: Any) -> bool:
    try:
        return bool(solver.available(exception_flag=False))
    except (ApplicationError, RuntimeError, NotImplementedError):
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pyomo's log and warnings: errors are raised instead."""
    logger = logging.getLogger("pyomo")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _status(program: LinearProgram, options: Options, condition: Any, x: Floats) -> Status:
    if condition == TerminationCondition.optimal and np.isfinite(x).all():
        return "gap" if program.integer.any() and options.gap > 0 else "optimal"
    if condition == TerminationCondition.maxTimeLimit:
        if np.isfinite(x).all() and program.violation(x) <= FEASIBILITY:
            return "time_limit"
        raise NotSolved.out_of_time(options.time_limit)
    impossible = (TerminationCondition.infeasible, TerminationCondition.infeasibleOrUnbounded)
    if condition in (*impossible, TerminationCondition.unbounded):
        from hetopt.solving.conflicts import infeasible, is_infeasible
        from hetopt.solving.highs import Session

        if condition == TerminationCondition.infeasible or (
            condition in impossible and is_infeasible(program, Session)
        ):
            raise infeasible(program, Session)
        raise NotSolved.unbounded()
    raise NotSolved(f"solver {options.solver!r} stopped with {str(condition)!r}", "error")


def _bound(options: Options, results: Any, status: Status, objective: float) -> float:
    """The solver's bound; an optimum reported without a bound is trusted up to the gap."""
    if status == "optimal":
        return objective
    value = results.problem.upper_bound
    if isinstance(value, int | float) and np.isfinite(value):
        return max(float(value), objective)
    return objective + options.gap * scale(objective) if status == "gap" else np.inf


def _row_dual(program: LinearProgram, model: Any, x: Floats) -> Floats | None:
    """The solver's duals with the sign that proves the optimum; None if neither sign does."""
    if program.integer.any() or model.component("dual") is None:
        return None
    given = np.array([model.dual.get(row, np.nan) for row in model.row.values()], dtype=float)
    given[_free(program)] = 0.0
    for y in (given, -given):
        bound = program.dual_bound(y, implied=False)
        if np.isfinite(bound) and bound - program.objective(x) <= EQUAL * scale(bound, program.objective(x)):
            return y
    return None
