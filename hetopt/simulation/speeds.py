"""How much work per second a job does on the GPUs that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance
from hetopt.pipelines.iteration_time import Asynchronous, Timing
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers, bandwidths

Hosts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Server -> GPU type -> GPUs."""

Rate: TypeAlias = Callable[[Job, Hosts, Mapping[str, tuple[int, ...]]], float]
"""(job, hosts, server -> replicas of each stage) -> work per second of the whole gang."""


class Speeds(Protocol):
    """The physics of a simulation."""

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``."""
        ...


@dataclass(frozen=True)
class StageSpeeds:
    """Jobs whose stages are mapped to servers do one unit of work per iteration; the slowest GPU type sets the others'.

    Parameters
    ----------
    timing:
        What an iteration takes.
    """

    timing: Timing = field(default_factory=Asynchronous)

    def on(self, cluster: Cluster) -> Rate:
        """Rates on the servers of ``cluster``."""
        return _Rates(cluster, self.timing)


class _Rates:
    """Remembers what an iteration takes for each pipeline and pattern."""

    def __init__(self, cluster: Cluster, timing: Timing) -> None:
        self.timing = timing
        nic, intra = bandwidths(cluster.servers)
        self.bandwidth = {s.name: pair for s, *pair in zip(cluster.servers, nic.tolist(), intra.tolist(), strict=True)}
        self.pipelines: dict[tuple[object, ...], tuple[tuple[Stage, ...], Pipeline]] = {}
        self.known: dict[tuple[object, ...], float] = {}

    def __call__(self, job: Job, hosts: Hosts, replicas: Mapping[str, tuple[int, ...]]) -> float:
        types = {t for gpus in hosts.values() for t, n in gpus.items() if n}
        slowest = min(types, key=lambda t: job.throughput[t])
        if not (job.stages and replicas):
            return job.throughput[slowest]
        pipeline = self._pipeline(job, slowest)
        key = (pipeline, *((*self.bandwidth[m], own) for m, own in replicas.items()))
        if key not in self.known:
            names = tuple(replicas)
            nic, intra = np.array([self.bandwidth[m] for m in names]).T
            gpus = np.array([sum(hosts[m].values()) for m in names])
            x = np.array([replicas[m] for m in names]).T
            seconds = float(self.timing(pipeline, x, Servers(names, gpus, nic, intra)))
            if seconds <= 0:
                raise InvalidInstance(
                    f"an iteration of job {job.name!r} takes {seconds:g} s; give its stages seconds > 0"
                )
            self.known[key] = 1 / seconds
        return self.known[key]

    def _pipeline(self, job: Job, gpu_type: str) -> Pipeline:
        slower = max(job.throughput.values()) / job.throughput[gpu_type]
        key = (id(job.stages), slower)  # hashing stages takes long
        if key not in self.pipelines:
            self.pipelines[key] = job.stages, Pipeline.of(job, gpu_type)  # kept so that no other stages get their id
        return self.pipelines[key][1]
