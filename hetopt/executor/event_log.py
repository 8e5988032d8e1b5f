"""What a controller reports: alerts on its terminal, and the event log, a file with a line for each event."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from hetopt.executor.connection import Row
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import EVENTS, LAST_LOGGED

TAIL_BYTES = 65536
"""End of the file in which its last event is searched for."""

PORTION = 1000
"""Events that are read at once."""


class Alerts:
    """Alerts by subject; each lasting one is printed once, until it changes or ends.

    Parameters
    ----------
    print_line:
        Prints a line; that its output is closed, or its disk full, is ignored.

    Attributes
    ----------
    active:
        Subject -> the alert that holds now.
    """

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print = print_line
        self.active: dict[str, str] = {}

    def report(self, text: str) -> None:
        """Print a message on one line."""
        with suppress(OSError, ValueError):
            self._print(" ".join(text.split()))

    def set(self, subject: str, text: str) -> None:
        """Print an alert unless it is active already, also about another subject; an empty text ends it."""
        if not text:
            self.clear(subject)
            return
        new = text not in self.active.values()
        self.active[subject] = text
        if new:
            self.report(text)

    def clear(self, subject: str) -> None:
        """End the alert about a subject."""
        self.active.pop(subject, None)


@dataclass
class EventLog:
    """Writes the events of a state database, of which this process is the controller, to its file."""

    database: StateDatabase
    _version: object = None  # of the database, when its events were written

    def write(self) -> None:
        """Append new events, each once, also after a crash, and if the file was rotated or removed.

        Raises
        ------
        OSError
            The disk is full, or the file cannot be written; the next call continues.
        """
        folder, version = self.database.folder, self.database.version()
        if version == self._version and (folder / EVENTS).exists():
            return
        with open(folder / LAST_LOGGED, "rb+", buffering=0, opener=_private) as number:
            digits = number.read(20)
            before = int(digits) if digits.isdigit() else 0
            with open(folder / EVENTS, "ab+", opener=_private) as file:
                last, incomplete = last_logged(file, self.database, before)
                if incomplete:
                    file.truncate(file.seek(0, os.SEEK_END) - incomplete)
                while rows := self._events_after(last):
                    for row in rows:
                        content = _content(row.pop("content"))
                        fields = {key: value for key, value in row.items() if value is not None}
                        file.write(json.dumps(fields | content, default=str).encode() + b"\n")
                    last = rows[-1]["id"]
                if last != before:
                    file.flush()
                    os.fsync(file.fileno())  # the number must not survive a crash of the machine without the lines
                    os.pwrite(number.fileno(), b"%020d\n" % last, 0)
        self._version = version

    def _events_after(self, last: int) -> list[Row]:
        query = "SELECT id, time, at, kind, job, content FROM events WHERE id > :last ORDER BY id LIMIT :portion"
        with self.database.reading() as connection:
            return connection.rows(query, last=last, portion=PORTION)


def _content(text: str) -> dict[str, Any]:
    """The content of an event; of a damaged one its text."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {"damaged": str(text)[:200]}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


def last_logged(file: IO[bytes], database: StateDatabase, noted: int = 0) -> tuple[int, int]:
    """Number of the last event of the database that a log file has, and bytes of an incomplete line at its end.

    After the database was restored from a backup its new events have numbers that are in the file already; they are
    those with a later date than the file's last event.

    Parameters
    ----------
    noted:
        The last event if the file has no line, as after its rotation.
    """
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
    *lines, rest = file.read().split(b"\n")
    begun = re.match(rb'\{"id": (\d+),', rest)
    last, latest = int(begun[1]) - 1 if begun else noted, "~"  # after all dates
    for line in reversed(lines):
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            event = json.loads(line)
            last, latest = int(event["id"]), str(event.get("at", latest))
            break
    with database.reading() as connection:
        query = "SELECT max(id) FROM events WHERE id <= :last AND at <= :latest"
        return connection.value(query, last=last, latest=latest) or 0, len(rest)
