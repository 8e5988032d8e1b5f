"""Section IV-B: Heavy-Edge's and the least cut of the job's graph, and their relation to iteration times."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np

from hetopt import instances
from hetopt.data.instance import Instance
from hetopt.data.rationals import number_text
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.proofs.asrpt.iteration_bounds import INSIDE, WITHIN, fits_on_one
from hetopt.proofs.asrpt.staged_cases import (
    ALL_PLACEMENTS,
    StagedCase,
    equal_servers_space,
    exact,
    fast_cards,
    fast_links,
    full_servers_space,
    staged_job,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import SharesPicture, placement_picture
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ByComputation, Computation, ForAll, Growth, compare_number, compare_values
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space
from hetopt.stages.job_graph import job_graph
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

F = Fraction

ALL_MAPPINGS = "all mappings of replicas to servers were enumerated, their cuts computed in fractions"


@dataclass(frozen=True, eq=False)
class CutCase:
    """A job whose replicas use all GPUs.

    Attributes
    ----------
    placing:
        The job and the servers.
    """

    placing: StagedCase

    @property
    def instance(self) -> Instance:
        """The job and the servers."""
        return self.placing.instance

    @cached_property
    def mappings(self) -> list[tuple[int, ...]]:
        """All mappings: server of each replica."""
        seats = [m for m, n in enumerate(self.placing.free) for _ in range(n)]
        return sorted(set(permutations(seats)))

    @cached_property
    def cuts(self) -> list[Fraction]:
        """Bytes between servers of each mapping."""
        return [exact(v) for v in np.asarray(job_graph(self.placing.pipeline).cut(np.array(self.mappings))).tolist()]

    @cached_property
    def alphas(self) -> list[Fraction]:
        """Seconds of an iteration of each mapping."""
        graph = job_graph(self.placing.pipeline)
        tables = np.array([graph.counts(np.array(server), len(self.placing.free)) for server in self.mappings])
        return [exact(v) for v in self.placing.seconds(tables).tolist()]

    @cached_property
    def heavy_edge(self) -> tuple[int, ...]:
        """Heavy-Edge's mapping."""
        return tuple(HeavyEdge()(self.placing.pipeline, self.placing.servers).server.tolist())

    @property
    def heavy_edge_cut(self) -> Fraction:
        """Bytes between servers of Heavy-Edge's mapping."""
        return self.cuts[self.mappings.index(self.heavy_edge)]

    def text_of(self, server: tuple[int, ...]) -> str:
        """A mapping as text, server by server."""
        labels = job_graph(self.placing.pipeline).labels
        groups = ([v for v, m in zip(labels, server, strict=True) if m == n] for n in range(len(self.placing.free)))
        return " | ".join(", ".join(group) for group in groups)

    def picture(self, title: str, server: tuple[int, ...]) -> SharesPicture:
        """Picture of the replicas on each server, with the cut."""
        table = [[int(m == n) for n in range(len(self.placing.free))] for m in server]
        cut = number_text(self.cuts[self.mappings.index(server)])
        return placement_picture(
            f"{title}: {cut} bytes are cut", job_graph(self.placing.pipeline).labels, table, self.placing.free
        )


def about_placing(given: Hypothesis[StagedCase]) -> Hypothesis[CutCase]:
    """A hypothesis about the job and the servers."""
    return Hypothesis(given.text, lambda case: given(case.placing))


def cut_space(space: Space[StagedCase]) -> Space[CutCase]:
    """The cases of a space with their mappings."""

    def build(numbers: CaseNumbers) -> CutCase | None:
        case = space.build(numbers)
        return None if case is None else CutCase(case)

    return Space(space.sizes, space.tables, build, space.chosen, tuple(map(about_placing, space.hypotheses)))


def heavy_edge_cuts_least(case: CutCase) -> Finding:
    """Compare the cut of Heavy-Edge with the least cut."""
    greedy, cut, least = case.heavy_edge, case.heavy_edge_cut, min(case.cuts)
    best = case.mappings[case.cuts.index(least)]
    words = f"{case.text_of(greedy)} cuts {number_text(cut)} bytes, {case.text_of(best)} {number_text(least)}"
    pictures = (case.picture("Heavy-Edge", greedy), case.picture("the least cut", best))
    return Finding(least - cut, words, (ALL_MAPPINGS,), pictures)


def bytes_within(case: CutCase, server: tuple[int, ...]) -> Fraction:
    """Bytes on edges whose ends are on one server."""
    graph = job_graph(case.placing.pipeline)
    edges = zip(graph.edges.tolist(), graph.weight.tolist(), strict=True)
    return sum((exact(weight) for (a, b), weight in edges if server[a] == server[b]), F(0))


def cut_complements_the_rest(case: CutCase) -> Finding:
    """Whether bytes between servers and bytes within them have the same sum for all mappings."""
    sums = [cut + bytes_within(case, server) for server, cut in zip(case.mappings, case.cuts, strict=True)]
    off = max(sums) - min(sums)
    return Finding(-off, f"{number_text(sums[0])} bytes for all mappings", (ALL_MAPPINGS,))


def least_cut_is_fastest(case: CutCase) -> Finding:
    """Compare the fastest mapping with the least cut with the fastest mapping."""
    i = min(range(len(case.cuts)), key=lambda n: (case.cuts[n], case.alphas[n]))
    j = case.alphas.index(min(case.alphas))
    (cut, alpha), (other, fastest) = ((number_text(case.cuts[n]), number_text(case.alphas[n])) for n in (i, j))
    words = (
        f"{case.text_of(case.mappings[i])} cuts {cut} bytes and takes {alpha} s; "
        f"{case.text_of(case.mappings[j])} cuts {other} and takes {fastest} s"
    )
    pictures = (
        case.picture(f"the least cut, {alpha} s", case.mappings[i]),
        case.picture(f"the fastest, {fastest} s", case.mappings[j]),
    )
    return Finding(case.alphas[j] - case.alphas[i], words, (ALL_MAPPINGS, ALL_PLACEMENTS), pictures)


def nothing_cut(case: StagedCase) -> Finding:
    """Whether Heavy-Edge on one server cuts nothing, and has the shortest iteration of all placements."""
    alone = StagedCase(case.job, (case.pipeline.gpus,), case.nic, case.intra)
    found = HeavyEdge()(alone.pipeline, alone.servers)
    seconds, cut = exact(found.iteration_seconds), exact(found.cut_bytes)
    words = f"{number_text(cut)} bytes are cut; {number_text(seconds)} s, {number_text(case.shortest)} s at best"
    return Finding(case.shortest - seconds - cut, words)


def one_more_edge() -> list[Any]:
    """For z3: of one more edge and those before it, bytes cut and within servers do not sum to the weight of all."""
    from z3 import Bool, If, Reals

    (cut, inside, before, weight), together = Reals("cut inside before weight"), Bool("together")
    after = If(together, cut, cut + weight), If(together, inside + weight, inside)
    return [cut + inside == before, sum(after) != before + weight]


def least_cut_without_most_inside() -> list[Any]:
    """For z3: mapping m cuts the least bytes of all mappings but has not the most within servers, or the reverse."""
    from z3 import ForAll, Function, Ints, IntSort, Real, RealSort

    (m, other), total = Ints("m other"), Real("total")
    cut, inside = (Function(name, IntSort(), RealSort()) for name in ("cut", "inside"))
    least, most = ForAll(other, cut(m) <= cut(other)), ForAll(other, inside(m) >= inside(other))
    return [ForAll(other, cut(other) + inside(other) == total), least != most]


# -- families and examples -------------------------------------------------------------------------------------------


def path(weight: int) -> CutCase:
    """A path of five replicas whose edges weigh 1, W + 1, 2 and W, on servers of 3 and 2 GPUs."""
    w = F(weight)
    outputs = (F(1, 2), (w + 1) / 2, F(1), w / 2)
    job = staged_job("path", (F(1),) * 5, (F(1),) * 5, (F(0),) * 5, outputs)
    return CutCase(StagedCase(job, (3, 2), F(1), F(8)))


def cut_over_least(weight: int) -> Fraction:
    """Heavy-Edge's cut over the least."""
    case = path(weight)
    return case.heavy_edge_cut / min(case.cuts)


def figure_2() -> Computation:
    """The example of Fig. 2, mapped by the library."""
    instance, printed = instances.load("asrpt/fig2"), instances.expected("asrpt/fig2")["heavy_edge"].printed
    pipeline, servers = Pipeline.of(instance.jobs[0]).exact(), Servers.of(instance, "GPU").exact()
    found = HeavyEdge()(pipeline, servers)
    graph, labels = found.graph, found.graph.labels
    heaviest = graph.heaviest_first[0]
    weight = dict(zip(map(tuple, graph.edges.tolist()), graph.weight.tolist(), strict=True))
    link = weight[labels.index("S1-R1"), labels.index("S2-R1")]
    case = CutCase(
        StagedCase(instance.jobs[0], tuple(servers.free.tolist()), exact(servers.nic[0]), exact(servers.intra[0]))
    )
    first = tuple(v for v, server in found.where.items() if server == "server1")
    return Computation(
        (
            compare_values("stages", int(printed["stages"]), len(pipeline)),
            compare_values(
                "replicas of each stage", [int(printed["replicas_per_stage"])] * 3, pipeline.replicas.tolist()
            ),
            compare_values("heaviest edge", "S1-R1, S1-R2", ", ".join(labels[v] for v in heaviest)),
            compare_number("MB on it", 20, exact(weight[heaviest]) / 10**6),
            compare_number("MB on a link between stages 1 and 2", 1, exact(link) / 10**6),
            compare_values("on the first server", ", ".join(printed["first_server"]), ", ".join(first)),
            compare_values(
                "bytes cut: the least possible", number_text(min(case.cuts)), number_text(exact(found.cut_bytes))
            ),
        ),
        "Heavy-Edge gives the first server S1-R1, S1-R2, S2-R1 and S2-R2, as printed, and cuts the least bytes "
        "possible",
    )


CLAIMS = (
    Claim(
        key="asrpt/fig-2",
        place="Fig. 2",
        statement="Three stages of two replicas, servers with 4, 1 and 1 free GPUs: the heaviest edge joins S1-R1 and "
        "S1-R2 (20 MB); S2-R1 and S2-R2 follow over links of 1 MB.",
        quote="The process begins by identifying the heaviest communication edge, (S1-R1, S1-R2), with a data size of "
        "20MB … To optimize communication efficiency, we then allocate unassigned nodes directly connected to this "
        "pair (i.e., S2-R1 and S2-R2), each with a 1MB connection to S1-R1 and S1-R2 respectively, to the same server",
        procedure=ByComputation(figure_2),
        expected=ClaimVerdict.TRUE,
        note="Bytes of stages 2 and 3 are assumptions. That this is the least cut is not in the paper.",
    ),
    Claim(
        key="asrpt/cut-and-inside",
        place="section IV-B",
        statement="A mapping cuts the least bytes between servers if and only if it has the most bytes within servers.",
        quote=r"partitions a graph into $|\mathcal{M}_i|$ subgraphs of size $g_m$ to minimize inter-server "
        "communication (total cut weight among subgraphs) and maximize intra-server communication (total edge weights "
        "within subgraphs)",
        procedure=ForAll(cut_space(full_servers_space()), cut_complements_the_rest, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        proof="Each edge is cut or within a server, so both sums add up to the weight of all edges.",
        mechanical=(
            by_z3("one more edge adds its weight to both sums together", one_more_edge),
            by_z3(
                "the least cut has the most bytes within servers, any number of mappings", least_cut_without_most_inside
            ),
        ),
    ),
    Claim(
        key="asrpt/least-cut",
        place="section IV-B",
        statement="Heavy-Edge minimises the bytes between servers.",
        quote="This process continues sequentially for subsequent servers until all nodes are assigned, effectively "
        "minimizing inter-server communication overhead.",
        procedure=ForAll(cut_space(full_servers_space()), heavy_edge_cuts_least),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/one-server",
        note="The paper also calls it greedy.",
    ),
    Claim(
        key="asrpt/least-cut-near",
        place="section IV-B",
        statement="The bytes that Heavy-Edge cuts are within a constant factor of the least.",
        procedure=Growth(
            sizes=(2, 10, 100, 1_000, 10_000),
            measure=cut_over_least,
            formula="(W + 1)/2",
            size="W",
            quantity="bytes that Heavy-Edge cuts over the least",
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/one-server",
        proof=r"""
A path of five replicas with edges $1, W + 1, 2, W$, $W \ge 2$, servers of 3 and 2 GPUs. Heavy-Edge starts the larger
server with the edge $W + 1$ and adds the neighbour at the edge $2$, not the one at $1$: the first server has S2, S3 and
S4, and the edges $1$ and $W$ are cut. With S1, S2 and S3 on it only the edge $2$ is cut; at least one edge is cut, and
cutting only the edge $1$ leaves parts of one and four. So the least cut is 2.""",
    ),
    Claim(
        key="asrpt/least-cut-alpha",
        place="section IV-B",
        statement="GPU mapping for short iterations is a graph cut problem: some mapping that cuts the least bytes has "
        r"the shortest iteration ($B_{intra} \ge B_{inter}$).",
        quote="As a result, the GPU mapping problem is equivalent to a graph cut problem",
        procedure=ForAll(cut_space(full_servers_space(fast_cards, servers=(2, 2))), least_cut_is_fastest),
        expected=ClaimVerdict.FALSE,
        printed=False,
        instead="asrpt/one-server",
        note="The paper's equivalence is about bytes. Bytes of a stage with slack count as much as those of the "
        "slowest.",
    ),
    Claim(
        key="asrpt/one-server",
        place="section IV-B",
        statement="Given the GPUs of one server, Heavy-Edge cuts nothing and has the shortest iteration of all "
        r"placements on equal servers ($B_{intra} \ge B_{inter}$).",
        procedure=ForAll(equal_servers_space(fast_links, fits_on_one), nothing_cut, share=F(1, 4)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=INSIDE + " With all replicas on one server equality holds, for all stages at once.",
        mechanical=WITHIN,
    ),
)
