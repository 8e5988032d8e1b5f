"""The jobs that can be scheduled, and the profiling runs that come first [FFT, section 5]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetopt.executor.connection import Connection, Row
from hetopt.executor.job_file import JobSpec
from hetopt.executor.lease_record import PROFILE, TRAIN
from hetopt.executor.leases import OpenLease
from hetopt.executor.node_monitor import GONE_SECONDS, NodeMonitor
from hetopt.executor.queue import FAILED, spec_of
from hetopt.executor.round_decision import ClusterState
from hetopt.executor.speeds import (
    Kind,
    Speed,
    Speeds,
    allowed_types,
    kind_of,
    measured_of,
    memory_of,
    read_speeds,
    take_over,
    to_profile,
)
from hetopt.executor.state_database import Cache, StateDatabase

BEGIN_SECONDS = 30.0
"""Jobs of the same kind wait for this time for a profiling run that the engine has not begun."""


@dataclass(frozen=True)
class ProfilingRun:
    """A profiling run that is needed: a gang on GPUs of one type."""

    job: int
    gpu_type: str
    workers: int


class Profiler:
    """Finds out what can be scheduled.

    Parameters
    ----------
    database, cache:
        State, and results of queries.
    monitor:
        The nodes.
    profile:
        Whether new jobs are profiled before they are scheduled.
    """

    def __init__(self, database: StateDatabase, cache: Cache, monitor: NodeMonitor, *, profile: bool) -> None:
        self.database, self.cache, self.monitor, self.profile = database, cache, monitor, profile

    def cluster_state(self, leases: Sequence[OpenLease]) -> tuple[ClusterState, list[ProfilingRun]]:
        """What a decision would use now, and the profiling runs that are needed first."""
        usable = self.monitor.usable(leases)
        capacity = dict(Counter(seat.gpu_type for node in usable for seat in node.seats))
        memory = memory_of(self.monitor.nodes)
        key = ("jobs", tuple(capacity.items()), tuple(memory.items()))
        ready, unknown, speeds = self.cache.get(key, lambda: self._jobs(capacity, memory))
        now = self.database.now()
        held = {lease.job_id: lease for lease in sorted(leases, key=lambda lease: lease.is_lost)}
        ready = [row for row in ready if _may_start(row, held.get(row["id"]), now)]
        stop = self.monitor.to_stop(leases)
        staying = [lease for lease in leases if not lease.is_stopping and lease.tag not in stop]
        training = [lease for lease in staying if lease.kind == TRAIN]
        nodes = [self.monitor.with_missing(node, leases) for node in usable] + self.monitor.closed(leases)
        whole = dict(Counter(seat.gpu_type for node in self.monitor.nodes for seat in node.seats))
        return ClusterState(now, nodes, ready, training, speeds, whole=whole), self._runs(unknown, held, now)

    def _jobs(
        self, capacity: Mapping[str, int], memory: Mapping[str, float]
    ) -> tuple[list[Row], list[tuple[Row, Sequence[str]]], Speeds]:
        """Jobs that can be scheduled, those that must be profiled with the types, and what was measured."""
        with self.database.writing() as connection:
            jobs = connection.rows("SELECT * FROM jobs WHERE state = 'queued' AND cancelled = 0 ORDER BY id")
            trained = _trained(connection)
            speeds = read_speeds(connection)
            if self.profile and _learn_from_others(
                connection, [row for row in jobs if row["id"] not in trained], speeds, memory, capacity
            ):
                speeds = read_speeds(connection)
            ready: list[Row] = []
            unknown: list[tuple[Row, Sequence[str]]] = []
            for row in jobs:
                spec, known = spec_of(row), speeds.of(row["id"])
                if self._is_impossible(spec, known, memory):
                    self._fail(connection, row)
                elif self.profile and row["id"] not in trained and (left := to_profile(spec, known, memory, capacity)):
                    unknown.append((row, left))
                else:
                    ready.append(row)
        return ready, unknown, speeds

    def _is_impossible(self, spec: JobSpec, known: Mapping[str, Speed], memory: Mapping[str, float]) -> bool:
        """Whether it ran out of memory, and no GPU type is left, not even on nodes that are down."""
        if all(speed.feasible for speed in known.values()):
            return False
        types = {seat.gpu_type for node in self.monitor.nodes for seat in node.seats} | memory.keys()  # also lost GPUs
        return bool(types) and not allowed_types(spec, known, memory, types)

    def _fail(self, connection: Connection, row: Row) -> None:
        reason = "it ran out of memory on every GPU type that it may run on"
        values = {"state": FAILED, "finished": self.database.now(), "reason": reason}
        connection.update("jobs", values, "id = :job", job=row["id"])
        self.database.record_event(connection, "failed", row["name"], reason=reason)

    @staticmethod
    def _runs(
        unknown: Sequence[tuple[Row, Sequence[str]]], held: Mapping[int, OpenLease], now: float
    ) -> list[ProfilingRun]:
        """The next profiling runs; jobs of one kind wait for the first of them if it will have its run soon."""
        runs, coming = [], set[tuple[Kind, str]]()
        for row, left in unknown:
            spec = spec_of(row)
            kind = kind_of(spec)
            if own := [t for t in left if kind is None or (kind, t) not in coming]:
                runs.append(ProfilingRun(row["id"], own[0], spec.workers))
            if kind is not None and _is_profiled_soon(row, held.get(row["id"]), now):
                coming |= {(kind, t) for t in left}
        return runs


def _trained(connection: Connection) -> set[int]:
    """Jobs that have trained: they were profiled when they came, and on other types they are measured as they train."""
    return set(
        connection.column(
            """SELECT id FROM jobs WHERE state = 'queued' AND EXISTS
            (SELECT * FROM leases WHERE job = jobs.id AND kind = 'train' AND first_tick IS NOT NULL)"""
        )
    )


def _learn_from_others(
    connection: Connection,
    jobs: Sequence[Row],
    speeds: Speeds,
    memory: Mapping[str, float],
    capacity: Mapping[str, int],
) -> bool:
    """Give jobs that are to be profiled what was measured of jobs of their kind; whether there was any."""
    found: dict[Kind, Mapping[str, Row]] = {}
    for row in jobs:
        spec, known = spec_of(row), speeds.of(row["id"])
        if (kind := kind_of(spec)) is not None and (not known or to_profile(spec, known, memory, capacity)):
            if kind not in found:
                found[kind] = measured_of(connection, kind)
            take_over(connection, row["id"], found[kind].values())
    return any(found.values())


def _may_start(row: Row, lease: OpenLease | None, now: float) -> bool:
    """Whether it does not back off, nor waits for a lease that was given up long ago."""
    lost = None if lease is None else lease.lost_since
    return bool(row["not_before"] <= now and (lost is None or now - lost < GONE_SECONDS))


def _is_profiled_soon(row: Row, lease: OpenLease | None, now: float) -> bool:
    """Whether a job that is to be profiled is being profiled, or may begin to be."""
    if lease is None:
        return bool(row["not_before"] <= now)
    begins = lease.running is not None or now - lease.granted < BEGIN_SECONDS
    return lease.kind == PROFILE and not lease.is_lost and begins
