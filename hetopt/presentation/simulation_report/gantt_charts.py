"""Gantt charts of all systems in a window of time, with a row for each server or for each job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import counted
from hetopt.metrics.log_reading import end_of, seats_of
from hetopt.presentation.fonts import heading
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, draw_presence, gantt_figure, time_axis
from hetopt.presentation.pictures import WIDE, Picture, picture
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns
from hetopt.presentation.simulation_report.windows import Window
from hetopt.presentation.style import LIGHT, SeriesStyle, canvas, series_styles
from hetopt.presentation.tables import Key
from hetopt.simulation.log import Log

MOST_ROWS = 40
"""Most rows of a chart: servers, or jobs."""

COLOURS = 2 * len(LIGHT)
"""Number of tenants, jobs or GPU types with a style of their own; others are grey."""

DRAWN = 12_000
"""Number of bars above which a chart is rasterised, so that its size does not grow with them."""

GPU_LINE, JOB_LINE, LEAST_ROW = 0.062, 0.16, 0.16
"""Height in inches of the line of a GPU, of that of a job, and of the lowest row, whose name is legible."""

Bars = list[GanttBar]


def gantt_charts(loaded: LoadedRuns, window: Window, where: str) -> list[dict[str, Any]]:
    """Charts with a row for each server, and for systems without servers (or with too many) a row for each job.

    Parameters
    ----------
    where:
        The workload, for the text alternatives.

    Returns
    -------
    list
        For each kind of rows: what they and the colours show, the legend, a picture per system, the number of rows.
    """
    spans = {system: spans_in(log, window) for system, log in loaded.logs.items()}
    sizes = {}
    if loaded.instance is not None and len(loaded.instance.cluster.servers) <= MOST_ROWS:
        servers = loaded.instance.cluster.servers
        sizes = {server.name: int(sum(server.gpus.values())) for server in servers if server.gpus}
    placed = {system: own for system, own in spans.items() if sizes and not (own["servers"] == "").any()}
    others = {system: own for system, own in spans.items() if system not in placed}
    found = []
    if placed:
        styles, keys = _colours(placed.values(), "owner")
        rows = [GanttRow(name, gpus) for name, gpus in sizes.items()]
        height = max(GPU_LINE, LEAST_ROW / min(sizes.values()))
        drawn = []
        for system, own in placed.items():
            drawn.append(_chart(system, rows, bars_on_servers(own, sizes, styles), height, window, where))
        colours = "tenants" if loaded.instance is not None and loaded.instance.tenants else "jobs"
        found.append({"rows": "server", "colours": colours, "keys": keys, "pictures": drawn, "shown": len(rows)})
    if others:
        styles, keys = _colours(others.values(), "gpu_type")
        arrival = {str(name): float(at) for log in loaded.logs.values() for name, at in log.jobs["arrival"].items()}
        jobs = sorted(largest(spans.values(), "job", MOST_ROWS), key=lambda name: (arrival[name], name))
        drawn = []
        for system, own in others.items():
            bars = bars_of_jobs(own, jobs, styles)
            copies = {bar.row: bar.line + 1 for bar in sorted(bars, key=lambda bar: bar.line)}
            rows = [GanttRow(job, copies.get(number, 1)) for number, job in enumerate(jobs)]
            drawn.append(_chart(system, rows, bars, JOB_LINE, window, where, loaded.logs[system]))
        found.append({"rows": "job", "colours": "GPU types", "keys": keys, "pictures": drawn, "shown": len(jobs)})
    return found


def _colours(spans: Collection[pd.DataFrame], column: str) -> tuple[dict[str, SeriesStyle], list[Key]]:
    """The styles of the largest values of a column, and the legend."""
    styles = series_styles(largest(spans, column, COLOURS))
    keys = [Key(name, own.variable, hatched=bool(own.hatch)) for name, own in styles.items()]
    if any(not own[column].isin(styles).all() for own in spans):
        keys.append(Key("others", "rest"))
    return styles, [*keys, Key("starting or moving", "ink", opacity=0.6)]


def spans_in(log: Log, window: Window) -> pd.DataFrame:
    """Spans that overlap the window, by start.

    Besides the columns of the log: ``trains`` (second in which the training begins), ``owner`` (the tenant, or the job
    without one), ``held`` (GPU-seconds in the window), ``on`` (server -> GPU type -> GPUs).
    """
    spans = log.spans[(log.spans["start"] < window[1]) & (log.spans["end"] > window[0])]
    spans = spans.sort_values(["start", "end", "job"], kind="stable")
    return spans.assign(
        trains=np.minimum(spans["start"] + spans["lost"], spans["end"]),
        owner=spans["tenant"].where(spans["tenant"].notna(), spans["job"]),
        held=(spans["end"].clip(upper=window[1]) - spans["start"].clip(lower=window[0])) * spans["gpus"],
        on=pd.Series(seats_of(replace(log, spans=spans)), spans.index, dtype=object),
    )


def largest(spans: Iterable[pd.DataFrame], key: str, most: int) -> list[str]:
    """The values of a column of :func:`spans_in` with most GPU-seconds, over all systems."""
    held = pd.concat(list(spans)).groupby(key)["held"].sum().to_dict()
    return sorted(map(str, held), key=lambda name: (-held[name], name))[:most]


def bars_on_servers(spans: pd.DataFrame, sizes: Mapping[str, int], styles: Mapping[str, SeriesStyle]) -> Bars:
    """Bars in rows that are servers, with a line per GPU; no two spans share a line at the same time.

    Parameters
    ----------
    sizes:
        Server -> its GPUs.
    styles:
        Owner -> its style.
    """
    busy = {server: np.full(gpus, -np.inf) for server, gpus in sizes.items()}
    position = {server: number for number, server in enumerate(sizes)}
    bars = []
    span: Any
    for span in spans.itertuples():
        for server, here in span.on.items():
            until = np.where(busy[server] <= span.start, -np.inf, busy[server])  # free lines first, then by their end
            lines = np.sort(np.argsort(until, kind="stable")[: round(sum(here.values()))])
            busy[server][lines] = span.end
            for run in np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1):  # adjacent lines
                at = position[server], int(run[0]), len(run), span.start, span.end
                bars.append(GanttBar(*at, styles.get(span.owner), label=span.job, begun=span.trains))
    return bars


def bars_of_jobs(spans: pd.DataFrame, jobs: Sequence[str], styles: Mapping[str, SeriesStyle]) -> Bars:
    """Bars in rows that are jobs; concurrent copies of a job have a line each.

    Parameters
    ----------
    styles:
        GPU type -> its style.
    """
    position = {name: number for number, name in enumerate(jobs)}
    busy: dict[str, list[float]] = {name: [] for name in jobs}
    bars = []
    span: Any
    for span in spans[spans["job"].isin(jobs)].itertuples():
        until = busy[span.job]
        line = next((i for i, end in enumerate(until) if end <= span.start), len(until))
        until[line : line + 1] = [span.end]
        at = position[span.job], line, 1, span.start, span.end
        bars.append(GanttBar(*at, styles.get(span.gpu_type), begun=span.trains))
    return bars


def _chart(
    system: str,
    rows: Sequence[GanttRow],
    bars: Bars,
    height: float,
    window: Window,
    where: str,
    present: Log | None = None,
) -> Picture:
    """The chart of one system; ``present``: the log whose jobs are the rows, to draw when they are present."""
    with canvas([system, *(row.name for row in rows), *(bar.label for bar in bars)]):
        figure, axes = gantt_figure(rows, height)
        many = len(bars) > DRAWN
        draw_bars(axes, rows, bars, window, rasterized=many)
        if many:  # pixels have the colours of light screens
            axes.set_facecolor("white")
        if present is not None:
            arrives, leaves = present.jobs["arrival"], present.jobs["finish"].fillna(end_of(present))
            tops = accumulate((row.lines for row in rows), initial=0)
            there = [(row, top) for row, top in zip(rows, tops, strict=False) if row.name in arrives.index]
            middles = [(top + (row.lines - 1) / 2, arrives[row.name], leaves[row.name]) for row, top in there]
            draw_presence(axes, middles, window)
        time_axis(axes, *window)
        axes.set_title(heading(system, WIDE - 2))
        text = f"Timeline of {system} on {where}: {counted(len(bars), 'bar')} of jobs in {counted(len(rows), 'row')}"
        return picture(figure, text)
