"""What the command line shows of stages on GPUs: tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from hetopt.console import bold, readable, say, show_table
from hetopt.pipelines.jobs import Mapped
from hetopt.pipelines.mapping import GPUMapping
from hetopt.quantities import spell_bytes, spell_seconds

MOST_SERVERS = 10
"""Columns of servers that fit beside each other; more are listed in a sentence for each stage."""


def show_mappings(mapped: Mapped) -> None:
    """For each job the replicas of its stages on servers, and what an iteration takes; then who has no mapping."""
    for name, mapping in mapped.mappings.items():
        _show_replicas(f"{name}: replicas of its stages on servers with {mapped.gpu_type[name]}", mapping)
        for key, text in _facts(mapping).items():
            say("  ", bold(key), f": {readable(text)}")
    if mapped.refused:
        show_table("not mapped", ["job", "why"], mapped.refused.items(), sentences=1)


def _show_replicas(title: str, mapping: GPUMapping) -> None:
    """Stages one after the other that are alike share a row."""
    table = mapping.table
    runs = [(_run(list(own)), row) for row, own in _alike(table.to_numpy().tolist())]
    names = [str(name) for name in table.columns]
    if len(names) <= MOST_SERVERS:
        rows = [[stages, *(str(n) if n else "" for n in row)] for stages, row in runs]
        show_table(title, ["stage", *names], rows)
        return
    rows = [[stages, ", ".join(f"{m}: {n}" for m, n in zip(names, row, strict=True) if n)] for stages, row in runs]
    show_table(title, ["stage", "servers"], rows, sentences=1)


def _alike(rows: list[list[int]]) -> Iterator[tuple[list[int], Iterator[int]]]:
    """(row, numbers from 1 of the stages in a run that have it)."""
    for row, run in groupby(enumerate(rows, 1), key=lambda pair: pair[1]):
        yield row, (number for number, _ in run)


def _run(stages: list[int]) -> str:
    each = " each" if len(stages) > 1 else ""
    return f"S{stages[0]}" if not each else f"S{stages[0]}-S{stages[-1]}{each}"


STATUS = {"gap": "within the gap asked for", "time_limit": "stopped by the time limit"}


def _facts(mapping: GPUMapping) -> dict[str, str]:
    least, apart = _limits(mapping)
    found = f"{STATUS.get(mapping.status, mapping.status)}, found in {spell_seconds(mapping.seconds)}"
    if mapping.bound is not None and mapping.minimises == "seconds":
        found += f"; no mapping takes less than {spell_seconds(mapping.bound)}: gap {mapping.gap:.2%}"
    elif mapping.bound is not None:
        found += f"; no mapping sends less than {spell_bytes(mapping.bound)}: gap {mapping.gap:.2%}"
    sent, total = spell_bytes(mapping.cut_bytes), spell_bytes(mapping.graph.weight.sum())
    return {
        "iteration": f"{spell_seconds(mapping.iteration_seconds)}; {spell_seconds(least)} if all replicas were "
        f"together, {spell_seconds(apart)} if each were on a server of its own",
        "between servers": f"{sent} of {total} per iteration",
        mapping.method or "method": found,
    }


def iterations(mapped: Mapped) -> dict[str, str]:
    """Job -> seconds of an iteration, as people read them."""
    return {name: spell_seconds(own.iteration_seconds) for name, own in mapped.mappings.items()}


def _limits(mapping: GPUMapping) -> tuple[float, float]:
    """Seconds that no mapping can fall below, and those with all replicas apart."""
    pipeline, servers = mapping.graph.pipeline, mapping.servers
    return float(mapping.timing.least(pipeline, servers)), float(mapping.timing.most(pipeline, servers))


def mappings_json(mapped: Mapped, method: str) -> dict[str, Any]:
    """Plain data; gaps are parts of what the method minimises, replicas are listed stage by stage."""
    jobs = {name: {"gpu_type": mapped.gpu_type[name], **_json(own)} for name, own in mapped.mappings.items()}
    return {"method": method, "mappings": jobs, "not_mapped": dict(mapped.refused)}


def _json(mapping: GPUMapping) -> dict[str, Any]:
    least, apart = _limits(mapping)
    bound = {} if mapping.bound is None else {f"bound_{mapping.minimises}": float(mapping.bound), "gap": mapping.gap}
    replicas: Mapping[Any, list[int]] = mapping.table.to_dict(orient="list")
    return {
        "gpus": int(mapping.graph.size.sum()),
        "iteration_seconds": float(mapping.iteration_seconds),
        "least_iteration_seconds": least,
        "apart_iteration_seconds": apart,
        "between_servers_bytes": float(mapping.cut_bytes),
        "exchanged_bytes": float(mapping.graph.weight.sum()),
        "status": str(mapping.status),
        "search_seconds": mapping.seconds,
        **bound,
        "replicas": {str(server): own for server, own in replicas.items()},
        "where": mapping.where,
    }
