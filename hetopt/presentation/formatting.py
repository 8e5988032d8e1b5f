"""Seconds and bytes as people read them: to four digits, in the unit that fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hetopt.experiments.standings import unit

Units = tuple[tuple[float, str], ...]
"""Units from the largest to the smallest, each with its name."""

TIMES: Units = ((1.0, "s"), (1 / 10**3, "ms"), (1 / 10**6, "µs"))
SIZES: Units = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

ALMOST = 1 - 0.5 / 10**4
"""From this part of a unit on four digits round up to it: 999.96 kB are 1 MB, never 1000 kB."""

MOST_WRITTEN_OUT = 1e9
"""Larger numbers of the largest unit are left with an exponent."""


def spell_seconds(value: float) -> str:
    """``0.03644`` as ``36.44 ms``; seconds are not turned into hours."""
    return _spelled(float(value), TIMES) if value else "0 s"


def spell_bytes(value: float) -> str:
    """``9e6`` as ``9 MB``: a megabyte is a million bytes."""
    return _spelled(float(value), SIZES)


def _spelled(value: float, units: Units) -> str:
    unit, name = next((pair for pair in units if abs(value) >= pair[0] * ALMOST), units[-1])
    text = f"{value / unit:.4g}"
    if "e" in text and abs(value / unit) < MOST_WRITTEN_OUT:
        text = f"{value / unit:.0f}"
    return f"{text} {name}"


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
