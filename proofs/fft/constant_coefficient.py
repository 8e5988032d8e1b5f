"""Section 4.2.2: a constant fairness coefficient, and no compensation at all, beside a stream of shorter jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.compensation import NORMALISED
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob
from hetopt.proofs.fft.round_sequences import PlayedRound, play_rounds, rounds_picture
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


@dataclass(frozen=True)
class StreamCase:
    """A long job j1 from round 0 on, and as many new jobs as GPUs in each round.

    Attributes
    ----------
    long:
        Rounds p of j1.
    short:
        (T,) rounds of the jobs that arrive in each of the T rounds.
    gpus:
        GPUs Y, of one type; every job demands one.
    mu:
        The constant coefficient.
    """

    long: Fraction
    short: tuple[Fraction, ...]
    gpus: int
    mu: Fraction

    @property
    def run(self) -> RoundCase:
        """All jobs."""
        new = tuple(RoundJob(1, q, (F(1),), t) for t, q in enumerate(self.short) for _ in range(self.gpus))
        return RoundCase((RoundJob(1, self.long, (F(1),)), *new), (self.gpus,))

    @property
    def instance(self) -> Instance:
        """All jobs, at time 0."""
        return self.run.instance

    @cached_property
    def steps(self) -> list[PlayedRound]:
        """The rounds of the stream."""
        return list(islice(play_rounds(self.run, self.mu), len(self.short)))


def _stream(numbers: CaseNumbers) -> StreamCase:
    return StreamCase(numbers.one("long"), numbers.row("short"), int(numbers.one("gpus")), numbers.one("mu"))


@hypothesis("in each round as many jobs arrive as there are GPUs, all shorter than $j$")
def shorter(case: StreamCase) -> bool:
    """Every new job takes fewer rounds."""
    return min(case.short) > 0 and max(case.short) < case.long


@hypothesis(r"$0 \le \mu_j \le W_j / \theta_j$, the rounds of $j$, at all times; no compensation at all is $\mu_j = 0$")
def small_coefficient(case: StreamCase) -> bool:
    """It is at most tau - a."""
    return 0 <= case.mu <= case.long


def _some(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    long = choose(rationals(1, 5, 2)[1:])
    short = [choose([v for v in rationals(1, 5, 2) if v < long]) for _ in range(sizes["rounds"])]
    mu = choose([v for v in rationals(0, 5, 2) if v <= long])
    return CaseNumbers.of(long=long, short=short, gpus=choose(integers(1, 2)), mu=mu)


STREAMS = Space(
    {"rounds": (1, 6)},
    {
        "long": TableShape(1, 1, rationals(1, 5, 2)),
        "short": TableShape(1, "rounds", rationals(1, 5, 2)),
        "gpus": TableShape(1, 1, integers(1, 2)),
        "mu": TableShape(1, 1, rationals(0, 5, 2)),
    },
    _stream,
    _some,
    (
        Hypothesis("every job demands one GPU, and all GPUs are of one type"),
        NORMALISED,
        shorter,
        small_coefficient,
    ),
)


def starves(case: StreamCase) -> Finding:
    """Whether j1 runs in no optimum of any round of the stream."""
    slack = F(case.long)
    for step in case.steps:
        now = step.round
        new = [j for j, gang in enumerate(now.gangs) if j and gang.arrival == now.time]
        gap = now.cost(0, 0) - max(now.cost(j, 0) for j in new)
        slack = min(slack, gap) if gap > 0 and all(where[0] == WAITS for where in now.optima) else F(-1)
        if slack < 0:
            break
    words = f"j1 costs at least {number_text(slack)} more than the new jobs" if slack > 0 else "j1 may run"
    return Finding(slack, words, pictures=(rounds_picture("FFT with a constant coefficient", case.steps),))


def compensation_exceeds_age() -> list[object]:
    """A compensation of at most the age s, and of more than s + 1 after a round of mu / (tau - a), mu <= tau - a."""
    import z3

    s, rho, mu, fair = z3.Reals("s rho mu fair")
    return [rho <= s, fair > 0, mu >= 0, mu <= fair, rho + mu / fair > s + 1]


def cheaper_than_new() -> list[object]:
    """A job of p > q rounds and rho <= s that costs no more than a new job of q rounds."""
    import z3

    s, rho, p, q = z3.Reals("s rho p q")
    return [rho <= s, q > 0, p > q, (s - rho) / p + p <= q]


CLAIMS = (
    Claim(
        key="fft/mu-constant",
        place="section 4.2.2",
        statement=r"With a constant fairness coefficient $\mu_j$, a job waits in every round in which shorter jobs "
        "arrive for all GPUs.",
        quote="if the fairness coefficient remains constant over time, larger jobs still have limited opportunities "
        "for scheduling when continuously incoming jobs with higher scheduling priority are present",
        procedure=ForAll(STREAMS, starves),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Let $p$ be the rounds of $j$, and $s$ its age. $\tau_j - a_j \ge p \ge \mu_j$ in every round, so while $j$ waits (5)
adds $\mu_j / (\tau_j - a_j) \le 1$ to $\rho_j$, and $\rho_j \le s$. So $j$ costs $\frac{s - \rho_j}p + p \ge p$, and a
new job of $q < p$ rounds costs $q$. $K^*$ is the number of GPUs. If $j$ ran, one of the new jobs would wait, and would
cost less in its place.""",
        mechanical=(
            by_z3("the compensation stays below the age", compensation_exceeds_age),
            by_z3("a new, shorter job costs less", cheaper_than_new),
        ),
        note=r"For $\mu_j = 0$, which is equation (3), this is the starvation of larger jobs that section 4.2.2 "
        r"starts from. A constant above $\tau_j - a_j$ lowers the cost in each round, so that $j$ runs at some time; "
        r"so does FFT's $\mu_j$, see `fft/thm-4.2-one-gpu-jobs`.",
    ),
)
