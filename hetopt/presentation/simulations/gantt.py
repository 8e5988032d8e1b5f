"""Where the bars of a timeline stand: on the GPUs of servers, or in the rows of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.metrics.log_reading import seats_of
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import scale_of
from hetopt.presentation.simulations import windows
from hetopt.presentation.simulations.axes import Frame, time_axis, width_of
from hetopt.presentation.simulations.loaded_runs import Gathered
from hetopt.presentation.simulations.style import (
    GRID,
    INK,
    LIGHT,
    PAGE,
    PAGES,
    QUIET,
    VARIABLES,
    canvas,
    legend,
    picture,
)
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


KINDS = 2 * len(LIGHT)
"""Tenants or GPU types with a colour of their own, full or pale; the others are grey."""

DRAWN = 12_000
"""Bars of a workload that are drawn as such; of more, pictures of dots are made, which do not grow with them."""

LANE, ROW = 0.062, 0.14
"""Inches of a GPU of a server, and of a job."""

Window = tuple[float, float]
Colours = Mapping[str, tuple[str, float]]
"""Kind -> its colour, and how much of it."""


def timelines(gathered: Gathered, window: Window | None, name: str) -> str:
    """The section about a window of time.

    Parameters
    ----------
    window:
        Seconds; None: the busiest stretch.
    name:
        Of the pictures.

    Raises
    ------
    InvalidOption
        The window does not overlap the logs.
    """
    logs = gathered.logs
    what = "it" if gathered.instance is None else f"{gathered.instance.name} with seed {gathered.seed}"
    shown = windows.busiest(logs.values()) if window is None else windows.inside(window, logs.values(), what)
    why = windows.RULE if window is None else "as asked for"
    scale = scale_of("makespan", [shown[1] - shown[0]])
    first, last = (f"{time / scale.size:.6g}" for time in shown)
    parts = [f"<p>Seed {gathered.seed}, from {first} to {last} {scale.name}: {why}.</p>"]
    everywhere = [log for log in logs.values() if not (log.spans["servers"] == "").any()]
    room = rooms(everywhere, gathered.instance) or {}
    if len(room) > MOST:
        everywhere, room = [], {}
    jobs = chosen_jobs(list(logs.values()), shown)
    wide = 0.2 + width_of(_short([*room, *jobs]), 8)
    on = {system: on_servers(log, shown, room) for system, log in logs.items() if log in everywhere and room}
    of = {system: in_rows(log, shown, jobs) for system, log in logs.items() if system not in on}
    if on:
        said = "A row per server, with a lane for each of its GPUs; a bar is a job on some of them."
        what = "tenants" if gathered.instance is None or gathered.instance.tenants else "jobs"
        parts.append(_drawn(on, shown, _Rows(tuple(room), tuple(room.values())), wide, f"{name}-servers", what, said))
    if of:
        said = f"A row per job: the {len(jobs)} with most GPU time here, over all systems. Thin lines: they wait."
        rows = _Rows(tuple(jobs), (1,) * len(jobs), {system: logs[system] for system in of})
        parts.append(_drawn(of, shown, rows, wide, f"{name}-jobs", "GPU types", said))
    return "".join(parts)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of timelines: names, how many lanes each has, and logs where presence of the jobs in them is drawn."""

    names: tuple[str, ...]
    lanes: tuple[int, ...]
    logs: Mapping[str, Log] = field(default_factory=dict)

    @property
    def inches(self) -> float:
        """Of all rows."""
        return ROW * len(self.names) if self.logs else LANE * sum(self.lanes) + 0.03 * len(self.names)


def _drawn(
    bars: Mapping[str, list[Bar]], window: Window, rows: _Rows, wide: float, name: str, what: str, said: str
) -> str:
    """A picture for each system, below what their colours mean; ``wide``: inches of the rows' names."""
    colours, told = _colours([bar for own in bars.values() for bar in own], window)
    samples = [(_sample(*colours[kind]), kind) for kind in told]
    if len(told) < len(colours):
        samples.append((_sample(QUIET, 0.55), "others"))
    samples.append((_sample(INK, 1.0), "starting or moving"))
    parts = [f"<p class='quiet'>Colours: {what}. {said}</p>", legend(samples)]
    many = sum(map(len, bars.values())) > DRAWN
    for number, (system, own) in enumerate(bars.items()):
        with canvas([*rows.names, system]):
            tall = max(rows.inches, 0.3)
            figure, ((axes,),) = Frame(1, 1, tall, wide, bottom=0.45).figure()
            if rows.logs:
                _draw_presence(axes, rows.logs[system], rows.names, window)
            boxes = _boxes(own, rows.lanes, by_lane=not rows.logs)
            _draw(axes, own, boxes, colours, window, many)
            _draw_rows(axes, rows.names, rows.lanes, tall / max(1, sum(rows.lanes)))
            time_axis(axes, *window)
            axes.set_title(label(system, 1, 60))
            alone = f"Timeline of {system}: {len(own)} stretches of jobs in {len(rows.names)} rows."
            caption = f"{escape(system)}: {len({bar.job for bar in own})} jobs in this window."
            parts.append(picture(figure, f"{name}{number}", alone, caption))
    return "".join(parts)


def _short(names: Sequence[str]) -> list[str]:
    return [label(name, number + 1, 24) for number, name in enumerate(names)]


def _colours(bars: Iterable[Bar], window: Window) -> tuple[Colours, list[str]]:
    """The colour of each kind, and the kinds with a colour of their own: those with most bars' area."""
    area: dict[str, float] = {}
    for bar in bars:
        length = min(bar.end, window[1]) - max(bar.start, window[0])
        area[bar.kind] = area.get(bar.kind, 0.0) + length * bar.height
    top = sorted(area, key=lambda kind: (-area[kind], kind))[:KINDS]
    colours = dict.fromkeys(area, (QUIET, 0.55))
    colours |= {kind: (LIGHT[i % len(LIGHT)], 1.0 if i < len(LIGHT) else 0.5) for i, kind in enumerate(top)}
    return colours, top


def _sample(colour: str, alpha: float) -> str:
    shape = f"<rect width='16' height='12' style='fill: var(--{VARIABLES[colour]}); fill-opacity: {alpha}'/>"
    return f"<svg class='swatch' width='16' height='12' aria-hidden='true'>{shape}</svg>"


Box = tuple[float, float]
"""Upper and lower edge of a bar."""


def _boxes(bars: Sequence[Bar], lanes: Sequence[int], *, by_lane: bool) -> list[Box]:
    """Where bars stand: rows are as high as they have lanes, or all alike and divided by those in use."""
    if by_lane:
        top = [sum(lanes[:row]) for row in range(len(lanes))]
        return [(top[bar.row] + bar.lane, top[bar.row] + bar.lane + bar.height) for bar in bars]
    used = [1] * len(lanes)
    for bar in bars:
        used[bar.row] = max(used[bar.row], bar.lane + 1)
    edge = 0.1
    part = [(1 - 2 * edge) / number for number in used]
    return [
        (bar.row + edge + part[bar.row] * bar.lane, bar.row + edge + part[bar.row] * (bar.lane + bar.height))
        for bar in bars
    ]


def _draw(axes: Axes, bars: Sequence[Bar], boxes: Sequence[Box], colours: Colours, window: Window, many: bool) -> None:
    """All bars: one shape for each colour, so that the picture stays small."""
    shapes: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}
    for bar, (upper, lower) in zip(bars, boxes, strict=True):
        start, end = max(bar.start, window[0]), min(bar.end, window[1])
        shapes.setdefault(colours[bar.kind], []).append((start, end, upper, lower))
        if bar.lost > start:
            shapes.setdefault((INK, 1.0), []).append((start, min(bar.lost, end), upper, lower))
    if many:
        axes.set_facecolor(PAGES["light"])
    for (colour, alpha), own in sorted(shapes.items(), key=lambda item: item[0][0] == INK):
        points = [p for a, b, u, v in own for p in ((a, u), (b, u), (b, v), (a, v), (a, u))]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(own)
        patch = PathPatch(Path(points, codes), facecolor=colour, alpha=alpha, edgecolor=PAGE, linewidth=0.5)
        patch.set_rasterized(many)
        axes.add_patch(patch)


def _draw_presence(axes: Axes, log: Log, jobs: Sequence[str], window: Window) -> None:
    """A thin line for each job from its arrival until it leaves."""
    arrivals, finishes = (log.jobs[key].astype(float).to_dict() for key in ("arrival", "finish"))
    for row, job in enumerate(jobs):
        if job in arrivals:
            leaves = window[1] if np.isnan(finishes[job]) else finishes[job]
            ends = max(arrivals[job], window[0]), min(leaves, window[1])
            if ends[0] < ends[1]:
                axes.plot(ends, (row + 0.5, row + 0.5), color=QUIET, linewidth=0.7, zorder=0.5)


def _draw_rows(axes: Axes, names: Sequence[str], heights: Sequence[int], inches: float) -> None:
    """Names and lines of rows; ``inches`` of one unit of height."""
    top, middles = 0, []
    for height in heights:
        axes.axhline(top, color=GRID, linewidth=0.6, zorder=0)
        middles.append(top + height / 2)
        top += height
    axes.set_ylim(top, 0)
    size = min(8.0, 72 * inches * min(heights, default=1) * 0.95)
    axes.set_yticks(middles, _short(names), fontsize=size)
    axes.tick_params(left=False, labelsize=size, axis="y")
    axes.tick_params(labelsize=8, axis="x")
    axes.grid(axis="x", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
