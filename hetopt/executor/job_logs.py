"""What jobs have printed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from hetopt.executor.lease_record import SEALED
from hetopt.executor.snapshot import leases_of
from hetopt.executor.state_database import StateDatabase


def printed(database: StateDatabase, job: str, *, lines: int, every_lease: bool) -> Iterator[str]:
    """Lines of the logs of a job, each log after a line that says whose it is.

    Raises
    ------
    UnknownName
        There is no such job.
    """
    _, leases = leases_of(database, job)
    logs = [(one["gpu_types"], path) for one, folder in leases for path in sorted(folder.glob("log-*"))]
    if not logs:
        gone = any(one["state"] == SEALED and not folder.exists() for one, folder in leases)
        yield f"what {job} has printed is not there any more: pruned\n" if gone else f"{job} has printed nothing yet\n"
        return
    newest = logs[-1][1].parent
    for kinds, path in logs:
        if every_lease or path.parent == newest:
            yield f"==> {path.parent.name} on {kinds}, {path.name} <==\n"
            with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:  # pruned just now
                yield from (line.removesuffix("\n") + "\n" for line in deque(file, maxlen=lines or None))
