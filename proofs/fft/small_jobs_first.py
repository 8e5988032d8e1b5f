"""Equation (3): whether smaller gangs and jobs with less remaining work have priority."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.cost_order import prefers_other_plan, uncompensated
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, just_arrived, round_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
    rationals,
)

F = Fraction


def two_demands(numbers: CaseNumbers) -> RoundCase:
    """Two gangs of these demands with equal rounds and ages, on GPUs of one type."""
    gangs = tuple(RoundJob(int(demand), numbers.one("rounds"), (F(1),)) for demand in numbers.row("demand"))
    return RoundCase(gangs, (int(numbers.one("gpus")),), int(numbers.one("age")))


@hypothesis("of two jobs of equal age and processing time the first one demands fewer GPUs")
def first_is_smaller(case: RoundCase) -> bool:
    """Both differ in their demand only."""
    few, many = case.gangs
    return few.demand < many.demand and (few.rounds(0), few.arrival) == (many.rounds(0), many.arrival)


@hypothesis("each of them fits on the GPUs of the only type, both together do not")
def one_fits(case: RoundCase) -> bool:
    """GPUs for one of both."""
    demands = [gang.demand for gang in case.gangs]
    return max(demands) <= case.gpus[0] < sum(demands) and len(case.gpus) == 1


def _two_demands(choose: ValueChooser, _: Mapping[str, int]) -> CaseNumbers:
    few, more = choose(integers(1, 3)), choose(integers(1, 3))
    gpus = few + more + choose(integers(0, int(few) - 1))
    rounds, age = choose(rationals(1, 4, 2)), choose(integers(0, 9))
    return CaseNumbers.of(demand=[few, few + more], gpus=gpus, rounds=rounds, age=age)


def smaller_first(case: RoundCase) -> Finding:
    """Whether the plan of least cost that uses K* GPUs runs the smaller gang."""
    few, many = (gang.demand for gang in case.gangs)
    runs = (0, WAITS) in case.optima
    words = f"on {case.gpus[0]} GPUs FFT runs the gang of {many} instead of the gang of {few}, as it uses more GPUs"
    return prefers_other_plan(case, words, F(0) if runs else F(few - many), (0, WAITS))


def smaller_cost(case: RoundCase) -> Finding:
    """Whether the smaller gang costs less."""
    return Finding(case.cost(1, 0) - case.cost(0, 0), "the gang of fewer GPUs costs less")


@dataclass(frozen=True)
class NewcomerCase:
    """A job j1 that has run alone on the only GPU for some rounds when j2 arrives; one unit of work per round.

    j1 has no compensation, since it has done its fair share.
    """

    present: RoundCase
    done: int

    @property
    def instance(self) -> Instance:
        """The instance at the arrival of j2."""
        return self.present.instance.replace(done={"j1": float(self.done)}, held={"j1": {"GPU1": 1}})

    @property
    def left(self) -> Fraction:
        """Remaining rounds of j1."""
        return self.present.gangs[0].work - self.done


def newcomers(numbers: CaseNumbers) -> NewcomerCase:
    """A job j1 with this number of completed rounds when j2 arrives."""
    first, second = numbers.row("work")
    done = int(numbers.one("done"))
    gangs = (RoundJob(1, first, (F(1),)), RoundJob(1, second, (F(1),), done))
    return NewcomerCase(RoundCase(gangs, (1,), done), done)


ALONE = Hypothesis[NewcomerCase](
    r"$j_1$ has run alone on the only GPU, so that $\rho_1 = 0$, until $j_2$ arrives; both demand one GPU"
)


@hypothesis("$j_1$ is not complete, and less of its work is left than $j_2$ has")
def less_is_left(case: NewcomerCase) -> bool:
    """The shortest remaining service first runs j1."""
    return 0 < case.left < case.present.gangs[1].work


def remaining_first(case: NewcomerCase) -> Finding:
    """Whether the job with the shortest remaining service costs least."""
    mine, theirs = case.present.cost(0, 0), case.present.cost(1, 0)
    words = (
        f"j1 has {number_text(case.left)} of {number_text(case.present.gangs[0].work)} rounds left when j2 arrives "
        f"with {number_text(case.present.gangs[1].work)} rounds; the costs are {number_text(mine)} and "
        f"{number_text(theirs)}: FFT preempts j1"
    )
    return prefers_other_plan(case.present, words, theirs - mine, (0, WAITS))


def by_service(case: RoundCase) -> Finding:
    """Whether at age 0 the costs of all jobs and types have the order of demand times rounds."""
    ways = [(j, i) for j, gang in enumerate(case.gangs) for i in gang.usable(case.gpus)]
    service = [case.gangs[j].demand * case.gangs[j].rounds(i) for j, i in ways]
    costs = [case.cost(j, i) for j, i in ways]
    both = list(zip(service, costs, strict=True))
    same = all((a < c) == (b < d) for a, b in both for c, d in both)
    return Finding(F(0) if same else F(-1), "costs and services have the same order")


def idle_plan_is_cheapest(case: RoundCase) -> Finding:
    """Whether every plan with a running job costs more than 0, [FFT, eq. 3]."""
    least = min((case.total(w) for w in case.packings if any(i != WAITS for i in w)), default=F(1))
    return Finding(least if least > 0 else F(-1), f"the least cost with some job running is {number_text(least)}")


def running_is_cheap() -> list[object]:
    """For z3: an age >= 0, a demand > 0 and a number of rounds > 0 whose cost is not positive."""
    import z3

    age, demand, p = z3.Reals("age demand p")
    return [age >= 0, demand > 0, p > 0, age / p + demand * p <= 0]


DEMANDS = {
    "demand": TableShape(1, 2, integers(1, 4)),
    "gpus": TableShape(1, 1, integers(1, 6)),
    "rounds": TableShape(1, 1, integers(1, 4)),
    "age": TableShape(1, 1, integers(0, 9)),
}

CLAIMS = (
    Claim(
        key="fft/eq-3-fewer",
        place="equation (3)",
        statement="The scheduler prioritises jobs with fewer GPUs $d_j$ (of two jobs of equal age and processing "
        "time).",
        quote="This formulation forces the scheduler to prioritize jobs with … fewer GPUs resources (i.e., $d_j$)",
        procedure=ForAll(
            Space({}, DEMANDS, two_demands, None, (first_is_smaller, one_fits, uncompensated)),
            smaller_first,
            slack=lambda case: F(0) if (0, WAITS) in case.optima else F(-1),
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-3-fewer-cost",
        note="The constraint (7) precedes the cost.",
    ),
    Claim(
        key="fft/eq-3-fewer-cost",
        place="equation (3)",
        statement="Of two jobs of equal age and processing time the job with fewer GPUs costs less.",
        procedure=ForAll(
            Space(
                {},
                DEMANDS | {"rounds": TableShape(1, 1, rationals(1, 4, 2))},
                two_demands,
                _two_demands,
                (first_is_smaller, uncompensated),
            ),
            smaller_cost,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"The cost $a / p + d p$ increases by $p > 0$ with each GPU.",
    ),
    Claim(
        key="fft/eq-3-srsf",
        place="equation (3)",
        statement="The scheduler behaves as the shortest remaining service first: of two jobs on one GPU it runs the "
        "one with less work left.",
        quote="making the scheduler behaves similarly to SRSF (shortest remaining-service-time first)",
        procedure=ForAll(
            Space(
                {},
                {"work": TableShape(1, 2, integers(1, 6)), "done": TableShape(1, 1, integers(1, 5))},
                newcomers,
                None,
                (ALONE, less_is_left),
            ),
            remaining_first,
            slack=lambda case: case.present.cost(1, 0) - case.present.cost(0, 0),
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-3-service",
        note='The paper writes "similarly to". The cost is that of the whole job, and its first term increases with '
        "age, so that a new job preempts an equal job that is almost complete.",
    ),
    Claim(
        key="fft/eq-3-service",
        place="equation (3)",
        statement=r"Of jobs that have just arrived, the job with the smallest total service $d_j W_j / \theta_j^i$ "
        "costs least.",
        procedure=ForAll(round_space(just_arrived, uncompensated, n=(2, 3)), by_service),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"With $t = a_j$ and $\rho_j = 0$ the cost is $d_j W_j / \theta_j^i$.",
    ),
    Claim(
        key="fft/eq-3-nobody",
        place="equation (3)",
        statement="Without the constraint (7), the only solution of (3) runs no job.",
        procedure=ForAll(round_space(uncompensated, n=(1, 3), ages=integers(0, 6)), idle_plan_is_cheapest),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"Every coefficient $(t - a_j)\theta_j^i / W_j + d_j W_j / \theta_j^i$ is positive, since $d_j > 0$, "
        r"$W_j > 0$ and $\theta_j^i > 0$: every job that runs adds to the cost.",
        mechanical=(by_z3("the cost of a job that runs is positive", running_is_cheap),),
        note="In (4) and (6) a job runs without (7) only where its compensation exceeds its cost.",
    ),
)
