"""The state database: in no order of requests is a seat held twice, or a step counted twice."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Timer

import pytest
from effort import examples
from executor_cluster import granted, lab_of_jobs, opened, rows, spec, statements
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hetopt.errors import InvalidOption, UnknownName, UnusableFile
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.event_log import EventLog
from hetopt.executor.leases import MAX_FAILURES, MAX_LOSSES, LeaseResult, StopReason, mark_started, request_stop, seal
from hetopt.executor.pruning import prune
from hetopt.executor.queue import cancel, drain, retry, submit
from hetopt.executor.reconciler import free_seats
from hetopt.executor.state_database import EVENTS, LAST_LOGGED, LOCK, StateDatabase
from hetopt.executor.state_folder import DATABASE

SEATS = [Seat("a", "slow", 0), Seat("a", "slow", 1), Seat("b", "fast", 0)]
STEPS = 100


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with StateDatabase(tmp_path / "state") as made:
        yield made


class Histories(RuleBasedStateMachine):
    """Random histories, compared with a plain model."""

    @initialize()
    def begin(self) -> None:
        """A new state with two jobs."""
        self.folder = tempfile.TemporaryDirectory()
        self.database = StateDatabase(Path(self.folder.name) / "state")
        lab_of_jobs(self.database, [spec(f"j{i}", steps=STEPS) for i in range(2)])
        self.committed = {1: 0, 2: 0}
        self.failures = {1: 0, 2: 0}
        self.state = dict.fromkeys((1, 2), "queued")
        self.losses = {1: 0, 2: 0}
        self.asked: set[int] = set()
        self.stopped: dict[str, StopReason] = {}
        self.tags: set[str] = set()

    def teardown(self) -> None:
        """Remove the state."""
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()

    @rule(job=st.sampled_from([1, 2]), seats=st.sets(st.sampled_from(SEATS), min_size=1))
    def grants(self, job: int, seats: set[Seat]) -> None:
        """Granted exactly if the job is queued, has no lease, and all seats are free."""
        before = opened(self.database)
        free = not any(seats & set(lease.seats) for lease in before)
        idle = all(lease.job_id != job for lease in before)
        tag = granted(self.database, job, sorted(seats, key=str))
        assert (tag is not None) == (free and idle and self.state[job] == "queued" and job not in self.asked)
        if tag is not None:
            assert tag not in self.tags
            self.tags.add(tag)

    @precondition(lambda self: opened(self.database))
    @rule(data=st.data(), ended=st.booleans(), failure=st.booleans(), step=st.none() | st.integers(0, STEPS + 20))
    def seals(self, data: st.DataObject, ended: bool, failure: bool, step: int | None) -> None:
        """The job moves to the step of the checkpoint, never back, and never beyond the end."""
        lease = data.draw(st.sampled_from(opened(self.database)), label="lease")
        job = lease.job_id
        ending = LeaseResult("x", step=step, finished=ended and not failure, failure="it broke" if failure else None)
        assert seal(self.database, lease, ending)
        assert not seal(self.database, lease, LeaseResult("again", step=STEPS, finished=True))
        before = self.committed[job]
        self.committed[job] = max(before, min(step or 0, STEPS))
        if self.state[job] != "queued":
            return
        if job in self.asked:
            if ending.finished:
                self.committed[job] = STEPS
            self.state[job] = "cancelled"
        elif ending.finished:
            self.committed[job], self.state[job] = STEPS, "done"
            self.failures[job] = self.losses[job] = 0
        else:
            if self.committed[job] > before:
                self.failures[job] = self.losses[job] = 0
            elif not failure and self.stopped.get(lease.tag, StopReason.PART_ENDED) == StopReason.PART_ENDED:
                self.losses[job] += 1
            self.failures[job] += failure
            if self.failures[job] >= MAX_FAILURES or self.losses[job] >= MAX_LOSSES:
                self.state[job] = "failed"

    @rule(job=st.sampled_from([1, 2]))
    def cancels(self, job: int) -> None:
        """At once, or when its lease is sealed."""
        runs = any(lease.job_id == job for lease in opened(self.database))
        if self.state[job] != "queued":
            with pytest.raises(InvalidOption, match="can be cancelled"):
                cancel(self.database, f"j{job - 1}")
            return
        assert cancel(self.database, f"j{job - 1}") == ("running" if runs else "queued")
        self.asked.add(job)
        if not runs:
            self.state[job] = "cancelled"

    @rule(job=st.sampled_from([1, 2]))
    def tries_again(self, job: int) -> None:
        """Only a failed job; from its last step."""
        if self.state[job] != "failed":
            with pytest.raises(InvalidOption, match="can be tried again"):
                retry(self.database, f"j{job - 1}")
            return
        assert retry(self.database, f"j{job - 1}") == self.committed[job]
        self.state[job], self.failures[job], self.losses[job] = "queued", 0, 0

    @precondition(lambda self: opened(self.database))
    @rule(data=st.data(), reason=st.sampled_from([StopReason.MOVES, StopReason.PART_ENDED]))
    def starts_and_stops(self, data: st.DataObject, reason: StopReason) -> None:
        """Marks at any time, also repeated."""
        lease = data.draw(st.sampled_from(opened(self.database)), label="lease")
        mark_started(self.database, [lease])
        reason = self.stopped.setdefault(lease.tag, reason)
        request_stop(self.database, [(lease, reason)])
        request_stop(self.database, [(lease, StopReason.CANCELLED)])
        again = next(one for one in opened(self.database) if one.tag == lease.tag)
        assert (again.state, again.stop_reason) == ("started", reason)

    @rule()
    def another_process(self) -> None:
        """A new controller reads the same state."""
        path = self.database.folder
        before = [dict(row) for row in rows(self.database)]
        self.database.close()
        self.database = StateDatabase(path)
        assert [dict(row) for row in rows(self.database)] == before

    @invariant()
    def no_seat_is_held_twice(self) -> None:
        """And none by a sealed lease."""
        if not hasattr(self, "database"):
            return
        held = [seat for lease in opened(self.database) for seat in lease.seats]
        assert len(held) == len(set(held))
        with self.database.reading() as connection:
            assert connection.value("SELECT count(*) FROM seats WHERE held") == len(held)

    @invariant()
    def jobs_are_where_they_must_be(self) -> None:
        """As in the plain model."""
        if not hasattr(self, "database"):
            return
        for row in rows(self.database):
            assert row["committed"] == self.committed[row["id"]]
            assert row["state"] == self.state[row["id"]], row["reason"]
            assert (row["failures"], row["losses"]) == (self.failures[row["id"]], self.losses[row["id"]])


Histories.TestCase.settings = settings(max_examples=examples(12, 40), stateful_step_count=25, deadline=None)
TestHistories = Histories.TestCase


def test_an_index_refuses_a_seat_in_two_leases(database: StateDatabase) -> None:
    """Even if the code that grants were wrong."""
    lab_of_jobs(database, [spec("a"), spec("b")])
    granted(database, 1, SEATS[:1])
    with database.writing() as connection, pytest.raises(sqlite3.IntegrityError):
        connection.insert("seats", lease=99, node="a", gpu_type="slow", number=0, device="", held=True)


def test_a_gpu_whose_number_has_changed_is_still_held(database: StateDatabase) -> None:
    """Another was lost, or split into instances: grants, free seats and the database compare the device too."""
    lab_of_jobs(database, [spec("a"), spec("b")])
    assert granted(database, 1, [Seat("a", "H200", 1, "GPU-B")]) is not None
    renumbered = Node("a", (Seat("a", "H200", 0, "GPU-B"),))
    assert free_seats([renumbered], opened(database)) == []
    assert granted(database, 2, renumbered.seats) is None
    with database.writing() as connection, pytest.raises(sqlite3.IntegrityError):
        connection.insert("seats", lease=99, node="a", gpu_type="H200", number=0, device="GPU-B", held=True)
    seal(database, opened(database)[0], LeaseResult("stopped"))
    assert granted(database, 2, renumbered.seats) is not None


@pytest.mark.parametrize(("device", "unique"), [("GPU-B", True), ("MIG-B", True), ("1", False)])
def test_a_gpu_whose_host_was_renamed_is_still_held(database: StateDatabase, device: str, unique: bool) -> None:
    """A UUID names one GPU; an engine with plain numbers has the same ones on each host."""
    lab_of_jobs(database, [spec("a"), spec("b")])
    assert granted(database, 1, [Seat("desk", "H200", 1, device)]) is not None
    assert (granted(database, 2, [Seat("renamed", "H200", 1, device)]) is None) is unique
    refused = pytest.raises(sqlite3.IntegrityError, match="UNIQUE") if unique else nullcontext()
    with database.writing() as connection, refused:
        connection.insert("seats", lease=1, node="again", gpu_type="H200", number=1, device=device, held=True)


def _submit_many(folder: str, number: int) -> None:
    with StateDatabase(Path(folder)) as database:
        for i in range(20):
            submit(database, spec(f"p{number}-{i}"))
            submit(database, spec("same"), again=True)


def test_many_processes_can_submit_at_once(database: StateDatabase) -> None:
    """Every job is recorded once, every name is used once."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_submit_many, args=(str(database.folder), n)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    names = [row["name"] for row in rows(database)]
    assert len(names) == len(set(names)) == 80


def test_the_lock_allows_one_controller(database: StateDatabase) -> None:
    assert database.controller() is None
    database.lock()
    assert database.controller() == os.getpid()
    with StateDatabase(database.folder) as other, pytest.raises(InvalidOption, match=f"process {os.getpid()}"):
        other.lock()
    database.close()
    with StateDatabase(database.folder) as other:
        other.lock()


def test_a_check_for_a_controller_does_not_block_one(database: StateDatabase) -> None:
    """The check holds the lock for a moment."""
    database.lock()
    database.close()
    handle = os.open(database.folder / LOCK, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_SH)
    Timer(0.05, os.close, (handle,)).start()
    with StateDatabase(database.folder) as other:
        other.lock()
        assert database.controller() == os.getpid()


@pytest.mark.parametrize("name", ["q?x=1", "p%41b", "h#b", "sp ace", "é"])
def test_the_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    with StateDatabase(tmp_path / name) as database:
        submit(database, spec("a"))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with StateDatabase(tmp_path / name, make=False) as database:
        assert [row["name"] for row in rows(database)] == ["a"]


@pytest.mark.parametrize("cut", [1, 7, 40, 160])
def test_the_event_log_has_every_event_once(database: StateDatabase, cut: int) -> None:
    """Also if a crash has truncated it within a line."""
    for i in range(5):
        submit(database, spec(f"j{i}"))
    EventLog(database).write()
    path = database.folder / EVENTS
    os.truncate(path, max(0, path.stat().st_size - cut))
    submit(database, spec("last"))
    EventLog(database).write()
    EventLog(database).write()
    logged = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["id"] for event in logged] == [1, 2, 3, 4, 5, 6]
    assert logged[-1]["job"] == "last"
    assert path.stat().st_mode & 0o777 == 0o600


def _numbers(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("how", ["renamed", "removed", "emptied"])
@pytest.mark.parametrize("crashed", [False, True])
def test_events_of_a_rotated_log_are_not_written_again(database: StateDatabase, how: str, crashed: bool) -> None:
    """Also if a crash prevented recording the number of the last event, before or after."""
    path, old = database.folder / EVENTS, database.folder / f"{EVENTS}.1"
    submit(database, spec("a"))
    EventLog(database).write()
    submit(database, spec("b"))
    noted = (database.folder / LAST_LOGGED).read_bytes()
    EventLog(database).write()
    if crashed:
        (database.folder / LAST_LOGGED).write_bytes(noted)
        with StateDatabase(database.folder) as other:
            EventLog(other).write()
        assert _numbers(path) == [1, 2]
    if how == "renamed":
        path.rename(old)
    elif how == "removed":
        path.unlink()
    else:
        os.truncate(path, 0)
    EventLog(database).write()
    assert path.read_bytes() == b""
    submit(database, spec("c"))
    noted = (database.folder / LAST_LOGGED).read_bytes()
    with StateDatabase(database.folder) as other:
        EventLog(other).write()
    if crashed:
        (database.folder / LAST_LOGGED).write_bytes(noted)
    os.truncate(path, path.stat().st_size - 30)  # its only line
    submit(database, spec("d"))
    EventLog(database).write()
    assert _numbers(path) == [3, 4]
    assert how != "renamed" or _numbers(old) == [1, 2]


def test_events_after_a_restore_from_a_backup_are_logged(database: StateDatabase, tmp_path: Path) -> None:
    """They have numbers that are in the log file already."""
    submit(database, spec("a"))
    database.close()
    shutil.copyfile(database.path, tmp_path / "backup")
    with StateDatabase(database.folder) as lost:
        for i in range(3):
            submit(lost, spec(f"lost{i}"))
        EventLog(lost).write()
    shutil.copyfile(tmp_path / "backup", database.path)
    with StateDatabase(database.folder) as restored:
        submit(restored, spec("b"))  # before the log is written, and after
        assert prune(restored, 0.0).events == 0
        EventLog(restored).write()
        for i in range(3):
            submit(restored, spec(f"c{i}"))
            EventLog(restored).write()
        EventLog(restored).write()
    lines = [json.loads(line) for line in (database.folder / EVENTS).read_text().splitlines()]
    assert [(event["id"], event["job"]) for event in lines] == [
        (1, "a"), (2, "lost0"), (3, "lost1"), (4, "lost2"), (2, "b"), (3, "c0"), (4, "c1"), (5, "c2")
    ]  # fmt: skip


def test_events_that_are_not_logged_after_a_restore_are_not_pruned(database: StateDatabase, tmp_path: Path) -> None:
    database.close()
    shutil.copyfile(database.path, tmp_path / "backup")
    for path in (None, tmp_path / "backup"):
        if path is not None:
            shutil.copyfile(path, database.path)
        with StateDatabase(database.folder) as own:
            for _ in range(4):
                with own.writing() as connection:
                    own.record_event(connection, "drained")
            if path is None:
                EventLog(own).write()
            own.clock.base += 10.0
            assert prune(own, 5.0).events == (3 if path is None else 0)


@pytest.mark.parametrize(
    "content", ["'{'", "'[1]'", "'1'", "''", "x'ff00'", "1.5", "'{\"id\": ' || hex(zeroblob(9999))"]
)
def test_a_damaged_event_is_logged_as_text(database: StateDatabase, content: str) -> None:
    for name in "ab":
        submit(database, spec(name))
    with database.writing() as connection:
        connection.execute(f"UPDATE events SET content = {content} WHERE id = 1")
    EventLog(database).write()
    one, other = [json.loads(line) for line in (database.folder / EVENTS).read_text().splitlines()]
    assert (one["id"], one["job"], other["id"], other["steps"]) == (1, "a", 2, spec("b").steps)
    assert len(one["damaged"]) <= 200


def test_the_version_is_read_while_another_thread_disconnects(database: StateDatabase) -> None:
    database.version()
    assert database._watching is not None
    database._watching.close()  # as where that comes between the two statements of version()
    before = database.version()
    submit(database, spec("a"))
    assert database.version() != before


def test_only_a_writer_reports_that_nothing_has_been_changed(database: StateDatabase) -> None:
    database.disconnect()
    database._wait_seconds = 0.01
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        for use, end in ((database.reading, "is locked"), (database.writing, "is locked; nothing has been changed")):
            with pytest.raises(UnusableFile) as error, use():
                pass
            assert str(error.value).endswith(end)


def test_many_events_are_read_in_portions(database: StateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(5):
        submit(database, spec(f"j{i}"))
    monkeypatch.setattr("hetopt.executor.event_log.PORTION", 2)
    asked = statements(monkeypatch)
    EventLog(database).write()
    fetched = [values for sql, values in asked if "LIMIT" in sql]
    assert fetched == [{"last": last, "portion": 2} for last in (0, 2, 4, 5)]
    assert _numbers(database.folder / EVENTS) == [1, 2, 3, 4, 5]


def test_unusable_states_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="has no state of a cluster"):
        StateDatabase(tmp_path / "absent", make=False)
    assert not (tmp_path / "absent").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFile, match="is not a folder"):
        StateDatabase(tmp_path / "file")
    StateDatabase(tmp_path / "fine").close()
    assert (tmp_path / "fine").stat().st_mode & 0o777 == 0o700
    (tmp_path / "fine" / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(UnusableFile, match=r"damaged|not a database"):
        StateDatabase(tmp_path / "fine")
    StateDatabase(tmp_path / "later").close()
    with sqlite3.connect(tmp_path / "later" / DATABASE) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'version'")
    connection.close()
    with pytest.raises(InvalidOption, match="is of version 99"):
        StateDatabase(tmp_path / "later")


def test_requests_with_unknown_names_are_refused(database: StateDatabase) -> None:
    submit(database, spec("train"))
    with pytest.raises(InvalidOption, match="there is a job 'train' already"):
        submit(database, spec("train"))
    assert submit(database, spec("train"), again=True) == "train.2"
    submit(database, spec("x" * 62))
    with pytest.raises(InvalidOption, match=r"the name with its number is 'x+.*it must be a name of at most 63"):
        submit(database, spec("x" * 62), again=True)
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        cancel(database, "trian")
    with pytest.raises(UnknownName, match="no engine has reported any yet"):
        drain(database, "n1")
