"""Maps of ratios: cells over two axes, green below 1 and red above, with contours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hetopt.data.array_types import Floats
from hetopt.presentation.formatting import format_number
from hetopt.presentation.pictures import Drawing
from hetopt.presentation.style import BAD, GOOD, INK, QUIET, canvas
from hetopt.presentation.tables import Key

CELL, MARGIN = 0.62, 0.95
"""Inches of a cell, and of the labels beside a map."""

FULL = log(2.0)
"""Distance from 1, as a logarithm, at which a cell has its full colour."""

TEN = 10.0
"""From here on ratios are printed without decimals."""

KEYS = (Key("ratio below 1", "good", opacity=0.5), Key("ratio above 1", "bad", opacity=0.5))


@dataclass(frozen=True)
class RatioMap:
    """One map.

    Attributes
    ----------
    title:
        Text above it.
    x, y:
        Titles of the axes.
    columns, rows:
        Texts of the values.
    ratio:
        (rows, columns) ratios; NaN: unknown.
    """

    title: str
    x: str
    y: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    ratio: Floats


def ratio_maps(maps: Sequence[Sequence[RatioMap]], printed: Sequence[float]) -> Figure:
    """Draw maps in rows of equal length.

    Parameters
    ----------
    printed:
        Ratios whose contour is dashed; that of 1 is solid. Contours are drawn between the centres of cells.
    """
    texts = [text for row in maps for own in row for text in (own.title, own.x, own.y, *own.columns, *own.rows)]
    width = max(sum(CELL * len(own.columns) + MARGIN for own in row) for row in maps)
    heights = [max(CELL * len(own.rows) for own in row) + MARGIN for row in maps]
    with canvas(texts):
        figure = Drawing(figsize=(width, sum(heights)), layout="constrained")
        grid = figure.subplots(len(maps), len(maps[0]), squeeze=False, gridspec_kw={"height_ratios": heights})
        for row, line in zip(maps, grid, strict=True):
            for own, axes in zip(row, line, strict=True):
                _draw(axes, own, printed)
    return figure


def _draw(axes: Axes, own: RatioMap, printed: Sequence[float]) -> None:
    for (row, column), ratio in np.ndenumerate(own.ratio):
        if np.isnan(ratio):
            axes.text(column, row, "-", ha="center", va="center", color=QUIET)
            continue
        strength = min(1.0, abs(log(ratio)) / FULL)
        colour, corner = GOOD if ratio < 1 else BAD, (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1.0, 1.0, facecolor=colour, alpha=0.08 + 0.42 * strength, linewidth=0))
        text = f"{ratio:.2f}" if ratio < TEN else format_number(float(ratio), 2)
        axes.text(column, row, text, ha="center", va="center", color=INK)
    if min(own.ratio.shape) > 1 and not np.isnan(own.ratio).any():
        for level, dash in ((1.0, "solid"), *((level, "dashed") for level in printed)):
            if own.ratio.min() < level < own.ratio.max():
                axes.contour(np.log(own.ratio), levels=[log(level)], colors=[INK], linestyles=[dash], linewidths=1.2)
    axes.set_xlim(-0.5, len(own.columns) - 0.5)
    axes.set_ylim(-0.5, len(own.rows) - 0.5)
    axes.set_xticks(range(len(own.columns)), own.columns)
    axes.set_yticks(range(len(own.rows)), own.rows)
    axes.tick_params(length=0)
    axes.set_xlabel(own.x)
    axes.set_ylabel(own.y)
    axes.set_title(own.title, loc="left")
