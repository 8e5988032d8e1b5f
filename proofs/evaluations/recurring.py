"""Jobs that recur, after others from which predictors have learnt: the workloads of A-SRPT's evaluation."""

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
from hetopt.models.asrpt.policies import NonPreemptivePolicy
from hetopt.models.asrpt.workload import Networks
from hetopt.prediction.predictors import Perfect, Predictor
from hetopt.traces.pai_generator import PAILike

LEARNT = 0.8
"""Part of the trace from which predictors learn [ASRPT, section V-A]."""

PROFILED = "V100"
"""GPU type for which the networks' times are known."""


@dataclass(frozen=True)
class Foretold:
    """A predictor that knows beforehand what it will say, and learns nothing any more.

    Parameters
    ----------
    work:
        Job -> predicted work; 0 for those that are absent.
    """

    work: Mapping[str, float] = field(repr=False)

    def learner(self) -> Foretold:
        """Itself: there is nothing to remember."""
        return self

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn nothing."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) what is foretold of these jobs."""
        return np.array([self.work.get(job.name, 0.0) for job in jobs])

    def copy(self) -> Self:
        """Itself."""
        return self


@dataclass(frozen=True)
class Trace:
    """A trace like PAI's whose jobs train networks, cut in a past and what comes.

    Parameters
    ----------
    jobs:
        Of the whole trace, of which the first four fifths are the past.
    cluster:
        A named instance, for whose servers the networks are configured; jobs take as many iterations as their duration
        allows on the fewest of them.
    single_gpu:
        Share of the groups that use one GPU.
    shrink:
        Arrivals and durations are this part of what they are.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    jobs: int
    cluster: str = "asrpt/cluster250"
    single_gpu: float = PAILike.single_gpu
    shrink: float = 1.0

    def __post_init__(self) -> None:
        whole(self.jobs, "Trace.jobs", 5)
        at_least(self.shrink, "Trace.shrink", 0.0, InvalidOption, strict=True)
        PAILike(single_gpu=self.single_gpu)  # refuses what it refuses

    @property
    def past(self) -> int:
        """Jobs of the past."""
        return int(LEARNT * self.jobs)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A trace for a seed.

    Attributes
    ----------
    past, coming:
        Its jobs as a table.
    networks:
        What they train.
    """

    past: pd.DataFrame
    coming: pd.DataFrame
    networks: Networks


@lru_cache(maxsize=1)
def drawn(trace: Trace, seed: int) -> Drawn:
    """The trace for that seed; the last one is kept, since many systems run on the same."""
    table = PAILike(single_gpu=trace.single_gpu).table(trace.jobs, seed)
    table[["arrival", "duration"]] *= trace.shrink
    cluster = cluster_of(trace.cluster)
    known = Networks.drawn(table, _catalogue(cluster), cluster, seed=seed)
    return Drawn(table.iloc[: trace.past], table.iloc[trace.past :], known)


def foretold(trace: Trace, seed: int, predictor: Predictor) -> Foretold:
    """What a predictor that has seen the past says of the jobs that come; it learns nothing more."""
    try:
        hash(predictor)
    except TypeError:  # somebody's own, whose settings can change
        return _asked(trace, seed, predictor)
    return _asked_once(trace, seed, predictor)  # type: ignore[arg-type]


def _asked(trace: Trace, seed: int, predictor: Predictor) -> Foretold:
    given, learner = drawn(trace, seed), predictor.learner()
    learner.observe(given.networks.jobs(given.past))
    jobs = given.networks.jobs(given.coming)
    said = learner.predict(jobs).tolist()
    return Foretold(FrozenDict(zip((job.name for job in jobs), said, strict=True)))


_asked_once = lru_cache(maxsize=4)(_asked)


@cache
def _configurations() -> tuple[Job, ...]:
    return tuple(job for name in networks.NAMES for job in networks.configurations(name))


def _catalogue(cluster: Cluster) -> list[Job]:
    """Configurations that the cluster has room for; its GPUs are as fast as those that were profiled."""
    (kind,) = cluster.gpu_types
    room = [
        job
        for job in _configurations()
        if job.demand <= cluster.capacity[kind.name] and job.memory_bytes <= (kind.memory_bytes or np.inf)
    ]
    return [replace(job, throughput={kind.name: job.throughput[PROFILED]}) for job in room]


@dataclass(frozen=True)
class Recurring:
    """Consecutive jobs of what comes after the past of a trace, and predictors that have learnt from it.

    Parameters
    ----------
    jobs:
        How many are simulated.
    trace:
        Where they are from, or a mapping of its settings.
    skip:
        Jobs that come before the first of them.
    rate:
        They come so many times as fast as in the trace.
    servers:
        The first so many servers of the trace's cluster; None: all.
    nic_gbps:
        Network cards of all servers, in Gbit/s; None: as the cluster's are. Iterations are counted with the latter.
    wrong:
        Above 0, whatever predictor a policy has says the truth with an error of up to this part, each as likely.
    name:
        How folders and tables call it.

    Raises
    ------
    InvalidOption
        A number out of its range, or fewer jobs that come than are asked for.
    """

    jobs: int
    trace: Trace
    skip: int = 0
    rate: float = 1.0
    servers: int | None = None
    nic_gbps: float | None = None
    wrong: float = 0.0
    name: str = "pai-like"

    def __post_init__(self) -> None:
        if isinstance(self.trace, Mapping):
            object.__setattr__(self, "trace", Trace(**self.trace))
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
        """What its servers are called, and how many there are where these are not all."""
        given = self.trace.cluster
        return given if self.servers is None else f"{self.servers} servers of {given}"

    def instance(self, seed: int = 0) -> Instance:
        """The jobs for that seed, beginning when the first arrives."""
        given = drawn(self.trace, seed)
        rows = given.coming.iloc[self.skip : self.skip + self.jobs]
        jobs = given.networks.jobs(rows.assign(arrival=rows["arrival"] / self.rate))
        said = f"{self.jobs} jobs after {self.skip} that come after the past, seed {seed}"
        return Instance(
            self._servers(), jobs=jobs, time=jobs[0].arrival, name=self.name, source=f"{self.trace}: {said}"
        )

    def _servers(self) -> Cluster:
        given = cluster_of(self.trace.cluster)
        servers = given.servers[: self.servers]
        if self.nic_gbps is not None:
            card = self.nic_gbps * 1e9 / 8
            servers = tuple(replace(server, nic_bytes_per_s=card) for server in servers)
        return replace(given, servers=servers)

    def prepare(self, system: System, seed: int) -> System:
        """The system, its predictor knowing the past; the truth (A-SRPT-Perfect) stays the truth."""
        policy = system.policy
        if not isinstance(policy, NonPreemptivePolicy) or (isinstance(policy.predictor, Perfect) and not self.wrong):
            return system
        said = self._wrong(seed) if self.wrong else foretold(self.trace, seed, policy.predictor)
        return replace(system, policy=replace(policy, predictor=said))

    def predicted(self, seed: int, predictors: Mapping[str, Predictor]) -> tuple[dict[str, Floats], Floats]:
        """What predictors that know the past say of its jobs, by their names, and what is true: (n,) iterations."""
        jobs = self.instance(seed).jobs
        said = {name: foretold(self.trace, seed, own).predict(jobs) for name, own in predictors.items()}
        return said, np.array([job.work for job in jobs])

    def _wrong(self, seed: int) -> Foretold:
        jobs = self.instance(seed).jobs
        factor = 1 + self.wrong * np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, len(jobs))
        return Foretold(FrozenDict((job.name, job.work * f) for job, f in zip(jobs, factor.tolist(), strict=True)))

    def as_settings(self) -> dict[str, Any]:
        """Its settings as JSON can hold them."""
        return {MADE_BY: f"{__name__}:{type(self).__name__}", **asdict(self)}


def single_share(instance: Instance) -> float:
    """Share of the jobs that use one GPU."""
    return sum(job.demand == 1 for job in instance.jobs) / len(instance.jobs)
