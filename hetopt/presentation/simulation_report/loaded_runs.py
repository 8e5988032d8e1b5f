"""The data that the page draws for one workload: times of all jobs of all seeds, and the logs of one seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError
from hetopt.experiments.run_folder import WorkloadRuns, check_same_jobs, instance_of
from hetopt.experiments.run_store import StoredRun
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.simulation.log import Log

Step = Callable[[str], None]
"""Called with the name of each step when it starts."""


@dataclass(frozen=True, eq=False)
class JobSample:
    """A number of each job, over all seeds.

    Attributes
    ----------
    values:
        (finished jobs,) the numbers.
    jobs:
        Number of jobs that arrived with work to do.
    """

    values: Floats
    jobs: int

    def __add__(self, other: JobSample) -> JobSample:
        return JobSample(np.concatenate([self.values, other.values]), self.jobs + other.jobs)


EMPTY = JobSample(np.empty(0), 0)


@dataclass(eq=False)
class LoadedRuns:
    """The data that is drawn for one workload.

    Attributes
    ----------
    seed:
        The seed of the logs; None if nothing ran.
    jct, rho:
        System -> completion times in seconds, and finish-time fairness (no unit), by mean completion time.
    without:
        System -> why it has no finish-time fairness.
    logs:
        System -> its log with this seed.
    instance:
        The instance of these logs; None if it cannot be rebuilt.
    """

    seed: int | None
    jct: dict[str, JobSample] = field(default_factory=dict)
    rho: dict[str, JobSample] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    instance: Instance | None = None

    def sorted(self, systems: Sequence[str]) -> LoadedRuns:
        """In the order of ``systems``; finish-time fairness only of systems that have it for all seeds."""
        jct, logs = ({name: own[name] for name in systems if name in own} for own in (self.jct, self.logs))
        rho = {name: self.rho[name] for name in systems if name in self.rho and name not in self.without}
        return replace(self, jct=jct, logs=logs, rho=rho)  # type: ignore[arg-type]


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
    found, made = LoadedRuns(seed), dict[str, Instance | HetoptError]()
    for run, log in runs.logs(seed):
        step(str(run.key))
        system, jobs = run.key.system, log.jobs_with_work
        found.jct[system] = found.jct.get(system, EMPTY) + JobSample(_known(jobs["jct"]), len(jobs))
        key = json.dumps([run.record.settings.get("workload"), run.key.seed])
        if key not in made:
            made[key] = _instance(run)
        try:
            instance = made[key]
            if isinstance(instance, HetoptError):
                raise instance
            check_same_jobs(instance, log)
            rho = _known(finish_time_fairness(log, instance, fairness)["rho"])
            found.rho[system] = found.rho.get(system, EMPTY) + JobSample(rho, len(jobs))
        except HetoptError as problem:
            instance, found.without[system] = None, " ".join(str(problem).split())
        if run.key.seed == seed:
            found.logs[system] = log
            found.instance = found.instance or instance
    return found.sorted(runs.statistics.systems)


def _known(values: pd.Series[float]) -> Floats:
    return np.asarray(values.dropna(), dtype=float)


def _instance(run: StoredRun) -> Instance | HetoptError:
    try:
        return instance_of(run)
    except HetoptError as problem:
        return problem
