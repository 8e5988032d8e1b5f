"""Tables of a run as they come back from its folder, in the types in which the simulation made them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from hetopt.metrics.gangs import seats_in
from hetopt.simulation.log import ROUNDS, SPANS

ENDINGS = ("csv.gz", "parquet")
"""Of the files."""

COLUMNS = {
    "jobs": ("tenant", "demand", "arrival", "start", "finish", "jct", "work", "done", "rounds", "lost"),
    "spans": tuple(SPANS),
    "rounds": tuple(ROUNDS),
    "decision_seconds": ("seconds",),
}
"""What tables cannot do without; the others have a column for each tenant."""

TEXTS = ("job", "tenant", "servers", "gpu_type", "seats", "given_up")
"""Columns of text: no number, and no word such as NA, is anything else there."""


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """The table of that name.

    Raises
    ------
    FileNotFoundError
        It is not there.
    ValueError, OSError, EOFError, ImportError
        It cannot be read, or lacks a column.
    """
    path = folder / f"{name}.csv.gz"
    frame = _cells(path, name) if path.exists() else pd.read_parquet(folder / f"{name}.parquet")
    if missing := [column for column in COLUMNS.get(name, ()) if column not in frame]:
        raise ValueError(f"column {missing[0]} is missing")
    return _typed(frame, name)


def _cells(path: Path, name: str) -> pd.DataFrame:
    """A table as it was written. A job may be called 001, 1e3 or NA, and a tenant "servers"."""
    columns = pd.read_csv(path, nrows=0).columns
    texts = [column for column in columns if column in TEXTS and name in COLUMNS]
    return pd.read_csv(
        path,
        index_col=0,
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={column: [""] for column in columns if column not in texts},
    )


def _check(frame: pd.DataFrame, name: str) -> None:
    """Raise ValueError where something else than a number stands in a column of numbers, or seats are none."""
    for column in frame.columns:
        if column in TEXTS and name in COLUMNS:
            continue
        try:
            pd.to_numeric(frame[column])
        except (TypeError, ValueError) as problem:
            raise ValueError(f"column {column}: {problem}") from None
    for text in frame["seats"].unique().tolist() if name == "spans" else ():
        seats_in(text)


def _typed(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table as the simulation made it."""
    _check(frame, name)
    if name == "jobs":
        frame.index = frame.index.astype(str)
        frame["rounds"] = frame["rounds"].astype("Int64")
    if name == "rounds":
        frame["given_up"] = frame["given_up"].map(json.loads)
    if name not in COLUMNS:
        frame.columns.name = "tenant"
        frame.index = frame.index.astype(float if name == "estimated" else int)
    for column in ("job", "tenant", "servers", "gpu_type", "seats"):
        if column in frame and name in ("jobs", "spans"):
            none, missing = "" if column == "servers" else None, (frame[column].isna() | (frame[column] == "")).tolist()
            texts = [none if gone else str(value) for value, gone in zip(frame[column], missing, strict=True)]
            frame[column] = pd.Series(texts, index=frame.index, dtype=object)
    return frame
