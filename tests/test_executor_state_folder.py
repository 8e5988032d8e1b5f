"""The state folder: owner, checks before it is read, and what is never treated as a new cluster."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from executor_cluster import lab_of_jobs, node, opened, rows, spec
from executor_lab import Run
from executor_stage import Stage

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import state_folder
from hetopt.executor.event_log import EventLog
from hetopt.executor.queue import submit
from hetopt.executor.state_database import EVENTS, LAST_LOGGED, LEASES, StateDatabase
from hetopt.executor.state_folder import DATABASE

Make = Callable[..., Stage]


# -- before anything is read


@pytest.mark.parametrize("make", [True, False])
def test_a_folder_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: bool) -> None:
    """Root is no exception. A database that is a pipe would block whatever opens it."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / DATABASE)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 0 if own else 54321)
    with pytest.raises(UnusableFile, match=r"belongs to user \S+, and this process runs as \S+: .* --state") as error:
        StateDatabase(folder, make=make)
    names = str(error.value).split("belongs to user ")[1]
    assert "root" in names
    assert own or "54321" in names


@pytest.mark.parametrize("make", [True, False])
def test_a_folder_that_others_may_enter_is_not_read(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o750)
    os.mkfifo(folder / DATABASE)
    with pytest.raises(UnusableFile, match=r"mode 750.*chmod 700"):
        StateDatabase(folder, make=make)


def mounted(monkeypatch: pytest.MonkeyPatch, table: Path, line: str) -> None:
    """Let the table of mounts have this line alone."""
    table.write_text(line, encoding="utf-8")
    read = partial(open, table)
    monkeypatch.setattr(state_folder, "open", lambda _, **more: read(**more), raising=False)


@pytest.mark.parametrize("kind", ["nfs4", "smb3", "gpfs", "fuse.glusterfs", "fuse.ceph-fuse", "wekafs", "ext4"])
def test_a_folder_on_a_file_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounted(monkeypatch, tmp_path / "mounts", f"server:/x {tmp_path} {kind} rw 0 0\n")
    if kind == "ext4":
        StateDatabase(tmp_path / "state").close()
        return
    with pytest.raises(UnusableFile, match=rf"state is on {kind}; the state must be on a local disk"):
        StateDatabase(tmp_path / "state")


@pytest.mark.parametrize(("name", "escaped"), [("käse", "käse"), ("a b", r"a\040b"), ("ü\\x", r"ü\134x")])
def test_the_name_of_a_mount_may_have_any_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, escaped: str
) -> None:
    (tmp_path / name).mkdir()
    mounted(monkeypatch, tmp_path / "mounts", f"server:/x {tmp_path / escaped} nfs4 rw 0 0\n")
    with pytest.raises(UnusableFile, match=r"is on nfs4"):
        StateDatabase(tmp_path / name / "state")


def test_every_command_refuses_a_folder_of_another_user(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    StateDatabase(tmp_path / "state").close()
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    commands = (["status"], ["logs", "a"], ["losses", "a"], ["cancel", "a"], ["dashboard", "--once", "-"])
    for words in (*commands, ["prune", "--older", "1d"], ["run", "--engine", "local"]):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), (words, out, err)
        assert "belongs to user" in err


# -- a database that was lost


def left_behind(folder: Path, what: str) -> None:
    """Files of a cluster beside its database."""
    if what == "a lease":
        (folder / LEASES / "hetopt-abcdef-1-0-1").mkdir(parents=True)
    else:
        (folder / what).write_text('{"id": 1}\n')


@pytest.mark.parametrize("size", [1, 511])
def test_a_database_that_was_cut_is_not_written_to(tmp_path: Path, size: int) -> None:
    """SQLite takes a file that is shorter than a page for an empty database."""
    state = tmp_path / "state"
    StateDatabase(state).close()
    content = (state / "state.db").read_bytes()[:size]
    (state / "state.db").write_bytes(content)
    for make in (True, False):
        with pytest.raises(UnusableFile, match=rf"state\.db is incomplete \({size} bytes\); restore it from a backup"):
            StateDatabase(state, make=make)
    assert (state / "state.db").read_bytes() == content


@pytest.mark.parametrize("make", [True, False])
@pytest.mark.parametrize("database", [None, b""])
@pytest.mark.parametrize("what", ["a lease", EVENTS, LAST_LOGGED, f"{DATABASE}-wal"])
def test_a_lost_database_is_not_replaced_by_a_new_cluster(
    tmp_path: Path, what: str, database: bytes | None, make: bool
) -> None:
    """Every command refuses it, and nothing is changed."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    left_behind(folder, what)
    if database is not None:
        (folder / DATABASE).write_bytes(database)
    before = sorted((str(path), path.stat().st_size) for path in folder.rglob("*"))
    for _ in range(2):
        with pytest.raises(
            UnusableFile, match=r"is empty or absent, but .* restore state\.db from a backup, or"
        ) as one:
            StateDatabase(folder, make=make)
        assert "\n" not in str(one.value)
    assert sorted((str(path), path.stat().st_size) for path in folder.rglob("*")) == before


def test_missing_tables_beside_leases_are_not_created(tmp_path: Path) -> None:
    """A database without tables, as after an incomplete restore of a backup."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    left_behind(folder, "a lease")
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(UnusableFile, match="no new cluster is begun"):
        StateDatabase(folder)


@pytest.mark.parametrize("how", ["folder", "leases", "log", "another's draft"])
def test_a_partly_created_state_is_completed(tmp_path: Path, how: str) -> None:
    """A crash before the database was published."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    if how == "leases":
        (folder / LEASES).mkdir()
        (folder / LEASES / ".hetopt").touch()
    if how == "log":
        (folder / EVENTS).touch()
    if how == "another's draft":
        (folder / f".{DATABASE}.1.1").touch()
    with StateDatabase(folder, make=True) as database:
        assert submit(database, spec("a")) == "a"
    assert [path.name for path in folder.glob(".state*")] == [f".{DATABASE}.1.1"] * (how == "another's draft")
    with StateDatabase(folder, make=False) as database:
        assert [row["name"] for row in rows(database)] == ["a"]


@pytest.mark.parametrize("make", [True, False])
@pytest.mark.parametrize("tables", [True, False])
def test_an_empty_database_is_no_new_cluster(tmp_path: Path, make: bool, tables: bool) -> None:
    """Also where nothing is beside it yet but jobs that were submitted to it: it is published complete."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / DATABASE).touch()
    if tables:
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(UnusableFile, match=r"state\.db is empty or absent, so no new cluster is begun") as one:
        StateDatabase(folder, make=make)
    assert "\n" not in str(one.value)


def test_many_processes_can_create_a_state_at_once(tmp_path: Path) -> None:
    """All get the same cluster, at any interleaving."""
    with ThreadPoolExecutor(6) as pool:
        for number in range(10):
            folder, ready = tmp_path / str(number), Barrier(6)

            def make(folder: Path = folder, ready: Barrier = ready) -> str:
                ready.wait()
                with StateDatabase(folder) as database:
                    return database.cluster

            assert len({found.result() for found in [pool.submit(make) for _ in range(6)]}) == 1


# -- facts


@pytest.mark.parametrize("key", ["version", "cluster", "clock"])
def test_a_missing_fact_is_named(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    StateDatabase(tmp_path / "state").close()
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE)) as connection, connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (key,))
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    for words in (["status"], ["dashboard", "--once", "-"], ["prune", "--older", "1d"]):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"state.db is damaged: table meta has no row '{key}'" in err


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"boot": "", "base": "x", "at": 0}', '{"boot": "", "base": 1}'])
def test_an_unreadable_clock_is_damage(tmp_path: Path, text: str) -> None:
    StateDatabase(tmp_path / "state").close()
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'clock'", (text,))
    with pytest.raises(UnusableFile, match=r"state\.db is damaged: row 'clock' of table meta"):
        StateDatabase(tmp_path / "state")


def test_opening_writes_nothing(tmp_path: Path) -> None:
    """The version that any transaction changes stays."""
    with StateDatabase(tmp_path / "state") as database:
        before = database.version()
        StateDatabase(database.folder, make=True).close()
        StateDatabase(database.folder, make=False).close()
        assert database.version() == before
        submit(database, spec("a"))
        assert database.version() != before


def test_a_missing_index_is_created(tmp_path: Path) -> None:
    """Indexes may be added within a version."""
    with StateDatabase(tmp_path / "state") as database, database.writing() as connection:
        connection.execute("DROP INDEX open_leases")
    with StateDatabase(tmp_path / "state") as database, database.reading() as connection:
        assert connection.value("SELECT count(*) FROM sqlite_master WHERE name = 'open_leases'") == 1


# -- a database that is removed or replaced under a controller


@pytest.mark.parametrize("how", ["moved", "replaced", "emptied folder"])
def test_a_removed_database_is_noticed(stage: Make, tmp_path: Path, how: str) -> None:
    """Nothing is decided, leases are renewed; once the same file is back, the controller continues."""
    lab = stage(node("n", {"V100": 2}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(3)
    (lease,) = lab.leases()
    submit(lab.database, spec("b"))
    path = lab.database.folder / DATABASE
    away = tmp_path / "away.db"
    os.rename(path, away)
    if how == "replaced":
        shutil.copyfile(away, path)
    for _ in range(3):
        lab.controller.step()
    (line,) = lab.messages
    assert line.startswith(f"{path} was removed or replaced while in use: ")
    assert lab.engine.live.keys() == {lease.tag}
    assert lab.controller.manager.heartbeat._folders == {lease.tag: lease.folder}
    before = files.read_text(lease.folder / files.RENEWED) or ""
    lab.controller.manager.heartbeat.remove(lease.tag)
    lab.controller.manager.heartbeat.add(lease)
    assert (files.read_text(lease.folder / files.RENEWED) or "") > before
    if how == "emptied folder":
        with pytest.raises(UnusableFile, match="no new cluster is begun"):
            StateDatabase(lab.database.folder)
    os.rename(away, path)
    lab.passes = 3
    lab.play(12)
    assert lab.states() == {"a": "done", "b": "done"}
    assert len(lab.messages) == 1


def test_a_commit_to_a_removed_file_fails(tmp_path: Path) -> None:
    """Also where it is removed between the first and the last statement."""

    def remove() -> None:
        with database.writing() as connection:
            connection.insert("nodes", name="a")
            os.rename(database.path, tmp_path / "away")

    with StateDatabase(tmp_path / "state") as database:
        lab_of_jobs(database, [spec("a")])
        with pytest.raises(UnusableFile, match="was removed or replaced"):
            remove()
        for use in (lambda: rows(database), lambda: opened(database), database.version, EventLog(database).write):
            with pytest.raises(UnusableFile, match="was removed or replaced"):
                use()
