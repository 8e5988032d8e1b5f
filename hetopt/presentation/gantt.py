"""Bars in rows: Gantt charts of servers, GPUs and jobs over time, and GPUs divided among tenants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator

from hetopt.presentation.fonts import cut, label, text_width
from hetopt.presentation.formatting import format_duration, unit_of_axis
from hetopt.presentation.pictures import WIDE, Box, Drawing, draw_boxes
from hetopt.presentation.style import GRID, INK, PAGE, REST, SeriesStyle

LETTER = 0.08
"""Width of a digit in inches."""

NAME, SHORT = 24, 6
"""Most letters of the name of a row, and least letters of a label that is cut."""

LABELLED = 0.15
"""Least height in inches of a bar with a label."""


@dataclass(frozen=True)
class GanttRow:
    """A row with one or more lines, e.g. a server with a line for each GPU."""

    name: str
    lines: int = 1


@dataclass(frozen=True)
class GanttBar:
    """A bar in adjacent lines of a row, from ``start`` to ``end`` in the unit of the axis.

    Its place is the position of the row, that of the first line in it, and the number of lines. Without a style it has
    the colour of the rest. Its label is shown if there is room and it has a colour without a hatch; its tip where it is
    pointed at, see :func:`draw_bars`. Until ``begun`` it is starting or moving; without, it is in full use from its
    start. A ``pale`` one is hatched, too, e.g. because it profiles only.
    """

    row: int
    line: int
    lines: int
    start: float
    end: float
    style: SeriesStyle | None
    label: str = ""
    tip: str = ""
    begun: float | None = None
    pale: bool = False


def gantt_figure(
    rows: Sequence[GanttRow], line_height: float, width: float = WIDE, top: float = 0.3, bottom: float = 0.42
) -> tuple[Figure, Axes]:
    """A figure for rows whose lines have this height, with a margin for their names; lengths in inches."""
    high = max(line_height * sum(row.lines for row in rows), 0.3)
    left = 0.15 + LETTER * max((text_width(label(row.name, i, NAME)) for i, row in enumerate(rows, 1)), default=1)
    whole = high + top + bottom
    figure = Drawing(figsize=(width, whole))
    axes = figure.add_axes((left / width, bottom / whole, 1 - (left + 0.15) / width, high / whole))
    return figure, axes


def draw_bars(
    axes: Axes,
    rows: Sequence[GanttRow],
    bars: Iterable[GanttBar],
    window: tuple[float, float],
    tips: list[str] | None = None,
    *,
    whole: bool = False,
) -> None:
    """Draw rows and bars on the axes of :func:`gantt_figure`.

    Parameters
    ----------
    window:
        Limits of the axis; bars are cut there.
    tips:
        If given, every bar is a shape of its own, and its tip is appended, for
        :func:`~hetopt.presentation.pictures.picture`.
    whole:
        Whether labels with too little room are left out rather than cut, e.g. numbers.
    """
    tops = [0, *accumulate(row.lines for row in rows)]
    axes.hlines(tops, *window, colors=GRID, linewidth=0.6, zorder=0)
    axes.set(xlim=window, ylim=(max(tops[-1], 1), 0))
    middles = [(top + below) / 2 for top, below in pairwise(tops)]
    axes.set_yticks(middles, [label(row.name, i, NAME) for i, row in enumerate(rows, 1)])
    across = axes.bbox.width / axes.figure.dpi / (window[1] - window[0])  # inches per unit
    down = axes.bbox.height / axes.figure.dpi / max(tops[-1], 1)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", zorder=0)
    axes.spines["left"].set_visible(False)
    shapes, dark = dict[tuple[str, str, float], list[Box]](), list[Box]()
    for bar in bars:
        start, end = max(bar.start, window[0]), min(bar.end, window[1])
        if start >= end:
            continue
        low = tops[bar.row] + bar.line
        box = (start, end, low + 0.04, low + bar.lines - 0.04)
        colour, hatch = (bar.style.colour, bar.style.hatch) if bar.style else (REST, "")
        key = (colour, "////", 0.55) if bar.pale else (colour, hatch, 1.0)
        if tips is None:
            shapes.setdefault(key, []).append(box)
        else:
            _draw(axes, [box], *key).set_gid(f"tip{len(tips)}")
            tips.append(bar.tip)
        begun = start if bar.begun is None else min(max(start, bar.begun), end)
        if begun > start:
            dark.append((start, begun, *box[2:]))
        room = int(((end - begun) * across - 0.08) / LETTER)
        least = text_width(bar.label) if whole else min(text_width(bar.label), SHORT)
        fits = bar.lines * down >= LABELLED and room >= least
        if bar.label and bar.style is not None and not key[1] and fits:
            at = begun + 0.04 / across, low + bar.lines / 2
            axes.text(*at, cut(bar.label, room), va="center", color=bar.style.letters, zorder=3)
    for key, boxes in (*shapes.items(), ((INK, "", 0.6), dark)):
        if boxes:
            _draw(axes, boxes, *key)


def _draw(axes: Axes, boxes: list[Box], colour: str, hatch: str, alpha: float) -> PathPatch:
    look = {"facecolor": colour, "edgecolor": PAGE, "linewidth": 0.5, "hatch": hatch or None, "alpha": alpha}
    return draw_boxes(axes, boxes, **look, zorder=2)


def time_axis(axes: Axes, begin: float, end: float, *, ago: bool = False) -> None:
    """Limits in seconds and round ticks, in a unit that suits the length; ``ago``: before the end of the axis."""
    size, name = unit_of_axis(end - begin)
    steps = (s * 10.0**e for e in range(-9, 18) for s in (1, 2, 5))
    step = size * next(s for s in steps if end - begin <= (7 if ago else 12) * s * size)
    axes.set_xlim(begin, end)
    if ago:
        axes.xaxis.set_major_locator(FixedLocator(np.arange(end, begin, -step).tolist()))
        shown = FuncFormatter(lambda at, _: "now" if end - at < step / 2 else f"{format_duration(end - at)} ago")
    else:
        axes.xaxis.set_major_locator(MultipleLocator(step))
        shown = FuncFormatter(lambda at, _: f"{at / size:g}")
        axes.set_xlabel(f"time ({name})")
    axes.xaxis.set_major_formatter(shown)
