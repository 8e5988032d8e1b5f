"""Conversion of arrays, lists and pandas objects to the rows of an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import is_real, number, shown
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.errors import InvalidInstance, Item


def labels(index: pd.Index[Any]) -> list[str] | None:
    """The labels of a pandas axis where all are text; None for numbers, which are positions."""
    own = list(index)
    return own if own and all(isinstance(label, str) for label in own) else None


def capacity(value: Any, table: Any) -> Any:
    """GPU type -> GPUs from a labelled pandas object; a bare sequence takes the labels of ``table``."""
    if isinstance(value, pd.Series):
        value = value.to_dict() if labels(value.index) else value.tolist()
    columns = labels(table.columns) if isinstance(table, pd.DataFrame) else None
    if columns is None or not isinstance(value, Sequence | np.ndarray) or len(value) != len(columns):
        return value
    return dict(zip(columns, value, strict=True))


def aligned(value: Any, key: str, rows: Sequence[str] | None, columns: Sequence[str] | None = None) -> Any:
    """A pandas ``value`` with its labelled axes in the order of ``rows`` and ``columns``; other values unchanged.

    Raises
    ------
    InvalidInstance
        The labels are other names, or a label occurs twice.
    """
    if not isinstance(value, pd.DataFrame | pd.Series):
        return value
    for axis, wanted in enumerate((rows, columns)[: value.ndim]):
        own = labels(value.axes[axis])
        if own is None or wanted is None or own == list(wanted):
            continue
        if sorted(own) != sorted(wanted):
            what = "columns" if axis else "rows"
            raise InvalidInstance(f"has the {what} {_some(own)}; they must be {_some(wanted)}, in any order", key)
        order = list(wanted)
        value = value[order] if isinstance(value, pd.DataFrame) and axis else value.loc[order]
    return value


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")


def matrix(value: Any, key: str, types: Sequence[str], rows: Sequence[str] | None = None) -> Floats:
    """(rows >= 1, types) floats; labelled rows and columns of a DataFrame are put in order.

    Raises
    ------
    InvalidInstance
        Another shape, labels not among ``types`` or ``rows``, or an entry that is not a number (text, True, None).
    """
    own = labels(value.index) if isinstance(value, pd.DataFrame) else None
    value = aligned(value, key, rows, types)
    columns = f"a table of numbers with {len(types)} columns"
    try:  # lists become object arrays: numpy would convert True and the text "1" to 1.0 before the check
        if np.ma.isMaskedArray(value):
            value = np.ma.filled(value.astype(object), "masked")
        table = np.asarray(value) if hasattr(value, "__array__") else np.asarray(value, dtype=object)
    except (TypeError, ValueError):
        raise InvalidInstance(f"must be {columns}; its rows differ in length", key) from None
    if table.ndim < 2 and not all(is_real(type(entry)) for entry in table.ravel().tolist()):
        raise InvalidInstance(f"must be {columns}; its rows differ in length, or it has none", key)
    if table.ndim != 2 or table.shape[1] != len(types) or not table.shape[0]:
        raise InvalidInstance(
            f"has shape {table.shape}; it must be (rows >= 1, {len(types)}), a column per GPU type", key
        )
    return table.astype(float) if table.dtype.kind in "iuf" else _floats(table, key, types, rows or own)


def _floats(table: NDArray[Any], key: str, types: Sequence[str], rows: Sequence[str] | None) -> Floats:
    """``table`` as floats; the error names the first entry that is not a number."""
    try:
        if table.dtype == object and all(map(is_real, set(map(type, table.ravel().tolist())))):
            return table.astype(float)
    except OverflowError:
        pass  # an integer of hundreds of digits
    known = rows is not None and len(rows) == len(table)
    names: Sequence[str | int] = list(map(Item, rows or ())) if known else range(len(table))
    for name, row in zip(names, table, strict=True):
        for t, entry in zip(types, row, strict=True):
            if type(entry) is not float:
                number(entry, (key, name, Item(t)))
    return table.astype(float)


def column(value: Any, key: str, names: Sequence[str], default: Any) -> list[Any]:
    """One entry per name from None (``default`` for all), one value for all, or a sequence."""
    if value is None or isinstance(value, str | bool | np.bool_) or is_real(type(value)):
        return [default if value is None else value] * len(names)
    if isinstance(value, bytes) or not isinstance(value, Sequence | np.ndarray | pd.Series):
        raise InvalidInstance(f"is {shown(value)}; it must be one value, or a sequence with one per row", key)
    column = aligned(value, key, names)
    column = list(column) if isinstance(column, Sequence) else column.tolist()
    if len(column) != len(names):
        raise InvalidInstance(f"has {len(column)} entries; it must have {len(names)}, one per row", key)
    return column


def names(value: Sequence[str] | None, prefix: str, table: Any, key: str) -> list[str]:
    """One name per row of ``table``: those given, else its labels, else ``prefix`` with a number."""
    own = labels(table.index) if isinstance(table, pd.DataFrame) else None
    if value is None:
        return own or [f"{prefix}{i + 1}" for i in range(len(table))]
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray | pd.Index | pd.Series):
        raise InvalidInstance(f"is {shown(value)}; it must be a list of names", key)
    names = list(value)
    if len(names) != len(table):
        raise InvalidInstance(f"has {len(names)} names; it must have {len(table)}, one per row", key)
    return names


class TenantRows(NamedTuple):
    """A table with a row per tenant, and the cluster, names and weights."""

    cluster: Cluster
    table: Floats
    """(n, k), a column for each type of the cluster."""
    names: list[str]
    weights: list[Any]


def tenant_rows(key: str, table: Any, capacity_given: Any, tenants: Sequence[str] | None, weights: Any) -> TenantRows:
    """Check the arguments of :meth:`hetopt.Instance.from_speedups`; ``key`` is the name of the table.

    Raises
    ------
    InvalidInstance
        They do not fit together.
    """
    cluster = Cluster.of(capacity(capacity_given, table))
    floats = matrix(table, key, cluster.type_names, tenants)
    own = names(tenants, "u", table if isinstance(table, pd.DataFrame) else floats, "tenants")
    return TenantRows(cluster, floats, own, column(weights, "weights", own, 1.0))


def with_held(fields: dict[str, Any], names: Sequence[str], cluster: Cluster) -> dict[str, Any]:
    """Convert an (n, k) ``held`` array among ``fields`` to the mapping of :class:`Instance`."""
    held = fields.get("held")
    if held is None or isinstance(held, Mapping):
        return fields
    table = matrix(held, "held", cluster.type_names, names)
    if len(table) != len(names):
        raise InvalidInstance(f"has {len(table)} rows; it must have {len(names)}, one per tenant or job", "held")
    rows = {n: dict(zip(cluster.type_names, row, strict=True)) for n, row in zip(names, table.tolist(), strict=True)}
    return {**fields, "held": rows}
