"""Units of the numbers that are shown, and which direction is better."""

from __future__ import annotations

from enum import Enum, StrEnum


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
