"""Gantt charts of systems in a window of time, with a row for each job."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hetopt.checks import counted
from hetopt.errors import InvalidOption
from hetopt.metrics.log_reading import end_of
from hetopt.metrics.over_time import extent
from hetopt.presentation.fonts import heading
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, gantt_figure, time_axis
from hetopt.presentation.pictures import WIDE, picture
from hetopt.presentation.style import QUIET, SeriesStyle, canvas, series_styles
from hetopt.presentation.tables import Key
from hetopt.simulation.log import Log, training_begins

Window = tuple[float, float]
"""Start and end in seconds."""

SHORTEST, LONGEST = 3600.0, 4 * 3600.0
"""Bounds in seconds of the length of the default window, in which rounds of some minutes are visible."""

STARTS = 181
"""Number of windows from which the default is chosen."""

UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Unit after a time -> seconds."""

TIME = r"\s*(\d+\.?\d*|\.\d+)\s*(|s|min|m|h|d)\s*"


def parse_window(text: str) -> Window:
    """Parse ``2h:6h`` to seconds; numbers without unit are seconds.

    Raises
    ------
    InvalidOption
        Another form, or an end that is not after the start.
    """
    found = re.fullmatch(f"{TIME}:{TIME}", text)
    if found is None:
        raise InvalidOption(f"is {text!r}; it must be START:END in seconds or with a unit, such as 2h:6h", "window")
    start, end = (float(found[i]) * UNITS[found[i + 1]] for i in (1, 3))
    if not start < end < math.inf:
        raise InvalidOption(f"is {text!r}; its end must be after its start", "window")
    return start, end


def windows_of(logs: Mapping[str, Collection[Log]], wanted: Window | None) -> dict[str, Window]:
    """Workload -> the window of its charts; without those of which the wanted window shows nothing.

    Raises
    ------
    InvalidOption
        The wanted window overlaps no workload.
    """
    lasting = {name: extent(own) for name, own in logs.items() if own}
    if wanted is None:
        return {name: busiest_window(logs[name]) for name in lasting}
    found = {name: wanted for name, (first, last) in lasting.items() if wanted[0] < last and wanted[1] > first}
    if lasting and not found:
        there = "; ".join(f"{name} lasts from {first:g} to {last:g}" for name, (first, last) in lasting.items())
        raise InvalidOption(f"is {wanted[0]:g}:{wanted[1]:g} seconds, and {there}; choose one within it", "window")
    return found


def busiest_window(logs: Collection[Log]) -> Window:
    """The window in which the jobs present request most GPU-seconds, the first if there are several.

    Its length is a quarter of the logs, between one and four hours; shorter logs are shown completely. It begins at one
    of :data:`STARTS` equally distant seconds.
    """
    first, last = extent(logs)
    length = min(max((last - first) / 4, SHORTEST), LONGEST, last - first)
    jobs = pd.concat([log.jobs_with_work.fillna({"finish": end_of(log)}) for log in logs])
    begins, ends, gpus = (jobs[key].to_numpy(dtype=float) for key in ("arrival", "finish", "demand"))
    starts = np.linspace(first, last - length, STARTS).tolist()
    area = [gpus @ (ends.clip(start, start + length) - begins.clip(start, start + length)) for start in starts]
    start = starts[int(np.argmax(np.round(area, 3)))]
    return start, start + length


MOST_ROWS = 40
"""Most rows of a chart of a page."""

LINE = 0.18
"""Height in inches of a bar."""


def gantt_charts(logs: Mapping[str, Log], window: Window, where: str) -> dict[str, Any]:
    """A chart for each system, all with the same rows: the jobs with most GPU-seconds in the window, by arrival.

    Parameters
    ----------
    where:
        The workload, for the text alternatives.

    Returns
    -------
    dict
        The legend, a picture per system, and the number of rows.
    """
    spans = pd.concat([log.spans for log in logs.values()], ignore_index=True)
    held = (spans["end"].clip(*window) - spans["start"].clip(*window)) * spans["gpus"]
    shown = held[held > 0].groupby(spans["job"]).sum().nlargest(MOST_ROWS).index
    arrival = pd.concat([log.jobs["arrival"] for log in logs.values()]).groupby(level=0).first()
    jobs = sorted(map(str, shown), key=lambda name: (arrival[name], name))
    styles = series_styles(sorted(spans["gpu_type"].unique()))
    pictures = []
    for system, log in logs.items():
        with canvas([system, *jobs, *styles]):
            figure = timeline(log, jobs, window, styles, system)
            pictures.append(picture(figure, f"Timeline of {counted(len(jobs), 'job')} of {system} on {where}"))
    keys = [Key(name, own.variable, hatched=bool(own.hatch)) for name, own in styles.items()]
    keys.append(Key("starting or moving", "ink", opacity=0.6))
    return {"keys": keys, "pictures": pictures, "shown": len(jobs)}


def timeline(
    log: Log, jobs: Sequence[str], window: Window, styles: Mapping[str, SeriesStyle], title: str, top: float = 0.3
) -> Figure:
    """Draw when these jobs run, on which GPU type and servers, and by thin lines when they are present."""
    bars = job_bars(log, jobs, styles)
    copies = {bar.row: bar.line + 1 for bar in sorted(bars, key=lambda bar: bar.line)}
    rows = [GanttRow(name, copies.get(i, 1)) for i, name in enumerate(jobs)]
    figure, axes = gantt_figure(rows, LINE, top=top)
    draw_bars(axes, rows, bars, window)
    there = log.jobs.reindex(list(jobs)).fillna({"finish": end_of(log)})
    axes.hlines(axes.get_yticks(), there["arrival"], there["finish"], colors=QUIET, linewidth=0.7, zorder=1)
    time_axis(axes, *window)
    axes.set_title(heading(title, WIDE - 2))
    return figure


def job_bars(log: Log, jobs: Sequence[str], styles: Mapping[str, SeriesStyle]) -> list[GanttBar]:
    """A bar with its servers for each span of these jobs; copies that run at the same time are side by side."""
    spans = log.spans[log.spans["job"].isin(jobs)].sort_values(["start", "end"], kind="stable")
    begun = training_begins(*(spans[key].to_numpy(dtype=float) for key in ("start", "lost", "end")))
    position, until = {job: i for i, job in enumerate(jobs)}, {job: list[float]() for job in jobs}
    bars = []
    span: Any
    for span, trains in zip(spans.itertuples(), begun, strict=True):
        free = until[span.job]
        line = next((i for i, end in enumerate(free) if end <= span.start), len(free))
        free[line : line + 1] = [span.end]
        place = position[span.job], line, 1, span.start, span.end
        bars.append(GanttBar(*place, styles.get(span.gpu_type), span.servers, begun=float(trains)))
    return bars
