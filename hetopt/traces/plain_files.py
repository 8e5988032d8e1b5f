"""CSV files with the columns of the trace table, to which every trace can be converted."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import MOST, choices, shown
from hetopt.data.saving import save
from hetopt.errors import InvalidInstance
from hetopt.traces.raw_files import FilePath, as_path, csv_cells, recognised_by
from hetopt.traces.trace_table import (
    LINE,
    OPTIONAL,
    REQUIRED,
    TEXTS,
    Locate,
    check_cells,
    locate_in,
    make_trace,
    names_of,
    numbers_of,
    require_columns,
)

COLUMNS = (*REQUIRED, *OPTIONAL)


@recognised_by(lambda head: len({*REQUIRED} & {*head.cells()}) > 1)  # a misspelt column is then reported as missing
def read_plain(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a CSV file with the columns of :mod:`~hetopt.traces.trace_table`, in order of arrival.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per job, the columns ``job``, ``arrival``,
        ``duration`` and ``gpus``, and any of ``tenant``, ``user``, ``group``, ``model``, ``iterations``, ``gpu_type``,
        ``job_class``, ``status``, ``hour`` and ``phases``. Others are refused, so that no misspelt column is ignored.
        Cells of text and iterations may be empty, and durations if there are iterations.

    Returns
    -------
    DataFrame
        With the file's columns. Arrivals stay as they are: the first need not be 0.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`; or there is another column.
    """
    raw, locate = csv_cells(path)
    return _checked(raw, locate)


def write_plain(table: pd.DataFrame, path: FilePath, *, overwrite: bool = False) -> None:
    """Write a trace as a CSV file that :func:`read_plain` reads back without loss, except for ``attrs`` and ``line``.

    Parameters
    ----------
    table:
        A trace from a reader or generator.
    path:
        The file; compressed if it ends in ``.gz``.
    overwrite:
        Whether to replace an existing file.

    Raises
    ------
    InvalidInstance
        It is not a table, lacks a column or has an unknown one, or a row is not a job.
    UnusableFile
        The file exists, or its folder is absent or not writable.
    """
    if not isinstance(table, pd.DataFrame):
        raise InvalidInstance(f"is {shown(table)}; it must be a pandas DataFrame", "table")
    given = table.drop(columns=LINE, errors="ignore").reset_index(drop=True)
    made = _checked(given, locate_in(given))
    text = made.to_csv(index=False, lineterminator="\n").encode()
    target = as_path(path)
    save(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text, target, overwrite=overwrite)


def _checked(raw: pd.DataFrame, locate: Locate) -> pd.DataFrame:
    """The trace table of these cells, which are text or values."""
    require_columns(raw, REQUIRED, locate)
    if unknown := [str(name) for name in raw.columns if name not in COLUMNS]:
        problem = f"has the column {unknown[0]!r}, which traces do not have; {choices(unknown[0], COLUMNS)}"
        raise locate(InvalidInstance(problem))
    columns: dict[str, Any] = {
        "job": names_of(raw["job"], locate, unique=True),
        "arrival": numbers_of(raw["arrival"], locate, strict=False),
        "gpus": numbers_of(raw["gpus"], locate, whole=True),
        **{key: names_of(raw[key], locate, empty=True) for key in TEXTS if key in raw},
    }
    steps = np.full(len(raw), np.nan)
    if "iterations" in raw:
        steps = columns["iterations"] = numbers_of(
            _emptied(raw["iterations"]), locate, whole=True, empty=True, most=MOST
        )
    columns["duration"] = numbers_of(_emptied(raw["duration"]), locate, empty=True)
    known = ~np.isnan(columns["duration"]) | ~np.isnan(steps)
    check_cells(raw["duration"], known, locate, "a finite number > 0 where there are no iterations")
    if "hour" in raw:
        columns["hour"] = numbers_of(raw["hour"], locate, strict=False, whole=True, most=23)
    return make_trace(columns, locate, since_first=False)


def _emptied(column: pd.Series[Any]) -> pd.Series[Any]:
    """The column with empty text instead of NaN."""
    return column.astype(object).where(column.notna(), "")
