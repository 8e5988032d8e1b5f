"""What the prices of equations (5) to (7) are said to do: admit any job at first, and block a full server."""

from __future__ import annotations

from fractions import Fraction

from hetopt.proofs.hadar.price_functions import Run, Tariff, payoff, printed, proven, runs
from hetopt.proofs.hadar.radicals import short
from hetopt.proofs.hadar.slot_cases import Gangs, Planned, gangs
from hetopt.proofs.ledger.claim import Claim, Finding, number
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import whole

F = Fraction


def required(tariff: Tariff | None) -> Tariff:
    """Proven prices of a case for which they are defined."""
    assert tariff is not None
    return tariff


def blocked(case: Gangs) -> Finding:
    """Whether some job pays, at the printed prices when it comes, for a GPU of a server that is full."""
    return max((_pays_for_full(run, case) for run in runs(case, printed(case))), key=lambda found: found.slack)


def _pays_for_full(run: Run, case: Gangs) -> Finding:
    worst = Finding(F(0), "no job pays for a full server")
    for step in run.steps:
        for one in case.schedules[step.job]:
            pays = payoff(case, run.tariff, step.used, one)
            if _touches_full(case, step.used, one) and short(pays) > -worst.slack:
                words = f"j{step.job + 1} would pay for GPUs of a full server: its payoff is {number(short(pays))}"
                chosen: list[Planned | None] = [None] * len(case.jobs)
                for other in run.steps[: run.steps.index(step)]:
                    chosen[other.job] = other.taken
                chosen[step.job] = one
                pictures = (case.picture("more than there is", chosen),)
                worst = Finding(-short(pays), words, ("in all runs; the payoff is exact",), pictures)
    return worst


def _touches_full(case: Gangs, used: tuple[int, ...], one: Planned) -> bool:
    cells = len(case.cells)
    return any(used[t * cells + i] >= case.cells[i][2] for t, i, _ in one.uses)


def within(case: Gangs) -> Finding:
    """At proven prices, without a look at the GPUs left: the least GPUs that a cell has left in the end."""
    left = [
        case.cells[i % len(case.cells)][2] - n
        for run in runs(case, required(proven(case)), guarded=False)
        for i, n in enumerate(run.used)
    ]
    return Finding(F(min(left)), f"every cell has {min(left)} GPUs left or more")


def admitted(case: Gangs, tariff: Tariff) -> Finding:
    """Whether every job that can be done at all pays on the empty cluster: the least of the best payoffs."""
    none = (0,) * (case.slots * len(case.cells))
    worst: tuple[Fraction, str] | None = None
    for j, own in enumerate(case.schedules):
        pays = max((payoff(case, tariff, none, one) for one in own), default=None)
        if pays is not None and (worst is None or short(pays) < worst[0]):
            worst = short(pays), f"on the empty cluster the best payoff of j{j + 1} is {number(short(pays))}"
    slack, words = (F(1), "no job can be done") if worst is None else worst
    refused = slack <= 0  # line 30 asks for more than 0
    pictures = (case.picture("optimum", case.best[1]),) if refused else ()
    return Finding(slack - 1 if refused else slack, words, ("payoffs are exact",), pictures)


def initial_dual(case: Gangs, tariff: Tariff) -> Finding:
    """D_0 against half of the optimum."""
    start, (best, chosen) = Run(case, tariff, (), ()).initial, case.best
    words = f"D_0 is {number(start)}, OPT / 2 is {number(best / 2)}"
    return Finding(best / 2 - start, words, ("the optimum by all choices",), (case.picture("optimum", chosen),))


MANY = {
    "demand": whole(1, 2),
    "work": whole(1, 4),
    "arrival": whole(0, 1),
    "fading": whole(0, 1),
    "speed": whole(0, 2),
    "slots": whole(1, 4),
}
ABOVE_QUARTER = F(26, 100)
PRINTED = gangs(lambda c: c.best[0] > 0, n=(1, 2), values=MANY)
PROVEN = gangs(
    lambda c: proven(c) is not None,
    values={**MANY, "gpus": whole(2, 4), "work": whole(1, 3), "slots": whole(1, 2)},
)

U_MAX_REACHED = r"""
Where $\gamma \ge (1-\delta) c$ the price is at least $U_{\max} \ge \mathcal U_j^*$, so a job that took a GPU there
would have a payoff of at most 0 and is refused. So whoever takes $w \le \delta c$ GPUs finds $\gamma < (1-\delta)
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
        means=ForAll(gangs(n=(1, 2), values=MANY), lambda c: admitted(c, printed(c))),
        expected="false",
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
        means=ForAll(gangs(n=(1, 2), values=MANY), lambda c: admitted(c, printed(c, ABOVE_QUARTER))),
        expected="true",
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
        means=ForAll(PROVEN, lambda c: admitted(c, required(proven(c))), share=F(1, 2)),
        expected="true",
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
        means=ForAll(gangs(k=(1, 1), values={"demand": whole(1, 2)}), blocked),
        expected="false",
        policies=("hadar-commit", "hadar-printed"),
        instead="hadar/full-server-corrected",
        note=r"$U_{\max}^r$ is utility per GPU of the gang. Capacity rests on the first row of (8).",
    ),
    Claim(
        key="hadar/full-server-corrected",
        paper="Hadar",
        place="section III-B",
        statement=f"With {PROVEN_PRICES}, {ALONE}, and the {EXPONENT}, no cell is ever given more than it has, though "
        "nobody looks at the GPUs left.",
        means=ForAll(PROVEN, within, share=F(1, 2)),
        expected="true",
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
        means=ForAll(PRINTED, lambda c: initial_dual(c, printed(c))),
        expected="false",
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
        means=ForAll(PROVEN, lambda c: initial_dual(c, required(proven(c))), share=F(1, 2)),
        expected="true",
        printed=False,
        policies=("hadar-commit",),
        proof=HALF,
    ),
)
