"""One machine with preemption: shortest remaining time first in continuous time and in slots, and the true optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil

from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.asrpt.virtual_machine import Number, VirtualMachine
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


def least_total(arrivals: Sequence[int], sizes: Sequence[int]) -> int:
    """The least sum of completion times over all ways to give each second to a job; numbers are whole."""

    @cache
    def best(time: int, left: tuple[int, ...]) -> int:
        if not any(left):
            return 0
        there = [i for i, n in enumerate(left) if n and arrivals[i] <= time]
        if not there:
            return best(time + 1, left)
        after = [(left[i] == 1, (*left[:i], left[i] - 1, *left[i + 1 :])) for i in there]
        return min((time + 1 if done else 0) + best(time + 1, rest) for done, rest in after)

    return best(0, tuple(sizes))


@dataclass(frozen=True)
class Preemptive:
    """Jobs for one GPU that may be interrupted.

    Attributes
    ----------
    arrivals, sizes:
        Whole seconds.
    """

    arrivals: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def instance(self) -> Instance:
        """As jobs of the library."""
        rows = enumerate(zip(self.arrivals, self.sizes, strict=True))
        jobs = tuple(Job(f"job{i + 1}", {"GPU": 1.0}, float(n), arrival=float(r)) for i, (r, n) in rows)
        return Instance(Cluster.of({"GPU": 1}), jobs=jobs)


def _preemptive(numbers: Numbers) -> Preemptive:
    return Preemptive(tuple(map(int, numbers.row("arrivals"))), tuple(map(int, numbers.row("sizes"))))


ONE_MACHINE = Space(
    {"i": (1, 4)}, {"arrivals": Table(1, "i", whole(0, 6)), "sizes": Table(1, "i", whole(1, 5))}, _preemptive
)
"""Up to four jobs on one machine."""


def whole_slot(time: Fraction) -> Fraction:
    """The first slot that begins at ``time`` or later."""
    return F(ceil(time))
