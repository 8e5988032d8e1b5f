"""What switching costs here, as measured: from the request to stop to the seal, and from the grant to a step."""

from __future__ import annotations

from statistics import median

from sqlalchemy import Connection, select

from hetopt.executor import tables
from hetopt.executor.leases import StopReason

NEWEST = 50
"""Restarts over which the median is taken."""

RESTARTS = (StopReason.MOVES, StopReason.PROFILING, StopReason.PREEMPTED)
"""Reasons to stop after which a job starts again."""


def stopping(connection: Connection) -> list[float]:
    """Seconds from the request to stop to the seal, of the newest leases that were to move."""
    found: list[tuple[float, float]] = []
    for reason in RESTARTS:  # one after another, each by the index: most leases may have ended for another reason
        rows = connection.execute(
            select(tables.leases.c.sealed, tables.leases.c.stop_asked)
            .where(tables.leases.c.sealed.is_not(None), tables.leases.c.stop_reason == reason)
            .where(tables.leases.c.outcome == "stopped")
            .order_by(tables.leases.c.sealed.desc())
            .limit(NEWEST)
        )
        found += [(float(sealed), float(asked)) for sealed, asked in rows]
    return [sealed - asked for sealed, asked in sorted(found, reverse=True)[:NEWEST]]


def starting(connection: Connection) -> list[float]:
    """Seconds from the grant to the first step, of the newest leases."""
    rows = connection.execute(
        select(tables.leases.c.first_tick - tables.leases.c.granted)
        .where(tables.leases.c.first_tick.is_not(None))
        .order_by(tables.leases.c.first_tick.desc())
        .limit(NEWEST)
    ).scalars()
    return [float(value) for value in rows]


def restart_seconds(connection: Connection) -> float | None:
    """Median seconds that a job loses when it is stopped and started elsewhere; None before any was measured."""
    stop, start = stopping(connection), starting(connection)
    return median(stop) + median(start) if stop and start else None
