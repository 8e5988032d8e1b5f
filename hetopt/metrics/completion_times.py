"""Completion times of jobs, and how long they waited.

Only the jobs of the log's ``job_window`` count. If jobs are unfinished, sums and the makespan are NaN; means and
quantiles are over the finished jobs, whose number is among the counts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.metrics.log_reading import counted_times, held_intervals
from hetopt.simulation.log import Log
from hetopt.tolerances import EQUAL


def counts(log: Log, instance: Instance) -> pd.Series[int]:
    """Number of jobs that arrived, started and finished.

    ``jobs`` arrived with work to do; of these ``started``, ``finished``, ``unfinished``. Not among them:
    ``done_before`` had no work left at the beginning of the log, ``not_arrived`` arrive after its end.
    """
    jobs = counted_times(log, instance)
    done, began = int(jobs.finished.sum()), int((~np.isnan(jobs.start)).sum())
    return pd.Series(
        {
            "jobs": len(jobs.names),
            "started": began,
            "finished": done,
            "unfinished": len(jobs.names) - done,
            "done_before": jobs.done_before,
            "not_arrived": jobs.not_arrived,
        },
        name="jobs",
    )


def completion(log: Log, instance: Instance) -> pd.DataFrame:
    """Finish and waiting times of each job, in seconds.

    Returns
    -------
    DataFrame
        A row per job that arrived with work to do: ``arrival``, ``start``, ``finish``, ``jct`` (finish - arrival; NaN
        while unfinished), ``held`` (time with GPUs, some of which had work to do), ``queueing`` (time from arrival to
        finish without GPUs), ``starvation`` (first start - arrival, [FFT, section 6.1.5]). For jobs that did not finish
        (start), queueing (starvation) lasts until the end of the log. GPUs held before its beginning are unknown.
    """
    jobs = counted_times(log, instance)
    stay = jobs.leaves - jobs.arrival
    who, starts, ends = held_intervals(log, jobs.names)
    held = np.bincount(who, weights=ends - starts, minlength=len(jobs.names)).astype(float)
    return pd.DataFrame(
        {
            "arrival": jobs.arrival,
            "start": jobs.start,
            "finish": jobs.finish,
            "jct": jobs.jct,
            "held": held,
            "queueing": np.maximum(stay - held, 0.0),
            "starvation": np.where(np.isnan(jobs.start), jobs.end, jobs.start) - jobs.arrival,
        },
        index=jobs.names,
    )


def jct(log: Log, instance: Instance) -> pd.Series[float]:
    """Job completion times (finish - arrival) of the finished jobs: ``mean``, ``median``, ``p95``, ``p99``, ``max``.

    In seconds; NaN where none finished. ``finished`` and ``unfinished`` are their numbers. Quantiles are interpolated.
    """
    jobs = counted_times(log, instance)
    found = describe(jobs.jct[jobs.finished])
    return pd.Series(
        {**found, "finished": float(jobs.finished.sum()), "unfinished": float((~jobs.finished).sum())}, name="jct"
    )


def describe(values: Floats) -> dict[str, float]:
    """Mean, median, 95th and 99th percentile, and maximum; NaN without values."""
    if not len(values):
        return dict.fromkeys(("mean", "median", "p95", "p99", "max"), np.nan)
    median, p95, p99 = np.quantile(values, [0.5, 0.95, 0.99]).tolist()
    return {"mean": float(values.mean()), "median": median, "p95": p95, "p99": p99, "max": float(values.max())}


def jct_cdf(log: Log, instance: Instance) -> pd.Series[float]:
    """Share of jobs whose completion time in seconds is at most the index.

    Relative to all jobs that arrived, so that it ends below 1 where some did not finish.
    """
    jobs = counted_times(log, instance)
    return cdf(jobs.jct[jobs.finished], len(jobs.names), "jct")


def finished_over_time(log: Log, instance: Instance) -> pd.Series[float]:
    """Share of jobs that have finished by the second in the index, [Hadar, Fig. 4].

    Relative to all jobs that arrived. Hadar's median time duration is the first second with a share of one half.
    """
    jobs = counted_times(log, instance)
    return cdf(jobs.finish[jobs.finished], len(jobs.names), "time")


def cdf(values: Floats, among: int, name: str) -> pd.Series[float]:
    """Share of ``among`` values that are at most the index, which is named ``name``."""
    found, many = np.unique(values, return_counts=True)
    return pd.Series(many.cumsum() / max(1, among), index=pd.Index(found, name=name), name="share", dtype=float)


def totals(log: Log, instance: Instance) -> pd.Series[float]:
    """Makespan and sums over all jobs, in seconds; NaN where a job did not finish or arrive.

    ``makespan``: last finish - first arrival; Hadar's total time duration (TTD). A-SRPT counts from 0, which is the
    same where the first job arrives at 0. ``total_completion``: sum of the finish times, the objective of
    [ASRPT, eq. 8]. ``total_flow``: sum of finish - arrival, [ASRPT, section V-A].
    """
    jobs = counted_times(log, instance)
    if not (jobs.complete and len(jobs.names)):
        return pd.Series(dict.fromkeys(("makespan", "total_completion", "total_flow"), np.nan), name="seconds")
    return pd.Series(
        {
            "makespan": log.makespan,
            "total_completion": float(jobs.finish.sum()),
            "total_flow": float(jobs.jct.sum()),
        },
        name="seconds",
    )


def deadlines_met(log: Log, instance: Instance) -> float:
    """Share of the jobs with a deadline that finish by it; NaN where no job has one."""
    jobs = counted_times(log, instance)
    given = instance.job
    deadline = np.array([given[name].deadline or np.nan for name in jobs.names], dtype=float)
    has = ~np.isnan(deadline)
    met = jobs.finish[has] <= deadline[has] * (1 + EQUAL)
    return float(met.mean()) if has.any() else np.nan
