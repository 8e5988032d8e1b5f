"""Requests of users: submit, cancel, retry, drain; each is one transaction, which the controller reads later."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hetopt.checks import check_name, choices, is_name
from hetopt.errors import InvalidOption, UnknownName
from hetopt.executor.clock import today
from hetopt.executor.connection import Connection, Row
from hetopt.executor.damaged_rows import DamagedRow, node_fields
from hetopt.executor.state_database import StateDatabase

if TYPE_CHECKING:
    from hetopt.executor.job_file import JobSpec

QUEUED, DONE, FAILED, CANCELLED = "queued", "done", "failed", "cancelled"
"""States of a job. One that runs is queued and has an open lease."""

FINISHED = (DONE, FAILED, CANCELLED)


def submit(database: StateDatabase, spec: JobSpec, *, again: bool = False) -> str:
    """Add a job to the queue; its name.

    Parameters
    ----------
    again:
        Where the name is taken, add the next number: ``train``, ``train.2``, ``train.3``, ….

    Raises
    ------
    InvalidOption
        The name is taken, or the cluster is known and could never run the job.
    """
    with database.writing() as connection:
        taken = set(connection.column("SELECT name FROM jobs"))
        if spec.name in taken:
            if not again:
                raise InvalidOption(
                    f"there is a job {spec.name!r} already; give this one another name, or --again for {spec.name}.N"
                )
            number = next(n for n in range(2, len(taken) + 3) if f"{spec.name}.{n}" not in taken)
            spec = spec.model_copy(update={"name": check_name(f"{spec.name}.{number}", "the name with its number")})
        check_runnable(spec, known_nodes(connection), mixes=database.meta(connection, "mixes") != "no")
        connection.insert(
            "jobs",
            name=spec.name,
            tenant=spec.tenant,
            spec=spec.model_dump_json(),
            state=QUEUED,
            submitted=database.now(),
            submitted_at=today(),
        )
        database.record_event(
            connection, "submitted", spec.name, workers=spec.workers, steps=spec.steps, tenant=spec.tenant
        )
    return spec.name


def known_nodes(connection: Connection) -> dict[str, dict[str, Any]]:
    """Node -> what its engine last reported: ``gpus`` (type -> number), ``memory_bytes`` (type -> of one), ….

    Without nodes whose row is damaged: the controller writes it again.
    """
    known = {}
    for name, content in connection.tuples("SELECT name, content FROM nodes WHERE content IS NOT NULL"):
        with suppress(DamagedRow):
            known[name] = node_fields(name, content)
    return known


def check_runnable(spec: JobSpec, nodes: Mapping[str, Mapping[str, Any]], *, mixes: bool = True) -> None:
    """Raise :class:`InvalidOption` where the job could not be placed on these nodes if all were free and up.

    Without any node the cluster is unknown, and nothing is refused.

    Parameters
    ----------
    mixes:
        Whether a job may have GPUs of several types at once.
    """
    if not nodes:
        return
    capacity, memory = Counter[str](), dict[str, float]()
    for fields in nodes.values():
        capacity.update(fields["gpus"])
        for gpu_type, size in fields.get("memory_bytes", {}).items():
            memory[gpu_type] = max(size, memory.get(gpu_type, 0.0))
    for gpu_type in spec.gpu_types or ():
        if gpu_type not in capacity:
            raise InvalidOption(
                f"names {gpu_type!r}, which the cluster does not have; {choices(gpu_type, capacity)}", "gpu_types"
            )
    named = {t: n for t, n in capacity.items() if spec.gpu_types is None or t in spec.gpu_types}
    allowed = {t: n for t, n in named.items() if memory.get(t, math.inf) >= spec.memory}
    if named and not allowed:
        most = max(named, key=lambda t: memory[t])
        raise InvalidOption(
            f"is {spec.memory / 1e9:.3g} GB; of GPU types that it may run on {most} has the most, "
            f"{memory[most] / 1e9:.3g} GB",
            "memory",
        )
    if spec.workers > (sum(allowed.values()) if mixes else max(allowed.values(), default=0)):
        listed = " + ".join(f"{n} {t}" for t, n in allowed.items())
        mixed = "" if mixes else ", and its policy gives a job GPUs of one type"
        raise InvalidOption(
            f"is {spec.workers}; of GPU types that it may run on the cluster has {listed}{mixed}", "workers"
        )


def cancel(database: StateDatabase, name: str) -> str:
    """End a job; its state before. Its lease, if it has one, is stopped by the controller.

    Raises
    ------
    UnknownName
        There is no such job.
    InvalidOption
        It has finished.
    """
    with database.writing() as connection:
        row = job_row(connection, name)
        if row["state"] != QUEUED:
            raise InvalidOption(
                f"job {name!r} is {row['state']}; only a job that is queued or running can be cancelled"
            )
        job = row["id"]
        runs = bool(connection.rows("SELECT id FROM leases WHERE job = :job AND state != 'sealed'", job=job))
        finished = {"state": CANCELLED, "finished": database.now(), "reason": "cancelled"}
        connection.update("jobs", {"cancelled": True} | ({} if runs else finished), "id = :job", job=job)
        if not runs:
            connection.change("DELETE FROM targets WHERE job = :job", job=job)
        database.record_event(connection, "cancelled", name, running=runs)
    return "running" if runs else "queued"


def retry(database: StateDatabase, name: str) -> int:
    """Put a failed job back into the queue; the steps that are committed.

    Raises
    ------
    UnknownName
        There is no such job.
    InvalidOption
        It has not failed.
    """
    with database.writing() as connection:
        row = job_row(connection, name)
        if row["state"] != FAILED:
            raise InvalidOption(f"job {name!r} is {row['state']}; only one that has failed can be tried again")
        values = {"state": QUEUED, "failures": 0, "losses": 0, "not_before": 0.0}
        values |= {"finished": None, "reason": None, "failure": None, "cancelled": False}
        connection.update("jobs", values, "id = :job", job=row["id"])
        connection.change("DELETE FROM speeds WHERE job = :job AND NOT feasible", job=row["id"])
        database.record_event(connection, "retried", name)
        return int(row["committed"])


def drain(database: StateDatabase, node: str, *, undo: bool = False) -> None:
    """Start no more jobs on a node, and move away what runs there (or undo that).

    Raises
    ------
    UnknownName
        No engine has reported such a node.
    """
    with database.writing() as connection:
        known = known_nodes(connection)
        if node not in known:
            raise UnknownName(
                f"there is no node {node!r}; {choices(node, known)}"
                if known
                else f"there is no node {node!r}: no engine has reported any yet; `hetopt run` asks it"
            )
        connection.update("nodes", {"drained": not undo}, "name = :node", node=node)
        database.record_event(connection, "undrained" if undo else "drained", node=node)


def job_row(connection: Connection, name: str) -> Row:
    """The row of a job.

    Raises
    ------
    UnknownName
        There is none.
    """
    row = connection.row("SELECT * FROM jobs WHERE name = :name", name=name) if is_name(name) else None
    if row is None:
        raise UnknownName(f"there is no job {name!r}; {choices(name, connection.column('SELECT name FROM jobs'))}")
    return row


def spec_of(row: Row) -> JobSpec:
    """The job's file as it was submitted.

    Raises
    ------
    DamagedRow
        It was changed since, and is none.
    """
    try:
        return _spec(row["spec"])
    except ValueError as problem:
        raise DamagedRow("jobs", "spec", f"job {row['name']!r}", problem, row["id"]) from None


@lru_cache(maxsize=4096)
def _spec(text: str) -> JobSpec:
    from hetopt.executor.job_file import JobSpec  # views of the cluster do not need it

    return JobSpec.model_validate_json(text, strict=False)
