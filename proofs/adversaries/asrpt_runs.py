"""A-SRPT run a second time from the paper's Algorithm 1, the virtual machine, and the optimum by brute force.

Everything is in fractions. The paper leaves ties open; each :class:`Variant` breaks all of them in one of two ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations
from math import ceil, lcm
from typing import NamedTuple

from hetopt.proofs.adversaries.asrpt_jobs import (
    Links,
    Placement,
    Stages,
    all_apart,
    every_table,
    greedy,
    heavy_edge,
    iteration,
    stages_in,
)
from hetopt.proofs.asrpt.scheduling_cases import SchedulingCase

F = Fraction
Use = tuple[int, ...]
"""GPUs of each server."""


# -- one machine -----------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A period in which the machine runs a job."""

    job: int
    start: Fraction
    end: Fraction


class MachineRun(NamedTuple):
    """Completion times of the jobs, and the periods in order."""

    ends: tuple[Fraction, ...]
    bars: tuple[Bar, ...]


def shortest_first(
    arrivals: Sequence[Fraction], sizes: Sequence[Fraction], *, last: bool, slots: bool = False
) -> MachineRun:
    """SRPT. Ties go to the running job, then the first; or to the ``last`` of all. ``slots``: whole seconds."""
    left, time, running = list(sizes), min(arrivals), -1
    ends, bars = list[Fraction | None]([None] * len(sizes)), list[Bar]()
    while None in ends:
        here = [i for i, end in enumerate(ends) if end is None and arrivals[i] <= time]
        for i in here:
            if not left[i]:
                ends[i] = time
        here = [i for i in here if left[i]]
        coming = [r for r, end in zip(arrivals, ends, strict=True) if end is None and r > time]
        if not here:
            time = min(coming, default=time)
            continue
        if last:
            job = min(here, key=lambda i: (left[i], -i))
        else:
            job = min(here, key=lambda i: (left[i], i != running, arrivals[i], i))
        until = time + 1 if slots else min([time + left[job], *coming])
        bars.append(Bar(job, time, until))
        left[job] = max(F(0), left[job] - (until - time))
        time, running = until, job
        if not left[job]:
            ends[job] = time
    return MachineRun(tuple(end for end in ends if end is not None), tuple(bars))


def by_priority(arrivals: Sequence[Fraction], sizes: Sequence[Fraction], order: Sequence[int]) -> Fraction:
    """The sum of completion times where each job in this order takes the first seconds that are still free."""
    busy, total = list[tuple[Fraction, Fraction]](), F(0)
    for i in order:
        time, left, taken = arrivals[i], sizes[i], list[tuple[Fraction, Fraction]]()
        for start, end in sorted(busy):
            if left and time < start:
                part = min(left, start - time)
                taken.append((time, time + part))
                left -= part
                time += part
            if left:
                time = max(time, end)
        if left:
            taken.append((time, time + left))
            time += left
        busy += taken
        total += time
    return total


def least_total(arrivals: Sequence[Fraction], sizes: Sequence[Fraction]) -> Fraction:
    """The least sum of completion times on one machine with preemption: the best of all orders of priority."""
    return min(by_priority(arrivals, sizes, order) for order in permutations(range(len(sizes))))


# -- the optimum -----------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A job that runs on these GPUs."""

    job: int
    start: Fraction
    end: Fraction
    use: Use


def optimal_schedules(
    arrivals: Sequence[Fraction], lengths: Sequence[dict[Use, Fraction]], free: Use
) -> tuple[Fraction, list[tuple[Placed, ...]]]:
    """The least sum of completion times without preemption, and the schedules that reach it.

    In an optimum no job can start earlier, so each starts when a job arrives or completes. All decisions at these
    moments are tried, but of equal servers the first is used first.
    """
    unit = lcm(*(v.denominator for row in (arrivals, *(each.values() for each in lengths)) for v in row))
    arrive, most = [int(r * unit) for r in arrivals], [0]
    long = [{use: int(v * unit) for use, v in each.items()} for each in lengths]
    shortest = [min(each.values()) for each in long]
    best: list[tuple[tuple[int, int, int, Use], ...]] = []

    def bound(time: int, waiting: tuple[int, ...]) -> int:
        return sum(max(time, arrive[i]) + shortest[i] for i in waiting)

    def decide(
        time: int, after: int, waiting: tuple[int, ...], placed: tuple[tuple[int, int, int, Use], ...], total: int
    ) -> None:
        if best and total + bound(time, waiting) > most[0]:
            return
        if not waiting:
            if not best or total < most[0]:
                best.clear()
                most[0] = total
            best.append(placed)
            return
        running = [run for run in placed if run[2] > time]
        idle = [n - sum(run[3][m] for run in running) for m, n in enumerate(free)]
        past = [tuple(run[3][m] for run in placed) for m in range(len(free))]
        for i in waiting:
            if i > after and arrive[i] <= time:
                for use, length in long[i].items():
                    fits = all(n <= room for n, room in zip(use, idle, strict=True))
                    if fits and all(use[m - 1] >= use[m] or past[m - 1] != past[m] for m in range(1, len(free))):
                        rest = tuple(j for j in waiting if j != i)
                        decide(time, i, rest, (*placed, (i, time, time + length, use)), total + time + length)
        moments = [run[2] for run in running] + [arrive[i] for i in waiting if arrive[i] > time]
        if moments:
            decide(min(moments), -1, waiting, placed, total)

    decide(min(arrive), -1, tuple(range(len(arrive))), (), 0)
    found = [tuple(Placed(i, F(a, unit), F(b, unit), use) for i, a, b, use in placed) for placed in best]
    return F(most[0], unit), found


# -- Algorithm 1 -----------------------------------------------------------------------------------------------------


class Started(NamedTuple):
    """A job that A-SRPT starts: when, until when, and its placement."""

    job: int
    start: Fraction
    end: Fraction
    table: Placement

    @property
    def use(self) -> Use:
        """GPUs of each server."""
        return tuple(map(sum, zip(*self.table, strict=True)))


class Delayed(NamedTuple):
    """A job that waits for a better placement: kappa, and the end of its delay."""

    job: int
    kappa: Fraction
    deadline: Fraction


@dataclass(frozen=True, eq=False)
class Variant:
    """A case with one way to break all ties.

    Attributes
    ----------
    case:
        Jobs and servers.
    last:
        Ties go to the last job, server or replica; else to the first.
    """

    case: SchedulingCase
    last: bool

    @cached_property
    def free(self) -> Use:
        """GPUs of each server."""
        return tuple(self.case.servers.free.tolist())

    @cached_property
    def links(self) -> Links:
        """B_inter / g and B_intra."""
        return Links(F(self.case.servers.nic[0]), F(self.case.servers.intra[0]))

    @cached_property
    def stages(self) -> list[Stages]:
        """Stages of the jobs."""
        return [stages_in(job.pipeline) for job in self.case.jobs]

    @cached_property
    def gpus(self) -> list[int]:
        """g_i."""
        return [stages.gpus for stages in self.stages]

    @property
    def total(self) -> int:
        """G."""
        return sum(self.free)

    @cached_property
    def arrivals(self) -> list[Fraction]:
        """r_i."""
        return [job.arrival for job in self.case.jobs]

    @cached_property
    def true(self) -> list[Fraction]:
        """n_i."""
        return [job.iterations for job in self.case.jobs]

    @cached_property
    def predicted(self) -> list[Fraction]:
        """The predictions."""
        return [job.predicted for job in self.case.jobs]

    @cached_property
    def alphas(self) -> list[dict[Use, tuple[Fraction, Fraction]]]:
        """For each job GPUs of each server -> seconds of the fastest and of the slowest iteration on them."""
        return [_alphas(stages, self.free, self.links) for stages in self.stages]

    @cached_property
    def shortest(self) -> list[Fraction]:
        """alpha_min."""
        return [min(low for low, _ in uses.values()) for uses in self.alphas]

    @cached_property
    def longest(self) -> list[Fraction]:
        """The longest iteration of all placements."""
        return [max(high for _, high in uses.values()) for uses in self.alphas]

    @cached_property
    def apart(self) -> list[Fraction]:
        """alpha_max as printed."""
        return [all_apart(stages, self.links) for stages in self.stages]

    @cached_property
    def greedy(self) -> list[Fraction]:
        """alpha~_min."""
        return [greedy(stages, self.free, self.links, last=self.last) for stages in self.stages]

    def sizes(self, iterations: Sequence[Fraction]) -> list[Fraction]:
        """Seconds on the virtual machine."""
        rows = zip(self.gpus, iterations, self.greedy, strict=True)
        return [F(gpus, self.total) * n * alpha for gpus, n, alpha in rows]

    @cached_property
    def optimum(self) -> tuple[Fraction, list[tuple[Placed, ...]]]:
        """OPT_A and the optimal schedules."""
        return _optimum(self.case)

    def virtual(self, iterations: Sequence[Fraction], *, slots: bool = False) -> MachineRun:
        """SRPT on the virtual machine."""
        return shortest_first(self.arrivals, self.sizes(iterations), last=self.last, slots=slots)

    def queue(self, ends: Sequence[Fraction]) -> list[int]:
        """Jobs in the order in which the virtual machine completes them."""
        return sorted(range(len(ends)), key=lambda i: (ends[i], -i if self.last else i))

    # -- Algorithm 1 -------------------------------------------------------------------------------------------------

    def is_heavy(self, i: int) -> bool:
        """Line 8."""
        return self.apart[i] >= self.case.heavy * self.greedy[i]

    def placement(self, i: int, idle: Sequence[int]) -> Placement:
        """Lines 9 and 10, or 22 and 23: Heavy-Edge on the servers with the most or the least free GPUs."""
        sign = -1 if self.is_heavy(i) else 1
        left, use = self.gpus[i], [0] * len(idle)
        for m in sorted(range(len(idle)), key=lambda m: (sign * idle[m], -m if self.last else m)):
            use[m] = min(left, idle[m])
            left -= use[m]
        return heavy_edge(self.stages[i], tuple(use), self.last)

    @cached_property
    def continuous(self) -> list[Started]:
        """The schedule in continuous time, in the order of starts."""
        return self.run(self.virtual(self.predicted).ends)

    def run(self, ends: Sequence[Fraction], *, slots: bool = False) -> list[Started]:
        """The schedule for these completion times of the virtual machine; ``slots``: jobs start in whole seconds."""
        queue, runs, time = self.queue(ends), list[Started](), min(ends)
        delayed: Delayed | None = None
        while len(runs) < len(queue):
            time = F(ceil(time)) if slots else time
            while len(runs) < len(queue) and ends[queue[len(runs)]] <= time:
                i = queue[len(runs)]  # line 4
                idle = self.idle(runs, time)
                if sum(idle) < self.gpus[i]:
                    break
                table = self.placement(i, idle)
                alpha = iteration(self.stages[i], table, self.links)
                if delayed is None and self.is_heavy(i) and alpha > self.case.heavy * self.greedy[i]:
                    wait = self.case.delay * self.sizes(self.predicted)[i]
                    delayed = Delayed(i, alpha, time + wait)
                if delayed is not None and alpha >= delayed.kappa and time < delayed.deadline:
                    break
                runs.append(Started(i, time, time + self.true[i] * alpha, table))
                delayed = None
            moments = [t for t in (*ends, *(run.end for run in runs)) if t > time]
            moments += [delayed.deadline] if delayed is not None else []
            time = min(moments, default=time)
        return runs

    def idle(self, runs: Sequence[Started], time: Fraction) -> list[int]:
        """Free GPUs of each server at a moment."""
        running = [run.use for run in runs if run.start <= time < run.end]
        return [n - sum(use[m] for use in running) for m, n in enumerate(self.free)]


@lru_cache(maxsize=4096)
def _alphas(stages: Stages, free: Use, links: Links) -> dict[Use, tuple[Fraction, Fraction]]:
    found: dict[Use, tuple[Fraction, Fraction]] = {}
    for table in every_table(stages, free):
        use, alpha = tuple(map(sum, zip(*table, strict=True))), iteration(stages, table, links)
        low, high = found.get(use, (alpha, alpha))
        found[use] = min(low, alpha), max(high, alpha)
    return found


@lru_cache(maxsize=4)
def variants(case: SchedulingCase) -> tuple[Variant, Variant]:
    """A case with both ways to break ties."""
    return Variant(case, last=False), Variant(case, last=True)


@lru_cache(maxsize=4)
def _optimum(case: SchedulingCase) -> tuple[Fraction, list[tuple[Placed, ...]]]:
    own = variants(case)[0]
    lengths = [{use: n * low for use, (low, _) in uses.items()} for uses, n in zip(own.alphas, own.true, strict=True)]
    return optimal_schedules(own.arrivals, lengths, own.free)
