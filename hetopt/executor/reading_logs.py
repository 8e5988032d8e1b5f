"""What jobs have printed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from hetopt.executor import tables
from hetopt.executor.queue import job_row
from hetopt.executor.snapshot import leases_folder
from hetopt.executor.store import StateStore


def printed(store: StateStore, job: str, *, lines: int, every_lease: bool) -> Iterator[str]:
    """Lines of the logs of a job, each log after a line that says whose it is.

    Raises
    ------
    UnknownName
        There is no such job.
    """
    with store.reading() as connection:
        row = job_row(connection, job)
        folder = leases_folder(store, store.fact(connection, "leases"))
        query = select(tables.leases.c.tag, tables.leases.c.gpu_types).where(tables.leases.c.job == row["id"])
        leases = connection.execute(query.order_by(tables.leases.c.id)).all()
    logs = [(kinds, path) for tag, kinds in leases for path in sorted((folder / tag).glob("log-*"))]
    if not logs:
        yield f"{job} has printed nothing yet\n"
        return
    newest = logs[-1][1].parent
    for kinds, path in logs:
        if every_lease or path.parent == newest:
            yield f"==> {path.parent.name} on {kinds}, {path.name} <==\n"
            yield from _tail(path, lines)


def _tail(path: Path, lines: int) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        found = deque(file, maxlen=lines or None)
    yield from (line if line.endswith("\n") else f"{line}\n" for line in found)
