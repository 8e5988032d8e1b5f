"""The folders with the state of a cluster and with its lease directories: what is checked before they are used.

Apart from the database, so that completion in shells need not import that.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from pathlib import Path

from hetopt.errors import UnusableFile

DATABASE, LOCK, EVENTS, LEASES = "state.db", "controller.lock", "events.jsonl", "leases"

LAST_LOGGED = "events.logged"
"""Number of the last event that was ever in the log file, which an administrator may rotate or remove."""

MARK = ".hetopt"
"""A file in the folder of lease directories: where it is absent, that is another folder, or its server is away."""

LEAST_BYTES = 512
"""Of a database, which has a page at least; SQLite takes a smaller file for an empty one, and writes to it."""

MIN_FREE_BYTES = 65536
"""With less room on the disk SQLite cannot even begin to read a database that no process has open."""

NETWORKED = {"nfs", "nfs4", "cifs", "smbfs", "smb3", "ceph", "lustre", "beegfs", "glusterfs", "gpfs", "orangefs", "9p"}
NETWORKED |= {"afs", "panfs", "wekafs", "fuse.sshfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs"}
"""File systems on which SQLite's locks cannot be relied on."""


class NotWritten(UnusableFile):
    """A transaction has failed; ``problem`` is why."""

    def __str__(self) -> str:
        return f"{self.problem}; nothing has been changed"


class UnwritableDisk(NotWritten):
    """The disk of the state is full or read-only."""


def default_folder() -> Path:
    """``$HETOPT_STATE``, else ``$XDG_STATE_HOME/hetopt``, else ``~/.local/state/hetopt``."""
    if own := os.environ.get("HETOPT_STATE"):
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "hetopt"


def has_database(folder: Path, *, make: bool) -> bool:
    """Whether a state folder has a database. Its owner, mode and file system are checked before a file in it is read.

    Parameters
    ----------
    make:
        Make the folder, for its owner alone, where it is absent; otherwise that is an error, also of the database.

    Raises
    ------
    UnusableFile
        The folder is absent and cannot be made, belongs to another user, is open to others, or is on a file server; or
        its database was lost: it is empty, or absent beside leases or events, so no new cluster is to replace it.
    """
    _check_folder(folder, make=make)
    size = _size(folder / DATABASE)
    if size is not None and 0 < size < LEAST_BYTES:
        raise UnusableFile(f"{folder / DATABASE} is incomplete ({size} bytes); restore it from a backup")
    if size is None and (not _left(folder) or _size(folder / DATABASE)):  # the latter: another process has just made it
        if not make:
            raise _no_state(folder)
        return False
    if not size:
        raise lost_database(folder)
    return True


def _check_folder(folder: Path, *, make: bool) -> None:
    try:
        if make and not folder.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except OSError as problem:
        if isinstance(problem, FileNotFoundError) and not make:
            raise _no_state(folder) from None
        raise UnusableFile.of(problem, folder, "made" if make else "read") from None
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableFile("is not a folder").in_file(str(folder))
    if status.st_uid != os.geteuid():
        owner, own = _user_name(status.st_uid), _user_name(os.geteuid())
        raise UnusableFile(
            f"{folder} belongs to user {owner}, and this process runs as {own}: a cluster has one user. "
            f"Run it as {owner}, or name another folder with --state"
        )
    if (mode := status.st_mode & 0o777) & 0o077:
        raise UnusableFile(
            f"{folder} may be entered by other users (mode {mode:o}); it must be 700: chmod 700 {folder}"
        )
    if (kind := _mount(folder)[0]) in NETWORKED:
        raise UnusableFile(
            f"{folder} is on {kind}; the state must be on a local disk (lease directories may be shared, see --leases)"
        )


def lost_database(folder: Path) -> UnusableFile:
    """The error for a folder whose database is empty or absent though it had one."""
    found = _left(folder)
    beside = f", but files of a cluster ({', '.join(found)}) are beside it" if found else ""
    return UnusableFile(
        f"{folder / DATABASE} is empty or absent{beside}, so no new cluster is begun: restore {DATABASE} from a "
        f"backup, or, to begin again, end the processes of its jobs and move {folder} away"
    )


def _no_state(folder: Path) -> UnusableFile:
    """The error for a folder without a cluster."""
    return UnusableFile(
        f"{folder} has no state of a cluster; `hetopt submit` and `hetopt run` make it, --state names it"
    )


def disk_problem(folder: Path) -> str | None:
    """Why nothing can be written on the disk of a folder: it is full or read-only; None where neither holds."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if is_read_only(folder):
        return f"the disk of {folder} is read-only"
    free = disk.f_bavail if os.geteuid() else disk.f_bfree  # some blocks are reserved for root
    if disk.f_blocks and free * disk.f_frsize < MIN_FREE_BYTES:  # without blocks: the file system reports no sizes
        return f"the disk of {folder} is full"
    return None


def is_read_only(folder: Path) -> bool:
    """Whether the disk of a folder is read-only; not where that cannot be seen."""
    try:
        flags = os.statvfs(folder).f_flag
    except OSError:
        return False
    # after an error of the disk, Linux since 6.14 shows only the option
    return bool(flags & os.ST_RDONLY) or "emergency_ro" in _mount(folder)[1]


def check_leases_folder(folder: Path) -> None:
    """Raise :class:`UnusableFile` where the folder of lease directories is not the one that it was."""
    if not (folder / MARK).exists():
        raise UnusableFile(
            f"{folder} is not there as it was, so nothing is decided: is its file server mounted? "
            f"If all in it is lost for good: mkdir -p {folder} && touch {folder / MARK}"
        )


def _left(folder: Path) -> list[str]:
    """What a cluster has left in a folder beside its database."""
    found = [name for name in (EVENTS, LAST_LOGGED, f"{DATABASE}-wal") if _size(folder / name)]
    return found + [LEASES] * any(path.is_dir() for path in folder.glob(f"{LEASES}/*"))


def _size(path: Path) -> int | None:
    """Bytes of a file; None where it is absent."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _user_name(number: int) -> str:
    """Name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _mount(path: Path) -> tuple[str, list[str]]:
    """Kind of the file system of a folder, such as ``ext4``, and the options with which it is mounted."""
    longest, kind, options = "", "", ""
    target = os.path.realpath(path)
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            _, where, what, how, *_ = line.split(" ")
            if "\\" in where:
                where = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), where)
            if (target == where or target.startswith(where.rstrip("/") + "/")) and len(where) >= len(longest):
                longest, kind, options = where, what, how
    return kind, options.split(",")
