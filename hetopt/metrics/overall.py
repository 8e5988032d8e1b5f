"""All metrics of a simulation in one row, for tables that compare policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption, UnknownName
from hetopt.metrics.completion_times import completion, counts, jct, totals
from hetopt.metrics.decision_metrics import changes, decision_seconds, stragglers
from hetopt.metrics.finish_time import IDEALS, finish_time_fairness
from hetopt.metrics.moving import switching, wasted_share
from hetopt.metrics.tenant_metrics import TOTAL, efficiency, envy, sharing
from hetopt.metrics.usage import cru, gru, utilisation
from hetopt.simulation.log import Log
from hetopt.tolerances import EQUAL

_FAIRNESS = {
    "exclusive": "the time alone in the whole cluster",
    "themis": "the time in 1/N of the cluster, N being the jobs present on average during its stay",
    "gavel": "the time with 1/n of every GPU type, n being the jobs present at each moment",
}

DEFINITIONS: dict[str, str] = {
    "jobs": "Jobs that arrived with work to do (count).",
    "started": "Jobs that had GPUs at some time (count).",
    "finished": "Jobs that finished (count).",
    "unfinished": "Jobs that did not finish until the end of the log (count).",
    "not_arrived": "Jobs that come after the end of the log (count).",
    "jct_mean": "Mean completion time, from arrival to finish, of the finished jobs (seconds).",
    "jct_median": "Median completion time of the finished jobs (seconds).",
    "jct_p95": "Completion time that 95 % of the finished jobs do not exceed (seconds).",
    "jct_p99": "Completion time that 99 % of the finished jobs do not exceed (seconds).",
    "makespan": "From the first arrival to the last finish; TTD; none while a job is unfinished (seconds).",
    "total_completion": "Sum of the finish times of all jobs; none while one is unfinished (seconds).",
    "total_flow": "Sum of the completion times of all jobs; none while one is unfinished (seconds).",
    "queueing_mean": "Mean time of a job without GPUs, from arrival to finish or the end of the log (seconds).",
    "starvation_mean": "Mean time from arrival to first start, or to the end of the log (seconds).",
    "starvation_max": "Longest time from arrival to first start, or to the end of the log (seconds).",
    **{
        f"ftf_{name}_{key}": f"{what} completion times of finished jobs relative to {ideal} (no unit)."
        for name, ideal in _FAIRNESS.items()
        for key, what in {
            "mean": "Mean of the",
            "max": "Largest of the",
            "below_1": "Share below 1 of the",
        }.items()
    },
    "switches_mean": "Restarts on other GPUs per job (count).",
    "switches_per_hour": "Restarts on other GPUs per job and hour that it is present (per hour).",
    "switches_per_round": "Restarts on other GPUs per decision (count).",
    "beneficial": "Share of the moves between GPU types that led to one on which the job is faster (no unit).",
    "lost": "Time of starting and moving, of all jobs together (seconds).",
    "lost_share": "Time of starting and moving as a share of the time on GPUs, of all jobs together (no unit).",
    "wasted_share": "Mean share of what a job trained that was lost when servers failed (no unit).",
    "gru": "Part of the time from first arrival to last finish in which a GPU trains, over all GPUs (no unit).",
    "cru": "Part of the length of all rounds in which a server trains, over all servers; needs a placer (no unit).",
    "utilisation": "Part of the length of all rounds in which a GPU trains, over all GPUs (no unit).",
    "throughput": "Mean normalised throughput of all tenants together (GPUs of speedup 1).",
    "throughput_estimated": "The same as the policy's allocations promised it (GPUs of speedup 1).",
    "deviation": "What the actual throughput falls short of the estimated one, as a part of it (no unit).",
    "sharing": "Least throughput of a tenant relative to that with its own part of every GPU type (no unit).",
    "envy": "Largest gain of a tenant with another's GPUs, as a part of its rate with all; 0: none (no unit).",
    "stragglers": "GPUs of gangs over several GPU types per decision (count).",
    "decision_mean": "Mean wall-clock time of a decision (seconds).",
    "decision_p99": "Wall-clock time that 99 % of the decisions do not exceed (seconds).",
    "decision_max": "Longest wall-clock time of a decision (seconds).",
    "changed": "Share of decisions after which a job is on GPUs that it did not have, or lost its own (no unit).",
    "altered": "Share of decisions that moved or stopped a job that was running (no unit).",
}
"""Name of a number in :func:`summary` -> what it is, with its unit."""


def summary(log: Log, instance: Instance) -> pd.Series[float]:
    """The numbers of :data:`DEFINITIONS` for one simulation.

    A metric that does not apply is NaN: those of tenants without tenants, of servers without a placer, sums while jobs
    are unfinished, and those whose columns the log lacks. The function of the metric raises the reason.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import fft
    >>> jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=1, work=[16, 16], capacity=[1, 1])
    >>> table = summary(hetopt.simulate(fft.FFT(round_seconds=300.0), jobs), jobs)
    >>> table[["jct_mean", "total_flow", "switches_mean", "ftf_gavel_below_1"]].tolist()
    [862.5, 1725.0, 0.5, 0.5]
    """
    found: dict[str, float] = dict(counts(log, instance).astype(float))
    found |= {f"jct_{key}": value for key, value in jct(log, instance).items()}
    found |= dict(totals(log, instance))
    waits = completion(log, instance)
    found["queueing_mean"] = waits["queueing"].mean()
    found["starvation_mean"], found["starvation_max"] = waits["starvation"].mean(), waits["starvation"].max()
    for name in IDEALS:
        found |= {f"ftf_{name}_{key}": value for key, value in _fairness(log, instance, name).items()}
    moves = switching(log, instance)
    found |= {key: moves[key] for key in ("beneficial", "lost", "lost_share")}
    found |= {f"switches_{to}": moves[f"per_{key}"] for key, to in _FREQUENCIES.items()}
    found["wasted_share"] = _or_nan(lambda: wasted_share(log, instance).mean())
    found["gru"], found["utilisation"] = gru(log, instance), utilisation(log, instance)["all"]
    found["cru"] = _or_nan(lambda: cru(log, instance))
    found |= _tenants(log, instance)
    found["stragglers"] = stragglers(log, instance)["workers"].mean()
    seconds = _or_nan(lambda: decision_seconds(log), pd.Series(dtype=float))
    found |= {f"decision_{key}": seconds.get(key, np.nan) for key in ("mean", "p99", "max")}
    found |= dict(changes(log, instance).mean())
    return pd.Series({name: float(found[name]) for name in DEFINITIONS}, name="summary")


_FREQUENCIES = {"job": "mean", "job_hour": "per_hour", "round": "per_round"}


def _or_nan(compute: Callable[[], Any], otherwise: Any = np.nan) -> Any:
    """The result of ``compute``, or ``otherwise`` where the log lacks its columns."""
    try:
        return compute()
    except (UnknownName, InvalidOption):
        return otherwise


def _fairness(log: Log, instance: Instance, name: str) -> dict[str, float]:
    rho = finish_time_fairness(log, instance, name)["rho"].dropna()
    below = float((rho < 1 - EQUAL).mean()) if len(rho) else np.nan
    return {"mean": rho.mean(), "max": rho.max(), "below_1": below}


def _tenants(log: Log, instance: Instance) -> dict[str, float]:
    keys = ("throughput", "throughput_estimated", "deviation", "sharing", "envy")
    found = dict.fromkeys(keys, np.nan)
    if not instance.tenants or not len(log.rounds):
        return found
    length = (log.rounds["end"] - log.rounds["start"]).to_numpy(dtype=float)
    found["throughput"] = float(length @ log.throughput.to_numpy(dtype=float).sum(axis=1) / length.sum())
    found["sharing"] = sharing(log, instance).min()
    found["envy"] = envy(log, instance)["gain"].clip(lower=0.0).max()
    promised = _or_nan(lambda: efficiency(log, instance).loc[TOTAL], pd.Series(dtype=float))
    found["throughput_estimated"] = promised.get("estimated", np.nan)
    found["deviation"] = promised.get("deviation", np.nan)
    return found
