"""A few jobs on a few GPUs: A-SRPT's schedule and an optimal one, in fractions, in continuous time and in slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np

from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.asrpt.fleet import Fleet, PredictedJob
from hetopt.models.asrpt.non_preemptive import VirtualSRPTScheduler
from hetopt.proofs.asrpt.machine import Announced, Single, srpt, whole_slot
from hetopt.proofs.asrpt.placing import ZERO, cluster_of, exact
from hetopt.proofs.ledger.pictures import Bar, Timeline
from hetopt.proofs.placements import every_placement
from hetopt.proofs.small_schedules import SmallCase
from hetopt.stages.iteration_time import Asynchronous

F = Fraction

USUALLY_HEAVY = F(3, 2)
"""COMM_HEAVY of the paper's experiments."""


@dataclass(frozen=True)
class Run:
    """A job that runs on so many GPUs of each server."""

    job: int
    start: Fraction
    end: Fraction
    use: tuple[int, ...]


Runs = tuple[Run, ...]


def total(runs: Runs) -> Fraction:
    """Sum of completion times."""
    return sum((run.end for run in runs), F(0))


def picture(title: str, runs: Runs, free: Sequence[int]) -> Timeline:
    """A lane for each GPU."""
    lanes = [(m, n) for m, count in enumerate(free) for n in range(count)]
    until = dict.fromkeys(lanes, F(0))
    bars = []
    for run in sorted(runs, key=lambda run: (run.start, run.job)):
        for m, count in enumerate(run.use):
            idle = [lane for lane in lanes if lane[0] == m and until[lane] <= run.start][:count]
            bars += [Bar(f"server{m + 1} GPU{n + 1}", run.start, run.end, f"job{run.job + 1}") for _, n in idle]
            until |= dict.fromkeys(idle, run.end)
    return Timeline(title, tuple(bars))


def overfull(runs: Runs, free: Sequence[int], *, closed: bool) -> tuple[int, Fraction, int]:
    """The most GPUs of a server in use beyond those it has, when, and where [ASRPT, eq. 3].

    Parameters
    ----------
    closed:
        A job counts at the moment of its completion, too.
    """
    found = [(-free[0], F(0), 0)]
    for time in {run.start for run in runs} | {run.end for run in runs}:
        there = [run for run in runs if run.start <= time and (time <= run.end if closed else time < run.end)]
        found += [(sum(run.use[m] for run in there) - n, time, m) for m, n in enumerate(free)]
    return max(found, key=lambda row: row[0])


def optimal(
    arrivals: Sequence[Fraction],
    lengths: Sequence[Mapping[tuple[int, ...], Fraction]],
    free: Sequence[int],
    *,
    slots: bool = False,
) -> Runs:
    """A schedule without preemption with the least sum of completion times.

    Parameters
    ----------
    lengths:
        For each job GPUs per server -> seconds; servers are alike.
    slots:
        Jobs start in whole seconds.

    Notes
    -----
    An optimal schedule stays one when each job, in the order of starts, starts as early as its GPUs allow. So orders
    times GPUs are tried; partial sums and the earliest ends that are conceivable bound the search.
    """
    soonest = [r + min(uses.values()) for r, uses in zip(arrivals, lengths, strict=True)]
    best: list[tuple[Fraction, Runs]] = []

    def search(left: tuple[int, ...], placed: Runs, sofar: Fraction) -> None:
        if best and sofar + sum(soonest[i] for i in left) >= best[0][0]:
            return
        if not left:
            best[:] = [(sofar, placed)]
            return
        unused = [m for m in range(len(free)) if not any(run.use[m] for run in placed)]
        for at, i in enumerate(left):
            if any(arrivals[j] == arrivals[i] and lengths[j] == lengths[i] for j in left[:at]):
                continue  # jobs that are alike start in their order
            for use, length in lengths[i].items():
                if any(use[m] < use[n] for m, n in pairwise(unused)):
                    continue  # servers on which nobody is yet are alike
                start = _earliest(placed, use, arrivals[i], length, free, slots)
                run = Run(i, start, start + length, use)
                search(tuple(j for j in left if j != i), (*placed, run), sofar + run.end)

    search(tuple(range(len(arrivals))), (), F(0))
    return best[0][1]


def _earliest(
    placed: Runs, use: tuple[int, ...], arrival: Fraction, length: Fraction, free: Sequence[int], slots: bool
) -> Fraction:
    """The first start from which on the GPUs are free for so long; running intervals are half-open."""
    starts = {arrival, *(run.end for run in placed if run.end > arrival)}
    for start in sorted({whole_slot(t) for t in starts} if slots else starts):
        moments = [start, *(run.start for run in placed if start < run.start < start + length)]
        if all(not use[m] or use[m] <= _idle(placed, m, t, free) for t in moments for m in range(len(free))):
            return start
    raise AssertionError("after the last end all GPUs are free")


def _idle(placed: Runs, m: int, time: Fraction, free: Sequence[int]) -> int:
    return free[m] - sum(run.use[m] for run in placed if run.start <= time < run.end)


def asrpt(
    fleet: Fleet,
    tasks: Sequence[PredictedJob],
    arrivals: Sequence[Fraction],
    iterations: Sequence[Fraction],
    *,
    heavy: Fraction = USUALLY_HEAVY,
    delay: Fraction = ZERO,
    virtual: Single | None = None,
    slots: bool = False,
) -> Runs:
    """What A-SRPT does, in the order of starts [ASRPT, Algorithm 1].

    Parameters
    ----------
    virtual:
        What the virtual machine does; by default what the library's own does, in continuous time.
    slots:
        Jobs start in whole seconds.
    """
    scheduler = VirtualSRPTScheduler([fleet.copy()], heavy, delay)
    if virtual is not None:
        scheduler.virtual = Announced({task.name: virtual.ends[i] for i, task in enumerate(tasks)})
    number = {task.name: i for i, task in enumerate(tasks)}
    coming = sorted(range(len(tasks)), key=lambda i: (arrivals[i], i), reverse=True)
    running: list[tuple[Fraction, str]] = []
    runs: list[Run] = []
    while coming or running or len(runs) < len(tasks):
        moments = [arrivals[coming[-1]]] if coming else []
        moments += [running[0][0]] if running else []
        time = min([*moments, scheduler.wake])
        time = whole_slot(time) if slots else time
        while running and running[0][0] <= time:
            scheduler.finish(heappop(running)[1])
        while coming and arrivals[coming[-1]] <= time:
            scheduler.arrive(time, tasks[coming.pop()])
        for started in scheduler.decide(time):
            i = number[started.task.name]
            use = [0] * len(fleet.servers)
            for seat in started.placement.slots:
                use[seat.server] = seat.gpus
            runs.append(Run(i, time, time + iterations[i] * started.placement.seconds, tuple(use)))
            heappush(running, (runs[-1].end, started.task.name))
    return tuple(runs)


@dataclass(frozen=True, eq=False)
class Workload:
    """Jobs on equal servers, with predictions and A-SRPT's settings.

    Attributes
    ----------
    small:
        The jobs and servers in fractions.
    made:
        The jobs for the library.
    heavy, delay:
        COMM_HEAVY and tau.
    """

    small: SmallCase
    made: tuple[Job, ...]
    heavy: Fraction
    delay: Fraction

    @cached_property
    def instance(self) -> Instance:
        """Jobs with their true iterations; the predictions are in the case alone."""
        servers = self.small.servers
        return Instance(cluster_of(self.free, exact(servers.nic[0]), exact(servers.intra[0])), jobs=self.made)

    @property
    def free(self) -> tuple[int, ...]:
        """GPUs of each server."""
        return tuple(self.small.servers.free.tolist())

    @cached_property
    def arrivals(self) -> list[Fraction]:
        """r_i."""
        return [job.arrival for job in self.small.jobs]

    @cached_property
    def iterations(self) -> list[Fraction]:
        """n_i."""
        return [job.iterations for job in self.small.jobs]

    @cached_property
    def lengths(self) -> list[dict[tuple[int, ...], Fraction]]:
        """For each job GPUs per server -> seconds."""
        rows = zip(self.small.uses, self.iterations, strict=True)
        return [{use: n * alpha for use, alpha in uses.items()} for uses, n in rows]

    def sizes(self, *, predicted: bool) -> list[Fraction]:
        """Seconds of the jobs on the virtual machine."""
        rows = zip(self.small.tasks, self.small.jobs, strict=True)
        scaled = [(task, job.predicted if predicted else job.iterations) for task, job in rows]
        return [Fraction(task.gpus, self.small.servers.total) * n * task.choices[0].least for task, n in scaled]

    def virtual(self, *, predicted: bool, slots: bool = False) -> Single:
        """What the virtual machine does: A_1, or the predicted A~_1."""
        return srpt(self.arrivals, self.sizes(predicted=predicted), slots=slots)

    def optimum(self, *, slots: bool = False) -> Runs:
        """An optimal schedule."""
        return optimal(self.arrivals, self.lengths, self.free, slots=slots)

    def asrpt(self, *, slots: bool = False, virtual_slots: bool = False) -> Runs:
        """A-SRPT's schedule."""
        virtual = self.virtual(predicted=True, slots=virtual_slots) if slots else None
        return asrpt(
            self.small.fleet,
            self.small.tasks,
            self.arrivals,
            self.iterations,
            heavy=self.heavy,
            delay=self.delay,
            virtual=virtual,
            slots=slots,
        )

    @property
    def apart(self) -> list[Fraction]:
        """For each job alpha_max as the paper computes it."""
        return [task.choices[0].most for task in self.small.tasks]

    @cached_property
    def longest(self) -> list[Fraction]:
        """For each job the longest iteration of all placements in the empty cluster."""
        made = []
        for job in self.small.jobs:
            tables: Any = np.array(list(every_placement(job.pipeline, self.small.servers)))
            made.append(max(exact(v) for v in Asynchronous()(job.pipeline, tables, self.small.servers).tolist()))
        return made
