"""Section 4.2.1: whether equation (2) bounds the completion time, and the jobs that its term prioritises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text, numbers_text
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers

F = Fraction


@dataclass(frozen=True)
class ServedJob:
    """A single job, from its arrival in round 0 to the round of its completion.

    Attributes
    ----------
    work:
        W.
    speeds:
        (L,) theta of its GPU type in each round, 0 if it waits; the last round completes W.
    """

    work: Fraction
    speeds: tuple[Fraction, ...]

    @cached_property
    def instance(self) -> Instance:
        """The job, and a GPU of each type that it uses."""
        kinds = tuple(dict.fromkeys(v for v in self.speeds if v))
        return RoundCase((RoundJob(1, self.work, kinds),), (1,) * len(kinds)).instance

    @property
    def completion(self) -> Fraction:
        """C as in the paper: rounds from arrival to completion."""
        return F(len(self.speeds) - 1)

    @property
    def done(self) -> tuple[Fraction, ...]:
        """Work done in each round; the last one does the remaining work."""
        before = sum(self.speeds[:-1], F(0))
        return (*self.speeds[:-1], self.work - before)

    def average(self, served: tuple[Fraction, ...]) -> Fraction:
        """[FFT, eq. 2] with ``served`` as the work of each round."""
        return sum((age * v for age, v in enumerate(served)), F(0)) / self.work

    @property
    def picture(self) -> Timeline:
        """Picture of the rounds in which the job runs."""
        steps = [(t, v) for t, v in enumerate(self.speeds) if v]
        end = len(self.speeds) - 1 + self.done[-1] / self.speeds[-1]
        bars = tuple(TimelineBar(f"{number_text(v)} per round", F(t), min(F(t + 1), end), "j1") for t, v in steps)
        return Timeline("the job", bars, "rounds")


@hypothesis(r"the job completes in the last round, $\sum_{t < L} < W_j \le \sum_{t \le L}$ of the work of rounds")
def completes_last(case: ServedJob) -> bool:
    """Its work is done in the last round, and not before."""
    return sum(case.speeds[:-1]) < case.work <= sum(case.speeds)


def _chosen(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    speeds = [choose(integers(0, 4)) for _ in range(sizes["rounds"] - 1)]
    last, before = choose(integers(1, 4)), sum(speeds, F(0))
    return CaseNumbers.of(work=before + choose(integers(1, int(last))), speed=[*speeds, last])


SERVICES = Space(
    {"rounds": (1, 6)},
    {"work": TableShape(1, 1, integers(1, 8)), "speed": TableShape(1, "rounds", integers(0, 4))},
    lambda numbers: ServedJob(numbers.one("work"), numbers.row("speed")),
    _chosen,
    (completes_last,),
)


def as_printed(case: ServedJob) -> Finding:
    """Whether equation (2) with the full theta in every round is a lower bound."""
    bound = case.average(case.speeds)
    words = (
        f"a job of work {number_text(case.work)} that does {numbers_text(case.speeds)} in rounds 0, 1, … is "
        f"complete in round {number_text(case.completion)}; equation (2) gives {number_text(bound)}"
    )
    return Finding(case.completion - bound, words, ("both sides in fractions",), (case.picture,))


def truncated(case: ServedJob) -> Finding:
    """Whether equation (2) with the remaining work in the last round is a lower bound, and the printed excess."""
    bound, more = case.average(case.done), (case.speeds[-1] - case.done[-1]) / case.work
    exact = case.average(case.speeds) == bound + case.completion * more
    return Finding(
        case.completion - bound if exact else F(-1),
        f"{number_text(bound)} for a completion in round {number_text(case.completion)}",
    )


def nearness(case: ServedJob) -> Fraction:
    """Quotient of the truncated bound and the completion time; 0 for a job that completes in its first round."""
    return case.average(case.done) / case.completion if case.completion else F(0)


# -- the term of one round -------------------------------------------------------------------------------------------


def two_ages(numbers: CaseNumbers) -> RoundCase:
    """Two jobs on one GPU with these rounds and ages."""
    ages = tuple(map(int, numbers.row("age")))
    rows = zip(numbers.row("rounds"), ages, strict=True)
    return RoundCase(tuple(RoundJob(1, p, (F(1),), max(ages) - age) for p, age in rows), (1,), max(ages))


@hypothesis("two jobs compete for one GPU, the first one is shorter")
def first_is_shorter(case: RoundCase) -> bool:
    """The first of two jobs takes fewer rounds."""
    short, long = (gang.rounds(0) for gang in case.gangs)
    return short < long


@hypothesis("both have the same age $t - a > 0$")
def equal_ages(case: RoundCase) -> bool:
    """Both arrived in the same round, before this one."""
    first, second = (gang.arrival for gang in case.gangs)
    return first == second < case.time


def by_age(case: RoundCase) -> Finding:
    """Whether the first term of [FFT, eq. 3] is at most as large for the longer job as for the shorter job."""
    short, long = ((case.time - gang.arrival) / gang.rounds(0) for gang in case.gangs)
    ages = [case.time - gang.arrival for gang in case.gangs]
    words = (
        f"jobs of {number_text(case.gangs[0].work)} and {number_text(case.gangs[1].work)} rounds and of ages "
        f"{ages[0]} and {ages[1]}: the terms are {number_text(short)} and {number_text(long)}, so the shorter job "
        "goes first"
    )
    return Finding(short - long, words, ("both terms in fractions",), (case.picture("least term", (0, -1)),))


def strictly(found: Finding) -> Finding:
    """The same finding, where equal terms fail, too."""
    return found if found.slack else replace(found, slack=F(-1))


def _equal_ages(choose: ValueChooser, _: Mapping[str, int]) -> CaseNumbers:
    short, age = choose(integers(1, 8)), choose(integers(1, 8))
    return CaseNumbers.of(rounds=[short, short + choose(integers(1, 8))], age=[age, age])


PAIR = {"rounds": TableShape(1, 2, integers(1, 8)), "age": TableShape(1, 2, integers(0, 8))}


CLAIMS = (
    Claim(
        key="fft/eq-2",
        place="equation (2)",
        statement=r"$\sum_{t \ge a_j} (t - a_j) \sum_i x_j^i(t)\, \theta_j^i / W_j$ is a lower bound of the completion "
        r"time $C_j = \min\{L : \sum_{t=a_j}^L \sum_i x_j^i(t)\, \theta_j^i \ge W_j\} - a_j$.",
        quote="As such, this approximation serves as a lower bound of the true JCT.",
        procedure=ForAll(SERVICES, as_printed),
        expected=ClaimVerdict.FALSE,
        policies=(),
        instead="fft/eq-2-truncated",
        note="By this definition a job that completes in the round of its arrival has $C_j = 0$. With the last round "
        "counted, $C_j + 1$, the sum is not a bound either.",
    ),
    Claim(
        key="fft/eq-2-truncated",
        place="equation (2)",
        statement="The sum is a lower bound if the last round counts only the remaining work $w$. As printed it is "
        r"larger by $C_j\,(\theta - w) / W_j$, with $\theta$ of that round.",
        procedure=ForAll(SERVICES, truncated, ratio=nearness),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=(),
        proof=r"""
Let $f_t$ be the fraction of the job done in round $t$, so $f_t \ge 0$ and $\sum_t f_t = 1$. Work is done in rounds $t
\le L$ only, so $\sum_t (t - a_j) f_t \le (L - a_j) \sum_t f_t = C_j$. Equality holds if all work is done in round $L$.
As printed, round $L$ counts $\theta / W_j$ instead of $w / W_j$, which adds $C_j\,(\theta - w) / W_j$.""",
    ),
    Claim(
        key="fft/age-term",
        place="section 4.2.1",
        statement=r"Minimising $\sum_j (t - a_j) \sum_i x_j^i(t)\, \theta_j^i / W_j$ in a round always gives "
        r"priority to jobs with large completion time $W_j / \theta_j^i$.",
        quote="However, simply solving this per-round minimization problem results in a poor schedule that always "
        r"gives scheduling priority to jobs with large completion time $W_j / \theta_j^i$.",
        procedure=ForAll(Space({}, PAIR, two_ages, None, (first_is_shorter,)), by_age),
        expected=ClaimVerdict.FALSE,
        policies=(),
        instead="fft/age-term-equal",
        note="The problem that equation (3) corrects.",
    ),
    Claim(
        key="fft/age-term-equal",
        place="section 4.2.1",
        statement=r"The term $(t - a_j)\, \theta_j^i / W_j$ gives priority to the job with the larger completion time "
        r"$W_j / \theta_j^i$ among jobs of equal age $t - a_j > 0$.",
        procedure=ForAll(
            Space({}, PAIR, two_ages, _equal_ages, (first_is_shorter, equal_ages)), lambda c: strictly(by_age(c))
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=(),
        proof=r"With $p_j = W_j / \theta_j^i$ the terms are $(t - a) / p_j$, decreasing in $p_j$ since $t - a > 0$.",
    ),
)
