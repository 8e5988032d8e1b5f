"""Equation (7): packing the largest gangs first, and how hard packing is."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from hetopt.proofs.fft.packing import COUNTED, POWERS, gangs_of, largest_packing
from hetopt.proofs.fft.rounds import WAITS, Gang, Round, Where, rounds
from hetopt.proofs.ledger.claim import Claim, Finding
from hetopt.proofs.ledger.means import ForAll
from hetopt.proofs.ledger.space import Numbers, Space, Table, whole

F = Fraction


def largest_first(case: Round) -> Where:
    """The largest gangs first, each on the first type that it can use and that has room."""
    left, where = list(case.gpus), [WAITS] * len(case.gangs)
    for j in sorted(range(len(where)), key=lambda j: -case.gangs[j].demand):
        room = [i for i in case.gangs[j].usable(case.gpus) if left[i] >= case.gangs[j].demand]
        if room:
            where[j] = room[0]
            left[room[0]] -= case.gangs[j].demand
    return tuple(where)


def packs_most(case: Round) -> Finding:
    """Whether the largest first uses K* GPUs."""
    where = largest_first(case)
    used, most = case.used(where), largest_packing(case)
    words = f"of {gangs_of(case)} the largest first uses {used} GPUs, and {most} can be in use"
    if used == most:
        return Finding(F(0), words)
    pictures = (case.picture("largest first", where), case.picture("K*", case.fullest[0]))
    return Finding(F(used - most), words, (COUNTED,), pictures, decided=case.most == most)


def halves(case: Round) -> Finding:
    """Whether all GPUs can be in use just where some of the numbers sum to half of all."""
    numbers, half = [gang.demand for gang in case.gangs], case.gpus[0]
    parted = any(2 * sum(some) == sum(numbers) for size in range(len(numbers)) for some in combinations(numbers, size))
    same = (largest_packing(case) == half) == parted
    return Finding(F(0) if same else F(-1), f"numbers {numbers}")


POWERS_OF_TWO = rounds(n=(1, 6), k=(1, 3), speeds=whole(1, 1), demands=POWERS, gpus=whole(1, 12))
"""Gangs of 1, 2, 4 and 8 that can run on every type that has GPUs enough."""


def _numbers(numbers: Numbers) -> Round | None:
    """Positive numbers with an even sum, none above half of it, as gangs for half as many GPUs as the sum."""
    found = [int(v) for v in numbers.row("number")]
    half, odd = divmod(sum(found), 2)
    if odd or max(found) > half:
        return None
    return Round(tuple(Gang(v, F(1), (F(1),)) for v in found), (half,))


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
    Claim(
        key="fft/largest-first",
        paper="FFT",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs; every job can use "
        "every type.",
        means=ForAll(rounds(n=(1, 5), k=(1, 2), speeds=whole(1, 1)), packs_most),
        expected="false",
        printed=False,
        instead="fft/largest-first-powers",
    ),
    Claim(
        key="fft/largest-first-memory",
        paper="FFT",
        place="equation (7)",
        statement="The same where all demands are powers of two and jobs may be unable to use some types.",
        means=ForAll(rounds(n=(1, 4), k=(1, 2), speeds=whole(0, 1), demands=POWERS[:3]), packs_most),
        expected="false",
        printed=False,
        instead="fft/largest-first-powers",
    ),
    Claim(
        key="fft/largest-first-powers",
        paper="FFT",
        place="equation (7)",
        statement="The largest gangs first, each on the first type with room, use $K^*$ GPUs where all demands are "
        "powers of two and every job can use every type that has GPUs enough.",
        means=ForAll(POWERS_OF_TWO, packs_most),
        expected="true",
        printed=False,
        proof=LARGEST_FIRST,
    ),
    Claim(
        key="fft/packing-hard",
        paper="FFT",
        place="section 4.2.4",
        statement="Whether a given number of GPUs can be in use is NP-complete (numbers being written in binary), "
        "already with one GPU type: positive whole "
        r"numbers $d_1, \dots, d_n \le h$ with sum $2h$ can be parted into two halves of equal sum if and only if "
        "$K^* = h$ for gangs of these demands on $h$ GPUs.",
        means=ForAll(Space({"n": (2, 7)}, {"number": Table(1, "n", whole(1, 9))}, _numbers), halves),
        expected="true",
        printed=False,
        policies=("fft",),
        proof=r"""
All $h$ GPUs are in use if and only if the demands of the gangs that run sum to $h$, and then those of the others do.
So PARTITION, which is NP-complete, is a special case (a number above $h$ decides it at once); and whether a plan uses
so many GPUs within capacity is checked in polynomial time.""",
        note="The paper says that the problem can be efficiently solved with standard solvers; see `fft/solver-time`.",
    ),
)
