"""Small policies and the papers' small instances, for the tests of the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hetopt import Allocation, Cluster, Instance, Job, JobType, Plan, Tenant
from hetopt.formulations.traits import Traits
from hetopt.tolerances import EQUAL

MINUTE = 60.0


def close(value: float, expected: float) -> bool:
    return abs(value - expected) <= EQUAL * max(1.0, abs(expected))


@dataclass(frozen=True)
class Shortest:
    """Shortest job first: each takes its fastest free GPU type. By work left (SRTF) or total work; may stay put."""

    by_left: bool = True
    stay: bool = False
    round_seconds: float | None = None

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        size = instance.job_array("work_left" if self.by_left else "work") / jobs.speed.max(axis=1)
        held = jobs.held if jobs.held is not None else np.zeros(jobs.shape)
        x, free = np.zeros(jobs.shape), jobs.capacity.copy()
        first = [i for i in range(len(size)) if self.stay and held[i].any()]
        for i in [*first, *(i for i in np.argsort(size, kind="stable").tolist() if i not in first)]:
            types = np.flatnonzero(held[i]) if i in first else np.argsort(-jobs.speed[i], kind="stable")
            fits = [k for k in types if jobs.allowed[i, k] and free[k] >= jobs.demand[i]]
            if fits:
                x[i, fits[0]] = jobs.demand[i]
                free[fits[0]] -= jobs.demand[i]
        return Plan(jobs, x), None


@dataclass(frozen=True)
class Equal:
    """Every job the same part of the time on each GPU type: what Gavel finds for [FFT, Table 1]."""

    def __call__(self, instance: Instance, state: None = None) -> tuple[Allocation, None]:
        jobs = instance.entities("jobs")
        certificate: Any = None
        return Allocation(jobs, np.full(jobs.shape, 1 / len(jobs.names)), certificate), None


@dataclass(frozen=True)
class Nothing:
    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        jobs = instance.entities("jobs")
        return Plan(jobs, np.zeros(jobs.shape)), None


@dataclass(frozen=True)
class Fixed:
    """The same GPUs in every decision."""

    gpus: tuple[tuple[float, ...], ...]

    def __call__(self, instance: Instance, state: None = None) -> tuple[Plan, None]:
        return Plan(instance.entities("jobs"), np.array(self.gpus)), None


def fig_2() -> Instance:
    """J1 and J2 take 5 min on A10; J4 14.4 min on T4, 1.6 times as fast on A10. Work in T4-minutes (J1, J2: A10)."""
    short = {"T4": 1 / (2.71 * MINUTE), "A10": 1 / MINUTE}
    long = {"T4": 1 / MINUTE, "A10": 1.6 / MINUTE}
    jobs = (Job("J1", short, 5.0), Job("J2", short, 5.0, arrival=10 * MINUTE), Job("J4", long, 14.4))
    return Instance(Cluster.of({"T4": 1, "A10": 1}), jobs=jobs)


def table_1(work: float = 16.0) -> Instance:
    return Instance.from_jobs([[8, 1], [8, 1]], [1, 1], [work, work], [1, 1], round_seconds=MINUTE)


SPEEDUPS = {"lstm": (1, 1.55, 2.15), "rnn": (1, 1.4, 1.9), "transformer": (1, 1.3, 1.6), "vgg": (1, 1.2, 1.4)}
TYPES = ("3070", "3080", "3090")


def oef_cluster(rows: dict[str, list[tuple[str, float, float]]]) -> Instance:
    """8 GPUs of each type. Tenant -> (kind of jobs, arrival, total work in seconds on one 3070), each in 24 jobs."""
    tenants, jobs = [], []
    for tenant, kinds in rows.items():
        table = {kind: dict(zip(TYPES, map(float, SPEEDUPS[kind]), strict=True)) for kind, _, _ in kinds}
        tenants.append(Tenant(tenant, tuple(JobType(kind, table[kind]) for kind, _, _ in kinds)))
        jobs += [
            Job(f"{tenant}-{kind}-{i}", table[kind], work / 24, arrival=arrival, tenant=tenant, job_type=kind)
            for kind, arrival, work in kinds
            for i in range(24)
        ]
    return Instance(Cluster.of(dict.fromkeys(TYPES, 8), gpus_per_server=4), tuple(tenants), tuple(jobs))
