"""The folder of the lease directories: whether it is the one that it was, or a file server is away."""

from __future__ import annotations

from pathlib import Path

from hetopt.errors import UnusableFile
from hetopt.executor.leases import directory
from hetopt.executor.state_database import StateDatabase

MARK = ".hetopt"
"""A file in it: where it is absent, the folder is another one, or its server is away."""


def check_there(folder: Path) -> None:
    """Raise :class:`UnusableFile` where the folder is not the one that it was."""
    if not (folder / MARK).exists():
        raise UnusableFile(
            f"{folder} is not there as it was, so nothing is decided: is its file server mounted? "
            f"If all in it is lost for good: mkdir -p {folder} && touch {folder / MARK}"
        )


def make_leases_folder(database: StateDatabase, folder: Path) -> None:
    """Make it, for its owner alone; where it is there, nothing is written.

    Raises
    ------
    UnusableFile
        Leases run in it, or jobs are to resume from checkpoints in it, and it is not there; it cannot be made; or it is
        open to other users.
    """
    new = not (folder / MARK).exists()
    if new and _is_used(database, folder):
        check_there(folder)
    try:
        if new:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = folder.stat().st_mode & 0o777
        safe = not mode & 0o077 or folder.is_relative_to(database.folder)
        if new and safe:
            (folder / MARK).touch()
    except OSError as problem:
        raise UnusableFile(f"--leases {folder}: {problem.strerror}") from None
    if not safe:
        raise UnusableFile(
            f"--leases {folder} may be entered by others (mode {mode:o}), and would hold files of jobs; name a "
            f"separate folder, or chmod 700 {folder}"
        )


def _is_used(database: StateDatabase, folder: Path) -> bool:
    with database.reading() as connection:
        leases = connection.rows("SELECT tag, folder FROM leases WHERE state != 'sealed'")
        resumed = connection.column("SELECT checkpoint FROM jobs WHERE state = 'queued' AND checkpoint IS NOT NULL")
    used = [directory(row, folder) for row in leases] + [Path(path) for path in resumed]
    return any(path.is_relative_to(folder) for path in used)
