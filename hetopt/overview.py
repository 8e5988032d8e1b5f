"""The picture of a comparison: total throughput against the least fair part, a dot for each policy."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hetopt.comparison import Comparison
from hetopt.data.entities import Floats
from hetopt.lettering import label, lettering
from hetopt.pictures import COLOURS, WIDTH
from hetopt.tolerances import VISIBLE

DOT = 0.21
"""Diameter of a dot in inches: its number is readable."""


def overview(comparison: Comparison) -> Figure:
    """The trade-off picture as a figure."""
    height = max(5.0, 0.6 + 0.25 * len(comparison.table))
    with lettering(map(str, comparison.table.index)):
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((0.07, 0.12, 0.58, 0.8))
        draw_trade_off(axes, comparison)
        figure.draw_without_rendering()
    return figure


def draw_trade_off(axes: Axes, comparison: Comparison) -> None:
    """Up and right is better; left of 1 someone would rather leave. Dots that would hide each other stand apart."""
    table = comparison.table
    places = table[["sharing", "total"]].to_numpy(dtype=float)
    drawn = np.isfinite(places).all(axis=1)
    colours = [COLOURS[1] if envy > VISIBLE else COLOURS[2] for envy in table["envy"]]
    axes.axvline(1.0, color="#bbbbbb", linestyle="--", linewidth=1)
    axes.set_xlabel("least rate / fair rate (sharing incentive from 1 on)")
    axes.set_ylabel("total normalised throughput")
    axes.set_title("Throughput against fairness (green: envy-free, red: someone envies)")
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
    """Limits with room around the places, also where they are all alike."""
    low, high = places.min(axis=0), places.max(axis=0)
    room = 0.06 * np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    axes.set_xlim(low[0] - room[0], high[0] + room[0])
    axes.set_ylim(low[1] - room[1], high[1] + room[1])


def apart(places: Floats, distance: float, passes: int = 1000) -> Floats:
    """(n, 2) places near the given ones, every two at least ``distance`` apart.

    Pairs that are closer are pushed from each other, a little at a time, until there are none.
    """
    turn = 2 * np.pi * np.arange(len(places)) / max(1, len(places))
    crowded = (_gaps(places)[1] < distance).any(axis=1, keepdims=True)
    # a hundredth of the distance, in different directions, parts those that coincide
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
    """(n, n, 2) differences of all pairs, and (n, n) how far they are apart."""
    gap = places[:, None] - places[None, :]
    far = np.hypot(gap[..., 0], gap[..., 1])
    np.fill_diagonal(far, np.inf)
    return gap, far
