"""The data that the page draws for one workload: times of all jobs of all seeds, and the logs of one seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError
from hetopt.experiments.run_folder import WorkloadRuns, check_same_jobs, instance_of
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.simulation.log import Log

Step = Callable[[str], None]
"""Called with the name of each step when it starts."""


@dataclass(eq=False)
class LoadedRuns:
    """The data that is drawn for one workload; systems are in the order of their mean completion time.

    Attributes
    ----------
    seed:
        The seed of the logs; None if nothing ran.
    jct, rho:
        System -> (jobs with work of all seeds,) completion times in seconds, and finish-time fairness (no unit); NaN
        of unfinished jobs.
    without:
        System -> why it has no finish-time fairness.
    logs:
        System -> its log with this seed.
    instance:
        The instance of these logs; None if it cannot be rebuilt.
    """

    seed: int | None
    jct: dict[str, Floats] = field(default_factory=dict)
    rho: dict[str, Floats] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    instance: Instance | None = None


def load_runs(runs: WorkloadRuns, seed: int | None, fairness: str, step: Step = lambda _: None) -> LoadedRuns:
    """Read the logs of a workload one by one.

    Parameters
    ----------
    seed:
        The seed whose logs are kept.
    fairness:
        Definition of finish-time fairness, as of :func:`~hetopt.metrics.finish_time.finish_time_fairness`.
    step:
        Called with each run.

    Raises
    ------
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    systems, found = runs.statistics.systems, LoadedRuns(seed)
    jct, rho = ({name: [np.empty(0)] for name in systems} for _ in range(2))
    instances: dict[str, Instance] = {}
    logs: dict[str, Log] = {}
    for run, log in runs.logs(seed):
        step(str(run.key))
        system, key = run.key.system, json.dumps([run.record.settings.get("workload"), run.key.seed])
        jct[system].append(log.jobs_with_work["jct"].to_numpy(dtype=float))
        if run.key.seed == seed:
            logs[system] = log
        try:
            if key not in instances:
                instances[key] = instance_of(run)
            check_same_jobs(instances[key], log)
            rho[system].append(finish_time_fairness(log, instances[key], fairness)["rho"].to_numpy(dtype=float))
            if run.key.seed == seed:
                found.instance = instances[key]
        except HetoptError as problem:
            found.without[system] = " ".join(str(problem).split())
    found.logs = {name: logs[name] for name in systems if name in logs}
    found.jct = {name: np.concatenate(jct[name]) for name in systems}
    found.rho = {name: np.concatenate(rho[name]) for name in systems if name not in found.without}
    return found
