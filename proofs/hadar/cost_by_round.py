"""Schedules of least cost from rounds of least cost, equation (8), and gangs of least cost, FIND_ALLOC."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.problem_equivalence import PricedCase, in_jobs, not_negative, priced_space
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotJob, SlotSchedule, case_of, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll, Growth
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, hypothesis, integers, rationals

F = Fraction
SCHEDULES = "all schedules of the job"


# -- equation (8) ----------------------------------------------------------------------------------------------------


def cost_of(case: PricedCase, schedule: SlotSchedule) -> Fraction:
    """Cost of a schedule at the given prices."""
    return sum((case.prices[t][i] * n for t, i, n in schedule.uses), F(0))


def cheapest_gangs(case: PricedCase) -> list[Fraction]:
    """For each slot the cost of the cheapest gang of the job."""
    gangs = [seats for _, seats in case.case.gangs(0)]
    return [min(sum((row[i] * n for i, n in seats), F(0)) for seats in gangs) for row in case.prices]


def cheapest_in_each(case: PricedCase, schedule: SlotSchedule) -> bool:
    """Whether a schedule has a cheapest gang in every slot in which it runs."""
    cheapest = cheapest_gangs(case)
    return all(
        sum((case.prices[t][i] * n for _, i, n in uses), F(0)) == cheapest[t]
        for t, uses in groupby(schedule.uses, key=lambda use: use[0])
    )


def by_round(case: PricedCase) -> Finding:
    """Whether for every finish time some cheapest schedule has a cheapest gang in every round."""
    worst = Finding(F(0), "round by round the least cost is found")
    for last in range(case.case.slots):
        every = [s for s in case.case.schedules[0] if s.uses[-1][0] <= last]
        if not every:
            continue
        best = min(every, key=lambda s: cost_of(case, s))
        least = cost_of(case, best)
        greedy = [cost_of(case, s) for s in every if cheapest_in_each(case, s)]
        gap = min(greedy) - least if greedy else F(1)
        if -gap < worst.slack:
            has = f"cost {number_text(min(greedy))} at least" if greedy else "do not complete in time"
            words = f"with a cheapest gang in every round schedules {has}; the least cost is {number_text(least)}"
            worst = Finding(-gap, words, (SCHEDULES,), (case.case.picture("least cost", [best]),))
    return worst


def cheapest_rounds(case: PricedCase) -> Finding:
    """Compare the least cost for every finish time with the costs of the cheapest rounds, one for each unit of work."""
    job, cheapest = case.case.jobs[0], cheapest_gangs(case)
    rounds = -(-job.work // max(job.speed))
    apart = [F(0)]
    for last in range(case.case.slots):
        every = [cost_of(case, s) for s in case.case.schedules[0] if s.uses[-1][0] <= last]
        if every:
            apart.append(abs(min(every) - sum(sorted(cheapest[: last + 1])[:rounds], F(0))))
    slack = -max(apart)
    return Finding(min(slack, by_round(case).slack), f"at most {number_text(-slack)} from the cost of {rounds} rounds")


@hypothesis("all prices are positive, $k > 0$")
def positive_prices(case: PricedCase) -> bool:
    """As those of equation (5)."""
    return min(min(row) for row in case.prices) > 0


@hypothesis("all GPU types that can run the job are equally fast for it")
def equally_fast(case: PricedCase) -> bool:
    """For every job."""
    return all(len({v for v in job.speed if v}) == 1 for job in case.case.jobs)


# -- FIND_ALLOC ------------------------------------------------------------------------------------------------------


def pair_of_gpus(n: int) -> SlotCase:
    """One job of two GPUs, and n servers with one GPU each."""
    return SlotCase((SlotJob(2, F(1), (F(1),), 0, F(1), fading=False),), ((1,),) * n, 1)


def gang_space() -> Space[PricedCase]:
    """One job and servers with any price of every GPU type, in one slot."""

    def build(numbers: CaseNumbers) -> PricedCase:
        case = case_of(numbers)
        return PricedCase(case, (tuple(numbers["price"][h][r] for h, r, _ in case.cells),))

    base = slot_space(
        n=(1, 1), k=(1, 3), values={"demand": integers(1, 4), "speed": integers(0, 3), "gpus": integers(0, 2)}
    )
    tables = {**base.tables, "price": TableShape("h", "k", rationals(0, 3, 2))}
    return Space(base.sizes, tables, build, hypotheses=(*map(in_jobs, base.hypotheses), not_negative))


def by_sorting(case: PricedCase) -> Iterator[tuple[Fraction, Fraction | None]]:
    """For each speed the cost of the W cheapest GPUs of types that are at least as fast; None if there are too few."""
    job, (prices,) = case.case.jobs[0], case.prices
    for speed in sorted({v for v in job.speed if v}):
        each = [prices[i] for i, (_, r, c) in enumerate(case.case.cells) if job.speed[r] >= speed for _ in range(c)]
        yield speed, sum(sorted(each)[: job.gpus], F(0)) if len(each) >= job.gpus else None


def sorted_gangs(case: PricedCase) -> Finding:
    """Compare the cost by sorting with the least cost of all gangs whose slowest GPU has at least the speed."""
    (prices,), gangs = case.prices, case.case.gangs(0)
    apart = F(0)
    for speed, cost in by_sorting(case):
        costs = [sum((prices[i] * n for i, n in seats), F(0)) for v, seats in gangs if v >= speed]
        least = min(costs, default=None)
        missed = (cost is None) != (least is None)
        apart = max(apart, F(1) if missed else abs((cost or F(0)) - (least or F(0))))
    return Finding(-apart, f"at most {number_text(apart)} from the least cost of all gangs")


# -- what z3 checks --------------------------------------------------------------------------------------------------


def fewer_rounds() -> list[Any]:
    """For z3: fewer than ceil(w / x) = m rounds of x iterations complete work w."""
    from z3 import Ints, Reals

    (work, speed), (least, rounds) = Reals("w x"), Ints("m rounds")
    return [speed > 0, (least - 1) * speed < work, rounds * speed >= work, rounds < least]


def others_cost_less() -> list[Any]:
    """For z3: instead of ``few`` of the cheapest, each for at most ``price``, no fewer others cost less in total."""
    from z3 import Reals

    few, many, price, before, after = Reals("few many price before after")
    given = [many >= few, price >= 0, before <= few * price, after >= many * price]
    return [*given, after < before]


def slower_than_all() -> list[Any]:
    """For z3: the slowest of n GPUs has at least speed v but not all have, or the reverse."""
    from z3 import And, ForAll, Function, Implies, Ints, IntSort, Reals, RealSort

    (i, slowest, n), (v,), speed = Ints("i slowest n"), Reals("v"), Function("X", IntSort(), RealSort())

    def all_have(least: Any) -> Any:
        """All GPUs have at least this speed."""
        return ForAll(i, Implies(And(i >= 1, i <= n), speed(i) >= least))

    return [slowest >= 1, slowest <= n, all_have(speed(slowest)), (speed(slowest) >= v) != all_have(v)]


CHEAPEST = by_z3("others cost no less than the cheapest, any numbers and prices", others_cost_less)

EXCHANGE_ROUNDS = r"""
All gangs have the same speed $x$, so every schedule that completes runs in at least $m = \lceil E_j N_j / x \rceil$
rounds, whatever its gangs. Replace its gang in every round by a cheapest gang of the round: it completes as before, and
costs no more. Hence the least cost is the sum of the $m$ least costs of a round from $a_j$ to $f_j$."""

EXCHANGE_GPUS = r"""
The slowest GPU of a gang has at least speed $v$ if and only if all its GPUs are of types with $X_j^r \ge v$. Prices
are per GPU, so among the GPUs of these types any $W_j$ form such a gang, and its cost is the sum of their prices:
it is least for the $W_j$ cheapest. The speed of a gang is that of one of the $R$ types, and a gang of the same or a
higher speed completes no later; so one of these gangs has the largest payoff."""

CLAIMS = (
    Claim(
        key="hadar/eq-8",
        place="eq. (8)",
        statement="For a fixed finish time the cost is minimised round by round: some schedule of least cost that "
        "completes by then has a cheapest gang in every round in which it runs.",
        procedure=ForAll(priced_space(prices=positive_prices, n=(1, 1), h=(1, 1), t=(1, 3)), by_round),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed",),
        instead="hadar/eq-8-alike",
        quote=r"If we fix $f_j$, the optimization objective can be further transformed to $\min \sum_h \sum_r k_h^r(t) "
        r"w_{jh}^r(t)$, which can be interpreted as minimizing a cost function at each round.",
        note="A gang that costs more per round may be faster and so cost less in total, or be needed to complete in "
        "time.",
    ),
    Claim(
        key="hadar/eq-8-alike",
        place="eq. (8)",
        statement="If all GPU types that can run a job are equally fast for it, with $x$ iterations per round, the "
        r"least cost for a fixed $f_j$ is that of a cheapest gang in each of the $\lceil E_j N_j / x \rceil$ rounds "
        "where such a gang costs least.",
        procedure=ForAll(priced_space(equally_fast, n=(1, 1), t=(1, 3)), cheapest_rounds),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed",),
        proof=EXCHANGE_ROUNDS,
        mechanical=(by_z3("fewer rounds than ceil(w / x) do not complete w, all real numbers", fewer_rounds), CHEAPEST),
    ),
    Claim(
        key="hadar/find-alloc",
        place="proof of Theorem 1",
        statement=r"FIND_ALLOC lists the allocations of a job, on one server or on several (lines 24 and 25), in "
        r"$\mathcal O(H R)$; here $H$ servers with one GPU each, and a job of two.",
        procedure=Growth(
            sizes=(2, 4, 8, 16, 32),
            measure=lambda n: F(len(pair_of_gpus(n).gangs(0)), n),
            formula="(n - 1)/2",
            size="n",
            quantity="number of allocations over H R",
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-printed", "hadar"),
        instead="hadar/find-alloc-sorted",
        quote=r"For calculating allocation in both consolidated ($all\_alloc_{packed}$) and non-consolidated "
        r"($all\_alloc_{unpack}$) settings, all servers need to be iterated for each GPU type, resulting in a "
        r"complexity of $\mathcal{O}(HR)$.",
        proof=r"Any two of the $n$ GPUs are an allocation: $\binom n2$ of them, and $H R = n$.",
        note=r"For $W$ GPUs there are $\binom nW$. A cheapest one is found without the list.",
    ),
    Claim(
        key="hadar/find-alloc-sorted",
        place="proof of Theorem 1",
        statement=r"For every speed $v$, the $W_j$ cheapest free GPUs of types with $X_j^r \ge v$ are a cheapest gang "
        "whose slowest GPU has at least speed $v$; so without communication costs FIND_ALLOC needs only one sorted "
        "list of GPUs for each type.",
        procedure=ForAll(gang_space(), sorted_gangs),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-printed", "hadar"),
        proof=EXCHANGE_GPUS,
        mechanical=(by_z3("the slowest GPU has at least a speed if and only if all have", slower_than_all), CHEAPEST),
        note="The library searches in this way.",
    ),
)
