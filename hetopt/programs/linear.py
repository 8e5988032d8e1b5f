"""Linear and integer programs as sparse arrays, the common input of all solvers, and the points that solvers return."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Generic, Literal, SupportsInt, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from hetopt.data.array_types import Floats
from hetopt.errors import InvalidOption
from hetopt.tolerances import EQUAL, GAP, scale

Matrix = TypeVar("Matrix", sparse.csc_array, sparse.csr_array)
Name = TypeVar("Name", covariant=True)


def nearest_powers(size: ArrayLike) -> Floats:
    """The powers of two nearest to ``size``, 1 where it is 0: dividing by them is exact."""
    sizes = np.asarray(size, dtype=float)
    return np.asarray(np.exp2(np.rint(np.log2(np.where(sizes > 0, sizes, 1.0)))))


USUAL = 1024.0
"""Rows and objectives whose largest coefficient lies between 1/1024 and 1024 are passed to solvers unscaled."""


def is_usual(size: ArrayLike) -> NDArray[np.bool_]:
    """Whether coefficients of this ``size`` need no scaling."""
    sizes = np.asarray(size, dtype=float)
    return np.asarray((sizes >= 1 / USUAL) & (sizes <= USUAL))


class Names(Sequence[Name], Generic[Name]):
    """n names or indices, generated on access (an optimum rarely needs the names of 32,000 columns)."""

    def __init__(self, size: int, name: Callable[[int], Name]) -> None:
        self._size, self._name = size, name

    @staticmethod
    def chained(parts: Iterable[Sequence[str]]) -> Names[str]:
        """The names of all ``parts``, concatenated lazily."""
        flat = (own for part in parts for own in (part.parts if isinstance(part, _Chained) else (part,)))
        return _Chained(tuple(part for part in flat if len(part)))

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[type[list[Name]], tuple[list[Name]]]:
        """Pickle as a list: the functions that generate names cannot be pickled."""
        return list, (list(self),)

    @overload
    def __getitem__(self, i: int) -> Name: ...
    @overload
    def __getitem__(self, i: slice) -> list[Name]: ...
    def __getitem__(self, i: int | slice) -> Name | list[Name]:
        if isinstance(i, slice):
            return [self._name(j) for j in range(*i.indices(self._size))]
        if not -self._size <= i < self._size:
            raise IndexError(i)
        return self._name(i % self._size)


class _Chained(Names[str]):
    """Names of several sources, concatenated."""

    def __init__(self, parts: tuple[Sequence[str], ...]) -> None:
        self.parts = parts
        self._starts = [0, *accumulate(len(part) for part in parts)]
        super().__init__(self._starts[-1], self._find)

    def _find(self, i: int) -> str:
        part = bisect_right(self._starts, i) - 1
        return self.parts[part][i - self._starts[part]]


@dataclass(frozen=True, eq=False)
class Objective:
    """One of several objectives ``c.x + offset``, maximised in order.

    Attributes
    ----------
    c:
        (columns,) coefficients.
    offset:
        Constant.
    priority:
        Priority of the components in the sum.
    """

    c: Floats
    offset: float = 0.0
    priority: int = 0


def main_priority(priorities: Iterable[int]) -> int:
    """The priority of the objective in the certificate: 0, or the highest if none is 0."""
    every = set(priorities)
    return 0 if 0 in every else max(every)


@dataclass(frozen=True, eq=False)
class Cuts:
    """r rows ``lower <= matrix x <= upper`` to be added to a program.

    Attributes
    ----------
    matrix:
        (r, columns), CSR.
    lower, upper:
        (r,) bounds.
    names:
        r names.
    unit:
        (r,) as ``LinearProgram.row_unit``; None: all 1.
    """

    matrix: sparse.csr_array
    lower: Floats
    upper: Floats
    names: Sequence[str]
    unit: Floats | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def scaled(self, program: LinearProgram) -> Cuts:
        """These rows in the units of the columns of ``program`` and in their own."""
        if self.unit is None and program.col_unit is None:
            return self
        row = np.ones(len(self)) if self.unit is None else self.unit
        data = self.matrix.data / np.repeat(row, np.diff(self.matrix.indptr))
        if program.col_unit is not None:
            data = data * program.col_unit[self.matrix.indices]
        return Cuts(with_data(self.matrix, data), self.lower / row, self.upper / row, self.names)

    def part(self, rows: NDArray[np.intp]) -> Cuts:
        """The rows at these positions."""
        names = [self.names[i] for i in rows.tolist()]
        unit = None if self.unit is None else self.unit[rows]
        return Cuts(sparse.csr_array(self.matrix[rows]), self.lower[rows], self.upper[rows], names, unit)


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """max c.x + offset  subject to  row_lower <= A x <= row_upper,  col_lower <= x <= col_upper,  some x whole.

    Attributes
    ----------
    c:
        (columns,) objective.
    A:
        (rows, columns), CSC.
    row_lower, row_upper, col_lower, col_upper:
        Bounds; +-inf where there is none.
    integer:
        (columns,) True where the column must be integer.
    row_names, col_names:
        E.g. ``"capacity[V100]"``, ``"share[u1,V100]"``.
    offset:
        Constant of the objective.
    priority:
        Priority of the components in the objective.
    share:
        (n, k) column of each ``share[e, k]``, or None for a model without shares.
    earlier:
        Objectives of higher priority, maximised first and then kept.
    kept:
        Position of the row that keeps its value -> earlier objective.
    row_unit, col_unit:
        (rows,) and (columns,) scale factors: solvers get rows divided by ``row_unit`` and columns in multiples of
        ``col_unit``, see :meth:`scaled`. Powers of two scale exactly. None: all 1.
    """

    c: Floats
    A: sparse.csc_array
    row_lower: Floats
    row_upper: Floats
    col_lower: Floats
    col_upper: Floats
    integer: NDArray[np.bool_]
    row_names: Sequence[str]
    col_names: Sequence[str]
    offset: float = 0.0
    priority: int = 0
    share: NDArray[np.intp] | None = None
    earlier: tuple[Objective, ...] = ()
    kept: Mapping[int, Objective] = field(default_factory=dict)
    row_unit: Floats | None = None
    col_unit: Floats | None = None

    @classmethod
    def of(
        cls,
        c: Floats,
        A: sparse.csc_array | sparse.csr_array | sparse.coo_array,
        row_lower: Floats,
        row_upper: Floats,
        *,
        col_upper: Floats | float = np.inf,
        integer: NDArray[np.bool_] | bool = False,
        row_names: Sequence[str] | None = None,
        col_names: Sequence[str] | None = None,
        share: NDArray[np.intp] | None = None,
    ) -> LinearProgram:
        """A program over x >= 0; the default names are ``row[i]`` and ``column[j]``."""
        rows, columns = A.shape
        return cls(
            c=c,
            A=sparse.csc_array(A),
            row_lower=row_lower,
            row_upper=row_upper,
            col_lower=np.zeros(columns),
            col_upper=np.full(columns, col_upper),
            integer=np.full(columns, integer),
            row_names=Names(rows, "row[{}]".format) if row_names is None else row_names,
            col_names=Names(columns, "column[{}]".format) if col_names is None else col_names,
            share=share,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.row_lower), len(self.c)

    @property
    def is_binary(self) -> bool:
        """Whether there are integer columns, all with bounds 0 and 1 (or fixed to 0)."""
        upper, lower = self.col_upper[self.integer], self.col_lower[self.integer]
        return bool(self.integer.any() and np.isin(upper, (0.0, 1.0)).all() and not lower.any())

    @property
    def relaxation(self) -> LinearProgram:
        """This program without integrality."""
        return replace(self, integer=np.zeros(len(self.c), dtype=bool))

    @cached_property
    def column(self) -> dict[str, int]:
        """Column name -> position."""
        return {name: i for i, name in enumerate(self.col_names)}

    def objective(self, x: Floats) -> float:
        """c.x + offset."""
        return float((self.c * x).sum()) + self.offset  # c @ x would start threads, which takes longer than the sum

    def violation(self, x: Floats) -> float:
        """Largest violation of a row or bound at ``x``, relative to the scale of that row's terms."""
        terms = abs(self.A) @ np.abs(x)
        worst = _excess(self.A @ x, self.row_lower, self.row_upper, np.maximum(terms, scale(x)))
        return max(worst, _excess(x, self.col_lower, self.col_upper, np.full(len(x), scale(x))))

    def scaled(self) -> LinearProgram:
        """This program in units in which its numbers are about 1; itself if all units are 1.

        A solver's absolute tolerances have the same meaning for every row only if the numbers are of similar size.
        Solvers get the scaled program; :meth:`Point.unscaled` converts their result.
        """
        if self.row_unit is None and self.col_unit is None:
            return self
        data = self.A.data
        if self.row_unit is not None:
            data = data / self.row_unit[self.A.indices]
        if self.col_unit is not None:
            data = data * self.col_unit[self.entry_columns]
        row, column = self.units
        return replace(
            self,
            c=self.c * column,
            A=with_data(self.A, data),
            row_lower=self.row_lower / row,
            row_upper=self.row_upper / row,
            col_lower=self.col_lower / column,
            col_upper=self.col_upper / column,
            row_unit=None,
            col_unit=None,
        )

    @property
    def units(self) -> tuple[Floats | float, Floats | float]:
        """``row_unit`` and ``col_unit``, 1 for None."""
        return (1.0 if self.row_unit is None else self.row_unit, 1.0 if self.col_unit is None else self.col_unit)

    def with_rows(self, *cuts: Cuts) -> LinearProgram:
        """This program with rows added at the end."""
        cuts = tuple(part for part in cuts if len(part))
        if not cuts:
            return self
        units = [np.ones(len(part)) if part.unit is None else part.unit for part in cuts]
        own = np.ones(len(self.row_lower)) if self.row_unit is None else self.row_unit
        plain = self.row_unit is None and all(part.unit is None for part in cuts)
        return replace(
            self,
            A=sparse.csc_array(sparse.vstack([self.A, *(part.matrix for part in cuts)])),
            row_lower=np.concatenate([self.row_lower, *(part.lower for part in cuts)]),
            row_upper=np.concatenate([self.row_upper, *(part.upper for part in cuts)]),
            row_names=Names.chained([self.row_names, *(part.names for part in cuts)]),
            row_unit=None if plain else np.concatenate([own, *units]),
        )

    def without_rows(self, rows: NDArray[np.integer] | Sequence[int]) -> LinearProgram:
        """This program without the rows at these positions."""
        stay = np.ones(self.shape[0], dtype=bool)
        stay[np.asarray(rows, dtype=np.intp)] = False
        old, position = np.flatnonzero(stay), np.cumsum(stay) - 1
        names = self.row_names
        return replace(
            self,
            A=sparse.csc_array(sparse.csr_array(self.A)[old]),
            row_lower=self.row_lower[old],
            row_upper=self.row_upper[old],
            row_names=[names[i] for i in old.tolist()],
            row_unit=None if self.row_unit is None else self.row_unit[old],
            kept={int(position[i]): objective for i, objective in self.kept.items() if stay[i]},
        )

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """All objectives, in the order in which they are maximised."""
        return (*self.earlier, Objective(self.c, self.offset, self.priority))

    def with_objectives(self, *objectives: Objective) -> LinearProgram:
        """The same rows and columns with these objectives, maximised in this order."""
        *earlier, last = objectives
        return replace(self, c=last.c, offset=last.offset, priority=last.priority, earlier=tuple(earlier))

    def keep(self, value: float) -> LinearProgram:
        """The program after its first objective, which becomes the row ``kept[priority]`` from ``value`` on."""
        first, *rest = self.earlier
        row = sparse.csr_array(first.c[None, :])
        unit = nearest_powers(scale(first.c))
        cut = Cuts(row, np.array([value - first.offset]), np.array([np.inf]), [f"kept[{first.priority}]"])
        longer = self.with_rows(cut if unit == 1.0 else replace(cut, unit=unit.reshape(1)))
        return replace(longer, earlier=tuple(rest), kept={**self.kept, self.shape[0]: first})

    def dual_bound(self, y: Floats, *, implied: bool = True) -> float:
        """Upper bound on the objective from any (rows,) duals ``y``, by weak duality.

        It is the largest ``y.r + (c - A'y).x + offset`` over the bounds of the row activities r and of x. With
        ``implied``, rows without negative entries (for shares: capacity) bound columns that have no explicit bound.
        Prices below the noise level are ignored for columns with only one bound.
        """
        y = self._without_free_prices(y)
        price = self.priced(y)
        noise = EQUAL * scale(self.c)
        upper = np.minimum(self.col_upper, self.implied_upper()) if implied else self.col_upper
        rows = largest_sum(y, self.row_lower, self.row_upper, noise)
        return rows + largest_sum(price, self.col_lower, upper, noise) + self.offset

    def _without_free_prices(self, y: Floats) -> Floats:
        """Duals near ``y`` at which columns without bounds, such as gains below tangents, have no reduced cost.

        Such a column may have a large value, so its price is not noise: the row that pays most of it pays the rest.
        Rows of several such columns do not pay, as they would change the reduced cost of the others; a column without
        a row that may pay keeps its reduced cost.
        """
        free = np.isinf(self.col_lower) & np.isinf(self.col_upper)
        if not free.any():
            return y
        used = free[self.entry_columns] & (self.A.data != 0)
        columns = np.bincount(self.A.indices[used], minlength=len(y))  # without bounds, in each row
        least = np.where(np.isinf(self.row_lower), 0.0, -np.inf)
        most = np.where(np.isinf(self.row_upper), 0.0, np.inf)
        y = np.where(columns > 0, np.clip(y, least, most), y)
        for j in np.flatnonzero(free).tolist():
            entries = slice(self.A.indptr[j], self.A.indptr[j + 1])
            rows, value = self.A.indices[entries][used[entries]], self.A.data[entries][used[entries]]
            paid = y[rows] + (self.c[j] - y[rows] @ value) / value
            pays = (columns[rows] == 1) & (least[rows] <= paid) & (paid <= most[rows])
            if pays.any():
                payer = np.lexsort((np.abs(value), np.abs(y[rows] * value), pays))[-1]
                y[rows[payer]] = paid[payer]
        return y

    def priced(self, y: Floats) -> Floats:
        """(columns,) reduced costs ``c - A'y`` at the duals ``y``."""
        costs = np.bincount(self.entry_columns, weights=self.A.data * y[self.A.indices], minlength=len(self.c))
        return np.asarray(self.c - costs)

    @cached_property
    def entry_columns(self) -> NDArray[np.intp]:
        """(entries,) the column of each entry of ``A``."""
        starts = self.A.indptr
        return np.repeat(np.arange(len(self.c)), starts[1:] - starts[:-1])

    def implied_upper(self) -> Floats:
        """(columns,) upper bounds implied by rows without negative entries over columns >= 0."""
        holds = np.isfinite(self.row_upper)
        bounded = np.flatnonzero(holds[self.A.indices])
        row, value, column = self.A.indices[bounded], self.A.data[bounded], self.entry_columns[bounded]
        holds[row[(value < 0) | (self.col_lower[column] < 0)]] = False
        used = holds[row] & (value > 0)
        upper = np.full(len(self.c), np.inf)
        np.minimum.at(upper, column[used], self.row_upper[row[used]] / value[used])
        return np.asarray(np.maximum(upper, self.col_lower))


Status = Literal["optimal", "gap", "time_limit"]
"""``optimal``: proven up to the solver's tolerances; ``gap``: proven up to the requested gap; ``time_limit``: stopped
by the limit with a usable point, see the gap."""

AT_LOWER, BASIC, AT_UPPER, AT_ZERO, NONBASIC = range(5)
"""Basis codes, as in HiGHS: at the lower bound, basic, at the upper bound, free and at zero, nonbasic."""


@dataclass(frozen=True, eq=False)
class Basis:
    """A simplex basis: for every column and row whether it is basic, at its lower or at its upper bound.

    Parameters
    ----------
    read:
        Returns the solver's statuses of columns and of rows; called when :attr:`codes` is first used.
    native:
        The solver's own basis object, if it has one.
    """

    read: Callable[[], tuple[Sequence[SupportsInt], Sequence[SupportsInt]]]
    native: Any = None

    @cached_property
    def codes(self) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Codes (:data:`AT_LOWER` …) of the (columns,) and of the (rows,)."""
        columns, rows = (np.fromiter(map(int, part), dtype=np.int8) for part in self.read())
        return columns, rows

    @property
    def columns(self) -> NDArray[np.int8]:
        """(columns,) codes."""
        return self.codes[0]

    @property
    def rows(self) -> NDArray[np.int8]:
        """(rows,) codes."""
        return self.codes[1]

    def extended(self, rows: int) -> Basis:
        """The basis of a program with ``rows`` rows: rows added at the end are basic."""
        codes = self.rows
        if len(codes) >= rows:
            return self
        return Basis(_Read(self.columns, np.concatenate([codes, np.full(rows - len(codes), BASIC, dtype=np.int8)])))

    def __reduce__(self) -> tuple[type[Basis], tuple[_Read]]:
        """Pickle as codes."""
        return Basis, (_Read(*self.codes),)


@dataclass(frozen=True, eq=False)
class _Read:
    """Reader of known statuses."""

    columns: NDArray[np.int8]
    rows: NDArray[np.int8]

    def __call__(self) -> tuple[Sequence[SupportsInt], Sequence[SupportsInt]]:
        return self.columns.tolist(), self.rows.tolist()


@dataclass(frozen=True, eq=False)
class Point:
    """A feasible point of ``program``.

    Attributes
    ----------
    program:
        The final program, including lazy rows and rows that keep earlier objectives.
    x:
        (columns,) values.
    objective:
        c.x + offset, as the solver reports it.
    bound:
        Upper bound on the objective, as claimed by the solver.
    row_dual:
        (rows,) increase of the optimum per unit of the row's bound; None for integer programs, at a time limit, and
        where a solver gives none that prove the optimum.
    basis:
        The optimal basis, if simplex was used.
    seconds:
        Wall time in the solver.
    solver, method:
        Solver and method used.
    passes:
        Number of solver runs (lazy rows, objectives, widening cores).
    iterations:
        Simplex iterations of the last run.
    requested_gap:
        ``Options.gap``: separation of tangents stops within it.
    earlier:
        Points that maximise the earlier objectives, in this order, if the program had several.
    """

    program: LinearProgram
    x: Floats
    objective: float
    bound: float
    status: Status
    row_dual: Floats | None = None
    basis: Basis | None = None
    seconds: float = 0.0
    solver: str = "highs"
    method: str = "simplex"
    passes: int = 1
    iterations: int = 0
    requested_gap: float = GAP
    earlier: tuple[Point, ...] = ()

    @property
    def reduced_cost(self) -> Floats | None:
        """(columns,) increase of the optimum per unit of the column's bound; None without duals."""
        return None if self.row_dual is None else self.program.priced(self.row_dual)

    @property
    def main(self) -> Point:
        """The point that maximises the objective of priority 0; the first objective if none has that priority."""
        points = {point.program.priority: point for point in (*self.earlier, self)}
        return points[main_priority(points)]

    def unscaled(self, program: LinearProgram) -> Point:
        """This point of ``program.scaled()`` as a point of ``program``; duals are per unit of the model."""
        if program.row_unit is None and program.col_unit is None:
            return self if self.program is program else replace(self, program=program)
        row, column = program.units
        dual = None if self.row_dual is None else self.row_dual / row
        return replace(self, program=program, x=self.x * column, row_dual=dual)

    @property
    def share(self) -> Floats:
        """(n, k) shares at this point."""
        if self.program.share is None:
            raise InvalidOption("this program has no shares")
        return np.asarray(self.x[self.program.share])


def with_data(matrix: Matrix, data: Floats) -> Matrix:
    """``matrix`` with other values at the same indices; constructing a new one would validate the indices again."""
    other = copy(matrix)
    other.data = data
    return other


def largest_sum(price: Floats, lower: Floats, upper: Floats, noise: float) -> float:
    """Largest ``price . x`` over ``lower <= x <= upper``; prices below ``noise`` are ignored at infinite bounds."""
    bound = np.where(price > 0, upper, lower)
    counts = (price != 0) & (np.isfinite(bound) | (np.abs(price) > noise))
    return float((price[counts] * bound[counts]).sum())


def _excess(value: Floats, lower: Floats, upper: Floats, size: Floats) -> float:
    if not len(value):
        return 0.0
    return max(0.0, float(np.max((lower - value) / size)), float(np.max((value - upper) / size)))
