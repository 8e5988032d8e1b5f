"""Simulations of every system on every workload with every seed, in parallel, and resumable after interruptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, time
from typing import Any, TypeAlias

from hetopt import __version__
from hetopt.checks import FrozenDict, at_least, shown, unfit_count, whole
from hetopt.data.saving import check_folder
from hetopt.decisions.system import System
from hetopt.errors import (
    HetoptError,
    InvalidFormulation,
    InvalidInstance,
    InvalidOption,
    PolicyFailed,
    UnusableFile,
    WorkersKilled,
)
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.input_files import file_digests
from hetopt.experiments.run_progress import ProgressCallback, ProgressFile, expected_seconds
from hetopt.experiments.run_store import RunKey, RunRecord, RunStore
from hetopt.experiments.trace_workload import ExperimentWorkload
from hetopt.metrics.overall import summary
from hetopt.parallel import run_parallel
from hetopt.plugins import raised
from hetopt.registry import make_system
from hetopt.simulation.checkpoints import Checkpoints
from hetopt.simulation.log import Log, check_job_window
from hetopt.simulation.progress import REPORT_SECONDS, ProgressFunction, SimulationProgress
from hetopt.simulation.simulator import simulate

CHECKPOINT, PROGRESS = "checkpoint", "progress.json"
"""Files in the folder of a run that is not finished."""

REFUSALS = (InvalidInstance, InvalidFormulation, InvalidOption)
"""Errors of a system that cannot run an instance; all others, also missing packages, are failures of its policy."""

RunResult: TypeAlias = tuple[RunRecord, Log | None]
"""The record of a run, and its log unless the system refused it."""


@dataclass(frozen=True)
class SystemVariant:
    """A system by name and settings, so that it can be stored and sent to other processes.

    Parameters
    ----------
    name:
        Name of a system or policy, or ``module:Name``.
    settings:
        Its settings.
    label:
        Its name in tables; default: the name with the settings, such as ``fft[round_seconds=60]``.
    round_seconds:
        Length of a round in seconds; None: the system's own.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    round_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", FrozenDict(self.settings))
        if not self.label:
            listed = ",".join(f"{key}={value}" for key, value in self.settings.items())
            object.__setattr__(self, "label", f"{self.name}[{listed}]" if listed else self.name)

    def build(self) -> System:
        """The system; raises as :func:`hetopt.registry.make_system`.

        Its own setting ``round_seconds`` has precedence over that of the variant, which is that of all variants.
        """
        seconds = None if "round_seconds" in self.settings else self.round_seconds
        return System.of(make_system(self.name, self.settings), round_seconds=seconds)


@dataclass(frozen=True)
class Experiment:
    """A set of simulations: all pairs of workloads and systems, with all seeds.

    Parameters
    ----------
    workloads, systems:
        All pairs are run.
    seeds:
        Seeds of the trace, of drawn models, of errors and failures.
    environment:
        Settings of the environment, the same for all runs.
    until:
        Seconds after which every run ends; None: until all jobs are finished.
    job_window:
        As of :func:`hetopt.simulate`.

    Raises
    ------
    InvalidOption
        No workload, system or seed, two with one name, or an invalid seed.
    """

    workloads: tuple[ExperimentWorkload, ...]
    systems: tuple[SystemVariant, ...]
    seeds: tuple[int, ...] = (0,)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    until: float | None = None
    job_window: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for key in ("workloads", "systems", "seeds"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
            if not getattr(self, key):
                raise InvalidOption("is empty; an experiment needs at least one", key)
        for key, names in (
            ("workloads", [workload.name for workload in self.workloads]),
            ("systems", [system.label for system in self.systems]),
            ("seeds", [whole(seed, "seeds", 0) for seed in self.seeds]),
        ):
            if twice := [name for i, name in enumerate(names) if name in names[:i]]:
                raise InvalidOption(f"has {twice[0]!r} twice; give each once", key)
        keys: dict[Path, RunKey] = {}
        for spec in self.runs():
            first = keys.setdefault(spec.key.folder(), spec.key)
            if first != spec.key:
                raise InvalidOption(f"{spec.key} and {first} would share a folder; give one of them another label")
        if self.until is not None:
            at_least(self.until, "until", 0.0, InvalidOption, strict=True)

    def runs(self) -> Iterator[RunSpec]:
        """All runs; those with the same instance are adjacent."""
        for workload in self.workloads:
            for seed in self.seeds:
                for system in self.systems:
                    yield RunSpec(workload, system, seed, self.environment, self.until, self.job_window)

    def missing(self, store: RunStore) -> list[RunSpec]:
        """The runs that are not stored with the same settings, or were refused."""
        return [spec for spec in self.runs() if not store.has(spec.key, spec.as_settings())]

    def check(self, jobs: int | str = 1) -> None:
        """Check the systems and ``jobs`` before anything is run or written.

        Raises
        ------
        UnknownName, InvalidOption
            An invalid system, or ``jobs`` is a number that is neither -1 nor a whole number >= 1.
        """
        if not isinstance(jobs, str) and jobs != -1 and (wanted := unfit_count(jobs, 1)):
            raise InvalidOption(f"is {shown(jobs)}; it must be {wanted}, or -1: a process on each core", "jobs")
        for system in self.systems:
            system.build()

    def run(
        self,
        store: RunStore,
        *,
        jobs: int | str = 1,
        watch: ProgressCallback | None = None,
        checkpoint_every: float = 60.0,
        seconds: float = inf,
    ) -> list[RunRecord]:
        """Run and store the missing runs; a run that was interrupted continues from its checkpoint.

        Parameters
        ----------
        store:
            The results; runs stored with the same settings are not repeated, unless they were refused.
        jobs:
            As of :func:`~hetopt.parallel.run_parallel`. Runs in several processes begin with those that took longest
            before, as far as the store has such ones.
        watch:
            Called with the progress of runs, at most once per second and run.
        checkpoint_every:
            Wall-clock seconds between two checkpoints of a run, see
            :class:`~hetopt.simulation.checkpoints.Checkpoints`. They lie in the folder of the run until it is stored,
            or its policy fails. Other hosts write none unless they share the folder.
        seconds:
            Wall-clock seconds after which no run begins, and those that have begun end at their next progress, without
            a record; with a checkpoint they continue the next time.

        Returns
        -------
        list
            Records of the runs that were run now.

        Raises
        ------
        UnknownName, InvalidOption, UnusableFile, InvalidInstance
            An invalid system, trace, folder or checkpoint; nothing of that run is stored.
        OtherCheckpoint
            The checkpoint of a run is one with other settings.
        PolicyFailed
            A policy failed, e.g. made no progress, or killed the workers of Dask; raised after all other runs are
            stored. Its ``failures`` has the error of each run that failed.
        MissingPackage
            Dask is not installed.
        """
        self.check(jobs)
        specs = self.missing(store)
        if jobs != 1:
            expected = expected_seconds(store.seconds())
            specs.sort(key=lambda spec: -(expected(spec.key) or 0.0))
        records, failed, deadline = [], dict[RunKey, PolicyFailed](), time() + seconds
        check_folder(store.path)
        folder = store.path.resolve()
        files = {spec.key: ProgressFile(folder / spec.key.folder() / PROGRESS) for spec in specs}
        for file in files.values():
            file.remove()

        def report(key: RunKey) -> ProgressFunction | None:
            if watch is None:
                return None
            if jobs == 1:
                return partial(watch, key)
            return files[key].write  # a callback cannot be sent to other processes

        tasks = [(spec, folder, checkpoint_every, report(spec.key), deadline) for spec in specs]
        polled = nullcontext() if jobs == 1 or watch is None else _polled(files, watch)
        with polled, closing(run_parallel(_run, tasks, jobs, _killed)) as results:
            for (spec, *_), result in results:
                record = None
                if isinstance(result, PolicyFailed):
                    failed[spec.key] = result
                elif result is not None:
                    record, log = result
                    store.write(record, log)
                    records.append(record)
                if result is not None and not isinstance(result, WorkersKilled):
                    Checkpoints(folder / spec.key.folder() / CHECKPOINT).remove()
                files[spec.key].remove()
                if watch is not None:
                    watch(spec.key, record)
        if failed:
            (key, first), more = next(iter(failed.items())), f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
            problem = PolicyFailed(f"{key}: {first}{more}; the other runs are stored")
            problem.failures = failed
            raise problem from first.__cause__
        return records


@contextmanager
def _polled(files: Mapping[RunKey, ProgressFile], watch: ProgressCallback) -> Iterator[None]:
    """Pass on what other processes report."""
    end = Event()

    def poll() -> None:
        last: dict[RunKey, SimulationProgress] = {}
        while not end.wait(REPORT_SECONDS):
            for key, file in files.items():
                now = file.read()
                if now is not None and now != last.get(key):
                    last[key] = now
                    watch(key, now)

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@dataclass(frozen=True)
class RunSpec:
    """The settings of one run, which can be sent to another process."""

    workload: ExperimentWorkload
    system: SystemVariant
    seed: int
    environment: EnvironmentSettings
    until: float | None = None
    job_window: tuple[int, int] | None = None

    @property
    def key(self) -> RunKey:
        """The key of the run."""
        return RunKey(self.workload.name, self.system.label, self.seed)

    def as_settings(self) -> dict[str, Any]:
        """Everything that determines the result, in JSON types."""
        workload, system_settings = self.workload.as_settings(), dict(self.system.settings)
        return {
            "hetopt": __version__,
            "workload": workload,
            "workload_files": file_digests(workload),
            "system": self.system.name,
            "system_settings": system_settings,
            "system_files": file_digests([self.system.name, system_settings]),
            "round_seconds": self.system.round_seconds,
            "seed": self.seed,
            "world": self.environment.changed(),
            "until": self.until,
            "job_window": self.job_window,
        }

    def run(self, report: ProgressFunction | None = None, checkpoints: Checkpoints | None = None) -> RunResult:
        """Simulate; if the system refuses the instance, the record has the reason, and the log is None.

        Parameters
        ----------
        report:
            Called with the progress.
        checkpoints:
            Where the state is written, and from where it continues.

        Raises
        ------
        PolicyFailed
            The policy failed, gave a plan that cannot be carried out, found no solution, or made no progress.
        OtherCheckpoint, UnusableFile
            The checkpoint is one with other settings, or cannot be read or written.
        InvalidOption
            The jobs of ``job_window`` do not exist.
        """
        began, earlier = perf_counter(), 0.0
        instance = self.workload.instance(self.seed)
        if self.environment.disk_bytes:
            instance = instance.replace(cluster=self.environment.with_disks(instance.cluster))
        if self.job_window is not None:
            check_job_window(self.job_window, len(instance.jobs))
        environment = self.environment.build(instance.cluster, self.seed)
        until = float("inf") if self.until is None else instance.time + self.until
        system = self.workload.prepare(self.system.build(), self.seed)

        record = RunRecord(
            self.key,
            self.as_settings(),
            capacity=float(sum(instance.cluster.capacity.values())),
            source=instance.source,
            round_seconds=system.seconds,
        )

        def progress(now: SimulationProgress) -> None:
            nonlocal earlier
            earlier = now.earlier.seconds if now.earlier is not None else 0.0
            if report is not None:
                report(now)

        def seconds() -> float:
            return earlier + perf_counter() - began

        try:
            log = simulate(
                system,
                instance,
                environment=environment,
                until=until,
                job_window=self.job_window,
                progress=progress,
                checkpoint=checkpoints,
            )
        except REFUSALS as problem:
            return replace(record, seconds=seconds(), refused=" ".join(problem.reason.split())), None
        except (UnusableFile, _OutOfTime):  # of checkpoints; of the experiment
            raise
        except HetoptError as problem:
            raise PolicyFailed(str(problem)) from problem
        except (Exception, SystemExit) as problem:
            raise PolicyFailed(f"the policy failed: {raised(problem)}") from problem
        metrics = {str(name): float(value) for name, value in summary(log, instance).items()}
        return replace(record, summary=metrics, seconds=seconds(), end=log.end), log


class _OutOfTime(Exception):
    """A run ends before it is done."""


@dataclass(frozen=True)
class _Until:
    """Passes progress on until a second of the clock."""

    deadline: float
    report: ProgressFunction | None

    def __call__(self, now: SimulationProgress) -> None:
        if self.report is not None:
            self.report(now)
        if time() > self.deadline and now.finished < now.jobs:
            raise _OutOfTime


def _run(
    spec: RunSpec, store: Path, every: float, report: ProgressFunction | None, deadline: float
) -> RunResult | PolicyFailed | None:
    """The result of a run, None if there is no time for it; a failing policy must not stop other runs."""
    if time() > deadline:
        return None
    checkpoints = None
    if store.is_dir():  # else this is another host
        folder = store / spec.key.folder()
        check_folder(folder)
        checkpoints = Checkpoints(folder / CHECKPOINT, every, spec.as_settings())
    try:
        return spec.run(_Until(deadline, report), checkpoints)
    except _OutOfTime:
        return None
    except PolicyFailed as problem:
        return problem


def _killed(*_: object) -> WorkersKilled:
    return WorkersKilled("each worker of Dask that ran it was killed, perhaps because memory ran out")
