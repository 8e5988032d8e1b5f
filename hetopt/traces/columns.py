"""Columns of a trace's table, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, MOST_COUNTED, is_text, shown
from hetopt.data.entities import Floats
from hetopt.errors import InvalidInstance

Place = Callable[[int], str]
"""Position of a row -> what messages call it, e.g. ``"jobs.csv, line 7"``."""


def has(table: pd.DataFrame, columns: Iterable[str], what: str) -> None:
    """Refuse a table without rows, or without one of these columns."""
    if missing := [key for key in columns if key not in table.columns]:
        raise InvalidInstance(f"{what} has no column {', '.join(missing)}; it must have {', '.join(columns)}")
    if table.empty:
        raise InvalidInstance(f"{what} has no row; it must have one for each job")


def numbers(column: pd.Series[Any], place: Place, *, strict: bool = True, whole: bool = False) -> Floats:
    """The column as numbers >= 0 (``strict``: > 0), whole ones if asked for."""
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    good = ((values > 0) | ((values == 0) & (not strict))) & (values <= (MOST_COUNTED if whole else MOST))
    if whole:
        good &= values == np.floor(values)
    refuse(column, good, place, f"a {'whole' if whole else 'finite'} number {'>' if strict else '>='} 0")
    return values


def names(column: pd.Series[Any], place: Place, *, unique: bool = False) -> pd.Series[Any]:
    """The column as names, ``unique`` ones if asked for."""
    refuse(column, [is_text(value) for value in column.tolist()], place, "a non-empty name on one line")
    if unique:
        refuse(column, ~column.duplicated(), place, "unlike the names above it")
    return column.astype(object)


def refuse(column: pd.Series[Any], good: Any, place: Place, wanted: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidInstance` for the first cell that is not good."""
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        first = int(bad[0])
        raise InvalidInstance(f"{place(first)}: {column.name} is {shown(column.iloc[first])}; it must be {wanted}")
