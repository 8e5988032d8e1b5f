"""Times and sizes with units, in job files and on the command line."""

from __future__ import annotations

from hetopt.data.units import seconds_of
from hetopt.errors import InvalidOption

BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}


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
