"""Reading a trace of any kind; the kind is given, or detected from the start of the file."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hetopt.checks import shown
from hetopt.errors import HetoptError, InvalidInstance, InvalidOption
from hetopt.plugins import TRACES, raised
from hetopt.traces.raw_files import FilePath, head
from hetopt.traces.trace_table import REQUIRED, locate_in, require_columns


def read_trace(path: FilePath, kind: str | None = None, **settings: Any) -> pd.DataFrame:
    """Read the jobs of a trace of any known kind, in order of arrival.

    Parameters
    ----------
    path:
        A file, also compressed (``.gz``), or a folder if the kind has several files.
    kind:
        One of :func:`~hetopt.registry.trace_kinds`, or ``module:Name`` of a function ``(path, …) -> DataFrame``.
        Default: detected from the start of the file.
    settings:
        Further arguments of the reader, such as ``throughputs`` of :func:`~hetopt.traces.gavel_reader.read_gavel`.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`.

    Raises
    ------
    UnusableFile, InvalidInstance
        The file cannot be read, or is not of this kind, see :func:`~hetopt.traces.philly_reader.read_philly`; or it is
        of no known kind, or might be of several.
    UnknownName
        There is no such kind.
    InvalidOption
        ``path`` is not a path; the reader has no such setting, or refuses its value; or a reader of another package
        fails or does not return a trace.
    """
    name = detect_kind(path) if kind is None else kind
    reader = TRACES.make(name, settings)
    try:
        table = reader(path)
    except HetoptError:
        raise
    except Exception as problem:  # readers of other packages may raise anything
        raise InvalidOption(f"trace reader {name!r} fails on {path}: {raised(problem)}") from problem
    if not isinstance(table, pd.DataFrame):
        raise InvalidOption(f"trace reader {name!r} returns {shown(table)}; it must return a pandas DataFrame")
    require_columns(table, REQUIRED, locate_in(table, f"from trace reader {name!r} for {path}"))
    return table


def detect_kind(path: FilePath) -> str:
    """Detect the kind of a trace from the start of its file.

    Raises
    ------
    UnusableFile
        The file cannot be read.
    InvalidInstance
        It is of no known kind, or may be of several.
    """
    start = head(path)
    if not (start.lines or start.path.is_dir()):
        raise InvalidInstance("is empty; a trace has a row for each job").in_file(str(path))
    kinds = []
    for name in TRACES.points:
        try:
            recognises = getattr(TRACES.factory(name), "recognises", None)
        except HetoptError:  # a broken package must not disable other kinds
            continue
        if callable(recognises) and recognises(start):
            kinds.append(name)
    if len(kinds) != 1:
        begins = f"; it begins with {shown(start.lines[0])}" if start.lines else ""
        unknown = f"is not in a known trace format{begins}"
        if start.path.is_dir():
            unknown = "is a folder without servers.csv (of an instance) and without pai_job_table.csv (of a PAI trace)"
        problem = f"may be of kind {' or '.join(kinds)}" if kinds else unknown
        advice = f"give kind= (--kind), one of {', '.join(TRACES.points)}, or module:Name"
        raise InvalidInstance(f"{problem}; {advice}").in_file(str(path))
    return kinds[0]
