"""Rows of a trace as jobs."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance

COLUMNS = ("job", "arrival", "duration", "gpus", "user", "group")


def as_jobs(table: pd.DataFrame, throughput: Mapping[str, float] | None = None) -> list[Job]:
    """The jobs of a trace; their iterations take a second each, so that their work is their duration.

    Parameters
    ----------
    table:
        Columns ``job``, ``arrival`` and ``duration`` (seconds), ``gpus``, ``user`` and ``group``, as
        :meth:`~hetopt.traces.pai.PAILike.table` makes them.
    throughput:
        GPU type -> iterations per second; by default 1 on the only type, ``GPU``.

    Raises
    ------
    InvalidInstance
        A column is missing, or a row is no valid job.
    """
    if missing := [key for key in COLUMNS if key not in table.columns]:
        raise InvalidInstance(f"the trace has no column {', '.join(missing)}; it must have {', '.join(COLUMNS)}")
    speed = {"GPU": 1.0} if throughput is None else throughput
    columns = zip(*(table[key].tolist() for key in COLUMNS), strict=True)
    return [
        Job(name, speed, work=seconds, demand=gpus, arrival=arrival, tenant=user, group=group)
        for name, arrival, seconds, gpus, user, group in columns
    ]
