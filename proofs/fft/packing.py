"""Equations (1) and (7): what fits, and how many GPUs can be in use."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.instance import Instance
from hetopt.models.fft import FFT
from hetopt.proofs.fft.rounds import WAITS, Gang, Round, rounds
from hetopt.proofs.ledger.claim import Claim, Finding
from hetopt.proofs.ledger.means import Computation, Computed, ForAll, said
from hetopt.proofs.ledger.space import Numbers, Space, Table, whole

F = Fraction

COUNTED = "all plans within capacity were counted through"


def largest_packing(case: Round) -> int:
    """K* by dynamic programming: the GPUs that can be left free of each type, job after job."""
    left = {case.gpus}
    for gang in case.gangs:
        left |= {
            (*free[:i], free[i] - gang.demand, *free[i + 1 :])
            for free in left
            for i in gang.usable(case.gpus)
            if free[i] >= gang.demand
        }
    return sum(case.gpus) - min(map(sum, left))


def wanted(case: Round) -> int:
    """K(t) as printed: the lesser of the GPUs that there are and that are demanded."""
    return min(sum(case.gpus), sum(gang.demand for gang in case.gangs))


def gangs_of(case: Round) -> str:
    """E.g. "gangs of 3, 2 on 4 GPUs"."""
    demands = ", ".join(str(gang.demand) for gang in case.gangs)
    return f"gangs of {demands} on {' + '.join(map(str, case.gpus))} GPUs"


def keeps_rows(case: Round) -> Finding:
    """Whether the library's plan gives every job its whole gang of one type or nothing, within capacity."""
    x = [[F(v) for v in row] for row in case.plan().x.tolist()]
    free = [y - sum((row[i] for row in x), F(0)) for i, y in enumerate(case.gpus)]
    whole_gangs = all(
        sum(row) in (0, gang.demand)
        and all(v in (0, gang.demand) and (gang.speed[i] or not v) for i, v in enumerate(row))
        for gang, row in zip(case.gangs, x, strict=True)
    )
    return Finding(min(free) if whole_gangs else F(-1), "one type a job, within capacity")


def leaves_nobody(case: Round) -> Finding:
    """Whether no job that waits in the library's plan would fit beside those that run."""
    where = case.planned()
    fits = [
        j
        for j, gang in enumerate(case.gangs)
        if where[j] == WAITS and any(case.within((*where[:j], i, *where[j + 1 :])) for i in gang.usable(case.gpus))
    ]
    return Finding(F(-len(fits)), "no waiting job fits")


def reaches_printed(case: Round) -> Finding:
    """Whether K(t) GPUs can be in use."""
    slack = F(largest_packing(case) - wanted(case))
    words = f"of {gangs_of(case)} the printed K is {wanted(case)}, and {case.most} GPUs can be in use"
    pictures = (case.picture("FFT, with K*", case.planned()),) if slack < 0 else ()
    return Finding(slack, words, (COUNTED,), pictures, decided=slack >= 0 or case.most < wanted(case))


def reaches_most(case: Round) -> Finding:
    """Whether the library's plan uses K* GPUs exactly."""
    used = case.used(case.planned())
    return Finding(F(-abs(used - largest_packing(case))), f"FFT uses {used} GPUs")


POWERS = tuple(F(2**e) for e in range(4))


def _multiples(numbers: Numbers) -> Round:
    """Powers of two, and of each type so many times as many GPUs as the largest of them."""
    demands, times = ([int(v) for v in numbers.row(name)] for name in ("demand", "times"))
    gangs = tuple(Gang(d, F(1), (F(1),) * len(times)) for d in demands)
    return Round(gangs, tuple(max(demands) * t for t in times))


MULTIPLES = Space(
    {"n": (1, 6), "k": (1, 3)},
    {"demand": Table(1, "n", POWERS), "times": Table(1, "k", whole(1, 3))},
    _multiples,
)


def columns(jobs: int, types: int, gpus: int) -> int:
    """Variables of the round's program for so many jobs and types with so many GPUs each."""
    instance = Instance.from_jobs([[1.0] * types] * jobs, 1, 1.0, [gpus] * types)
    return len(FFT().formulation(instance).compile(instance).c)


def sizes() -> Computation:
    """Variables for a few and for many GPUs."""
    rows = tuple(
        said(f"{jobs} jobs, {types} types of {gpus} GPUs", jobs * types, columns(jobs, types, gpus))
        for jobs, types, gpus in ((40, 8, 1), (40, 8, 125), (200, 3, 12))
    )
    return Computation(rows, "one variable for each job and type, however many GPUs there are")


CLAIMS = (
    Claim(
        key="fft/eq-1",
        paper="FFT",
        place="equation (1)",
        statement=r"The plans of FFT give each job one GPU type or none, $\sum_i x_j^i \le 1$, and no type is "
        r"over-subscribed, $\sum_j d_j x_j^i \le Y_i$; $x_j^i = 0$ where the memory is too small (section 4.4.1).",
        means=ForAll(rounds(n=(1, 5), k=(1, 3), ages=whole(0, 9)), keeps_rows, share=F(1, 2)),
        expected="true",
        policies=("fft",),
        proof=r"""
Both are rows of the round's program, and $x_j^i$ is binary, and fixed to 0 where the job cannot run. Afterwards, ties
are settled by exchanging the places of two gangs of equal demand, or by moving a gang to a type that has room for it;
both keep the rows.""",
    ),
    Claim(
        key="fft/work-conserving",
        paper="FFT",
        place="section 4.1",
        statement="The schedule is work-conserving: no job that waits would fit on the GPUs that are idle.",
        means=ForAll(rounds(n=(1, 5), ages=whole(0, 9)), leaves_nobody, share=F(1, 2)),
        expected="true",
        policies=("fft",),
        proof="The plan uses as many GPUs as can be packed; with such a job beside it more would be in use.",
        note='Read for gangs: "always keeping the GPU devices busy if there are jobs applicable to be scheduled".',
    ),
    Claim(
        key="fft/eq-7",
        paper="FFT",
        place="equation (7)",
        statement=r"$\sum_i \sum_j d_j x_j^i(t) \ge K(t)$ can be met, with $K(t)$ the minimum of the available GPUs "
        "and the demanded GPUs, both in total.",
        means=ForAll(
            rounds(n=(1, 4), speeds=whole(1, 2)),
            reaches_printed,
            slack=lambda case: largest_packing(case) - wanted(case),
        ),
        expected="false",
        policies=("fft",),
        instead="fft/eq-7-packed",
        note="`refuted/fft-gang-capacity` is a larger case. Table 2 has gangs of 3 beside gangs of 8: three and "
        "four of them ask for 36 GPUs, of which the 12 + 12 + 12 of section 6.1.1 take 33. With "
        '"considering the per-type resource constraint" read as what can be packed, $K(t)$ is $K^*$ of '
        "`fft/eq-7-packed`, and (7) is right.",
    ),
    Claim(
        key="fft/eq-7-packed",
        paper="FFT",
        place="equation (7)",
        statement=r"The policy's plans use exactly $K^*$ GPUs, the largest $\sum_{i,j} d_j x_j^i$ under equation (1).",
        means=ForAll(rounds(n=(1, 5), k=(1, 3), ages=whole(0, 9)), reaches_most, share=F(1, 2)),
        expected="true",
        printed=False,
        policies=("fft",),
        proof=r"""
The first stage of the round maximises $\sum_{i,j} d_j x_j^i$ under (1); its value is $K^*$. The second stage keeps
$\sum_{i,j} d_j x_j^i \ge K^*$, which is feasible, and more than $K^*$ is not. Settling ties keeps the demands
that run, counted with multiplicity.""",
    ),
    Claim(
        key="fft/eq-7-powers",
        paper="FFT",
        place="equation (7)",
        statement=r"The printed $K(t) = \min\{\sum_i Y_i, \sum_j d_j\}$ can be met where all demands are powers of "
        "two, every $Y_i$ is a multiple of the largest demand, and every job can use every type.",
        means=ForAll(MULTIPLES, reaches_printed),
        expected="true",
        printed=False,
        policies=("fft",),
        proof=r"""
Take the largest first. Whenever it is the turn of a gang of $d$, the GPUs free of each type are a multiple of $d$:
$Y_i$ is, and so are all demands before. So a gang waits only when no GPU is free, and then $\sum_i Y_i$ are in use;
else all run, on $\sum_j d_j$.""",
    ),
    Claim(
        key="fft/variables",
        paper="FFT",
        place="section 4.2.4",
        statement="The variables are related to the number of GPU types rather than the number of GPUs: one for each "
        "job and type.",
        means=Computed(sizes),
        expected="true",
        policies=("fft",),
    ),
)
