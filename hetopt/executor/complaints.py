"""What people are told while a controller runs: a trouble once, as long as it lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress


class Complaints:
    """Says each trouble when it begins, and again only when it has changed or been over.

    Parameters
    ----------
    say:
        Told a line; that nobody listens, or that the disk of its file is full, is no trouble.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Say something, on one line."""
        with suppress(OSError, ValueError):
            self._say(" ".join(text.split()))

    def tell(self, about: str, text: str) -> None:
        """Say a trouble, unless it was the last one said about that."""
        if self._told.get(about) != text:
            self._told[about] = text
            self.say(text)

    @property
    def lasting(self) -> Mapping[str, str]:
        """About what there is a trouble now, and which."""
        return self._told

    def over(self, about: str) -> None:
        """There is no trouble about that any more."""
        self._told.pop(about, None)
