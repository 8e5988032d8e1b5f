"""The policies of a comparison on the plane of fairness and throughput, with their names at the dots."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hetopt.data.array_types import Floats
from hetopt.experiments.comparison import COLUMNS, Comparison, recommend
from hetopt.presentation.fonts import label, text_width
from hetopt.presentation.pictures import PANEL, WIDE, Drawing
from hetopt.presentation.style import BAD, GOOD, PAGE, QUIET, canvas

LETTER, LINE = 5.0, 11.0
"""Width of a letter, and height of a line, in points."""

DOT = 4.5
"""Radius of a dot in points."""

FAIR = COLUMNS["sharing"].least
"""Sharing ratio from which on a policy is fair."""


def drawn(comparison: Comparison) -> pd.DataFrame:
    """The rows of a comparison that have a place in the picture: those that are finite."""
    finite = np.isfinite(comparison.table[["sharing", "total"]].to_numpy(dtype=float)).all(axis=1)
    return pd.DataFrame(comparison.table.loc[finite])


def trade_off(comparison: Comparison, narrow: bool = False) -> Figure:
    """Draw total throughput against the least sharing ratio of each policy, the recommended one as a star.

    Parameters
    ----------
    narrow:
        Whether it is for phones.
    """
    table = drawn(comparison)
    places, names = table[["sharing", "total"]].to_numpy(dtype=float), list(map(str, table.index))
    envious = table["envy"].map(COLUMNS["envy"].is_violated).to_numpy(dtype=bool)
    found = recommend(comparison)
    star = np.asarray(table.index == (found.policy if found else ""))
    with canvas(names):
        figure = Drawing(figsize=(PANEL, 8.0) if narrow else (WIDE, 5.4), layout="constrained")
        axes = figure.subplots()
        axes.set_xlabel("least sharing ratio: rate / rate with the fair part")
        axes.set_ylabel("total throughput (GPUs of speedup 1)")
        axes.axvline(FAIR, color=QUIET, linestyle=(0, (4, 3)), linewidth=1, zorder=1)
        top: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center"}
        axes.annotate("fair from here on", (FAIR, 1.0), (0, 3), color=QUIET, **top)
        axes.grid()
        _frame(axes, places)
        kinds = (
            ("envy-free", "o", GOOD, 40, ~envious & ~star),
            ("with envy", "X", BAD, 40, envious & ~star),
            ("recommended", "*", GOOD, 170, star),
        )
        for text, marker, colour, size, own in kinds:
            if own.any():
                x, y = places[own].T
                axes.scatter(x, y, marker=marker, s=size, c=colour, label=text, linewidths=0, zorder=4)
        if names:
            figure.legend(loc="outside upper left", ncols=3)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        if names:
            _name_dots(axes, names, places, star)
    return figure


def _frame(axes: Axes, places: Floats) -> None:
    """Set axis limits with room for names, also if all places are equal."""
    every = np.vstack([places, [FAIR, places[:, 1].mean() if len(places) else 0.0]])
    low, high = every.min(axis=0), every.max(axis=0)
    room = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
    axes.set_xlim(low[0] - 0.06 * room[0], high[0] + 0.16 * room[0])
    axes.set_ylim(low[1] - 0.08 * room[1], high[1] + 0.08 * room[1])


def _name_dots(axes: Axes, names: Sequence[str], places: Floats, star: np.ndarray) -> None:
    """Write the names beside the dots; policies at the same place share a label of at most three lines."""
    scale = 72 / axes.figure.dpi
    points = axes.transData.transform(places) * scale
    groups: list[list[int]] = []
    for i in sorted(range(len(names)), key=lambda i: (not star[i], *points[i].round().tolist())):
        near = next((own for own in groups if np.hypot(*(points[own[0]] - points[i])) < DOT), None)
        groups.append([i]) if near is None else near.append(i)
    lines = []
    for own in groups:
        shown, across = [label(names[i], i + 1, 30) for i in own], ceil(len(own) / 3)
        lines.append([", ".join(shown[i : i + across]) for i in range(0, len(own), across)])
    sizes = [(LETTER * max(map(text_width, own)) + 2, LINE * len(own)) for own in lines]
    dots = points[[own[0] for own in groups]]
    line = scale * float(axes.transData.transform((FAIR, 0.0))[0])
    boxes = place_labels(dots, np.array(sizes), np.array(axes.bbox.extents) * scale, line)
    leader: dict[str, Any] = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": DOT}
    for own, text, (x, y), (left, bottom, right, top) in zip(groups, lines, dots, boxes, strict=True):
        at, side = (left, "left") if left >= x else (right, "right") if right <= x else ((left + right) / 2, "center")
        away = np.clip(x, left, right) - x, np.clip(y, bottom, top) - y
        if np.hypot(*away) > 2.5 * DOT:
            axes.annotate("", places[own[0]], away, textcoords="offset points", arrowprops=leader, zorder=2)
        axes.annotate(
            "\n".join(text),
            places[own[0]],
            (at - x, (bottom + top) / 2 - y),
            textcoords="offset points",
            ha=side,
            va="center",
            weight="bold" if star[own].any() else "normal",
            bbox={"facecolor": PAGE, "edgecolor": "none", "pad": 0.5},  # above the lines of others
        )


SIDES = np.array(
    [(1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (2, 1), (2, -1), (-2, 1), (-2, -1)]
)
"""Directions in which a label may lie from its dot, the best first."""

GAPS = np.array([0.0, 8.0, 16.0, 26.0, 38.0, 52.0, 68.0, 86.0, 106.0])
"""Distances beyond the least one, in points."""


def place_labels(dots: Floats, sizes: Floats, frame: Floats, line: float) -> Floats:
    """A box for each label: near its dot, inside the frame, clear of dots, line and other labels if there is room.

    Parameters
    ----------
    dots:
        (n, 2) positions.
    sizes:
        (n, 2) widths and heights.
    frame:
        (4,) left, bottom, right and top edge of the box that holds the labels.
    line:
        Where the vertical line is.

    Returns
    -------
    Floats
        (n, 4) edges of the boxes.
    """
    unit = SIDES / np.linalg.norm(SIDES, axis=1, keepdims=True)
    offsets = ((DOT + 2.5 + GAPS[:, None, None]) * unit).reshape(-1, 2)
    costs = np.add.outer(GAPS, 0.3 * np.arange(len(SIDES))).ravel()
    corners = np.tile((np.sign(SIDES) - 1) / 2, (len(GAPS), 1))
    taken = np.vstack([np.hstack([dots - DOT, dots + DOT]), (line - 1, frame[1], line + 1, frame[3])])
    for dot, size in zip(dots, sizes, strict=True):
        low = dot + offsets + corners * size
        boxes = np.hstack([low, low + size])
        hidden = _shared(boxes, taken).sum(axis=1) + size.prod() - _shared(boxes, frame[None])[:, 0]
        taken = np.vstack([taken, boxes[np.lexsort((costs, hidden.round(3)))[0]]])
    return taken[len(dots) + 1 :]


def _shared(boxes: Floats, others: Floats) -> Floats:
    """(n, m) areas that n boxes share with m others."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0.0, None).prod(axis=2))
