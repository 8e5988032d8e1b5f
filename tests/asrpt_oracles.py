"""A-SRPT and its baselines again, job by job instead of event by event, with scans in place of data structures."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hetopt.data.workload import Job
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


@dataclass
class Ran:
    """Where a job ran, and when."""

    use: dict[int, int]
    start: Any
    end: Any


class Machines:
    """All servers, alike; ``ran`` is the schedule so far."""

    def __init__(self, servers: Servers, heavy: Any) -> None:
        self.servers, self.heavy = servers, heavy
        self.ran: dict[str, Ran] = {}

    def free(self, time: Any) -> list[int]:
        """GPUs of each server that no job uses from ``time`` on."""
        left = self.servers.free.tolist()
        for job in self.ran.values():
            for m, n in job.use.items() if job.start <= time < job.end else ():
                left[m] -= n
        return left

    def fewest(self, pipeline: Pipeline) -> Any:
        """alpha~_min."""
        return self.chosen(pipeline, self.servers.free.tolist(), most=True)[1]

    def is_heavy(self, pipeline: Pipeline) -> bool:
        """Line 8 of Algorithm 1."""
        return bool(Asynchronous().most(pipeline, self.servers) / self.fewest(pipeline) >= self.heavy)

    def chosen(self, pipeline: Pipeline, free: list[int], most: bool) -> tuple[dict[int, int], Any]:
        """Lines 9-11 and 22-23: GPUs per server, and alpha."""
        order = sorted((m for m in range(len(free)) if free[m]), key=lambda m: -free[m] if most else free[m])
        use: dict[int, int] = {}
        for m in order:
            if n := min(free[m], pipeline.gpus - sum(use.values())):
                use[m] = n
        taken = self.servers.take(use)
        return use, Asynchronous()(pipeline, HeavyEdge()(pipeline, taken).replicas, taken)[()]

    def run(self, job: Job, pipeline: Pipeline, time: Any, most: bool) -> None:
        """Start ``job`` on what is chosen at ``time``."""
        use, alpha = self.chosen(pipeline, self.free(time), most)
        self.ran[job.name] = Ran(use, time, time + Fraction(job.work) * alpha)


def srpt(arrivals: list[Any], sizes: list[Any]) -> list[tuple[Any, int]]:
    """(completion, job) on one machine, in order: each moment the job with least time left."""
    left, time, done = dict(enumerate(sizes)), Fraction(0), []
    running: int | None = None
    while left:
        there = [i for i in left if arrivals[i] <= time]
        coming = [arrivals[i] for i in left if arrivals[i] > time]
        if not there:
            time = min(coming)
            continue
        # what needs nothing is done at once; among equals the one that runs goes on, else who came first
        i = min(there, key=lambda i: (left[i] > 0, left[i], i != running, arrivals[i], i))
        until = min([time + left[i], *coming])
        left[i] -= until - time
        time, running = until, i
        if left[i] == 0:
            done.append((time, i))
            del left[i]
    return done


def asrpt(jobs: list[Job], pipelines: list[Pipeline], predicted: list[Any], machines: Machines, delay: Any) -> None:
    """Algorithm 1: in the order of virtual completions, each as soon as the one before has started."""
    gpus = machines.servers.total
    sizes = [Fraction(p.gpus, gpus) * n * machines.fewest(p) for p, n in zip(pipelines, predicted, strict=True)]
    last: Any = Fraction(0)
    for completion, i in srpt([Fraction(j.arrival) for j in jobs], sizes):
        job, pipeline = jobs[i], pipelines[i]
        ends = sorted(r.end for r in machines.ran.values())
        moments = [t for t in (max(completion, last), *ends) if t >= max(completion, last)]
        time = next(t for t in moments if sum(machines.free(t)) >= pipeline.gpus)
        if machines.is_heavy(pipeline):
            first = machines.chosen(pipeline, machines.free(time), most=True)[1]
            deadline = time + delay * sizes[i]
            if first / machines.fewest(pipeline) > machines.heavy:
                for t in [*(t for t in ends if time < t < deadline), deadline]:
                    time = t
                    if machines.chosen(pipeline, machines.free(t), most=True)[1] < first:
                        break
        machines.run(job, pipeline, time, machines.is_heavy(pipeline))
        last = time


def in_order(
    jobs: list[Job], pipelines: list[Pipeline], keys: list[Any], machines: Machines, conserving: bool, most: list[bool]
) -> None:
    """At each arrival and completion: the first job by its key that fits; no job overtakes unless ``conserving``.

    ``most``: for each job whether it gets the servers with most free GPUs.
    """
    time: Any = min(Fraction(j.arrival) for j in jobs)
    while len(machines.ran) < len(jobs):
        rank = lambda i: (keys[i], jobs[i].arrival, i)  # noqa: E731
        waiting = sorted((i for i, j in enumerate(jobs) if j.name not in machines.ran and j.arrival <= time), key=rank)
        for i in waiting:
            if sum(machines.free(time)) >= pipelines[i].gpus:
                machines.run(jobs[i], pipelines[i], time, most[i])
            elif not conserving:
                break
        later = [Fraction(j.arrival) for j in jobs if j.arrival > time]
        later += [r.end for r in machines.ran.values() if r.end > time]
        if later:
            time = min(later)
