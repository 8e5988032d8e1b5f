"""CSV files with the columns of the table itself, into which every trace can be converted."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, choices, shown
from hetopt.data.saving import save
from hetopt.errors import InvalidInstance
from hetopt.traces.cells import FilePath, Head, csv_cells, located, recognised_by
from hetopt.traces.columns import Place, has, names, numbers, refuse
from hetopt.traces.table import OPTIONAL, REQUIRED, TEXTS, finished

COLUMNS = (*REQUIRED, *OPTIONAL)


def _recognises(head: Head) -> bool:
    return len({*REQUIRED} & {*head.cells()}) > 1  # so that a misspelt column is said to be missing


@recognised_by(_recognises)
def read_plain(path: FilePath) -> pd.DataFrame:
    """The jobs in a CSV file with the columns of :mod:`~hetopt.traces.table`, in the order in which they arrive.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with a row for each job, the columns ``job``, ``arrival``,
        ``duration`` and ``gpus``, and any of ``tenant``, ``user``, ``group``, ``model``, ``iterations``, ``gpu_type``,
        ``status`` and ``hour``. Others are refused, so that no misspelt one is overlooked. Cells with text and
        iterations may be empty, and durations where there are iterations.

    Returns
    -------
    DataFrame
        With the file's columns. Arrivals stay as they are: the first need not be 0.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`; or there is another column.
    """
    raw, place = csv_cells(path)
    return _checked(raw, place, str(path))


def write_plain(table: pd.DataFrame, path: FilePath, *, overwrite: bool = False) -> None:
    """Write a trace as a CSV file that :func:`read_plain` reads back without loss, but for its ``attrs``.

    Parameters
    ----------
    table:
        A trace, as every reader and generator gives it.
    path:
        The file; compressed if its name ends with ``.gz``.
    overwrite:
        Whether a file that is there already is replaced.

    Raises
    ------
    InvalidInstance
        The table is none, has a column missing or of another name, or a row is no job.
    UnusableFile
        The file is there already, or its folder is absent or not allowed to be written.
    """
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"the trace is {shown(table)}; it must be a pandas DataFrame")
    made = _checked(table.reset_index(drop=True), lambda row: f"row {row} of the trace", "the trace")
    text = made.to_csv(index=False, lineterminator="\n").encode()
    target = located(path)
    save(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text, target, overwrite=overwrite)


def _checked(raw: pd.DataFrame, place: Place, source: str) -> pd.DataFrame:
    """The table of these cells, which are text or values."""
    has(raw, REQUIRED, source)
    if unknown := [str(name) for name in raw.columns if name not in COLUMNS]:
        raise InvalidInstance(
            f"{source} has the column {unknown[0]!r}, which no trace has; {choices(unknown[0], COLUMNS)}"
        )
    columns: dict[str, Any] = {
        "job": names(raw["job"], place, unique=True),
        "arrival": numbers(raw["arrival"], place, strict=False),
        "gpus": numbers(raw["gpus"], place, whole=True),
        **{key: names(raw[key], place, empty=True) for key in TEXTS if key in raw},
    }
    steps = np.full(len(raw), np.nan)
    if "iterations" in raw:
        steps = columns["iterations"] = numbers(_emptied(raw["iterations"]), place, whole=True, empty=True, most=MOST)
    columns["duration"] = numbers(_emptied(raw["duration"]), place, empty=True)
    known = ~np.isnan(columns["duration"]) | ~np.isnan(steps)
    refuse(raw["duration"], known, place, "a finite number > 0 where there are no iterations")
    if "hour" in raw:
        columns["hour"] = numbers(raw["hour"], place, strict=False, whole=True, most=23)
    return finished(columns, source, since_first=False, place=place)


def _emptied(column: pd.Series[Any]) -> pd.Series[Any]:
    """The column with empty text for NaN."""
    return column.astype(object).where(column.notna(), "")
