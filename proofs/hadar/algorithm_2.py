"""Theorem 1 and Algorithm 2: the number of states of the recursion, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.exact_prices import ZERO, PriceFunction, printed_prices
from hetopt.proofs.hadar.radicals import RadicalSum, rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import ChosenSchedules, SlotCase, SlotJob, SlotSchedule, positive, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import hypothesis, integers

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
    prices:
        The price function.
    states:
        Visited pairs (index, GPUs in use).
    """

    case: SlotCase
    prices: PriceFunction
    states: set[tuple[int, Used]] = field(default_factory=set)

    @classmethod
    def of(cls, case: SlotCase) -> TakeOrSkip:
        """At printed prices."""
        return cls(case, printed_prices(case))

    @property
    def idle(self) -> Used:
        """GPUs in use on empty servers."""
        return (0,) * len(self.case.cells)

    def cost(self, offer: BestGang, used: Used) -> RadicalSum:
        """Price of these GPUs with ``used`` GPUs in use."""
        return sum((n * self.prices.price(i, used[i]) for i, n in offer.seats), ZERO)

    def find_alloc(self, job: int, used: Used) -> BestGang | None:
        """FIND_ALLOC: the cheapest gang, ties by speed (line 23), if its payoff is positive; else None."""
        found: tuple[RadicalSum, Fraction, BestGang] | None = None
        for speed, seats in self.case.gangs(job):
            if all(used[i] + n <= self.case.cells[i][2] for i, n in seats):
                cost = self.cost(BestGang(ZERO, seats), used)
                if found is None or cost < found[0] or (cost == found[0] and speed > found[1]):
                    found = cost, speed, BestGang(self.case.jobs[job].worth - cost, seats)
        return found[2] if found is not None and found[2].payoff > 0 else None

    def after(self, used: Used, offer: BestGang) -> Used:
        """GPUs in use after these are taken."""
        after = list(used)
        for i, n in offer.seats:
            after[i] += n
        return tuple(after)

    def as_printed(self, index: int, taken: Taken, used: Used) -> Taken:
        """Lines 1 to 21 as printed: the cheaper choice, at prices k^c (line 16) and k (line 17)."""
        self.states.add((index, used))
        if index >= len(self.case.jobs) or self._is_full(used):
            return taken
        offer = self.find_alloc(index, used)
        if offer is None:
            return taken
        after = self.after(used, offer)
        first = self.as_printed(index + 1, (*taken, (index, offer)), after)
        second = self.as_printed(index + 1, taken, used)
        cost_taken = sum((self.cost(gang, after) for _, gang in first), ZERO)
        cost_skipped = sum((self.cost(gang, used) for _, gang in second), ZERO)
        return first if cost_taken < cost_skipped else second

    def by_payoff(self, index: int, used: Used, *, skip_unplaced: bool) -> tuple[RadicalSum, Taken]:
        """The recursion that maximises the sum of payoffs: utilities less costs at prices before the job is taken.

        Parameters
        ----------
        skip_unplaced:
            Whether the recursion continues after a job that finds no GPUs; else it ends there, lines 7 to 9.
        """
        if index >= len(self.case.jobs) or self._is_full(used):
            return ZERO, ()
        offer = self.find_alloc(index, used)
        if offer is None:
            return self.by_payoff(index + 1, used, skip_unplaced=True) if skip_unplaced else (ZERO, ())
        total, rest = self.by_payoff(index + 1, self.after(used, offer), skip_unplaced=skip_unplaced)
        first = total + offer.payoff, ((index, offer), *rest)
        second = self.by_payoff(index + 1, used, skip_unplaced=skip_unplaced)
        return first if first[0] >= second[0] else second

    def decisions(self) -> Iterator[tuple[RadicalSum, Taken]]:
        """For every set of jobs: the sum of payoffs and the GPUs taken, where jobs that find GPUs take them in turn."""
        for selection in product((False, True), repeat=len(self.case.jobs)):
            total, taken, used = ZERO, list[tuple[int, BestGang]](), self.idle
            for job, selected in enumerate(selection):
                if selected and (offer := self.find_alloc(job, used)) is not None:
                    total, used = total + offer.payoff, self.after(used, offer)
                    taken.append((job, offer))
            yield total, tuple(taken)

    def best_allocation(self, index: int, used: Used, *, cheapest: bool) -> tuple[RadicalSum, Taken]:
        """The largest sum of payoffs of the jobs from ``index`` on, each with free GPUs or none, and these GPUs.

        Parameters
        ----------
        cheapest:
            Whether a job may only take what FIND_ALLOC may give it, with any way to break ties; else any gang.
        """
        if index >= len(self.case.jobs):
            return ZERO, ()
        gangs = [
            (self.cost(BestGang(ZERO, seats), used), -speed, seats)
            for speed, seats in self.case.gangs(index)
            if all(used[i] + n <= self.case.cells[i][2] for i, n in seats)
        ]
        least = min((gang[:2] for gang in gangs), default=None)
        found = self.best_allocation(index + 1, used, cheapest=cheapest)
        for cost, slowness, seats in gangs:
            if not cheapest or (cost, slowness) == least:
                gang = BestGang(self.case.jobs[index].worth - cost, seats)
                total, rest = self.best_allocation(index + 1, self.after(used, gang), cheapest=cheapest)
                if total + gang.payoff > found[0]:
                    found = total + gang.payoff, ((index, gang), *rest)
        return found

    def _is_full(self, used: Used) -> bool:
        return all(n == c for n, (_, _, c) in zip(used, self.case.cells, strict=True))

    def chosen(self, taken: Taken) -> ChosenSchedules:
        """The decisions as schedules, for pictures."""
        gangs = dict(taken)
        return tuple(
            SlotSchedule(job.worth, tuple((0, i, n) for i, n in gangs[j].seats)) if j in gangs else None
            for j, job in enumerate(self.case.jobs)
        )


# -- Theorem 1 -------------------------------------------------------------------------------------------------------


def own_types(n: int) -> SlotCase:
    """Jobs that each need the only GPU of a separate type, on a separate server."""
    rows = [tuple(int(i == j) for i in range(n)) for j in range(n)]
    return SlotCase(tuple(SlotJob(1, F(1), tuple(map(F, row)), 0, F(1), False) for row in rows), tuple(rows), 1)


def states(case: SlotCase) -> int:
    """Number of states that Algorithm 2 visits."""
    recursion = TakeOrSkip.of(case)
    recursion.as_printed(0, (), recursion.idle)
    return len(recursion.states)


def few_states(case: SlotCase) -> Finding:
    """Compare the number of states with min(2^i, product of c + 1) for each i."""
    combinations = prod(c + 1 for _, _, c in case.cells)
    most, visited = sum(min(2**i, combinations) for i in range(len(case.jobs) + 1)), states(case)
    return Finding(F(most - visited), f"{visited} states of at most {most}")


# -- Algorithm 2 -----------------------------------------------------------------------------------------------------


def printed_takes_some_job(case: SlotCase) -> Finding:
    """The number of jobs that the algorithm takes as printed, where some job has a positive payoff."""
    recursion = TakeOrSkip.of(case)
    taken = recursion.as_printed(0, (), recursion.idle)
    total, best = max(recursion.decisions(), key=lambda found: found[0])
    words = f"{len(taken)} jobs run; payoffs of {number_text(rounded_towards_zero(total))} are possible"
    pictures = (case.picture("largest sum of payoffs", recursion.chosen(best)),)
    return Finding(F(len(taken) or -1), words, ("the recursion, line by line",), pictures)


def printed_takes_no_job(case: SlotCase) -> Finding:
    """The algorithm as printed: fails if it takes a job."""
    recursion = TakeOrSkip.of(case)
    taken = recursion.as_printed(0, (), recursion.idle)
    return Finding(F(-len(taken)), f"{len(taken)} jobs run")


def best_decisions(case: SlotCase, *, skip_unplaced: bool) -> Finding:
    """Compare the recursion over payoffs with all decisions."""
    recursion = TakeOrSkip.of(case)
    total, taken = recursion.by_payoff(0, recursion.idle, skip_unplaced=skip_unplaced)
    best, other = max(recursion.decisions(), key=lambda found: found[0])
    words = (
        f"the sum of payoffs is {number_text(rounded_towards_zero(total))}, the largest "
        f"{number_text(rounded_towards_zero(best))}"
    )
    pictures = (
        case.picture("largest sum of payoffs", recursion.chosen(other)),
        case.picture("recursion", recursion.chosen(taken)),
    )
    return Finding(rounded_towards_zero(total - best), words, ("all take-or-skip decisions",), pictures)


def best_allocations(case: SlotCase) -> Finding:
    """Compare the recursion over payoffs, with any way to break ties, with all allocations of the GPUs to jobs."""
    recursion = TakeOrSkip.of(case)
    (total, taken), (best, other) = (
        recursion.best_allocation(0, recursion.idle, cheapest=cheapest) for cheapest in (True, False)
    )
    words = (
        f"the sum of payoffs is {number_text(rounded_towards_zero(total))}, the largest of all allocations "
        f"{number_text(rounded_towards_zero(best))}"
    )
    pictures = (
        case.picture("largest sum of payoffs", recursion.chosen(other)),
        case.picture("recursion", recursion.chosen(taken)),
    )
    return Finding(
        rounded_towards_zero(total - best), words, ("all gangs of all jobs", "all ways to break ties"), pictures
    )


@hypothesis("some job has a positive payoff on the empty servers")
def pays(case: SlotCase) -> bool:
    """Alone."""
    recursion = TakeOrSkip.of(case)
    return any(recursion.find_alloc(j, recursion.idle) for j in range(len(case.jobs)))


ROUND = {"gpus": integers(1, 3), "demand": integers(1, 2), "speed": integers(0, 2)}
ANY = slot_space(positive, n=(1, 4), values=ROUND)

SKIPS = r"""
A call returns the allocations in its argument. This holds where it ends in line 2 or 8. Else, by induction from the
last job on, line 14 returns its argument with job $j$ added, line 15 its argument. So $\mathrm{cost}^+_Q = \sum k^c (w
+ w_j)$ and $\mathrm{cost}^+_{Q/j} = \sum k w$; prices never fall when GPUs are taken, $k^c \ge k > 0$, and $w_j \ne
0$, so the first is larger, line 18 fails, and line 21 returns the argument. The argument of the first call is empty."""

CLAIMS = (
    Claim(
        key="hadar/thm-1",
        place="Theorem 1",
        statement=r"Algorithm 2 decides in polynomial time: its states, job ID and server state, are at most $n(Q) H "
        r"R$ combinations.",
        procedure=Growth(
            sizes=tuple(range(1, 13)),
            measure=lambda n: F(states(own_types(n)), n**3),
            formula="(2**(n + 1) - 1) / n**3",
            size="n",
            quantity="number of states over n(Q) H R",
            most=7,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed",),
        instead="hadar/thm-1-states",
        quote="Algorithm 2 can make scheduling decisions in polynomial time for a set of jobs in an execution round.",
        proof=r"""
Let each of $n$ jobs require the only GPU of a separate type, on a separate server: $H = R = n$. Every job has a
positive payoff in every state (its GPU is free, at $U_{\min} < \mathcal U_j$). Before job $i$ the servers of any subset
of the $i$ jobs before it may be in use, and each subset is a separate server state: $\sum_{i=0}^n 2^i = 2^{n+1} - 1$
states.""",
        note="Counted in the recursion as printed; saving results by (job ID, server state) does not help, since no "
        "state occurs twice.",
    ),
    Claim(
        key="hadar/thm-1-states",
        place="Theorem 1",
        statement=r"Algorithm 2 has at most $\sum_{i=0}^{n} \min\{2^i, \prod_{h,r} (c_h^r + 1)\}$ states for $n$ jobs: "
        r"for fixed servers their number is linear in $n$.",
        procedure=ForAll(ANY, few_states),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed", "hadar"),
        proof=r"""
The state of call $i$ is $(i, \gamma)$, where $\gamma$ follows from the decisions on the $i$ jobs before, of which
there are $2^i$, and has entries $0 \le \gamma_h^r \le c_h^r$.""",
        note="With results saved per state. The library uses exact search for few jobs, beam search for more, and a "
        "greedy search for many.",
    ),
    Claim(
        key="hadar/algorithm-2",
        place="Algorithm 2",
        statement="If a job has a positive payoff on the empty servers, Algorithm 2 returns allocations for some job.",
        procedure=ForAll(slot_space(positive, pays, n=(1, 4), values=ROUND), printed_takes_some_job),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed",),
        instead="hadar/algorithm-2-skips",
        quote="The set of jobs and the allocations with minimum cost is returned from the DP function call Lines "
        "16-21.",
        note="Lines 16 to 21 compare only costs, and skipping always costs less.",
    ),
    Claim(
        key="hadar/algorithm-2-skips",
        place="Algorithm 2",
        statement="As printed, Algorithm 2 runs no job, for all jobs, servers and prices > 0.",
        procedure=ForAll(ANY, printed_takes_no_job),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed",),
        proof=SKIPS,
        note="`hadar.printed(as_printed=True)`. `hadar-printed` compares payoffs instead.",
    ),
    Claim(
        key="hadar/line-8",
        place="Algorithm 2, line 8",
        statement=r"With payoffs compared, $\sum (\mathcal U_j - \mathrm{cost}_j)$, the recursion finds the best of "
        r"all decisions to take or skip jobs in their order, although it returns at the first job that finds no GPUs "
        r"(lines 7 to 9).",
        procedure=ForAll(
            slot_space(positive, n=(1, 4), h=(1, 1), k=(1, 1), values=ROUND),
            lambda c: best_decisions(c, skip_unplaced=False),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("hadar",),
        instead="hadar/algorithm-2-payoffs",
    ),
    Claim(
        key="hadar/algorithm-2-payoffs",
        place="Algorithm 2",
        statement="With payoffs compared, and null meaning that this job is skipped, the recursion finds the best of "
        "all decisions to take or skip.",
        procedure=ForAll(ANY, lambda c: best_decisions(c, skip_unplaced=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar",),
        proof=r"""
The value of a state $(i, \gamma)$, the largest sum of payoffs of jobs from $i$ on, depends on nothing else:
FIND_ALLOC depends only on the GPUs in use. So it is the maximum of the value of $(i + 1, \gamma)$ and, if job $i$ finds
GPUs with a positive payoff, $\mu_i$ plus the value of $(i + 1, \gamma + w_i)$; and it is 0 once no job or no GPU is
left. The recursion computes exactly this.""",
        note="`hadar.Exact()`.",
    ),
    Claim(
        key="hadar/optimal-decisions",
        place="section III-C",
        statement="Algorithm 2, with payoffs compared and null meaning that this job is skipped, finds optimal "
        "decisions for the jobs in the queue: the largest sum of payoffs of all allocations of the GPUs to them.",
        procedure=ForAll(slot_space(positive, n=(1, 2), values={"speed": integers(0, 2)}), best_allocations),
        expected=ClaimVerdict.FALSE,
        policies=("hadar",),
        instead="hadar/algorithm-2-payoffs",
        quote="we next present our algorithm (Algorithm 1), which generates optimal scheduling decisions for the "
        "jobs in the queue in each round-based scheduling event (Line 5).",
        note="FIND_ALLOC gives a job its cheapest GPUs, the fastest of them in ties, even if a later job can run on no "
        "others.",
    ),
)
