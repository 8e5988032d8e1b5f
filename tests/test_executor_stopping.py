"""How a training job detects that it has to stop; the ranks of a gang stop at the same step."""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from executor_leases import (
    Clock,
    Runners,
    content_of,
    ended,
    full_disk,
    make_lease,
    model,
    seats,
    steps_of,
    under,
    until,
    variable,
)
from waiting import PATIENCE

from hetopt.executor import lease
from hetopt.executor import lease_directory as files
from hetopt.executor.job_side import POLL_SECONDS, Lease
from hetopt.executor.processes import tagged


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lease under which this process runs."""
    return under(make_lease(tmp_path), monkeypatch)


def test_a_signal_only_sets_a_flag(folder: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with lease() as job:
            assert not job.should_stop()
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGTERM)
            assert until(job.should_stop, "it is asked")
            assert job.should_stop(), "it stays so"
            job.save(1, model())
        assert content_of(folder, files.OUTCOME)["asked"] is True
        assert steps_of(folder) == [1]
        assert heard == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert until(lambda: heard, "the handler before is back") == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_signal_handler_is_restored_after_an_error(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def fail() -> None:
        with lease():
            assert signal.getsignal(signal.SIGTERM) != before
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_stop_file_is_seen(folder: Path, clock: Clock) -> None:
    with lease() as job:
        assert not job.should_stop()
        (folder / files.STOP).write_text("it moves")
        assert not job.should_stop(), "the check has an interval"
        clock.time += 2 * POLL_SECONDS
        assert job.should_stop()
        (folder / files.STOP).unlink()
        clock.time += POLL_SECONDS
        assert job.should_stop(), "what was asked is not taken back"


def test_an_unreachable_file_server_does_not_fail_the_job(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "stale")

    with lease() as job:
        clock.time += 1
        with monkeypatch.context() as patch:
            for name in ("stat", "open"):
                patch.setattr(os, name, fail)
            patch.setattr("io.open", fail)
            assert not job.should_stop()
        (folder / files.STOP).write_text("it moves")
        clock.time += 1
        assert job.should_stop()


def test_it_stops_once_the_lease_is_not_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    folder = under(make_lease(tmp_path, ttl_seconds=10.0), monkeypatch)
    with lease() as job:
        for counter in range(2, 8):
            clock.time += 9
            files.renew(folder, counter)
            assert not job.should_stop()
        clock.time += 9
        assert not job.should_stop()
        clock.time += 2
        assert job.should_stop()
        files.renew(folder, 9)
        clock.time += 1
        assert job.should_stop(), "too late"
    assert content_of(folder, files.OUTCOME)["asked"] is True


def test_the_first_value_of_the_counter_is_no_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """It may be of any age."""
    under(make_lease(tmp_path, ttl_seconds=10.0), monkeypatch)
    with lease() as job:
        clock.time += 6
        assert not job.should_stop()
        clock.time += 6
        assert job.should_stop()


def test_a_lease_works_in_another_thread(folder: Path) -> None:
    before, steps = signal.getsignal(signal.SIGTERM), list[int]()

    def train() -> None:
        with lease() as job:
            assert signal.getsignal(signal.SIGTERM) == before
            while not job.should_stop():
                steps.append(len(steps) + 1)
                job.tick(steps[-1])
                time.sleep(0.01)
            job.done(False)

    thread = threading.Thread(target=train)
    thread.start()
    until(lambda: steps, "it trains")
    (folder / files.STOP).write_text("it moves")
    thread.join()
    assert content_of(folder, files.OUTCOME) == {"step": len(steps), "finished": False, "asked": True}


# -- gangs


def gang(folder: Path, size: int) -> list[Lease]:
    """The ranks of a gang, in one process."""
    ranks = []
    for rank in range(size):
        with pytest.MonkeyPatch.context() as patch:
            under(folder, patch, rank, size)
            ranks.append(Lease(folder))
    return ranks


@pytest.mark.parametrize("seed", range(12))
def test_ranks_in_lockstep_stop_at_the_same_step(seed: int, tmp_path: Path) -> None:
    """Only rank 0 gets the request; steps have any lengths, also unlike the first ones."""
    draw = random.Random(seed)
    ranks = gang(make_lease(tmp_path), 3)
    barrier, ends = threading.Barrier(3), [0, 0, 0]
    slow, asked = draw.randrange(4), draw.randrange(1, 12)
    pauses = [[draw.choice([0.0, 0.005, 0.02]) for _ in range(2 * slow)] for _ in ranks]

    def train(rank: int) -> None:
        job, step = ranks[rank], 0
        while not job.should_stop():
            if step < len(pauses[rank]):
                time.sleep(pauses[rank][step])
            with suppress(threading.BrokenBarrierError):
                barrier.wait(PATIENCE)  # no step is over before all ranks have taken part
            if barrier.broken:
                break
            step += 1
            job.tick(step)
            if rank == 0 and step == asked:
                job._on_signal(signal.SIGTERM, None)
        ends[rank] = step

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken, f"a rank waits for one that has stopped: {ends}"
    assert len(set(ends)) == 1
    assert ends[0] > asked


def test_a_full_disk_does_not_prevent_a_gang_from_stopping(tmp_path: Path) -> None:
    first, second = gang(make_lease(tmp_path), 2)
    with full_disk():
        first._on_signal(signal.SIGTERM, None)
        assert not first.should_stop()
        first.tick(1)
        second.tick(1)
        assert [first.should_stop(), second.should_stop()] == [False, False]
        first.tick(2)
        second.tick(2)
        assert [first.should_stop(), second.should_stop()] == [True, True]
    folder = make_lease(tmp_path)
    with full_disk(room=0):
        first, second = gang(folder, 2)
        first._on_signal(signal.SIGTERM, None)
        first.tick(5)
        assert not first.should_stop(), "the other rank has not read it"
    assert not first.should_stop()
    first.tick(7)
    second.tick(7)
    assert [first.should_stop(), second.should_stop()] == [True, True]


def test_a_gang_that_starts_again_within_its_lease_forgets_the_step(tmp_path: Path) -> None:
    folder = make_lease(tmp_path)
    first, second = gang(folder, 2)
    first._on_signal(signal.SIGTERM, None)
    first.should_stop()
    assert files.read_number(folder / files.STOP_AT) == 2
    first, second = gang(folder, 2)
    for job in (first, second):
        job.tick(9)
        assert not job.should_stop()


GANG = """
import mmap, os, sys, time
from hetopt.executor import lease
from hetopt.executor.job_side import POLL_SECONDS
with lease() as job, open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 24) as board:
    def at(rank):
        return int.from_bytes(board[8 * rank : 8 * rank + 8], "little")
    step, deadline = 0, time.monotonic() + 600
    while not job.should_stop():
        time.sleep(0.002 * job.rank if step % 50 else 0.05)
        step += 1
        board[8 * job.rank : 8 * job.rank + 8] = step.to_bytes(8, "little")
        while min(at(rank) for rank in range(3)) < step:
            if time.monotonic() > deadline:
                sys.exit(f"rank {job.rank} waits for the others in step {step}")
            time.sleep(0)
        job.tick(step)
    if job.rank == 0:
        job.save(step, lambda folder: (folder / "step").write_text(str(step)))
    job.done(False)
"""


def test_processes_of_a_gang_stop_at_the_same_step(tmp_path: Path) -> None:
    board = tmp_path / "board"
    board.write_bytes(bytes(24))
    with Runners(tmp_path) as runners:
        folder = runners.lease(GANG, board, own=seats(a=3))
        runner = runners.start(folder)
        until(lambda: int.from_bytes(board.read_bytes()[:8], "little") > 30, "they train")
        own = [pid for pid, tag in tagged() if tag == f"{runners.tags[0]}.0"]
        (first,) = [pid for pid in own if variable(pid, "RANK") == "0"]
        os.kill(first, signal.SIGTERM)
        content = ended(runner, folder)
    assert content == {"reason": "ended", "codes": [0, 0, 0], "problem": None, "left": []}, (
        folder / files.log_file(0)
    ).read_text()
    steps = [int.from_bytes(board.read_bytes()[8 * rank : 8 * rank + 8], "little") for rank in range(3)]
    assert steps == [files.read_number(folder / files.STOP_AT)] * 3
    assert steps_of(folder) == steps[:1]
    assert content_of(folder, files.OUTCOME)["asked"] is True
