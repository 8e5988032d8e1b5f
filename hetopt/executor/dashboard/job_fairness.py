"""Finish-time fairness of jobs that are done, and of those that are not yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.rates import rate_with
from hetopt.executor.queue import FINISHED
from hetopt.executor.snapshot import Snapshot
from hetopt.metrics.step_functions import present_over_time, range_sums


@dataclass(frozen=True)
class Fairness:
    """Finish-time fairness of a job.

    Attributes
    ----------
    shared, ideal:
        Seconds that it takes, and would take in its own 1/N of the cluster.
    sure:
        Whether all that it needs is measured, and nothing but the present speed is taken to last.
    """

    shared: float
    ideal: float
    sure: bool = True

    @property
    def rho(self) -> float:
        """Their ratio; below 1: sooner than in its own part."""
        return self.shared / self.ideal


def fairness(now: Snapshot, unmeasured: Collection[str] = ()) -> dict[str, Fairness]:
    """Job -> its finish-time fairness, rho = shared / ideal, of those for which it is known.

    The definition is ``"themis"`` of :func:`hetopt.metrics.finish_time.finish_time_fairness`, as far as the books tell:

    shared
        Of a job that is done: finish - submission. Of one that runs: the time since its submission, and what is left at
        the present speed. Of one that has no GPUs (or is being profiled or stopped) what is left counts at its fastest
        measured speed, as if it ran on from now: no more than a guess, and too good a one (``sure`` is False).
    ideal
        The time for all of its steps in an own 1/N of the cluster, N being the number of jobs present on average from
        its submission to its finish, or until now, itself among them. In m[k]/N GPUs of each type on average over time
        a gang of d workers uses at most d at once, the fastest first: :func:`~hetopt.data.rates.rate_with`.

    The cluster is that of now, with nodes that are down or drained, at all times. The pace v[k] on a type is the one
    that was measured; a type without a measurement, or without GPUs for the whole gang, does not count. So where a type
    that the job may use was never measured, the ideal may be too long, and rho too small (``sure`` is False).

    Jobs that failed or were cancelled have none, and neither have those of which no speed was measured on a type that
    has room for the gang.

    Parameters
    ----------
    now:
        The cluster.
    unmeasured:
        Names of jobs with GPU types that they may use and on which they were never measured.
    """
    if not now.jobs:
        return {}
    capacity = _capacity(now.nodes)
    begins = np.array([job["submitted"] for job in now.jobs], dtype=float)
    ends = np.array([now.now if job["finished"] is None else job["finished"] for job in now.jobs], dtype=float)
    number = mean_present(begins, np.maximum(begins, ends))
    found = {}
    for job, present in zip(now.jobs, number, strict=True):
        shared = _shared(job)
        ideal = _ideal(job, capacity, float(present))
        if shared is not None and ideal is not None:
            guessed = job["state"] != "done" and job["left_seconds"] is None
            found[job["name"]] = Fairness(shared, ideal, not guessed and job["name"] not in unmeasured)
    return found


def _capacity(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """GPU type -> GPUs of the cluster."""
    found: dict[str, int] = {}
    for node in nodes:
        for gpu_type, number in node["gpus"].items():
            found[gpu_type] = found.get(gpu_type, 0) + number
    return found


def mean_present(begins: Floats, ends: Floats) -> Floats:
    """(n,) number of jobs present on average over the stay of each; NaN where the stay has no length."""
    times, present = present_over_time(begins, ends)
    first, last = np.searchsorted(times, begins), np.searchsorted(times, ends)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = range_sums(present[:-1] * np.diff(times), first, last) / (ends - begins)
    return np.where(ends > begins, mean, np.nan)


def _shared(job: Mapping[str, Any]) -> float | None:
    """Seconds from submission to finish, foreseen where it is still to come."""
    if job["state"] == "done":
        return float(job["seconds"])
    if job["state"] in FINISHED:
        return None
    left = job["left_seconds"]
    if left is None:
        fastest = max(job["speeds"].values(), default=0.0)
        left = max(0, job["steps"] - job["step"]) / fastest if fastest > 0 else None
    return None if left is None else float(job["seconds"] + left)


def _ideal(job: Mapping[str, Any], capacity: Mapping[str, int], present: float) -> float | None:
    """Seconds in an own 1/N of the cluster."""
    workers = job["workers"]
    pace = {t: v for t, v in job["speeds"].items() if capacity.get(t, 0) >= workers}
    if not pace or not present >= 1.0 / 2.0:  # NaN too: it has only just come
        return None
    value = np.array([[v / workers for v in pace.values()]])
    share = np.array([[capacity[t] / present for t in pace]])
    rate = float(rate_with(value, share, np.array([float(workers)]))[0])
    return job["steps"] / rate if rate > 0 and job["steps"] > 0 else None


@dataclass(frozen=True)
class OfTenant:
    """Finish-time fairness over the jobs of a tenant that are open or done: mean and largest."""

    mean: float
    largest: float
    jobs: int
    sure: bool


def by_tenant(jobs: Iterable[Mapping[str, Any]], known: Mapping[str, Fairness]) -> dict[str, OfTenant]:
    """Tenant -> the mean and the largest rho of its jobs that have one; tenants without such jobs are absent."""
    own: dict[str, list[Fairness]] = {}
    for job in jobs:
        if job["name"] in known:
            own.setdefault(job["tenant"], []).append(known[job["name"]])
    return {
        tenant: OfTenant(
            sum(one.rho for one in all_of) / len(all_of),
            max(one.rho for one in all_of),
            len(all_of),
            all(one.sure for one in all_of),
        )
        for tenant, all_of in own.items()
    }
