"""Times in which the engine gave no answer. They do not count as waiting of a lease that the engine has not begun."""

from __future__ import annotations

import json

from hetopt.executor.state_database import StateDatabase

META = "engine_outages"
MOST_OUTAGES = 100
"""Of more, the oldest are forgotten: no lease that has not begun is that old."""


class EngineOutages:
    """Outages of the engine, in seconds of the cluster's clock; another controller of the database goes on with them.

    Parameters
    ----------
    database:
        Written only when an outage begins or ends.
    """

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        with database.reading() as connection:
            self._periods: list[list[float | None]] = json.loads(database.meta(connection, META) or "[]")
        self._answered = database.now()

    def failed(self) -> None:
        """The engine does not answer: the outage has lasted since its last answer."""
        if not self._ongoing:
            self._write([*self._periods[1 - MOST_OUTAGES :], [self._answered, None]])

    def answered(self) -> None:
        """The engine answers."""
        self._answered = self._database.now()
        if self._ongoing:
            self._write([*self._periods[:-1], [self._periods[-1][0], self._answered]])

    def seconds_since(self, second: float) -> float:
        """Seconds from this one of the cluster's clock until now, without outages."""
        now = self._database.now()
        ends = ((begin or 0.0, now if end is None else end) for begin, end in self._periods)
        return now - second - sum(max(0.0, end - max(begin, second)) for begin, end in ends)

    @property
    def _ongoing(self) -> bool:
        return bool(self._periods) and self._periods[-1][1] is None

    def _write(self, periods: list[list[float | None]]) -> None:
        with self._database.writing() as connection:
            self._database.set_meta(connection, META, json.dumps(periods))
        self._periods = periods
