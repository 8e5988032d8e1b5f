"""What the files of a lease prove about its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from executor_leases import checkpoint, make_lease, seats

from hetopt.executor import lease_directory as files
from hetopt.executor.engines.engine import LeaseRecord
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import OpenLease


def ended(folder: Path, outcome: dict[str, Any] | None, *exits: dict[str, Any], **row: Any) -> LeaseReport:
    """The end of a lease with these reports."""
    own = seats(**{f"n{i}": 1 for i in range(len(exits))})
    if outcome is not None:
        files.write_json(folder / files.OUTCOME, outcome)
    for rank, fields in enumerate(exits):
        files.write_json(folder / files.exit_file(rank), {"problem": None, "left": []} | fields)
    row = {"forked": False, "kind": "train"} | row
    made = SimpleNamespace(folder=folder, nodes=LeaseRecord("t", folder, own).nodes, job="j", **row)
    return LeaseReport(cast(OpenLease, made))


DONE = {"step": 9, "finished": True, "asked": False}
CLEAN = {"reason": "ended", "codes": [0, 0]}


def test_a_job_that_reports_its_end_is_done(tmp_path: Path) -> None:
    folder = make_lease(tmp_path)
    checkpoint(folder, {"model": b"abc"}, "step-9")
    ending = ended(folder, DONE, CLEAN).result()
    assert (ending.outcome, ending.finished, ending.step, ending.failure) == ("ended", True, 9, None)


def test_a_job_without_checkpoints_can_be_done(tmp_path: Path) -> None:
    ending = ended(make_lease(tmp_path), DONE, CLEAN).result()
    assert (ending.finished, ending.step, ending.failure) == (True, None, None)


@pytest.mark.parametrize("before", [True, False])
def test_a_job_whose_last_checkpoint_is_damaged_is_not_done(tmp_path: Path, before: bool) -> None:
    """Its last checkpoint is lost: it continues from the one before, or from the start of the lease."""
    folder = make_lease(tmp_path)
    if before:
        checkpoint(folder, {"model": b"abc"}, "step-7")
    last = checkpoint(folder, {"model": b"abc"}, "step-9")
    (last / "model").write_bytes(b"a")
    ending = ended(folder, DONE, CLEAN).result()
    assert (ending.finished, ending.step) == (False, 7 if before else None)
    assert ending.failure == "its last checkpoint, of step 9, is damaged"


def test_a_killed_runner_is_no_failure_of_the_job(tmp_path: Path) -> None:
    folder = make_lease(tmp_path)
    checkpoint(folder, {"model": b"abc"}, "step-7")
    ending = ended(folder, None, {"reason": "lost", "codes": []}).result()
    assert (ending.outcome, ending.finished, ending.step, ending.failure) == ("lost", False, 7, None)


def test_messages_of_a_job_lose_control_characters_and_lone_surrogates(tmp_path: Path) -> None:
    fields = {"step": 3, "finished": False, "asked": False, "problem": "ValueError: \x1b[2J\x07\ud800 two\nlines é"}
    ending = ended(make_lease(tmp_path), fields, {"reason": "failed", "codes": [1]}).result()
    assert ending.failure == "ValueError: \ufffd[2J\ufffd? two\nlines é"


def test_a_lack_of_resources_on_a_host_is_no_failure_of_the_job(tmp_path: Path) -> None:
    host = {"reason": "ended", "codes": [], "problem": "the engine gave 0 GPUs", "host": True}
    ending = ended(make_lease(tmp_path), None, host, {"reason": "stopped", "codes": [-15]}).result()
    assert (ending.finished, ending.failure, ending.host_problem) == (False, None, "the engine gave 0 GPUs")
    job = {"reason": "ended", "codes": [], "problem": "'x' cannot be started"}
    ending = ended(make_lease(tmp_path), None, host, job).result()
    assert (ending.finished, ending.failure) == (False, "'x' cannot be started")


def test_a_lease_of_another_version_fails_with_the_reason(tmp_path: Path) -> None:
    problem = "the lease is of another version of hetopt than the one on n1"
    exits = [{"reason": "failed", "codes": [], "problem": problem}, {"reason": "stopped", "codes": [0]}]
    ending = ended(make_lease(tmp_path), None, *exits).result()
    assert (ending.outcome, ending.finished, ending.failure) == ("failed", False, problem)


def test_an_exit_report_with_processes_left_is_no_end(tmp_path: Path) -> None:
    folder = make_lease(tmp_path)
    assert ended(folder, DONE, CLEAN).has_ended
    assert not ended(folder, DONE, CLEAN | {"left": [4711]}).has_ended
    assert not ended(folder, DONE, CLEAN, CLEAN | {"left": None}).has_ended


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": None},
        {"reason": ["ended"]},
        {"codes": None},
        {"codes": "00"},
        {"codes": ["0"]},
        {"problem": ["no"]},
        {"left": "none"},
    ],
)
def test_an_invalid_exit_report_proves_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    assert not ended(make_lease(tmp_path), DONE, CLEAN | wrong).has_ended


@pytest.mark.parametrize("step", [2**64, 10**400, -1, 1e300, float("nan"), float("inf"), "9", None, [9]])
def test_an_invalid_step_is_ignored(tmp_path: Path, step: Any) -> None:
    folder = make_lease(tmp_path)
    files.write_json(folder / files.PROGRESS, {"step": step, "first_step": 1, "seconds": 1.0, "time": 1.0})
    checkpoint(folder, {"model": b"abc"}, "step-99999999999999999999")
    checkpoint(folder, {"model": b"abc"}, "step-7")
    report = ended(folder, DONE | {"step": step}, CLEAN)
    assert report.timed == (0.0, 0.0)
    ending = report.result()
    assert (ending.ticked, ending.step, ending.checkpoint_bytes) == (None, 7, 3.0)


@pytest.mark.parametrize("call", ["listdir", "read_bytes"])
def test_an_unreachable_file_server_does_not_prove_a_missing_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    folder = make_lease(tmp_path)
    checkpoint(folder, {"model": b"abc"}, "step-9")
    report = ended(folder, DONE, CLEAN)
    assert report.has_ended

    def away(*_: object) -> object:
        raise OSError(errno.EIO, "away")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, call) if call == "listdir" else (Path, call)), away)
        with pytest.raises(OSError, match="away"):
            report.result()
    assert report.result().step == 9


def test_progress_before_the_end_is_seen_at_the_end(tmp_path: Path) -> None:
    """A command without a report is done where it reported no progress; it may have begun to after the first look."""
    folder = make_lease(tmp_path)
    report = ended(folder, None)
    assert (report.progress, report.outcome) == ({}, {})
    files.write_json(folder / files.PROGRESS, {"step": 5, "first_step": 1, "seconds": 2.0, "time": 1.0})
    last = ended(folder, None, {"reason": "ended", "codes": [0]})
    report = LeaseReport(last.lease)
    report.__dict__["progress"] = {}  # as it was before
    ending = report.result()
    assert (ending.finished, ending.ticked) == (False, 5)
    assert report.timed == (4.0, 2.0)


@pytest.mark.parametrize("content", ['{"version": 2}', '{"version": 2, "seats": [[1]], "command": []}', "[]", "{"])
def test_a_damaged_lease_file_is_none(tmp_path: Path, content: str) -> None:
    folder = make_lease(tmp_path)
    assert LeaseRecord.read(folder) is not None
    (folder / files.LEASE).write_text(content)
    assert LeaseRecord.read(folder) is None


def test_a_published_file_stays_where_its_spare_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(Path, "unlink", fail)
    files.write_json(tmp_path / "one.json", {"a": 1})
    assert files.read_json(tmp_path / "one.json") == {"a": 1}
    assert files.claim(tmp_path, 0, files.identity())
