"""Gantt charts of a window of time: the choice of the window, and the bars of jobs, in rows of servers or of jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from hetopt.checks import counted
from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.metrics.log_reading import end_of, seats_of
from hetopt.metrics.step_functions import step_sums
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import time_unit
from hetopt.presentation.simulation_report.axes import AxesGrid, time_axis, width_of
from hetopt.presentation.simulation_report.charts import short_names
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns
from hetopt.presentation.simulation_report.report_style import (
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
from hetopt.presentation.simulation_report.time_series import begin_of
from hetopt.simulation.log import Log
from hetopt.tolerances import PROVEN

Window = tuple[float, float]
"""Start and end in seconds."""

SHORTEST, LONGEST = 3600.0, 4 * 3600.0
"""Bounds in seconds of the length of the default window, in which rounds of some minutes are visible."""

UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Unit after a time -> seconds."""

RULE = (
    "the period in which the jobs present (running or waiting) request most GPUs, over all systems drawn together; "
    "a quarter of the whole time, but from 1 to 4 hours; the first if there are several"
)
"""Description of the default window on the page."""


def parse_window(text: str) -> Window:
    """Parse ``2h:6h`` to seconds; numbers without unit are seconds.

    Raises
    ------
    InvalidOption
        Another form, or an end that is not after the start.
    """
    times = [re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", part) for part in text.split(":")]
    known = [float(t[1]) * UNITS[t[2]] for t in times if t is not None and t[2] in UNITS]
    if len(times) != 2 or len(known) != 2:
        raise InvalidOption(f"is {text!r}; it must be START:END in seconds or with a unit, such as 2h:6h", "window")
    if not known[0] < known[1] < math.inf:
        raise InvalidOption(f"is {text!r}; its end must be after its start", "window")
    return known[0], known[1]


def check_window(window: Window, logs: Iterable[Log], what: str) -> None:
    """Refuse a window that does not overlap the logs; ``what`` is their name in the message.

    Raises
    ------
    InvalidOption
        It starts after the last log or ends before the first.
    """
    every = list(logs)
    first, last = min(map(begin_of, every)), max(map(end_of, every))
    if window[0] >= last or window[1] <= first:
        raise InvalidOption(
            f"is {window[0]:g}:{window[1]:g} seconds, and {what} lasts from {first:g} to {last:g}; "
            "choose one within it",
            "window",
        )


def demands(logs: Iterable[Log]) -> tuple[Floats, Floats, Floats]:
    """(jobs,) start and end of each job's presence in seconds, and its demand in GPUs, over all logs."""
    begins, ends, gpus = [], [], []
    for log in logs:
        jobs = log.jobs_with_work
        finish = jobs["finish"].to_numpy(dtype=float)
        begins.append(jobs["arrival"].to_numpy(dtype=float))
        ends.append(np.where(np.isnan(finish), end_of(log), finish))
        gpus.append(jobs["demand"].to_numpy(dtype=float))
    return np.concatenate(begins), np.concatenate(ends), np.concatenate(gpus)


def busiest_window(logs: Iterable[Log], length: float | None = None) -> Window:
    """The first window of this length in which the jobs present request most GPU-seconds.

    The default length is a quarter of the logs, between one and four hours; shorter logs are shown completely. The
    window starts or ends where the demand changes: in between its sum is linear in time, so no other is larger.
    """
    every = list(logs)
    first, last = min(map(begin_of, every)), max(map(end_of, every))
    if length is None:
        length = min(max((last - first) / 4, SHORTEST), LONGEST)
    if not last - first > length:
        return first, last
    begins, ends, gpus = demands(every)
    times = np.unique(np.concatenate([begins, ends, [first, last]]))
    demand = step_sums(np.searchsorted(times, begins), np.searchsorted(times, ends), gpus, len(times))
    until = np.concatenate([[0.0], np.cumsum(demand[:-1] * np.diff(times))])
    starts = np.unique(np.clip(np.concatenate([times, times - length]), first, last - length))
    area = np.interp(starts + length, times, until) - np.interp(starts, times, until)
    start = float(starts[int(np.argmax(area >= area.max() * (1 - PROVEN)))])
    return start, start + length


MOST_GANTT_ROWS = 40
"""Most rows of a Gantt chart: groups of GPUs, or jobs."""


@dataclass(frozen=True)
class GanttBar:
    """A span of a job in some rows of one group of a Gantt chart.

    Attributes
    ----------
    job, kind:
        The job, and what determines the colour: its tenant (the job itself without one), or the GPU type.
    start, trains, end:
        Start, beginning of the training, and end, in seconds.
    group, row, height:
        The group (a server or a job), its first row there, and the number of rows.
    """

    job: str
    kind: str
    start: float
    trains: float
    end: float
    group: int
    row: int
    height: int


def server_sizes(logs: Sequence[Log], instance: Instance | None) -> dict[str, int] | None:
    """Server -> its GPUs; None if some spans have no servers.

    The servers of the instance; without it the servers in the logs, with the largest number of GPUs in use.
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


class JobSpan(NamedTuple):
    """A row of the spans of a log; training begins at ``trains``."""

    job: str
    tenant: str | None
    start: float
    end: float
    gpu_type: str
    gpus: float
    trains: float
    on: Mapping[str, int]
    """Server -> its GPUs."""


def spans_in(log: Log, window: Window) -> list[JobSpan]:
    """Spans that overlap the window, by start."""
    spans = log.spans
    there = spans[(spans["start"] < window[1]) & (spans["end"] > window[0])]
    there = there.sort_values(["start", "end", "job"], kind="stable")
    there = there.assign(trains=np.minimum(there["start"] + there["lost"], there["end"]))
    on = [{s: round(sum(here.values())) for s, here in seats.items()} for seats in seats_of(replace(log, spans=there))]
    columns = (there[key].tolist() for key in JobSpan._fields[:-1])
    return [JobSpan(*row) for row in zip(*columns, on, strict=True)]


def bars_on_servers(log: Log, window: Window, sizes: Mapping[str, int]) -> list[GanttBar]:
    """Bars in groups that are servers, with a row per GPU.

    Rows are exclusive: no two spans share one at the same time.
    """
    free = {server: np.full(gpus, -np.inf) for server, gpus in sizes.items()}
    group = {server: number for number, server in enumerate(sizes)}
    bars = []
    for span in spans_in(log, window):
        for server, number in span.on.items():
            rows = _free_rows(free[server], number, span.start)
            free[server][rows] = span.end
            for first, height in _adjacent(rows):
                kind = span.job if span.tenant is None else span.tenant
                bars.append(GanttBar(span.job, kind, span.start, span.trains, span.end, group[server], first, height))
    return bars


def _free_rows(busy: Floats, number: int, now: float) -> list[int]:
    """``number`` rows of a server: the first free rows, then the rows that become free first."""
    empty = np.flatnonzero(busy <= now).tolist()
    soonest = [i for i in np.argsort(busy, kind="stable").tolist() if busy[i] > now]
    return [int(i) for i in (*empty, *soonest)][:number]


def _adjacent(rows: Sequence[int]) -> list[tuple[int, int]]:
    """First row and number of rows of each run of adjacent rows."""
    found: list[tuple[int, int]] = []
    for row in sorted(rows):
        if found and sum(found[-1]) == row:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((row, 1))
    return found


def chosen_jobs(logs: Sequence[Log], window: Window, most: int = MOST_GANTT_ROWS) -> list[str]:
    """The jobs with most GPU-seconds in the window, summed over all logs, in order of arrival."""
    total: dict[str, float] = {}
    arrival: dict[str, float] = {}
    for log in logs:
        for span in spans_in(log, window):
            held = (min(span.end, window[1]) - max(span.start, window[0])) * span.gpus
            total[span.job] = total.get(span.job, 0.0) + held
        arrival |= {str(name): float(time) for name, time in log.jobs["arrival"].items()}
    top = sorted(total, key=lambda name: (-total[name], arrival[name], name))[:most]
    return sorted(top, key=lambda name: (arrival[name], name))


def bars_of_jobs(log: Log, window: Window, jobs: Sequence[str]) -> list[GanttBar]:
    """Bars in groups that are jobs; concurrent copies of a job have a row each."""
    group = {name: number for number, name in enumerate(jobs)}
    busy: dict[str, list[float]] = {name: [] for name in jobs}
    bars = []
    for span in spans_in(log, window):
        if span.job in group:
            until = busy[span.job]
            row = next((i for i, end in enumerate(until) if end <= span.start), len(until))
            until[row : row + 1] = [span.end]
            bars.append(GanttBar(span.job, span.gpu_type, span.start, span.trains, span.end, group[span.job], row, 1))
    return bars


KINDS = 2 * len(LIGHT)
"""Number of tenants or GPU types with their own colour, full or pale; others are grey."""

DRAWN = 12_000
"""Number of bars above which a chart is rasterised, so that its size does not grow with them."""

GPU_ROW, JOB_ROW = 0.062, 0.14
"""Height in inches of the row of a GPU, and of the rows of a job."""

Colours = Mapping[str, tuple[str, float]]
"""Kind -> colour and opacity."""


def gantt_charts(loaded: LoadedRuns, window: Window | None, name: str) -> str:
    """The Gantt charts of all systems in a window of time.

    Parameters
    ----------
    window:
        Start and end in seconds; None: :func:`busiest_window`.
    name:
        Prefix of the names of pictures.

    Raises
    ------
    InvalidOption
        The window does not overlap the logs.
    """
    logs = loaded.logs
    what = "it" if loaded.instance is None else f"{loaded.instance.name} with seed {loaded.seed}"
    if window is None:
        shown, why = busiest_window(logs.values()), RULE
    else:
        check_window(window, logs.values(), what)
        shown, why = window, "as requested"
    unit = time_unit([shown[1] - shown[0]])
    first, last = (f"{time / unit.size:.6g}" for time in shown)
    parts = [f"<p>Seed {loaded.seed}, from {first} to {last} {unit.name}: {why}.</p>"]
    everywhere = [log for log in logs.values() if not (log.spans["servers"] == "").any()]
    sizes = server_sizes(everywhere, loaded.instance) or {}
    if len(sizes) > MOST_GANTT_ROWS:
        everywhere, sizes = [], {}
    jobs = chosen_jobs(list(logs.values()), shown)
    wide = 0.2 + width_of(short_names([*sizes, *jobs], 24), 8)
    on = {system: bars_on_servers(log, shown, sizes) for system, log in logs.items() if log in everywhere and sizes}
    of = {system: bars_of_jobs(log, shown, jobs) for system, log in logs.items() if system not in on}
    if on:
        text = "A row per server, with one line for each of its GPUs; a bar is a job on some of them."
        what = "tenants" if loaded.instance is None or loaded.instance.tenants else "jobs"
        parts.append(
            _drawn(on, shown, _Groups(tuple(sizes), tuple(sizes.values())), wide, f"{name}-servers", what, text)
        )
    if of:
        text = f"A row per job: the {len(jobs)} with most GPU time here, over all systems. Thin lines: waiting jobs."
        groups = _Groups(tuple(jobs), (1,) * len(jobs), {system: logs[system] for system in of})
        parts.append(_drawn(of, shown, groups, wide, f"{name}-jobs", "GPU types", text))
    return "".join(parts)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of Gantt charts: names, numbers of rows, and logs for drawing the presence of jobs."""

    names: tuple[str, ...]
    rows: tuple[int, ...]
    logs: Mapping[str, Log] = field(default_factory=dict)

    @property
    def inches(self) -> float:
        """Height of all groups."""
        return JOB_ROW * len(self.names) if self.logs else GPU_ROW * sum(self.rows) + 0.03 * len(self.names)


def _drawn(
    bars: Mapping[str, list[GanttBar]], window: Window, groups: _Groups, wide: float, name: str, what: str, text: str
) -> str:
    """A picture per system below a legend of colours; ``wide``: width in inches of the names of groups."""
    colours, named = _colours([bar for own in bars.values() for bar in own], window)
    samples = [(_sample(*colours[kind]), kind) for kind in named]
    if len(named) < len(colours):
        samples.append((_sample(QUIET, 0.55), "others"))
    samples.append((_sample(INK, 1.0), "starting or moving"))
    parts = [f"<p class='quiet'>Colours: {what}. {text}</p>", legend(samples)]
    many = sum(map(len, bars.values())) > DRAWN
    for number, (system, own) in enumerate(bars.items()):
        with canvas([*groups.names, system]):
            tall = max(groups.inches, 0.3)
            figure, ((axes,),) = AxesGrid(1, 1, tall, wide, bottom=0.45).figure()
            if groups.logs:
                _draw_presence(axes, groups.logs[system], groups.names, window)
            boxes = _boxes(own, groups.rows, by_row=not groups.logs)
            _draw(axes, own, boxes, colours, window, many)
            _draw_groups(axes, groups.names, groups.rows, tall / max(1, sum(groups.rows)))
            time_axis(axes, *window)
            axes.set_title(label(system, 1, 60))
            alone = f"Timeline of {system}: {counted(len(own), 'bar')} of jobs in {counted(len(groups.names), 'row')}."
            caption = f"{escape(system)}: {counted(len({bar.job for bar in own}), 'job')} in this window."
            parts.append(picture(figure, f"{name}{number}", alone, caption))
    return "".join(parts)


def _colours(bars: Iterable[GanttBar], window: Window) -> tuple[Colours, list[str]]:
    """The colour of each kind, and the kinds with their own colour, which have the largest area of bars."""
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


def _boxes(bars: Sequence[GanttBar], rows: Sequence[int], *, by_row: bool) -> list[Box]:
    """Vertical edges of bars: groups are as high as their rows (``by_row``), or equal and divided by rows in use."""
    if by_row:
        top = [sum(rows[:group]) for group in range(len(rows))]
        return [(top[bar.group] + bar.row, top[bar.group] + bar.row + bar.height) for bar in bars]
    used = [1] * len(rows)
    for bar in bars:
        used[bar.group] = max(used[bar.group], bar.row + 1)
    edge = 0.1
    part = [(1 - 2 * edge) / number for number in used]
    return [
        (bar.group + edge + part[bar.group] * bar.row, bar.group + edge + part[bar.group] * (bar.row + bar.height))
        for bar in bars
    ]


def _draw(
    axes: Axes, bars: Sequence[GanttBar], boxes: Sequence[Box], colours: Colours, window: Window, many: bool
) -> None:
    """Draw all bars, one shape per colour to keep the picture small."""
    shapes: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}
    for bar, (upper, lower) in zip(bars, boxes, strict=True):
        start, end = max(bar.start, window[0]), min(bar.end, window[1])
        shapes.setdefault(colours[bar.kind], []).append((start, end, upper, lower))
        if bar.trains > start:
            shapes.setdefault((INK, 1.0), []).append((start, min(bar.trains, end), upper, lower))
    if many:
        axes.set_facecolor(PAGES["light"])
    for (colour, alpha), own in sorted(shapes.items(), key=lambda item: item[0][0] == INK):
        points = [p for a, b, u, v in own for p in ((a, u), (b, u), (b, v), (a, v), (a, u))]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(own)
        patch = PathPatch(Path(points, codes), facecolor=colour, alpha=alpha, edgecolor=PAGE, linewidth=0.5)
        patch.set_rasterized(many)
        axes.add_patch(patch)


def _draw_presence(axes: Axes, log: Log, jobs: Sequence[str], window: Window) -> None:
    """A thin line for each job from its arrival to its finish."""
    arrivals, finishes = (log.jobs[key].astype(float).to_dict() for key in ("arrival", "finish"))
    for row, job in enumerate(jobs):
        if job in arrivals:
            leaves = window[1] if np.isnan(finishes[job]) else finishes[job]
            ends = max(arrivals[job], window[0]), min(leaves, window[1])
            if ends[0] < ends[1]:
                axes.plot(ends, (row + 0.5, row + 0.5), color=QUIET, linewidth=0.7, zorder=0.5)


def _draw_groups(axes: Axes, names: Sequence[str], heights: Sequence[int], inches: float) -> None:
    """Names and lines of groups; ``inches``: height of one row."""
    top, middles = 0, []
    for height in heights:
        axes.axhline(top, color=GRID, linewidth=0.6, zorder=0)
        middles.append(top + height / 2)
        top += height
    axes.set_ylim(top, 0)
    size = min(8.0, 72 * inches * min(heights, default=1) * 0.95)
    axes.set_yticks(middles, short_names(names, 24), fontsize=size)
    axes.tick_params(left=False, labelsize=size, axis="y")
    axes.tick_params(labelsize=8, axis="x")
    axes.grid(axis="x", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
