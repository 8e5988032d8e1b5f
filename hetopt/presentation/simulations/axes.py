"""Axes of pictures at places in inches, so that pictures below each other have the same axis of time."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from hetopt.presentation.formatting import scale_of

WIDTH = 11.5
"""Inches of a picture: as wide as the text of the page, so that letters keep their size."""

LETTER = 0.0088
"""Inches of a letter for each point of its size, on average and a little more."""


@dataclass(frozen=True)
class Frame:
    """Axes in rows and columns; all lengths in inches.

    Parameters
    ----------
    rows, columns:
        How many.
    height:
        Of each row.
    left, right, top, bottom:
        Around all of them.
    beside, below:
        Between two of them.
    """

    rows: int
    columns: int
    height: float
    left: float
    right: float = 0.15
    top: float = 0.3
    bottom: float = 0.5
    beside: float = 0.0
    below: float = 0.0

    def figure(self, *, sharex: bool = False, sharey: bool | Literal["col"] = False) -> tuple[Figure, Any]:
        """The figure, and its axes as an array (rows, columns)."""
        inside = self.rows * self.height + (self.rows - 1) * self.below
        whole, wide = self.top + inside + self.bottom, WIDTH - self.left - self.right
        figure = Figure(figsize=(WIDTH, whole))
        axes = figure.subplots(self.rows, self.columns, sharex=sharex, sharey=sharey, squeeze=False)
        figure.subplots_adjust(
            left=self.left / WIDTH,
            right=1 - self.right / WIDTH,
            bottom=self.bottom / whole,
            top=1 - self.top / whole,
            wspace=self.beside * self.columns / (wide - (self.columns - 1) * self.beside),
            hspace=self.below / self.height,
        )
        return figure, axes


def width_of(names: Iterable[str], size: float = 9.0) -> float:
    """Inches that the longest of these names takes in letters of this size (points)."""
    wide = [sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in name) for name in names]
    return LETTER * size * max(wide, default=0)


def time_axis(axes: Axes, begin: float, end: float) -> None:
    """Round numbers on an axis of time from ``begin`` to ``end`` (seconds), in the unit that suits its length."""
    scale = scale_of("makespan", [end - begin])
    low, high = begin / scale.size, end / scale.size
    step = next(s * 10.0**e for e in range(-9, 18) for s in (1, 2, 5) if high - low <= 12 * s * 10.0**e)
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(MultipleLocator(step * scale.size))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale.size:g}"))
    axes.set_xlabel(f"time ({scale.name})", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
