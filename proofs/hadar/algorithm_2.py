"""Theorem 1 and Algorithm 2: the number of states of the recursion, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

from hetopt.proofs.hadar.price_functions import ZERO, PriceFunction, printed_prices
from hetopt.proofs.hadar.radicals import RadicalSum, rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import ChosenSchedules, SlotCase, SlotJob, SlotSchedule, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding, fraction_text
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import integers

F = Fraction
Used = tuple[int, ...]
"""GPUs in use in each cell."""


class BestGang(NamedTuple):
    """Result of FIND_ALLOC: mu_j > 0, and pairs (cell, GPUs)."""

    payoff: RadicalSum
    seats: tuple[tuple[int, int], ...]


Taken = tuple[tuple[int, BestGang], ...]
"""Pairs (job, its GPUs), in the order in which they were taken."""


@dataclass
class TakeOrSkip:
    """The recursion over take or skip [Hadar, Algorithm 2] in one round, without communication costs.

    Attributes
    ----------
    case:
        The queued jobs; their utility does not depend on their GPUs.
    tariff:
        The price function.
    states:
        Visited pairs (index, GPUs in use).
    """

    case: SlotCase
    tariff: PriceFunction
    states: set[tuple[int, Used]] = field(default_factory=set)

    @classmethod
    def of(cls, case: SlotCase) -> TakeOrSkip:
        """At printed prices."""
        return cls(case, printed_prices(case))

    @property
    def none(self) -> Used:
        """No GPU is in use."""
        return (0,) * len(self.case.cells)

    def cost(self, offer: BestGang, used: Used) -> RadicalSum:
        """Price of these GPUs with ``used`` GPUs in use."""
        return sum((n * self.tariff.price(i, used[i]) for i, n in offer.seats), ZERO)

    def find_alloc(self, job: int, used: Used) -> BestGang | None:
        """FIND_ALLOC: the cheapest gang, of equal ones the fastest (line 23), if its payoff is positive; else None."""
        found: tuple[RadicalSum, Fraction, BestGang] | None = None
        for speed, seats in self.case.gangs(job):
            if all(used[i] + n <= self.case.cells[i][2] for i, n in seats):
                cost = self.cost(BestGang(ZERO, seats), used)
                if found is None or cost < found[0] or (cost == found[0] and speed > found[1]):
                    found = cost, speed, BestGang(self.case.jobs[job].worth - cost, seats)
        return found[2] if found is not None and found[2].payoff > 0 else None

    def after(self, used: Used, offer: BestGang) -> Used:
        """GPUs in use after these are taken."""
        more = list(used)
        for i, n in offer.seats:
            more[i] += n
        return tuple(more)

    def as_printed(self, index: int, taken: Taken, used: Used) -> Taken:
        """Lines 1 to 21 as printed: the cheaper of both choices, at k^c (line 16) and k (line 17)."""
        self.states.add((index, used))
        if index >= len(self.case.jobs) or self._is_full(used):
            return taken
        offer = self.find_alloc(index, used)
        if offer is None:
            return taken
        after = self.after(used, offer)
        first = self.as_printed(index + 1, (*taken, (index, offer)), after)
        second = self.as_printed(index + 1, taken, used)
        cost_taken = sum((self.cost(own, after) for _, own in first), ZERO)
        cost_skipped = sum((self.cost(own, used) for _, own in second), ZERO)
        return first if cost_taken < cost_skipped else second

    def by_payoff(self, index: int, used: Used, *, goes_on: bool) -> tuple[RadicalSum, Taken]:
        """The recursion that maximises the sum of payoffs, i.e. utility less cost before the job is taken.

        Parameters
        ----------
        goes_on:
            Whether the recursion continues with the next job after None; else it ends there, lines 7 to 9.
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

    def decisions(self) -> Iterator[tuple[RadicalSum, Taken]]:
        """Enumerate all sets of jobs; those that find GPUs are taken one after another."""
        for wanted in product((False, True), repeat=len(self.case.jobs)):
            total, taken, used = ZERO, list[tuple[int, BestGang]](), self.none
            for job, wants in enumerate(wanted):
                if wants and (offer := self.find_alloc(job, used)) is not None:
                    total, used = total + offer.payoff, self.after(used, offer)
                    taken.append((job, offer))
            yield total, tuple(taken)

    def _is_full(self, used: Used) -> bool:
        return all(n == c for n, (_, _, c) in zip(used, self.case.cells, strict=True))

    def chosen(self, taken: Taken) -> ChosenSchedules:
        """The decisions as schedules, for pictures."""
        own = dict(taken)
        return tuple(
            SlotSchedule(job.worth, tuple((0, i, n) for i, n in own[j].seats)) if j in own else None
            for j, job in enumerate(self.case.jobs)
        )


# -- Theorem 1 -------------------------------------------------------------------------------------------------------


def own_types(n: int) -> SlotCase:
    """Jobs that each need the only GPU of a separate type, on a separate server."""
    alone = [tuple(int(i == j) for i in range(n)) for j in range(n)]
    return SlotCase(tuple(SlotJob(1, F(1), tuple(map(F, row)), 0, F(1), False) for row in alone), tuple(alone), 1)


def states(case: SlotCase) -> int:
    """Number of states that Algorithm 2 visits."""
    recursion = TakeOrSkip.of(case)
    recursion.as_printed(0, (), recursion.none)
    return len(recursion.states)


def few_states(case: SlotCase) -> Finding:
    """Compare the number of states with min(2^i, product of c + 1) for each i."""
    room = prod(c + 1 for _, _, c in case.cells)
    most, seen = sum(min(2**i, room) for i in range(len(case.jobs) + 1)), states(case)
    return Finding(F(most - seen), f"{seen} states of at most {most}")


# -- Algorithm 2 -----------------------------------------------------------------------------------------------------


def letter_takes_some_job(case: SlotCase) -> Finding:
    """The algorithm as printed, if some job pays: how many jobs it takes."""
    recursion = TakeOrSkip.of(case)
    taken = recursion.as_printed(0, (), recursion.none)
    total, best = max(recursion.decisions(), key=lambda found: found[0])
    words = f"{len(taken)} jobs run; payoffs of {fraction_text(rounded_towards_zero(total))} are possible"
    pictures = (case.picture("largest sum of payoffs", recursion.chosen(best)),)
    return Finding(F(len(taken) or -1), words, ("the recursion, line by line",), pictures)


def letter_takes_no_job(case: SlotCase) -> Finding:
    """The algorithm as printed: fails if it takes a job."""
    recursion = TakeOrSkip.of(case)
    taken = recursion.as_printed(0, (), recursion.none)
    return Finding(F(-len(taken)), f"{len(taken)} jobs run")


def best_decisions(case: SlotCase, *, goes_on: bool) -> Finding:
    """Compare the recursion over payoffs with all decisions."""
    recursion = TakeOrSkip.of(case)
    total, taken = recursion.by_payoff(0, recursion.none, goes_on=goes_on)
    best, other = max(recursion.decisions(), key=lambda found: found[0])
    words = (
        f"the sum of payoffs is {fraction_text(rounded_towards_zero(total))}, the largest "
        f"{fraction_text(rounded_towards_zero(best))}"
    )
    pictures = (
        case.picture("largest sum of payoffs", recursion.chosen(other)),
        case.picture("recursion", recursion.chosen(taken)),
    )
    return Finding(rounded_towards_zero(total - best), words, ("all take-or-skip decisions",), pictures)


def pays(case: SlotCase) -> bool:
    """Whether some job has a positive payoff on the empty servers."""
    recursion = TakeOrSkip.of(case)
    return any(recursion.find_alloc(j, recursion.none) for j in range(len(case.jobs)))


ROUND = {"gpus": integers(1, 3), "demand": integers(1, 2), "speed": integers(0, 2)}
ANY = slot_space(n=(1, 4), values=ROUND)

SKIPS = r"""
A call returns the allocations that it was given. It does where it ends in line 2 or 8. Else, by induction from the
last job on, line 14 returns what it was given and the job, line 15 what it was given. So $\mathrm{cost}^+_Q = \sum
k^c (w + w_j)$ and $\mathrm{cost}^+_{Q/j} = \sum k w$; prices never fall when GPUs are taken, $k^c \ge k > 0$, and
$w_j \ne 0$, so the first is larger, line 18 fails, and line 21 returns what the call was given. The first call is
given nothing."""

CLAIMS = (
    Claim(
        key="hadar/thm-1",
        paper="Hadar",
        place="Theorem 1",
        statement=r"Algorithm 2 decides in polynomial time: its states, job ID and server state, are at most $n(Q) H "
        r"R$ combinations.",
        procedure=Growth(
            sizes=tuple(range(1, 13)),
            measure=lambda n: F(states(own_types(n)), n**3),
            formula=lambda n: F(2 ** (n + 1) - 1, n**3),
            formula_text=r"(2^(n+1) - 1) / n^3",
            size="jobs",
            quantity="number of states over n(Q) H R",
            most=7,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed",),
        instead="hadar/thm-1-states",
        proof=r"""
Let each of $n$ jobs want the only GPU of a separate type, on a separate server: $H = R = n$. Every job pays in every
state (its GPU is free, at $U_{\min} < \mathcal U_j$). Before job $i$ the servers of any subset of the $i$ jobs
before it may be in use, and each subset is a separate server state: $\sum_{i=0}^n 2^i = 2^{n+1} - 1$ states.""",
        note="Counted in the recursion as printed; saving results by (job ID, server state) does not help, since no "
        "state comes twice.",
    ),
    Claim(
        key="hadar/thm-1-states",
        paper="Hadar",
        place="Theorem 1",
        statement=r"Algorithm 2 has at most $\sum_{i=0}^{n} \min\{2^i, \prod_{h,r} (c_h^r + 1)\}$ states for $n$ jobs: "
        r"for given servers their number is linear in $n$.",
        procedure=ForAll(ANY, few_states),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed", "hadar"),
        proof=r"""
The state of call $i$ is $(i, \gamma)$, where $\gamma$ follows from the decisions on the $i$ jobs before, of which
there are $2^i$, and has entries $0 \le \gamma_h^r \le c_h^r$.""",
        note="With results saved per state. The library searches exactly for few jobs, by a beam for more, greedily "
        "for many.",
    ),
    Claim(
        key="hadar/algorithm-2",
        paper="Hadar",
        place="Algorithm 2",
        statement="Where a job pays on the empty servers, Algorithm 2 returns allocations for some job.",
        procedure=ForAll(slot_space(pays, n=(1, 4), values=ROUND), letter_takes_some_job),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed",),
        instead="hadar/algorithm-2-skips",
        note="Lines 16 to 21 compare costs alone, and skipping costs less.",
    ),
    Claim(
        key="hadar/algorithm-2-skips",
        paper="Hadar",
        place="Algorithm 2",
        statement="By the letter Algorithm 2 runs no job, whatever the jobs, servers and prices > 0.",
        procedure=ForAll(ANY, letter_takes_no_job),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed",),
        proof=SKIPS,
        note="`hadar.printed(as_printed=True)`. `hadar-printed` compares payoffs instead.",
    ),
    Claim(
        key="hadar/line-8",
        paper="Hadar",
        place="Algorithm 2, line 8",
        statement=r"With payoffs compared, $\sum (\mathcal U_j - \mathrm{cost}_j)$, the recursion finds the best of "
        r"all decisions to take or skip jobs in their order, although it returns at the first job that finds no GPUs "
        r"(lines 7 to 9).",
        procedure=ForAll(
            slot_space(n=(1, 4), h=(1, 1), k=(1, 1), values=ROUND), lambda c: best_decisions(c, goes_on=False)
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("hadar",),
        instead="hadar/algorithm-2-payoffs",
    ),
    Claim(
        key="hadar/algorithm-2-payoffs",
        paper="Hadar",
        place="Algorithm 2",
        statement="The same where null means to skip this job and go on with the next: the recursion finds the best of "
        "all decisions to take or skip.",
        procedure=ForAll(ANY, lambda c: best_decisions(c, goes_on=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar",),
        proof=r"""
The value of a state $(i, \gamma)$, the largest sum of payoffs of jobs from $i$ on, depends on nothing else:
FIND_ALLOC looks at the GPUs in use alone. So it is the larger one of that of $(i + 1, \gamma)$ and, if job $i$
finds GPUs that pay, of $\mu_i$ plus that of $(i + 1, \gamma + w_i)$; and it is 0 once no job or no GPU is left.
That is what the recursion computes.""",
        note="`hadar.Exact()`.",
    ),
)
