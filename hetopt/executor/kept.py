"""What was read of the books, kept until somebody changes them: a controller looks often, and mostly nothing is new."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from hetopt.executor.store import StateStore

T = TypeVar("T")


class Kept:
    """Remembers results as long as the books stay the same.

    Parameters
    ----------
    store:
        The books.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._version: int | None = None
        self._found: dict[Hashable, Any] = {}

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """What ``read`` returns, or has returned since the last change."""
        if (version := self._store.version()) != self._version:
            self._found.clear()
            self._version = version
        if key not in self._found:
            self._found[key] = read()
        found: T = self._found[key]
        return found
