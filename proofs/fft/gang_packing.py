"""Equations (1) and (7): feasible plans, the number of GPUs in use, and packing the largest gangs first."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

from hetopt.data.instance import Instance
from hetopt.models.fft import FFT
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, TypeOfJob, round_space, sized, unrestricted
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, hypothesis, integers

F = Fraction

ENUMERATED = "all plans within the capacity were enumerated"


def largest_packing(case: RoundCase) -> int:
    """K* by dynamic programming over jobs; the states are the free GPUs of each type."""
    left = {case.gpus}
    for gang in case.gangs:
        left |= {
            (*free[:i], free[i] - gang.demand, *free[i + 1 :])
            for free in left
            for i in gang.usable(case.gpus)
            if free[i] >= gang.demand
        }
    return sum(case.gpus) - min(map(sum, left))


def printed_most(case: RoundCase) -> int:
    """K(t) as printed: the minimum of capacity and demand."""
    return min(sum(case.gpus), sum(gang.demand for gang in case.gangs))


def gangs_of(case: RoundCase) -> str:
    """The gangs and GPUs as text, e.g. "gangs of 3, 2 on 4 GPUs"."""
    demands = ", ".join(str(gang.demand) for gang in case.gangs)
    return f"gangs of {demands} on {' + '.join(map(str, case.gpus))} GPUs"


def keeps_rows(case: RoundCase) -> Finding:
    """Whether the library's plan has each gang as a whole on one type or waiting, within the capacity."""
    x = [[F(v) for v in row] for row in case.plan().x.tolist()]
    free = [y - sum((row[i] for row in x), F(0)) for i, y in enumerate(case.gpus)]
    whole_gangs = all(
        sum(row) in (0, gang.demand)
        and all(v in (0, gang.demand) and (gang.speed[i] or not v) for i, v in enumerate(row))
        for gang, row in zip(case.gangs, x, strict=True)
    )
    return Finding(min(free) if whole_gangs else F(-1), "one type per job, within the capacity")


def leaves_no_fitting_job(case: RoundCase) -> Finding:
    """Whether no waiting job of the library's plan fits on the idle GPUs."""
    where = case.planned()
    fits = [
        j
        for j, gang in enumerate(case.gangs)
        if where[j] == WAITS and any(case.within((*where[:j], i, *where[j + 1 :])) for i in gang.usable(case.gpus))
    ]
    return Finding(F(-len(fits)), "no waiting job fits")


def reaches_printed(case: RoundCase) -> Finding:
    """Whether K(t) GPUs can be in use."""
    printed = printed_most(case)
    slack = F(largest_packing(case) - printed)
    words = f"for {gangs_of(case)} the printed K is {printed}, and {case.most} GPUs can be in use"
    pictures = (case.picture("FFT, with K*", case.planned()),) if slack < 0 else ()
    return Finding(slack, words, (ENUMERATED,), pictures, decided=slack >= 0 or case.most < printed)


def reaches_most(case: RoundCase) -> Finding:
    """Whether the library's plan uses exactly K* GPUs."""
    used = case.used(case.planned())
    return Finding(F(-abs(used - largest_packing(case))), f"FFT uses {used} GPUs")


POWERS = tuple(F(2**e) for e in range(4))


def _multiples(numbers: CaseNumbers) -> RoundCase:
    """Demands that are powers of two, and a multiple of the largest demand as GPUs of each type."""
    demands, times = ([int(v) for v in numbers.row(name)] for name in ("demand", "times"))
    gangs = tuple(RoundJob(d, F(1), (F(1),) * len(times)) for d in demands)
    return RoundCase(gangs, tuple(max(demands) * t for t in times))


@hypothesis("all demands are powers of two")
def powers_of_two(case: RoundCase) -> bool:
    """1, 2, 4 ..."""
    return all(gang.demand & (gang.demand - 1) == 0 for gang in case.gangs)


@hypothesis("every $Y_i$ is a multiple of the largest demand")
def multiples(case: RoundCase) -> bool:
    """GPUs come in whole gangs of the largest demand."""
    most = max(gang.demand for gang in case.gangs)
    return all(y % most == 0 for y in case.gpus)


MULTIPLES = Space(
    {"n": (1, 6), "k": (1, 3)},
    {"demand": TableShape(1, "n", POWERS), "times": TableShape(1, "k", integers(1, 3))},
    _multiples,
    hypotheses=(sized, unrestricted, powers_of_two, multiples),
)


def columns(jobs: int, types: int, gpus: int) -> int:
    """Number of variables of the program of a round for these jobs, and types with ``gpus`` GPUs each."""
    instance = Instance.from_jobs([[1.0] * types] * jobs, 1, 1.0, [gpus] * types)
    return len(FFT().formulation(instance).compile(instance).c)


def sizes() -> Computation:
    """Compare the numbers of variables for few and for many GPUs."""
    rows = tuple(
        compare_values(f"{jobs} jobs, {types} types of {gpus} GPUs", jobs * types, columns(jobs, types, gpus))
        for jobs, types, gpus in ((40, 8, 1), (40, 8, 125), (200, 3, 12))
    )
    return Computation(rows, "one variable per job and type, for any number of GPUs")


def largest_first(case: RoundCase) -> TypeOfJob:
    """Pack the largest gangs first, each on the first usable type with enough free GPUs."""
    left, where = list(case.gpus), [WAITS] * len(case.gangs)
    for j in sorted(range(len(where)), key=lambda j: -case.gangs[j].demand):
        room = [i for i in case.gangs[j].usable(case.gpus) if left[i] >= case.gangs[j].demand]
        if room:
            where[j] = room[0]
            left[room[0]] -= case.gangs[j].demand
    return tuple(where)


def packs_most(case: RoundCase) -> Finding:
    """Whether packing the largest gangs first uses K* GPUs."""
    where = largest_first(case)
    used, most = case.used(where), largest_packing(case)
    words = f"for {gangs_of(case)} the largest first uses {used} GPUs, and {most} can be in use"
    if used == most:
        return Finding(F(0), words)
    pictures = (case.picture("largest first", where), case.picture("K*", case.fullest[0]))
    return Finding(F(used - most), words, (ENUMERATED,), pictures, decided=case.most == most)


def halves(case: RoundCase) -> Finding:
    """Whether all GPUs can be in use if and only if a subset of the numbers sums to half of the total."""
    numbers, half = [gang.demand for gang in case.gangs], case.gpus[0]
    partition = any(sum(subset) == half for size in range(len(numbers)) for subset in combinations(numbers, size))
    same = (largest_packing(case) == half) == partition
    return Finding(F(0) if same else F(-1), f"numbers {numbers}")


def half_of_the_sum() -> list[Any]:
    """For z3: with all numbers as gangs, h GPUs are in use by those that run but these are no half, or the reverse."""
    from z3 import And, Ints

    run, wait, h = Ints("run wait h")
    return [run + wait == 2 * h, And(run <= h, run >= h) != (run == wait)]


def half_with_a_large_number() -> list[Any]:
    """For z3: a number above h is in one half, or some of the others are one, ``chosen`` of ``others``."""
    from z3 import Ints, Or

    large, others, chosen, h = Ints("large others chosen h")
    given = [large > h, chosen >= 0, chosen <= others, large + others == 2 * h]
    return [*given, Or(large + chosen == h, chosen == h)]


POWERS_OF_TWO = round_space(
    unrestricted, powers_of_two, n=(1, 6), k=(1, 3), speeds=integers(1, 1), demands=POWERS, gpus=integers(1, 12)
)
"""Gangs of 1, 2, 4 and 8 that can run on every type with enough GPUs."""


def _numbers(numbers: CaseNumbers) -> RoundCase:
    """Numbers as gangs, on half of their sum as GPUs of one type."""
    found = [int(v) for v in numbers.row("number")]
    return RoundCase(tuple(RoundJob(v, F(1), (F(1),)) for v in found), (sum(found) // 2,))


@hypothesis(
    r"$d_1, \dots, d_n$ are positive integers, $\sum_l d_l = 2h$ and $d_l \le h$; there are $h$ GPUs of one type"
)
def even_sum(case: RoundCase) -> bool:
    """The sum of the demands is even, and none exceeds half of it."""
    numbers, (half,) = [gang.demand for gang in case.gangs], case.gpus
    return min(numbers) > 0 and sum(numbers) == 2 * half and max(numbers) <= half


LARGEST_FIRST = r"""
Let $D$ be the largest demand of the remaining jobs. *Exchange:* in a packing, let type $i$ have enough GPUs for one
more gang of $D$ if its smaller gangs are ignored. Remove its smaller gangs, the largest first, until they sum to $D$
or none is left. Demands are powers of two: the sum is always a multiple of the last removed demand, as is $D$, so the
next demand, which is not larger, does not raise the sum above $D$. In both cases a gang of $D$ now fits, and the
removed gangs sum to at most $D$. (1) *Number.* If a largest packing has fewer gangs of $D$ than the largest first, one
of them waits and some type has enough GPUs in this sense. Place it there; the removed gangs sum to at most $D$, so no
fewer GPUs are in use. (2) *Place.* If type $i$ has more of them than under the largest first and $i'$ fewer, move one
from $i$ to $i'$ and the gangs removed from $i'$, at most $D$ in sum, to $i$, where $D$ GPUs became free. So some
largest packing has the gangs of $D$ on the types of the largest first. If one of them waits, no type has enough GPUs
for it even without smaller gangs, and it can be omitted. The remaining GPUs and the smaller gangs are a smaller case
of the same kind, and the statement is trivial without gangs."""

CLAIMS = (
    Claim(
        key="fft/eq-1",
        place="equation (1)",
        statement=r"The plans of FFT give each job one GPU type or none, $\sum_i x_j^i \le 1$, and no type is "
        r"over-subscribed, $\sum_j d_j x_j^i \le Y_i$; $x_j^i = 0$ where the memory is too small (section 4.4.1).",
        quote="These constraints state that job $j$ can only be executed on one device type and each device type "
        "cannot be over-subscribed.",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 3), ages=integers(0, 9)), keeps_rows, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Both are rows of the program, and $x_j^i$ is binary, and fixed to 0 where the job cannot run. Afterwards, ties are
broken by exchanging the types of two gangs of equal demand, or by moving a gang to a type with enough free GPUs; both
preserve the rows.""",
    ),
    Claim(
        key="fft/work-conserving",
        place="section 4.1",
        statement="The schedule is work-conserving: no waiting job fits on the idle GPUs.",
        quote=r"the schedule generated by $\vec{x}_j(t)$ must be work-conserving, i.e., always keeping the GPU devices "
        "busy if there are jobs applicable to be scheduled.",
        procedure=ForAll(round_space(n=(1, 5), ages=integers(0, 9)), leaves_no_fitting_job, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof="The plan uses the largest possible number of GPUs; with such a job it would use more.",
        note="Read for gangs: a job is applicable if it fits.",
    ),
    Claim(
        key="fft/eq-7",
        place="equation (7)",
        statement=r"$\sum_i \sum_j d_j x_j^i(t) \ge K(t)$ can be met, with $K(t)$ the minimum of the available GPUs "
        "and the demanded GPUs, both in total.",
        quote="The quantity $K(t)$ represents the minimum value between the number of available GPUs and the maximum "
        "GPU demand of the available jobs, considering the per-type resource constraint at time $t$.",
        procedure=ForAll(
            round_space(n=(1, 4), speeds=integers(1, 2)),
            reaches_printed,
            slack=lambda case: largest_packing(case) - printed_most(case),
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-7-packed",
        note="`refuted/fft-gang-capacity` is a larger case. Table 2 has gangs of 3 and of 8: four gangs of 3 and three "
        "of 8 demand 36 GPUs, and the 12 + 12 + 12 GPUs of section 6.1.1 can run 33 of them. If "
        '"considering the per-type resource constraint" means the largest packing, $K(t)$ is $K^*$ of '
        "`fft/eq-7-packed`, and (7) holds.",
    ),
    Claim(
        key="fft/eq-7-packed",
        place="equation (7)",
        statement=r"The policy's plans use exactly $K^*$ GPUs, the largest $\sum_{i,j} d_j x_j^i$ under equation (1).",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 3), ages=integers(0, 9)), reaches_most, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The first stage of the round maximises $\sum_{i,j} d_j x_j^i$ under (1); its value is $K^*$. The second stage requires
$\sum_{i,j} d_j x_j^i \ge K^*$, which is feasible, and more than $K^*$ is infeasible. Breaking ties preserves the
multiset of running demands.""",
    ),
    Claim(
        key="fft/eq-7-powers",
        place="equation (7)",
        statement=r"The printed $K(t) = \min\{\sum_i Y_i, \sum_j d_j\}$ can be met where all demands are powers of "
        "two, every $Y_i$ is a multiple of the largest demand, and every job can use every type.",
        procedure=ForAll(MULTIPLES, reaches_printed),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Pack the largest gangs first. When a gang of $d$ is packed, the free GPUs of each type are a multiple of $d$, since
$Y_i$ and all demands packed before are. So a gang waits only if no GPU is free, with $\sum_i Y_i$ in use; otherwise
all run, on $\sum_j d_j$.""",
    ),
    Claim(
        key="fft/variables",
        place="section 4.2.4",
        statement="The variables are related to the number of GPU types rather than the number of GPUs: one for each "
        "job and type.",
        quote="the variables are related to the number of GPU types rather than the number of GPUs",
        procedure=ByComputation(sizes),
        expected=ClaimVerdict.TRUE,
    ),
    Claim(
        key="fft/largest-first",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs; every job can use "
        "every type.",
        procedure=ForAll(round_space(unrestricted, n=(1, 5), k=(1, 2), speeds=integers(1, 1)), packs_most),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=(),
        instead="fft/largest-first-powers",
    ),
    Claim(
        key="fft/largest-first-memory",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs where all demands are "
        "powers of two and jobs may be unable to use some types.",
        procedure=ForAll(
            round_space(powers_of_two, n=(1, 4), k=(1, 2), speeds=integers(0, 1), demands=POWERS[:3]), packs_most
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=(),
        instead="fft/largest-first-powers",
    ),
    Claim(
        key="fft/largest-first-powers",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs where all demands are "
        "powers of two and every job can use every type with enough GPUs.",
        procedure=ForAll(POWERS_OF_TWO, packs_most),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=(),
        proof=LARGEST_FIRST,
    ),
    Claim(
        key="fft/packing-partition",
        place="section 4.2.4",
        statement=r"Positive integers $d_1, \dots, d_n \le h$ with sum $2h$ can be partitioned into two sets of equal "
        "sum if and only if $K^* = h$ for gangs of these demands on $h$ GPUs of one type.",
        procedure=ForAll(
            Space({"n": (2, 7)}, {"number": TableShape(1, "n", integers(1, 9))}, _numbers, None, (even_sum,)), halves
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
All $h$ GPUs are in use if and only if the demands of the gangs that run sum to $h$; then the others do, too.""",
    ),
    Claim(
        key="fft/packing-hard",
        place="section 4.2.4",
        statement="To decide whether a given number of GPUs can be in use is NP-complete (with numbers in binary), "
        "even with one GPU type.",
        quote="this scheduling problem can be efficiently solved even in a large-scale cluster by leveraging standard "
        "optimization solvers without incurring significant overhead.",
        procedure=ForAll(
            Space({"n": (2, 7)}, {"number": TableShape(1, "n", integers(1, 9))}, _numbers, None, (even_sum,)), halves
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
By `fft/packing-partition`, PARTITION, which is NP-complete, is a special case (a number above $h$ makes it trivial);
and a plan can be checked in polynomial time.""",
        mechanical=(
            by_z3("gangs use h of h GPUs if and only if they are half of the sum, all integers", half_of_the_sum),
            by_z3("no half exists with a number above h, all integers", half_with_a_large_number),
        ),
        note="For measured times see `fft/solver-time`.",
    ),
)
