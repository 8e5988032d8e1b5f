"""One machine with preemption: shortest remaining time first in continuous time and in slots, and the true optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import ceil

from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.asrpt.non_preemptive import Number, VirtualMachine
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers

F = Fraction


@dataclass(frozen=True)
class MachineSchedule:
    """The schedule of a machine.

    Attributes
    ----------
    ends:
        Completion time of each job.
    bars:
        (job, start, end) of each uninterrupted period.
    """

    ends: tuple[Fraction, ...]
    bars: tuple[tuple[int, Fraction, Fraction], ...]

    @property
    def total(self) -> Fraction:
        """Sum of completion times."""
        return sum(self.ends, F(0))

    @property
    def order(self) -> list[int]:
        """Jobs in the order of completion; equal times in the order of the jobs."""
        return sorted(range(len(self.ends)), key=lambda i: (self.ends[i], i))

    def picture(self, title: str) -> Timeline:
        """Picture of the machine's schedule."""
        return Timeline(title, tuple(TimelineBar("virtual machine", a, b, f"job{i + 1}") for i, a, b in self.bars))


def srpt(arrivals: Sequence[Fraction], sizes: Sequence[Fraction], *, slots: bool = False) -> MachineSchedule:
    """The schedule by shortest remaining time first.

    Among jobs with equal remaining time the running one continues, else the first to arrive runs; jobs of size 0
    complete on arrival. With ``slots`` each slot of one second serves one job; arrivals are integers.
    """
    left, time, running = dict(enumerate(sizes)), min(arrivals), -1
    ends, bars = dict[int, Fraction](), list[tuple[int, Fraction, Fraction]]()
    while left:
        present = [i for i in left if arrivals[i] <= time]
        later = [arrivals[i] for i in left if arrivals[i] > time]
        if not present:
            time = min(later)
            continue
        i = min(present, key=lambda i: (left[i] > 0, left[i], i != running, arrivals[i], i))
        until = time + (left[i] > 0) if slots else min([time + left[i], *later])
        left[i] = max(F(0), left[i] - (until - time))
        if until > time:
            bars.append((i, time, until))
        time, running = until, i
        if not left[i]:
            del left[i]
            ends[i] = time
    return MachineSchedule(tuple(ends[i] for i in range(len(sizes))), tuple(bars))


class KnownCompletions(VirtualMachine):
    """A virtual machine with given completion times.

    Parameters
    ----------
    ends:
        Job -> completion time.
    """

    def __init__(self, ends: dict[str, Fraction]) -> None:
        super().__init__()
        self._pending = sorted(ends, key=lambda job: ends[job])
        self._ends = ends

    def arrive(self, time: Number, job: str, size: Number) -> None:
        """Do nothing: completion times are given."""

    def completed(self, time: Number) -> list[str]:
        """Jobs completed by ``time`` since the last call."""
        done = [job for job in self._pending if self._ends[job] <= time]
        self._pending = self._pending[len(done) :]
        return done

    @property
    def next(self) -> Number:
        """The next completion time."""
        return self._ends[self._pending[0]] if self._pending else float("inf")


# -- the optimum -----------------------------------------------------------------------------------------------------

JobsBySecond = tuple[tuple[int, tuple[int, ...]], ...]
"""Pairs (second, jobs that run in it)."""


def best_seconds(
    arrivals: Sequence[int], sizes: Sequence[int], machines: int = 1, *, shortest: bool = False
) -> tuple[int, JobsBySecond]:
    """The least sum of completion times over all assignments of machine seconds to jobs, and an optimal assignment.

    All numbers are integers, and a job runs on one machine at a time. With ``shortest`` only jobs with the shortest
    remaining time run, and all ways to break ties are tried.
    """

    @cache
    def best(time: int, left: tuple[int, ...]) -> tuple[int, JobsBySecond]:
        if not any(left):
            return 0, ()
        present = [i for i, n in enumerate(left) if n and arrivals[i] <= time]
        if not present:
            return best(time + 1, left)
        count = min(machines, len(present))
        least = sorted(left[i] for i in present)[:count]
        found = []
        for run in combinations(present, count):
            if not shortest or sorted(left[i] for i in run) == least:
                rest, later = best(time + 1, tuple(n - (i in run) for i, n in enumerate(left)))
                found.append((rest + (time + 1) * sum(left[i] == 1 for i in run), ((time, run), *later)))
        return min(found)

    return best(0, tuple(sizes))


def drawn_seconds(title: str, seconds: JobsBySecond) -> Timeline:
    """Picture of an assignment; a job that continues stays on its machine, as machines are equal."""
    bars, before = list[TimelineBar](), dict[int, int]()
    for time, run in seconds:
        rows = {i: before[i] for i in run if i in before}
        free = iter(n for n in range(len(run) + len(before)) if n not in rows.values())
        rows |= {i: next(free) for i in run if i not in rows}
        bars += [TimelineBar(f"machine{n + 1}", F(time), F(time + 1), f"job{i + 1}") for i, n in sorted(rows.items())]
        before = rows
    return Timeline(title, tuple(bars))


@dataclass(frozen=True)
class PreemptiveCase:
    """Jobs of one GPU that can be preempted.

    Attributes
    ----------
    arrivals, sizes:
        Integer seconds.
    machines:
        GPUs.
    """

    arrivals: tuple[int, ...]
    sizes: tuple[int, ...]
    machines: int = 1

    @property
    def instance(self) -> Instance:
        """The jobs as an instance of the library."""
        rows = enumerate(zip(self.arrivals, self.sizes, strict=True))
        jobs = tuple(Job(f"job{i + 1}", {"GPU": 1.0}, float(n), arrival=float(r)) for i, (r, n) in rows)
        return Instance(Cluster.of({"GPU": self.machines}), jobs=jobs)


def _preemptive(numbers: CaseNumbers, machines: int = 1) -> PreemptiveCase:
    return PreemptiveCase(tuple(map(int, numbers.row("arrivals"))), tuple(map(int, numbers.row("sizes"))), machines)


ONE_MACHINE = Space(
    {"i": (1, 4)},
    {"arrivals": TableShape(1, "i", integers(0, 6)), "sizes": TableShape(1, "i", integers(1, 5))},
    _preemptive,
    hypotheses=(Hypothesis("there is one machine", lambda case: case.machines == 1),),
)
"""Up to four jobs on one machine."""

TWO_MACHINES = Space(
    {"i": (1, 5)},
    {"arrivals": TableShape(1, "i", integers(0, 3)), "sizes": TableShape(1, "i", integers(1, 3))},
    partial(_preemptive, machines=2),
    hypotheses=(
        Hypothesis("there are two machines, and a job runs on one at a time", lambda case: case.machines == 2),
    ),
)
"""Up to five jobs on two machines."""


def whole_slot(time: Fraction) -> Fraction:
    """The first slot that begins at ``time`` or later."""
    return F(ceil(time))
