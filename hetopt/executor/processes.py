"""The processes of a lease on this machine: found and killed. Standard library only.

Where this user may make cgroups (version 2), a job runs in its own: that finds processes also if they have changed both
their environment and their parent. Everywhere, processes are found by the tag in their environment and by parents.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from hetopt.executor import lease_directory as files

KILL_SECONDS = 30.0
"""Longest wait for killed processes to vanish; one with much memory on GPUs needs time."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class JobProcesses:
    """The processes of one node of a lease.

    Parameters
    ----------
    tag:
        Of the node: the lease's tag, a dot, and the number of the node. None: only descendants of this process.
    cgroups:
        Whether the job may have its own cgroup; false where the engine already tracks processes by cgroups.

    Attributes
    ----------
    cgroup:
        The cgroup of the job, below that of this process; None where there can be none.
    """

    def __init__(self, tag: str | None, *, cgroups: bool = True) -> None:
        own = own_cgroup() if cgroups and tag is not None else None
        self.tag, self.cgroup = tag, None if own is None or tag is None else own / tag

    def join(self) -> None:
        """Move this process into the cgroup where possible; the first one makes it."""
        if (cgroup := self.cgroup) is None:
            return
        for _ in range(3):  # a controller that starts removes empty ones
            with suppress(OSError):
                cgroup.mkdir(exist_ok=True)
                (cgroup / "cgroup.procs").write_text("0")
                return

    def pids(self) -> dict[int, int]:
        """Process -> its parent: of all in the cgroup, with the tag, or descended from this process."""
        parents = {pid: parent for pid in _all_pids() if (parent := files.parent(pid)) is not None}
        found = [pid for pid, tag in tagged() if tag == self.tag]
        if self.cgroup is not None:
            found += cgroup_pids(self.cgroup)
        own = {pid: parents[pid] for pid in found if pid in parents}
        above = {os.getpid(), *own}
        while more := {pid for pid, parent in parents.items() if parent in above and pid not in own}:
            own |= {pid: parents[pid] for pid in more}
            above |= more
        return own

    def kill(self, reap: Callable[[], bool]) -> list[int]:
        """Kill until no process is left; those that did not die in time.

        Parameters
        ----------
        reap:
            Reaps ended children; returns whether none is left.
        """
        deadline = files.now() + KILL_SECONDS
        while True:
            if self.cgroup is not None:
                kill_cgroup(self.cgroup)
            here = self.pids()
            send(here, signal.SIGKILL)
            if reap() and not here and (self.cgroup is None or not self.cgroup.exists()):
                return []
            if files.now() > deadline:
                return sorted(here)
            time.sleep(0.02)


# -- by their tags


def tagged() -> Iterator[tuple[int, str]]:
    """Process and tag of every process of this user that belongs to a lease; runners have ``TAG.runner``."""
    for pid in _all_pids():
        if (tag := tag_of(pid)) is not None:
            yield pid, tag


def tag_of(pid: int) -> str | None:
    """The tag in the environment of a process; None without one, or where it cannot be read."""
    start = files.TAG_VARIABLE.encode() + b"="
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if start not in content or files.started(pid) is None:
        return None
    return next((v[len(start) :].decode(errors="replace") for v in content.split(b"\0") if v.startswith(start)), None)


def belongs(pid: int, prefix: str) -> bool:
    """Whether a process is part of a lease with this prefix: by its tag, that of an ancestor, or its cgroup."""
    above: int | None = pid
    while above:
        if (tag_of(above) or "").startswith(prefix):
            return True
        above = files.parent(above)
    return f"/{prefix}" in (files.read_text(Path(f"/proc/{pid}/cgroup")) or "")


def describe(pid: int) -> str:
    """Number, name and user of a process, as far as they are visible."""
    name = (files.read_text(Path(f"/proc/{pid}/comm")) or "").strip()
    try:
        user = os.stat(f"/proc/{pid}").st_uid
        owner = f" of {pwd.getpwuid(user).pw_name}"
    except KeyError:
        owner = f" of user {user}"
    except OSError:
        owner = ""
    return f"process {pid}" + (f" ({name})" if name else "") + owner


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


# -- by cgroups of version 2


def _cgroup_mount() -> Path | None:
    """Where cgroups of version 2 are mounted."""
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        return next((Path(line.split()[1]) for line in mounts if line.split()[2] == "cgroup2"), None)


def own_cgroup() -> Path | None:
    """The cgroup of this process; None without cgroups of version 2."""
    if (mount := _cgroup_mount()) is None:
        return None
    with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as lines:
        own = next((line.rstrip("\n")[3:] for line in lines if line.startswith("0::")), None)
    return None if own is None else mount / own.lstrip("/")


def _cgroups() -> Iterator[Path]:
    if (mount := _cgroup_mount()) is not None:
        for folder, names, _ in os.walk(mount):
            yield from (Path(folder, name) for name in names)


def cgroups_of(tags: Collection[str]) -> list[Path]:
    """All cgroups of nodes of these leases."""
    return [cgroup for cgroup in _cgroups() if cgroup.name.rpartition(".")[0] in tags] if tags else []


def remove_empty_cgroups() -> None:
    """Remove the cgroups of leases of any cluster in which no process is left.

    The controller removes those of its leases; others remain where it never runs again after runner and supervisor were
    killed.
    """
    for cgroup in _cgroups():
        if re.fullmatch(r"hetopt-.+-\d+-\d+-\d+\.\d+", cgroup.name):
            _remove(cgroup)


def cgroup_pids(cgroup: Path) -> list[int]:
    """The processes in a cgroup and in those below it."""
    found: list[int] = []
    for folder, _, _ in os.walk(cgroup):
        with suppress(OSError):
            found += [int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()]
    return found


def kill_cgroup(cgroup: Path) -> None:
    """Kill all processes in a cgroup, and remove it once it is empty."""
    with suppress(OSError):
        (cgroup / "cgroup.kill").write_text("1")
    _remove(cgroup)


def _remove(cgroup: Path) -> None:
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with suppress(OSError):  # not empty
            os.rmdir(folder)


# -- signals, parents and children


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to the processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reap(exempt: Collection[int] = ()) -> bool:
    """Reap ended children other than ``exempt``; whether this process has no child any more."""
    try:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid in exempt:
                return False
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:
        return True
    return False


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Get a signal when the parent dies; exit at once where it is dead already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)
