"""Switches of jobs (restarts on other GPUs): how many, whether they were beneficial, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from hetopt.data.instance import Instance
from hetopt.metrics.log_reading import column, counted_times, job_times, places, types_of
from hetopt.simulation.log import Log

HOUR = 3600.0
MOVES = {
    "time": float,
    "job": str,
    "from_type": str,
    "to_type": str,
    "from_servers": str,
    "to_servers": str,
    "between_types": bool,
    "beneficial": bool,
}
"""Columns of :func:`moves`."""


class _Stop(NamedTuple):
    """GPUs of a job (and of its copies) from ``time`` on."""

    job: str
    time: float
    types: tuple[str, ...]
    servers: tuple[str, ...]
    places: set[tuple[object, ...]]
    kinds: list[list[str]]
    """GPU types of each copy, in an order that does not depend on servers."""
    rate: float


def _stops(log: Log, instance: Instance) -> Iterator[_Stop]:
    """All stops, by job, in order of time."""
    spans, kinds = log.spans.reset_index(drop=True), types_of(log, instance)
    order = spans.sort_values(["job", "start", "servers", "gpu_type"], kind="stable").index.tolist()
    names, starts = spans["job"].tolist(), spans["start"].tolist()
    columns = [spans[key].tolist() for key in ("gpu_type", "servers")]
    where = list(places(log, instance).itertuples(index=False, name=None))
    for (name, time), rows in groupby(order, key=lambda i: (names[i], starts[i])):
        here = list(rows)
        speed = instance.job[name].throughput
        types, servers = (tuple(values[i] for i in here) for values in columns)
        own_kinds = sorted(sorted(kinds[i]) for i in here)
        rate = sum(min(speed[t] for t in gang) for gang in own_kinds)
        yield _Stop(name, time, types, servers, {where[i] for i in here}, own_kinds, rate)


def moves(log: Log, instance: Instance) -> pd.DataFrame:
    """Each restart of a job (or of a copy of it) on GPUs that it did not run on last, also after a pause.

    Returns
    -------
    DataFrame
        A row per switch, in order of time: ``time``, ``job``, ``from_type``, ``to_type``, ``from_servers``,
        ``to_servers``, ``between_types`` (whether the types differ), ``beneficial`` (whether the job is faster on the
        new types, [FFT, Fig. 10a]; copies of a forked job count together). In a log with ``seats``, a new division of a
        gang among the same servers is also a switch. Jobs of a fluid run do not switch.
    """
    job_times(log, instance)
    rows = []
    for before, stop in pairwise(_stops(log, instance)):
        if before.job != stop.job or stop.places <= before.places:
            continue
        between = stop.kinds != before.kinds
        types = " ".join(before.types), " ".join(stop.types)
        servers = " ".join(before.servers), " ".join(stop.servers)
        rows.append((stop.time, stop.job, *types, *servers, between, between and stop.rate > before.rate))
    table = pd.DataFrame(rows, columns=list(MOVES)).astype(MOVES)
    return table.sort_values(["time", "job"], kind="stable", ignore_index=True)


def migrations(log: Log, instance: Instance) -> pd.DataFrame:
    """Switches of each job, and their cost.

    Returns
    -------
    DataFrame
        A row per job that arrived with work to do: ``switches`` (restarts on other GPUs, as the simulator counted
        them), ``between_types`` (type changes: switches to other GPU types), ``beneficial`` (of these, to types on
        which it is faster), ``present`` (seconds from arrival to finish or end of the log), ``running`` (seconds on
        GPUs, of copies each), ``lost`` (of these, seconds of starting and moving).
    """
    jobs, switches = counted_times(log, instance), moves(log, instance)
    type_changes = switches[switches["between_types"]].groupby("job")["beneficial"].agg(["size", "sum"])
    spans = log.spans.assign(length=log.spans["end"] - log.spans["start"]).groupby("job")[["length", "lost"]].sum()
    table = pd.DataFrame(index=jobs.names)
    table["switches"] = log.jobs["switches"].reindex(jobs.names).astype(int)
    table["between_types"] = type_changes["size"].reindex(jobs.names, fill_value=0).astype(int)
    table["beneficial"] = type_changes["sum"].reindex(jobs.names, fill_value=0).astype(int)
    table["present"] = jobs.leaves - jobs.arrival
    table["running"] = spans["length"].reindex(jobs.names, fill_value=0.0)
    table["lost"] = spans["lost"].reindex(jobs.names, fill_value=0.0)
    return table


def switching(log: Log, instance: Instance) -> pd.Series[float]:
    """Switches of all jobs together.

    ``switches``: restarts on other GPUs; ``per_job``; ``per_job_hour``: per job and hour that it was present,
    [FFT, Fig. 10b]; ``per_round``: per decision. ``beneficial``: share of the type changes that led to a
    type on which the job is faster, [FFT, Fig. 10a]; NaN without any. ``lost``: seconds of starting and moving;
    ``lost_share``: of the time that jobs had GPUs, [FFT, section 2.2].
    """
    table = migrations(log, instance)
    total = table[["switches", "between_types", "beneficial", "present", "running", "lost"]].sum()
    return pd.Series(
        {
            "switches": float(total["switches"]),
            "per_job": _ratio(total["switches"], len(table)),
            "per_job_hour": _ratio(total["switches"], total["present"] / HOUR),
            "per_round": _ratio(total["switches"], len(log.rounds)),
            "beneficial": _ratio(total["beneficial"], total["between_types"]),
            "lost": float(total["lost"]),
            "lost_share": _ratio(total["lost"], total["running"]),
        },
        name="switching",
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else np.nan


def wasted_share(log: Log, instance: Instance) -> pd.Series[float]:
    """Part of the trained work of each job that server failures lost: lost work / (work done + lost work).

    Raises
    ------
    MetricUnavailable
        The log has no lost work.
    """
    jobs = counted_times(log, instance)
    lost = column(log, "jobs", "wasted").reindex(jobs.names)
    trained = log.jobs["done"].reindex(jobs.names) + lost
    share: pd.Series[float] = (lost / trained.where(trained > 0)).fillna(0.0)
    return share.rename("wasted_share")
