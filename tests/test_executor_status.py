"""What `hetopt status`, the page and the metrics show without a controller, of damaged rows, and of many jobs."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dashboard_state import RecordedState, busy, seen

from hetopt.errors import UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor import snapshot as snapshot_module
from hetopt.executor.dashboard.page import lease_tip, page, runs, tenants
from hetopt.executor.lease_record import LeaseTimeouts
from hetopt.executor.prometheus import metrics_of
from hetopt.executor.snapshot import LEASE_ENDED, LEASE_EXPIRED, Snapshot, snapshot
from hetopt.executor.state_folder import LOCK
from hetopt.executor.status_view import MOST_FINISHED, show, status_of
from hetopt.presentation.terminal import OUT

RUN = 1000.0
"""Timeout of the leases in these tests, in seconds; nothing of them takes as long."""

OVER = RUN + 30.0 + LeaseTimeouts.margin_seconds
"""Seconds after which a lease has expired: with the grace period of a job, and the margin."""


def shown(now: Snapshot) -> str:
    """What `hetopt status` prints."""
    with OUT.capture() as printed:
        show(now)
    return " ".join(printed.get().split())


def metrics(now: Snapshot) -> dict[tuple[str, ...], float]:
    samples = [sample for metric in metrics_of(now) for sample in metric.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedState:
    """A job that trains on two GPUs, and an earlier controller."""
    made = RecordedState(tmp_path / "state")
    made.node("n", {"K80": 4})
    job = made.job("train", 6900.0, of={"workers": 2, "tenant": "t"})
    made.speed(job, K80=2.0)
    lease = made.lease(job, [("n", "K80", 0), ("n", "K80", 1)], 7000.0, running=7001.0, first_tick=7002.0)
    made.progress(job, lease, lease, 700)
    made.controller()
    with made.writing() as connection:
        connection.update("leases", {"ttl_seconds": RUN})
    return made


def lease_of(now: Snapshot) -> dict[str, Any]:
    (lease,) = now.leases
    return lease


def check_running(now: Snapshot) -> None:
    (job,) = now.jobs
    assert (job["state"], job["where"], job["step"], job["speed"]) == ("running", ["2 K80 on n"], 700, 2.0)
    assert job["left_seconds"] == 150.0
    assert lease_of(now)["state"] == "started"
    assert now.nodes[0]["used"] == {"K80": 2}
    assert now.expired is None


def check_stopped(now: Snapshot, step: int = 0) -> None:
    (job,) = now.jobs
    assert (job["state"], job["reason"]) == ("stopped", LEASE_EXPIRED)
    assert (job["where"], job["speed"], job["left_seconds"], job["step"]) == ([], None, None, step)
    assert lease_of(now)["state"] == "expired"
    assert now.nodes[0]["used"] == {}
    assert now.expired is not None


@pytest.mark.parametrize(("age", "check"), [(OVER - 500.0, check_running), (OVER + 500.0, check_stopped)])
def test_leases_expire_after_their_timeouts(
    recorded: RecordedState, age: float, check: Callable[[Snapshot], None]
) -> None:
    recorded.renew(lease_of(snapshot(recorded.database))["tag"], age)
    check(snapshot(recorded.database))
    recorded.database.lock()
    check_running(snapshot(recorded.database))  # a controller renews them


def test_leases_on_a_read_only_disk_expire_under_a_controller(
    recorded: RecordedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot renew them there."""
    recorded.renew(lease_of(snapshot(recorded.database))["tag"], OVER + 500.0)
    recorded.database.lock()
    check_running(snapshot(recorded.database))
    monkeypatch.setattr(snapshot_module, "is_read_only", lambda _: True)
    check_stopped(snapshot(recorded.database))


def test_the_number_of_a_controller_that_could_not_write_it_is_unknown(recorded: RecordedState) -> None:
    recorded.database.lock()
    assert snapshot(recorded.database).controller == os.getpid()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (recorded.database.folder / LOCK).write_text(f"{ended.pid}\n")
    assert snapshot(recorded.database).controller == -1


def test_the_timeouts_equal_those_of_the_runner(recorded: RecordedState) -> None:
    recorded.renew(lease_of(snapshot(recorded.database))["tag"], 500.0)
    with recorded.writing() as connection:
        connection.update("leases", {"ttl_seconds": 100.0})
    check_stopped(snapshot(recorded.database))
    with recorded.writing() as connection:
        connection.change("UPDATE jobs SET spec = json_set(spec, '$.grace', 2000.0)")
    check_running(snapshot(recorded.database))


def test_a_lease_that_was_never_renewed_expires_after_its_grant(recorded: RecordedState) -> None:
    folder = recorded.renew(lease_of(snapshot(recorded.database))["tag"])
    with recorded.writing() as connection:
        connection.update("leases", {"granted": 9000.0})
    for content in (None, "", "x", "9" * 20):  # the last as after a restart of the machine
        (folder / files.RENEWED).unlink() if content is None else (folder / files.RENEWED).write_text(content)
        check_running(snapshot(recorded.database))
    with recorded.writing() as connection:
        connection.update("leases", {"granted": 7000.0})
    check_stopped(snapshot(recorded.database))


def test_no_job_outlives_a_restart_of_the_machine(recorded: RecordedState) -> None:
    clock = json.loads(recorded.database.clock.text)
    recorded.facts(clock=json.dumps(clock | {"boot": "another"}))
    check_stopped(snapshot(recorded.database))


def test_a_stopped_job_has_the_step_of_its_last_checkpoint(recorded: RecordedState) -> None:
    folder = recorded.renew(lease_of(snapshot(recorded.database))["tag"], 2 * OVER)
    for step in (300, 600):
        checkpoint = folder / files.CHECKPOINTS / f"step-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "files.json").write_text('{"bytes": {}}' if step == 300 else "{")
    check_stopped(snapshot(recorded.database), step=300)


def test_all_views_show_that_the_job_is_stopped(recorded: RecordedState) -> None:
    recorded.renew(lease_of(snapshot(recorded.database))["tag"], OVER + 600.0)  # so it expired 10 minutes ago
    now, state = snapshot(recorded.database), seen(recorded)
    for text in (shown(now), " ".join(page(state).split())):
        assert "The leases of jobs expired 10 min ago." in text
        assert LEASE_EXPIRED in text
        assert "No job is running." in text
    assert ("0 of 4", "GPUs in use") in status_of(now).tiles
    assert ("1", "pending") in status_of(now).tiles
    found = metrics(now)
    assert found["hetopt_jobs", "stopped"] == 1.0
    assert ("hetopt_jobs", "running") not in found
    assert found["hetopt_gpus_held", "n", "K80"] == 0.0
    (run,) = runs(state.spans)
    assert run[0].until == pytest.approx(state.snapshot.now - 600.0, abs=1.0)
    assert lease_tip(run, state.snapshot.now).startswith("train of t ran on 2 K80 of n for 40 min, until 10 min ago")
    assert state.usage["t"] == pytest.approx(2 * 2400.0, abs=4.0)
    (row,) = tenants(state).table.rows
    assert [cell.text for cell in row[:4]] == ["t", "0", "1", "0"]


# -- many jobs


@pytest.mark.parametrize("number", [0, 1, 7, 100])
def test_the_newest_finished_jobs_equal_those_by_brute_force(tmp_path: Path, number: int) -> None:
    recorded = busy(tmp_path / "s", jobs=30)
    for i in range(4):
        recorded.job(f"tie-{i}", state="cancelled", finished=13_000.0)
    whole, part = snapshot(recorded.database), snapshot(recorded.database, finished=number)
    closed = sorted((job for job in whole.jobs if job["finished"] is not None), key=lambda job: -job["finished"])
    names = {job["name"] for job in closed[:number]}
    expected = [job for job in whole.jobs if job["finished"] is None or job["name"] in names]
    assert [job["name"] for job in part.jobs] == [job["name"] for job in expected]
    assert part.left_out == Counter(job["state"] for job in closed[number:])
    for key in ("hetopt_jobs", "hetopt_job_steps_done", "hetopt_gpus_held"):
        assert [pair for pair in metrics(part).items() if pair[0][0] == key] == [
            pair for pair in metrics(whole).items() if pair[0][0] == key
        ]
    assert status_of(part).tiles == status_of(whole).tiles
    assert part.plain().keys() == whole.plain().keys()


def test_the_status_of_the_newest_jobs_equals_that_of_all(tmp_path: Path) -> None:
    recorded = busy(tmp_path / "s", jobs=60)
    for i in range(2 * MOST_FINISHED):
        recorded.job(f"old-{i}", state="done", finished=100.0 + i)
    recorded.database.clock.at = 0.0  # ages do not depend on when it is read
    recorded.database.clock.base = 20_000.0 - files.now()
    whole, part = snapshot(recorded.database), snapshot(recorded.database, finished=MOST_FINISHED)
    assert len(part.jobs) < len(whole.jobs)
    assert shown(part) == shown(whole)


# -- damage


@pytest.mark.parametrize("fact", ["alerts", "round", "round_seconds", "next_round"])
def test_other_damage_is_an_error_in_one_line(recorded: RecordedState, fact: str) -> None:
    recorded.database.lock()
    recorded.facts(**{fact: "{"})
    with pytest.raises(UnusableFile, match="its content cannot be shown"):
        snapshot(recorded.database)


def test_control_characters_of_notes_and_reasons_do_not_reach_the_terminal(recorded: RecordedState) -> None:
    recorded.node("evil", {"K80": 1}, note="\x1b]0;title\x07\x1b[31mred\x9b")
    recorded.job("bad", reason="\x1b[2Jcleared\x00", state="failed", finished=9900.0)
    recorded.database.lock()
    recorded.facts(alerts=json.dumps(["\x1b[1malert\x07"]), undecided="\x1b[1mno\x07")
    now = snapshot(recorded.database)
    text = shown(now)
    for part in ("red�", "cleared�", "alert�", "no�"):
        assert part in text
    assert not [letter for letter in text if not letter.isprintable() and letter not in "\n\u202f"]
    assert now.jobs[1]["reason"] == "\x1b[2Jcleared\x00", "JSON escapes it"


def test_without_a_controller_a_lease_that_reports_its_end_is_over(recorded: RecordedState) -> None:
    """However long its timeouts still are."""
    lease = lease_of(snapshot(recorded.database))
    recorded.renew(lease["tag"], 1.0)
    assert snapshot(recorded.database).jobs[0]["state"] == "running"
    for rank in range(len(lease["seats"])):
        end = {"reason": "fenced", "codes": [0], "problem": None, "left": []}
        files.write_json(Path(lease["folder"]) / files.exit_file(rank), end)
    now = snapshot(recorded.database)
    assert (now.jobs[0]["state"], lease_of(now)["state"]) == ("stopped", "expired")
    assert now.jobs[0]["reason"] == LEASE_ENDED
    assert now.jobs[0]["left_seconds"] is None
    text = shown(now)
    assert "All processes of jobs have ended." in text
    assert "leases of jobs expired" not in text
