"""Columns of a trace's table, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, MOST_COUNTED, is_text, shown
from hetopt.data.entities import Floats
from hetopt.errors import InvalidInstance
from hetopt.traces.lines import line_of

Place = Callable[[int], str]
"""Position of a row -> what messages call it, e.g. ``"jobs.csv, line 7"``."""


def row_of(table: pd.DataFrame) -> Place:
    """What messages call a row of a table: the line of its file, or its label; and its job where it names one."""

    def place(row: int) -> str:
        job = table["job"].iloc[row] if "job" in table.columns else None
        line = line_of(table, row)
        where = f"row {table.index[row]!r} of the table" if line is None else f"line {line}"
        return where + (f" (job {job!r})" if is_text(job) else "")

    return place


def has(table: pd.DataFrame, columns: Iterable[str], what: str, row: str = "job") -> None:
    """Refuse a table without rows, of which each is a ``row``, or without one of these columns."""
    if missing := [key for key in columns if key not in table.columns]:
        raise InvalidInstance(f"{what} has no column {', '.join(missing)}; it must have {', '.join(columns)}")
    if table.empty:
        raise InvalidInstance(f"{what} has no row; it must have one for each {row}")


def numbers(
    column: pd.Series[Any],
    place: Place,
    *,
    strict: bool = True,
    whole: bool = False,
    empty: bool = False,
    most: float | None = None,
) -> Floats:
    """The column as numbers >= 0 (``strict``: > 0), whole ones if asked for, up to ``most`` (default: any count, any).

    ``empty`` cells are NaN, if they may be.
    """
    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    limit = (MOST_COUNTED if whole else MOST) if most is None else most
    good = ((values > 0) | ((values == 0) & (not strict))) & (values <= limit)
    if whole:
        good &= values == np.floor(values)
    wanted = f"a {'whole' if whole else 'finite'} number {'>' if strict else '>='} 0"
    if empty:
        good |= (column == "").to_numpy(dtype=bool)
        wanted += ", or empty"
    if (most is not None and most < MOST) or (values[np.isfinite(values)] > limit).any():
        wanted += f", at most {limit:g}"
    refuse(column, good, place, wanted)
    return values


def names(column: pd.Series[Any], place: Place, *, unique: bool = False, empty: bool = False) -> pd.Series[Any]:
    """The column as names, ``unique`` ones if asked for; ``empty`` cells stay empty, if they may be."""
    good = [is_text(value) or (empty and value == "") for value in column.tolist()]
    refuse(column, good, place, f"a {'' if empty else 'non-empty '}name on one line")
    if unique:
        refuse(column, ~column.duplicated(), place, "unlike the names above it")
    return column.astype(object)


def clock(column: pd.Series[Any], place: Place, *, empty: Any = False) -> pd.Series[Any]:
    """The column as dates with times such as ``2017-09-04 10:30:41``; cells that are ``empty`` are no time (NaT)."""
    when = pd.to_datetime(column.astype(object), format="%Y-%m-%d %H:%M:%S", errors="coerce")
    refuse(column, when.notna() | empty, place, "a time such as 2017-09-04 10:30:41")
    return when


def refuse(column: pd.Series[Any], good: Any, place: Place, wanted: str) -> None:
    """Raise :class:`~hetopt.errors.InvalidInstance` for the first cell that is not good."""
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        first = int(bad[0])
        raise InvalidInstance(
            f"{place(first)}: {column.name} is {shown(column.iloc[[first]].tolist()[0])}; it must be {wanted}"
        )
