"""What switching costs here, as measured: from the request to stop to the seal, and from the grant to a step."""

from __future__ import annotations

from statistics import median

from hetopt.executor.connection import Connection
from hetopt.executor.leases import StopReason

NEWEST = 50
"""Restarts over which the median is taken."""

RESTARTS = (StopReason.MOVES, StopReason.PROFILING, StopReason.PREEMPTED)
"""Reasons to stop after which a job starts again."""


def stopping(connection: Connection) -> list[float]:
    """Seconds from the request to stop to the seal, of the newest leases that were to move."""
    found: list[tuple[float, float]] = []
    for reason in RESTARTS:  # one after another, each by the index: most leases may have ended for another reason
        found += connection.tuples(
            """SELECT sealed, stop_asked FROM leases WHERE sealed IS NOT NULL AND stop_reason = :reason
            AND outcome = 'stopped' ORDER BY sealed DESC LIMIT :newest""",
            reason=reason,
            newest=NEWEST,
        )
    return [sealed - asked for sealed, asked in sorted(found, reverse=True)[:NEWEST]]


def starting(connection: Connection) -> list[float]:
    """Seconds from the grant to the first step, of the newest leases."""
    return connection.column(
        """SELECT first_tick - granted FROM leases WHERE first_tick IS NOT NULL
        ORDER BY first_tick DESC LIMIT :newest""",
        newest=NEWEST,
    )


def restart_seconds(connection: Connection) -> float | None:
    """Median seconds that a job loses when it is stopped and started elsewhere; None before any was measured."""
    stop, start = stopping(connection), starting(connection)
    return median(stop) + median(start) if stop and start else None
