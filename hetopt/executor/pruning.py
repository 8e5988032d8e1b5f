"""Removes what a cluster that runs for long leaves behind: directories of old leases, and events that the log file has.

A directory is renamed before it is removed, so that a crash leaves nothing incomplete under a name that others read;
the next run removes the rest. Rows of jobs, leases, speeds and rounds stay: metrics are over all of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hetopt.errors import UnusableFile
from hetopt.executor.connection import Connection
from hetopt.executor.damaged_rows import merge_parts
from hetopt.executor.event_log import last_logged
from hetopt.executor.lease_directory import sync_folder
from hetopt.executor.measured_log import KINDS
from hetopt.executor.state_database import EVENTS, LEASES, StateDatabase
from hetopt.executor.state_folder import MARK

ASIDE = ".pruned-"
"""Begins the name of a directory that is being removed."""

AT_ONCE = 10000
"""Events that are removed in one transaction, for which others wait."""


@dataclass
class Pruned:
    """What was removed, or would be.

    Attributes
    ----------
    directories, bytes:
        Of leases and of merges.
    events:
        Rows of the database.
    problems:
        Messages about what could not be removed; the next run tries it again.
    """

    directories: int = 0
    bytes: int = 0
    events: int = 0
    problems: list[str] = field(default_factory=list)


def prune(database: StateDatabase, older: float, *, dry_run: bool = False) -> Pruned:
    """Remove directories of leases and of merged checkpoints that are not read any more, and old events.

    A lease's directory goes once the lease is sealed for ``older`` seconds, and its job, unless it is still queued or
    running, finished for as long. A job's committed checkpoint stays with all that is beside it, and so do copies and
    merges whose steps are not committed yet. The cluster may run and change meanwhile. Directories of leases go first,
    and need no room on the disk; what needs some is a problem where there is still none.

    Parameters
    ----------
    older:
        Seconds of the cluster, which stand still while its machine is off.
    dry_run:
        Only count.

    Raises
    ------
    DamagedRow
        It cannot be read which checkpoints are being merged.
    """
    limit, found = database.now() - older, Pruned()
    with database.reading() as connection:
        # All of these stay so: what is sealed and merged is never resumed from, unless it is committed already.
        leases = _old_leases(connection, limit)
        merges = _old_merges(connection, database.cluster, limit)
        named = connection.column("SELECT DISTINCT folder FROM leases WHERE folder != ''")
    folders = sorted({*map(Path, named), database.folder / LEASES})
    paths = [folder / name for folder in folders for name in _directories(folder, found)]
    aside = re.compile(rf"{re.escape(ASIDE)}\w+-{database.cluster}-[\d-]+")
    old = [path for path in paths if path.name in leases or aside.fullmatch(path.name)]
    merged = [path for path in paths if path.name in merges]
    if dry_run:
        found.directories, found.bytes = len(old + merged), sum(map(_size, old + merged))
        found.events = len(_old_events(database, limit))
        return found
    for path in old:
        _remove(path if aside.fullmatch(path.name) else _set_aside(path, found), found)
    try:
        if merged:
            with database.writing() as connection:  # a job that is retried merges under the same name
                still = _old_merges(connection, database.cluster, limit)
                gone = [_set_aside(path, found) for path in merged if path.name in still]
            for renamed in gone:
                _remove(renamed, found)
        events = _old_events(database, limit)
        for begin in range(0, len(events), AT_ONCE):
            part = events[begin : begin + AT_ONCE]
            with database.writing() as connection:
                connection.change("DELETE FROM events WHERE id IN (SELECT value FROM json_each(:part))", part=part)
            found.events += len(part)
    except UnusableFile as problem:
        found.problems.append(f"merged checkpoints and events that are left stay for now: {problem.problem}")
    return found


def _old_leases(connection: Connection, limit: float) -> set[str]:
    """Tags of the leases whose directories are not read any more, by the database."""
    query = """
        SELECT leases.tag FROM leases JOIN jobs ON jobs.id = leases.job
        WHERE leases.state = 'sealed' AND leases.sealed <= :limit AND (leases.forked = 0 OR leases.merged = 1)
            AND (jobs.state = 'queued' OR jobs.finished <= :limit)"""
    return set(connection.column(query, limit=limit)) - _required(connection)


def _old_merges(connection: Connection, cluster: str, limit: float) -> set[str]:
    """Names of folders of merged checkpoints that are not read any more; a job that may still run is not among them."""
    query = """
        SELECT id FROM jobs
        WHERE state != 'queued' AND finished <= :limit
            AND id NOT IN (SELECT job FROM leases WHERE state != 'sealed' OR forked = 1 AND merged = 0)
            AND id NOT IN (SELECT job FROM merges WHERE done = 0)"""
    return {f"merged-{cluster}-{job}" for job in connection.column(query, limit=limit)} - _required(connection)


def _required(connection: Connection) -> set[str]:
    """Names on the paths of all checkpoints that may still be read.

    Names, not paths: the state may have had another path when they were written.
    """
    paths = connection.column("""
        SELECT checkpoint FROM jobs WHERE checkpoint IS NOT NULL
        UNION ALL SELECT resume_dir FROM leases WHERE state != 'sealed' AND resume_dir IS NOT NULL
        UNION ALL SELECT folder FROM merges WHERE done = 0""")
    for merge in connection.tuples("SELECT id, job, parts FROM merges WHERE done = 0"):
        paths += [path for path, _ in merge_parts(*merge)]
    return {name for path in paths for name in Path(path).parts}


def _directories(folder: Path, found: Pruned) -> list[str]:
    """Names in a folder of lease directories, without links; none where the folder is not there as it was."""
    with _problems_of(folder, found):
        if os.path.exists(folder / MARK):
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return []


def _set_aside(path: Path, found: Pruned) -> Path | None:
    """Give a directory a name under which it is not read; None where that failed, or another process removes it."""
    aside = path.with_name(ASIDE + path.name)
    with _problems_of(path, found):
        os.rename(path, aside)
        return aside
    return None


def _remove(path: Path | None, found: Pruned) -> None:
    if path is None:
        return
    size = _size(path)
    with _problems_of(path, found):
        shutil.rmtree(path)  # which follows no link
        found.directories += 1
        found.bytes += size


@contextmanager
def _problems_of(path: Path, found: Pruned) -> Iterator[None]:
    """Add the problem of a directory to ``found``; where another process has removed it, that is none."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as problem:
        found.problems.append(f"{path} stays for now: {problem.strerror or problem}")


def _size(folder: Path) -> int:
    """Bytes of all files in it, without holes."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found = os.lstat(os.path.join(where, name))
                size += min(found.st_size, found.st_blocks * 512)  # a log whose beginning was removed has a hole
    return size


def _old_events(database: StateDatabase, limit: float) -> list[int]:
    """Numbers of old events that the log file has, in order.

    Without those that :func:`~hetopt.executor.measured_log.log_of` reads; the newest, by which the clock continues
    after a restart of the machine; and the newest of a controller, which names the engine.
    """
    query = """
        SELECT id FROM events
        WHERE time <= :limit AND kind NOT IN (SELECT value FROM json_each(:read)) AND id <= :logged
            AND id < (SELECT max(id) FROM events) AND time < (SELECT max(time) FROM events)
            AND id != (SELECT coalesce(max(id), 0) FROM events WHERE kind = 'controller')
        ORDER BY id"""
    try:
        with open(database.folder / EVENTS, "rb") as file:
            logged, _ = last_logged(file, database)
            os.fsync(file.fileno())  # before the rows go, the lines are on the disk
        sync_folder(database.folder)
    except OSError:
        return []
    with database.reading() as connection:
        return connection.column(query, limit=limit, read=list(KINDS), logged=logged)
