"""Slow and plain versions of the queues, by names and counts, and what their simulations have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from hypothesis import strategies as st

import hetopt
from hetopt import Instance, Job, Log

FREE = hetopt.Overheads(transfer=False)
Where = dict[str, str]
"""Job -> GPU type."""


@st.composite
def queues(
    draw: st.DrawFn, *, jobs: tuple[int, int] = (1, 6), types: tuple[int, int] = (1, 3), most_gpus: int = 5
) -> Instance:
    """Jobs that arrive in the first minutes, on some GPU types each; all numbers exact, many ties."""
    names = ("A", "B", "C")[: draw(st.integers(*types))]
    capacity = {t: draw(st.integers(1, most_gpus)) for t in names}
    made = []
    for i in range(draw(st.integers(*jobs))):
        home = draw(st.sampled_from(names))
        speed = {t: draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])) for t in names} | {
            home: draw(st.sampled_from([1.0, 2.0]))
        }
        demand = draw(st.integers(1, min(3, capacity[home])))
        work, arrival = 16.0 * draw(st.integers(1, 16)), 64.0 * draw(st.integers(0, 6))
        tenant = draw(st.sampled_from(["x", "y", "z"]))
        made.append(Job(f"j{i}", speed, work, demand, arrival, tenant))
    return Instance(hetopt.Cluster.of(capacity, gpus_per_server=draw(st.integers(1, 4))), jobs=tuple(made))


def renamed(instance: Instance) -> Instance:
    """The same jobs, whose names are in the opposite order."""
    last = len(instance.jobs) - 1
    return instance.replace(jobs=tuple(replace(job, name=f"k{last - i:02}") for i, job in enumerate(instance.jobs)))


def types_of(instance: Instance, job: Job) -> list[str]:
    """Where its gang can run, the first of the cluster first."""
    return [t for t, n in instance.cluster.capacity.items() if job.throughput[t] > 0 and job.demand <= n]


def seconds_left(instance: Instance, job: Job) -> float:
    return instance.work_left(job.name) / max(job.throughput[t] for t in types_of(instance, job))


def holds(instance: Instance, name: str) -> str | None:
    """The GPU type that a job runs on now."""
    return next((t for t, n in instance.held.get(name, {}).items() if n), None)


TypeChoice = Callable[[Job, Mapping[str, int]], str | None]


def fastest(instance: Instance) -> TypeChoice:
    def choose(job: Job, free: Mapping[str, int]) -> str | None:
        fits = [t for t in types_of(instance, job) if free[t] >= job.demand]
        return max(fits, key=lambda t: (job.throughput[t], t == holds(instance, job.name)), default=None)

    return choose


def roomiest(instance: Instance) -> TypeChoice:
    def choose(job: Job, free: Mapping[str, int]) -> str | None:
        return max((t for t in types_of(instance, job) if free[t] >= job.demand), key=lambda t: free[t], default=None)

    return choose


def left_by(instance: Instance, *given: Mapping[str, str]) -> dict[str, int]:
    free = dict(instance.cluster.capacity)
    for those in given:
        for name, t in those.items():
            free[t] -= instance.job[name].demand
    return free


def by_turns(instance: Instance, order: Iterable[Job], stops: str, backfill: bool, choose: TypeChoice) -> Where:
    """Each job in turn; to stop the last running jobs, every number of them is tried, from zero."""
    names = [job.name for job in order]
    running = {name: t for name in names if (t := holds(instance, name))} if stops != "all" else {}
    given: Where = {}
    for i, name in enumerate(names):
        if name in running:
            given[name] = running.pop(name)
            continue
        later = [other for other in names[i:] if other in running]
        for many in range(len(later) + 1 if stops == "last" else 1):
            stopped = later[len(later) - many :]
            stay = {other: t for other, t in running.items() if other not in stopped}
            if (found := choose(instance.job[name], left_by(instance, given, stay))) is None:
                continue
            given[name] = found
            for other in stopped:
                if left_by(instance, given, stay)[running[other]] >= instance.job[other].demand:
                    stay[other] = running[other]
            running = {other: running[other] for other in names if other in stay}
            break
        else:
            if not backfill:
                break
    return given | running


def sorted_by(instance: Instance, key: Callable[[Job], Any]) -> list[Job]:
    return sorted(instance.jobs, key=lambda job: (key(job), job.arrival, instance.jobs.index(job)))


@dataclass
class Received:
    """GPU-seconds of each job, from what it was seen to hold."""

    time: float = 0.0
    gpu_seconds: dict[str, float] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)

    def at(self, instance: Instance) -> dict[str, float]:
        passed, self.time = instance.time - self.time, instance.time
        for job in instance.jobs:
            runs = holds(instance, job.name) is not None
            before = self.gpu_seconds.get(job.name, 0.0)
            self.gpu_seconds[job.name] = before + (job.demand * passed if runs else 0.0)
            self.waited[job.name] = self.waited.get(job.name, 0.0) + (0.0 if runs or before == 0 else passed)
        return self.gpu_seconds


Oracle = Callable[[Instance], Where]


def followed(policy: Any, oracle: Oracle, instance: Instance, **settings: Any) -> Log:
    """Simulate, and compare each decision with what a plain version decides."""

    def asked(now: Instance, state: Any = None) -> Any:
        plan, state = policy(now, state)
        runs = {name: t for name, t in plan.assigned.items() if t is not None}
        assert runs == oracle(now)
        return plan, state

    seconds = policy.round_seconds
    return hetopt.simulate(asked, instance, round_seconds=seconds, overheads=FREE, **settings)


def never_stopped(log: Log) -> bool:
    """One stretch of time for each job."""
    return not log.spans["job"].duplicated().any()


def schedule(log: Log) -> list[tuple[str, float, float, str]]:
    """(job, start, end, GPU type), as in the log."""
    return list(log.spans[["job", "start", "end", "gpu_type"]].itertuples(index=False, name=None))


def same(one: Log, other: Log) -> None:
    for name in ("jobs", "spans", "events"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))


def one_type(*jobs: tuple[str, float, float, int], gpus: int) -> Instance:
    """Jobs (name, seconds, arrival, GPUs) on GPUs of one type."""
    made = tuple(Job(name, {"G": 1.0}, seconds, need, arrival) for name, seconds, arrival, need in jobs)
    return Instance(hetopt.Cluster.of({"G": gpus}), jobs=made)
