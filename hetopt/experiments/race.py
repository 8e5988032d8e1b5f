"""Races: which systems are best for some aims, by simulations of paired samples of a workload.

All systems run on the same samples: seeds of a generator, or blocks of a trace. After each sample, systems that are
certainly worse than the best in every aim are dropped, so that time goes to those that may be best.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import stats

from hetopt.checks import at_least, lookup, whole
from hetopt.data.array_types import Floats
from hetopt.data.units import Better
from hetopt.errors import InvalidOption, PolicyFailed
from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_progress import ProgressCallback
from hetopt.experiments.run_store import RunKey, RunStore
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import traits_of
from hetopt.metrics.definitions import METRICS, Metric
from hetopt.parallel import number_of_workers
from hetopt.plugins import POLICIES, SYSTEMS
from hetopt.registry import make_system

AIMS: Mapping[str, str] = {
    "jct": "jct_mean",
    "tail": "jct_p99",
    "makespan": "makespan",
    "finish-time": "ftf_themis_max",
    "tenants": "sharing_jain",
    "deadlines": "deadlines_met",
}
"""Aim -> the metric that measures it (:data:`~hetopt.metrics.definitions.METRICS`)."""

Watched: TypeAlias = Callable[[Experiment], AbstractContextManager[ProgressCallback | None]]
"""Called with the next runs of a race; gives what is called with their progress."""

FOR_ONE_MORE = 0.2
"""Part of the time of a race that is kept for one more GPU of each type."""

WITHOUT_VALUE: Mapping[str, str] = {
    "deadlines": "; no job has a deadline: give a deadline_factor (--deadline-factor)",
    "tenants": "; there are no tenants",
}
"""Aim -> why it may have no value."""


def metric_of_aim(aim: str) -> Metric:
    """The metric of an aim.

    Raises
    ------
    UnknownName
        There is no such aim.
    """
    return METRICS[lookup(AIMS, aim, "aim")]


def all_systems() -> tuple[SystemVariant, ...]:
    """Every registered system, and every registered policy that is a system on its own, with its default settings.

    Those that solve a program in each round take longest, and come last. Left out are policies that share GPUs in time,
    which are systems only with a rounder, and fluid references.
    """
    found = list[tuple[bool, str]]()
    for name in sorted({*SYSTEMS.points, *POLICIES.points}):
        system = make_system(name)
        if not system.fluid and (name in SYSTEMS.points or not traits_of(system.policy).fractional):
            found.append((hasattr(system.policy, "options") or isinstance(system.policy, Formulation), name))
    return tuple(SystemVariant(name) for _, name in sorted(found))


def is_relative(metric: Metric) -> bool:
    """Whether systems are compared by ratios; shares from 0 to 1 are compared by differences."""
    return metric.better is Better.LOWER


@dataclass(frozen=True)
class Compared:
    """Systems that ran on the same samples, compared with the best of them by one metric.

    The metric of system i on sample b, or its logarithm if ratios are compared, is taken as the sum of an effect of the
    system, one of the sample, and an error with a variance common to all (a randomised complete block design). So the
    variation between samples does not hide the differences between systems, and few samples suffice.

    Attributes
    ----------
    metric:
        The metric.
    values:
        (samples, systems) its values.
    confidence:
        Confidence of each interval, from 0 to 1.
    """

    metric: Metric
    values: pd.DataFrame
    confidence: float

    @property
    def scores(self) -> Floats:
        """(samples, systems) values on the compared scale, lower being better."""
        table = self.values.to_numpy(dtype=float)
        return np.asarray(np.log(table) if is_relative(self.metric) else -table)

    @property
    def best(self) -> str:
        """The system with the best mean on the compared scale; of equal ones the first."""
        return str(self.values.columns[int(self.scores.mean(axis=0).argmin())])

    @property
    def error(self) -> tuple[float, float]:
        """Standard deviation of the error, and its degrees of freedom; infinite and 0 with one sample or system."""
        scores = self.scores
        n, m = scores.shape
        if n < 2 or m < 2:
            return np.inf, 0.0
        rest = scores - scores.mean(axis=0) - scores.mean(axis=1)[:, None] + scores.mean()
        free = (n - 1) * (m - 1)
        return float(np.sqrt((rest**2).sum() / free)), float(free)

    @property
    def table(self) -> pd.DataFrame:
        """:meth:`against` the best."""
        return self.against(self.best)

    def against(self, system: str) -> pd.DataFrame:
        """A row per system: ``mean``, its ``difference`` from ``system``, ``low`` and ``high`` of its interval.

        The mean is the one on the compared scale: the geometric mean if ratios are compared, as everywhere but for
        shares. Differences are parts of the other value (0.1: 10 % more), or of shares their differences; above 0:
        worse.
        """
        mean = self.scores.mean(axis=0)
        deviation, free = self.error
        half = np.inf
        if free:
            half = float(stats.t.ppf((1 + self.confidence) / 2, free)) * deviation * np.sqrt(2 / len(self.values))
        own = self.values.columns == system
        worse = mean - mean[own]
        wide = np.where(own, 0.0, half)
        columns = {"difference": worse, "low": worse - wide, "high": worse + wide}
        if is_relative(self.metric):
            with np.errstate(over="ignore"):
                columns = {key: np.expm1(value) for key, value in columns.items()}
        own_mean = np.exp(mean) if is_relative(self.metric) else -mean
        return pd.DataFrame({"mean": own_mean, **columns}, index=self.values.columns)

    @property
    def worse(self) -> list[str]:
        """The systems that are worse than the best at this confidence."""
        table = self.table
        return [str(name) for name in table.index[table["low"] > 0]]


class Why(StrEnum):
    """Why a system left a race."""

    WORSE = "worse"
    """It was worse than the best one in every aim."""
    NO_TIME = "no time"
    """There was no time for its first run, or for more than that."""
    NO_VALUE = "no value"
    """The metric of an aim has no value."""
    FAILED = "failed"
    """It refused the jobs, or its policy failed."""


@dataclass(frozen=True)
class Dropped:
    """A system that left a race.

    Attributes
    ----------
    samples:
        The number of samples on which it ran.
    why, detail:
        Why it left, and the message of an error.
    """

    samples: int
    why: Why = Why.WORSE
    detail: str = ""

    def __str__(self) -> str:
        return self.detail or self.why.value


@dataclass(frozen=True)
class RaceResult:
    """The results of a race.

    Attributes
    ----------
    values:
        Aim -> (samples, systems) values; NaN where a system had been dropped.
    dropped:
        System -> why it left the race; the others are left.
    confidence:
        Probability with which the best of the systems that did not leave for lack of time is among those that are left.
    comparisons:
        Number of comparisons of two systems in the whole race, among which the error is divided; so an interval is
        wider than one of this confidence alone.
    seconds:
        Wall-clock seconds.
    more:
        Aim -> (samples, GPU types) values of the best system in the first aim with one more GPU of each type.
    no_time_for_more:
        Whether these are left out for lack of time.
    """

    values: Mapping[str, pd.DataFrame]
    dropped: Mapping[str, Dropped]
    confidence: float
    comparisons: int
    seconds: float
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    no_time_for_more: bool = False

    @property
    def left(self) -> list[str]:
        """The systems that are left, as they were given."""
        return [str(name) for name in next(iter(self.values.values())).columns if name not in self.dropped]

    @property
    def without_time(self) -> list[str]:
        """The systems for which there was no time."""
        return [name for name, own in self.dropped.items() if own.why is Why.NO_TIME]

    @property
    def worse(self) -> list[str]:
        """The systems that are worse than the best one in every aim: dropped early, or known to be at the end."""
        now = set.intersection(*(set(self.compared(aim).worse) for aim in self.values))
        dropped = (name for name, own in self.dropped.items() if own.why is Why.WORSE)
        return [*dropped, *(name for name in self.left if name in now)]

    def compared(self, aim: str) -> Compared:
        """The systems that are left, compared by an aim."""
        return Compared(metric_of_aim(aim), self.values[aim][self.left], self._each)

    @property
    def _each(self) -> float:
        """Confidence of each comparison."""
        return 1 - (1 - self.confidence) / self.comparisons

    def with_one_more(self, aim: str) -> pd.DataFrame:
        """What one more GPU of each type changes for the best system, as :attr:`Compared.table`; below 0: better."""
        more = self.more[aim]
        best = self.values[aim].loc[more.index, self.best]
        whole = more.loc[:, more.notna().all()]  # a type without a value on some sample has no interval
        table = Compared(metric_of_aim(aim), pd.concat([best, whole], axis=1), self._each).against(self.best)
        return table.reindex(more.columns)

    @property
    def best(self) -> str:
        """The best system by the first aim."""
        return self.compared(next(iter(self.values))).best

    def ranking(self, aim: str) -> pd.DataFrame:
        """Every system that ran, with the columns of :attr:`Compared.table` and its ``samples``.

        The systems that are left come first, the best one at the top; then those that left, in the same order.
        Of a dropped system the difference is that from the best system on the samples on which it ran, and there is no
        mean and no interval.
        """
        values, compared = self.values[aim], self.compared(aim)
        table, best = compared.table.assign(samples=len(values)), compared.best
        rows = list[pd.DataFrame]()
        for name in values.columns.difference(table.index, sort=False):
            own = values[[best, name]].dropna()
            if len(own):
                pair = Compared(compared.metric, own, 0.0).against(best).loc[[name]]
                rows.append(pair.assign(mean=np.nan, low=np.nan, high=np.nan, samples=len(own)))
        parts = [table, pd.concat(rows)] if rows else [table]
        return pd.concat([part.sort_values("difference", kind="stable") for part in parts])

    def as_dict(self) -> dict[str, Any]:
        """JSON types; numbers that are unknown or infinite are None."""

        def rows(table: pd.DataFrame) -> dict[str, dict[str, float | None]]:
            known = table.astype(float)
            return {
                str(name): {str(key): value if np.isfinite(value) else None for key, value in row.items()}
                for name, row in known.to_dict(orient="index").items()
            }

        return {
            "best": {aim: self.compared(aim).best for aim in self.values},
            "left": self.left,
            "dropped": {name: asdict(own) for name, own in self.dropped.items()},
            "ranking": {aim: rows(self.ranking(aim)) for aim in self.values},
            "one_more": {aim: rows(self.with_one_more(aim)) for aim in self.more},
            "confidence": self.confidence,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Race:
    """A race of systems on samples of a workload.

    Parameters
    ----------
    workload:
        Its seeds are the samples.
    systems:
        The systems.
    aims:
        Names of :data:`AIMS`; a system stays that may be the best in one of them. By the first, the best system is run
        with one more GPU of each type.
    environment:
        Settings of the environment.
    seconds:
        Wall-clock seconds of the race. A fifth of them is kept for one more GPU of each type. Of the rest the first
        sample has half. The slowest systems leave before the second one until it is expected to take at most half of
        what is left then (of two systems, all of it). Systems that do not end in these samples leave too
        (:attr:`RaceResult.without_time`), if two are left. Any other sample counts only if all systems end in time.
    most_samples:
        Largest number of samples.
    confidence:
        As of :class:`RaceResult`.
    one_more:
        Whether the best system is run with one more GPU of each type.

    Raises
    ------
    InvalidOption
        No system or aim, or a setting out of range.
    UnknownName
        There is no such aim.
    """

    workload: TraceWorkload
    systems: tuple[SystemVariant, ...]
    aims: tuple[str, ...] = ("jct",)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    seconds: float = 600.0
    most_samples: int = 10
    confidence: float = 0.95
    one_more: bool = True

    def __post_init__(self) -> None:
        for key in ("systems", "aims"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
            if not (given := getattr(self, key)):
                raise InvalidOption("is empty; give at least one", key)
            names = [own.label if isinstance(own, SystemVariant) else own for own in given]
            if twice := [name for i, name in enumerate(names) if name in names[:i]]:
                raise InvalidOption(f"has {twice[0]!r} twice", key)
        for aim in self.aims:
            metric_of_aim(aim)
        at_least(self.seconds, "seconds (--budget)", 0.0, InvalidOption, strict=True)
        whole(self.most_samples, "most_samples (--samples)", 1)
        at_least(self.confidence, "confidence", 0.5, InvalidOption, below=1.0)

    def check(self, jobs: int | str = 1) -> None:
        """Check the systems and ``jobs`` before anything is run or written; see :meth:`Experiment.check`."""
        Experiment((self.workload,), self.systems, environment=self.environment).check(jobs)

    def run(self, store: RunStore, *, jobs: int | str = 1, watched: Watched = lambda _: nullcontext()) -> RaceResult:
        """Run the race; runs that are stored already are not repeated.

        Parameters
        ----------
        store:
            The results of all runs.
        jobs:
            As of :func:`~hetopt.parallel.run_parallel`.
        watched:
            See :data:`Watched`.

        Raises
        ------
        InvalidOption
            No system has a value for every aim.
        UnknownName, UnusableFile, InvalidInstance
            As of :meth:`~hetopt.experiments.experiment.Experiment.run`.
        """
        self.check(jobs)
        return _Running(self, store, jobs, watched).result()


def _is_late(found: Mapping[str, float] | Dropped) -> bool:
    return isinstance(found, Dropped) and found.why is Why.NO_TIME


@dataclass
class _Running:
    """A race that runs."""

    race: Race
    store: RunStore
    jobs: int | str
    watched: Watched
    began: float = field(default_factory=time.monotonic)
    dropped: dict[str, Dropped] = field(default_factory=dict)
    rows: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """Aim -> a row of values of each sample."""

    def result(self) -> RaceResult:
        race = self.race
        self.rows = {aim: [] for aim in race.aims}
        left, result = list(race.systems), self._result()
        for sample in range(self.samples):
            slow = self._too_slow(left) if sample == 1 else set()
            left = [own for own in left if own.label not in slow]
            if sample and not self._goes_on(left, sample):
                break
            if not self._run_sample(left, sample):
                break
            self.dropped |= dict.fromkeys(slow, Dropped(1, Why.NO_TIME))
            result = self._result()
            if not result.left and len(result.without_time) == len(race.systems):
                part = ", half of it" if self.samples > 1 else ""
                raise InvalidOption(
                    f"is {race.seconds:g}; no system has ended its first run in the time for it{part}",
                    "seconds (--budget)",
                )
            if not result.left:
                every = "; ".join(f"{name}: {own}" for name, own in self.dropped.items())
                raise InvalidOption(f"leave nothing to compare: {every}", "systems")
            worse = set.intersection(*(set(result.compared(aim).worse) for aim in race.aims))
            self.dropped |= {name: Dropped(sample + 1) for name in result.left if name in worse}
            left = [own for own in left if own.label not in self.dropped]
        result = self._result()
        if not self.types:
            return result
        more = self._with_more(result)
        return replace(result, more=more, no_time_for_more=not more)

    def _result(self) -> RaceResult:
        race = self.race
        values = {
            aim: pd.DataFrame(rows, columns=[own.label for own in race.systems]) for aim, rows in self.rows.items()
        }
        n = len(race.systems)
        comparisons = (max(1, n * (n - 1) // 2) * race.most_samples + len(self.types)) * len(race.aims)
        return RaceResult(values, dict(self.dropped), race.confidence, comparisons, time.monotonic() - self.began)

    @cached_property
    def samples(self) -> int:
        """The largest number of samples."""
        return min(self.race.most_samples, self.race.workload.samples() or self.race.most_samples)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The GPU types of which one more is tried."""
        return self.race.workload.instance(0).cluster.type_names if self.race.one_more else ()

    def _left(self, part: float = 1.0) -> float:
        """Seconds until a part of the time is over."""
        return part * self.race.seconds - (time.monotonic() - self.began)

    def _limit(self, sample: int) -> float:
        """Seconds that a sample may take from now on: the first at most half of what is left for samples."""
        left = self._left(1.0 - FOR_ONE_MORE if self.types else 1.0)
        return left / 2 if not sample and self.samples > 1 else left

    def _expected(self, workload: TraceWorkload, systems: Sequence[SystemVariant], sample: int) -> dict[str, float]:
        """Seconds of each run of a sample, if it takes as long as the last one; 0 of runs that are stored."""
        known, before = self.store.seconds(), RunKey(self.race.workload.name, "", max(0, sample - 1))
        new = {own.label for own in systems if RunKey(workload.name, own.label, sample) not in known}
        last = {own.label: known.get(replace(before, system=own.label), 0.0) for own in systems}
        return {name: value if name in new else 0.0 for name, value in last.items()}

    def _together(self, seconds: Collection[float], processes: int) -> float:
        """Seconds of several runs in so many processes."""
        return max(sum(seconds) / max(1, processes), *seconds)

    def _too_slow(self, systems: Sequence[SystemVariant]) -> set[str]:
        """The slowest systems, without which a second sample should end in half of the time; two are kept."""
        expected, processes = self._expected(self.race.workload, systems, 1), number_of_workers(self.jobs)
        limit = self._limit(1) / (2 if self.samples > 2 else 1)
        fast = dict(expected)
        while len(fast) > 2 and self._together(fast.values(), processes) > limit:
            del fast[max(fast, key=fast.__getitem__)]
        return expected.keys() - fast.keys()

    def _goes_on(self, systems: Sequence[SystemVariant], sample: int) -> bool:
        """Whether another sample is of use, and should end in time.

        If one system is left, it is of use for one more GPU of each type, on this sample and those before.
        """
        expected = self._expected(self.race.workload, systems, sample)
        seconds = self._together(expected.values(), number_of_workers(self.jobs))
        if len(systems) > 1:
            return seconds <= self._limit(sample)
        return bool(self.types) and seconds * (1 + len(self.types) * (sample + 1)) <= self._left()

    def _run_sample(self, systems: Sequence[SystemVariant], sample: int) -> bool:
        """Run a sample and note its values; False if it does not count, since it took too long."""
        workload = self.race.workload
        found = self._summaries((workload,), systems, sample, self._limit(sample))[workload.name]
        late = [name for name, own in found.items() if _is_late(own)]
        if late and (sample > 1 or (sample and len(found) - len(late) < 2)):
            return False
        for aim, rows in self.rows.items():
            rows.append({name: own.get(AIMS[aim], np.nan) for name, own in found.items() if isinstance(own, Mapping)})
        for name, own in found.items():
            missing = [aim for aim in self.rows if np.isnan(self.rows[aim][-1].get(name, np.nan))]
            if isinstance(own, Dropped):
                self.dropped[name] = own
            elif missing:
                detail = f"{metric_of_aim(missing[0]).title} has no value{WITHOUT_VALUE.get(missing[0], '')}"
                self.dropped[name] = Dropped(sample + 1, Why.NO_VALUE, detail)
        return True

    def _summaries(
        self,
        workloads: tuple[TraceWorkload, ...],
        systems: Sequence[SystemVariant],
        sample: int,
        seconds: float,
    ) -> dict[str, dict[str, Mapping[str, float] | Dropped]]:
        """Workload -> system -> its metrics, or why it has none; runs end after ``seconds``."""
        found: dict[str, dict[str, Mapping[str, float] | Dropped]] = {own.name: {} for own in workloads}
        experiment = Experiment(workloads, tuple(systems), (sample,), self.race.environment)
        failures: Mapping[RunKey, PolicyFailed] = {}
        try:
            with self.watched(experiment) as watch:
                experiment.run(self.store, jobs=self.jobs, watch=watch, seconds=seconds)
        except PolicyFailed as problem:
            failures = problem.failures
        for spec in experiment.runs():
            own, record = found[spec.key.workload], self.store.record(spec.key)
            detail = str(failures.get(spec.key, "")) if record is None else record.refused
            if detail:
                own[spec.system.label] = Dropped(sample, Why.FAILED, detail)
            else:
                own[spec.system.label] = Dropped(sample, Why.NO_TIME) if record is None else record.summary
        return found

    def _with_more(self, result: RaceResult) -> dict[str, pd.DataFrame]:
        """Values of the best system with one more GPU of each type, on as many samples as there is time for, or {}."""
        race, best = self.race, next(own for own in self.race.systems if own.label == result.best)
        rows: dict[str, list[dict[str, float]]] = {aim: [] for aim in race.aims}
        grown = {}
        for gpu_type in self.types:
            more = {**race.workload.more_gpus, gpu_type: race.workload.more_gpus.get(gpu_type, 0) + 1}
            grown[gpu_type] = replace(race.workload, more_gpus=more)
        last = grown[self.types[-1]]
        for sample in range(len(result.values[race.aims[0]])):
            each = self._expected(last, [best], sample)[best.label]
            if self._together([each] * len(grown), number_of_workers(self.jobs)) > self._left():
                break
            found = self._summaries(tuple(grown.values()), [best], sample, self._left())
            if any(_is_late(one) for own in found.values() for one in own.values()):
                break
            for aim in race.aims:
                own = {gpu_type: found[workload.name][best.label] for gpu_type, workload in grown.items()}
                rows[aim].append(
                    {t: np.nan if isinstance(one, Dropped) else one.get(AIMS[aim], np.nan) for t, one in own.items()}
                )
        return {aim: pd.DataFrame(own, columns=list(self.types)) for aim, own in rows.items() if own}
