"""Worker processes: their results, and their end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from left_processes import children, command
from waiting import PATIENCE, until

from hetopt import parallel
from hetopt.errors import InvalidOption
from hetopt.parallel import run_parallel

STOPPED = "ignore:.*have been cancelled:UserWarning"
"""joblib's note that tasks were stopped."""


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_result_comes_with_its_arguments(jobs: int) -> None:
    assert dict(run_parallel(pow, [(2, n) for n in range(5)], jobs)) == {(2, n): 2**n for n in range(5)}


def test_workers_are_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an earlier call in another folder."""
    for folder in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(folder)
        assert list(run_parallel(os.getcwd, [(), ()], 2)) == [((), str(folder))] * 2


@pytest.mark.filterwarnings(STOPPED)
def test_a_finished_task_does_not_wait_for_others() -> None:
    results = run_parallel(time.sleep, [(600,), (0,)], 2)
    assert next(results) == ((0,), None)


@pytest.mark.filterwarnings(STOPPED)
def test_a_thread_that_never_ends_does_not_keep_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for tasks of a queue that joblib no longer closes."""
    released, lost = threading.Event(), "QueueFeederThread"
    monkeypatch.setattr(parallel, "END_SECONDS", 0.1)
    results = run_parallel(time.sleep, [(600,), (0,)], 2)
    next(results)
    threading.Thread(target=released.wait, name=lost, daemon=True).start()
    results.close()
    assert lost in {thread.name for thread in threading.enumerate()}
    released.set()


@pytest.mark.filterwarnings(STOPPED)
def test_no_thread_of_the_pool_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends while a thread of joblib removes a semaphore leaves a warning behind."""
    from joblib.externals.loky.backend import queues

    feed = queues.Queue._feed

    def slow(*arguments: object) -> None:
        feed(*arguments)
        time.sleep(0.5)

    monkeypatch.setattr(queues.Queue, "_feed", staticmethod(slow))
    before = set(threading.enumerate())
    results = run_parallel(time.sleep, [(600,), (0,)], 2)
    next(results)
    results.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.filterwarnings(STOPPED)
@pytest.mark.parametrize("end", ["closed", "interrupted"])
def test_tasks_that_were_not_sent_to_a_worker_yet_end_in_silence(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Joblib's manager looks for them after it has forgotten them; Ctrl-C may come while joblib waits for a result."""
    from joblib.externals.loky import process_executor

    manager = process_executor._ExecutorManagerThread
    send, sent, errors = manager.add_call_item_to_queue, list[int](), list[object]()

    def send_the_first(self: Any) -> None:
        if self.executor_flags.shutdown:
            send(self)
        elif not sent and not self.work_ids_queue.empty():
            sent.append(self.work_ids_queue.get())
            rest, self.work_ids_queue = self.work_ids_queue, queue.Queue()
            self.work_ids_queue.put(sent[0])
            send(self)
            self.work_ids_queue = rest

    monkeypatch.setattr(manager, "add_call_item_to_queue", send_the_first)
    monkeypatch.setattr(threading, "excepthook", errors.append)
    monkeypatch.setattr(parallel, "END_SECONDS", 0.1)
    before = set(workers())
    results = run_parallel(time.sleep, [(0,), (600,), (600,), (600,)], 2)
    assert next(results) == ((0,), None)
    if end == "interrupted":
        usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(results)
        signal.signal(signal.SIGINT, usual)
    results.close()
    until(lambda: not set(workers()) - before, "they have ended")
    assert not errors


def workers() -> list[int]:
    return [pid for pid in children() if "loky.backend.popen" in command(pid)]


@pytest.mark.filterwarnings(STOPPED)
def test_workers_end_when_the_caller_stops() -> None:
    before = set(workers())

    def interrupted() -> None:
        for _ in run_parallel(time.sleep, [(0,), (600,), (600,)], 2):
            assert set(workers()) - before
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    until(lambda: not set(workers()) - before, "they have ended")


def test_an_error_in_a_task_ends_the_others() -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="non-negative"):
        list(run_parallel(time.sleep, [(600,), (-1,)], 2))
    assert time.monotonic() < began + PATIENCE


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(InvalidOption, match="jobs is 2: a process was killed, perhaps because memory ran out"):
        list(run_parallel(os._exit, [(1,), (1,)], 2))


WAITING = """
import signal, time
from hetopt.parallel import run_parallel

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background of a shell
for _ in run_parallel(time.sleep, [(0,), (600,), (600,)], 2):
    print("ready", flush=True)
"""
"""A script without a guard for ``__main__``."""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(by: signal.Signals, tmp_path: Path) -> None:
    """All hold its standard output, which ends with the last of them."""
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        first.send_signal(by)
        assert first.communicate(timeout=PATIENCE)[0] == ""
