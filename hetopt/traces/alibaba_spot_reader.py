"""Jobs of Alibaba's GPU cluster of 2026, of high priority or on spot GPUs [GFS]."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.traces.csv_readers import NO_GPU, NO_TRAINING
from hetopt.traces.pai_reader import DIGITS
from hetopt.traces.raw_files import FilePath, csv_cells, recognised_by
from hetopt.traces.trace_table import check_cells, make_trace, names_of, numbers_of, require_columns

COLUMNS = (
    "job_name",
    "organization",
    "gpu_model",
    "gpu_request",
    "worker_num",
    "submit_time",
    "duration",
    "job_type",
)
"""Columns that :func:`read_alibaba_spot` needs."""

CLASSES = ("HP", "Spot")
"""High priority, with guarantees; and low priority, preempted where a job of high priority needs the GPUs."""


@recognised_by(lambda head: set(COLUMNS) <= set(head.cells()))
def read_alibaba_spot(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a ``job_info_df.csv`` of Alibaba's ``cluster-trace-v2026-spot-gpu``, in order of arrival.

    Each of ``worker_num`` workers has ``gpu_request`` GPUs or a part of one: requests never exceed the GPUs of a
    server. The sum is rounded up; ``attrs["rounded_up"]`` has the number of jobs with a fraction.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per job and the :data:`COLUMNS`; times are seconds.
        Others, such as ``cpu_request``, are ignored.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (``j`` and its number in the trace), ``arrival``, ``duration``,
        ``gpus``, ``tenant`` (the organisation), ``gpu_type``, ``job_class`` (one of :data:`CLASSES`), ``hour`` (if
        the trace begins at midnight, as its daily cycle suggests). Left out are jobs without GPU or duration.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    raw, locate = csv_cells(path)
    require_columns(raw, COLUMNS, locate)
    request = numbers_of(raw["gpu_request"], locate, strict=False)
    gpus = np.round(request * numbers_of(raw["worker_num"], locate, whole=True), DIGITS)
    submitted = numbers_of(raw["submit_time"], locate, strict=False)
    duration = numbers_of(raw["duration"], locate, strict=False)
    check_cells(raw["job_type"], raw["job_type"].isin(CLASSES), locate, f"one of {', '.join(CLASSES)}")
    columns = {
        "job": "j" + names_of(raw["job_name"], locate, unique=True),
        "arrival": submitted,
        "duration": duration,
        "gpus": np.ceil(gpus),
        "tenant": names_of(raw["organization"], locate),
        "gpu_type": names_of(raw["gpu_model"], locate),
        "job_class": raw["job_type"],
        "hour": submitted // 3600 % 24,
    }
    left_out = {NO_GPU: gpus == 0, NO_TRAINING: duration == 0}
    return make_trace(columns, locate, left_out, rounded_up=gpus != np.ceil(gpus))
