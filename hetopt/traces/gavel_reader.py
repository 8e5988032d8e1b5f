"""Traces of Gavel's scheduler [Gavel], and of Shockwave's, which derives from it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from hetopt.checks import MOST, FrozenDict, one_of
from hetopt.data.array_types import Floats
from hetopt.data.workload import TrainingPhase
from hetopt.errors import InvalidInstance
from hetopt.traces.batch_sizes import adapted, phases_text
from hetopt.traces.csv_readers import NO_GPU, default_names
from hetopt.traces.raw_files import FilePath, Head, csv_cells, head, recognised_by
from hetopt.traces.trace_table import Locate, locate_in, make_trace, names_of, numbers_of, require_columns

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
"""Keys of throughputs."""

JOB_TYPE = re.compile(r"(.+) \(batch size (\d{1,9})\)")
"""A type of jobs: model and batch size."""


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
    """Read the jobs in a ``.trace`` of Gavel or Shockwave, in order of arrival.

    Parameters
    ----------
    path:
        A file without header, also compressed (``.trace.gz``), with one line per job and tabs between cells: 6, 7 or 10
        cells in Gavel's traces, 11 or 12 in Shockwave's; see :data:`FORMS`.
    throughputs:
        Steps per second: a DataFrame, or a CSV file, with columns ``job_type``, ``scale_factor`` and one named
        ``gpu_type``; 0 where a job cannot run. The duration of a job is then ``total_steps`` over its throughput, as in
        Gavel; that of a job that changes its batch size (mode ``accordion`` or ``gns``) follows from its phases. They
        must be of the same machines as the trace: Shockwave's durations follow from its own throughputs, which differ
        from Gavel's by factors of up to 9.6.
    gpu_type:
        The column of ``throughputs``.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (``j`` and its number in the file, from 0), ``arrival``,
        ``duration``, ``gpus`` (the scale factor), ``model`` (the job's type, such as ``ResNet-18 (batch size 32)``),
        ``iterations`` (steps). Without throughputs, ``duration`` is the duration in the file, else NaN; with them, it
        is NaN for jobs that are not in the table or cannot run. With throughputs, a trace with modes also has
        ``phases``. Jobs of 0 GPUs are left out.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`; or ``throughputs`` is not a table with these columns.
    """
    begin = head(path)
    first = begin.cells("\t")
    if first and len(first) not in FORMS:
        known = ", ".join(map(str, FORMS))
        problem = InvalidInstance(f"has {len(first)} cells; a trace of Gavel has {known} cells between tabs")
        raise problem.in_file(str(path), begin.skipped + 1)
    form = FORMS.get(len(first), FORMS[10])
    raw, locate = csv_cells(path, columns=form, separator="\t")
    if raw.empty:
        raise locate(InvalidInstance("has no row; it must have one for each job"))
    model = names_of(raw["job_type"], locate)
    gpus = numbers_of(raw["scale_factor"], locate, strict=False, whole=True)
    steps = numbers_of(raw["total_steps"], locate, whole=True, most=MOST)
    phases = np.full(len(raw), "", dtype=object)
    if throughputs is not None:
        speed = _speeds(throughputs, gpu_type)
        duration = steps / speed.reindex(pd.MultiIndex.from_arrays([model, gpus])).to_numpy(dtype=float)
        if "mode" in form:
            own = _phases(raw["mode"], model, gpus, steps, speed)
            changes, whole = [bool(parts) for parts in own], [sum(phase.work for phase in parts) for parts in own]
            duration = np.where(changes, whole, duration)
            phases = np.array([phases_text(parts) for parts in own], dtype=object)
    elif "duration" in form:
        duration = numbers_of(raw["duration"], locate)
    else:
        duration = np.full(len(raw), np.nan)
    columns = {
        "job": default_names(len(raw)),
        "arrival": numbers_of(raw["arrival_time"], locate, strict=False),
        "duration": duration,
        "gpus": gpus,
        "model": model,
        "iterations": steps,
        **({"phases": phases} if (phases != "").any() else {}),
    }
    return make_trace(columns, locate, {NO_GPU: gpus == 0})


def _phases(
    mode: pd.Series[str], model: pd.Series[str], gpus: Floats, steps: Floats, speed: pd.Series[float]
) -> list[tuple[TrainingPhase, ...]]:
    """The phases of each job, none where the batch size stays."""
    known: dict[tuple[str, float], dict[int, float]] = {}
    per_second = speed.dropna()
    for (job_type, number), own in zip(per_second.index.tolist(), per_second.tolist(), strict=True):
        if found := JOB_TYPE.fullmatch(job_type):
            known.setdefault((found[1], number), {})[int(found[2])] = own
    phases = list[tuple[TrainingPhase, ...]]()
    for how, job_type, number, total in zip(mode, model, gpus.tolist(), steps.tolist(), strict=True):
        if found := JOB_TYPE.fullmatch(job_type):
            speeds = known.get((found[1], number), {})
            phases.append(adapted(how, found[1], int(found[2]), int(number), total, speeds))
        else:
            phases.append(())
    return phases


def _speeds(throughputs: pd.DataFrame | FilePath, gpu_type: str) -> pd.Series[float]:
    """(job type, scale factor) -> steps per second, NaN where it is 0."""
    table: pd.DataFrame
    locate: Locate
    if isinstance(throughputs, pd.DataFrame):
        table, locate = throughputs.reset_index(drop=True), locate_in(throughputs, "throughputs")
    else:
        table, locate = csv_cells(throughputs)
    require_columns(table, KEY, locate)
    one_of(gpu_type, [str(name) for name in table.columns if name not in KEY], "gpu_type")
    keys = pd.DataFrame(
        {
            "job_type": names_of(table["job_type"], locate),
            "scale_factor": numbers_of(table["scale_factor"], locate, whole=True),
        }
    )
    if (twice := keys.duplicated().to_numpy()).any():
        row = int(np.argmax(twice))
        problem = f"is {keys['job_type'][row]!r}, with scale_factor {keys['scale_factor'][row]:g} twice; keep one"
        raise locate(InvalidInstance(problem, "job_type"), row)
    speed = pd.Series(numbers_of(table[gpu_type], locate, strict=False), index=pd.MultiIndex.from_frame(keys))
    return speed.where(speed > 0)
