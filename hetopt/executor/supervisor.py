"""Supervises a runner, so that what a killed runner leaves behind is killed too. Standard library only.

A process that a job's shell has started does not die with its runner, and an engine may lose track of it.
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

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGURG)  # the last: to Slurm's gangs, see its engine
"""Signals that ask a runner to stop its job."""


def supervised(work: Callable[[], None], asked: Callable[[], bool]) -> tuple[dict[str, Any], int]:
    """Do ``work`` in a child process, and wait for it; what it leaves behind becomes a child of this one.

    Where this process is killed, the child is asked to stop.

    Parameters
    ----------
    work:
        For the child. Handlers of :data:`STOPPING` must be set already, and stay as they are there.
    asked:
        Whether a stopping signal has come so far.

    Returns
    -------
    tuple
        Who the child was (:func:`~hetopt.executor.lease_directory.identity`), and how it ended, as
        :func:`os.waitstatus_to_exitcode` has it.
    """
    own = os.getpid()
    processes.adopt_orphans()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ready)
            os.close(tell)  # what comes before would be lost: Python forgets signals that arrive within a fork
            processes.die_with(own, signal.SIGTERM)
            work()
            code = 0
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(OSError, ValueError):  # a full disk
                sys.stderr.flush()
            os._exit(code)

    os.close(tell)
    os.read(ready, 1)  # until the child hears signals, or is dead
    os.close(ready)

    def forward(number: int, _: FrameType | None) -> None:
        processes.send([child], number)

    for number in STOPPING:
        signal.signal(number, forward)
    who = files.identity(child)
    if asked():  # before signals were forwarded
        processes.send([child], signal.SIGTERM)
    ended, status = os.wait()
    while ended != child:
        ended, status = os.wait()
    return who, os.waitstatus_to_exitcode(status)
