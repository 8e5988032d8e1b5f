"""The page of the dashboard: one document, complete without scripts; a script renews its sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes

from hetopt.executor.connection import Row
from hetopt.executor.dashboard.reader import DashboardState, Span
from hetopt.executor.lease_record import PROFILE
from hetopt.executor.snapshot import EXPIRED
from hetopt.executor.status_view import Section, jobs_by_phase, rho_cell, status_of
from hetopt.presentation.formatting import format_duration, format_number, format_percent
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, gantt_figure, time_axis
from hetopt.presentation.pages import render, script, source_hash, stylesheet
from hetopt.presentation.pictures import Picture, draw_boxes, picture
from hetopt.presentation.style import LIGHT, QUIET, SOFT, SeriesStyle, canvas, series_styles
from hetopt.presentation.tables import Cell, Column, Key, table_of

LIMITS = {"nodes": 100, "pending": 100, "running": 100, "finished": 40}
"""Name of a section -> rows of its table."""

MAX_TENANTS = 40
"""Rows of the table of tenants."""

MAX_GPUS, MAX_MARKS = 400, 80
"""Lines of the Gantt chart, and rounds that are marked."""

CHART_HEIGHT, ROW_HEIGHT, MIN_LINE, MAX_LINE = 10.0, 0.13, 0.07, 0.2
"""Inches: most height of the Gantt chart unless lines become too small, least height of a row, heights of a line."""

MIN_DISTANCE, MIN_LENGTH = 0.03, 0.001
"""Of the numbers of two rounds, and of a bar, as parts of the time axis."""


RHO = (
    ("rho", "finish-time fairness (Themis): the duration of a job relative to its duration in its own 1/N of the "
     "cluster, where N is the mean number of jobs present during its stay; below 1, the job is faster than there. For "
     "a running job, the rest counts at its present speed. Of a tenant: mean and largest value of its jobs that are "
     "not failed or cancelled"),
    ("≈", "the job has no GPUs, so the rest counts at its fastest measured speed, or it was not measured on every GPU "
     "type that it may use"),
    ("no rho", "nothing is measured"),
)  # fmt: skip
"""Facts below the table of tenants."""

FILE_POLICY = (
    f"default-src 'none'; style-src {source_hash(stylesheet())}; img-src data:; base-uri 'none'; form-action 'none'"
)
POLICY = f"{FILE_POLICY}; script-src {source_hash(script('dashboard.js'))}; connect-src 'self'; frame-ancestors 'none'"
"""Content-Security-Policy of a page in a file, and of a page from the server, which has a script."""


def fragment(state: DashboardState) -> str:
    """The sections that change, each an element with an id."""
    return render("dashboard_sections.html.j2", **_values(state))


def page(state: DashboardState, *, live: bool = True) -> str:
    """The whole document; without the script if not ``live``, as a page in a file."""
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    policy = "" if live else FILE_POLICY
    return render("dashboard.html.j2", live=live, made=made, policy=policy, **_values(state))


def notice(title: str, text: str, *, again: int | None = None, link: dict[str, str] | None = None) -> str:
    """A page that explains why there is no other; reloaded ``again`` seconds later; with a link (target and text)."""
    return render("notice.html.j2", title=f"hetopt: {title}", text=text, again=again, link=link)


@lru_cache(maxsize=1)
def _values(state: DashboardState) -> dict[str, Any]:
    rho = {str(job): rho_cell(*row) for job, *row in state.fairness[["rho", "estimated"]].itertuples()}
    last = state.rounds[-1] if state.rounds else None
    return {
        "status": status_of(
            state.snapshot, engine=state.engine, last=last, rho=rho, losses=state.losses, limits=LIMITS
        ),
        "tenants": tenants(state),
        "leases": leases(state),
    }


def tenants(state: DashboardState) -> Section:
    """GPU time of tenants, and the finish-time fairness of their jobs."""
    now, usage, recent = state.snapshot, state.usage, state.recent_usage
    owner = {job["name"]: job["tenant"] for job in now.jobs}
    names = list(dict.fromkeys((*recent, *usage, *owner.values())))
    phases = jobs_by_phase(now)
    running, pending = (Counter(job["tenant"] for job in phases[phase]) for phase in ("running", "pending"))
    gpus = Counter[str]()
    for lease in now.leases:
        if lease["state"] != EXPIRED:
            gpus[owner[lease["job"]]] += sum(sum(own.values()) for own in lease["seats"].values())
    by_tenant = state.fairness.groupby("tenant")
    rho = by_tenant.agg(mean=("rho", "mean"), largest=("rho", "max"), estimated=("estimated", "any")).to_dict("index")

    def share(seconds: dict[str, float], name: str) -> Cell:
        own, total = seconds.get(name, 0.0), sum(seconds.values())
        part = own / total if total else 0.0
        return Cell(format_percent(round(part, 3)), own, (f"{format_number(own / 3600, 3)} GPU h",))

    rows = []
    for name in names[:MAX_TENANTS]:
        fair = [rho_cell(rho[name][key], rho[name]["estimated"]) if name in rho else "" for key in ("mean", "largest")]
        counts = (str(count[name]) for count in (running, pending, gpus))
        rows.append([name, *counts, share(recent, name), share(usage, name), *fair])
    window = format_duration(round(now.now - state.begin))
    columns = ("running", "pending", "GPUs now", f"last {window}", "in all", "mean rho", "largest rho")
    caption = "GPU time from the grants of leases to their ends."
    left = len(names) - len(rows)
    note = f"{left} more tenants are not shown." if left else "" if rows else "There are no jobs, so no tenants."
    return Section("Tenants", table_of(("tenant", *map(Column, columns)), rows, caption, RHO), note)


# -- the picture: leases over time by GPU


def runs(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of one lease on adjacent GPUs, which are one bar."""
    numbered = groupby(enumerate(spans), lambda at: (at[1].tag, at[1].node, at[1].gpu_type, at[1].number - at[0]))
    return [[span for _, span in own] for _, own in numbered]


def gpu_rows(
    nodes: Iterable[Mapping[str, Any]], spans: Sequence[Span], most: int = MAX_GPUS
) -> tuple[dict[tuple[str, str], int], int]:
    """(node, GPU type) -> its GPUs, of present nodes and past leases; and the number of GPUs beyond ``most``."""
    number = {(node["name"], gpu_type): n for node in nodes for gpu_type, n in node["gpus"].items()}
    for span in spans:
        row = span.node, span.gpu_type
        number[row] = max(number.get(row, 0), span.number + 1)
    shown, left = {}, most
    for row in sorted(number):
        if fits := min(number[row], left):
            shown[row] = fits
            left -= fits
    return shown, sum(number.values()) - sum(shown.values())


def lease_tip(run: Sequence[Span], now: float) -> str:
    """All about a bar, in a line."""
    span = run[0]
    copy = f" copy {span.copy}" if span.copy else ""
    verb = "is profiled" if span.kind == PROFILE else "runs" if span.open else "ran"
    ended = "" if span.open else f", until {format_duration(round(now - span.until))} ago"
    why = f": {span.reason}" if span.reason else ""
    return (
        f"{span.job}{copy} of {span.tenant} {verb} on {len(run)} {span.gpu_type} of {span.node} for "
        f"{format_duration(round(span.until - span.granted))}{ended}, granted in round {span.round}{why}"
    )


def leases(state: DashboardState) -> Picture | None:
    """Leases over time, a line for each GPU, with the rounds; None without leases."""
    now, since, spans = state.snapshot.now, state.since, state.spans
    if not spans:
        return None
    shown, left_out = gpu_rows(state.snapshot.nodes, spans)
    rows = [GanttRow(f"{node} {gpu_type}", lines) for (node, gpu_type), lines in shown.items()]
    positions = {row: i for i, row in enumerate(shown)}
    tenants = list(state.recent_usage)
    styles = series_styles(tenants[: len(LIGHT)])  # other tenants have none
    keys = [style.key(tenant) for tenant, style in styles.items()]
    if others := len(tenants) - len(styles):
        keys.append(Key(f"{others} other tenants", "rest"))
    if by_job := len(tenants) == 1:
        jobs = dict.fromkeys(span.job for span in spans)
        styles, keys = {job: SeriesStyle(i % len(LIGHT)) for i, job in enumerate(jobs)}, []
    bars = []
    for run in runs(spans):
        span, row, profiles = run[0], (run[0].node, run[0].gpu_type), run[0].kind == PROFILE
        lines = min(len(run), shown.get(row, 0) - span.number)
        if lines > 0:
            end = max(span.until, span.granted + MIN_LENGTH * (now - since))
            style = styles.get(span.job if by_job else span.tenant)
            begun = None if profiles else span.until if span.first_tick is None else span.first_tick
            place = positions[row], span.number, lines, span.granted, end
            bars.append(GanttBar(*place, style, span.job, lease_tip(run, now), begun, profiles))
    total = sum(shown.values())
    height = max(min(MAX_LINE, CHART_HEIGHT / total), MIN_LINE, ROW_HEIGHT / min(shown.values()))
    rounds = [one for one in state.rounds if since <= one["time"] <= now]
    every = max(1, -(-len(rounds) // MAX_MARKS))
    caption = [
        f"A line for each GPU over the last {format_duration(round(now - since))}; point at a bar for its lease.",
        "Colours: jobs of the only tenant; they recur." if by_job else "Colours: tenants.",
        "There are too many leases to begin earlier." if since > state.begin + 1.0 else "",
        f"{left_out} more GPUs are not shown." if left_out else "",
        f"Every {every}th of {len(rounds)} rounds is marked." if every > 1 else "",
    ]
    keys += [
        Key("profiling", "s0", opacity=0.55, hatched=True),
        Key("starting", "ink", opacity=0.6),
        Key("round", "quiet", (1.5, 1.5), line=True),
    ]
    tips: list[str] = []
    with canvas((*(row.name for row in rows), *(span.job for span in spans))):
        figure, axes = gantt_figure(rows, height)
        time_axis(axes, since, now, ago=True)
        axes.set_facecolor(SOFT)
        draw_bars(axes, rows, bars, (since, now), tips)
        _draw_rounds(axes, rounds[::every], height, tips)
        return picture(figure, "leases over time by GPU", " ".join(filter(None, caption)), keys, tips)


def _draw_rounds(axes: Axes, rounds: Sequence[Row], height: float, tips: list[str]) -> None:
    """A line down from each round with a handle that has a tip, and its number where there is room."""
    (since, now), lines = axes.get_xlim(), axes.get_ylim()[0]
    axes.vlines([one["time"] for one in rounds], 0, lines, colors=QUIET, linewidth=0.7, linestyles="dotted", zorder=2.5)
    half, room, free = 0.002 * (now - since), MIN_DISTANCE * (now - since), since
    for one in rounds:
        handle = one["time"] - half, one["time"] + half, -0.1 / height, 0.0
        draw_boxes(axes, [handle], facecolor=QUIET, linewidth=0).set_gid(f"tip{len(tips)}")
        tips.append(
            f"round {one['number']}: {one['placed']} of {one['jobs']} jobs on {one['gpus']} of {one['capacity']} GPUs, "
            f"decided in {format_duration(one['seconds'])} by {one['policy']}"
        )
        if one["time"] >= free:
            axes.text(one["time"], -0.13 / height, str(one["number"]), ha="center", va="bottom", color=QUIET)
            free = one["time"] + room
