"""On which line of its file each job of a trace stands, also after the table has been filtered, sorted and copied."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hetopt.traces.drawing import Integers

KEY = "lines"
"""In the ``attrs`` of a table: text, for these are copied with every step and written into parquet files as JSON."""

ROW = np.dtype([("line", "<u4"), ("job", "<u4")])
"""A row of what that text packs: the line, and a checksum of the job's name."""


@dataclass(frozen=True, eq=False)
class InFile:
    """What messages call the rows of a file that has been read.

    Attributes
    ----------
    path:
        Of the file.
    lines:
        (rows,) line of each row, counted from 1.
    """

    path: str
    lines: Integers

    def __call__(self, row: int) -> str:
        """``jobs.csv, line 7``."""
        return f"{self.path}, line {self.lines[row]}"


def packed(lines: Integers, jobs: pd.Series[str]) -> str:
    """The lines of these jobs as text."""
    rows = np.empty(len(lines), ROW)
    rows["line"], rows["job"] = lines, [zlib.crc32(str(job).encode()) for job in jobs.tolist()]
    return base64.b64encode(zlib.compress(rows.tobytes())).decode()


def line_of(table: pd.DataFrame, row: int) -> int | None:
    """The line of the job in that row; None where it is not known, or the table's rows have been named anew."""
    label, text = table.index[row], table.attrs.get(KEY)
    if not isinstance(text, str) or not isinstance(label, (int, np.integer)) or "job" not in table.columns:
        return None
    try:
        rows = np.frombuffer(zlib.decompress(base64.b64decode(text)), ROW)
    except (binascii.Error, zlib.error, ValueError):
        return None
    same = 0 <= label < len(rows) and rows["job"][label] == zlib.crc32(str(table["job"].iloc[row]).encode())
    return int(rows["line"][label]) if same else None
