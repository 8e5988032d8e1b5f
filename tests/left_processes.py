"""Processes that a test has started and not ended are found, killed and reported.

The process of the tests adopts whatever loses its parent, as a service manager does. So all that a test has started
stays below it, in whatever session, group or environment it is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

LOOKS = 10_000
"""After so many looks what has been asked to end, or killed, must be gone: over 200 s, and longer on a machine that
stands still meanwhile."""

PR_SET_CHILD_SUBREAPER = 36

HELPERS = (
    "joblib.externals.loky",
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "chrome_crashpad_handler",
)
"""What Python, joblib and Chromium start again at any time: it ends with the process of the tests, or with the browser,
and Chromium's leaves the processes below the browser."""


LENT: set[int] = set()
"""Processes started in a test that belong to a fixture of a wider scope, which ends them."""

PARENTS: set[int] = set()
"""Processes of a fixture that start and end children as they need them, as a browser does: a child that comes while
one test runs is not left by that test."""


def adopt_orphans() -> bool:
    """Whether this process is from now on the parent of descendants whose own has ended."""
    try:
        return ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (AttributeError, OSError):
        return False  # not Linux, where the executor does not run either


def children(pid: int | str = "self") -> list[int]:
    """Its children, zombies too."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except OSError:
        return found  # it has ended meanwhile
    return found


def descendants() -> set[int]:
    """All processes below this one that live or wait to be reaped, but not those below `PARENTS`."""
    found, new = set[int](), children()
    while new:
        found.update(new)
        new = [below for pid in new if pid not in PARENTS for below in children(pid) if below not in found]
    return found


def command(pid: int) -> str:
    """What it was started as; nothing of a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def end_all_but(before: set[int]) -> list[str]:
    """Wait a while for all other descendants to end, then kill what is left; their commands."""
    looks, killed, seen = 0, dict[int, str](), set[int]()
    while True:
        found = descendants() - before
        left = [pid for pid in found if not gone(pid)]
        if not left and found == seen:  # otherwise a parent may have ended in this look, before its child was seen
            break
        if looks > LOOKS:
            for pid in left:
                killed.setdefault(pid, command(pid))
                _kill(pid)
            assert looks < 2 * LOOKS, f"processes that cannot be killed: {killed}"
        if left:
            time.sleep(0.02)
        looks, seen = looks + 1, found
    return [f"{pid}: {text}" for pid, text in killed.items()]


def gone(pid: int) -> bool:
    """Whether it is none of those that must end; zombies of this process are reaped."""
    if _alive(pid):
        text = command(pid)  # empty for a moment while it starts another program
        return pid in LENT or any(name in text for name in HELPERS)
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return True  # its own parent reaps it, or has
    return pid not in children()


def _alive(pid: int) -> bool:
    """Whether it exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
