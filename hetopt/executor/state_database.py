"""The state on disk: where it lies, its transactions, the lock of the one controller, the event log."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor import schema
from hetopt.executor.clock import Clock, today
from hetopt.executor.connection import Connection, Row
from hetopt.executor.state_folder import DATABASE

LOCK, EVENTS, LEASES = "controller.lock", "events.jsonl", "leases"

LOGGED = "events.logged"
"""Number of the last event that was ever in the log file: an administrator may have taken that away."""

TAIL = 65536
"""Bytes at the end of the log file in which its last event is looked for."""

PORTION = 1000
"""Events that are read at once."""

WAIT_SECONDS = 30.0
"""How long a transaction waits for another process's."""

LEAST_ROOM = 65536
"""Bytes: with less on the disk not even a reader of the database can begin."""

NETWORKED = {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "glusterfs", "fuse.sshfs", "9p", "afs"}
"""File systems on which SQLite's locks are not to be trusted."""


class StateDatabase:
    """A folder with the state of one cluster.

    Parameters
    ----------
    folder:
        On a local disk; made, for its owner alone, where it is absent.
    make:
        Make it where it is absent; otherwise that is an error.

    Raises
    ------
    UnusableFile
        It cannot be made or written, others may read it, or it lies on a file server.
    InvalidOption
        It is of another version of hetopt.
    """

    def __init__(self, folder: Path, *, make: bool = True) -> None:
        self.folder = folder.expanduser().absolute()
        path = self.folder / DATABASE
        if not make and not path.is_file():
            raise UnusableFile(
                f"{self.folder} has no state of a cluster; `hetopt submit` and `hetopt run` make it, --state names it"
            )
        self._make_folder()
        self._read_only, self._wait_seconds = False, WAIT_SECONDS
        self._free: list[Connection] = []
        with self.writing() as connection:
            self._migrate(connection)
            for statement in schema.statements():
                connection.execute(statement)
            self._begin(connection)
            rows = dict(connection.execute("SELECT key, value FROM meta"))
            latest = connection.value("SELECT max(time) FROM events") or 0.0
        if rows["version"] != str(schema.VERSION):
            raise InvalidOption(f"{path} is of version {rows['version']}; this hetopt reads {schema.VERSION}")
        self.cluster = rows["cluster"]
        self.leases: str | None = None  # folder of the directories of new leases; None: with the state
        self.clock = Clock.of(rows["clock"], float(latest))
        self._lock: int | None = None
        self._watching: sqlite3.Connection | None = None
        self._logged: int | None = None

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            mode = self.folder.stat().st_mode & 0o777
        except (FileExistsError, NotADirectoryError):
            raise UnusableFile("is not a folder").in_file(str(self.folder)) from None
        except OSError as problem:
            raise UnusableFile.of(problem, self.folder, "made") from None
        if mode & 0o077:
            raise UnusableFile(
                f"{self.folder} may be entered by others (mode {mode:o}); it must be 700: chmod 700 {self.folder}"
            )
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise UnusableFile("cannot be written").in_file(str(self.folder))
        if (kind := file_system(self.folder)) in NETWORKED:
            raise UnusableFile(
                f"{self.folder} lies on {kind}; the state must be on a local disk (lease directories may be shared, "
                "see --leases)"
            )

    def _migrate(self, connection: Connection) -> None:
        """Bring the tables of an earlier version to this one."""
        if not connection.value("SELECT name FROM sqlite_master WHERE name = 'meta'"):
            return
        while changes := schema.MIGRATIONS.get(self.meta(connection, "version") or ""):
            if (process := self.controller()) is not None:
                raise InvalidOption(
                    f"{self.folder} is of an earlier version of hetopt, and process {process} is its controller: stop "
                    "that first, and start `hetopt run` of this version soon, which takes its jobs over"
                )
            for statement in changes:
                connection.execute(statement)

    @staticmethod
    def _begin(connection: Connection) -> None:
        """The facts of a new state."""
        if connection.value("SELECT count(*) FROM meta"):
            return
        facts = {"version": str(schema.VERSION), "cluster": secrets.token_hex(3), "clock": Clock.begin().text}
        connection.insert_all("meta", [{"key": key, "value": value} for key, value in facts.items()])

    # -- transactions

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that keeps others from writing until it ends, so that what is read in it stays true.

        Raises
        ------
        UnusableFile
            The disk is full or the file damaged; then nothing of it has happened.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees one state of the database, and waits for no other.

        Raises
        ------
        UnusableFile
            The file is damaged.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        """On a connection of its own; rolled back if anything is raised."""
        path = self.folder / DATABASE
        try:
            try:
                connection = self._free.pop()
            except IndexError:
                connection = Connection.open(path, self._wait_seconds, read_only=self._read_only)
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.close()  # which rolls back
                raise
            self._free.append(connection)
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise
        except sqlite3.OperationalError as problem:
            if is_full(self.folder):  # SQLite often calls it an I/O error
                raise UnusableFile(f"the disk of {self.folder} is full; nothing has been changed") from None
            raise UnusableFile(f"{path}: {problem}; nothing has been changed") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:
            raise UnusableFile(f"{path} is damaged: {problem}") from None

    def make_read_only(self, wait_seconds: float) -> None:
        """Change nothing from now on, when no transaction is open, and wait for others for so long at most."""
        self._read_only, self._wait_seconds = True, wait_seconds
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections that are not in use; they are opened again when they are needed."""
        free, self._free = self._free, []
        for connection in free:
            connection.close()

    def version(self) -> int:
        """A number that is another one as soon as anybody has changed the books.

        Raises
        ------
        UnusableFile
            The file is damaged.
        """
        try:
            if self._watching is None:
                self._watching = sqlite3.connect(self.folder / DATABASE, timeout=WAIT_SECONDS, check_same_thread=False)
            return int(self._watching.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as problem:
            raise UnusableFile.of(problem, self.folder / DATABASE, "read") from None

    def now(self) -> float:
        """The cluster's seconds."""
        return self.clock.now()

    def record_event(self, connection: Connection, kind: str, job: str | None = None, **content: Any) -> None:
        """An event, in the transaction of what it tells of."""
        self.record_events(connection, [(kind, job, content)])

    def record_events(
        self, connection: Connection, events: Sequence[tuple[str, str | None, Mapping[str, Any]]]
    ) -> None:
        """Events (kind, job, content), one after another."""
        now, at = self.now(), today()
        rows = [
            {"time": now, "at": at, "kind": kind, "job": job, "content": json.dumps(content)}
            for kind, job, content in events
        ]
        connection.insert_all("events", rows)

    def meta(self, connection: Connection, key: str) -> str | None:
        """A single fact, None where it was never said."""
        found = connection.value("SELECT value FROM meta WHERE key = :key", key=key)
        return None if found is None else str(found)

    def set_meta(self, connection: Connection, key: str, value: str) -> None:
        """Keep a single fact."""
        connection.change("INSERT OR REPLACE INTO meta (key, value) VALUES (:key, :value)", key=key, value=value)

    # -- the one controller

    def lock(self) -> None:
        """Be the controller until this process ends, whatever ends it.

        Raises
        ------
        InvalidOption
            Another process is.
        """
        if self._lock is not None:
            return
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(handle):
            who = os.read(handle, 100).decode(errors="replace").strip()
            os.close(handle)
            raise InvalidOption(
                f"{self.folder} has a controller already (process {who or '?'}); a cluster has one at a time"
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        self._lock = handle
        with self.writing() as connection:
            self.set_meta(connection, "clock", self.clock.text)

    def controller(self) -> int | None:
        """Number of the process that is the controller now; None where there is none."""
        try:
            handle = os.open(self.folder / LOCK, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.read(handle, 100).decode(errors="replace").strip()
            return int(text) if text.isdecimal() else -1
        else:
            return None
        finally:
            os.close(handle)

    # -- the event log

    def write_events(self) -> None:
        """Append to the log file what was not there yet; each event once, whatever was interrupted or taken away."""
        path, version = self.folder / EVENTS, self.version()
        if version == self._logged and path.exists():
            return
        with open(self.folder / LOGGED, "rb+", buffering=0, opener=_private) as number:
            noted = number.read(20)
            before = int(noted) if noted.isdigit() else 0
            with open(path, "ab+", opener=_private) as file:
                last = _cut(file, before)
                while rows := self._events_after(last):
                    for row in rows:
                        said = {key: row[key] for key in ("id", "time", "at", "kind", "job") if row[key] is not None}
                        file.write(json.dumps(said | json.loads(row["content"])).encode() + b"\n")
                    last = rows[-1]["id"]
                if last != before:
                    file.flush()
                    os.fsync(file.fileno())  # the number may not survive a crash of the machine without the lines
                    os.pwrite(number.fileno(), b"%020d\n" % last, 0)
        self._logged = version

    def _events_after(self, last: int) -> list[Row]:
        query = "SELECT * FROM events WHERE id > :last ORDER BY id LIMIT :portion"
        with self.reading() as connection:
            return connection.rows(query, last=last, portion=PORTION)

    def close(self) -> None:
        """Let go of the files, and of the lock."""
        self.disconnect()
        if self._watching is not None:
            self._watching.close()
            self._watching = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _locked(handle: int) -> bool:
    """Whether the lock could be taken; who only looks for the controller holds it for a moment."""
    for pause in (0.001, 0.01, 0.05, 0.2, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return True
    return False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


def last_logged(file: IO[bytes]) -> tuple[int | None, bytes]:
    """Number of the last event that a log file has whole (None: it has none), and what is half-written behind it."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
    *lines, rest = file.read().split(b"\n")
    for line in reversed(lines):
        try:
            return int(json.loads(line)["id"]), rest
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
    return None, rest


def _cut(file: IO[bytes], noted: int) -> int:
    """Cut off what a crash left half-written at the end of the log file; the number of the last event before it.

    In a file that has no whole line, as after its rotation, it is the event before the one that was half-written, or
    the one that was ``noted``.
    """
    last, rest = last_logged(file)
    if rest:
        file.truncate(file.seek(0, os.SEEK_END) - len(rest))
    if last is not None:
        return last
    begun = re.match(rb'\{"id": (\d+),', rest)
    return int(begun[1]) - 1 if begun else noted


def is_full(folder: Path) -> bool:
    """Whether there is no room left on the disk of a folder."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return False
    if not there.f_blocks:  # it does not tell
        return False
    blocks = there.f_bavail if os.geteuid() else there.f_bfree  # some blocks are kept for root
    return blocks * there.f_frsize < LEAST_ROOM


def file_system(path: Path) -> str:
    """Kind of the file system on which a folder lies, such as ``ext4``."""
    best, kind = "", ""
    target = os.path.realpath(path)
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
        for line in mounts:
            _, where, what, *_ = line.split(" ")
            where = where.encode().decode("unicode_escape")
            if (target == where or target.startswith(where.rstrip("/") + "/")) and len(where) >= len(best):
                best, kind = where, what
    return kind
