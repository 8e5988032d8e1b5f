"""Section 4.2.2: whether all jobs together can make the fair progress defined by tau."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.rationals import number_text, numbers_text
from hetopt.proofs.fft.compensation import fair_rounds
from hetopt.proofs.fft.round_cases import RoundCase, RoundJob, round_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers
from hetopt.proofs.small_programs import RowVector, SmallOptimum, maximise_exactly

F = Fraction


def on_own_part(case: RoundCase, gang: RoundJob) -> Fraction:
    """Tau - a as printed: rounds on the best type of a cluster with 1/|A| of all GPUs, without preemption."""
    part = F(1, len(case.gangs))
    return min(gang.rounds(i) * max(F(1), gang.demand / (part * case.gpus[i])) for i in gang.usable(case.gpus))


def on_fastest(case: RoundCase, gang: RoundJob) -> Fraction:
    """Tau - a as the library computes it."""
    return fair_rounds(gang, len(case.gangs), case.gpus)


def level(case: RoundCase, fair: tuple[Fraction, ...]) -> SmallOptimum:
    """The largest fraction of the progress 1 / ``fair`` that all jobs together can make per round, by time-sharing.

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


def reachable(case: RoundCase, fair: tuple[Fraction, ...]) -> Finding:
    """Whether all jobs together can make the progress 1 / ``fair``."""
    found = level(case, fair)
    k = len(case.gpus)
    time = [found.x[j * k : (j + 1) * k] for j in range(len(case.gangs))]
    gpus = [[gang.demand * x for x in row] for gang, row in zip(case.gangs, time, strict=True)]
    words = (
        f"tau - a is {numbers_text(fair)} rounds; all jobs together can make {number_text(found.value)} of this "
        "progress"
    )
    names = [f"j{j + 1}" for j in range(len(gpus))]
    picture = shares_picture("the most even progress", gpus, case.gpus, [found.value / f for f in fair], names)
    return Finding(found.value - 1, words, ("the level is optimal: prices prove it in fractions",), (picture,))


def reachable_as_printed(case: RoundCase) -> Finding:
    """Whether all jobs together can make the printed fair progress."""
    return reachable(case, tuple(on_own_part(case, gang) for gang in case.gangs))


def reachable_by_library(case: RoundCase) -> Finding:
    """Whether all jobs together can make the library's fair progress."""
    return reachable(case, tuple(on_fastest(case, gang) for gang in case.gangs))


TOGETHER = r"All jobs together can progress by $W_j / (\tau_j - a_j)$ in every round, by time-sharing, with "

CLAIMS = (
    Claim(
        key="fft/tau",
        place="section 4.2.2",
        statement=TOGETHER + r"$\tau_j$ as estimated in a dedicated cluster with $1/|A(t)|$ of all types of resources.",
        procedure=ForAll(
            round_space(n=(1, 4)),
            reachable_as_printed,
            ratio=lambda case: 1 / (reachable_as_printed(case).slack + 1),
            share=F(1, 2),
        ),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Without preemption a job stays on one type $i$ of its part of the cluster, where it has $Y_i / |A|$ GPUs and so runs for
$\min(1,\, Y_i / (|A| d_j))$ of the time. This requires at most $Y_i / |A|$ GPUs of the type, and at most $Y_i$ for all
jobs; no job runs for more than the whole time.""",
        note="$W / (\\tau - a)$ is the progress under a fair scheduler. Fractions of GPUs are read as fractions of the "
        "time. hetopt's policy uses a simpler estimate, see `fft/tau-fastest`.",
    ),
    Claim(
        key="fft/tau-fastest",
        place="section 4.2.2",
        statement=TOGETHER
        + r"$\tau_j - a_j = p_j \max(1,\, d_j |A| / \sum_i Y_i)$, $p_j$ the rounds on the fastest type.",
        procedure=ForAll(round_space(n=(1, 4), speeds=integers(1, 4)), reachable_by_library),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="fft/tau-fastest-one-type",
        note="The estimate of hetopt's policy. Not all jobs can run on the fastest type, so all jobs may be behind, "
        "and compensated, at the same time.",
    ),
    Claim(
        key="fft/tau-fastest-one-type",
        place="section 4.2.2",
        statement=TOGETHER + r"$\tau_j - a_j = p_j \max(1,\, d_j |A| / Y)$ for a single GPU type.",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 1), speeds=integers(1, 4)), reachable_by_library, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
It suffices that job $j$ runs for $\min(1,\, Y / (d_j |A|))$ of the time, which requires at most $Y / |A|$ GPUs, and
at most $Y$ for all jobs.""",
    ),
)
