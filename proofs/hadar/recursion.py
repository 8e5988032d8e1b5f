"""Algorithm 2: the recursion over take or skip, by the letter and as it is meant, without rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from hetopt.proofs.hadar.gangs import Chosen, Gangs, Planned
from hetopt.proofs.hadar.roots import Roots
from hetopt.proofs.hadar.tariffs import ZERO, Tariff, printed

F = Fraction
Used = tuple[int, ...]
"""GPUs in use of each cell."""


class Offer(NamedTuple):
    """What FIND_ALLOC returns: mu_j > 0, and pairs (cell, GPUs)."""

    payoff: Roots
    seats: tuple[tuple[int, int], ...]


Taken = tuple[tuple[int, Offer], ...]
"""Pairs (job, its GPUs), in the order in which they were taken."""


@dataclass
class Recursion:
    """[Hadar, Algorithm 2] in one round; communication costs nothing.

    Attributes
    ----------
    case:
        The jobs in the queue; their utility does not depend on their GPUs.
    tariff:
        The price function.
    states:
        Pairs (index, GPUs in use) that were looked at.
    """

    case: Gangs
    tariff: Tariff
    states: set[tuple[int, Used]] = field(default_factory=set)

    @classmethod
    def of(cls, case: Gangs) -> Recursion:
        """At printed prices."""
        return cls(case, printed(case))

    @property
    def none(self) -> Used:
        """No GPU is in use."""
        return (0,) * len(self.case.cells)

    def cost(self, offer: Offer, used: Used) -> Roots:
        """Price of these GPUs where so many are in use."""
        return sum((n * self.tariff.price(i, used[i]) for i, n in offer.seats), ZERO)

    def find_alloc(self, job: int, used: Used) -> Offer | None:
        """FIND_ALLOC: the cheapest gang, of equals the fastest (line 23), if it pays; else null."""
        found: tuple[Roots, Fraction, Offer] | None = None
        for speed, seats in self.case.gangs(job):
            if all(used[i] + n <= self.case.cells[i][2] for i, n in seats):
                cost = self.cost(Offer(ZERO, seats), used)
                if found is None or cost < found[0] or (cost == found[0] and speed > found[1]):
                    found = cost, speed, Offer(self.case.jobs[job].worth - cost, seats)
        return found[2] if found is not None and found[2].payoff > 0 else None

    def after(self, used: Used, offer: Offer) -> Used:
        """GPUs in use once these are taken as well."""
        more = list(used)
        for i, n in offer.seats:
            more[i] += n
        return tuple(more)

    def by_the_letter(self, index: int, taken: Taken, used: Used) -> Taken:
        """Lines 1 to 21: of both choices what costs less, at k^c (line 16) and k (line 17)."""
        self.states.add((index, used))
        if index >= len(self.case.jobs) or self._is_full(used):
            return taken
        offer = self.find_alloc(index, used)
        if offer is None:
            return taken
        after = self.after(used, offer)
        first = self.by_the_letter(index + 1, (*taken, (index, offer)), after)
        second = self.by_the_letter(index + 1, taken, used)
        cost_taken = sum((self.cost(own, after) for _, own in first), ZERO)
        cost_skipped = sum((self.cost(own, used) for _, own in second), ZERO)
        return first if cost_taken < cost_skipped else second

    def by_payoff(self, index: int, used: Used, *, goes_on: bool) -> tuple[Roots, Taken]:
        """The same with the sum of payoffs, utility less cost before the job is taken, to be made large.

        Parameters
        ----------
        goes_on:
            After null the next job is looked at; else the recursion ends there, lines 7 to 9.
        """
        if index >= len(self.case.jobs) or self._is_full(used):
            return ZERO, ()
        offer = self.find_alloc(index, used)
        if offer is None:
            return self.by_payoff(index + 1, used, goes_on=True) if goes_on else (ZERO, ())
        total, rest = self.by_payoff(index + 1, self.after(used, offer), goes_on=goes_on)
        first = total + offer.payoff, ((index, offer), *rest)
        second = self.by_payoff(index + 1, used, goes_on=goes_on)
        return first if first[0] >= second[0] else second

    def decisions(self) -> Iterator[tuple[Roots, Taken]]:
        """All sets of jobs, those of them that find GPUs being taken one after another: an enumeration."""
        for wanted in product((False, True), repeat=len(self.case.jobs)):
            total, taken, used = ZERO, list[tuple[int, Offer]](), self.none
            for job, wants in enumerate(wanted):
                if wants and (offer := self.find_alloc(job, used)) is not None:
                    total, used = total + offer.payoff, self.after(used, offer)
                    taken.append((job, offer))
            yield total, tuple(taken)

    def _is_full(self, used: Used) -> bool:
        return all(n == c for n, (_, _, c) in zip(used, self.case.cells, strict=True))

    def chosen(self, taken: Taken) -> Chosen:
        """As schedules, to be drawn."""
        own = dict(taken)
        return tuple(
            Planned(job.worth, tuple((0, i, n) for i, n in own[j].seats)) if j in own else None
            for j, job in enumerate(self.case.jobs)
        )
