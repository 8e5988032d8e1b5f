"""The past of a cluster: leases by GPU, rounds, and GPU-seconds of tenants, from the records."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count

from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, spec_fields
from hetopt.executor.queue import capacity_of, known_nodes

WINDOW_SECONDS, WINDOW_ROUNDS = 3600.0, 12
"""The page shows the last hour, or this number of rounds if they are longer."""

MIN_SECONDS = 10.0
"""Least length of the window."""

MAX_LEASES = 1000
"""Leases of the Gantt chart; of more, the chart begins later."""

AFTER = "(leases.sealed IS NULL OR leases.sealed > :since)"
"""Leases that are open, or were at some time after a second."""


@dataclass(frozen=True)
class Span:
    """A lease on one GPU, from its grant until its seal or now, in cluster seconds.

    ``reason`` is why it was stopped, or how it ended; empty while it runs.
    """

    tag: str
    job: str
    tenant: str
    copy: int
    kind: str
    node: str
    gpu_type: str
    number: int
    granted: float
    until: float
    first_tick: float | None
    open: bool
    round: int
    reason: str


@dataclass(frozen=True)
class Usage:
    """GPU-seconds of tenants, from the grants of leases to their seals; the tenant with most is first.

    ``recent`` begins at cluster second ``since``, ``total`` at the first record.
    """

    since: float
    recent: dict[str, float]
    total: dict[str, float]


def window_start(connection: Connection, now: float, round_seconds: float | None) -> float:
    """The begin of the window, or the grant of its first lease if that is later."""
    since = now - max(WINDOW_SECONDS, WINDOW_ROUNDS * (round_seconds or 0.0))
    first = connection.value(f"SELECT min(granted) FROM leases WHERE {AFTER}", since=since)
    return min(max(since, since if first is None else first), now - MIN_SECONDS)


def spans(connection: Connection, since: float, now: float, most: int = MAX_LEASES) -> tuple[list[Span], float]:
    """Leases after ``since``, by GPU in the order of their grants, and the second from which on none is missing.

    Of more than ``most`` leases, those that were sealed first are left out.
    """
    query = f"SELECT id, sealed FROM leases WHERE {AFTER} ORDER BY sealed IS NOT NULL, sealed DESC LIMIT :number"
    newest = connection.rows(query, since=since, number=most + 1)
    if len(newest) > most:
        since = newest[most]["sealed"] or now
    query = """
        SELECT leases.tag, leases.copy, leases.kind, leases.granted, leases.first_tick, leases.round, seats.node,
            seats.gpu_type, seats.number, seats.device, jobs.name AS job, jobs.tenant,
            coalesce(leases.sealed, :now) AS until, leases.sealed IS NULL AS open,
            coalesce(leases.stop_reason, leases.outcome, '') AS reason
        FROM leases JOIN jobs ON jobs.id = leases.job JOIN seats ON seats.lease = leases.id
        WHERE leases.id IN (SELECT value FROM json_each(:newest))
        ORDER BY leases.id, seats.node, seats.gpu_type, seats.number, seats.device"""
    found, numbers = [], dict[tuple[str, str], dict[str, int]]()
    for row in connection.rows(query, now=now, newest=[row["id"] for row in newest[:most]]):
        device, number = row.pop("device"), row["number"]
        known = numbers.setdefault((row["node"], row["gpu_type"]), {})
        if device and device not in known:  # GPUs keep their rows although they are numbered again when one is lost
            known[device] = next(n for n in chain((number,), count()) if n not in known.values())
        found.append(Span(**row | {"number": known.get(device, number), "open": bool(row["open"])}))
    return found, since


def rounds(connection: Connection, since: float) -> list[Row]:
    """Rows of the rounds from ``since`` on, and the one before; in order."""
    query = """
        SELECT * FROM rounds WHERE number >= coalesce((SELECT max(number) FROM rounds WHERE time < :since), 0)
        ORDER BY number"""
    return connection.rows(query, since=since)


def usage(connection: Connection, since: float, now: float) -> Usage:
    """GPU-seconds of tenants from ``since`` until ``now``, and in all."""
    query = f"""
        SELECT jobs.tenant, sum(coalesce(leases.sealed, :now) - max(leases.granted, :since)) AS seconds
        FROM leases JOIN seats ON seats.lease = leases.id JOIN jobs ON jobs.id = leases.job
        WHERE {AFTER} GROUP BY jobs.tenant ORDER BY seconds DESC, jobs.tenant"""

    def held(begin: float) -> dict[str, float]:
        return {tenant: float(own) for tenant, own in connection.execute(query, {"now": now, "since": begin})}

    return Usage(since, held(since), held(0.0))


def engine(connection: Connection) -> str | None:
    """Name of the engine of the newest controller; None before the first."""
    query = "SELECT json_extract(content, '$.engine') FROM events WHERE kind = 'controller' ORDER BY id DESC LIMIT 1"
    name: str | None = connection.value(query)
    return name


def unmeasured(connection: Connection) -> set[str]:
    """Names of jobs that were never measured on a GPU type that they may use and that has room for them."""
    capacity = capacity_of(known_nodes(connection))
    measured = set(connection.execute("SELECT job, gpu_type FROM speeds"))
    found = set()
    for row in connection.rows("SELECT id, name, spec FROM jobs"):
        with suppress(DamagedRow):
            spec = spec_fields(row)
            usable = [t for t in spec.get("gpu_types") or capacity if capacity.get(t, 0) >= spec["workers"]]
            if any((row["id"], t) not in measured for t in usable):
                found.add(row["name"])
    return found
