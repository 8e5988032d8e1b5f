"""Files of traces as cells of text, with the lines of the file."""

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
from hetopt.traces.trace_table import FileRows, Locate

ENOUGH = 1 << 16
"""Characters at the start of a file that are read to detect its kind."""

FilePath = str | os.PathLike[str]
Reader = TypeVar("Reader", bound=Callable[..., pd.DataFrame])


class Head(NamedTuple):
    """The start of a file, or the files of a folder, by which the kind of a trace is detected.

    Attributes
    ----------
    path:
        The file or folder.
    lines:
        The first lines of a file, from the first non-empty one; none for a folder.
    skipped:
        Number of empty lines before them.
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
    """A file as a table of text, with the locations of its rows."""

    table: pd.DataFrame
    locate: Locate


def recognised_by(test: Callable[[Head], bool]) -> Callable[[Reader], Reader]:
    """Decorate a reader with the test by which :func:`~hetopt.traces.kinds.read_trace` detects its files.

    A reader without a test is used only if its kind is named.
    """

    def mark(reader: Reader) -> Reader:
        reader.recognises = test  # type: ignore[attr-defined]
        return reader

    return mark


def as_path(path: Any) -> Path:
    """``path`` as a :class:`~pathlib.Path`.

    Raises
    ------
    InvalidOption
        It is not a path.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise InvalidOption(f"is {shown(path)}; it must be text or a pathlib.Path", "path")
    return Path(path)


def head(path: FilePath) -> Head:
    """Read the start of the file, or list the folder.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`csv_cells`.
    """
    source = as_path(path)
    if source.is_dir():
        with _translated_errors(source, "a trace"):
            return Head(source, files=frozenset(entry.name for entry in source.iterdir()))
    with _translated_errors(source, "a trace"), opened(source, "replace") as file:
        lines = file.read(ENOUGH).splitlines()
    skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    return Head(source, tuple(lines[skipped : skipped + 20]), skipped)


def whole_text(path: FilePath, what: str) -> str:
    """The text of a file; ``what`` is its format in messages. Raises as :func:`csv_cells`."""
    source = as_path(path)
    with _translated_errors(source, what), opened(source) as file:
        return file.read()


def csv_cells(path: FilePath, *, columns: Sequence[str] = (), used: Sequence[str] = (), separator: str = ",") -> Cells:
    """Read the cells of a file as text; empty rows are skipped.

    Parameters
    ----------
    path:
        A file, also compressed (``.gz``).
    columns:
        Names of the columns; default: the first line.
    used:
        Columns to read, if the file has them; default: all.
    separator:
        Separator of cells; quotes are allowed only with commas.

    Raises
    ------
    UnusableFile
        The file is absent, a folder, or not readable.
    InvalidInstance
        It is not a table: it is empty, binary or damaged, or a row has more cells than there are columns.
    InvalidOption
        ``path`` is not a path.
    """
    start = head(path)
    what = "CSV" if separator == "," else "a table with tabs"
    header = start.cells()
    if not columns and (twice := [name for name in header if header.count(name) > 1]):
        problem = InvalidInstance(f"has the column {twice[0]!r} twice; keep one")
        raise problem.in_file(str(path), start.skipped + 1)
    with _translated_errors(start.path, what):
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
        raise InvalidInstance("has more cells than there are columns").in_file(str(path), first)
    lines = np.arange(first, first + len(table))
    blank = (table.iloc[:, 0] == "").to_numpy(dtype=bool, copy=True)
    if blank.any():
        blank[blank] = (table[blank] == "").all(axis=1)
        table, lines = table[~blank].reset_index(drop=True), lines[~blank]
    return Cells(table, FileRows(str(path), lines))


def opened(path: Path, errors: str = "strict") -> IO[str]:
    """The file as text, uncompressed if its name ends with ``.gz``."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors)
    return path.open(encoding="utf-8-sig", errors=errors)


@contextmanager
def _translated_errors(path: Path, what: str) -> Iterator[None]:
    """Translate the errors of reading a file to errors of hetopt."""
    try:
        yield
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    except UnicodeDecodeError:
        other = InvalidInstance("is not text in UTF-8; save it as that")
        raise other.in_file(str(path), _line_of_other_encoding(path)) from None
    except (ValueError, EOFError, zlib.error, csv.Error) as damage:  # damaged archives, errors of pandas
        raise InvalidInstance(f"is not {what}: {' '.join(str(damage).split())}").in_file(str(path)) from None


def _line_of_other_encoding(path: Path) -> int | None:
    """The first line that is not UTF-8."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None
