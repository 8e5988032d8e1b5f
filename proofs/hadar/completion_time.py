"""The completion time of section III-A, and the number of schedules of a job."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from math import ceil, comb
from typing import Any

from hetopt.checks import counted
from hetopt.data.rationals import number_text
from hetopt.proofs.hadar.copy_cases import strictly_positive
from hetopt.proofs.hadar.slot_cases import SlotCase, SlotJob, SlotSchedule, slot_space
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, Space, TableShape, integers

F = Fraction


def times(case: SlotCase) -> Iterator[tuple[int, SlotSchedule, int, Fraction]]:
    """Of every schedule: the job, the schedule, f_j - a_j, and the exact completion time in slots."""
    for j, job in enumerate(case.jobs):
        for schedule in case.schedules[j]:
            left, part = job.work, F(0)
            for _, uses in groupby(schedule.uses, key=lambda use: use[0]):
                speed = min(job.speed[case.cells[i][1]] for _, i, _ in uses)
                part, left = left / speed, left - speed
            slots = schedule.uses[-1][0] - job.arrival
            yield j, schedule, slots, slots + part


def defined(case: SlotCase) -> Finding:
    """Whether f_j - a_j is positive for all schedules."""
    shortest = min(times(case), key=lambda found: found[2], default=None)
    if shortest is None:
        return Finding(F(0), "no job can complete")
    j, schedule, printed, exact = shortest
    words = f"a schedule of j{j + 1} takes {counted(number_text(exact), 'slot')}, and f_j - a_j is {printed}"
    chosen = [schedule if i == j else None for i in range(len(case.jobs))]
    return Finding(strictly_positive(F(printed)), words, pictures=(case.picture("this schedule", chosen),))


def in_whole_slots(case: SlotCase) -> Finding:
    """Whether f_j - a_j + 1 is the exact completion time of all schedules, rounded up to whole slots."""
    apart = max((abs(printed + 1 - ceil(exact)) for *_, printed, exact in times(case)), default=0)
    return Finding(F(-apart), f"f_j - a_j + 1 differs by at most {apart} from the completion time in whole slots")


def half_of_the_slots(work: int) -> SlotCase:
    """A job of this number of slots on one GPU, with twice as many slots."""
    return SlotCase((SlotJob(1, F(work), (F(1),), 0, F(1), fading=False),), ((1,),), 2 * work)


def many_schedules(work: int) -> Finding:
    """Compare the number of schedules with 2 ** work."""
    number = len(half_of_the_slots(work).schedules[0])
    counted = number == comb(2 * work, work)
    return Finding(F(number - 2**work) if counted else F(-1), f"{number} schedules of {work} slots in {2 * work}")


def other_whole_slots() -> list[Any]:
    """For z3: rounded up, the time to the end of the work ``left`` in slot f is another number than f - a + 1."""
    from z3 import Ints, Real, Reals, ToReal

    (arrival, last, whole), exact, (left, speed) = Ints("a f whole"), Real("exact"), Reals("left speed")
    given = [left > 0, left <= speed, exact == ToReal(last - arrival) + left / speed]
    return [*given, whole - 1 < exact, exact <= whole, whole != last - arrival + 1]


def wrong_product() -> str:
    """Check in sympy that the product of (m + i) / i for i = 1 to m is the binomial coefficient of 2 m and m."""
    import sympy

    m, i = sympy.symbols("m i", positive=True, integer=True)
    quotient = sympy.gammasimp(sympy.product((m + i) / i, (i, 1, m)) / sympy.binomial(2 * m, m))
    return "" if quotient == 1 else f"the quotient is {quotient}"


def less_than_doubled() -> list[Any]:
    """For z3: a product of at least 2^(i - 1) that the factor (m + i) / i does not raise to 2^i."""
    from z3 import Reals

    m, i, product, power = Reals("m i product power")
    return [i >= 1, i <= m, power > 0, product >= power, product * ((m + i) / i) < 2 * power]


SLOTS = {
    "demand": integers(1, 2),
    "work": integers(1, 4),
    "arrival": integers(0, 1),
    "speed": integers(0, 3),
    "slots": integers(1, 3),
}
ANY = slot_space(n=(1, 2), values=SLOTS)
ONE_JOB = Space(
    {},
    {"work": TableShape(1, 1, integers(1, 6))},
    lambda numbers: int(numbers.one("work")),
    hypotheses=(Hypothesis("one job of $m$ slots of work, one GPU and $2 m$ slots"),),
)

CLAIMS = (
    Claim(
        key="hadar/completion-time",
        place="section III-A",
        statement="The completion time of job $j$ is $f_j - a_j$, with $f_j$ its last slot, (1c): it is positive, so "
        "that the effective throughput, $E_j N_j$ over this time, is a utility.",
        procedure=ForAll(ANY, defined),
        expected=ClaimVerdict.FALSE,
        policies=("hadar-commit",),
        instead="hadar/completion-time-slots",
        quote="Let $f_j$ denote the finish time of job $j$, and thus the job completion time can be expressed as "
        "$f_j - a_j$.",
        note="(1e) allows a job to run in the slot in which it arrives; if it completes there, the printed time is 0.",
    ),
    Claim(
        key="hadar/completion-time-slots",
        place="section III-A",
        statement="Counted from the beginning of slot $a_j$, the completion time of job $j$ in whole slots is $f_j - "
        "a_j + 1$, if the job holds GPUs only while it has work left.",
        procedure=ForAll(ANY, in_whole_slots),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadar-commit",),
        proof=r"""
The job completes within slot $f_j$, after a part $\vartheta$ of it with $0 < \vartheta \le 1$: it has no work left
after that, and some before, as else it would not hold GPUs in $f_j$. From the beginning of slot $a_j$ these are
$f_j - a_j + \vartheta$ slots, and $f_j - a_j + 1$ in whole slots.""",
        mechanical=(by_z3("the time is f - a + 1 when rounded up, all real numbers", other_whole_slots),),
    ),
    Claim(
        key="hadar/many-schedules",
        place="section III-B",
        statement="The number of feasible schedules of a job may be exponential in the number of slots: a job of $m$ "
        "slots has at least $2^m$ schedules in $2 m$ slots.",
        procedure=ForAll(ONE_JOB, many_schedules),
        expected=ClaimVerdict.TRUE,
        policies=("hadar-commit",),
        quote="Due to the combinatorial nature of these constraints, there is an exponential number of feasible "
        "schedules for each job.",
        proof=r"""
On one GPU any $m$ of the $2 m$ slots are a schedule: $\binom{2m}m = \prod_{i=1}^m \frac{m + i}i \ge 2^m$ of them, since
$\frac{m+i}i \ge 2$ for $i \le m$.""",
        mechanical=(
            by_sympy("the product of all (m + i) / i is the binomial coefficient", wrong_product),
            by_z3("each factor at least doubles the product, all real numbers", less_than_doubled),
        ),
    ),
)
