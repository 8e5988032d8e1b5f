"""Compilation of a linear Pyomo model to a :class:`~hetopt.programs.linear.LinearProgram`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base import SortComponents
from pyomo.core.expr import (
    LinearExpression,
    MonomialTermExpression,
    NegationExpression,
    ProductExpression,
    SumExpression,
)
from pyomo.core.expr.numvalue import is_constant, native_numeric_types
from pyomo.repn import generate_standard_repn
from pyomo.repn.util import categorize_valid_components
from scipy import sparse

from hetopt.checks import shown
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.errors import InvalidFormulation, NotLinear
from hetopt.programs.arrays import Rows, Terms
from hetopt.programs.linear import Cuts, LinearProgram, Names
from hetopt.programs.model import Components, Model, partial_model


def from_pyomo(model: Any) -> LinearProgram:
    """Compile a linear (or integer linear) Pyomo model.

    Parameters
    ----------
    model:
        A :class:`~hetopt.programs.model.Model` or any Pyomo model whose active rows and one active objective are
        linear. A minimising objective is negated, since programs here are always maximised. Fixed variables become
        constants; all other variables become columns, even if no row contains them. Rows that the model has left out
        (``build(instance, lazy=True)``) are added.

    Raises
    ------
    NotLinear
        A term is not linear, or the model has active parts other than rows and an objective (SOS, disjunctions).
    InvalidFormulation
        ``model`` is no Pyomo model, or the number of its active objectives is not one.
    """
    if not hasattr(model, "component_data_objects"):
        raise InvalidFormulation(f"is {shown(model)}; it must be a Pyomo model", "model")
    with PauseGC():
        return _compile(model)


def _compile(model: Any) -> LinearProgram:
    _check_parts(model)
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        raise InvalidFormulation(f"the model has {len(objectives)} active objectives; it must have exactly one")
    columns = _Columns([v for v in model.component_data_objects(pyo.Var, active=True) if not v.fixed])
    share = _share_columns(model, columns)
    sign = 1.0 if objectives[0].sense == pyo.maximize else -1.0
    gain = _linear(objectives[0].expr, columns)
    rows = _rows(model, columns)
    variables = columns.variables
    shape = (len(rows.lower), len(variables))
    matrix = sparse.csc_array(sparse.csr_array((rows.values, rows.columns, rows.starts), shape=shape))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bounds = _variable_bounds(variables)
    program = LinearProgram(
        c=sign * gain.dense(len(variables)),
        A=matrix,
        row_lower=np.array(rows.lower, dtype=float),
        row_upper=np.array(rows.upper, dtype=float),
        col_lower=bounds.lower,
        col_upper=bounds.upper,
        integer=bounds.integer,
        row_names=_names(model, rows.source),
        col_names=_names(model, variables),
        offset=sign * gain.constant,
        priority=getattr(model, "priority", 0),
        share=share,
    )
    return program.with_rows(*_left_out(model, program))


def _left_out(model: Any, program: LinearProgram) -> list[Cuts]:
    """The rows left out of a :class:`~hetopt.programs.model.Model`, over the columns of ``program``."""
    if not getattr(model, "left_out", ()):
        return []
    compiled = model.lazy_rows
    stated = []
    for name, family in compiled.pyomo_families:
        if name not in model.left_out:
            continue
        block = model.component(name)
        rows = None if block is None or not block.active else block.component(family.name)
        if rows is not None and rows.active:
            stated.append((name, family.every()))
    if not stated:
        return []
    assert program.share is not None
    cuts = compiled.cuts(stated)
    entries = cuts.matrix.tocoo()
    where = entries.coords[0], program.share.ravel()[entries.coords[1]]  # such rows contain only shares
    matrix = sparse.coo_array((entries.data, where), shape=(len(cuts), len(program.c))).tocsr()
    return [replace(cuts, matrix=matrix)]


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds and integrality, (columns,) each."""

    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Linear:
    """Coefficients ``values`` of the columns at these positions; duplicate positions are added up."""

    columns: NDArray[np.intp]
    values: Floats


@dataclass(frozen=True, eq=False)
class PyomoPart:
    """Columns, rows and gains of components without arrays, read from a Pyomo model of only these.

    Attributes
    ----------
    columns:
        c full names of variables other than shares.
    bounds:
        Bounds and integrality of the shares and of these columns, (n * k + c,).
    rows:
        Rows; their columns other than shares are the group :data:`PYOMO`.
    row_names:
        Full names of the rows.
    gains:
        (priority, coefficients, constant) of each component; positions count shares first.
    taken:
        Names of components with arrays that are included because another component uses their block.
    has_capacity:
        Whether ``rows`` includes the capacity rows because a component uses them.
    """

    columns: list[str]
    bounds: Bounds
    rows: Rows
    row_names: list[str]
    gains: list[tuple[int, Linear, float]]
    taken: frozenset[str]
    has_capacity: bool


PYOMO = "<Pyomo>"
"""The group of columns read from Pyomo."""


def pyomo_part(formulation: Components, entities: Entities, in_arrays: Collection[str]) -> PyomoPart:
    """Build and read the components that are not ``in_arrays``, and those that they use.

    Raises
    ------
    NotLinear
        As :func:`from_pyomo`.
    """
    model, taken, has_capacity = partial_model(formulation, entities, in_arrays)
    _check_parts(model)
    columns, shares = _Columns([v for row in model.share_grid for v in row]), entities.speed.size
    for variable in model.component_data_objects(pyo.Var, active=True):
        if not variable.fixed:
            columns.of(variable)
    gains = []
    for priority, parts in model.gains.items():
        for part in parts:
            gain = _linear(part, columns)
            gains.append(
                (priority, Linear(np.array(gain.columns, dtype=np.intp), np.array(gain.values)), gain.constant)
            )
    rows = _rows(model, columns)
    row = np.repeat(np.arange(len(rows.lower)), np.diff(rows.starts))
    column, value = np.array(rows.columns, dtype=np.intp), np.array(rows.values, dtype=float)
    own = column >= shares
    terms = Terms(row[~own], column[~own], value[~own]), Terms(row[own], column[own] - shares, value[own], PYOMO)
    names = [str(constraint.name) for constraint in rows.source]
    return PyomoPart(
        columns=[str(v.name) for v in columns.variables[shares:]],
        bounds=_variable_bounds(columns.variables),
        rows=Rows("", names, terms, np.array(rows.lower, dtype=float), np.array(rows.upper, dtype=float)),
        row_names=names,
        gains=gains,
        taken=taken,
        has_capacity=has_capacity,
    )


def _variable_bounds(variables: list[Any]) -> Bounds:
    ends = [(v.value, v.value) if v.fixed else v.bounds for v in variables]
    lower, upper = np.array(ends, dtype=float).reshape(-1, 2).T  # None becomes NaN
    return Bounds(
        np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper), _integer(variables)
    )


def _check_parts(model: Any) -> None:
    """Reject parts that would otherwise be silently ignored: SOS constraints, disjunctions, complementarity …"""
    known = {pyo.Block, pyo.Objective, pyo.Constraint, pyo.Var, pyo.Param, pyo.Expression, pyo.Set, pyo.RangeSet}
    known |= {pyo.Suffix, pyo.BuildAction, pyo.BuildCheck, pyo.ExternalFunction}
    _, unknown = categorize_valid_components(model, active=True, sort=SortComponents.unsorted, valid=known)
    for cls, parts in unknown.items():
        raise NotLinear(f"{parts[0].name!r} is a {cls.__name__}; a linear program cannot hold it")


class _Columns:
    """Map from variables to columns; variables that first occur in an expression are added."""

    def __init__(self, variables: list[Any]) -> None:
        self.variables = variables
        self.position = {id(v): i for i, v in enumerate(variables)}

    def of(self, variable: Any) -> int:
        """The column of a variable that is not fixed."""
        column = self.position.get(id(variable))
        if column is None:
            column = self.position[id(variable)] = len(self.variables)
            self.variables.append(variable)
        return column


@dataclass
class _Terms:
    """A linear expression being read: (column, value) pairs and a constant."""

    of: _Columns
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    constant: float = 0.0

    def dense(self, size: int) -> Floats:
        """The coefficients of all ``size`` columns."""
        array = np.zeros(size)
        np.add.at(array, np.array(self.columns, dtype=np.intp), self.values)
        return array

    def add(self, expr: Any, factor: float = 1.0) -> None:
        """Add ``factor * expr``; common forms are read directly, others through Pyomo's analysis."""
        cls = type(expr)
        if cls in native_numeric_types:
            self.constant += factor * expr
        elif cls is MonomialTermExpression:
            coefficient, variable = expr.args
            self.term(variable, factor * pyo.value(coefficient))
        elif cls is LinearExpression or isinstance(expr, SumExpression):
            self._sum(expr.args, factor)
        elif isinstance(expr, NegationExpression):
            self.add(expr.args[0], -factor)
        elif isinstance(expr, ProductExpression) and is_constant(expr.args[0]):
            self.add(expr.args[1], factor * pyo.value(expr.args[0]))
        elif hasattr(expr, "is_variable_type") and expr.is_variable_type():
            self.term(expr, factor)
        elif hasattr(expr, "is_named_expression_type") and expr.is_named_expression_type():
            self.add(expr.expr, factor)
        else:
            self._analysed(expr, factor)

    def _sum(self, parts: Any, factor: float) -> None:
        """Add a sum; this is the hot loop, so terms ``number * variable`` are read inline."""
        columns, values, position = self.columns, self.values, self.of.position
        for part in parts:
            if type(part) is MonomialTermExpression:
                coefficient, variable = part.args
                column = position.get(id(variable))
                if column is not None and type(coefficient) in native_numeric_types:
                    columns.append(column)
                    values.append(factor * coefficient)
                    continue
            self.add(part, factor)

    def term(self, variable: Any, factor: float) -> None:
        """Add ``factor * variable``."""
        if variable.fixed:
            self.constant += factor * pyo.value(variable)
            return
        self.columns.append(self.of.of(variable))
        self.values.append(factor)

    def _analysed(self, expr: Any, factor: float) -> None:
        repn = generate_standard_repn(expr, compute_values=True)
        if not repn.is_linear():
            raise NotLinear(f"the term {expr} is not linear; a linear program cannot hold it")
        self.constant += factor * float(repn.constant)
        for variable, coefficient in zip(repn.linear_vars, repn.linear_coefs, strict=True):
            self.term(variable, factor * float(coefficient))


def _linear(expr: Any, columns: _Columns) -> _Terms:
    linear = _Terms(columns)
    linear.add(expr)
    return linear


@dataclass
class _RowLists:
    """Rows being read, in CSR form."""

    values: list[float] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    source: list[Any] = field(default_factory=list)


def _rows(model: Any, columns: _Columns) -> _RowLists:
    rows = _RowLists()
    missing = model.component("rows_left_out") if getattr(model, "left_out", ()) else None
    for row in model.component_data_objects(pyo.Constraint, active=True):
        if row is missing:
            continue
        lower, body, upper = row.to_bounded_expression(True)
        linear = _Terms(columns, rows.columns, rows.values)
        linear.add(body)
        rows.starts.append(len(rows.values))
        rows.lower.append(-np.inf if lower is None else float(lower) - linear.constant)
        rows.upper.append(np.inf if upper is None else float(upper) - linear.constant)
        rows.source.append(row)
    return rows


def _integer(variables: list[Any]) -> NDArray[np.bool_]:
    """True for integer variables; domains that are neither continuous nor integer are rejected."""
    whole = np.array([not v.is_continuous() for v in variables], dtype=bool)
    for i in np.flatnonzero(whole):
        if not variables[i].is_integer():
            raise NotLinear(f"{variables[i].name!r} takes values in {variables[i].domain}; use Reals or Integers")
    return whole


def _names(model: Any, parts: list[Any]) -> Names[str]:
    """Names of Pyomo parts; keeps the model alive, since Pyomo parts refer to their parents only weakly."""

    def name(i: int, _: Any = model) -> str:
        return str(parts[i].name)

    return Names(len(parts), name)


def _share_columns(model: Any, columns: _Columns) -> NDArray[np.intp] | None:
    """(n, k) columns of the shares; a fixed share becomes a column with equal bounds."""
    if not isinstance(model, Model):
        return None
    return np.array([[columns.of(v) for v in row] for row in model.share_grid], dtype=np.intp)
