"""Running tasks in several processes, which end together with the process that started them, or on several hosts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from threading import Thread, current_thread, main_thread
from threading import enumerate as enumerate_threads
from typing import Any, TypeVar

from hetopt.dask_workers import checked_client, run_on_dask
from hetopt.errors import InvalidOption

Result = TypeVar("Result")

CALLS = count()
"""Numbers the calls of :func:`run_parallel`."""

END_SECONDS = 5.0
"""Longest wait for the end of a killed worker, or of a thread of its pool."""

POLL_SECONDS = 0.5
"""Time between two checks of a worker for the end of its parent."""


def run_parallel(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    jobs: int | str,
    killed: Callable[..., Result] | None = None,
) -> Generator[tuple[tuple[Any, ...], Result]]:
    """Yield the arguments and the result of each task, in order of completion; tasks begin in their order.

    Workers are new processes, which start in the current folder, leave Ctrl-C to this process and print to standard
    error. They end when a task raises an error, when the iterator is closed, and when this process ends, whatever they
    are doing.

    Those of Dask (see :mod:`hetopt.dask_workers`) run before and after. A task whose worker is killed is repeated in
    another one.

    Parameters
    ----------
    work:
        The function to call; with its arguments and results it can be sent to other processes.
    tasks:
        Arguments of each call.
    jobs:
        Number of processes; -1: one per core; 1: everything runs in this process. Or the address of a scheduler of
        Dask, such as ``"tcp://HEAD:8786"``, in whose workers the tasks run.
    killed:
        Called with the arguments of a task that has killed each worker of Dask in which it was tried, for its result;
        default: the error of Dask is raised.

    Raises
    ------
    InvalidOption
        A process was killed, the scheduler cannot be reached, or one of its workers cannot run tasks.
    MissingPackage
        Dask is not installed.
    """
    if isinstance(jobs, str):
        if tasks:
            yield from run_on_dask(work, tasks, jobs, killed)
        return
    if jobs == 1:
        yield from ((task, work(*task)) for task in tasks)
        return
    from joblib import Parallel, delayed

    start = (os.getpid(), sys.path, next(CALLS))  # with other arguments than before, joblib starts new processes
    pool = Parallel(jobs, return_as="generator_unordered", batch_size=1, initializer=_start_worker, initargs=start)
    others = _of_pools()
    with _manager_errors_ignored():
        results: Any = ()
        try:
            with _interrupts_held_back():  # in the new processes for good, also while they import
                results = pool(delayed(_run)(work, i, task) for i, task in enumerate(tasks))
            for i, result in results:
                yield tasks[i], result
        except BrokenProcessPool:
            raise InvalidOption(
                f"jobs is {jobs}: a process was killed, perhaps because memory ran out; repeat it with fewer jobs"
            ) from None
        except BaseException:  # also when the iterator is closed
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*have been cancelled", UserWarning)  # which is what closing is for
                if results:
                    results.close()
                for started in _of_pools() - others:
                    started.join(END_SECONDS)  # a feeder of which the pool has lost track never ends; it is idle
            raise


def number_of_workers(jobs: int | str) -> int:
    """Number of processes that :func:`run_parallel` uses now; raises as it does."""
    from joblib import effective_n_jobs

    if isinstance(jobs, int):
        return int(effective_n_jobs(jobs))
    with checked_client(jobs) as (_, number):
        return number


MANAGER, FEEDER = "ExecutorManagerThread", "QueueFeederThread"
"""Names of the threads of a pool."""


def _of_pools() -> set[BaseProcess | Thread]:
    """Processes and threads of pools; the end of this process may cut a thread off that removes a semaphore."""
    threads = {thread for thread in enumerate_threads() if thread.name in (MANAGER, FEEDER)}
    return {*multiprocessing.active_children(), *threads}


@contextmanager
def _manager_errors_ignored() -> Iterator[None]:
    """Let the manager of a pool end with a KeyError in silence, also where Ctrl-C ends the pool within joblib.

    At the end it forgets its tasks and kills its workers, and then looks for tasks that it had not sent to them yet
    [joblib 1.6, loky's ``add_call_item_to_queue``].
    """
    usual = threading.excepthook

    def hook(error: threading.ExceptHookArgs) -> None:
        if error.exc_type is not KeyError or error.thread is None or error.thread.name != MANAGER:
            usual(error)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = usual


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait until the end; processes that are started meanwhile never receive it."""
    if sys.platform == "win32" or current_thread() is not main_thread():
        yield
        return
    came = list[int]()
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    resource_tracker.ensure_running()  # its start, which comes with that of the first process, would end the mask
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit it, but no handler
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _run(work: Callable[..., Result], i: int, task: tuple[Any, ...]) -> tuple[int, Result]:
    return i, work(*task)


def _start_worker(parent: int, search_path: list[str], _call: int) -> None:
    sys.path[:] = search_path  # joblib replaces "" by the folder in which the parent began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":  # locks without names; Pyomo makes one, whose name a killed process would leave behind
        multiprocessing.set_start_method("fork", force=True)
    sys.stdout = sys.stderr
    Thread(target=_end_with_parent, args=(parent,), daemon=True).start()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
