"""Looks at the books for the page: never writes, waits for nobody long, and begins anew each time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import tables
from hetopt.executor.clock import Clock
from hetopt.executor.dashboard import curves, history, job_fairness
from hetopt.executor.lease_directory import boot_id
from hetopt.executor.snapshot import Snapshot, snapshot
from hetopt.executor.store import DATABASE, LEASES, StateStore

PATIENCE = 3.0
"""Seconds for which a look waits for others that use the books."""

KEPT = 1.0
"""Seconds for which a look serves whoever asks."""

MOST_CURVES = 40
"""Jobs whose losses are read."""


@dataclass(frozen=True, eq=False)
class Look:
    """All that the page shows.

    Attributes
    ----------
    now:
        What is going on.
    engine:
        Of the newest controller.
    since:
        From when on ``spans`` tells of everything.
    spans, rounds, held:
        See :mod:`hetopt.executor.dashboard.history`.
    fairness:
        Job -> its finish-time fairness.
    losses:
        Job that runs -> (step, loss).
    """

    now: Snapshot
    engine: str | None
    since: float
    spans: list[history.Span]
    rounds: list[history.Round]
    held: history.Held
    fairness: Mapping[str, job_fairness.Fairness] = field(default_factory=dict)
    losses: Mapping[str, list[tuple[int, float]]] = field(default_factory=dict)


class Reader:
    """Looks at the books of a cluster, for any number of threads.

    Each look has a connection of its own, so that one that went wrong leaves nothing behind, and a state that was
    replaced is seen.

    Parameters
    ----------
    folder:
        Of the state.
    patience, kept:
        See :data:`PATIENCE` and :data:`KEPT`.

    Raises
    ------
    UnusableFile, InvalidOption
        There is no state that this version of hetopt can read.
    """

    def __init__(self, folder: Path, *, patience: float = PATIENCE, kept: float = KEPT) -> None:
        self.patience, self.kept = patience, kept
        self.store = StateStore(folder, make=False)
        self._lock = threading.Lock()
        self._last: tuple[float, Look | HetoptError] | None = None

        @event.listens_for(self.store.database, "connect", insert=True)  # before what the store does first
        def _restrain(connection: Any, _: object) -> None:
            connection.execute("PRAGMA query_only = ON")
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * patience)}")

        self.store.database.dispose()

    def look(self) -> Look:
        """What there is to see now, or was less than :data:`KEPT` seconds ago.

        Raises
        ------
        UnusableFile
            The books are damaged, gone, or others do not let go of them.
        InvalidOption
            They are of another version of hetopt.
        """
        if not self._lock.acquire(timeout=2 * self.patience):
            raise UnusableFile(f"{self.store.folder / DATABASE} is not read in time; others are looking, too")
        try:
            if self._last is None or time.monotonic() - self._last[0] >= self.kept:
                self._last = time.monotonic(), self._looked()
            found = self._last[1]
        finally:
            self._lock.release()
        if isinstance(found, HetoptError):
            raise found.with_traceback(None)
        return found

    def _looked(self) -> Look | HetoptError:
        """A look, or why there is none; whoever else asks meanwhile is told the same."""
        try:
            return self._read()
        except (UnusableFile, InvalidOption) as problem:
            return problem
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:  # damaged JSON
            said = f"{type(problem).__name__}: {problem}"
            return UnusableFile(f"{self.store.folder / DATABASE}: what it holds cannot be shown ({said[:300]})")
        finally:
            self.store.database.dispose()

    def _read(self) -> Look:
        if not (self.store.folder / DATABASE).is_file():
            raise UnusableFile(f"{self.store.folder} has no state of a cluster any more")
        with self.store.reading() as connection:
            self._check(connection)
        now = snapshot(self.store)
        with self.store.reading() as connection:
            since = history.beginning(connection, now.now, now.round_seconds)
            spans, whole = history.spans(connection, since, now.now)
            rounds = history.rounds(connection, since)
            held = history.held(connection, since, now.now)
            engine = history.engine(connection)
            unmeasured = history.unmeasured(connection)
            running = [job["name"] for job in now.jobs if job["where"]]
            parts = curves.parts(connection, running[:MOST_CURVES], self.store.folder / LEASES)
        rho = job_fairness.fairness(now, unmeasured)
        told = {name: curves.curve(own) for name, own in parts.items()}
        return Look(now, engine, whole, spans, rounds, held, rho, told)

    def _check(self, connection: Connection) -> None:
        """The version, and the clock, which a controller sets anew after a restart of the machine."""
        version, clock = (self.store.fact(connection, key) for key in ("version", "clock"))
        if version != str(tables.VERSION):
            path = self.store.folder / DATABASE
            raise InvalidOption(f"{path} is of version {version}; this hetopt reads {tables.VERSION}")
        if clock is not None and json.loads(clock)["boot"] == boot_id():
            self.store.clock = Clock.of(clock, 0.0)

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self.store.close()
