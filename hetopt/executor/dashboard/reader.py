"""Reads the state of a cluster for the page; never writes, and has a connection for each read."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import schema
from hetopt.executor.clock import Clock
from hetopt.executor.connection import Row
from hetopt.executor.dashboard import history
from hetopt.executor.dashboard.job_fairness import fairness
from hetopt.executor.lease_directory import boot_id
from hetopt.executor.losses import newest_leases, recent_curve
from hetopt.executor.snapshot import Snapshot, snapshot
from hetopt.executor.state_database import LEASES, StateDatabase
from hetopt.executor.state_folder import DATABASE

LOCK_SECONDS = 3.0
"""Seconds for which a read waits for others that use the database."""

MAX_AGE = 1.0
"""Seconds for which a state answers further requests."""

MAX_CURVES = 40
"""Jobs whose losses are read."""


@dataclass(frozen=True, eq=False)
class DashboardState:
    """All that the page shows; ``spans`` is complete from second ``since`` on, ``losses`` is job -> (step, loss)."""

    snapshot: Snapshot
    engine: str | None
    since: float
    spans: list[history.Span]
    rounds: list[Row]
    usage: history.Usage
    fairness: pd.DataFrame
    losses: dict[str, list[tuple[int, float]]]


class Reader:
    """Reads the state of a cluster, for any number of threads.

    Parameters
    ----------
    folder:
        Folder of the state.
    lock_seconds, max_age:
        See :data:`LOCK_SECONDS` and :data:`MAX_AGE`.

    Raises
    ------
    UnusableFile, InvalidOption
        There is no state that this version of hetopt can read.
    """

    def __init__(self, folder: Path, *, lock_seconds: float = LOCK_SECONDS, max_age: float = MAX_AGE) -> None:
        self.lock_seconds, self.max_age = lock_seconds, max_age
        self.database = StateDatabase(folder, make=False)
        self.database.make_read_only(lock_seconds)
        self._lock = threading.Lock()
        self._last: tuple[float, DashboardState | HetoptError] | None = None

    def read(self) -> DashboardState:
        """The state now, or less than ``max_age`` seconds ago; errors are raised as often.

        Raises
        ------
        UnusableFile
            The database is damaged, gone, or locked.
        InvalidOption
            It is of another version of hetopt.
        """
        if not self._lock.acquire(timeout=2 * self.lock_seconds):
            raise UnusableFile(f"{self.database.folder / DATABASE} is not read in time; other requests wait, too")
        try:
            if self._last is None or time.monotonic() - self._last[0] >= self.max_age:
                self._last = time.monotonic(), self._state_or_error()
            found = self._last[1]
        finally:
            self._lock.release()
        if isinstance(found, HetoptError):
            raise found.with_traceback(None)
        return found

    def _state_or_error(self) -> DashboardState | HetoptError:
        try:
            return self._read()
        except (UnusableFile, InvalidOption) as problem:
            return problem
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:  # damaged JSON
            text = f"{type(problem).__name__}: {problem}"[:300]
            return UnusableFile(f"{self.database.folder / DATABASE}: what it holds cannot be shown ({text})")
        finally:
            self.database.disconnect()

    def _read(self) -> DashboardState:
        if not (self.database.folder / DATABASE).is_file():
            raise UnusableFile(f"{self.database.folder} has no state of a cluster any more")
        with self.database.reading() as connection:
            version, clock = (self.database.meta(connection, key) for key in ("version", "clock"))
        if version != str(schema.VERSION):
            path = self.database.folder / DATABASE
            raise InvalidOption(f"{path} is of version {version}; this hetopt reads {schema.VERSION}")
        if clock is not None and json.loads(clock)["boot"] == boot_id():  # a controller sets it again after a restart
            self.database.clock = Clock.of(clock, 0.0)
        now = snapshot(self.database)
        running = [job["name"] for job in now.jobs if job["where"]]
        with self.database.reading() as connection:
            start = history.window_start(connection, now.now, now.round_seconds)
            spans, since = history.spans(connection, start, now.now)
            rounds, usage = history.rounds(connection, start), history.usage(connection, start, now.now)
            engine, unmeasured = history.engine(connection), history.unmeasured(connection)
            leases = newest_leases(connection, running[:MAX_CURVES], self.database.folder / LEASES)
        losses = {job: recent_curve(own) for job, own in leases.items()}
        return DashboardState(now, engine, since, spans, rounds, usage, fairness(now, unmeasured), losses)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self.database.close()
