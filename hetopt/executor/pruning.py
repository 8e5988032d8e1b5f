"""Removes what a cluster that runs for long leaves behind: directories of old leases, and events that the log file has.

A directory goes in two steps, so that a crash at any moment leaves nothing half-removed under a name that somebody
reads: it is renamed, and then removed; what is left of that the next run removes. Rows of jobs, leases, speeds and
rounds stay: metrics are of all that ever happened.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hetopt.executor.connection import Connection
from hetopt.executor.lease_directory import sync_folder
from hetopt.executor.leases_folder import MARK
from hetopt.executor.measured_log import KINDS
from hetopt.executor.state_database import EVENTS, LEASES, StateDatabase, last_logged

ASIDE = ".pruned-"
"""What stands before the name of a directory that is being removed."""

AT_ONCE = 10000
"""Events that go in one transaction: others wait for it."""


@dataclass
class Pruned:
    """What went, or would go.

    Attributes
    ----------
    directories, bytes:
        Of leases and of merges.
    events:
        Rows of the books.
    problems:
        Of directories that could not be removed; the next run tries it again.
    """

    directories: int = 0
    bytes: int = 0
    events: int = 0
    problems: list[str] = field(default_factory=list)


def prune(database: StateDatabase, older: float, *, dry_run: bool = False) -> Pruned:
    """Remove directories of leases, and of merged checkpoints, that nobody needs any more, and events.

    A lease's goes once it is sealed for ``older`` seconds, and its job, unless it is still queued or running, is over
    for as long. A job's committed checkpoint stays with all that lies beside it, and so do copies and merges whose
    steps are not committed yet. Anybody may drive or change the cluster meanwhile.

    Parameters
    ----------
    older:
        Seconds of the cluster, which stand still while its machine is off.
    dry_run:
        Only look.
    """
    limit, found = database.now() - older, Pruned()
    with database.reading() as connection:
        # All of these stay so: what is sealed and merged is never resumed from, unless it is committed already.
        leases = old_leases(connection, limit)
        merges = old_merges(connection, database.cluster, limit)
        told = connection.column("SELECT DISTINCT folder FROM leases")
        folders = sorted({Path(folder) for folder in told if folder} | {database.folder / LEASES})
    for folder in folders:
        names = _directories(folder, found)
        left = [name for name in names if re.fullmatch(rf"{re.escape(ASIDE)}\w+-{database.cluster}-[\d-]+", name)]
        own = [name for name in names if name in leases]
        merged = [name for name in names if name in merges]
        if dry_run:
            found.directories += len(left) + len(own) + len(merged)
            found.bytes += sum(_size(folder / name) for name in left + own + merged)
            continue
        for name in left:
            _remove(folder / name, found)
        for name in own:
            if _set_aside(folder, name, found):
                _remove(folder / (ASIDE + name), found)
        if merged:
            with database.writing() as connection:  # a job that is tried again merges under the same name
                still = old_merges(connection, database.cluster, limit)
                gone = [name for name in merged if name in still and _set_aside(folder, name, found)]
            for name in gone:
                _remove(folder / (ASIDE + name), found)
    found.events = _forget_events(database, limit, dry_run=dry_run)
    return found


def old_leases(connection: Connection, limit: float) -> set[str]:
    """Tags of the leases whose directories nobody needs any more, by the books."""
    query = """
        SELECT leases.tag FROM leases JOIN jobs ON jobs.id = leases.job
        WHERE leases.state = 'sealed' AND leases.sealed <= :limit AND (leases.forked = 0 OR leases.merged = 1)
            AND (jobs.state = 'queued' OR jobs.finished <= :limit)"""
    return set(connection.column(query, limit=limit)) - _needed(connection)


def old_merges(connection: Connection, cluster: str, limit: float) -> set[str]:
    """Names that folders of merged checkpoints have, of which the same is true; a job that may run on keeps its own."""
    query = """
        SELECT id FROM jobs
        WHERE state != 'queued' AND finished <= :limit
            AND id NOT IN (SELECT job FROM leases WHERE state != 'sealed' OR forked = 1 AND merged = 0)
            AND id NOT IN (SELECT job FROM merges WHERE done = 0)"""
    return {f"merged-{cluster}-{job}" for job in connection.column(query, limit=limit)} - _needed(connection)


def _needed(connection: Connection) -> set[str]:
    """Names on the paths of all checkpoints that somebody may still read.

    Names, not paths: the state may have been called by another path when they were written.
    """
    paths = connection.column("""
        SELECT checkpoint FROM jobs WHERE checkpoint IS NOT NULL
        UNION ALL SELECT resume_dir FROM leases WHERE state != 'sealed' AND resume_dir IS NOT NULL
        UNION ALL SELECT folder FROM merges WHERE done = 0""")
    for parts in connection.column("SELECT parts FROM merges WHERE done = 0"):
        paths += [path for path, _ in json.loads(parts)]
    return {name for path in paths for name in Path(path).parts}


# -- directories


def _directories(folder: Path, found: Pruned) -> list[str]:
    """What lies in a folder of lease directories, without links; nothing where it is not there as it was."""
    if not os.path.exists(folder / MARK):
        return []
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as problem:
        found.problems.append(f"{folder}: {problem.strerror or problem}")
        return []


def _set_aside(folder: Path, name: str, found: Pruned) -> bool:
    """Whether it has another name now, under which nobody looks for it."""
    try:
        os.rename(folder / name, folder / (ASIDE + name))
    except FileNotFoundError:  # somebody else removes it
        return False
    except OSError as problem:
        found.problems.append(f"{folder / name}: {problem.strerror or problem}")
        return False
    return True


def _remove(folder: Path, found: Pruned) -> None:
    size = _size(folder)
    try:
        shutil.rmtree(folder)  # which follows no link
    except FileNotFoundError:  # somebody else removes it, too
        return
    except OSError as problem:
        found.problems.append(f"{folder}: {problem.strerror or problem}")
        return
    found.directories += 1
    found.bytes += size


def _size(folder: Path) -> int:
    """Bytes of all files in it."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(where, name)).st_size
    return size


# -- events


def _forget_events(database: StateDatabase, limit: float, *, dry_run: bool) -> int:
    """Remove old events that the log file has; how many.

    Those stay that :func:`~hetopt.executor.measured_log.log_of` reads; the newest, by which the clock goes on after a
    restart of the machine; and the newest of a controller, which names the engine.
    """
    query = """
        SELECT id FROM events
        WHERE time <= :limit AND kind NOT IN (SELECT value FROM json_each(:kept)) AND id <= :logged
            AND id < (SELECT max(id) FROM events) AND time < (SELECT max(time) FROM events)
            AND id != (SELECT coalesce(max(id), 0) FROM events WHERE kind = 'controller')
        ORDER BY id"""
    logged = _logged(database.folder)
    with database.reading() as connection:
        old = connection.column(query, limit=limit, kept=list(KINDS), logged=logged)
    gone = "DELETE FROM events WHERE id IN (SELECT value FROM json_each(:old))"
    for begin in range(0, 0 if dry_run else len(old), AT_ONCE):
        with database.writing() as connection:
            connection.change(gone, old=old[begin : begin + AT_ONCE])
    return len(old)


def _logged(folder: Path) -> int:
    """Number of the last event that the log file has whole, and on the disk; 0 where it has none."""
    try:
        with open(folder / EVENTS, "rb") as file:
            last, _ = last_logged(file)
            os.fsync(file.fileno())
        sync_folder(folder)
    except OSError:
        return 0
    return last or 0
