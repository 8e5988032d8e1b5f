"""Lemma 1 and Theorem 2: the competitive ratio of Algorithm 1."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb, fmpq

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.admission_prices import ALONE, HALF, PROVEN, PROVEN_PRICES, U_MAX_REACHED
from hetopt.proofs.hadar.cost_relation import printed_factor
from hetopt.proofs.hadar.exact_prices import (
    EVERY_RUN,
    ONE,
    PriceFunction,
    PrimalDualRun,
    printed_prices,
    proven_prices,
    runs,
)
from hetopt.proofs.hadar.radicals import ENCLOSED, RadicalSum, enclosed, log, power, rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import SlotCase, positive, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import FindingPicture
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import hypothesis, integers

F = Fraction
OPTIMAL = "OPT by enumeration of all feasible choices of schedules"


# -- Lemma 1 ---------------------------------------------------------------------------------------------------------


def least_alpha(run: PrimalDualRun) -> RadicalSum:
    """The least constant alpha >= 1 of Lemma 1: the largest quotient of the growth of both objectives."""
    return max([ONE, *(run.growth(step) * (1 / step.taken.value) for step in run.steps if step.taken)])


@hypothesis(r"$D_0 \le \frac12 \mathrm{OPT}$ at printed prices")
def starts_low(case: SlotCase) -> bool:
    """As [Hadar, Lemma 1] requires."""
    return 2 * PrimalDualRun(case, printed_prices(case), (), ()).initial <= case.best[0]


@hypothesis("in some run the last dual solution, final prices and payoffs, is feasible in P3")
def dual_feasible(case: SlotCase) -> bool:
    """Runs differ in how ties are broken."""
    return bool(_feasible(case))


def lemma_1_holds(case: SlotCase) -> Finding:
    """Lemma 1 in all runs."""
    return max(map(_lemma_1, _runs(case)), key=lambda finding: finding.slack)


def bounded_if_feasible(case: SlotCase) -> Finding:
    """Lemma 1 in the runs with a feasible last dual solution."""
    return min(map(_lemma_1, _feasible(case)), key=lambda finding: finding.slack)


def _runs(case: SlotCase) -> list[PrimalDualRun]:
    return runs(case, printed_prices(case))


@lru_cache(maxsize=1)
def _feasible(case: SlotCase) -> list[PrimalDualRun]:
    return [run for run in _runs(case) if run.is_feasible]


def _lemma_1(run: PrimalDualRun) -> Finding:
    slack = rounded_towards_zero(2 * run.utility * least_alpha(run) - run.case.best[0])
    words = (
        f"ALG is {number_text(run.utility)}, alpha {float(least_alpha(run)):.3f}, OPT "
        f"{number_text(run.case.best[0])}; the final dual solution is {'' if run.is_feasible else 'not '}feasible, "
        f"its objective {float(run.dual):.3f}"
    )
    return Finding(slack, words, (OPTIMAL, EVERY_RUN), _pictures(run))


def _pictures(run: PrimalDualRun) -> tuple[FindingPicture, ...]:
    case = run.case
    return case.picture("optimum", case.best[1]), case.picture("Hadar", run.chosen)


# -- Theorem 2 -------------------------------------------------------------------------------------------------------


def as_printed(case: SlotCase) -> Finding:
    """OPT <= 2 alpha ALG at printed prices, alpha = max(1, ln(U_max / U_min))."""
    run = max(_runs(case), key=lambda run: run.utility)
    slack, words = printed_margin(case, run.utility)
    return Finding(slack, words, (OPTIMAL, ENCLOSED, EVERY_RUN), _pictures(run))


def printed_margin(case: SlotCase, utility: Fraction) -> tuple[Fraction, str]:
    """2 alpha ALG - OPT at printed prices where ALG is ``utility``, rounded towards 0, and both in words."""
    prices, (best, _) = printed_prices(case), case.best
    slack = max(2 * utility - best, enclosed(lambda: ball(2 * utility) * log(prices.steepness) - ball(best))[1])
    words = (
        f"ALG is {number_text(utility)}, OPT {number_text(best)}, and 2 max(1, ln {number_text(prices.steepness)}) is "
        f"{2 * printed_factor(prices):.4f}"
    )
    return slack, words


def ball(value: Fraction) -> arb:
    """A fraction as an enclosure."""
    return arb(fmpq(value.numerator, value.denominator))


def step_factor(prices: PriceFunction) -> RadicalSum:
    """The factor alpha' = max(1, (e^{a delta / (1 - delta)} - 1) / delta): e^a is U_max / U_min, so a sum of roots."""
    delta = prices.delta
    return max(ONE, (power(prices.steepness, delta / (1 - delta)) - 1) * (1 / delta))


def corrected(case: SlotCase) -> Finding:
    """OPT <= D <= 2 alpha' ALG at proven prices, in all runs."""
    prices, (best, _) = proven_prices(case), case.best
    alpha = step_factor(prices)
    found = []
    for run in runs(case, prices, check_capacity=False):
        slack = min(rounded_towards_zero(run.dual - best), rounded_towards_zero(2 * run.utility * alpha - run.dual))
        words = f"OPT {number_text(best)}, D {float(run.dual):.3f}, 2 alpha' ALG {2 * float(run.utility * alpha):.3f}"
        found.append(Finding(slack, words, (OPTIMAL, ENCLOSED, EVERY_RUN), _pictures(run)))
    return min(found, key=lambda finding: finding.slack)


def tightness(case: SlotCase) -> Fraction:
    """OPT / (2 alpha' ALG) of the worst run, rounded down to thousandths."""
    prices, (best, _) = proven_prices(case), case.best
    least = min(run.utility for run in runs(case, prices, check_capacity=False))
    return enclosed(lambda: ball(best / (2 * least)) / step_factor(prices).ball())[1]


SMALL = {
    "demand": integers(1, 3),
    "work": integers(1, 2),
    "arrival": integers(0, 1),
    "speed": integers(0, 2),
    "slots": integers(1, 2),
}

LEMMA_1 = r"""
By weak duality $\mathrm{OPT} \le D_f$, as the last prices and payoffs are feasible in P3. Moreover $D_f = D_0 + \sum_j
(D_j - D_{j-1}) \le \frac12 \mathrm{OPT} + \alpha \sum_j (P_j - P_{j-1}) = \frac12 \mathrm{OPT} + \alpha P_f$, so
$\mathrm{OPT} \le 2 \alpha P_f$."""

THEOREM_2 = rf"""
(i) *Capacity.* {U_MAX_REACHED.strip()}
(ii) *Definition 1.* A step of $w = x c \le \delta c$ GPUs multiplies the price by $e^{{b x}}$, $b = a / (1 -
\delta)$, so the relation requires $\alpha \ge (e^{{b x}} - 1) / x$, which grows with $x$ (`hadar/step-factor`), up to
$(e^{{b \delta}} - 1) / \delta \le \alpha'$.
(iii) *Lemma 2* gives $P_j - P_{{j-1}} \ge (D_j - D_{{j-1}}) / \alpha'$.
(iv) *The last dual solution is feasible.* No price ever falls, so $\mu_j = \max(0, \max_s \phi_j(s))$ at the prices
of its time is at least its value at the last prices; by (i) the maximum is over all schedules, not only those that
fit on the free GPUs.
(v) {HALF.strip()} With (iii) to (v) Lemma 1 gives $\mathrm{{OPT}} \le D_f \le 2 \alpha' \mathrm{{ALG}}$."""

CLAIMS = (
    Claim(
        key="hadar/lemma-1",
        place="Lemma 1",
        statement=r"If $P_j - P_{j-1} \ge \frac{1}{\alpha} (D_j - D_{j-1})$ for all jobs with a constant $\alpha \ge "
        r"1$, and if $P_0 = 0$ and $D_0 \le \frac12 \mathrm{OPT}$, then Algorithm 1 is $2\alpha$-competitive in total "
        r"utility.",
        procedure=ForAll(slot_space(positive, starts_low, h=(1, 3), values={"demand": integers(1, 3)}), lemma_1_holds),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/lemma-1-feasible",
        quote=r"If there exists a constant $\alpha \geq 1$ such that $P_j - P_{j-1} \geq \frac{1}{\alpha}(D_j - "
        r"D_{j-1})$ for all jobs $j \in [J]$, and if $P_0 = 0$ and $D_0 \leq \frac{1}{2}OPT$, then Algorithm 1 is "
        r"$2\alpha$-competitive in total job utility.",
        note=r"A job that has a positive payoff, but is refused because (8) leaves it no GPUs, has $\mu_j = 0$ in the "
        r"algorithm: the last dual solution is infeasible and bounds nothing (with $\mu_j$ by (4) the hypothesis would "
        r"fail). The case has the least $\alpha$ for which the hypothesis holds.",
    ),
    Claim(
        key="hadar/lemma-1-feasible",
        place="Lemma 1",
        statement=r"If $P_j - P_{j-1} \ge \frac{1}{\alpha} (D_j - D_{j-1})$ for all jobs with a constant $\alpha \ge "
        r"1$, if $P_0 = 0$ and $D_0 \le \frac12 \mathrm{OPT}$, and if the last dual solution, the final prices and the "
        r"payoffs of the jobs, is feasible in P3, then Algorithm 1 is $2\alpha$-competitive in total utility.",
        procedure=ForAll(
            slot_space(positive, starts_low, dual_feasible, values={**SMALL, "demand": integers(1, 2)}),
            bounded_if_feasible,
            share=F(1, 2),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=LEMMA_1,
    ),
    Claim(
        key="hadar/thm-2",
        place="Theorem 2",
        statement=r"Hadar is $2\alpha$-competitive, $\alpha = \max_r(1, \ln(U_{\max}^r / U_{\min}^r))$ with (6) and "
        r"(7).",
        procedure=ForAll(slot_space(positive, starts_low, h=(1, 1), values=SMALL), as_printed),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/thm-2-corrected",
        quote=r"Hadar is $2\alpha$ competitive, where $\alpha = \max_{r \in [R]}(1, \ln "
        r"\frac{U_r^{max}}{U_r^{min}})$",
        note=r"It fails also where jobs arrive in different slots: `hadar/thm-2-growth`. Each job is committed to its "
        r"best schedule on arrival, as the proof assumes. The cases have $D_0 \le \frac12 \mathrm{OPT}$, which the "
        r"proof needs; without it one job of four slots on one GPU is refused, and ALG is 0. $\eta$ is the least that "
        r"the proof allows; a larger one only needs a larger second job.",
    ),
    Claim(
        key="hadar/thm-2-corrected",
        place="Theorem 2",
        statement=r"Algorithm 1, which irrevocably commits each job on arrival to its best schedule if the payoff is "
        r"positive, with the price $U_{\min} (U_{\max} / U_{\min})^{\gamma / ((1 - \delta) c)}$, "
        + f"{PROVEN_PRICES}, {ALONE}, and no gang taking more than "
        + r"$\delta c$ GPUs of a cell, $\delta < 1$, does not exceed the capacity and has $\mathrm{OPT} \le 2 \alpha' "
        r"\mathrm{ALG}$, $\alpha' = \max(1, (e^{a \delta / (1 - \delta)} - 1) / \delta)$, $a = \ln(U_{\max} / "
        r"U_{\min})$.",
        procedure=ForAll(PROVEN, corrected, ratio=tightness, share=F(2, 5)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=THEOREM_2,
        note="`hadar.Irrevocable()`. The library has prices in floats, so rounding may change its choice between "
        "schedules with equal payoffs; here prices are exact.",
    ),
)
