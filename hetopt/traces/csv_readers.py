"""CSV files with one row per job, as written by clusters' logs and schedulers' simulators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from hetopt.checks import MOST, FrozenDict
from hetopt.traces.raw_files import Cells, FilePath, Head, csv_cells, recognised_by
from hetopt.traces.trace_table import TEXTS, make_trace, names_of, numbers_of, require_columns, times_of

NO_TRAINING = "0 seconds of training"
NO_GPU = "no GPU"
"""Reasons for leaving jobs out."""


@dataclass(frozen=True)
class CSVLayout:
    """The mapping from the columns of a CSV file to those of a trace.

    Attributes
    ----------
    columns:
        Column of the trace -> column of the file. Without ``job``, jobs are numbered in the order of the file; without
        ``arrival``, it follows from ``clock``.
    clock:
        Column with the timestamp of the submission, such as ``2017-09-04 10:30:41``, which also has the hour.
    optional:
        Like ``columns``, for columns that the file may lack.
    markers:
        Unused columns that distinguish this layout from others.
    ticks_per_second:
        Unit of time of the file: 1000 for milliseconds.
    zero_duration:
        Whether a duration may be 0, so that the job is left out; else 0 is an error.
    """

    columns: Mapping[str, str]
    clock: str | None = None
    optional: Mapping[str, str] = field(default_factory=FrozenDict)
    markers: tuple[str, ...] = ()
    ticks_per_second: float = 1.0
    zero_duration: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that the file must have."""
        first = (self.columns.get("job"), self.clock)
        rest = (column for key, column in self.columns.items() if key != "job")
        return tuple(dict.fromkeys(column for column in (*first, *rest, *self.markers) if column))

    def fits(self, header: Sequence[str]) -> bool:
        """Whether a file with these columns has all required ones."""
        return set(self.required) <= set(header)

    def fitness(self, header: Collection[str]) -> tuple[float, int]:
        """Part of the required columns that a file with these columns has, and their number; larger: a better fit."""
        found = set(self.required) & set(header)
        return len(found) / len(self.required), len(found)


CLEANED = CSVLayout(
    FrozenDict(job="job_id", arrival="submit_s", duration="duration_s", gpus="num_gpus", tenant="vc"),
    clock="submit_time",
)
"""Philly's jobs in the cleaned form of this project."""

POLLUX = CSVLayout(FrozenDict(duration="duration", gpus="num_gpus", tenant="cluster"), clock="timestamp")
"""``philly.csv`` of Pollux' simulator and others; rows are not in order."""

TIRESIAS = CSVLayout(
    FrozenDict(job="job_id", arrival="submit_time", duration="duration", gpus="num_gpu", model="model_name"),
    optional=FrozenDict(iterations="iterations"),
)
"""Tiresias' simulator and many simulators derived from it."""

CHRONUS = CSVLayout(FrozenDict({**TIRESIAS.columns, "iterations": "iterations", "tenant": "user"}))
"""Chronus' simulator; its users are Philly's virtual clusters."""

MURI = CSVLayout(
    FrozenDict({**TIRESIAS.columns, "iterations": "iterations"}),
    markers=("batch_size", "iteration_time"),
    ticks_per_second=1000.0,
)
"""Muri's simulator, in milliseconds."""

ELASTIC_FLOW = CSVLayout(FrozenDict({**TIRESIAS.columns, "iterations": "iteration"}), markers=("ddl",))
"""ElasticFlow's simulator."""

PAL = CSVLayout(
    FrozenDict(job="job_id", arrival="submit_time", duration="duration", gpus="num_gpus", model="model"),
)
"""PAL's and Blox' simulators."""

PHILLY = (
    CLEANED,
    POLLUX,
    CHRONUS,
    replace(CHRONUS, columns=FrozenDict({**CHRONUS.columns, "tenant": "vc"})),
    MURI,
    ELASTIC_FLOW,
    PAL,
)
"""Layouts in which Philly's jobs are published."""

HELIOS = CSVLayout(
    FrozenDict(job="job_id", duration="duration", gpus="gpu_num", tenant="vc", user="user", status="state"),
    clock="submit_time",
    optional=FrozenDict(group="jobname"),
    zero_duration=True,
)
"""``cluster_log.csv`` of Helios; its first release has names of jobs."""


def read_layout(path: FilePath, *layouts: CSVLayout) -> pd.DataFrame:
    """Read the jobs in a CSV file with one of these layouts.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`. If no layout fits, the message is about the closest.
    """
    cells = csv_cells(path)
    header = set(cells.table.columns)
    layout = max(layouts, key=lambda it: it.fitness(header))
    require_columns(cells.table, layout.required, cells.locate)
    return _read(cells, layout)


def _read(cells: Cells, layout: CSVLayout) -> pd.DataFrame:
    raw, locate = cells
    found = {key: column for key, column in layout.optional.items() if column in raw.columns}
    used = {**layout.columns, **found}
    columns: dict[str, Any] = {}
    columns["job"] = default_names(len(raw))
    if "job" in used:
        columns["job"] = "j" + names_of(raw[used["job"]], locate, unique=True)
    if layout.clock:
        when = times_of(raw[layout.clock], locate)
        columns["arrival"] = (when - when.min()).dt.total_seconds()
        columns["hour"] = when.dt.hour
    if "arrival" in used:
        columns["arrival"] = numbers_of(raw[used["arrival"]], locate, strict=False) / layout.ticks_per_second
    columns["duration"] = (
        numbers_of(raw[used["duration"]], locate, strict=not layout.zero_duration) / layout.ticks_per_second
    )
    columns["gpus"] = numbers_of(raw[used["gpus"]], locate, strict=False, whole=True)
    if "iterations" in used:
        columns["iterations"] = numbers_of(raw[used["iterations"]], locate, whole=True, most=MOST)
    for key in TEXTS:
        if key in used:
            columns[key] = names_of(raw[used[key]], locate, empty=key in layout.optional)
    left_out = {NO_GPU: columns["gpus"] == 0, NO_TRAINING: columns["duration"] == 0}
    return make_trace(columns, locate, left_out)


def default_names(jobs: int) -> pd.Series[Any]:
    """Names of jobs without names, as simulators number them: ``j0``, ``j1``, …"""
    return pd.Series([f"j{i}" for i in range(jobs)], dtype=object)


@recognised_by(lambda head: HELIOS.fits(head.cells()))
def read_helios(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a ``cluster_log.csv`` of SenseTime's Helios clusters in 2020 [Helios], in order of arrival.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per job and the columns ``job_id``, ``user``, ``vc``,
        ``gpu_num``, ``state``, ``submit_time`` (such as ``2020-06-09 18:41:01``), ``duration`` (seconds of
        running), and ``jobname`` in some releases. Others are ignored.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (``j`` and its number in the log), ``arrival``, ``duration``,
        ``gpus``, ``tenant`` (the virtual cluster), ``user``, ``group`` (the job's name), ``status``, ``hour`` (on the
        log's clock). Left out are jobs of 0 GPUs, over half of the log, and those that never ran.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    return read_layout(path, HELIOS)


def _is_tiresias(head: Head) -> bool:
    header = head.cells()
    return TIRESIAS.fits(header) and not any(layout.fits(header) for layout in PHILLY)


@recognised_by(_is_tiresias)
def read_tiresias(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a CSV file for Tiresias' simulator [Tiresias] and its descendants, in order of arrival.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per job and the columns ``job_id``, ``num_gpu``,
        ``submit_time`` and ``duration`` (seconds), ``model_name``, and optionally ``iterations``. Others, such as
        ``interval``, are ignored.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (``j`` and its number in the file), ``arrival``, ``duration``,
        ``gpus``, ``model``, ``iterations``. Jobs of 0 GPUs are left out.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    return read_layout(path, TIRESIAS)
