"""Recurring jobs, with predictors trained on earlier jobs: the workloads of A-SRPT's evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
import pandas as pd

from hetopt.checks import FrozenDict, at_least, text, whole
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.system import System
from hetopt.errors import InvalidOption
from hetopt.experiments.trace_workload import MADE_BY, cluster_of
from hetopt.models.asrpt import networks
from hetopt.models.asrpt.asrpt_policies import NonPreemptivePolicy
from hetopt.models.asrpt.asrpt_workload import GroupNetworks
from hetopt.prediction.predictors import Perfect, Predictor
from hetopt.traces.pai_generator import PAILike

LEARNT = 0.8
"""Fraction of the trace from which predictors learn [ASRPT, section V-A]."""

PROFILED = "V100"
"""GPU type with known times of the networks."""


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
        """Itself, since it has no state."""
        return self

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn nothing."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) fixed predictions of these jobs."""
        return np.array([self.work.get(job.name, 0.0) for job in jobs])

    def copy(self) -> Self:
        """Itself."""
        return self


@dataclass(frozen=True)
class RecurringTrace:
    """A trace like PAI's whose jobs train networks, divided into training jobs and later jobs.

    Parameters
    ----------
    jobs:
        Number of jobs of the whole trace, of which predictors learn from the first four fifths.
    cluster:
        A named instance with the servers for which the networks are configured; the iterations of a job follow from its
        duration on the fewest servers.
    single_gpu:
        Fraction of the groups that use one GPU.
    shrink:
        Factor of arrivals and durations.

    Raises
    ------
    InvalidOption
        A number outside its range.
    """

    jobs: int
    cluster: str = "asrpt/cluster250"
    single_gpu: float = PAILike.single_gpu
    shrink: float = 1.0

    def __post_init__(self) -> None:
        whole(self.jobs, "Trace.jobs", 5)
        at_least(self.shrink, "Trace.shrink", 0.0, InvalidOption, strict=True)
        PAILike(single_gpu=self.single_gpu)  # raises for a share outside [0, 1]

    @property
    def past(self) -> int:
        """Number of jobs from which predictors learn."""
        return int(LEARNT * self.jobs)


@dataclass(frozen=True, eq=False)
class DrawnTrace:
    """The sample of a trace for a seed.

    Attributes
    ----------
    past, coming:
        Training jobs and later jobs as tables.
    networks:
        The networks of the jobs.
    """

    past: pd.DataFrame
    coming: pd.DataFrame
    networks: GroupNetworks


@lru_cache(maxsize=1)
def draw_trace(trace: RecurringTrace, seed: int) -> DrawnTrace:
    """The trace for this seed; the last one is cached, since many systems run on it."""
    table = PAILike(single_gpu=trace.single_gpu).table(trace.jobs, seed)
    table[["arrival", "duration"]] *= trace.shrink
    cluster = cluster_of(trace.cluster)
    known = GroupNetworks.drawn(table, _catalogue(cluster), cluster, seed=seed)
    return DrawnTrace(table.iloc[: trace.past], table.iloc[trace.past :], known)


def fixed_predictions(trace: RecurringTrace, seed: int, predictor: Predictor) -> FixedPredictions:
    """The predictions of a predictor trained on the past for the later jobs."""
    try:
        hash(predictor)
    except TypeError:  # a predictor with mutable settings
        return _predictions(trace, seed, predictor)
    return _cached_predictions(trace, seed, predictor)  # type: ignore[arg-type]


def _predictions(trace: RecurringTrace, seed: int, predictor: Predictor) -> FixedPredictions:
    given, learner = draw_trace(trace, seed), predictor.learner()
    learner.observe(given.networks.jobs(given.past))
    jobs = given.networks.jobs(given.coming)
    predicted = learner.predict(jobs).tolist()
    return FixedPredictions(FrozenDict(zip((job.name for job in jobs), predicted, strict=True)))


_cached_predictions = lru_cache(maxsize=4)(_predictions)


@cache
def _configurations() -> tuple[Job, ...]:
    return tuple(job for name in networks.NAMES for job in networks.configurations(name))


def _catalogue(cluster: Cluster) -> list[Job]:
    """Configurations that fit on the cluster; its GPUs have the speed of the profiled type."""
    (kind,) = cluster.gpu_types
    room = [
        job
        for job in _configurations()
        if job.demand <= cluster.capacity[kind.name] and job.memory_bytes <= (kind.memory_bytes or np.inf)
    ]
    return [replace(job, throughput={kind.name: job.throughput[PROFILED]}) for job in room]


@dataclass(frozen=True)
class Recurring:
    """Consecutive later jobs of a trace, and predictors trained on its past.

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
    servers:
        Number of servers of the trace's cluster to use; None: all.
    nic_gbps:
        Network cards of all servers, in Gbit/s; None: those of the cluster. Iterations follow from the cluster's cards.
    wrong:
        Above 0, all predictors return the true work with a uniform error of up to this fraction.
    name:
        Name in folders and tables.

    Raises
    ------
    InvalidOption
        A number outside its range, or fewer later jobs than requested.
    """

    jobs: int
    trace: RecurringTrace
    skip: int = 0
    rate: float = 1.0
    servers: int | None = None
    nic_gbps: float | None = None
    wrong: float = 0.0
    name: str = "pai-like"

    def __post_init__(self) -> None:
        if isinstance(self.trace, Mapping):
            object.__setattr__(self, "trace", RecurringTrace(**self.trace))
        whole(self.jobs, "Recurring.jobs", 1)
        whole(self.skip, "Recurring.skip", 0)
        text(self.name, "Recurring.name")
        at_least(self.rate, "Recurring.rate", 0.0, InvalidOption, strict=True)
        if at_least(self.wrong, "Recurring.wrong", 0.0, InvalidOption) > 1:
            raise InvalidOption(f"Recurring.wrong is {self.wrong!r}; it must be at most 1")
        if self.nic_gbps is not None:
            at_least(self.nic_gbps, "Recurring.nic_gbps", 0.0, InvalidOption, strict=True)
        if self.servers is not None:
            whole(self.servers, "Recurring.servers", 1, len(cluster_of(self.trace.cluster).servers))
        if self.skip + self.jobs > (there := self.trace.jobs - self.trace.past):
            raise InvalidOption(f"{self.jobs} jobs after {self.skip} are asked for, but {there} come after the past")

    @property
    def cluster(self) -> str:
        """Name of the cluster, and the number of servers if not all are used."""
        given = self.trace.cluster
        return given if self.servers is None else f"{self.servers} servers of {given}"

    def instance(self, seed: int = 0) -> Instance:
        """The jobs for this seed, from the arrival of the first one."""
        given = draw_trace(self.trace, seed)
        rows = given.coming.iloc[self.skip : self.skip + self.jobs]
        jobs = given.networks.jobs(rows.assign(arrival=rows["arrival"] / self.rate))
        position = f"{self.jobs} jobs after {self.skip} that come after the past, seed {seed}"
        return Instance(
            self._servers(), jobs=jobs, time=jobs[0].arrival, name=self.name, source=f"{self.trace}: {position}"
        )

    def _servers(self) -> Cluster:
        given = cluster_of(self.trace.cluster)
        servers = given.servers[: self.servers]
        if self.nic_gbps is not None:
            card = self.nic_gbps * 1e9 / 8
            servers = tuple(replace(server, nic_bytes_per_s=card) for server in servers)
        return replace(given, servers=servers)

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
        predicted = {name: fixed_predictions(self.trace, seed, own).predict(jobs) for name, own in predictors.items()}
        return predicted, np.array([job.work for job in jobs])

    def _with_errors(self, seed: int) -> FixedPredictions:
        jobs = self.instance(seed).jobs
        factor = 1 + self.wrong * np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, len(jobs))
        return FixedPredictions(
            FrozenDict((job.name, job.work * f) for job, f in zip(jobs, factor.tolist(), strict=True))
        )

    def as_settings(self) -> dict[str, Any]:
        """Its settings as plain data for JSON."""
        return {MADE_BY: f"{__name__}:{type(self).__name__}", **asdict(self)}


def single_share(instance: Instance) -> float:
    """Fraction of the jobs that use one GPU."""
    return sum(job.demand == 1 for job in instance.jobs) / len(instance.jobs)
