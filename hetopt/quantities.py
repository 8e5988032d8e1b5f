"""Seconds and bytes as people read them: to four digits, in the unit that fits."""

from __future__ import annotations

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
