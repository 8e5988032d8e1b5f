"""Numbers of the page: one unit for a whole column, and as many digits as are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hetopt.experiments.standings import unit

SECONDS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1 / 1000, "ms"))
"""Seconds in a unit, and its name."""

NONE = "\N{EN DASH}"
"""Where there is no number."""


@dataclass(frozen=True)
class Scale:
    """The unit of a column.

    Attributes
    ----------
    size:
        How much of the metric's own unit it is.
    name:
        Its name; empty for none.
    """

    size: float = 1.0
    name: str = ""

    def spell(self, value: float) -> str:
        """A value of the metric in this unit, without its name."""
        return digits(value / self.size)


def scale_of(metric: str, values: Iterable[float]) -> Scale:
    """The unit for these values of a metric: of seconds the largest of which the median (of those above 0) is two."""
    known = [abs(value) for value in values if np.isfinite(value) and value != 0]
    own = unit(metric)
    if own != "seconds":
        return Scale(1.0, "" if own == "count" else own)
    if not known:
        return Scale(1.0, "s")
    middle = float(np.median(known))
    return next((Scale(*pair) for pair in SECONDS if middle >= 2 * pair[0]), Scale(*SECONDS[-1]))


def digits(value: float) -> str:
    """A number with three digits or more, none of them an exponent where it can be read without."""
    if not np.isfinite(value):
        return NONE
    size = abs(value)
    if size >= 10**9 or 0 < size < 1 / 1000:
        return f"{value:.2e}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.{1 if size >= 100 else 2 if size >= 1 else 3}f}"


def span(least: float, most: float, scale: Scale) -> str:
    """From the least to the largest value."""
    return f"{scale.spell(least)} \N{EN DASH} {scale.spell(most)}"


def duration(seconds: float) -> str:
    """Seconds in the unit that fits them, with its name."""
    scale = scale_of("makespan", [seconds])
    return f"{scale.spell(seconds)} {scale.name}"
