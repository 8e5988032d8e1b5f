"""The runs of a folder by workload; logs and instances are loaded when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hetopt.checks import choices
from hetopt.data.instance import Instance
from hetopt.errors import InvalidInstance, UnknownName
from hetopt.experiments.run_store import RunKey, RunStore, StoredRun, run_table
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.experiments.trace_workload import workload_of
from hetopt.simulation.log import ROUNDS, SPANS, Log


@dataclass(frozen=True, eq=False)
class RunFolder:
    """Selected runs of a folder.

    Parameters
    ----------
    path:
        The folder.
    runs:
        The selected runs.
    """

    path: Path
    runs: tuple[StoredRun, ...]

    @classmethod
    def of(cls, path: str | PathLike[str], systems: Sequence[str] = ()) -> RunFolder:
        """The runs in ``path``, only of ``systems`` (labels or names) if given.

        Raises
        ------
        UnusableFile, InvalidInstance
            The folder does not exist, holds no run, or has an invalid file.
            Two of its runs have the same labels and seed, as in a folder of maps.
        UnknownName
            A system without runs.
        """
        runs, first = RunStore(Path(path)).runs(), dict[RunKey, StoredRun]()
        for run in runs:
            if (other := first.setdefault(run.key, run)) is not run:
                raise InvalidInstance(
                    f"has {run.key} twice, in {other.folder} and {run.folder}; give a folder with one of them"
                ).in_file(str(path))
        for name in systems:
            if not any(run.is_of([name]) for run in runs):
                labels = sorted({run.key.system for run in runs})
                raise UnknownName(f"has no runs of system {name!r}; {choices(name, labels)}").in_file(str(path))
        return cls(Path(path), tuple(run for run in runs if not systems or run.is_of(systems)))

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per run, see :func:`hetopt.experiments.run_store.run_table`."""
        return run_table(self.runs)

    @cached_property
    def systems(self) -> list[str]:
        """Labels, sorted; their positions determine the colours on the page."""
        return sorted({run.key.system for run in self.runs})

    @cached_property
    def workloads(self) -> list[WorkloadRuns]:
        """The runs of each workload, sorted by name."""
        own: dict[str, list[StoredRun]] = {}
        for run in self.runs:
            own.setdefault(run.key.workload, []).append(run)
        rows = {str(name): rows for name, rows in self.table.groupby("workload")}
        return [WorkloadRuns(name, tuple(own[name]), SeedStatistics(rows[name])) for name in sorted(own)]

    @property
    def clusters(self) -> dict[str, str | None]:
        """Workload -> name of its cluster."""
        return {own.name: own.settings.get("cluster") for own in self.workloads}


@dataclass(frozen=True, eq=False)
class WorkloadRuns:
    """The runs of one workload.

    Attributes
    ----------
    name:
        The workload.
    runs, statistics:
        Its runs, and their statistics over seeds.
    """

    name: str
    runs: tuple[StoredRun, ...]
    statistics: SeedStatistics

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the workload in its first run."""
        return dict(self.runs[0].record.settings.get("workload") or {})

    def seed(self, wanted: int | None = None) -> int | None:
        """The seed of charts over time: ``wanted`` if it ran, else the first with most systems; None if nothing ran."""
        ran = [seed for seeds in self.statistics.seeds.values() for seed in seeds]
        if wanted in ran:
            return wanted
        return min(set(ran), key=lambda seed: (-ran.count(seed), seed)) if ran else None

    def logs(self, seed: int | None) -> Iterator[tuple[StoredRun, Log]]:
        """The runs that were not refused, with their logs, one at a time; logs of other seeds have only jobs."""
        for run in self.runs:
            if run.record.refused is None:
                yield run, run.read_log() if run.key.seed == seed else log_of_jobs(run)


def log_of_jobs(run: StoredRun) -> Log:
    """Read only the jobs of a run, a small part of its files, which suffices for completion times and fairness."""
    spans, rounds, events = (pd.DataFrame(columns=columns) for columns in (SPANS, ROUNDS, ["time", "kind", "job"]))
    empty, record = pd.DataFrame(), run.record
    return Log(
        run.table("jobs"), spans, rounds, events, empty, record.capacity, end=record.end, job_window=record.job_window
    )


def instance_of(run: StoredRun) -> Instance:
    """Rebuild the instance of a stored run from its settings.

    Raises
    ------
    HetoptError
        The instance cannot be rebuilt.
    """
    try:
        return workload_of(run.record.settings["workload"]).instance(run.key.seed)
    except (KeyError, TypeError) as problem:
        raise InvalidInstance(f"has a workload that cannot be read: {problem}").in_file(str(run.folder)) from None


SAME = ("arrival", "demand", "work")
"""Attributes of a job that are equal in the log and in the instance."""


def check_same_jobs(instance: Instance, log: Log) -> None:
    """Refuse an instance whose jobs differ from those of the log.

    Raises
    ------
    InvalidInstance
        They differ.
    """
    theirs = {name: instance.job[name] for name in log.jobs.index if name in instance.job}
    jobs = pd.DataFrame({key: [float(getattr(job, key)) for job in theirs.values()] for key in SAME})
    if len(jobs) < len(log.jobs) or not np.array_equal(jobs, log.jobs[list(SAME)].astype(float)):
        raise InvalidInstance("the trace gives other jobs now than when it was simulated")
