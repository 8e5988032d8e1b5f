"""Worker processes that end together with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start this number of fresh processes; an error or the end of this process ends them, whatever they are doing."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - before:
            process.terminate()
        raise
    pool.shutdown()


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, write to standard error, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect what other code prints to standard error, so that standard output contains only the results."""
    with redirect_stdout(sys.stderr):
        yield
