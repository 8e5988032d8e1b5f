"""Charts that compare systems: bars with ranges, cumulative distributions, and curves over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from hetopt.data.array_types import Floats
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.presentation.fonts import label
from hetopt.presentation.formatting import format_duration
from hetopt.presentation.simulation_report import time_series as over_time
from hetopt.presentation.simulation_report.axes import AxesGrid, time_axis, unit_of, width_of
from hetopt.presentation.simulation_report.loaded_runs import JobSample, LoadedRuns
from hetopt.presentation.simulation_report.report_style import GRID, INK, QUIET, SystemStyle, canvas, legend, picture
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
"""Metric -> title of its bars; ``{}`` is the definition of fairness."""

TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h", 864000: "10 d", 8640000: "100 d"}
"""Seconds on a logarithmic axis."""


APART = 20
"""Ratio of the longest to the median queue above which the common axis is logarithmic."""


def short_names(names: Iterable[str], most: int = 26) -> list[str]:
    """Names that are short enough for a picture: at most the width of ``most`` letters."""
    return [label(name, number, most) for number, name in enumerate(names, 1)]


def bars(statistics: SeedStatistics, fairness: str, styles: Mapping[str, SystemStyle], name: str) -> str:
    """Means of the main metrics, a bar per system, with lines from the least to the largest value over seeds."""
    titles = {metric.format(fairness): title for metric, title in BARS.items()}
    shown = [metric for metric in titles if metric in statistics.metrics]
    systems = statistics.systems
    if not shown:
        return ""
    short, many = short_names(systems), min(4, len(shown))
    rows = -(-len(shown) // many)
    with canvas(systems):
        grid_of = AxesGrid(
            rows, many, 0.15 + 0.2 * len(systems), 0.15 + width_of(short), beside=0.2, below=0.55, bottom=0.3
        )
        figure, grid = grid_of.figure(sharey=True)
        for axes, metric in zip(grid.flat, shown, strict=False):
            _draw_bars(axes, statistics, metric, styles)
            unit = unit_of(metric, statistics.most[metric]).name
            axes.set_title(f"{titles[metric]} ({unit})" if unit else titles[metric])
        for axes in grid.flat[len(shown) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_yticks(range(len(systems)), short)
            axes.set_ylim(len(systems) - 0.4, -0.6)
        text = f"Bars of {', '.join(titles[metric] for metric in shown)} for {', '.join(systems)}; see the tables."
        spread = "Bars: means over seeds; thin lines: from the least to the largest value. An empty row: no value."
        return picture(figure, name, text, f"{spread} In the order of mean JCT. {_definition(fairness)}")


def _draw_bars(axes: Axes, statistics: SeedStatistics, metric: str, styles: Mapping[str, SystemStyle]) -> None:
    size = unit_of(metric, statistics.most[metric]).size
    for place, system in enumerate(statistics.systems):
        spread = (statistics.mean, statistics.least, statistics.most)
        mean, least, most = (float(of[metric][system]) / size for of in spread)
        if np.isfinite(mean):
            axes.barh(place, mean, height=0.72, linewidth=0, **styles[system].bar())
            if most > least:
                axes.plot([least, most], [place, place], color=INK, linewidth=1.2, solid_capstyle="butt", zorder=3)
    axes.set_xlim(left=0)
    axes.tick_params(left=False, labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)


def _definition(fairness: str) -> str:
    return f"Finish-time fairness: definition <code>{escape(fairness)}</code>, see the tables."


def distributions(loaded: LoadedRuns, fairness: str, styles: Mapping[str, SystemStyle], name: str) -> str:
    """Cumulative distributions of completion times and of finish-time fairness."""
    with canvas(loaded.jct):
        figure, ((left, right),) = AxesGrid(1, 2, 3.5, 0.55, beside=0.5).figure()
        _draw_shares(left, loaded.jct, styles)
        _seconds_axis(left)
        left.set_title("Job completion time")
        left.set_ylabel("share of jobs")
        _draw_shares(right, loaded.rho, styles)
        if not any(len(sample.values) for sample in loaded.rho.values()):
            right.text(0.5, 0.5, "not known", transform=right.transAxes, ha="center", color=QUIET)
        right.axvline(1.0, color=QUIET, linewidth=0.8, linestyle=(0, (2, 2)))
        _ratio_axis(right)
        right.set_title(f"Finish-time fairness ({fairness})")
        right.set_xlabel("time taken / ideal time, log scale; left of 1: sooner than the ideal")
        keys = legend((styles[system].swatch(), system) for system in loaded.jct)
        text = f"Distributions over jobs of completion time and finish-time fairness for {', '.join(loaded.jct)}."
        caption = "Share of the jobs of all seeds that take at most this time; a curve ends below 1 if jobs "
        caption += f"are unfinished. Higher and further left is better. {_definition(fairness)}"
        for why, systems in by_reason(loaded.without).items():
            caption += f" No fairness of {escape(', '.join(systems))}: {escape(why)}."
        return picture(figure, name, text, caption, keys)


def _draw_shares(axes: Axes, samples: Mapping[str, JobSample], styles: Mapping[str, SystemStyle]) -> None:
    for system, sample in samples.items():
        x, y = over_time.cumulative_distribution(sample.values[sample.values > 0], sample.jobs)
        if len(x):
            axes.step([x[0], *x], [0.0, *y], where="post", **styles[system].line())
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.grid(linewidth=0.6)


def _seconds_axis(axes: Axes) -> None:
    """Ticks at seconds, minutes, hours and days."""
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


def timelines(loaded: LoadedRuns, baseline: str, styles: Mapping[str, SystemStyle], name: str) -> str:
    """GPUs in use and jobs waiting over time: a row per system, all on the same axes."""
    logs = loaded.logs
    edges = over_time.interval_edges(logs.values())
    columns: dict[str, Callable[[Log, Floats], Floats]] = {
        "Part of the GPUs that train": over_time.in_use,
        "Jobs that wait": over_time.waiting,
    }
    with canvas(logs):
        short = short_names(logs)
        grid_of = AxesGrid(len(logs), 2, 0.68, 0.5 + width_of(short), beside=0.5, below=0.14)
        figure, grid = grid_of.figure(sharex=True, sharey="col")
        for column, (title, compute) in enumerate(columns.items()):
            curves = {system: compute(log, edges) for system, log in logs.items()}
            for axes, (system, curve) in zip(grid[:, column], curves.items(), strict=True):
                if system != baseline and baseline in curves:
                    axes.stairs(curves[baseline], edges, baseline=None, color=QUIET, linewidth=0.7, alpha=0.7)
                axes.stairs(curve, edges, baseline=None, **styles[system].line() | {"linewidth": 1.2})
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
        text = f"GPUs in use and waiting jobs over time for {', '.join(logs)}."
        caption = f"Seed {loaded.seed}, means over intervals of {format_duration(edges[1] - edges[0])}."
        if baseline in logs and len(logs) > 1:
            caption += f" Thin grey line: {escape(baseline)}, for comparison."
        if apart:
            caption += " Queues differ so much that their scale is logarithmic above 1."
        return picture(figure, name, text, caption)


def _queues_axis(axes: Axes, curves: Sequence[Floats]) -> bool:
    """Set common limits of all panels; return whether their maxima differ so much that the scale is logarithmic."""
    tops = [float(np.nanmax(curve, initial=0.0)) for curve in curves]
    apart = max(tops) > APART * max(1.0, float(np.median(tops)))
    if apart:
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(0, max(1.0, 1.05 * max(tops)))
    return apart


def estimates(loaded: LoadedRuns, styles: Mapping[str, SystemStyle], name: str) -> str:
    """Estimated and actual throughput over time, for systems with estimates; empty if there are none."""
    logs = {system: log for system, log in loaded.logs.items() if not log.estimated.empty}
    if not logs:
        return ""
    edges = over_time.interval_edges(logs.values())
    with canvas(logs):
        names = short_names(logs)
        figure, grid = AxesGrid(len(logs), 1, 1.3, 0.5 + width_of(names), below=0.2).figure(sharex=True, sharey=True)
        for axes, (system, log), short in zip(grid[:, 0], logs.items(), names, strict=True):
            estimated, actual = over_time.throughput(log, edges)
            axes.stairs(estimated, edges, baseline=None, color=QUIET, linewidth=1.1, linestyle=(0, (4, 1.5)))
            axes.stairs(actual, edges, baseline=None, **styles[system].line() | {"linestyle": "-"})
            axes.set_ylim(bottom=0)
            axes.set_ylabel(short, rotation=0, ha="right", va="center")
            axes.grid(linewidth=0.6, color=GRID)
        time_axis(grid[-1, 0], edges[0], edges[-1])
        text = f"Estimated and actual normalised throughput over time for {', '.join(logs)}."
        caption = "Dashed grey: estimate of the allocations before rounding and placement; solid: actual. "
        caption += (
            f"Normalised throughput of all tenants, in GPUs of speedup 1 [OEF, section 6.1.4]. Seed {loaded.seed}."
        )
        return picture(figure, name, text, caption)
