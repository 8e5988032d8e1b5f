"""Section 4.2.2: whether all jobs together can make the fair progress defined by tau."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

from hetopt.data.rationals import number_text, numbers_text
from hetopt.proofs.fft.compensation import fair_rounds
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, round_space, single_gpus
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, hypothesis, integers
from hetopt.proofs.small_programs import RowVector, SmallOptimum, maximise_exactly

F = Fraction


def on_own_part(case: RoundCase, gang: RoundJob) -> Fraction:
    """Tau - a as printed: rounds on the best type of a cluster with 1/|A| of all GPUs, without preemption."""
    part = F(1, len(case.gangs))
    return min(gang.rounds(i) * max(F(1), gang.demand / (part * case.gpus[i])) for i in gang.usable(case.gpus))


def on_fastest(case: RoundCase, gang: RoundJob) -> Fraction:
    """Tau - a as the library computes it."""
    return fair_rounds(gang, len(case.gangs), case.gpus)


def on_average(case: RoundCase, fair: tuple[Fraction, ...]) -> SmallOptimum:
    """The largest fraction of the progress 1 / ``fair`` for which the GPUs of every type suffice on average.

    Columns: time of job j on type i, then that fraction. Rows: time of a job, GPUs of a type, progress of a job.
    """
    n, k = len(case.gangs), len(case.gpus)
    table: list[tuple[RowVector, Fraction]] = [
        ([F(c // k == j and c < n * k) for c in range(n * k + 1)], F(1)) for j in range(n)
    ]
    for i, gpus in enumerate(case.gpus):
        demands = [F(gang.demand) if t == i else F(0) for gang in case.gangs for t in range(k)]
        table.append(([*demands, F(0)], F(gpus)))
    for j, gang in enumerate(case.gangs):
        usable = gang.usable(case.gpus)
        pace = [-1 / gang.rounds(i) if o == j and i in usable else F(0) for o in range(n) for i in range(k)]
        table.append(([*pace, 1 / fair[j]], F(0)))
    return maximise_exactly([*[F(0)] * (n * k), F(1)], table)


def in_turns(case: RoundCase, fair: tuple[Fraction, ...]) -> SmallOptimum:
    """The largest fraction of the progress 1 / ``fair`` that all jobs together can make per round, by time-sharing.

    Columns: part of the time for each plan of whole gangs, then that fraction. Rows: the whole time, progress of a job.
    """
    plans = case.packings
    table: list[tuple[RowVector, Fraction]] = [([*[F(1)] * len(plans), F(0)], F(1))]
    for j, gang in enumerate(case.gangs):
        pace = [F(0) if where[j] == WAITS else -1 / gang.rounds(where[j]) for where in plans]
        table.append(([*pace, 1 / fair[j]], F(0)))
    return maximise_exactly([*[F(0)] * len(plans), F(1)], table)


def reachable(case: RoundCase, fair: tuple[Fraction, ...]) -> Finding:
    """Whether all jobs together can make the progress 1 / ``fair`` by turns of whole gangs."""
    found = in_turns(case, fair)
    turns = list(zip(found.x[:-1], case.packings, strict=True))
    gpus = [
        [gang.demand * sum((x for x, where in turns if where[j] == i), F(0)) for i in range(len(case.gpus))]
        for j, gang in enumerate(case.gangs)
    ]
    words = (
        f"tau - a is {numbers_text(fair)} rounds; all jobs together can make {number_text(found.value)} of this "
        "progress"
    )
    names = [f"j{j + 1}" for j in range(len(gpus))]
    picture = shares_picture("the most even progress", gpus, case.gpus, [found.value / f for f in fair], names)
    return Finding(found.value - 1, words, ("the level is optimal: prices prove it in fractions",), (picture,))


def enough_on_average(case: RoundCase) -> Finding:
    """Whether the printed fair progress of all jobs needs no more GPUs than there are, on average."""
    fair = tuple(on_own_part(case, gang) for gang in case.gangs)
    found = on_average(case, fair)
    return Finding(found.value - 1, f"on average the GPUs suffice for {number_text(found.value)} of this progress")


def reachable_as_printed(case: RoundCase) -> Finding:
    """Whether all jobs together can make the printed fair progress."""
    return reachable(case, tuple(on_own_part(case, gang) for gang in case.gangs))


def reachable_by_library(case: RoundCase) -> Finding:
    """Whether all jobs together can make the library's fair progress."""
    return reachable(case, tuple(on_fastest(case, gang) for gang in case.gangs))


@hypothesis("all jobs demand the same number of GPUs $d$, and $d$ divides every $Y_i$")
def equal_gangs(case: RoundCase) -> bool:
    """Whether types consist of whole gangs."""
    demands = {gang.demand for gang in case.gangs}
    return len(demands) == 1 and all(gpus % demand == 0 for gpus in case.gpus for demand in demands)


WHOLE = Hypothesis[RoundCase](
    "the set of jobs does not change; in each round every job runs as a whole gang on one type, or waits"
)
ONE_PART = Hypothesis[RoundCase](
    r"$\tau_j - a_j = \min_i \frac{W_j}{\theta_j^i} \max(1,\, d_j |A| / Y_i)$, the time without preemption on the best "
    "type of the part, among those on which the job can run"
)
TOGETHER = r"All jobs together can progress by $W_j / (\tau_j - a_j)$ in every round, by time-sharing, with "
PRINTED = r"$\tau_j$ as estimated in a dedicated cluster with $1/|A(t)|$ of all types of resources"
ONE_TYPE = r"$\tau_j - a_j = p_j \max(1,\, d_j |A| / Y)$ for a single GPU type"
PARTS = r"""
Without preemption a job stays on one type $i$ of its part of the cluster, where it has $Y_i / |A|$ GPUs and so runs for
$\min(1,\, Y_i / (|A| d_j))$ of the time. This requires at most $Y_i / |A|$ GPUs of the type, and at most $Y_i$ for all
jobs; no job runs for more than the whole time."""


def part_exceeded() -> list[object]:
    """For z3: 1 / max(1, d n / Y) of the time is more than the whole, or takes more than Y / n GPUs."""
    import z3

    demand, gpus, jobs, most, time = z3.Reals("d Y n m x")
    needed = demand * jobs / gpus
    return [
        demand > 0,
        gpus > 0,
        jobs >= 1,
        most == z3.If(needed > 1, needed, 1),
        time * most == 1,
        z3.Or(time > 1, demand * time * jobs > gpus),
    ]


def not_unimodular() -> str:
    """Check that every square part of the rows of jobs and types has the determinant -1, 0 or 1."""
    import sympy

    jobs, types = 3, 2
    rows = [[int(c // types == j) for c in range(jobs * types)] for j in range(jobs)]
    rows += [[int(c % types == i) for c in range(jobs * types)] for i in range(types)]
    for size in range(1, len(rows) + 1):
        for chosen, columns in product(combinations(rows, size), combinations(range(jobs * types), size)):
            value = sympy.Matrix([[row[c] for c in columns] for row in chosen]).det()
            if abs(value) > 1:
                return f"a part has the determinant {value}"
    return ""


def missed_turn() -> list[object]:
    """For z3: two turns of the job at position l, q < r, that are in one round, or after n rounds."""
    import z3

    jobs, gpus, place, q, r, first, second = z3.Ints("n Y l q r t u")
    return [
        gpus >= 1,
        jobs > gpus,
        place >= 0,
        place < jobs,
        q >= 0,
        q < r,
        r < gpus,
        first * gpus <= place + jobs * q,
        place + jobs * q < (first + 1) * gpus,
        second * gpus <= place + jobs * r,
        place + jobs * r < (second + 1) * gpus,
        z3.Or(first < 0, second >= jobs, first == second),
    ]


PART_SUFFICES = by_z3("a job's part of its type suffices, all sizes", part_exceeded)

CLAIMS = (
    Claim(
        key="fft/tau",
        place="section 4.2.2",
        statement=f"{TOGETHER}{PRINTED}.",
        quote=r"Consequently, $W_j/(\tau_j - a_j)$ quantifies the average workload that job $j$ should complete in "
        "each round under the fair scheduler.",
        procedure=ForAll(round_space(WHOLE, ONE_PART, n=(1, 4)), reachable_as_printed, share=F(1, 2)),
        expected=ClaimVerdict.FALSE,
        instead="fft/tau-equal-gangs",
        note="$W / (\\tau - a)$ is the progress under a fair scheduler. Fractions of GPUs are read as fractions of the "
        "time, and gangs run whole. On 3 GPUs of one type each of two gangs of 2 should run for 3/4 of the time, but "
        "both do not fit at once. On average the GPUs suffice: `fft/tau-average`.",
    ),
    Claim(
        key="fft/tau-average",
        place="section 4.2.2",
        statement=r"If all jobs together progress by $W_j / (\tau_j - a_j)$ in every round, with "
        f"{PRINTED}, no more GPUs of a type are in use on average than there are, and no job runs for more than the "
        "whole time.",
        quote=r"Specifically, it estimates $\tau_j$ as the completion time of job $j$, when it is trained in a "
        "dedicated cluster with $1/|A(t)|$ of all types of resources.",
        procedure=ForAll(
            round_space(ONE_PART, n=(1, 4)),
            enough_on_average,
            ratio=lambda case: 1 / (enough_on_average(case).slack + 1),
            share=F(1, 2),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=PARTS,
        mechanical=(PART_SUFFICES,),
        note="Whole gangs may need more: `fft/tau`.",
    ),
    Claim(
        key="fft/tau-equal-gangs",
        place="section 4.2.2",
        statement=f"{TOGETHER}{PRINTED}, if all jobs demand the same number of GPUs $d$, and $d$ divides every $Y_i$.",
        procedure=ForAll(
            round_space(WHOLE, ONE_PART, equal_gangs, n=(1, 4), demands=integers(1, 2), gpus=integers(1, 4)),
            reachable_as_printed,
            share=F(1, 2),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=PARTS
        + r"""
Count in gangs: type $i$ holds $Y_i / d$ of them. The times $x_j^i$ of job $j$ on type $i$ satisfy $\sum_i x_j^i \le 1$
and $\sum_j x_j^i \le Y_i / d$. These rows are those of a transportation problem, which is totally unimodular, and their
right sides are integers; so $x$ is a mean of points of zeros and ones that satisfy the rows, which are plans of whole
gangs. Their weights in the mean are their parts of the time.""",
        mechanical=(
            PART_SUFFICES,
            by_sympy("the rows of three jobs and two types are totally unimodular", not_unimodular),
        ),
    ),
    Claim(
        key="fft/tau-fastest",
        place="section 4.2.2",
        statement=TOGETHER
        + r"$\tau_j - a_j = p_j \max(1,\, d_j |A| / \sum_i Y_i)$, $p_j$ the rounds on the fastest type.",
        procedure=ForAll(round_space(WHOLE, n=(1, 4), speeds=integers(1, 4)), reachable_by_library),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/tau-one-gpu-jobs",
        note="The estimate of hetopt's policy. Not all jobs can run on the fastest type, so all jobs may be behind, "
        "and compensated, at the same time.",
    ),
    Claim(
        key="fft/tau-fastest-one-type",
        place="section 4.2.2",
        statement=f"{TOGETHER}{ONE_TYPE}.",
        procedure=ForAll(round_space(WHOLE, n=(1, 5), k=(1, 1), speeds=integers(1, 4)), reachable_by_library),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/tau-one-gpu-jobs",
    ),
    Claim(
        key="fft/tau-one-gpu-jobs",
        place="section 4.2.2",
        statement=f"{TOGETHER}{ONE_TYPE}, if every job demands one GPU.",
        procedure=ForAll(
            round_space(WHOLE, single_gpus, n=(1, 5), k=(1, 1), speeds=integers(1, 4), demands=integers(1, 1)),
            reachable_by_library,
            share=F(1, 2),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
It suffices that each job runs for $\min(1,\, Y / |A|)$ of the time. If $|A| \le Y$ all run all the time. Otherwise let
the jobs take turns: in round $t$ the $Y$ jobs from position $t Y$ on run, counted modulo $|A|$. In $|A|$ rounds each
runs $Y$ times: the job at position $l < |A|$ in the rounds $\lfloor (l + |A| q) / Y \rfloor$, $0 \le q < Y$.""",
        mechanical=(by_z3("each job has a turn in Y of |A| rounds, all integers", missed_turn),),
    ),
)
