"""Exact optima: the optimal basis of a linear program, re-solved and if necessary repaired in rational numbers.

The basis comes from a float solver; the proof is in rationals. Every coefficient is read as the simple fraction that it
rounds (0.3333333333333333 as 1/3), and the result is proven for these fractions without tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.data.rationals import digits, rational, simple_fractions
from hetopt.errors import InvalidFormulation, InvalidOption, NotSolved
from hetopt.programs.compiled import Compiled, Table
from hetopt.programs.linear import (
    AT_LOWER,
    AT_UPPER,
    BASIC,
    Basis,
    Cuts,
    LinearProgram,
    Objective,
    Point,
    main_priority,
)
from hetopt.solving.highs import Session
from hetopt.solving.options import DEFAULT, Options
from hetopt.solving.rational.derivations import Form
from hetopt.solving.rational.integer_optimum import IntegerProgram, infeasibility, integer_optimum
from hetopt.solving.rational.kernel import Rational, SingularError
from hetopt.solving.rational.linear_proof import linear_proof
from hetopt.solving.rational.program import ExactRow, RationalProgram, entries, fraction, ratio, read
from hetopt.solving.rational.refinement import refined
from hetopt.solving.rational.simplex import InfeasibleError, LimitError, UnboundedError, Vertex, maximise
from hetopt.solving.rational.vipr_file import Proof
from hetopt.tolerances import EQUAL, FEASIBILITY, FINE, scale

STEPS_FOR_UNIQUENESS = 200
"""Limit of exact simplex steps in the test for uniqueness, which is undecided beyond it."""

SHORTER = "give weights, speedups and capacities with fewer digits"
"""Advice if rounded coefficients contradict each other."""


@dataclass(frozen=True, eq=False)
class ExactOptimum:
    """An optimum in rational numbers, proven without tolerance.

    Proven: ``x`` satisfies every row and bound of ``program`` and every lazy row, its integer columns are whole, and no
    such point has a larger objective: ``row_dual`` and ``reduced_cost`` are dual feasible and give the same bound, or a
    branch and bound search in rationals has derived it. With several objectives, this refers to the one in the
    certificate (of priority 0), among the points that are optimal for the earlier ones; ``x`` is also optimal for the
    later ones. :meth:`write` saves the proof.

    Attributes
    ----------
    objective:
        The optimum, the offset included.
    x:
        (columns,) fractions.
    share:
        (n, k) fractions, or None for a program without shares.
    row_dual, reduced_cost:
        (rows,), (columns,) fractions: increase of the optimum per unit of the row's or column's bound; None for
        programs with integer columns.
    unique:
        Whether no other point is optimal; None if undecided (too many steps, or integer columns).
    optima:
        The optima of all objectives, in order of priority.
    program:
        The program solved: with the lazy rows that were needed (all for integer columns), without the float rows that
        keep earlier objectives.
    steps:
        Exact simplex steps from the float basis to this one; 0 for programs with integer columns.
    """

    objective: Fraction
    x: NDArray[np.object_]
    share: NDArray[np.object_] | None
    row_dual: NDArray[np.object_] | None
    reduced_cost: NDArray[np.object_] | None
    unique: bool | None
    optima: tuple[Fraction, ...]
    program: LinearProgram
    steps: int
    _prove: Callable[[], Proof] | None = field(repr=False)

    @cached_property
    def proof(self) -> Proof:
        """The constraints of the program, and those that lead to the optimum.

        Raises
        ------
        InvalidOption
            The optimum comes from another process, which does not send the proof.
        """
        if self._prove is None:
            raise InvalidOption("the proof of an optimum is not pickled; write it in the process that solves")
        return self._prove()

    def __getstate__(self) -> dict[str, object]:
        """Omit the proof, which may be large."""
        return {**{key: value for key, value in self.__dict__.items() if key != "proof"}, "_prove": None}

    def write(self, path: str | Path, comments: Mapping[str, str] | None = None, *, overwrite: bool = False) -> None:
        """Write the proof as a file in VIPR's format, which :func:`hetopt.check` and other checkers verify.

        It holds the whole program, lazy rows included. The objective is minimised there, with the opposite sign and
        without a constant; earlier objectives are rows.

        Parameters
        ----------
        comments:
            Key -> text, on lines ``% key: text``, which checkers skip.

        Raises
        ------
        UnusableFile
            The file exists and ``overwrite`` is False, or it cannot be written.
        """
        self.proof.write(path, comments, overwrite=overwrite)

    def as_point(self, point: Point) -> Point:
        """This optimum in floats, with the solver's data from ``point``.

        With several objectives the duals are those of the float solver: the exact program has no rows that keep the
        earlier ones.
        """
        objective = float(self.objective)
        if point.main.program.kept:
            exact = replace(point.main, x=self.x.astype(float), objective=objective, bound=objective, status="optimal")
            return replace(exact, passes=point.passes, seconds=point.seconds, earlier=())
        return replace(
            point,
            program=self.program,
            earlier=(),
            x=self.x.astype(float),
            objective=objective,
            bound=objective,
            status="optimal",
            row_dual=None if self.row_dual is None else self.row_dual.astype(float),
            basis=None,
        )

    def __str__(self) -> str:
        """The optimum as text, of any length."""
        return digits(self.objective)

    __repr__ = __str__

    def agreeing_with(self, point: Point) -> ExactOptimum:
        """This optimum, if it agrees with ``point``, a float optimum of a program with the same rows.

        An integer program's float optimum may be wrong, so it need not agree.

        Raises
        ------
        NotSolved
            See :func:`exact_optimum`; status ``"inexact"``.
        """
        found, expected = float(self.objective), point.main.objective
        linear = not point.program.integer.any()
        if linear and point.status == "optimal" and abs(found - expected) > EQUAL * scale(found, expected):
            raise NotSolved(
                f"read as fractions the optimum is {found:.9g}, in floats {expected:.9g}: the program leaves no room "
                f"for the rounding of its coefficients; {SHORTER}",
                "inexact",
            )
        return self


class ExactData:
    """Exact data of a program; in this base class floats are read as the simple fractions that they round."""

    def rows(self, names: Collection[str]) -> Mapping[str, ExactRow]:
        """The exact rows among these names."""
        return {}

    def cost(self, objective: Objective) -> list[Rational]:
        """(columns,) coefficients of an objective."""
        return read(objective.c)

    def offset(self, objective: Objective) -> Fraction:
        """Its constant."""
        return fraction(read(np.array([objective.offset]))[0])


class CompiledData(ExactData):
    """Exact data of a formulation: its rows and gains over Fractions.

    Rows of components without arrays are read from their floats.
    """

    def __init__(self, compiled: Compiled, every: Cuts | None) -> None:
        self.compiled, self.every = compiled, every

    @cached_property
    def _stated(self) -> dict[str, ExactRow]:
        names = self.compiled.program.row_names
        twice, times = Counter([*names, *(() if self.every is None else self.every.names)]).most_common(1)[0]
        if times > 1:
            raise InvalidFormulation(f"two rows are named {twice!r}; exact optima identify rows by name")
        return dict(zip(names, _exact_rows(self.compiled.exact.table), strict=True))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {} if self.every is None else {name: i for i, name in enumerate(self.every.names)}

    def rows(self, names: Collection[str]) -> Mapping[str, ExactRow]:
        """Exact rows of the program, lazy ones included."""
        found = {name: self._stated[name] for name in names if name in self._stated}
        wanted = [(self._places[name], name) for name in names if name in self._places]
        start, exact = 0, self.compiled.exact
        for component, family in exact.lazy_families:
            own = [(at - start, name) for at, name in wanted if start <= at < start + len(family)]
            if own:
                made = family.make(np.array([at for at, _ in own], dtype=np.intp))
                found |= zip((name for _, name in own), _exact_rows(exact.table_of([(component, made)])), strict=True)
            start += len(family)
        return found

    def cost(self, objective: Objective) -> list[Rational]:
        """(columns,) coefficients of an objective."""
        return read(self.compiled.exact.objectives[objective.priority][0])

    def offset(self, objective: Objective) -> Fraction:
        """Its constant."""
        return Fraction(self.compiled.exact.objectives[objective.priority][1])


def _exact_rows(table: Table) -> list[ExactRow]:
    """The rows of a table."""
    by_row: list[dict[int, Fraction]] = [{} for _ in table.lower]
    for i, j, v in zip(table.row.tolist(), table.column.tolist(), simple_fractions(table.value).tolist(), strict=True):
        own = by_row[i]
        own[j] = own[j] + v if j in own else v
    return [
        ExactRow([(j, ratio(v)) for j, v in sorted(row.items()) if v], _bound(low), _bound(high))
        for row, low, high in zip(by_row, table.lower.tolist(), table.upper.tolist(), strict=True)
    ]


def _bound(value: Any) -> Rational | None:
    if isinstance(value, Fraction):
        return ratio(value)
    return ratio(rational(float(value))) if np.isfinite(value) else None


@dataclass(frozen=True)
class _Context:
    """Context of all steps: the exact data, and options, of which only the time limit is used."""

    known: ExactData
    options: Options


def exact_optimum_of(compiled: Compiled, point: Point, options: Options) -> ExactOptimum:
    """The exact optimum of a formulation whose program ``point`` solves in floats; see :func:`exact_optimum`."""
    every = compiled.all_lazy_rows()
    return exact_optimum(point, options, every=every, known=CompiledData(compiled, every))


def exact_optimum(
    point: Point, options: Options | None = None, *, every: Cuts | None = None, known: ExactData | None = None
) -> ExactOptimum:
    """The exact optimum of the program that ``point`` solves in floats.

    Parameters
    ----------
    point:
        Point of a linear program, e.g. from :func:`hetopt.optimise`; its basis, if any, is the start.
    options:
        Only the time limit is used.
    every:
        All lazy rows; those that the exact optimum violates are added.
    known:
        Exact rows and objectives. Default: coefficients are read as the simple fractions that they round, see
        :func:`~hetopt.data.rationals.rational`.

    Raises
    ------
    NotSolved
        The rational program has no optimum: the float program is feasible only within a tolerance, e.g. because
        products of long numbers were rounded in a program without slack. Or the time limit is exceeded; for a program
        with integer columns the error then has the best bound that is proven.
    """
    options, known = (options or DEFAULT).started(), known or ExactData()
    base, objectives = _without_kept(point.program)
    if base.integer.any():
        return _integer(_with_all(base, every), objectives, point.x, options, known)
    context = _Context(known, options)
    start, steps, unique = (point.basis if len(objectives) == 1 else None), 0, None
    while True:
        optima, more = _in_order(base, objectives, start, context)
        steps += more
        last = optima[-1]
        violated = _violated(base, every, last.value, context)
        if not violated.any():
            unique, violated = _uniqueness(base, every, last, context)
        if every is None or not violated.any():
            return _linear(base, _with_all(base, every), objectives, optima, unique, steps, known)
        base, start = base.with_rows(every.part(np.flatnonzero(violated))), None


def _with_all(program: LinearProgram, every: Cuts | None) -> LinearProgram:
    """The program with all lazy rows."""
    if every is None:
        return program
    own = set(program.row_names)
    return program.with_rows(every.part(np.array([i for i, name in enumerate(every.names) if name not in own], int)))


def _integer(
    base: LinearProgram, objectives: Sequence[Objective], x: Floats, options: Options, known: ExactData
) -> ExactOptimum:
    """The exact optimum of a program with integer columns, near ``x``."""
    found = integer_optimum(_integer_program(base, objectives, options, known), x, options)
    return _optimum_of(base, objectives, found.values, _array(found.x), known, lambda: found.proof)


def point_or_proof(
    error: NotSolved, program: LinearProgram, options: Options, compiled: Compiled | None = None
) -> Point:
    """A point of a program that a float solver calls infeasible; else its error, with the proof.

    Parameters
    ----------
    error:
        The solver's error.
    options:
        Only the time limit is used.
    compiled:
        The formulation of the program, if it has one, for its lazy rows and exact data.

    Raises
    ------
    NotSolved
        ``error``. It has the proof unless the time limit is exceeded.
    """
    if error.status != "infeasible":
        raise error
    options = options.started()
    every = None if compiled is None else compiled.all_lazy_rows()
    known = ExactData() if compiled is None else CompiledData(compiled, every)
    plain, objectives = _without_kept(program)
    base = _with_all(plain, every)
    x = infeasibility(_integer_program(base, objectives, options, known), options, error)
    value = program.objective(x)
    return Point(base.with_objectives(*objectives), x, value, value, "time_limit")


def _integer_program(
    base: LinearProgram, objectives: Sequence[Objective], options: Options, known: ExactData
) -> IntegerProgram:
    options.check_time()  # long programs take seconds to read
    return IntegerProgram(
        program=RationalProgram.of(base, known.rows(base.row_names)),
        costs=[known.cost(one) for one in objectives],
        offsets=[known.offset(one) for one in objectives],
        names=base.col_names,
        find=partial(_point_with_sums, base, options),
    )


def _point_with_sums(base: LinearProgram, options: Options, sums: Sequence[tuple[Form, Rational]]) -> Floats | None:
    """A point of ``base`` at which these sums have these values; None if HiGHS finds none."""
    value = np.array([float(v) for _, v in sums])
    triples = [(i, j, float(v)) for i, (form, _) in enumerate(sums) for j, v in form.items()]
    row, column, factor = np.array(triples).T
    matrix = sparse.csr_array((factor, (row.astype(np.intp), column.astype(np.intp))), shape=(len(sums), base.shape[1]))
    names = [f"sum {i}" for i in range(len(sums))]
    program = base.with_objectives(Objective(np.zeros(base.shape[1]))).with_rows(Cuts(matrix, value, value, names))
    try:
        return Session(program, replace(options.for_start(), solver="highs"), explain=False).solve().x
    except NotSolved:
        return None


def _without_kept(program: LinearProgram) -> tuple[LinearProgram, list[Objective]]:
    """The program without the rows that keep earlier objectives, and all objectives in order."""
    rows = sorted(program.kept)
    objectives = [*(program.kept[row] for row in rows), *program.objectives]
    return replace(program.without_rows(rows) if rows else program, earlier=()), objectives


def _in_order(
    base: LinearProgram, objectives: Sequence[Objective], start: Basis | None, context: _Context
) -> tuple[list[Vertex], int]:
    """The optimum of each objective among the optima of the earlier ones, and the number of steps.

    The optimal face of an objective is the set of points at which every variable with a nonzero reduced cost keeps its
    value. Fixing these variables keeps an objective exactly, without a row.
    """
    rational, optima, steps = RationalProgram.of(base, context.known.rows(base.row_names)), list[Vertex](), 0
    for objective in objectives:
        rational = rational.with_cost(context.known.cost(objective))
        vertex, more = _optimum(base, rational, start, context)
        optima.append(vertex)
        steps += more
        if len(optima) < len(objectives):
            rational = vertex.face()
    return optima, steps


def _optimum(
    base: LinearProgram, rational: RationalProgram, start: Basis | None, context: _Context, limit: int | None = None
) -> tuple[Vertex, int]:
    """The exact optimum of ``rational``, starting from the optimal basis of a float solver."""
    context.options.check_time()
    try:
        vertex = refined(_float_vertex(base, rational, start, context.options), context.options)
        try:
            return maximise(vertex, limit, context.options.check_time)
        except SingularError:
            return maximise(Vertex.of_rows(rational), limit, context.options.check_time)
    except InfeasibleError:
        raise NotSolved(
            f"read as fractions, the program is infeasible: it holds only within tolerances; {SHORTER}", "infeasible"
        ) from None
    except UnboundedError:
        raise NotSolved.unbounded() from None


def _float_vertex(base: LinearProgram, rational: RationalProgram, start: Basis | None, options: Options) -> Vertex:
    session = Session(rational.floats(base).scaled(), options.for_simplex())
    session.set_tolerance(FINE)
    if start is not None:
        session.start_at(start)
    try:
        basis = session.solve().basis
    except NotSolved:
        basis = None
    if basis is None:
        return Vertex.of_rows(rational)
    return Vertex.of(rational, [*basis.columns.tolist(), *basis.rows.tolist()])


def _violated(
    base: LinearProgram, every: Cuts | None, value: Sequence[Rational], context: _Context
) -> NDArray[np.bool_]:
    """The rows of ``every`` that the exact x violates; rationals decide rows without clear slack in floats."""
    if every is None or not len(every):
        return np.zeros(0, dtype=bool)
    matrix = every.matrix
    x = np.array([float(fraction(v)) for v in value[: base.shape[1]]])
    activity, size = matrix @ x, FEASIBILITY * (abs(matrix) @ np.abs(x) + scale(x))
    near = (activity - every.lower < size) | (every.upper - activity < size)
    found = np.zeros(len(every), dtype=bool)
    where = np.flatnonzero(near)
    names = [every.names[i] for i in where.tolist()]
    rows = context.known.rows(names)
    for i, name, row in zip(where, names, entries(sparse.csr_array(matrix[where])), strict=True):
        known, row = rows.get(name), rows[name].entries if name in rows else row
        exact = sum((v * value[j] for j, v in row if value[j]), fmpq(0))
        low, high = (known.lower, known.upper) if known else map(_bound, (every.lower[i], every.upper[i]))
        found[i] = (low is not None and exact < low) or (high is not None and exact > high)
    return found


def _uniqueness(
    base: LinearProgram, every: Cuts | None, optimum: Vertex, context: _Context
) -> tuple[bool | None, NDArray[np.bool_]]:
    """Whether no other point is optimal, and the rows to add before this can be decided.

    A second program moves the nonbasic variables of reduced cost 0 as far from their bounds as the optimal face allows,
    by at most 1. The optimum is unique if and only if none of them can move. A free variable may move in both
    directions.
    """
    idle = [j for j, code in enumerate(optimum.status) if code != BASIC and not optimum.price[j] and optimum.movable(j)]
    none = np.zeros(0, dtype=bool)
    if not idle:
        return True, none
    free = any(optimum.status[j] not in (AT_LOWER, AT_UPPER) for j in idle)
    for way in (1, -1) if free else (1,):
        try:
            other = _farthest(base, optimum, idle, way, context)
        except (LimitError, NotSolved):  # too many steps, or out of time
            return None, none
        if other is not None:
            return False, _violated(base, every, other, context)
    return True, none


def _farthest(
    base: LinearProgram, optimum: Vertex, idle: Sequence[int], way: int, context: _Context
) -> list[Rational] | None:
    """Values of the optimal point farthest from ``optimum`` along the ``idle`` variables; None if it is unique."""
    program, n = optimum.face(), optimum.program.shape[1]
    cost, bounds = [fmpq(0)] * n, []
    for j in idle:
        sign = {AT_LOWER: 1, AT_UPPER: -1}.get(optimum.status[j], way)
        here = optimum.value[j]
        bounds.append((j, *_room(program, j, here, sign)))
        for column, v in [(j, fmpq(1))] if j < n else program.by_row[j - n]:
            cost[column] += sign * v
    there, _ = _optimum(base, program.within(bounds).with_cost(cost), None, context, STEPS_FOR_UNIQUENESS)
    moved = any(there.value[j] != optimum.value[j] for j in idle)
    return there.value if moved else None


def _room(program: RationalProgram, j: int, here: Rational, sign: int) -> tuple[Rational, Rational]:
    """Bounds that let variable j move from ``here`` by at most 1 in the direction ``sign``."""
    if sign > 0:
        high = program.upper[j]
        return here, here + 1 if high is None else min(high, here + 1)
    low = program.lower[j]
    return here - 1 if low is None else max(low, here - 1), here


def _linear(
    base: LinearProgram,
    full: LinearProgram,
    objectives: Sequence[Objective],
    optima: Sequence[Vertex],
    unique: bool | None,
    steps: int,
    known: ExactData,
) -> ExactOptimum:
    """The exact optimum of a linear program; ``full`` is ``base`` with all lazy rows."""
    n = base.shape[1]
    price = _array(optima[_main_index(objectives)].price)

    def prove() -> Proof:
        program = RationalProgram.of(full, known.rows(full.row_names))
        return linear_proof(program, optima, [*map(known.cost, objectives)], full.col_names)

    found = _optimum_of(
        base, objectives, [vertex.objective() for vertex in optima], _array(optima[-1].value[:n]), known, prove
    )
    return replace(found, row_dual=price[n:], reduced_cost=price[:n], unique=unique, steps=steps)


def _optimum_of(
    base: LinearProgram,
    objectives: Sequence[Objective],
    values: Sequence[Rational],
    x: NDArray[np.object_],
    known: ExactData,
    prove: Callable[[], Proof],
) -> ExactOptimum:
    """The exact optimum, without duals; ``values`` are the optima of all objectives, without their constants."""
    optima = tuple(fraction(v) + known.offset(one) for v, one in zip(values, objectives, strict=True))
    main = _main_index(objectives)
    return ExactOptimum(
        objective=optima[main],
        x=x,
        share=None if base.share is None else x[base.share],
        row_dual=None,
        reduced_cost=None,
        unique=None,
        optima=optima,
        program=base.with_objectives(objectives[main]),
        steps=0,
        _prove=prove,
    )


def _main_index(objectives: Sequence[Objective]) -> int:
    """Which objective is in the certificate."""
    priorities = [objective.priority for objective in objectives]
    return priorities.index(main_priority(priorities))


def _array(values: Sequence[Rational]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = [fraction(v) for v in values]
    return array
