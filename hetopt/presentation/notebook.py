"""Results in notebooks: their tables as HTML, and their figures."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hetopt.auditing.audit_report import Audit
from hetopt.experiments.comparison import Comparison
from hetopt.metrics.log_reading import end_of
from hetopt.presentation.allocation_pictures import check_picture_path, draw, save_figure
from hetopt.presentation.job_graph_pictures import draw_mapping
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import draw_boxes, panel
from hetopt.presentation.simulation_report.gantt_charts import job_timeline
from hetopt.presentation.style import BAD, GOOD, PAGE, QUIET, canvas, series_styles
from hetopt.presentation.tables import MOST_ROWS
from hetopt.presentation.trade_off_picture import trade_off
from hetopt.presentation.views import view
from hetopt.results.allocation import Allocation, Plan
from hetopt.simulation.log import Log
from hetopt.stages.mapping import GPUMapping, MappedJobs


@singledispatch
def figure(value: object) -> Figure:
    """The figure of a value, by its class."""
    raise TypeError(f"{type(value).__name__} has no figure")


def html(value: object) -> str:
    """A value as a fragment of a page, with its own style and without pictures."""
    return render("notebook.html.j2", tables=view(value), most=MOST_ROWS)


def plot(value: object, path: str | Path | None = None) -> Figure:
    """The figure of a value, written to ``path`` if given; see :meth:`hetopt.display.Displayed.plot`."""
    if path is not None:
        check_picture_path(Path(path))
    drawn = figure(value)
    drawn.set_facecolor(PAGE)
    if path is not None:
        save_figure(drawn, path)
    return drawn


figure.register(Allocation, draw)
figure.register(Plan, draw)
figure.register(Comparison, trade_off)
figure.register(GPUMapping, draw_mapping)
figure.register(MappedJobs, lambda value: draw_mapping(value.mappings.values()))


@figure.register
def _(value: Audit) -> Figure:
    """The slack of each property; none where nothing was measured."""
    rows = list(value)
    slacks = [100 * verdict.slack if np.isfinite(verdict.slack) else 0.0 for _, verdict in rows]
    with canvas(()):
        drawn, axes = panel(0.9 + 0.26 * len(rows), 7.0)
        for i, ((_, verdict), slack) in enumerate(zip(rows, slacks, strict=True)):
            colour = {True: GOOD, False: BAD, None: QUIET}[verdict.holds]
            draw_boxes(axes, [(min(slack, 0.0), max(slack, 0.0), i - 0.35, i + 0.35)], facecolor=colour, linewidth=0)
            axes.annotate(
                f"{verdict.word} ", (min(slack, 0.0), i), ha="right", va="center", color=colour, annotation_clip=False
            )
        low, high = min([0.0, *slacks]), max([0.0, *slacks])
        wide = max(high - low, 1.0)
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.spines["left"].set_visible(False)
        axes.set(xlim=(low - 0.25 * wide, high + 0.05 * wide), ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("slack (%): distance to a violation, below 0 if violated")
    return drawn


@figure.register
def _(value: Log) -> Figure:
    """When each job runs, and on which GPU type; dark where it starts or moves, a line while it is there."""
    jobs = list(map(str, value.jobs.index[:MOST_ROWS]))
    styles = series_styles(sorted(map(str, value.spans["gpu_type"].unique())))
    first, end = float(value.jobs["arrival"].min()), end_of(value)
    some = "" if len(jobs) == len(value.jobs) else f" (the first {len(jobs)} of {len(value.jobs)})"
    with canvas((*jobs, *styles)):
        window = (first if first < end else end - 1.0, end)
        drawn = job_timeline(value, jobs, window, styles)
        drawn.axes[0].set_title(f"Jobs on servers by GPU type{some}")
        samples = [Patch(label=name, **style.bar()) for name, style in styles.items()]
        drawn.legend(handles=samples, loc="upper right", ncols=6)
    return drawn
