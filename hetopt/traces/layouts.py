"""CSV files with a row for each job, as clusters' logs and schedulers' simulators write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from hetopt.checks import MOST, FrozenDict
from hetopt.traces.cells import Cells, FilePath, csv_cells
from hetopt.traces.columns import clock, has, names, numbers
from hetopt.traces.table import TEXTS, finished

IDLE = "0 seconds of training"
NO_GPU = "no GPU"
"""Reasons for which jobs are left out."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a CSV file say what the table of a trace holds.

    Attributes
    ----------
    columns:
        Column of the trace's table -> that of the file. Without ``job``, jobs are numbered in the order of the file;
        without ``arrival``, it follows from ``clock``.
    clock:
        Column with the date and time of submission, such as ``2017-09-04 10:30:41``; from it follows the hour.
    further:
        Like ``columns``, of what need not be there.
    marks:
        Columns that are not used but tell this layout from others.
    units:
        Units of time in a second: 1000 where the file has milliseconds.
    idle:
        Whether a duration may be 0. Such a job is left out; else it is an error.
    """

    columns: Mapping[str, str]
    clock: str | None = None
    further: Mapping[str, str] = field(default_factory=FrozenDict)
    marks: tuple[str, ...] = ()
    units: float = 1.0
    idle: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that a file must have."""
        first = (self.columns.get("job"), self.clock)
        rest = (column for key, column in self.columns.items() if key != "job")
        return tuple(dict.fromkeys(column for column in (*first, *rest, *self.marks) if column))

    def fits(self, header: Sequence[str]) -> bool:
        """Whether a file with these columns has what is needed."""
        return set(self.needs) <= set(header)


CLEANED = Layout(
    FrozenDict(job="job_id", arrival="submit_s", duration="duration_s", gpus="num_gpus", tenant="vc"),
    clock="submit_time",
)
"""Philly's jobs as this project keeps them."""

POLLUX = Layout(FrozenDict(duration="duration", gpus="num_gpus", tenant="cluster"), clock="timestamp")
"""``philly.csv`` of Pollux' simulator, which others took over; rows are in no order."""

TIRESIAS = Layout(
    FrozenDict(job="job_id", arrival="submit_time", duration="duration", gpus="num_gpu", model="model_name"),
    further=FrozenDict(iterations="iterations"),
)
"""Tiresias' simulator, from which many later ones descend."""

CHRONUS = Layout(FrozenDict({**TIRESIAS.columns, "iterations": "iterations", "tenant": "user"}))
"""Chronus' simulator; its users are Philly's virtual clusters."""

MURI = Layout(
    FrozenDict({**TIRESIAS.columns, "iterations": "iterations"}), marks=("batch_size", "iteration_time"), units=1000.0
)
"""Muri's simulator, in milliseconds."""

ELASTIC_FLOW = Layout(FrozenDict({**TIRESIAS.columns, "iterations": "iteration"}), marks=("ddl",))
"""ElasticFlow's simulator."""

PAL = Layout(
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
"""Forms in which Philly's jobs go round."""

HELIOS = Layout(
    FrozenDict(job="job_id", duration="duration", gpus="gpu_num", tenant="vc", user="user", status="state"),
    clock="submit_time",
    further=FrozenDict(group="jobname"),
    idle=True,
)
"""``cluster_log.csv`` of Helios; its first release had the jobs' names."""


def read_layout(path: FilePath, *layouts: Layout) -> pd.DataFrame:
    """The jobs in a CSV file that is of one of these layouts.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`. If no layout fits, the message is about the nearest.
    """
    cells = csv_cells(path)
    header = set(cells.table.columns)
    layout = max(layouts, key=lambda it: (it.fits(list(header)), len(header & set(it.needs)) / len(it.needs)))
    has(cells.table, layout.needs, str(path))
    return _read(cells, layout, str(path))


def _read(cells: Cells, layout: Layout, source: str) -> pd.DataFrame:
    raw, place = cells
    found = {key: column for key, column in layout.further.items() if column in raw.columns}
    used = {**layout.columns, **found}
    columns: dict[str, Any] = {}
    if "job" in used:
        columns["job"] = "j" + names(raw[used["job"]], place, unique=True)
    else:
        columns["job"] = numbered(len(raw))
    if layout.clock:
        when = clock(raw[layout.clock], place)
        columns["arrival"] = (when - when.min()).dt.total_seconds()
        columns["hour"] = when.dt.hour
    if "arrival" in used:
        columns["arrival"] = numbers(raw[used["arrival"]], place, strict=False) / layout.units
    columns["duration"] = numbers(raw[used["duration"]], place, strict=not layout.idle) / layout.units
    columns["gpus"] = numbers(raw[used["gpus"]], place, strict=False, whole=True)
    if "iterations" in used:
        columns["iterations"] = numbers(raw[used["iterations"]], place, whole=True, most=MOST)
    for key in TEXTS:
        if key in used:
            columns[key] = names(raw[used[key]], place, empty=key in layout.further)
    left_out = {NO_GPU: columns["gpus"] == 0, IDLE: columns["duration"] == 0}
    return finished(columns, source, left_out, place=place)


def numbered(jobs: int) -> pd.Series[Any]:
    """Names of so many jobs that have none: ``j0``, ``j1``, … as simulators number them."""
    return pd.Series([f"j{i}" for i in range(jobs)], dtype=object)
