"""Reads the state of a cluster, and its past hour, for the page; never writes."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import schema
from hetopt.executor.clock import Clock
from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, spec_fields
from hetopt.executor.lease_directory import boot_id
from hetopt.executor.leases import STOP_TEXTS
from hetopt.executor.losses import newest_curves
from hetopt.executor.queue import DONE, FINISHED
from hetopt.executor.snapshot import Snapshot, reports_damage, snapshot
from hetopt.executor.state_database import LEASES, StateDatabase
from hetopt.executor.state_folder import DATABASE
from hetopt.executor.status_view import gpus_by_type
from hetopt.metrics.finish_time import mean_present, seconds_in_own_part

LOCK_SECONDS = 3.0
"""Seconds for which a read waits for others that use the database."""

MAX_AGE = 1.0
"""Seconds for which a state answers further requests."""

MAX_CURVES = 40
"""Jobs whose losses are read."""

WINDOW_SECONDS, WINDOW_ROUNDS = 3600.0, 12
"""The page shows the last hour, or this number of rounds if they are longer."""

MIN_SECONDS = 10.0
"""Least length of the window."""

MAX_LEASES = 1000
"""Leases of the Gantt chart; of more, the chart begins later."""

ENGINE = """
    SELECT json_extract(content, '$.engine') FROM events WHERE kind = 'controller' AND json_valid(content)
    ORDER BY id DESC LIMIT 1"""
"""Name of the engine of the newest controller."""

AFTER = "coalesce(leases.sealed, :end) > :since"
"""SQL: the lease was open after second ``since``; one that is not sealed counts until ``end``, now or its expiry."""


@dataclass(frozen=True)
class Span:
    """A lease on one GPU, from its grant until its seal, its expiry or now, in cluster seconds.

    ``reason`` is why it was stopped, or how it ended; empty while it runs.
    """

    tag: str
    job: str
    tenant: str
    copy: int
    kind: str
    node: str
    gpu_type: str
    number: int
    granted: float
    until: float
    first_tick: float | None
    open: bool
    round: int
    reason: str


@dataclass(frozen=True, eq=False)
class DashboardState:
    """All that the page shows.

    Attributes
    ----------
    begin:
        Cluster second from which on the page shows the past.
    spans, since:
        The leases from second ``since`` on.
    usage, recent_usage:
        Tenant -> GPU-seconds in all and from ``begin`` on, the most first.
    losses:
        Running job -> (step, loss).
    """

    snapshot: Snapshot
    engine: str | None
    begin: float
    spans: list[Span]
    since: float
    rounds: list[Row]
    usage: dict[str, float]
    recent_usage: dict[str, float]
    fairness: pd.DataFrame
    losses: dict[str, list[tuple[int, float]]]


class Reader:
    """Reads the state of a cluster, in one thread at a time.

    Parameters
    ----------
    folder:
        Folder of the state.

    Raises
    ------
    UnusableFile, InvalidOption
        There is no state that this version of hetopt can read.
    """

    def __init__(self, folder: Path) -> None:
        self.database = StateDatabase(folder, make=False)
        self.database.make_read_only(LOCK_SECONDS)
        self._last: tuple[float, DashboardState | HetoptError] | None = None

    def read(self) -> DashboardState:
        """The state now, or less than :data:`MAX_AGE` seconds ago; errors are raised as often.

        Raises
        ------
        UnusableFile
            The database is damaged, gone, or locked.
        InvalidOption
            It is of another version of hetopt.
        """
        if self._last is None or time.monotonic() - self._last[0] >= MAX_AGE:
            state: DashboardState | HetoptError
            try:
                with reports_damage(self.database):
                    state = self._read()
            except HetoptError as problem:
                state = problem
            finally:
                self.database.disconnect()
            self._last = time.monotonic(), state
        found = self._last[1]
        if isinstance(found, HetoptError):
            raise found.with_traceback(None)
        return found

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
        state = snapshot(self.database)
        end = state.now if state.expired is None else state.expired
        running = [job["name"] for job in state.jobs if job["where"]][:MAX_CURVES]
        with self.database.reading() as connection:
            begin = window_begin(connection, state.now, end, state.round_seconds)
            spans, since = spans_of(connection, begin, end, running=state.expired is None)
            return DashboardState(
                snapshot=state,
                engine=connection.value(ENGINE),
                begin=begin,
                spans=spans,
                since=since,
                rounds=rounds_of(connection, begin),
                usage=usage_of(connection, 0.0, end),
                recent_usage=usage_of(connection, begin, end),
                fairness=fairness(state, unmeasured(connection, gpus_by_type(state.nodes, "gpus"))),
                losses=newest_curves(connection, running, self.database.folder / LEASES),
            )

    def close(self) -> None:
        """Close the database."""
        self.database.close()


# -- the past


def window_begin(connection: Connection, now: float, end: float, round_seconds: float | None) -> float:
    """The begin of the window, or the grant of its first lease if that is later."""
    since = now - max(WINDOW_SECONDS, WINDOW_ROUNDS * (round_seconds or 0.0))
    first = connection.value(f"SELECT min(granted) FROM leases WHERE {AFTER}", since=since, end=end)
    return min(max(since, since if first is None else first), now - MIN_SECONDS)


def spans_of(
    connection: Connection, since: float, end: float, most: int = MAX_LEASES, *, running: bool = True
) -> tuple[list[Span], float]:
    """Leases after ``since``, by GPU in the order of their grants, and the second from which on none is missing.

    Of more than ``most`` leases, those that were sealed first are left out. Leases that are not sealed run, or have
    expired at ``end``.
    """
    query = f"SELECT id, sealed FROM leases WHERE {AFTER} ORDER BY sealed IS NOT NULL, sealed DESC LIMIT :number"
    newest = connection.rows(query, since=since, end=end, number=most + 1)
    if len(newest) > most:
        since = newest[most]["sealed"] or end
    query = """
        SELECT leases.tag, leases.copy, leases.kind, leases.granted, leases.first_tick, leases.round, seats.node,
            seats.gpu_type, seats.number, seats.device, jobs.name AS job, jobs.tenant,
            coalesce(leases.sealed, :end) AS until, leases.sealed IS NULL AND :running AS open,
            leases.stop_reason, coalesce(leases.outcome, '') AS reason
        FROM leases JOIN jobs ON jobs.id = leases.job JOIN seats ON seats.lease = leases.id
        WHERE leases.id IN (SELECT value FROM json_each(:newest))
        ORDER BY leases.id, seats.node, seats.gpu_type, seats.number, seats.device"""
    found, numbers = [], dict[tuple[str, str], dict[str, int]]()
    for row in connection.rows(query, end=end, running=running, newest=[row["id"] for row in newest[:most]]):
        device, number, stop_reason = row.pop("device"), row["number"], row.pop("stop_reason")
        row["reason"] = row["reason"] if stop_reason is None else STOP_TEXTS.get(stop_reason, stop_reason)
        known = numbers.setdefault((row["node"], row["gpu_type"]), {})
        if device and device not in known:  # GPUs keep their rows although they are numbered again when one is lost
            known[device] = next(n for n in chain((number,), count()) if n not in known.values())
        found.append(Span(**row | {"number": known.get(device, number), "open": bool(row["open"])}))
    return found, since


def rounds_of(connection: Connection, since: float) -> list[Row]:
    """Rows of the rounds from ``since`` on, and the one before; in order."""
    query = """
        SELECT * FROM rounds WHERE number >= coalesce((SELECT max(number) FROM rounds WHERE time < :since), 0)
        ORDER BY number"""
    return connection.rows(query, since=since)


def usage_of(connection: Connection, since: float, end: float) -> dict[str, float]:
    """Tenant -> GPU-seconds from ``since`` until ``end``, from the grants of leases to their seals; the most first."""
    query = f"""
        SELECT jobs.tenant, sum(coalesce(leases.sealed, :end) - max(leases.granted, :since)) AS seconds
        FROM leases JOIN seats ON seats.lease = leases.id JOIN jobs ON jobs.id = leases.job
        WHERE {AFTER} GROUP BY jobs.tenant ORDER BY seconds DESC, jobs.tenant"""
    return {tenant: float(own) for tenant, own in connection.tuples(query, end=end, since=since)}


def unmeasured(connection: Connection, capacity: Mapping[str, int]) -> set[str]:
    """Names of jobs that were never measured on a GPU type that they may use and that has room for them."""
    measured = set(connection.execute("SELECT job, gpu_type FROM speeds"))
    found = set()
    for row in connection.rows("SELECT id, name, spec FROM jobs"):
        with suppress(DamagedRow):
            spec = spec_fields(row)
            usable = [t for t in spec.get("gpu_types") or capacity if capacity.get(t, 0) >= spec["workers"]]
            if any((row["id"], t) not in measured for t in usable):
                found.add(row["name"])
    return found


# -- fairness


def fairness(state: Snapshot, unmeasured: Collection[str] = ()) -> pd.DataFrame:
    """Finish-time fairness by the definition ``"themis"`` of :func:`hetopt.metrics.finish_time.finish_time_fairness`.

    The cluster is at all times the present one, with nodes that are down or drained. A GPU type on which a job was not
    measured, or without GPUs for the whole gang, does not count.

    Parameters
    ----------
    unmeasured:
        Names of jobs with GPU types that they may use and on which they were never measured.

    Returns
    -------
    DataFrame
        By job, without those that failed, were cancelled, or have no speed on a type with room for the gang:
        ``tenant``; ``shared``, seconds from submission to finish (of a running job, the rest at its present speed; of
        one without GPUs at its fastest measured speed, as if it ran from now on); ``ideal``, seconds in an own 1/N of
        the cluster (N is the mean until now for jobs that are not finished); ``rho``, ``shared / ideal``; and
        ``estimated``, whether rho may be too small, as the job has no GPUs or is in ``unmeasured``.
    """
    jobs = [job for job in state.jobs if job["workers"]]  # others have a damaged specification
    capacity = gpus_by_type(state.nodes, "gpus")
    submitted, seconds, steps, workers = (
        np.array([job[key] for job in jobs], dtype=float) for key in ("submitted", "seconds", "steps", "workers")
    )
    speed = [[job["speeds"].get(t, 0.0) * (n >= job["workers"]) for t, n in capacity.items()] for job in jobs]
    number = mean_present(submitted, submitted + np.maximum(seconds, 0.0))
    gpus = np.array(list(capacity.values()), dtype=float)
    shared = seconds + np.array([_seconds_left(job) for job in jobs])
    ideal = seconds_in_own_part(steps, workers, np.reshape(speed, (len(jobs), len(gpus))), gpus, number)
    columns = {
        "tenant": [job["tenant"] for job in jobs],
        "shared": shared,
        "ideal": ideal,
        "rho": shared / ideal,
        "estimated": [
            job["name"] in unmeasured or (job["state"] != DONE and job["left_seconds"] is None) for job in jobs
        ],
    }
    return pd.DataFrame(columns, index=[job["name"] for job in jobs]).replace(np.inf, np.nan).dropna()


def _seconds_left(job: Mapping[str, Any]) -> float:
    """Seconds to the finish, estimated; NaN if the job failed, was cancelled, or has no measured speed."""
    if job["state"] in FINISHED:
        return 0.0 if job["state"] == DONE else np.nan
    if job["left_seconds"] is not None:
        return float(job["left_seconds"])
    fastest = max(job["speeds"].values(), default=0.0)
    return max(0, job["steps"] - job["step"]) / fastest if fastest > 0 else np.nan
