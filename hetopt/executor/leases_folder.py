"""The folder in which the directories of leases lie: whether it is the one that it was, or a file server is away."""

from __future__ import annotations

from pathlib import Path

from hetopt.errors import UnusableFile
from hetopt.executor.leases import directory
from hetopt.executor.state_database import StateDatabase

MARK = ".hetopt"
"""A file in it: where it is not, the folder is another one, or its server is away."""


def check_there(folder: Path) -> None:
    """Raise :class:`UnusableFile` where the folder is not the one that it was."""
    if not (folder / MARK).exists():
        raise UnusableFile(
            f"{folder} is not there as it was, so nothing is decided: is its file server mounted? "
            f"If all in it is lost for good: mkdir -p {folder} && touch {folder / MARK}"
        )


def check_not_away(database: StateDatabase, folder: Path) -> None:
    """Raise :class:`UnusableFile` where leases run in it, or jobs go on from checkpoints in it, and it is not there."""
    if not (folder / MARK).exists() and _is_used(database, folder):
        check_there(folder)


def make_leases_folder(database: StateDatabase, folder: Path) -> None:
    """Make it, for its owner alone; for errors see :func:`check_not_away`."""
    check_not_away(database, folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / MARK).exists():  # on a read-only disk not even its time can be changed
        (folder / MARK).touch()


def _is_used(database: StateDatabase, folder: Path) -> bool:
    with database.reading() as connection:
        leases = connection.rows("SELECT tag, folder FROM leases WHERE state != 'sealed'")
        kept = connection.column("SELECT checkpoint FROM jobs WHERE state = 'queued' AND checkpoint IS NOT NULL")
    used = [directory(row, folder) for row in leases] + [Path(path) for path in kept]
    return any(path.is_relative_to(folder) for path in used)
