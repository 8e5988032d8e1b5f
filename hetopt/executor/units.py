"""Times and sizes with units, in job files and on the command line."""

from __future__ import annotations

from hetopt.errors import InvalidOption

BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
SECONDS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str, key: str) -> float:
    """``300``, ``300s`` or ``5min`` in seconds.

    Raises
    ------
    InvalidOption
        It is something else, or not above zero.
    """
    word = text.strip()
    unit = word.lstrip("0123456789.")
    try:
        value = float(word.removesuffix(unit)) * SECONDS[unit.strip() or "s"]
    except (KeyError, ValueError):
        value = 0.0
    if not 0 < value < 10**9:
        raise InvalidOption(f"is {text!r}; it must be a time above zero, such as 300s or 5min", key)
    return value
