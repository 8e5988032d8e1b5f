"""Processes that work side by side, and end at once when somebody stops them."""

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
    """So many processes, started afresh; they end with this one or its error, whatever they and it are doing."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_as_helper)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - before:
            process.terminate()
        raise
    pool.shutdown()


def _as_helper() -> None:
    """Ctrl-C reaches all processes of a terminal; only the first one answers it, and none outlives it."""
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
    """What other people's code prints goes to standard error, so that standard output holds the results alone."""
    with redirect_stdout(sys.stderr):
        yield
