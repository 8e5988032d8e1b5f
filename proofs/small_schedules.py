"""Schedules of a few jobs on a few GPUs, exactly: the optimum by enumeration, and A-SRPT's own, in fractions.

What Lemmas 1-3 and Theorem 1 of A-SRPT compare, so that they can be checked without any tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from hetopt.errors import InvalidOption
from hetopt.models.asrpt.fleet import Fleet, PredictedJob, TypeOption
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.non_preemptive import NonPreemptiveScheduler, VirtualMachine, VirtualSRPTScheduler
from hetopt.proofs.placements import every_placement
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

MOST_GPUS, MOST_JOBS = 6, 4
"""Up to so many GPUs and jobs the optimum is enumerated within seconds."""

Uses = Mapping[tuple[int, ...], Fraction]
"""GPUs per server -> seconds of the fastest iteration with them."""


Placed = tuple[Fraction, Fraction, tuple[int, ...]]
"""(start, end, GPUs per server) of a job."""


@dataclass(frozen=True, eq=False)
class SmallJob:
    """A job whose numbers are fractions.

    Attributes
    ----------
    pipeline:
        Its stages (:meth:`hetopt.stages.pipeline.Pipeline.exact`).
    arrival:
        r_i in seconds.
    iterations, predicted:
        n_i, and n~_i that the scheduler believes.
    """

    pipeline: Pipeline
    arrival: Fraction
    iterations: Fraction
    predicted: Fraction


@dataclass(frozen=True, eq=False)
class SmallCase:
    """Jobs on servers, and everything that the lemmas speak of [ASRPT, section IV-C].

    Attributes
    ----------
    jobs:
        At most four.
    servers:
        Alike, with at most six GPUs in all; bandwidths as fractions.

    Raises
    ------
    InvalidOption
        More jobs or GPUs than can be enumerated, servers that differ, or a job that the servers have no room for.
    """

    jobs: tuple[SmallJob, ...]
    servers: Servers

    def __post_init__(self) -> None:
        if len(self.jobs) > MOST_JOBS or self.servers.total > MOST_GPUS:
            raise InvalidOption(
                f"{len(self.jobs)} jobs on {self.servers.total} GPUs; at most {MOST_JOBS} on {MOST_GPUS} are enumerated"
            )
        kinds = set(zip(self.servers.free.tolist(), self.servers.nic, self.servers.intra, strict=True))
        if len(kinds) > 1:
            raise InvalidOption("the servers differ in GPUs or bandwidths; the enumeration takes them to be alike")
        if not all(self.uses):
            raise InvalidOption("a job has no room on the servers, however empty")

    @cached_property
    def uses(self) -> tuple[Uses, ...]:
        """For each job the ways to use GPUs of the servers, each with its fastest iteration."""
        return tuple(fastest_uses(job.pipeline, self.servers) for job in self.jobs)

    @cached_property
    def optimum(self) -> Fraction:
        """OPT_A: least sum of completion times over all schedules without preemption.

        An optimal schedule stays one when each job, in the order of starts, starts as early as the GPUs that it uses
        allow; so orders times uses are enumerated, each with the fastest iteration. Partial sums and, for jobs still
        to come, the earliest end that is conceivable bound the search.
        """
        least = [min(uses.values()) for uses in self.uses]
        ends = [job.arrival + job.iterations * a for job, a in zip(self.jobs, least, strict=True)]
        best: list[Fraction] = []

        def search(left: tuple[int, ...], placed: Sequence[Placed], sofar: Fraction) -> None:
            if best and sofar + sum(ends[i] for i in left) >= best[0]:
                return
            if not left:
                best[:] = [sofar]
                return
            unused = [m for m in range(len(self.servers)) if not any(use[m] for _, _, use in placed)]
            for i in left:
                for use, seconds in self.uses[i].items():
                    if any(use[m] < use[n] for m, n in pairwise(unused)):
                        continue  # servers on which nobody is yet are alike
                    length = self.jobs[i].iterations * seconds
                    start = self._earliest(placed, use, self.jobs[i].arrival, length)
                    rest = tuple(j for j in left if j != i)
                    search(rest, [*placed, (start, start + length, use)], sofar + start + length)

        search(tuple(range(len(self.jobs))), [], Fraction(0))
        return best[0]

    def _earliest(
        self,
        placed: Sequence[Placed],
        use: tuple[int, ...],
        arrival: Fraction,
        length: Fraction,
    ) -> Fraction:
        """The first start from which on the GPUs are free for so long; running intervals are half-open."""
        free = self.servers.free.tolist()
        for start in sorted({arrival, *(end for _, end, _ in placed if end > arrival)}):
            moments = [start, *(begin for begin, _, _ in placed if start < begin < start + length)]
            if all(
                sum(other[m] for begin, end, other in placed if begin <= t < end) + use[m] <= free[m]
                for t in moments
                for m in range(len(free))
                if use[m]
            ):
                return start
        raise AssertionError("after the last end all GPUs are free")

    @cached_property
    def fleet(self) -> Fleet:
        """The servers under Heavy-Edge, empty."""
        return Fleet(self.servers, HeavyEdge(), Asynchronous())

    @cached_property
    def tasks(self) -> tuple[PredictedJob, ...]:
        """The jobs as the scheduler sees them."""
        timing = Asynchronous()
        made = []
        for i, job in enumerate(self.jobs):
            most = timing.most(job.pipeline, self.servers)
            choice = TypeOption(0, job.pipeline, self.fleet.fewest(job.pipeline), most)
            made.append(PredictedJob(f"job{i + 1}", job.pipeline.gpus, (choice,), job.predicted))
        return tuple(made)

    def total(self, scheduler: NonPreemptiveScheduler) -> Fraction:
        """Gamma_A: sum of completion times under ``scheduler``, a new one on a copy of :attr:`fleet`."""
        work = {task.name: job.iterations for task, job in zip(self.tasks, self.jobs, strict=True)}
        coming = sorted(zip([job.arrival for job in self.jobs], range(len(self.jobs)), strict=True), reverse=True)
        running: list[tuple[Fraction, str]] = []
        total, left = Fraction(0), len(self.jobs)
        while left:
            moments = [coming[-1][0]] if coming else []
            moments += [running[0][0]] if running else []
            time = min([*moments, scheduler.wake])
            while running and running[0][0] <= time:
                total += running[0][0]
                scheduler.finish(heappop(running)[1])
                left -= 1
            while coming and coming[-1][0] <= time:
                scheduler.arrive(time, self.tasks[coming.pop()[1]])
            for started in scheduler.decide(time):
                heappush(running, (time + work[started.task.name] * started.placement.seconds, started.task.name))
        return total

    def asrpt(self, heavy: Fraction, delay: Fraction) -> Fraction:
        """Gamma_A of A-SRPT."""
        return self.total(VirtualSRPTScheduler([self.fleet.copy()], heavy, delay))

    def virtual(self, *, predicted: bool) -> Fraction:
        """OPT_A1, or with predicted iterations OPT_A~1: sum of completion times on the virtual machine."""
        machine = VirtualMachine()
        sizes = {}
        for task, job in zip(self.tasks, self.jobs, strict=True):
            n = job.predicted if predicted else job.iterations
            sizes[task.name] = task.gpus * n * task.choices[0].least / self.servers.total
        order = sorted(range(len(self.jobs)), key=lambda i: self.jobs[i].arrival)
        total, done = Fraction(0), 0
        while done < len(self.jobs):
            arrival = self.jobs[order[0]].arrival if order else None
            time = machine.next if arrival is None else min(arrival, machine.next)
            if order and arrival == time:
                i = order.pop(0)
                machine.arrive(time, self.tasks[i].name, sizes[self.tasks[i].name])
            completed = len(machine.completed(time))
            total, done = total + completed * time, done + completed
        return total


def fastest_uses(pipeline: Pipeline, servers: Servers) -> Uses:
    """GPUs per server -> seconds of the fastest iteration that uses just these."""
    found: dict[tuple[int, ...], Fraction] = {}
    for x in every_placement(pipeline, servers):
        use = tuple((pipeline.slices @ x).tolist())
        seconds: Any = Asynchronous()(pipeline, x, servers)[()]
        found[use] = min(found.get(use, seconds), seconds)
    return found


@dataclass(frozen=True)
class Quantities:
    """What the bounds are made of; see :func:`quantities`."""

    jobs: int
    gpus: int
    most_gpus: int
    rho: Fraction
    most: Fraction
    least: Fraction
    error: Fraction


def quantities(case: SmallCase) -> Quantities:
    """I, G, g_max, rho = max alpha_max / alpha_min, alpha_max, alpha_min and epsilon of [ASRPT, eq. 9 and Lemma 1]."""
    least = [min(uses.values()) for uses in case.uses]
    most = [task.choices[0].most for task in case.tasks]
    return Quantities(
        jobs=len(case.jobs),
        gpus=case.servers.total,
        most_gpus=max(task.gpus for task in case.tasks),
        rho=max(m / a for m, a in zip(most, least, strict=True)),
        most=max(most),
        least=min(least),
        error=sum((abs(job.iterations - job.predicted) for job in case.jobs), Fraction(0)),
    )


def lemma_1(case: SmallCase) -> tuple[Fraction, Fraction]:
    """(left, right) of ``OPT_A1 <= rho OPT_A``."""
    return case.virtual(predicted=False), quantities(case).rho * case.optimum


def lemma_2(case: SmallCase, heavy: Fraction, delay: Fraction) -> tuple[Fraction, Fraction]:
    """(left, right) of ``Gamma_A <= (1 + tau + rho G/(G-g)) OPT_A~1 + I g alpha/(G-g) epsilon + rho OPT_A``.

    Hypothesis: G > g_max.
    """
    q = quantities(case)
    spare = q.gpus - q.most_gpus
    first = (1 + delay + q.rho * q.gpus / spare) * case.virtual(predicted=True)
    return case.asrpt(heavy, delay), first + q.jobs * q.most_gpus * q.most / spare * q.error + q.rho * case.optimum


def lemma_3(case: SmallCase) -> tuple[Fraction, Fraction]:
    """(left, right) of ``OPT_A~1 <= OPT_A1 + I g alpha/G epsilon``."""
    q = quantities(case)
    return case.virtual(predicted=True), (
        case.virtual(predicted=False) + q.jobs * q.most_gpus * q.most / q.gpus * q.error
    )


def theorem_1(case: SmallCase, heavy: Fraction, delay: Fraction) -> tuple[Fraction, Fraction]:
    """(left, right) of the competitive ratio, both times OPT_A.

    Hypotheses: G > g_max, every job has at least one iteration.
    """
    q = quantities(case)
    share = Fraction(q.gpus, q.gpus - q.most_gpus)
    factor = (2 + delay + q.rho * share) * q.rho
    average = q.error / q.jobs
    factor += 2 * q.rho * q.most_gpus * q.most / q.least * (1 + delay + (1 + q.rho) * share) * average
    return case.asrpt(heavy, delay), factor * case.optimum


def small_servers(servers: int, gpus: int, nic: Fraction, intra: Fraction) -> Servers:
    """Servers alike; ``nic`` is the part of the card that comes with each GPU."""
    names = tuple(f"server{i + 1}" for i in range(servers))
    free = np.full(servers, gpus)
    return Servers(names, free, np.array([nic] * servers, dtype=object), np.array([intra] * servers, dtype=object))
