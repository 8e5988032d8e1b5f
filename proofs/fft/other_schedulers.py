"""Sections 2.3 and 2.4: jobs that cannot be preempted, and new jobs under Gavel's priorities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import Growth

F = Fraction


def totals(n: int) -> tuple[int, int]:
    """Total JCT in rounds on one GPU with and without preemption: a job of n^2 rounds, and n jobs of one round.

    The long job arrives in round 0, the others in rounds 1 to n.
    """
    left = {0: n * n} | dict.fromkeys(range(1, n + 1), 1)  # job -> rounds; job j arrives in round j
    queue, waiting, shortest, time = 0, 0, 0, 0
    for j, rounds in left.items():
        waiting = max(waiting, j) + rounds
        queue += waiting - j
    while left:
        j = min((j for j in left if j <= time), key=lambda j: left[j])
        time, left[j] = time + 1, left[j] - 1
        if not left[j]:
            del left[j]
            shortest += time - j
    return shortest, queue


def rounds_of_first(n: int) -> Fraction:
    """Part of n rounds on one GPU in which a long job runs beside a new job of one round per round from round 1 on.

    A job's priority is its share over the part of the rounds since its arrival in which it ran, infinite if it has not
    run, as in Gavel; the earlier job has priority among equals.
    """
    ran = dict[int, int]()
    present = [0]
    for t in range(n):
        present += [t] if t else []
        share = F(1, len(present))
        best = max(present, key=lambda j: (share * (t - j) / ran[j] if ran.get(j) else float("inf"), -j))
        ran[best] = ran.get(best, 0) + 1
        present = [j for j in present if j == 0 or not ran.get(j)]
    return F(ran[0], n)


def short_jobs_in_turn() -> list[Any]:
    """For z3: the i-th short job ends in another round without switching, or takes no less than the long one has left.

    Without switching it follows the job ``before``, or its arrival in round i.
    """
    from z3 import If, Ints, Or

    n, i, before = Ints("n i before")
    end = If(before > i, before, i) + 1
    return [n >= 2, before == n * n + i - 1, Or(end != n * n + i, n * n - 1 <= 1)]


def wrong_totals() -> str:
    """Check in sympy both totals, from the ends and arrivals of the jobs, and their quotient."""
    import sympy

    n, i = sympy.symbols("n i", positive=True, integer=True)
    queue = n**2 + sympy.summation((n**2 + i) - i, (i, 1, n))
    shortest = (n**2 + n) + sympy.summation((i + 1) - i, (i, 1, n))
    quotient = shortest / queue
    return "" if sympy.simplify(quotient - (n + 2) / (n * (n + 1))) == 0 else f"it is {sympy.factor(quotient)}"


def older_job_first() -> list[Any]:
    """For z3: at equal shares a job that ran in less than 1 of t rounds has no higher priority than one that ran in 1.

    The priority is the share over the part of the rounds in which the job ran.
    """
    from z3 import Reals

    share, t, part = Reals("share t part")
    return [share > 0, part > 0, part < 1 / t, share / part <= share / (1 / t)]


CLAIMS = (
    Claim(
        key="fft/no-switching",
        place="section 2.3",
        statement="Without switching, the total JCT may be any number of times as large as with it: new jobs wait at "
        "the tail of a queue, and smaller jobs wait for longer ones.",
        quote="Disabling switching can significantly prolong JCT.",
        procedure=Growth(
            (2, 4, 8, 16, 64),
            lambda n: F(*totals(n)),
            "(n + 2) / (n*(n + 1))",
            "n",
            "total JCT with switching over total JCT without",
            limit=F(0),
        ),
        expected=ClaimVerdict.TRUE,
        policies=("allox",),
        proof=r"""
Let $n \ge 2$. On one GPU a job of $n^2$ rounds arrives in round 0, and a job of one round in each of the rounds $1,
\dots, n$. Without switching the long job takes its $n^2$ rounds first, and the $i$-th short job completes $n^2$ rounds
after its arrival: $n^2 + n \cdot n^2$ in total. With switching each short job runs at once, and the long job completes
after $n^2 + n$ rounds: $n^2 + 2n$ in total. The quotient is $\frac{n + 2}{n (n + 1)}$.""",
        mechanical=(
            by_z3("short jobs queue behind the long one, and are shorter than what it has left", short_jobs_in_turn),
            by_sympy("both totals and their quotient", wrong_totals),
        ),
    ),
    Claim(
        key="fft/gavel-new-jobs",
        place="section 2.4",
        statement="Where jobs arrive in every round, Gavel's round-based priorities, counted from the arrival of a job "
        "on, may give an older job no round after its first one.",
        quote="in dynamic environments with frequent job arrivals, new jobs are prioritized over older ones in "
        "scheduling. As a result, the allocated share for older jobs cannot be preserved, and in extreme cases, they "
        "may not be scheduled at all.",
        procedure=Growth(
            (1, 2, 4, 8, 16, 64),
            rounds_of_first,
            "1/n",
            "n",
            "part of the rounds in which the first job runs",
            limit=F(0),
        ),
        expected=ClaimVerdict.TRUE,
        policies=("gavel-max-min",),
        proof=r"""
On one GPU a long job arrives in round 0, and a job of one round in each later round. In round 0 the long job runs. In
each later round the new job has not run, so its priority is infinite, and that of the long job is finite: the new job
runs, and is complete. In every round two jobs are present, each with a share of $\frac12$; the long job runs in one of
$n$ rounds.""",
        mechanical=(by_z3("a job that ran in a smaller part of the rounds has the higher priority", older_job_first),),
        note="Gavel's scheduler restarts the count after 1920 s, as hetopt's rounder `ByPriority` does; then ties go "
        "to the job that is owed more, so that in rounds of 360 s the long job runs in every sixth.",
    ),
)
