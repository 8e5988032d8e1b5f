"""Equations (1) and (7): which plans fit, how many GPUs can be in use, and packing the largest gangs first."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from hetopt.data.instance import Instance
from hetopt.models.fft import FFT
from hetopt.proofs.fft.fft_claim import fft_claim
from hetopt.proofs.fft.round_cases import WAITS, RoundCase, RoundJob, TypeOfJob, round_space
from hetopt.proofs.ledger.claim import ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, integers

F = Fraction

COUNTED = "all plans within capacity were counted through"


def largest_packing(case: RoundCase) -> int:
    """K* by dynamic programming over the possible free GPUs of each type, job after job."""
    left = {case.gpus}
    for gang in case.gangs:
        left |= {
            (*free[:i], free[i] - gang.demand, *free[i + 1 :])
            for free in left
            for i in gang.usable(case.gpus)
            if free[i] >= gang.demand
        }
    return sum(case.gpus) - min(map(sum, left))


def wanted(case: RoundCase) -> int:
    """K(t) as printed: the smaller one of capacity and demand."""
    return min(sum(case.gpus), sum(gang.demand for gang in case.gangs))


def gangs_of(case: RoundCase) -> str:
    """E.g. "gangs of 3, 2 on 4 GPUs"."""
    demands = ", ".join(str(gang.demand) for gang in case.gangs)
    return f"gangs of {demands} on {' + '.join(map(str, case.gpus))} GPUs"


def keeps_rows(case: RoundCase) -> Finding:
    """Whether the library's plan gives every job its whole gang on one type or nothing, within the capacity."""
    x = [[F(v) for v in row] for row in case.plan().x.tolist()]
    free = [y - sum((row[i] for row in x), F(0)) for i, y in enumerate(case.gpus)]
    whole_gangs = all(
        sum(row) in (0, gang.demand)
        and all(v in (0, gang.demand) and (gang.speed[i] or not v) for i, v in enumerate(row))
        for gang, row in zip(case.gangs, x, strict=True)
    )
    return Finding(min(free) if whole_gangs else F(-1), "one type a job, within capacity")


def leaves_no_fitting_job(case: RoundCase) -> Finding:
    """Whether no waiting job of the library's plan fits beside the running ones."""
    where = case.planned()
    fits = [
        j
        for j, gang in enumerate(case.gangs)
        if where[j] == WAITS and any(case.within((*where[:j], i, *where[j + 1 :])) for i in gang.usable(case.gpus))
    ]
    return Finding(F(-len(fits)), "no waiting job fits")


def reaches_printed(case: RoundCase) -> Finding:
    """Whether K(t) GPUs can be in use."""
    slack = F(largest_packing(case) - wanted(case))
    words = f"of {gangs_of(case)} the printed K is {wanted(case)}, and {case.most} GPUs can be in use"
    pictures = (case.picture("FFT, with K*", case.planned()),) if slack < 0 else ()
    return Finding(slack, words, (COUNTED,), pictures, decided=slack >= 0 or case.most < wanted(case))


def reaches_most(case: RoundCase) -> Finding:
    """Whether the library's plan uses K* GPUs exactly."""
    used = case.used(case.planned())
    return Finding(F(-abs(used - largest_packing(case))), f"FFT uses {used} GPUs")


POWERS = tuple(F(2**e) for e in range(4))


def _multiples(numbers: CaseNumbers) -> RoundCase:
    """Demands that are powers of two, and for each type a multiple of the largest demand as GPUs."""
    demands, times = ([int(v) for v in numbers.row(name)] for name in ("demand", "times"))
    gangs = tuple(RoundJob(d, F(1), (F(1),) * len(times)) for d in demands)
    return RoundCase(gangs, tuple(max(demands) * t for t in times))


MULTIPLES = Space(
    {"n": (1, 6), "k": (1, 3)},
    {"demand": TableShape(1, "n", POWERS), "times": TableShape(1, "k", integers(1, 3))},
    _multiples,
)


def columns(jobs: int, types: int, gpus: int) -> int:
    """Number of variables of the round's program for these jobs, and types with ``gpus`` GPUs each."""
    instance = Instance.from_jobs([[1.0] * types] * jobs, 1, 1.0, [gpus] * types)
    return len(FFT().formulation(instance).compile(instance).c)


def sizes() -> Computation:
    """Compare the numbers of variables for few and for many GPUs."""
    rows = tuple(
        compare_values(f"{jobs} jobs, {types} types of {gpus} GPUs", jobs * types, columns(jobs, types, gpus))
        for jobs, types, gpus in ((40, 8, 1), (40, 8, 125), (200, 3, 12))
    )
    return Computation(rows, "one variable for each job and type, however many GPUs there are")


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
    """Whether packing the largest first uses K* GPUs."""
    where = largest_first(case)
    used, most = case.used(where), largest_packing(case)
    words = f"of {gangs_of(case)} the largest first uses {used} GPUs, and {most} can be in use"
    if used == most:
        return Finding(F(0), words)
    pictures = (case.picture("largest first", where), case.picture("K*", case.fullest[0]))
    return Finding(F(used - most), words, (COUNTED,), pictures, decided=case.most == most)


def halves(case: RoundCase) -> Finding:
    """Whether all GPUs can be in use exactly if some of the numbers sum to half of the total."""
    numbers, half = [gang.demand for gang in case.gangs], case.gpus[0]
    parted = any(2 * sum(some) == sum(numbers) for size in range(len(numbers)) for some in combinations(numbers, size))
    same = (largest_packing(case) == half) == parted
    return Finding(F(0) if same else F(-1), f"numbers {numbers}")


POWERS_OF_TWO = round_space(n=(1, 6), k=(1, 3), speeds=integers(1, 1), demands=POWERS, gpus=integers(1, 12))
"""Gangs of 1, 2, 4 and 8 that can run on every type with enough GPUs."""


def _numbers(numbers: CaseNumbers) -> RoundCase | None:
    """Positive numbers with an even sum, none above half of it, as gangs for half as many GPUs as the sum."""
    found = [int(v) for v in numbers.row("number")]
    half, odd = divmod(sum(found), 2)
    if odd or max(found) > half:
        return None
    return RoundCase(tuple(RoundJob(v, F(1), (F(1),)) for v in found), (half,))


LARGEST_FIRST = r"""
Let $D$ be the largest demand of the jobs left. *Exchange:* in a packing, let type $i$ have room for one more gang of
$D$ if its smaller gangs are ignored. Remove its smaller gangs, the largest first, until they sum to $D$ or none is
left. Demands are powers of two: the sum is always a multiple of the demand removed last, and $D$ is as well, so that
the next one, no larger, does not take the sum past $D$. In both cases a gang of $D$ now fits, and the removed ones
sum to at most $D$.
(1) *Number.* If a largest packing has fewer gangs of $D$ than the largest first, one of them waits and some type has
such room: put it there; the removed ones sum to at most $D$, so no fewer GPUs are in use.
(2) *Place.* If type $i$ has more of them than under the largest first and $i'$ fewer, move one from $i$ to $i'$ and
what is removed from $i'$, at most $D$ in sum, to $i$, where $D$ became free. So some largest packing has the gangs of
$D$ where the largest first puts them. If one of them waits, no type has room for it even without smaller gangs, and
it can be left out. The rest of the GPUs and the smaller gangs are a smaller case of the same; with no gangs left
there is nothing to show."""

CLAIMS = (
    fft_claim(
        key="fft/eq-1",
        place="equation (1)",
        statement=r"The plans of FFT give each job one GPU type or none, $\sum_i x_j^i \le 1$, and no type is "
        r"over-subscribed, $\sum_j d_j x_j^i \le Y_i$; $x_j^i = 0$ where the memory is too small (section 4.4.1).",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 3), ages=integers(0, 9)), keeps_rows, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Both are rows of the round's program, and $x_j^i$ is binary, and fixed to 0 where the job cannot run. Afterwards, ties
are settled by exchanging the places of two gangs of equal demand, or by moving a gang to a type that has room for it;
both keep the rows.""",
    ),
    fft_claim(
        key="fft/work-conserving",
        place="section 4.1",
        statement="The schedule is work-conserving: no job that waits would fit on the GPUs that are idle.",
        procedure=ForAll(round_space(n=(1, 5), ages=integers(0, 9)), leaves_no_fitting_job, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof="The plan uses as many GPUs as can be packed; with such a job beside it more would be in use.",
        note='Read for gangs: "always keeping the GPU devices busy if there are jobs applicable to be scheduled".',
    ),
    fft_claim(
        key="fft/eq-7",
        place="equation (7)",
        statement=r"$\sum_i \sum_j d_j x_j^i(t) \ge K(t)$ can be met, with $K(t)$ the minimum of the available GPUs "
        "and the demanded GPUs, both in total.",
        procedure=ForAll(
            round_space(n=(1, 4), speeds=integers(1, 2)),
            reaches_printed,
            slack=lambda case: largest_packing(case) - wanted(case),
        ),
        expected=ClaimVerdict.FALSE,
        instead="fft/eq-7-packed",
        note="`refuted/fft-gang-capacity` is a larger case. Table 2 has gangs of 3 beside gangs of 8: three and "
        "four of them ask for 36 GPUs, of which the 12 + 12 + 12 of section 6.1.1 take 33. With "
        '"considering the per-type resource constraint" read as what can be packed, $K(t)$ is $K^*$ of '
        "`fft/eq-7-packed`, and (7) is right.",
    ),
    fft_claim(
        key="fft/eq-7-packed",
        place="equation (7)",
        statement=r"The policy's plans use exactly $K^*$ GPUs, the largest $\sum_{i,j} d_j x_j^i$ under equation (1).",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 3), ages=integers(0, 9)), reaches_most, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
The first stage of the round maximises $\sum_{i,j} d_j x_j^i$ under (1); its value is $K^*$. The second stage keeps
$\sum_{i,j} d_j x_j^i \ge K^*$, which is feasible, and more than $K^*$ is not. Settling ties keeps the demands
that run, counted with multiplicity.""",
    ),
    fft_claim(
        key="fft/eq-7-powers",
        place="equation (7)",
        statement=r"The printed $K(t) = \min\{\sum_i Y_i, \sum_j d_j\}$ can be met where all demands are powers of "
        "two, every $Y_i$ is a multiple of the largest demand, and every job can use every type.",
        procedure=ForAll(MULTIPLES, reaches_printed),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
Take the largest first. Whenever it is the turn of a gang of $d$, the GPUs free of each type are a multiple of $d$:
$Y_i$ is, and so are all demands before. So a gang waits only when no GPU is free, and then $\sum_i Y_i$ are in use;
else all run, on $\sum_j d_j$.""",
    ),
    fft_claim(
        key="fft/variables",
        place="section 4.2.4",
        statement="The variables are related to the number of GPU types rather than the number of GPUs: one for each "
        "job and type.",
        procedure=ByComputation(sizes),
        expected=ClaimVerdict.TRUE,
    ),
    fft_claim(
        key="fft/largest-first",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs; every job can use "
        "every type.",
        procedure=ForAll(round_space(n=(1, 5), k=(1, 2), speeds=integers(1, 1)), packs_most),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=(),
        instead="fft/largest-first-powers",
    ),
    fft_claim(
        key="fft/largest-first-memory",
        place="equation (7)",
        statement="The same where all demands are powers of two and jobs may be unable to use some types.",
        procedure=ForAll(round_space(n=(1, 4), k=(1, 2), speeds=integers(0, 1), demands=POWERS[:3]), packs_most),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=(),
        instead="fft/largest-first-powers",
    ),
    fft_claim(
        key="fft/largest-first-powers",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs where all demands are "
        "powers of two and every job can use every type that has GPUs enough.",
        procedure=ForAll(POWERS_OF_TWO, packs_most),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=(),
        proof=LARGEST_FIRST,
    ),
    fft_claim(
        key="fft/packing-hard",
        place="section 4.2.4",
        statement="Whether a given number of GPUs can be in use is NP-complete (numbers being written in binary), "
        "already with one GPU type: positive whole "
        r"numbers $d_1, \dots, d_n \le h$ with sum $2h$ can be parted into two halves of equal sum if and only if "
        "$K^* = h$ for gangs of these demands on $h$ GPUs.",
        procedure=ForAll(Space({"n": (2, 7)}, {"number": TableShape(1, "n", integers(1, 9))}, _numbers), halves),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
All $h$ GPUs are in use if and only if the demands of the gangs that run sum to $h$, and then those of the others do.
So PARTITION, which is NP-complete, is a special case (a number above $h$ decides it at once); and whether a plan uses
so many GPUs within capacity is checked in polynomial time.""",
        note="The paper says that the problem can be efficiently solved with standard solvers; see `fft/solver-time`.",
    ),
)
