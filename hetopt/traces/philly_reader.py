"""Jobs of Microsoft's Philly cluster in 2017, from the original log or from CSV files that derive from it.

Credit: "Microsoft Philly traces (Jeon et al., ATC 2019)" [Philly], CC-BY-4.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import shown
from hetopt.errors import InvalidInstance, KeyPath
from hetopt.traces.csv_readers import CLEANED, NO_GPU, NO_TRAINING, PHILLY, read_layout
from hetopt.traces.raw_files import FilePath, Head, head, recognised_by, whole_text
from hetopt.traces.trace_table import Locate, check_cells, make_trace, names_of, times_of

COLUMNS = CLEANED.required
"""Columns of the cleaned CSV form."""

TEXT = {"tenant": "vc", "user": "user", "status": "status"}
"""Column of the trace table -> key of a job in the log."""

JOB = ("jobid", "vc", "user", "status", "submitted_time", "attempts")
ATTEMPT = ("start_time", "end_time", "detail")
"""Required keys of each job of the log, and of each of its attempts."""

UNKNOWN = (None, "None", "")
"""Values of an unknown time in the log."""

Objects = list[dict[str, Any]]


def _is_log(head: Head) -> bool:
    return "".join(head.lines).lstrip().startswith("[")


@recognised_by(lambda head: _is_log(head) or any(layout.fits(head.cells()) for layout in PHILLY))
def read_philly(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a file of the trace, in order of arrival.

    Parameters
    ----------
    path:
        A file, also compressed (``.gz``), in one of these forms; other columns are ignored:

        - the original ``cluster_job_log``, a JSON list. A job trains while one of its attempts runs, on the GPUs of the
          first attempt. Left out are jobs without attempts, without time of submission, with attempts whose start or
          end is unknown or in the wrong order, and those that had no GPU or never ran;
        - CSV with one row per job and the columns ``job_id``, ``submit_time`` (such as ``2017-09-04 10:30:41``),
          ``submit_s`` (seconds since the first arrival), ``duration_s`` (seconds), ``num_gpus`` and ``vc`` (virtual
          cluster);
        - CSV of the simulators of Pollux (``timestamp``, ``duration``, ``num_gpus``, ``cluster``), Chronus (``job_id``,
          ``user`` or ``vc``, ``num_gpu``, ``submit_time``, ``iterations``, ``model_name``, ``duration``), Muri (the
          same in milliseconds, with ``iteration_time``), ElasticFlow (with ``iteration`` and ``ddl``), or PAL
          (``job_id``, ``num_gpus``, ``submit_time``, ``duration``, ``model``). Left out are jobs of 0 GPUs.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (in the log its own name; in CSV ``j`` and its number in the
        file), ``arrival``, ``duration``, ``gpus``, and if the file has them ``tenant`` (the virtual cluster),
        ``user``, ``model``, ``iterations``, ``status``, and ``hour`` of the submission, 0 to 23 on the trace's clock
        (its time zone is not documented). ``attrs["left_out"]`` has the number of jobs left out, by reason.

    Raises
    ------
    UnusableFile
        The file is absent, a folder, or not readable.
    InvalidInstance
        It is not JSON or CSV, a column is missing, a row is not a job, or no job is left; the message has line, column
        and value.
    InvalidOption
        ``path`` is not a path.
    """
    return _read_log(path) if _is_log(head(path)) else read_layout(path, *PHILLY)


def _read_log(path: FilePath) -> pd.DataFrame:
    """The jobs in ``cluster_job_log``, a JSON list with all attempts of each job."""
    jobs = _load(path)
    try:
        runs = [_list(job["attempts"]) for job in jobs]
        attempts = [attempt for run in runs for attempt in run]
        tries = np.array([len(run) for run in runs])
        gpus = np.array([_gpus(run[0]) if run else 0 for run in runs], dtype=float)
        texts = {key: pd.Series([job[key] for job in jobs], dtype=object, name=key) for key in JOB[:4]}
        times = {key: [attempt[key] for attempt in attempts] for key in ATTEMPT[:2]}
        submitted = [job["submitted_time"] for job in jobs]
    except (KeyError, TypeError):
        raise next(_faults(jobs)).in_file(str(path)) from None

    def locate(problem: InvalidInstance, row: int | None = None) -> InvalidInstance:
        return (problem if row is None else problem.within(row)).in_file(str(path))

    owner = np.repeat(np.arange(len(jobs)), tries)
    count = np.arange(len(owner)) - np.repeat(np.cumsum(tries) - tries, tries)

    def locate_attempt(problem: InvalidInstance, row: int | None = None) -> InvalidInstance:
        return locate(problem) if row is None else locate(problem.within("attempts", int(count[row])), int(owner[row]))

    when = _times(submitted, "submitted_time", locate)
    start, end = (_times(values, key, locate_attempt) for key, values in times.items())
    seconds = (end - start).dt.total_seconds().to_numpy()
    columns = {
        "job": names_of(texts["jobid"], locate, unique=True),
        "arrival": (when - when.min()).dt.total_seconds(),
        "duration": np.bincount(owner, np.nan_to_num(seconds), len(jobs)),
        "gpus": gpus,
        **{key: names_of(texts[source].fillna(""), locate, empty=True) for key, source in TEXT.items()},
        "hour": when.dt.hour,
    }
    left_out = {
        "no attempt": tries == 0,
        "no time of submission": when.isna(),
        "an attempt without start or end": np.bincount(owner, np.isnan(seconds), len(jobs)),
        "an attempt that ends before it starts": np.bincount(owner, seconds < 0, len(jobs)),
        NO_GPU: gpus == 0,
        NO_TRAINING: columns["duration"] == 0,
    }
    return make_trace(columns, locate, left_out)


def _load(path: FilePath) -> Objects:
    text = whole_text(path, "Philly's job log")
    try:
        jobs = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInstance(f"is not JSON: {problem}").in_file(str(path)) from None
    if not isinstance(jobs, list) or not jobs:
        wanted = "it must be a JSON list of jobs, not an empty one"
        raise InvalidInstance(f"is {shown(jobs)}; {wanted}").in_file(str(path))
    return jobs


def _gpus(attempt: dict[str, Any]) -> int:
    """GPUs of the attempt, summed over servers."""
    return sum(len(_list(server["gpus"])) for server in _list(attempt["detail"]))


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError
    return value


def _times(values: list[Any], key: str, locate: Locate) -> pd.Series[Any]:
    """Timestamps; NaT for unknown times."""
    column = pd.Series(values, dtype=object, name=key)
    empty = np.array([type(value) in (str, type(None)) and value in UNKNOWN for value in values], dtype=bool)
    text = np.array([type(value) is str for value in values], dtype=bool)
    check_cells(column, empty | text, locate, "a time such as 2017-09-04 10:30:41")
    return times_of(column, locate, empty=empty)


def _faults(jobs: Objects) -> Iterator[InvalidInstance]:
    """Errors of the jobs that are not well-formed."""
    for n, job in enumerate(jobs):
        yield from _lacks(job, (n,), JOB)
        yield from _no_list(job["attempts"], (n, "attempts"), "attempts")
        for i, attempt in enumerate(job["attempts"]):
            yield from _lacks(attempt, (n, "attempts", i), ATTEMPT)
            yield from _no_list(attempt["detail"], (n, "attempts", i, "detail"), "servers")
            for k, server in enumerate(attempt["detail"]):
                at = (n, "attempts", i, "detail", k)
                yield from _lacks(server, at, ("gpus",))
                yield from _no_list(server["gpus"], (*at, "gpus"), "GPUs")


def _lacks(value: Any, path: KeyPath, keys: tuple[str, ...]) -> Iterator[InvalidInstance]:
    if not isinstance(value, dict):
        yield InvalidInstance(f"is {shown(value)}; it must be an object with {', '.join(keys)}", path)
    yield from (
        InvalidInstance(f"has no {key}; it must have {', '.join(keys)}", path) for key in keys if key not in value
    )


def _no_list(value: Any, path: KeyPath, what: str) -> Iterator[InvalidInstance]:
    if not isinstance(value, list):
        yield InvalidInstance(f"is {shown(value)}; it must be a list of {what}", path)
