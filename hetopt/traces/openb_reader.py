"""Pods of Alibaba's GPU cluster in 2023, many of which share a GPU [FGD]."""

from __future__ import annotations

import pandas as pd

from hetopt.traces.csv_readers import NO_GPU, NO_TRAINING
from hetopt.traces.raw_files import FilePath, csv_cells, recognised_by
from hetopt.traces.trace_table import make_trace, names_of, numbers_of, require_columns

COLUMNS = (
    "name",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
"""Columns that :func:`read_openb` needs."""


@recognised_by(lambda head: set(COLUMNS) <= set(head.cells()))
def read_openb(path: FilePath) -> pd.DataFrame:
    """Read the pods in an ``openb_pod_list_….csv`` as jobs, in order of arrival.

    A pod trains from its scheduled time to its deletion. A pod with a fraction of a GPU
    (``gpu_milli`` < 1000) counts as one GPU; ``attrs["rounded_up"]`` has their number.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with one row per pod and the :data:`COLUMNS`; times are seconds.
        Others are ignored.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.trace_table`: ``job`` (the pod's name), ``arrival``, ``duration``, ``gpus``,
        ``gpu_type`` (the accepted types, such as ``V100M16|V100M32``; empty: any), ``status`` (its phase). Left out
        are pods without GPU, and those that were never scheduled, not deleted, or deleted at once.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly_reader.read_philly`.
    """
    raw, locate = csv_cells(path)
    require_columns(raw, COLUMNS, locate)
    gpus = numbers_of(raw["num_gpu"], locate, strict=False, whole=True)
    milli = numbers_of(raw["gpu_milli"], locate, strict=False, whole=True, most=1000)
    created = numbers_of(raw["creation_time"], locate, strict=False)
    deleted, scheduled = (numbers_of(raw[key], locate, strict=False, empty=True) for key in COLUMNS[-2:])
    columns = {
        "job": names_of(raw["name"], locate, unique=True),
        "arrival": created,
        "duration": deleted - scheduled,
        "gpus": gpus,
        "gpu_type": names_of(raw["gpu_spec"], locate, empty=True),
        "status": names_of(raw["pod_phase"], locate, empty=True),
    }
    left_out = {
        NO_GPU: gpus == 0,
        "no time at which they were scheduled": pd.isna(scheduled),
        "no time of deletion": pd.isna(deleted),
        NO_TRAINING: deleted <= scheduled,
    }
    return make_trace(columns, locate, left_out, rounded_up=(gpus == 1) & (milli < 1000))
