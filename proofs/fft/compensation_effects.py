"""Section 4.2.2: the effect of a larger compensation on a job in a round."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from hetopt.data.rationals import number_text
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, TypeOfJob, round_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import hypothesis, integers

F = Fraction

LARGE_RHO = F(10**4)
"""A rho above all costs of these small cases."""


def with_compensation(case: RoundCase, rho: Fraction) -> RoundCase:
    """A copy with another rho of j1."""
    return replace(case, rho=(rho, *case.rho[1:]))


def pace(case: RoundCase, where: TypeOfJob) -> Fraction:
    """Theta of j1 in fractions of the job; 0 if it waits."""
    return 1 / case.gangs[0].rounds(where[0]) if _runs(where) else F(0)


def _runs(where: TypeOfJob) -> bool:
    """Whether j1 runs."""
    return where[0] != WAITS


def grows(case: RoundCase) -> Finding:
    """Whether j1 is never slower in an optimum with a larger rho than in one with a smaller rho."""
    paces = [
        [pace(case, where) for where in with_compensation(case, case.rho[0] + more).optima] for more in (0, 1, 4, 16)
    ]
    least = min(min(after) - max(before) for before, after in pairwise(paces))
    return Finding(least, "with a larger rho j1 runs at least as fast")


def runs_at_last(case: RoundCase) -> Finding:
    """Whether j1 runs if its rho is large."""
    large = with_compensation(case, LARGE_RHO)
    if all(map(_runs, large.optima)):
        return Finding(F(0), "j1 runs")
    demands, gpus = ", ".join(str(gang.demand) for gang in case.gangs), ", ".join(map(str, case.gpus))
    words = (
        f"gangs of {demands} on {gpus} GPU(s): no plan that uses {case.most} GPUs contains j1, which waits for any rho"
    )
    pictures = (large.picture("FFT, for any rho", large.planned()),)
    certificate = ("all plans within the capacity were enumerated", "the library's policy returns the same plan")
    return Finding(F(-1), words, certificate, pictures, not packed(case) and not _runs(large.planned()))


def threshold(case: RoundCase) -> Fraction:
    """A rho above which j1 runs in every optimum, if it runs in some plan that uses K* GPUs."""
    free = with_compensation(case, F(0))
    without = [free.total(where) for where in free.fullest if not _runs(where)]
    if not without:
        return F(0)
    return max(F(0), min((free.total(w) - min(without)) / pace(free, w) for w in free.fullest if _runs(w)))


def runs_above(case: RoundCase) -> Finding:
    """Whether j1 runs in every optimum just above the threshold."""
    above = with_compensation(case, threshold(case) + F(1, 100))
    runs = all(map(_runs, above.optima))
    return Finding(F(0) if runs else F(-1), f"j1 runs above rho = {number_text(threshold(case))}")


def fastest_threshold(case: RoundCase) -> Fraction:
    """A rho above which j1 has the largest pace in every optimum, of all plans that use K* GPUs."""
    free = with_compensation(case, F(0))
    most = max(pace(free, where) for where in free.fullest)
    best = min(free.total(where) for where in free.fullest if pace(free, where) == most)
    slower = [where for where in free.fullest if pace(free, where) < most]
    return max([F(0), *((best - free.total(where)) / (most - pace(free, where)) for where in slower)])


def fastest_above(case: RoundCase) -> Finding:
    """Whether j1 has the largest pace in every optimum just above the threshold."""
    least = fastest_threshold(case)
    above = with_compensation(case, least + F(1, 100))
    missed = max(pace(above, where) for where in above.fullest) - min(pace(above, where) for where in above.optima)
    return Finding(-missed, f"j1 runs as fast as possible above rho = {number_text(least)}")


def slower_optimum() -> list[object]:
    """For z3: a plan y of less pace that costs no more than x at a rho above (c(x) - c(y)) / (u(x) - u(y))."""
    import z3

    cost_x, cost_y, pace_x, pace_y, rho = z3.Reals("cx cy ux uy rho")
    return [
        pace_x > pace_y,
        rho > (cost_x - cost_y) / (pace_x - pace_y),
        cost_y - rho * pace_y <= cost_x - rho * pace_x,
    ]


@hypothesis("some plan with $K^*$ GPUs contains job $j$")
def packed(case: RoundCase) -> bool:
    """Whether j1 runs in some plan that uses K* GPUs."""
    return any(map(_runs, case.fullest))


OWING = round_space(n=(1, 4), ages=integers(0, 6), rho=integers(0, 6))
PACKED = round_space(packed, n=(1, 4), ages=integers(0, 6), rho=integers(0, 6))


CLAIMS = (
    Claim(
        key="fft/fig-5-chances",
        place="Fig. 5",
        statement=r"As $\rho_j$ increases, so do the job's chances of being scheduled: with a larger $\rho_j$, all "
        r"else equal, $\sum_i \theta_j^i x_j^i$ of the round is at least as large, in every optimum.",
        quote=r"As $\rho_j$ grows, so do the job's chances of being scheduled.",
        procedure=ForAll(OWING, grows, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Let $u(x) = \sum_i \theta_j^i x_j^i$, and $c(x)$ the cost without $-\rho_j u(x)$. Let $x$ be optimal at $\rho$ and $y$
at $\rho' > \rho$; the feasible plans, those with $K^*$ GPUs, are the same. Then
$c(x) - \rho u(x) \le c(y) - \rho u(y)$ and $c(y) - \rho' u(y) \le c(x) - \rho' u(x)$. The sum of both is
$(\rho' - \rho)(u(y) - u(x)) \ge 0$.""",
        note=r"So a job that runs at $\rho_j$ also runs at a larger value, at least as fast.",
    ),
    Claim(
        key="fft/rho-large",
        place="section 4.2.2",
        statement=r"If $\rho_j(t)$ is large, the scheduler prioritises job $j$: it runs once $\rho_j$ is large enough.",
        quote=r"If $\rho_j(t)$ is large, the scheduler prioritizes scheduling job $j$ on a higher-end type $i$ to "
        r"achieve a greater throughput $\theta_j^i$ in subsequent scheduling rounds.",
        procedure=ForAll(OWING, runs_at_last, slack=lambda case: F(0) if packed(case) else F(-1)),
        expected=ClaimVerdict.FALSE,
        instead="fft/rho-large-packed",
        note="The constraint (7) precedes the cost: a gang waits as long as no plan with $K^*$ GPUs contains it; see "
        "`fft/thm-4.2-stream`.",
    ),
    Claim(
        key="fft/rho-large-packed",
        place="section 4.2.2",
        statement=r"If some plan with $K^*$ GPUs contains job $j$, every optimum contains it once $\rho_j$ exceeds "
        r"$\min_x (c(x) - c(y)) / u(x)$ and 0: $c$ the cost and $u(x) = \sum_i \theta_j^i x_j^i$ the progress of "
        r"$j$, both at $\rho_j = 0$, $x$ over these plans, and $y$ the best plan with $K^*$ GPUs without $j$ (if "
        "there is none, every optimum contains $j$).",
        procedure=ForAll(PACKED, runs_above, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Let $x$ attain the minimum. At such a $\rho_j$ its cost $c(x) - \rho_j u(x)$ is below $c(y)$, the least without $j$;
so no plan without $j$ is optimal.""",
    ),
    Claim(
        key="fft/rho-large-fastest",
        place="section 4.2.2",
        statement=r"Every optimum runs job $j$ at its largest pace in plans with $K^*$ GPUs once $\rho_j$ exceeds 0 "
        r"and $\max_y (c(x) - c(y)) / (u(x) - u(y))$: $c$ the cost and $u$ the progress of $j$ as in "
        "`fft/rho-large-packed`, $x$ the plan of least cost among those of largest progress, and $y$ over the other "
        "plans with $K^*$ GPUs.",
        procedure=ForAll(OWING, fastest_above, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
At such a $\rho_j$, $c(x) - \rho_j u(x) < c(y) - \rho_j u(y)$ for every plan $y$ of less progress, so none of them is
optimal.""",
        mechanical=(by_z3("no slower plan costs as little", slower_optimum),),
        note="The higher-end types that (7) leaves to the job.",
    ),
)
