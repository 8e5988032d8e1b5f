"""Formatting of numbers, durations and bytes, for all output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any

MISSING = "\N{EN DASH}"
"""Text for a missing number on pages."""

Units = tuple[tuple[float, str], ...]
"""Units from the largest to the smallest: size and name."""

DURATIONS: Units = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1 / 1000, "ms"))
FRACTIONS: Units = ((1.0, "s"), (1 / 10**3, "ms"), (1 / 10**6, "µs"))
BYTES: Units = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

ALMOST = 1 - 0.5 / 10**4
"""Fraction of a unit that four digits round up to it: 999.96 kB are 1 MB, never 1000 kB."""

MOST_WRITTEN_OUT = 1e9
"""Multiples of the largest unit from which an exponent is kept."""


# Numbers


def format_number(value: float) -> str:
    """Format with three significant digits or more; exponents only for very small or large numbers."""
    if not isfinite(value):
        return MISSING
    size = abs(value)
    if size >= 10**9 or 0 < size < 1 / 1000:
        return f"{value:.2e}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.{1 if size >= 100 else 2 if size >= 1 else 3}f}"


def format_decimals(value: float, *, whole: bool = False) -> str:
    """Format with three decimals, or none if ``whole``, so that a column aligns; ``∞`` or ``-`` if not finite."""
    if not isfinite(value):
        return "∞" if value > 0 else "-"
    if whole:
        return f"{value:.0f}"
    text = f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return text.removeprefix("-") if float(text) == 0 else text


def format_rounded(value: Any) -> str:
    """Format a float with up to four decimals, for shares and GPUs; other values by ``str``."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1e6 else f"{value:.4g}"
    return "0" if text == "-0" else text


def format_significant(value: Any) -> str:
    """Format a float with six significant digits, for speeds and rates; other values by ``str``."""
    return f"{value + 0.0:.6g}" if isinstance(value, float) else str(value)


# Durations and bytes


def format_seconds(value: float) -> str:
    """Format the time of an iteration with four digits in s, ms or µs: ``0.03644`` as ``36.44 ms``."""
    return _in_largest_unit(float(value), FRACTIONS) if value else "0 s"


def format_bytes(value: float) -> str:
    """Format with four digits in the largest unit not exceeding the value: ``9e6`` as ``9 MB`` (decimal units)."""
    return _in_largest_unit(float(value), BYTES)


def _in_largest_unit(value: float, units: Units) -> str:
    size, name = next((pair for pair in units if abs(value) >= pair[0] * ALMOST), units[-1])
    text = f"{value / size:.4g}"
    if "e" in text and abs(value / size) < MOST_WRITTEN_OUT:
        text = f"{value / size:.0f}"
    return f"{text} {name}"


@dataclass(frozen=True)
class DisplayUnit:
    """A common unit for several values.

    Attributes
    ----------
    size:
        Its size in the unit of the values.
    name:
        Its name; may be empty.
    """

    size: float = 1.0
    name: str = ""

    def format(self, value: float) -> str:
        """A value in this unit, without its name."""
        return format_number(value / self.size)

    def format_range(self, least: float, most: float) -> str:
        """Two values in this unit as a range, without its name."""
        return f"{self.format(least)} \N{EN DASH} {self.format(most)}"


def time_unit(seconds: Iterable[float]) -> DisplayUnit:
    """The largest unit of time not exceeding half of the median value (without zeros and NaN)."""
    known = [abs(value) for value in seconds if isfinite(value) and value != 0]
    if not known:
        return DisplayUnit(1.0, "s")
    from statistics import median  # imported here: it takes longer than all else in this module

    middle = float(median(known))
    return next((DisplayUnit(*pair) for pair in DURATIONS if middle >= 2 * pair[0]), DisplayUnit(*DURATIONS[-1]))


def format_duration(seconds: float) -> str:
    """Format a time in the largest unit, from days to milliseconds, of which it has two or more."""
    unit = time_unit([seconds])
    return f"{unit.format(seconds)} {unit.name}" if isfinite(seconds) else MISSING
