"""Busy and quiet hours of a week."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.checks import at_least, shown
from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption

HOURS = 168
"""Of a week."""


@dataclass(frozen=True)
class Week:
    """How many jobs come in each hour of the week, relative to the others.

    Parameters
    ----------
    hours:
        24 numbers > 0, from the hour that begins at midnight.
    days:
        7 numbers > 0, from Monday; an hour of the week has the product of both.

    Raises
    ------
    InvalidOption
        Too many or too few numbers, or one that is not above 0.
    """

    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7

    def __post_init__(self) -> None:
        for key, count in (("hours", 24), ("days", 7)):
            given = getattr(self, key)
            if not isinstance(given, (tuple, list)) or len(given) != count:
                raise InvalidOption(f"Week.{key} is {shown(given)}; it must hold {count} numbers")
            checked = tuple(at_least(value, f"Week.{key}", 0.0, InvalidOption, strict=True) for value in given)
            object.__setattr__(self, key, checked)

    def clock(self, even: Floats) -> Floats:
        """Hours since Monday, 0:00, at which as much has come as after so many hours of an even week."""
        busy = np.outer(self.days, self.hours).ravel()
        come = np.concatenate([[0.0], np.cumsum(busy)]) * (HOURS / busy.sum())
        weeks, rest = np.divmod(even, HOURS)
        return np.asarray(HOURS * weeks + np.interp(rest, come, np.arange(HOURS + 1)))
