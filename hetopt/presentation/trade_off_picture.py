"""The policies of a comparison on the plane of fairness and throughput, with their names at the dots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hetopt.data.array_types import Floats
from hetopt.presentation.fonts import label, text_width
from hetopt.presentation.pictures import WIDE, Drawing
from hetopt.presentation.style import BAD, GOOD, QUIET, canvas
from hetopt.tolerances import VISIBLE

HEIGHT = 5.4
"""Height of the picture in inches."""

LETTER, LINE = 5.0, 11.0
"""Width of a letter, and height of a line, in points."""

DOT = 4.5
"""Radius of a dot in points."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top edge."""


def trade_off(table: pd.DataFrame, recommended: str | None = None) -> Figure:
    """Draw total throughput against the least sharing ratio of each policy.

    Parameters
    ----------
    table:
        The table of a :class:`~hetopt.experiments.comparison.Comparison`; rows that are not finite are left out.
    recommended:
        The policy whose dot is a star.
    """
    places = table[["sharing", "total"]].to_numpy(dtype=float)
    shown = np.isfinite(places).all(axis=1)
    envious = (table["envy"] > VISIBLE).to_numpy()[shown]
    names = [str(name) for name, own in zip(table.index, shown, strict=True) if own]
    places = places[shown]
    with canvas(names):
        figure = Drawing(figsize=(WIDE, HEIGHT), layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel("least sharing ratio: rate / rate with the fair part of every GPU type (fair from 1 on)")
        axes.set_ylabel("total throughput (GPUs of speedup 1)")
        axes.axvline(1.0, color=QUIET, linestyle=(0, (4, 3)), linewidth=1, zorder=1)
        axes.grid()
        _frame(axes, places)
        star = np.array([name == recommended for name in names], dtype=bool)
        kinds = (
            ("envy-free", "o", GOOD, 40, ~envious & ~star),
            ("with envy", "X", BAD, 40, envious & ~star),
            ("recommended", "*", GOOD, 170, star),
        )
        for text, marker, colour, size, own in kinds:
            if own.any():
                axes.scatter(
                    places[own, 0], places[own, 1], marker=marker, s=size, c=colour, label=text, linewidths=0, zorder=4
                )
        if len(places):
            figure.legend(loc="outside upper left", ncols=3)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        _name_dots(figure, axes, names, places, star)
    return figure


def _frame(axes: Axes, places: Floats) -> None:
    """Set axis limits with room for names, also if all places are equal."""
    every = np.vstack([places, [1.0, places[:, 1].mean() if len(places) else 0.0]])
    low, high = every.min(axis=0), every.max(axis=0)
    room = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    axes.set_xlim(low[0] - 0.06 * room[0], high[0] + 0.16 * room[0])
    axes.set_ylim(low[1] - 0.08 * room[1], high[1] + 0.08 * room[1])


def _name_dots(figure: Figure, axes: Axes, names: Sequence[str], places: Floats, star: np.ndarray) -> None:
    """Write the names beside the dots; policies at the same place share a label."""
    scale, whole = 72 / figure.dpi, 72 * np.array(figure.get_size_inches())
    points = axes.transData.transform(places) * scale if len(places) else places
    groups: list[list[int]] = []
    for i in sorted(range(len(names)), key=lambda i: (not star[i], *points[i].round().tolist())):
        near = next((own for own in groups if np.hypot(*(points[own[0]] - points[i])) < DOT), None)
        groups.append([i]) if near is None else near.append(i)
    texts = [_group_label([label(names[i], i + 1, 30) for i in own]) for own in groups]
    left, bottom, right, top = (float(edge) * scale for edge in axes.bbox.extents)
    boxes = place_labels(
        np.array([points[own[0]] for own in groups]), [_size(text) for text in texts], (left, bottom, right, top)
    )
    for own, text, (left, bottom, right, top) in zip(groups, texts, boxes, strict=True):
        x, y = points[own[0]]
        weight = "bold" if star[own].any() else "normal"
        at, side = (left, "left") if left >= x else (right, "right") if right <= x else ((left + right) / 2, "center")
        place = np.array([at, (bottom + top) / 2]) / whole
        axes.annotate(text, place, xycoords="figure fraction", ha=side, va="center", weight=weight, zorder=5)
        nearest = min(max(x, left), right), min(max(y, bottom), top)
        if np.hypot(nearest[0] - x, nearest[1] - y) > 2.5 * DOT:
            line = np.array([(x, y), nearest]) / whole
            figure.add_artist(Line2D(*line.T, color=QUIET, linewidth=0.6, zorder=2))


def _group_label(names: Sequence[str]) -> str:
    """The names of policies at one place, in at most three lines."""
    across = ceil(len(names) / 3)
    return "\n".join(", ".join(names[i : i + across]) for i in range(0, len(names), across))


def _size(text: str) -> tuple[float, float]:
    """Width and height in points."""
    lines = text.split("\n")
    return LETTER * max(map(text_width, lines)) + 2, LINE * len(lines)


def place_labels(dots: Floats, sizes: Sequence[tuple[float, float]], frame: Box) -> list[Box]:
    """A box for each label: near its dot, inside the frame, clear of all dots and of the other labels if there is room.

    Parameters
    ----------
    dots:
        (n, 2) positions.
    sizes:
        n pairs of width and height.
    frame:
        The box that holds the labels.
    """
    obstacles: list[Box] = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in dots.tolist()]
    placed: list[Box] = []
    for (x, y), (width, height) in zip(dots.tolist(), sizes, strict=True):
        best = min(_candidates(x, y, width, height), key=lambda pair: (_overlap(pair[1], obstacles, frame), pair[0]))[1]
        obstacles.append(best)
        placed.append(best)
    return placed


def _candidates(x: float, y: float, width: float, height: float) -> list[tuple[float, Box]]:
    """Boxes around a dot with their cost: the distance, and a little for other sides than the right."""
    found = []
    for reach, (i, (dx, dy)) in product(
        (0.0, 8.0, 16.0, 26.0, 38.0, 52.0, 68.0, 86.0, 106.0),
        enumerate(
            ((1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (2, 1), (2, -1), (-2, 1), (-2, -1))
        ),
    ):
        gap = DOT + 2.5 + reach
        long = np.hypot(dx, dy)
        cx, cy = x + dx / long * gap, y + dy / long * gap
        left = cx if dx > 0 else cx - width if dx < 0 else cx - width / 2
        bottom = cy - height / 2 if dy == 0 else cy if dy > 0 else cy - height
        found.append((reach + 0.3 * i, (left, bottom, left + width, bottom + height)))
    return found


def _overlap(box: Box, others: Sequence[Box], frame: Box) -> float:
    """Area that the box shares with the others or has outside the frame."""
    left, bottom, right, top = box
    shared = sum(
        max(0.0, min(right, other[2]) - max(left, other[0])) * max(0.0, min(top, other[3]) - max(bottom, other[1]))
        for other in others
    )
    inside = max(0.0, min(right, frame[2]) - max(left, frame[0])) * max(0.0, min(top, frame[3]) - max(bottom, frame[1]))
    return round(shared + (right - left) * (top - bottom) - inside, 3)
