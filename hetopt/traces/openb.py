"""Pods of Alibaba's GPU cluster in 2023, of which many share a GPU [FGD]."""

from __future__ import annotations

import pandas as pd

from hetopt.traces.cells import FilePath, Head, csv_cells, recognised_by
from hetopt.traces.columns import has, names, numbers
from hetopt.traces.layouts import IDLE, NO_GPU
from hetopt.traces.table import finished

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
"""What :func:`read_openb` needs."""


def _recognises(head: Head) -> bool:
    return set(COLUMNS) <= set(head.cells())


@recognised_by(_recognises)
def read_openb(path: FilePath) -> pd.DataFrame:
    """The pods in an ``openb_pod_list_….csv`` as jobs, in the order in which they arrive.

    A pod trains from when it was scheduled to when it was deleted. One that asks for a part of a GPU
    (``gpu_milli`` < 1000) counts as one GPU; ``attrs["rounded_up"]`` says how many do.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with a row for each pod and the :data:`COLUMNS`; times are seconds.
        Others are not looked at.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`: ``job`` (the pod's name), ``arrival``, ``duration``, ``gpus``, ``gpu_type``
        (those that it accepts, such as ``V100M16|V100M32``; empty: any), ``status`` (its phase). Left out are pods
        without GPU, and those that were never scheduled, not deleted, or deleted at once.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`.
    """
    raw, place = csv_cells(path)
    has(raw, COLUMNS, str(path))
    gpus = numbers(raw["num_gpu"], place, strict=False, whole=True)
    milli = numbers(raw["gpu_milli"], place, strict=False, whole=True, most=1000)
    created = numbers(raw["creation_time"], place, strict=False)
    deleted, scheduled = (numbers(raw[key], place, strict=False, empty=True) for key in COLUMNS[-2:])
    columns = {
        "job": names(raw["name"], place, unique=True),
        "arrival": created,
        "duration": deleted - scheduled,
        "gpus": gpus,
        "gpu_type": names(raw["gpu_spec"], place, empty=True),
        "status": names(raw["pod_phase"], place, empty=True),
    }
    left_out = {
        NO_GPU: gpus == 0,
        "no time at which they were scheduled": pd.isna(scheduled),
        "no time of deletion": pd.isna(deleted),
        IDLE: deleted <= scheduled,
    }
    return finished(columns, str(path), left_out, rounded_up=(gpus == 1) & (milli < 1000), place=place)
