"""Profiling: short runs of a new job on each GPU type before it is scheduled, for which running jobs pause."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.checks import at_least
from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class Profiling:
    """Each new job runs for a short time on each GPU type, with all its workers [FFT, section 5].

    The runs follow one another, the type with the largest memory first, so that the job's memory is known after the
    first and types with too little are left out. Runs have priority: if too few GPUs of the type are idle, the fewest
    jobs that make room pause for the length of the run. Runs do not preempt each other, so that they may have to wait.
    Policies see the job after its last run. A job is not profiled on a type with too few GPUs for its gang.

    Parameters
    ----------
    seconds:
        Length of one run.

    Raises
    ------
    InvalidOption
        The seconds are not positive.
    """

    seconds: float = 30.0

    def __post_init__(self) -> None:
        at_least(self.seconds, "Profiling.seconds", 0.0, InvalidOption, strict=True)

    def types(self, job: Job, cluster: Cluster) -> tuple[str, ...]:
        """GPU types on which the job is profiled, in the order of the runs."""
        memory = {t.name: t.memory_limit for t in cluster.gpu_types}
        fits = [
            t
            for t in cluster.type_names
            if job.throughput[t] > 0 and job.memory_bytes <= memory[t] and job.demand <= cluster.capacity[t]
        ]
        return tuple(sorted(fits, key=lambda t: -memory[t]))


def fewest(need: float, holders: list[tuple[int, float]]) -> list[int]:
    """The fewest jobs that hold ``need`` GPUs together; ``holders``: (job, GPUs), ties go to the first.

    Best fit: the smallest job that has enough alone; else the largest, and then the best fit for the rest.
    """
    chosen, left = [], sorted(holders, key=lambda pair: -pair[1])
    while need > 0 and left:
        enough = [pair for pair in left if pair[1] >= need]
        pick = min(enough, key=lambda pair: pair[1]) if enough else left[0]
        left.remove(pick)
        chosen.append(pick[0])
        need -= pick[1]
    return chosen
