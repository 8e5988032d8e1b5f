"""Rows of tables: checked and named where they are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from hetopt.checks import choices
from hetopt.errors import InvalidInstance

INDEX = {
    "servers": ("server",),
    "gpu_types": ("gpu_type",),
    "tenants": ("tenant", "job_type"),
    "jobs": ("job",),
    "stages": ("job", "stage"),
    "held": ("name",),
    "done": ("job",),
    "placed": ("job", "server"),
    "instance": ("name",),
}
"""Table -> names of the columns that are its index in a CSV file; ``job_type`` may be absent."""


def filled(
    rows: Iterable[tuple[Any, Mapping[str, Any], Any]], index: str, types: Iterable[str], fields: Iterable[str]
) -> pd.DataFrame:
    """A row for each (name, values per type, object with ``fields``)."""
    types, fields = list(types), list(fields)
    data, names = [], []
    for name, values, part in rows:
        names.append(name)
        data.append([values.get(t, 0) for t in types] + [_cell(getattr(part, f)) for f in fields])
    return pd.DataFrame(data, index=pd.Index(names, name=index), columns=pd.Index(types + fields))


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def table_rows(
    table: pd.DataFrame | None, key: str, types: Iterable[str], fields: tuple[str, ...], prefix: str = ""
) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """(name, values per type, values per given field) of each row; empty cells of fields are left out.

    The columns of the types begin with ``prefix``.
    """
    if table is None:
        return []
    columns, of = list(table.columns), {prefix + t: t for t in types}
    for column in columns:
        if columns.count(column) > 1:
            raise InvalidInstance(f"{key} has the column {column!r} twice; keep one")
        if column not in of and column not in fields:
            raise InvalidInstance(f"{key} has the unknown column {column!r}; {choices(str(column), [*of, *fields])}")
    for column, t in of.items():
        if column not in columns:
            called = f" {column!r}" if prefix else ""
            raise InvalidInstance(f"{key} has no column{called} for GPU type {t!r}; give one (0 where there is none)")
    rows = []
    for name, cells in zip(table.index.tolist(), table.astype(object).to_numpy().tolist(), strict=True):
        row = dict(zip(columns, cells, strict=True))
        own = {f: row[f] for f in fields if f in row and not pd.isna(row[f])}
        rows.append((name, {t: row[column] for column, t in of.items()}, own))
    return rows


def make(key: str, name: Any, kind: Callable[..., Any], *values: Any, **fields: Any) -> Any:
    """``kind(*values, **fields)``, saying which table and row are wrong where it refuses them."""
    try:
        return kind(*values, **fields)
    except InvalidInstance as problem:
        raise InvalidInstance(f"row {name!r} of table {key}: {problem}") from None
