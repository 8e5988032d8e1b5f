"""Hadar's prices as printed and as proven, and the runs of Algorithm 1 at these prices, without rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import NamedTuple

from hetopt.proofs.hadar.radicals import RadicalSum, power
from hetopt.proofs.hadar.slot_cases import ChosenSchedules, SlotCase, SlotSchedule
from hetopt.proofs.ledger.space import hypothesis

F = Fraction
ZERO, ONE = RadicalSum(()), power(F(1), F(1))

EVERY_RUN = "all runs, with all ways to break ties between best schedules"
"""Certificate of findings about all runs."""


@dataclass(frozen=True)
class PriceFunction:
    """``k(g) = low (high / low) ** (g / ((1 - delta) c))`` per GPU and slot of a cell of c GPUs, [Hadar, eq. 5].

    Attributes
    ----------
    low, high:
        For each cell U_min and U_max.
    gpus:
        For each cell c.
    delta:
        Largest fraction of a cell that a gang may take; 0 as printed.
    """

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    gpus: tuple[int, ...]
    delta: Fraction = Fraction(0)

    @cached_property
    def _cache(self) -> dict[tuple[int, int], RadicalSum]:
        return {}

    def price(self, cell: int, used: int) -> RadicalSum:
        """Price k of a cell with ``used`` GPUs in use."""
        if (cell, used) not in self._cache:
            self._cache[cell, used] = self.low[cell] * self.growth(cell, used)
        return self._cache[cell, used]

    def growth(self, cell: int, step: int) -> RadicalSum:
        """Factor of the price when ``step`` more GPUs are in use."""
        return power(self.high[cell] / self.low[cell], F(step) / ((1 - self.delta) * self.gpus[cell]))

    @property
    def steepness(self) -> Fraction:
        """The largest U_max / U_min; a is its logarithm."""
        return max(high / low for low, high in zip(self.low, self.high, strict=True))

    def relation(self, cell: int, step: int) -> RadicalSum:
        """The least alpha for which a step of ``step`` GPUs meets the allocation-cost relation [Hadar, Definition 1].

        k (g' - g) >= c / alpha (k' - k) if and only if alpha >= c (k' / k - 1) / (g' - g).
        """
        return F(self.gpus[cell], step) * (self.growth(cell, step) - 1)


def printed_prices(case: SlotCase, at_least: Fraction | int = 0) -> PriceFunction:
    """[Hadar, eq. 6 and 7], read as :func:`hetopt.models.hadar.prices.printed_prices` reads them.

    M_j = W_j; w_j^r = W_j on types that can run the job; t_j^min and t_j^max are the times of the gang alone on
    its fastest and slowest type, t_j^max in slots; eta is the least value that the proof of [Hadar, Theorem 2] allows,
    or ``at_least`` if that is larger.
    """
    need = [ceil(job.work / min(v for v in job.speed if v)) * job.gpus for job in case.jobs]
    eta = max(F(case.gpus, min(need)), at_least)
    low = min(job.value(case.slots - 1) / n for n, job in zip(need, case.jobs, strict=True)) / (4 * eta)
    best = [job.worth / job.gpus for job in case.jobs]
    types = [r for _, r, _ in case.cells]
    high = [max((b for b, job in zip(best, case.jobs, strict=True) if job.speed[r]), default=max(best)) for r in types]
    return PriceFunction((low,) * len(types), tuple(max(low, v) for v in high), tuple(c for _, _, c in case.cells))


@hypothesis(r"no gang takes all GPUs of a cell, $\delta < 1$")
def less_than_a_cell(case: SlotCase) -> bool:
    """Then a price leaves GPUs of every cell to every job."""
    return largest_fraction(case) < 1


@hypothesis("some job can be completed with positive utility")
def some_utility(case: SlotCase) -> bool:
    """Alone on the cluster."""
    return bool(utilities_alone(case))


def largest_fraction(case: SlotCase) -> Fraction:
    """delta, the largest fraction of a cell that a gang may take."""
    return max(F(min(job.gpus, c), c) for _, r, c in case.cells for job in case.jobs if job.speed[r])


def utilities_alone(case: SlotCase) -> list[Fraction]:
    """U_j*, the utility of job j alone on the cluster, where it is positive."""
    alone = [max((s.value for s in own), default=F(0)) for own in case.schedules]
    return [value for value in alone if value > 0]


def proven_prices(case: SlotCase) -> PriceFunction:
    """U_max = max_j U_j*, U_min = min_j U_j* / (2 T sum c).

    Defined for cases with :data:`less_than_a_cell` and :data:`some_utility`.
    """
    alone, cells = utilities_alone(case), len(case.cells)
    low = min(alone) / (2 * case.slots * case.gpus)
    gpus = tuple(c for _, _, c in case.cells)
    return PriceFunction((low,) * cells, (max(alone),) * cells, gpus, largest_fraction(case))


class JobDecision(NamedTuple):
    """The decision for one job.

    Attributes
    ----------
    job:
        Its position.
    payoff:
        mu_j; 0 for a rejected job.
    taken:
        Its schedule, or None.
    used:
        GPUs in use before its arrival.
    """

    job: int
    payoff: RadicalSum
    taken: SlotSchedule | None
    used: tuple[int, ...]


@dataclass(frozen=True)
class PrimalDualRun:
    """One run of Algorithm 1 over all jobs; ties between best schedules lead to several runs.

    Attributes
    ----------
    case, prices:
        The case and the prices.
    steps:
        The decisions in the order of arrival.
    used:
        GPUs in use in the end, slot by slot and cell by cell.
    """

    case: SlotCase
    prices: PriceFunction
    steps: tuple[JobDecision, ...]
    used: tuple[int, ...]

    @property
    def utility(self) -> Fraction:
        """ALG = P_f."""
        return sum((step.taken.value for step in self.steps if step.taken), F(0))

    @property
    def chosen(self) -> ChosenSchedules:
        """For each job its schedule."""
        taken = {step.job: step.taken for step in self.steps}
        return tuple(taken[j] for j in range(len(self.case.jobs)))

    @property
    def initial(self) -> Fraction:
        """D_0, the value of all GPUs at their lowest price."""
        return self.case.slots * sum((k * c for k, c in zip(self.prices.low, self.prices.gpus, strict=True)), F(0))

    def growth(self, step: JobDecision) -> RadicalSum:
        """D_j - D_{j-1}."""
        cells, total = len(self.case.cells), step.payoff
        for t, i, n in step.taken.uses if step.taken else ():
            before = step.used[t * cells + i]
            total += self.prices.gpus[i] * (self.prices.price(i, before + n) - self.prices.price(i, before))
        return total

    @cached_property
    def dual(self) -> RadicalSum:
        """D_f."""
        return sum((self.growth(step) for step in self.steps), ZERO) + self.initial

    @property
    def is_feasible(self) -> bool:
        """Whether the final prices and payoffs meet (3a)."""
        return all(
            step.payoff >= payoff(self.case, self.prices, self.used, schedule)
            for step in self.steps
            for schedule in self.case.schedules[step.job]
        )

    @property
    def steps_taken(self) -> set[tuple[int, int]]:
        """Pairs (cell, GPUs) of all amounts taken at once."""
        return {(i, n) for step in self.steps if step.taken for _, i, n in step.taken.uses}

    @property
    def relation(self) -> RadicalSum:
        """The least alpha >= 1 with which the allocation-cost relation holds in every step."""
        return max([ONE, *(self.prices.relation(i, n) for i, n in self.steps_taken)])


def payoff(
    case: SlotCase, prices: PriceFunction, used: tuple[int, ...], schedule: SlotSchedule, *, after: bool = False
) -> RadicalSum:
    """phi_j(s) of a schedule at the prices before it is taken, or ``after``."""
    cells = len(case.cells)
    cost = ZERO
    for t, i, n in schedule.uses:
        cost += n * prices.price(i, used[t * cells + i] + (n if after else 0))
    return schedule.value - cost


def runs(
    case: SlotCase, prices: PriceFunction, *, check_capacity: bool = True, after: bool = False
) -> list[PrimalDualRun]:
    """All runs of Algorithm 1: each arriving job takes a schedule with the largest payoff, if it is positive.

    Runs that differ only in the order of equal cells are returned once.

    Parameters
    ----------
    check_capacity:
        Whether to check the capacity, [Hadar, eq. 8].
    after:
        Whether costs use the prices after the update, as in [Hadar, Algorithm 2, line 16].
    """
    found = [PrimalDualRun(case, prices, (), (0,) * (case.slots * len(case.cells)))]
    for j in case.order:
        distinct: dict[object, PrimalDualRun] = {}
        for run in found:
            for longer in _extended(run, j, check_capacity=check_capacity, after=after):
                key = longer.steps[-1].payoff, longer.utility, longer.dual, _pattern(longer)
                distinct.setdefault(key, longer)
        found = list(distinct.values())
    return found


def _extended(run: PrimalDualRun, j: int, *, check_capacity: bool, after: bool) -> Iterator[PrimalDualRun]:
    case, used = run.case, run.used
    schedules = [s for s in case.schedules[j] if not check_capacity or _fits(case, used, s)]
    payoffs = [payoff(case, run.prices, used, schedule, after=after) for schedule in schedules]
    most = max(payoffs, default=ZERO)
    if not most > 0:
        yield replace(run, steps=(*run.steps, JobDecision(j, ZERO, None, used)))
        return
    for schedule, pays in zip(schedules, payoffs, strict=True):
        if pays == most:
            decision = JobDecision(j, most, schedule, used)
            yield replace(run, steps=(*run.steps, decision), used=_used_after(case, used, schedule))


def _fits(case: SlotCase, used: tuple[int, ...], schedule: SlotSchedule) -> bool:
    cells = len(case.cells)
    return all(used[t * cells + i] + n <= case.cells[i][2] for t, i, n in schedule.uses)


def _used_after(case: SlotCase, used: tuple[int, ...], schedule: SlotSchedule) -> tuple[int, ...]:
    after = list(used)
    for t, i, n in schedule.uses:
        after[t * len(case.cells) + i] += n
    return tuple(after)


def _pattern(run: PrimalDualRun) -> tuple[object, ...]:
    """GPUs in use, independent of the order of equal cells."""
    cells = len(run.case.cells)
    return tuple(sorted((r, c, run.used[i::cells]) for i, (_, r, c) in enumerate(run.case.cells)))
