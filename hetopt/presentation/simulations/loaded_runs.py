"""What the page draws of one workload: times of all jobs of all seeds, and the logs of one seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.errors import HetoptError
from hetopt.experiments.folder import Part, fitting, instance_of
from hetopt.experiments.store import Run
from hetopt.metrics.finish_time import finish_time_fairness
from hetopt.simulation.log import Log

Step = Callable[[str], None]
"""Told what is done next."""


@dataclass(frozen=True, eq=False)
class Pool:
    """A number of each job, over all seeds.

    Attributes
    ----------
    values:
        Of the jobs that finished.
    among:
        How many arrived with work to do.
    """

    values: Floats
    among: int

    def __add__(self, other: Pool) -> Pool:
        return Pool(np.concatenate([self.values, other.values]), self.among + other.among)


NOTHING = Pool(np.empty(0), 0)


@dataclass(eq=False)
class Gathered:
    """What is drawn of one workload.

    Attributes
    ----------
    seed:
        That of the logs; None where nothing ran.
    jct, rho:
        System -> completion times in seconds, and finish-time fairness (no unit), by mean completion time.
    without:
        Why there is no finish-time fairness of a system.
    logs:
        System -> its log with that seed.
    instance:
        The instance of these logs; None where it cannot be made again.
    """

    seed: int | None
    jct: dict[str, Pool] = field(default_factory=dict)
    rho: dict[str, Pool] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    instance: Instance | None = None

    def sorted(self, systems: Sequence[str]) -> Gathered:
        """With all in this order; finish-time fairness only of systems that have it for all seeds."""
        jct, logs = ({name: own[name] for name in systems if name in own} for own in (self.jct, self.logs))
        rho = {name: self.rho[name] for name in systems if name in self.rho and name not in self.without}
        return replace(self, jct=jct, logs=logs, rho=rho)  # type: ignore[arg-type]


def gather(part: Part, seed: int | None, fairness: str, step: Step = lambda _: None) -> Gathered:
    """Read the logs of a workload, one after another.

    Parameters
    ----------
    seed:
        Whose logs are kept.
    fairness:
        Definition of finish-time fairness, as of :func:`~hetopt.metrics.finish_time.finish_time_fairness`.
    step:
        Told of each run.

    Raises
    ------
    InvalidInstance, UnusableFile
        A log cannot be read.
    """
    found, made = Gathered(seed), dict[str, Instance | HetoptError]()
    for run, log in part.logs(seed):
        step(str(run.key))
        system, jobs = run.key.system, with_work(log)
        found.jct[system] = found.jct.get(system, NOTHING) + Pool(_known(jobs["jct"]), len(jobs))
        key = json.dumps([run.data["settings"].get("workload"), run.key.seed])
        if key not in made:
            made[key] = _instance(run)
        try:
            instance = fitting(made[key], log)
            rho = _known(finish_time_fairness(log, instance, fairness)["rho"])
            found.rho[system] = found.rho.get(system, NOTHING) + Pool(rho, len(jobs))
        except HetoptError as problem:
            instance, found.without[system] = None, " ".join(str(problem).split())
        if run.key.seed == seed:
            found.logs[system] = log
            found.instance = found.instance or instance
    return found.sorted(part.standings.systems)


def with_work(log: Log) -> pd.DataFrame:
    """Jobs of the log that arrived with work to do."""
    return log.jobs[~((log.jobs["done"] >= log.jobs["work"]) & log.jobs["finish"].isna())]


def _known(values: pd.Series[float]) -> Floats:
    return np.asarray(values.dropna(), dtype=float)


def _instance(run: Run) -> Instance | HetoptError:
    try:
        return instance_of(run)
    except HetoptError as problem:
        return problem
