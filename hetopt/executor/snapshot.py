"""The cluster as people see it now: plain data for the terminal, the web page, JSON and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hetopt.executor.connection import Row
from hetopt.executor.damaged_rows import DamagedRow, node_fields, spec_fields
from hetopt.executor.lease_report import LeaseReport
from hetopt.executor.leases import PROFILE, LeaseRecord, directory, failed_before, open_leases
from hetopt.executor.queue import QUEUED, job_row
from hetopt.executor.speeds import read_speeds
from hetopt.executor.state_database import LEASES, StateDatabase
from hetopt.executor.state_folder import disk_problem

LATE_SECONDS = 30.0
"""A round that is overdue by more, and by more than its own length, is said to be."""

NOT_YET = "is not decided on yet, or waits for profiling runs"
GIVEN = "others still run on the GPUs that it has been given, say to be profiled"


@dataclass(frozen=True)
class Snapshot:
    """What is going on.

    Attributes
    ----------
    now:
        The cluster's second.
    controller:
        Its process, None where no one decides now.
    policy, round, round_seconds, next_round:
        Who decides, how often, and when next (the cluster's second).
    undecided:
        Why the policy could not decide when it was last asked; None where it could.
    alerts:
        What keeps the controller from going on, in a line each, as far as the books and the disk tell.
    nodes, jobs, leases:
        Rows with plain values; leases are those that are open.
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

    @property
    def overdue(self) -> float | None:
        """Seconds by which the next round is late; None where it is not, or by so little that it may be decided now."""
        if self.controller is None or self.next_round is None or self.round_seconds is None:
            return None
        late = self.now - self.next_round
        return late if late > max(LATE_SECONDS, self.round_seconds) else None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


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


def snapshot(database: StateDatabase) -> Snapshot:
    """Read the books and the progress of what runs."""
    with database.reading() as connection:
        facts = {
            key: database.meta(connection, key)
            for key in ("policy", "round", "round_seconds", "next_round", "undecided", "alerts")
        }
        opened = open_leases(connection, database.folder / LEASES)
        jobs = connection.rows("SELECT * FROM jobs ORDER BY id")
        nodes = connection.rows("SELECT * FROM nodes ORDER BY name")
        given = set(connection.column("SELECT job FROM targets"))
        speeds = read_speeds(connection, all_jobs=True)
    now = database.now()
    by_job: dict[int, list[LeaseRecord]] = {}
    for lease in opened:
        by_job.setdefault(lease.row["job"], []).append(lease)
    report = {lease.tag: LeaseReport(lease) for lease in opened}
    speeds = speeds.with_progress(report.values())
    seconds = json.loads(facts["round_seconds"] or "null")
    controller = database.controller()
    held_up = given - by_job.keys() if controller is not None else set()
    alerts = json.loads(facts["alerts"] or "[]") if controller is not None else []
    if (problem := disk_problem(database.folder)) is not None:
        alerts = [problem]  # which could not be written to the database
    return Snapshot(
        now=now,
        controller=controller,
        policy=facts["policy"],
        round=int(facts["round"] or 0),
        round_seconds=seconds,
        next_round=float(facts["next_round"]) if facts["next_round"] and seconds else None,
        nodes=[_node(row, opened) for row in nodes],
        jobs=[
            _job(row, by_job.get(row["id"], []), report, speeds.rates(row["id"]), now)
            | ({"reason": GIVEN} if row["id"] in held_up and not row["reason"] else {})
            for row in jobs
        ],
        leases=[_lease(lease, report[lease.tag]) for lease in opened],
        undecided=facts["undecided"] or None,
        alerts=alerts,
    )


def _node(row: Row, opened: list[LeaseRecord]) -> dict[str, Any]:
    said: dict[str, Any] = {"gpus": {}, "up": False, "note": "no engine knows it now"}
    if row["content"]:
        try:
            said |= {"note": ""} | node_fields(row["name"], row["content"])
        except DamagedRow as problem:
            said["note"] = str(problem)
    used: dict[str, int] = {}
    for lease in opened:
        for gpu_type, number in lease.held.get(row["name"], {}).items():
            used[gpu_type] = used.get(gpu_type, 0) + number
    state = "down" if not said["up"] else "drained" if row["drained"] else "up"
    if state == "drained" and used:
        state = "draining"
    return {"name": row["name"], "state": state, "gpus": said["gpus"], "used": used, "note": said["note"]}


def _job(
    row: Row, leases: list[LeaseRecord], report: Mapping[str, LeaseReport], rates: Mapping[str, float], now: float
) -> dict[str, Any]:
    try:
        spec, damage = spec_fields(row), None
    except DamagedRow as problem:
        spec, damage = {"steps": max(1, row["committed"]), "workers": 1}, str(problem)  # metrics divide by both
    step = row["committed"]
    for lease in leases:
        step += max(0, (report[lease.tag].ticked or 0) - lease.row["from_step"])
    state = row["state"]
    if leases and state == QUEUED:
        state = "running"
        if all(lease.row["stop_asked"] is not None for lease in leases):
            state = "stopping"
        elif all(lease.row["running"] is None for lease in leases):
            state = "starting"  # no process of it was seen yet: the engine may still hold it in its queue
        elif any(lease.row["kind"] == PROFILE for lease in leases):
            state = "profiling"
    where = [f"{n} {t} on {node}" for lease in leases for node, gpus in lease.held.items() for t, n in gpus.items()]
    finished = row["finished"]
    paces = [rates[lease.row["gpu_types"]] for lease in leases if lease.row["gpu_types"] in rates]
    speed = sum(paces) if paces else None  # copies of a forked job share its steps
    left = max(0, spec["steps"] - step)
    return {
        "name": row["name"],
        "tenant": row["tenant"],
        "state": state,
        "workers": spec["workers"],
        "step": min(step, spec["steps"]),
        "steps": spec["steps"],
        "committed": row["committed"],
        "lost": row["lost"],
        "where": where,
        "speeds": dict(rates),
        "speed": speed,
        "left_seconds": left / speed if speed and state == "running" else None,
        "submitted": row["submitted"],
        "submitted_at": row["submitted_at"],
        "started": row["started"],
        "finished": finished,
        "seconds": (now if finished is None else finished) - row["submitted"],
        "failures": row["failures"],
        "losses": row["losses"],
        "reason": damage or (failed_before(row) if row["failure"] and state == QUEUED else row["reason"]),
    }


def _lease(lease: LeaseRecord, report: LeaseReport) -> dict[str, Any]:
    row = lease.row
    return {
        "tag": lease.tag,
        "job": lease.job["name"],
        "copy": row["copy"],
        "kind": row["kind"],
        "state": "lost"
        if row["lost_since"] is not None
        else "stopping"
        if row["stop_asked"] is not None
        else row["state"],
        "seats": lease.held,
        "granted": row["granted"],
        "from_step": row["from_step"],
        "until_step": row["until_step"],
        "step": report.ticked,
        "folder": str(lease.folder),
    }
