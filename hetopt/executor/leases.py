"""Leases in the books: granted with an epoch and seats, started, stopped, and sealed exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import spec_fields
from hetopt.executor.engines.engine import Grant, Seat
from hetopt.executor.queue import CANCELLED, DONE, FAILED, QUEUED, spec_of
from hetopt.executor.schema import HELD_DEVICE, HELD_NUMBER
from hetopt.executor.state_database import StateDatabase

INTENT, STARTED, SEALED = "intent", "started", "sealed"
TRAIN, PROFILE = "train", "profile"


class StopReason(StrEnum):
    """Why a lease was asked to stop. The values are stored in the state database and in the job's stop file."""

    MOVES = "it moves"
    PREEMPTED = "the decision gives its GPUs to others"
    PROFILING = "a profiling run comes first"
    ROUND_ENDED = "its round is over"
    NODE_DRAINED = "its node shall be emptied"
    GPU_LOST = "its GPU is gone"
    CANCELLED = "cancelled"
    PART_ENDED = "part of the gang has ended"
    """Not requested: a process of the gang ended, so the rest of it stops."""
    NOT_STARTED = "the engine has not begun it in time"
    """The lease waits for something at the engine, such as cores that jobs of others have, and is taken back."""


MOST_FAILURES = 3
"""A job that fails so often in a row, without a new checkpoint between, is not started again."""

MOST_LOSSES = 10
"""The same of leases that were lost, or ended by nobody's wish: a host's fault, or the job's own."""

LOSSES_AT_ONCE = 2
"""After so many of them in a row the job rests before it is started again."""

MOST_REST = 60.0
"""Seconds that it rests at most."""


@dataclass(frozen=True)
class LeaseRecord:
    """A lease that is not sealed, as it is in the books."""

    row: Row
    job: Row
    seats: tuple[Seat, ...]
    folder: Path

    @property
    def tag(self) -> str:
        """Its name."""
        return str(self.row["tag"])

    @property
    def trains(self) -> bool:
        """Whether it is past its first step, and nobody wants anything else of it."""
        row = self.row
        asked = row["stop_asked"] is not None or row["lost_since"] is not None or self.job["cancelled"]
        return row["first_tick"] is not None and not asked

    @cached_property
    def grant(self) -> Grant:
        """As engines know it."""
        return Grant(self.tag, self.folder, self.seats, self.job["failures"])

    @cached_property
    def held(self) -> dict[str, dict[str, int]]:
        """Node -> GPU type -> GPUs."""
        return by_node(self.seats)


def by_node(seats: Sequence[Seat]) -> dict[str, dict[str, int]]:
    """Node -> GPU type -> how many."""
    held: dict[str, dict[str, int]] = {}
    for seat in seats:
        there = held.setdefault(seat.node, {})
        there[seat.gpu_type] = there.get(seat.gpu_type, 0) + 1
    return held


def open_leases(connection: Connection, folder: Path) -> list[LeaseRecord]:
    """All leases that are not sealed, in the order in which they were granted; for ``folder`` see :func:`directory`."""
    rows = connection.rows("SELECT * FROM leases WHERE state != 'sealed'")
    found = sorted(rows, key=lambda row: int(row["id"]))  # SQLite would go through the sealed ones for the order
    if not found:
        return []
    query = "SELECT * FROM jobs WHERE id IN (SELECT job FROM leases WHERE state != 'sealed')"
    jobs = {row["id"]: row for row in connection.rows(query)}
    seats: dict[int, list[Seat]] = {}
    query = "SELECT * FROM seats WHERE lease IN (SELECT id FROM leases WHERE state != 'sealed') ORDER BY rowid"
    for lease, *seat, _ in connection.tuples(query):
        seats.setdefault(lease, []).append(Seat(*seat))
    return [
        LeaseRecord(row, jobs[row["job"]], tuple(seats.get(row["id"], ())), directory(row, folder)) for row in found
    ]


def job_numbered(connection: Connection, number: int) -> Row:
    """The row of a job that exists."""
    row = connection.row("SELECT * FROM jobs WHERE id = :number", number=number)
    assert row is not None
    return row


def directory(row: Mapping[str, Any], folder: Path) -> Path:
    """Of a lease; ``folder`` has those that were not told to lie elsewhere."""
    told = row["folder"]
    return (Path(told) if told else folder) / str(row["tag"])


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
) -> str | None:
    """Write the intent: the job's next epoch, the lease and the seats that it holds, in this transaction; its tag.

    None where the job is no longer to run, or what it would have is not free any more: the books decide, not memory.
    """
    row = job_numbered(connection, job)
    if row["state"] != QUEUED or row["cancelled"]:
        return None
    held = connection.tuples(
        f"""SELECT node, gpu_type, number, device FROM seats
            WHERE {HELD_NUMBER} AND node IN (SELECT value FROM json_each(:nodes))
        UNION ALL SELECT node, gpu_type, number, device FROM seats
            WHERE {HELD_DEVICE} AND device IN (SELECT value FROM json_each(:devices))""",
        nodes={seat.node for seat in seats if not seat.device},
        devices=[seat.device for seat in seats if seat.device],
    )
    taken = {Seat(*seat).place for seat in held}
    others = connection.rows("SELECT copy, forked FROM leases WHERE job = :job AND state != 'sealed'", job=job)
    if any(other["copy"] == copy or not (forked and other["forked"]) for other in others):
        return None
    if connection.rows("SELECT id FROM merges WHERE job = :job AND done = 0", job=job):
        return None
    if not forked and connection.rows("SELECT id FROM leases WHERE job = :job AND forked = 1 AND merged = 0", job=job):
        return None
    if any(seat.place in taken for seat in seats):
        return None
    epoch = row["epoch"] + 1
    tag = f"hetopt-{database.cluster}-{job}-{copy}-{epoch}"
    now = database.now()
    steps = spec_of(row).steps
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
    )
    places = [{"node": s.node, "gpu_type": s.gpu_type, "number": s.index, "device": s.device} for s in seats]
    connection.insert_all("seats", [{"lease": lease, "held": True, **place} for place in places])
    changed = {"epoch": epoch, "reason": None, "failure": None}
    changed["started"] = row["started"] if row["started"] is not None else now
    connection.update("jobs", changed, "id = :job", job=job)
    database.record_event(connection, "granted", row["name"], tag=tag, lease=kind, copy=copy, seats=by_node(seats))
    return tag


def set_leases(database: StateDatabase, leases: Iterable[LeaseRecord], **values: Any) -> None:
    """Change columns of leases that are still open; nothing happens to sealed ones."""
    own = [lease.row["id"] for lease in leases]
    with database.writing() as connection:
        connection.update("leases", values, "id IN (SELECT value FROM json_each(:own)) AND state != 'sealed'", own=own)


def mark_trained(database: StateDatabase, first: Mapping[int, float]) -> None:
    """Leases have done their first step: number -> the cluster's second; nothing happens to sealed ones."""
    with database.writing() as connection:
        for lease, second in first.items():
            connection.update("leases", {"first_tick": second}, "id = :lease AND state != 'sealed'", lease=lease)


def mark_started(database: StateDatabase, leases: Sequence[LeaseRecord]) -> None:
    """The engine has taken them."""
    own = {lease.row["id"]: lease for lease in leases}
    with database.writing() as connection:
        changed = connection.column(
            """UPDATE leases SET state = 'started'
            WHERE id IN (SELECT value FROM json_each(:own)) AND state = 'intent' RETURNING id""",
            own=list(own),
        )
        begun = [own[number] for number in sorted(changed)]
        database.record_events(connection, [("started", lease.job["name"], {"tag": lease.tag}) for lease in begun])


def ask_stop(database: StateDatabase, asked: Sequence[tuple[LeaseRecord, StopReason]]) -> None:
    """Note which leases shall stop, and why; the first reason stays."""
    by_reason: dict[StopReason, dict[int, LeaseRecord]] = {}
    for lease, reason in asked:
        by_reason.setdefault(reason, {})[lease.row["id"]] = lease
    with database.writing() as connection:
        for reason, own in by_reason.items():
            changed = connection.column(
                """UPDATE leases SET stop_asked = :now, stop_reason = :reason
                WHERE id IN (SELECT value FROM json_each(:own)) AND state != 'sealed' AND stop_asked IS NULL
                RETURNING id""",
                now=database.now(),
                reason=reason,
                own=list(own),
            )
            told = [own[number] for number in sorted(changed)]
            notes = [("stopping", lease.job["name"], {"tag": lease.tag, "reason": reason}) for lease in told]
            database.record_events(connection, notes)


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
        As far as the job got.
    finished:
        The job says that it is done, or ended by itself without a word.
    failure:
        Why it counts as a failure of the job itself; None where it does not.
    fatal:
        It need not be tried again.
    trouble:
        Of a host that could not begin it.
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
    trouble: str | None = None
    out_of_memory: bool = False


def seal(
    database: StateDatabase, lease: LeaseRecord, ending: LeaseResult, learn: Callable[[Connection], None] | None = None
) -> bool:
    """Free its seats and move the job forward, in one transaction and once; False where it is sealed already.

    Parameters
    ----------
    learn:
        What else goes into the books with it.
    """
    with database.writing() as connection:
        number = lease.row["id"]
        row = connection.row("SELECT * FROM leases WHERE id = :number AND state != 'sealed'", number=number)
        if row is None:
            return False
        job = job_numbered(connection, row["job"])
        now = database.now()
        start = row["from_step"]
        end = start if ending.step is None else max(start, min(ending.step, row["until_step"]))
        if ending.finished and not row["forked"]:
            end = row["until_step"]
        values: dict[str, Any] = {
            "state": SEALED,
            "sealed": now,
            "outcome": ending.outcome,
            "end_step": end,
            "ticked_step": ending.ticked,
            "checkpoint": None if ending.checkpoint is None else str(ending.checkpoint),
        }
        connection.update("leases", values, "id = :number", number=number)
        connection.update("seats", {"held": False}, "lease = :number", number=number)
        changed: dict[str, Any] = {"lost": job["lost"] + max(0, (ending.ticked or end) - end)}
        if not row["forked"] and end > job["committed"]:
            changed |= {"committed": end, "checkpoint": values["checkpoint"] or job["checkpoint"]}
        if ending.checkpoint_bytes is not None:
            changed["checkpoint_bytes"] = ending.checkpoint_bytes
        changed |= _state_after(database, connection, job, row, ending, end)
        connection.update("jobs", changed, "id = :job", job=job["id"])
        if changed.get("state", QUEUED) != QUEUED:
            connection.change("DELETE FROM targets WHERE job = :job", job=job["id"])
        if learn is not None:
            learn(connection)
        told = {"from_step": start, "step": end, "failure": ending.failure}
        database.record_event(connection, "sealed", job["name"], tag=row["tag"], outcome=ending.outcome, **told)
        if "state" in changed and changed["state"] != QUEUED:
            database.record_event(connection, changed["state"], job["name"], reason=changed.get("reason"))
    return True


FRESH = {"failures": 0, "losses": 0, "not_before": 0.0}
"""Of a job that gets on."""


def _state_after(
    database: StateDatabase, connection: Connection, job: Row, row: Row, ending: LeaseResult, end: int
) -> dict[str, Any]:
    """What becomes of the job now that a lease of it is sealed."""
    now = database.now()
    if job["state"] != QUEUED:
        return {}
    if job["cancelled"]:
        others = connection.rows("SELECT id FROM leases WHERE job = :job AND state != 'sealed'", job=job["id"])
        return {} if others else {"state": CANCELLED, "finished": now, "reason": "cancelled"}
    if not row["forked"] and ending.finished:
        return {"state": DONE, "finished": now, "reason": None, **FRESH}
    fresh = FRESH if end > row["from_step"] else {}
    if ending.out_of_memory and "+" not in row["gpu_types"]:  # it goes to another type, if there is one
        return fresh | {"reason": f"it ran out of memory on {row['gpu_types']}"}
    if ending.outcome == "refused" and not ending.fatal:
        return _refused(database, ending, job["losses"] + 1)
    if ending.failure is not None:
        return fresh | _failed(database, ending, (0 if fresh else job["failures"]) + 1)
    wished = row["stop_asked"] is not None and row["stop_reason"] != StopReason.PART_ENDED
    if fresh or wished or ending.outcome == "revoked":
        return fresh
    if ending.outcome == "profiled" and ending.ticked is not None:
        return {}  # that was all it was for
    return _lost(database, ending, job["losses"] + 1)


def _failed(database: StateDatabase, ending: LeaseResult, failures: int) -> dict[str, Any]:
    """Of a job that has failed so often in a row."""
    if ending.fatal or failures >= MOST_FAILURES:
        return {"failures": failures, "state": FAILED, "finished": database.now(), "reason": ending.failure}
    return {"failures": failures, "failure": ending.failure}


def failed_before(job: Mapping[str, Any]) -> str:
    """Why a queued job failed the last time, and how often in a row."""
    return f"failed {job['failures']} of {MOST_FAILURES} times: {job['failure']}"


def _refused(database: StateDatabase, ending: LeaseResult, losses: int) -> dict[str, Any]:
    """Of a job that the engine has refused so often in a row: it may have been changed, and be changed back."""
    if losses >= MOST_LOSSES:
        return {"losses": losses, "state": FAILED, "finished": database.now(), "reason": ending.failure}
    rest = min(MOST_REST, 2.0**losses)
    reason = f"refused {losses} of {MOST_LOSSES} times: {ending.failure}; it rests for {rest:g} s"
    return {"losses": losses, "not_before": database.now() + rest, "reason": reason}


def _lost(database: StateDatabase, ending: LeaseResult, losses: int) -> dict[str, Any]:
    """Of a job whose leases have ended early so often in a row; the trouble may pass, so it rests longer each time."""
    last = ending.trouble or ending.outcome
    often = f"{losses} leases in a row ended without a checkpoint though nobody asked (the last one: {last})"
    if losses >= MOST_LOSSES:
        return {
            "losses": losses,
            "state": FAILED,
            "finished": database.now(),
            "reason": f"{often}; events.jsonl has more",
        }
    if losses <= LOSSES_AT_ONCE:
        return {"losses": losses}
    rest = min(MOST_REST, 2.0 ** (losses - LOSSES_AT_ONCE))
    return {"losses": losses, "not_before": database.now() + rest, "reason": f"{often}; it rests for {rest:g} s"}


def steps_of(job: Mapping[str, Any]) -> int:
    """Training steps of the whole job."""
    return int(spec_fields(job)["steps"])
