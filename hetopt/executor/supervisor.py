"""Supervises a runner: kills the processes that a killed runner leaves behind. Standard library only.

Processes that a job's shell has started do not die with the runner, and an engine may lose track of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from hetopt.executor import lease_directory as files
from hetopt.executor import processes

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGURG)  # the last one by Slurm, see its engine
"""Signals that request a runner to stop its job."""


def supervised(work: Callable[[], None], stop_requested: Callable[[], bool]) -> tuple[dict[str, Any], int]:
    """Run ``work`` in a child process and wait for it; its orphans become children of this process.

    If this process is killed, the child gets SIGTERM.

    Parameters
    ----------
    work:
        Handlers of :data:`STOPPING` must be set before; the child keeps them.
    stop_requested:
        Whether a stopping signal has arrived so far.

    Returns
    -------
    tuple
        Identity of the child (:func:`~hetopt.executor.lease_directory.identity`), and its exit code as of
        :func:`os.waitstatus_to_exitcode`.
    """
    own = os.getpid()
    processes.adopt_orphans()
    ready, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ready)
            os.close(write_end)  # signals before are lost: Python drops those that arrive during a fork
            processes.die_with(own, signal.SIGTERM)
            work()
            code = 0
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(OSError, ValueError):  # a full disk
                sys.stderr.flush()
            os._exit(code)

    os.close(write_end)
    os.read(ready, 1)  # until the child handles signals, or is dead
    os.close(ready)

    def forward(number: int, _: FrameType | None) -> None:
        processes.send([child], number)

    for number in STOPPING:
        signal.signal(number, forward)
    identity = files.identity(child)
    if stop_requested():  # before signals were forwarded
        processes.send([child], signal.SIGTERM)
    ended, status = os.wait()
    while ended != child:
        ended, status = os.wait()
    return identity, os.waitstatus_to_exitcode(status)
