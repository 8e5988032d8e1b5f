"""Rows of the state database that were changed by hand: what cannot be read is a :class:`DamagedRow`, alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hetopt.errors import HetoptError
from hetopt.executor.connection import Connection, Row

WITHOUT_JOB = """
    SELECT 'leases', job, 'lease ' || tag FROM leases
    WHERE state != 'sealed' AND NOT EXISTS (SELECT 1 FROM jobs WHERE id = leases.job)
    UNION ALL SELECT 'targets', job, 'copy ' || copy || ' of job ' || job FROM targets
    WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = targets.job)"""
"""Table, job and name of the rows whose job was deleted."""


class DamagedRow(HetoptError, ValueError):
    """JSON in a row of the state database cannot be read, or the job of the row is gone.

    Attributes
    ----------
    table, job:
        The table, and the number of the job that the row belongs to; None for a node.
    """

    def __init__(self, table: str, column: str, row: str, problem: object, job: int | None = None) -> None:
        short = " ".join(str(problem).split())[:200]
        super().__init__(f"state.db is damaged: {column} of {row} in table {table} cannot be read: {short}")
        self.table, self.job = table, job

    def _place(self) -> str:
        return ""  # the message has it


def spec_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of a job (columns id, name, spec) without a full check, which would need pydantic."""
    found: dict[str, Any] = _read(row["spec"], _check_spec, "jobs", "spec", f"job {row['name']!r}", row["id"])
    return found


def node_fields(name: str, content: str) -> dict[str, Any]:
    """What the engine last reported of a node: ``gpus`` (type -> number), ``up``, ``note``, ``memory_bytes``."""
    found: dict[str, Any] = _read(content, _check_node, "nodes", "content", f"node {name!r}")
    return found


def merge_parts(merge: int, job: int, parts: str) -> list[tuple[str, float]]:
    """(folder, weight) of the checkpoints that are merged."""
    found: list[tuple[str, float]] = _read(parts, _check_parts, "merges", "parts", f"merge {merge} of job {job}", job)
    return found


def damaged_rows(connection: Connection, spec_of: Callable[[Row], object]) -> list[DamagedRow]:
    """Damage of rows on which decisions depend: of queued jobs, open leases, targets, merges that run, and nodes.

    Parameters
    ----------
    spec_of:
        Reads the specification of a job.
    """
    found: list[DamagedRow] = []

    def check(read: Callable[..., object], *values: Any) -> None:
        try:
            read(*values)
        except DamagedRow as problem:
            found.append(problem)

    for row in connection.rows("SELECT id, name, spec FROM jobs WHERE state = 'queued'"):
        check(spec_of, row)
    for job, copy, seats in connection.tuples("SELECT job, copy, seats FROM targets"):
        check(_read, seats, _check_seats, "targets", "seats", f"copy {copy} of job {job}", job)
    for table, job, row in connection.tuples(WITHOUT_JOB):
        found.append(DamagedRow(table, "job", row, f"there is no job {job}", job))
    for merge in connection.tuples("SELECT id, job, parts FROM merges WHERE done = 0"):
        check(merge_parts, *merge)
    for node in connection.tuples("SELECT name, content FROM nodes WHERE content IS NOT NULL"):
        check(node_fields, *node)
    return found


def _read(text: str, check: Callable[[Any], object], table: str, column: str, row: str, job: int | None = None) -> Any:
    """The content of a column; ``check`` raises for values of other types."""
    try:
        return _content(text, check)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise DamagedRow(table, column, row, f"{text[:60]!r} ({why})", job) from None


@lru_cache(maxsize=4096)
def _content(text: str, check: Callable[[Any], object]) -> Any:
    """The content, which is only read: rows are read again whenever others have changed."""
    content = json.loads(text)
    check(content)
    return content


def _check_spec(spec: Any) -> None:
    range(spec["steps"] + spec["workers"])


def _check_node(content: Any) -> None:
    math.fsum(content["gpus"].values())
    math.fsum(content.get("memory_bytes", {}).values())
    str.isprintable(content.get("note", ""))


def _check_seats(seats: Any) -> None:
    for gpus in seats.values():
        range(sum(gpus.values()))


def _check_parts(parts: Any) -> None:
    for folder, weight in parts:
        Path(folder), float(weight)
