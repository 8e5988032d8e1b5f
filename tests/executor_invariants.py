"""Invariants of state database, jobs and processes after any faults."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from executor_job import model_after

from hetopt.executor.event_log import EventLog
from hetopt.executor.processes import tagged
from hetopt.executor.state_database import EVENTS, StateDatabase


def violations_of(database: StateDatabase, witness: Path, steps_of: Mapping[str, int]) -> list[str]:
    """The invariants that are violated.

    Parameters
    ----------
    database:
        The state database, once all jobs have finished.
    witness:
        File to which the jobs have written their steps.
    steps_of:
        Job -> its steps.
    """
    with database.reading() as connection:
        jobs = connection.rows("SELECT * FROM jobs")
        leases = connection.rows("SELECT * FROM leases ORDER BY id")
        seats = connection.rows("SELECT * FROM seats")
        events = connection.column("SELECT id FROM events ORDER BY id")
    found = []
    for job in jobs:
        steps = steps_of[job["name"]]
        if job["state"] != "done" or job["committed"] != steps:
            found.append(f"{job['name']} is {job['state']} at step {job['committed']}: {job['reason']}")
        elif job["checkpoint"] is None:
            found.append(f"{job['name']} is done without a checkpoint")
        else:
            content = json.loads((Path(job["checkpoint"]) / "model.json").read_text())
            if content != {"step": steps, "model": model_after(steps)}:
                found.append(f"the model of {job['name']} is {content}")
    found += [f"{lease['tag']} is {lease['state']}" for lease in leases if lease["state"] != "sealed"]
    found += [f"a seat of lease {seat['lease']} is still held" for seat in seats if seat["held"]]
    found += _going_back(leases) + _overlaps(leases, seats, witness)
    own = [tag for _, tag in tagged() if tag.startswith(f"hetopt-{database.cluster}-")]
    found += [f"a process of {tag} lives" for tag in own]
    EventLog(database).write()  # as the next controller does: others may write events when this one has ended
    written = (database.folder / EVENTS).read_text().splitlines()
    numbers = [json.loads(line)["id"] for line in written]
    if numbers != events:
        found.append("the event log differs from the state database")
    return found


def _overlaps(leases: Any, seats: Any, witness: Path) -> list[str]:
    """Two live processes of one (job, copy), or on one seat, according to the steps that the jobs have written."""
    number = {lease["tag"]: lease for lease in leases}
    held = defaultdict(set)
    for seat in seats:
        held[seat["lease"]].add((seat["node"], seat["gpu_type"], seat["number"]))
    last: dict[Any, tuple[int, str]] = {}
    found, process = set(), dict[Any, int]()
    lines = [json.loads(line) for line in witness.read_text().splitlines()]
    for line in sorted(lines, key=lambda line: line["time"]):
        tag = line["tag"].rpartition(".")[0]
        lease = number.get(tag)
        if lease is None:
            found.add(f"{tag} ran and is not in the state database")
            continue
        if process.setdefault((tag, line["rank"]), line["pid"]) != line["pid"]:
            found.add(f"{tag} has run twice")
        for what in [("job", lease["job"], lease["copy"]), *held[lease["id"]]]:
            newest, other = last.get(what, (0, ""))
            if lease["id"] < newest:
                found.add(f"{tag} lives on {what} after {other} has begun there")
            last[what] = max((newest, other), (lease["id"], tag))
    return sorted(found)


def _going_back(leases: Any) -> list[str]:
    """Committed steps that go back, or count twice: each lease begins where the one before it ended."""
    found, at = [], dict[int, int]()
    for lease in leases:
        before = at.get(lease["job"], 0)
        if lease["from_step"] != before:
            found.append(f"{lease['tag']} begins at step {lease['from_step']}; committed were {before}")
        if lease["end_step"] is not None:
            at[lease["job"]] = max(before, lease["end_step"])
    return found
