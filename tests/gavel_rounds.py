"""Gavel's simulation as its paper describes it, job by job and round by round, without anything of the simulator.

Every round: shares are computed again if a job has come or gone since; (job, type) pairs are taken in the order of
share over part of the rounds received since then, each job once, gangs whole; a job runs until the round ends or it is
done; GPUs become free at the round's end, and jobs that arrive in between wait for it [Gavel, section 5].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from hetopt import Instance
from hetopt.tolerances import WORK

Shares = Callable[[Instance], dict[str, list[float]]]


def simulate_by_hand(instance: Instance, shares: Shares, seconds: float, most: int = 10**6) -> dict[str, float]:
    """Job -> when it is finished. No costs of moving."""
    types = instance.cluster.type_names
    left = {job.name: job.work for job in instance.jobs}
    finish: dict[str, float] = {}
    known: tuple[str, ...] = ()
    x: dict[str, list[float]] = {}
    received: dict[tuple[str, int], int] = {}
    rounds, number = 0, 0
    while len(finish) < len(left) and number < most:
        now = instance.time + number * seconds
        here = [job for job in instance.jobs if job.arrival <= now and job.name not in finish]
        number += 1
        if not here:
            coming = min(job.arrival for job in instance.jobs if job.name not in finish)
            number = math.ceil((coming - instance.time) / seconds)
            continue
        here.sort(key=lambda job: job.arrival)
        if tuple(job.name for job in here) != known:
            known, received, rounds = tuple(job.name for job in here), {}, 0
            done = {job.name: job.work - left[job.name] for job in here}
            x = shares(instance.replace(jobs=tuple(here), time=now, done=done, held={}, placed={}))
        free, runs = [instance.cluster.capacity[t] for t in types], {}

        rank = partial(_rank, x, received, max(rounds, 1), {job.name: i for i, job in enumerate(here)})
        pairs = [
            (job.name, k) for job in here for k, t in enumerate(types) if x[job.name][k] > 0 and job.throughput[t] > 0
        ]
        for name, k in sorted(pairs, key=rank):
            job = instance.job[name]
            if name not in runs and job.demand <= free[k]:
                runs[name] = k
                free[k] -= job.demand
        rounds += 1
        for name, k in runs.items():
            received[name, k] = received.get((name, k), 0) + 1
            rate = instance.job[name].throughput[types[k]]
            if left[name] <= rate * seconds + WORK * instance.job[name].work:
                finish[name] = now + left[name] / rate
            left[name] -= min(left[name], rate * seconds)
    return finish


def _rank(
    x: dict[str, list[float]],
    received: dict[tuple[str, int], int],
    rounds: int,
    position: dict[str, int],
    pair: tuple[str, int],
) -> tuple[float, float, int, int]:
    """What goes first is least: priority, then the share, the job, the type."""
    name, k = pair
    had = received.get(pair, 0)
    priority = x[name][k] * rounds / had if had else math.inf
    return -priority, -x[name][k], position[name], k
