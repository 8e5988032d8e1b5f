"""What was: leases on their seats, rounds, and the GPU-seconds of tenants, from the books."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
from sqlalchemy import ColumnElement, Connection, RowMapping, func, or_, select

from hetopt.data.array_types import Floats
from hetopt.executor import tables
from hetopt.executor.queue import capacity_of, form_of, known_nodes

HOUR = 3600.0
ROUNDS = 12
"""The page tells of the last hour, or of so many rounds where these are longer."""

LEAST = 10.0
"""Seconds that it tells of at least."""

MOST_LEASES = 1000
"""Leases in the picture; where there were more, it begins later."""

MOST_ROUNDS = 4000

BINS = 60
"""Stretches of time over which GPUs are averaged."""


@dataclass(frozen=True)
class Span:
    """A lease on one seat.

    Attributes
    ----------
    tag, job, tenant, copy, kind:
        Whose it is; ``kind`` is ``train`` or ``profile``.
    node, gpu_type, number:
        The seat.
    granted, until:
        Seconds of the cluster: from when, until when (sealed, or now).
    first_tick:
        When the first step was done; None before.
    open:
        Whether it is not sealed.
    round:
        In which it was granted.
    said:
        Why it was stopped, or how it ended; empty for one that runs.
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
    said: str


@dataclass(frozen=True)
class Round:
    """A decision."""

    number: int
    time: float
    policy: str
    jobs: int
    placed: int
    gpus: int
    capacity: int
    seconds: float


def beginning(connection: Connection, now: float, round_seconds: float | None) -> float:
    """The second from which on the page tells: an hour ago, or when the first lease since then was granted."""
    since = now - max(HOUR, ROUNDS * (round_seconds or 0.0))
    query = select(func.min(tables.leases.c.granted)).where(_after(since))
    first = connection.execute(query).scalar()
    return min(max(since, since if first is None else first), now - LEAST)


def _after(since: float) -> ColumnElement[bool]:
    """Leases that are open, or were at some time after ``since``."""
    return or_(tables.leases.c.sealed.is_(None), tables.leases.c.sealed > since)


def spans(connection: Connection, since: float, now: float, most: int = MOST_LEASES) -> tuple[list[Span], float]:
    """The leases after ``since``, seat by seat in the order of granting, and from when on none is missing.

    Of more than ``most`` leases those are left out that were sealed first.
    """
    query = select(tables.leases.c.id, tables.leases.c.sealed).where(_after(since))
    query = query.order_by(tables.leases.c.sealed.is_not(None), tables.leases.c.sealed.desc()).limit(most + 1)
    found = connection.execute(query).all()
    if len(found) > most:
        since = now if found[most].sealed is None else found[most].sealed
    own = [row.id for row in found[:most]]
    rows = connection.execute(
        select(tables.leases, tables.jobs.c.name, tables.jobs.c.tenant, *_SEAT)
        .join(tables.jobs, tables.jobs.c.id == tables.leases.c.job)
        .join(tables.seats, tables.seats.c.lease == tables.leases.c.id)
        .where(tables.leases.c.id.in_(own))
        .order_by(tables.leases.c.id, *_SEAT)
    ).mappings()
    numbers: dict[tuple[str, str], dict[str, int]] = {}
    return [_span(row, now, numbers.setdefault((row["node"], row["gpu_type"]), {})) for row in rows], since


_SEAT = (tables.seats.c.node, tables.seats.c.gpu_type, tables.seats.c.number, tables.seats.c.device)


def _span(row: RowMapping, now: float, numbers: dict[str, int]) -> Span:
    """With the ``numbers`` that GPUs have in the picture, which stay where the others are counted anew."""
    number, device = row["number"], row["device"]
    if device and device not in numbers:
        numbers[device] = next(n for n in chain((number,), count()) if n not in numbers.values())
    return Span(
        tag=row["tag"],
        job=row["name"],
        tenant=row["tenant"],
        copy=row["copy"],
        kind=row["kind"],
        node=row["node"],
        gpu_type=row["gpu_type"],
        number=numbers.get(device, number),
        granted=row["granted"],
        until=now if row["sealed"] is None else row["sealed"],
        first_tick=row["first_tick"],
        open=row["sealed"] is None,
        round=row["round"],
        said=row["stop_reason"] or row["outcome"] or "",
    )


def rounds(connection: Connection, since: float) -> list[Round]:
    """Decisions from ``since`` on, and the one before; in order."""
    newest = select(tables.rounds).order_by(tables.rounds.c.number.desc()).limit(MOST_ROUNDS)
    found: list[Round] = []
    for row in connection.execute(newest).mappings():
        found.append(Round(**row))
        if found[-1].time < since:
            break
    return found[::-1]


# -- tenants


@dataclass(frozen=True)
class Held:
    """GPUs that tenants held over time.

    Attributes
    ----------
    edges:
        (b + 1,) seconds between which GPUs are averaged.
    gpus:
        Tenant -> (b,) GPUs on average; who held most comes first.
    total:
        Tenant -> GPU-seconds since the books began.
    """

    edges: Floats
    gpus: dict[str, Floats]
    total: dict[str, float]

    @property
    def seconds(self) -> dict[str, float]:
        """Tenant -> GPU-seconds between the first edge and the last."""
        return {tenant: float((gpus * np.diff(self.edges)).sum()) for tenant, gpus in self.gpus.items()}


def held(connection: Connection, since: float, now: float, bins: int = BINS) -> Held:
    """What leases held, from the grant to the seal, so with the time in which jobs start and stop."""
    seats = select(tables.seats.c.lease, func.count().label("gpus")).group_by(tables.seats.c.lease).subquery()
    until = func.coalesce(tables.leases.c.sealed, now)
    joined = tables.leases.join(seats, seats.c.lease == tables.leases.c.id)
    joined = joined.join(tables.jobs, tables.jobs.c.id == tables.leases.c.job)
    rows = connection.execute(
        select(tables.jobs.c.tenant, seats.c.gpus, tables.leases.c.granted, until)
        .select_from(joined)
        .where(_after(since))
    ).all()
    sums = connection.execute(
        select(tables.jobs.c.tenant, func.sum(seats.c.gpus * (until - tables.leases.c.granted)))
        .select_from(joined)
        .group_by(tables.jobs.c.tenant)
    ).all()
    edges = np.linspace(since, now, bins + 1)
    own: dict[str, list[tuple[float, float, float]]] = {}
    for tenant, gpus, granted, end in rows:
        own.setdefault(tenant, []).append((gpus, granted, end))
    gpus = {tenant: averages(found, edges) for tenant, found in own.items()}
    order = sorted(gpus, key=lambda tenant: (-float(gpus[tenant].sum()), tenant))
    return Held(edges, {tenant: gpus[tenant] for tenant in order}, {tenant: float(total) for tenant, total in sums})


def averages(stretches: Iterable[tuple[float, float, float]], edges: Floats) -> Floats:
    """(b,) how many there are on average between each two edges, of (how many, from, until)."""
    number, begin, end = (np.array(column)[:, None] for column in zip(*stretches, strict=True))
    so_far = (number * (np.clip(edges, begin, np.maximum(begin, end)) - begin)).sum(axis=0)
    return np.asarray(np.diff(so_far) / np.diff(edges))


# -- single facts


def engine(connection: Connection) -> str | None:
    """Name of the engine of the newest controller; None before the first."""
    query = select(tables.events.c.content).where(tables.events.c.kind == "controller")
    content = connection.execute(query.order_by(tables.events.c.id.desc()).limit(1)).scalar()
    said = json.loads(content or "{}").get("engine")
    return None if said is None else str(said)


def unmeasured(connection: Connection) -> set[str]:
    """Names of jobs that were never measured on a GPU type that they may use and that has room for them."""
    capacity = capacity_of(known_nodes(connection))
    known: dict[int, set[str]] = {}
    for job, gpu_type in connection.execute(select(tables.speeds.c.job, tables.speeds.c.gpu_type)):
        known.setdefault(job, set()).add(gpu_type)
    rows = connection.execute(select(tables.jobs.c.id, tables.jobs.c.name, tables.jobs.c.form)).mappings()
    return {row["name"] for row in rows if _lacks(row, capacity, known.get(row["id"], set()))}


def _lacks(row: RowMapping, capacity: Mapping[str, int], known: set[str]) -> bool:
    form = form_of(row)
    usable = {t for t, number in capacity.items() if number >= form.workers}
    if form.gpu_types is not None:
        usable &= set(form.gpu_types)
    return not usable <= known


def granted_to(spans: Sequence[Span]) -> dict[tuple[str, str], int]:
    """(node, GPU type) -> one more than the largest number of a seat in use."""
    found: dict[tuple[str, str], int] = {}
    for span in spans:
        where = span.node, span.gpu_type
        found[where] = max(found.get(where, 0), span.number + 1)
    return found
