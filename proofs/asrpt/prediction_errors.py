"""Wrong predictions: eq. (9), the steps (13) to (15) of Lemma 3's proof, unseen jobs, and what errors cost at least."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt import bound_algebra
from hetopt.proofs.asrpt.approximation_ratio import checked, run_plain
from hetopt.proofs.asrpt.bound_sides import EXACT, MACHINE, BoundTerms
from hetopt.proofs.asrpt.lemmas import ANY, FEW_ITERATIONS, FULL, HALF, SLOTS
from hetopt.proofs.asrpt.scheduling_cases import WHOLE_SLOTS, PlacedRun, SchedulingCase, scheduling_space
from hetopt.proofs.asrpt.single_machine import MachineSchedule, srpt
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll, Growth, Untestable
from hetopt.proofs.ledger.space import Space, integers

F = Fraction


# -- the machine with overestimates only ----------------------------------------------------------------------------


@dataclass(frozen=True)
class MachinesByErrors:
    """SRPT on the virtual machine with true sizes, with the larger of both, and with predicted ones, in this order.

    Attributes
    ----------
    true, longer, predicted:
        The schedules of A_1, of A_1^aux at the end of phase 1, and of A~_1.
    sizes, longer_sizes, predicted_sizes:
        Seconds of the jobs.
    """

    true: MachineSchedule
    longer: MachineSchedule
    predicted: MachineSchedule
    sizes: list[Fraction]
    longer_sizes: list[Fraction]
    predicted_sizes: list[Fraction]

    @classmethod
    def of(cls, case: SchedulingCase, *, slots: bool = False) -> MachinesByErrors:
        """The three schedules of a case."""
        sizes, predicted = case.sizes(predicted=False), case.sizes(predicted=True)
        longer = list(map(max, sizes, predicted))
        true, larger, guessed = (srpt(case.arrivals, each, slots=slots) for each in (sizes, longer, predicted))
        return cls(true, larger, guessed, sizes, longer, predicted)

    @property
    def over(self) -> list[Fraction]:
        """For each job the seconds by which it is overestimated."""
        return [longer - size for longer, size in zip(self.longer_sizes, self.sizes, strict=True)]

    @property
    def under(self) -> list[Fraction]:
        """For each job the seconds by which it is underestimated."""
        return [longer - size for longer, size in zip(self.longer_sizes, self.predicted_sizes, strict=True)]

    @property
    def stretched(self) -> Fraction:
        """Total of the true schedule, in which overestimated jobs end later, and all jobs after them as well."""
        ends = self.true.ends
        return sum(
            (end + sum((d for d, e in zip(self.over, ends, strict=True) if e <= end), F(0)) for end in ends), F(0)
        )


def phase_1(case: SchedulingCase, *, slots: bool = False) -> Finding:
    """``AUX[1] <= the stretched schedule <= OPT_A1 + I sum_O g_i/G epsilon_i alpha~_i``."""
    found = MachinesByErrors.of(case, slots=slots)
    aux, middle = found.longer.total, found.stretched
    right = found.true.total + len(case.jobs) * sum(found.over, F(0))
    pictures = (found.true.picture("true sizes"), found.longer.picture("the larger of both sizes"))
    words = f"AUX[1] is {number_text(aux)}, the schedule that was stretched {number_text(middle)}, the bound "
    return Finding(min(middle - aux, right - middle), words + number_text(right), MACHINE, pictures)


def phase_2(case: SchedulingCase, *, slots: bool = False) -> Finding:
    """``OPT_A~1 <= AUX[1] - sum_U g_i/G epsilon_i alpha~_i``."""
    found = MachinesByErrors.of(case, slots=slots)
    left, right = found.predicted.total, found.longer.total - sum(found.under, F(0))
    pictures = (found.longer.picture("the larger of both sizes"), found.predicted.picture("predicted sizes"))
    words = f"OPT_A~1 is {number_text(left)}, AUX[1] minus the underestimates {number_text(right)}"
    return Finding(right - left, words, MACHINE, pictures)


# -- where two machines differ ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FirstDifference:
    """The first moment when two schedules of one machine differ.

    Attributes
    ----------
    time:
        The moment.
    jobs:
        The job that runs from then on in each schedule; None while the machine is idle.
    work:
        Seconds that each job has run before.
    """

    time: Fraction
    jobs: tuple[int | None, int | None]
    work: list[Fraction]

    @classmethod
    def of(cls, first: MachineSchedule, second: MachineSchedule) -> FirstDifference | None:
        """The first difference; None for equal schedules."""
        bars = (*first.bars, *second.bars)
        times = sorted({t for _, *both in bars for t in both})
        work = [F(0)] * len(first.ends)
        for time, until in pairwise([*times, times[-1] + 1] if times else []):
            one, other = _running(first, time), _running(second, time)
            if one != other:
                return cls(time, (one, other), work)
            if one is not None:
                work[one] += until - time
        return None


def _running(schedule: MachineSchedule, time: Fraction) -> int | None:
    return next((job for job, start, end in schedule.bars if start <= time < end), None)


def chosen_by_size(case: SchedulingCase) -> Finding:
    """(14) without strictness, where two distinct jobs run for the first time: predicted sizes, and the true one."""
    found = MachinesByErrors.of(case)
    there = FirstDifference.of(found.longer, found.predicted)
    if there is None or None in there.jobs:
        return Finding(F(0), "the schedules never run distinct jobs, or one is idle first")
    aux, pred = (i for i in there.jobs if i is not None)
    low, middle, high = found.predicted_sizes[pred], found.predicted_sizes[aux], found.sizes[pred]
    words = (
        f"at {number_text(there.time)} AUX runs job{aux + 1}, the machine with predictions job{pred + 1}: the sizes "
    )
    words += f"in (14) are {', '.join(map(number_text, (low, middle, high)))}"
    pictures = (found.longer.picture("AUX"), found.predicted.picture("predicted sizes"))
    return Finding(min(middle - low, high - middle), words, (EXACT,), pictures)


def chosen_by_remaining_time(case: SchedulingCase) -> Finding:
    """Which jobs run where the schedules first differ: the job of AUX is done with predictions, or the corrected (14).

    The slack is that of the chain of remaining times, or -1 if the job that must be underestimated is not.
    """
    found = MachinesByErrors.of(case)
    there = FirstDifference.of(found.longer, found.predicted)
    if there is None:
        return Finding(F(0), "the schedules are equal")
    aux, pred = there.jobs
    if aux is None:
        return Finding(F(-1), "AUX is idle first")
    first = found.predicted_sizes[aux] - there.work[aux]
    if first == 0:
        return Finding(F(0) if found.under[aux] > 0 else F(-1), f"job{aux + 1} is complete with predictions")
    if pred is None:
        return Finding(F(-1), "the machine with predictions is idle although a job is there")
    chain = (
        found.predicted_sizes[pred] - there.work[pred],
        first,
        found.longer_sizes[aux] - there.work[aux],
        found.longer_sizes[pred] - there.work[pred],
    )
    slack = min(b - a for a, b in pairwise(chain))
    words = " <= ".join(map(number_text, chain))
    return Finding(slack if found.under[pred] > 0 else F(-1), words, (EXACT,))


# -- errors ----------------------------------------------------------------------------------------------------------


def error_in_seconds(case: SchedulingCase) -> Finding:
    """``sum_i g_i/G |n~_i - n_i| alpha~_i <= g_max alpha_max / G epsilon``."""
    q, found = BoundTerms.of(case), MachinesByErrors.of(case)
    seconds, most = sum(found.over + found.under, F(0)), F(q.widest, q.gpus) * q.most * q.error
    return Finding(most - seconds, f"{number_text(seconds)} s, at most {number_text(most)}", (EXACT,))


def unseen_are_complete(case: SchedulingCase) -> Finding:
    """Whether jobs with a prediction of 0 complete on arrival, and other jobs as if these were not there."""
    virtual, sizes = case.virtual(predicted=True), case.sizes(predicted=True)
    seen = [i for i, size in enumerate(sizes) if size]
    alone = srpt([case.arrivals[i] for i in seen], [sizes[i] for i in seen]).ends if seen else ()
    expected = dict(enumerate(case.arrivals)) | dict(zip(seen, alone, strict=True))
    off = max(abs(virtual.ends[i] - expected[i]) for i in expected)
    return Finding(-off, f"{len(sizes) - len(seen)} of {len(sizes)} jobs are complete on arrival", MACHINE)


def error_of_long_jobs(q: int) -> Fraction:
    """Gamma_A over a better schedule's sum and the mean error: two long jobs on two GPUs, predicted as short as all.

    Two jobs of q^3 iterations, and q^2 of one; an iteration takes a second, and one is predicted for every job.
    """
    long, short = F(q**3), q * q
    jobs = [(1, long), (1, long), *[(1, F(1))] * short]
    runs = run_plain(2, jobs, predicted=[F(1)] * len(jobs))
    first = [PlacedRun(2 + i, F(i // 2), F(i // 2 + 1), (1,)) for i in range(short)]
    better = (*first, *(PlacedRun(i, F(short, 2), F(short, 2) + long, (1,)) for i in range(2)))
    mean = 2 * (long - 1) / len(jobs)
    return checked(runs, 2) / checked(better, 2) / mean


ERRORS = scheduling_space(iterations=FEW_ITERATIONS, predicted=integers(1, 6))
"""Jobs that do not communicate, with arbitrary predictions."""


def slotted() -> Space[SchedulingCase]:
    """As :data:`ERRORS`, in whole slots."""
    return scheduling_space(*WHOLE_SLOTS, jobs=(1, 2), iterations=FEW_ITERATIONS, predicted=integers(1, 6))


OVER = r"\sum_{i: \tilde n_i > n_i} \frac{g_i}{G} \epsilon_i \tilde\alpha_i^{min}"
EQ_13 = r"$AUX[1] \le \overline{OPT}_{A_1} \le OPT_{A_1} + I " + OVER + "$: SRPT with the larger of true and predicted "
EQ_13 += "sizes, and SRPT with true sizes after each overestimated job was extended and all that follows postponed."
EQ_15 = (
    r"$OPT_{\tilde A_1} \le AUX[1] - " + OVER.replace(">", "<") + "$, where $AUX[1]$ is SRPT with the larger of true "
)
EQ_15 += "and predicted sizes."
DIFFERS = (
    "At the first moment when SRPT with the larger of true and predicted sizes runs another job $aux$ than SRPT with "
)
DIFFERS += "predicted sizes, which runs $pred$"

CLAIMS = (
    Claim(
        key="asrpt/eq-9",
        place="eq. (9)",
        statement=r"$\epsilon = \sum_i \epsilon_i = \sum_i |n_i - \tilde n_i|$ and $\bar\epsilon = \epsilon / I$.",
        quote=r"Let $\epsilon$ and $\bar{\epsilon}$ denote the total prediction and average prediction errors, "
        r"respectively, which can be computed as: $\epsilon = \sum_{i \in [I]} \epsilon_i = \sum_{i \in [I]} |n_i - "
        r"\tilde{n}_i|, \text{ and } \bar{\epsilon} = \frac{\epsilon}{I}.$",
        procedure=Untestable("definitions; `asrpt/error-seconds` is what the proofs conclude from them"),
        expected=ClaimVerdict.UNTESTABLE,
        instead="asrpt/error-seconds",
    ),
    Claim(
        key="asrpt/unseen-jobs",
        place="section IV-C",
        statement="A job that is predicted to need 0 iterations is complete on the virtual machine when it arrives, "
        "and delays no job there.",
        quote=r"We predict 0 iterations for unseen jobs, treating them as immediately complete in $\tilde{A}_1$",
        procedure=ForAll(
            scheduling_space(
                communicating=True,
                iterations=FEW_ITERATIONS,
                predicted=(F(0), F(1), F(3)),
                delayed=True,
                spare=False,
                inside="any",
            ),
            unseen_are_complete,
            share=HALF,
        ),
        expected=ClaimVerdict.TRUE,
        proof="Its remaining time is 0 when it arrives, the shortest possible, and it takes no time of the machine.",
        mechanical=bound_algebra.UNSEEN,
        note="On the cluster it waits in the queue for those before it, and delays those behind it.",
    ),
    Claim(
        key="asrpt/eq-13",
        place="eq. (13)",
        statement=SLOTS + EQ_13,
        quote=r"$AUX[1] \leq \overline{OPT}_{A_1} \leq \overline{OPT}_{A_1} + I \sum_{i \in \mathcal{O}} \frac{g_i}{G} "
        r"\epsilon_i \tilde{\alpha}_i^{\min}$",
        procedure=ForAll(slotted(), lambda c: phase_1(c, slots=True)),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-13-continuous",
        note=r"The last $\overline{OPT}_{A_1}$ is a misprint for $OPT_{A_1}$. A little more work may take another "
        "whole slot.",
    ),
    Claim(
        key="asrpt/eq-13-continuous",
        place="eq. (13)",
        statement=f"In continuous time, for any bandwidths: {EQ_13}",
        procedure=ForAll(ANY, phase_1, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Extend the last period of each overestimated job by $\frac{g_i}{G} \epsilon_i \tilde\alpha_i^{min}$, and postpone all
that follows: no job runs before its arrival, and each job receives the larger of both sizes. So this is a schedule of
$A_1^{aux}$, and SRPT has no larger sum (`asrpt/srpt`). Each completion is postponed by the extensions up to it, at
most by all of them.""",
        mechanical=bound_algebra.ENDS,
    ),
    Claim(
        key="asrpt/eq-14",
        place="eq. (14)",
        statement=DIFFERS
        + r", $\frac{g_{pred}}{G} \tilde n_{pred} \tilde\alpha_{pred}^{min} \le \frac{g_{aux}}{G} \tilde "
        r"n_{aux} \tilde\alpha_{aux}^{min} \le \frac{g_{pred}}{G} n_{pred} \tilde\alpha_{pred}^{min}$, in continuous "
        r"time.",
        quote=r"Considering time $t$, as $AUX[1]$ chooses $i_{\text{aux}}$ rather than $i_{\text{pred}}$, we have: "
        r"$\frac{g_{i_{\text{pred}}}}{G}\tilde{n}_{i_{\text{pred}}}\tilde{\alpha}_{i_{\text{pred}}}^{\min} < "
        r"\frac{g_{i_{\text{aux}}}}{G}\tilde{n}_{i_{\text{aux}}}\tilde{\alpha}_{i_{\text{aux}}}^{\min} < "
        r"\frac{g_{i_{\text{pred}}}}{G}n_{i_{\text{pred}}}\tilde{\alpha}_{i_{\text{pred}}}^{\min}$ as "
        r"$i_{\text{pred}}$ belongs to $\mathcal{U}$.",
        procedure=ForAll(ERRORS, chosen_by_size),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-14-remaining",
        note="Printed with <, which fails at equal sizes as well. SRPT compares remaining times, not sizes, and an "
        "underestimated job may be complete with predictions while it still runs in AUX; then $pred$ need not be "
        "underestimated, and the proof would have to shorten $aux$. Lemma 3 holds by another proof "
        "(`asrpt/lemma-3-exact`).",
    ),
    Claim(
        key="asrpt/eq-14-remaining",
        place="eq. (14)",
        statement="In continuous time, if ties are broken alike: at the first moment when SRPT with the larger of "
        "true and predicted sizes (AUX) and SRPT with predicted sizes differ, AUX runs some job $aux$. Either $aux$ "
        r"is underestimated and complete with predictions, or the remaining times satisfy $\tilde R_{pred} \le \tilde "
        r"R_{aux} \le R_{aux} \le R_{pred}$ ($R$ in AUX, $\tilde R$ with predictions) and $pred$ is underestimated.",
        procedure=ForAll(ANY, chosen_by_remaining_time, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Up to then all jobs have run equally long on both machines. A job that is unfinished with predictions is unfinished in
AUX, so AUX is not idle, or both are. If $\tilde R_{aux} = 0 < R_{aux}$, then $aux$ is complete with predictions and
underestimated. Otherwise $aux$ is there on both machines, so the one with predictions runs some $pred$ with $\tilde
R_{pred} \le \tilde R_{aux}$; AUX prefers $aux$, so $R_{aux} \le R_{pred}$; and no job is shorter in AUX. If $pred$
were not underestimated, then $R_{pred} = \tilde R_{pred}$, and all four would be equal. Then both machines would break
the tie alike, between the same jobs, of which the same one ran before.""",
        mechanical=(bound_algebra.CHAIN,),
    ),
    Claim(
        key="asrpt/eq-15",
        place="eq. (15)",
        statement=SLOTS + EQ_15,
        quote=r"$OPT_{\tilde{A}_1} = AUX[2] \le AUX[1] - \sum_{i \in \mathcal{U}} \frac{g_i}{G} \epsilon_i "
        r"\tilde{\alpha}_i^{\min}$",
        procedure=ForAll(slotted(), lambda c: phase_2(c, slots=True)),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/eq-15-continuous",
        note="A little less work may take as many slots.",
    ),
    Claim(
        key="asrpt/eq-15-continuous",
        place="eq. (15)",
        statement=f"In continuous time, for any bandwidths: {EQ_15}",
        procedure=ForAll(ANY, phase_2, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
In the schedule $AUX[1]$ omit the last $\frac{g_i}{G} \epsilon_i \tilde\alpha_i^{min}$ seconds of each underestimated
job: it completes at least as much earlier, and no other job later. Each job receives its predicted size, so SRPT with
predicted sizes has no larger sum (`asrpt/srpt`).""",
        mechanical=bound_algebra.ENDS,
        note="The paper compares SRPT schedules step by step instead, by (14), which is false.",
    ),
    Claim(
        key="asrpt/error-seconds",
        place="Appendix C, last line",
        statement=r"With $B_{intra} \ge B_{inter} / g$, wrong predictions change the sizes on the virtual machine by "
        r"at most $\frac{g^{max} \alpha^{max}}{G} \epsilon$ seconds in all: $\sum_i \frac{g_i}{G} |\tilde n_i - n_i| "
        r"\tilde\alpha_i^{min} \le \frac{g^{max} \alpha^{max}}{G} \epsilon$.",
        quote=r"$\leq OPT_{A_1} + I \frac{g^{\max}}{G} \epsilon \alpha^{\max}$",
        procedure=ForAll(FULL, error_in_seconds, share=HALF),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"$|\tilde n_i - n_i| = \epsilon_i$, $g_i \le g^{max}$ and $\tilde\alpha_i^{min} \le \alpha_i^{max} \le "
        r"\alpha^{max}$ (`asrpt/alpha-order`).",
        mechanical=(bound_algebra.ERROR,),
    ),
    Claim(
        key="asrpt/thm-1-error",
        place="section IV-C",
        statement=r"The ratio must grow with the mean error: for $G = 2$, jobs of one GPU, $\tau = 0$ and $\rho = 1$, "
        r"where Theorem 1 states $4 + 10 \bar\epsilon$, and all $c < 2$ there are jobs with $\Gamma_A \ge c\, "
        r"\bar\epsilon\, OPT_A$, in continuous time.",
        quote="Theorem 1 says that the performance of A-SRPT is closely tied to the average error of the employed "
        "prediction model.",
        procedure=Growth(
            sizes=(2, 4, 6, 10, 20),
            measure=error_of_long_jobs,
            formula="(4*q**5 + q**4 + 8*q**3 + 5*q**2 + 6) * (q**2 + 2) / ((q**4 + 6*q**2 + 8*q**3) * 2 * (q**3 - 1))",
            size="q",
            quantity="Gamma_A over the sum of a better schedule and the mean error",
            limit=F(2),
            most=10,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Two jobs of $q^3$ iterations, then $N = q^2$ of one, $q$ even, all present at 0; an iteration takes a second, and one
is predicted for each job. The virtual machine completes job $k$ at $k / 2$. The long jobs start at $\frac12$ and $1$
and occupy both GPUs until $q^3 + \frac12$ and $q^3 + 1$; then the short ones follow one after another on each GPU:
$\Gamma_A = (2 q^3 + \frac32) (1 + \frac N2) + \frac N2 (\frac N2 + 1)$. With the short jobs first the sum is $\frac N2
(\frac N2 + 1) + N + 2 q^3$, no less than $OPT_A$, and $\bar\epsilon = 2 (q^3 - 1) / (N + 2)$. The quotient tends to
$q^5 / (\frac14 q^4 \cdot 2 q) = 2$.""",
        note=r"So a bound that is linear in $\bar\epsilon$ is right up to a constant factor.",
    ),
)
