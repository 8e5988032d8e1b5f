"""The claimed effects of the prices of equations (5) to (7): empty servers admit any job, full servers none."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.exact_prices import (
    PriceFunction,
    PrimalDualRun,
    payoff,
    printed_prices,
    proven_prices,
    runs,
)
from hetopt.proofs.hadar.radicals import rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotSchedule, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers

F = Fraction


def required(prices: PriceFunction | None) -> PriceFunction:
    """Assert that the proven prices of a case exist."""
    assert prices is not None
    return prices


def blocked(case: SlotCase) -> Finding:
    """Whether some job pays for a GPU of a full server at the printed prices on its arrival."""
    return max((_pays_for_full(run, case) for run in runs(case, printed_prices(case))), key=lambda found: found.slack)


def _pays_for_full(run: PrimalDualRun, case: SlotCase) -> Finding:
    worst = Finding(F(0), "no job pays for a full server")
    for n, step in enumerate(run.steps):
        for schedule in case.schedules[step.job]:
            pays = rounded_towards_zero(payoff(case, run.prices, step.used, schedule))
            if _uses_full(case, step.used, schedule) and pays > -worst.slack:
                words = f"j{step.job + 1} would pay for GPUs of a full server: its payoff is {number_text(pays)}"
                taken = {other.job: other.taken for other in run.steps[:n]} | {step.job: schedule}
                picture = case.picture("beyond the capacity", [taken.get(j) for j in range(len(case.jobs))])
                worst = Finding(-pays, words, ("in all runs; the payoff is exact",), (picture,))
    return worst


def _uses_full(case: SlotCase, used: tuple[int, ...], schedule: SlotSchedule) -> bool:
    """Whether the schedule uses GPUs of a cell without free GPUs."""
    cells = len(case.cells)
    return any(used[t * cells + i] >= case.cells[i][2] for t, i, _ in schedule.uses)


def within(case: SlotCase) -> Finding:
    """The least number of free GPUs of a cell after all jobs, at proven prices, without checking the capacity."""
    left = [
        case.cells[i % len(case.cells)][2] - n
        for run in runs(case, required(proven_prices(case)), check_capacity=False)
        for i, n in enumerate(run.used)
    ]
    return Finding(F(min(left)), f"every cell has at least {min(left)} free GPUs")


def admitted(case: SlotCase, prices: PriceFunction) -> Finding:
    """Whether every feasible job has a positive payoff on the empty cluster: the least of the best payoffs."""
    empty = (0,) * (case.slots * len(case.cells))
    best = {
        j: rounded_towards_zero(max(payoff(case, prices, empty, schedule) for schedule in schedules))
        for j, schedules in enumerate(case.schedules)
        if schedules
    }
    slack, words = F(1), "no job is feasible"
    if best:
        j = min(best, key=best.__getitem__)
        slack, words = best[j], f"on the empty cluster the best payoff of j{j + 1} is {number_text(best[j])}"
    refused = slack <= 0  # line 30 requires a positive payoff
    pictures = (case.picture("optimum", case.best[1]),) if refused else ()
    return Finding(slack - 1 if refused else slack, words, ("payoffs are exact",), pictures)


def initial_dual(case: SlotCase, prices: PriceFunction) -> Finding:
    """Compare D_0 with half of the optimum."""
    start, (best, chosen) = PrimalDualRun(case, prices, (), ()).initial, case.best
    words = f"D_0 is {number_text(start)}, OPT / 2 is {number_text(best / 2)}"
    return Finding(best / 2 - start, words, ("the optimum by enumeration",), (case.picture("optimum", chosen),))


MANY = {
    "demand": integers(1, 2),
    "work": integers(1, 4),
    "arrival": integers(0, 1),
    "fading": integers(0, 1),
    "speed": integers(0, 2),
    "slots": integers(1, 4),
}
ABOVE_QUARTER = F(26, 100)
PRINTED = slot_space(lambda c: c.best[0] > 0, n=(1, 2), values=MANY)
PROVEN = slot_space(
    lambda c: proven_prices(c) is not None,
    values={**MANY, "gpus": integers(2, 4), "work": integers(1, 3), "slots": integers(1, 2)},
)

U_MAX_REACHED = r"""
Where $\gamma \ge (1-\delta) c$ the price is at least $U_{\max} \ge \mathcal U_j^*$, so a schedule that uses a GPU there
has a payoff of at most 0 and is refused. So a job takes $w \le \delta c$ GPUs only where $\gamma < (1-\delta) c$, and
$\gamma + w < c$."""

ADMITS = r"""
A schedule uses at most all $T \sum c$ GPU-slots, at $U_{\min} = \min_i \mathcal U_i^* / (2 T \sum c)$ each on the empty
cluster: it costs at most $\min_i \mathcal U_i^* / 2 < \mathcal U_j^*$."""

HALF = r"""
$D_0 = T \sum_{h,r} c_h^r\, U_{\min} = \frac12 \min_j \mathcal U_j^*$, and a job alone is a feasible choice, so
$\mathrm{OPT} \ge \max_j \mathcal U_j^* \ge \min_j \mathcal U_j^*$ over the feasible jobs."""

PROVEN_PRICES = r"$U_{\max} = \max_j \mathcal U_j^*$, $U_{\min} = \min_j \mathcal U_j^* / (2 T \sum c)$"
ALONE = r"$\mathcal U_j^*$ being the utility of job $j$ alone, over the feasible jobs with positive utility"
EXPONENT = r"exponent $\gamma / ((1 - \delta) c)$, no gang taking more than $\delta c$ GPUs of a cell, $\delta < 1$"

CLAIMS = (
    Claim(
        key="hadar/admits-any",
        place="section III-B",
        statement=r"When $\gamma_h^r = 0$ the price is $U_{\min}^r$, lowest to admit any job: every feasible job has "
        r"a positive payoff on the empty cluster.",
        procedure=ForAll(slot_space(n=(1, 2), values=MANY), lambda c: admitted(c, printed_prices(c))),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/admits-any-eta",
        note=r"With the least $\eta$ that the proof of Theorem 2 allows, $\sum c / \min_j (t_j^{\max} W_j)$; it is "
        r"below $1/4$ where all jobs are long.",
    ),
    Claim(
        key="hadar/admits-any-eta",
        place="section III-B",
        statement=r"With (6), (7) and $\eta > 1/4$ every feasible job with positive utilities has a positive payoff on "
        r"the empty cluster.",
        procedure=ForAll(slot_space(n=(1, 2), values=MANY), lambda c: admitted(c, printed_prices(c, ABOVE_QUARTER))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=r"""
A schedule of job $j$ uses $t_j^{\max} W_j$ GPU-slots at most, at $U_{\min} \le \mathcal U_j(T - a_j) / (4 \eta\,
t_j^{\max} W_j)$ each: less than $\mathcal U_j(T - a_j)$, the least utility of a schedule.""",
        note=r"Checked with $\eta = 0.26$, or with the least that the proof of Theorem 2 allows if that is larger.",
    ),
    Claim(
        key="hadar/admits-any-corrected",
        place="section III-B",
        statement=f"With {PROVEN_PRICES}, {ALONE}, every feasible job has a positive payoff on the empty cluster.",
        procedure=ForAll(PROVEN, lambda c: admitted(c, required(proven_prices(c))), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=ADMITS,
    ),
    Claim(
        key="hadar/full-server",
        place="section III-B",
        statement=r"When a server is out of free GPUs, $\gamma_h^r(t) = c_h^r$, the price $U_{\max}^r$ is high enough "
        r"to block other jobs from getting them: no schedule that uses some has a positive payoff.",
        procedure=ForAll(slot_space(k=(1, 1), values={"demand": integers(1, 2)}), blocked),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit", "hadar-printed"),
        instead="hadar/full-server-corrected",
        note=r"$U_{\max}^r$ is utility per GPU of the gang. Capacity rests on the first row of (8).",
    ),
    Claim(
        key="hadar/full-server-corrected",
        place="section III-B",
        statement=f"With {PROVEN_PRICES}, {ALONE}, and the {EXPONENT}, no cell exceeds its capacity, even without a "
        "check of it.",
        procedure=ForAll(PROVEN, within, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=U_MAX_REACHED,
    ),
    Claim(
        key="hadar/initial-dual",
        place="eq. (9)",
        statement=r"$D_0 = \sum_t \sum_h \sum_r U_{\min}^r c_h^r \le \frac12 \mathrm{OPT}$ if the optimum accepts a "
        r"job.",
        procedure=ForAll(PRINTED, lambda c: initial_dual(c, printed_prices(c))),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/initial-dual-corrected",
        note=r"Equation (9) drops the sum over slots. $\eta$ is the least that is allowed; with any other fixed value "
        r"the claim fails for more slots.",
    ),
    Claim(
        key="hadar/initial-dual-corrected",
        place="eq. (9)",
        statement=r"$D_0 \le \frac12 \mathrm{OPT}$ for " + f"{PROVEN_PRICES}, {ALONE}.",
        procedure=ForAll(PROVEN, lambda c: initial_dual(c, required(proven_prices(c))), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=HALF,
    ),
)
