"""What a pass of the controller observes: nodes, jobs that may be scheduled, and the profiling runs that come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hetopt.executor.connection import Connection, Row
from hetopt.executor.engines.engine import Node
from hetopt.executor.job_file import JobSpec
from hetopt.executor.lease_record import PROFILE, TRAIN
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import OpenLease, StopReason
from hetopt.executor.node_monitor import NodeMonitor, capacity_of
from hetopt.executor.queue import FAILED, spec_of
from hetopt.executor.speeds import (
    Kind,
    Speed,
    SpeedRows,
    Speeds,
    allowed_types,
    kind_of,
    memory_of,
    read_speeds,
    take_over,
    to_profile,
)
from hetopt.executor.state_database import Cache, StateDatabase

LOST_SECONDS = 150.0
"""Decisions leave out a job whose lease was given up longer ago, as its processes may still live."""

BEGIN_SECONDS = 30.0
"""Jobs of the same kind wait for this time for a profiling run that the engine has not begun."""

UNTRAINED = """SELECT id FROM jobs WHERE state = 'queued' AND NOT EXISTS
    (SELECT * FROM leases WHERE job = jobs.id AND kind = 'train' AND first_tick IS NOT NULL)"""


@dataclass(frozen=True)
class ProfilingRun:
    """A profiling run that is needed: a gang on GPUs of one type."""

    job: int
    gpu_type: str
    workers: int


@dataclass(frozen=True)
class ClusterState:
    """What a pass observes; the scheduler decides by it, and the reconciler carries out the decision.

    Parameters
    ----------
    now:
        Second of the cluster's clock.
    nodes:
        Nodes with the GPUs that a decision may give to jobs.
    jobs:
        Rows of the unfinished jobs that may be scheduled, in the order of submission.
    leases:
        All open leases.
    speeds:
        Measurements.
    all_gpus:
        GPU type -> GPUs of all nodes, also of those that are down.
    reports:
        Of the leases that train, once a decision is made.
    usable:
        Nodes with the GPUs on which leases may start now.
    stops:
        Tag of a lease that must stop at once -> why.
    runs:
        Profiling runs that are needed next.
    """

    now: float
    nodes: Sequence[Node]
    jobs: Sequence[Row]
    leases: Sequence[OpenLease]
    speeds: Speeds
    all_gpus: Mapping[str, int] = field(default_factory=dict)
    reports: Sequence[LeaseReport] = ()
    usable: Sequence[Node] = ()
    stops: Mapping[str, StopReason] = field(default_factory=dict)
    runs: Sequence[ProfilingRun] = ()

    @property
    def training(self) -> list[OpenLease]:
        """Leases that train and may continue."""
        staying = (lease for lease in self.leases if not lease.is_stopping and lease.tag not in self.stops)
        return [lease for lease in staying if lease.kind == TRAIN]

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """GPU types of all nodes: also of those that are down, which memories of policies may have."""
        return tuple(dict.fromkeys([*self.all_gpus, *capacity_of(self.nodes)]))

    @cached_property
    def _reports_of(self) -> dict[int, list[LeaseReport]]:
        """Number of the job -> its reports."""
        found = defaultdict[int, list[LeaseReport]](list)
        for report in self.reports:
            found[report.lease.job_id].append(report)
        return found

    def steps_done(self, job: Row) -> float:
        """Steps that are committed, and those that its leases have done since."""
        own = self._reports_of.get(job["id"], ())
        return float(job["committed"] + sum(max(0, (one.ticked or 0) - one.lease.resume_step) for one in own))


class ClusterObserver:
    """Observes nodes and jobs; ``profile``: new jobs are profiled before they are scheduled."""

    def __init__(self, database: StateDatabase, cache: Cache, monitor: NodeMonitor, *, profile: bool) -> None:
        self.database, self.cache, self.monitor, self.profile = database, cache, monitor, profile
        self._basis: tuple[Sequence[OpenLease], object] | None = None  # of self._nodes
        self._nodes: dict[str, Any] = {}
        self._speeds = SpeedRows()

    def observe(self, leases: Sequence[OpenLease]) -> ClusterState:
        """The state now, with these open leases."""
        nodes, now = self._observed_nodes(leases), self.database.now()
        capacity, memory = capacity_of(nodes["usable"]), memory_of(self.monitor.nodes)
        key = ("jobs", tuple(capacity.items()), tuple(memory.items()))
        ready, unknown, speeds = self.cache.get(key, lambda: self._jobs(capacity, memory))
        held = {lease.job_id: lease for lease in sorted(leases, key=lambda lease: lease.is_lost)}
        late = {job for job, one in held.items() if one.lost_since is not None and now - one.lost_since >= LOST_SECONDS}
        late |= {row["id"] for row in ready if row["not_before"] > now}
        jobs = [row for row in ready if row["id"] not in late] if late else ready
        return ClusterState(now, jobs=jobs, leases=leases, speeds=speeds, runs=_runs(unknown, held, now), **nodes)

    def _observed_nodes(self, leases: Sequence[OpenLease]) -> dict[str, Any]:
        """What can be granted, and what must stop: the same objects where nothing has changed."""
        seen = self.monitor.news, self.monitor.count_unused()
        if self._basis is None or leases is not self._basis[0] or seen != self._basis[1]:
            usable = self.monitor.usable(leases)
            self._basis, self._nodes = (
                (leases, seen),
                {
                    "nodes": self.monitor.schedulable(usable, leases),
                    "all_gpus": capacity_of(self.monitor.nodes),
                    "usable": usable,
                    "stops": self.monitor.to_stop(leases),
                },
            )
        return self._nodes

    def _jobs(
        self, capacity: Mapping[str, int], memory: Mapping[str, float]
    ) -> tuple[list[Row], list[tuple[Row, Sequence[str]]], Speeds]:
        """Jobs that may be scheduled, those that must be profiled with the types, and what was measured."""
        with self.database.writing() as connection:
            jobs = connection.rows("SELECT * FROM jobs WHERE state = 'queued' AND cancelled = 0 ORDER BY id")
            # jobs that have trained were profiled before; on other types they are measured as they train
            new = set(connection.column(UNTRAINED)) if self.profile else set()
            speeds, alike = read_speeds(connection, before=self._speeds), defaultdict[Kind, list[int]](list)
            for row in jobs if new else ():
                known, kind = speeds.of(row["id"]), kind_of(spec_of(row)) if row["id"] in new else None
                if kind is not None and (not known or to_profile(spec_of(row), known, memory, capacity)):
                    alike[kind].append(row["id"])
            if sum(take_over(connection, kind, own) for kind, own in alike.items()):
                speeds = read_speeds(connection, before=self._speeds)
            ready, unknown = list[Row](), list[tuple[Row, Sequence[str]]]()
            for row in jobs:
                spec, known = spec_of(row), speeds.of(row["id"])
                if speeds.out_of_memory_on(row["id"]) and self._is_impossible(spec, known, memory):
                    self._fail(connection, row)
                elif row["id"] in new and (left := to_profile(spec, known, memory, capacity)):
                    unknown.append((row, left))
                else:
                    ready.append(row)
        return ready, unknown, speeds

    def _is_impossible(self, spec: JobSpec, known: Mapping[str, Speed], memory: Mapping[str, float]) -> bool:
        """Whether no GPU type is left for a job that ran out of memory, not even on nodes that are down."""
        types = capacity_of(self.monitor.nodes).keys() | memory.keys()  # also lost GPUs
        return bool(types) and not allowed_types(spec, known, memory, types)

    def _fail(self, connection: Connection, row: Row) -> None:
        reason = f"it ran out of memory on every GPU type that it may use; with less memory, hetopt retry {row['name']}"
        values = {"state": FAILED, "finished": self.database.now(), "reason": reason}
        connection.update("jobs", values, "id = :job", job=row["id"])
        self.database.record_event(connection, "failed", row["name"], reason=reason)


def _runs(
    unknown: Sequence[tuple[Row, Sequence[str]]], held: Mapping[int, OpenLease], now: float
) -> list[ProfilingRun]:
    """The next profiling runs; jobs of one kind wait for the first of them if it will have its run soon."""
    runs, coming = [], set[tuple[Kind, str]]()
    for row, left in unknown:
        spec, lease = spec_of(row), held.get(row["id"])
        kind, ready = kind_of(spec), lease is None and row["not_before"] <= now
        own = [t for t in left if kind is None or (kind, t) not in coming]
        if own and ready:
            runs.append(ProfilingRun(row["id"], own[0], spec.workers))
        runs_soon = ready
        if lease is not None and lease.kind == PROFILE and not lease.is_lost:
            runs_soon = lease.running is not None or now - lease.granted < BEGIN_SECONDS
        if kind is not None and runs_soon:
            coming |= {(kind, t) for t in left}
    return runs
