"""Problems P1, P2 and P3: whether they are equivalent, and weak duality."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.models.hadar.schedule_based import dual_bound
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotSchedule, case_of, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    hypothesis,
    integers,
    rationals,
)
from hetopt.proofs.small_programs import maximise_exactly

F = Fraction
Left = tuple[int, ...]
"""Work left of each job, in whole parts of a unit."""

SEARCHED = "optimum of P1 by enumeration of GPUs slot by slot, of P2 by enumeration of schedules"


# -- P1 --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def slotwise(case: SlotCase, *, admission: bool) -> Fraction | None:
    """The optimum of P1 by enumeration of GPUs slot by slot; None if P1 is infeasible.

    Parameters
    ----------
    admission:
        Whether jobs may be rejected; else all must finish, (1a) as printed.
    """
    unit = lcm(*(v.denominator for job in case.jobs for v in (job.work, *job.speed)))
    best: dict[Left, Fraction] = {tuple(int(job.work * unit) for job in case.jobs): F(0)}
    gangs = [[(int(v * unit), seats) for v, seats in case.gangs(j)] for j in range(len(case.jobs))]
    free = [c for _, _, c in case.cells]
    for t in range(case.slots):
        after: dict[Left, Fraction] = {}
        worth = [job.value(t) if job.arrival <= t else F(0) for job in case.jobs]
        for left, value in best.items():
            runnable = [
                [(0, ()), *(gangs[j] if job.arrival <= t and left[j] else ())] for j, job in enumerate(case.jobs)
            ]
            for work in set(_joint_work(runnable, free)):
                then = tuple(max(0, w - v) for w, v in zip(left, work, strict=True))
                total = value + sum(worth[j] for j, w in enumerate(then) if not w and left[j])
                if then not in after or total > after[then]:
                    after[then] = total
        best = after
    return max((value for left, value in best.items() if admission or not any(left)), default=None)


def _joint_work(gangs: list[list[tuple[int, tuple[tuple[int, int], ...]]]], free: list[int]) -> Iterator[Left]:
    """The possible work of all jobs in a slot with these free GPUs, from the possible gangs of each job."""
    if not gangs:
        yield ()
        return
    for speed, seats in gangs[0]:
        rest = list(free)
        for i, n in seats:
            rest[i] -= n
        if min(rest) >= 0:
            for others in _joint_work(gangs[1:], rest):
                yield (speed, *others)


def as_printed(case: SlotCase) -> Finding:
    """Compare P1, in which every job finishes, with P2."""
    return _compared(case, slotwise(case, admission=False), "P1")


def least_contribution(case: SlotCase) -> Fraction:
    """The optimum of P1 minus that of P2 without a job, as a part of the job's utility alone, for the job with least.

    Negative if P2 has a larger optimum, as it leaves out a job.
    """
    first = slotwise(case, admission=False)
    if first is None:
        return F(0)
    contributions = [F(1)]
    for j in range(len(case.jobs)):
        others, alone = (
            replace(case, jobs=jobs) for jobs in (case.jobs[:j] + case.jobs[j + 1 :], case.jobs[j : j + 1])
        )
        contributions.append((first - others.best[0]) / alone.best[0])
    return min(contributions)


def with_admission(case: SlotCase) -> Finding:
    """Compare P1 with the admission variable with P2."""
    return _compared(case, slotwise(case, admission=True), "P1 with admission")


def _compared(case: SlotCase, first: Fraction | None, name: str) -> Finding:
    second, chosen = case.best
    apart = F(1) if first is None else abs(first - second)
    has = "has no solution" if first is None else f"has the optimum {number_text(first)}"
    words = f"{name} {has}, P2 the optimum {number_text(second)}"
    return Finding(-apart, words, (SEARCHED,), (case.picture("optimum of P2", chosen),) if apart else ())


# -- P2 and P3 -------------------------------------------------------------------------------------------------------


def relaxed(case: SlotCase) -> Fraction:
    """The optimum of P2 without (2c)."""
    columns = [(j, s) for j, schedules in enumerate(case.schedules) for s in schedules]
    capacity = {(t, i): c for t in range(case.slots) for i, (_, _, c) in enumerate(case.cells)}
    rows = [([_gpus(s, *cell) for _, s in columns], c) for cell, c in capacity.items()]
    rows += [([int(i == j) for i, _ in columns], 1) for j in range(len(case.jobs))]
    return maximise_exactly([s.value for _, s in columns], rows).value


def dual(case: SlotCase) -> Fraction:
    """The optimum of P3, [Hadar, eq. 3 and 3a], as a separate program."""
    cells = [(t, i) for t in range(case.slots) for i in range(len(case.cells))]
    cost = [*(1 for _ in case.jobs), *(case.cells[i][2] for _, i in cells)]
    rows = [
        ([*(-int(i == j) for i in range(len(case.jobs))), *(-_gpus(s, *cell) for cell in cells)], -s.value)
        for j, schedules in enumerate(case.schedules)
        for s in schedules
    ]
    return -maximise_exactly([-v for v in cost], rows).value


def _gpus(schedule: SlotSchedule, slot: int, cell: int) -> int:
    """GPUs of the cell that the schedule uses in the slot."""
    return sum(n for t, i, n in schedule.uses if (t, i) == (slot, cell))


def strong(case: SlotCase) -> Finding:
    """Compare the optima of P3 and of the relaxation of P2."""
    above, below = dual(case), relaxed(case)
    words = f"P3 has the optimum {number_text(above)}, the relaxation of P2 {number_text(below)}"
    return Finding(-abs(above - below), words)


@dataclass(frozen=True)
class PricedCase:
    """A case, and a price per GPU of every cell (columns) in every slot (rows)."""

    case: SlotCase
    prices: tuple[tuple[Fraction, ...], ...]

    @property
    def instance(self) -> Instance:
        """The instance of the case."""
        return self.case.instance

    def payoff(self, schedule: SlotSchedule) -> Fraction:
        """phi_j(s) at these prices."""
        return schedule.value - sum(self.prices[t][i] * n for t, i, n in schedule.uses)


@hypothesis(r"prices are not negative, $k \ge 0$")
def not_negative(case: PricedCase) -> bool:
    """As (3a) requires."""
    return min(min(row) for row in case.prices) >= 0


def in_jobs(given: Hypothesis[SlotCase]) -> Hypothesis[PricedCase]:
    """A hypothesis about jobs and servers."""
    return Hypothesis(given.text, lambda priced: given(priced.case))


def priced_space(
    *hypotheses: Hypothesis[PricedCase],
    prices: Hypothesis[PricedCase] = not_negative,
    n: tuple[int, int] = (1, 3),
    h: tuple[int, int] = (1, 2),
    t: tuple[int, int] = (1, 2),
) -> Space[PricedCase]:
    """Cases on one or two servers at any prices that meet the hypothesis ``prices``."""
    tables = [f"price{server}" for server in range(h[1])]

    def build(numbers: CaseNumbers) -> PricedCase:
        case = replace(case_of(numbers), slots=len(numbers[tables[0]]))
        rows = zip(*(numbers[name] for name in tables), strict=True)
        return PricedCase(case, tuple(tuple(row[server][r] for server, r, _ in case.cells) for row in rows))

    base = slot_space(n=n, h=h, values={name: SMALL[name] for name in ("demand", "work", "fading", "speed")})
    shapes = {**base.tables, **{name: TableShape("t", "k", rationals(0, 3, 2)) for name in tables}}
    given = (*map(in_jobs, base.hypotheses), prices, *hypotheses)
    return Space({**base.sizes, "t": t}, shapes, build, hypotheses=given)


def weak(case: PricedCase) -> Finding:
    """Compare the library's dual objective at these prices, in fractions, with the optimum."""
    bound, _ = dual_bound(case.case.problem, np.array(case.prices, dtype=object))
    best, chosen = case.case.best
    words = f"the dual objective is {number_text(F(bound))}, the optimum {number_text(best)}"
    return Finding(F(bound) - best, words, (SEARCHED,), (case.case.picture("optimum", chosen),))


def least_payoffs(case: PricedCase) -> Finding:
    """Compare the payoffs of equation (4) with the least that (3a) allows at these prices, by a linear program."""
    payoffs = [[case.payoff(s) for s in schedules] for schedules in case.case.schedules]
    rows = [([-int(i == j) for i in range(len(payoffs))], -pays) for j, own in enumerate(payoffs) for pays in own]
    least = -maximise_exactly([-1] * len(payoffs), rows).value if rows else F(0)
    used = sum((max([F(0), *own]) for own in payoffs), F(0))
    return Finding(least - used, f"the payoffs sum up to {number_text(used)}, and to {number_text(least)} at least")


def less_by_other_payoffs() -> list[Any]:
    """For z3: a larger payoff of schedule n + 1 makes the maximum violate (3a), or not the least that (3a) allows.

    Schedules have the utilities U and the costs K; ``sum`` is that of the other jobs, which is at least ``least``.
    """
    from z3 import And, ForAll, Function, If, Implies, Ints, IntSort, Not, Or, Reals, RealSort

    (s, best, n), (most, mu, least, total) = Ints("s best n"), Reals("most mu least sum")
    worth, cost = (Function(name, IntSort(), RealSort()) for name in "UK")

    def allowed(value: Any, schedules: Any) -> Any:
        """(3a) and mu >= 0."""
        return And(value >= 0, ForAll(s, Implies(And(s >= 1, s <= schedules), value + cost(s) >= worth(s))))

    reached = Or(most == 0, And(best >= 1, best <= n, most == worth(best) - cost(best)))
    payoff = worth(n + 1) - cost(n + 1)
    raised = If(most < payoff, payoff, most)
    less = And(least <= total, allowed(mu, n + 1), total + mu < least + raised)
    return [n >= 0, allowed(most, n), reached, Or(Not(allowed(raised, n + 1)), less)]


@hypothesis("P1 has a solution: all jobs can finish")
def solvable(case: SlotCase) -> bool:
    """Within the slots."""
    return slotwise(case, admission=False) is not None


SMALL = {
    "worth": integers(1, 4),
    "demand": integers(1, 2),
    "work": integers(1, 2),
    "arrival": integers(0, 1),
    "fading": integers(0, 1),
    "speed": integers(0, 2),
    "slots": integers(1, 2),
}
ANY = slot_space(values=SMALL)

SAME = r"""
Let $w$ be feasible in P1 with the admission variable: a job is admitted, and then (1a), (1b), (1e) hold for it, or
has no GPUs. The slots and GPUs of an admitted job are a schedule of $\mathbb S_j$, whose last slot is $f_j$ by
(1c): set its $y_{js} = 1$ and all other $y$ to 0. Then (2b) holds, (2a) is (1d), whose sum over $s$ has one term per
admitted job, and both objectives are the sum of $\mathcal U_j(f_j - a_j)$ over the admitted jobs.
Conversely let $y$ be feasible in P2: by (2b) and (2c) a job has at most one $y_{js} = 1$. If it has one, set its
$w_{jh}^r(t) = w_{jh}^{rs}(t)$ and admit it; else reject it. This is the inverse of the first map. So feasible
solutions correspond one to one, with equal objectives."""

DUAL = r"""
Write the relaxation of P2 as $\max U y$, $A y \le c$, $B y \le 1$, $y \ge 0$; $y \le 1$ follows from (2b). The
columns of $A$ are the $w_{jh}^{rs}(t)$, and $B$ adds up the schedules of each job. Its dual is $\min c k + \sum_j
\mu_j$ subject to $A^T k + B^T \mu \ge U$, $k, \mu \ge 0$: row $(j, s)$ is (3a). Both are feasible ($y = 0$; $k = 0$
and $\mu_j = \max\{0, \max_s \mathcal U_{js}\}$) and bounded, so their optima are equal by strong duality."""

WEAK = r"""
At prices $k \ge 0$ the least $\mu_j$ that (3a) allows is $\mu_j = \max\{0, \max_s \phi_j(s)\}$, eq. (4). For
schedules $s_j$ of admitted jobs for which there are GPUs, $\sum_j \mathcal U_{j s_j} = \sum_j \phi_j(s_j) + \sum_j
\sum_{t,h,r} k_h^r(t) w_{jh}^{r s_j}(t) \le \sum_j \mu_j + \sum_{t,h,r} k_h^r(t) c_h^r$ by (2a)."""

CLAIMS = (
    Claim(
        key="hadar/p1-p2",
        place="section III-B",
        statement="P1 and P2 are equivalent: a feasible solution to one has a corresponding feasible solution to the "
        "other, with the same objective value; so they have the same optimum.",
        procedure=ForAll(ANY, as_printed),
        expected=ClaimVerdict.FALSE,
        instead="hadar/p1-p2-admission",
        quote="We can easily check that P1 and P2 are equivalent, since a feasible solution to one has a corresponding "
        "feasible solution to the other, with the same objective values.",
        note=r"By (1a) every job must finish in P1; in P2 it may be left out. $x_j(t)$ over an empty set is read as 0, "
        r"and $X_j$ as the speed of the gang.",
    ),
    Claim(
        key="hadar/p1-p2-solvable",
        place="section III-B",
        statement="Where P1 has a solution, so that all jobs can finish, it has the same optimum as P2.",
        procedure=ForAll(slot_space(solvable, h=(1, 1), values=SMALL), as_printed, least_contribution),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="hadar/p1-p2-admission",
        note="A job that must finish can block GPUs that a job of higher utility could use.",
    ),
    Claim(
        key="hadar/p1-p2-admission",
        place="section III-B",
        statement=r"P1 with a variable that admits jobs, so that (1a) requires only admitted jobs to finish, is "
        r"equivalent to P2: feasible solutions correspond one to one, with equal objectives.",
        procedure=ForAll(ANY, with_admission),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=SAME,
        note="In the cases the optima are compared. `hadar.TimeIndexed()` has this variable; "
        "`TimeIndexed(admission=False)` is as printed.",
    ),
    Claim(
        key="hadar/p3-dual",
        place="eq. (3)",
        statement="P3 is the dual of the relaxation of P2; their optima are equal.",
        procedure=ForAll(ANY, strong),
        expected=ClaimVerdict.TRUE,
        quote="we next solve Problem P2 based on the primal-dual framework [28], by relaxing its integer constraints "
        "(2c) and formulating its dual problem designated as P3 below",
        proof=DUAL,
    ),
    Claim(
        key="hadar/p3-bound",
        place="eq. (3), (4)",
        statement=r"At any prices $k \ge 0$, with $\mu_j = \max\{0, \max_s \phi_j(s)\}$, the objective of P3 is at "
        r"least the optimum of P2.",
        procedure=ForAll(priced_space(), weak),
        expected=ClaimVerdict.TRUE,
        policies=("hadar-commit",),
        quote=r"In this problem, $k_h^r(t)$ and $\mu_j$ are the dual variables associated with constraints (2a) and "
        "(2b).",
        proof=WEAK,
    ),
    Claim(
        key="hadar/eq-4-payoffs",
        place="eq. (4)",
        statement=r"At given prices the objective of P3 is least for $\mu_j = \max\{0, \max_s \phi_j(s)\}$.",
        procedure=ForAll(priced_space(), least_payoffs),
        expected=ClaimVerdict.TRUE,
        policies=("hadar-commit",),
        quote=r"To minimize the dual objective, $\mu_j^*$ should be expressed as $\mu_j^* = \max\{0, \max_{s \in "
        r"\mathbb{S}_j} \phi_j(s)\}$, based on its constraints.",
        proof=r"""
At given prices (3a) bounds each $\mu_j$ from below by 0 and by $\phi_j(s)$ for every schedule, and by nothing else. The
largest of these bounds meets them all, and any smaller $\mu_j$ violates one; the objective increases with $\mu_j$.""",
        mechanical=(
            by_z3("the largest payoff is the least that (3a) allows, one more schedule", less_by_other_payoffs),
        ),
    ),
)
