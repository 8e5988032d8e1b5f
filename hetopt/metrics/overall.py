"""All metrics of a simulation in one row, for tables that compare policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hetopt.data.instance import Instance
from hetopt.errors import MetricUnavailable
from hetopt.metrics.completion_times import completion, counts, deadlines_met, jct, totals
from hetopt.metrics.decision_metrics import changes, decision_seconds, stragglers
from hetopt.metrics.definitions import METRICS
from hetopt.metrics.finish_time import IDEALS, finish_time_fairness
from hetopt.metrics.idle import idle_gaps
from hetopt.metrics.jain import jain_index
from hetopt.metrics.log_reading import job_times
from hetopt.metrics.moving import switching, wasted_share
from hetopt.metrics.tenant_metrics import TOTAL, efficiency, envy, sharing
from hetopt.metrics.usage import cru, gru, utilisation
from hetopt.simulation.log import Log
from hetopt.tolerances import EQUAL


def summary(log: Log, instance: Instance) -> pd.Series[float]:
    """The numbers of :data:`~hetopt.metrics.definitions.METRICS` for one simulation.

    A metric that does not apply is NaN: metrics of tenants without tenants, metrics of servers without a placer, sums
    if jobs are unfinished, and metrics whose columns the log lacks. The function of the metric raises the reason.

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
    found["deadlines_met"] = deadlines_met(log, instance)
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
    found |= _or_nan(lambda: _gaps(log, instance), dict.fromkeys(GAPS, np.nan))
    found |= _tenants(log, instance)
    found["stragglers"] = stragglers(log, instance)["workers"].mean()
    seconds = _or_nan(lambda: decision_seconds(log), pd.Series(dtype=float))
    found |= {f"decision_{key}": seconds.get(key, np.nan) for key in ("mean", "p99", "max")}
    found |= dict(changes(log, instance).mean())
    return pd.Series({name: float(found[name]) for name in METRICS}, name="summary")


GAPS = ("idle_gap_share", "idle_gap_decided", "idle_gaps", "idle_gap_max")
_FREQUENCIES = {"job": "mean", "job_hour": "per_hour", "round": "per_round"}


def _or_nan(compute: Callable[[], Any], otherwise: Any = np.nan) -> Any:
    """The result of ``compute``, or ``otherwise`` where the log lacks its columns."""
    try:
        return compute()
    except MetricUnavailable:
        return otherwise


def _fairness(log: Log, instance: Instance, name: str) -> dict[str, float]:
    rho = finish_time_fairness(log, instance, name)["rho"].dropna()
    below = float((rho < 1 - EQUAL).mean()) if len(rho) else np.nan
    index = jain_index(1.0 / np.asarray(rho[rho > 0]))  # without jobs whose ideal time is infinite
    return {"mean": rho.mean(), "max": rho.max(), "below_1": below, "jain": index}


def _gaps(log: Log, instance: Instance) -> dict[str, float]:
    table, jobs = idle_gaps(log, instance), job_times(log, instance)
    whole = log.capacity * (jobs.end - max(instance.time, jobs.arrival.min(initial=np.inf)))
    if not whole > 0:  # no jobs, or nothing ran yet
        return dict.fromkeys(GAPS, np.nan)
    left, decided = table["gpu_seconds"].sum() / whole, table["decided"].sum() / whole
    return dict(zip(GAPS, (left, decided, len(table), (table["end"] - table["start"]).max()), strict=True))


def _tenants(log: Log, instance: Instance) -> dict[str, float]:
    keys = ("throughput", "throughput_estimated", "deviation", "sharing", "sharing_jain", "envy")
    found = dict.fromkeys(keys, np.nan)
    if not instance.tenants or not len(log.rounds):
        return found
    length = (log.rounds["end"] - log.rounds["start"]).to_numpy(dtype=float)
    found["throughput"] = float(length @ log.throughput.to_numpy(dtype=float).sum(axis=1) / length.sum())
    ratios = sharing(log, instance)
    found["sharing"], found["sharing_jain"] = ratios.min(), jain_index(np.asarray(ratios.dropna()))
    found["envy"] = envy(log, instance)["gain"].clip(lower=0.0).max()
    total = _or_nan(lambda: efficiency(log, instance).loc[TOTAL], pd.Series(dtype=float))
    found["throughput_estimated"] = total.get("estimated", np.nan)
    found["deviation"] = total.get("deviation", np.nan)
    return found
