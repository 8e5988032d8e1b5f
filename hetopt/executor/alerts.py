"""Messages to the terminal of a controller: each lasting alert once, until it changes or is cleared."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress


class Alerts:
    """Alerts by subject.

    Parameters
    ----------
    show:
        Prints a line; that its output is closed, or its disk full, is ignored.

    Attributes
    ----------
    active:
        Subject -> the alert that holds now.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self.active: dict[str, str] = {}

    def report(self, text: str) -> None:
        """Print a message on one line."""
        with suppress(OSError, ValueError):
            self._show(" ".join(text.split()))

    def set(self, subject: str, text: str) -> None:
        """Print an alert unless it is active already, also about another subject; an empty text ends it."""
        new = text not in self.active.values()
        self.active[subject] = text
        if not text:
            self.clear(subject)
        elif new:
            self.report(text)

    def clear(self, subject: str) -> None:
        """End the alert about a subject."""
        self.active.pop(subject, None)
