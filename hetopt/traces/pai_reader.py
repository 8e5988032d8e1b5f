"""Jobs of Alibaba's PAI cluster in 2020, from the published tables [MLaaS]."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.errors import InvalidInstance, UnusableFile
from hetopt.traces.csv_readers import NO_GPU, NO_TRAINING
from hetopt.traces.raw_files import Cells, FilePath, Head, as_path, csv_cells, head, recognised_by
from hetopt.traces.trace_table import Locate, locate_file, make_trace, names_of, numbers_of, require_columns

JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
INSTANCE = (
    "job_name",
    "task_name",
    "inst_name",
    "worker_name",
    "inst_id",
    "status",
    "start_time",
    "end_time",
    "machine",
)
GROUP = ("inst_id", "user", "gpu_type_spec", "group", "workload")
"""Columns of the four tables, in the order of files without header."""

DIGITS = 6
"""Digits of a number of GPUs: 6 times 16.6666667 % is one GPU."""

EAST = 8 * 3600
"""Offset of UTC+8 in seconds; as Unix times, PAI's times have the true hour of the day there."""


def _recognises(head: Head) -> bool:
    if head.files:
        return any(f"pai_job_table.csv{end}" in head.files for end in ("", ".gz"))
    return head.path.name.startswith("pai_job_table.csv") or tuple(head.cells()) == JOB


@recognised_by(_recognises)
def read_pai(
    path: FilePath,
    *,
    tasks: FilePath | None = None,
    instances: FilePath | None = None,
    groups: FilePath | None = None,
) -> pd.DataFrame:
    """Read the jobs in the tables of the trace, in order of arrival.

    A job arrives at its ``start_time``. It trains from the first start to the last end of its instances, or, without a
    table of instances, of its tasks. Its GPUs are ``inst_num * plan_gpu / 100``, summed over its tasks and rounded up;
    ``attrs["rounded_up"]`` has the number of jobs with a fraction.

    Parameters
    ----------
    path:
        The folder with ``pai_job_table.csv``, ``pai_task_table.csv``, and optionally
        ``pai_instance_table.csv`` and ``pai_group_tag_table.csv``; or the first of these files. Each may be compressed
        (``.csv.gz``), and have a header or, as published, none.
    tasks, instances, groups:
        The other files, if they are not in that folder under these names.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job``, ``arrival``, ``duration``, ``gpus``, ``user``, ``group`` and
        ``model`` (the tag and the workload of the table of groups), ``gpu_type`` (of most of its
        GPUs), ``status``, ``hour`` (in UTC+8). A time that is empty or 0 is unknown. Left out are jobs without task,
        without GPU, with GPU tasks of unknown size, without time of submission or of end, or whose instances never ran.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    given = as_path(path)
    folder, job_file = (given, _beside(given, "job")) if given.is_dir() else (given.parent, given)
    jobs, locate_job = _table(job_file or given / "pai_job_table.csv", JOB)
    index = pd.Index(names_of(jobs["job_name"], locate_job, unique=True))
    arrival, ended = (_seconds(jobs[key], locate_job) for key in ("start_time", "end_time"))
    task_file = tasks or _beside(folder, "task")
    if task_file is None:
        raise UnusableFile("has no pai_task_table.csv; name it with tasks=").in_file(str(folder))
    cells = _table(task_file, TASK)
    gpus, gpu_type, unknown = _gpus(cells, index)
    if (instance_file := instances or _beside(folder, "instance")) is not None:
        runs = _table(instance_file, INSTANCE, ("job_name", "start_time", "end_time"))
    else:
        runs = cells
    columns = {
        "job": index,
        "arrival": arrival,
        "duration": _running(runs, index),
        "gpus": np.ceil(gpus),
        "user": names_of(jobs["user"], locate_job, empty=True),
        "gpu_type": gpu_type,
        "status": names_of(jobs["status"], locate_job, empty=True),
        "hour": (arrival + EAST) // 3600 % 24,
    }
    if (group_file := groups or _beside(folder, "group_tag")) is not None:
        columns |= _tags(group_file, names_of(jobs["inst_id"], locate_job, empty=True))
    left_out = {
        "no task": ~index.isin(cells.table["job_name"]),
        "GPU tasks of unknown size": unknown,
        NO_GPU: gpus == 0,
        "no time of submission": np.isnan(arrival),
        "no time of end": np.isnan(ended),
        "no instance with known start and end": np.isnan(columns["duration"]),
        NO_TRAINING: columns["duration"] <= 0,
    }
    return make_trace(columns, locate_file(path), left_out, rounded_up=gpus != np.ceil(gpus))


def _beside(folder: Path, table: str) -> Path | None:
    """The file of a table in that folder, if it exists."""
    files = (folder / f"pai_{table}_table.csv{end}" for end in ("", ".gz"))
    return next((file for file in files if file.exists()), None)


def _table(path: FilePath, columns: Sequence[str], used: Sequence[str] = ()) -> Cells:
    begin = head(path)
    first = begin.cells()
    if columns[0] in first:
        cells = csv_cells(path, used=used)
        require_columns(cells.table, used or columns, cells.locate)
        return cells
    if first and len(first) != len(columns):
        wanted = f"{len(columns)}, for {', '.join(columns)}"
        problem = InvalidInstance(f"has {len(first)} cells; it must have {wanted}")
        raise problem.in_file(str(path), begin.skipped + 1)
    return csv_cells(path, columns=columns, used=used)


def _seconds(column: pd.Series[Any], locate: Locate) -> Floats:
    """Times, NaN for unknown ones."""
    values = numbers_of(column, locate, strict=False, empty=True)
    return np.where(values == 0, np.nan, values)


def _gpus(tasks: Cells, index: pd.Index[Any]) -> tuple[Floats, pd.Series[Any], Any]:
    """(jobs,) GPUs, the type of most of them, and whether some tasks have an unknown number."""
    raw, locate = tasks
    owner = index.get_indexer(pd.Index(names_of(raw["job_name"], locate)))
    plan, number = (numbers_of(raw[key], locate, strict=False, empty=True) for key in ("plan_gpu", "inst_num"))
    found = pd.DataFrame(
        {"owner": owner, "type": names_of(raw["gpu_type"], locate, empty=True), "percent": plan * number}
    )
    unknown = np.bincount(owner[(owner >= 0) & (plan > 0) & np.isnan(number)], minlength=len(index)) > 0
    found = found[(owner >= 0) & (found["percent"] > 0)]
    total = np.round(np.bincount(found["owner"], found["percent"], len(index)) / 100, DIGITS)
    by_type: pd.DataFrame = found[found["type"] != ""].groupby(["owner", "type"])["percent"].sum().reset_index()
    most = by_type.sort_values("percent", ascending=False, kind="stable").drop_duplicates("owner")
    types = pd.Series("", index=range(len(index)), dtype=object)
    types[most["owner"].to_numpy()] = most["type"].to_numpy()
    return total, types, unknown


def _running(runs: Cells, index: pd.Index[Any]) -> Floats:
    """(jobs,) seconds from the first start to the last end of the job's rows; NaN if one is unknown."""
    raw, locate = runs
    owner = index.get_indexer(pd.Index(names_of(raw["job_name"], locate)))
    times = pd.DataFrame({key: _seconds(raw[key], locate) for key in ("start_time", "end_time")})
    by_job = times.groupby(owner)
    seconds = by_job["end_time"].max() - by_job["start_time"].min()
    return seconds.reindex(range(len(index))).to_numpy(dtype=float)


def _tags(path: FilePath, inst_id: pd.Series[Any]) -> dict[str, pd.Series[Any]]:
    """Group and workload of each job."""
    raw, locate = _table(path, GROUP)
    tags = pd.DataFrame({key: names_of(raw[key], locate, empty=True) for key in ("group", "workload")})
    tags.index = pd.Index(names_of(raw["inst_id"], locate, empty=True))
    tags = tags[~tags.index.duplicated() & (tags.index != "")].reindex(inst_id).fillna("")
    return {"group": tags["group"].reset_index(drop=True), "model": tags["workload"].reset_index(drop=True)}
