"""The processes of a lease on this machine: found by their tag and their parents, and killed. Standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from hetopt.executor import lease_directory as files

KILL_SECONDS = 30.0
"""Seconds to wait for processes that have been killed: one with much memory on GPUs is not gone at once."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def of(tag: str) -> dict[int, int]:
    """Process -> its parent, of all that the node of a lease has here: with its tag, or below this process."""
    parents = {pid: parent for pid in _every() if (parent := files.parent(pid)) is not None}
    own = {pid: parents[pid] for pid in with_tag(tag) if pid in parents}
    above = {os.getpid(), *own}
    while more := {pid for pid, parent in parents.items() if parent in above and pid not in own}:
        own |= {pid: parents[pid] for pid in more}
        above |= more
    return own


def with_tag(tag: str, *, prefix: bool = False) -> list[int]:
    """Processes of this machine and user whose environment says that they belong to that node of a lease.

    Parameters
    ----------
    tag:
        The lease's tag, a dot, and the node's number; or ``runner`` for what starts it.
    prefix:
        To any whose tag begins so.
    """
    return [pid for pid, own in tagged() if (own.startswith(tag) if prefix else own == tag)]


def tagged() -> Iterator[tuple[int, str]]:
    """(process, tag) of every process of this user that belongs to some lease."""
    start = files.TAG_VARIABLE.encode() + b"="
    for pid in _every():
        try:
            content = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if start in content and files.started(pid) is not None:
            own = [entry for entry in content.split(b"\0") if entry.startswith(start)]
            yield from ((pid, entry[len(start) :].decode(errors="replace")) for entry in own)


def _every() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to those of them that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def bury(kept: Collection[int] = ()) -> bool:
    """Take the remains of children that have ended, but of those kept; whether this process has no child any more."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in kept:
                return False
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return True
    return False


def kill_all(tag: str, bury: Callable[[], bool] = bury) -> list[int]:
    """Kill what the node of a lease has here until nothing is left; the processes that would not die in time.

    Parameters
    ----------
    tag:
        Of the node of the lease.
    bury:
        Takes the remains of children; whether none is left.
    """
    deadline = files.now() + KILL_SECONDS
    while True:
        here = of(tag)
        send(here, signal.SIGKILL)
        if bury() and not here:
            return []
        if files.now() > deadline:
            return sorted(here)
        time.sleep(0.05)


def adopt_orphans() -> None:
    """Whatever processes below this one leave behind becomes its child."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have this process sent a signal when its parent dies, or ended at once where that has happened."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
