"""Arrays and lists as callers give them, turned into the rows of an instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.errors import InvalidInstance


def matrix(value: ArrayLike, key: str, columns: int) -> Floats:
    """(rows >= 1, ``columns``) floats."""
    try:
        table = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInstance(
            f"{key} must be a table of numbers with {columns} columns; its rows differ or hold text"
        ) from None
    if table.ndim != 2 or table.shape[1] != columns or not table.shape[0]:
        raise InvalidInstance(
            f"{key} has shape {table.shape}; it must be (rows >= 1, {columns}), a column per GPU type"
        )
    return table


def column(value: Sequence[float] | None, key: str, n: int, default: float) -> list[Any]:
    """A list of n entries, ``default`` where none are given."""
    if value is None:
        return [default] * n
    column = list(np.asarray(value).tolist()) if not isinstance(value, list) else list(value)
    if len(column) != n:
        raise InvalidInstance(f"{key} has {len(column)} entries; it must have {n}, one per row")
    return column


def names(value: Sequence[str] | None, prefix: str, n: int, key: str) -> list[str]:
    """A list of n names, numbered with ``prefix`` where none are given."""
    names = [f"{prefix}{i + 1}" for i in range(n)] if value is None else list(value)
    if len(names) != n:
        raise InvalidInstance(f"{key} has {len(names)} names; it must have {n}, one per row")
    return names


def with_held(fields: dict[str, Any], names: Sequence[str], cluster: Cluster) -> dict[str, Any]:
    """Turn an (n, k) ``held`` array into the mapping that :class:`Instance` keeps."""
    held = fields.get("held")
    if held is None or isinstance(held, Mapping):
        return fields
    table = matrix(held, "held", len(cluster.type_names))
    if len(table) != len(names):
        raise InvalidInstance(f"held has {len(table)} rows; it must have {len(names)}, one per tenant or job")
    rows = {n: dict(zip(cluster.type_names, row, strict=True)) for n, row in zip(names, table.tolist(), strict=True)}
    return {**fields, "held": rows}
