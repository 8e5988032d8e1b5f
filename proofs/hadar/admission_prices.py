"""The claimed effects of the prices of equations (5) to (7): empty servers admit any job, full servers none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.exact_prices import (
    PriceFunction,
    PrimalDualRun,
    less_than_a_cell,
    payoff,
    printed_prices,
    proven_prices,
    runs,
    some_utility,
)
from hetopt.proofs.hadar.radicals import rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotSchedule, non_increasing, positive, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import hypothesis, integers

F = Fraction


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
        for run in runs(case, proven_prices(case), check_capacity=False)
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


def initial_by_slots(case: SlotCase) -> Finding:
    """Compare D_0 at printed prices with T / 4 times the least utility, and for two slots with half of the optimum."""
    start, (best, _) = PrimalDualRun(case, printed_prices(case), (), ()).initial, case.best
    least = min(job.value(case.slots - 1) for job in case.jobs)
    words = f"D_0 is {number_text(start)}, the least utility {number_text(least)}, T {case.slots}"
    slack = case.slots * least / 4 - start
    return Finding(min(slack, best / 2 - start) if case.slots <= 2 else slack, words)


def least_start() -> list[Any]:
    """For z3: D_0 at printed prices is above T / 4 times the utility of a job."""
    from z3 import Reals

    slots, gpus, eta, need, utility, price = Reals("slots gpus eta need utility price")
    return [
        slots > 0,
        price > 0,
        gpus <= eta * need,  # the proof of Theorem 2 allows this eta; need is t_max W
        4 * eta * need * price <= utility,  # U_min is at most the quotient of the job in (6)
        slots * gpus * price > slots * utility / 4,
    ]


@hypothesis("the optimum accepts a job")
def accepts_a_job(case: SlotCase) -> bool:
    """As the proof of [Hadar, Theorem 2] assumes."""
    return case.best[0] > 0


MANY = {
    "demand": integers(1, 2),
    "work": integers(1, 4),
    "arrival": integers(0, 1),
    "fading": integers(0, 1),
    "speed": integers(0, 2),
    "slots": integers(1, 4),
}
ABOVE_QUARTER = F(26, 100)
FEW = slot_space(positive, n=(1, 2), values=MANY)
PROVABLE = (less_than_a_cell, some_utility)
"""What the proven prices need."""

SMALL = {**MANY, "gpus": integers(2, 4), "work": integers(1, 3), "slots": integers(1, 2)}
PROVEN = slot_space(*PROVABLE, values=SMALL)

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

LEAST_START = r"""
The proof requires $\sum c / \eta \le t_i^{\max} W_i$ for all jobs $i$. Let job $i$ have the least $\mathcal U_i(T -
a_i)$. Then $D_0 = T \sum c\, U_{\min} = \frac T4 \frac{\sum c}\eta \min_j \frac{\mathcal U_j(T - a_j)}{t_j^{\max} W_j}
\le \frac T4 t_i^{\max} W_i \frac{\mathcal U_i(T - a_i)}{t_i^{\max} W_i} = \frac T4 \mathcal U_i(T - a_i)$. A job that
the optimum accepts has a utility of at least $\mathcal U_j(T - a_j) \ge \mathcal U_i(T - a_i)$, so $\mathrm{OPT}$ is at
least that, and $\frac T4 \le \frac12$ for $T \le 2$."""

CLAIMS = (
    Claim(
        key="hadar/admits-any",
        place="section III-B",
        statement=r"When $\gamma_h^r = 0$ the price is $U_{\min}^r$, lowest to admit any job: every feasible job has "
        r"a positive payoff on the empty cluster.",
        procedure=ForAll(FEW, lambda c: admitted(c, printed_prices(c))),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/admits-any-eta",
        quote=r"The price starts to be low enough to accept the incoming job: when $\gamma_h^r = 0$, we have "
        r"$k_h^r(t) = U_{\min}^r$, lowest to admit any job.",
        note=r"With the least $\eta$ that the proof of Theorem 2 allows, $\sum c / \min_j (t_j^{\max} W_j)$; it is "
        r"below $1/4$ where all jobs are long.",
    ),
    Claim(
        key="hadar/admits-any-eta",
        place="section III-B",
        statement=r"With (6), (7), $t_j^{\max}$ rounded up to whole slots, and $\eta > 1/4$, every feasible job has a "
        "positive payoff on the empty cluster.",
        procedure=ForAll(
            slot_space(positive, non_increasing, n=(1, 2), values=MANY),
            lambda c: admitted(c, printed_prices(c, ABOVE_QUARTER)),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=r"""
A schedule of job $j$ uses $t_j^{\max} W_j$ GPU-slots at most, at $U_{\min} \le \mathcal U_j(T - a_j) / (4 \eta\,
t_j^{\max} W_j)$ each: less than $\mathcal U_j(T - a_j)$, the least utility of a schedule.""",
        note=r"Checked with $\eta = 0.26$, or with the least that the proof of Theorem 2 allows if that is larger. "
        r"Without the rounding it fails: on one GPU, a job of one unit of work that does two in a slot has $t^{\max} = "
        r"\frac12$, and with utility 1 and $\eta = 0.26$, $U_{\min} = \frac{25}{13}$ and the payoff $-\frac{12}{13}$.",
    ),
    Claim(
        key="hadar/admits-any-corrected",
        place="section III-B",
        statement=f"With {PROVEN_PRICES}, {ALONE}, every feasible job has a positive payoff on the empty cluster.",
        procedure=ForAll(
            slot_space(*PROVABLE, positive, values=SMALL), lambda c: admitted(c, proven_prices(c)), share=F(1, 2)
        ),
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
        procedure=ForAll(slot_space(positive, k=(1, 1), values={"demand": integers(1, 2)}), blocked),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit", "hadar-printed"),
        instead="hadar/full-server-corrected",
        quote=r"When a server is out of free resources, $\gamma_h^r(t) = c_h^r$, reaching the price $k_h^r(t) = "
        r"U_{\max}^r$, high enough to block other jobs from getting these resources.",
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
        procedure=ForAll(
            slot_space(positive, accepts_a_job, n=(1, 2), values=MANY), lambda c: initial_dual(c, printed_prices(c))
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/initial-dual-corrected",
        quote="The last inequality holds because we assume the offline optimal solution accepts at least one job",
        note=r"Equation (9) drops the sum over slots. $\eta$ is the least that is allowed; with any other fixed value "
        r"the claim fails for more slots. For two slots at most it holds: `hadar/initial-dual-slots`.",
    ),
    Claim(
        key="hadar/initial-dual-corrected",
        place="eq. (9)",
        statement=r"$D_0 \le \frac12 \mathrm{OPT}$ for " + f"{PROVEN_PRICES}, {ALONE}.",
        procedure=ForAll(PROVEN, lambda c: initial_dual(c, proven_prices(c)), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=HALF,
    ),
    Claim(
        key="hadar/initial-dual-slots",
        place="eq. (9)",
        statement=r"With (6) and (7), $D_0 \le \frac T4 \min_j \mathcal U_j(T - a_j)$; so $D_0 \le \frac12 "
        r"\mathrm{OPT}$ for one or two slots if the optimum accepts a job.",
        procedure=ForAll(slot_space(positive, non_increasing, accepts_a_job, n=(1, 2), values=MANY), initial_by_slots),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=LEAST_START,
        mechanical=(by_z3("no utility, number of slots or GPUs, and no eta that the proof allows", least_start),),
        note=r"$\eta$ is the least that the proof of Theorem 2 allows; a larger one only lowers $D_0$.",
    ),
)
