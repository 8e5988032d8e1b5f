"""The pictures of the dashboard: leases over time by GPU, and GPUs of tenants over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from hetopt.data.array_types import Floats
from hetopt.executor.dashboard.history import Round, Span, granted_to
from hetopt.executor.dashboard.reader import Look
from hetopt.executor.leases import PROFILE
from hetopt.presentation.formatting import format_duration, format_number
from hetopt.presentation.gantt import GanttBar, GanttRow, draw_bars, gantt_figure, time_axis
from hetopt.presentation.pictures import WIDE, Picture, draw_boxes, panel, picture
from hetopt.presentation.style import INK, LIGHT, QUIET, REST, SOFT, SeriesStyle, canvas
from hetopt.presentation.tables import Key

MOST_GPUS = 400
"""Lines of the Gantt chart."""

HEIGHTS = ((40, 0.2), (100, 0.14), (MOST_GPUS, 0.07))
"""Number of lines -> height of a line in inches."""

NAMED = 0.12
"""Least height of a row, which has a name."""

MOST_MARKS = 80
"""Rounds that are marked."""

APART = 0.03
"""Least distance of the numbers of two rounds, as a part of the time axis."""

THIN = 1 / 1000
"""Least length of a bar, as a part of the time axis."""

Styles = Mapping[str, SeriesStyle | None]


def tenant_styles(order: Iterable[str]) -> dict[str, SeriesStyle | None]:
    """Tenant -> its style; those after the last colour share that of the rest."""
    return {tenant: SeriesStyle(i) if i < len(LIGHT) else None for i, tenant in enumerate(order)}


def _tenant_keys(styles: Styles) -> list[Key]:
    keys = [Key(name, style.variable) for name, style in styles.items() if style is not None]
    others = len(styles) - len(keys)
    return [*keys, Key(f"{others} other tenants", "rest")] if others else keys


def runs(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of a lease on adjacent GPUs, which are one bar."""
    found: list[list[Span]] = []
    for span in spans:
        last = found[-1][-1] if found else None
        if last is not None and (last.tag, last.node, last.gpu_type, last.number + 1) == (
            span.tag, span.node, span.gpu_type, span.number
        ):  # fmt: skip
            found[-1].append(span)
        else:
            found.append([span])
    return found


def gpu_rows(
    nodes: Iterable[Mapping[str, Any]], spans: Sequence[Span], most: int = MOST_GPUS
) -> tuple[dict[tuple[str, str], int], int]:
    """(node, GPU type) -> its GPUs, of the nodes now and of leases before; and the number of GPUs beyond ``most``."""
    number = {(node["name"], gpu_type): n for node in nodes for gpu_type, n in node["gpus"].items()}
    for key, n in granted_to(spans).items():
        number[key] = max(number.get(key, 0), n)
    shown, left = {}, most
    for key in sorted(number):
        if fits := min(number[key], left):
            shown[key] = fits
            left -= fits
    return shown, sum(number.values()) - sum(shown.values())


def lease_tip(run: Sequence[Span], now: float) -> str:
    """All about a bar, in a line."""
    span = run[0]
    copy = f" copy {span.copy}" if span.copy else ""
    what = "is profiled" if span.kind == PROFILE else "runs" if span.open else "ran"
    ended = "" if span.open else f", until {format_duration(round(now - span.until))} ago"
    why = f": {span.said}" if span.said else ""
    return (
        f"{span.job}{copy} of {span.tenant} {what} on {len(run)} {span.gpu_type} of {span.node} for "
        f"{format_duration(round(span.until - span.granted))}{ended}, granted in round {span.round}{why}"
    )


def leases(look: Look) -> Picture | None:
    """Leases over time, a line for each GPU, with the rounds; None without leases."""
    now, window = look.now.now, (look.since, look.now.now)
    if not look.spans:
        return None
    shown, left_out = gpu_rows(look.now.nodes, look.spans)
    names = [f"{node} {gpu_type}" for node, gpu_type in shown]
    rows = [GanttRow(name, lines) for name, lines in zip(names, shown.values(), strict=True)]
    positions = {key: i for i, key in enumerate(shown)}
    tenants = tenant_styles(look.held.gpus)
    jobs = {job: SeriesStyle(i % len(LIGHT)) for i, job in enumerate(dict.fromkeys(span.job for span in look.spans))}
    by_job = len(tenants) == 1
    bars = []
    for run in runs(look.spans):
        span, profiles = run[0], run[0].kind == PROFILE
        where = span.node, span.gpu_type
        lines = min(len(run), shown.get(where, 0) - span.number)
        end = max(span.until, span.granted + THIN * (now - look.since))
        style = jobs[span.job] if by_job else tenants[span.tenant]
        begun = None if profiles else span.until if span.first_tick is None else span.first_tick
        if lines > 0:
            place = positions[where], span.number, lines, span.granted, end
            bars.append(GanttBar(*place, style, span.job, lease_tip(run, now), begun, profiles))
    total = sum(shown.values())
    height = max(next(high for upto, high in HEIGHTS if total <= upto), NAMED / min(shown.values()))
    marks = [one for one in look.rounds if look.since <= one.time <= now]
    tips: list[str] = []
    with canvas((*names, *jobs)):
        figure, axes = gantt_figure(rows, height)
        time_axis(axes, *window, ago=True)
        axes.set_facecolor(SOFT)
        draw_bars(axes, rows, bars, window, tips)
        _draw_rounds(axes, marks, total, height, window, tips)
        keys = [
            *([] if by_job else _tenant_keys(tenants)), Key("profiling", "s0", opacity=0.55, hatched=True),
            Key("starting", "ink", opacity=0.6), Key("round", "quiet", (1.5, 1.5), line=True),
        ]  # fmt: skip
        return picture(figure, "leases over time by GPU", _caption(look, left_out, len(marks), by_job), keys, tips)


def _draw_rounds(
    axes: Axes, marks: Sequence[Round], lines: int, height: float, window: tuple[float, float], tips: list[str]
) -> None:
    """A line down from each round with a handle that has a tip, and its number where there is room."""
    chosen, length = marks[:: max(1, -(-len(marks) // MOST_MARKS))], window[1] - window[0]
    axes.vlines([one.time for one in chosen], 0, lines, colors=QUIET, linewidth=0.7, linestyles="dotted", zorder=2.5)
    last = window[0] - length
    for one in chosen:
        handle = one.time - 0.002 * length, one.time + 0.002 * length, -0.1 / height, 0.0
        draw_boxes(axes, [handle], facecolor=QUIET, linewidth=0).set_gid(f"tip{len(tips)}")
        tips.append(
            f"round {one.number}: {one.placed} of {one.jobs} jobs on {one.gpus} of {one.capacity} GPUs, decided in "
            f"{format_duration(one.seconds)} by {one.policy}"
        )
        if one.time - last >= APART * length:
            axes.text(one.time, -0.13 / height, str(one.number), ha="center", va="bottom", color=QUIET)
            last = one.time


def _caption(look: Look, left_out: int, marks: int, by_job: bool) -> str:
    parts = [f"A line for each GPU over the last {format_duration(round(look.now.now - look.since))}; point at a bar"]
    parts[0] += " for its lease."
    parts.append("Colours: jobs of the only tenant; they recur." if by_job else "Colours: tenants.")
    if look.since > float(look.held.edges[0]) + 1.0:
        parts.append("There are too many leases to begin earlier.")
    if left_out:
        parts.append(f"{left_out} more GPUs are not shown.")
    if marks > MOST_MARKS:
        parts.append(f"Every {-(-marks // MOST_MARKS)}th of {marks} rounds is marked.")
    return " ".join(parts)


def shares(look: Look) -> Picture | None:
    """GPUs of tenants over time, one above the other; None if no tenant had any."""
    held, now = look.held, look.now.now
    if not any(gpus.any() for gpus in held.gpus.values()):
        return None
    styles = tenant_styles(held.gpus)
    groups: dict[str, list[str]] = {}
    for tenant, style in styles.items():
        groups.setdefault("" if style is None else tenant, []).append(tenant)
    known = sum(sum(node["gpus"].values()) for node in look.now.nodes)
    size = capacity(look.rounds, float(held.edges[0]), now, known)
    below: Floats = np.zeros(len(held.edges) - 1)
    length = float(held.edges[-1] - held.edges[0])
    tips = []
    with canvas(styles):
        figure, axes = panel(2.2, WIDE)
        for i, group in enumerate(groups.values()):
            own = sum((held.gpus[tenant] for tenant in group), np.zeros_like(below))
            style = styles[group[0]]
            colour = REST if style is None else style.colour
            area = axes.stairs(below + own, held.edges, baseline=below, fill=True, facecolor=colour, linewidth=0)
            area.set_gid(f"tip{i}")
            mean = format_number(sum(held.seconds[tenant] for tenant in group) / length, 3)
            name = group[0] if style is not None else f"{len(group)} other tenants"
            tips.append(f"{name}: {mean} GPUs on average")
            below = below + own
        times, gpus = zip(*size, (now, size[-1][1]), strict=True)
        axes.step(times, gpus, where="post", color=INK, linewidth=1.2)
        time_axis(axes, float(held.edges[0]), now, ago=True)
        axes.set_ylim(0, 1.05 * max(1.0, *gpus, float(below.max())))
        axes.set_ylabel("GPUs")
        axes.grid(axis="y")
        keys = [*_tenant_keys(styles), Key("GPUs that the policy may allocate", "ink", line=True)]
        caption = "GPUs with a lease, on average, one tenant above the other."
        return picture(figure, "GPUs of tenants over time", caption, keys, tips)


def capacity(rounds: Sequence[Round], since: float, now: float, known: int) -> list[tuple[float, float]]:
    """(from when on, GPUs that the policy may allocate); ``known`` if no round tells."""
    found: list[tuple[float, float]] = []
    for one in rounds:
        if one.time <= now and (not found or found[-1][1] != one.capacity):
            found.append((max(since, one.time), float(one.capacity)))
    return found or [(since, float(known))]
