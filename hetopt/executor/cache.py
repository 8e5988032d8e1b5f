"""Results of queries, valid until the state database changes; between most steps of a controller nothing does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from hetopt.executor.state_database import StateDatabase

T = TypeVar("T")


class Cache:
    """Remembers results until the version of ``database`` changes."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._version: object = None
        self._results: dict[Hashable, Any] = {}

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """The result of ``read``, now or since the last change."""
        if (version := self._database.version()) != self._version:
            self._results.clear()
            self._version = version
        if key not in self._results:
            self._results[key] = read()
        result: T = self._results[key]
        return result
