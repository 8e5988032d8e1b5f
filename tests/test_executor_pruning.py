"""Pruning removes only what is old and unused, after any history, and also if it is interrupted."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from effort import examples
from executor_cluster import lab_of_jobs, opened, rows, spec
from executor_lab import QUICK, Run, job_file, some_lab  # noqa: F401 - the last a fixture
from executor_leases import checkpoint
from executor_old_leases import STEPS, Merging, Still, a_state, all_leases, events, granted, sealed, tree
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor import pruning
from hetopt.executor.controller import make_leases_folder
from hetopt.executor.dashboard import reader
from hetopt.executor.event_log import EventLog
from hetopt.executor.job_logs import printed
from hetopt.executor.losses import losses
from hetopt.executor.measured_log import log_of
from hetopt.executor.merge_checkpoints import UNFIT
from hetopt.executor.merging import Merges
from hetopt.executor.pruning import ASIDE, Pruned, prune
from hetopt.executor.queue import cancel, retry, submit
from hetopt.executor.state_database import EVENTS, LEASES, Cache, StateDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with a_state(tmp_path) as made:
        yield made


class Crash(BaseException):
    """The end of a process at some point."""


class Histories(RuleBasedStateMachine):
    """Leases, merges and requests of users, between prunes that crash and prunes that do not."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = a_state(Path(self.folder.name))
        self.leases = self.database.folder / LEASES
        self.merges = Merges(self.database, self.leases, Cache(self.database))
        with self.database.writing() as connection:
            self.database.record_event(connection, "controller", policy="fft", engine="local")
            more = {"policy": "fft", "jobs": 3, "placed": 3, "gpus": 3, "capacity": 3, "seconds": 0.5}
            connection.insert("rounds", number=1, time=0.0, **more)
        lab_of_jobs(self.database, [spec(f"j{i}", steps=STEPS) for i in range(3)])

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.merges.close()
            self.database.close()
            self.folder.cleanup()

    @rule(
        job=st.sampled_from([1, 2, 2, 3]),
        copies=st.integers(1, 2),
        ends=st.lists(st.tuples(st.none() | st.integers(1, 60), st.booleans()), max_size=2),
        seconds=st.sampled_from([0.0, 5.0, 20.0]),
    )
    def leases_come_and_go(self, job: int, copies: int, ends: list[tuple[int | None, bool]], seconds: float) -> None:
        """The last two jobs run in copies."""
        for copy in range(1, copies + 1) if job > 1 else (0,):
            granted(self.database, job, copy)
        for steps, failed in ends:
            begun = [one.resume_step for one in opened(self.database) if one.job_id == job]
            if begun:
                step, failure = None if steps is None else begun[0] + steps, "it broke" if failed else None
                sealed(self.database, job, step, failure=failure, fatal=failed, finished=(step or 0) >= STEPS)
        self.database.clock.base += seconds

    @rule(code=st.sampled_from([None, UNFIT]), done=st.booleans())
    def merges_go_on(self, code: int | None, done: bool) -> None:
        """They begin, run, fail, or finish."""
        with mock.patch("hetopt.executor.merging.subprocess.Popen", Merging), mock.patch.object(Merging, "code", code):
            self.merges.step()
            with self.database.reading() as connection:
                undone = connection.column("SELECT folder FROM merges WHERE NOT done")
            for folder in undone if done else []:
                shutil.rmtree(folder, ignore_errors=True)
                merged = checkpoint(Path(folder).parent, {"model": b"m"}, "made")
                merged.rename(folder)
            self.merges.step()
            self.merges.clear_away()

    @rule(job=st.integers(0, 2), again=st.booleans())
    def users_request(self, job: int, again: bool) -> None:
        try:
            (retry if again else cancel)(self.database, f"j{job}")
        except InvalidOption:
            return

    @rule(older=st.sampled_from([1.0, 10.0, 30.0]), crash=st.none() | st.integers(0, 3), log=st.booleans())
    def prunes(self, older: float, crash: int | None, log: bool) -> None:
        """Prune, and check all invariants."""
        database, limit = self.database, self.database.now() - older
        if log:
            EventLog(database).write()
        before, event_ids = tree(self.leases), [row["id"] for row in events(database)]
        needed = self.needed()
        metrics, engine = vars(log_of(database)), self.engine()
        dry = prune(database, older, dry_run=True)
        assert (tree(self.leases), [row["id"] for row in events(database)]) == (before, event_ids)
        if crash is not None:
            self.crash(older, crash)
        found = prune(database, older)
        assert crash is not None or found == dry
        assert not found.problems
        assert prune(database, older) == Pruned()
        after = tree(self.leases)
        assert not [name for name in after if ASIDE in name]
        for path in needed:
            assert files.is_complete(path)
        gone = {name.partition("/")[0] for name in before.keys() - after.keys()}
        assert all(before[name] == after[name] for name in before if name.partition("/")[0] not in gone)
        assert not {name for name in after if name.partition("/")[0] in gone}
        names = {part for path in needed for part in path.parts}
        for row in all_leases(database):
            old = row["state"] == "sealed" and row["sealed"] <= limit and (row["merged"] or not row["forked"])
            old = old and (row["job_state"] == "queued" or row["finished"] <= limit)
            kept = row["tag"] in before and (not old or row["tag"] in names)
            assert (row["tag"] in after) == kept
        assert {row["tag"] for row in all_leases(database)} | {f"merged-{database.cluster}-{i}" for i in (2, 3)} >= gone
        for row in rows(database):
            over = row["state"] != "queued" and row["finished"] <= limit
            assert over or f"merged-{database.cluster}-{row['id']}" not in gone
        for key, value in metrics.items():
            now = getattr(log_of(database), key)
            assert now.equals(value) if isinstance(value, pd.DataFrame | pd.Series) else now == value
        assert self.engine() == engine
        self.check_events(event_ids)
        for row in rows(database):
            assert list(printed(database, row["name"], lines=0, every_lease=True))
            losses(database, row["name"])

    def crash(self, older: float, after: int) -> None:
        """Crash within a removal, after this number of others."""
        real, left = shutil.rmtree, [after]

        def until(folder: Path) -> None:
            left[0] -= 1
            if left[0] < 0:
                (folder / files.LEASE).unlink(missing_ok=True)
                raise Crash
            real(folder)

        with mock.patch.object(pruning.shutil, "rmtree", until):
            try:
                prune(self.database, older)
            except Crash:
                return

    def needed(self) -> list[Path]:
        """Checkpoints that are complete now and must be so afterwards."""
        with self.database.reading() as connection:
            merging = connection.column("SELECT parts FROM merges WHERE NOT done")
        paths = [row["checkpoint"] for row in rows(self.database)]
        paths += [path for parts in merging for path, _ in json.loads(parts)]
        for row in all_leases(self.database):
            paths += [row["resume_dir"]] * (row["state"] != "sealed")
            paths += [row["checkpoint"]] * (row["forked"] and not row["merged"])
        found = [Path(path) for path in paths if path]
        assert all(files.is_complete(path) for path in found)
        return found

    def engine(self) -> str | None:
        with self.database.reading() as connection:
            engine: str | None = connection.value(reader.ENGINE)
            return engine

    def check_events(self, before: list[int]) -> None:
        """The newest stays; each is in the state database or in the log file, and gets there once."""
        left = [row["id"] for row in events(self.database)]
        assert left[-1] == before[-1]
        path = self.database.folder / EVENTS
        logged = [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []
        assert set(logged) | set(left) == set(range(1, before[-1] + 1))
        EventLog(self.database).write()
        assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == list(range(1, before[-1] + 1))


Histories.TestCase.settings = settings(max_examples=examples(10, 30), stateful_step_count=25, deadline=None)
TestHistories = Histories.TestCase


def two_leases(database: StateDatabase) -> tuple[Path, Path]:
    """The directories of two leases that ended long ago; the job waits, and continues from the second."""
    lab_of_jobs(database, [spec("train", steps=STEPS)])
    for step in (10, 20):
        granted(database, 1)
        sealed(database, 1, step)
    database.clock.base = 1000.0
    first, second = (database.folder / LEASES / row["tag"] for row in all_leases(database))
    return first, second


def test_the_state_may_be_reached_by_another_path(database: StateDatabase, tmp_path: Path) -> None:
    """Checkpoints in use are compared by name."""
    _, second = two_leases(database)
    os.symlink(database.folder, tmp_path / "link")
    with StateDatabase(tmp_path / "link") as other:
        other.clock = Still("", 1000.0, 0.0)
        assert prune(other, 500.0).directories == 1
    assert files.is_complete(second / files.CHECKPOINTS / "step-20")


def test_a_job_that_ended_recently_keeps_its_logs(database: StateDatabase) -> None:
    """Also of leases that are older."""
    first, _ = two_leases(database)
    cancel(database, "train")
    database.clock.base += 400.0
    assert prune(database, 500.0).directories == 0
    database.clock.base += 200.0
    assert prune(database, 500.0).directories == 1
    assert not first.exists()


def test_a_merged_result_stays(database: StateDatabase) -> None:
    submit(database, spec("forked", steps=STEPS))
    folder = database.folder / LEASES / f"merged-{database.cluster}-1" / "step-100"
    checkpoint(folder.parent, {"model": b"m"}, "made").rename(folder)
    with database.writing() as connection:
        connection.insert("merges", job=1, step=STEPS, parts="[]", folder=str(folder), done=True)
        connection.update("jobs", {"state": "done", "finished": 0.0, "checkpoint": str(folder)})
    database.clock.base = 1000.0
    assert prune(database, 500.0).directories == 0
    assert files.is_complete(folder)


def test_leases_may_be_in_another_folder(database: StateDatabase, tmp_path: Path) -> None:
    """Unless the folder is missing or another one."""
    first, _ = two_leases(database)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o700)
    first.rename(shared / first.name)
    with database.writing() as connection:
        connection.update("leases", {"folder": str(shared)}, "tag = :tag", tag=first.name)
    assert prune(database, 500.0).directories == 0
    make_leases_folder(database, shared)
    assert prune(database, 500.0).directories == 1
    assert not (shared / first.name).exists()


@pytest.mark.parametrize("odd", ["file", "link", "link aside"])
def test_unknown_entries_are_left_alone(database: StateDatabase, tmp_path: Path, odd: str) -> None:
    """Links are not followed, and no other files are touched."""
    first, _ = two_leases(database)
    away = tmp_path / "away"
    away.mkdir()
    (away / "precious").write_text("x")
    os.symlink(away, first / "link")
    (first.parent / "notes").mkdir()
    (first.parent / f"{ASIDE}notes").mkdir()
    if odd == "link aside":
        os.symlink(away, first.with_name(ASIDE + first.name))
    else:
        shutil.rmtree(first)
        first.write_text("x") if odd == "file" else os.symlink(away, first)
    before = tree(first.parent)
    found = prune(database, 500.0)
    assert (found.directories, len(found.problems)) == (0, odd == "link aside")
    assert tree(first.parent) == before
    assert (away / "precious").read_text() == "x"


def test_links_in_lease_directories_are_removed_and_not_followed(database: StateDatabase, tmp_path: Path) -> None:
    first, _ = two_leases(database)
    (tmp_path / "precious").write_text("x")
    os.symlink(tmp_path, first / "link")
    os.symlink(tmp_path / "precious", first / "file")
    assert prune(database, 500.0).directories == 1
    assert not first.exists()
    assert (tmp_path / "precious").read_text() == "x"


def test_two_prunes_can_run_at_once(database: StateDatabase) -> None:
    """Files that the other has removed are no problem, at any point."""
    first, _ = two_leases(database)
    real = os.rename

    def late(old: Path, new: Path) -> None:
        shutil.rmtree(old)
        real(old, new)

    with mock.patch.object(pruning.os, "rename", late):
        assert prune(database, 500.0) == Pruned(events=0)
    assert not first.exists()


def test_a_job_that_is_retried_meanwhile_keeps_its_merges(database: StateDatabase) -> None:
    """Its next merge may write there."""
    submit(database, spec("forked", steps=STEPS))
    merged = database.folder / LEASES / f"merged-{database.cluster}-1"
    merged.mkdir()
    with database.writing() as connection:
        connection.insert("merges", job=1, step=5, parts="[]", folder=str(merged / "step-5"), done=True)
        connection.update("jobs", {"state": "failed", "finished": 0.0})
    database.clock.base = 1000.0
    real = pruning._directories

    def meanwhile(folder: Path, found: Pruned) -> list[str]:
        names = real(folder, found)
        retry(database, "forked")
        return names

    with mock.patch.object(pruning, "_directories", meanwhile):
        assert prune(database, 500.0).directories == 0
    assert merged.is_dir()
    cancel(database, "forked")
    database.clock.base = 2000.0
    with database.writing() as connection:  # as when the job continues from another checkpoint
        connection.change("DELETE FROM merges")
    assert prune(database, 500.0).directories == 1
    assert not merged.exists()


@pytest.mark.parametrize("log", [None, b"", b"rubbish\n", b'{"id": 2}\n{"id": 4'])
def test_events_outside_the_log_file_stay(database: StateDatabase, log: bytes | None) -> None:
    """The last complete line counts."""
    for i in range(6):
        database.clock.base = float(i)
        with database.writing() as connection:
            database.record_event(connection, "lost", f"j{i}")
    if log is not None:
        (database.folder / EVENTS).write_bytes(log)
    database.clock.base = 1000.0
    there = 2 if log is not None and b"2" in log else 0
    assert prune(database, 500.0, dry_run=True).events == there
    assert prune(database, 500.0).events == there
    assert [row["id"] for row in events(database)] == list(range(there + 1, 7))


def test_a_state_without_events_can_be_pruned(database: StateDatabase) -> None:
    assert prune(database, 1.0) == Pruned()


def test_the_command_counts_and_reports_what_it_removes(lab: Path, run: Run) -> None:
    """It counts, leaves the result, and reports what was removed."""
    run("submit", job_file(lab, "bad", command=["sh", "-c", "echo no data; exit 3"]))
    run("submit", job_file(lab, "good"))
    assert run("run", "--no-profile", *QUICK)[0] == 0
    assert run("prune", "--older", "1h")[:2] == (0, "removed 0 directories of leases (0 B) and 0 events\n")
    code, out, _ = run("prune", "--older", "0.001s", "--dry-run")
    assert code == 0
    assert out.startswith("would remove 3 directories of leases (")
    assert out.endswith(" events\n")
    assert run("prune", "--older", "0.001s")[1] == out.replace("would remove", "removed")
    assert run("logs", "bad")[:2] == (0, "bad: its log was deleted or pruned\n")
    assert run("logs", "good", "--all")[0] == 0
    assert "no loss reported" in run("losses", "bad")[1]
    assert run("status", "--all")[0] == 0
    assert len(list((lab / "state" / "leases").glob("*/checkpoints/step-60/model.json"))) == 1
    assert run("retry", "bad")[0] == 0
    assert run("run", "--no-profile", *QUICK)[0] == 0


@pytest.mark.parametrize("older", ["", "0", "-3d", "soon", "nan", "1e12"])
def test_invalid_times_are_refused(lab: Path, run: Run, older: str) -> None:
    code, out, err = run("prune", "--older", older)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "must be a time above zero" in err


def test_what_cannot_be_removed_is_reported(lab: Path, run: Run) -> None:
    with a_state(lab) as database:
        first, _ = two_leases(database)
    with mock.patch.object(pruning.shutil, "rmtree", side_effect=PermissionError(13, "Permission denied")):
        code, out, err = run("prune", "--older", "0.001s")
    assert (code, out.split()[1], len(err.splitlines())) == (1, "0", 1)
    assert "stays for now: Permission denied\n" in err
    assert run("prune", "--older", "0.001s")[1].startswith("removed 1 directory of leases (")
    assert [path.name for path in first.parent.glob(f"{ASIDE}*")] == []
