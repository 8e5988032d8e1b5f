"""Connections to the state database: values and rows, transactions, and databases of earlier versions."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import granted, opened, rows, spec
from hypothesis import given
from hypothesis import strategies as st

from hetopt.errors import UnusableFile
from hetopt.executor.connection import Connection
from hetopt.executor.engines.engine import Seat
from hetopt.executor.leases import LeaseResult, seal
from hetopt.executor.queue import drain, submit
from hetopt.executor.schema import DEFAULTS, TABLES
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import DATABASE

JOB = {"tenant": "", "spec": "", "state": "queued", "submitted": 0.0, "submitted_at": ""}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with StateDatabase(tmp_path / "state") as made:
        yield made


def nodes(database: StateDatabase) -> list[Any]:
    """Their names."""
    with database.reading() as connection:
        return connection.column("SELECT name FROM nodes ORDER BY name")


# -- settings of a connection


@pytest.mark.parametrize("read_only", [False, True])
def test_connections_sync_each_commit_and_enforce_foreign_keys(database: StateDatabase, read_only: bool) -> None:
    if read_only:
        database.make_read_only(1.0)
    with database.reading() as first, database.reading() as second:
        assert first is not second
        for connection in (first, second):
            names = ("journal_mode", "synchronous", "foreign_keys", "query_only")
            assert [connection.value(f"PRAGMA {name}") for name in names] == ["wal", 2, 1, read_only]


def test_a_row_that_refers_to_nothing_is_refused(database: StateDatabase) -> None:
    with database.writing() as connection, pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        connection.insert("speeds", job=1, gpu_type="V100", feasible=True)


def test_a_read_only_database_reads_and_changes_nothing(database: StateDatabase) -> None:
    with database.writing() as connection:
        connection.insert("nodes", name="a")
    database.make_read_only(1.0)
    with pytest.raises(UnusableFile, match="readonly"), database.writing() as connection:
        connection.insert("nodes", name="b")
    with pytest.raises(UnusableFile, match="readonly"), database.reading() as connection:
        connection.change("DELETE FROM nodes")
    assert nodes(database) == ["a"]


# -- values and rows


def test_booleans_stay_booleans(database: StateDatabase) -> None:
    with database.writing() as connection:
        connection.insert("nodes", name="a", drained=True)
        connection.insert("nodes", name="b", drained=False)
        connection.insert_all("nodes", [{"name": "c", "drained": 1}, {"name": "d", "drained": 0}])
    with database.reading() as connection:
        query = "SELECT drained FROM nodes ORDER BY name"
        found = connection.column(query)
        assert found == [True, False, True, False]
        assert {type(one) for one in found} == {bool}
        assert connection.rows(query) == [{"drained": one} for one in found]
        assert connection.tuples(query) == [(one,) for one in found]
        assert connection.value(query) is True
        assert connection.column("SELECT name FROM nodes WHERE NOT drained") == ["b", "d"]
        assert connection.column("SELECT name FROM nodes WHERE drained = :drained", drained=True) == ["a", "c"]


def test_rows_and_queries_without_rows(database: StateDatabase) -> None:
    with database.writing() as connection:
        connection.insert("nodes", name="a", content="{}")
    with database.reading() as connection:
        known = {"name": "a", "drained": False, "content": "{}"}
        assert connection.row("SELECT * FROM nodes") == known
        assert connection.rows("SELECT * FROM nodes WHERE name = :name", name="a") == [known]
        nothing = "SELECT * FROM nodes WHERE name = 'b'"
        assert (connection.rows(nothing), connection.column(nothing)) == ([], [])
        assert (connection.row(nothing), connection.value(nothing)) == (None, None)


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))),
    st.sampled_from([list, tuple, set, frozenset]),
)
def test_a_list_is_passed_as_one_value(texts: list[str], kind: type) -> None:
    """SQLite ends texts in JSON at a zero character, which no name has."""
    with closing(sqlite3.connect(":memory:", factory=Connection)) as connection:
        found = connection.column("SELECT value FROM json_each(:texts)", texts=kind(texts))
    assert found == texts if kind in (list, tuple) else sorted(found) == sorted(set(texts))


def test_a_list_of_numbers_selects_rows(database: StateDatabase) -> None:
    query = "SELECT name FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs)) ORDER BY id"
    with database.writing() as connection:
        connection.insert_all("jobs", [{"name": name, **JOB} for name in "abc"])
        assert connection.column(query, jobs=[1, 3, 9]) == ["a", "c"]
        assert connection.column(query, jobs=set()) == []


# -- changes


def test_a_new_row_has_defaults_and_a_number(database: StateDatabase) -> None:
    with database.writing() as connection:
        assert [connection.insert("jobs", name=name, **JOB) for name in "ab"] == [1, 2]
        connection.change("DELETE FROM jobs WHERE id = 2")
        assert connection.insert("jobs", name="c", **JOB, lost=7, cancelled=True) == 3, "no number is given again"
        found = connection.rows("SELECT * FROM jobs ORDER BY id")
        empty = dict.fromkeys(("reason", "failure", "started", "finished", "checkpoint", "checkpoint_bytes"))
        usual = {**JOB, **DEFAULTS["jobs"], **empty}
        assert found == [{"id": 1, "name": "a", **usual}, {**usual, "id": 3, "name": "c", "lost": 7, "cancelled": True}]


def test_many_new_rows_have_defaults(database: StateDatabase) -> None:
    with database.writing() as connection:
        connection.insert_all("nodes", ({"name": name} for name in "ba"))
        connection.insert_all("nodes", [])
        assert connection.tuples("SELECT name, drained FROM nodes") == [("b", False), ("a", False)]


def test_defaults_name_existing_columns(database: StateDatabase) -> None:
    with database.reading() as connection:
        for table in TABLES:
            names = connection.column("SELECT name FROM pragma_table_info(:table)", table=table)
            assert set(DEFAULTS.get(table, {})) <= set(names)


def test_an_update_returns_the_number_of_rows(database: StateDatabase) -> None:
    """A column may be changed and be in the condition."""
    with database.writing() as connection:
        connection.insert_all("jobs", [{"name": name, **JOB} for name in "abc"])
        assert connection.update("jobs", {"state": "done", "finished": 5.0}, "state = :state", state="queued") == 3
        assert connection.update("jobs", {"state": "failed"}, "state = :state AND id = :id", state="done", id=2) == 1
        assert connection.update("jobs", {"state": "failed"}, "state = :state", state="queued") == 0
        assert connection.tuples("SELECT state, finished FROM jobs ORDER BY id") == [
            ("done", 5.0),
            ("failed", 5.0),
            ("done", 5.0),
        ]
        listed = "id IN (SELECT value FROM json_each(:jobs))"
        assert connection.update("jobs", {"cancelled": True}, listed, jobs=[1, 3]) == 2
        assert connection.column("SELECT cancelled FROM jobs ORDER BY id") == [True, False, True]
        assert connection.update("jobs", {"reason": None}) == 3
        assert connection.change("DELETE FROM jobs WHERE state = :state", state="done") == 2


# -- transactions


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, sqlite3.IntegrityError, sqlite3.ProgrammingError])
def test_a_failed_transaction_is_rolled_back(database: StateDatabase, problem: type[BaseException]) -> None:
    with database.writing() as connection:
        connection.insert("nodes", name="a")

    def fail() -> None:
        with database.writing() as connection:
            connection.insert("nodes", name="b")
            connection.update("nodes", {"drained": True})
            raise problem("no")

    with pytest.raises(problem, match="no"):
        fail()
    with database.writing() as connection:
        assert connection.column("SELECT drained FROM nodes") == [False]
        connection.insert("nodes", name="c")
    assert nodes(database) == ["a", "c"]


def test_a_refused_row_does_not_end_the_transaction(database: StateDatabase) -> None:
    with database.writing() as connection:
        connection.insert("nodes", name="a")
        with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: nodes\.name"):
            connection.insert("nodes", name="a")
        connection.insert("nodes", name="b")
    assert nodes(database) == ["a", "b"]


def test_an_invalid_statement_raises_and_is_rolled_back(database: StateDatabase) -> None:
    def fail() -> None:
        with database.writing() as connection:
            connection.insert("nodes", name="a")
            connection.rows("SELECT * FROM nowhere")

    with pytest.raises(UnusableFile, match="no such table: nowhere; nothing has been changed"):
        fail()
    assert nodes(database) == []


def test_a_reader_sees_one_snapshot(database: StateDatabase) -> None:
    """Neither uncommitted changes, nor changes after its first query."""
    with database.writing() as connection:
        connection.insert("nodes", name="a")
        assert nodes(database) == []
        assert connection.column("SELECT name FROM nodes") == ["a"]
    with database.reading() as connection:
        assert connection.column("SELECT name FROM nodes") == ["a"]
        with database.writing() as other:
            other.insert("nodes", name="b")
        assert connection.column("SELECT name FROM nodes") == ["a"]
    assert nodes(database) == ["a", "b"]


def test_a_writer_that_waits_too_long_gets_an_error(database: StateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with StateDatabase(database.folder) as other:
        monkeypatch.setattr(other, "_wait_seconds", 0.01)
        other.disconnect()
        with database.writing() as connection:
            connection.insert("nodes", name="a")
            with pytest.raises(UnusableFile, match="database is locked; nothing"), other.writing():
                pass
        with other.writing() as connection:
            connection.insert("nodes", name="b")
    assert nodes(database) == ["a", "b"]


def test_threads_can_share_one_database(database: StateDatabase) -> None:
    """Each transaction belongs to one thread, and none is lost."""

    def write(thread: int) -> list[int]:
        seen = []
        for number in range(20):
            with database.writing() as connection:
                connection.insert("nodes", name=f"{thread}-{number}")
            with database.reading() as connection:
                seen.append(connection.value("SELECT count(*) FROM nodes WHERE name LIKE :own", own=f"{thread}-%"))
        return seen

    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 5000)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(write, range(4))) == [list(range(1, 21))] * 4
    finally:
        sys.setswitchinterval(usual)
    assert len(nodes(database)) == 80


# -- earlier versions

OLD = """
CREATE TABLE meta ("key" VARCHAR NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE jobs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR NOT NULL, tenant VARCHAR NOT NULL, form TEXT NOT NULL,
    state VARCHAR NOT NULL, reason TEXT, submitted FLOAT NOT NULL, submitted_at VARCHAR NOT NULL, started FLOAT,
    finished FLOAT, committed INTEGER NOT NULL, checkpoint TEXT, checkpoint_bytes FLOAT, lost INTEGER NOT NULL,
    epoch INTEGER NOT NULL, failures INTEGER NOT NULL, losses INTEGER NOT NULL, not_before FLOAT NOT NULL,
    cancelled BOOLEAN NOT NULL, UNIQUE (name)
);
CREATE TABLE nodes (name VARCHAR NOT NULL, drained BOOLEAN NOT NULL, content TEXT, PRIMARY KEY (name));
CREATE TABLE leases (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, tag VARCHAR NOT NULL, job INTEGER NOT NULL, copy INTEGER NOT NULL,
    epoch INTEGER NOT NULL, kind VARCHAR NOT NULL, forked BOOLEAN NOT NULL, state VARCHAR NOT NULL,
    gpu_types VARCHAR NOT NULL, from_step INTEGER NOT NULL, until_step INTEGER NOT NULL, resume_dir TEXT, folder TEXT,
    round INTEGER NOT NULL, granted FLOAT NOT NULL, running FLOAT, first_tick FLOAT, stop_asked FLOAT,
    stop_reason VARCHAR, lost_since FLOAT, sealed FLOAT, outcome VARCHAR, ticked_step INTEGER, end_step INTEGER,
    checkpoint TEXT, steps_timed FLOAT, seconds_timed FLOAT, merged BOOLEAN NOT NULL,
    UNIQUE (job, id), UNIQUE (tag), FOREIGN KEY(job) REFERENCES jobs (id)
);
CREATE INDEX open_leases ON leases (state) WHERE state != 'sealed';
INSERT INTO jobs (name, tenant, form, state, submitted, submitted_at, committed, lost, epoch, failures, losses,
    not_before, cancelled) VALUES ('early', '', '{"steps": 9}', 'done', 0.0, '', 9, 0, 1, 0, 0, 0.0, 0);
INSERT INTO nodes VALUES ('n', 0, '{"gpus": {"V100": 1}}');
INSERT INTO meta VALUES ('version', '2'), ('cluster', 'abcdef'), ('clock', '{"boot": "", "base": 5.0, "at": 0.0}');
"""
"""Tables as SQLAlchemy made them before, with a job and a node."""


def test_databases_of_earlier_versions_are_migrated(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    connection = sqlite3.connect(folder / DATABASE)
    connection.executescript(OLD)
    connection.close()
    with StateDatabase(folder) as database:
        assert submit(database, spec("late")) == "late"
        assert granted(database, 2, [Seat("n", "V100", 0)]) is not None
        (lease,) = opened(database)
        assert (lease.forked, lease.job) == (False, "late")
        assert seal(database, lease, LeaseResult("ended", step=1000, finished=True))
        drain(database, "n")
    with StateDatabase(folder) as database:
        found = [(row["id"], row["name"], row["state"], row["committed"], row["cancelled"]) for row in rows(database)]
        assert found == [(1, "early", "done", 9, False), (2, "late", "done", 1000, False)]
        with database.reading() as connection:
            assert connection.value("SELECT drained FROM nodes") is True


def test_a_schema_that_is_not_utf8_is_damage(database: StateDatabase) -> None:
    """SQLite puts the damaged name into its message, which then is not UTF-8."""
    database.close()
    path = database.folder / DATABASE
    content = path.read_bytes()
    assert b"tablemetameta" in content
    content = content.replace(b"tablemetameta", b"table\xff\xfe\xfd\xfcmeta").replace(
        b"CREATE TABLE meta", b"CREATE TABLX meta"
    )
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match="damaged"):
        StateDatabase(database.folder)


def test_a_database_of_another_program_is_left_as_it_is(database: StateDatabase) -> None:
    """Also the journal mode in its header."""
    database.close()
    path = database.folder / DATABASE
    path.unlink()
    for table in ("other (a)", "meta (a)"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"CREATE TABLE {table}")
        before = path.read_bytes()
        with pytest.raises(UnusableFile, match=r"it is a database of another program$"):
            StateDatabase(database.folder)
        assert path.read_bytes() == before
