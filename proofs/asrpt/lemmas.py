"""Lemmas 1 to 3 of A-SRPT, in slots as printed and in continuous time, with and without hypotheses."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hetopt.proofs.asrpt import bound_algebra
from hetopt.proofs.asrpt.bound_sides import (
    BoundSides,
    bound,
    each_job,
    lemma_1,
    lemma_2,
    lemma_3,
    over_and_under,
    used_fraction,
)
from hetopt.proofs.asrpt.scheduling_cases import (
    PREDICTED,
    WHOLE_SLOTS,
    Bandwidths,
    SchedulingCase,
    lasting,
    scheduling_space,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, Space, integers

F = Fraction
HALF = F(1, 2)
FEW_ITERATIONS = integers(1, 4)


def wrong_predictions(
    *hypotheses: Hypothesis[SchedulingCase], spare: bool = True, inside: Bandwidths = "fast"
) -> Space[SchedulingCase]:
    """Jobs that communicate, with arbitrary predictions and delays."""
    return scheduling_space(
        *hypotheses,
        communicating=True,
        iterations=FEW_ITERATIONS,
        predicted=PREDICTED,
        delayed=True,
        spare=spare,
        inside=inside,
    )


WRONG = wrong_predictions()
"""B_intra >= B_inter / g and G > g_max."""

FULL = wrong_predictions(spare=False)
"""As :data:`WRONG`, with jobs that may need all GPUs."""

ANY = wrong_predictions(spare=False, inside="any")
"""Any bandwidths, and jobs that may need all GPUs."""

SLOTTED = scheduling_space(
    *WHOLE_SLOTS, most_gpus=6, communicating=True, predicted=PREDICTED, iterations=FEW_ITERATIONS
)
"""G > g_max, B_intra >= B_inter / g, no delays, and jobs that take whole slots."""

SLOW_INSIDE = scheduling_space(communicating=True, inside="slow", arriving=False)
"""B_intra < B_inter / g, all jobs at time 0, and true predictions."""

SLOW_WRONG = scheduling_space(communicating=True, inside="slow", arriving=False, predicted=PREDICTED)
"""As :data:`SLOW_INSIDE`, with arbitrary predictions."""


def holds(
    space: Space[SchedulingCase], sides: Callable[[SchedulingCase], BoundSides], *, measured: bool = True
) -> ForAll[SchedulingCase]:
    """A bound that must hold; with ``measured`` its tightness is measured."""
    return ForAll(space, bound(sides), ratio=used_fraction(sides) if measured else None, share=HALF)


SLOTS = "Time has slots of one second: jobs start with a slot, and a slot of the virtual machine serves one job. "
CONTINUOUS = r"In continuous time, with $B_{intra} \ge B_{inter} / g$"
LONGEST = (
    r"In continuous time, with $\alpha_i^{max}$ the longest iteration of all placements, for any bandwidths and $G$: "
)
SLOW = r"In continuous time, for any bandwidths: "

LEMMA_1 = r"$OPT_{A_1} \le \rho\, OPT_A$, $\rho = \max_i \alpha_i^{max} / \alpha_i^{min}$."
LEMMA_2 = r"$\Gamma_A \le (1 + \tau + \frac{\rho G}{G - g^{max}}) OPT_{\tilde A_1} + I \frac{g^{max} \alpha^{max}}"
LEMMA_2 += r"{G - g^{max}} \epsilon + \rho\, OPT_A$."
LEMMA_3 = r"$OPT_{\tilde A_1} \le OPT_{A_1} + I \frac{g^{max} \alpha^{max}}{G} \epsilon$."

EQ_12 = r"Each job completes by $(1 + \tau + \frac{\rho G}{G - g^{max}}) C_i(OPT_{\tilde A_1}) + \frac{g^{max} "
EQ_12 += r"\alpha^{max}}{G - g^{max}} \epsilon + n_i \alpha_i^{max}$."


def with_one_more(bound: str) -> str:
    """A bound or its proof with integer numbers of busy GPUs: more than G - g^max are at least G - g^max + 1."""
    text = " ".join(bound.split()).replace("more than $G - g^{max}$ are busy", "at least $G - g^{max} + 1$ are busy")
    return text.replace("{G - g^{max}}", "{G - g^{max} + 1}")


SCALED = r"""
In an optimal schedule of $A$ let job $i$ run from $t_i$ to $c_i = t_i + n_i \alpha_i$. Stretch time by $\rho \ge
1$: from $\rho t_i \ge r_i$ to $\rho c_i$ let job $i$ have the share $g_i / G$ of the virtual machine. The shares sum to
at most 1, since the GPUs sum to at most $G$. Job $i$ receives $\frac{g_i}{G} \rho n_i \alpha_i \ge \frac{g_i}{G} n_i
\rho \alpha_i^{min} \ge \frac{g_i}{G} n_i \alpha_i^{max} \ge \frac{g_i}{G} n_i \tilde\alpha_i^{min}$, all it needs, so
it is done by $\rho c_i$. SRPT has no larger sum than a machine that is shared in this way (`asrpt/srpt`). That
$\tilde\alpha_i^{min} \le \alpha_i^{max}$ holds"""

STARTS = r"""
Number jobs in the order in which the virtual machine completes them, job $i$ at $\tilde C_i$; jobs start in that
order. From $\tilde C_i$ on jobs $1, \dots, i$ are in the queue or have left it. Until job $i$ starts, the head of the
queue or the delayed job is some $j \le i$, and either $j$ is delayed, which takes at most $\tau \frac{g_j}{G} \tilde
n_j \tilde\alpha_j^{min}$ (`asrpt/delay-limit`), or it does not fit: then fewer than $g_j \le g^{max}$ GPUs are free, so
more than $G - g^{max}$ are busy, all with jobs before $i$. Those need at most $\sum_{j < i} g_j n_j \alpha_j^{max}$ GPU
seconds, as no placement takes longer than $\alpha_j^{max}$ (by definition, or by `asrpt/alpha-max-fast-inside`). So job
$i$ starts by $\tilde C_i + \sum_{j \le i} \tau \frac{g_j}{G} \tilde n_j \tilde\alpha_j^{min} + \sum_{j < i} \frac{g_j
n_j \alpha_j^{max}}{G - g^{max}}$."""

WORK_BEFORE = r"""
The machine works one second per second, so $\sum_{j \le i} \frac{g_j}{G} \tilde n_j \tilde\alpha_j^{min} \le \tilde
C_i$. With $n_j \le \tilde n_j + \epsilon_j$ and $\alpha_j^{max} \le \rho \alpha_j^{min} \le \rho \tilde\alpha_j^{min}$
it follows that $\sum_{j < i} \frac{g_j n_j \alpha_j^{max}}{G - g^{max}} \le \frac{\rho G}{G - g^{max}} \tilde C_i +
\frac{g^{max} \alpha^{max}}{G - g^{max}} \epsilon$."""

WAITING = STARTS + WORK_BEFORE
WAITING += r" The delays sum to at most $\tau \tilde C_i$, and job $i$ itself takes at most $n_i \alpha_i^{max}$."

SUMMED = r""" Summed over $i$ this is the lemma, since $\sum_i n_i \alpha_i^{max} \le \rho \sum_i n_i \alpha_i^{min} \le
\rho\, OPT_A$: no job completes before $n_i \alpha_i^{min}$."""

STRETCHED = r"""
Let $\delta_i = \frac{g_i}{G} (\tilde n_i - n_i) \tilde\alpha_i^{min}$ be the overestimate ($> 0$) or underestimate ($<
0$) of job $i$'s time on the virtual machine. In the SRPT schedule of $A_1$ insert, wherever a job with $\delta_i > 0$
completes, $\delta_i$ more seconds of it, and postpone all that follows: no job runs before its arrival, and each
completion is postponed by at most $\sum_{\delta_j > 0} \delta_j$. Omit the last $|\delta_i|$ seconds of a job with
$\delta_i < 0$: it completes at least $|\delta_i|$ earlier, and no other job later. The result is a schedule of $\tilde
A_1$, so SRPT's schedule has no larger sum: $OPT_{\tilde A_1} \le OPT_{A_1} + I \sum_{\delta_i > 0} \delta_i -
\sum_{\delta_i < 0} |\delta_i|$."""

QUOTE_1 = r"$OPT_{A_1} \leq \rho OPT_A$, where $\rho = \max_{i \in [I]} \frac{\alpha_i^{\max}}{\alpha_i^{\min}}$."
QUOTE_2 = r"$\Gamma_A$ is no larger than $(1+\tau+\frac{\rho G}{G-g^{\max}})OPT_{\tilde{A}_1} + I \frac{g^{\max} "
QUOTE_2 += r"\alpha^{\max}}{G-g^{\max}} \epsilon + \rho OPT_A$"
QUOTE_3 = r"$OPT_{\tilde{A}_1} \leq OPT_{A_1} + I \frac{g^{\max}\alpha^{\max}}{G} \epsilon$."
QUOTE_12 = (
    r"$\leq (1 + \tau + \frac{\rho G}{G - g^{\max}}) C_i (OPT_{\tilde{A}_1}) + \frac{g^{\max} \alpha^{\max}}{G - "
)
QUOTE_12 += r"g^{\max}} \epsilon + n_i \alpha_i^{\max}$"

WAITS = (bound_algebra.WORK, bound_algebra.END)
SUMS = (*WAITS, bound_algebra.OWN)

CLAIMS = (
    Claim(
        key="asrpt/lemma-1",
        place="Lemma 1",
        statement=SLOTS + LEMMA_1,
        quote=QUOTE_1,
        procedure=ForAll(scheduling_space(*WHOLE_SLOTS), bound(lambda c: lemma_1(c, slots=True))),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/lemma-1-continuous",
        note="The proof lets jobs share the machine, which slots do not allow.",
    ),
    Claim(
        key="asrpt/lemma-1-slow-inside",
        place="Lemma 1",
        statement=SLOW + LEMMA_1,
        procedure=ForAll(SLOW_INSIDE, bound(lemma_1)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/lemma-1-any-bandwidth",
        note=r"With $B_{intra} < B_{inter} / g$ a placement can be slower than the printed $\alpha^{max}$.",
    ),
    Claim(
        key="asrpt/lemma-1-continuous",
        place="Lemma 1",
        statement=f"{CONTINUOUS}: {LEMMA_1}",
        procedure=holds(wrong_predictions(lasting, spare=False), lemma_1),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=SCALED + r" follows from $B_{intra} \ge B_{inter} / g$.",
        mechanical=(bound_algebra.SHARES,),
    ),
    Claim(
        key="asrpt/lemma-1-any-bandwidth",
        place="Lemma 1",
        statement=r"In continuous time, with $\alpha_i^{max}$ the longest iteration of all placements: " + LEMMA_1,
        procedure=holds(
            wrong_predictions(lasting, spare=False, inside="any"),
            lambda c: lemma_1(c, sharper=True),
            measured=False,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=SCALED + r" is clear, since $\tilde\alpha_i^{min}$ is the iteration of a placement.",
        mechanical=(bound_algebra.SHARES,),
    ),
    Claim(
        key="asrpt/lemma-2",
        place="Lemma 2",
        statement="Jobs start with slots of one second; the virtual machine runs in continuous time, as Lemma 1 needs. "
        + LEMMA_2,
        quote=QUOTE_2,
        procedure=ForAll(scheduling_space(*WHOLE_SLOTS, jobs=(1, 2)), bound(lambda c: lemma_2(c, slots=True))),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/lemma-2-continuous",
        note="A job that completes within a slot on the virtual machine waits for its end. "
        "With slots on both machines it holds (`asrpt/lemma-2-all-slots`), but then Lemma 1 fails.",
    ),
    Claim(
        key="asrpt/lemma-2-all-slots",
        place="Lemma 2",
        statement=SLOTS + r"Where jobs take whole slots and $\tau = 0$: " + LEMMA_2,
        procedure=holds(SLOTTED, lambda c: lemma_2(c, slots=True, virtual_slots=True), measured=False),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"All starts and ends are whole, so are all $\tilde C_i$, and a head that does not fit does not for a "
        "whole slot; a slot of the virtual machine does one second of work at most. The rest is as in continuous time."
        + WAITING
        + SUMMED,
        mechanical=SUMS,
        note="In this setting Lemma 1 fails.",
    ),
    Claim(
        key="asrpt/lemma-2-slow-inside",
        place="Lemma 2",
        statement=SLOW + LEMMA_2,
        procedure=ForAll(SLOW_WRONG, bound(lemma_2)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/lemma-2-sharper",
    ),
    Claim(
        key="asrpt/lemma-2-continuous",
        place="Lemma 2",
        statement=f"{CONTINUOUS} and $G > g^{{max}}$: {LEMMA_2}",
        procedure=holds(WRONG, lemma_2),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=WAITING + SUMMED,
        mechanical=SUMS,
        note="The appendix has the same argument, but starts with jobs that all wait; here each moment is accounted "
        "for.",
    ),
    Claim(
        key="asrpt/lemma-2-sharper",
        place="Lemma 2",
        statement=LONGEST + with_one_more(LEMMA_2),
        procedure=holds(ANY, lambda c: lemma_2(c, sharper=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=with_one_more(WAITING + SUMMED),
        mechanical=SUMS,
    ),
    Claim(
        key="asrpt/eq-12-slots",
        place="eq. (12)",
        statement=f"Jobs start with slots of one second; the virtual machine runs in continuous time. {EQ_12}",
        quote=QUOTE_12,
        procedure=ForAll(scheduling_space(*WHOLE_SLOTS, jobs=(1, 2)), bound(lambda c: each_job(c, slots=True))),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-12",
        note="As Lemma 2.",
    ),
    Claim(
        key="asrpt/eq-12",
        place="eq. (12)",
        statement=f"{CONTINUOUS} and $G > g^{{max}}$: {EQ_12}",
        procedure=holds(WRONG, each_job),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=WAITING,
        mechanical=WAITS,
        note="Summed over the jobs it gives Lemma 2, so that for any bandwidths it fails where that does "
        "(`asrpt/lemma-2-slow-inside`).",
    ),
    Claim(
        key="asrpt/eq-12-sharper",
        place="eq. (12)",
        statement=LONGEST + with_one_more(EQ_12),
        procedure=holds(ANY, lambda c: each_job(c, sharper=True)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=with_one_more(WAITING),
        mechanical=WAITS,
    ),
    Claim(
        key="asrpt/lemma-3",
        place="Lemma 3",
        statement=SLOTS + LEMMA_3,
        quote=QUOTE_3,
        procedure=ForAll(
            scheduling_space(*WHOLE_SLOTS, jobs=(1, 2), predicted=integers(1, 6), iterations=FEW_ITERATIONS),
            bound(lambda c: lemma_3(c, slots=True)),
        ),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/lemma-3-continuous",
        note="A little more work may take another whole slot.",
    ),
    Claim(
        key="asrpt/lemma-3-slow-inside",
        place="Lemma 3",
        statement=SLOW + LEMMA_3,
        procedure=ForAll(SLOW_WRONG, bound(lemma_3)),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/lemma-3-exact",
    ),
    Claim(
        key="asrpt/lemma-3-continuous",
        place="Lemma 3",
        statement=f"{CONTINUOUS}: {LEMMA_3}",
        procedure=holds(FULL, lemma_3),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=STRETCHED + r" And $\sum_{\delta_i > 0} \delta_i \le \frac{g^{max} \alpha^{max}}{G} \epsilon$ "
        "(`asrpt/error-seconds`).",
        mechanical=(*bound_algebra.ENDS, bound_algebra.ERROR),
    ),
    Claim(
        key="asrpt/lemma-3-exact",
        place="Appendix C, last line",
        statement=r"In continuous time, for any bandwidths: $OPT_{\tilde A_1} \le OPT_{A_1} + I \sum_{i: \tilde n_i > "
        r"n_i} \frac{g_i}{G} \epsilon_i \tilde\alpha_i^{min} - \sum_{i: \tilde n_i < n_i} \frac{g_i}{G} \epsilon_i "
        r"\tilde\alpha_i^{min}$.",
        quote=r"$\leq OPT_{A_1} + I \sum_{i \in \mathcal{O}} \frac{g_i}{G} \epsilon_i \tilde{\alpha}_i^{\min} - "
        r"\sum_{i \in \mathcal{U}} \frac{g_i}{G} \epsilon_i \tilde{\alpha}_i^{\min}$",
        procedure=holds(ANY, over_and_under, measured=False),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=STRETCHED,
        mechanical=bound_algebra.ENDS,
        note="The appendix states it in slots, and compares SRPT schedules step by step instead (`asrpt/eq-14`).",
    ),
)
