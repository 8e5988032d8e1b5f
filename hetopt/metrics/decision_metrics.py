"""Metrics of decisions: their duration, the jobs that change GPUs, the gangs on several GPU types."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.checks import expect
from hetopt.data.array_types import Positions
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, MetricUnavailable
from hetopt.metrics.completion_times import describe
from hetopt.metrics.log_reading import job_times, places, types_of
from hetopt.metrics.step_functions import step_sums
from hetopt.simulation.log import Log


def decisions_of(log: Log) -> tuple[Positions, Positions]:
    """(spans,) decisions of each span: the first, and the one after its last.

    A job that finishes between two decisions keeps its GPUs until the next, and so does a copy that has done its work.
    """
    starts = log.rounds["start"].to_numpy(dtype=float)
    first, last = (np.searchsorted(starts, log.spans[key].to_numpy(dtype=float)) for key in ("start", "end"))
    return first, last


def decision_seconds(log: Log) -> pd.Series[float]:
    """Wall-clock seconds of a decision: ``mean``, ``median``, ``p95``, ``p99``, ``max``.

    Raises
    ------
    MetricUnavailable
        The log has decisions, but not their durations.
    """
    seconds = expect(Log, log, "log", InvalidOption).decision_seconds
    if seconds.empty and len(log.rounds):
        raise MetricUnavailable("log.decision_seconds is empty, which this metric needs; hetopt.simulate measures it")
    return pd.Series(describe(np.asarray(seconds, dtype=float)), name="decision_seconds", dtype=float)


def changes(log: Log, instance: Instance) -> pd.DataFrame:
    """Which decisions changed the GPUs of jobs, [Hadar, section IV-B].

    Returns
    -------
    DataFrame
        A row per decision; index ``start``. ``changed``: a job begins on GPUs that it did not have before, or loses its
        GPUs unfinished. ``altered``: a job loses its GPUs unfinished, because it is moved or stopped or its server
        failed. A finished job that frees its GPUs is no change. GPUs count as the same if each server has as many of
        each type (in a log without ``seats``: if types, servers and number of GPUs are the same).
    """
    jobs, spans = job_times(log, instance), log.spans
    starts = log.rounds["start"].to_numpy(dtype=float)
    first, last = decisions_of(log)
    where = places(log, instance)
    place = where.assign(job=spans["job"]).groupby(["job", *where], sort=False).ngroup().to_numpy()
    order = np.lexsort((first, place))
    place, first, last = place[order], first[order], last[order]
    continues = np.zeros(len(order), dtype=bool)  # on the same GPUs up to this decision
    continues[1:] = (place[1:] == place[:-1]) & (first[1:] == last[:-1])
    stays = np.append(continues[1:], False)[: len(order)]
    who = jobs.names.get_indexer(pd.Index(spans["job"]))[order]
    until = np.where(jobs.finished, jobs.finish, np.inf)[who]
    inside = last < len(starts)
    lost = ~stays & inside
    lost[lost] = until[lost] > starts[last[lost]]
    changed, altered = (np.zeros(len(starts), dtype=bool) for _ in range(2))
    changed[first[~continues & (first < len(starts))]] = True
    changed[last[lost]] = True
    altered[last[lost]] = True
    return pd.DataFrame({"changed": changed, "altered": altered}, index=pd.Index(starts, name="start"))


def stragglers(log: Log, instance: Instance) -> pd.DataFrame:
    """Gangs on several GPU types, where faster GPUs wait for slower ones, [OEF, section 6.3.3].

    Returns
    -------
    DataFrame
        A row per decision; index ``start``. ``gangs``: number of these gangs that run until the next decision;
        ``workers``: their GPUs. In a fluid run these are jobs that run on several types in turns.
    """
    job_times(log, instance)
    mixed = np.array([len(kinds) > 1 for kinds in types_of(log, instance)], dtype=bool)
    first, last = (at[mixed] for at in decisions_of(log))
    gpus = log.spans["gpus"].to_numpy(dtype=float)[mixed]
    index = pd.Index(log.rounds["start"].to_numpy(dtype=float), name="start")
    found = {"gangs": np.ones(len(gpus)), "workers": gpus}
    return pd.DataFrame({key: step_sums(first, last, own, len(index)) for key, own in found.items()}, index=index)
