"""The table that every reader and generator of traces returns, and the checks of its columns.

One row per job in order of arrival, with the columns :data:`REQUIRED` and, where the source has them, any of
:data:`OPTIONAL`:

``job``
    Text, unique.
``arrival``, ``duration``
    Seconds since the first arrival; seconds of training.
``gpus``
    Number of GPUs that the job uses at once, whole and >= 1.
``tenant``, ``user``, ``group``, ``model``, ``gpu_type``, ``job_class``, ``status``
    Text, empty where the source has none: virtual cluster or organisation; submitting user; group of recurring
    submissions; trained model; requested or received GPU type; priority or kind of work, such as ``Spot`` or
    ``Pretrain``; final state.
``phases``
    Text, empty where the batch size stays: epochs by batch size, see :mod:`~hetopt.traces.batch_sizes`.
``iterations``
    Total number of steps, at the first batch size.
``hour``
    Hour of the day of the submission, 0 to 23.
``line``
    Line of the source file, from 1; error messages name it. Only tables that were read from a file with one line per
    job have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.checks import MOST, MOST_COUNTED, is_text, shown
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidInstance, Item

REQUIRED = ("job", "arrival", "duration", "gpus")
"""Columns of every trace."""

TEXTS = ("tenant", "user", "group", "model", "gpu_type", "job_class", "status", "phases")
"""Optional columns of text."""

OPTIONAL = ("tenant", "user", "group", "model", "iterations", "gpu_type", "job_class", "status", "hour", "phases")
"""Optional columns of a source, in their order."""

LINE = "line"
"""Column with the line of the source file."""


class Locate(Protocol):
    """Adds to an error its file or table, and the place of a row there."""

    def __call__(self, problem: InvalidInstance, row: int | None = None) -> InvalidInstance:
        """The error about the row in this position; None: about the whole table."""
        ...


@dataclass(frozen=True, eq=False)
class FileRows:
    """Locations of rows that were read from a file.

    Attributes
    ----------
    path:
        The file.
    lines:
        (rows,) line of each row, from 1.
    """

    path: str
    lines: Integers

    def __call__(self, problem: InvalidInstance, row: int | None = None) -> InvalidInstance:
        """The error with file and line."""
        return problem.in_file(self.path, None if row is None else int(self.lines[row]))


def locate_in(table: pd.DataFrame, name: str = "trace") -> Locate:
    """Locations of the rows of a trace: the line of the file or the label in the index, with the job's name."""

    def locate(problem: InvalidInstance, row: int | None = None) -> InvalidInstance:
        if row is None:
            return problem.in_table(name)
        if is_text(job := table["job"].iloc[row] if "job" in table.columns else None):
            problem = problem.within("jobs", Item(job))
        line = line_of(table, row)
        return problem.in_table(name, table.index[row] if line is None else None, line)

    return locate


def locate_file(path: Any) -> Locate:
    """The file alone, for tables whose rows are no lines of it."""
    return lambda problem, _=None: problem.in_file(str(path))


def line_of(table: pd.DataFrame, row: int) -> int | None:
    """The line of the source file of that row; None if the table has no valid line for it."""
    line = table[LINE].iloc[row] if LINE in table.columns else None
    return int(line) if isinstance(line, (int, np.integer)) and line > 0 else None


def make_trace(
    columns: Mapping[str, Any],
    locate: Locate,
    left_out: Mapping[str, Any] | None = None,
    *,
    since_first: bool = True,
    rounded_up: Any = False,
) -> pd.DataFrame:
    """Build the table from checked columns: drop the rows that are left out, sort by arrival.

    Parameters
    ----------
    columns:
        Column -> checked values. Rows that are left out may be invalid, e.g. have no GPU.
    locate:
        Locations of the rows; with :class:`FileRows` the table gets the column ``line``.
    left_out:
        As ``reasons`` of :func:`leave_out`.
    since_first:
        Whether arrivals count from the first row that is kept; else they stay as they are.
    rounded_up:
        Mask of rows whose fraction of a GPU was rounded up in ``gpus``.

    Returns
    -------
    DataFrame
        Its ``attrs`` hold ``left_out``, a dict of reason -> number of rows, and ``rounded_up``, the number of kept rows
        that were rounded up.

    Raises
    ------
    InvalidInstance
        No row is left.
    """
    table = pd.DataFrame({key: columns[key] for key in (*REQUIRED, *OPTIONAL) if key in columns})
    if isinstance(locate, FileRows):
        table[LINE] = locate.lines
    kept, counts = leave_out(left_out or {}, len(table))
    if not kept.any():
        reasons = ", ".join(f"{number} with {reason}" for reason, number in counts.items())
        raise locate(InvalidInstance(f"has no job that can be used: {reasons or 'it is empty'}"))
    rounded = int(np.count_nonzero(kept & np.asarray(rounded_up, dtype=bool)))
    table = table[kept].sort_values("arrival", kind="stable", ignore_index=True)
    if since_first:
        table["arrival"] -= table["arrival"].iloc[0]
    for key in ("gpus", "hour", "iterations"):
        if key in table and not (key == "iterations" and table[key].isna().any()):
            table[key] = table[key].astype(np.int64)
    table.attrs = {"left_out": counts, "rounded_up": rounded}
    return table


def leave_out(reasons: Mapping[str, Any], rows: int) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """(rows,) whether a row is kept, and the number of rows that are not, by the first reason that applies.

    Parameters
    ----------
    reasons:
        Reason -> (rows,) mask of the rows that it excludes.
    """
    kept, counts = np.ones(rows, dtype=bool), {}
    for reason, mask in reasons.items():
        excluded = np.asarray(mask, dtype=bool)
        if number := int(np.count_nonzero(kept & excluded)):
            counts[reason] = number
        kept &= ~excluded
    return kept, counts


def require_columns(table: pd.DataFrame, columns: Iterable[str], locate: Locate, row: str = "job") -> None:
    """Refuse a table that lacks one of these columns or has no rows; each row describes a ``row``.

    Raises
    ------
    InvalidInstance
        A column is missing, or the table is empty.
    """
    if missing := [key for key in columns if key not in table.columns]:
        raise locate(InvalidInstance(f"has no column {', '.join(missing)}; it must have {', '.join(columns)}"))
    if table.empty:
        raise locate(InvalidInstance(f"has no row; it must have one for each {row}"))


def check_trace(table: pd.DataFrame, columns: Iterable[str] = REQUIRED) -> Locate:
    """Refuse a table that is not a trace; return the locations of its rows."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"is a {type(table).__name__}; it must be a pandas DataFrame", "table")
    locate = locate_in(table)
    require_columns(table, columns, locate)
    return locate


def numbers_of(
    column: pd.Series[Any],
    locate: Locate,
    *,
    strict: bool = True,
    whole: bool = False,
    empty: bool = False,
    most: float | None = None,
) -> Floats:
    """(rows,) the column as numbers.

    Parameters
    ----------
    strict:
        Whether numbers must be > 0; else >= 0.
    whole:
        Whether they must be integers.
    empty:
        Whether cells may be empty; they become NaN.
    most:
        The largest number allowed.

    Raises
    ------
    InvalidInstance
        A cell is not such a number; the error has the location of the first.
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
    check_cells(column, good, locate, wanted)
    return values


def names_of(column: pd.Series[Any], locate: Locate, *, unique: bool = False, empty: bool = False) -> pd.Series[Any]:
    """The column as non-empty names; ``unique`` requires different ones, ``empty`` allows empty cells.

    Raises
    ------
    InvalidInstance
        A cell is not such a name; the error has the location of the first.
    """
    good = [is_text(value) or (empty and value == "") for value in column.tolist()]
    check_cells(column, good, locate, f"a {'' if empty else 'non-empty '}name on one line")
    if unique:
        check_cells(column, ~column.duplicated(), locate, "unlike the names above it")
    return column.astype(object)


def times_of(column: pd.Series[Any], locate: Locate, *, empty: Any = False, zone: bool = False) -> pd.Series[Any]:
    """The column as timestamps such as ``2017-09-04 10:30:41``; cells in the mask ``empty`` become NaT.

    Parameters
    ----------
    zone:
        Whether they have an offset from UTC, such as ``2017-09-04 10:30:41+08:00``; the result is in UTC.

    Raises
    ------
    InvalidInstance
        Another cell is not a timestamp; the error has the location of the first.
    """
    form, example = "%Y-%m-%d %H:%M:%S", "2017-09-04 10:30:41"
    if zone:
        form, example = f"{form}%z", f"{example}+08:00"
    when = pd.to_datetime(column.astype(object), format=form, errors="coerce", utc=zone)
    check_cells(column, when.notna() | empty, locate, f"a time such as {example}")
    return when


def check_cells(column: pd.Series[Any], good: Any, locate: Locate, wanted: str) -> None:
    """Refuse the column if a cell is not ``good``.

    Raises
    ------
    InvalidInstance
        The error has location and value of the first such cell, and ``wanted``, the description of a good one.
    """
    bad = np.flatnonzero(~np.asarray(good, dtype=bool))
    if len(bad):
        first = int(bad[0])
        value = shown(column.iloc[[first]].tolist()[0])
        raise locate(InvalidInstance(f"is {value}; it must be {wanted}", str(column.name)), first)
