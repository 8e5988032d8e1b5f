"""A checker of work conservation that knows no policy, and the decisions of a system."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hetopt import Instance
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.decisions.system import Decision, System
from hetopt.stages.speed_models import StageSpeeds
from hetopt.tolerances import INTEGRAL, WORK


def left_waiting(jobs: Entities, gpus: Floats) -> list[tuple[str, str]]:
    """(job, GPU type) such that the job has work left and no GPUs, and its gang fits on the idle GPUs of the type.

    Parameters
    ----------
    gpus:
        (n, k) GPUs that jobs get.
    """
    idle = {t: jobs.capacity[k] - sum(row[k] for row in gpus.tolist()) for k, t in enumerate(jobs.types)}
    return [
        (job.name, t)
        for job, row in zip(jobs.source.jobs, gpus.tolist(), strict=True)
        for t in jobs.types
        if not any(row)
        and jobs.source.work_left(job.name) > 0
        and job.throughput.get(t, 0.0) > 0
        and job.demand <= idle[t] + INTEGRAL
    ]


def decisions(system: System, instance: Instance, most: int = 60) -> Iterator[Decision]:
    """The decisions of a system from the first arrival until all jobs are done, or ``most``; restarts are free."""
    steps, state = system.steps(StageSpeeds()), None
    done = dict.fromkeys(instance.job, 0.0)
    held: dict[str, Any] = {}
    placed: dict[str, Any] = {}
    packed: set[str] = set()
    now = min(job.arrival for job in instance.jobs)
    for _ in range(most):
        present = [job for job in instance.jobs if job.arrival <= now and job.work - done[job.name] > WORK * job.work]
        later = [job.arrival for job in instance.jobs if job.arrival > now]
        if not present:
            if not later:
                return
            now = min(later)
            continue
        names = {job.name for job in present}
        there = instance.replace(
            jobs=tuple(present),
            time=now,
            done={name: done[name] for name in names if done[name]},
            placed={name: own for name, own in placed.items() if name in names},
            held={
                name: own for name, own in held.items() if name in names and (name in packed or not placed.get(name))
            },
        )
        decision, state = steps(there, state)
        yield decision
        rate = dict(zip(decision.entities.names, decision.rate.tolist(), strict=True))
        ends = [now + (job.work - done[job.name]) / rate[job.name] for job in present if rate[job.name]]
        soon = min([*ends, *later, decision.wake or math.inf])
        if not math.isfinite(soon):
            return
        if system.seconds is not None:
            soon = now + system.seconds * max(1, math.ceil((soon - now) / system.seconds) if not ends else 1)
        for job in present:
            done[job.name] = min(job.work, done[job.name] + rate[job.name] * (soon - now))
        types = decision.entities.types
        held = {
            name: {t: n for t, n in zip(types, row, strict=True) if n}
            for name, row in zip(decision.entities.names, decision.gpus.tolist(), strict=True)
        }
        hosts = {} if decision.placement is None else decision.placement.hosts
        placed = {name: {s: dict(own) for s, own in hosts[name].items()} for name in hosts if any(held[name].values())}
        packed = {name for pair in decision.packed.items() for name in pair}
        now = soon
