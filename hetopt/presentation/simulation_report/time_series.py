"""Curves over time, in equal intervals common to all systems: GPUs in use, waiting jobs, throughput.

Each number is a mean over its interval, so that curves have the same areas as the log.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.metrics.log_reading import end_of
from hetopt.metrics.step_functions import merged
from hetopt.simulation.log import Log, integrals

INTERVALS = 160
"""Number of intervals of a picture."""


def extent(logs: Iterable[Log]) -> tuple[float, float]:
    """The first decision or arrival of these logs, and their last second."""
    every = list(logs)
    begins = [np.nanmin([log.rounds["start"].min(), log.jobs["arrival"].min()]) for log in every]
    return float(min(begins)), max(map(end_of, every))


def interval_edges(logs: Iterable[Log], number: int = INTERVALS) -> Floats:
    """(number + 1,) edges of equal intervals from the first to the last second of the logs."""
    return np.linspace(*extent(logs), number + 1)


def means(begins: Floats, ends: Floats, values: Floats, edges: Floats) -> Floats:
    """(intervals,) mean of the sum of ``values``, each of which holds from its begin to its end."""
    return np.asarray(integrals(begins, ends, values, edges[:-1], edges[1:]) / np.diff(edges))


def _until_end(values: Floats, log: Log, edges: Floats) -> Floats:
    """The values, with NaN from the first interval after the log."""
    return np.where(edges[:-1] < end_of(log), values, np.nan)


def in_use(log: Log, edges: Floats) -> Floats:
    """(intervals,) share of all GPUs that train, in per cent; NaN after the end of the log."""
    begins = (log.spans["start"] + log.spans["lost"]).to_numpy(dtype=float)
    ends = np.maximum(log.spans["end"].to_numpy(dtype=float), begins)
    gpus = log.spans["gpus"].to_numpy(dtype=float)
    return _until_end(100 * means(begins, ends, gpus, edges) / log.capacity, log, edges)


def waiting(log: Log, edges: Floats) -> Floats:
    """(intervals,) jobs that have arrived, are not finished and have no GPUs; NaN after the end of the log."""
    jobs = log.jobs_with_work
    arrival, finish = jobs["arrival"].to_numpy(dtype=float), jobs["finish"].to_numpy(dtype=float)
    leaves = np.where(np.isnan(finish), end_of(log), finish)
    spans = log.spans[log.spans["job"].isin(jobs.index)]
    at = jobs.index.get_indexer(pd.Index(spans["job"]))
    at, begins, ends = merged(at, spans["start"].to_numpy(dtype=float), spans["end"].to_numpy(dtype=float))
    here = means(arrival, leaves, np.ones(len(jobs)), edges)
    held = means(begins, ends, np.ones(len(at)), edges)
    return _until_end(np.maximum(here - held, 0.0), log, edges)


def throughput(log: Log, edges: Floats) -> tuple[Floats, Floats]:
    """(intervals,) estimated and actual normalised throughput of all tenants.

    In GPUs of speedup 1; NaN where no decision has an estimate.
    """
    starts, stops = (log.rounds[key].to_numpy(dtype=float) for key in ("start", "end"))
    estimated = log.estimated.sum(axis=1, min_count=1).reindex(starts).to_numpy(dtype=float)
    actual = log.throughput.sum(axis=1).to_numpy(dtype=float)
    known = ~np.isnan(estimated)
    found = [means(starts[known], stops[known], own[known], edges) for own in (estimated, actual)]
    some = means(starts[known], stops[known], np.ones(int(known.sum())), edges)
    return np.where(some > 0, found[0], np.nan), np.where(some > 0, found[1], np.nan)


def cumulative_distribution(values: Floats, jobs: int, most: int = 400) -> tuple[Floats, Floats]:
    """Points of a cumulative distribution: (p,) values, and (p,) shares of ``jobs`` with at most this value.

    More than ``most`` values are thinned so that the step function is nowhere lower than the full one by more than
    1 / ``most``. The first and the last value stay.
    """
    found, many = np.unique(values, return_counts=True)
    share = many.cumsum() / max(1, jobs)
    if len(found) > most:
        grid = np.linspace(0.0, share[-1], most + 1)
        keep = np.unique(np.append(np.searchsorted(share, grid), [0, len(share) - 1]).clip(max=len(share) - 1))
        found, share = found[keep], share[keep]
    return found, share
