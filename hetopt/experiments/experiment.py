"""Every system on every workload with every seed, on one core or many, going on where an interruption left off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from hetopt import __version__
from hetopt.checks import FrozenDict, at_least, whole
from hetopt.decisions.system import System
from hetopt.errors import HetoptError, InvalidOption, InvalidPlan
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.origins import digests
from hetopt.experiments.store import Key, Outcome, Store
from hetopt.experiments.workload import AnyWorkload
from hetopt.metrics.overall import summary
from hetopt.plugins import raised
from hetopt.registry import make_system
from hetopt.simulation.log import Log
from hetopt.simulation.simulator import simulate

Watch = Callable[[Key, float], None]
"""Told of a run and which part of its jobs is finished; 1 when it is stored."""

Answer: TypeAlias = tuple[Outcome, Log | None]
"""Of a run; without a log where the system refused it."""


@dataclass(frozen=True)
class Contestant:
    """A system by name, so that it can be stored and sent to other processes.

    Parameters
    ----------
    name:
        Of a system or policy, or ``module:Name``.
    settings:
        Of it.
    label:
        How tables call it; by default the name with its settings.
    round_seconds:
        Length of a round; None: its own.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", FrozenDict(self.settings))
        if not self.label:
            said = ",".join(f"{key}={value}" for key, value in self.settings.items())
            object.__setattr__(self, "label", f"{self.name}[{said}]" if said else self.name)

    def system(self) -> System:
        """The system; errors as of :func:`hetopt.registry.make_system`."""
        return System.of(make_system(self.name, self.settings), round_seconds=self.round_seconds)


@dataclass(frozen=True)
class Experiment:
    """What is to be simulated.

    Parameters
    ----------
    workloads, contestants:
        All pairs are run.
    seeds:
        Each pair is run with each: of the trace, of the models drawn, of errors and failures.
    environment:
        What happens to jobs, for all the same.
    until:
        Seconds after which every run is cut off; None: until all jobs are finished.

    Raises
    ------
    InvalidOption
        None of something, two of one name, or a seed that is none.
    """

    workloads: tuple[AnyWorkload, ...]
    contestants: tuple[Contestant, ...]
    seeds: tuple[int, ...] = (0,)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    until: float | None = None

    def __post_init__(self) -> None:
        for key in ("workloads", "contestants", "seeds"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
            if not getattr(self, key):
                raise InvalidOption(f"{key} is empty; an experiment needs at least one")
        for key, names in (
            ("workloads", [w.name for w in self.workloads]),
            ("contestants", [c.label for c in self.contestants]),
            ("seeds", [whole(seed, "seeds", 0) for seed in self.seeds]),
        ):
            if twice := [name for i, name in enumerate(names) if name in names[:i]]:
                raise InvalidOption(f"{key} has {twice[0]!r} twice; give each once")
        folders: dict[Path, Key] = {}
        for task in self.runs():
            there = folders.setdefault(task.key.folder(), task.key)
            if there != task.key:
                raise InvalidOption(f"{task.key} and {there} would lie in the same folder; give one another label")
        if self.until is not None:
            at_least(self.until, "until", 0.0, InvalidOption, strict=True)

    def runs(self) -> Iterator[Task]:
        """All runs, those with the same instance one after another."""
        for workload in self.workloads:
            for seed in self.seeds:
                for contestant in self.contestants:
                    yield Task(workload, contestant, seed, self.environment, self.until)

    def check(self, jobs: int = 1) -> None:
        """Refuse what no run can be made with, before anything is run or written.

        Raises
        ------
        UnknownName, InvalidOption
            A system that is wrong, or ``jobs`` neither -1 nor a whole number >= 1.
        """
        if jobs != -1:
            whole(jobs, "jobs", 1)
        for contestant in self.contestants:
            contestant.system()

    def run(self, store: Store, *, jobs: int = 1, watch: Watch | None = None) -> list[Outcome]:
        """Run what the store does not have yet, and store it.

        Parameters
        ----------
        store:
            Where results go; runs that are there with the same settings are not run again, unless they were refused.
        jobs:
            Processes side by side; -1: as many as there are cores. Within ``joblib.parallel_config(backend=…)`` they
            are those of that backend, say Dask's on many hosts.
        watch:
            Told how far runs are.

        Returns
        -------
        list
            Outcomes of the runs that were run now.

        Raises
        ------
        UnknownName, InvalidOption, UnusableFile, InvalidInstance
            A system, trace or folder that is wrong; nothing of that run is stored.
        InvalidPlan
            Somebody's policy failed. The other runs are made and stored before this is raised.
        """
        self.check(jobs)
        tasks = [task for task in self.runs() if not store.has(task.key, task.said())]
        outcomes, failed = [], []
        for answer in self._answers(tasks, jobs, watch):
            if isinstance(answer, InvalidPlan):
                failed.append(answer)
                continue
            outcome, log = answer
            store.write(outcome, log)
            outcomes.append(outcome)
            if watch is not None:
                watch(outcome.key, 1.0)
        if failed:
            more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
            raise InvalidPlan(f"{failed[0]}{more}; the other runs are stored") from failed[0].__cause__
        return outcomes

    def _answers(self, tasks: Sequence[Task], jobs: int, watch: Watch | None) -> Iterator[Answer | InvalidPlan]:
        """What comes of the tasks, each as soon as it is done."""
        if jobs == 1:
            yield from (_answer(task, watch) for task in tasks)
            return
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        try:
            yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(_answer)(task) for task in tasks)
        except TerminatedWorkerError:
            raise InvalidOption(
                f"jobs is {jobs}: a process was killed, perhaps for want of memory; what is stored stays, so say it "
                "again with fewer"
            ) from None


@dataclass(frozen=True)
class Task:
    """One run, ready to be sent to another process; calling it gives its outcome and its log."""

    workload: AnyWorkload
    contestant: Contestant
    seed: int
    environment: EnvironmentSettings
    until: float | None = None

    @property
    def key(self) -> Key:
        """Which run it is."""
        return Key(self.workload.name, self.contestant.label, self.seed)

    def said(self) -> dict[str, Any]:
        """All that decides its result, as JSON can hold it."""
        workload, own = self.workload.said(), dict(self.contestant.settings)
        return {
            "hetopt": __version__,
            "workload": workload,
            "workload_files": digests(workload),
            "system": self.contestant.name,
            "system_settings": own,
            "system_files": digests([self.contestant.name, own]),
            "round_seconds": self.contestant.round_seconds,
            "seed": self.seed,
            "world": self.environment.changed(),
            "until": self.until,
        }

    def __call__(self, watch: Watch | None = None) -> Answer:
        """Simulate; a system that refuses the instance has no log but says why.

        Raises
        ------
        InvalidPlan
            The policy failed, or gave a plan that cannot be carried out.
        """
        instance = self.workload.instance(self.seed)
        instance = (
            instance.replace(cluster=self.environment.on(instance.cluster)) if self.environment.disk_bytes else instance
        )
        capacity = float(sum(instance.cluster.capacity.values()))
        environment = self.environment.build(instance.cluster, self.seed)
        told = False if watch is None else lambda done, all_: watch(self.key, done / (all_ + 1))
        until = float("inf") if self.until is None else instance.time + self.until
        system = self.workload.prepared(self.contestant.system(), self.seed)
        began = time.perf_counter()
        try:
            log = simulate(system, instance, environment=environment, until=until, progress=told)
        except InvalidPlan as problem:
            raise InvalidPlan(f"{self.key}: {problem}") from None
        except HetoptError as problem:
            seconds, refused = time.perf_counter() - began, " ".join(problem.reason.split())
            return Outcome(self.key, self.said(), {}, seconds, refused, capacity, instance.source, system.seconds), None
        except (Exception, SystemExit) as problem:
            raise InvalidPlan(f"{self.key}: the policy failed: {raised(problem)}") from problem
        seconds = time.perf_counter() - began
        found = {str(name): float(value) for name, value in summary(log, instance).items()}
        return Outcome(self.key, self.said(), found, seconds, None, capacity, instance.source, system.seconds), log


def _answer(task: Task, watch: Watch | None = None) -> Answer | InvalidPlan:
    """What comes of a task; a policy that fails must not keep the others from running."""
    try:
        return task(watch)
    except InvalidPlan as problem:
        return problem
