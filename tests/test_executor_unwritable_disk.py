"""A disk that is full or read-only: the state can be read, a controller begins and waits, and pruning makes room."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import node, rows, spec
from executor_lab import Run
from executor_old_leases import a_state, granted, sealed, tree
from executor_stage import Stage

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.event_log import EventLog
from hetopt.executor.pruning import prune
from hetopt.executor.queue import submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import LOCK, StateDatabase
from hetopt.executor.state_folder import DATABASE

ENDS = ["clean", "killed", "killed, index gone"]
"""How the last controller has ended: cleanly, without -wal and -shm; or killed, with a -wal and perhaps a -shm."""


class Disk:
    """A small separate disk.

    Attributes
    ----------
    state:
        A state folder on it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"

    def spoil(self, how: str) -> None:
        """Make it full, or read-only."""
        if how == "read-only":
            self._mount("remount,ro")
            return
        with open(self.folder / "fill", "ab", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def repair(self) -> None:
        """There is room again."""
        self._mount("remount,rw")
        (self.folder / "fill").unlink(missing_ok=True)

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-o", options, self.folder], check=True)

    def take(self, database: StateDatabase, end: str) -> None:
        """Copy a state to it as its last controller left it."""
        empty_log(database.folder)
        with database.writing() as own:
            database.set_meta(own, "test", "x")
        if end == "clean":
            database.close()
        shutil.copytree(database.folder, self.state)
        assert (self.state / f"{DATABASE}-wal").exists() == (end != "clean")
        if end == "killed, index gone":
            (self.state / f"{DATABASE}-shm").unlink()


def empty_log(state: Path) -> None:
    """Shrink the write-ahead log: in the room of earlier transactions SQLite could write on a full disk."""
    with closing(sqlite3.connect(state / DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a test's own disk cannot be mounted: {mounted.stderr.strip()}")
    yield Disk(folder)
    subprocess.run(["umount", folder], check=True)


def files_of(folder: Path) -> dict[str, bytes | None]:
    """All but the database, whose log SQLite may move into it."""
    return {name: content for name, content in tree(folder).items() if not name.startswith(DATABASE)}


@pytest.mark.parametrize("how", ["full", "read-only"])
@pytest.mark.parametrize("end", ENDS)
def test_all_views_work_on_an_unwritable_disk(
    tmp_path: Path, disk: Disk, run: Run, monkeypatch: pytest.MonkeyPatch, end: str, how: str
) -> None:
    """They show what was committed last, and change nothing."""
    with a_state(tmp_path) as database:
        submit(database, spec("first"))
        granted(database, 1)
        submit(database, spec("last"))
        disk.take(database, end)
    disk.spoil(how)
    before = files_of(disk.state)
    monkeypatch.setenv("HETOPT_STATE", str(disk.state))
    code, out, err = run("status", "--json")
    assert (code, err) == (0, "")
    status = json.loads(out)
    assert [job["name"] for job in status["jobs"]] == ["first", "last"]
    assert [lease["job"] for lease in status["leases"]] == ["first"]
    assert status["alerts"] == [f"the disk of {disk.state} is {how}"]
    assert run("logs", "first")[1].endswith("hello\n")
    assert json.loads(run("losses", "first", "--json")[1])
    code, out, err = run("dashboard", "--once", "-")
    assert (code, err) == (0, "")
    assert "last" in out
    if how == "full":
        disk.spoil(how)  # the log of the database has moved into it, and left room
    code, _, err = run("cancel", "last")
    assert (code, err) == (2, f"hetopt: the disk of {disk.state} is {how}; nothing has been changed\n")
    assert files_of(disk.state) == before


@pytest.mark.parametrize("how", ["full", "read-only"])
@pytest.mark.parametrize("end", ENDS)
def test_a_controller_starts_and_continues_once_there_is_room(tmp_path: Path, disk: Disk, end: str, how: str) -> None:
    """It holds the lock, renews the running leases, and reports the error once."""
    first = Stage(tmp_path / "state", node("n", {"V100": 1}))
    first.passes = float("inf")
    submit(first.database, spec("a"))
    first.play(3)
    submit(first.database, spec("b"))
    disk.take(first.database, end)
    first.close()
    disk.spoil(how)
    lab = Stage(disk.state, node("n", {"V100": 1}))
    try:
        lab.engine.live = first.engine.live
        lab.database.clock.base += 100.0  # the cluster's second stays
        for _ in range(3):
            lab.controller.step()
        waits = "leases are renewed, and nothing is decided until it can be written"
        assert lab.messages == [f"the disk of {disk.state} is {how}: {waits}"]
        with StateDatabase(disk.state) as other:
            assert other.controller() is not None
            (lease,) = snapshot(other).leases
        renewed = int((disk.state / "leases" / lease["tag"] / files.RENEWED).read_text())
        assert (renewed > int((first.folder / "leases" / lease["tag"] / files.RENEWED).read_text())) == (how == "full")
        assert lab.engine.live.keys() == {lease["tag"]}
        disk.repair()
        lab.passes = 3
        lab.play(12)
        assert lab.states() == {"a": "done", "b": "done"}, rows(lab.database)
        assert lab.messages[1:] == [f"{disk.state} can be written again"]
    finally:
        lab.close()


def test_a_controller_waits_while_the_disk_is_full(disk: Disk) -> None:
    lab = Stage(disk.state, node("n", {"V100": 1}))
    try:
        lab.passes = float("inf")
        submit(lab.database, spec("a"))
        lab.play(3)
        (lease,) = lab.leases()
        with lab.database.writing() as connection:  # which the controller is to take up
            connection.update("jobs", {"cancelled": True})
        empty_log(lab.folder)
        disk.spoil("full")
        for _ in range(3):
            lab.controller.step()
        assert len(lab.messages) == 1
        before = (lease.folder / files.RENEWED).read_text()
        lab.controller.manager.heartbeat.remove(lease.tag)
        lab.controller.step()
        assert (lease.folder / files.RENEWED).read_text() > before
        disk.repair()
        lab.play(5)
        assert lab.states() == {"a": "cancelled"}
        assert lab.messages[1:] == [f"{disk.state} can be written again"]
    finally:
        lab.close()


def test_a_state_without_a_controller_is_refused_on_a_read_only_disk(tmp_path: Path, disk: Disk) -> None:
    with a_state(tmp_path) as database:
        disk.take(database, "clean")
    disk.spoil("read-only")
    with StateDatabase(disk.state) as database:
        with pytest.raises(UnusableFile, match=f"{LOCK}: cannot be opened: Read-only file system"):
            database.lock()
        assert database.controller() is None


@pytest.mark.parametrize("end", ENDS)
def test_pruning_makes_room_on_a_full_disk(tmp_path: Path, disk: Disk, end: str) -> None:
    """Directories of leases first; then there is room to remove events, too."""
    with a_state(tmp_path) as database:
        submit(database, spec("a"))
        for step in (10, 20):
            granted(database, 1)
            sealed(database, 1, step)
            database.clock.base += 1.0
        for path in (database.folder / "leases").glob("*/log-0"):
            path.write_bytes(bytes(500_000))
        EventLog(database).write()
        disk.take(database, end)
    disk.spoil("full")
    with StateDatabase(disk.state) as database:
        database.clock.base += 1000.0
        found = prune(database, 500.0)
        assert (found.directories, found.problems) == (1, [])
        assert found.bytes > 500_000
        assert found.events > 0
        assert rows(database)[0]["committed"] == 20
    assert os.statvfs(disk.folder).f_bfree * 4096 > 400_000


@pytest.mark.parametrize("wrong", ["merged", "events"])
def test_what_cannot_be_pruned_on_a_full_disk_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Lease directories are removed."""
    with a_state(tmp_path) as database:
        submit(database, spec("a"))
        for step in (10, 20):
            granted(database, 1)
            sealed(database, 1, step)
            database.clock.base += 1.0
        submit(database, spec("b"))
        (database.folder / "leases" / f"merged-{database.cluster}-2").mkdir()
        with database.writing() as connection:
            connection.update("jobs", {"state": "done", "finished": 0.0}, "id = 2")
        if wrong == "merged":
            (database.folder / "events.jsonl").unlink(missing_ok=True)
        else:
            EventLog(database).write()
            (database.folder / "leases" / f"merged-{database.cluster}-2").rmdir()
        database.clock.base = 1000.0

        def full() -> Any:
            raise UnusableFile("the disk is full")

        monkeypatch.setattr(database, "writing", full)
        found = prune(database, 500.0)
        assert (found.directories, found.events, found.problems) == (1, 0, ["the disk is full"])
