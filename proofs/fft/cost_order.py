"""Equations (3) and (6): whether shorter jobs and faster GPUs cost less, and the exact condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers, rationals

F = Fraction


def prefers_other_plan(case: RoundCase, words: str, slack: Fraction, expected: tuple[int, ...]) -> Finding:
    """Finding about the plan ``expected``; it refutes the claim only if the policy returns another plan."""
    planned = case.planned()
    pictures = (case.picture("FFT", planned), case.picture("the plan of the claim", expected))
    certificate = ("both costs in fractions", "the library's policy returns the same plan")
    return Finding(slack, words, certificate, pictures, decided=slack >= 0 or planned != expected)


def two_lengths(numbers: CaseNumbers) -> RoundCase:
    """Two jobs with these rounds and with equal demands and ages, and GPUs for one of them."""
    demand = int(numbers.one("demand"))
    gangs = tuple(RoundJob(demand, work, (F(1),)) for work in numbers.row("rounds"))
    return RoundCase(gangs, (demand,), int(numbers.one("age")))


@hypothesis("the first of the two jobs takes fewer rounds")
def first_is_shorter(case: RoundCase) -> bool:
    """On the only type."""
    short, long = (gang.rounds(0) for gang in case.gangs)
    return short < long


@hypothesis("both have the same demand and age, and there are GPUs of one type for one of them")
def alike(case: RoundCase) -> bool:
    """Both differ in their work only."""
    first, second = case.gangs
    return (first.demand, first.arrival) == (second.demand, second.arrival) and case.gpus == (first.demand,)


@hypothesis(r"no job has a compensation, $\rho_j = 0$")
def uncompensated(case: RoundCase) -> bool:
    """As in equation (3)."""
    return not any(case.rho)


def shorter(case: RoundCase) -> Fraction:
    """Cost of the longer job minus the cost of the shorter job."""
    return case.cost(1, 0) - case.cost(0, 0)


def shorter_first(case: RoundCase) -> Finding:
    """Whether the shorter of two jobs costs less."""
    short, long = (number_text(gang.work) for gang in case.gangs)
    words = (
        f"at age {case.time} the job of {short} rounds costs {number_text(case.cost(0, 0))} and the job of {long} "
        f"rounds {number_text(case.cost(1, 0))}: FFT runs the longer job"
    )
    return prefers_other_plan(case, words, shorter(case), (0, WAITS))


def two_types(numbers: CaseNumbers) -> RoundCase:
    """A single job with these rounds on two types, with enough GPUs of both."""
    slow, fast = numbers.row("rounds")
    demand = int(numbers.one("demand"))
    return RoundCase((RoundJob(demand, slow, (F(1), slow / fast)),), (demand, demand), int(numbers.one("age")))


@hypothesis("a single job is present, with enough idle GPUs of two types, and the second type is faster for it")
def second_is_faster(case: RoundCase) -> bool:
    """The job takes fewer rounds on the second of two types."""
    (gang,) = case.gangs
    return len(gang.usable(case.gpus)) == 2 and gang.rounds(1) < gang.rounds(0)


def faster(case: RoundCase) -> Fraction:
    """Cost of the job on the slower type minus its cost on the faster type."""
    return case.cost(0, 0) - case.cost(0, 1)


def faster_first(case: RoundCase) -> Finding:
    """Whether a job costs less on the faster of two idle types."""
    slow, fast = (number_text(case.gangs[0].rounds(i)) for i in (0, 1))
    words = (
        f"at age {case.time} a job of {slow} rounds on GPU1 and {fast} on GPU2 costs {number_text(case.cost(0, 0))} "
        f"and {number_text(case.cost(0, 1))}: FFT runs it on the slower GPU1 while GPU2 is idle"
    )
    return prefers_other_plan(case, words, faster(case), (1,))


@dataclass(frozen=True)
class LengthPair:
    """Rounds p < q of two jobs with equal demand d, age a and compensation rho (in fractions of the job)."""

    few: Fraction
    many: Fraction
    demand: Fraction
    age: Fraction
    rho: Fraction

    @property
    def instance(self) -> Instance:
        """One job on a fast and a slow type."""
        gang = RoundJob(int(self.demand), F(1), (1 / self.few, 1 / self.many))
        return RoundCase((gang,), (gang.demand, gang.demand)).instance

    def cost(self, p: Fraction) -> Fraction:
        """Phi - rho theta with p rounds."""
        return self.age / p + self.demand * p - self.rho / p


def pair_of(numbers: CaseNumbers) -> LengthPair:
    """The pair of these numbers."""
    return LengthPair(*numbers.row("rounds"), *(numbers.one(name) for name in ("demand", "age", "rho")))


@hypothesis("$0 < p < q$ rounds and $d > 0$ GPUs")
def in_order(case: LengthPair) -> bool:
    """The first way takes fewer rounds."""
    return 0 < case.few < case.many and case.demand > 0


def _pairs(choose: ValueChooser, _: Mapping[str, int]) -> CaseNumbers:
    others = {name: choose(table.values) for name, table in EXACT.items() if name != "rounds"}
    few, more = (choose(rationals(1, 4, 2, 3)) for _ in range(2))
    return CaseNumbers.of(rounds=[few, few + more], **others)


def exactly(case: LengthPair) -> Finding:
    """Whether the difference of the costs has the sign of d p q - (a - rho)."""
    gap = case.cost(case.many) - case.cost(case.few)
    room = case.demand * case.few * case.many - (case.age - case.rho)
    same = (gap > 0) == (room > 0) and (gap < 0) == (room < 0)
    return Finding(F(0) if same else F(-1), f"the costs differ by {number_text(gap)}")


def difference() -> str:
    """Check in sympy that the difference of the costs is (q - p) (d p q - (a - rho)) / (p q)."""
    import sympy

    p, q, d, a, rho = sympy.symbols("p q d a rho", positive=True)
    gap = (a - rho) / q + d * q - (a - rho) / p - d * p
    expected = (q - p) * (d * p * q - (a - rho)) / (p * q)
    return "" if sympy.simplify(gap - expected) == 0 else f"it is {sympy.factor(gap)}"


LENGTHS = {
    "rounds": TableShape(1, 2, integers(1, 6)),
    "demand": TableShape(1, 1, integers(1, 3)),
    "age": TableShape(1, 1, integers(0, 40)),
}

EXACT = {
    "rounds": TableShape(1, 2, rationals(1, 8, 2, 3)),
    "demand": TableShape(1, 1, integers(1, 4)),
    "age": TableShape(1, 1, integers(0, 40)),
    "rho": TableShape(1, 1, rationals(0, 6, 2)),
}

PAIRS = Space({}, EXACT, pair_of, _pairs, (in_order,))

CLAIMS = (
    Claim(
        key="fft/eq-3-shorter",
        place="equation (3)",
        statement=r"The scheduler prioritises jobs with shorter processing time $W_j / \theta_j^i$ (of two jobs of "
        "equal age and demand).",
        quote=r"This formulation forces the scheduler to prioritize jobs with shorter processing time (i.e., $W_j / "
        r"\theta_j^i$)",
        procedure=ForAll(
            Space({}, LENGTHS, two_lengths, None, (first_is_shorter, alike, uncompensated)),
            shorter_first,
            slack=shorter,
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-3-order",
    ),
    Claim(
        key="fft/eq-3-faster",
        place="equation (3)",
        statement="A job of any age runs on the faster of two idle GPU types, where its processing time is shorter.",
        quote=r"This formulation forces the scheduler to prioritize jobs with shorter processing time (i.e., $W_j / "
        r"\theta_j^i$)",
        procedure=ForAll(
            Space({}, LENGTHS, two_types, None, (second_is_faster, uncompensated)), faster_first, slack=faster
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-3-order",
        note=r"`refuted/fft-slow-gpu` is a larger case. Both have $\rho_j = 0$, as in (3); `fft/eq-6-faster` is about "
        "a run with compensation.",
    ),
    Claim(
        key="fft/eq-3-order",
        place="equations (3), (4)",
        statement=r"Let a job on two types (or two jobs of equal demand $d$, age $a$ and compensation $\rho$, in "
        r"fractions of the job) take $p < q$ rounds. Then $p$ rounds cost less if and only if $a - \rho < d\, p\, q$, "
        r"and the same if and only if $a - \rho = d\, p\, q$; with $\theta / W$ for $\theta$ in (4), see "
        "`fft/units-normalised`.",
        procedure=ForAll(PAIRS, exactly),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The cost is $(a - \rho)/p + d p$. So
$$\Bigl(\frac{a - \rho}{q} + d q\Bigr) - \Bigl(\frac{a - \rho}{p} + d p\Bigr)
= \frac{q - p}{p q}\, \bigl(d p q - (a - \rho)\bigr),$$
and $q - p > 0$. Equation (3) is $\rho = 0$.""",
        mechanical=(by_sympy("the difference of the two costs", difference),),
        note=r"The age of a waiting job first increases faster than its compensation, since $\mu_j$ starts at 0. With "
        r"$\rho \ge a$ the faster type always costs less.",
    ),
)
