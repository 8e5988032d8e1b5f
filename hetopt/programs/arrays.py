"""Array form of a component: gains, columns, rows and concave curves, in floats or Fractions.

A component with a method ``rows(entities) -> Arrays`` is solved without building it in Pyomo. The compiled program,
the lazy rows, the exact rows (the same code over Fractions) and the measure of a certificate all come from these
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from pyomo.core.base.component_namer import index_repr

from hetopt.checks import counted, is_real, shown
from hetopt.data.array_types import Floats, Numbers, Positions
from hetopt.errors import InvalidFormulation
from hetopt.programs.linear import Names
from hetopt.tolerances import EQUAL

Index: TypeAlias = str | tuple[str | float, ...]
"""Index of a row or column, as in Pyomo: ``"u1"``, or ``("u1", "V100")``."""
SHARE = ""
"""The group of columns ``share[e, k]``, at position e * k_types + k."""


def each(value: Numbers | float, size: int) -> Numbers:
    """``value`` as an array of shape (size,)."""
    if isinstance(value, np.ndarray) and value.shape == (size,):
        return value
    return np.full(size, value)


@dataclass(frozen=True, eq=False)
class Terms:
    """Entries ``value[i]`` of the rows ``row[i]`` in the columns ``column[i]`` of the group ``of``.

    Attributes
    ----------
    row, column:
        (m,) positions; columns count within their group.
    value:
        (m,) floats or Fractions.
    of:
        Name of the group in the component's :class:`Columns`; :data:`SHARE` for shares.
    rows:
        Number of rows that the entries are for; None: not known.
    """

    row: Positions
    column: Positions
    value: Numbers
    of: str = SHARE
    rows: int | None = None


def on_shares(table: Numbers, who: Positions | None = None) -> Terms:
    """R rows ``sum_k table[r, k] * share[who[r], k]``; by default row r belongs to entity r.

    With ``who`` of shape (r, m), a row has the shares of m entities, whose coefficients are side by side in ``table``.
    """
    r, width = _check_dimensions(table, 2, "table").shape
    row = np.repeat(np.arange(r), width)
    if who is None:
        return Terms(row, np.arange(r * width), table.ravel(), rows=r)
    k = width if who.ndim == 1 else width // who.shape[1]
    return Terms(row, (who[..., None] * k + np.arange(k)).ravel(), table.ravel(), rows=r)


def _check_dimensions(value: Numbers, dimensions: int, key: str) -> Numbers:
    if not isinstance(value, np.ndarray) or value.ndim != dimensions:
        wanted = "an array of a number per row" if dimensions == 1 else "an array of rows x GPU types"
        raise InvalidFormulation(f"is {shown(value)}; it must be {wanted}", key)
    return value


def on_each(table: Numbers) -> Terms:
    """N * k rows ``table[e, k] * share[e, k]``."""
    return Terms(np.arange(table.size), np.arange(table.size), table.ravel(), rows=table.size)


def on_own(value: Numbers, of: str, column: Positions | None = None) -> Terms:
    """R rows ``value[r] * (column[r] of the group)``; by default all rows use the only column of the group."""
    r = len(_check_dimensions(value, 1, "value"))
    return Terms(np.arange(r), np.zeros(r, dtype=np.intp) if column is None else column, value, of, r)


@dataclass(frozen=True, eq=False)
class Columns:
    """A group of continuous columns that a component declares.

    Attributes
    ----------
    name:
        Name of the variable in its block: ``"level"``.
    index:
        c indices; None for a single column without index.
    lower, upper:
        Bounds, a scalar or (c,).
    unit:
        Size of a typical value, a power of two; solvers get the columns in multiples of it.
    """

    name: str
    index: Sequence[Index] | None = None
    lower: Floats | float = 0.0
    upper: Floats | float = np.inf
    unit: float = 1.0

    def __post_init__(self) -> None:
        _check_numbers(self, "lower", "upper", "unit")

    def __len__(self) -> int:
        return 1 if self.index is None else len(self.index)


@dataclass(frozen=True, eq=False)
class Rows:
    """r rows ``lower <= sum of terms <= upper``.

    Attributes
    ----------
    name:
        Name of the constraint in its block: ``"row"``.
    index:
        r indices; None for a single row without index.
    terms:
        Entries.
    lower, upper:
        Bounds, a scalar or (r,); floats or Fractions.
    scale:
        Scale of violations, a scalar or (r,), in the row's own unit.
    unit:
        Divisor of the row for the solver, a scalar or (r,), so that its coefficients are about 1.
    """

    name: str
    index: Sequence[Index] | None
    terms: Sequence[Terms]
    lower: Numbers | float = -np.inf
    upper: Numbers | float = np.inf
    scale: Floats | float = 1.0
    unit: Floats | float = 1.0

    def __post_init__(self) -> None:
        _check_numbers(self, "lower", "upper", "scale", "unit")
        for terms in self.terms:
            if terms.rows not in (None, len(self)):
                raise InvalidFormulation(
                    f"has terms for {counted(terms.rows, 'row')}; its index has {len(self)}", self.name
                )

    def __len__(self) -> int:
        return 1 if self.index is None else len(self.index)


def _check_numbers(part: Columns | Rows, *keys: str) -> None:
    for key in keys:
        value = getattr(part, key)
        many = isinstance(value, np.ndarray)
        if not (value.shape == (len(part),) if many else is_real(type(value))):
            given = f"has shape {value.shape}" if many else f"is {shown(value)}"
            raise InvalidFormulation(f"{part.name}.{key} {given}; it must be a number, or {len(part)} in an array")
        differs = value != value
        if differs.any() if many else differs:
            raise InvalidFormulation("is NaN; give a number, inf or -inf where there is no bound", f"{part.name}.{key}")


def full_names(part: Columns | Rows, prefix: str) -> Sequence[str]:
    """Names as in Pyomo, ``"equal_rates.row[u1]"``; ``prefix`` belongs to the component: ``"equal_rates."``."""
    head = prefix + part.name
    return [head] if part.index is None else indexed_names(head, part.index)


def indexed_names(head: str, index: Sequence[Index]) -> Names[str]:
    """The name ``head`` with each index, as in Pyomo: ``"share[u1,V100]"``."""
    return Names(len(index), lambda i: head + index_repr(index[i]))


@dataclass(frozen=True, eq=False)
class RowFamily:
    """Rows that may be too many to store: generated by position, separated on demand.

    Attributes
    ----------
    name:
        Name of the constraint in its block.
    size:
        Number of rows.
    entries:
        Entries per row, to estimate the size of the family.
    make:
        (r,) positions -> these rows.
    most_violated:
        (n, k) share -> positions of violated rows to add; empty if all rows hold.
    violation:
        (n, k) share -> largest violation of all rows, relative to their scale.
    lazy:
        Whether solvers get a row only once a point violates it.
    """

    name: str
    size: int
    entries: int
    make: Callable[[Positions], Rows]
    most_violated: Callable[[Floats], Positions]
    violation: Callable[[Floats], float]
    lazy: bool

    def __len__(self) -> int:
        return self.size

    def every(self) -> Rows:
        """All rows."""
        return self.make(np.arange(self.size))


class Shape(Protocol):
    """A strictly concave, increasing function of y > 0."""

    def value(self, y: Floats) -> Floats:
        """The function; -inf at 0."""
        ...

    def slope(self, y: Floats) -> Floats:
        """First derivative."""
        ...

    def inverse(self, value: Floats) -> Floats:
        """The argument at which the function has this value; 0 if the function never reaches it."""
        ...


@dataclass(frozen=True, eq=False)
class Curves:
    """Concave rows ``factor * column <= constant + size * shape(rate[who] / unit)``, r of them.

    LP solvers get tangents instead: a few at first, and more where a point overestimates a gain.

    Attributes
    ----------
    of:
        Name of the group of columns.
    factor:
        1 or -1.
    column:
        (r,) positions in the group.
    who:
        (r,) positions of entities.
    shape:
        The function.
    size, unit, constant:
        (r,); ``size`` and ``unit`` positive, ``unit`` in the unit of the rate.
    """

    of: str
    factor: float
    column: Positions
    who: Positions
    shape: Shape
    size: Floats
    unit: Floats
    constant: Floats

    def bounds(self, rate: Floats) -> Floats:
        """(r,) right-hand sides at the (n,) ``rate``."""
        y = np.maximum(rate[self.who], 0.0) / self.unit
        return np.asarray(self.constant + self.size * self.shape.value(y))


@dataclass(frozen=True, eq=False)
class Arrays:
    """One component in arrays.

    Attributes
    ----------
    gain:
        (n, k) gain per unit of share; None: no gain from shares.
    own_gain:
        Group of columns -> (c,) gain per unit.
    constant:
        Constant part of the gain.
    columns, rows, curves:
        Columns, rows and concave rows of the component.
    size:
        Scale of gaps in the gain, for gains that the choice of units may bring near 0 (such as logarithms).
    """

    gain: Numbers | None = None
    own_gain: Mapping[str, Numbers] = field(default_factory=dict)
    constant: Any = 0
    columns: Sequence[Columns] = ()
    rows: Sequence[Rows | RowFamily] = ()
    curves: Sequence[Curves] = ()
    size: float = 0.0

    def group(self, name: str) -> Columns:
        """The columns of that name."""
        return next(part for part in self.columns if part.name == name)

    @property
    def has_gain(self) -> bool:
        """Whether the component contributes to the objective."""
        return self.gain is not None or bool(self.own_gain) or self.constant != 0


@dataclass(frozen=True)
class Measure:
    """Gain and violation of a component at given shares, computed without a solver.

    Attributes
    ----------
    gain:
        Its contribution to the objective.
    violation:
        Largest violation of its rows, relative to their scale (no unit); 0 without rows.
    size:
        Scale of gaps in the gain, see :class:`Arrays`.
    """

    gain: float = 0.0
    violation: float = 0.0
    size: float = 0.0


def measured(
    arrays: Arrays, share: Floats, rate: Floats, own_values: Mapping[str, Floats] | None = None
) -> Measure | None:
    """Gain and violation of ``arrays`` at given shares; None if that needs values of own columns and there are none.

    Own columns take the best values that their rows allow. Contradicting bounds count as a violation. Where a row has
    several own columns, all columns have their ``own_values`` instead.

    Parameters
    ----------
    share, rate:
        (n, k) and (n,).
    own_values:
        Group of own columns -> (c,) values.
    """
    if any(_several_own(rows) for rows in arrays.rows if isinstance(rows, Rows)):
        if own_values is None or arrays.curves:
            return None
        return _measured_at(arrays, {**own_values, SHARE: share.ravel()}, share.shape)
    gain = float(arrays.constant) + (0.0 if arrays.gain is None else float((arrays.gain * share).sum()))
    violation = 0.0
    low = {part.name: each(part.lower, len(part)).astype(float) for part in arrays.columns}
    high = {part.name: each(part.upper, len(part)).astype(float) for part in arrays.columns}
    for rows in arrays.rows:
        if isinstance(rows, RowFamily):
            violation = max(violation, rows.violation(share))
            continue
        shares = [terms for terms in rows.terms if terms.of == SHARE]
        own = [terms for terms in rows.terms if terms.of != SHARE]
        value = np.zeros(len(rows))
        for terms in shares:
            entries = terms.value * share.ravel()[terms.column]
            value += np.bincount(terms.row, weights=entries, minlength=len(rows))
        lower, upper = rows.lower - value, rows.upper - value
        if not own:
            violation = max(violation, _worst(lower, upper, rows.scale))
        else:
            free = np.ones(len(rows), dtype=bool)
            free[own[0].row[own[0].value != 0]] = False
            violation = max(
                violation, _worst(np.where(free, lower, -np.inf), np.where(free, upper, np.inf), rows.scale)
            )
            _narrow(low[own[0].of], high[own[0].of], own[0], lower, upper)
    for curves in arrays.curves:
        bound = curves.bounds(rate) * curves.factor
        narrow, side = (np.minimum, high) if curves.factor > 0 else (np.maximum, low)
        narrow.at(side[curves.of], curves.column, bound)
    for part in arrays.columns:
        least, most = low[part.name], high[part.name]
        with np.errstate(invalid="ignore"):  # two infinite bounds do not contradict each other
            contradicts = np.isfinite(least - most) & (least > most)
        size = np.maximum(np.maximum(np.abs(least), np.abs(most)), EQUAL * part.unit)[contradicts]
        violation = max(violation, float(((least - most)[contradicts] / size).max(initial=0.0)))
    for name, per_unit in arrays.own_gain.items():
        best = np.where(np.asarray(per_unit) > 0, high[name], low[name])
        counts = np.asarray(per_unit) != 0
        gain += float((each(per_unit, len(best))[counts] * best[counts]).sum())
    return Measure(gain, violation, arrays.size)


def _several_own(rows: Rows) -> bool:
    """Whether a row has, or may have, several own columns."""
    own = [terms.row for terms in rows.terms if terms.of != SHARE]
    return len(own) > 1 or (bool(own) and int(np.bincount(own[0]).max(initial=0)) > 1)


def _measured_at(arrays: Arrays, values: Mapping[str, Floats], shape: tuple[int, ...]) -> Measure:
    """Gain and violation of ``arrays`` at the values of all columns; ``shape``: of the shares."""
    violation = 0.0
    for rows in arrays.rows:
        if isinstance(rows, RowFamily):
            violation = max(violation, rows.violation(values[SHARE].reshape(shape)))
            continue
        value = np.zeros(len(rows))
        for terms in rows.terms:
            value += np.bincount(terms.row, weights=terms.value * values[terms.of][terms.column], minlength=len(rows))
        violation = max(violation, _worst(rows.lower - value, rows.upper - value, rows.scale))
    for part in arrays.columns:
        own = values[part.name]
        violation = max(violation, _worst(part.lower - own, part.upper - own, part.unit))
    gains = dict(arrays.own_gain) if arrays.gain is None else {SHARE: arrays.gain.ravel(), **arrays.own_gain}
    gain = sum(float((each(per_unit, len(values[name])) * values[name]).sum()) for name, per_unit in gains.items())
    return Measure(float(arrays.constant) + gain, violation, arrays.size)


def _worst(lower: Floats, upper: Floats, scale: Floats | float) -> float:
    """Largest violation of lower <= 0 <= upper, relative to ``scale``."""
    off = np.maximum(np.maximum(lower, -upper), 0.0) / scale
    return float(np.max(off, initial=0.0))


def _narrow(low: Floats, high: Floats, own: Terms, lower: Floats, upper: Floats) -> None:
    """Tighten the bounds of own columns to those that ``lower <= value * column <= upper`` implies."""
    used = own.value != 0
    value, column = own.value[used].astype(float), own.column[used]
    a, b = lower[own.row[used]] / value, upper[own.row[used]] / value
    np.maximum.at(low, column, np.where(value > 0, a, b))
    np.minimum.at(high, column, np.where(value > 0, b, a))
