"""Gantt charts of all systems in a window of time, with a row for each server or for each job."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hetopt.checks import counted
from hetopt.data.units import seconds_of
from hetopt.errors import InvalidOption
from hetopt.metrics.log_reading import end_of, seats_of
from hetopt.metrics.over_time import extent
from hetopt.presentation.fonts import heading
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, gantt_figure, time_axis
from hetopt.presentation.pictures import WIDE, picture
from hetopt.presentation.simulation_report.runs import LoadedRuns
from hetopt.presentation.style import LIGHT, QUIET, SeriesStyle, canvas, series_styles
from hetopt.presentation.tables import Key
from hetopt.simulation.log import Log, training_begins

Window = tuple[float, float]
"""Start and end in seconds."""

SHORTEST, LONGEST, STARTS = 3600.0, 4 * 3600.0, 181
"""Bounds in seconds of the length of the default window, and the number of windows from which it is chosen."""

MOST_ROWS, COLOURS = 40, 2 * len(LIGHT)
"""Most rows of a chart, servers or jobs; tenants, jobs or GPU types with a style of their own (others are grey)."""

LINE, LEAST_ROW = 0.062, 0.18
"""Height in inches of a line, and of the lowest row, whose name is legible."""


def parse_window(text: str) -> Window:
    """Parse ``2h:6h`` to seconds; numbers without unit are seconds.

    Raises
    ------
    InvalidOption
        Another form, or an end that is not after the start.
    """
    start, end = map(seconds_of, text.partition(":")[::2])
    if math.isnan(start) or math.isnan(end):
        raise InvalidOption(f"is {text!r}; it must be START:END in seconds or with a unit, such as 2h:6h", "window")
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
    servers = () if loaded.instance is None else loaded.instance.cluster.servers
    sizes = {server.name: int(sum(server.gpus.values())) for server in servers if server.gpus}
    placed, others = dict[str, pd.DataFrame](), dict[str, pd.DataFrame]()
    for system, log in loaded.logs.items():
        own = spans_in(log, window)
        on_servers = 0 < len(servers) <= MOST_ROWS and not (own["servers"] == "").any()
        (placed if on_servers else others)[system] = own
    return [_charts(own, to, loaded, window, where) for own, to in ((placed, sizes), (others, {})) if own]


def _charts(
    spans: Mapping[str, pd.DataFrame], sizes: Mapping[str, int], loaded: LoadedRuns, window: Window, where: str
) -> dict[str, Any]:
    """Charts with a row for each server (name -> GPUs); without servers, for each of the jobs with most GPU time."""
    tenants = loaded.instance is not None and loaded.instance.tenants
    colour, colours = ("owner", "tenants" if tenants else "jobs") if sizes else ("gpu_type", "GPU types")
    arrival = pd.concat([log.jobs["arrival"] for log in loaded.logs.values()]).to_dict()
    by_arrival = sorted(largest(spans.values(), "job", MOST_ROWS), key=lambda name: (arrival[name], name))
    names = list(sizes) or by_arrival
    styles = series_styles(largest(spans.values(), colour, COLOURS))
    keys = [style.key(name) for name, style in styles.items()]
    if any(not own[colour].isin(styles).all() for own in spans.values()):
        keys.append(Key("others", "rest"))
    pictures = []
    for system, own in spans.items():
        with canvas([system, *names, *own["job"].unique()]):
            if sizes:
                per_gpu = 2 if any(n % 1 for here in own["on"] for n in here.values()) else 1  # lines
                lines = {name: per_gpu * gpus for name, gpus in sizes.items()}
                bars = bars_of(own, lines, styles, per_gpu=per_gpu)
                figure = _timeline([GanttRow(*row) for row in lines.items()], bars, window, LINE / per_gpu)
            else:
                figure = job_timeline(loaded.logs[system], names, window, styles)
            figure.axes[0].set_title(heading(system, WIDE - 2))
            text = f"Timeline of {system} on {where}: {counted(len(own), 'span')} in {counted(len(names), 'row')}"
            pictures.append(picture(figure, text))
    keys.append(Key("starting or moving", "ink", opacity=0.6))
    rows_are = "server" if sizes else "job"
    return {"rows": rows_are, "colours": colours, "keys": keys, "pictures": pictures, "shown": len(names)}


def job_timeline(log: Log, jobs: Sequence[str], window: Window, styles: Mapping[str, SeriesStyle]) -> Figure:
    """A row for each of these jobs: where it runs, by GPU type, and a thin line while it is present."""
    spans = spans_in(log, window)
    bars = bars_of(spans, dict.fromkeys(jobs, len(spans)), styles, by_job=True)
    copies = {bar.row: bar.line + 1 for bar in sorted(bars, key=lambda bar: bar.line)}
    figure = _timeline([GanttRow(name, copies.get(i, 1)) for i, name in enumerate(jobs)], bars, window)
    present = log.jobs.reindex(list(jobs)).fillna({"finish": end_of(log)})
    axes = figure.axes[0]
    axes.hlines(axes.get_yticks(), present["arrival"], present["finish"], colors=QUIET, linewidth=0.7, zorder=1)
    return figure


def _timeline(rows: Sequence[GanttRow], bars: Sequence[GanttBar], window: Window, line: float = LINE) -> Figure:
    figure, axes = gantt_figure(rows, max(line, LEAST_ROW / min((row.lines for row in rows), default=1)))
    draw_bars(axes, rows, bars, window)
    time_axis(axes, *window)
    return figure


def spans_in(log: Log, window: Window) -> pd.DataFrame:
    """Spans that overlap the window, by start.

    Besides the columns of the log: ``trains`` (second in which the training begins), ``owner`` (the tenant, or the job
    without one), ``held`` (GPU-seconds in the window), ``on`` (server -> GPUs).
    """
    spans = log.spans[(log.spans["start"] < window[1]) & (log.spans["end"] > window[0])]
    spans = spans.sort_values(["start", "end", "job"], kind="stable")
    seats = seats_of(replace(log, spans=spans))
    on = [{server: round(2 * sum(here.values())) / 2 for server, here in own.items()} for own in seats]
    return spans.assign(
        trains=training_begins(*(spans[key].to_numpy(dtype=float) for key in ("start", "lost", "end"))),
        owner=spans["tenant"].where(spans["tenant"].notna(), spans["job"]),
        held=(spans["end"].clip(upper=window[1]) - spans["start"].clip(lower=window[0])) * spans["gpus"],
        on=pd.Series(on, spans.index, dtype=object),
    )


def largest(spans: Iterable[pd.DataFrame], key: str, most: int) -> list[str]:
    """The values of a column of :func:`spans_in` with most GPU-seconds, over all systems."""
    held = pd.concat(list(spans)).groupby(key)["held"].sum().to_dict()
    return sorted(map(str, held), key=lambda name: (-held[name], name))[:most]


def bars_of(
    spans: pd.DataFrame,
    lines: Mapping[str, int],
    styles: Mapping[str, SeriesStyle],
    *,
    by_job: bool = False,
    per_gpu: int = 1,
) -> list[GanttBar]:
    """Bars of the spans, no two of which share a line of a row at the same time.

    Parameters
    ----------
    lines:
        Row -> its lines; spans in other rows are left out.
    styles:
        Style of each tenant, or (``by_job``) of each GPU type.
    by_job:
        Whether rows are jobs, in which a span takes a line, rather than servers, in which it takes a line per GPU.
    per_gpu:
        Lines per GPU: 2 where jobs share GPUs.
    """
    free = {row: np.full(most, -np.inf) for row, most in lines.items()}
    position = {row: number for number, row in enumerate(lines)}
    bars = []
    span: Any
    for span in spans.itertuples():
        for row, many in ({span.job: 1} if by_job else span.on).items():
            if row not in free:
                continue
            until = np.where(free[row] <= span.start, -np.inf, free[row])  # free lines first, then by their end
            own = np.sort(np.argsort(until, kind="stable")[: 1 if by_job else round(per_gpu * many)])
            free[row][own] = span.end
            for run in np.split(own, np.flatnonzero(np.diff(own) > 1) + 1):  # adjacent lines
                at = position[row], int(run[0]), len(run), span.start, span.end
                colour, label = (span.gpu_type, span.servers) if by_job else (span.owner, span.job)
                bars.append(GanttBar(*at, styles.get(colour), label, begun=span.trains))
    return bars
