"""What jobs have printed, read in blocks, as a log may be larger than memory."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hetopt.executor.connection import Row
from hetopt.executor.lease_record import SEALED
from hetopt.executor.queue import QUEUED
from hetopt.executor.snapshot import leases_of
from hetopt.executor.state_database import StateDatabase
from hetopt.presentation.console import printable

BLOCK_BYTES = 65536
"""Bytes that are read at a time."""

REMOVED = b"==> output was removed here: the log exceeded its limit or was emptied <==\n"

POLL_SECONDS = 0.5
"""Time between two reads of logs that are followed."""

Leases = Sequence[tuple[Row, Path]]
"""Rows of leases with their directories, in order."""


def printed(
    database: StateDatabase, job: str, *, lines: int, every_lease: bool = False, follow: bool = False
) -> Iterator[bytes]:
    """The logs of a job's newest lease in parts, each log after a line with its name.

    Parameters
    ----------
    lines:
        Lines at the end of each log; 0: all.
    every_lease:
        Also the logs of earlier leases.
    follow:
        Continue with what is printed, also in later leases, until the job is finished.

    Raises
    ------
    UnknownName
        There is no such job.
    """
    row, leases = leases_of(database, job)
    first = 0 if every_lease else max((i for i, (_, folder) in enumerate(leases) if _logs(folder)), default=0)
    readers, newest, end = dict[Path, _LogReader](), None, b"\n"
    begun = False
    while True:
        gpu_types = {path: lease["gpu_types"] for lease, folder in leases[first:] for path in _logs(folder)}
        readers = {path: readers.get(path) or _LogReader(path, 0 if begun else lines) for path in gpu_types}
        for path, reader in readers.items():
            for part in iter(reader.read, b""):
                if path != newest:
                    heading = f"==> {path.parent.name} on {gpu_types[path]}, {path.name} <==\n"
                    yield b"\n" * (end != b"\n") + heading.encode()
                yield part
                newest, end = path, part[-1:]
        if newest is None and not begun:
            yield f"{_absence(row, leases)}\n".encode()
        if not follow or row["state"] != QUEUED:
            yield b"\n" * (end != b"\n")
            return
        open_leases = (i for i, (lease, _) in enumerate(leases) if lease["state"] != SEALED)
        first, begun = max(first, next(open_leases, len(leases))), True  # all of earlier leases is printed
        time.sleep(POLL_SECONDS)
        row, leases = leases_of(database, job)


def write(parts: Iterable[bytes]) -> None:
    """Write to standard output: to a terminal without control characters, so that a log cannot steer it."""
    raw, terminal = sys.stdout.buffer, sys.stdout.isatty()
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    for part in parts:
        if terminal:
            sys.stdout.write(printable(decoder.decode(part)))
        else:
            raw.write(part)
        sys.stdout.flush()


def _logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("log-*"))


def _absence(job: Row, leases: Leases) -> str:
    """Why no log has anything: of leases that ran, one was there."""
    gone = not any(_logs(folder) for _, folder in leases) and any(
        not _logs(folder) if lease["running"] is not None else lease["state"] == SEALED and not folder.exists()
        for lease, folder in leases
    )
    if gone:
        return f"{job['name']}: its log was deleted or pruned"
    return f"{job['name']} has printed nothing{' yet' * (job['state'] == QUEUED)}"


class _LogReader:
    """The last lines of a log, or all of it (0), and what is appended later."""

    def __init__(self, path: Path, lines: int) -> None:
        self.path, self.lines = path, lines
        self.at: int | None = None  # bytes that were read or passed over
        self.end = b"\n"  # last byte printed

    def read(self) -> bytes:
        """The next part; empty where there is no more now."""
        try:
            with self.path.open("rb", buffering=0) as log:
                if self.at is None:
                    self.at = _last_lines(log, self.lines)
                begin = self.at if os.fstat(log.fileno()).st_size >= self.at else 0  # it was emptied
                part = os.pread(log.fileno(), BLOCK_BYTES, begin)
                data = _data_from(log, begin)  # after the read, during which it may have been removed
        except FileNotFoundError:  # deleted
            return b""
        if data != self.at:
            notice = b"\n" * (self.end != b"\n") + REMOVED
            self.at, self.end = data, b"\n"
            return notice
        self.at, self.end = self.at + len(part), part[-1:] or self.end
        return part


def _data_from(file: io.FileIO, begin: int) -> int:
    """Where the bytes from ``begin`` on begin that were not removed; the end of the file if none is left."""
    size = os.fstat(file.fileno()).st_size
    try:
        return os.lseek(file.fileno(), begin, os.SEEK_DATA)
    except OSError as problem:
        if problem.errno != errno.ENXIO:
            raise
        return max(begin, size)


def _last_lines(file: io.FileIO, lines: int) -> int:
    """Where the last lines begin; 0 where the file has no more."""
    first, end = _data_from(file, 0), os.fstat(file.fileno()).st_size - 1  # the newline of the last line does not count
    while lines and end > first:
        begin = max(first, end - BLOCK_BYTES)
        block = os.pread(file.fileno(), end - begin, begin)
        if (found := block.count(b"\n")) >= lines:
            at = len(block)
            for _ in range(lines):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        lines, end = lines - found, begin
    return 0
