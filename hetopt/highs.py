"""HiGHS, kept warm: a session holds one program in the solver and re-solves it after changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hetopt.entities import Floats
from hetopt.errors import NotSolved
from hetopt.linear import LinearProgram
from hetopt.options import Options
from hetopt.point import Basis, Point, Status

_Status = highspy.HighsModelStatus
_IRREDUCIBLE = highspy.IisStrategy.kIisStrategyIrreducible


class Session:
    """A linear or integer program in HiGHS that can be changed and solved again from where it was.

    Parameters
    ----------
    program:
        The program to start from.
    options:
        Solver settings.
    tolerance:
        How far rows and reduced costs may be off, where less than HiGHS's own is wanted.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import oef
    >>> inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    >>> session = hetopt.Session(hetopt.from_pyomo(oef.noncooperative().build(inst)))
    >>> round(session.solve().objective, 4)
    3.5294
    """

    def __init__(self, program: LinearProgram, options: Options | None = None, tolerance: float | None = None) -> None:
        self.options = options or Options()
        self._stored = program
        self._pending: list[tuple[sparse.csr_array, Floats, Floats, Sequence[str]]] = []
        self._highs = highspy.Highs()
        self._configure()
        if tolerance is not None:
            self._highs.setOptionValue("primal_feasibility_tolerance", tolerance)
            self._highs.setOptionValue("dual_feasibility_tolerance", tolerance)
        self._highs.passModel(_to_highs(program))

    def _configure(self) -> None:
        options, set_option = self.options, self._highs.setOptionValue
        set_option("output_flag", False)
        set_option("threads", options.threads)
        set_option("random_seed", options.seed)
        set_option("mip_rel_gap", options.gap)
        set_option("mip_abs_gap", 0.0)
        if options.time_limit is not None:
            set_option("time_limit", float(options.time_limit))
        if options.method == "interior-point":
            set_option("solver", "ipm")
            set_option("run_crossover", "off")
        elif options.method in ("simplex", "auto"):
            set_option("solver", "simplex")

    @property
    def program(self) -> LinearProgram:
        """The program as it stands after all changes (added rows are stacked when it is asked for)."""
        if self._pending:
            stored, pending = self._stored, self._pending
            self._pending = []
            self._stored = replace(
                stored,
                A=sparse.csc_array(sparse.vstack([stored.A, *(rows for rows, *_ in pending)])),
                row_lower=np.concatenate([stored.row_lower, *(lower for _, lower, _, _ in pending)]),
                row_upper=np.concatenate([stored.row_upper, *(upper for _, _, upper, _ in pending)]),
                row_names=[*stored.row_names, *(name for *_, names in pending for name in names)],
            )
        return self._stored

    @property
    def _program(self) -> LinearProgram:
        return self.program

    @_program.setter
    def _program(self, program: LinearProgram) -> None:
        self._stored = program

    def set_objective(self, c: Floats, offset: float = 0.0) -> None:
        """Replace the whole objective."""
        columns = np.arange(len(c), dtype=np.int32)
        self._highs.changeColsCost(len(c), columns, np.asarray(c, dtype=float))
        self._highs.changeObjectiveOffset(offset)
        self._program = replace(self._program, c=np.asarray(c, dtype=float), offset=offset)

    def set_column_bounds(self, columns: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
        """New bounds for some columns (positions)."""
        index = np.asarray(columns, dtype=np.int32)
        low, up = np.broadcast_to(lower, index.shape), np.broadcast_to(upper, index.shape)
        self._highs.changeColsBounds(len(index), index, low.astype(float), up.astype(float))
        col_lower, col_upper = self._program.col_lower.copy(), self._program.col_upper.copy()
        col_lower[index], col_upper[index] = low, up
        self._program = replace(self._program, col_lower=col_lower, col_upper=col_upper)

    def set_row_bounds(self, rows: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> None:
        """New bounds for some rows (positions)."""
        index = np.asarray(rows, dtype=np.int32)
        low, up = np.broadcast_to(lower, index.shape), np.broadcast_to(upper, index.shape)
        self._highs.changeRowsBounds(len(index), index, low.astype(float), up.astype(float))
        row_lower, row_upper = self._program.row_lower.copy(), self._program.row_upper.copy()
        row_lower[index], row_upper[index] = low, up
        self._program = replace(self._program, row_lower=row_lower, row_upper=row_upper)

    def set_coefficient(self, row: int, column: int, value: float) -> None:
        """One entry of the matrix."""
        self._highs.changeCoeff(row, column, float(value))
        matrix = sparse.lil_array(self._program.A)
        matrix[row, column] = value
        self._program = replace(self._program, A=sparse.csc_array(matrix))

    def add_rows(self, matrix: sparse.csr_array, lower: Floats, upper: Floats, names: Sequence[str]) -> None:
        """Add rows in one call; the basis stays, so the next solve starts warm."""
        rows = sparse.csr_array(matrix)
        starts = rows.indptr[:-1].astype(np.int32)
        indices = rows.indices.astype(np.int32)
        self._highs.addRows(rows.shape[0], lower, upper, rows.nnz, starts, indices, rows.data.astype(float))
        self._pending.append((rows, lower, upper, names))

    def delete_rows(self, rows: ArrayLike) -> None:
        """Remove rows (positions)."""
        index = np.sort(np.asarray(rows, dtype=np.int32))
        if not len(index):
            return
        self._highs.deleteRows(len(index), index)
        keep = np.setdiff1d(np.arange(self._program.shape[0]), index)
        names = self._program.row_names
        self._program = replace(
            self._program,
            A=sparse.csc_array(sparse.csr_array(self._program.A)[keep]),
            row_lower=self._program.row_lower[keep],
            row_upper=self._program.row_upper[keep],
            row_names=[names[i] for i in keep],
        )

    def add_columns(
        self, c: Floats, matrix: sparse.csc_array, lower: Floats, upper: Floats, names: Sequence[str]
    ) -> None:
        """Add continuous columns in one call; ``matrix`` is (rows, new columns)."""
        columns = sparse.csc_array(matrix)
        starts = columns.indptr[:-1].astype(np.int32)
        indices = columns.indices.astype(np.int32)
        self._highs.addCols(columns.shape[1], c, lower, upper, columns.nnz, starts, indices, columns.data.astype(float))
        program = self._program
        self._program = replace(
            program,
            c=np.concatenate([program.c, c]),
            A=sparse.csc_array(sparse.hstack([program.A, columns])),
            col_lower=np.concatenate([program.col_lower, lower]),
            col_upper=np.concatenate([program.col_upper, upper]),
            integer=np.concatenate([program.integer, np.zeros(len(c), dtype=bool)]),
            col_names=[*program.col_names, *names],
        )

    def start_from(self, x: Floats) -> None:
        """Offer a point as a start; for integer programs HiGHS completes and uses it if it is feasible."""
        solution = highspy.HighsSolution()
        solution.col_value = np.asarray(x, dtype=float).tolist()
        self._highs.setSolution(solution)

    def values(self) -> tuple[Floats, Floats, float]:
        """(x, row duals, objective) after solving from the present basis: :meth:`solve` for inner loops.

        Raises
        ------
        NotSolved
            As :meth:`solve`; also where the time limit stops it.
        """
        self._highs.run()
        if self._status() == "time_limit":
            raise NotSolved(f"not solved within time_limit={self.options.time_limit:g} s; raise it", "time_limit")
        solution = self._highs.getSolution()
        objective = float(self._highs.getInfo().objective_function_value)
        return np.asarray(solution.col_value), np.asarray(solution.row_dual), objective

    def solve(self) -> Point:
        """Solve from the present basis.

        Raises
        ------
        NotSolved
            Infeasible (with the conflicting rows), unbounded, or stopped without a usable point.
        """
        began = time.perf_counter()
        self._highs.run()
        status = self._status()
        seconds = time.perf_counter() - began
        solution, info = self._highs.getSolution(), self._highs.getInfo()
        is_integer = bool(self._program.integer.any())
        x = np.asarray(solution.col_value, dtype=float)
        objective = float(info.objective_function_value)
        has_dual = not is_integer and solution.dual_valid
        return Point(
            program=self._program,
            x=x,
            objective=objective,
            bound=float(info.mip_dual_bound) if is_integer else objective,
            status=status,
            row_dual=np.asarray(solution.row_dual, dtype=float) if has_dual else None,
            reduced_cost=np.asarray(solution.col_dual, dtype=float) if has_dual else None,
            basis=None if is_integer or self.options.method == "interior-point" else self._basis(),
            seconds=seconds,
            method="branch-and-cut" if is_integer else "interior-point" if self._is_ipm() else "simplex",
        )

    def _is_ipm(self) -> bool:
        return self.options.method == "interior-point"

    def _status(self) -> Status:
        status = self._highs.getModelStatus()
        if status == _Status.kUnboundedOrInfeasible:
            self._highs.setOptionValue("presolve", "off")
            self._highs.run()
            self._highs.setOptionValue("presolve", "choose")
            status = self._highs.getModelStatus()
        if status == _Status.kOptimal:
            gap = self._highs.getInfo().mip_gap if self._stored.integer.any() else 0.0
            return "optimal" if gap <= 0 else "gap"
        if status == _Status.kTimeLimit and self._highs.getInfo().primal_solution_status == 2:
            return "time_limit"
        if status == _Status.kInfeasible:
            names = conflict(self._program)
            listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
            raise NotSolved(
                f"the program is infeasible: these rows cannot hold together: {listed}", "infeasible", names
            )
        if status == _Status.kUnbounded:
            raise NotSolved("the objective can grow without limit; a row that bounds it is missing", "unbounded")
        if status == _Status.kTimeLimit:
            raise NotSolved(
                f"no usable point within time_limit={self.options.time_limit:g} s; raise the limit", "time_limit"
            )
        raise NotSolved(f"HiGHS stopped with {self._highs.modelStatusToString(status)!r}", "error")

    def _basis(self) -> Basis | None:
        basis = self._highs.getBasis()
        if not basis.valid:
            return None
        return Basis(_codes(basis.col_status), _codes(basis.row_status))


def _codes(statuses: Sequence[highspy.HighsBasisStatus]) -> NDArray[np.int8]:
    return np.array([int(s) for s in statuses], dtype=np.int8)


def _to_highs(program: LinearProgram) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = program.shape
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.offset_ = program.offset
    lp.col_cost_ = program.c
    lp.col_lower_, lp.col_upper_ = program.col_lower, program.col_upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.num_row_, lp.a_matrix_.num_col_ = program.shape
    lp.a_matrix_.start_ = program.A.indptr.astype(np.int32)
    lp.a_matrix_.index_ = program.A.indices.astype(np.int32)
    lp.a_matrix_.value_ = program.A.data.astype(float)
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(i)] for i in program.integer]
    return lp


def conflict(program: LinearProgram) -> list[str]:
    """Names of rows and column bounds of ``program`` that cannot hold together (an irreducible set where found).

    For an integer program whose relaxation is feasible no such set of rows exists, and the answer names the rows
    that the relaxation meets only at fractional points as a whole: ``"integrality"``.
    """
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("iis_strategy", int(highspy.IisStrategy.kIisStrategyFromLp) | int(_IRREDUCIBLE))
    highs.passModel(_to_highs(replace(program, integer=np.zeros(len(program.c), dtype=bool))))
    highs.run()
    if highs.getModelStatus() != _Status.kInfeasible:
        return ["integrality"]
    _, iis = highs.getIis()[:2]
    rows = [program.row_names[i] for i in iis.row_index_]
    free = {int(highspy.IisBoundStatus.kIisBoundStatusFree), int(highspy.IisBoundStatus.kIisBoundStatusNull)}
    bounds = [
        f"bound of {program.col_names[i]}"
        for i, kind in zip(iis.col_index_, iis.col_bound_, strict=True)
        if int(kind) not in free and program.col_lower[i] != 0
    ]
    return rows + bounds
