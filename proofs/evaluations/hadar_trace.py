"""The jobs of Hadar's simulations, sampled for each seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Any

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.decisions.system import System
from hetopt.experiments.trace_workload import MADE_BY
from hetopt.models.hadar.hadar_workload import from_trace
from hetopt.traces.philly_generator import PhillyLike

NAME, CLUSTER = "hadar/trace480", "hadar/cluster60"
JOBS, FROM = 480, 10_000
LONGEST = 40 * 3600.0
"""Longest job on V100, in seconds: the total time of the paper's Hadar."""

FIRST = 4
"""Seed of the sample in the named instance, the first without a longer job."""


@dataclass(frozen=True)
class HadarTrace:
    """480 jobs on 60 GPUs, all present at the start [Hadar, section IV-A].

    Seed 0 gives the instance ``hadar/trace480``, each further seed the next sample in which no job is longer than the
    total time of the paper's Hadar, and every job fits on one GPU type, since only Hadar mixes types.
    """

    name: str = NAME
    cluster: str = CLUSTER

    def instance(self, seed: int = 0) -> Instance:
        """The jobs for this seed."""
        return instances.load(NAME) if seed == 0 else _next(seed)

    def prepare(self, system: System, seed: int) -> System:
        """The system, unchanged."""
        return system

    def as_settings(self) -> dict[str, Any]:
        """The settings as plain data for JSON."""
        return {MADE_BY: f"{__name__}:{type(self).__name__}", "name": self.name, "cluster": self.cluster}


@lru_cache(maxsize=8)
def _next(seed: int) -> Instance:
    table, cluster = PhillyLike().table(FROM, seed=0), instances.load(CLUSTER).cluster
    most = max(cluster.capacity.values())
    samples = (from_trace(table, cluster, jobs=JOBS, seed=sample) for sample in count(FIRST + 1))
    fitting = (s for s in samples if all(job.work <= LONGEST and job.demand <= most for job in s.jobs))
    return next(islice(fitting, seed - 1, None)).replace(name=NAME)
