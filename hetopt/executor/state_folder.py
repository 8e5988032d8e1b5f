"""The folder with the state of a cluster, and what is checked before anything in it is read.

Apart from the database, so that completion in shells need not import that.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from hetopt.errors import UnusableFile

DATABASE, LOCK, EVENTS, LEASES = "state.db", "controller.lock", "events.jsonl", "leases"

LOGGED = "events.logged"
"""Number of the last event that was ever in the log file, which an administrator may rotate or remove."""

MIN_FREE_BYTES = 65536
"""With less room on the disk SQLite cannot even begin to read a database that no process has open."""

NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "glusterfs", "fuse.sshfs", "9p", "afs"}
"""File systems on which SQLite's locks cannot be relied on."""


class UnwritableDisk(UnusableFile):
    """The disk of the state is full or read-only."""


def default_folder() -> Path:
    """``$HETOPT_STATE``, else ``$XDG_STATE_HOME/hetopt``, else ``~/.local/state/hetopt``."""
    if own := os.environ.get("HETOPT_STATE"):
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "hetopt"


def check_folder(folder: Path, *, make: bool) -> None:
    """Check owner, mode and file system of a state folder; no file in it is read before.

    Parameters
    ----------
    make:
        Make it, for its owner alone, where it is absent; otherwise that is an error.

    Raises
    ------
    UnusableFile
        It is absent and cannot be made, belongs to another user, is open to others, or is on a file server.
    """
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
    except (FileExistsError, NotADirectoryError):
        raise UnusableFile("is not a folder").in_file(str(folder)) from None
    except OSError as problem:
        if isinstance(problem, FileNotFoundError) and not make:
            raise no_state(folder) from None
        raise UnusableFile.of(problem, folder, "made" if make else "read") from None
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableFile("is not a folder").in_file(str(folder))
    if status.st_uid != os.geteuid():
        owner, own = user_name(status.st_uid), user_name(os.geteuid())
        raise UnusableFile(
            f"{folder} belongs to user {owner}, and this process runs as {own}: a cluster has one user. "
            f"Run it as {owner}, or name another folder with --state"
        )
    if (mode := status.st_mode & 0o777) & 0o077:
        raise UnusableFile(
            f"{folder} may be entered by other users (mode {mode:o}); it must be 700: chmod 700 {folder}"
        )
    if (kind := file_system(folder)) in NETWORKED:
        raise UnusableFile(
            f"{folder} is on {kind}; the state must be on a local disk (lease directories may be shared, see --leases)"
        )


def check_not_lost(folder: Path) -> None:
    """Refuse to make a new database beside leases or events, which are those of a database that was lost.

    Raises
    ------
    UnusableFile
        There are such files.
    """
    if _left(folder) and file_size(folder / DATABASE) is None:  # else another process has just made it
        raise lost_database(folder)


def lost_database(folder: Path) -> UnusableFile:
    """The error for a folder whose database is empty or absent though it had one."""
    found = _left(folder)
    beside = f", but files of a cluster ({', '.join(found)}) are beside it" if found else ""
    return UnusableFile(
        f"{folder / DATABASE} is empty or absent{beside}, so no new cluster is begun: restore {DATABASE} from a "
        f"backup, or, to begin again, end the processes of its jobs and move {folder} away"
    )


def _left(folder: Path) -> list[str]:
    """What a cluster has left in a folder beside its database."""
    found = [name for name in (EVENTS, LOGGED, f"{DATABASE}-wal") if file_size(folder / name)]
    return found + [LEASES] * any(path.is_dir() for path in folder.glob(f"{LEASES}/*"))


def no_state(folder: Path) -> UnusableFile:
    """The error for a folder without a cluster."""
    return UnusableFile(
        f"{folder} has no state of a cluster; `hetopt submit` and `hetopt run` make it, --state names it"
    )


def file_size(path: Path) -> int | None:
    """Bytes of a file; None where it is absent."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def user_name(number: int) -> str:
    """Name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def disk_problem(folder: Path) -> str | None:
    """Why nothing can be written on the disk of a folder: it is full or read-only; None where neither holds."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {folder} is read-only"
    free = disk.f_bavail if os.geteuid() else disk.f_bfree  # some blocks are reserved for root
    if disk.f_blocks and free * disk.f_frsize < MIN_FREE_BYTES:  # without blocks: the file system reports no sizes
        return f"the disk of {folder} is full"
    return None


def file_system(path: Path) -> str:
    """Kind of the file system of a folder, such as ``ext4``."""
    best, kind = "", ""
    target = os.path.realpath(path)
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            _, where, what, *_ = line.split(" ")
            where = where.encode().decode("unicode_escape")
            if (target == where or target.startswith(where.rstrip("/") + "/")) and len(where) >= len(best):
                best, kind = where, what
    return kind
