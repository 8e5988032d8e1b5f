"""Where the bars of a timeline stand: on the GPUs of servers, or in the rows of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetopt.data.instance import Instance
from hetopt.metrics.tables import parts
from hetopt.simulation.log import Log

MOST = 40
"""Rows of a timeline that can be read."""


@dataclass(frozen=True)
class Bar:
    """A stretch of a job on some GPUs of one row.

    Attributes
    ----------
    job, kind:
        The job, and what decides the colour: its tenant (or itself, if it has none), or its GPU type.
    start, lost, end:
        Seconds: from when, until when it starts or moves, until when.
    row, lane, height:
        Which row, its first lane there, and how many lanes.
    """

    job: str
    kind: str
    start: float
    lost: float
    end: float
    row: int
    lane: int
    height: int


def rooms(logs: Sequence[Log], instance: Instance | None) -> dict[str, int] | None:
    """Server -> its GPUs; None where not all spans say on which servers they are.

    Those of the instance; without it those of the logs, with as many GPUs as they ever have in use.
    """
    if any((log.spans["servers"] == "").any() for log in logs):
        return None
    if instance is not None:
        return {server.name: int(sum(server.gpus.values())) for server in instance.cluster.servers if server.gpus}
    found: dict[str, int] = {}
    for log in logs:
        alone = log.spans[~log.spans["servers"].str.contains("+", regex=False)]
        for server, own in alone.groupby("servers"):
            times = np.concatenate([own["start"], own["end"]])
            change = np.concatenate([own["gpus"], -own["gpus"]])
            order = np.lexsort((change, times))
            found[str(server)] = max(found.get(str(server), 1), round(float(change[order].cumsum().max())))
        for text in log.spans["servers"].unique():
            for server in str(text).split("+"):
                found.setdefault(server, 1)
    return dict(sorted(found.items()))


class Span(NamedTuple):
    """A row of the spans of a log."""

    job: str
    tenant: str | None
    start: float
    end: float
    gpu_type: str
    servers: str
    gpus: float
    lost: float


def within(log: Log, window: tuple[float, float]) -> list[Span]:
    """Spans that are on in the window, by start."""
    spans = log.spans
    there = spans[(spans["start"] < window[1]) & (spans["end"] > window[0])]
    there = there.sort_values(["start", "end", "job"], kind="stable")
    return [Span(*row) for row in zip(*(there[key].tolist() for key in Span._fields), strict=True)]


def on_servers(log: Log, window: tuple[float, float], room: Mapping[str, int]) -> list[Bar]:
    """Bars in rows that are servers, with a lane for each GPU.

    A span on one server has lanes that nobody else has at that time. How many GPUs a gang has on each of several
    servers the log does not say: at least one each, then those with most lanes free.
    """
    free = {server: np.full(lanes, -np.inf) for server, lanes in room.items()}
    place = {server: row for row, server in enumerate(room)}
    bars = []
    for span in within(log, window):
        hosts = parts(span.servers, room)
        for server, lanes in _lanes(free, hosts, max(1, round(span.gpus)), span.start).items():
            free[server][lanes] = span.end
            for first, height in _runs(lanes):
                lost = min(span.start + span.lost, span.end)
                kind = span.job if span.tenant is None else span.tenant
                bars.append(Bar(span.job, kind, span.start, lost, span.end, place[server], first, height))
    return bars


def _lanes(free: Mapping[str, np.ndarray], hosts: Sequence[str], gpus: int, now: float) -> dict[str, list[int]]:
    """Server -> lanes for a gang of so many GPUs."""
    empty = {server: [int(i) for i in np.flatnonzero(free[server] <= now)] for server in hosts}
    many = dict.fromkeys(hosts, 1)
    for server in sorted(hosts, key=lambda name: -len(empty[name])):
        many[server] += min(max(0, gpus - sum(many.values())), max(0, len(empty[server]) - 1))
    order = {server: [int(i) for i in np.argsort(free[server], kind="stable")] for server in hosts}
    soonest = {server: [i for i in order[server] if i not in empty[server]] for server in hosts}
    return {server: [*empty[server], *soonest[server]][:number] for server, number in many.items()}


def _runs(lanes: Sequence[int]) -> list[tuple[int, int]]:
    """First lane and number of lanes of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for lane in sorted(lanes):
        if found and sum(found[-1]) == lane:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((lane, 1))
    return found


def chosen_jobs(logs: Sequence[Log], window: tuple[float, float], most: int = MOST) -> list[str]:
    """The jobs that have GPUs for most GPU-seconds in the window, over all logs together, in order of arrival."""
    total: dict[str, float] = {}
    arrival: dict[str, float] = {}
    for log in logs:
        for span in within(log, window):
            held = (min(span.end, window[1]) - max(span.start, window[0])) * span.gpus
            total[span.job] = total.get(span.job, 0.0) + held
        arrival |= {str(name): float(time) for name, time in log.jobs["arrival"].items()}
    top = sorted(total, key=lambda name: (-total[name], arrival[name], name))[:most]
    return sorted(top, key=lambda name: (arrival[name], name))


def in_rows(log: Log, window: tuple[float, float], jobs: Sequence[str]) -> list[Bar]:
    """Bars in rows that are jobs; copies of a job that run at the same time have a lane each."""
    place = {name: row for row, name in enumerate(jobs)}
    busy: dict[str, list[float]] = {name: [] for name in jobs}
    bars = []
    for span in within(log, window):
        if span.job in place:
            until = busy[span.job]
            lane = next((i for i, end in enumerate(until) if end <= span.start), len(until))
            until[lane : lane + 1] = [span.end]
            lost = min(span.start + span.lost, span.end)
            bars.append(Bar(span.job, span.gpu_type, span.start, lost, span.end, place[span.job], lane, 1))
    return bars
