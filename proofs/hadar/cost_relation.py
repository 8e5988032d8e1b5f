"""Lemma 2 and Definition 1 along the runs of Algorithm 1."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.exact_prices import EVERY_RUN, ONE, PriceFunction, PrimalDualRun, printed_prices, runs
from hetopt.proofs.hadar.radicals import ENCLOSED, RadicalSum, enclosed, log, rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import SlotCase, positive, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import hypothesis, integers

F = Fraction


# -- Lemma 2 ---------------------------------------------------------------------------------------------------------


def increments(case: SlotCase) -> Finding:
    """Lemma 2 in all runs at printed prices, with the least alpha of each run."""
    slacks = [growth_of(run, run.relation) for run in runs(case, printed_prices(case))]
    slack, words = min(slacks, key=lambda found: found[0])
    return Finding(slack, words, (ENCLOSED,))


def growth_of(run: PrimalDualRun, alpha: RadicalSum) -> tuple[Fraction, str]:
    """The least alpha (P_j - P_{j-1}) - (D_j - D_{j-1}) of a run, and its job."""
    left = [(rounded_towards_zero(alpha * s.taken.value - run.growth(s)), s.job) for s in run.steps if s.taken]
    if not left:
        return F(0), "no job is taken"
    least, job = min(left)
    return least, f"with alpha {float(alpha):.3f} the step of j{job + 1} leaves {number_text(least)}"


def charged_after(case: SlotCase) -> Finding:
    """Whether any job runs if jobs pay the prices after the update, as in line 16."""
    run = max(runs(case, printed_prices(case), after=True), key=lambda run: run.utility)
    best, chosen = case.best
    words = f"ALG is {number_text(run.utility)}, OPT {number_text(best)}"
    slack = -best if not run.utility else F(0)
    return Finding(slack, words, (EVERY_RUN,), (case.picture("optimum", chosen),))


# -- Definition 1 ----------------------------------------------------------------------------------------------------


def discrete(case: SlotCase) -> Finding:
    """Definition 1 in all steps of a run, with alpha = max(1, ln(U_max / U_min))."""
    prices = printed_prices(case)
    every = runs(case, prices)
    worst = [min((relation_margin(prices, i, n) for i, n in run.steps_taken), default=F(1)) for run in every]
    needed = max(float(run.relation) for run in every)
    words = (
        f"U_max / U_min is {number_text(prices.steepness)}: alpha must be {needed:.3f}, and is "
        f"{printed_factor(prices):.3f}"
    )
    picture = case.picture("Hadar", every[0].chosen)
    return Finding(max(worst), words, (ENCLOSED, "in all runs some step violates it"), (picture,))


def relation_margin(prices: PriceFunction, cell: int, step: int) -> Fraction:
    """Excess of alpha = max(1, ln(U_max / U_min)) over the alpha that the step needs."""
    needed = prices.relation(cell, step)
    by_one = rounded_towards_zero(ONE - needed)
    if prices.steepness == 1:
        return by_one
    return max(by_one, enclosed(lambda: log(prices.steepness) - needed.ball())[1])


def printed_factor(prices: PriceFunction) -> float:
    """Approximation of max(1, ln(U_max / U_min)), for texts only."""
    return max(1.0, float(log(prices.steepness)))


@hypothesis("every gang has fewer GPUs than every server has of any type")
def small_gangs(case: SlotCase) -> bool:
    """As the proof of [Hadar, Theorem 2] expects."""
    return max(job.gpus for job in case.jobs) < min(gpus for _, _, gpus in case.cells)


JOBS = {"demand": integers(1, 2), "work": integers(1, 2), "arrival": integers(0, 1), "fading": integers(0, 1)}
ANY = slot_space(positive, values={**JOBS, "speed": integers(0, 2), "slots": integers(1, 2)})
SMALL_GANGS = slot_space(positive, small_gangs, values={**JOBS, "gpus": integers(2, 4)})

CLAIMS = (
    Claim(
        key="hadar/lemma-2",
        place="Lemma 2",
        statement=r"If the allocation-cost relation $k_h^{r,j-1}(t) (\gamma_h^{r,j}(t) - \gamma_h^{r,j-1}(t)) \ge "
        r"\frac{c_h^r}{\alpha} (k_h^{r,j}(t) - k_h^{r,j-1}(t))$ holds for $\alpha \ge 1$, then Algorithm 1 ensures "
        r"$P_j - P_{j-1} \ge \frac{1}{\alpha} (D_j - D_{j-1})$ for all $j$.",
        procedure=ForAll(ANY, increments, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        policies=("hadar-commit",),
        quote=r"If the allocation-cost relationship holds for $\alpha \geq 1$, then Algorithm 1 ensures $P_j - P_{j-1} "
        r"\geq \frac{1}{\alpha}(D_j - D_{j-1}), \forall j$.",
        proof=r"""
A refused job changes neither objective. A job that takes $s$ has $\mu_j = \mathcal U_{js} - \sum k^{j-1} w^s$ (line
29), so $P_j - P_{j-1} = \mathcal U_{js} = \mu_j + \sum k^{j-1} w^s$, and $w^s = \gamma^j - \gamma^{j-1}$. By the
relation that is at least $\mu_j + \frac{1}{\alpha} \sum c\, (k^j - k^{j-1}) \ge \frac{1}{\alpha} \bigl(\mu_j + \sum
c\, (k^j - k^{j-1})\bigr) = \frac{1}{\alpha} (D_j - D_{j-1})$, since $\alpha \ge 1$ and $\mu_j \ge 0$.""",
        note="Costs are at the prices before the job is taken, as in line 29. The cases have the least alpha for which "
        "the relation holds.",
    ),
    Claim(
        key="hadar/line-16",
        place="Algorithm 2, line 16",
        statement=r"If jobs pay the prices after their own update, as in line 16, Algorithm 1 still reaches part of "
        r"the optimum: $\mathrm{ALG} > 0$ if $\mathrm{OPT} > 0$.",
        procedure=ForAll(ANY, charged_after),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("hadar-commit",),
        instead="hadar/lemma-2",
        note=r"A gang that fills a cell pays $U_{\max}$ for each of its GPUs, which is at least its utility. Line 16 "
        r"only compares; line 29 correctly charges the prices before the update.",
    ),
    Claim(
        key="hadar/discrete",
        place="proof of Theorem 2",
        statement=r"As a gang has fewer GPUs than any server has of a type, $d\gamma = \gamma^j - \gamma^{j-1}$ and "
        r"$dk = k^j - k^{j-1}$: the allocation-cost relation holds in every step of Algorithm 1 with $\alpha = "
        r"\max_r(1, \ln(U_{\max}^r / U_{\min}^r))$.",
        procedure=ForAll(SMALL_GANGS, discrete),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/step-factor",
        quote=r"The allocation-cost relationship in Definition 1 holds for $\alpha = \max_{r \in R}(1, \ln "
        r"\frac{U_r^{max}}{U_r^{min}})$, which is implied by the differential allocation-cost relationship in "
        "Definition 2.",
    ),
)
