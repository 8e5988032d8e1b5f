"""The state of an instance and the stages of its jobs as pandas tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pandas as pd

from hetopt.checks import choices, count, known
from hetopt.data.instance import STATE_FIELDS, Instance
from hetopt.data.workload import Stage
from hetopt.errors import InvalidInstance
from hetopt.files.table_rows import INDEX, make, table_rows

STAGE = tuple(f.name for f in dataclasses.fields(Stage))
ABOUT = ("time", "source")


def state_tables(instance: Instance, types: list[str]) -> dict[str, pd.DataFrame]:
    """``stages``, ``held``, ``done``, ``placed`` and ``instance`` as ``tables.tables`` describes them."""
    stages = [((j.name, i + 1), [getattr(s, f) for f in STAGE]) for j in instance.jobs for i, s in enumerate(j.stages)]
    held = [((name,), [gpus.get(t) for t in types]) for name, gpus in instance.held.items()]
    placed = [
        ((job, server), [gpus.get(t) for t in types])
        for job, hosts in instance.placed.items()
        for server, gpus in hosts.items()
    ]
    about = [((instance.name,), [instance.time, instance.source])]
    return {
        "stages": _indexed("stages", stages, STAGE),
        "held": _indexed("held", held, types),
        "done": _indexed("done", [((job,), [work]) for job, work in instance.done.items()], ["work"]),
        "placed": _indexed("placed", placed, types),
        "instance": _indexed("instance", about if any([instance.name, instance.time, instance.source]) else [], ABOUT),
    }


def _indexed(key: str, rows: list[tuple[tuple[Any, ...], list[Any]]], columns: Iterable[str]) -> pd.DataFrame:
    """A table of (index, cells) rows with the index of :data:`INDEX`."""
    index: pd.Index = pd.MultiIndex.from_tuples([name for name, _ in rows], names=INDEX[key])
    if len(INDEX[key]) == 1:
        index = pd.Index([name for (name,), _ in rows], name=INDEX[key][0])
    return pd.DataFrame([cells for _, cells in rows], index=index, columns=pd.Index(columns), dtype=object)


def stages_of(table: pd.DataFrame | None) -> dict[Any, list[Stage]]:
    """Job -> its stages in the order of their numbers."""
    numbered: dict[Any, dict[Any, Stage]] = {}
    for name, _, own in table_rows(table, "stages", (), STAGE):
        job, number = _pair(name, "stages")
        count(number, f"row {name!r} of table stages: stage", least=1)
        if missing := [f for f in STAGE[:3] if f not in own]:
            raise InvalidInstance(f"row {name!r} of table stages: {missing[0]} is missing")
        if numbered.setdefault(job, {}).setdefault(number, made := make("stages", name, Stage, **own)) is not made:
            raise InvalidInstance(f"row {name!r} of table stages occurs twice; number the stages of a job 1, 2, …")
    for job, rows in numbered.items():
        for absent in (number for number in range(1, len(rows) + 1) if number not in rows):
            raise InvalidInstance(f"table stages: stage {absent} of job {job!r} is missing; number them 1, 2, …")
    return {job: [rows[number] for number in sorted(rows)] for job, rows in numbered.items()}


def _pair(name: Any, key: str) -> tuple[Any, Any]:
    if not isinstance(name, tuple) or len(name) != 2:
        raise InvalidInstance(f"row {name!r} of table {key} must have the index {', '.join(INDEX[key])}")
    return name


def state_fields(state: dict[str, Any], types: list[str]) -> dict[str, Any]:
    """Fields of the instance from tables among ``state``; values that are no tables take precedence."""
    plain = {key: value for key, value in state.items() if not isinstance(value, pd.DataFrame)}
    for key in plain:
        known(key, STATE_FIELDS, "from_tables", "field")
    fields: dict[str, Any] = {}
    for key, table in state.items():
        if key in plain:
            continue
        if key == "instance":
            fields |= _about(table)
        elif key == "done":
            fields[key] = {job: own.get("work", 0.0) for job, _, own in table_rows(table, key, (), ("work",))}
        elif key == "held":
            fields[key] = {name: _present(gpus) for name, gpus, _ in table_rows(table, key, types, ())}
        elif key == "placed":
            fields[key] = {}
            for name, gpus, _ in table_rows(table, key, types, ()):
                job, server = _pair(name, key)
                fields[key].setdefault(job, {})[server] = _present(gpus)
        else:
            raise InvalidInstance(f"there is no table {key!r}; {choices(key, INDEX)}")
    return fields | plain


def _present(gpus: dict[str, Any]) -> dict[str, Any]:
    """Without the empty cells."""
    return {t: n for t, n in gpus.items() if not pd.isna(n)}


def _about(table: pd.DataFrame) -> dict[str, Any]:
    rows = table_rows(table, "instance", (), ABOUT)
    if len(rows) != 1:
        raise InvalidInstance(f"table instance has {len(rows)} rows; it must have one")
    name, _, own = rows[0]
    return {"name": "" if pd.isna(name) else name, **own}
