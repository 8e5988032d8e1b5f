"""Section V besides Theorem 3: idle nodes, and the division of work among copies."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product

from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.models.hadare.job_copies import split_steps
from hetopt.proofs.hadar.copy_cases import CopyCase, copy_space, longer, strictly_positive
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, hypothesis, integers, rationals

F = Fraction
Left = tuple[Fraction, ...]
"""Work left of each job."""


# -- the corollary ---------------------------------------------------------------------------------------------------


def can_be_busy(case: CopyCase) -> bool:
    """Whether some assignment of nodes to copies, round by round, keeps all nodes busy until the last round.

    A job's nodes are idle from the completion of its work to the end of the round.
    """

    @cache
    def busy(left: Left) -> bool:
        return any(not any(after) or (full and busy(after)) for full, after in rounds(case, left))

    return busy(case.work)


def rounds(case: CopyCase, left: Left) -> Iterator[tuple[bool, Left]]:
    """For each assignment of all nodes: whether all are busy to the end of the round, and the work left then."""
    for jobs in product([j for j, w in enumerate(left) if w], repeat=case.n):
        done = [sum((v for v, job in zip(case.speed, jobs, strict=True) if job == j), F(0)) for j in range(len(left))]
        yield (
            all(v <= w for v, w in zip(done, left, strict=True)),
            tuple(max(F(0), w - v) for v, w in zip(done, left, strict=True)),
        )


def always_busy(case: CopyCase) -> Finding:
    """The corollary for busy nodes: fails if no assignment keeps them busy."""
    found = can_be_busy(case)
    words = "some assignment keeps" if found else "no assignment of the nodes to copies, round by round, keeps"
    certificate = ("all assignments of every round", "the work of a job is divided in proportion to speed")
    picture = () if found else (_picture(case),)
    return Finding(F(0) if found else F(-1), f"{words} all nodes busy until the last round", certificate, picture)


def _picture(case: CopyCase) -> Timeline:
    """Picture: nodes assigned to the jobs in turn, most work left first."""
    bars, left, r = [], list(case.work), 0
    while any(left):
        waiting = sorted((j for j, w in enumerate(left) if w), key=lambda j: -left[j])
        for k, j in enumerate(waiting[: case.n]):
            nodes = range(k, case.n, len(waiting))
            speed = sum((case.speed[i] for i in nodes), F(0))
            part = min(F(1), left[j] / speed)
            bars += [TimelineBar(f"node{i + 1}", F(r), r + part, f"j{j + 1}") for i in nodes]
            left[j] -= part * speed
        r += 1
    return Timeline("copies in turn", tuple(bars), "rounds")


def always_assigned(case: CopyCase) -> Finding:
    """Whether the policy leaves nodes without a copy in a round with this work left."""
    placement = HadarE(360.0, restart_seconds=0.0, last_round="all")(case.instance)[0].placement
    assert placement is not None
    idle = {server.name for server in case.instance.cluster.servers}
    for copies in placement.dispatch.values():
        idle -= set(copies)
    return Finding(F(-len(idle)), f"{len(idle)} nodes have no copy")


# -- steps -----------------------------------------------------------------------------------------------------------


def divided(case: CopyCase) -> Finding:
    """Whether the steps of a job are divided into integers in proportion to the speed of nodes."""
    steps = int(case.work[0])
    found = split_steps(steps, {i: float(v) for i, v in enumerate(case.speed)})
    exact = [steps * v / sum(case.speed) for v in case.speed]
    apart = max(abs(found[i] - part) for i, part in enumerate(exact))
    words = f"parts {list(found.values())} of {steps} steps, at most {apart} from the exact parts"
    return Finding(F(-1) if sum(found.values()) != steps else strictly_positive(1 - apart), words)


@hypothesis("the number of steps left is whole")
def whole_steps(case: CopyCase) -> bool:
    """Of the job."""
    return case.work[0].denominator == 1


MEMORY = Hypothesis[CopyCase]("every node has memory for every job")

CLAIMS = (
    Claim(
        key="hadar/steps",
        place="section V-B",
        statement="The remaining steps of a job can be divided among its copies in proportion to their throughput: "
        "into integer parts with the same sum, each less than one step from its exact part.",
        procedure=ForAll(copy_space(whole_steps, works=integers(1, 40), speeds=integers(1, 9)), divided),
        expected=ClaimVerdict.TRUE,
        policies=("hadare",),
        quote="Given the number of training steps of a job left at the start of a scheduling round, *HadarE* for an "
        "$n$-node cluster divides that number into $n$ portions according to their respective throughput values (that "
        "reflect nodes' training capabilities), for assigning to those $n$ forked copies of the job.",
        proof=r"""
Round all exact parts down. The sum of the remainders is an integer below the number of positive remainders; add one
step to each of that many parts, those with the largest remainders. Every part differs by less than one step.""",
        note="The Job Tracker of the library.",
    ),
    Claim(
        key="hadar/corollary",
        place="Corollary",
        statement="With every job forked to $n$ copies on $n$ nodes no node is idle in any round but possibly the "
        "last.",
        procedure=ForAll(
            copy_space(longer, n=(2, 2), m=(1, 3), speeds=integers(1, 3), works=integers(1, 9)), always_busy
        ),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/corollary-assigned",
        quote="Under *HadarE* with every job forked to $n$ copies in an $n$-nodes cluster, no idle node exists in any "
        "scheduling round but possibly the last one.",
        note="Idle means not busy here. A copy that is done waits for the next round, as in section V-A. In the "
        "counterexample every assignment leaves a node idle. If idle means not assigned, as in the proof, the "
        "corollary is true.",
    ),
    Claim(
        key="hadar/corollary-assigned",
        place="Corollary",
        statement="With every job forked to $n$ copies on $n$ nodes, every node can be assigned a copy in every round, "
        "and is assigned one if the policy fills all nodes that can run one.",
        procedure=ForAll(copy_space(MEMORY, m=(1, 4), works=rationals(1, 12, 2)), always_assigned),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
At the start of every round some job is unfinished. It has $n$ copies, at most one on each node. So a node without a
copy of any job can run one of that job, and the policy assigns copies until no free node can run one.""",
        note='One round of the policy is checked, with `fill=True`; in the last round `last_round="all"`.',
    ),
)
