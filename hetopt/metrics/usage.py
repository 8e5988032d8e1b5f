"""Utilisation of the cluster. A GPU is in use while its gang trains, not while the gang starts or moves.

Servers that are down for a while count as up.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import MetricUnavailable
from hetopt.metrics.log_reading import by_type, job_times, servers_of
from hetopt.metrics.step_functions import merged
from hetopt.simulation.log import Log, integrals, training_begins

MIXED = "mixed"
"""Column of gangs on several types whose division among the types is unknown."""


def training(log: Log) -> tuple[Floats, Floats]:
    """(spans,) begin and end of training."""
    starts, lost, ends = (log.spans[key].to_numpy(dtype=float) for key in ("start", "lost", "end"))
    return training_begins(starts, lost, ends), ends


def gru(log: Log, instance: Instance) -> float:
    """GPU resource utilisation, [Hadar, section IV]; no unit.

    "The percentage of the total job run-time during which GPUs are utilized" is read as the part of the total time
    duration in which a GPU trains, on average over all GPUs of the cluster: GPU-seconds of training / (GPUs * T), T
    from the first arrival (or the beginning of the log, where that is later) to the last finish, or to the end of the
    log where a job is unfinished. Idle GPUs with waiting jobs lower it, as Hadar states for Gavel, and so does
    the cost of preemption; Hadar states that YARN-CS has none. Relative to the running time of each job, idle GPUs
    would not show.
    """
    jobs = job_times(log, instance)
    if not len(jobs.names):
        return np.nan
    begins, ends = training(log)
    whole = float(jobs.leaves.max() - max(instance.time, jobs.arrival.min())) * log.capacity
    return float(((ends - begins) * log.spans["gpus"]).sum() / whole) if whole > 0 else np.nan


def cru_per_round(log: Log, instance: Instance) -> pd.Series[float]:
    """Cluster resource utilisation of each round, ``CRU(r)`` of [Hadar, Theorem 3]; no unit.

    Busy time of all servers / (servers * length of the round). A server is busy while at least one of its GPUs trains.
    Index: ``start`` of the round.

    Raises
    ------
    MetricUnavailable
        The log does not have the servers of jobs.
    """
    job_times(log, instance)
    hosts = servers_of(log, instance)
    if any(not own for own in hosts):
        raise MetricUnavailable(
            "the log does not have the servers of jobs, so busy servers are unknown; simulate with a "
            "placer, or take utilisation(), which counts GPUs"
        )
    nodes = {server.name: i for i, server in enumerate(s for s in instance.cluster.servers if s.gpus)}
    rows = [(i, nodes[server]) for i, own in enumerate(hosts) for server in own]
    spans, keys = np.array(rows, dtype=np.intp).reshape(-1, 2).T
    begins, ends = training(log)
    _, begins, ends = merged(keys, begins[spans], ends[spans])
    busy, length = _per_round(log, begins, ends, np.ones(len(begins)))
    return pd.Series(busy / (len(nodes) * length), index=pd.Index(log.rounds["start"]), name="cru")


def _per_round(log: Log, begins: Floats, ends: Floats, rates: Floats) -> tuple[Floats, Floats]:
    """(r,) integrals of the rates over the rounds, and (r,) lengths of the rounds."""
    starts, stops = (log.rounds[key].to_numpy(dtype=float) for key in ("start", "end"))
    return integrals(begins, ends, rates, starts, stops), stops - starts


def cru(log: Log, instance: Instance) -> float:
    """Cluster resource utilisation, [Hadar, section VI-C]; no unit.

    Busy time of all servers / (servers * length of all rounds, up to the end of the round in which the last job
    finished): the mean of :func:`cru_per_round` over time. Hadar's clusters there have one GPU per server; in its
    Fig. 1 the nodes are GPUs, as in the ``all`` of :func:`utilisation`.

    Raises
    ------
    MetricUnavailable
        The log does not have the servers of jobs.
    """
    per_round = cru_per_round(log, instance).to_numpy()
    length = (log.rounds["end"] - log.rounds["start"]).to_numpy(dtype=float)
    return float(per_round @ length / length.sum()) if len(length) else np.nan


def _gpus(log: Log, instance: Instance) -> dict[str, tuple[Floats, float]]:
    """Column -> (spans,) GPUs, and GPUs in the cluster: all, of each type, and of gangs with an unknown division."""
    job_times(log, instance)
    split, total = by_type(log, instance), log.spans["gpus"].to_numpy(dtype=float)
    unknown = np.isnan(split).any(axis=1)
    columns: dict[str, tuple[Floats, float]] = {"all": (total, log.capacity)}
    if taken := [name for name in instance.cluster.capacity if name in ("all", MIXED)]:
        raise MetricUnavailable(f"a GPU type is named {taken[0]!r}, as a column of several types; rename it")
    for k, (name, there) in enumerate(instance.cluster.capacity.items()):
        columns[name] = np.where(unknown, 0.0, split[:, k]), there
    if unknown.any():
        columns[MIXED] = np.where(unknown, total, 0.0), log.capacity
    return columns


def utilisation(log: Log, instance: Instance) -> pd.Series[float]:
    """Part of the GPU-seconds of all rounds that was spent training; no unit.

    ``all`` GPUs (``log.utilisation``), then the GPUs of each type. Gangs on several types whose division among the
    types is unknown are left out of the types; ``mixed`` is their part of all GPUs.
    """
    begins, ends = training(log)
    found = {}
    for name, (gpus, there) in _gpus(log, instance).items():
        used, length = _per_round(log, begins, ends, gpus)
        found[name] = float(used.sum() / (there * length.sum())) if there and len(length) else np.nan
    return pd.Series(found, name="utilisation", dtype=float)


def utilisation_over_time(log: Log, instance: Instance) -> pd.DataFrame:
    """Part of the GPUs that train, from each second in the index until the next; columns as in :func:`utilisation`."""
    begins, ends = training(log)
    times = np.unique(np.concatenate([begins, ends, log.rounds["start"], log.rounds["end"]]))
    at = np.concatenate([np.searchsorted(times, begins), np.searchsorted(times, ends)])
    busy = np.bincount(at, weights=np.repeat([1.0, -1.0], len(begins)), minlength=len(times)).cumsum() > 0
    found = {}
    for name, (gpus, there) in _gpus(log, instance).items():
        used = np.bincount(at, weights=np.concatenate([gpus, -gpus]), minlength=len(times)).cumsum()
        found[name] = np.where(busy, used, 0.0) / there if there else np.full(len(times), np.nan)
    return pd.DataFrame(found, index=pd.Index(times, name="time"))
