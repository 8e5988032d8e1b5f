"""Plain and slow answers to Hadar's questions, written from the paper alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from hetopt import Instance, Job
from hetopt.models.hadar.utilities import EffectiveThroughput, utility_of

Hosts = dict[tuple[str, str], int]
"""(server, GPU type) -> GPUs."""


def cells(instance: Instance) -> list[tuple[str, str, int]]:
    """(server, GPU type, GPUs)."""
    return [
        (s.name, t, s.gpus[t]) for s in instance.cluster.servers for t in instance.cluster.type_names if t in s.gpus
    ]


def speed(instance: Instance, job: Job, gpu_type: str) -> Fraction:
    """Work per second of the gang where this type is the slowest; 0 where it cannot run."""
    memory = instance.cluster.gpu_type(gpu_type).memory_bytes
    fits = memory is None or job.memory_bytes <= memory
    return Fraction(job.throughput[gpu_type]) if fits else Fraction(0)


def gangs(instance: Instance, job: Job, free: Hosts | None = None) -> Iterator[tuple[Hosts, Fraction]]:
    """Every way to seat the gang, and its speed."""
    places = [(s, t, n if free is None else free.get((s, t), 0)) for s, t, n in cells(instance)]
    for counts in product(*(range(n + 1) for _, _, n in places)):
        seats = {(s, t): n for (s, t, _), n in zip(places, counts, strict=True) if n}
        if sum(counts) == job.demand:
            slowest = min(speed(instance, job, t) for _, t in seats)
            if slowest > 0:
                yield seats, slowest


def best_total(instance: Instance, slots: int, seconds: int) -> float:
    """The largest total utility of P1 with admission, slot by slot over all states (work done by each job)."""
    jobs = instance.jobs
    options = [[({}, Fraction(0)), *gangs(instance, job)] for job in jobs]
    room = {(s, t): n for s, t, n in cells(instance)}
    states: dict[tuple[Fraction, ...], float] = {tuple(Fraction(0) for _ in jobs): 0.0}
    for t in range(slots):
        after: dict[tuple[Fraction, ...], float] = {}
        moves = list(_joint(options, room))
        for done, value in states.items():
            for pace in moves:
                if any(v and (jobs[i].arrival > t * seconds or done[i] >= jobs[i].work) for i, v in enumerate(pace)):
                    continue
                work = tuple(min(Fraction(jobs[i].work), done[i] + v * seconds) for i, v in enumerate(pace))
                gain = sum(
                    float(utility_of(job, EffectiveThroughput())(job, (t + 1) * seconds - job.arrival))  # type: ignore[arg-type]
                    for i, job in enumerate(jobs)
                    if done[i] < job.work <= work[i]
                )
                after[work] = max(after.get(work, 0.0), value + gain)
        states = after
    return max(states.values())


def _joint(options: list[list[tuple[Hosts, Fraction]]], room: Hosts) -> set[tuple[Fraction, ...]]:
    """The speeds that all jobs may have in a slot together."""
    found = set()
    for choice in product(*options):
        used: Hosts = {}
        for seats, _ in choice:
            for place, n in seats.items():
                used[place] = used.get(place, 0) + n
        if all(n <= room[place] for place, n in used.items()):
            found.add(tuple(v for _, v in choice))
    return found
