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
from hetopt.proofs.ledger.pictures import Bar, Timeline
from hetopt.proofs.ledger.space import Numbers, Space, Table, whole

F = Fraction


@dataclass(frozen=True)
class Single:
    """What a machine does.

    Attributes
    ----------
    ends:
        When each job completes.
    bars:
        (job, start, end) of each time without interruption.
    """

    ends: tuple[Fraction, ...]
    bars: tuple[tuple[int, Fraction, Fraction], ...]

    @property
    def total(self) -> Fraction:
        """Sum of completion times."""
        return sum(self.ends, F(0))

    @property
    def order(self) -> list[int]:
        """Jobs as they complete; of those that complete at once the first."""
        return sorted(range(len(self.ends)), key=lambda i: (self.ends[i], i))

    def picture(self, title: str) -> Timeline:
        """The machine's one lane."""
        return Timeline(title, tuple(Bar("virtual machine", a, b, f"job{i + 1}") for i, a, b in self.bars))


def srpt(arrivals: Sequence[Fraction], sizes: Sequence[Fraction], *, slots: bool = False) -> Single:
    """Shortest remaining time first.

    Of jobs with equal time left the one that runs goes on, then the earlier arrival; what needs nothing is done as it
    arrives. With ``slots`` a slot of one second serves one job, to whose end the job stays; arrivals are whole.
    """
    left, time, running = dict(enumerate(sizes)), min(arrivals), -1
    ends, bars = dict[int, Fraction](), list[tuple[int, Fraction, Fraction]]()
    while left:
        there = [i for i in left if arrivals[i] <= time]
        later = [arrivals[i] for i in left if arrivals[i] > time]
        if not there:
            time = min(later)
            continue
        i = min(there, key=lambda i: (left[i] > 0, left[i], i != running, arrivals[i], i))
        until = time + (left[i] > 0) if slots else min([time + left[i], *later])
        left[i] = max(F(0), left[i] - (until - time))
        if until > time:
            bars.append((i, time, until))
        time, running = until, i
        if not left[i]:
            del left[i]
            ends[i] = time
    return Single(tuple(ends[i] for i in range(len(sizes))), tuple(bars))


class Announced(VirtualMachine):
    """A virtual machine whose completions are known beforehand.

    Parameters
    ----------
    ends:
        Job -> when it completes.
    """

    def __init__(self, ends: dict[str, Fraction]) -> None:
        super().__init__()
        self._coming = sorted(ends, key=lambda job: ends[job])
        self._ends = ends

    def arrive(self, time: Number, job: str, size: Number) -> None:
        """Nothing to do."""

    def completed(self, time: Number) -> list[str]:
        """Jobs that have completed by ``time`` since this was last asked."""
        done = [job for job in self._coming if self._ends[job] <= time]
        self._coming = self._coming[len(done) :]
        return done

    @property
    def next(self) -> Number:
        """When the next job completes."""
        return self._ends[self._coming[0]] if self._coming else float("inf")


# -- the optimum -----------------------------------------------------------------------------------------------------


Seconds = tuple[tuple[int, tuple[int, ...]], ...]
"""Pairs (second, jobs that run in it)."""


def best_seconds(
    arrivals: Sequence[int], sizes: Sequence[int], machines: int = 1, *, shortest: bool = False
) -> tuple[int, Seconds]:
    """The least sum of completion times over all ways to give each second of each machine to a job, and such a way.

    Numbers are whole, and a job is on one machine at a time. With ``shortest`` only those with the least left run, and
    all ways to settle ties are tried.
    """

    @cache
    def best(time: int, left: tuple[int, ...]) -> tuple[int, Seconds]:
        if not any(left):
            return 0, ()
        there = [i for i, n in enumerate(left) if n and arrivals[i] <= time]
        if not there:
            return best(time + 1, left)
        count = min(machines, len(there))
        least = sorted(left[i] for i in there)[:count]
        found = []
        for run in combinations(there, count):
            if not shortest or sorted(left[i] for i in run) == least:
                rest, later = best(time + 1, tuple(n - (i in run) for i, n in enumerate(left)))
                found.append((rest + (time + 1) * sum(left[i] == 1 for i in run), ((time, run), *later)))
        return min(found)

    return best(0, tuple(sizes))


def least_total(arrivals: Sequence[int], sizes: Sequence[int]) -> int:
    """The least sum of completion times on one machine."""
    return best_seconds(arrivals, sizes)[0]


def drawn_seconds(title: str, seconds: Seconds) -> Timeline:
    """Who runs when; machines are alike, so a job that goes on stays where it was."""
    bars, before = list[Bar](), dict[int, int]()
    for time, run in seconds:
        lanes = {i: before[i] for i in run if i in before}
        free = iter(n for n in range(len(run) + len(before)) if n not in lanes.values())
        lanes |= {i: next(free) for i in run if i not in lanes}
        bars += [Bar(f"machine{n + 1}", F(time), F(time + 1), f"job{i + 1}") for i, n in sorted(lanes.items())]
        before = lanes
    return Timeline(title, tuple(bars))


@dataclass(frozen=True)
class Preemptive:
    """Jobs of one GPU that may be interrupted.

    Attributes
    ----------
    arrivals, sizes:
        Whole seconds.
    machines:
        GPUs.
    """

    arrivals: tuple[int, ...]
    sizes: tuple[int, ...]
    machines: int = 1

    @property
    def instance(self) -> Instance:
        """As jobs of the library."""
        rows = enumerate(zip(self.arrivals, self.sizes, strict=True))
        jobs = tuple(Job(f"job{i + 1}", {"GPU": 1.0}, float(n), arrival=float(r)) for i, (r, n) in rows)
        return Instance(Cluster.of({"GPU": self.machines}), jobs=jobs)


def _preemptive(numbers: Numbers, machines: int = 1) -> Preemptive:
    return Preemptive(tuple(map(int, numbers.row("arrivals"))), tuple(map(int, numbers.row("sizes"))), machines)


ONE_MACHINE = Space(
    {"i": (1, 4)}, {"arrivals": Table(1, "i", whole(0, 6)), "sizes": Table(1, "i", whole(1, 5))}, _preemptive
)
"""Up to four jobs on one machine."""

TWO_MACHINES = Space(
    {"i": (1, 5)},
    {"arrivals": Table(1, "i", whole(0, 3)), "sizes": Table(1, "i", whole(1, 3))},
    partial(_preemptive, machines=2),
)
"""Up to five jobs on two machines."""


def whole_slot(time: Fraction) -> Fraction:
    """The first slot that begins at ``time`` or later."""
    return F(ceil(time))
