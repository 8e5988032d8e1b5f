"""The present state of a cluster as plain data, for terminals, the page, JSON and metrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from hetopt.errors import HetoptError, UnusableFile
from hetopt.executor import lease_directory as files
from hetopt.executor.connection import Row
from hetopt.executor.damaged_rows import DamagedRow, node_fields, spec_fields
from hetopt.executor.lease_record import PROFILE, LeaseTimeouts
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import OpenLease, directory, failed_before, open_leases
from hetopt.executor.queue import QUEUED, job_row
from hetopt.executor.speeds import read_speeds
from hetopt.executor.state_database import LEASES, StateDatabase
from hetopt.executor.state_folder import DATABASE, disk_problem, is_read_only

COPIED_COLUMNS = (
    "name", "tenant", "committed", "lost", "submitted", "submitted_at", "started", "finished", "failures", "losses",
)  # fmt: skip
"""Columns of jobs that are shown as they are."""

LATE_SECONDS = 30.0
"""A round that is late by more, and by more than its own length, is overdue."""

STOPPED, EXPIRED = "stopped", "expired"
"""Without a controller: state of a lease that has expired or whose processes have ended, and of a job with no other."""

WAITS_FOR_DECISION = "waits for the next decision of the policy, or for a profiling run"
WAITS_FOR_GPUS = (
    "its GPUs are not free yet: another job or a profiling run has them, or their node is drained or down; the next "
    "round may give it others"
)
LEASE_ENDED = "its processes have ended; hetopt run records the result and continues it if it is not done"
LEASE_EXPIRED = "its lease expired, as no controller renewed it; hetopt run continues it from its last checkpoint"


@dataclass(frozen=True)
class Snapshot:
    """The state of a cluster.

    Attributes
    ----------
    now:
        The cluster's second.
    controller:
        Number of its process, -1 if unknown; None if there is none.
    policy, round, round_seconds, next_round:
        Name of the policy, number and length of its rounds, and when the next one begins (the cluster's second).
    undecided:
        Why the policy could not decide the last time; None if it could.
    alerts:
        What keeps the controller from progress, in a line each.
    nodes, jobs, leases:
        Rows with plain values; leases are those that are open.
    left_out:
        State -> finished jobs that are left out of ``jobs``.
    expired:
        The cluster's second at which the last open lease had expired for certain, or :attr:`now` if all processes ended
        before; None if a lease may still run.
    """

    now: float
    controller: int | None
    policy: str | None
    round: int
    round_seconds: float | None
    next_round: float | None
    nodes: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    leases: list[dict[str, Any]]
    undecided: str | None = None
    alerts: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    expired: float | None = None

    @property
    def overdue(self) -> float | None:
        """Seconds by which the next round is late; None if it is not, or by so little that it may be decided now."""
        if self.controller is None or self.next_round is None or self.round_seconds is None:
            return None
        late = self.now - self.next_round
        return late if late > max(LATE_SECONDS, self.round_seconds) else None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {key: value for key, value in vars(self).items() if key not in ("left_out", "expired")}


def leases_of(database: StateDatabase, job: str) -> tuple[Row, Sequence[tuple[Row, Path]]]:
    """The row of a job, and all leases that it had, in order, with their directories.

    Raises
    ------
    UnknownName
        There is no such job.
    """
    with database.reading() as connection:
        row = job_row(connection, job)
        own = connection.rows("SELECT * FROM leases WHERE job = :job ORDER BY id", job=row["id"])
    return row, [(lease, directory(lease, database.folder / LEASES)) for lease in own]


@contextmanager
def reports_damage(database: StateDatabase) -> Iterator[None]:
    """Raise :class:`UnusableFile` for values of the database that have another form than those of hetopt."""
    try:
        yield
    except HetoptError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        text = f"{type(problem).__name__}: {problem}"[:300]
        raise UnusableFile(f"{database.folder / DATABASE}: its content cannot be shown ({text})") from None


def snapshot(database: StateDatabase, *, finished: int | None = None) -> Snapshot:
    """Read the state database, and the progress of running jobs.

    Parameters
    ----------
    finished:
        Number of finished jobs that are read, the newest; their speeds are left out. None: all.

    Raises
    ------
    UnusableFile
        The database is damaged. A damaged specification of a job is only its reason, and that of a node its note.
    """
    with reports_damage(database):
        return _snapshot(database, finished)


def _snapshot(database: StateDatabase, finished: int | None) -> Snapshot:
    with database.reading() as connection:
        facts = dict(connection.execute("SELECT key, value FROM meta"))
        leases = open_leases(connection, database.folder / LEASES)
        jobs = connection.rows(
            """SELECT * FROM jobs WHERE state = 'queued' OR id IN
            (SELECT id FROM jobs WHERE state != 'queued' ORDER BY finished DESC, id LIMIT :most) ORDER BY id""",
            most=-1 if finished is None else finished,
        )
        states = Counter(dict(connection.execute("SELECT state, count(*) FROM jobs GROUP BY state")))
        nodes = connection.rows("SELECT * FROM nodes ORDER BY name")
        given = set(connection.column("SELECT job FROM targets"))
        speeds = read_speeds(connection, all_jobs=finished is None)
    now, controller = database.now(), database.controller()
    reports = [LeaseReport(lease) for lease in leases]
    folders = {lease.folder.parent for lease in leases}
    lapsing = {folder for folder in folders if controller is None or is_read_only(folder)}
    expiry = {one.tag: _expiry(database, one, facts) for one in leases if one.folder.parent in lapsing}
    stopped = {r.lease.tag for r in reports if expiry.get(r.lease.tag, inf) <= now or (expiry and r.has_ended)}
    rows = [_lease(report, expired=report.lease.tag in stopped) for report in reports]
    by_job: dict[int, list[tuple[dict[str, Any], LeaseReport]]] = {}
    for row, report in zip(rows, reports, strict=True):
        by_job.setdefault(report.lease.job_id, []).append((row, report))
    speeds = speeds.with_progress(reports)
    unable = json.loads(facts.get("unable") or "{}")  # which the controller updates between decisions, too
    for row in jobs:
        if row["state"] == QUEUED and row["id"] not in by_job:
            row["reason"] = unable.get(str(row["id"]), row["reason"])
    borrowers = set(json.loads(facts.get("borrowers") or "[]")) & by_job.keys()
    shown = [
        _job(row, by_job.get(row["id"], []), speeds.rates(row["id"]), now) | {"borrows": row["id"] in borrowers}
        for row in jobs
    ]
    if controller is not None:
        for row, job in zip(jobs, shown, strict=True):
            if row["id"] in given - by_job.keys() and not row["reason"]:
                job["reason"] = WAITS_FOR_GPUS
    alerts = [str(text) for text in json.loads(facts.get("alerts") or "[]")] if controller is not None else []
    if (problem := disk_problem(database.folder)) is not None:
        alerts = [problem]  # which cannot be in the database
    seconds = json.loads(facts.get("round_seconds") or "null")
    seconds = None if seconds is None else float(seconds)
    running = [row for row in rows if row["state"] != EXPIRED]
    return Snapshot(
        now=now,
        controller=controller,
        policy=facts.get("policy"),
        round=int(facts.get("round") or 0),
        round_seconds=seconds,
        next_round=float(facts["next_round"]) if facts.get("next_round") and seconds else None,
        nodes=[_node(row, running) for row in nodes],
        jobs=shown,
        leases=rows,
        undecided=facts.get("undecided") or None,
        alerts=alerts,
        left_out=states - Counter(row["state"] for row in jobs),
        expired=min(now, max(expiry.values())) if rows and not running else None,
    )


def _expiry(database: StateDatabase, lease: OpenLease, facts: Mapping[str, str]) -> float:
    """The cluster's second by which a lease that is not renewed any more has certainly expired."""
    clock = database.clock
    if json.loads(facts["clock"])["boot"] != files.boot_id():  # no process outlives a restart of the machine
        return clock.base
    counter = files.read_number(lease.folder / files.RENEWED)  # in milliseconds of the machine's clock
    began = lease.granted
    if counter is not None and counter / 1000 <= files.now():  # else it was renewed before a restart of the machine
        began = max(began, clock.base + counter / 1000 - clock.at)
    return began + lease.ttl_seconds + lease.grace_seconds + LeaseTimeouts.margin_seconds


def _node(row: Row, leases: list[dict[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {"gpus": {}, "up": False, "note": "no engine knows it now"}
    try:
        content |= node_fields(row["name"], row["content"]) if row["content"] else {}
    except DamagedRow as problem:
        content["note"] = str(problem)
    gpus, up, note = content["gpus"], content["up"], content["note"]
    used = Counter[str]()
    for lease in leases:
        used.update(lease["seats"].get(row["name"], {}))
    state = "down" if not up else "draining" if row["drained"] and used else "drained" if row["drained"] else "up"
    return {"name": row["name"], "state": state, "gpus": gpus, "used": dict(used), "note": note}


def _job(
    row: Row, own: Sequence[tuple[dict[str, Any], LeaseReport]], rates: Mapping[str, float], now: float
) -> dict[str, Any]:
    try:
        spec, damage = spec_fields(row), None
    except DamagedRow as problem:
        spec, damage = {"steps": 0, "workers": 0}, str(problem)
    running = [report.lease for lease, report in own if lease["state"] != EXPIRED]
    state, reason, step = row["state"], row["reason"], row["committed"]
    for lease, report in own:
        reached = _saved(report) if lease["state"] == EXPIRED else report.ticked
        step += max(0, (reached or 0) - lease["from_step"])
    if state == QUEUED and row["failure"]:
        reason = failed_before(row)
    if own and state == QUEUED:
        state = "running"
        if not running:
            state, reason = STOPPED, LEASE_ENDED if all(report.has_ended for _, report in own) else LEASE_EXPIRED
        elif all(lease.is_stopping for lease in running):
            state = "stopping"
        elif all(lease.running is None for lease in running):
            state = "starting"  # no process of it was seen yet: the engine may still have it in its queue
        elif any(lease.kind == PROFILE for lease in running):
            state = "profiling"
    measured = [rates[lease.gpu_types] for lease in running if lease.gpu_types in rates]
    speed = sum(measured) if measured else None  # copies of a forked job share its steps
    left = max(0, spec["steps"] - step)
    return {key: row[key] for key in COPIED_COLUMNS} | {
        "state": state,
        "workers": spec["workers"],
        "step": min(step, spec["steps"]),
        "steps": spec["steps"],
        "where": [f"{n} {t} on {node}" for one in running for node, gpus in one.held.items() for t, n in gpus.items()],
        "speeds": dict(rates),
        "speed": speed,
        "left_seconds": left / speed if speed and state == "running" else None,
        "seconds": (now if row["finished"] is None else row["finished"]) - row["submitted"],
        "reason": damage or reason,
    }


def _saved(report: LeaseReport) -> int | None:
    """Steps in the newest checkpoint of a lease; None without one that can be read."""
    with suppress(OSError):
        return next((step for step, _ in files.published(report.folder)), None)
    return None


def _lease(report: LeaseReport, *, expired: bool) -> dict[str, Any]:
    lease = report.lease
    state = "lost" if lease.is_lost else "stopping" if lease.is_stopping else lease.state
    return {key: getattr(lease, key) for key in ("tag", "job", "copy", "kind", "granted", "until_step")} | {
        "from_step": lease.resume_step,
        "state": EXPIRED if expired else state,
        "seats": lease.held,
        "step": report.ticked,
        "folder": str(lease.folder),
    }
