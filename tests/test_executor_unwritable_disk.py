"""A disk that is full or read-only: the state can be read, a controller begins and waits, and pruning makes room."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from executor_cluster import node, rows, spec
from executor_lab import Run
from executor_old_leases import a_state, granted, sealed, tree
from executor_stage import Stage
from waiting import until

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.event_log import EventLog
from hetopt.executor.pruning import prune
from hetopt.executor.queue import cancel, submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import LOCK, StateDatabase
from hetopt.executor.state_folder import DATABASE, UnwritableDisk

Make = Callable[..., Stage]

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


def _unmount(folder: Path) -> None:
    """Repeated while another process of the machine, which walks over all disks, has a file of it open."""
    until(lambda: subprocess.run(["umount", folder], check=False).returncode == 0, f"{folder} is not busy")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a test's own disk cannot be mounted: {mounted.stderr.strip()}")
    yield Disk(folder)
    _unmount(folder)


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
        leases = "are renewed" if how == "full" else "expire"
        waits = f"leases {leases}, and nothing is decided while it cannot be written"
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
        lab.play(2, 61.0)
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
        lab.play(2, 61.0)
        assert lab.messages[1:] == [f"{disk.state} can be written again"]
    finally:
        lab.close()


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_disk_that_often_cannot_be_written_is_reported_once(
    stage: Make, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Until it could be written for a minute."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    (lease,) = lab.leases()
    why = f"the disk of {lab.folder} is {how}"

    def fail() -> None:
        raise UnwritableDisk(why)

    for number in range(40):
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr("hetopt.executor.controller.disk_problem", lambda _: why)
                patch.setattr(lab.controller.log, "write", fail)
            lab.play()
    (line,) = lab.messages
    assert line.startswith(f"{why}: leases ")
    assert snapshot(lab.database).alerts == [line]
    assert [one.tag for one in lab.leases()] == [lease.tag]
    lab.play(3, 30.0)
    assert lab.messages == [line, f"{lab.folder} can be written again"]
    assert snapshot(lab.database).alerts == []


def test_a_disk_that_becomes_read_only_stops_decisions(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while nothing is to be written; what runs goes on, and afterwards all continues."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    submit(lab.database, spec("b"))
    lab.play(8)
    before, (lease,) = rows(lab.database), lab.leases()
    real = os.statvfs(lab.folder)
    room = SimpleNamespace(f_flag=os.ST_RDONLY, f_blocks=real.f_blocks, f_bfree=real.f_bfree, f_bavail=real.f_bavail)
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: room)
        lab.database.make_read_only(0.1)
        lab.controller.step()
        waits = "leases expire, and nothing is decided while it cannot be written"
        assert lab.messages == [f"the disk of {lab.folder} is read-only: {waits}"]
        lab.end(lease, "ended", finished=True, step=1000)
        for _ in range(3):
            lab.controller.step()
        assert (len(lab.messages), rows(lab.database)) == (1, before)
    lab.database.disconnect()
    lab.database._read_only, lab.passes = False, 3
    lab.play(10)
    assert lab.states() == {"a": "done", "b": "done"}


@pytest.mark.parametrize("read_only", [False, True])
def test_leases_on_another_disk_that_is_read_only_expire(
    stage: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    lab = stage(node("n", {"V100": 1}))
    lab.controller.manager.folder = tmp_path
    monkeypatch.setattr("hetopt.executor.controller.is_read_only", lambda folder: read_only and folder == tmp_path)
    lab.controller._report_disk(f"the disk of {lab.folder} is full")
    leases = "leases expire" if read_only else "leases are renewed"
    waits = "and nothing is decided while it cannot be written"
    assert lab.messages == [f"the disk of {lab.folder} is full: {leases}, {waits}"]


def test_a_new_database_is_complete_or_absent_on_a_disk_with_little_room(disk: Disk) -> None:
    made = set()
    for room in range(80_000, 480_000, 40_000):
        with open(disk.folder / "fill", "wb") as file:
            file.write(bytes(os.statvfs(disk.folder).f_bfree * 4096 - room))
        try:
            StateDatabase(disk.state).close()
        except UnusableFile:
            assert os.listdir(disk.state) == []
            made.add(False)
        else:
            with closing(sqlite3.connect(disk.state / DATABASE)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            made.add(True)
            shutil.rmtree(disk.state)
        disk.repair()
    assert made == {False, True}


@pytest.fixture
def failing_disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder on a disk, and the file that makes the kernel see an error of it."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    image.touch()
    os.truncate(image, 1 << 25)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"a test's own disk cannot be mounted: {problem}")
    device = Path(
        next(line.split()[0] for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line)
    )
    yield folder, Path("/sys/fs/ext4", device.name, "trigger_fs_error")
    _unmount(folder)


def test_a_disk_that_fails_under_a_running_job_is_read_only(failing_disk: tuple[Path, Path]) -> None:
    """The controller reports that once, and decides nothing; files are open, also for writing."""
    folder, trigger = failing_disk
    lab = Stage(folder / "state", node("n", {"V100": 1}))
    try:
        lab.passes = float("inf")
        submit(lab.database, spec("a"))
        lab.play(8)
        (lease,) = lab.leases()
        trigger.write_text("1")
        before = rows(lab.database)
        for _ in range(3):
            lab.controller.step()
        waits = "leases expire, and nothing is decided while it cannot be written"
        assert lab.messages == [f"the disk of {lab.folder} is read-only: {waits}"]
        assert lab.engine.live.keys() == {lease.tag}
        with StateDatabase(lab.folder, make=False) as other:
            assert (rows(other), snapshot(other).alerts) == (before, [f"the disk of {lab.folder} is read-only"])
            with pytest.raises(UnusableFile, match="is read-only; nothing has been changed"):
                cancel(other, "a")
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
    """Lease directories are removed, and the message does not say that nothing has been changed."""
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
            raise UnwritableDisk("the disk is full")

        monkeypatch.setattr(database, "writing", full)
        found = prune(database, 500.0)
        assert (found.directories, found.events) == (1, 0)
        assert found.problems == ["merged checkpoints and events that are left stay for now: the disk is full"]
