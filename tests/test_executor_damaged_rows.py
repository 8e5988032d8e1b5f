"""JSON that was changed by hand in a row of the state database: the row is marked and named, and the others go on."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from executor_cluster import node, opened, spec, with_speeds
from executor_lab import Run
from executor_old_leases import a_state, granted, sealed
from executor_stage import Stage
from hypothesis import given
from hypothesis import strategies as st

from hetopt.executor.damaged_rows import DamagedRow, merge_parts, node_fields, spec_fields
from hetopt.executor.pruning import prune
from hetopt.executor.queue import retry, spec_of, submit
from hetopt.executor.snapshot import snapshot
from hetopt.executor.state_database import StateDatabase

Make = Callable[..., Stage]

NO_SPEC = ["", "{", "[]", "null", "{}", '{"steps": "many", "workers": 1}', '{"steps": 5', "[" * 100_000]


def change(database: StateDatabase, statement: str, *values: Any) -> None:
    """Change rows as another program would."""
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute(statement, values)


def in_rows(lab: Stage) -> list[str]:
    """Messages about damage."""
    return [line for line in lab.messages if "is damaged" in line]


@pytest.mark.parametrize("text", NO_SPEC)
@pytest.mark.parametrize("profile", [True, False])
def test_a_damaged_waiting_job_fails_and_the_others_go_on(stage: Make, text: str, profile: bool) -> None:
    lab = stage(node("n", {"V100": 1}), profile=profile)
    for name in "abc":
        submit(lab.database, spec(name, model="m"))
    lab.play(2)
    change(lab.database, "UPDATE jobs SET spec = ? WHERE name = 'b'", text)
    jobs = {job["name"]: job for job in snapshot(lab.database).jobs}
    assert set(jobs) == {"a", "b", "c"}
    assert "spec of job 'b' in table jobs cannot be read" in jobs["b"]["reason"]
    assert jobs["a"]["reason"] is None
    lab.play(40)
    assert lab.states() == {"a": "done", "b": "failed", "c": "done"}
    (line,) = in_rows(lab)
    assert "spec of job 'b' in table jobs" in line
    assert "spec of job 'b' in table jobs" in snapshot(lab.database).jobs[1]["reason"]
    change(lab.database, "UPDATE jobs SET spec = ? WHERE name = 'b'", spec("b").model_dump_json())
    retry(lab.database, "b")
    lab.play(20)
    assert lab.states()["b"] == "done"


@pytest.mark.parametrize("state", ["running", "starting", "intent"])
def test_a_damaged_running_job_is_stopped_and_the_others_go_on(stage: Make, state: str) -> None:
    """It has the default grace period for a checkpoint; its GPU is free afterwards."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    if state == "starting":
        lab.engine.waits.add("n")
    if state == "intent":
        lab.engine.fails_to_start = True  # type: ignore[attr-defined]
        lab.engine.start = refuse  # type: ignore[method-assign]
    lab.play(1 if state == "intent" else 4)
    assert len(lab.leases()) == 1
    if state == "intent":
        del lab.engine.start
        (lab.leases()[0].folder / "lease.json").unlink()
    change(lab.database, "UPDATE jobs SET spec = '{' WHERE name = 'a'")
    submit(lab.database, spec("b"))
    lab.passes = 3 if state != "running" else float("inf")
    lab.play(3)
    lab.engine.waits.clear()
    lab.passes = 3
    lab.play(60, 30.0)
    assert lab.states() == {"a": "failed", "b": "done"}
    assert len([line for line in in_rows(lab) if "'a'" in line]) == 1
    with lab.database.reading() as connection:
        assert connection.value("SELECT count(*) FROM seats WHERE held") == 0


def refuse(_: object) -> None:
    from hetopt.executor.engines.engine import EngineDown

    raise EngineDown("not now")


def test_a_damaged_job_that_does_not_stop_is_given_up(stage: Make) -> None:
    """After the default grace period."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a", grace=1000.0))
    lab.play(3)
    (lease,) = lab.leases()
    assert lease.grace_seconds == 1000.0
    lab.engine.stuck.add(lease.tag)
    change(lab.database, "UPDATE jobs SET spec = '{' WHERE name = 'a'")
    lab.play(2)
    assert lab.leases()[0].grace_seconds == 30.0
    lab.play(3, 25.0)
    assert lab.leases()[0].lost_since is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"n": 1}', '{"n": {"V100": "x"}}', '{"n": {"V100": 0.5}}'])
def test_damaged_targets_are_decided_again(stage: Make, text: str) -> None:
    """Running jobs are not stopped for it."""
    lab = stage(node("n", {"V100": 2}), seconds=1000.0)
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    submit(lab.database, spec("b"))
    lab.play(4)
    before = {lease.tag for lease in lab.leases()}
    assert len(before) == 2
    change(lab.database, "UPDATE targets SET seats = ? WHERE job = 1", text)
    lab.play(3)
    assert {lease.tag for lease in lab.leases() if lease.stop_requested is None} == before
    (line,) = in_rows(lab)
    assert "seats of copy 0 of job 1 in table targets" in line
    lab.passes = 3
    lab.play(10)
    assert lab.states() == {"a": "done", "b": "done"}


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"gpus": 3}', '{"gpus": {"V100": "x"}, "up": true, "note": ""}'])
def test_a_damaged_node_is_marked_and_written_again(stage: Make, content: str) -> None:
    lab = stage(node("m", {"V100": 1}), node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(2)
    change(lab.database, "UPDATE nodes SET content = ? WHERE name = 'm'", content)
    shown = {one["name"]: one for one in snapshot(lab.database).nodes}
    assert (shown["m"]["state"], shown["n"]["state"]) == ("down", "up")
    assert shown["m"]["note"].startswith("state.db is damaged: content of node 'm' in table nodes cannot be read: ")
    submit(lab.database, spec("b", workers=1))  # checked against the nodes that can be read
    lab.play(3)
    assert [one["state"] for one in snapshot(lab.database).nodes] == ["up", "up"]
    assert len(in_rows(lab)) == 1
    assert len(lab.leases()) == 2


def test_a_damaged_merge_waits_and_the_others_go_on(stage: Make, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = stage(node("n", {"V100": 1}))
    submit(lab.database, spec("forked", fork=True))
    submit(lab.database, spec("b"))
    folder = str(lab.database.folder / "leases" / "merged-x-1" / "step-5")
    with lab.database.writing() as connection:
        connection.insert("merges", job=1, step=5, parts="[[1", folder=folder)
    lab.play(10)
    assert lab.states() == {"forked": "queued", "b": "done"}
    (line,) = in_rows(lab)
    assert "parts of merge 1 of job 1 in table merges" in line
    assert snapshot(lab.database).alerts == [line]
    with pytest.raises(DamagedRow, match="parts of merge 1"):
        prune(lab.database, 1.0)
    monkeypatch.setenv("HETOPT_STATE", str(lab.database.folder))
    code, out, err = run("prune", "--older", "1d")
    assert (code, out, err.count("\n")) == (2, "", 1)
    change(lab.database, "UPDATE merges SET parts = '[]'")
    lab.play(1)
    assert snapshot(lab.database).alerts == []


@pytest.mark.parametrize("state", ["running", "starting", "intent"])
@pytest.mark.parametrize("forked", [False, True])
def test_a_running_job_without_its_row_is_stopped_and_the_others_go_on(stage: Make, state: str, forked: bool) -> None:
    """It is not killed as a stray, and may write a checkpoint; its GPU is free afterwards."""
    lab = stage(node("n", {"V100": 1}), policy="hadare" if forked else "fifo", seconds=60.0 if forked else None)
    lab.passes = float("inf")
    submit(lab.database, spec("a", fork=forked))
    with_speeds(lab.database, 1, {"V100": 1.0})
    if state == "starting":
        lab.engine.waits.add("n")
    if state == "intent":
        lab.engine.start = refuse  # type: ignore[method-assign]
    lab.play(1 if state == "intent" else 4)
    (lease,) = lab.leases()
    assert lease.forked == forked
    if state == "intent":
        del lab.engine.start
        (lease.folder / "lease.json").unlink()
    change(lab.database, "DELETE FROM jobs WHERE name = 'a'")
    assert [one.tag for one in lab.leases()] == [lease.tag]
    assert [one["job"] for one in snapshot(lab.database).leases] == ["job 1"]
    submit(lab.database, spec("b"))
    with_speeds(lab.database, 2, {"V100": 1.0})
    lab.passes = 3
    lab.play(1)
    lab.engine.waits.clear()
    lab.play(60, 30.0)
    assert lab.states() == {"b": "done"}
    first, *again = in_rows(lab)
    damaged = f"state.db is damaged: job of lease {lease.tag} in table leases cannot be read: there is no job 1"
    assert first.startswith(damaged)
    assert again in ([], [damaged]), "without its targets, which are dropped"
    assert snapshot(lab.database).alerts == []
    with lab.database.reading() as connection:
        assert connection.value("SELECT count(*) FROM seats WHERE held") == 0
        assert connection.value("SELECT count(*) FROM events WHERE kind = 'stray'") == 0
        outcome = connection.value("SELECT outcome FROM leases WHERE tag = :tag", tag=lease.tag)
    assert outcome == ("refused" if state == "intent" else "stopped")


def test_seats_that_were_changed_are_read_again(stage: Make) -> None:
    """Also while the row of their lease is the same."""
    lab = stage(node("n", {"V100": 1}))
    lab.passes = float("inf")
    submit(lab.database, spec("a"))
    lab.play(4)
    (before,) = lab.leases()
    change(lab.database, "UPDATE seats SET device = 'GPU-1'")
    assert lab.leases() == opened(lab.database) != [before]
    change(lab.database, "INSERT INTO seats SELECT lease, 'm', gpu_type, number, device, 0 FROM seats")
    assert [seat.node for seat in lab.leases()[0].seats] == ["n", "m"]
    assert lab.leases() == opened(lab.database)
    change(lab.database, "DELETE FROM seats WHERE node = 'm'")
    assert lab.leases() == opened(lab.database)


def test_status_shows_damaged_rows_beside_the_others(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs in any state, on the terminal and on the page."""
    with a_state(tmp_path) as database:
        for name in ("alpha", "beta", "gamma"):
            submit(database, spec(name))
        for job in (1, 2):
            granted(database, job)
        sealed(database, 1, 100, finished=True)
        change(database, "UPDATE jobs SET spec = '{' WHERE name != 'gamma'")
    monkeypatch.setenv("HETOPT_STATE", str(tmp_path / "state"))
    code, out, err = run("status", "--all")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("alpha", "beta", "gamma"))
    assert len(re.findall(r"is\s+damaged", out)) == 1, "of the one that waits or has ended"
    jobs = json.loads(run("status", "--json")[1])["jobs"]
    assert ["spec of job" in (job["reason"] or "") for job in jobs] == [True, True, False]
    code, out, err = run("dashboard", "--once", "-")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("alpha", "beta", "gamma"))
    assert run("cancel", "beta")[0] == 0


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=8,
)


@given(ANY.map(json.dumps) | st.text())
def test_any_content_of_a_row_is_read_or_reported(text: str) -> None:
    """No other error is raised."""
    row = {"id": 1, "name": "a", "spec": text, "committed": 0}
    for read in (
        lambda: spec_fields(row),
        lambda: spec_of(row),
        lambda: node_fields("n", text),
        lambda: merge_parts(1, 1, text),
    ):
        with suppress(DamagedRow):
            read()


def test_rounds_are_numbered_on_where_the_fact_is_missing(stage: Make) -> None:
    lab = stage(node("n", {"V100": 1}), seconds=10.0)
    submit(lab.database, spec("a"))
    lab.play(3, 10.0)
    number = lab.controller.scheduler.number
    assert number > 0
    change(lab.database, "DELETE FROM meta WHERE key = 'round'")
    lab.restart()
    submit(lab.database, spec("b"))
    lab.play(3, 10.0)
    assert lab.controller.scheduler.number > number
