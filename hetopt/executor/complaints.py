"""What people are told while a controller runs: a trouble once, as long as it lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress


class Complaints:
    """Says each trouble when it begins, and again only when it has changed or been over.

    Parameters
    ----------
    say:
        Told a line; that nobody listens, or that the disk of its file is full, is no trouble.

    Attributes
    ----------
    lasting:
        About what there is a trouble now, and which.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.lasting: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Say something, on one line."""
        with suppress(OSError, ValueError):
            self._say(" ".join(text.split()))

    def tell(self, about: str, text: str) -> None:
        """Say a trouble, unless it was the last one said about that."""
        if self.lasting.get(about) != text:
            self.lasting[about] = text
            self.say(text)

    def over(self, about: str) -> None:
        """There is no trouble about that any more."""
        self.lasting.pop(about, None)
