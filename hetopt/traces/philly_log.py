"""Philly's own log of its jobs, ``cluster_job_log``: a JSON list with every attempt to run each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import shown
from hetopt.errors import InvalidInstance
from hetopt.traces.cells import FilePath, whole_text
from hetopt.traces.columns import Place, clock, names, refuse
from hetopt.traces.layouts import IDLE, NO_GPU
from hetopt.traces.table import finished

TEXT = {"tenant": "vc", "user": "user", "status": "status"}
"""Column of the trace's table -> key of a job."""

JOB = ("jobid", "vc", "user", "status", "submitted_time", "attempts")
ATTEMPT = ("start_time", "end_time", "detail")
"""Keys that each job, and each of its attempts, must have."""

UNKNOWN = (None, "None", "")
"""How the log says that it does not know a time."""

Objects = list[dict[str, Any]]


def read_log(path: FilePath) -> pd.DataFrame:
    """The jobs in the log; see :func:`~hetopt.traces.philly.read_philly`."""
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
        raise InvalidInstance(_fault(jobs, str(path))) from None

    def place(row: int) -> str:
        return f"{path}, job {row + 1}"

    owner = np.repeat(np.arange(len(jobs)), tries)
    count = np.arange(len(owner)) - np.repeat(np.cumsum(tries) - tries, tries)

    def try_place(row: int) -> str:
        return f"{place(owner[row])}, attempt {count[row] + 1}"

    when = _times(submitted, "submitted_time", place)
    start, end = (_times(values, key, try_place) for key, values in times.items())
    seconds = (end - start).dt.total_seconds().to_numpy()
    columns = {
        "job": names(texts["jobid"], place, unique=True),
        "arrival": (when - when.min()).dt.total_seconds(),
        "duration": np.bincount(owner, np.nan_to_num(seconds), len(jobs)),
        "gpus": gpus,
        **{key: names(texts[source].fillna(""), place, empty=True) for key, source in TEXT.items()},
        "hour": when.dt.hour,
    }
    left_out = {
        "no attempt": tries == 0,
        "no time of submission": when.isna(),
        "an attempt without start or end": np.bincount(owner, np.isnan(seconds), len(jobs)),
        "an attempt that ends before it starts": np.bincount(owner, seconds < 0, len(jobs)),
        NO_GPU: gpus == 0,
        IDLE: columns["duration"] == 0,
    }
    return finished(columns, str(path), left_out)


def _load(path: FilePath) -> Objects:
    text = whole_text(path, "Philly's job log")
    try:
        jobs = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInstance(f"{path} is not JSON: {problem}") from None
    if not isinstance(jobs, list) or not jobs:
        raise InvalidInstance(f"{path} is {shown(jobs)}; it must be a JSON list of jobs, not an empty one")
    return jobs


def _gpus(attempt: dict[str, Any]) -> int:
    """How many the attempt used on all servers."""
    return sum(len(_list(server["gpus"])) for server in _list(attempt["detail"]))


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError
    return value


def _times(values: list[Any], key: str, place: Place) -> pd.Series[Any]:
    """Dates and times, NaT where the log knows none."""
    column = pd.Series(values, dtype=object, name=key)
    empty = np.array([type(value) in (str, type(None)) and value in UNKNOWN for value in values], dtype=bool)
    text = np.array([type(value) is str for value in values], dtype=bool)
    refuse(column, empty | text, place, "a time such as 2017-09-04 10:30:41")
    return clock(column, place, empty=empty)


def _fault(jobs: list[Any], path: str) -> str:
    """What is wrong with the first job that is not as it should be."""
    return next(fault for n, job in enumerate(jobs) for fault in _faults(job, f"{path}, job {n + 1}"))


def _faults(job: Any, place: str) -> Iterator[str]:
    yield from _lacks(job, place, JOB)
    yield from _no_list(job["attempts"], f"{place}: attempts", "attempts")
    for i, attempt in enumerate(job["attempts"]):
        where = f"{place}, attempt {i + 1}"
        yield from _lacks(attempt, where, ATTEMPT)
        yield from _no_list(attempt["detail"], f"{where}: detail", "servers")
        for server in attempt["detail"]:
            yield from _lacks(server, f"{where}: detail", ("gpus",))
            yield from _no_list(server["gpus"], f"{where}: gpus", "GPUs")


def _lacks(value: Any, place: str, keys: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} is {shown(value)}; it must be an object with {', '.join(keys)}"
    yield from (f"{place} has no {key}; it must have {', '.join(keys)}" for key in keys if key not in value)


def _no_list(value: Any, place: str, what: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{place} is {shown(value)}; it must be a list of {what}"
