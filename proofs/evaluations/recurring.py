"""Recurring jobs, with predictors trained on earlier jobs: the workloads of A-SRPT's evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, text, whole
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.system import System
from hetopt.errors import InvalidOption
from hetopt.experiments.trace_workload import MADE_BY
from hetopt.models.asrpt import networks
from hetopt.models.asrpt.asrpt_policies import NonPreemptivePolicy
from hetopt.models.asrpt.asrpt_workload import GroupNetworks
from hetopt.prediction.predictors import Perfect, Predictor
from hetopt.registry import find_instance
from hetopt.traces.pai_generator import PAILike

TRAINING = 0.8
"""Fraction of the trace that trains the predictors [ASRPT, section V-A]."""

PROFILED = "V100"
"""GPU type on which the networks were profiled."""


@dataclass(frozen=True)
class FixedPredictions:
    """A predictor with fixed predictions that learns nothing.

    Parameters
    ----------
    work:
        Job -> predicted work; 0 for absent jobs.
    """

    work: Mapping[str, float] = field(repr=False)

    def learner(self) -> FixedPredictions:
        """Return the predictor itself, which has no state."""
        return self

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn nothing."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) fixed predictions of these jobs."""
        return np.array([self.work.get(job.name, 0.0) for job in jobs])

    def copy(self) -> Self:
        """Return the predictor itself."""
        return self


@dataclass(frozen=True)
class RecurringTrace:
    """A trace like PAI's whose jobs train networks, divided into training jobs and later jobs.

    Parameters
    ----------
    jobs:
        Number of jobs of the whole trace; predictors learn from the first four fifths.
    cluster:
        A named instance with the servers for which the networks are configured; the iterations of a job are its
        duration over the time of an iteration on the fewest servers.
    single_gpu:
        Fraction of the groups that use one GPU.
    shrink:
        Factor of arrivals and durations.
    tail:
        Durations are raised to this power, and scaled so that their median stays: above 1 the tail is heavier.

    Raises
    ------
    InvalidOption
        A number is outside its range.
    """

    jobs: int
    cluster: str = "asrpt/cluster250"
    single_gpu: float = PAILike.single_gpu
    shrink: float = 1.0
    tail: float = 1.0

    def __post_init__(self) -> None:
        whole(self.jobs, "Trace.jobs", 5)
        at_least(self.shrink, "Trace.shrink", 0.0, InvalidOption, strict=True)
        at_least(self.tail, "Trace.tail", 0.0, InvalidOption, strict=True)
        PAILike(single_gpu=self.single_gpu)  # raises for a share outside [0, 1]

    @property
    def past(self) -> int:
        """Number of jobs from which predictors learn."""
        return int(TRAINING * self.jobs)


@dataclass(frozen=True, eq=False)
class DrawnTrace:
    """The sample of a trace for a seed.

    Attributes
    ----------
    past, later:
        Training jobs and later jobs as tables.
    networks:
        The networks of the jobs.
    """

    past: pd.DataFrame
    later: pd.DataFrame
    networks: GroupNetworks


@lru_cache(maxsize=1)
def draw_trace(trace: RecurringTrace, seed: int) -> DrawnTrace:
    """The trace for this seed; the last trace is cached, since many systems run on it."""
    table = PAILike(single_gpu=trace.single_gpu).table(trace.jobs, seed)
    if trace.tail != 1.0:
        median = table["duration"].median()
        table["duration"] = median * (table["duration"] / median) ** trace.tail
    table[["arrival", "duration"]] *= trace.shrink
    cluster = find_instance(trace.cluster).cluster
    drawn = GroupNetworks.drawn(table, _catalogue(cluster), cluster, seed=seed)
    return DrawnTrace(table.iloc[: trace.past], table.iloc[trace.past :], drawn)


def fixed_predictions(trace: RecurringTrace, seed: int, predictor: Predictor) -> FixedPredictions:
    """The predictions for the later jobs by a predictor trained on the past."""
    try:
        hash(predictor)
    except TypeError:  # a predictor with mutable settings
        return _predictions(trace, seed, predictor)
    return _cached_predictions(trace, seed, predictor)  # type: ignore[arg-type]


def _predictions(trace: RecurringTrace, seed: int, predictor: Predictor) -> FixedPredictions:
    drawn, learner = draw_trace(trace, seed), predictor.learner()
    learner.observe(drawn.networks.jobs(drawn.past))
    jobs = drawn.networks.jobs(drawn.later)
    predicted = learner.predict(jobs).tolist()
    return FixedPredictions(FrozenDict(zip((job.name for job in jobs), predicted, strict=True)))


_cached_predictions = lru_cache(maxsize=4)(_predictions)


@cache
def _configurations() -> tuple[Job, ...]:
    return tuple(job for name in networks.NAMES for job in networks.configurations(name))


def _catalogue(cluster: Cluster) -> list[Job]:
    """Configurations that fit on the cluster; its GPUs have the speed of the profiled type."""
    (kind,) = cluster.gpu_types
    return [
        replace(job, throughput={kind.name: job.throughput[PROFILED]})
        for job in _configurations()
        if job.demand <= cluster.capacity[kind.name] and job.memory_bytes <= (kind.memory_bytes or np.inf)
    ]


@dataclass(frozen=True)
class Recurring:
    """A workload of consecutive later jobs of a trace, with predictors trained on its past.

    Parameters
    ----------
    jobs:
        Number of simulated jobs.
    trace:
        The trace, or a mapping of its settings.
    skip:
        Number of later jobs before the first simulated one.
    rate:
        Factor of the arrival rate.
    load:
        Arrivals are scaled so that the jobs' GPU-seconds, each on the fewest servers, are this fraction of the
        GPU-seconds from the first arrival to the last; None: by ``rate``.
    servers:
        Number of servers of the trace's cluster to use; None: all.
    nic_gbps:
        Bandwidth of all servers' network cards, in Gbit/s; None: that of the cluster, which also determines iterations.
    wrong:
        Above 0, all predictors return the true work with a uniform error of up to this fraction.
    name:
        Name in folders and tables.

    Raises
    ------
    InvalidOption
        A number is outside its range, ``load`` is given with a ``rate`` or for one job, or the trace has too few later
        jobs.
    """

    jobs: int
    trace: RecurringTrace
    skip: int = 0
    rate: float = 1.0
    servers: int | None = None
    nic_gbps: float | None = None
    wrong: float = 0.0
    name: str = "pai-like"
    load: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.trace, Mapping):
            object.__setattr__(self, "trace", RecurringTrace(**self.trace))
        whole(self.jobs, "Recurring.jobs", 1)
        whole(self.skip, "Recurring.skip", 0)
        text(self.name, "Recurring.name")
        at_least(self.rate, "Recurring.rate", 0.0, InvalidOption, strict=True)
        if at_least(self.wrong, "Recurring.wrong", 0.0, InvalidOption) > 1:
            raise InvalidOption(f"is {self.wrong!r}; it must be at most 1", "Recurring.wrong")
        for key in ("nic_gbps", "load"):
            if getattr(self, key) is not None:
                at_least(getattr(self, key), f"Recurring.{key}", 0.0, InvalidOption, strict=True)
        if self.load is not None and (self.rate != 1 or self.jobs == 1):
            raise InvalidOption("is given; it needs rate 1 and two jobs or more", "Recurring.load")
        if self.servers is not None:
            whole(self.servers, "Recurring.servers", 1, len(find_instance(self.trace.cluster).cluster.servers))
        if self.skip + self.jobs > (later := self.trace.jobs - self.trace.past):
            raise InvalidOption(
                f"is {self.skip}; with jobs {self.jobs} it exceeds the {later} jobs after the training jobs",
                "Recurring.skip",
            )

    @property
    def cluster(self) -> str:
        """Name of the cluster, with the number of servers if not all are used."""
        return self.trace.cluster if self.servers is None else f"{self.servers} servers of {self.trace.cluster}"

    def instance(self, seed: int = 0) -> Instance:
        """The jobs for this seed, from the arrival of the first one."""
        drawn = draw_trace(self.trace, seed)
        rows = drawn.later.iloc[self.skip : self.skip + self.jobs]
        cluster = find_instance(self.trace.cluster).cluster
        servers = cluster.servers[: self.servers]
        jobs = drawn.networks.jobs(rows.assign(arrival=rows["arrival"] / self.rate))
        if self.load is not None:
            offered = sum(job.demand * job.work * drawn.networks.seconds(job) for job in jobs)
            gpus, span = sum(sum(server.gpus.values()) for server in servers), jobs[-1].arrival - jobs[0].arrival
            if not span > 0:
                raise InvalidOption("is given, but all jobs arrive at the same time", "Recurring.load")
            factor = offered / (self.load * gpus * span)
            jobs = tuple(replace(job, arrival=job.arrival * factor) for job in jobs)
        if self.nic_gbps is not None:
            servers = tuple(replace(server, nic_bytes_per_s=self.nic_gbps * 1e9 / 8) for server in servers)
        source = f"{self.trace}: {self.jobs} jobs after {self.skip} that come after the past, seed {seed}"
        return Instance(
            replace(cluster, servers=servers), jobs=jobs, time=jobs[0].arrival, name=self.name, source=source
        )

    def prepare(self, system: System, seed: int) -> System:
        """The system with a predictor trained on the past; perfect predictions (A-SRPT-Perfect) stay perfect."""
        policy = system.policy
        if not isinstance(policy, NonPreemptivePolicy) or (isinstance(policy.predictor, Perfect) and not self.wrong):
            return system
        predictor = self._with_errors(seed) if self.wrong else fixed_predictions(self.trace, seed, policy.predictor)
        return replace(system, policy=replace(policy, predictor=predictor))

    def predicted(self, seed: int, predictors: Mapping[str, Predictor]) -> tuple[dict[str, Floats], Floats]:
        """Name of predictor -> (n,) predicted iterations of the jobs, and (n,) true iterations."""
        jobs = self.instance(seed).jobs
        predicted = {name: fixed_predictions(self.trace, seed, p).predict(jobs) for name, p in predictors.items()}
        return predicted, np.array([job.work for job in jobs])

    def _with_errors(self, seed: int) -> FixedPredictions:
        jobs = self.instance(seed).jobs
        factor = 1 + self.wrong * np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, len(jobs))
        predicted = {job.name: job.work * f for job, f in zip(jobs, factor.tolist(), strict=True)}
        return FixedPredictions(FrozenDict(predicted))

    def as_settings(self) -> dict[str, Any]:
        """The settings as plain data for JSON."""
        return {MADE_BY: f"{__name__}:{type(self).__name__}", **asdict(self)}


def single_share(instance: Instance) -> float:
    """Fraction of the jobs that use one GPU."""
    return sum(job.demand == 1 for job in instance.jobs) / len(instance.jobs)
