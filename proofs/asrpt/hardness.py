"""Sections III-C and IV-B: NP-hardness by reductions, which are tested on small cases in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.graph_cuts import CutCase
from hetopt.proofs.asrpt.scheduling_cases import optimal, total_completion
from hetopt.proofs.asrpt.staged_cases import StagedCase, cluster_of, staged_job
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy, by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, ValueChooser, hypothesis, integers

F = Fraction


def packs(items: tuple[int, ...], bins: tuple[int, ...]) -> bool:
    """Whether the items fit into bins of these sizes."""
    if not items:
        return True
    first, *rest = items
    return any(
        packs(tuple(rest), (*bins[:m], n - first, *bins[m + 1 :]))
        for m, n in enumerate(bins)
        if n >= first and n not in bins[:m]
    )


# -- mappings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BinPackingCase:
    """Items, and servers to fill with them.

    Attributes
    ----------
    items:
        Sizes of the items.
    servers, size:
        Number of servers, and GPUs of each; the items sum to all GPUs.
    """

    items: tuple[int, ...]
    servers: int
    size: int

    @property
    def weight(self) -> int:
        """Weight of edges within an item; edges between items weigh 1 and are fewer."""
        return max(3, len(self.items))

    @cached_property
    def job(self) -> CutCase:
        """A path of single replicas: an item of size a is a run of a stages; B_intra is ``weight`` times b."""
        ends = [n for item in self.items for n in (*[F(self.weight, 2)] * (item - 1), F(1, 2))][:-1]
        count = sum(self.items)
        job = staged_job("path", (F(1),) * count, (F(0),) * count, (F(0),) * count, ends)
        return CutCase(StagedCase(job, (self.size,) * self.servers, F(1), F(self.weight)))

    @property
    def instance(self) -> Instance:
        """The job and the servers."""
        return self.job.instance


MOST_STAGES = 8


def _packing(numbers: CaseNumbers) -> BinPackingCase | None:
    """The case; None if all its mappings are too many to enumerate."""
    items, servers = tuple(map(int, numbers.row("items"))), int(numbers.one("servers"))
    return BinPackingCase(items, servers, sum(items) // servers) if 1 < sum(items) <= MOST_STAGES else None


@hypothesis(r"the sizes of the items sum to those of the servers, $\sum_j a_j = M g$")
def as_large_as_the_bins(case: BinPackingCase) -> bool:
    """Items that fit leave no room."""
    return sum(case.items) == case.servers * case.size


PACKINGS = Space(
    {"n": (1, 5)},
    {"items": TableShape(1, "n", integers(1, 4)), "servers": TableShape(1, 1, integers(2, 3))},
    _packing,
    hypotheses=(as_large_as_the_bins,),
)


def cut_decides(case: BinPackingCase) -> Finding:
    """Whether the least cut and the shortest iteration both decide whether the items fill the servers."""
    fits = packs(case.items, (case.size,) * case.servers)
    cut, alpha = min(case.job.cuts), min(case.job.alphas)
    right = (cut < case.weight) == fits == (alpha < case.weight)
    words = (
        f"the items {'fill' if fits else 'do not fill'} the servers; least cut {number_text(cut)}, shortest "
        f"iteration {number_text(alpha)}, heavy edge {case.weight}"
    )
    return Finding(F(0) if right else F(-1), words)


# -- schedules -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ThreePartitionCase:
    """Jobs of one second, of which at most three fit side by side.

    Attributes
    ----------
    gpus:
        GPUs of the server, B.
    widths:
        GPUs of the jobs, each more than B/4 and less than B/2; their sum is B for every three jobs.
    """

    gpus: int
    widths: tuple[int, ...]

    @property
    def instance(self) -> Instance:
        """The jobs and the server."""
        jobs = tuple(staged_job(f"job{i + 1}", (F(k),), (F(1),), (F(0),), ()) for i, k in enumerate(self.widths))
        return Instance(cluster_of((self.gpus,), F(1), F(1)), jobs=jobs)

    @property
    def least(self) -> Fraction:
        """The least sum of completion times."""
        lengths: list[dict[tuple[int, ...], Fraction]] = [{(k,): F(1)} for k in self.widths]
        return total_completion(optimal([F(0)] * len(self.widths), lengths, (self.gpus,)))


def _triples(numbers: CaseNumbers) -> ThreePartitionCase:
    return ThreePartitionCase(int(numbers.one("gpus")), tuple(map(int, numbers.row("widths"))))


@hypothesis("three widths sum to $B$ on average")
def thirds_on_average(case: ThreePartitionCase) -> bool:
    """The jobs fill the server as often as there are triples."""
    return 3 * sum(case.widths) == case.gpus * len(case.widths)


@hypothesis("each width is more than $B / 4$ and less than $B / 2$")
def about_a_third(case: ThreePartitionCase) -> bool:
    """Three jobs fit side by side at most, and two always."""
    return all(case.gpus < 4 * k and 2 * k < case.gpus for k in case.widths)


THIRD, WIDTHS = 7, 6
"""A third of the GPUs of the server in drawn cases, and the number of jobs."""


def _choose_triples(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:  # noqa: ARG001
    """Widths of about a third of the server, with changes that cancel."""
    widths = [F(THIRD)] * WIDTHS
    for i, j in combinations(range(WIDTHS), 2):
        step = choose((F(1), F(2), F(3), F(0)))
        if widths[i] + step < F(3 * THIRD, 2) and widths[j] - step > F(3 * THIRD, 4):
            widths[i], widths[j] = widths[i] + step, widths[j] - step
    return CaseNumbers({"gpus": ((F(3 * THIRD),),), "widths": (tuple(widths),)})


TRIPLES = Space(
    {},
    {"gpus": TableShape(1, 1, integers(12, 3 * THIRD)), "widths": TableShape(1, WIDTHS, integers(4, 10))},
    _triples,
    _choose_triples,
    (thirds_on_average, about_a_third),
)


def sum_decides(case: ThreePartitionCase) -> Finding:
    """Whether the least sum decides whether the jobs split into triples that fill the server."""
    rounds = len(case.widths) // 3
    fits, triples = packs(case.widths, (case.gpus,) * rounds), F(3 * rounds * (rounds + 1), 2)
    words = f"the least sum is {number_text(case.least)}, in triples {number_text(triples)}"
    return Finding(F(0) if (case.least == triples) == fits else F(-1), words)


def light_edges_outweigh() -> list[Any]:
    """For z3: cutting light edges only is no cheaper than a heavy edge, or no faster."""
    from z3 import If, Ints, Or

    items, light, weight = Ints("n light W")
    given = [items >= 1, light >= 0, light <= items - 1, weight == If(items > 3, items, 3)]
    return [*given, Or(light >= weight, weight <= 2)]


def rounds_add_up() -> str:
    """For sympy: three jobs complete in each of m rounds."""
    import sympy

    k, m = sympy.symbols("k m", positive=True, integer=True)
    total = sympy.summation(3 * k, (k, 1, m))
    return "" if sympy.simplify(total - 3 * m * (m + 1) / 2) == 0 else f"the sum is {total}"


def some_round_is_not_full() -> list[Any]:
    """For z3: m rounds of one second, each with at most B GPUs busy, have m B GPU seconds, but one round has fewer."""
    from z3 import Reals

    gpus, others, rounds, used = Reals("B others m used")
    return [others <= (rounds - 1) * gpus, used < gpus, others + used == rounds * gpus]


CLAIMS = (
    Claim(
        key="asrpt/np-complete",
        place="sections III-B and IV-B",
        statement="Whether some mapping cuts less than a given number of bytes is NP-complete even with equal GPUs per "
        r"server, and so is whether some placement's iteration is shorter than a given time, $\alpha^{min}$.",
        quote="Unfortunately, this graph partitioning problem is an NP-complete balanced graph cut problem … even with "
        "equal GPUs per server",
        procedure=ForAll(PACKINGS, cut_decides, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof=r"""
A mapping can be checked in polynomial time. Let $a_1, \dots, a_n$ be items with $\sum_j a_j = M g$; whether they fill
$M$ bins of size $g$ is NP-complete even if numbers are written in unary (3-Partition). Take $M$ servers of $g$ GPUs
and a job of stages with one replica each: an item is a run of $a_j$ stages whose edges weigh $W = \max(3, n)$,
edges between runs weigh 1. The $n - 1$ light edges together weigh less than $W$. So a mapping cuts less than $W$
bytes if and only if it cuts no heavy edge, that is, if every run is on one server, so that the items fill the servers.
With $B_{inter} / g = 1$, $B_{intra} = W$ and no computation, a stage with a cut heavy edge takes at least $W$; if none
is cut, a stage has two edges, each of which takes $W / B_{intra} = 1$ or, if light, at most 1: $\alpha \le 2 < W$.""",
        mechanical=(by_z3("heavy edges decide, all numbers of items", light_edges_outweigh),),
        note="The paper cites balanced graph cuts; job graphs are a special case, and paths of single replicas "
        "suffice.",
    ),
    Claim(
        key="asrpt/eq-8-np-hard",
        place="eq. (8)",
        statement=r"The offline problem, with $r_i$, $n_i$ and $\alpha_i$ known, is NP-hard.",
        quote=r"In fact, the offline variant of Problem (8), where $r_i$, $n_i$ and $\alpha_i$ are all predetermined "
        "(rendering the problem of scheduling parallelizable tasks …) is NP-hard.",
        procedure=ForAll(TRIPLES, sum_decides, share=F(1, 5)),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Let $a_1, \dots, a_{3 m}$ with $B / 4 < a_j < B / 2$ and $\sum_j a_j = m B$ be given; whether they split into $m$
triples with sum $B$ is NP-complete even in unary (3-Partition). Take one server of $B$ GPUs, and for each $a_j$ a job
of $a_j$ GPUs and one second, all present at 0. Since four jobs never fit side by side, the jobs split into three
sequences without overlap (colour each job, in the order of starts, with a colour that no running job has). So the
$k$-th job to complete is done no earlier than $\lceil k / 3 \rceil$, and $\sum_j C_j \ge 3 (1 + \dots + m)$. Triples
that fill the server reach this bound. Conversely, with equality three jobs are done at each of $1, \dots, m$, each runs
for the second before, and as the GPU seconds sum to $m B$ in $m$ seconds, each triple fills the server.""",
        mechanical=(
            by_sympy("the sum of m rounds of three jobs", rounds_add_up),
            by_z3("all rounds are full, all real data", some_round_is_not_full),
        ),
        note="The reduction needs neither arrivals nor communication.",
    ),
)
