"""The HTML page of a comparison: tables, pictures, meaning of columns; a single self-contained file."""

from __future__ import annotations

import io
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hetopt.checks import counted
from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.data.saving import check_folder, save
from hetopt.experiments.comparison import COLUMNS, PLACED, Column, Comparison, by_reason, by_tenant
from hetopt.presentation.allocation_pictures import COLOURS, FIGURE_WIDTH, draw
from hetopt.presentation.fonts import font_settings, label
from hetopt.presentation.formatting import format_decimals
from hetopt.results.allocation import Plan
from hetopt.tolerances import VISIBLE

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { padding: .3rem .8rem; text-align: right; }
th { border-bottom: 2px solid #4477aa; } td { border-bottom: 1px solid #ddd; }
td:first-child, th:first-child, .names td, .names th { text-align: left; }
td.bad { color: #b3003b; } svg { max-width: 100%; height: auto; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; } .quiet { color: #555; }
"""


def svg(figure: Figure) -> str:
    """A figure as SVG text for a page; equal figures give equal text."""
    buffer = io.StringIO()
    with font_settings(()):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _table(frame: pd.DataFrame, columns: Mapping[str, Column]) -> str:
    """A table with a row per policy; names link to the pictures of the policy."""
    head = "".join(f"<th title='{escape(own.meaning)}'>{escape(key)}</th>" for key, own in columns.items())

    def cell(column: Column, value: float) -> str:
        bad = " class='bad'" if column.is_violated(value) else ""
        return f"<td{bad}>{format_decimals(value, whole=column.whole)}</td>"

    lines = []
    for name, row in frame.iterrows():
        cells = "".join(cell(own, row[key]) for key, own in columns.items())
        lines.append(f"<tr><td><a href='#{escape(str(name))}'>{escape(str(name))}</a></td>{cells}</tr>")
    return f"<table><thead><tr><th>policy</th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _meaning(columns: Mapping[str, Column]) -> str:
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(own.meaning)}</dd>" for key, own in columns.items())
    return f"<details><summary>What the columns mean</summary><dl>{listed}</dl></details>"


def _failures(title: str, reasons: Mapping[str, str]) -> str:
    """A list of policies with the reason of their failure; empty if there is none."""
    if not reasons:
        return ""
    rows = (f"<li><b>{escape(', '.join(names))}</b>: {escape(why)}</li>" for why, names in by_reason(reasons).items())
    return f"<h2>{title}</h2><ul>{''.join(rows)}</ul>"


def _rounded(comparison: Comparison) -> str:
    """The second table: each result in whole GPUs on servers."""
    unplaced = _failures("Cannot be rounded or placed", comparison.unplaced)
    if comparison.placed.empty:
        return unplaced or "<p>There are no jobs: nothing to place on servers.</p>"
    table = _table(comparison.placed, PLACED)
    return f"<h2>Rounded and placed: the first round</h2>{table}{_meaning(PLACED)}{unplaced}"


def _hosts(comparison: Comparison, name: str) -> str:
    """GPUs and servers of the jobs in a policy's first round."""
    if name not in comparison.rounds:
        return ""
    first = comparison.rounds[name]
    rows = [
        f"<tr><td>{escape(job)}</td><td>{escape(', '.join(gpus))}</td><td>{escape(', '.join(servers))}</td></tr>"
        for job, gpus, servers in first.rows
    ]
    head = "<tr><th>job</th><th>GPUs</th><th>servers</th></tr>"
    waits = [f"<li>{escape(job)}: {escape(str(why))}</li>" for job, why in first.waiting.items()]
    listed = f"<p>Waiting:</p><ul>{''.join(waits)}</ul>" if waits else ""
    return (
        f"<details><summary>Where jobs run in the first round ({len(rows)} run, {len(waits)} wait)</summary>"
        f"<table class='names'><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{listed}</details>"
    )


def _describe(instance: Instance) -> str:
    capacity = ", ".join(f"{n} {gpu_type}" for gpu_type, n in instance.cluster.capacity.items())
    parts = [f"{counted(len(instance.cluster.servers), 'server')} with {capacity}"]
    if instance.tenants:
        parts.append(counted(len(instance.tenants), "tenant"))
    if instance.jobs:
        parts.append(f"{counted(len(instance.jobs), 'job')}, at {instance.time:.15g} s")
    return "; ".join(parts)


def page(comparison: Comparison, title: str, versions: Mapping[str, str]) -> str:
    """The whole page as text."""
    pictures = "".join(
        f"<h2 id='{escape(name)}'>{escape(name)}</h2>{_hosts(comparison, name)}"
        f"{svg(draw(result, judged=Plan(*by_tenant(comparison.instance, result))))}"  # envy as in the table
        for name, result in comparison.results.items()
        if name not in comparison.unmeasured
    )
    made = ", ".join(f"{escape(k)} {escape(v)}" for k, v in versions.items())
    source = f"<p class='quiet'>{escape(comparison.instance.source)}</p>" if comparison.instance.source else ""
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1><p>{escape(_describe(comparison.instance))}.</p>{source}"
        f"{_table(comparison.table, COLUMNS)}{_meaning(COLUMNS)}"
        f"{_failures('No result', comparison.refused)}{_failures('Cannot be measured', comparison.unmeasured)}"
        f"{_rounded(comparison)}{svg(overview(comparison))}{pictures}"
        f"<p class='quiet'>Made by {made}.</p></html>"
    )


def write(comparison: Comparison, folder: str | Path, title: str, versions: Mapping[str, str]) -> Path:
    """Write ``report.html``, ``comparison.csv`` and ``placement.csv`` into a folder; return the path of the page.

    Raises
    ------
    UnusableFile
        The folder cannot be made or written.
    """
    target = Path(folder)
    check_folder(target)
    path = target / "report.html"
    save(page(comparison, title, versions), path, overwrite=True)
    save(comparison.table.to_csv(), target / "comparison.csv", overwrite=True)
    if not comparison.placed.empty:
        save(comparison.placed.to_csv(), target / "placement.csv", overwrite=True)
    return path


DOT = 0.21
"""Diameter of a dot with a number, in inches."""


def overview(comparison: Comparison) -> Figure:
    """The trade-off picture as a figure."""
    height = max(5.0, 0.6 + 0.25 * len(comparison.table))
    with font_settings(map(str, comparison.table.index)):
        figure = Figure(figsize=(FIGURE_WIDTH, height))
        axes = figure.add_axes((0.07, 0.12, 0.58, 0.8))
        draw_trade_off(axes, comparison)
        figure.draw_without_rendering()
    return figure


def draw_trade_off(axes: Axes, comparison: Comparison) -> None:
    """Draw throughput against sharing incentive, which is violated left of 1; overlapping dots are moved apart."""
    table = comparison.table
    places = table[["sharing", "total"]].to_numpy(dtype=float)
    drawn = np.isfinite(places).all(axis=1)
    colours = [COLOURS[1] if envy > VISIBLE else COLOURS[2] for envy in table["envy"]]
    axes.axvline(1.0, color="#bbbbbb", linestyle="--", linewidth=1)
    axes.set_xlabel("least sharing ratio (sharing incentive from 1 on)")
    axes.set_ylabel("total normalised throughput")
    axes.set_title("Throughput against fairness (green: envy-free, red: with envy)")
    axes.spines[["top", "right"]].set_visible(False)
    _frame(axes, np.vstack([places[drawn], [1.0, np.mean(places[drawn, 1]) if drawn.any() else 0.0]]))
    inches = axes.transData + axes.figure.dpi_scale_trans.inverted()
    dots = inches.inverted().transform(apart(inches.transform(places[drawn]), DOT))
    for i, dot, place in zip(np.flatnonzero(drawn), dots, places[drawn], strict=True):
        axes.plot(*zip(place, dot, strict=True), color="#555555", linewidth=0.8, zorder=2)
        axes.plot(*dot, marker="o", markersize=72 * DOT, color=colours[i], zorder=3, clip_on=False)
        axes.annotate(str(i + 1), dot, color="white", ha="center", va="center", fontsize=9, zorder=4)
    names = [f"{i + 1}  {label(str(name), i + 1, 40)}" for i, name in enumerate(table.index)]
    names = [name if shown else f"{name} (not shown)" for name, shown in zip(names, drawn, strict=True)]
    keys = [Line2D([], [], marker="o", linestyle="", markersize=8, color=colour) for colour in colours]
    axes.legend(keys, names, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=10)


def _frame(axes: Axes, places: Floats) -> None:
    """Set axis limits with a margin, also if all places are equal."""
    low, high = places.min(axis=0), places.max(axis=0)
    room = 0.06 * np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    axes.set_xlim(low[0] - room[0], high[0] + room[0])
    axes.set_ylim(low[1] - room[1], high[1] + room[1])


def apart(places: Floats, distance: float, passes: int = 1000) -> Floats:
    """(n, 2) places near the given ones, with pairwise distances of at least ``distance``.

    Closer pairs are pushed apart in small steps.
    """
    turn = 2 * np.pi * np.arange(len(places)) / max(1, len(places))
    crowded = (_gaps(places)[1] < distance).any(axis=1, keepdims=True)
    # a hundredth of the distance in different directions separates coinciding places
    moved = places + crowded * distance / 100 * np.column_stack([np.cos(turn), np.sin(turn)])
    for _ in range(passes):
        gap, far = _gaps(moved)
        close = far < distance
        if not close.any():
            break
        push = np.where(close, (1.05 * distance - far) / 4 / np.where(close, far, 1.0), 0.0)
        moved = moved + (push[..., None] * gap).sum(axis=1)
    return np.asarray(moved)


def _gaps(places: Floats) -> tuple[Floats, Floats]:
    """(n, n, 2) differences and (n, n) distances of all pairs."""
    gap = places[:, None] - places[None, :]
    far = np.hypot(gap[..., 0], gap[..., 1])
    np.fill_diagonal(far, np.inf)
    return gap, far
