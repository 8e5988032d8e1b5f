"""Facts about the runs of a folder: settings, warnings about what is not comparable, refusals, systems."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hetopt.data.units import Unit
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.run_folder import RunFolder, WorkloadRuns
from hetopt.experiments.run_store import StoredRun
from hetopt.presentation.simulation_report.result_tables import Styles, system_cells
from hetopt.presentation.tables import Cell, Column, Table, joined, number_column

OWN = ("seed", "system", "system_settings", "system_files", "round_seconds")
"""Settings in which runs of one workload may differ."""


def common_settings(run: StoredRun) -> dict[str, str]:
    """Settings that all runs of one workload should have in common, as text; without defaults."""
    flat: dict[str, Any] = {}
    for key, value in run.record.settings.items():
        items = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{name}" if name else key: v for name, v in items if key not in OWN}
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in flat.items() if v not in (None, {}, [])}


def differing_settings(runs: Sequence[StoredRun]) -> dict[str, dict[str, list[str]]]:
    """Setting -> value -> systems, for common settings in which these runs differ."""
    every = [(run.key.system, common_settings(run)) for run in runs]
    found: dict[str, dict[str, dict[str, None]]] = {}
    for key in dict.fromkeys(key for _, own in every for key in own):
        for system, own in every:
            found.setdefault(key, {}).setdefault(own.get(key, "default"), {})[system] = None
    return {
        key: {value: list(who) for value, who in values.items()} for key, values in found.items() if len(values) > 1
    }


def workload_facts(part: WorkloadRuns) -> dict[str, Any]:
    """Seeds, settings and source of a workload, what makes its numbers less comparable, and refusals by reason."""
    seeds = sorted({run.key.seed for run in part.runs})
    differ = differing_settings(part.runs)
    common = common_settings(part.runs[0])
    unfinished = dict(part.statistics.mean.get("unfinished", {}))
    refused: dict[str, str] = {}
    for system, by_seed in part.statistics.refused.items():
        every = by_seed.keys() == {run.key.seed for run in part.runs if run.key.system == system}
        refused |= {system if every else f"{system} (seed {seed})": why for seed, why in by_seed.items()}
    return {
        "seeds": seeds,
        "settings": {key.removeprefix("workload."): value for key, value in common.items() if key not in differ},
        "source": part.runs[0].record.source,
        "capacity": part.runs[0].record.capacity,
        "differ": differ,
        "partial": {system: own for system, own in part.statistics.seeds.items() if own != seeds},
        "unfinished": {system: number for system, number in unfinished.items() if number > 0},
        "refused": by_reason(refused),
    }


def systems_table(folder: RunFolder, styles: Styles) -> Table:
    """Systems with their settings, runs and time."""
    own = {name: [run.record for run in folder.runs if run.key.system == name] for name in folder.systems}
    first = [records[0] for records in own.values()]
    ran = [[record for record in records if record.refused is None] for records in own.values()]
    given = [(record.settings.get("system_settings") or {}).items() for record in first]
    seconds = [sum(record.seconds for record in records) for records in ran]
    rounds = [record.round_seconds for record in first]
    return joined(
        (Column("system", text=True), system_cells(folder.systems, styles)),
        (Column("policy", text=True), [Cell(record.system_name) for record in first]),
        (
            Column("settings", text=True),
            [Cell(", ".join(f"{key} = {value}" for key, value in own) or "default") for own in given],
        ),
        (Column("round", "s"), [Cell("at events") if r is None else Cell(f"{r:g}", r) for r in rounds]),
        (
            Column("runs", meaning="completed runs"),
            [
                Cell(f"{len(done)} of {len(records)}", len(done))
                for done, records in zip(ran, own.values(), strict=True)
            ],
        ),
        number_column("time", seconds, Unit.SECONDS, "wall-clock time of the completed runs together"),
    )
