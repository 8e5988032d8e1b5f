"""Profiling rounds: short runs on each GPU type before a new job is scheduled, for which running jobs pause."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.checks import at_least
from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption


@dataclass(frozen=True)
class Profiling:
    """Each new job runs for a short time on each GPU type, with all its workers [FFT, section 5].

    The runs come one after another, the type with the largest memory first, so that the job's memory is known after
    the first and types with too little are left out. They have priority: where too few GPUs of the type are idle, jobs
    on it pause for as long as the run takes, the fewest that make room; what other runs have is theirs until they are
    over, so that runs may have to wait for each other. Only then policies see the job. A job that cannot have a whole
    gang of a type is not run there.

    Parameters
    ----------
    seconds:
        Of one run.

    Raises
    ------
    InvalidOption
        The seconds are not positive.
    """

    seconds: float = 30.0

    def __post_init__(self) -> None:
        at_least(self.seconds, "Profiling.seconds", 0.0, InvalidOption, strict=True)

    def types(self, job: Job, cluster: Cluster) -> tuple[str, ...]:
        """GPU types on which the job is run, in their order."""
        memory = {t.name: float("inf") if t.memory_bytes is None else t.memory_bytes for t in cluster.gpu_types}
        fits = [
            t
            for t in cluster.type_names
            if job.throughput[t] > 0 and job.memory_bytes <= memory[t] and job.demand <= cluster.capacity[t]
        ]
        return tuple(sorted(fits, key=lambda t: -memory[t]))


def fewest(need: float, holders: list[tuple[int, float]]) -> list[int]:
    """The fewest jobs that hold ``need`` GPUs together; ``holders``: (job, GPUs), ties to the first.

    One that alone has enough, with least to spare; else the largest, and then again for the rest.
    """
    chosen, left = [], sorted(holders, key=lambda pair: -pair[1])
    while need > 0 and left:
        enough = [pair for pair in left if pair[1] >= need]
        pick = min(enough, key=lambda pair: pair[1]) if enough else left[0]
        left.remove(pick)
        chosen.append(pick[0])
        need -= pick[1]
    return chosen
