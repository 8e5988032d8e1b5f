"""Formatting of numbers, durations and bytes, for terminals, pages and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10

from hetopt.data.units import Unit

MISSING = "\N{EN DASH}"
"""Text for a missing number."""

SPACE = "\N{NARROW NO-BREAK SPACE}"
"""Separates thousands."""

Units = tuple[tuple[float, str], ...]
"""Units from the largest to the smallest: size and name."""

DURATIONS: Units = (
    (86_400.0, "d"),
    (3600.0, "h"),
    (60.0, "min"),
    (1.0, "s"),
    (1 / 10**3, "ms"),
    (1 / 10**6, "µs"),
)
BYTES: Units = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

DIGITS = 4
"""Significant digits of the largest number of a column, and of an amount with a unit."""

MOST_DECIMALS = 3
"""Most decimals of a column."""

EXPONENT = 1e9
"""Numbers from which an exponent is written."""


def format_number(value: float, digits: int = DIGITS) -> str:
    """Format with so many significant digits at most; with an exponent if very small or large, ``∞`` or a dash."""
    if not isfinite(value):
        return _not_finite(value)
    size = abs(value)
    if size >= EXPONENT or 0 < size < 1 / 10**digits:
        return f"{value:.{digits - 1}g}"
    decimals = max(0, digits - 1 - floor(log10(size))) if size else 0
    text = _grouped(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _grouped(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}".replace(",", SPACE) if abs(value) >= 10_000 else f"{value:.{decimals}f}"
    return text.removeprefix("-") if not any(digit in text for digit in "123456789") else text


def _not_finite(value: float) -> str:
    return MISSING if value != value else "∞" if value > 0 else "-∞"


def slug(name: str) -> str:
    """A name as an anchor or the name of a file."""
    return re.sub(r"[^\w-]+", "-", name)


def format_duration(seconds: float) -> str:
    """Format a time in the largest unit, from days to microseconds, of which it has one or more: ``3.69 h``."""
    return _in_largest_unit(seconds, DURATIONS, 3) if seconds else "0 s"


def format_bytes(value: float) -> str:
    """Format in the largest unit not exceeding the value: ``9e6`` as ``9 MB`` (decimal units)."""
    return _in_largest_unit(value, BYTES, DIGITS)


def format_percent(share: float) -> str:
    """Format a share from 0 to 1: ``30 %``."""
    return f"{format_number(100 * share, 3)}{SPACE}%" if isfinite(share) else MISSING


def _in_largest_unit(value: float, units: Units, digits: int) -> str:
    if not isfinite(value):
        return _not_finite(value)
    size, name = _largest_unit(value, units, digits)
    return f"{format_number(float(f'{value / size:.{digits}g}'), digits)} {name}"


def _largest_unit(value: float, units: Units, digits: int = DIGITS) -> tuple[float, str]:
    """The largest unit of which the value, rounded to these digits, has one: 999.96 kB are 1 MB, never 1000 kB."""
    return next((pair for pair in units if abs(value) >= pair[0] * (1 - 0.5 / 10**digits)), units[-1])


@dataclass(frozen=True)
class ColumnFormat:
    """The common unit and the decimals of several numbers, so that they align and compare.

    ``size`` is that of the unit in the unit of the numbers. Without ``decimals``, each number has :data:`DIGITS`
    significant digits.
    """

    size: float = 1.0
    name: str = ""
    decimals: int | None = 0

    def format(self, value: float) -> str:
        """A number in this unit, without the name of the unit."""
        if not isfinite(value):
            return _not_finite(value)
        scaled = value / self.size
        if self.decimals is None:
            return format_number(scaled)
        if abs(scaled) >= EXPONENT:
            return f"{scaled:.{DIGITS - 1}g}"
        return _grouped(scaled, self.decimals)


def column_format(
    values: Iterable[float], unit: Unit | str = Unit.NONE, *, significant: bool = False, length: float | None = None
) -> ColumnFormat:
    """The format of a column: seconds in a unit of time that suits the median, shares in per cent.

    The largest number has :data:`DIGITS` significant digits, all have the same decimals, and whole numbers have none;
    or all have these ``significant`` digits where the smallest would keep fewer than two. Seconds on an axis of a
    ``length`` are in its unit.
    """
    known = [abs(float(value)) for value in values if isfinite(value)]
    size, name = 1.0, unit.label if isinstance(unit, Unit) else unit
    if unit is Unit.SECONDS:
        size, name = unit_of_time(known) if length is None else unit_of_axis(length)
    elif unit is Unit.SHARE:
        size, name = 0.01, "%"
    if all(value / size == round(value / size) for value in known):
        return ColumnFormat(size, name)
    decimals = max(0, min(MOST_DECIMALS, DIGITS - 1 - floor(log10(max(known) / size))))
    if significant and any(0 < value / size < 10 ** (1 - decimals) for value in known):
        return ColumnFormat(size, name, None)
    return ColumnFormat(size, name, decimals)


def unit_of_time(seconds: Iterable[float]) -> tuple[float, str]:
    """Size in seconds and name of the largest unit of time not exceeding the median (without zeros and NaN)."""
    from statistics import median  # imported here: it takes longer than all else in this module

    known = [abs(value) for value in seconds if isfinite(value) and value != 0]
    return _largest_unit(median(known) if known else 1.0, DURATIONS)


def unit_of_axis(length: float) -> tuple[float, str]:
    """Size in seconds and name of the largest unit of time of which an axis of this length has two or more."""
    return _largest_unit(length / 2, DURATIONS)
