"""What a folder of runs holds, as far as it is asked for; logs and instances are read when they are needed."""

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
from hetopt.errors import HetoptError, InvalidInstance, UnknownName
from hetopt.experiments.claims import stands_for
from hetopt.experiments.standings import Standings
from hetopt.experiments.store import Run, Store
from hetopt.experiments.workload import workload_of
from hetopt.simulation.log import ROUNDS, SPANS, Log


@dataclass(frozen=True, eq=False)
class Folder:
    """Runs of a folder.

    Parameters
    ----------
    path:
        Where they lie.
    runs:
        Those that are asked for.
    """

    path: Path
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, path: str | PathLike[str], systems: Sequence[str] = ()) -> Folder:
        """The runs in ``path``; of these systems (by label, or by name without settings), where some are named.

        Raises
        ------
        UnusableFile, InvalidInstance
            There is no such folder, it holds no run, or a file that is none.
        UnknownName
            A system that is not there.
        """
        runs = Store(Path(path)).runs()
        labels = sorted({run.key.system for run in runs})
        for name in systems:
            if not any(stands_for(label, [name]) for label in labels):
                raise UnknownName(f"{path} has no runs of system {name!r}; {choices(name, labels)}")
        chosen = [run for run in runs if not systems or stands_for(run.key.system, systems)]
        return cls(Path(path), tuple(chosen))

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows of :meth:`hetopt.experiments.store.Store.table` for these runs."""
        table = Store(self.path).table()
        return table[table["system"].isin(self.systems)].reset_index(drop=True)

    @cached_property
    def systems(self) -> list[str]:
        """Labels, sorted; their place decides their colour on the whole page."""
        return sorted({run.key.system for run in self.runs})

    @cached_property
    def parts(self) -> list[Part]:
        """Workload by workload, sorted by name."""
        own: dict[str, list[Run]] = {}
        for run in self.runs:
            own.setdefault(run.key.workload, []).append(run)
        rows = {str(name): rows for name, rows in self.table.groupby("workload")}
        return [Part(name, tuple(own[name]), Standings(rows[name])) for name in sorted(own)]

    @property
    def clusters(self) -> dict[str, str | None]:
        """Workload -> the cluster that was named for it."""
        return {part.name: part.workload.get("cluster") for part in self.parts}


@dataclass(frozen=True, eq=False)
class Part:
    """Runs of one workload.

    Attributes
    ----------
    name:
        Of the workload.
    runs, standings:
        All of them, and their numbers.
    """

    name: str
    runs: tuple[Run, ...]
    standings: Standings

    @property
    def workload(self) -> Mapping[str, Any]:
        """Settings of the workload, as its first run says them."""
        return dict(self.runs[0].data["settings"].get("workload") or {})

    def seed(self, wanted: int | None = None) -> int | None:
        """The seed of what is drawn over time: ``wanted``, if something ran with it, or the first of those with most.

        None where nothing ran.
        """
        ran = [seed for seeds in self.standings.seeds.values() for seed in seeds]
        if wanted in ran:
            return wanted
        return min(set(ran), key=lambda seed: (-ran.count(seed), seed)) if ran else None

    def logs(self, seed: int | None) -> Iterator[tuple[Run, Log]]:
        """The runs that were not refused, with their logs; of other seeds than this only with their jobs."""
        for run in self.runs:
            if run.data["refused"] is None:
                yield run, Run(run.folder).log if run.key.seed == seed else only_jobs(run)


def only_jobs(run: Run) -> Log:
    """The log of a run without what happened when, which is most of its files.

    Enough for the times of its jobs and their finish-time fairness.
    """
    spans, rounds, events = (pd.DataFrame(columns=columns) for columns in (SPANS, ROUNDS, ["time", "kind", "job"]))
    end = np.nan if run.data["end"] is None else float(run.data["end"])
    return Log(run.table("jobs"), spans, rounds, events, pd.DataFrame(), float(run.data["capacity"]), end=end)


def instance_of(run: Run) -> Instance:
    """The instance of a stored run, made again from its settings.

    Raises
    ------
    HetoptError
        It cannot be made any more.
    """
    try:
        return workload_of(run.data["settings"]["workload"]).instance(run.key.seed)
    except (KeyError, TypeError) as problem:
        raise InvalidInstance(f"{run.folder}: its workload cannot be read: {problem}") from None


SAME = ("arrival", "demand", "work")
"""What a job of a log has in common with that of its instance."""


def fitting(instance: Instance | HetoptError, log: Log) -> Instance:
    """The instance, if the log can be one of it.

    Raises
    ------
    HetoptError
        There is none, or its jobs are others.
    """
    if isinstance(instance, HetoptError):
        raise instance
    theirs = {name: instance.job[name] for name in log.jobs.index if name in instance.job}
    jobs = pd.DataFrame({key: [float(getattr(job, key)) for job in theirs.values()] for key in SAME})
    if len(jobs) < len(log.jobs) or not np.array_equal(jobs, log.jobs[list(SAME)].astype(float)):
        raise InvalidInstance("the trace gives other jobs now than when it was simulated")
    return instance
