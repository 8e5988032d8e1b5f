"""The one form on which solvers work: a linear or integer program as sparse arrays, always maximised."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Floats
from hetopt.errors import InvalidFormulation
from hetopt.programs.rows import Rows
from hetopt.tolerances import EQUAL, scale


class Names(Sequence[str]):
    """n names that are made only when asked for (an optimum rarely needs the names of 32,000 columns)."""

    def __init__(self, size: int, name: Callable[[int], str]) -> None:
        self._size, self._name = size, name

    @classmethod
    def joined(cls, first: Sequence[str], second: Sequence[str]) -> Names:
        """The names of ``first``, then those of ``second``; neither is read."""
        parts = (*(first.parts if isinstance(first, _Joined) else (first,)), second)
        return _Joined(tuple(part for part in parts if len(part)))

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        """Pickled as a list: functions that make names cannot be."""
        return list, (list(self),)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self._name(j) for j in range(*i.indices(self._size))]
        if not -self._size <= i < self._size:
            raise IndexError(i)
        return self._name(i % self._size)


class _Joined(Names):
    """Names of several sources, one after another."""

    def __init__(self, parts: tuple[Sequence[str], ...]) -> None:
        self.parts = parts
        self._starts = [0, *accumulate(len(part) for part in parts)]
        super().__init__(self._starts[-1], self._find)

    def _find(self, i: int) -> str:
        part = bisect_right(self._starts, i) - 1
        return self.parts[part][i - self._starts[part]]


@dataclass(frozen=True, eq=False)
class Objective:
    """One of several objectives ``c.x + offset``, maximised in their order.

    Attributes
    ----------
    c:
        (columns,) coefficients.
    offset:
        Constant.
    priority:
        That of the components whose gains it adds up.
    """

    c: Floats
    offset: float = 0.0
    priority: int = 0


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
        (columns,) True where the column must be whole.
    row_names, col_names:
        E.g. ``"capacity[V100]"``, ``"share[u1,V100]"``.
    offset:
        Constant of the objective.
    priority:
        That of the components whose gains the objective adds up.
    share:
        (n, k) column of each ``share[e, k]``, or None for a model that has no shares.
    earlier:
        Objectives to be maximised, and kept, before ``c``; first things first.
    kept:
        Position of the row that keeps its value -> objective that came earlier.
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

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.row_lower), len(self.c)

    @cached_property
    def column(self) -> dict[str, int]:
        """Column name -> position."""
        return {name: i for i, name in enumerate(self.col_names)}

    def objective(self, x: Floats) -> float:
        """c.x + offset."""
        return float((self.c * x).sum()) + self.offset  # c @ x would wake threads, which takes longer than the sum

    def violation(self, x: Floats) -> float:
        """Largest violation of a row or bound at ``x``, relative to the scale of that row's terms."""
        terms = abs(self.A) @ np.abs(x)
        worst = _excess(self.A @ x, self.row_lower, self.row_upper, np.maximum(terms, scale(x)))
        return max(worst, _excess(x, self.col_lower, self.col_upper, np.full(len(x), scale(x))))

    def with_rows(self, rows: Rows) -> LinearProgram:
        """This program with ``rows`` added at the end."""
        if not len(rows):
            return self
        return self.extended(self.on_columns(rows), rows.lower, rows.upper, rows.names)

    def extended(self, matrix: sparse.csr_array, lower: Floats, upper: Floats, names: Sequence[str]) -> LinearProgram:
        """This program with the rows ``lower <= matrix x <= upper`` added at the end."""
        return replace(
            self,
            A=sparse.csc_array(sparse.vstack([self.A, matrix])),
            row_lower=np.concatenate([self.row_lower, lower]),
            row_upper=np.concatenate([self.row_upper, upper]),
            row_names=Names.joined(self.row_names, names),
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
            kept={int(position[i]): objective for i, objective in self.kept.items() if stay[i]},
        )

    def on_columns(self, rows: Rows) -> sparse.csr_array:
        """``rows`` as a matrix over the columns of this program."""
        if self.share is None:
            raise InvalidFormulation("rows over shares need a program that has shares")
        entries = sparse.coo_array(rows.share)
        where = self.share.ravel()[entries.coords[1]]
        row, col, data = [entries.coords[0]], [where], [entries.data]
        if rows.own is not None:
            own = sparse.coo_array(rows.own)
            position = np.array([self.column[name] for name in rows.own_names], dtype=np.intp)
            row.append(own.coords[0])
            col.append(position[own.coords[1]])
            data.append(own.data)
        shape = (len(rows), len(self.c))
        matrix = sparse.coo_array((np.concatenate(data), (np.concatenate(row), np.concatenate(col))), shape=shape)
        return sparse.csr_array(matrix)

    @property
    def first_stage(self) -> LinearProgram:
        """The program of the first of all objectives alone."""
        if not self.earlier:
            return self
        first = self.earlier[0]
        return replace(self, c=first.c, offset=first.offset, priority=first.priority, earlier=())

    def keep(self, value: float) -> LinearProgram:
        """The next stage: the first of ``earlier`` becomes a row that keeps ``value``, and is dropped from the list.

        The row is divided by a power of two near its largest coefficient: no unit of the gains is too small for it.
        """
        first, *rest = self.earlier
        unit = 2.0 ** np.round(np.log2(scale(first.c)))
        row, name = sparse.csr_array(first.c[None, :] / unit), f"earlier_stage[{len(self.kept)}]"
        longer = self.extended(row, np.array([(value - first.offset) / unit]), np.array([np.inf]), [name])
        return replace(longer, earlier=tuple(rest), kept={**self.kept, self.shape[0]: first})

    def dual_bound(self, y: Floats, *, implied: bool = True) -> float:
        """No feasible point is better, whatever the (rows,) duals ``y`` are: weak duality.

        ``y.r + (c - A'y).x + offset``, each at its dearer bound; with ``implied``, a column without one is held by the
        rows that have no negative entry (of shares, the capacity). A price that is noise does not count where no bound
        is known.
        """
        price = self.c - self.A.T @ y
        noise = EQUAL * scale(self.c)
        upper = np.minimum(self.col_upper, self._implied_upper()) if implied else self.col_upper
        rows = _at_dearer_bound(y, self.row_lower, self.row_upper, noise)
        return rows + _at_dearer_bound(price, self.col_lower, upper, noise) + self.offset

    def _implied_upper(self) -> Floats:
        """(columns,) what rows over columns >= 0 without negative entries leave to each of them."""
        rows = sparse.csr_array(self.A)
        length = np.diff(rows.indptr)
        row = np.repeat(np.arange(len(length)), length)
        bad = (rows.data < 0) | (self.col_lower[rows.indices] < 0)
        holds = np.isfinite(self.row_upper)
        holds[row[bad]] = False
        used = holds[row] & (rows.data > 0)
        upper = np.full(len(self.c), np.inf)
        np.minimum.at(upper, rows.indices[used], self.row_upper[row[used]] / rows.data[used])
        return np.asarray(np.maximum(upper, self.col_lower))


def _at_dearer_bound(price: Floats, lower: Floats, upper: Floats, noise: float) -> float:
    """Sum of price * bound; a price that is noise does not count where the bound is infinite."""
    bound = np.where(price > 0, upper, lower)
    counts = (price != 0) & (np.isfinite(bound) | (np.abs(price) > noise))
    return float((price[counts] * bound[counts]).sum())


def _excess(value: Floats, lower: Floats, upper: Floats, size: Floats) -> float:
    if not len(value):
        return 0.0
    return max(0.0, float(np.max((lower - value) / size)), float(np.max((value - upper) / size)))
