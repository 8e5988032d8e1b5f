"""The state database: its transactions, and the lock of the one controller."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from hetopt.errors import InvalidOption, UnusableFile
from hetopt.executor import schema
from hetopt.executor.clock import Clock, today
from hetopt.executor.connection import Connection, uri
from hetopt.executor.lease_directory import sync_folder
from hetopt.executor.state_folder import (
    DATABASE,
    EVENTS,
    LAST_LOGGED,
    LEASES,
    LOCK,
    NotWritten,
    UnwritableDisk,
    disk_problem,
    has_database,
    lost_database,
)

__all__ = ["EVENTS", "LAST_LOGGED", "LEASES", "LOCK", "Cache", "StateDatabase"]

T = TypeVar("T")

WAIT_SECONDS = 30.0
"""How long a transaction waits for that of another process."""

MEMORY = Path("/dev/shm")

UNUSABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
"""Codes of SQLite where it cannot make the -shm file, which readers need, too: then a copy is read."""


class StateDatabase:
    """The state of one cluster, in a folder. Where it is of this version, opening it writes nothing.

    Each transaction, and :meth:`version`, raises :class:`UnusableFile` where the file is damaged, removed or replaced.

    Parameters
    ----------
    folder:
        On a local disk.
    make:
        Make it, for its owner alone, where it is absent; otherwise that is an error.

    Raises
    ------
    UnusableFile
        It cannot be made or read, belongs to another user, is open to others, is on a file server, is damaged, or its
        database was lost.
    InvalidOption
        It is of another version of hetopt.
    """

    def __init__(self, folder: Path, *, make: bool = True) -> None:
        self.folder = folder.expanduser().absolute()
        self.path = self.folder / DATABASE
        self._read_only, self._wait_seconds = False, WAIT_SECONDS
        self._free: list[Connection] = []
        self._watching: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode
        self._lock: int | None = None
        self.leases: str | None = None  # folder of the directories of new leases; None: with the state
        if not has_database(self.folder, make=make):
            self._create()
        facts, latest = self._facts()
        self.cluster = facts["cluster"]
        try:
            self.clock = Clock.of(facts["clock"], latest)
        except (ValueError, LookupError, TypeError):
            raise UnusableFile(f"{self.path} is damaged: row 'clock' of table meta is {facts['clock']!r}") from None
        self._file = self._identity()

    def _facts(self) -> tuple[dict[str, str], float]:
        """The rows of table meta, and the time of the newest event in seconds; tables are migrated before."""
        with self.reading() as connection:
            names = set(connection.column("SELECT name FROM sqlite_master"))
            if "meta" not in names:  # a database is published complete, so this one is not new
                raise lost_database(self.folder)
            facts = dict(connection.tuples("SELECT key, value FROM meta"))
            for key in ("version", "cluster", "clock"):
                if key not in facts:
                    why = f"table meta has no row {key!r}; restore it from a backup"
                    raise UnusableFile(f"{self.path} is damaged: {why}")
            version, current = facts["version"], str(schema.VERSION)
            if version == current and names >= schema.NAMES:
                return facts, float(connection.value("SELECT max(time) FROM events") or 0.0)
            if version != current and version not in schema.MIGRATIONS:
                raise InvalidOption(f"{self.path} is of version {version}; this hetopt reads {current}")
        self._migrate()
        return self._facts()

    def _create(self) -> None:
        """Publish a new database complete, unless another process does so first."""
        spare = self.folder / f".{DATABASE}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            os.close(os.open(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            with closing(Connection.open(spare, WAIT_SECONDS)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in schema.statements():
                    connection.execute(statement)
                facts = {"version": str(schema.VERSION), "cluster": os.urandom(3).hex(), "clock": Clock.begin().text}
                connection.insert_all("meta", [{"key": key, "value": value} for key, value in facts.items()])
                connection.execute("COMMIT")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # raises where the disk is full, unlike close
            with suppress(FileExistsError):
                os.link(spare, self.path)
            sync_folder(self.folder)
        except (OSError, sqlite3.Error) as problem:
            if (why := disk_problem(self.folder)) is not None:
                raise UnwritableDisk(why) from None
            raise UnusableFile.of(problem, self.path, "made") from None
        finally:
            for ending in ("", "-wal", "-shm"):
                with suppress(OSError):
                    os.unlink(f"{spare}{ending}")

    def _migrate(self) -> None:
        """Bring the tables of an earlier version to this one, and make what is missing."""
        with self.writing() as connection:
            while changes := schema.MIGRATIONS.get(self.meta(connection, "version") or ""):
                if (process := self.controller()) is not None:
                    raise InvalidOption(
                        f"{self.folder} is of an earlier version of hetopt, and process {process} is its controller: "
                        "stop that first, and start `hetopt run` of this version soon, which takes its jobs over"
                    )
                for statement in changes:
                    connection.execute(statement)
            for statement in schema.statements():
                connection.execute(statement)

    # -- transactions

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction during which no other writes, so that what is read in it stays true.

        Raises
        ------
        UnwritableDisk
            The disk is full or read-only; nothing has been changed.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that sees one state of the database, waits for no other, and needs no room on the disk."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        """On a separate connection; rolled back if anything is raised."""
        try:
            self._check_file()
            try:
                connection = self._free.pop()
            except IndexError:
                connection = self._connect(copied=begin == "BEGIN")
            try:
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
                self._check_file()  # a commit to a file that was removed is none
            except BaseException:
                connection.close()  # which rolls back
                raise
            if connection.copied:
                connection.close()
            else:
                self._free.append(connection)
        except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise
        except sqlite3.OperationalError as problem:
            self.disconnect()  # what was opened while the disk was read-only stays so
            why = disk_problem(self.folder)  # which SQLite often calls an I/O error
            if why is None and _code(problem) == sqlite3.SQLITE_FULL:
                why = f"the disk of {self.folder} is full"
            if why is not None:
                raise UnwritableDisk(why) from None
            failed = NotWritten if begin == "BEGIN IMMEDIATE" else UnusableFile
            raise failed(f"{self.path}: {problem}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as problem:
            raise UnusableFile(f"{self.path} is damaged: {problem}") from None

    def _connect(self, *, copied: bool) -> Connection:
        """A connection to the database; to a copy in memory where allowed and SQLite cannot open it on this disk."""
        while True:
            try:
                return Connection.open(self.path, self._wait_seconds, read_only=self._read_only)
            except sqlite3.OperationalError as problem:
                if not copied or _code(problem) not in UNUSABLE:
                    raise
            if (connection := self._open_copy()) is not None:
                return connection

    def _open_copy(self) -> Connection | None:
        """A connection to a copy in memory, which is removed with it; None where the database has just changed."""
        from tempfile import TemporaryDirectory

        before = self._signature()
        try:
            with TemporaryDirectory(prefix="hetopt-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
                for ending in ("", "-wal"):
                    with suppress(FileNotFoundError):
                        shutil.copyfile(f"{self.path}{ending}", f"{folder}/{DATABASE}{ending}")
                if self._signature() != before:
                    return None
                connection = Connection.open(Path(folder) / DATABASE, self._wait_seconds, read_only=True)
        except OSError as problem:
            raise UnusableFile.of(problem, self.path, "copied to memory") from None
        connection.copied = True
        return connection

    def _signature(self) -> list[tuple[int, ...]]:
        """Changes when the files of the database do."""
        found = [_status(f"{self.path}{ending}") for ending in ("", "-wal")]
        return [(one.st_ino, one.st_size, one.st_mtime_ns) if one else () for one in found]

    def _identity(self) -> tuple[int, int] | None:
        status = _status(self.path)
        return None if status is None else (status.st_dev, status.st_ino)

    def _check_file(self) -> None:
        """Raise :class:`UnusableFile` where the database is no longer the file that was opened."""
        if self._file is not None and self._identity() != self._file:
            raise UnusableFile(
                f"{self.path} was removed or replaced while in use: move the same file back, or restore a backup and "
                "restart `hetopt run`; until then nothing is decided, and leases are renewed"
            )

    def make_read_only(self, wait_seconds: float) -> None:
        """Change nothing from now on, when no transaction is open; wait for others for ``wait_seconds`` at most."""
        self._read_only, self._wait_seconds = True, wait_seconds
        self._file = None  # a view shows a backup that was restored, too
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections that are not in use; they are opened again when they are required."""
        free, self._free = self._free, []
        for connection in free:
            connection.close()
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.close()

    def version(self) -> object:
        """Another value as soon as a transaction of any process has changed the database."""
        self._check_file()
        try:
            watching = self._watching
            if watching is None:
                more: dict[str, Any] = {"timeout": WAIT_SECONDS, "check_same_thread": False}
                watching = self._watching = sqlite3.connect(uri(self.path), uri=True, **more)
            # with the connection: numbers of different ones cannot be compared
            return watching, watching.execute("PRAGMA data_version").fetchone()[0]
        except (sqlite3.OperationalError, sqlite3.ProgrammingError):  # the latter: another thread has closed it
            self.disconnect()
            return self._signature()
        except sqlite3.Error as problem:
            raise UnusableFile.of(problem, self.path, "read") from None

    def now(self) -> float:
        """The cluster's seconds."""
        return self.clock.now()

    # -- rows

    def record_event(self, connection: Connection, kind: str, job: str | None = None, **content: Any) -> None:
        """An event, in the transaction of the change that it is about."""
        connection.insert("events", time=self.now(), at=today(), kind=kind, job=job, content=json.dumps(content))

    def meta(self, connection: Connection, key: str) -> str | None:
        """A single fact; None where it was never set."""
        found = connection.value("SELECT value FROM meta WHERE key = :key", key=key)
        return None if found is None else str(found)

    def set_meta(self, connection: Connection, key: str, value: str) -> None:
        """Set a single fact."""
        connection.change("INSERT OR REPLACE INTO meta (key, value) VALUES (:key, :value)", key=key, value=value)

    # -- the one controller

    def lock(self) -> None:
        """Be the controller until this process ends, whatever ends it.

        Raises
        ------
        InvalidOption
            Another process is.
        UnusableFile
            The lock's file can be neither made nor opened.
        """
        if self._lock is not None:
            return
        path = self.folder / LOCK
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            try:
                handle = os.open(path, os.O_RDONLY)  # on a read-only disk a file can be locked, too
            except OSError:
                raise UnusableFile.of(problem, path, "opened") from None
        if not _locked(handle):
            process = _process(handle)
            os.close(handle)
            raise InvalidOption(
                f"{self.folder} has a controller already (process {process or '?'}); a cluster has one at a time"
            )
        with suppress(OSError):  # a disk that is full or read-only: the lock holds; that of an earlier process is shown
            os.pwrite(handle, b"%-19d\n" % os.getpid(), 0)
        self._lock = handle

    def controller(self) -> int | None:
        """Number of the process that is the controller now, -1 if it is unknown; None where there is none."""
        try:
            handle = os.open(self.folder / LOCK, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            process = _process(handle)  # of an earlier controller where this one could not write its number
            return process if process is not None and os.path.exists(f"/proc/{process}") else -1
        else:
            return None
        finally:
            os.close(handle)

    def close(self) -> None:
        """Close all files, and release the lock."""
        self.disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cache:
    """Results of queries, valid until ``database`` changes; between most steps of a controller nothing does."""

    def __init__(self, database: StateDatabase) -> None:
        self._database = database
        self._version: object = None
        self._results: dict[Hashable, Any] = {}

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """The result of ``read``, now or since the last change."""
        if (version := self._database.version()) != self._version:
            self._results.clear()
            self._version = version
        if key not in self._results:
            self._results[key] = read()
        result: T = self._results[key]
        return result


def _code(problem: sqlite3.OperationalError) -> int:
    """SQLite's primary error code; 0 for an error of this package."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF


def _status(path: Path | str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _process(handle: int) -> int | None:
    """The process in the lock's file; None where there is none."""
    text = os.pread(handle, 100, 0).decode(errors="replace").strip()
    return int(text) if text.isdecimal() else None


def _locked(handle: int) -> bool:
    """Whether the lock could be taken; :meth:`StateDatabase.controller` of another process holds it for a moment."""
    for pause in (0.001, 0.01, 0.05, 0.2, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return True
    return False
