"""Leases with directories in books whose clock stands still, for tests of what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from executor_leases import checkpoint
from executor_scenes import opened, rows

from hetopt.executor import lease_directory as files
from hetopt.executor.clock import Clock
from hetopt.executor.database import Row
from hetopt.executor.engines.engine import Seat
from hetopt.executor.leases import Ending, grant, seal
from hetopt.executor.leases_folder import make_leases_folder
from hetopt.executor.merge_checkpoints import UNFIT
from hetopt.executor.store import LEASES, StateStore

STEPS = 100


class Still(Clock):
    """Goes on only when it is told to."""

    def now(self) -> float:
        return self.base


def a_store(folder: Path) -> StateStore:
    """A state whose clock the test sets, with a folder of leases."""
    store = StateStore(folder / "state")
    store.clock = Still("", 0.0, 0.0)
    make_leases_folder(store, store.folder / LEASES)
    return store


def granted(store: StateStore, job: int, copy: int = 0) -> None:
    """A lease of the job, or of a copy of it, with a directory; nothing where it cannot be."""
    until = None
    if copy:
        until = next(row["committed"] for row in rows(store) if row["id"] == job) + 20
    with store.writing() as connection:
        tag = grant(
            connection, store, job, [Seat("a", "fast", 10 * job + copy)], copy=copy, forked=copy > 0, until_step=until
        )
    if tag is None:
        return
    folder = store.folder / LEASES / tag
    folder.mkdir()
    files.write_json(folder / files.LEASE, {"tag": tag})
    (folder / files.log_file(0)).write_text("hello\n")
    (folder / files.LOSSES).write_text('{"step": 1, "loss": 2.0}\n')


def sealed(store: StateStore, job: int, step: int | None, **more: Any) -> None:
    """Seal the first open lease of the job, with a checkpoint where it has a step."""
    lease = next(one for one in opened(store) if one.row["job"] == job)
    made = None if step is None else checkpoint(lease.folder, {"model": b"x" * step}, f"step-{step}")
    assert seal(store, lease, Ending("stopped", step=step, checkpoint=made, **more))


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that is there."""
    found = folder.rglob("*")
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in found
    }


def leases_of_books(store: StateStore) -> list[Row]:
    with store.reading() as connection:
        return connection.rows(
            "SELECT leases.*, jobs.state AS job_state, jobs.finished FROM leases JOIN jobs ON jobs.id = leases.job"
        )


def events(store: StateStore) -> list[Row]:
    with store.reading() as connection:
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
        """It is none."""
