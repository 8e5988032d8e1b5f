"""Running tasks in the workers of a Dask cluster, each of which may be killed at the cost of its task alone."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from hetopt.checks import require
from hetopt.errors import InvalidOption
from hetopt.versions import versions

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

Result = TypeVar("Result")

ANSWER_SECONDS = 5.0
"""Longest wait for the first answer of a scheduler."""

POLL_SECONDS = 0.5
"""Time between two checks of a running task for its cancellation."""


@contextmanager
def checked_client(address: str) -> Iterator[tuple[Client, int]]:
    """A client of the scheduler at this address, and the number of its workers.

    Workers that have imported a module before its file was changed are started again.

    Raises
    ------
    MissingPackage
        Dask is not installed.
    InvalidOption
        No scheduler of Dask answers there, or it or a worker cannot run tasks.
    """
    if ":" not in address:
        raise InvalidOption(
            f"is {address!r}; it must be a number, or the address of a scheduler of Dask: tcp://HOST:PORT", "jobs"
        )
    require("distributed")
    from distributed import Client

    try:
        client = Client(address, timeout=ANSWER_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as problem:  # another server may answer anything
        raise InvalidOption(f"is {address!r}: no scheduler of Dask answers there ({problem})", "jobs") from None
    with client, _silent("distributed.client"):
        faults = client.run(_fault, versions(), on_error="return")
        for worker, fault in faults.items():
            if fault:
                raise _unfit(f"{worker}: {fault}")
        client.run(_end_if_outdated, on_error="ignore")
        yield client, len(faults)


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Leave out messages of a logger, whose problems are raised or solved."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _unfit(fault: object) -> InvalidOption:
    return InvalidOption(f"is a scheduler of Dask with a worker that cannot run tasks: {fault}", "jobs")


def _fault(expected: dict[str, str], dask_worker: Worker) -> str:
    """Why this worker cannot run tasks; empty if it can."""
    for name, version in versions().items():
        if version != expected[name]:
            return f"it has {name} {version}, and this command has {expected[name]}"
    if (threads := dask_worker.state.nthreads) > 1:
        return f"it runs {threads} tasks in one process; start it with --nworkers {threads} --nthreads 1"
    return "" if dask_worker.nanny else "no nanny restarts it when it is killed; start it without --no-nanny"


BEGAN = time.time()
"""When this process has imported this module."""


def _end_if_outdated() -> None:
    """End this process, which its nanny starts again, if it has imported a module before its file was changed."""
    for file in [getattr(module, "__file__", None) for module in list(sys.modules.values())]:
        with suppress(OSError):
            if isinstance(file, str) and os.stat(file).st_mtime > BEGAN:
                os._exit(1)


def run_on_dask(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    address: str,
    killed: Callable[..., Result] | None = None,
) -> Generator[tuple[tuple[Any, ...], Result]]:
    """Yield the arguments and the result of each task; see :func:`hetopt.parallel.run_parallel`.

    A task whose worker is killed is repeated on another one, as often as Dask's setting ``allowed-failures`` permits.
    Dask also blames tasks that wait at a killed worker. So a task that has failed thus is tried once more when all
    others are done and nothing else can kill its worker.
    """
    with checked_client(address) as (client, _):
        from cloudpickle import dumps
        from distributed import CancelledError, KilledWorker, as_completed

        number = f"hetopt-{uuid4().hex}"

        def submit(i: int, attempt: int = 0) -> Future[Any]:
            content = dumps((work, tasks[i]))  # the scheduler need not have the modules of either
            key = (number, i, attempt)
            return client.submit(run, content, versions(), os.getcwd(), sys.path, key=key, priority=-i, retries=0)

        def run(*arguments: Any) -> Any:  # sent as code, so that the worker without hetopt fails and does not end
            from hetopt.dask_workers import run_task

            return run_task(*arguments)

        futures = {submit(i): i for i in range(len(tasks))}
        suspects = []
        try:
            ended = as_completed(  # type: ignore[no-untyped-call]
                list(futures), client.loop, with_results=True, raise_errors=False
            )
            for future, result in ended:
                i = futures.pop(future)
                try:
                    result = result if future.status == "finished" else future.result()
                except KilledWorker:
                    suspects.append(i)
                else:
                    future.release()  # so that it is not computed again when its worker is killed
                    yield tasks[i], result
            for i in suspects:
                try:
                    yield tasks[i], submit(i, 1).result()
                except KilledWorker:
                    if killed is None:
                        raise
                    yield tasks[i], killed(*tasks[i])
        except CancelledError:
            raise InvalidOption(f"is {address!r}: the connection to the scheduler of Dask was lost", "jobs") from None
        except ImportError as problem:
            if (problem.name or "").partition(".")[0] != "hetopt":
                raise
            raise _unfit(problem) from None


def run_task(content: bytes, expected: dict[str, str], folder: str, search_path: list[str]) -> Any:
    """Run a task in a worker, in the folder of the caller if there is one of that path."""
    from pickle import loads

    from distributed import get_worker

    worker, ended = get_worker(), Event()
    if fault := _fault(expected, worker):  # it may have started later than the command
        raise _unfit(f"{worker.address}: {fault}")
    with suppress(OSError):
        os.chdir(folder)
    sys.path += [one for one in search_path if one not in sys.path]
    work, task = loads(content)
    Thread(target=_end_if_cancelled, args=(worker, worker.get_current_task(), ended), daemon=True).start()
    try:
        return work(*task)
    finally:
        ended.set()


def _end_if_cancelled(worker: Worker, key: Any, ended: Event) -> None:
    """End this process, which its nanny starts again, when its task is no longer to be run: threads cannot be ended."""
    while not ended.wait(POLL_SECONDS):
        if worker.state.tasks[key].state != "executing":
            os._exit(1)
