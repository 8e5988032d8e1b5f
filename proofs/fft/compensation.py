"""Section 4.2.2, equation (5): in which rounds rho increases and decreases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, runs_picture
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)

F = Fraction


def fair_rounds(gang: RoundJob, present: int, gpus: tuple[int, ...]) -> Fraction:
    """Tau - a as in the library: p max(1, d |A| / sum(Y)), with p the rounds on the fastest type."""
    return gang.fewest_rounds(gpus) * max(F(1), F(gang.demand * present, sum(gpus)))


def owed_after(rho: Fraction, age: int, fair: Fraction, done: Fraction) -> Fraction:
    """[FFT, eq. 5] in fractions of the job: rho after a round at this age, with tau - a = ``fair``."""
    return max(F(0), rho + age / fair * (1 / fair - done))


@dataclass(frozen=True)
class JobHistory:
    """A job among equal jobs, all present from round 0, and its GPU types in the rounds since then.

    Attributes
    ----------
    gang, gpus:
        The job, and the cluster.
    present:
        Jobs |A| in all rounds.
    served:
        Position of its GPU type in each round, -1 if it waits; the job is incomplete after the last round.
    """

    gang: RoundJob
    gpus: tuple[int, ...]
    present: int
    served: tuple[int, ...]

    @cached_property
    def instance(self) -> Instance:
        """The instance at time 0."""
        return RoundCase((self.gang,) * self.present, self.gpus).instance

    @property
    def fair(self) -> Fraction:
        """Tau - a, in rounds."""
        return fair_rounds(self.gang, self.present, self.gpus)

    @cached_property
    def done(self) -> tuple[Fraction, ...]:
        """Fraction of the job done in each round."""
        return tuple(F(0) if i == WAITS else 1 / self.gang.rounds(i) for i in self.served)

    @cached_property
    def rho(self) -> tuple[Fraction, ...]:
        """Rho in each round, and after the last round."""
        found = [F(0)]
        for age, done in enumerate(self.done):
            found.append(owed_after(found[-1], age, self.fair, done))
        return tuple(found)

    @property
    def steps(self) -> list[tuple[int, Fraction, Fraction, Fraction]]:
        """(age, fraction done, rho before, rho after) of each round."""
        return [(t, done, *pair) for (t, done), pair in zip(enumerate(self.done), pairwise(self.rho), strict=True)]

    @property
    def picture(self) -> Timeline:
        """Picture of the rounds in which the job runs."""
        return runs_picture("the job", ((t, 0, i) for t, i in enumerate(self.served)))


def _history(numbers: CaseNumbers) -> JobHistory:
    gpus, speed = tuple(map(int, numbers.row("gpus"))), numbers.row("speed")
    gang = RoundJob(int(numbers.one("demand")), numbers.one("work"), speed)
    served = tuple(int(i) - 1 for i in numbers.row("served"))
    return JobHistory(gang, gpus, int(numbers.one("jobs")), served)


@hypothesis(r"the job can run on some type, $\theta_j^i > 0$ and $d_j \le Y_i$, and runs on such types only")
def on_usable_types(case: JobHistory) -> bool:
    """Every round of service does work."""
    usable = case.gang.usable(case.gpus)
    return bool(usable) and {WAITS, *usable}.issuperset(case.served)


@hypothesis("it is not complete")
def incomplete(case: JobHistory) -> bool:
    """Work is left after the last round."""
    return sum(case.done) < 1


FAIR = Hypothesis[Any](
    r"$\tau_j - a_j = p_j \max(1,\, d_j |A| / \sum_i Y_i)$ rounds, $p_j$ on the fastest type with enough GPUs"
)
"""The estimate of tau, which is part of how cases are built."""

NORMALISED = Hypothesis[Any](
    r"$\rho_j$ is in fractions of the job: $\theta_j^i / W_j$ for $\theta_j^i$ in (4) to (6), see "
    "`fft/units-normalised`"
)
"""The library's default."""


def _histories(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
    gpus = [choose(integers(1, 3)) for _ in range(sizes["k"])]
    speed = [choose(integers(1, 4)) for _ in gpus]
    served, work = [], choose(integers(1, 12))
    left = work
    for _ in range(sizes["rounds"]):
        i = choose([0, *(i + 1 for i, v in enumerate(speed) if v < left)])
        left -= speed[i - 1] if i else 0
        served.append(F(i))
    return CaseNumbers.of(gpus=gpus, speed=speed, demand=F(1), work=work, served=served, jobs=choose(integers(1, 5)))


PASTS = Space(
    {"k": (1, 2), "rounds": (1, 6)},
    {
        "gpus": TableShape(1, "k", integers(1, 3)),
        "speed": TableShape(1, "k", integers(1, 4)),
        "demand": TableShape(1, 1, integers(1, 3)),
        "work": TableShape(1, 1, integers(1, 12)),
        "jobs": TableShape(1, 1, integers(1, 5)),
        "served": TableShape(1, "rounds", integers(0, 2)),
    },
    _history,
    _histories,
    (FAIR, on_usable_types, incomplete),
)


def never_negative(case: JobHistory) -> Finding:
    """Whether rho is at least 0 in all rounds."""
    least = min(case.rho)
    return Finding(least, f"the smallest rho is {number_text(least)}")


def grows_while_starved(case: JobHistory) -> Finding:
    """Whether rho increases in every round after the first in which the job waits."""
    steps = [after - before for age, done, before, after in case.steps if age and not done]
    least = min(steps, default=F(1))
    return Finding(least if least > 0 else F(-1), f"rho changes by {number_text(least)} in a round without service")


def falls_while_served(case: JobHistory) -> Finding:
    """Whether rho does not increase if the job does its fair part, and decreases if it does more and rho > 0."""
    slack = F(1)
    for age, done, before, after in case.steps:
        if done >= 1 / case.fair:
            slack = min(slack, before - after)
            if done > 1 / case.fair and before > 0 and age and after >= before:
                slack = F(-1)
    return Finding(slack, "rho does not increase in rounds with at least the fair part")


def equals_lag(case: JobHistory) -> Finding:
    """Whether rho is the lag of the job behind its fair share, or 0 without a lag."""
    lags = [F(0)]
    for done in case.done:
        lags.append(lags[-1] + 1 / case.fair - done)
    off, t = max((abs(rho - max(F(0), lag)), t) for t, (rho, lag) in enumerate(zip(case.rho, lags, strict=True)))
    words = f"in round {t} rho is {number_text(case.rho[t])} of the job, and the lag is {number_text(lags[t])} of it"
    return Finding(-off, words, ("rho of every round in fractions",), (case.picture,))


def falls_while_running(case: JobHistory) -> Finding:
    """Whether rho does not increase in any round in which the job runs."""
    changes = [(after - before, age, before, after) for age, done, before, after in case.steps if done]
    most, age, before, after = max(changes, default=(F(0), 0, F(0), F(0)))
    words = (
        f"in round {age} the job runs and rho increases from {number_text(before)} to {number_text(after)}: the "
        f"fair part is {number_text(1 / case.fair)} of the job per round"
    )
    return Finding(-most, words, ("rho of every round in fractions",), (case.picture,))


CLAIMS = (
    Claim(
        key="fft/eq-5-nonnegative",
        place="equation (5)",
        statement=r"$\rho_j(t) \ge 0$ in all rounds.",
        quote="To ensure easy updates on-the-fly and maintain positivity, the scheduler recursively designs "
        r"$\rho_j(t)$",
        procedure=ForAll(PASTS, never_negative),
        expected=ClaimVerdict.TRUE,
        proof=r"$\rho_j(a_j) = 0$, and (5) is a maximum of 0 and another value.",
    ),
    Claim(
        key="fft/rho-behind",
        place="section 4.2.2",
        statement=r"$\rho_j(t)$ captures the amount by which job $j$ falls behind what it would have received under a "
        r"fair scheduler since its arrival.",
        quote=r"Specifically, $\rho_j(t)$ captures the amount by which job $j$ falls behind with respect to what it "
        "would have received under a max-min fair scheduler up until time $t$ since its arrival.",
        procedure=ForAll(PASTS, equals_lag),
        expected=ClaimVerdict.FALSE,
        instead="fft/fig-5-starved",
        note=r"Equation (5) weights the missed work of each round by $\mu_j$, and discards a lead by the maximum with "
        r"0. The statement is read as: $\rho_j$ is that amount, or 0 for a job that is not behind.",
    ),
    Claim(
        key="fft/fig-5-starved",
        place="Fig. 5",
        statement=r"$\rho_j$ increases continuously during periods of starvation.",
        quote=r"The value of $\rho_j$ serves as an indicator of the GPU resources allocated to the job, increasing "
        "continuously during periods of starvation",
        procedure=ForAll(PASTS, grows_while_starved),
        expected=ClaimVerdict.TRUE,
        proof=r"""
With $x_j(t) = 0$, equation (5) adds $\mu_j(t) W_j / (\tau_j - a_j)$ with $\mu_j(t) = (t - a_j) / (\tau_j - a_j) > 0$
for $t > a_j$.""",
        note=r"Read for rounds after the round of arrival, in which $\mu_j = 0$.",
    ),
    Claim(
        key="fft/fig-5-served",
        place="Fig. 5",
        statement=r"$\rho_j$ decreases when the desired resources are obtained: it does not increase in a round with "
        r"$\sum_i \theta_j^i x_j^i \ge W_j / (\tau_j - a_j)$, and decreases if the left side is larger, $\rho_j > 0$ "
        "and $t > a_j$.",
        quote=r"The value of $\rho_j$ serves as an indicator of the GPU resources allocated to the job, … decreasing "
        "when the desired resources are obtained.",
        procedure=ForAll(PASTS, falls_while_served),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Equation (5) adds $\mu_j(t) \ge 0$ times a difference that is not positive, or negative, to $\rho_j$; and the maximum of
0 and a number below $\rho_j > 0$ is below $\rho_j$. On the fastest type with enough GPUs for its gang a job takes
$p \le \tau_j - a_j$ rounds and does at least its fair part.""",
        note="The desired resources are read as resources on which the job does its fair part of a round.",
    ),
    Claim(
        key="fft/eq-5-running",
        place="equation (5)",
        statement=r"$\rho_j$ does not increase in a round in which the job runs.",
        procedure=ForAll(PASTS, falls_while_running),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/fig-5-served",
        note="On a slow type the job may do less than its fair part.",
    ),
)
