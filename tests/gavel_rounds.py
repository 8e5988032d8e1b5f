"""Gavel's simulation, job by job and round by round in plain Python, without anything of the simulator.

Every round: shares are computed again if a job has come or gone since; (job, type) pairs are taken in the order of
share over time received, each job once, gangs whole; a job runs until the round ends or it is done; GPUs become free at
the round's end, and jobs that arrive in between wait for it [Gavel, section 5]. :class:`Rules` has what Gavel's paper,
its simulator and hetopt do differently, each as a switch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hetopt import Instance, Job
from hetopt.tolerances import WORK

Shares = Callable[[Instance], dict[str, list[float]]]


@dataclass(frozen=True)
class Rules:
    """What differs. Defaults: Gavel's simulator as published.

    Attributes
    ----------
    whole_steps:
        A job does whole steps in a round, a round ends with its last job, and a job that arrives while none runs starts
        at once; jobs that wait for shares hold GPUs that no job of higher priority takes, without using them; and
        priorities are divided by the time of all jobs, so that equal ones may differ in the last bit. False: work is
        done continuously, rounds have equal lengths, and jobs without shares hold nothing.
    allocation_seconds:
        Least time between two computations of shares; jobs that arrive in between wait.
    reset_seconds:
        Least time before the count of the time received restarts.
    fill:
        Jobs also run on types on which they have no share.
    prior:
        Rounds that count as received at first.
    per_type:
        One queue for each type. False: one queue, [Gavel, Algorithm 1].
    types:
        The types in the order of their queues, others last; empty: those on which jobs are faster on average first.
    """

    whole_steps: bool = True
    allocation_seconds: float = 1920.0
    reset_seconds: float = 1920.0
    fill: bool = True
    prior: float = 0.5
    per_type: bool = True
    types: tuple[str, ...] = ("v100", "p100", "k80")


Pair = tuple[str, int]


@dataclass
class GavelRounds:
    """One simulation; ``finish``: job -> when it is finished."""

    instance: Instance
    shares: Shares
    seconds: float
    rules: Rules
    finish: dict[str, float] = field(default_factory=dict)
    x: dict[str, list[float]] = field(default_factory=dict)
    time: dict[Pair, float] = field(default_factory=dict)
    due: dict[Pair, float] = field(default_factory=dict)
    owed: dict[Pair, float] = field(default_factory=dict)
    of_all: list[float] = field(default_factory=list)
    allocated: float = -math.inf
    reset: float = -math.inf

    @property
    def round(self) -> float:
        """A round in the unit of ``time``."""
        return self.seconds if self.rules.whole_steps else 1.0

    def run(self, most: int = 10**6) -> dict[str, float]:
        """Simulate at most this number of rounds. No costs of moving."""
        left = {job.name: job.work for job in self.instance.jobs}
        waiting = sorted(self.instance.jobs, key=lambda job: job.arrival)
        here, order = list[Job](), {job.name: i for i, job in enumerate(self.instance.jobs)}
        now = waiting[0].arrival if self.rules.whole_steps else self.instance.time
        counted, number, changed, runs = 0.0, 0, False, dict[str, int]()
        while (waiting or here) and number < most:
            if not self.rules.whole_steps:
                now = self.instance.time + number * self.seconds
            came = [job for job in waiting if job.arrival <= now]
            waiting, changed = waiting[len(came) :], changed or bool(came)
            here += came
            if not here:
                now = waiting[0].arrival
                number = math.ceil((now - self.instance.time) / self.seconds)
                continue
            if changed and self.may_allocate(now, here, waiting, runs):
                self.allocate(now, here, left)
                changed = False
            runs = self.chosen(here)
            ends = {name: self.end(name, k, now, left) for name, k in runs.items()}
            for name, k in sorted(runs.items(), key=lambda pair: (-ends[pair[0]], order[pair[0]])):
                took = ends[name] - counted if self.rules.whole_steps else 1.0
                self.time[name, k] = self.time.get((name, k), 0.0) + took
                self.of_all[k] += took if self.rules.whole_steps else 0.0
            after = max(ends.values(), default=waiting[0].arrival if waiting else now + self.seconds)
            length = after - now if self.rules.whole_steps else 1.0
            for name, share in self.x.items():
                for k, part in enumerate(share):
                    self.due[name, k] = self.due.get((name, k), 0.0) + part * length
            for name in [name for name in runs if left[name] <= 0]:
                self.finish[name], changed = ends[name], True
            here = [job for job in here if job.name not in self.finish]
            counted = max(ends.values(), default=counted)
            now, number = after, number + 1
        return self.finish

    def may_allocate(self, now: float, here: list[Job], waiting: list[Job], runs: dict[str, int]) -> bool:
        """Whether shares may be computed now."""
        if self.rules.whole_steps and (self.reset <= 0 or not (waiting or runs)):
            return True
        gone = not any(job.name in self.x for job in here)
        return now - self.allocated >= self.rules.allocation_seconds or (gone and not self.rules.whole_steps)

    def allocate(self, now: float, here: list[Job], left: dict[str, float]) -> None:
        """New shares, and perhaps a reset of the time received."""
        if now - self.reset >= self.rules.reset_seconds or (self.rules.whole_steps and self.reset <= 0):
            for pair in {*self.time, *self.due}:
                gap = self.due.get(pair, 0.0) - self.time.get(pair, 0.0)
                self.owed[pair] = self.owed.get(pair, 0.0) + gap
            self.time, self.due, self.reset = {}, {}, now
            all_jobs = self.rules.prior * self.seconds * len(here) if self.rules.whole_steps else 1.0
            self.of_all = [all_jobs] * len(self.instance.cluster.type_names)
        jobs = sorted(here, key=lambda job: job.arrival)
        done = {job.name: job.work - left[job.name] for job in here}
        self.x = self.shares(self.instance.replace(jobs=tuple(jobs), time=now, done=done, held={}, placed={}))
        self.allocated = now

    def chosen(self, here: list[Job]) -> dict[str, int]:
        """Job -> type on which it runs in this round."""
        types = self.instance.cluster.type_names
        known = sorted(here, key=lambda job: job.arrival)
        if not (self.rules.whole_steps and self.rules.fill):
            known = [job for job in known if job.name in self.x]
        none = [0.0] * len(types)
        position = {job.name: i for i, job in enumerate(known)}
        fits = {t: self.instance.cluster.capacity[t] for t in types}

        def speed(t: str) -> float:
            parts = []
            for job in here:
                there = {u: v if job.demand <= fits[u] else 0.0 for u, v in job.throughput.items()}
                parts.append(there.get(t, 0.0) / max(there.values()) if max(there.values()) > 0 else 0.0)
            return sum(parts)

        queues = list(self.rules.types or sorted(types, key=lambda t: -speed(t)))
        pairs = [
            (job.name, k)
            for job in known
            for k, t in enumerate(types)
            if job.throughput.get(t, 0.0) > 0 and (self.rules.fill or self.x[job.name][k] > 0)
        ]

        def rank(pair: Pair) -> tuple[float, ...]:
            name, k = pair
            share, had = self.x.get(name, none)[k], self.rules.prior * self.round + self.time.get(pair, 0.0)
            had /= self.of_all[k]
            priority = 0.0 if share <= 0 else share / had if had > 0 else math.inf
            queue = (queues.index(types[k]) if types[k] in queues else len(queues)) if self.rules.per_type else 0
            return queue, -priority, -self.owed.get(pair, 0.0), -share, position[name], k

        free, runs = [fits[t] for t in types], dict[str, int]()
        for name, k in sorted(pairs, key=rank):
            demand = self.instance.job[name].demand
            if name not in runs and demand <= free[k]:
                runs[name] = k
                free[k] -= demand
        return {name: k for name, k in runs.items() if name in self.x}

    def end(self, name: str, k: int, now: float, left: dict[str, float]) -> float:
        """When the job ends its part of the round that starts now; its work is done in ``left``."""
        job = self.instance.job[name]
        rate = job.throughput[self.instance.cluster.type_names[k]]
        if self.rules.whole_steps:
            steps = min(int(rate * self.seconds), left[name])
            left[name] -= steps
            return now + steps / rate
        if left[name] <= rate * self.seconds + WORK * job.work:
            end = now + left[name] / rate
            left[name] = 0.0
            return end
        left[name] -= rate * self.seconds
        return now + self.seconds


def simulate_by_hand(
    instance: Instance, shares: Shares, seconds: float, rules: Rules, most: int = 10**6
) -> dict[str, float]:
    """Job -> when it is finished; at most this number of rounds."""
    return GavelRounds(instance, shares, seconds, rules).run(most)
