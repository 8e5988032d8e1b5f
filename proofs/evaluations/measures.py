"""Numbers of stored runs that several parts of an evaluation, or their tables of spans, give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hetopt.data.instance import Instance
from hetopt.experiments.run_folder import instance_of
from hetopt.experiments.run_store import RunStore, StoredRun
from hetopt.metrics.gangs import places, types_of
from hetopt.simulation.log import Log


def ran(store: RunStore, system: str) -> Iterator[StoredRun]:
    """The runs of a system (by label) that were not refused."""
    for run in store.runs():
        if run.key.system == system and run.data["refused"] is None:
            yield run


def values(store: RunStore, metric: str, system: str) -> pd.Series[float]:
    """A metric of a system; index ``(workload, seed)``, in order."""
    table = store.table()
    own = table[(table["system"] == system) & table["refused"].isna()].set_index(["workload", "seed"])
    if metric not in own:
        return pd.Series(dtype=float)
    return own[metric].astype(float).sort_index()


def ratios(above: pd.Series[float], below: pd.Series[float]) -> pd.Series[float]:
    """One over the other where both are known and the other is not 0; same index."""
    return (above / below.where(below > 0)).dropna()


def relative_pace(log: Log, instance: Instance) -> float:
    """Speed of all gangs relative to each on one server, weighted by the GPU-seconds that they trained.

    Work done over what the same GPUs would have done in the same seconds of training if each gang had sat on one
    server: ``sum(gpus * work / pace) / sum(gpus * seconds)``, pace being the work per second of the gang on the slowest
    of its GPU types. NaN where nobody trained.
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
    found = {(run.key.workload, run.key.seed): relative_pace(run.log, instance_of(run)) for run in ran(store, system)}
    return pd.Series(found, dtype=float)


def restarts(log: Log) -> pd.Series[float]:
    """Seconds that restarts of jobs took: ``mean`` and ``total``.

    A span is a stretch of time on the same GPUs; those but the first of a job in which time is lost begin with a
    restart (one that goes on where it was after a pause loses none), unless it is the pause for a profiling run.
    """
    spans = log.spans.sort_values(["job", "start"], kind="stable")
    before = spans.groupby("job")[["end", *places(log)]].shift()
    here = (spans[places(log)] == before[places(log)]).all(axis=1) & (spans["start"] == before["end"])
    later = spans[spans.duplicated("job") & ~here]["lost"]
    later = later[later > 0]
    return pd.Series({"mean": later.mean(), "total": later.sum()}, dtype=float)


def restart_seconds(store: RunStore, system: str, key: str) -> pd.Series[float]:
    """``mean`` or ``total`` of :func:`restarts` of each run of a system; index ``(workload, seed)``."""
    found = {(run.key.workload, run.key.seed): restarts(run.log)[key] for run in ran(store, system)}
    return pd.Series(found, dtype=float)
