"""Where the bars of a timeline stand: on the GPUs of servers, or in the rows of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.metrics.gangs import seats_of
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
        rows = pd.DataFrame(
            [
                (server, time, sign * sum(here.values()))
                for seats, *times in zip(seats_of(log), log.spans["start"], log.spans["end"], strict=True)
                for server, here in seats.items()
                for time, sign in zip(times, (1, -1), strict=True)
            ],
            columns=["server", "time", "change"],
        )
        for server, own in rows.sort_values(["time", "change"], kind="stable").groupby("server"):
            found[str(server)] = max(found.get(str(server), 1), round(float(own["change"].cumsum().max())))
    return dict(sorted(found.items()))


class Span(NamedTuple):
    """A row of the spans of a log."""

    job: str
    tenant: str | None
    start: float
    end: float
    gpu_type: str
    gpus: float
    lost: float
    on: Mapping[str, int]
    """Server -> its GPUs."""


def within(log: Log, window: tuple[float, float]) -> list[Span]:
    """Spans that are on in the window, by start."""
    spans = log.spans
    there = spans[(spans["start"] < window[1]) & (spans["end"] > window[0])]
    there = there.sort_values(["start", "end", "job"], kind="stable")
    on = [{s: round(sum(here.values())) for s, here in seats.items()} for seats in seats_of(replace(log, spans=there))]
    columns = (there[key].tolist() for key in Span._fields[:-1])
    return [Span(*row) for row in zip(*columns, on, strict=True)]


def on_servers(log: Log, window: tuple[float, float], room: Mapping[str, int]) -> list[Bar]:
    """Bars in rows that are servers, with a lane for each GPU.

    A span has lanes that nobody else has at that time.
    """
    free = {server: np.full(lanes, -np.inf) for server, lanes in room.items()}
    place = {server: row for row, server in enumerate(room)}
    bars = []
    for span in within(log, window):
        for server, number in span.on.items():
            lanes = _lanes(free[server], number, span.start)
            free[server][lanes] = span.end
            for first, height in _runs(lanes):
                lost = min(span.start + span.lost, span.end)
                kind = span.job if span.tenant is None else span.tenant
                bars.append(Bar(span.job, kind, span.start, lost, span.end, place[server], first, height))
    return bars


def _lanes(busy: Floats, number: int, now: float) -> list[int]:
    """So many lanes of a server: the first that are free, then those that are so soonest."""
    empty = np.flatnonzero(busy <= now).tolist()
    soonest = [i for i in np.argsort(busy, kind="stable").tolist() if busy[i] > now]
    return [int(i) for i in (*empty, *soonest)][:number]


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
