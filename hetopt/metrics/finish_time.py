"""Finish-time fairness: the completion time of a job relative to an ideal time.

``rho = shared / ideal``; papers differ in the ideal. Below, d is a job's demand, W its work, v[k] the work per
second of its gang on type k, m[k] the GPUs of that type and M the GPUs of all types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from hetopt.checks import lookup
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.rates import isolated_part, rate_with
from hetopt.metrics.log_reading import JobTimes, job_times
from hetopt.metrics.step_functions import present_over_time, range_sums, reach
from hetopt.simulation.log import Log


def finish_time_fairness(log: Log, instance: Instance, definition: str = "themis") -> pd.DataFrame:
    """Finish-time fairness of each job.

    Parameters
    ----------
    definition:
        The ideal:

        ``"exclusive"``
            The time alone in the whole cluster, as [FFT, section 6.1.5] is printed: W / r with r the rate of the best
            gang. That is the largest v such that the types with v[k] >= v have d GPUs together. No gang is ever faster,
            so rho >= 1 for jobs that are not forked.
        ``"themis"``
            The time in an own 1/N of the cluster, N being the number of jobs present on average from its arrival to its
            finish, itself among them (Themis, and [FFT, section 2.4]). In m[k]/N GPUs of each type on average over time
            a gang uses at most d at once, the fastest first: :func:`~hetopt.data.rates.rate_with`.
        ``"gavel"``
            The time with 1/n(t) of every type, n(t) being the number of jobs present at t, until its work is done,
            [Gavel, section 4.2]. The rate of Gavel's isolated share is ``sum_k v[k] m[k] min(1 / (n d), 1/M)``: a gang
            runs on type k for ``m[k] / (n d)`` of the time, less if these parts sum to more than the whole time. If a
            job would take longer than it did, n(t) counts it as present until then.

    Returns
    -------
    DataFrame
        A row per job of the log's ``job_window`` that arrived with work to do: ``shared`` (finish - arrival, seconds;
        NaN while unfinished), ``ideal`` (seconds), ``rho`` (no unit). All of a job's work counts, from its arrival. For
        a gang that no single type has room for, v[k] is the rate of the best gang over several, on each type that it
        can use. Jobs that are unfinished at the end of the log count as present from then on. Rates are
        ``Job.throughput``, also for jobs with mapped stages.

    Raises
    ------
    UnknownName
        The definition does not exist.
    """
    ideal = lookup(IDEALS, definition, "definition of finish-time fairness")
    jobs = job_times(log, instance)
    seconds = ideal(jobs, instance.entities("jobs"))
    table = pd.DataFrame({"shared": jobs.jct, "ideal": seconds, "rho": jobs.jct / seconds}, index=jobs.names)
    return table.loc[log.counted_jobs.index]


def rate_alone(entities: Entities) -> Floats:
    """(n,) work per second of each job's best gang, alone in the cluster; 0 where none is possible."""
    order = np.argsort(-entities.task_speed, axis=1, kind="stable")
    fastest = np.take_along_axis(entities.task_speed, order, axis=1)
    enough = entities.capacity[order].cumsum(axis=1) >= entities.demand[:, None]
    first = enough.argmax(axis=1)
    return np.where(enough.any(axis=1), fastest[np.arange(len(first)), first], 0.0)


def _rates(entities: Entities) -> Floats:
    """(n, k) work per second of gangs on one type; for gangs that need several types, the best rate on each type."""
    single = entities.allowed.any(axis=1, keepdims=True)
    several = np.where(entities.task_speed > 0, rate_alone(entities)[:, None], 0.0)
    return np.where(single, entities.speed, several)


def _seconds(work: Floats, rate: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(work / rate)


def _exclusive(jobs: JobTimes, entities: Entities) -> Floats:
    return _seconds(entities.source.job_array("work")[jobs.at], rate_alone(entities)[jobs.at])


def _themis(jobs: JobTimes, entities: Entities) -> Floats:
    number = mean_present(jobs.arrival, jobs.finish)
    work, demand = entities.source.job_array("work")[jobs.at], entities.demand[jobs.at]
    return seconds_in_own_part(work, demand, _rates(entities)[jobs.at], entities.capacity, number)


def seconds_in_own_part(work: Floats, demand: Floats, speed: Floats, capacity: Floats, number: Floats) -> Floats:
    """(n,) seconds of each job in an own 1/N of the cluster (Themis); infinite where it cannot run.

    Parameters
    ----------
    work, demand:
        (n,) work, and GPUs of the gang.
    speed:
        (n, k) work per second of the gang on each GPU type.
    capacity:
        (k,) GPUs of each type.
    number:
        (n,) N for each job.
    """
    return _seconds(work, rate_with(speed / demand[:, None], capacity / number[:, None], demand))


def mean_present(begin: Floats, end: Floats) -> Floats:
    """(n,) mean number of jobs present from ``begin`` to ``end`` of each job; NaN where it has no end or no length."""
    times, present = present_over_time(begin, np.where(np.isnan(end), np.inf, end))
    first = np.searchsorted(times, begin)
    last = np.where(np.isnan(end), first, np.searchsorted(times, end))
    with np.errstate(divide="ignore", invalid="ignore"):
        return range_sums(present[:-1] * np.diff(times), first, last) / (end - begin)


def _gavel(jobs: JobTimes, entities: Entities) -> Floats:
    times, present = present_over_time(jobs.arrival, np.where(jobs.finished, jobs.finish, np.inf))
    demand, scale = entities.demand[jobs.at], (_rates(entities) @ entities.capacity)[jobs.at]
    need = _seconds(entities.source.job_array("work")[jobs.at], scale)
    ideal = np.full(len(jobs.at), np.inf)
    for size in np.unique(demand).tolist():
        who = np.flatnonzero((demand == size) & np.isfinite(need))
        own = _Isolated(times, present, size, float(entities.capacity.sum()))
        ideal[who] = own.finish(jobs.arrival[who], jobs.finish[who], need[who]) - jobs.arrival[who]
    return ideal


class _Isolated:
    """Gavel's isolated share of gangs of one size, as parts of time per GPU; times the sum of v m they are rates."""

    def __init__(self, times: Floats, present: Floats, size: float, gpus: float) -> None:
        self.times = times
        self.here = isolated_part(1.0 / (np.maximum(present, 1.0) * size), gpus)
        self.stays = isolated_part(1.0 / ((present + 1.0) * size), gpus)  # with one more job than in the log

    def finish(self, arrival: Floats, finish: Floats, need: Floats) -> Floats:
        """(q,) time at which the integral from ``arrival`` is ``need``; the log has these jobs up to ``finish``."""
        length = np.diff(self.times)
        first = np.searchsorted(self.times, arrival)
        last = np.where(np.isnan(finish), len(self.times), np.searchsorted(self.times, finish))
        at, rest = reach(self.here[:-1] * length, first, need)
        end = self.times[at] + rest / self.here[at]
        late = at >= last
        begin = last[late]
        rest = np.maximum(need[late] - range_sums(self.here[:-1] * length, first[late], begin), 0.0)
        at, rest = reach(self.stays[:-1] * length, begin, rest)
        end[late] = self.times[at] + rest / self.stays[at]
        return end


IDEALS: dict[str, Callable[[JobTimes, Entities], Floats]] = {
    "exclusive": _exclusive,
    "themis": _themis,
    "gavel": _gavel,
}
"""Definition -> (n,) ideal seconds of each job."""
