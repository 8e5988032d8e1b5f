"""The past of a cluster: leases by GPU, rounds, and GPU-seconds of tenants, from the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from hetopt.executor.queue import capacity_of, known_nodes
from hetopt.executor.tables import events, jobs, leases, seats, speeds
from hetopt.executor.tables import rounds as all_rounds

WINDOW_SECONDS, WINDOW_ROUNDS = 3600.0, 12
"""The page shows the last hour, or this number of rounds if they are longer."""

MIN_SECONDS = 10.0
"""Least length of the window."""

MAX_LEASES = 1000
"""Leases of the Gantt chart; of more, the chart begins later."""


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
    first = connection.execute(select(func.min(leases.c.granted)).where(_after(since))).scalar()
    return min(max(since, since if first is None else first), now - MIN_SECONDS)


def _after(since: float) -> ColumnElement[bool]:
    """Leases that are open, or were at some time after ``since``."""
    return or_(leases.c.sealed.is_(None), leases.c.sealed > since)


def spans(connection: Connection, since: float, now: float, most: int = MAX_LEASES) -> tuple[list[Span], float]:
    """Leases after ``since``, by GPU in the order of their grants, and the second from which on none is missing.

    Of more than ``most`` leases, those that were sealed first are left out.
    """
    query = select(leases.c.id, leases.c.sealed).where(_after(since))
    query = query.order_by(leases.c.sealed.is_not(None), leases.c.sealed.desc()).limit(most + 1)
    newest = connection.execute(query).all()
    if len(newest) > most:
        since = newest[most].sealed or now
    seat = (seats.c.node, seats.c.gpu_type, seats.c.number, seats.c.device)
    same = (leases.c[key] for key in ("tag", "copy", "kind", "granted", "first_tick", "round"))
    rows = connection.execute(
        select(
            *same, *seat, jobs.c.name.label("job"), jobs.c.tenant,
            func.coalesce(leases.c.sealed, now).label("until"), leases.c.sealed.is_(None).label("open"),
            func.coalesce(leases.c.stop_reason, leases.c.outcome, "").label("reason"),
        )
        .join(jobs, jobs.c.id == leases.c.job)
        .join(seats, seats.c.lease == leases.c.id)
        .where(leases.c.id.in_([row.id for row in newest[:most]]))
        .order_by(leases.c.id, *seat)
    ).mappings()  # fmt: skip
    found, numbers = [], dict[tuple[str, str], dict[str, int]]()
    for row in rows:
        values = dict(row)
        device, number = values.pop("device"), values["number"]
        known = numbers.setdefault((row["node"], row["gpu_type"]), {})
        if device and device not in known:  # GPUs keep their rows although they are numbered again when one is lost
            known[device] = next(n for n in chain((number,), count()) if n not in known.values())
        found.append(Span(**values | {"number": known.get(device, number)}))
    return found, since


def rounds(connection: Connection, since: float) -> Sequence[Row[Any]]:
    """Rows of the rounds from ``since`` on, and the one before; in order."""
    before = select(func.max(all_rounds.c.number)).where(all_rounds.c.time < since).scalar_subquery()
    query = select(all_rounds).where(all_rounds.c.number >= func.coalesce(before, 0)).order_by(all_rounds.c.number)
    return connection.execute(query).all()


def usage(connection: Connection, since: float, now: float) -> Usage:
    """GPU-seconds of tenants from ``since`` until ``now``, and in all."""
    joined = leases.join(seats, seats.c.lease == leases.c.id).join(jobs, jobs.c.id == leases.c.job)

    def held(begin: float) -> dict[str, float]:
        seconds = func.sum(func.coalesce(leases.c.sealed, now) - func.max(leases.c.granted, begin))  # of each row
        query = select(jobs.c.tenant, seconds).select_from(joined).where(_after(begin)).group_by(jobs.c.tenant)
        return {tenant: float(own) for tenant, own in connection.execute(query.order_by(-seconds, jobs.c.tenant))}

    return Usage(since, held(since), held(0.0))


def engine(connection: Connection) -> str | None:
    """Name of the engine of the newest controller; None before the first."""
    query = select(func.json_extract(events.c.content, "$.engine")).where(events.c.kind == "controller")
    return connection.execute(query.order_by(events.c.id.desc()).limit(1)).scalar()


def unmeasured(connection: Connection) -> set[str]:
    """Names of jobs that were never measured on a GPU type that they may use and that has room for them."""
    capacity = capacity_of(known_nodes(connection))
    measured = {tuple(row) for row in connection.execute(select(speeds.c.job, speeds.c.gpu_type))}
    found = set()
    for number, name, text in connection.execute(select(jobs.c.id, jobs.c.name, jobs.c.form)):
        form = json.loads(text)
        usable = [t for t in form["gpu_types"] or capacity if capacity.get(t, 0) >= form["workers"]]
        if any((number, t) not in measured for t in usable):
            found.add(name)
    return found
