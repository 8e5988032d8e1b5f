"""Jobs as Gavel's scheduler, and Shockwave's, which descends from it, read them [Gavel]."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.checks import MOST, FrozenDict, choices, shown
from hetopt.data.entities import Floats
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.traces.cells import FilePath, Head, csv_cells, head, recognised_by
from hetopt.traces.columns import Place, has, names, numbers
from hetopt.traces.layouts import NO_GPU, numbered
from hetopt.traces.table import finished

BEGIN = ("job_type", "command")
STEPS = ("num_steps_arg", "needs_data_dir", "total_steps")
WEIGHTS = ("priority_weight", "SLO")

FORMS = FrozenDict(
    {
        len(form): form
        for form in (
            (*BEGIN, "num_steps_arg", "total_steps", "arrival_time", "scale_factor"),
            (*BEGIN, *STEPS, "arrival_time", "scale_factor"),
            (*BEGIN, "working_directory", *STEPS, "scale_factor", *WEIGHTS, "arrival_time"),
            (*BEGIN, "working_directory", *STEPS, "scale_factor", "mode", *WEIGHTS, "arrival_time"),
            (*BEGIN, "working_directory", *STEPS, "scale_factor", "mode", *WEIGHTS, "duration", "arrival_time"),
        )
    }
)
"""Number of columns -> their names, from Gavel's first traces to its last, and Shockwave's."""

KEY = ["job_type", "scale_factor"]
"""By which throughputs are looked up."""


def _recognises(head: Head) -> bool:
    first = head.cells("\t")
    if len(first) not in FORMS:
        return False
    steps = first[FORMS[len(first)].index("total_steps")]
    return steps.replace(".", "", 1).isdecimal()


@recognised_by(_recognises)
def read_gavel(
    path: FilePath, *, throughputs: pd.DataFrame | FilePath | None = None, gpu_type: str = "v100"
) -> pd.DataFrame:
    """The jobs in a ``.trace`` of Gavel or Shockwave, in the order in which they arrive.

    Parameters
    ----------
    path:
        A file without header, also compressed (``.trace.gz``), with a line for each job and tabs between its cells.
        These are 6, 7 or 10 in Gavel's traces, 11 or 12 in Shockwave's; see :data:`FORMS`.
    throughputs:
        Steps per second: a DataFrame, or a CSV file, with columns ``job_type``, ``scale_factor`` and one named
        ``gpu_type``; 0 where a job cannot run. A job's duration is then ``total_steps`` over its throughput, as Gavel
        has it. They must be of the same machines as the trace: Shockwave's durations follow from throughputs of its
        own, which differ from Gavel's by factors of up to 9.6.
    gpu_type:
        The column of ``throughputs``.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`: ``job`` (``j`` and its number in the file, from 0), ``arrival``, ``duration``,
        ``gpus`` (the scale factor), ``model`` (the job's type, such as ``ResNet-18 (batch size 32)``), ``iterations``
        (steps). Without throughputs, ``duration`` is what the file says, and NaN where it does not; with them, NaN for
        jobs that are not in the table or cannot run; ``attrs["without_duration"]`` says for how many. Jobs of 0 GPUs
        are left out.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`; or ``throughputs`` are no such table.
    """
    begin = head(path)
    first = begin.cells("\t")
    if first and len(first) not in FORMS:
        known = ", ".join(map(str, FORMS))
        raise InvalidInstance(
            f"{path}, line {begin.skipped + 1} has {len(first)} cells; in a trace of Gavel, tabs part {known} cells"
        )
    form = FORMS.get(len(first), FORMS[10])
    raw, place = csv_cells(path, columns=form, separator="\t")
    if raw.empty:
        raise InvalidInstance(f"{path} has no row; it must have one for each job")
    model = names(raw["job_type"], place)
    gpus = numbers(raw["scale_factor"], place, strict=False, whole=True)
    steps = numbers(raw["total_steps"], place, whole=True, most=MOST)
    if throughputs is not None:
        duration = steps / _speeds(throughputs, gpu_type, model, gpus)
    elif "duration" in form:
        duration = numbers(raw["duration"], place)
    else:
        duration = np.full(len(raw), np.nan)
    columns = {
        "job": numbered(len(raw)),
        "arrival": numbers(raw["arrival_time"], place, strict=False),
        "duration": duration,
        "gpus": gpus,
        "model": model,
        "iterations": steps,
    }
    table = finished(columns, str(path), {NO_GPU: gpus == 0}, place=place)
    table.attrs["without_duration"] = int(table["duration"].isna().sum())
    return table


def _speeds(throughputs: pd.DataFrame | FilePath, gpu_type: str, model: pd.Series[str], gpus: Floats) -> Floats:
    """Steps per second of each job, NaN where unknown or 0."""
    table: pd.DataFrame
    place: Place
    if isinstance(throughputs, pd.DataFrame):
        table, place, source = throughputs.reset_index(drop=True), lambda row: f"throughputs, row {row}", "throughputs"
    else:
        (table, place), source = csv_cells(throughputs), str(throughputs)
    has(table, KEY, source)
    if gpu_type not in table.columns:
        known = choices(str(gpu_type), [str(name) for name in table.columns if name not in KEY])
        raise InvalidOption(f"gpu_type is {shown(gpu_type)}, which is no column of {source}; {known}")
    keys = pd.DataFrame(
        {
            "job_type": names(table["job_type"], place),
            "scale_factor": numbers(table["scale_factor"], place, whole=True),
        }
    )
    if (twice := keys.duplicated().to_numpy()).any():
        row = int(np.argmax(twice))
        raise InvalidInstance(
            f"{place(row)}: job_type {keys['job_type'][row]!r} with scale_factor {keys['scale_factor'][row]:g} "
            "stands there twice; keep one"
        )
    speed = pd.Series(numbers(table[gpu_type], place, strict=False), index=pd.MultiIndex.from_frame(keys))
    found = speed.reindex(pd.MultiIndex.from_arrays([model, gpus])).to_numpy(dtype=float)
    return np.where(found > 0, found, np.nan)
