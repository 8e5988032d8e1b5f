"""Leases with directories in a state whose clock stands still, for tests of old leases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from executor_cluster import opened, rows
from executor_leases import checkpoint

from hetopt.executor import lease_directory as files
from hetopt.executor.clock import Clock
from hetopt.executor.connection import Row
from hetopt.executor.controller import make_leases_folder
from hetopt.executor.engines.engine import Seat
from hetopt.executor.leases import LeaseResult, grant, seal
from hetopt.executor.merge_checkpoints import UNFIT
from hetopt.executor.state_database import LEASES, StateDatabase

STEPS = 100


class Still(Clock):
    """Goes on only when the test sets it."""

    def now(self) -> float:
        return self.base


def a_state(folder: Path) -> StateDatabase:
    """A state whose clock the test sets, with a folder of leases."""
    database = StateDatabase(folder / "state")
    database.clock = Still("", 0.0, 0.0)
    make_leases_folder(database, database.folder / LEASES)
    return database


def granted(database: StateDatabase, job: int, copy: int = 0) -> None:
    """A lease of the job, or of a copy of it, with a directory; nothing if it cannot be granted."""
    until = None
    if copy:
        until = next(row["committed"] for row in rows(database) if row["id"] == job) + 20
    with database.writing() as connection:
        tag = grant(
            connection,
            database,
            job,
            [Seat("a", "fast", 10 * job + copy)],
            copy=copy,
            forked=copy > 0,
            until_step=until,
        )
    if tag is None:
        return
    folder = database.folder / LEASES / tag
    folder.mkdir()
    files.write_json(folder / files.LEASE, {"tag": tag})
    (folder / files.log_file(0)).write_text("hello\n")
    (folder / files.LOSSES).write_text('{"step": 1, "loss": 2.0}\n')


def sealed(database: StateDatabase, job: int, step: int | None, **more: Any) -> None:
    """Seal the first open lease of the job, with a checkpoint where it has a step."""
    lease = next(one for one in opened(database) if one.job_id == job)
    made = None if step is None else checkpoint(lease.folder, {"model": b"x" * step}, f"step-{step}")
    assert seal(database, lease, LeaseResult("stopped", step=step, checkpoint=made, **more))


def tree(folder: Path) -> dict[str, bytes | None]:
    """All files and folders, with the content of files."""
    found = folder.rglob("*")
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in found
    }


def all_leases(database: StateDatabase) -> list[Row]:
    with database.reading() as connection:
        return connection.rows(
            "SELECT leases.*, jobs.state AS job_state, jobs.finished FROM leases JOIN jobs ON jobs.id = leases.job"
        )


def events(database: StateDatabase) -> list[Row]:
    with database.reading() as connection:
        return connection.rows("SELECT * FROM events ORDER BY id")


class Merging:
    """A process that merges, and ends as the test says."""

    code: int | None = None

    def __init__(self, *_: object, **__: object) -> None:
        self.returncode = UNFIT

    def poll(self) -> int | None:
        return self.code

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        """There is no process."""
