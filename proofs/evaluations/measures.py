"""Measures of stored runs, from metrics and tables of spans, for the results of several parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hetopt.data.instance import Instance
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore, StoredRun
from hetopt.metrics.log_reading import places, types_of
from hetopt.simulation.log import Log


def completed_runs(store: RunStore, system: str) -> Iterator[StoredRun]:
    """The runs of a system (by label), without refused runs."""
    for run in store.runs():
        if run.key.system == system and run.record.refused is None:
            yield run


def metric_values(store: RunStore, metric: str, system: str) -> pd.Series[float]:
    """A metric of a system; index ``(workload, seed)``, in order."""
    table = store.table()
    own = table[(table["system"] == system) & table["refused"].isna()].set_index(["workload", "seed"])
    if metric not in own:
        return pd.Series(dtype=float)
    return own[metric].astype(float).sort_index()


def ratios(above: pd.Series[float], below: pd.Series[float]) -> pd.Series[float]:
    """Quotients where both numbers are known and the divisor is not 0; same index."""
    return (above / below.where(below > 0)).dropna()


def relative_pace(log: Log, instance: Instance) -> float:
    """Speed of all gangs relative to gangs on one server, weighted by trained GPU-seconds.

    The work over the work that the same GPUs would do in the same seconds if each gang were on one server: ``sum(gpus *
    work / pace) / sum(gpus * seconds)``, where pace is the work per second of the gang on the slowest of its GPU types.
    NaN if no job trained.
    """
    spans = log.spans
    slowest = np.array(
        [
            min(instance.job[name].throughput[t] for t in types)
            for name, types in zip(spans["job"], types_of(log, instance), strict=True)
        ]
    )
    gpus, work = (spans[key].to_numpy(dtype=float) for key in ("gpus", "work"))
    seconds = (spans["end"] - spans["start"] - spans["lost"]).to_numpy(dtype=float)
    trained = float((gpus * seconds).sum())
    return float((gpus * work / slowest).sum()) / trained if trained > 0 else np.nan


def paces(store: RunStore, system: str) -> pd.Series[float]:
    """:func:`relative_pace` of each run of a system; index ``(workload, seed)``."""
    found = {
        (run.key.workload, run.key.seed): relative_pace(run.log, instance_of(run))
        for run in completed_runs(store, system)
    }
    return pd.Series(found, dtype=float)


def restarts(log: Log) -> pd.Series[float]:
    """Seconds of restarts: ``mean`` and ``total``.

    A span is a period on the same GPUs. Each span of a job that loses time, except its first, begins with a restart,
    unless the job continues in place after a profiling run.
    """
    spans = log.spans.sort_values(["job", "start"], kind="stable")
    before = spans.groupby("job")[["end", *places(log)]].shift()
    here = (spans[places(log)] == before[places(log)]).all(axis=1) & (spans["start"] == before["end"])
    later = spans[spans.duplicated("job") & ~here]["lost"]
    later = later[later > 0]
    return pd.Series({"mean": later.mean(), "total": later.sum()}, dtype=float)


def restart_seconds(store: RunStore, system: str, key: str) -> pd.Series[float]:
    """``mean`` or ``total`` of :func:`restarts` of each run of a system; index ``(workload, seed)``."""
    found = {(run.key.workload, run.key.seed): restarts(run.log)[key] for run in completed_runs(store, system)}
    return pd.Series(found, dtype=float)
