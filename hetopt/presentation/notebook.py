"""Views of results in notebooks: tables as HTML, and figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hetopt.auditing.audit_report import Audit
from hetopt.checks import counted
from hetopt.experiments.comparison import COLUMNS, PLACED, Comparison, by_reason, ranked, recommend
from hetopt.presentation import allocation_pictures
from hetopt.presentation.allocation_pictures import check_picture_path, save_figure
from hetopt.presentation.comparison_page import trade_off_of
from hetopt.presentation.formatting import format_duration, format_number, format_percent
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, gantt_figure, time_axis
from hetopt.presentation.job_graph_pictures import draw_mapping
from hetopt.presentation.pages import render
from hetopt.presentation.pictures import draw_boxes, panel
from hetopt.presentation.result_tables import (
    audit_table,
    certificate_text,
    comparison_table,
    log_table,
    mapping_facts,
    reason_of,
    replica_table,
    result_table,
)
from hetopt.presentation.style import BAD, GOOD, PAGE, QUIET, canvas, series_styles
from hetopt.presentation.tables import Table, table_of, with_marked
from hetopt.results.allocation import Allocation, Plan
from hetopt.simulation.log import Log
from hetopt.stages.mapping import GPUMapping, MappedJobs

MOST_ROWS = 60
"""Most rows of a table, and of a Gantt chart."""


@dataclass(frozen=True)
class View:
    """What a notebook shows of a value.

    Attributes
    ----------
    tables:
        Its tables.
    facts:
        Sentences below them.
    """

    tables: tuple[Table, ...]
    facts: tuple[str, ...] = ()


@singledispatch
def view(value: object) -> View:
    """The tables and facts of a value, by its class."""
    raise TypeError(f"{type(value).__name__} has no view")


@singledispatch
def figure(value: object) -> Figure:
    """The figure of a value, by its class."""
    raise TypeError(f"{type(value).__name__} has no figure")


def html(value: object) -> str:
    """A value as a fragment of a page, with its own style and without pictures."""
    shown = view(value)
    tables = [(replace(table, rows=table.rows[:MOST_ROWS]), len(table.rows) - MOST_ROWS) for table in shown.tables]
    return render("notebook.html.j2", tables=tables, facts=shown.facts)


def plot(value: object, path: str | Path | None = None) -> Figure:
    """The figure of a value, written to ``path`` if given; see :meth:`hetopt.display.Displayed.plot`."""
    if path is not None:
        check_picture_path(Path(path))
    drawn = figure(value)
    drawn.set_facecolor(PAGE)
    if path is not None:
        save_figure(drawn, path)
    return drawn


@view.register(Allocation)
@view.register(Plan)
def _(value: Allocation | Plan) -> View:
    lost = tuple(f"given up ({what}): {format_number(float(amount))}" for what, amount in _given_up(value).items())
    return View((result_table(value),), (*lost, certificate_text(value)))


def _given_up(value: Allocation | Plan) -> dict[str, float]:
    return dict(value.given_up) if isinstance(value, Plan) else {}


@figure.register(Allocation)
@figure.register(Plan)
def _(value: Allocation | Plan) -> Figure:
    return allocation_pictures.draw(value)


@view.register
def _(value: Audit) -> View:
    return View((audit_table(value),))


@figure.register
def _(value: Audit) -> Figure:
    """The slack of each property."""
    rows = [(name, verdict) for name, verdict in value if np.isfinite(verdict.slack)]
    with canvas(()):
        drawn, axes = panel(0.9 + 0.26 * len(rows), 7.0)
        for i, (_, verdict) in enumerate(rows):
            slack = 100 * verdict.slack
            colour = {True: GOOD, False: BAD, None: QUIET}[verdict.holds]
            draw_boxes(axes, [(min(slack, 0.0), max(slack, 0.0), i - 0.35, i + 0.35)], facecolor=colour, linewidth=0)
            axes.annotate(
                f"{verdict.word} ", (min(slack, 0.0), i), ha="right", va="center", color=colour, annotation_clip=False
            )
        slacks = [100 * verdict.slack for _, verdict in rows]
        low, high = min([0.0, *slacks]), max([0.0, *slacks])
        wide = max(high - low, 1.0)
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.spines["left"].set_visible(False)
        axes.set(xlim=(low - 0.25 * wide, high + 0.05 * wide), ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("slack (%): distance to a violation, below 0 if violated")
    return drawn


@view.register
def _(value: Log) -> View:
    arrived, finished = len(value.jobs_with_work), int(value.jobs["finish"].notna().sum())
    facts = [f"{finished} of {counted(arrived, 'job')} finished"]
    if value.makespan == value.makespan:
        facts.append(f"makespan {format_duration(value.makespan)}")
    facts.append(f"utilisation {format_percent(value.utilisation)}")
    return View((log_table(value),), ("; ".join(facts),))


@figure.register
def _(value: Log) -> Figure:
    """When each job runs, and on which GPU type; dark where it starts or moves, a line while it is there."""
    jobs = list(map(str, value.jobs.index[:MOST_ROWS]))
    position = {job: i for i, job in enumerate(jobs)}
    spans = value.spans[value.spans["job"].isin(position)]
    types = sorted(map(str, spans["gpu_type"].unique()))
    styles, end = series_styles(types), value.end if value.end == value.end else float(value.spans["end"].max())
    begin = float(value.jobs["arrival"].min())
    with canvas((*jobs, *types)):
        rows = [GanttRow(job) for job in jobs]
        drawn, axes = gantt_figure(rows, 0.2, top=0.35)
        starts = begin if begin < end else end - 1.0
        columns = (spans[key].astype(str) for key in ("job", "gpu_type", "servers"))
        numbers = (spans[key].astype(float) for key in ("start", "end", "lost"))
        bars = [
            GanttBar(position[job], 0, 1, first, last, styles[gpu_type], label=servers, begun=first + lost)
            for job, gpu_type, servers, first, last, lost in zip(*columns, *numbers, strict=True)
        ]
        draw_bars(axes, rows, bars, (starts, end))
        there = value.jobs.loc[jobs].fillna({"finish": end})
        axes.hlines(axes.get_yticks(), there["arrival"], there["finish"], colors=QUIET, linewidth=0.7, zorder=1)
        time_axis(axes, starts, end)
        samples = [Patch(label=name, **style.bar()) for name, style in styles.items()]
        drawn.legend(handles=samples, loc="upper right", ncols=6)
        some = "" if len(jobs) == len(value.jobs) else f" (the first {len(jobs)} of {len(value.jobs)})"
        axes.set_title(f"Jobs on servers by GPU type{some}")
    return drawn


@view.register
def _(value: GPUMapping) -> View:
    facts = tuple(f"{key}: {text}" for key, text in mapping_facts(value).items())
    return View((replica_table(value, f"{value.graph.pipeline.name}: replicas of its stages on servers"),), facts)


@view.register
def _(value: MappedJobs) -> View:
    views = [view(own) for own in value.mappings.values()]
    refused = (table_of(["job", "why"], value.refused.items(), "not mapped"),) if value.refused else ()
    return View((*(table for own in views for table in own.tables), *refused))


@figure.register
def _(value: GPUMapping) -> Figure:
    return draw_mapping(value)


@figure.register
def _(value: MappedJobs) -> Figure:
    return draw_mapping(value.mappings.values())


@view.register
def _(value: Comparison) -> View:
    order, found = ranked(value), recommend(value)
    results = comparison_table(value.table.loc[order], COLUMNS)
    tables = [with_marked(results, [0] if found else [])]
    if not value.placed.empty:
        placed = value.placed.loc[[name for name in order if name in value.placed.index]]
        tables.append(comparison_table(placed, PLACED, "rounded and placed: the first round"))
    reasons = {**by_reason(value.refused), **by_reason(value.unmeasured), **by_reason(value.unplaced)}
    facts = [f"{found.policy}{reason_of(found)}"] if found else []
    return View(tuple(tables), (*facts, *(f"{', '.join(names)}: {why}" for why, names in reasons.items())))


@figure.register
def _(value: Comparison) -> Figure:
    return trade_off_of(value)
