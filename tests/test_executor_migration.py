"""Databases of versions 2 and 3 under this version: jobs in any state continue."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import node, rows, spec
from executor_leases import checkpoint
from executor_stage import Stage
from waiting import until

from hetopt.errors import InvalidOption
from hetopt.executor import lease_directory as files
from hetopt.executor import schema
from hetopt.executor.engines.engine import Seat
from hetopt.executor.job_side import list_files
from hetopt.executor.leases import OpenLease, StopReason, grant
from hetopt.executor.queue import submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.speeds import stopping
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import DATABASE

Make = Callable[..., Stage]
STEPS = 40

SENTENCES = {
    "moves": "it moves",
    "preempted": "the decision gives its GPUs to others",
    "profiling": "a profiling run comes first",
    "round_ended": "its round is over",
    "node_drained": "its node is drained",
    "gpu_lost": "its GPU is gone",
    "gpu_busy": "its GPU is in use by processes of others",
    "cancelled": "cancelled",
    "part_ended": "part of the gang has ended",
    "not_started": "the engine did not start it in time",
    "node_down": "the engine starts nothing on its node now",
}
"""Reason to stop -> the sentence that was in the database before version 4."""

DOWNGRADE = """
ALTER TABLE leases RENAME COLUMN stop_requested TO stop_asked;
INSERT INTO meta SELECT 'ttl_seconds', max(ttl_seconds) FROM leases HAVING max(ttl_seconds) IS NOT NULL;
ALTER TABLE leases DROP COLUMN ttl_seconds;
UPDATE jobs SET reason = 'failed ' || failures || ' of 3 times: ' || failure WHERE failure IS NOT NULL;
ALTER TABLE jobs DROP COLUMN failure;
ALTER TABLE jobs RENAME COLUMN spec TO form;
UPDATE meta SET value = '2' WHERE key = 'version';
"""
"""What was another in version 2: one column had another name, and the text of a failure was in the reason to wait."""


def downgrade(folder: Path) -> None:
    """Make a database one of version 2."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for code, sentence in SENTENCES.items():
            connection.execute("UPDATE leases SET stop_reason = ? WHERE stop_reason = ?", (sentence, code))
        connection.commit()
        connection.executescript(DOWNGRADE)
        names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info('jobs')")]
        assert " ".join(names) == COLUMNS


COLUMNS = (
    "id name tenant form state reason submitted submitted_at started finished committed checkpoint checkpoint_bytes "
    "lost epoch failures losses not_before cancelled"
)
"""Of table jobs in version 2, in order."""


def content(database: StateDatabase) -> dict[str, Any]:
    """All rows, without the events, the alerts and the version."""
    with database.reading() as connection:
        found: dict[str, Any] = {
            table: connection.rows(f"SELECT * FROM {table}") for table in schema.TABLES if table != "events"
        }
    found["meta"] = [row for row in found["meta"] if row["key"] not in ("alerts", "clock", "version")]
    found["jobs"] = [dict(sorted(row.items())) for row in found["jobs"]]
    return found


def fail_once(lab: Stage, name: str) -> None:
    """The lease of a job ends with an error."""
    (lease,) = [one for one in lab.leases() if one.job == name]
    lab.end(lease, "failed", 1)
    lab.controller.manager.advance(lab.leases(), lab.engine.hosts)


def train(lab: Stage, lease: OpenLease) -> None:
    """A copy does all its steps, and saves a checkpoint."""
    step = lease.until_step
    made = checkpoint(lease.folder, {"model.json": b"{}"}, f"step-{step}")
    list_files(made)
    progress = {"step": step, "first_step": 1, "seconds": 1.0, "time": 1.0}
    files.write_json(lease.folder / files.PROGRESS, progress, durable=False)
    lab.end(lease, "ended")


def test_jobs_in_any_state_continue_after_a_migration(stage: Make) -> None:
    """A job that has failed once, one that runs, one of which copies run, and one that waits."""
    hosts = node("a", {"V100": 1}), node("b", {"K80": 1}), node("c", {"V100": 1, "K80": 1})
    lab = stage(*hosts, policy="hadare", seconds=30.0)
    lab.passes = float("inf")
    submit(lab.database, spec("forked", steps=STEPS, fork=True))
    lab.play(2)
    copies = [lease for lease in lab.leases() if lease.forked]
    assert len(copies) > 1
    for name in ("fails", "runs", "waits"):
        submit(lab.database, spec(name, steps=STEPS))
    while {"fails", "runs"} - {lease.job for lease in lab.leases()}:
        lab.play(1, 10.0)
    fail_once(lab, "fails")
    running = {lease.tag for lease in lab.leases()}
    before, now = content(lab.database), lab.database.now()
    (failed,) = [row for row in rows(lab.database) if row["name"] == "fails"]
    lab.controller.close()
    downgrade(lab.folder)

    lab.database = StateDatabase(lab.folder)
    assert content(lab.database) == before
    assert next(job for job in snapshot(lab.database).jobs if job["name"] == "fails")["reason"] == (
        f"failed 1 of 3 times: {failed['failure']}"
    )
    lab.database.clock.base += now - lab.database.now()
    lab.controller = lab._controller()
    assert {lease.tag for lease in lab.leases()} == running
    lab.controller.step()
    stopped = [lease.tag for lease in lab.leases() if lease.lost_since is not None]
    assert stopped == []
    lab.passes = 3

    def over() -> bool:
        for lease in lab.leases():
            if lease.forked and lease.tag in lab.engine.live and lease.stop_requested is None:
                train(lab, lease)
        lab.play(2, 10.0)
        return set(lab.states().values()) == {"done"}

    until(over, "all are done")
    jobs = {row["name"]: row for row in rows(lab.database)}
    assert {row["committed"] for row in jobs.values()} == {STEPS}
    with lab.database.reading() as connection:
        assert connection.value("SELECT count(*) FROM seats WHERE held") == 0
        assert connection.value("SELECT count(*) FROM leases WHERE state != 'sealed'") == 0
        spans = connection.tuples(
            "SELECT name, sum(end_step - from_step) FROM leases JOIN jobs ON jobs.id = job GROUP BY name"
        )
    assert dict(spans) == dict.fromkeys(jobs, STEPS), "each step was committed once"


def test_version_3_is_migrated(tmp_path: Path) -> None:
    """Sentences become codes, by which the cost of a restart is measured; each lease has its time to live."""
    written = [*SENTENCES.values(), "by hand", None]
    with StateDatabase(tmp_path / "state") as database:
        submit(database, spec("a"))
        for number, sentence in enumerate(written):
            grant_and_stop(database, number, sentence)
        with database.writing() as connection:
            connection.change("ALTER TABLE leases RENAME COLUMN stop_requested TO stop_asked")
            connection.change("ALTER TABLE leases DROP COLUMN ttl_seconds")
            database.set_meta(connection, "ttl_seconds", "33.5")
            database.set_meta(connection, "version", "3")
    with StateDatabase(tmp_path / "state") as database, database.reading() as connection:
        assert database.meta(connection, "version") == str(schema.VERSION)
        found = connection.column("SELECT stop_reason FROM leases ORDER BY id")
        assert found == [*SENTENCES, "by hand", None] == [*StopReason, "by hand", None]
        assert set(connection.column("SELECT ttl_seconds FROM leases")) == {33.5}
        assert database.meta(connection, "ttl_seconds") is None
        assert sorted(stopping(connection)) == [0.0, 1.0, 2.0], "moved, preempted, or stopped for profiling"


def grant_and_stop(database: StateDatabase, number: int, sentence: str | None) -> None:
    """A sealed lease that was asked to stop for this reason, this number of seconds before its end."""
    with database.writing() as connection:
        assert grant(connection, database, 1, [Seat("n", "V100", 0)]) is not None
        values = {"state": "sealed", "outcome": "stopped", "stop_reason": sentence}
        connection.update("leases", {**values, "stop_requested": 5.0, "sealed": 5.0 + number}, "state != 'sealed'")
        connection.update("seats", {"held": False})


def test_a_database_with_a_running_controller_is_not_migrated(tmp_path: Path) -> None:
    with StateDatabase(tmp_path / "state") as database:
        submit(database, spec("a"))
        database.lock()
        downgrade(database.folder)
        for make in (True, False):
            with pytest.raises(
                InvalidOption, match=r"is of an earlier version of hetopt, and process .* stop that first"
            ):
                StateDatabase(database.folder, make=make)
        with closing(sqlite3.connect(database.path)) as connection:
            assert connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == ("2",)
            connection.execute("SELECT form FROM jobs")


def test_a_crash_during_a_migration_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StateDatabase(tmp_path / "state").close()
    downgrade(tmp_path / "state")
    with monkeypatch.context() as patch:
        patch.setitem(schema.MIGRATIONS, "2", (*schema.MIGRATIONS["2"], "SELECT * FROM nowhere"))
        with pytest.raises(OSError, match="no such table: nowhere; nothing has been changed"):
            StateDatabase(tmp_path / "state")
    with StateDatabase(tmp_path / "state") as database:
        submit(database, spec("a"))
