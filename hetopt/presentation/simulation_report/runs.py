"""What the page knows about the runs of a workload: jobs of all seeds, logs of one seed, settings and warnings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError
from hetopt.experiments.comparison import by_reason
from hetopt.experiments.run_folder import WorkloadRuns, check_same_jobs, instance_of
from hetopt.experiments.run_store import StoredRun
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.simulation.log import Log

Step = Callable[[str], None]
"""Called with the name of each step when it starts."""


@dataclass(eq=False)
class LoadedRuns:
    """The data that is drawn for one workload, by system in the order of their mean completion time.

    ``jct`` and ``rho`` are completion times in seconds and finish-time fairness (no unit) of the jobs with work of all
    seeds, NaN of unfinished jobs; ``without`` says why a system has no fairness. Logs and instance are those of one
    seed (None if nothing ran); without an instance, it cannot be rebuilt.
    """

    seed: int | None
    jct: dict[str, Floats] = field(default_factory=dict)
    rho: dict[str, Floats] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    instance: Instance | None = None


def load_runs(runs: WorkloadRuns, seed: int | None, fairness: str, step: Step) -> LoadedRuns:
    """Read the logs of a workload one by one; those with this seed are kept.

    Raises
    ------
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    systems, found = runs.statistics.systems, LoadedRuns(seed)
    found.jct, found.rho = ({name: np.empty(0) for name in systems} for _ in range(2))
    instances: dict[str, Instance] = {}
    for run, log in runs.logs(seed):
        step(str(run.key))
        system, key = run.key.system, json.dumps([run.record.settings.get("workload"), run.key.seed])
        found.jct[system] = np.append(found.jct[system], log.counted_jobs["jct"].astype(float))
        if run.key.seed == seed:
            found.logs[system] = log
        try:
            if key not in instances:
                instances[key] = instance_of(run)
            check_same_jobs(instances[key], log)
            rho = finish_time_fairness(log, instances[key], fairness)["rho"].astype(float)
            found.rho[system] = np.append(found.rho[system], rho)
            if run.key.seed == seed:
                found.instance = instances[key]
        except HetoptError as problem:
            found.without[system] = " ".join(str(problem).split())
    found.logs = {name: found.logs[name] for name in systems if name in found.logs}
    found.rho = {name: own for name, own in found.rho.items() if name not in found.without}
    return found


MAY_DIFFER = ("seed", "system", "system_settings", "system_files", "round_seconds")
"""Settings in which runs of one workload may differ."""


def common_settings(run: StoredRun) -> dict[str, str]:
    """Settings that all runs of one workload should have in common, as text; without defaults."""
    flat: dict[str, Any] = {}
    for key, value in run.record.settings.items():
        items = value.items() if isinstance(value, Mapping) else [("", value)]
        flat |= {f"{key}.{name}" if name else key: v for name, v in items if key not in MAY_DIFFER}
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in flat.items() if v not in (None, {}, [])}


def differing_settings(runs: Sequence[StoredRun]) -> dict[str, dict[str, list[str]]]:
    """Setting -> value -> systems, for common settings in which these runs differ."""
    every = [(run.key.system, common_settings(run)) for run in runs]
    found: dict[str, dict[str, list[str]]] = {}
    for key in dict.fromkeys(key for _, own in every for key in own):
        values = dict.fromkeys(own.get(key, "default") for _, own in every)
        if len(values) > 1:
            who = {value: [system for system, own in every if own.get(key, "default") == value] for value in values}
            found[key] = {value: list(dict.fromkeys(systems)) for value, systems in who.items()}
    return found


def workload_facts(part: WorkloadRuns) -> dict[str, Any]:
    """Seeds, settings and source of a workload, what makes its numbers less comparable, and refusals by reason."""
    seeds = sorted({run.key.seed for run in part.runs})
    record, differ = part.runs[0].record, differing_settings(part.runs)
    common = {key: value for key, value in common_settings(part.runs[0]).items() if key not in differ}
    refused: dict[str, str] = {}
    for system, by_seed in part.statistics.refused.items():
        every = by_seed.keys() == {run.key.seed for run in part.runs if run.key.system == system}
        refused |= {system if every else f"{system} (seed {seed})": why for seed, why in by_seed.items()}
    return {
        "seeds": seeds,
        "settings": {key.removeprefix("workload."): value for key, value in common.items()},
        "source": record.source,
        "capacity": record.capacity,
        "differ": differ,
        "partial": {system: own for system, own in part.statistics.seeds.items() if own != seeds},
        "unfinished": {name: n for name, n in part.statistics.mean.get("unfinished", {}).items() if n > 0},
        "refused": by_reason(refused),
    }
