"""The one form on which solvers work: a linear or integer program as sparse arrays, always maximised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.common.gc_manager import PauseGC
from pyomo.core.expr import (
    LinearExpression,
    MonomialTermExpression,
    NegationExpression,
    ProductExpression,
    SumExpression,
)
from pyomo.core.expr.numvalue import is_constant, native_numeric_types
from pyomo.repn import generate_standard_repn
from scipy import sparse

from hetopt.entities import Floats
from hetopt.errors import InvalidFormulation, NotLinear
from hetopt.formulation import Model
from hetopt.rows import Rows
from hetopt.tolerances import scale


class Names(Sequence[str]):
    """n names that are made only when asked for (an optimum rarely needs the names of 32,000 columns)."""

    def __init__(self, size: int, name: Callable[[int], str]) -> None:
        self._size, self._name = size, name

    def __len__(self) -> int:
        return self._size

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
    share:
        (n, k) column of each ``share[e, k]``, or None for a model that has no shares.
    earlier:
        Objectives to be maximised, and kept, before ``c``; first things first.
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
    share: NDArray[np.intp] | None = None
    earlier: tuple[Floats, ...] = field(default=())

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
        return float(self.c @ x) + self.offset

    def violation(self, x: Floats) -> float:
        """Largest violation of a row or bound at ``x``, relative to the scale of that row's terms."""
        terms = abs(self.A) @ np.abs(x)
        size = np.maximum(terms, 1e-300)
        worst = _excess(self.A @ x, self.row_lower, self.row_upper, np.maximum(size, scale(x)))
        return max(worst, _excess(x, self.col_lower, self.col_upper, np.full(len(x), scale(x))))

    def with_rows(self, rows: Rows) -> LinearProgram:
        """This program with ``rows`` added at the end."""
        if not len(rows):
            return self
        return replace(
            self,
            A=sparse.csc_array(sparse.vstack([self.A, self.on_columns(rows)])),
            row_lower=np.concatenate([self.row_lower, rows.lower]),
            row_upper=np.concatenate([self.row_upper, rows.upper]),
            row_names=[*self.row_names, *rows.names],
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

    def keep(self, value: float) -> LinearProgram:
        """The next stage: the first of ``earlier`` becomes a row that keeps ``value``, and is dropped from the list."""
        first, *rest = self.earlier
        row = sparse.csr_array(first[None, :])
        return replace(
            self,
            A=sparse.csc_array(sparse.vstack([self.A, row])),
            row_lower=np.append(self.row_lower, value),
            row_upper=np.append(self.row_upper, np.inf),
            row_names=[
                *self.row_names,
                f"earlier_stage[{sum(n.startswith('earlier_stage[') for n in self.row_names)}]",
            ],
            earlier=tuple(rest),
        )


def _excess(value: Floats, lower: Floats, upper: Floats, size: Floats) -> float:
    if not len(value):
        return 0.0
    return max(0.0, float(np.max((lower - value) / size)), float(np.max((value - upper) / size)))


class _Linear:
    """Collects a linear expression as (column, coefficient) pairs and a constant."""

    def __init__(self, position: dict[int, int]) -> None:
        self.position = position
        self.columns: list[int] = []
        self.values: list[float] = []
        self.constant = 0.0

    def add(self, expr: Any, factor: float = 1.0) -> None:
        """Add ``factor * expr``; the common shapes by hand, the others through Pyomo's own analysis."""
        kind = type(expr)
        if kind in native_numeric_types:
            self.constant += factor * expr
        elif isinstance(expr, LinearExpression):
            for term in expr.args:
                self.add(term, factor)
        elif kind is MonomialTermExpression:
            coefficient, variable = expr.args
            self._term(variable, factor * pyo.value(coefficient))
        elif isinstance(expr, SumExpression):
            for part in expr.args:
                self.add(part, factor)
        elif isinstance(expr, NegationExpression):
            self.add(expr.args[0], -factor)
        elif isinstance(expr, ProductExpression) and is_constant(expr.args[0]):
            self.add(expr.args[1], factor * pyo.value(expr.args[0]))
        elif hasattr(expr, "is_variable_type") and expr.is_variable_type():
            self._term(expr, factor)
        elif hasattr(expr, "is_named_expression_type") and expr.is_named_expression_type():
            self.add(expr.expr, factor)
        else:
            self._analysed(expr, factor)

    def _term(self, variable: Any, factor: float) -> None:
        if variable.fixed:
            self.constant += factor * variable.value
            return
        self.columns.append(self.position[id(variable)])
        self.values.append(factor)

    def _analysed(self, expr: Any, factor: float) -> None:
        repn = generate_standard_repn(expr, compute_values=True)
        if not repn.is_linear():
            raise NotLinear(f"the term {expr} is not linear; a linear program cannot hold it")
        self.constant += factor * float(repn.constant)
        for variable, coefficient in zip(repn.linear_vars, repn.linear_coefs, strict=True):
            self._term(variable, factor * float(coefficient))


def _lower(variable: Any) -> float:
    value = variable.lb
    return -np.inf if value is None else float(value)


def _upper(variable: Any) -> float:
    value = variable.ub
    return np.inf if value is None else float(value)


def from_pyomo(model: Any) -> LinearProgram:
    """Compile a linear (or integer linear) Pyomo model.

    Parameters
    ----------
    model:
        A :class:`~hetopt.formulation.Model` or any Pyomo model whose active rows and one active objective are
        linear. A minimising objective is negated, since programs here are always maximised.

    Raises
    ------
    NotLinear
        A term is not linear.
    InvalidFormulation
        There is not exactly one active objective.
    """
    with PauseGC():
        return _compile(model)


def _compile(model: Any) -> LinearProgram:
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        raise InvalidFormulation(f"the model has {len(objectives)} active objectives; it must have exactly one")
    variables = [v for v in model.component_data_objects(pyo.Var, active=True) if not v.fixed]
    position = {id(v): i for i, v in enumerate(variables)}
    columns, offset = _objective(objectives[0], position)
    rows = _rows(model, position)
    shape = (len(rows.lower), len(variables))
    matrix = sparse.csc_array(sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=shape))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return LinearProgram(
        c=columns,
        A=matrix,
        row_lower=np.array(rows.lower, dtype=float),
        row_upper=np.array(rows.upper, dtype=float),
        col_lower=np.array([_lower(v) for v in variables], dtype=float),
        col_upper=np.array([_upper(v) for v in variables], dtype=float),
        integer=np.array([not v.is_continuous() for v in variables], dtype=bool),
        # `model` in the defaults keeps the model alive: Pyomo's parts hold their parents weakly, and lose their names.
        row_names=Names(len(rows.lower), lambda i, _=model: str(rows.source[i].name)),
        col_names=Names(len(variables), lambda i, _=model: str(variables[i].name)),
        offset=offset,
        share=_share_columns(model, position),
        earlier=tuple(_vector(expr, position)[0] for expr in getattr(model, "earlier", ())),
    )


def _vector(expr: Any, position: dict[int, int]) -> tuple[Floats, float]:
    linear = _Linear(position)
    linear.add(expr)
    dense = np.zeros(len(position))
    np.add.at(dense, np.array(linear.columns, dtype=np.intp), linear.values)
    return dense, linear.constant


def _objective(objective: Any, position: dict[int, int]) -> tuple[Floats, float]:
    sign = 1.0 if objective.sense == pyo.maximize else -1.0
    dense, constant = _vector(objective.expr, position)
    return sign * dense, sign * constant


@dataclass
class _Stored:
    """Rows in the making, CSR."""

    data: list[float] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    indptr: list[int] = field(default_factory=lambda: [0])
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    source: list[Any] = field(default_factory=list)


def _rows(model: Any, position: dict[int, int]) -> _Stored:
    rows = _Stored()
    for row in model.component_data_objects(pyo.Constraint, active=True):
        linear = _Linear(position)
        lower, body, upper = row.to_bounded_expression(True)
        linear.add(body)
        rows.data.extend(linear.values)
        rows.indices.extend(linear.columns)
        rows.indptr.append(len(rows.data))
        rows.lower.append(-np.inf if lower is None else float(lower) - linear.constant)
        rows.upper.append(np.inf if upper is None else float(upper) - linear.constant)
        rows.source.append(row)
    return rows


def _share_columns(model: Any, position: dict[int, int]) -> NDArray[np.intp] | None:
    if not isinstance(model, Model):
        return None
    return np.array([[position[id(v)] for v in row] for row in model.share_grid], dtype=np.intp)
