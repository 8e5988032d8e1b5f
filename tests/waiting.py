"""Waiting for what must come to pass, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 600.0
"""Seconds; never reached where all is well, be the machine as busy as it may."""


def until(what: Callable[[], Any], meaning: str = "") -> Any:
    """Wait for something, and give it back."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {meaning}"
        time.sleep(0.01)
    return found
