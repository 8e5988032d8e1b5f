"""Processes that work side by side, and end at once when somebody stops them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context


@contextmanager
def side_by_side(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes, started afresh; an error or Ctrl-C here ends them, whatever they are doing."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - before:
            process.terminate()
        raise
    pool.shutdown()


def _leave_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; only the first one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
