"""Jobs as Tiresias' simulator, and many that descend from it, read them [Tiresias]."""

from __future__ import annotations

import pandas as pd

from hetopt.traces.cells import FilePath, Head, recognised_by
from hetopt.traces.layouts import PHILLY, TIRESIAS, read_layout


def _recognises(head: Head) -> bool:
    header = head.cells()
    return TIRESIAS.fits(header) and not any(layout.fits(header) for layout in PHILLY)


@recognised_by(_recognises)
def read_tiresias(path: FilePath) -> pd.DataFrame:
    """The jobs in a CSV file for Tiresias' simulator, in the order in which they arrive.

    Parameters
    ----------
    path:
        A CSV file, also compressed (``.csv.gz``), with a row for each job and the columns ``job_id``, ``num_gpu``,
        ``submit_time`` and ``duration`` (seconds), ``model_name``, and ``iterations`` if it is there. Others, such as
        ``interval``, are not looked at.

    Returns
    -------
    DataFrame
        See :mod:`~hetopt.traces.table`: ``job`` (``j`` and its number in the file), ``arrival``, ``duration``,
        ``gpus``, ``model``, ``iterations``. Jobs of 0 GPUs are left out.

    Raises
    ------
    UnusableFile, InvalidInstance, InvalidOption
        See :func:`~hetopt.traces.philly.read_philly`.
    """
    return read_layout(path, TIRESIAS)
