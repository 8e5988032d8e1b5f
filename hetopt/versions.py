"""Versions of what may change the last digit of a result."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

PACKAGES = ("hetopt", "numpy", "scipy", "highspy", "pyomo")


@cache
def versions() -> dict[str, str]:
    """Package -> its version; also Python's."""
    return {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()}
