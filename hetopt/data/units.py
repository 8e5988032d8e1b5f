"""Units of the numbers that are shown or read, and which direction is better."""

from __future__ import annotations

from enum import Enum, StrEnum
from math import nan

SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Unit of time -> its seconds."""


def seconds_of(text: str) -> float:
    """``300``, ``300s`` or ``5 min`` in seconds; NaN for anything else."""
    word = text.strip()
    unit = word.lstrip("0123456789.")
    try:
        return float(word.removesuffix(unit)) * SECONDS[unit.strip() or "s"]
    except (KeyError, ValueError):
        return nan


class Unit(StrEnum):
    """Units of numbers."""

    NONE = "no unit"
    SHARE = "from 0 to 1"
    COUNT = "count"
    SECONDS = "seconds"
    PER_HOUR = "per hour"
    SPEEDUP_GPUS = "GPUs of speedup 1"
    GPUS = "GPUs"

    @property
    def label(self) -> str:
        """Text after a number or in a heading; empty for counts, shares and numbers without unit."""
        return "" if self in (Unit.NONE, Unit.SHARE, Unit.COUNT) else self.value


class Better(Enum):
    """The better direction of a metric."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"
