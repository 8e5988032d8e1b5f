"""Loss curves: some points of what jobs have told, from files that may be long."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from hetopt.executor import tables
from hetopt.executor.lease_directory import LOSSES
from hetopt.executor.leases import TRAIN, directory

POINTS = 60
"""Of a curve."""

LEASES = 6
"""The newest leases of a job of which its curve is made."""

WHOLE, PIECE = 16384, 512
"""Bytes up to which a file is read whole, and of a piece in which one line is looked for."""


@dataclass(frozen=True)
class CurvePart:
    """A lease of a job: where it has told of its losses, and the step from which it trained."""

    folder: Path
    from_step: int


def parts(connection: Connection, jobs: Sequence[str], folder: Path) -> dict[str, list[CurvePart]]:
    """Job -> its newest leases that train, the oldest first; of a forked job those of one copy."""
    newest = func.row_number().over(partition_by=tables.leases.c.job, order_by=tables.leases.c.id.desc())
    own = (
        select(*(tables.leases.c[key] for key in ("job", "tag", "folder", "from_step")), newest.label("place"))
        .where(tables.leases.c.kind == TRAIN, tables.leases.c.copy <= 1)
        .subquery()
    )
    query = select(tables.jobs.c.name, own.c.tag, own.c.folder, own.c.from_step).join(
        own, own.c.job == tables.jobs.c.id
    )
    query = query.where(tables.jobs.c.name.in_(jobs), own.c.place <= LEASES).order_by(own.c.job, own.c.place.desc())
    found: dict[str, list[CurvePart]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["name"], []).append(CurvePart(directory(row, folder), row["from_step"]))
    return found


def curve(of: Sequence[CurvePart]) -> list[tuple[int, float]]:
    """(step, loss) over all leases; what a lease did beyond the step at which the next began is lost, and not shown."""
    points: list[tuple[int, float]] = []
    for part in of:
        points = [point for point in points if point[0] <= part.from_step]
        points += [point for point in _told(part.folder / LOSSES) if point[0] > part.from_step]
    return thinned(points)


def thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most :data:`POINTS` of them, the first and the last among them."""
    if len(points) <= POINTS:
        return list(points)
    return [points[round(i * (len(points) - 1) / (POINTS - 1))] for i in range(POINTS)]


def _told(path: Path) -> list[tuple[int, float]]:
    """Points of a file, in the order of steps: of a long one only some, which takes no longer than of a short one."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    try:
        size = os.fstat(handle).st_size
        if size <= WHOLE:
            lines = os.pread(handle, WHOLE, 0).split(b"\n")
        else:
            places = [round(i * (size - PIECE) / (POINTS - 1)) for i in range(POINTS)]
            lines = [_line(os.pread(handle, PIECE, place), first=place == 0) for place in places]
    except OSError:
        return []
    finally:
        os.close(handle)
    found = dict(filter(None, map(_point, lines)))
    return sorted(found.items())


def _line(piece: bytes, *, first: bool) -> bytes:
    """A whole line within a piece of the file."""
    lines = piece.split(b"\n")
    return lines[0] if first else lines[1] if len(lines) > 2 else b""


def _point(line: bytes) -> tuple[int, float] | None:
    """What a line says; None where it is damaged, or tells of no number."""
    try:
        said = json.loads(line)
        step, loss = int(said["step"]), float(said["loss"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
    return (step, loss) if math.isfinite(loss) else None
