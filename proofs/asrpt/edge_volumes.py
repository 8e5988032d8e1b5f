"""Section IV-B: the bytes on the edges of a job's graph, compared with the data flow of an iteration."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.asrpt.iteration_equations import ring_bytes
from hetopt.proofs.asrpt.staged_cases import CONSERVED, EVEN, StagedCase, exact, staged_job
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Space, TableShape, hypothesis, integers
from hetopt.stages.job_graph import AllReduce, double_binary_tree, job_graph

F = Fraction


def two_stages(numbers: CaseNumbers) -> StagedCase:
    """Two stages on one server without AllReduce; ``replicas`` (1, 2) and ``outputs`` (1, 1)."""
    replicas = numbers.row("replicas")
    job = staged_job("job", replicas, (F(1), F(1)), (F(0), F(0)), numbers.row("outputs"))
    return StagedCase(job, (int(sum(replicas)),), F(1), F(1))


LINKS = Space(
    {},
    {"replicas": TableShape(1, 2, integers(1, 6)), "outputs": TableShape(1, 1, integers(1, 8))},
    two_stages,
    hypotheses=(CONSERVED, EVEN),
)


def all_links(case: StagedCase, weight: Fraction) -> Finding:
    """Whether links of this weight between all pairs of replicas carry the outputs and their gradients."""
    first, second = (int(k) for k in case.pipeline.replicas)
    links, flow = first * second, 2 * first * exact(case.pipeline.outputs[0])
    words = (
        f"{links} links of {number_text(weight)} bytes carry {number_text(links * weight)} in total; outputs and "
        f"gradients have {number_text(flow)} bytes"
    )
    return Finding(-abs(links * weight - flow), words)


def weight_of_the_graph(case: StagedCase) -> Fraction:
    """Weight of a link of the library's graph; without AllReduce its other edges have no weight."""
    return exact(max(job_graph(case.pipeline).weight.tolist()))


def weight_of_one_copy(case: StagedCase) -> Fraction:
    """2 d_out / k of the sending stage."""
    return 2 * exact(case.pipeline.outputs[0]) / int(case.pipeline.replicas[0])


# -- AllReduce -------------------------------------------------------------------------------------------------------


def one_stage(numbers: CaseNumbers) -> StagedCase:
    """A stage of ``replicas`` on one server with ``parameters`` to reduce."""
    replicas = numbers.one("replicas")
    job = staged_job("job", (replicas,), (F(1),), numbers.row("parameters"), ())
    return StagedCase(job, (int(replicas),), F(1), F(1))


@hypothesis("the stage has at least two replicas")
def replicated(case: StagedCase) -> bool:
    """There is something to reduce."""
    return all(k > 1 for k in case.pipeline.replicas.tolist())


REPLICATED = Space(
    {},
    {"replicas": TableShape(1, 1, integers(2, 12)), "parameters": TableShape(1, 1, integers(1, 8))},
    one_stage,
    hypotheses=(replicated,),
)


def tree_bytes(replicas: int, parameters: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Bytes sent by each replica, and carried by each edge of either tree, edge by edge.

    Each tree reduces half of the parameters: every edge carries that half up, and the sums down.
    """
    sent, carried = [F(0)] * replicas, []
    for tree in double_binary_tree(replicas):
        for a, b in tree:
            sent[a] += parameters / 2
            sent[b] += parameters / 2
            carried.append(parameters)
    return sent, carried


def _replicas(case: StagedCase) -> tuple[int, Fraction]:
    return int(case.pipeline.replicas[0]), exact(case.pipeline.parameters[0])


def each_sends_the_same(case: StagedCase) -> Finding:
    """2 (k-1)/k h from every replica, in rings and in trees."""
    k, h = _replicas(case)
    rule = 2 * F(k - 1, k) * h
    sent = [*ring_bytes(k, h), *tree_bytes(k, h)[0]]
    off = max(sent, key=lambda bytes_sent: abs(bytes_sent - rule))
    words = f"a replica sends {number_text(off)} bytes; the formula gives {number_text(rule)}"
    return Finding(-abs(off - rule), words)


def tree_edges_carry_less(case: StagedCase) -> Finding:
    """(k-1)/k h on every edge of either tree, the weight in the library's graph."""
    k, h = _replicas(case)
    weight = exact(sum(job_graph(case.pipeline, AllReduce.TREE).weight.tolist())) / (2 * (k - 1))
    off = max(tree_bytes(k, h)[1], key=lambda carried: abs(carried - weight))
    words = f"an edge carries {number_text(off)} bytes; its weight is {number_text(weight)}"
    return Finding(-abs(off - weight), words)


def in_the_mean(case: StagedCase) -> Finding:
    """2 (k-1)/k h from every replica of a ring; in trees the same on average, and h on every edge."""
    k, h = _replicas(case)
    rule, (sent, carried) = 2 * F(k - 1, k) * h, tree_bytes(k, h)
    errors = [s - rule for s in ring_bytes(k, h)] + [sum(sent, F(0)) / k - rule] + [c - h for c in carried]
    words = f"{number_text(rule)} bytes from each replica on average, {number_text(h)} on each edge of a tree"
    return Finding(-max(map(abs, errors)), words)


CLAIMS = (
    Claim(
        key="asrpt/link-weight",
        place="section III-B",
        statement=r"Each replica of stage $s - 1$ and each of stage $s$ exchange $2 d^{out}_{s-1} / k_s = "
        r"2 d^{in}_s / k_{s-1}$ bytes in an iteration.",
        quote=r"the per-iteration data communication time between each replica of stage $s - 1$ and $s$ is "
        r"$\frac{2d_{i,s-1}^{out}}{k_{i,s}} = \frac{2d_{i,s}^{in}}{k_{i,s-1}}$",
        procedure=ForAll(LINKS, lambda c: all_links(c, weight_of_the_graph(c))),
        expected=ClaimVerdict.TRUE,
        proof=r"""
Flow is conserved: $k_{s-1} d^{out}_{s-1} = k_s d^{in}_s$; division by $k_{s-1} k_s$ gives the equation. Including
gradients, $2 k_{s-1} d^{out}_{s-1}$ bytes are split evenly over $k_{s-1} k_s$ pairs.""",
        note="Section IV-B of the copy with the appendix prints the same; the library's graph has this weight.",
    ),
    Claim(
        key="asrpt/link-weight-other-copy",
        place="section IV-B, copy with the algorithm",
        statement=r"Each replica of stage $s - 1$ and each of stage $s$ exchange $2 d^{out}_{s-1} / k_{s-1} = "
        r"2 d^{in}_s / k_{s-1}$ bytes in an iteration.",
        quote=r"For inter-stage communication between stages $s-1$ and $s$, we assign edges with weight "
        r"$\frac{2d_{i,s-1}^{out}}{k_{i,s-1}} = \frac{2d_{i,s}^{in}}{k_{i,s-1}}$ for each replica pair.",
        procedure=ForAll(LINKS, lambda c: all_links(c, weight_of_one_copy(c))),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/link-weight",
        note=r"The two copies of the paper differ. This one implies $d^{out}_{s-1} = d^{in}_s$, which conservation of "
        r"flow allows only for $k_{s-1} = k_s$; a typo, as its own section III-B has $k_s$.",
    ),
    Claim(
        key="asrpt/allreduce-bytes",
        place="section III-B",
        statement=r"Each replica of a stage communicates $2 \frac{k - 1}{k} h$ bytes in an AllReduce, in a ring and in "
        "double binary trees.",
        quote="The data size communicated for each stage replica of stage $s$ in the AllReduce operation can be "
        r"calculated as $\frac{2(k_{i,s}-1)}{k_{i,s}}h_{i,s}$ … for both RAR and TAR",
        procedure=ForAll(REPLICATED, each_sends_the_same),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/allreduce-mean",
        note="True for rings. In trees a replica with two children in one tree and a parent in both sends more, the "
        "root and leaves send less. Bytes sent are counted.",
    ),
    Claim(
        key="asrpt/tree-edges",
        place="section IV-B",
        statement=r"An edge of either of the double binary trees carries $\frac{k - 1}{k} h$ bytes, half of what an "
        "edge of a ring does, since each tree processes half of the data.",
        quote="For TAR, edges connect replica pairs linked in double binary trees, weighted "
        r"$\frac{(k_{i,s}-1)}{k_{i,s}}h_{i,s}$, which is halved compared to RAR. This reduction is due to the "
        "structure of the double binary trees, where each tree processes half of the total data",
        procedure=ForAll(REPLICATED, tree_edges_carry_less),
        expected=ClaimVerdict.FALSE,
        instead="asrpt/allreduce-mean",
        note=r"Half of the parameters goes up the edges of a tree, the sums come down: $h / 2 + h / 2$ bytes each. The "
        r"printed weight, half of a ring's edge, tends to $h$ for large $k$. The library keeps the printed weight.",
    ),
    Claim(
        key="asrpt/allreduce-mean",
        place="sections III-B and IV-B",
        statement=r"In a ring each replica sends $2 \frac{k - 1}{k} h$ bytes over one edge. In double binary trees "
        r"each edge of each tree carries $h$ bytes, and the replicas send $2 \frac{k - 1}{k} h$ bytes on average.",
        procedure=ForAll(REPLICATED, in_the_mean),
        expected=ClaimVerdict.TRUE,
        printed=False,
        proof=r"""
A ring takes $k - 1$ steps to reduce and $k - 1$ to gather. In each step every replica sends one chunk of $h / k$ bytes
to the next. A tree on $k$ replicas has $k - 1$ edges. Each replica but the root sends half of the parameters, summed
with those of its subtree, to its parent, and receives the total sums: $h / 2 + h / 2$ bytes on each
edge. Two trees carry $2 (k - 1) h$ bytes in total, that is $2 \frac{k - 1}{k} h$ for each replica.""",
        note="A ring of two replicas has two edges between them, one each way; the paper's Fig. 2 and the library draw "
        "a single edge with the weight of one of them.",
    ),
)
