"""Idle gaps: times in which GPUs are idle although a waiting gang fits on the idle GPUs of one type.

A work-conserving scheduler leaves none after a decision. In rounds, gaps open when a job finishes or arrives within a
round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, MetricUnavailable
from hetopt.metrics.log_reading import JobTimes, by_type, held_intervals, job_times
from hetopt.metrics.step_functions import step_sums
from hetopt.simulation.log import Log
from hetopt.tolerances import EQUAL


def idle_gaps(log: Log, instance: Instance) -> pd.DataFrame:
    """The maximal intervals in which, at each moment, a waiting gang fits on the idle GPUs of one type.

    A job waits while it is present and holds no GPUs; also while it is profiled. It fits on a type that it can use and
    that has as many idle GPUs as it demands (if it is elastic: as its smallest gang there has), on whatever servers.
    GPUs of a server are not idle from its event ``down`` to ``up``; in a log without events they are.

    Returns
    -------
    DataFrame
        A row per gap, in order of time: ``start``, ``end``; ``gpu_seconds``: the integral of the idle GPUs of the types
        on which a waiting gang fits, at most as many as these gangs demand together; ``decided``: of these, the
        GPU-seconds from each decision that leaves such GPUs idle, until the next decision or the end of the gap.

    Raises
    ------
    MetricUnavailable
        The log does not have the division of gangs among GPU types.
    InvalidInstance
        An event is about a server that the cluster does not have.
    """
    jobs, split = job_times(log, instance), by_type(log, instance)
    jobs = replace(jobs, arrival=np.maximum(jobs.arrival, instance.time))  # what came before the log is unknown
    if np.isnan(split).any():
        raise MetricUnavailable("the log does not have the division of gangs among GPU types, so idle GPUs are unknown")
    spans = log.spans[["start", "end"]].to_numpy(dtype=float)
    changes = log.events[log.events["kind"].isin(["down", "up"])]
    decisions = log.rounds["start"].to_numpy(dtype=float)
    times = np.unique(
        np.concatenate([spans.ravel(), jobs.arrival, jobs.leaves, decisions, changes["time"], [jobs.end]])
    )
    if len(times) < 2 or not len(jobs.names):
        return pd.DataFrame(columns=["start", "end", "gpu_seconds", "decided"], dtype=float)
    free = _capacity(changes, instance, times) - _steps(times, spans[:, 0], spans[:, 1], split)
    usable = _usable(log, instance, jobs, times, np.maximum(free, 0.0))[:-1]
    gap, area = usable > 0, usable * np.diff(times)
    after_gap, decided = np.append(False, gap[:-1]), np.isin(times[:-1], decisions)
    heads = np.flatnonzero(gap & (~after_gap | decided))  # of the gaps, cut at decisions
    parts = np.add.reduceat(area, heads) if len(heads) else area[:0]  # zero between the gaps
    first = ~after_gap[heads]
    gaps = first.cumsum() - 1
    ends = times[1:][gap & ~np.append(gap[1:], False)]
    return pd.DataFrame(
        {
            "start": times[heads[first]],
            "end": ends,
            "gpu_seconds": np.bincount(gaps, parts, len(ends)),
            "decided": np.bincount(gaps, np.where(decided[heads], parts, 0.0), len(ends)),
        }
    )


def _steps(times: Floats, begins: Floats, ends: Floats, values: Floats) -> Floats:
    """(m, k) sums of (n, k) values, each of which holds from its start to its end, from each of the times on."""
    first, last = np.searchsorted(times, begins), np.searchsorted(times, ends)
    return np.stack([step_sums(first, last, column, len(times)) for column in values.T], axis=1)


def _capacity(changes: pd.DataFrame, instance: Instance, times: Floats) -> Floats:
    """(m, k) GPUs that are up from each of the times on."""
    types = instance.cluster.type_names
    found = np.tile([float(instance.cluster.capacity[t]) for t in types], (len(times), 1))
    for name, own in changes.groupby("job"):
        if name not in instance.cluster.by_name:
            raise InvalidInstance(f"are about server {name!r}, which the instance does not have", "log.events")
        there = np.array([float(instance.cluster.by_name[str(name)].gpus.get(t, 0)) for t in types])
        kinds, at = own["kind"].tolist(), np.searchsorted(times, own["time"].to_numpy(dtype=float)).tolist()
        down = [0] if kinds[0] == "up" else []
        for kind, row in zip(kinds, at, strict=True):
            down.append(row)
            if kind == "up":
                found[down[0] : row] -= there
                down = []
        if down:
            found[down[0] :] -= there
    return found


def _usable(log: Log, instance: Instance, jobs: JobTimes, times: Floats, free: Floats) -> Floats:
    """(m,) idle GPUs of the types on which a waiting gang fits, at most as many as these gangs demand."""
    entities = instance.entities("jobs")
    smallest = np.where(entities.task_speed > 0, entities.demand[:, None], np.inf)
    for e, sizes in entities.other_sizes.items():
        for gpus, speed in sizes.items():
            smallest[e, speed > 0] = np.minimum(smallest[e, speed > 0], gpus)
    rows, kind = np.unique(smallest[jobs.at], axis=0, return_inverse=True)
    kind = kind.ravel()
    who, starts, ends = held_intervals(log, jobs.names)
    taken, demanded = np.zeros(free.shape, dtype=bool), np.zeros(len(times))
    for number, row in enumerate(rows):
        here, holds = kind == number, kind[who] == number
        waiting = _count(times, jobs.arrival[here], jobs.leaves[here]) - _count(times, starts[holds], ends[holds])
        fits = (free >= row * (1 - EQUAL)) & (waiting > 0)[:, None]
        taken |= fits
        demanded += waiting * np.where(fits, row, 0.0).max(axis=1)
    return np.asarray(np.minimum((free * taken).sum(axis=1), demanded))


def _count(times: Floats, begins: Floats, ends: Floats) -> Floats:
    """(m,) number of intervals that hold from each of the times on."""
    return _steps(times, begins, ends, np.ones((len(begins), 1)))[:, 0]
