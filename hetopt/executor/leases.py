"""Leases in the state database: granted with an epoch and seats, started, stopped, and sealed exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, spec_fields
from hetopt.executor.lease_directory import LOG_BYTES
from hetopt.executor.lease_record import INTENT, SEALED, STARTED, TRAIN, LeaseRecord, Seat, by_node
from hetopt.executor.queue import CANCELLED, DONE, FAILED, QUEUED
from hetopt.executor.schema import HELD_DEVICE, HELD_NUMBER
from hetopt.executor.state_database import StateDatabase


class StopReason(StrEnum):
    """Why a stop was requested. The values are stored in the state database and in the job's stop file."""

    MOVES = "moves"
    PREEMPTED = "preempted"
    PROFILING = "profiling"
    ROUND_ENDED = "round_ended"
    NODE_DRAINED = "node_drained"
    GPU_LOST = "gpu_lost"
    GPU_BUSY = "gpu_busy"
    CANCELLED = "cancelled"
    PART_ENDED = "part_ended"
    """Not requested: a process of the gang ended, so the rest of it stops."""
    NOT_STARTED = "not_started"
    """The lease waits for something at the engine, such as cores that jobs of others have, and is taken back."""
    NODE_DOWN = "node_down"
    """The lease has not begun, and a node of it is drained, down or no longer in the partition or reservation."""


STOP_TEXTS = {
    StopReason.MOVES: "it moves to other GPUs",
    StopReason.PREEMPTED: "the policy gives its GPUs to other jobs",
    StopReason.PROFILING: "a profiling run needs its GPUs",
    StopReason.ROUND_ENDED: "its round has ended",
    StopReason.NODE_DRAINED: "its node is drained",
    StopReason.GPU_LOST: "its GPU is gone",
    StopReason.GPU_BUSY: "its GPU is in use outside hetopt",
    StopReason.CANCELLED: "cancelled",
    StopReason.PART_ENDED: "part of the gang has ended",
    StopReason.NOT_STARTED: "the engine did not start it in time",
    StopReason.NODE_DOWN: "the engine starts nothing on its node now",
}
"""For users."""

MAX_FAILURES = 3
"""Failures in a row, without a new checkpoint between, after which a job is not started again."""

MAX_LOSSES = 10
"""The same of leases that were lost, or ended early without a request: a fault of the host, or of the job."""

LOSSES_AT_ONCE = 2
"""Losses in a row after which the job backs off before it is started again."""

MAX_BACKOFF = 60.0
"""Seconds that it backs off at most."""

PORTS = range(20000, 32000)
"""Ports of rank 0; Linux gives others to outgoing connections."""


@dataclass(frozen=True, kw_only=True)
class OpenLease(LeaseRecord):
    """A lease that is not sealed, with its state in the database.

    Parameters
    ----------
    id, job_id:
        Numbers of the lease and of its job.
    state:
        ``intent`` or ``started``.
    gpu_types:
        Types of its GPUs, joined by ``+``.
    forked, round:
        Whether it is a copy of a forked job, and the round that granted it.
    granted, running, first_tick, stop_requested, lost_since:
        Seconds of the cluster's clock: of the grant; when a process was first seen; of the first step; of the request
        to stop; since when it has no heartbeat, given up but not certainly dead. None: not yet.
    stop_reason:
        See :class:`StopReason`.
    cancelled:
        The job is to be cancelled.
    """

    id: int
    job_id: int
    state: str
    gpu_types: str
    forked: bool
    round: int
    granted: float
    running: float | None
    first_tick: float | None
    stop_requested: float | None
    stop_reason: str | None
    lost_since: float | None
    cancelled: bool

    @property
    def is_training(self) -> bool:
        """Whether it is past its first step and nothing else is requested of it."""
        return self.first_tick is not None and not (self.is_stopping or self.is_lost or self.cancelled)

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self.stop_requested is not None

    @property
    def is_lost(self) -> bool:
        """Whether it was given up."""
        return self.lost_since is not None


STATE_COLUMNS = (
    *("id", "tag", "copy", "kind", "state", "gpu_types", "forked", "round", "until_step", "resume_dir"),
    *("granted", "running", "first_tick", "stop_requested", "stop_reason", "lost_since", "ttl_seconds"),
)
"""Columns of table ``leases`` that are fields of :class:`OpenLease` under the same name."""


def open_leases(
    connection: Connection, folder: Path, made: dict[int, tuple[object, OpenLease]] | None = None
) -> list[OpenLease]:
    """All leases that are not sealed, in the order of their grants; for ``folder`` see :func:`directory`.

    Parameters
    ----------
    made:
        Number of a lease -> its rows, and the lease from them at the last call: it is taken where the rows are the
        same, and what is new replaces it.
    """
    columns = ", ".join(f"jobs.{column} AS job_{column}" for column in JOB_COLUMNS)
    query = f"SELECT leases.*, {columns} FROM leases LEFT JOIN jobs ON jobs.id = job WHERE leases.state != 'sealed'"
    cursor, made = connection.execute(query), {} if made is None else made
    names = [column[0] for column in cursor.description]
    before, rows = dict(made), {row[0]: row for row in sorted(cursor)}  # in SQL, the order would read the sealed ones
    seats: dict[int, list[tuple[Any, ...]]] = {number: [] for number in rows}
    query = """SELECT lease, node, gpu_type, number, device FROM leases JOIN seats ON lease = leases.id
        WHERE leases.state != 'sealed' ORDER BY seats.rowid"""
    for seat in connection.tuples(query):
        seats[seat[0]].append(seat)
    made.clear()
    for number, row in rows.items():
        known, found = before.get(number), (row, seats[number])
        if known is None or known[0] != found:
            fields = dict(zip(names, row, strict=True))
            known = found, _open_lease(fields, [Seat(*seat) for _, *seat in seats[number]], folder)
        made[number] = known
    return [lease for _, lease in made.values()]


JOB_COLUMNS = ("id", "name", "spec", "failures", "cancelled")
"""Columns of table ``jobs`` of which leases are made."""


def _open_lease(row: Row, seats: Iterable[Seat], folder: Path) -> OpenLease:
    job, folder = {column: row[f"job_{column}"] for column in JOB_COLUMNS}, directory(row, folder)
    if job["id"] is None:  # deleted by hand: its lease ends as that of a job whose specification is damaged
        job |= {"name": f"job {row['job']}", "spec": "", "failures": 0, "cancelled": False}
    try:
        spec = spec_fields(job)
    except DamagedRow:
        spec = {}
    return OpenLease(
        **{column: row[column] for column in STATE_COLUMNS},
        job_id=row["job"],
        folder=folder,
        seats=tuple(seats),
        command=tuple(spec.get("command", ())),
        cwd=spec.get("cwd") or str(folder),
        environment=spec.get("environment", {}),
        launch=spec.get("launch", LeaseRecord.launch),
        job=job["name"],
        failures=job["failures"],
        cancelled=job["cancelled"],
        port=PORTS[row["id"] % len(PORTS)],
        resume_step=row["from_step"],
        total_steps=spec.get("steps"),
        checkpoint_seconds=spec.get("checkpoint", LeaseRecord.checkpoint_seconds),
        grace_seconds=spec.get("grace", LeaseRecord.grace_seconds),
        log_bytes=int(spec.get("log", LOG_BYTES)),
    )


def job_numbered(connection: Connection, number: int) -> Row:
    """The row of an existing job."""
    row = connection.row("SELECT * FROM jobs WHERE id = :number", number=number)
    assert row is not None
    return row


def directory(row: Mapping[str, Any], folder: Path) -> Path:
    """Directory of a lease; in ``folder`` unless the lease was granted with another one."""
    return (Path(row["folder"]) if row["folder"] else folder) / str(row["tag"])


def grant(
    connection: Connection,
    database: StateDatabase,
    job: int,
    seats: Sequence[Seat],
    *,
    copy: int = 0,
    kind: str = TRAIN,
    forked: bool = False,
    until_step: int | None = None,
    round_number: int = 0,
    ttl_seconds: float = LeaseRecord.ttl_seconds,
) -> str | None:
    """Record the intent in this transaction: the job's next epoch, the lease, and the seats that it holds; its tag.

    None where the job must not run any more, or the seats are not free: the database decides, not the caller's memory.
    """
    row = job_numbered(connection, job)
    if row["state"] != QUEUED or row["cancelled"] or not _may_have(connection, job, seats, copy=copy, forked=forked):
        return None
    epoch, now, steps = row["epoch"] + 1, database.now(), steps_of(row)
    tag = f"hetopt-{database.cluster}-{job}-{copy}-{epoch}"
    lease = connection.insert(
        "leases",
        tag=tag,
        job=job,
        copy=copy,
        epoch=epoch,
        kind=kind,
        forked=forked,
        state=INTENT,
        gpu_types="+".join(sorted({seat.gpu_type for seat in seats})),
        from_step=row["committed"],
        until_step=steps if until_step is None else min(steps, until_step),
        resume_dir=row["checkpoint"],
        folder=database.leases,
        round=round_number,
        granted=now,
        ttl_seconds=ttl_seconds,
    )
    places = [{"node": s.node, "gpu_type": s.gpu_type, "number": s.index, "device": s.device} for s in seats]
    connection.insert_all("seats", [{"lease": lease, "held": True, **place} for place in places])
    begun = {"started": now} if row["started"] is None else {}
    connection.update("jobs", {"epoch": epoch, "reason": None, "failure": None, **begun}, "id = :job", job=job)
    database.record_event(connection, "granted", row["name"], tag=tag, lease=kind, copy=copy, seats=by_node(seats))
    return tag


def _may_have(connection: Connection, job: int, seats: Sequence[Seat], *, copy: int, forked: bool) -> bool:
    """Whether the seats are free, and no other lease or merge of the job excludes this one."""
    others = connection.rows("SELECT copy, forked FROM leases WHERE job = :job AND state != 'sealed'", job=job)
    if any(other["copy"] == copy or not (forked and other["forked"]) for other in others):
        return False
    if connection.value("SELECT 1 FROM merges WHERE job = :job AND done = 0", job=job):
        return False
    if not forked and connection.value("SELECT 1 FROM leases WHERE job = :job AND forked = 1 AND merged = 0", job=job):
        return False
    held = connection.tuples(
        f"""SELECT node, gpu_type, number, device FROM seats
            WHERE {HELD_NUMBER} AND node IN (SELECT value FROM json_each(:nodes))
        UNION ALL SELECT node, gpu_type, number, device FROM seats
            WHERE {HELD_DEVICE} AND device IN (SELECT value FROM json_each(:devices))""",
        nodes={seat.node for seat in seats if not seat.device},
        devices=[seat.device for seat in seats if seat.device],
    )
    return {Seat(*seat).place for seat in held}.isdisjoint(seat.place for seat in seats)


def set_leases(database: StateDatabase, changes: Mapping[int, Mapping[str, Any]]) -> None:
    """Change columns of leases: number -> column -> value; sealed ones stay as they are."""
    with database.writing() as connection:
        for number, values in changes.items():
            connection.update("leases", values, "id = :number AND state != 'sealed'", number=number)


def mark_started(database: StateDatabase, leases: Iterable[OpenLease]) -> None:
    """Record that the engine has accepted them."""
    new = f"id = :number AND state = '{INTENT}'"
    with database.writing() as connection:
        for lease in leases:
            if connection.update("leases", {"state": STARTED}, new, number=lease.id):
                database.record_event(connection, "started", lease.job, tag=lease.tag)


def request_stop(database: StateDatabase, requests: Iterable[tuple[OpenLease, StopReason]]) -> None:
    """Record requests to stop; the first reason of a lease stays."""
    new = "id = :number AND state != 'sealed' AND stop_requested IS NULL"
    with database.writing() as connection:
        for lease, reason in requests:
            values = {"stop_requested": database.now(), "stop_reason": reason}
            if connection.update("leases", values, new, number=lease.id):
                database.record_event(connection, "stopping", lease.job, tag=lease.tag, reason=reason)


@dataclass(frozen=True)
class LeaseResult:
    """What is known of a lease when it is sealed.

    Attributes
    ----------
    outcome:
        In a word: ``ended``, ``stopped``, ``fenced``, ``failed``, ``lost``, ``revoked`` (never ran), ….
    step, checkpoint, checkpoint_bytes:
        Of the last published checkpoint of the lease; the step is None without one.
    ticked:
        Last step that the job has done.
    finished:
        The job reports that it is done, or ended without a report.
    failure:
        Why it counts as a failure of the job itself; None where it does not.
    fatal:
        Another attempt is useless.
    host_problem:
        Problem of a host that could not start it.
    out_of_memory:
        The GPU has too little memory, or the host.
    """

    outcome: str
    step: int | None = None
    checkpoint: Path | None = None
    checkpoint_bytes: float | None = None
    ticked: int | None = None
    finished: bool = False
    failure: str | None = None
    fatal: bool = False
    host_problem: str | None = None
    out_of_memory: bool = False


def seal(
    database: StateDatabase, lease: OpenLease, result: LeaseResult, learn: Callable[[Connection], None] | None = None
) -> bool:
    """Free its seats and move the job forward, in one transaction and once; False where it is sealed already.

    Parameters
    ----------
    learn:
        Records more of its job in the same transaction.
    """
    with database.writing() as connection:
        row = connection.row("SELECT * FROM leases WHERE id = :number AND state != 'sealed'", number=lease.id)
        if row is None:
            return False
        start, ticked = row["from_step"], result.ticked
        end = start if result.step is None else max(start, min(result.step, row["until_step"]))
        if result.finished and not row["forked"]:
            end = row["until_step"]
        checkpoint = None if result.checkpoint is None else str(result.checkpoint)
        values = {"state": SEALED, "sealed": database.now(), "outcome": result.outcome, "end_step": end}
        values |= {"ticked_step": ticked, "checkpoint": checkpoint}
        connection.update("leases", values, "id = :number", number=lease.id)
        connection.update("seats", {"held": False}, "lease = :number", number=lease.id)
        steps = {"from_step": start, "step": end, "failure": result.failure}
        database.record_event(connection, "sealed", lease.job, tag=row["tag"], outcome=result.outcome, **steps)
        if not connection.value("SELECT 1 FROM jobs WHERE id = :job", job=row["job"]):  # deleted by hand
            connection.update("leases", {"merged": True}, "job = :job", job=row["job"])
            return True
        job = job_numbered(connection, row["job"])
        changed: dict[str, Any] = {"lost": job["lost"] + max(0, (ticked or end) - end)}
        if not row["forked"] and end > job["committed"]:
            changed |= {"committed": end, "checkpoint": checkpoint or job["checkpoint"]}
        if result.checkpoint_bytes is not None:
            changed["checkpoint_bytes"] = result.checkpoint_bytes
        changed |= _state_after(database, connection, job, row, result, end)
        connection.update("jobs", changed, "id = :job", job=job["id"])
        if learn is not None:
            learn(connection)
        if (state := changed.get("state", QUEUED)) != QUEUED:
            connection.change("DELETE FROM targets WHERE job = :job", job=job["id"])
            database.record_event(connection, state, job["name"], reason=changed.get("reason"))
    return True


PROGRESSED = {"failures": 0, "losses": 0, "not_before": 0.0}
"""Columns of a job with a new checkpoint."""


def _state_after(
    database: StateDatabase, connection: Connection, job: Row, row: Row, result: LeaseResult, end: int
) -> dict[str, Any]:
    """Columns of the job that a sealed lease changes."""
    if job["state"] != QUEUED:
        return {}
    now = database.now()
    if job["cancelled"]:
        others = connection.value("SELECT 1 FROM leases WHERE job = :job AND state != 'sealed'", job=job["id"])
        return {} if others else {"state": CANCELLED, "finished": now, "reason": "cancelled"}
    if not row["forked"] and result.finished:
        return {"state": DONE, "finished": now, "reason": None, **PROGRESSED}
    progressed = PROGRESSED if end > row["from_step"] else {}
    if result.out_of_memory and "+" not in row["gpu_types"]:  # it goes to another type, if there is one
        return progressed | {"reason": f"it ran out of memory on {row['gpu_types']}"}
    if result.outcome == "refused" and not result.fatal:
        losses = job["losses"] + 1
        return _after_loss(
            now, losses, f"refused {losses} of {MAX_LOSSES} times: {result.failure}", result.failure, losses
        )
    if result.failure is not None:
        failures = 1 if progressed else job["failures"] + 1
        if result.fatal or failures >= MAX_FAILURES:
            return {**progressed, "failures": failures, "state": FAILED, "finished": now, "reason": result.failure}
        return {**progressed, "failures": failures, "failure": result.failure}
    requested = row["stop_requested"] is not None and row["stop_reason"] != StopReason.PART_ENDED
    if progressed or requested or result.outcome == "revoked":
        return progressed
    if result.outcome == "profiled" and result.ticked is not None:
        return {}  # the purpose of the lease
    losses, last = job["losses"] + 1, result.host_problem or result.outcome
    text = f"{losses} leases in a row ended early, without a request or a checkpoint (the last one: {last})"
    return _after_loss(now, losses, text, f"{text}; events.jsonl has more", losses - LOSSES_AT_ONCE)


def _after_loss(now: float, losses: int, text: str, final: str | None, exponent: int) -> dict[str, Any]:
    """Of a job that has lost this number of leases in a row: it starts again, later each time, or has failed."""
    if losses >= MAX_LOSSES:
        return {"losses": losses, "state": FAILED, "finished": now, "reason": final}
    if exponent <= 0:
        return {"losses": losses}
    pause = min(MAX_BACKOFF, 2.0**exponent)
    return {"losses": losses, "not_before": now + pause, "reason": f"{text}; it backs off for {pause:g} s"}


def failed_before(job: Mapping[str, Any]) -> str:
    """Why a queued job failed the last time, and how often in a row."""
    return f"failed {job['failures']} of {MAX_FAILURES} times: {job['failure']}"


def steps_of(job: Mapping[str, Any]) -> int:
    """Training steps of the whole job."""
    return int(spec_fields(job)["steps"])
