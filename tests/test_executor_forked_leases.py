"""Leases of copies of a job: their steps are committed once, or counted as lost, in any order of events."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from executor_cluster import opened, rows, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.executor import lease_directory as files
from hetopt.executor.connection import Row
from hetopt.executor.engines.engine import Seat
from hetopt.executor.job_side import list_files
from hetopt.executor.lease_record import PROFILE
from hetopt.executor.leases import LeaseResult, grant, seal
from hetopt.executor.losses import losses
from hetopt.executor.measured_log import log_of
from hetopt.executor.merging import Merges
from hetopt.executor.queue import retry, submit
from hetopt.executor.state_database import LEASES, Cache, StateDatabase

STEPS = 10
PLACES = [Seat(name, "V100", 0) for name in "abc"]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[StateDatabase]:
    with StateDatabase(tmp_path / "state") as made:
        submit(made, spec("f", steps=STEPS, fork=True))
        yield made


def begins(
    database: StateDatabase,
    copy: int,
    *,
    until: int = STEPS,
    round_number: int = 1,
    kind: str = "train",
    place: int = -1,
) -> str | None:
    """A lease of the whole job (copy 0) or of a copy, on a separate host."""
    more: dict[str, Any] = {"copy": copy, "forked": copy > 0, "until_step": until, "round_number": round_number}
    with database.writing() as connection:
        return grant(connection, database, 1, [PLACES[place if place >= 0 else copy]], kind=kind, **more)


def ends(database: StateDatabase, step: int, finished: bool = False) -> None:
    """End all open leases at this step, with a checkpoint of it."""
    for lease in opened(database):
        folder = database.folder / LEASES / lease.tag / files.CHECKPOINTS / f"step-{step}"
        seal(database, lease, LeaseResult("stopped", step=step, checkpoint=folder, ticked=step, finished=finished))


def merges(database: StateDatabase) -> None:
    """Merge what is due, without a process that averages."""
    for row in begun(database):
        folder = Path(row["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        list_files(folder)
    made = Merges(database, database.folder / LEASES, Cache(database))
    made.step()
    made.close()


def begun(database: StateDatabase) -> list[Row]:
    made = Merges(database, database.folder / LEASES, Cache(database))
    for job in made._due():
        made._begin(job)
    with database.reading() as connection:
        return connection.rows("SELECT * FROM merges WHERE NOT done")


def test_the_whole_job_does_not_begin_before_its_copies_are_merged(database: StateDatabase) -> None:
    """Otherwise it would do their steps again, and both would be committed."""
    begins(database, 1)
    ends(database, 8)
    assert begins(database, 0) is None
    merges(database)
    assert begins(database, 0) is not None
    ends(database, STEPS, finished=True)
    assert (rows(database)[0]["committed"], rows(database)[0]["state"]) == (STEPS, "done")


def test_copies_of_a_deleted_job_are_not_merged(database: StateDatabase) -> None:
    """Its row was deleted by hand after they had ended; the others go on."""
    two_copies(database, 1, 1.0)
    with closing(sqlite3.connect(database.path)) as connection, connection:  # without foreign keys
        connection.execute("DELETE FROM jobs")
    assert begun(database) == []
    assert begun(database) == []
    with database.reading() as reading:
        (event,) = reading.rows("SELECT * FROM events WHERE kind = 'unmerged'")
        assert reading.column("SELECT DISTINCT merged FROM leases WHERE forked") == [1]
    assert json.loads(event["content"])["reason"] == "its row was deleted by hand"


def test_a_merge_of_a_job_that_is_deleted_meanwhile_ends(database: StateDatabase) -> None:
    """Its row was deleted by hand while the process of the merge ran; a controller would wait for it forever."""
    two_copies(database, 1, 1.0)
    made = Merges(database, database.folder / LEASES, Cache(database))
    made.step()
    (process,) = made._running.values()
    with closing(sqlite3.connect(database.path)) as connection, connection:  # without foreign keys
        connection.execute("DELETE FROM jobs")
    made.step()
    assert process.returncode is not None
    assert not made._running
    with database.reading() as reading:
        assert reading.column("SELECT DISTINCT merged FROM leases WHERE forked") == [1]
        assert reading.column("SELECT done FROM merges") == [1]
        assert len(reading.rows("SELECT * FROM events WHERE kind = 'unmerged'")) == 1


def test_the_checkpoint_of_a_deleted_job_goes_with_its_last_lease(database: StateDatabase) -> None:
    """Its row was deleted by hand after a merge, while a lease resumes from the merged checkpoint."""
    for copy in (1, 2):
        begins(database, copy, until=3)
    ends(database, 3)
    merges(database)
    assert begins(database, 0) is not None
    with closing(sqlite3.connect(database.path)) as connection, connection:  # without foreign keys
        connection.execute("DELETE FROM jobs")
        ((folder,),) = connection.execute("SELECT folder FROM merges WHERE done")
    made = Merges(database, database.folder / LEASES, Cache(database))
    made.clear_away()
    assert files.is_complete(Path(folder))
    ends(database, 5)
    made.clear_away()
    assert not Path(folder).exists()
    with database.reading() as reading:
        assert reading.column("SELECT count(*) FROM merges") == [0]


WHAT = st.one_of(
    st.tuples(st.just("begins"), st.integers(0, 2)),
    st.tuples(st.just("ends"), st.integers(0, STEPS + 2)),
    st.tuples(st.just("merges"), st.just(0)),
)


@settings(max_examples=examples(15, 40), deadline=None)
@given(st.lists(WHAT, max_size=25))
def test_no_history_commits_a_step_twice(history: list[tuple[str, int]]) -> None:
    """Nor takes one back; copies get halves of the remaining steps at the beginning of a round."""
    with tempfile.TemporaryDirectory() as folder, StateDatabase(Path(folder) / "state") as database:
        submit(database, spec("f", steps=STEPS, fork=True))
        before = 0
        for what, n in history:
            done = int(rows(database)[0]["committed"])
            if what == "begins":
                open_copies = {lease.copy for lease in opened(database)}
                with database.reading() as connection:
                    had = set(connection.column("SELECT copy FROM leases WHERE forked AND NOT merged"))
                share = (STEPS - done) // 2
                if n == 0 or (n not in had and share):
                    tag = begins(database, n, until=done + share if n else STEPS)
                    assert tag is None or n > 0 or not (had | open_copies), "the whole job beside its copies"
            elif what == "ends":
                ends(database, n)
            else:
                merges(database)
            now = rows(database)[0]
            assert before <= now["committed"] <= STEPS
            before = int(now["committed"])
        ends(database, 0)
        merges(database)
        log = log_of(database)
        assert log.spans["work"].sum() == rows(database)[0]["committed"] or rows(database)[0]["state"] == "done"


def two_copies(database: StateDatabase, round_number: int, loss: float) -> None:
    """They train from step 2 to 6 each, and report this loss at the end."""
    for copy in (1, 2):
        begins(database, copy, until=6, round_number=round_number)
    for lease in opened(database):
        lease.folder.mkdir(parents=True)
        points = [{"step": 2, "loss": 5.0}, {"step": 6, "loss": loss}]
        (lease.folder / files.LOSSES).write_text("".join(f"{json.dumps(one)}\n" for one in points))
    ends(database, 6)


def given_up(database: StateDatabase) -> None:
    """Two copies do 4 steps each that are lost, after 2 that were merged; the job is retried."""
    begins(database, 1, until=2)
    ends(database, 2)
    merges(database)
    two_copies(database, 2, 4.0)
    (row,) = begun(database)
    made = Merges(database, database.folder / LEASES, Cache(database))
    made._give_up(row, "they do not fit")
    made.close()


def test_steps_of_copies_without_a_merge_are_counted_as_lost(database: StateDatabase) -> None:
    given_up(database)
    row = rows(database)[0]
    assert (row["state"], row["committed"], row["lost"]) == ("failed", 2, 8)
    log = log_of(database)
    assert (log.spans["work"].tolist(), log.jobs["done"].tolist()) == ([2.0, 0.0, 0.0], [2.0])
    assert log.jobs["wasted"].tolist() == [8.0]


def test_the_loss_curve_continues_from_the_last_merge(database: StateDatabase) -> None:
    """Steps of the next round do not include lost ones."""
    given_up(database)
    assert retry(database, "f") == 2
    two_copies(database, 3, 1.0)
    merges(database)
    assert rows(database)[0]["committed"] == STEPS
    curve = losses(database, "f")
    assert curve[curve["loss"] == 1.0]["step"].tolist() == [10.0, 10.0]
    assert curve[curve["loss"] == 4.0]["step"].tolist() == [6.0, 6.0]


def test_copies_that_keep_their_gpus_are_no_switch(database: StateDatabase) -> None:
    """A copy on GPUs that the job did not have is one; profiling runs are not."""

    def switches(*rounds: tuple[int, ...]) -> int:
        with database.writing() as connection:
            connection.change("DELETE FROM seats")
            connection.change("DELETE FROM leases")
            connection.update("jobs", {"state": "queued", "epoch": 0, "losses": 0})
            connection.change("DELETE FROM nodes")
            connection.insert("nodes", name="a", drained=False, content=NODE)
        begins(database, 0, kind=PROFILE, place=2)
        ends(database, 0)
        for number, places in enumerate(rounds, start=1):
            for copy, place in enumerate(places, start=1):
                begins(database, copy, until=1, round_number=number, place=place)
            with database.writing() as connection:
                connection.update("leases", {"running": 1.0})
            ends(database, 0)
            merges(database)
        return int(log_of(database).jobs["switches"].iloc[0])

    assert switches((0, 1), (0, 1), (1,), (0, 1)) == 1, "the last: copy 1 begins where no copy was in the round before"
    assert switches((0, 1), (0, 1)) == 0
    assert switches((0,), (1,), (0, 2)) == 2
    assert switches((0,)) == 0, "where it was profiled was elsewhere"


NODE = '{"gpus": {"V100": 1}, "up": true, "note": "", "memory_bytes": {}}'
