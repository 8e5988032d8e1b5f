"""Units of the numbers that are shown or read, and which direction is better."""

from __future__ import annotations

from enum import Enum, StrEnum
from math import nan

from hetopt.errors import InvalidOption

SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Unit of time -> its seconds."""

BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
"""Unit of memory -> its bytes."""


def seconds_of(text: str) -> float:
    """``300``, ``300s`` or ``5 min`` in seconds; NaN for anything else."""
    word = text.strip()
    unit = word.lstrip("0123456789.")
    try:
        return float(word.removesuffix(unit)) * SECONDS[unit.strip() or "s"]
    except (KeyError, ValueError):
        return nan


def seconds(text: str, key: str) -> float:
    """``300``, ``300s`` or ``5min`` in seconds.

    Raises
    ------
    InvalidOption
        It is something else, or not above zero.
    """
    value = seconds_of(text)
    if not 0 < value < 10**9:
        raise InvalidOption(f"is {text!r}; it must be a time above zero, such as 300s or 5min", key)
    return value


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
