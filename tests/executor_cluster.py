"""Nodes, jobs, leases and cluster states for tests of the executor that start no processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hetopt.executor.cluster_state import ClusterState
from hetopt.executor.connection import Connection, Row
from hetopt.executor.engines.engine import Node, Seat
from hetopt.executor.job_file import JobSpec
from hetopt.executor.leases import OpenLease, grant, open_leases
from hetopt.executor.node_monitor import capacity_of
from hetopt.executor.queue import submit
from hetopt.executor.speeds import Speed, Speeds
from hetopt.executor.state_database import StateDatabase


def node(name: str, gpus: Mapping[str, int], **more: Any) -> Node:
    """A host with these numbers of GPUs of each type."""
    return Node(name, tuple(Seat(name, kind, i) for kind, number in gpus.items() for i in range(number)), **more)


def cards(name: str, *gpus: str, **more: Any) -> Node:
    """A host with these GPUs, counted from 0 as NVML does, also after a loss."""
    return Node(name, tuple(Seat(name, "H200", i, f"GPU-{gpu}") for i, gpu in enumerate(gpus)), **more)


LAB = (node("n1", {"K80": 4}), node("n2", {"P100": 2, "V100": 1}), node("n3", {"V100": 2}))
"""Three hosts, three types."""


def spec(name: str, **settings: Any) -> JobSpec:
    """A job's file."""
    return JobSpec(**{"name": name, "command": ["true"], "steps": 1000, "cwd": "/", **settings})


def rows(database: StateDatabase) -> list[Row]:
    """All jobs of the state database."""
    with database.reading() as connection:
        return connection.rows("SELECT * FROM jobs ORDER BY id")


def opened(database: StateDatabase) -> list[OpenLease]:
    """All open leases."""
    with database.reading() as connection:
        return open_leases(connection, database.folder / "leases")


def granted(database: StateDatabase, job: int, seats: Sequence[Seat]) -> str | None:
    """Grant a lease in its own transaction; its tag, or None if it cannot be granted."""
    with database.writing() as connection:
        return grant(connection, database, job, seats)


def lab_of_jobs(database: StateDatabase, jobs: Sequence[JobSpec]) -> list[Row]:
    """Submit them; their rows."""
    for one in jobs:
        submit(database, one)
    return rows(database)


def cluster_state(
    database: StateDatabase,
    speeds: Mapping[str, Mapping[str, float]],
    nodes: Sequence[Node] = LAB,
    leases: Sequence[OpenLease] = (),
) -> ClusterState:
    """The input of a decision, with measured speeds by job's name."""
    jobs = [row for row in rows(database) if row["state"] == "queued"]
    known = {
        row["id"]: {kind: Speed(True, rate * 10, 10.0) for kind, rate in speeds.get(row["name"], {}).items()}
        for row in jobs
    }
    return ClusterState(database.now(), nodes, jobs, leases, Speeds(known), capacity_of(nodes))


def with_speeds(database: StateDatabase, job: int, rates: Mapping[str, float]) -> None:
    """Record measured speeds."""
    with database.writing() as connection:
        for kind, rate in rates.items():
            connection.insert("speeds", job=job, gpu_type=kind, feasible=True, steps=10 * rate, seconds=10.0)


def statements(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """All statements from now on: SQL and its values, of many rows those of the first."""
    executed: list[tuple[str, Any]] = []
    execute, executemany = Connection.execute, Connection.executemany

    def one(connection: Connection, sql: str, values: Any = ()) -> Any:
        executed.append((sql, values))
        return execute(connection, sql, values)

    def many(connection: Connection, sql: str, rows: Sequence[Any]) -> Any:
        executed.extend((sql, values) for values in rows[:1])
        return executemany(connection, sql, rows)

    monkeypatch.setattr(Connection, "execute", one)
    monkeypatch.setattr(Connection, "executemany", many)
    return executed
