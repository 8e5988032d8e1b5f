"""What jobs have printed, read in blocks, as a log may be larger than memory."""

from __future__ import annotations

import codecs
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hetopt.executor.connection import Row
from hetopt.executor.lease_record import SEALED
from hetopt.executor.queue import QUEUED
from hetopt.executor.snapshot import leases_of
from hetopt.executor.state_database import StateDatabase
from hetopt.presentation.console import printable

BLOCK_BYTES = 65536

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
    readers, newest, end = dict[Path, Iterator[bytes]](), None, b"\n"
    begun = False
    while True:
        gpu_types = {path: lease["gpu_types"] for lease, folder in leases[first:] for path in _logs(folder)}
        readers = {path: readers.get(path) or _parts(path, 0 if begun else lines) for path in gpu_types}
        for path, reader in readers.items():
            for part in iter(reader.__next__, b""):
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


def _parts(path: Path, lines: int) -> Iterator[bytes]:
    """The last lines of a file, or all of it (0), and what is appended later; ``b""`` where there is no more now.

    A file that is truncated or replaced is read from its beginning.
    """
    while True:
        try:
            file = path.open("rb", buffering=0)
        except FileNotFoundError:  # deleted just now, or rotated
            yield b""
            continue
        with file:
            file.seek(_last_lines(file, lines))
            lines, same = 0, True
            while same:
                there = os.fstat(file.fileno())
                with suppress(FileNotFoundError):  # deleted, or not yet replaced
                    same = os.path.samestat(there, path.stat())
                if there.st_size < file.tell():
                    file.seek(0)
                yield from iter(lambda: file.read(BLOCK_BYTES), b"")  # noqa: B023
                if same:
                    yield b""


def _last_lines(file: io.FileIO, lines: int) -> int:
    """Where the last lines begin; 0: with the file."""
    position = file.seek(0, os.SEEK_END) - 1  # the end of the last line ends no line before it
    while lines and position > 0:
        begin = max(0, position - BLOCK_BYTES)
        file.seek(begin)
        block = file.read(position - begin)
        if (found := block.count(b"\n")) >= lines:
            at = len(block)
            for _ in range(lines):
                at = block.rindex(b"\n", 0, at)
            return begin + at + 1
        lines, position = lines - found, begin
    return 0
