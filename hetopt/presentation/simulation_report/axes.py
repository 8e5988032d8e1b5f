"""Axes at positions in inches, so that stacked pictures share an axis of time; units of axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from hetopt.metrics.definitions import Unit, metric_of
from hetopt.presentation.allocation_pictures import FIGURE_WIDTH
from hetopt.presentation.fonts import text_width
from hetopt.presentation.formatting import DisplayUnit, time_unit

LETTER_WIDTH_PER_POINT = 0.0088
"""Width of a letter in inches per point of its size: the mean with a margin."""


@dataclass(frozen=True)
class AxesGrid:
    """Axes in rows and columns; all lengths in inches.

    Parameters
    ----------
    rows, columns:
        Number of rows and columns.
    height:
        Height of a row.
    left, right, top, bottom:
        Margins around the grid.
    beside, below:
        Gaps between columns, and between rows.
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
        whole, wide = self.top + inside + self.bottom, FIGURE_WIDTH - self.left - self.right
        figure = Figure(figsize=(FIGURE_WIDTH, whole))
        axes = figure.subplots(self.rows, self.columns, sharex=sharex, sharey=sharey, squeeze=False)
        figure.subplots_adjust(
            left=self.left / FIGURE_WIDTH,
            right=1 - self.right / FIGURE_WIDTH,
            bottom=self.bottom / whole,
            top=1 - self.top / whole,
            wspace=self.beside * self.columns / (wide - (self.columns - 1) * self.beside),
            hspace=self.below / self.height,
        )
        return figure, axes


def unit_of(metric: str, values: Iterable[float]) -> DisplayUnit:
    """The unit in which these values of a metric are shown: :func:`time_unit` for seconds, else the metric's own."""
    unit = metric_of(metric).unit
    return time_unit(values) if unit is Unit.SECONDS else DisplayUnit(1.0, unit.label)


def width_of(names: Iterable[str], size: float = 9.0) -> float:
    """Width in inches of the longest of these names in letters of this size (points)."""
    return LETTER_WIDTH_PER_POINT * size * max(map(text_width, names), default=0)


def time_axis(axes: Axes, begin: float, end: float) -> None:
    """Set limits (seconds) and round tick labels of an axis of time, in a unit that suits its length."""
    unit = time_unit([end - begin])
    low, high = begin / unit.size, end / unit.size
    step = next(s * 10.0**e for e in range(-9, 18) for s in (1, 2, 5) if high - low <= 12 * s * 10.0**e)
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(MultipleLocator(step * unit.size))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.size:g}"))
    axes.set_xlabel(f"time ({unit.name})", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
