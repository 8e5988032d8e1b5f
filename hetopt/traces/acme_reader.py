"""Jobs of the Shanghai AI Laboratory's clusters Seren and Kalos, which develop large language models [Acme]."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.traces.csv_readers import NO_GPU, NO_TRAINING
from hetopt.traces.pai_reader import EAST
from hetopt.traces.raw_files import FilePath, csv_cells, recognised_by
from hetopt.traces.trace_table import make_trace, names_of, numbers_of, require_columns, times_of

COLUMNS = ("job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time")
"""Columns that :func:`read_acme` needs."""


@recognised_by(lambda head: set(COLUMNS) <= set(head.cells()))
def read_acme(path: FilePath) -> pd.DataFrame:
    """Read the jobs in a ``trace_seren.csv`` or ``trace_kalos.csv`` of AcmeTrace, in order of arrival.

    A job trains from its start to its end. The column ``duration`` is ignored: in the table of Kalos it counts from
    the submission, contrary to the trace's description.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per job and the :data:`COLUMNS`; times have an offset
        from UTC, such as ``2023-03-01 00:18:22+08:00``. Others are ignored.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (``j`` and its id), ``arrival``, ``duration``, ``gpus``,
        ``user``, ``job_class`` (``type``: the stage of development, such as ``Pretrain`` or ``Eval``), ``status``,
        ``hour`` (in UTC+8). Left out are jobs without GPU, and those that never started or have not ended.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    raw, locate = csv_cells(path)
    require_columns(raw, COLUMNS, locate)
    gpus = numbers_of(raw["gpu_num"], locate, strict=False, whole=True)
    submitted = times_of(raw["submit_time"], locate, zone=True)
    started, ended = (times_of(raw[key], locate, empty=raw[key] == "", zone=True) for key in ("start_time", "end_time"))
    seconds = (ended - started).dt.total_seconds().to_numpy()
    columns = {
        "job": "j" + names_of(raw["job_id"], locate, unique=True),
        "arrival": (submitted - submitted.min()).dt.total_seconds(),
        "duration": seconds,
        "gpus": gpus,
        "user": names_of(raw["user"], locate),
        "job_class": names_of(raw["type"], locate, empty=True),
        "status": names_of(raw["state"], locate, empty=True),
        "hour": (submitted + pd.Timedelta(seconds=EAST)).dt.hour,
    }
    left_out = {
        NO_GPU: gpus == 0,
        "no time of start": started.isna(),
        "no time of end": ended.isna(),
        NO_TRAINING: np.nan_to_num(seconds) <= 0,
    }
    return make_trace(columns, locate, left_out)
