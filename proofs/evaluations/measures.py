"""Measures of stored runs, from metrics and tables of spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


def by_run(store: RunStore, system: str, measure: Callable[[StoredRun], float]) -> pd.Series[float]:
    """A measure of each completed run of a system; index ``(workload, seed)``."""
    found = {(run.key.workload, run.key.seed): measure(run) for run in completed_runs(store, system)}
    index = pd.MultiIndex.from_tuples(found, names=["workload", "seed"])
    return pd.Series(list(found.values()), index=index, dtype=float)


def metric_values(store: RunStore, metric: str, system: str) -> pd.Series[float]:
    """A metric of a system; index ``(workload, seed)``, in order."""
    table = store.table()
    rows = table[(table["system"] == system) & table["refused"].isna()].set_index(["workload", "seed"])
    if metric not in rows:
        return pd.Series(dtype=float)
    return rows[metric].astype(float).sort_index()


def ratios(above: pd.Series[float], below: pd.Series[float]) -> pd.Series[float]:
    """Quotients where both numbers are present and the divisor is positive; same index."""
    return (above / below.where(below > 0)).dropna()


def relative_pace(log: Log, instance: Instance) -> float:
    """Speed of all gangs relative to gangs on one server, weighted by trained GPU-seconds.

    The actual work over the work of the same gangs in the same time on one server each: ``sum(gpus * work / pace) /
    sum(gpus * seconds)``, where pace is the work per second of the gang on the slowest of its GPU types. NaN if no job
    trained.
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
    return by_run(store, system, lambda run: relative_pace(run.log, instance_of(run)))


def restarts(log: Log, instance: Instance) -> pd.Series[float]:
    """Seconds of restarts: ``mean`` and ``total``.

    A span is a period on the same GPUs. Each span of a job that loses time, except its first, begins with a restart,
    unless the job continues in place after a profiling run.
    """
    where = places(log, instance)
    spans = log.spans.assign(**where).sort_values(["job", "start"], kind="stable")
    before = spans.groupby("job")[["end", *where]].shift()
    continues = (spans[[*where]] == before[[*where]]).all(axis=1) & (spans["start"] == before["end"])
    lost = spans[spans.duplicated("job") & ~continues & (spans["lost"] > 0)]["lost"]
    return pd.Series({"mean": lost.mean(), "total": lost.sum()}, dtype=float)


def restart_seconds(store: RunStore, system: str, key: str) -> pd.Series[float]:
    """``mean`` or ``total`` of :func:`restarts` of each run of a system; index ``(workload, seed)``."""
    return by_run(store, system, lambda run: float(restarts(run.log, instance_of(run))[key]))
