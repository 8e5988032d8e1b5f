"""Running tasks in several processes, which end together with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from threading import Thread
from typing import Any, TypeVar

from hetopt.errors import InvalidOption

Result = TypeVar("Result")

CALLS = count()
"""Numbers the calls of :func:`run_parallel`."""

POLL_SECONDS = 0.5
"""Time between two checks of a worker for the end of its parent."""


def run_parallel(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[tuple[Any, ...], Result]]:
    """Yield the arguments and the result of each task, in order of completion.

    Workers are new processes, which start in the current folder, leave Ctrl-C to this process and print to standard
    error. They end when a task raises an error, when the iterator is closed, and when this process ends, whatever they
    are doing.

    Parameters
    ----------
    work:
        The function to call; with its arguments and results it can be sent to other processes.
    tasks:
        Arguments of each call.
    jobs:
        Number of processes; -1: one per core; 1: everything runs in this process. Within
        ``joblib.parallel_config(backend=…)`` that backend runs the tasks, e.g. Dask on several hosts.

    Raises
    ------
    InvalidOption
        A process was killed.
    """
    if jobs == 1:
        yield from ((task, work(*task)) for task in tasks)
        return
    from joblib import Parallel, delayed

    start = (os.getpid(), sys.path, next(CALLS))  # with other arguments than before, joblib starts new processes
    pool = Parallel(jobs, return_as="generator_unordered", batch_size=1, initializer=_start_worker, initargs=start)
    try:
        for i, result in pool(delayed(_run)(work, i, task) for i, task in enumerate(tasks)):
            yield tasks[i], result
    except BrokenProcessPool:
        raise InvalidOption(
            f"jobs is {jobs}: a process was killed, perhaps because memory ran out; repeat it with fewer jobs"
        ) from None


def _run(work: Callable[..., Result], i: int, task: tuple[Any, ...]) -> tuple[int, Result]:
    return i, work(*task)


def _start_worker(parent: int, search_path: list[str], _call: int) -> None:
    sys.path[:] = search_path  # joblib replaces "" by the folder in which the parent began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr
    Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
