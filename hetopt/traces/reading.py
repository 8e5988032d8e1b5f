"""Traces read by kind: that which is asked for, or that which their beginning shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from hetopt.checks import shown
from hetopt.errors import HetoptError, InvalidInstance, InvalidOption
from hetopt.plugins import TRACES, raised
from hetopt.traces.cells import FilePath, Head, head
from hetopt.traces.columns import has
from hetopt.traces.table import REQUIRED


def read_trace(path: FilePath, kind: str | None = None, **settings: Any) -> pd.DataFrame:
    """The jobs of a trace of any known kind, in the order in which they arrive.

    Parameters
    ----------
    path:
        A file, also compressed (``.gz``), or a folder where the kind has several files.
    kind:
        One of :func:`~hetopt.registry.trace_kinds`, or ``module:Name`` of a reader of one's own, a function
        ``(path, …) -> DataFrame``. By default it is guessed from how the file begins.
    settings:
        Further arguments of the reader, such as ``throughputs`` of :func:`~hetopt.traces.gavel_traces.read_gavel`.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`.

    Raises
    ------
    UnusableFile, InvalidInstance
        The file cannot be read, or is not of that kind, see :func:`~hetopt.traces.philly.read_philly`; or it is of no
        known kind, or might be of several.
    UnknownName
        There is no such kind.
    InvalidOption
        ``path`` is no path; the reader has no such setting, or does not accept it; or a reader of somebody else fails,
        or returns no trace.
    """
    name = guess(path) if kind is None else kind
    reader = TRACES.make(name, settings)
    try:
        table = reader(path)
    except HetoptError:
        raise
    except Exception as problem:  # whatever the code of somebody else does
        raise InvalidOption(f"trace reader {name!r} fails on {path}: {raised(problem)}") from problem
    if not isinstance(table, pd.DataFrame):
        raise InvalidOption(f"trace reader {name!r} returns {shown(table)}; it must return a pandas DataFrame")
    has(table, REQUIRED, f"what trace reader {name!r} returns for {path}")
    return table


def guess(path: FilePath) -> str:
    """The kind of a trace, from how its file begins.

    Raises
    ------
    UnusableFile
        The file cannot be read.
    InvalidInstance
        It is of no known kind, or might be of several.
    """
    start = head(path)
    if not (start.lines or start.path.is_dir()):
        raise InvalidInstance(f"{path} is empty; a trace has a row for each job")
    kinds = [name for name, recognises in _tests() if recognises(start)]
    if len(kinds) != 1:
        unknown = f"begins like no known trace ({shown(start.lines[0])})" if start.lines else "holds no known trace"
        said = f"may be of kind {' or '.join(kinds)}" if kinds else unknown
        raise InvalidInstance(f"{path} {said}; say kind= (--kind), one of {', '.join(TRACES.points)}, or module:Name")
    return kinds[0]


def _tests() -> Iterator[tuple[str, Callable[[Head], bool]]]:
    """Every announced kind that can tell its files, and how."""
    for name in TRACES.points:
        try:
            test = getattr(TRACES.factory(name), "recognises", None)
        except HetoptError:  # a package that is half installed takes no other kind away
            continue
        if callable(test):
            yield name, test
