"""Warm-started HiGHS with one program per session."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hetopt.checks import counted, shown
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidFormulation, InvalidOption, NotSolved
from hetopt.programs.linear import Basis, Cuts, LinearProgram, Names, Point, Status, is_usual
from hetopt.solving.conflicts import infeasible, is_infeasible
from hetopt.solving.options import DEFAULT, Options
from hetopt.tolerances import SMALLEST_COEFFICIENT, scale

_Status = highspy.HighsModelStatus
_DUAL, _PRIMAL = 1, 4  # simplex_strategy of HiGHS
_NO_LIMIT = 2**31 - 1
_FEASIBLE = 2  # HighsSolutionStatus.kSolutionStatusFeasible, as HighsInfo gives it

SMALL = 1_000
"""Number of columns up to which integer programs are faster without the feasibility jump heuristic."""

TALL, LITTLE = 3, 20_000
"""Ratio of rows to columns above which linear programs with few entries are faster without presolve."""


class _Quiet(highspy.Highs):  # type: ignore[misc]
    """Silent HiGHS without the callbacks of its Python layer, which take a tenth of a solve to create."""

    def __init__(self) -> None:
        super(highspy.Highs, self).__init__()
        self.setOptionValue("output_flag", False)


_QUIET = highspy.HighsOptions()
_QUIET.output_flag = False

_idle: list[_Quiet] = []
"""HiGHS objects of ended sessions, as new but for their clock: a tenth of a small solve creates and deletes one."""

MOST_IDLE, MOST_ENTRIES = 8, 20_000
"""Most objects that are kept, and the largest program that may have left memory with them."""


class Session:
    """A linear or integer program in HiGHS that can be changed and re-solved with a warm start.

    Parameters
    ----------
    program:
        The initial program.
    options:
        Solver settings; ``time_limit`` applies to each :meth:`solve`.
    presolve:
        False for programs that are changed and re-solved, where presolve costs more than it saves. None: False for
        small programs with many more rows than columns, for the same reason.
    explain:
        False: skip the search for the conflict of an infeasible program, which takes much longer than a solve.
    subsearch:
        False for integer programs so small that HiGHS's sub-MIP heuristics (RINS, RENS …) take longer than the proof
        without them.
    approximate:
        True if the caller proves the result: coefficients so small that HiGHS drops them are then accepted.
    primal:
        True for primal simplex, which is faster if the origin is feasible and few steps from the optimum.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> session = hetopt.Session(hetopt.from_pyomo(oef.noncooperative().build(inst)))
    >>> round(session.solve().objective, 4)
    4.2857
    """

    def __init__(
        self,
        program: LinearProgram,
        options: Options | None = None,
        *,
        presolve: bool | None = None,
        explain: bool = True,
        subsearch: bool = True,
        approximate: bool = False,
        primal: bool = False,
    ) -> None:
        self.options = options or DEFAULT
        if self.options.solver != "highs":
            raise InvalidOption(f"is {shown(self.options.solver)}; a Session supports only HiGHS", "solver")
        if program.earlier:
            raise InvalidFormulation(
                f"the program maximises {counted(len(program.earlier), 'objective')} before its last, a Session only "
                "one; give it program.with_objectives(program.objectives[0]), or give all to hetopt.optimise"
            )
        self._requested_presolve, self._explain = presolve, explain
        self._presolve: str
        self._stall: int | None = None
        self._approximate = approximate
        self._program: LinearProgram
        self._is_integer: bool
        self._new_rows: list[Cuts]
        self._new_entries: dict[tuple[int, int], float]
        try:
            self._highs = _Quiet() if self.options.time_limit is not None else _idle.pop()
        except IndexError:
            self._highs = _Quiet()
        self._configure()
        for search in () if subsearch else ("rins", "rens", "root_reduced_cost"):
            self._highs.setOptionValue(f"mip_heuristic_run_{search}", False)
        if primal:
            self._highs.setOptionValue("simplex_strategy", _PRIMAL)
        self.load(program)

    def __del__(self) -> None:
        """Keep the HiGHS object for another session."""
        if hasattr(self, "_program") and self._highs.getNumNz() < MOST_ENTRIES and len(_idle) < MOST_IDLE:
            self._highs.clearModel()
            self._highs.passOptions(_QUIET)
            _idle.append(self._highs)

    def load(self, program: LinearProgram) -> None:
        """Replace the program; the next solve starts cold unless :meth:`start_at` is called."""
        check_sizes(program.A.data, "the program", approximate=self._approximate)
        self._program, self._new_rows, self._new_entries = program, [], {}
        self._is_integer = bool(program.integer.any())
        check(pass_program(self._highs, program), "the program")
        tall = program.shape[0] > TALL * program.shape[1] and program.A.nnz < LITTLE and not self._is_integer
        presolve = not tall if self._requested_presolve is None else self._requested_presolve
        self._presolve = "choose" if presolve else "off"
        self._highs.setOptionValue("presolve", self._presolve)
        self._highs.setOptionValue("mip_heuristic_run_feasibility_jump", len(program.c) > SMALL)  # else it costs more
        self._scale_objective(program.c)

    def _scale_objective(self, c: Floats) -> None:
        """Let HiGHS scale an objective with very small or large coefficients, for its absolute tolerances.

        Unscaled, rates of 1e-8 work per second would all count as zero. Results are in the units of ``c``; but HiGHS
        does not unscale the bound of an integer program, so integer programs are not scaled.
        """
        size = scale(c)
        unscaled = is_usual(size) or self._is_integer
        self._highs.setOptionValue("user_objective_scale", 0 if unscaled else -round(math.log2(size)))

    def _configure(self) -> None:
        options, set_option = self.options, self._highs.setOptionValue
        threads = options.threads if options.threads == 1 else min(options.threads, os.cpu_count() or 1)
        set_option("threads", threads)  # HiGHS starts exactly as many as requested
        set_option("random_seed", options.seed)
        set_option("mip_rel_gap", options.gap)
        set_option("mip_abs_gap", 0.0)
        set_option("small_matrix_value", SMALLEST_COEFFICIENT)
        if options.method == "interior-point":
            set_option("solver", "ipm")
            set_option("run_crossover", "off")
        elif options.method in ("simplex", "auto"):
            set_option("solver", "simplex")

    def set_tolerance(self, value: float) -> None:
        """Set the primal and dual feasibility tolerances of the next solves (HiGHS accepts no less than ``FINE``)."""
        self._highs.setOptionValue("primal_feasibility_tolerance", value)
        self._highs.setOptionValue("dual_feasibility_tolerance", value)

    def set_stall(self, iterations: int) -> None:
        """Limit dual simplex to ``iterations`` in each of the next solves; primal simplex then finishes.

        A highly degenerate program can stall either method, but rarely both.
        """
        self._stall = iterations
        self._highs.setOptionValue("simplex_iteration_limit", iterations)

    @property
    def program(self) -> LinearProgram:
        """The program after all changes; built on demand, so that changes are cheap."""
        if self._new_rows:
            self._program = self._program.with_rows(*self._new_rows)
            self._new_rows = []
        if self._new_entries:
            matrix = sparse.lil_array(self._program.A)
            for (row, column), value in self._new_entries.items():
                matrix[row, column] = value
            self._program = replace(self._program, A=sparse.csc_array(matrix))
            self._new_entries = {}
        return self._program

    def set_objective(self, c: Floats, offset: float = 0.0) -> None:
        """Replace the whole objective."""
        cost = numbers(c, "the objective", len(self._program.c))
        check(self._highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost), "the objective")
        self._highs.changeObjectiveOffset(offset)
        self._scale_objective(cost)
        self._program = replace(self._program, c=cost, offset=offset)

    def set_column_bounds(self, columns: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
        """Change the bounds of columns (positions)."""
        index, low, up = bounds(columns, lower, upper)
        check(self._highs.changeColsBounds(len(index), index, low, up), "the column bounds")
        col_lower, col_upper = self._program.col_lower.copy(), self._program.col_upper.copy()
        col_lower[index], col_upper[index] = low, up
        self._program = replace(self._program, col_lower=col_lower, col_upper=col_upper)

    def set_row_bounds(self, rows: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
        """Change the bounds of rows (positions)."""
        index, low, up = bounds(rows, lower, upper)
        check(self._highs.changeRowsBounds(len(index), index, low, up), "the row bounds")
        program = self.program
        row_lower, row_upper = program.row_lower.copy(), program.row_upper.copy()
        row_lower[index], row_upper[index] = low, up
        self._program = replace(program, row_lower=row_lower, row_upper=row_upper)

    def set_coefficient(self, row: int, column: int, value: float) -> None:
        """Change one entry of the matrix."""
        entry = numbers([value], f"the entry ({row}, {column})", 1)
        check_sizes(entry, f"the entry ({row}, {column})", approximate=self._approximate)
        check(self._highs.changeCoeff(row, column, float(value)), f"the entry ({row}, {column})")
        self._new_entries[row, column] = float(value)

    def add_rows(self, matrix: sparse.csr_array, lower: Floats, upper: Floats, names: Sequence[str]) -> None:
        """Add rows in one call; the basis is kept, so the next solve starts warm."""
        rows = sparse.csr_array(matrix)
        starts, indices, data = arrays(rows)
        numbers(data, "the new rows", len(data))
        check_sizes(data, "the new rows", approximate=self._approximate)
        low, up = np.array(lower, dtype=float), np.array(upper, dtype=float)
        if rows.shape != (len(low), len(self._program.c)) or len(low) != len(up):
            raise InvalidFormulation(f"the new rows have shape {rows.shape}; it must be ({len(low)}, columns)")
        check(self._highs.addRows(rows.shape[0], low, up, rows.nnz, starts, indices, data), "the new rows")
        self._new_rows.append(Cuts(rows, low, up, names))

    def delete_rows(self, rows: ArrayLike) -> None:
        """Remove rows (positions)."""
        index = np.unique(np.asarray(rows, dtype=np.int32))
        if len(index):
            check(self._highs.deleteRows(len(index), index), "the rows to delete")
            self._program = self.program.without_rows(index)

    def add_columns(
        self, c: Floats, matrix: sparse.csc_array, lower: Floats, upper: Floats, names: Sequence[str]
    ) -> None:
        """Add continuous columns in one call; ``matrix`` is (rows, new columns)."""
        columns = sparse.csc_array(matrix)
        starts, indices, data = arrays(columns)
        cost, low, up = (np.array(a, dtype=float) for a in (c, lower, upper))
        numbers(np.concatenate([cost.ravel(), data]), "the new columns", cost.size + len(data))
        check_sizes(data, "the new columns", approximate=self._approximate)
        if columns.shape != (self.program.shape[0], len(cost)) or not len(cost) == len(low) == len(up):
            raise InvalidFormulation(f"the new columns have shape {columns.shape}; it must be (rows, {len(cost)})")
        status = self._highs.addCols(columns.shape[1], cost, low, up, columns.nnz, starts, indices, data)
        check(status, "the new columns")
        program = self.program
        self._program = replace(
            program,
            c=np.concatenate([program.c, cost]),
            A=sparse.csc_array(sparse.hstack([program.A, columns])),
            col_lower=np.concatenate([program.col_lower, low]),
            col_upper=np.concatenate([program.col_upper, up]),
            integer=np.concatenate([program.integer, np.zeros(len(cost), dtype=bool)]),
            col_names=Names.chained([program.col_names, names]),
        )

    def start_from(self, x: Floats) -> None:
        """Set a starting point; for integer programs HiGHS completes it, and uses it if it is feasible."""
        solution = highspy.HighsSolution()
        solution.col_value = np.asarray(x, dtype=float).tolist()
        self._highs.setSolution(solution)

    def start_at(self, basis: Basis) -> None:
        """Start the next solve at ``basis``; ignored if it does not fit the program."""
        if isinstance(basis.native, highspy.HighsBasis):
            self._highs.setBasis(basis.native)
            return
        codes, start = [highspy.HighsBasisStatus(code) for code in range(5)], highspy.HighsBasis()
        start.col_status = [codes[code] for code in basis.columns.tolist()]
        start.row_status = [codes[code] for code in basis.rows.tolist()]
        start.valid = True
        self._highs.setBasis(start)

    def solve(self) -> Point:
        """Solve from the current basis.

        Raises
        ------
        NotSolved
            Infeasible (with the conflicting rows), unbounded, or stopped without a usable point.
        """
        began = time.perf_counter()
        outcome = self._run()
        info, is_integer = self._highs.getInfo(), self._is_integer
        status = self._status(outcome, info)
        seconds = time.perf_counter() - began
        solution = self._highs.getSolution()
        has_dual = not is_integer and bool(solution.dual_valid)
        objective = float(info.objective_function_value)
        if not math.isfinite(objective):
            raise NotSolved(f"HiGHS reports an optimum with an objective of {objective:g}", "error")
        proven = objective if status != "time_limit" else np.inf
        return Point(
            program=self.program,
            x=np.asarray(solution.col_value, dtype=float),
            objective=objective,
            bound=float(info.mip_dual_bound) if is_integer else proven,
            status=status,
            row_dual=np.asarray(solution.row_dual, dtype=float) if has_dual else None,
            basis=None if is_integer or self._is_ipm() else self.basis(),
            seconds=seconds,
            method="branch-and-cut" if is_integer else "interior-point" if self._is_ipm() else "simplex",
            iterations=int(info.simplex_iteration_count),
        )

    def values(self) -> tuple[Floats, Floats, float]:
        """Solve a linear program and return only (x, row duals, objective), for inner loops.

        Raises
        ------
        NotSolved
            As :meth:`solve`; also if the time limit stops it.
        """
        outcome = self._run()
        info = self._highs.getInfo()
        if self._status(outcome, info) == "time_limit":
            raise NotSolved.out_of_time(self.options.time_limit)
        solution = self._highs.getSolution()
        return np.asarray(solution.col_value), np.asarray(solution.row_dual), float(info.objective_function_value)

    def basis(self) -> Basis | None:
        """The basis of the last solve, if it has one."""
        basis = self._highs.getBasis()
        return Basis(lambda: (basis.col_status, basis.row_status), basis) if basis.valid else None

    def ray(self) -> Floats | None:
        """(rows,) multipliers that contradict the bounds of columns, after an infeasible solve; None without any."""
        answer = self._highs.getDualRay()
        return np.asarray(answer[-1], dtype=float) if len(answer) == 3 and answer[1] else None

    def ranges(self) -> tuple[Floats, Floats] | None:
        """(2, rows) and (2, columns): ranges of bounds and costs in which the basis stays optimal.

        None if HiGHS has no ranges, e.g. for programs that presolve has emptied.
        """
        status, found = self._highs.getRanging()
        if status == highspy.HighsStatus.kError:
            return None
        (rows, columns), index = self.program.shape, ("dn", "up")
        bound = np.array([np.asarray(getattr(found, f"row_bound_{way}").value_)[:rows] for way in index])
        cost = np.array([np.asarray(getattr(found, f"col_cost_{way}").value_)[:columns] for way in index])
        return bound, cost

    def is_feasible(self) -> bool:
        """Whether a feasible point exists; True also if the time limit left it undecided."""
        return bool(self._run() != _Status.kInfeasible)

    def _run(self) -> highspy.HighsModelStatus:
        if self.options.left is not None:
            before = 0.0 if self._is_integer else self._highs.getRunTime()  # linear programs count the time of all runs
            self._highs.setOptionValue("time_limit", before + self.options.left)
        if self._highs.run() == highspy.HighsStatus.kError and self._highs.getModelStatus() == _Status.kNotset:
            # The global scheduler was initialised with another number of threads.
            highspy.Highs.resetGlobalScheduler(True)
            self._highs.run()
        status = self._highs.getModelStatus()
        if status == _Status.kIterationLimit and self._stall is not None:
            self._highs.setOptionValue("simplex_iteration_limit", _NO_LIMIT)
            self._highs.setOptionValue("simplex_strategy", _PRIMAL)
            self._highs.run()
            self._highs.setOptionValue("simplex_iteration_limit", self._stall)
            self._highs.setOptionValue("simplex_strategy", _DUAL)
            status = self._highs.getModelStatus()
        if status in (_Status.kUnboundedOrInfeasible, _Status.kUnknown):
            # Presolve could not decide which; or it solved the program, and duals are missing without crossover.
            self._highs.clearSolver()
            self._highs.setOptionValue("presolve", "off")
            self._highs.run()
            self._highs.setOptionValue("presolve", self._presolve)
            status = self._highs.getModelStatus()
        return status  # type: ignore[no-any-return]

    def _is_ipm(self) -> bool:
        return self.options.method == "interior-point"

    def _status(self, status: highspy.HighsModelStatus, info: highspy.HighsInfo) -> Status:
        """Convert HiGHS's status, or raise its error."""
        if status == _Status.kOptimal:
            return "optimal" if not self._is_integer or info.mip_gap <= 0 else "gap"
        if status == _Status.kTimeLimit and info.primal_solution_status == _FEASIBLE:
            return "time_limit"
        if status == _Status.kInfeasible and not self._explain:
            raise NotSolved("the program is infeasible", "infeasible")
        undecided = status in (_Status.kUnknown, _Status.kUnboundedOrInfeasible)
        if status == _Status.kInfeasible or (self._explain and undecided and is_infeasible(self.program, Session)):
            raise infeasible(self.program, Session)
        if status in (_Status.kUnbounded, _Status.kUnboundedOrInfeasible):
            raise NotSolved.unbounded()
        if status == _Status.kTimeLimit:
            raise NotSolved.out_of_time(self.options.time_limit)
        if status == _Status.kModelEmpty:
            raise NotSolved("the program has no columns: there is nothing to decide", "error")
        raise NotSolved(f"HiGHS stopped with {self._highs.modelStatusToString(status)!r}", "error")


Int32s: TypeAlias = NDArray[np.int32]

LARGEST_COEFFICIENT = 1e15
"""HiGHS rejects coefficients of this size and above."""


def check(status: highspy.HighsStatus, what: str) -> None:
    """Raise :class:`InvalidFormulation` if HiGHS has rejected ``what``."""
    if status == highspy.HighsStatus.kError:
        raise InvalidFormulation(f"HiGHS rejected {what}: wrong sizes or positions, or numbers that are not finite")


def check_sizes(coefficients: Floats, what: str, *, approximate: bool = False) -> None:
    """Raise :class:`InvalidFormulation` if HiGHS would reject or drop coefficients.

    ``approximate``: only if it would reject them.
    """
    size = np.abs(coefficients)
    least = 0.0 if approximate else SMALLEST_COEFFICIENT
    if size.max(initial=0.0) < LARGEST_COEFFICIENT and size.min(initial=np.inf) > least:
        return
    unfit = (size >= LARGEST_COEFFICIENT) | ((size <= least) & (size > 0))
    if unfit.any():
        raise InvalidFormulation(
            f"HiGHS does not accept {what}: the coefficient {coefficients[unfit][0]:g} is not between "
            f"{SMALLEST_COEFFICIENT:g} and {LARGEST_COEFFICIENT:g} in size; speeds or weights in the data are too far "
            "apart"
        )


def bounds(index: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Int32s, Floats, Floats]:
    """Positions and bounds as arrays of one length."""
    where = np.atleast_1d(np.asarray(index))
    if not np.issubdtype(where.dtype, np.integer):
        raise InvalidFormulation(f"{where.ravel()[:3].tolist()} are not positions; give whole numbers, counted from 0")
    low, up = (np.broadcast_to(np.asarray(b, dtype=float), where.shape) for b in (lower, upper))
    if np.isnan(low).any() or np.isnan(up).any():
        raise InvalidFormulation("a bound is NaN; give numbers, or -inf and inf where there is none")
    return where.astype(np.int32), low.astype(float), up.astype(float)


def numbers(values: ArrayLike, what: str, size: int) -> Floats:
    """``values`` as a new array of this size, checked to be finite: otherwise HiGHS may not terminate."""
    array = np.array(values, dtype=float)
    if array.shape != (size,):
        raise InvalidFormulation(f"{what} has shape {array.shape}; it must be ({size},)")
    if not np.isfinite(array).all():
        raise InvalidFormulation(f"{what} has {array[~np.isfinite(array)][0]}; all its numbers must be finite")
    return array


def arrays(matrix: sparse.csr_array | sparse.csc_array) -> tuple[Int32s, Int32s, Floats]:
    """(starts, indices, values) of a sparse matrix."""
    starts, indices = (index.astype(np.int32, copy=False) for index in (matrix.indptr[:-1], matrix.indices))
    return starts, indices, matrix.data.astype(float, copy=False)


def pass_program(highs: highspy.Highs, program: LinearProgram) -> highspy.HighsStatus:
    """Pass ``program`` (its last objective) to HiGHS in one call."""
    rows, columns = program.shape
    status: highspy.HighsStatus = highs.passModel(
        columns,
        rows,
        program.A.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMaximize),
        program.offset,
        program.c,
        program.col_lower,
        program.col_upper,
        program.row_lower,
        program.row_upper,
        program.A.indptr.astype(np.int32, copy=False),
        program.A.indices.astype(np.int32, copy=False),
        program.A.data.astype(float, copy=False),
        program.integer.astype(np.int32),
    )
    return status
