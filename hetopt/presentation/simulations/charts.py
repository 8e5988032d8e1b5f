"""Pictures that compare systems: bars with their spread, cumulative distributions, and what happened over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from hetopt.data.entities import Floats
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.standings import Standings, cell
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import scale_of
from hetopt.presentation.simulations import time_series as over_time
from hetopt.presentation.simulations.axes import Frame, time_axis, width_of
from hetopt.presentation.simulations.loaded_runs import Gathered, Pool
from hetopt.presentation.simulations.style import GRID, INK, QUIET, Look, canvas, legend, picture
from hetopt.simulation.log import Log

BARS = {
    "jct_mean": "Mean JCT",
    "jct_p99": "99th percentile of JCT",
    "makespan": "Makespan",
    "starvation_max": "Longest starvation",
    "ftf_{}_mean": "Mean finish-time fairness",
    "ftf_{}_max": "Largest finish-time fairness",
    "switches_mean": "Switches per job",
    "lost_share": "Share of GPU time lost",
    "gru": "GRU",
    "cru": "CRU",
    "utilisation": "Utilisation",
    "decision_mean": "Mean time of a decision",
}
"""Metric -> title of its bars; braces stand for the definition of fairness."""

TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h", 864000: "10 d", 8640000: "100 d"}
"""Seconds on a logarithmic axis."""


APART = 20
"""The longest queue is so many times as long as the median one: on a common axis others would not be seen."""


def named(systems: Mapping[str, object] | list[str]) -> list[str]:
    """Names of systems, short enough for a picture."""
    return [label(name, number + 1, 26) for number, name in enumerate(systems)]


def bars(standings: Standings, fairness: str, looks: Mapping[str, Look], name: str) -> str:
    """Means of the main metrics, a bar per system, with lines from the least to the largest seed."""
    titles = {metric.format(fairness): title for metric, title in BARS.items()}
    shown = [metric for metric in titles if metric in standings.metrics]
    systems = standings.systems
    if not shown:
        return ""
    short, many = named(systems), min(4, len(shown))
    rows = -(-len(shown) // many)
    with canvas(systems):
        frame = Frame(rows, many, 0.15 + 0.2 * len(systems), 0.15 + width_of(short), beside=0.2, below=0.55, bottom=0.3)
        figure, grid = frame.figure(sharey=True)
        for axes, metric in zip(grid.flat, shown, strict=False):
            _draw_bars(axes, standings, metric, looks)
            unit = scale_of(metric, standings.most[metric]).name
            axes.set_title(f"{titles[metric]} ({unit})" if unit else titles[metric])
        for axes in grid.flat[len(shown) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_yticks(range(len(systems)), short)
            axes.set_ylim(len(systems) - 0.4, -0.6)
        said = f"Bars of {', '.join(titles[metric] for metric in shown)} for {', '.join(systems)}; see the tables."
        spread = "Bars: means over seeds; thin lines: from the least to the largest seed. An empty row: no such number."
        return picture(figure, name, said, f"{spread} In the order of mean JCT. {_definition(fairness)}")


def _draw_bars(axes: Axes, standings: Standings, metric: str, looks: Mapping[str, Look]) -> None:
    size = scale_of(metric, standings.most[metric]).size
    for place, system in enumerate(standings.systems):
        spread = (standings.mean, standings.least, standings.most)
        mean, least, most = (cell(of, system, metric) / size for of in spread)
        if np.isfinite(mean):
            axes.barh(place, mean, height=0.72, linewidth=0, **looks[system].bar())
            if most > least:
                axes.plot([least, most], [place, place], color=INK, linewidth=1.2, solid_capstyle="butt", zorder=3)
    axes.set_xlim(left=0)
    axes.tick_params(left=False, labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)


def _definition(fairness: str) -> str:
    return f"Finish-time fairness: definition <code>{escape(fairness)}</code>, see the tables."


def distributions(gathered: Gathered, fairness: str, looks: Mapping[str, Look], name: str) -> str:
    """Cumulative distributions of completion times and of finish-time fairness."""
    with canvas(gathered.jct):
        figure, ((left, right),) = Frame(1, 2, 3.5, 0.55, beside=0.5).figure()
        _draw_shares(left, gathered.jct, looks)
        _seconds_axis(left)
        left.set_title("Job completion time")
        left.set_ylabel("share of jobs")
        _draw_shares(right, gathered.rho, looks)
        if not any(len(pool.values) for pool in gathered.rho.values()):
            right.text(0.5, 0.5, "not known", transform=right.transAxes, ha="center", color=QUIET)
        right.axvline(1.0, color=QUIET, linewidth=0.8, linestyle=(0, (2, 2)))
        _ratio_axis(right)
        right.set_title(f"Finish-time fairness ({fairness})")
        right.set_xlabel("time taken / ideal time, log scale; left of 1: sooner than the ideal")
        keys = legend((looks[system].swatch(), system) for system in gathered.jct)
        said = f"Distributions over jobs of completion time and finish-time fairness for {', '.join(gathered.jct)}."
        caption = "Share of the jobs of all seeds together that take at most so long; a curve ends below 1 where jobs "
        caption += f"are unfinished. Higher and further left is better. {_definition(fairness)}"
        for why, systems in by_reason(gathered.without).items():
            caption += f" No fairness of {escape(', '.join(systems))}: {escape(why)}."
        return picture(figure, name, said, caption, keys)


def _draw_shares(axes: Axes, pools: Mapping[str, Pool], looks: Mapping[str, Look]) -> None:
    for system, pool in pools.items():
        x, y = over_time.thinned(pool.values[pool.values > 0], pool.among)
        if len(x):
            axes.step([x[0], *x], [0.0, *y], where="post", **looks[system].line())
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.grid(linewidth=0.6)


def _seconds_axis(axes: Axes) -> None:
    """Ticks at seconds, minutes, hours, days."""
    low, high = axes.get_xlim()
    there = {at: text for at, text in TICKS.items() if low <= at <= high}
    if len(there) > 1:
        axes.set_xticks(list(there), list(there.values()))
        axes.minorticks_off()
        axes.set_xlabel("log scale")
    else:
        axes.set_xlabel("seconds, log scale")
    axes.set_xlim(low, high)


def _ratio_axis(axes: Axes) -> None:
    """Ticks at 1, 2, 5, 10 …; over many decades at powers of ten."""
    low, high = axes.get_xlim()
    many = high > 1000 * low
    ticks = [s * 10.0**e for e in range(-9, 18) for s in ((1,) if many else (1, 2, 5)) if low <= s * 10.0**e <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(low, high)


def timelines(gathered: Gathered, baseline: str, looks: Mapping[str, Look], name: str) -> str:
    """GPUs in use and jobs waiting over time: a row per system, all on the same axes."""
    logs = gathered.logs
    edges = over_time.stretches(logs.values())
    columns: dict[str, Callable[[Log, Floats], Floats]] = {
        "Part of the GPUs that train": over_time.in_use,
        "Jobs that wait": over_time.waiting,
    }
    with canvas(logs):
        short = named(logs)
        frame = Frame(len(logs), 2, 0.68, 0.5 + width_of(short), beside=0.5, below=0.14)
        figure, grid = frame.figure(sharex=True, sharey="col")
        for column, (title, compute) in enumerate(columns.items()):
            curves = {system: compute(log, edges) for system, log in logs.items()}
            for axes, (system, curve) in zip(grid[:, column], curves.items(), strict=True):
                if system != baseline and baseline in curves:
                    axes.stairs(curves[baseline], edges, baseline=None, color=QUIET, linewidth=0.7, alpha=0.7)
                axes.stairs(curve, edges, baseline=None, **looks[system].line() | {"linewidth": 1.2})
                axes.grid(linewidth=0.6)
                axes.tick_params(labelsize=8)
            grid[0, column].set_title(title)
            if column == 0:
                grid[0, 0].set_ylim(0, 1.05)
            else:
                apart = _queues_axis(grid[0, 1], list(curves.values()))
            time_axis(grid[-1, column], edges[0], edges[-1])
        for axes, system in zip(grid[:, 0], short, strict=True):
            axes.set_ylabel(system, rotation=0, ha="right", va="center")
        said = f"GPUs in use and waiting jobs over time for {', '.join(logs)}."
        stretch = scale_of("makespan", [edges[1] - edges[0]])
        caption = f"Seed {gathered.seed}, means over stretches of {stretch.spell(edges[1] - edges[0])} {stretch.name}."
        if baseline in logs and len(logs) > 1:
            caption += f" Thin grey line: {escape(baseline)}, for comparison."
        if apart:
            caption += " Queues differ so much that their scale is logarithmic above 1."
        return picture(figure, name, said, caption)


def _queues_axis(axes: Axes, curves: Sequence[Floats]) -> bool:
    """Limits that all panels share; whether they are so far apart that the scale is logarithmic above 1."""
    tops = [float(np.nanmax(curve, initial=0.0)) for curve in curves]
    apart = max(tops) > APART * max(1.0, float(np.median(tops)))
    if apart:
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(0, max(1.0, 1.05 * max(tops)))
    return apart


def promises(gathered: Gathered, looks: Mapping[str, Look], name: str) -> str:
    """Estimated and actual throughput over time, of the systems that promise any; empty where none does."""
    logs = {system: log for system, log in gathered.logs.items() if not log.estimated.empty}
    if not logs:
        return ""
    edges = over_time.stretches(logs.values())
    with canvas(logs):
        names = named(logs)
        figure, grid = Frame(len(logs), 1, 1.3, 0.5 + width_of(names), below=0.2).figure(sharex=True, sharey=True)
        for axes, (system, log), short in zip(grid[:, 0], logs.items(), names, strict=True):
            estimated, actual = over_time.throughput(log, edges)
            axes.stairs(estimated, edges, baseline=None, color=QUIET, linewidth=1.1, linestyle=(0, (4, 1.5)))
            axes.stairs(actual, edges, baseline=None, **looks[system].line() | {"linestyle": "-"})
            axes.set_ylim(bottom=0)
            axes.set_ylabel(short, rotation=0, ha="right", va="center")
            axes.grid(linewidth=0.6, color=GRID)
        time_axis(grid[-1, 0], edges[0], edges[-1])
        said = f"Estimated and actual normalised throughput over time for {', '.join(logs)}."
        caption = "Dashed grey: what the allocations promised before rounding and placement; solid: what was trained. "
        caption += (
            f"Normalised throughput of all tenants, in GPUs of speedup 1 [OEF, section 6.1.4]. Seed {gathered.seed}."
        )
        return picture(figure, name, said, caption)
