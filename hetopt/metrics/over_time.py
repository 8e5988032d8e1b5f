"""Means over intervals that several logs have in common; the areas under these curves are those of the logs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.metrics.log_reading import end_of, held_intervals
from hetopt.metrics.usage import training
from hetopt.simulation.log import Log, integrals


def extent(logs: Iterable[Log]) -> tuple[float, float]:
    """The first decision or arrival of these logs, and their last second."""
    every = list(logs)
    begins = [np.nanmin([log.rounds["start"].min(), log.jobs["arrival"].min()]) for log in every]
    return float(min(begins)), max(map(end_of, every))


def _means(log: Log, edges: Floats, begins: Floats, ends: Floats, values: Floats) -> Floats:
    """Mean of the sum of ``values``, each of which holds from its begin to its end; NaN after the end of the log."""
    found = integrals(begins, ends, values, edges[:-1], edges[1:]) / np.diff(edges)
    return np.where(edges[:-1] < end_of(log), found, np.nan)


def mean_utilisation(log: Log, edges: Floats) -> Floats:
    """(intervals,) share of all GPUs that train, from 0 to 1; NaN after the end of the log."""
    return _means(log, edges, *training(log), log.spans["gpus"].to_numpy(dtype=float) / log.capacity)


def mean_waiting(log: Log, edges: Floats) -> Floats:
    """(intervals,) jobs that have arrived, are not finished and have no GPUs; NaN after the end of the log."""
    jobs = log.jobs_with_work.fillna({"finish": end_of(log)})
    _, starts, ends = held_intervals(log, jobs.index)
    values = np.repeat([1.0, -1.0], [len(jobs), len(starts)])
    return _means(log, edges, np.append(jobs["arrival"], starts), np.append(jobs["finish"], ends), values).clip(min=0)


def mean_throughput(log: Log, edges: Floats) -> tuple[Floats, Floats]:
    """(intervals,) estimated and actual normalised throughput of all tenants, in GPUs of speedup 1."""
    starts, stops = (log.rounds[key].to_numpy(dtype=float) for key in ("start", "end"))
    estimated, actual = (own.sum(axis=1).to_numpy(float) for own in (log.estimated.reindex(starts), log.throughput))
    return _means(log, edges, starts, stops, estimated), _means(log, edges, starts, stops, actual)
