"""What was read of the books, kept until somebody changes them: a controller looks often, and mostly nothing is new."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from hetopt.executor.state_database import StateDatabase

T = TypeVar("T")


class Cache:
    """Remembers results as long as the books stay the same.

    Parameters
    ----------
    database:
        The books.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._store = database
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
