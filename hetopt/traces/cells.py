"""Files of traces as cells of text, with the lines on which they stand."""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from hetopt.checks import shown
from hetopt.errors import InvalidInstance, InvalidOption, UnusableFile
from hetopt.traces.columns import Place
from hetopt.traces.lines import InFile

ENOUGH = 1 << 16
"""Characters from a file's beginning that tell what it is."""

FilePath = str | os.PathLike[str]
R = TypeVar("R", bound=Callable[..., pd.DataFrame])


class Head(NamedTuple):
    """What shows of which kind a trace is, before it is read.

    Attributes
    ----------
    path:
        Of the file or folder.
    lines:
        The first lines of a file, from the first in which something stands; none of a folder.
    skipped:
        How many lines are empty before.
    files:
        Names of the files in a folder.
    """

    path: Path
    lines: tuple[str, ...] = ()
    skipped: int = 0
    files: frozenset[str] = frozenset()

    def cells(self, separator: str = ",") -> list[str]:
        """The cells of the first line."""
        if separator != ",":
            return self.lines[0].split(separator) if self.lines else []
        return next(csv.reader(self.lines[:1]), [])


class Cells(NamedTuple):
    """A file as a table of text, with what messages call its rows."""

    table: pd.DataFrame
    place: Place


def recognised_by(test: Callable[[Head], bool]) -> Callable[[R], R]:
    """Decorator of a reader: which files :func:`~hetopt.traces.reading.read_trace` takes for its own.

    A reader without it is used only where its kind is asked for by name.
    """

    def mark(reader: R) -> R:
        reader.__dict__["recognises"] = test
        return reader

    return mark


def located(path: Any) -> Path:
    """``path`` as a path.

    Raises
    ------
    InvalidOption
        It is none.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise InvalidOption(f"the path of a trace is {shown(path)}; it must be text or a pathlib.Path")
    return Path(path)


def head(path: FilePath) -> Head:
    """What shows of which kind the file or folder is.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`csv_cells`.
    """
    place = located(path)
    if place.is_dir():
        with _said(place, "a trace"):
            return Head(place, files=frozenset(entry.name for entry in place.iterdir()))
    with _said(place, "a trace"), opened(place, "replace") as file:
        lines = file.read(ENOUGH).splitlines()
    skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    return Head(place, tuple(lines[skipped : skipped + 20]), skipped)


def whole_text(path: FilePath, what: str) -> str:
    """The text of a file that is ``what``; see :func:`csv_cells` for what is raised."""
    place = located(path)
    with _said(place, what), opened(place) as file:
        return file.read()


def csv_cells(path: FilePath, *, columns: Sequence[str] = (), used: Sequence[str] = (), separator: str = ",") -> Cells:
    """The cells of a file as text; rows in which nothing stands are no rows.

    Parameters
    ----------
    path:
        A file, also compressed (its name then ends with ``.gz``).
    columns:
        Their names; by default the first line says them.
    used:
        Columns to read; by default all. Those that the file lacks are not there.
    separator:
        What stands between cells; only between commas may there be quotes.

    Raises
    ------
    UnusableFile
        The file is absent, a folder, or not allowed to be read.
    InvalidInstance
        It is no such table: it is empty, no text, damaged, or a row has more cells than there are columns.
    InvalidOption
        ``path`` is no path.
    """
    start = head(path)
    what = "CSV" if separator == "," else "a table with tabs"
    if not columns:
        _check_header(start)
    with _said(start.path, what):
        table = pd.read_csv(
            start.path,
            sep=separator,
            quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
            header=None if columns else start.skipped,
            names=list(columns) or None,
            usecols=(lambda name: name in used) if used else None,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            compression="gzip" if start.path.suffix == ".gz" else None,
            encoding="utf-8",
        ).fillna("")
    first = 1 if columns else start.skipped + 2
    if not isinstance(table.index, pd.RangeIndex):
        raise InvalidInstance(f"{path}, line {first}: it has more cells than there are columns")
    lines = np.arange(first, first + len(table))
    blank = (table.iloc[:, 0] == "").to_numpy(dtype=bool, copy=True)
    if blank.any():
        blank[blank] = (table[blank] == "").all(axis=1)
        table, lines = table[~blank].reset_index(drop=True), lines[~blank]
    return Cells(table, InFile(str(path), lines))


def _check_header(start: Head) -> None:
    header = start.cells()
    if twice := [name for name in header if header.count(name) > 1]:
        raise InvalidInstance(f"{start.path} has the column {twice[0]!r} twice; keep one")


def opened(path: Path, errors: str = "strict") -> IO[str]:
    """The file as text, uncompressed if its name ends with ``.gz``."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors)
    return path.open(encoding="utf-8-sig", errors=errors)


@contextmanager
def _said(path: Path, what: str) -> Iterator[None]:
    """What goes wrong when a file is read, as one line of ours."""
    try:
        yield
    except OSError as problem:
        raise UnusableFile(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise InvalidInstance(f"{path}{_line_of_other_encoding(path)} is not text in UTF-8; save it as that") from None
    except (ValueError, EOFError, zlib.error, csv.Error) as problem:  # wrong encodings, damaged archives, pandas' own
        raise InvalidInstance(f"{path} is not {what}: {' '.join(str(problem).split())}") from None


def _line_of_other_encoding(path: Path) -> str:
    """The first line that is no UTF-8, as messages call it."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return f", line {number}"
    return ""
