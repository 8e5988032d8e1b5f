"""Jobs of SenseTime's Helios clusters in 2020 [Helios]."""

from __future__ import annotations

import pandas as pd

from hetopt.traces.cells import FilePath, Head, recognised_by
from hetopt.traces.layouts import HELIOS, read_layout


def _recognises(head: Head) -> bool:
    return HELIOS.fits(head.cells())


@recognised_by(_recognises)
def read_helios(path: FilePath) -> pd.DataFrame:
    """The jobs in a ``cluster_log.csv`` of Helios, in the order in which they arrive.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with a row for each job and the columns ``job_id``, ``user``, ``vc``,
        ``gpu_num``, ``state``, ``submit_time`` (such as ``2020-06-09 18:41:01``), ``duration`` (seconds in which it
        ran), and ``jobname`` where the release has it. Others are not looked at.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`: ``job`` (``j`` and its number in the log), ``arrival``, ``duration``, ``gpus``,
        ``tenant`` (the virtual cluster), ``user``, ``group`` (the job's name), ``status``, ``hour`` (on the log's
        clock). Left out are jobs of 0 GPUs, over half of the log, and those that never ran.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`.
    """
    return read_layout(path, HELIOS)
