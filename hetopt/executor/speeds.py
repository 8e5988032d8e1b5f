"""Measured speeds of jobs on GPU types, where jobs may run, and the measured cost of a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from hetopt.executor.connection import Connection
from hetopt.executor.engines.engine import Node
from hetopt.executor.lease_report import LeaseReport, is_number
from hetopt.executor.leases import OpenLease, StopReason

if TYPE_CHECKING:
    from hetopt.executor.job_file import JobSpec

Kind: TypeAlias = tuple[str, str, int]
"""Tenant, model, and workers."""

NEWEST = 50
"""Restarts over which the median is taken."""

RESTARTS = (StopReason.MOVES, StopReason.PROFILING, StopReason.PREEMPTED)
"""Reasons to stop after which a job starts again."""


class Estimator(Protocol):
    """Estimates speeds that are not measured yet."""

    def __call__(
        self,
        models: Mapping[str, Mapping[str, Any]],
        measured: Mapping[str, Mapping[str, float]],
        types: Sequence[str],
    ) -> Mapping[str, Mapping[str, float]]:
        """Steps per second of every job on every type.

        Parameters
        ----------
        models:
            Job -> ``batch_size``, ``model_weight``, ``dataset_size``.
        measured:
            Job -> GPU type -> steps per second, of pairs that were measured.
        types:
            GPU types of the cluster.
        """
        ...


@dataclass(frozen=True)
class Speed:
    """Measurements of a job on a GPU type."""

    feasible: bool = True
    steps: float = 0.0
    seconds: float = 0.0
    memory_bytes: float | None = None

    @property
    def measured(self) -> float | None:
        """Steps per second."""
        return self.steps / self.seconds if self.steps > 0 and self.seconds > 0 else None


@dataclass(frozen=True)
class Speeds:
    """All measurements: number of the job -> GPU type -> speed."""

    known: Mapping[int, Mapping[str, Speed]] = field(default_factory=dict)

    def of(self, job: int) -> Mapping[str, Speed]:
        """GPU type -> measurements of one job."""
        return self.known.get(job, {})

    def rates(self, job: int) -> dict[str, float]:
        """GPU type -> steps per second, where measured."""
        return {t: speed.measured for t, speed in self.of(job).items() if speed.measured is not None}

    @cached_property
    def _out_of_memory(self) -> dict[int, tuple[str, ...]]:
        """Number of the job -> GPU types, for jobs that have run out of memory."""
        found = {job: tuple(t for t, speed in own.items() if not speed.feasible) for job, own in self.known.items()}
        return {job: types for job, types in found.items() if types}

    def out_of_memory_on(self, job: int) -> tuple[str, ...]:
        """GPU types on which it has run out of memory."""
        return self._out_of_memory.get(job, ())

    def with_progress(self, reports: Iterable[LeaseReport]) -> Speeds:
        """The same with the ticks of leases that are still open."""
        known = {job: dict(own) for job, own in self.known.items()}
        for one in reports:
            gpu_type, (steps, seconds) = one.lease.gpu_types, one.timed
            if "+" in gpu_type or steps <= 0 or seconds <= 0:
                continue
            own = known.setdefault(one.lease.job_id, {})
            before = own.get(gpu_type, Speed())
            own[gpu_type] = Speed(True, before.steps + steps, before.seconds + seconds, before.memory_bytes)
        return Speeds(known)


@dataclass
class SpeedRows:
    """Rows of table ``speeds``, and the speeds from them."""

    rows: set[tuple[Any, ...]] = field(default_factory=set)
    known: dict[int, dict[str, Speed]] = field(default_factory=dict)


def read_speeds(connection: Connection, *, all_jobs: bool = False, before: SpeedRows | None = None) -> Speeds:
    """The speeds in the state database, of queued jobs or of all jobs.

    Parameters
    ----------
    before:
        What was read before; speeds of jobs with the same rows are taken from it. It is brought up to date.
    """
    before = SpeedRows() if before is None else before
    query = "SELECT job, gpu_type, feasible, steps, seconds, memory_bytes FROM speeds"
    if not all_jobs:
        query += " WHERE job IN (SELECT id FROM jobs WHERE state = 'queued')"
    listed = connection.tuples(query)
    rows = set(listed)
    changed = {job for job, *_ in rows ^ before.rows}
    known = {job: own for job, own in before.known.items() if job not in changed}
    for job, gpu_type, *values in listed if changed else ():
        if job in changed:
            known.setdefault(job, {})[gpu_type] = Speed(*values)
    before.rows, before.known = rows, known
    return Speeds(known)


def learn(connection: Connection, lease: OpenLease, report: LeaseReport) -> None:
    """Record what a lease has measured: speed, memory, or that the GPU type has too little memory."""
    gpu_type = lease.gpu_types
    if "+" in gpu_type:
        return  # the slowest of several types sets the pace
    steps, seconds = report.timed
    memory = report.progress.get("memory_bytes")
    note = None
    if report.out_of_memory:
        steps, seconds, memory, note = 0.0, 0.0, None, "out of memory"
        connection.change("DELETE FROM targets WHERE job = :job", job=lease.job_id)  # not on this type again
    elif steps <= 0 or seconds <= 0:
        return
    connection.change(
        """INSERT INTO speeds (job, gpu_type, feasible, steps, seconds, memory_bytes, note)
        VALUES (:job, :gpu_type, :feasible, :steps, :seconds, :memory, :note)
        ON CONFLICT (job, gpu_type) DO UPDATE SET feasible = min(feasible, excluded.feasible),
        steps = steps + excluded.steps, seconds = seconds + excluded.seconds,
        memory_bytes = coalesce(excluded.memory_bytes, memory_bytes), note = coalesce(excluded.note, note)""",
        job=lease.job_id,
        gpu_type=gpu_type,
        feasible=not report.out_of_memory,
        steps=steps,
        seconds=seconds,
        memory=memory if is_number(memory) else None,
        note=note,
    )


def memory_of(nodes: Iterable[Node]) -> dict[str, float]:
    """GPU type -> memory in bytes of one GPU, where known; the smallest where they differ."""
    found: dict[str, float] = {}
    for node in nodes:
        for gpu_type, memory in node.memory_bytes.items():
            found[gpu_type] = min(memory, found.get(gpu_type, memory))
    return found


def allowed_types(
    spec: JobSpec, known: Mapping[str, Speed], memory: Mapping[str, float], types: Iterable[str]
) -> list[str]:
    """GPU types on which the job may run and, by the measurements so far, can."""
    need, too_small = spec.memory, 0.0
    for t, speed in known.items():
        need = max(need, speed.memory_bytes or 0.0)
        too_small = too_small if speed.feasible else max(too_small, memory.get(t, 0.0))
    return [
        t
        for t in types
        if (spec.gpu_types is None or t in spec.gpu_types)
        and (t not in known or known[t].feasible)
        and memory.get(t, float("inf")) >= need
        and (t in known or memory.get(t, float("inf")) > too_small)
    ]


def to_profile(
    spec: JobSpec, known: Mapping[str, Speed], memory: Mapping[str, float], capacity: Mapping[str, int]
) -> list[str]:
    """GPU types on which the job is still to be profiled, the largest memory first [FFT, section 5].

    After the first run its memory is known, and types with too little are left out.
    """
    fits = [t for t in allowed_types(spec, known, memory, capacity) if capacity[t] >= spec.workers]
    return sorted((t for t in fits if t not in known), key=lambda t: -memory.get(t, float("inf")))


def kind_of(spec: JobSpec) -> Kind | None:
    """Jobs of one kind are profiled once [OEF, section 4.1]; None where the job's file names no model."""
    return None if spec.model is None else (spec.tenant, spec.model, spec.workers)


def take_over(connection: Connection, kind: Kind, jobs: Sequence[int]) -> int:
    """Give jobs the speeds of the newest jobs of their kind, also on hosts that are down now; how many are new.

    Their own measurements stay. Types without enough memory are left out: users change a batch size that was too large.
    """
    tenant, model, workers = kind
    return connection.change(
        """INSERT OR IGNORE INTO speeds (job, gpu_type, feasible, steps, seconds, memory_bytes, note)
        SELECT own.value, gpu_type, feasible, steps, seconds, memory_bytes,
            coalesce(note, 'as measured of another job of this kind')
        FROM speeds JOIN jobs ON jobs.id = speeds.job, json_each(:jobs) AS own
        WHERE tenant = :tenant AND feasible = 1
            AND CASE WHEN json_valid(spec) THEN json_extract(spec, '$.model') = :model
            AND json_extract(spec, '$.workers') = :workers END ORDER BY job DESC""",
        jobs=jobs,
        tenant=tenant,
        model=model,
        workers=workers,
    )


def stopping(connection: Connection) -> list[float]:
    """Seconds from the request to stop to the seal, of the newest leases that a restart follows."""
    found: list[tuple[float, float]] = []
    for reason in RESTARTS:  # each by the index: most leases may have ended for another reason
        found += connection.tuples(
            """SELECT sealed, stop_requested FROM leases WHERE sealed IS NOT NULL AND stop_reason = :reason
            AND outcome = 'stopped' ORDER BY sealed DESC LIMIT :newest""",
            reason=reason,
            newest=NEWEST,
        )
    return [sealed - asked for sealed, asked in sorted(found, reverse=True)[:NEWEST]]


def starting(connection: Connection) -> list[float]:
    """Seconds from the grant to the first step, of the newest leases."""
    return connection.column(
        """SELECT first_tick - granted FROM leases WHERE first_tick IS NOT NULL
        ORDER BY first_tick DESC LIMIT :newest""",
        newest=NEWEST,
    )


def restart_seconds(connection: Connection) -> float | None:
    """Median seconds that a job loses when it is stopped and started elsewhere; None before any was measured."""
    stop, start = stopping(connection), starting(connection)
    return median(stop) + median(start) if stop and start else None
