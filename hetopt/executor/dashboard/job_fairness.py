"""Finish-time fairness of jobs that are done, and an estimate for those that are not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hetopt.executor.queue import DONE, FINISHED, capacity_of
from hetopt.executor.snapshot import Snapshot
from hetopt.metrics.finish_time import mean_present, seconds_in_own_part


def fairness(now: Snapshot, unmeasured: Collection[str] = ()) -> pd.DataFrame:
    """Finish-time fairness by the definition ``"themis"`` of :func:`hetopt.metrics.finish_time.finish_time_fairness`.

    The cluster is that of now, with nodes that are down or drained, at all times. Speeds are measured ones; a type
    without a measurement, or without GPUs for the whole gang, does not count.

    Parameters
    ----------
    unmeasured:
        Names of jobs with GPU types that they may use and on which they were never measured.

    Returns
    -------
    DataFrame
        A row for each job for which it is known, by name:

        ``tenant``
            Its tenant.
        ``shared``
            Seconds from submission to finish. Of a running job, what is left counts at its present speed; of one
            without GPUs at its fastest measured speed, as if it ran from now on.
        ``ideal``
            Seconds in an own 1/N of the cluster. For jobs that are not finished, N is the mean until now.
        ``rho``
            ``shared / ideal``; below 1: sooner than in its own part.
        ``estimated``
            Whether rho may be too small: the job has no GPUs, or is in ``unmeasured``.

        Jobs that failed or were cancelled have none, and neither have jobs without a speed on a type that has room for
        the gang.
    """
    jobs, capacity = now.jobs, capacity_of({node["name"]: node for node in now.nodes})
    submitted, seconds, steps, workers = (
        np.array([job[key] for job in jobs], dtype=float) for key in ("submitted", "seconds", "steps", "workers")
    )
    speed = [[job["speeds"].get(t, 0.0) * (n >= job["workers"]) for t, n in capacity.items()] for job in jobs]
    number = mean_present(submitted, submitted + np.maximum(seconds, 0.0))
    gpus = np.array(list(capacity.values()), dtype=float)
    shared = seconds + np.array([_seconds_left(job) for job in jobs])
    ideal = seconds_in_own_part(steps, workers, np.reshape(speed, (len(jobs), len(gpus))), gpus, number)
    columns = {
        "tenant": [job["tenant"] for job in jobs],
        "shared": shared,
        "ideal": ideal,
        "rho": shared / ideal,
        "estimated": [
            job["name"] in unmeasured or (job["state"] != DONE and job["left_seconds"] is None) for job in jobs
        ],
    }
    return pd.DataFrame(columns, index=[job["name"] for job in jobs]).replace(np.inf, np.nan).dropna()


def _seconds_left(job: Mapping[str, Any]) -> float:
    """Seconds to the finish, estimated; NaN if the job failed, was cancelled, or has no measured speed."""
    if job["state"] in FINISHED:
        return 0.0 if job["state"] == DONE else np.nan
    if job["left_seconds"] is not None:
        return float(job["left_seconds"])
    fastest = max(job["speeds"].values(), default=0.0)
    return max(0, job["steps"] - job["step"]) / fastest if fastest > 0 else np.nan
