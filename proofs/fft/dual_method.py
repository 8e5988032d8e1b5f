"""Section 4.2.5: the round as a step of the dual method."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.fft.compensation import fair_rounds
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, TypeOfJob, round_space
from hetopt.proofs.fft.round_sequences import PlayedRound, Progress
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers

F = Fraction


def shortfalls(case: RoundCase, where: TypeOfJob) -> list[Fraction]:
    """g_j(x): fair progress minus progress of each job, in work as printed or in fractions of the job."""
    found: list[Fraction] = []
    for gang, i in zip(case.gangs, where, strict=True):
        missed = 1 / fair_rounds(gang, len(case.gangs), case.gpus) - (F(0) if i == WAITS else 1 / gang.rounds(i))
        found.append(missed if case.normalise else gang.work * missed)
    return found


def lagrangian(case: RoundCase, where: TypeOfJob, rho: tuple[Fraction, ...]) -> Fraction:
    """F(x) + sum of rho_j g_j(x), with f the objective of [FFT, eq. 3]."""
    objective = replace(case, rho=()).total(where)
    return objective + sum((r * g for r, g in zip(rho, shortfalls(case, where), strict=True)), F(0))


def other_multipliers(case: RoundCase) -> list[tuple[Fraction, ...]]:
    """Zeros, and rho with one entry replaced."""
    changed = [(*case.rho[:j], F(v), *case.rho[j + 1 :]) for j in range(len(case.rho)) for v in (0, 1, 9)]
    return [(F(0),) * len(case.rho), *changed]


def is_dual_step(case: RoundCase) -> Finding:
    """Whether the round is a step of the dual method, with rho as printed and in fractions of the job."""
    return min((_is_dual_step(replace(case, normalise=way)) for way in (False, True)), key=lambda found: found.slack)


def _is_dual_step(case: RoundCase) -> Finding:
    """Whether the optima minimise the Lagrangian, g is a supergradient there, and (5) is a step along it."""
    value = {where: lagrangian(case, where, case.rho) for where in case.fullest}
    dual = min(value.values())
    same = {where for where, v in value.items() if v == dual} == set(case.optima)
    slack = F(0)
    for rho in other_multipliers(case):
        least = min(lagrangian(case, where, rho) for where in case.fullest)
        for where in case.optima:
            rise = sum(((b - a) * g for a, b, g in zip(case.rho, rho, shortfalls(case, where), strict=True)), F(0))
            slack = min(slack, dual + rise - least)
    for where in case.optima:
        same &= updated(case, where) == [
            max(F(0), rho + (case.time - gang.arrival) / fair_rounds(gang, len(case.gangs), case.gpus) * g)
            for gang, rho, g in zip(case.gangs, case.rho, shortfalls(case, where), strict=True)
        ]
    return Finding(slack if same else F(-1), f"the dual function is {number_text(dual)}")


def updated(case: RoundCase, where: TypeOfJob) -> list[Fraction]:
    """Rho of all jobs after the round, by [FFT, eq. 5] as in runs of all rounds."""
    n = len(case.gangs)
    step = PlayedRound(tuple(range(n)), case)
    return list(Progress(case.time, (F(0),) * n, case.rho).after(case, step, where).rho)


def no_supergradient() -> list[object]:
    """For z3: D(rho') > D(rho) + (rho' - rho) g(x) for plans x and y of two jobs, x optimal at rho."""
    import z3

    fx, fy = z3.Reals("fx fy")
    gx, gy, rho, other = (z3.Reals(f"{name}1 {name}2") for name in ("gx", "gy", "rho", "other"))
    at_x, at_y = (f + sum(r * g for r, g in zip(rho, gap, strict=True)) for f, gap in ((fx, gx), (fy, gy)))
    new_x, new_y = (f + sum(r * g for r, g in zip(other, gap, strict=True)) for f, gap in ((fx, gx), (fy, gy)))
    rise = sum((b - a) * g for a, b, g in zip(rho, other, gx, strict=True))
    return [at_x <= at_y, z3.If(new_x <= new_y, new_x, new_y) > z3.If(at_x <= at_y, at_x, at_y) + rise]


CLAIMS = (
    Claim(
        key="fft/dual-method",
        place="section 4.2.5",
        statement=r"The round is the first step of the dual method for $\min f(x)$, $g_j(x) \le 0$, over the plans "
        r"with $K^*$ GPUs, with $f$ the objective of (3) and $g_j(x) = \frac{W_j}{\tau_j - a_j} - \sum_i \theta_j^i "
        r"x_j^i$: the optima of (4) are those of $D(\rho) = \min_x f(x) + \sum_j \rho_j g_j(x)$; $g(x)$ of an optimum "
        r"is a supergradient of the dual function $D$ at $\rho$; and (5) is $\rho_j \leftarrow \max(0, \rho_j + \mu_j "
        r"g_j(x))$.",
        quote="the scheduling algorithm can be interpreted as the first step of dual approach [4], i.e., "
        r"$\min_x f(x) + \lambda g(x)$ where $\lambda$ is the Lagrangian multiplier",
        procedure=ForAll(round_space(n=(1, 3), ages=integers(0, 6), rho=integers(0, 6)), is_dual_step),
        expected=ClaimVerdict.TRUE,
        proof=r"""
$f(x) + \sum_j \rho_j g_j(x)$ is the objective of (4) plus $\sum_j \rho_j W_j / (\tau_j - a_j)$, which does not depend
on $x$. So both have the same optima. For an optimum $x$ and any $\rho'$, $D(\rho') \le f(x) + \sum_j \rho'_j g_j(x) =
D(\rho) + \sum_j (\rho'_j - \rho_j) g_j(x)$. The last statement is the definition of $g_j$.""",
        mechanical=(
            by_z3("the progress of an optimum is a supergradient, for two jobs and two plans", no_supergradient),
        ),
        note=r"In a round in which a job waits no plan satisfies all $g_j(x) \le 0$, and averages over rounds cannot "
        "either with whole gangs, see `fft/tau`. The paper derives Theorems 4.1 and 4.2 from the analysis of this "
        "method.",
    ),
)
