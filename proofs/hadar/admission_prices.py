"""The claimed effects of the prices of equations (5) to (7): admit any job at first, and block full servers."""

from __future__ import annotations

from fractions import Fraction

from hetopt.proofs.hadar.price_functions import (
    PriceFunction,
    PrimalDualRun,
    payoff,
    printed_prices,
    proven_prices,
    runs,
)
from hetopt.proofs.hadar.radicals import rounded_towards_zero
from hetopt.proofs.hadar.slot_cases import JobSchedule, SlotCase, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding, fraction_text
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers

F = Fraction


def required(tariff: PriceFunction | None) -> PriceFunction:
    """The proven prices of a case for which they exist."""
    assert tariff is not None
    return tariff


def blocked(case: SlotCase) -> Finding:
    """Whether some job pays for a GPU of a full server at the printed prices on its arrival."""
    return max((_pays_for_full(run, case) for run in runs(case, printed_prices(case))), key=lambda found: found.slack)


def _pays_for_full(run: PrimalDualRun, case: SlotCase) -> Finding:
    worst = Finding(F(0), "no job pays for a full server")
    for step in run.steps:
        for one in case.schedules[step.job]:
            pays = payoff(case, run.tariff, step.used, one)
            if _touches_full(case, step.used, one) and rounded_towards_zero(pays) > -worst.slack:
                words = (
                    f"j{step.job + 1} would pay for GPUs of a full server: its payoff is "
                    f"{fraction_text(rounded_towards_zero(pays))}"
                )
                chosen: list[JobSchedule | None] = [None] * len(case.jobs)
                for other in run.steps[: run.steps.index(step)]:
                    chosen[other.job] = other.taken
                chosen[step.job] = one
                pictures = (case.picture("more than there is", chosen),)
                worst = Finding(-rounded_towards_zero(pays), words, ("in all runs; the payoff is exact",), pictures)
    return worst


def _touches_full(case: SlotCase, used: tuple[int, ...], one: JobSchedule) -> bool:
    cells = len(case.cells)
    return any(used[t * cells + i] >= case.cells[i][2] for t, i, _ in one.uses)


def within(case: SlotCase) -> Finding:
    """At proven prices, without checking the capacity: the least number of free GPUs of a cell in the end."""
    left = [
        case.cells[i % len(case.cells)][2] - n
        for run in runs(case, required(proven_prices(case)), guarded=False)
        for i, n in enumerate(run.used)
    ]
    return Finding(F(min(left)), f"every cell has {min(left)} GPUs left or more")


def admitted(case: SlotCase, tariff: PriceFunction) -> Finding:
    """Whether every feasible job has a positive payoff on the empty cluster: the least of the best payoffs."""
    none = (0,) * (case.slots * len(case.cells))
    worst: tuple[Fraction, str] | None = None
    for j, own in enumerate(case.schedules):
        pays = max((payoff(case, tariff, none, one) for one in own), default=None)
        if pays is not None and (worst is None or rounded_towards_zero(pays) < worst[0]):
            worst = (
                rounded_towards_zero(pays),
                f"on the empty cluster the best payoff of j{j + 1} is {fraction_text(rounded_towards_zero(pays))}",
            )
    slack, words = (F(1), "no job can be done") if worst is None else worst
    refused = slack <= 0  # line 30 asks for more than 0
    pictures = (case.picture("optimum", case.best[1]),) if refused else ()
    return Finding(slack - 1 if refused else slack, words, ("payoffs are exact",), pictures)


def initial_dual(case: SlotCase, tariff: PriceFunction) -> Finding:
    """Compare D_0 with half of the optimum."""
    start, (best, chosen) = PrimalDualRun(case, tariff, (), ()).initial, case.best
    words = f"D_0 is {fraction_text(start)}, OPT / 2 is {fraction_text(best / 2)}"
    return Finding(best / 2 - start, words, ("the optimum by all choices",), (case.picture("optimum", chosen),))


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
Where $\gamma \ge (1-\delta) c$ the price is at least $U_{\max} \ge \mathcal U_j^*$, so a job that took a GPU there
would have a payoff of at most 0 and is refused. So a job that takes $w \le \delta c$ GPUs finds $\gamma < (1-\delta)
c$, and $\gamma + w < c$."""

ADMITS = r"""
A schedule uses at most all $T \sum c$ GPU-slots, at $U_{\min} = \min_i \mathcal U_i^* / (2 T \sum c)$ each while
nothing is in use: it costs at most $\min_i \mathcal U_i^* / 2 < \mathcal U_j^*$."""

HALF = r"""
$D_0 = T \sum_{h,r} c_h^r\, U_{\min} = \frac12 \min_j \mathcal U_j^*$, and a job alone is a feasible choice, so
$\mathrm{OPT} \ge \max_j \mathcal U_j^* \ge \min_j \mathcal U_j^*$ over the jobs that can be done."""

PROVEN_PRICES = r"$U_{\max} = \max_j \mathcal U_j^*$, $U_{\min} = \min_j \mathcal U_j^* / (2 T \sum c)$"
ALONE = r"$\mathcal U_j^*$ being the utility of job $j$ alone, over the jobs that can be done with a utility above 0"
EXPONENT = r"exponent $\gamma / ((1 - \delta) c)$, no gang taking more than $\delta c$ GPUs of a cell, $\delta < 1$"

CLAIMS = (
    Claim(
        key="hadar/admits-any",
        paper="Hadar",
        place="section III-B",
        statement=r"When $\gamma_h^r = 0$ the price is $U_{\min}^r$, lowest to admit any job: every job that can be "
        r"done has a positive payoff on the empty cluster.",
        procedure=ForAll(slot_space(n=(1, 2), values=MANY), lambda c: admitted(c, printed_prices(c))),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/admits-any-eta",
        note=r"With the least $\eta$ that the proof of Theorem 2 allows, $\sum c / \min_j (t_j^{\max} W_j)$; it is "
        r"below $1/4$ where all jobs are long.",
    ),
    Claim(
        key="hadar/admits-any-eta",
        paper="Hadar",
        place="section III-B",
        statement=r"The same with (6), (7) and $\eta > 1/4$.",
        procedure=ForAll(slot_space(n=(1, 2), values=MANY), lambda c: admitted(c, printed_prices(c, ABOVE_QUARTER))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=r"""
A schedule of job $j$ uses $t_j^{\max} W_j$ GPU-slots at most, at $U_{\min} \le \mathcal U_j(T - a_j) / (4 \eta\,
t_j^{\max} W_j)$ each: less than $\mathcal U_j(T - a_j)$, which no schedule is worth less than.""",
        note="Looked at with the least such number in hundredths, or the least that the proof of Theorem 2 allows.",
    ),
    Claim(
        key="hadar/admits-any-corrected",
        paper="Hadar",
        place="section III-B",
        statement=f"The same for {PROVEN_PRICES}, {ALONE}.",
        procedure=ForAll(PROVEN, lambda c: admitted(c, required(proven_prices(c))), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=ADMITS,
    ),
    Claim(
        key="hadar/full-server",
        paper="Hadar",
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
        paper="Hadar",
        place="section III-B",
        statement=f"With {PROVEN_PRICES}, {ALONE}, and the {EXPONENT}, no cell is ever given more than it has, though "
        "the capacity is not checked.",
        procedure=ForAll(PROVEN, within, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=U_MAX_REACHED,
    ),
    Claim(
        key="hadar/initial-dual",
        paper="Hadar",
        place="eq. (9)",
        statement=r"$D_0 = \sum_t \sum_h \sum_r U_{\min}^r c_h^r \le \frac12 \mathrm{OPT}$ if the optimum accepts a "
        r"job.",
        procedure=ForAll(PRINTED, lambda c: initial_dual(c, printed_prices(c))),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/initial-dual-corrected",
        note=r"Equation (9) drops the sum over slots. $\eta$ is the least that is allowed; with any other fixed one "
        r"the same happens for more slots.",
    ),
    Claim(
        key="hadar/initial-dual-corrected",
        paper="Hadar",
        place="eq. (9)",
        statement=r"$D_0 \le \frac12 \mathrm{OPT}$ for " + f"{PROVEN_PRICES}, {ALONE}.",
        procedure=ForAll(PROVEN, lambda c: initial_dual(c, required(proven_prices(c))), share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=HALF,
    ),
)
