"""The displayed inequalities of Appendices A and B, and of the proof of Theorem 1."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

from hetopt.proofs.asrpt import bound_algebra
from hetopt.proofs.asrpt.approximation_ratio import ADDED_UP, COMBINED, LONG_ENOUGH, THEOREM
from hetopt.proofs.asrpt.bound_sides import (
    EXACT,
    MACHINE,
    OPTIMUM,
    BoundSides,
    BoundTerms,
    bound,
    schedule_pictures,
    theorem_1,
    used_fraction,
)
from hetopt.proofs.asrpt.lemmas import (
    ANY,
    CONTINUOUS,
    FEW_ITERATIONS,
    FULL,
    HALF,
    SCALED,
    STARTS,
    WORK_BEFORE,
    WRONG,
    holds,
    wrong_predictions,
)
from hetopt.proofs.asrpt.scheduling_cases import (
    Runs,
    SchedulingCase,
    at_least_one_iteration,
    scheduling_space,
    total_completion,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll

F = Fraction


# -- Appendix A ------------------------------------------------------------------------------------------------------


def stretched_shares(case: SchedulingCase) -> Finding:
    """The shares g / G in the optimum stretched by rho: their sum, and what each job receives by rho c_i."""
    runs, rho, gpus = case.optimum(), BoundTerms.of(case).rho, case.servers.total
    sizes = case.sizes(predicted=False)
    late = min(rho * run.start - case.arrivals[run.job] for run in runs)
    received = min(F(sum(run.use), gpus) * rho * (run.end - run.start) - sizes[run.job] for run in runs)
    used = max(
        sum((F(sum(other.use), gpus) for other in runs if other.start <= run.start < other.end), F(0)) for run in runs
    )
    words = f"shares of at most {used} in all, and at least {received} s more than each job needs"
    return Finding(min(late, received, 1 - used), words, (OPTIMUM, EXACT))


# -- Appendix B ------------------------------------------------------------------------------------------------------


def work_by_then(case: SchedulingCase, *, slots: bool) -> BoundSides:
    """``sum_{j <= i} g_j/G n~_j alpha~_j <= C_i`` on the virtual machine, for the tightest job."""
    virtual, sizes = case.virtual(predicted=True, slots=slots), case.sizes(predicted=True)
    sums = accumulate(sizes[i] for i in virtual.order)
    work, end = max(((w, virtual.ends[i]) for w, i in zip(sums, virtual.order, strict=True)), key=lambda p: p[0] - p[1])
    return BoundSides(work, end, ("the work done", "the time"), certificate=MACHINE)


def in_slots_and_without(case: SchedulingCase) -> Finding:
    """The work done on the virtual machine in continuous time and in slots."""
    return min((work_by_then(case, slots=slots).finding for slots in (False, True)), key=lambda found: found.slack)


def seconds_before(case: SchedulingCase, runs: Runs) -> list[tuple[Fraction, Fraction]]:
    """For each job in the order of starts the sums over all jobs before it.

    ``sum g_j n_j alpha_j / (G - g_max)`` and ``sum tau g_j/G n~_j alpha~_j``, the latter with the job itself.
    """
    q, sizes = BoundTerms.of(case), case.sizes(predicted=True)
    busy = [case.tasks[r.job].gpus * case.iterations[r.job] * case.apart[r.job] / q.spare for r in runs]
    delays = [q.delay * sizes[r.job] for r in runs]
    return list(zip([F(0), *accumulate(busy)][:-1], accumulate(delays), strict=True))


def replaced_by_predictions(case: SchedulingCase) -> BoundSides:
    """``sum_{j < i} g_j n_j alpha_j/(G-g) <= rho G/(G-g) C_i + g alpha/(G-g) epsilon``, for the tightest job."""
    q, virtual, runs = BoundTerms.of(case), case.virtual(predicted=True), case.asrpt()
    sides = [
        (before, q.rho * F(q.gpus, q.spare) * virtual.ends[run.job] + F(q.widest, q.spare) * q.most * q.error)
        for run, (before, _) in zip(runs, seconds_before(case, runs), strict=True)
    ]
    left, right = max(sides, key=lambda pair: pair[0] - pair[1])
    return BoundSides(left, right, ("GPU seconds of earlier jobs over G - g_max", "the bound"), certificate=MACHINE)


def limit_of_starts(case: SchedulingCase, runs: Runs, *, short: bool) -> list[Fraction]:
    """For each job the right side of (11), or ``short`` of the inequality before it, with the job's own delay."""
    q, virtual = BoundTerms.of(case), case.virtual(predicted=True)
    wrong, factor = F(q.widest, q.spare) * q.most * q.error, q.rho * F(q.gpus, q.spare)
    return [
        virtual.ends[run.job] + delays + (before if short else factor * virtual.ends[run.job] + wrong)
        for run, (before, delays) in zip(runs, seconds_before(case, runs), strict=True)
    ]


def makespan(case: SchedulingCase, *, short: bool = False) -> BoundSides:
    """The completion of all jobs before a job, and the right side of (11), or ``short`` of the inequality before it."""
    runs, sizes = case.asrpt(), case.sizes(predicted=True)
    ends = accumulate((run.end for run in runs), max)
    limits = limit_of_starts(case, runs, short=short)
    without = [limit - case.delay * sizes[run.job] for limit, run in zip(limits, runs, strict=True)]
    pairs = [(F(0), without[0]), *zip(ends, without[1:], strict=False)]
    left, right = max(pairs, key=lambda pair: pair[0] - pair[1])
    return BoundSides(
        left,
        right,
        ("the makespan of the jobs before a job", "its bound"),
        lambda: (
            case.virtual(predicted=True).picture("virtual machine"),
            *schedule_pictures(case, ("A-SRPT", runs)),
        ),
        (EXACT,),
    )


def starts(case: SchedulingCase, *, short: bool = False) -> BoundSides:
    """The start of a job, and its bound by (11), or ``short`` by the inequality before it, for the tightest job."""
    runs = case.asrpt()
    limits = limit_of_starts(case, runs, short=short)
    left, right = max(((r.start, limit) for r, limit in zip(runs, limits, strict=True)), key=lambda p: p[0] - p[1])
    return BoundSides(left, right, ("start of a job", "its bound"), certificate=(EXACT,))


def own_durations(case: SchedulingCase) -> Finding:
    """``sum n_i alpha_max_i <= rho sum n_i alpha_min_i <= rho OPT_A``."""
    q = BoundTerms.of(case)
    longest = sum((n * alpha for n, alpha in zip(case.iterations, case.apart, strict=True)), F(0))
    least = q.rho * sum((min(uses.values()) for uses in case.lengths), F(0))
    most = q.rho * total_completion(case.optimum())
    return Finding(min(least - longest, most - least), f"{longest} <= {least} <= {most}", (OPTIMUM, EXACT))


# -- the theorem -----------------------------------------------------------------------------------------------------


def lemmas_combined(case: SchedulingCase) -> BoundSides:
    """``Gamma_A <= (2 + tau + rho G/(G-g)) rho OPT_A + I g alpha ((1+tau)/G + (1+rho)/(G-g)) epsilon``."""
    q, runs, best = BoundTerms.of(case), case.asrpt(), total_completion(case.optimum())
    right = (2 + q.delay + q.rho * F(q.gpus, q.spare)) * q.rho * best
    right += q.jobs * q.widest * q.most * ((1 + q.delay) / q.gpus + (1 + q.rho) / q.spare) * q.error
    return BoundSides(total_completion(runs), right, ("Gamma_A", "the bound"))


def least_total(case: SchedulingCase) -> Finding:
    """``rho OPT_A >= OPT_A1 >= alpha_min I (I+1) / (2 G)``."""
    q = BoundTerms.of(case)
    most, middle = q.rho * total_completion(case.optimum()), case.virtual(predicted=False).total
    least = q.least * q.jobs * (q.jobs + 1) / (2 * q.gpus)
    return Finding(min(most - middle, middle - least), f"{most} >= {middle} >= {least}", (OPTIMUM, EXACT))


def below_the_bound(case: SchedulingCase) -> Finding:
    """Theorem 1 with a strict inequality; equality violates it by 1."""
    sides = theorem_1(case)
    found = sides.finding
    return found if sides.left != sides.right else Finding(F(-1), found.explanation, found.certificate)


OPEN_BANDWIDTH = wrong_predictions(inside="any")
"""Any bandwidths and predictions, and G > g_max."""

MAKESPAN = r"Even in continuous time: the jobs before job $i$ in the virtual machine's order are complete by "
START = f"{CONTINUOUS} and $G > g^{{max}}$: job $i$ starts by "
DELAYS = r"\frac{\tau g_j \tilde n_j \tilde\alpha_j^{min}}{G}"
SHORT = r"$C_i(OPT_{\tilde A_1}) + \sum_{j < i} \frac{g_j n_j \alpha_j^{max}}{G - g^{max}} + "
LONG = r"$(1 + \frac{\rho G}{G - g^{max}}) C_i(OPT_{\tilde A_1}) + \frac{g^{max} \alpha^{max}}{G - g^{max}} \epsilon + "
BEFORE, WITH_OWN = rf"\sum_{{j < i}} {DELAYS}$", rf"\sum_{{j \le i}} {DELAYS}$"
ONE_LONG = (
    "The bound divides the work of these jobs by the number of busy GPUs, but a job does not run on more GPUs than "
)
ONE_LONG += "it needs: at the end few GPUs are busy. The proof needs only that job $i$ can start then."

CLAIMS = (
    Claim(
        key="asrpt/appendix-a-shares",
        place="Appendix A",
        statement=r"In continuous time, with $B_{intra} \ge B_{inter} / g$: if each job has the share $g_i / G$ of the "
        r"virtual machine while it runs in an optimal schedule of $A$ stretched by $\rho$, the shares sum to at most "
        r"1, and each job receives all it needs by $\rho c_i^*$.",
        quote="To construct a schedule for $A_1$, observe that at any time $t$ in the scaled schedule if $I_t$ is the "
        r"set of jobs running (each using $g_i$ GPUs), we instead assign each job $i \in I_t$ a fraction "
        r"$\frac{g_i}{G}$ of the total GPU capacity. This does not delay any completion times",
        procedure=ForAll(FULL, stretched_shares, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=SCALED.partition(" SRPT has")[0] + r" The last step is `asrpt/alpha-order`.",
        mechanical=(bound_algebra.SHARES,),
        note="In slots jobs cannot share the machine (`asrpt/lemma-1`).",
    ),
    Claim(
        key="asrpt/appendix-b-work",
        place="Appendix B",
        statement=r"$C_i(OPT_{\tilde A_1}) \ge \sum_{j \le i} \frac{g_j}{G} \tilde n_j \tilde\alpha_j^{min}$, in "
        "continuous time and in slots.",
        quote=r"$C_i(\mathit{OPT}_{\tilde{A}_1})\geq \sum_{j=1}^i \frac{g_j}{G}\tilde{n}_j\tilde{\alpha}_j^{\min}$",
        procedure=ForAll(ANY, in_slots_and_without, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof="Jobs $1, \\dots, i$ are complete by then, and the machine works one second per second at most.",
        mechanical=(bound_algebra.DONE,),
    ),
    Claim(
        key="asrpt/appendix-b-makespan",
        place="Appendix B",
        statement=f"{MAKESPAN}{SHORT}{BEFORE}.",
        quote=r"$\text{makespan}_{i-1} \leq C_i(\mathit{OPT}_{\tilde{A}_1}) + "
        r"\sum_{j=1}^{i-1}\frac{g_jn_j\alpha_j^{\max}}"
        r"{G-g^{\max}} + \sum_{j=1}^{i-1}\frac{\tau g_j\tilde{n}_j\tilde{\alpha}_j^{\min}}{G}$",
        procedure=ForAll(scheduling_space(), bound(lambda c: makespan(c, short=True))),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/appendix-b-starts",
        note=ONE_LONG + r" In the worst case of the appendix these jobs begin only at $C_i(OPT_{\tilde A_1})$, and "
        "complete even later.",
    ),
    Claim(
        key="asrpt/appendix-b-starts",
        place="Appendix B",
        statement=f"{START}{SHORT}{WITH_OWN}.",
        procedure=holds(WRONG, lambda c: starts(c, short=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=STARTS,
        mechanical=(bound_algebra.HEAD,),
    ),
    Claim(
        key="asrpt/eq-10",
        place="eq. (10)",
        statement=r"$\sum_{j < i} \frac{g_j n_j \alpha_j^{max}}{G - g^{max}} \le \frac{\rho G}{G - g^{max}} "
        r"C_i(OPT_{\tilde A_1}) + \frac{g^{max} \alpha^{max}}{G - g^{max}} \epsilon$, where $j < i$ are the jobs "
        "before $i$ in the virtual machine's order.",
        quote=r"$\le \frac{\rho G}{G - g^{\max}} C_i (OPT_{\tilde{A}_1}) + \frac{g^{\max} \alpha_{\max}}{G - g^{\max}} "
        r"\epsilon$",
        procedure=holds(OPEN_BANDWIDTH, replaced_by_predictions),
        expected=ClaimVerdict.TRUE,
        proof=WORK_BEFORE,
        mechanical=(bound_algebra.WORK,),
        note="The first line of (10) is an equation: $n_j$ is $\\tilde n_j + \\epsilon_j$ for underestimated jobs and "
        "$\\tilde n_j - \\epsilon_j$ for overestimated ones.",
    ),
    Claim(
        key="asrpt/eq-11",
        place="eq. (11)",
        statement=f"{MAKESPAN}{LONG}{BEFORE}.",
        quote=r"$\leq (1 + \frac{\rho G}{G - g^{\max}})C_i(OPT_{\tilde{A}_1}) + \frac{g^{\max}\alpha^{\max}}{G - "
        r"g^{\max}}\epsilon + \sum_{j=1}^{i-1} \frac{\tau g_j \tilde{n}_j \tilde{\alpha}_j^{\min}}{G}$",
        procedure=ForAll(scheduling_space(), bound(makespan)),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-11-starts",
        note=ONE_LONG + " So (12) holds (`asrpt/eq-12`).",
    ),
    Claim(
        key="asrpt/eq-11-starts",
        place="eq. (11)",
        statement=f"{START}{LONG}{WITH_OWN}.",
        procedure=holds(WRONG, starts),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=STARTS + WORK_BEFORE,
        mechanical=(bound_algebra.HEAD, bound_algebra.WORK),
    ),
    Claim(
        key="asrpt/appendix-b-own",
        place="Appendix B",
        statement=r"$\sum_i n_i \alpha_i^{max} \le \rho \sum_i n_i \alpha_i^{min} \le \rho\, OPT_A$.",
        quote=r"Observing that $\sum_{i\in[I]} n_i \alpha_i^{\max} \leq \rho \sum_{i \in [I]} n_i \alpha_i^{\min} \leq "
        r"\rho OPT_A$",
        procedure=ForAll(ANY, own_durations, share=HALF),
        expected=ClaimVerdict.TRUE,
        proof=r"$\alpha_i^{max} \le \rho \alpha_i^{min}$ by definition of $\rho$, and no job completes before $n_i "
        r"\alpha_i^{min}$.",
        mechanical=(bound_algebra.OWN,),
    ),
    Claim(
        key="asrpt/thm-1-combined",
        place="Theorem 1, proof",
        statement=f"{CONTINUOUS} and $G > g^{{max}}$: "
        + r"$\Gamma_A \le (2 + \tau + \frac{\rho G}{G - g^{max}}) \rho\, "
        r"OPT_A + I g^{max} \alpha^{max} \bigl(\frac{1 + \tau}{G} + \frac{1 + \rho}{G - g^{max}}\bigr) \epsilon$, also "
        "where jobs have less than one iteration.",
        quote="Combining Lemmas 1, 2 and 3 yields",
        procedure=holds(
            scheduling_space(
                communicating=True,
                iterations=(F(1, 8), F(1, 2), *FEW_ITERATIONS),
                predicted=(F(0), F(1), F(4)),
                delayed=True,
            ),
            lemmas_combined,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof="Put Lemma 3 (`asrpt/lemma-3-continuous`) into Lemma 2 (`asrpt/lemma-2-continuous`), then Lemma 1 "
        r"(`asrpt/lemma-1-continuous`) for $OPT_{A_1}$. The factor of $I g^{max} \alpha^{max} \epsilon$ is $\frac1G (1 "
        r"+ \tau + \frac{\rho G}{G - g^{max}}) + \frac1{G - g^{max}}$.",
        mechanical=(ADDED_UP,),
    ),
    Claim(
        key="asrpt/thm-1-least",
        place="Theorem 1, proof",
        statement=CONTINUOUS
        + r" and $n_i \ge 1$: $\rho\, OPT_A \ge OPT_{A_1} \ge \alpha^{min} \frac{I (I + 1)}{2 G}$.",
        quote=r"Assuming each job runs at least one iteration, we have $\rho OPT_A \geq OPT_{A_1} \geq \sum_{i=1}^{I} "
        r"(i \times \alpha^{\min})/G = \alpha^{\min} \frac{I(I+1)}{2G}$.",
        procedure=ForAll(wrong_predictions(at_least_one_iteration, spare=False), least_total, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"The first inequality is Lemma 1. Each job needs $\frac{g_i}{G} n_i \tilde\alpha_i^{min} \ge "
        r"\alpha^{min} / G$ seconds of the machine, so the $k$-th to complete is done no earlier than $k \alpha^{min} "
        "/ G$.",
        mechanical=(bound_algebra.LEAST,),
    ),
    Claim(
        key="asrpt/thm-1-strict",
        place="Theorem 1, proof",
        statement=f"{CONTINUOUS}, $G > g^{{max}}$ and $n_i \\ge 1$, the inequality of Theorem 1 is strict: "
        + THEOREM.replace(r"\le", "<"),
        quote=r"$\frac{\Gamma_A}{OPT_A} < \left[2 + \tau + \frac{\rho G}{G - g^{\max}}\right] \rho + 2 \rho g^{\max} "
        r"\bar{\rho} \left[1 + \tau + \frac{(1 + \rho)G}{G - g^{\max}}\right] \bar{\epsilon}$",
        procedure=ForAll(LONG_ENOUGH, below_the_bound, ratio=used_fraction(theorem_1), share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=COMBINED
        + r"""

If some $\tilde n_i > 0$, then (12) is strict for that job, because the work before it on the virtual machine is at most
$\tilde C_i - \frac{g_i}{G} \tilde n_i \tilde\alpha_i^{min} < \tilde C_i$, so Lemma 2 is strict. Otherwise $\epsilon =
\sum_i n_i > 0$, and the last step is strict, because $\frac{I (I + 1)}{2} > \frac{I^2}{2}$.""",
        mechanical=(ADDED_UP, bound_algebra.LEAST, bound_algebra.BEFORE),
    ),
)
