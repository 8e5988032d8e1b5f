"""What a training job reads from its lease, and the files that it writes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from executor_leases import Clock, Python, content_of, full_disk, hidden, make_lease, model, steps_of, under
from hypothesis import given
from hypothesis import strategies as st

from hetopt.executor import lease
from hetopt.executor import lease_directory as files
from hetopt.executor.job_side import LEASE_VARIABLE, LIST, POLL_SECONDS, REPORT_SECONDS, RETAINED
from hetopt.executor.lease_record import LeaseRecord
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import OpenLease


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lease under which this process runs."""
    return under(make_lease(tmp_path), monkeypatch)


def never(folder: Path) -> object:
    pytest.fail("nothing is to be saved")


def fails(problem: BaseException, done: bool | None = None) -> None:
    """A job that ends with this error."""
    with lease() as job:
        if done is not None:
            job.done(done)
        raise problem


# -- the loop


def test_without_a_lease_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (LEASE_VARIABLE, "RANK", "WORLD_SIZE", "LOCAL_RANK", "HETOPT_GPU_TYPES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with lease() as job:
        assert signal.getsignal(signal.SIGTERM) == before
        assert (job.resume_step, job.resume_dir, job.total_steps, job.until_step, job.copy) == (0, None, None, None, 0)
        assert (job.rank, job.world_size, job.local_rank, job.gpu_types) == (0, 1, 0, ())
        step = job.resume_step
        while step < 5 and not job.should_stop():
            step += 1
            job.tick(step, loss=1 / step, memory_bytes=5)
            assert not job.checkpoint_due()
            job.save(step, never)
        job.done(step >= 5)
    assert step == 5
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="mine"):
        fails(RuntimeError("mine"))


def test_training_resumes_and_ends_at_the_steps_of_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"resume_step": 7, "resume_dir": str(tmp_path / "old"), "total_steps": 20, "until_step": 10, "copy": 3}
    folder = under(make_lease(tmp_path, **settings), monkeypatch)
    monkeypatch.setenv("HETOPT_GPU_TYPES", "A100,V100")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with lease() as job:
        assert (job.resume_step, job.resume_dir) == (7, tmp_path / "old")
        assert (job.total_steps, job.until_step, job.copy, job.gpu_types) == (20, 10, 3, ("A100", "V100"))
        job.save(7, never)
        step = job.resume_step
        while step < 20 and not job.should_stop():
            step += 1
            job.tick(step, loss=float(step))
        job.save(step, model())
        job.done(step >= 20)
    assert step == 10, "a copy ends with its share"
    assert steps_of(folder) == [10]
    outcome = content_of(folder, files.OUTCOME)
    assert outcome == {"step": 10, "finished": False, "asked": False}
    progress = content_of(folder, files.PROGRESS)
    assert (progress["step"], progress["first_step"]) == (10, 8)
    losses = [json.loads(line) for line in (folder / files.LOSSES).read_text().splitlines()]
    assert losses[-1] == {"step": 10, "loss": 10.0, "copy": 3, "base": 7}, "the last of the share is always there"


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]"])
def test_a_lease_that_cannot_be_read_is_an_error(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = under(make_lease(tmp_path), monkeypatch)
    (folder / files.LEASE).unlink()
    if content is not None:
        (folder / files.LEASE).write_bytes(content)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match=rf"HETOPT_LEASE is '{folder}', which has no readable lease\.json"), lease():
        pytest.fail("it must not run")
    assert signal.getsignal(signal.SIGTERM) == before
    monkeypatch.setenv(LEASE_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(OSError, match="gone"), lease():
        pytest.fail("it must not run")


# -- what it reports


@given(steps=st.lists(st.tuples(st.floats(0.01, 9), st.floats(0, 99)), min_size=2, max_size=8), after=st.floats(0, 99))
def test_the_speed_is_of_training_steps_alone(
    steps: list[tuple[float, float]], after: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither the first step, nor checkpoints, nor time after the last step counts."""
    folder, time = make_lease(tmp_path_factory.mktemp("speed")), Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "now", time)
        under(folder, patch)
        with lease() as job:
            for step, (seconds, saving) in enumerate(steps, 1):
                time.time += seconds
                job.tick(step)

                def write(folder: Path, saving: float = saving) -> None:
                    time.time += saving
                    if saving > 50:
                        raise OSError(errno.ENOSPC, "full")

                with suppress(OSError):
                    job.save(step, write)
            time.time += after
            job.save(100, model())
    progress = content_of(folder, files.PROGRESS)
    assert progress["step"] - progress["first_step"] == len(steps) - 1
    assert progress["seconds"] == pytest.approx(sum(seconds for seconds, _ in steps[1:]))
    assert content_of(folder, files.OUTCOME)["step"] == len(steps)


def test_progress_is_reported_at_intervals(folder: Path, clock: Clock) -> None:
    with lease() as job:
        job.tick(0)
        assert not (folder / files.PROGRESS).exists(), "nothing is done yet"
        job.tick(1, memory_bytes=7)
        assert content_of(folder, files.PROGRESS) == {
            "step": 1, "first_step": 1, "seconds": 0.0, "time": 1000.0, "memory_bytes": 7.0,
        }  # fmt: skip
        clock.time += REPORT_SECONDS / 2
        job.tick(2, memory_bytes=9)
        assert content_of(folder, files.PROGRESS)["step"] == 1
        clock.time += REPORT_SECONDS
        job.tick(3, memory_bytes=8)
        assert content_of(folder, files.PROGRESS) == {
            "step": 3, "first_step": 1, "seconds": 1.5 * REPORT_SECONDS, "time": clock.time, "memory_bytes": 9.0,
        }  # fmt: skip


def test_some_losses_are_left_out(folder: Path, clock: Clock) -> None:
    with lease() as job:
        for step in range(1, 101):
            clock.time += POLL_SECONDS / 10
            job.tick(step, loss=float("nan") if step == 1 else 1 / step)
            job.tick(step)
    losses = [json.loads(line) for line in (folder / files.LOSSES).read_text().splitlines()]
    assert all(point["loss"] == 1 / point["step"] for point in losses[1:])
    assert losses[0]["step"] == 1
    assert losses[0]["loss"] != losses[0]["loss"]
    assert 8 <= len(losses) <= 11


def test_other_ranks_report_problems_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = under(make_lease(tmp_path, checkpoint_seconds=0.0), monkeypatch, rank=1, size=2)
    before = sorted(folder.iterdir())
    with lease() as job:
        job.tick(1, loss=1.0)
        assert job.checkpoint_due()
        job.save(1, never)
        job.done(True)
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_does_not_stop_the_training(folder: Path, clock: Clock) -> None:
    with lease() as job:
        with full_disk(room=0):
            job.tick(1, loss=1.0)
            with pytest.raises(OSError, match="too large"):
                job.save(1, model())
            assert not job.should_stop()
        assert not (folder / files.PROGRESS).exists()
        assert steps_of(folder) == []
        clock.time += REPORT_SECONDS
        job.tick(2, loss=0.5)
        job.save(2, model())
    assert content_of(folder, files.PROGRESS)["step"] == 2
    assert steps_of(folder) == [2]
    assert hidden(folder) == []


@pytest.mark.parametrize("finished", [True, False, None])
def test_it_reports_whether_it_is_done(finished: bool | None, folder: Path) -> None:
    with lease() as job:
        job.tick(4)
        if finished is not None:
            job.done(finished)
    assert content_of(folder, files.OUTCOME) == {"step": 4, "finished": finished, "asked": False}


class OutOfMemoryError(RuntimeError):
    """As torch.cuda has it."""


@pytest.mark.parametrize(
    ("problem", "text", "memory"),
    [
        (ValueError("bad data"), "ValueError: bad data", False),
        (MemoryError(), "MemoryError: ", True),
        (OutOfMemoryError("CUDA out of memory"), "OutOfMemoryError: CUDA out of memory", True),
        (RuntimeError("CUDA error: out of memory"), "RuntimeError: CUDA error: out of memory", True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "RuntimeError: CUBLAS_STATUS_ALLOC_FAILED", True),
        (ValueError("out of memory"), "ValueError: out of memory", False),
        (KeyboardInterrupt(), "KeyboardInterrupt: ", False),
        (SystemExit(3), "SystemExit: 3", False),
        (RuntimeError("\ud800" + "x" * 5000), f"RuntimeError: \ud800{'x' * 1985}", False),
    ],
)
def test_problems_are_reported(problem: BaseException, text: str, memory: bool, folder: Path) -> None:
    with pytest.raises(type(problem)):
        fails(problem, done=True)
    outcome = content_of(folder, files.OUTCOME)
    assert outcome["problem"] == text
    assert outcome["out_of_memory"] is memory


def test_a_problem_of_any_rank_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 was only stopped for its sake; ranks that end in order write nothing."""
    folder = under(make_lease(tmp_path), monkeypatch, rank=0, size=3)
    fine = LeaseReport(cast(OpenLease, SimpleNamespace(folder=folder)))
    with lease() as job:
        job.tick(1)
    monkeypatch.setenv("RANK", "1")
    with lease() as job:
        job.tick(1)
    assert not fine.out_of_memory
    assert not list(folder.glob(files.problem_file("*")))
    fine = LeaseReport(fine.lease)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(MemoryError):
        fails(MemoryError("too small"))
    assert content_of(folder, files.problem_file(2))["problem"] == "MemoryError: too small"
    assert not (folder / files.problem_file(1)).exists()
    assert content_of(folder, files.OUTCOME) == {"step": 1, "finished": None, "asked": False}
    assert fine.out_of_memory


def test_an_exit_with_code_0_is_no_problem(folder: Path) -> None:
    for code in (0, None):
        with pytest.raises(SystemExit):
            fails(SystemExit(code), done=True)
        assert content_of(folder, files.OUTCOME) == {"step": 0, "finished": True, "asked": False}


def test_an_error_of_the_job_has_precedence_over_a_full_disk(folder: Path) -> None:
    with full_disk(), pytest.raises(ValueError, match="mine"):
        fails(ValueError("mine"))
    with pytest.raises(OSError, match="too large"), full_disk(), lease() as job:
        job.done(True)
    assert not (folder / files.OUTCOME).exists()


# -- checkpoints


def test_checkpoints_are_due_after_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    folder = under(make_lease(tmp_path, checkpoint_seconds=10.0), monkeypatch)

    def write(folder: Path) -> None:
        model()(folder)
        clock.time += 100

    with lease() as job:
        clock.time += 9
        assert not job.checkpoint_due()
        clock.time += 1
        assert job.checkpoint_due()
        job.save(1, write)
        assert not job.checkpoint_due(), "the time that it takes does not count"
        clock.time += 10
        assert job.checkpoint_due()
    assert steps_of(folder) == [1]


def test_a_checkpoint_is_published_as_a_whole(folder: Path) -> None:
    def write(target: Path) -> None:
        (target / "parts").mkdir()
        (target / "parts" / "a").write_bytes(b"123")
        (target / "link").symlink_to("parts/a")
        assert target.name.startswith(".")
        assert steps_of(folder) == []

    with lease() as job:
        job.save(5, write)
        ((step, made),) = files.published(folder)
        assert (step, made.name) == (5, "step-5")
        assert content_of(made, LIST) == {"bytes": {"parts/a": 3, "link": 3}}
        job.save(5, never)
        assert hidden(folder) == []


@pytest.mark.parametrize("problem", [OSError("full"), ValueError("mine"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_previous_checkpoint(problem: BaseException, folder: Path) -> None:
    def write(folder: Path) -> None:
        model()(folder)
        raise problem

    with lease() as job:
        job.save(1, model("first"))
        with pytest.raises(type(problem)):
            job.save(2, write)
        assert steps_of(folder) == [1]
        assert hidden(folder) == []
        job.save(2, model("second"))
    assert steps_of(folder) == [2, 1]


def test_the_newest_are_retained(folder: Path) -> None:
    with lease() as job:
        for step in range(1, 7):
            job.save(step, model())
            assert steps_of(folder) == list(range(step, max(0, step - RETAINED), -1))
        (folder / files.CHECKPOINTS / "step-6" / "model.txt").write_text("")
        job.save(7, model())
    assert steps_of(folder) == [7, 5], "a damaged one is not one of them"


def test_a_list_that_was_copied_is_replaced(folder: Path) -> None:
    def copied(target: Path) -> None:
        shutil.copytree(folder / files.CHECKPOINTS / "step-1", target, dirs_exist_ok=True)
        (target / "more.txt").write_text("more")

    with lease() as job:
        job.save(1, model())
        job.save(2, copied)
        assert steps_of(folder) == [2, 1]
        assert content_of(folder / files.CHECKPOINTS / "step-2", LIST) == {"bytes": {"model.txt": 7, "more.txt": 4}}
        with pytest.raises(FileExistsError, match=r"must not contain its own files\.json"):
            job.save(3, lambda folder: (folder / LIST).write_text('{"train": ["a", "b"]}'))
    assert steps_of(folder) == [2, 1]


def test_a_vanished_lease_is_not_made_again(folder: Path) -> None:
    """An administrator may have deleted it, or its file system is not mounted any more."""
    with lease() as job:
        job.tick(1, loss=1.0)
        job.save(1, model())
        shutil.rmtree(folder)
        job.tick(2, loss=0.5)
        with pytest.raises(FileNotFoundError) as problem:
            job.save(2, model())
        assert "the lease's folder is gone" in str(problem.value)
        assert str(problem.value).endswith(f"no checkpoint can be saved: {str(folder)!r}")
        assert not job.should_stop()
        assert not folder.exists()
        folder.mkdir()  # so that the outcome can be written
    assert {path.name for path in folder.iterdir()} == {files.OUTCOME, files.PROGRESS}
    with pytest.raises(FileNotFoundError):
        _ends_after_its_lease(folder)
    assert not folder.exists()


def _ends_after_its_lease(folder: Path) -> None:
    LeaseRecord("hetopt-c-1-0-1", folder, ()).write()
    with lease():
        shutil.rmtree(folder)


def test_checkpoints_are_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        with lease() as job:
            job.save(1, model())
    finally:
        os.umask(before)
    made = folder / files.CHECKPOINTS
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made / "step-1")] == [0o700, 0o700]


SAVE = """
import sys
from hetopt.executor import lease
def write(folder):
    (folder / "model.txt").write_text("half")
    print(folder, flush=True)
    sys.stdin.readline()
with lease() as job:
    job.save(1, lambda folder: (folder / "model.txt").write_text("first"))
    job.save(2, write)
"""


def test_a_kill_during_a_save_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    folder = make_lease(tmp_path)
    for _ in range(2):
        with Python(SAVE, HETOPT_LEASE=str(folder)) as job:
            assert Path(job.read()).name.startswith(".step-2.")
            job.process.kill()
        assert steps_of(folder) == [1]
    with Python(SAVE, HETOPT_LEASE=str(folder)) as job:
        job.read()
        job.send()
        assert job.process.wait() == 0
    assert steps_of(folder) == [2, 1]


def test_imports_the_standard_library_alone() -> None:
    program = (
        "import sys; before = set(sys.modules); import hetopt.executor.runner\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new - set(sys.stdlib_module_names)))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["hetopt"]
