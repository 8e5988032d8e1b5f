"""What jobs have printed, read in blocks, as a log may be larger than memory."""

from __future__ import annotations

import codecs
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

BLOCK_BYTES, END_BYTES = 65536, 16384
"""Bytes that are read at a time, and by which the end of a file is recognised."""

LOST = b"==> some output was lost here: the log was emptied before it could be read <==\n"

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
        Lines at the end of each log, with what was moved to ``.old``; 0: all.
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
    return sorted(path for path in folder.glob("log-*") if path.suffix != ".old")


def _absence(job: Row, leases: Leases) -> str:
    """Why no log has anything: of leases that ran, one was there."""
    gone = any(
        not _logs(folder) if lease["running"] is not None else lease["state"] == SEALED and not folder.exists()
        for lease, folder in leases
    )
    if gone:
        return f"{job['name']}: its log was deleted or pruned"
    return f"{job['name']} has printed nothing{' yet' * (job['state'] == QUEUED)}"


class _LogReader:
    """The last lines of a log, or all of it (0), and what is appended later.

    At its limit the runner copies a log to ``.old``, then empties it. What was not read of it until then is found in
    ``.old`` after the bytes that were.
    """

    def __init__(self, path: Path, lines: int) -> None:
        self.path, self.old, self.lines = path, Path(f"{path}.old"), lines
        self.at, self.last = -1, b""  # number of bytes that were read, and the last of them
        self.before: _State | None = None  # of ``.old`` while the log has what follows

    def read(self) -> bytes:
        """The next part; empty where there is no more now."""
        try:
            while (part := self._next()) is None:
                pass
        except FileNotFoundError:  # deleted
            return b""
        return part

    def _next(self) -> bytes | None:
        """The next part; None where it is in the other file."""
        with self.path.open("rb", buffering=0) as log:
            if self.at < 0:
                self._begin(log)
            begin, most = self.at - len(self.last), len(self.last) + BLOCK_BYTES
            part = os.pread(log.fileno(), most, begin)
            with self._open_old() as old:  # after the read: a rotation changes it before the log
                state = _state(old)
                if not part.startswith(self.last) or not (state == self.before or _begins_with(log, state)):
                    part = os.pread(old.fileno(), most, begin)
                    if _state(old) != state:
                        return None
                    read = self.last.startswith(part)  # all that was copied, and maybe a little that was not
                    if state == self.before or not (part.startswith(self.last) or (part and read)):
                        end_of_line = b"\n" * (self.last[-1:] not in (b"", b"\n"))
                        self.at, self.last = 0, b""
                        return end_of_line + LOST
                    if read:
                        self.at, self.last, self.before = 0, b"", state
                        return None
        part = part[len(self.last) :]
        self.at, self.last = self.at + len(part), (self.last + part)[-END_BYTES:]
        return part

    def _begin(self, log: io.FileIO) -> None:
        """Go to the last lines, in the log or in ``.old``."""
        size = _size(log)
        self.at, missing = _last_lines(log, size - 1, self.lines)  # the end of the last line ends no line before it
        with self._open_old() as old:
            if _begins_with(log, _state(old)):
                self.last = _end(log, self.at)
            elif missing or not self.lines:
                self.at, _ = _last_lines(old, _size(old) - (size == 0), missing)
                self.last = _end(old, self.at)
            else:
                self.last, self.before = _end(log, self.at), _state(old)

    def _open_old(self) -> io.FileIO:
        try:
            return self.old.open("rb", buffering=0)
        except FileNotFoundError:
            return open(os.devnull, "rb", buffering=0)


_State = tuple[int, int, bytes]
"""Time of the last change of a file, its size, and its end."""


def _state(file: io.FileIO) -> _State:
    size = _size(file)
    return os.fstat(file.fileno()).st_mtime_ns, size, _end(file, size)


def _size(file: io.FileIO) -> int:
    return os.fstat(file.fileno()).st_size


def _end(file: io.FileIO, end: int) -> bytes:
    """The bytes before ``end``."""
    begin = max(0, end - END_BYTES)
    return os.pread(file.fileno(), end - begin, begin)


def _begins_with(log: io.FileIO, old: _State) -> bool:
    """Whether the log still has what ``.old`` has: it was copied, and is not emptied yet."""
    _, size, end = old
    return _size(log) >= size and _end(log, size) == end


def _last_lines(file: io.FileIO, end: int, lines: int) -> tuple[int, int]:
    """Where the last lines before ``end`` begin, and how many of them are not in the file."""
    while lines and end > 0:
        begin = max(0, end - BLOCK_BYTES)
        block = os.pread(file.fileno(), end - begin, begin)
        if (found := block.count(b"\n")) >= lines:
            at = len(block)
            for _ in range(lines):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1, 0
        lines, end = lines - found, begin
    return 0, lines
