"""Theorem 3: whether more copies of a job increase the utilisation of the cluster."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any

from hetopt.data.rationals import number_text
from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.proofs.hadar.copy_cases import (
    CopyCase,
    alike,
    between,
    copy_space,
    longer,
    strictly_positive,
    within_nodes,
)
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import Timeline, TimelineBar
from hetopt.proofs.ledger.mechanical import by_z3
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import hypothesis, integers, rationals

F = Fraction
ROUNDS = "busy times computed round by round, in fractions"


@hypothesis("as many jobs as nodes, $m = n$")
def as_many_jobs(case: CopyCase) -> bool:
    """So that every node can have a job without copies."""
    return case.n == len(case.work)


def increasing(case: CopyCase) -> Finding:
    """Equation (11) with copies on the fastest nodes."""
    return _ordered(case, [case.fastest[:x] for x in (1, case.copies, case.n)], equal=False)


def in_any_order(case: CopyCase) -> Finding:
    """Equation (11) with equality allowed, and copies on the first nodes."""
    return _ordered(case, [list(range(x)) for x in (1, case.copies, case.n)], equal=True)


def not_decreasing(case: CopyCase) -> Finding:
    """All numbers of copies, on the fastest nodes."""
    return _ordered(case, [case.fastest[:x] for x in range(1, case.n + 1)], equal=True)


def _ordered(case: CopyCase, choices: list[list[int]], *, equal: bool) -> Finding:
    """Whether each choice of nodes has a higher utilisation than the one before."""
    used = [case.utilisation(nodes) for nodes in choices]
    margin = min((b - a for a, b in pairwise(used)), default=F(1))
    words = ", ".join(
        f"{len(nodes)} {'copies use' if len(nodes) > 1 else 'copy uses'} {number_text(u)}"
        for nodes, u in zip(choices, used, strict=True)
    )
    pictures = tuple(case.picture(f"nodes {', '.join(str(i + 1) for i in sorted(c))}", c) for c in choices[1:])
    return Finding(margin if equal else strictly_positive(margin), words, (ROUNDS,), pictures)


def more_copies_than_nodes(case: CopyCase) -> Finding:
    """Whether the policy has the same plan with n and with n + x copies, node by node."""
    policy = [HadarE(360.0, copies=c, restart_seconds=0.0, last_round="all") for c in (case.n, case.n + case.copies)]
    placements = [one(case.instance)[0].placement for one in policy]
    equal = placements[0] == placements[1]
    return Finding(
        F(0) if equal else F(-1), f"plans for n and n + {case.copies} copies {'are equal' if equal else 'differ'}"
    )


def formula(case: CopyCase) -> Finding:
    """Compare CRU round by round with x (w / S) / (n ceil(w / S))."""
    nodes = list(range(min(case.copies, case.n)))
    computed, expected = case.utilisation(nodes), case.utilisation_by_formula(nodes)
    words = f"round by round {number_text(computed)}, by the formula {number_text(expected)}"
    return Finding(-abs(computed - expected), words, (ROUNDS,))


def rounds(case: CopyCase) -> Finding:
    """Compare the rounds of x copies on the fastest nodes with ceil(R_1 / x)."""
    alone, together = (len(case.run(case.fastest[:x], case.work[0])) for x in (1, case.copies))
    expected = ceil(F(alone, case.copies))
    words = f"one copy takes {alone} rounds, {case.copies} copies take {together}, not {expected}"
    picture = case.picture(f"{case.copies} copies", case.fastest[: case.copies])
    return Finding(F(-abs(together - expected)), words, (ROUNDS,), (picture,))


def full_without_copies(case: CopyCase) -> Finding:
    """Whether forking could increase the utilisation of as many jobs as nodes, the j-th alone on the j-th node."""
    runs = [case.run([j], w) for j, w in enumerate(case.work)]
    busy = sum((sum(part.values(), F(0)) for run in runs for part in run), F(0))
    used = busy / (case.n * max(map(len, runs)))
    words = f"without forking {number_text(used)} of the cluster is used; no schedule uses more than 1"
    bars = tuple(
        TimelineBar(f"node{j + 1}", F(r), r + part[j], f"j{j + 1}")
        for j, run in enumerate(runs)
        for r, part in enumerate(run)
    )
    return Finding(strictly_positive(1 - used), words, (ROUNDS,), (Timeline("without forking", bars, "rounds"),))


def fewer_with_one_more() -> list[Any]:
    """For z3: the utilisation falls with one more node, no faster than the mean, and no more rounds."""
    from z3 import Reals

    copies, speeds, more, rounds, after = Reals("copies speeds more rounds after")
    return [
        copies > 0,
        after > 0,
        more > 0,
        more * copies <= speeds,
        after <= rounds,
        (copies + 1) / ((speeds + more) * after) < copies / (speeds * rounds),
    ]


SPLIT = r"with $\mathrm{CRU}_1^x$ of one job on $x$ of $n$ nodes, its work divided in proportion to speed"

FORMULA = r"""
Let $S_x$ be the work of the $x$ nodes in a round. With at least $S_x$ left at its start, a round keeps all of them
busy to its end and does $S_x$. With less left, $l < S_x$, node $i$ has the part $l v_i / S_x$, which takes $l / S_x$
of the round: all end together. So there are $\lceil w / S_x \rceil$ rounds, in which each node is busy for $w / S_x$
rounds in total."""

FASTEST = r"""
By the formula $n\, \mathrm{CRU}_1^x = w / \bigl(\bar S_x \lceil w / S_x \rceil\bigr)$ with $\bar S_x = S_x / x$,
the mean speed of the $x$ fastest nodes, which does not increase with $x$, as each further node is no faster than the
mean. $S_x$ increases, so $\lceil w / S_x \rceil$ does not increase either, and the quotient does not decrease."""

CLAIMS = (
    Claim(
        key="hadar/cru-formula",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^x = \dfrac{x\, (w / S_x)}{n\, \lceil w / S_x \rceil}$, $S_x$ being the work of the "
        f"$x$ nodes in a round, {SPLIT}.",
        procedure=ForAll(copy_space(within_nodes, copies=integers(1, 4)), formula),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=FORMULA,
    ),
    Claim(
        key="hadar/thm-3-rounds",
        place="proof of Theorem 3",
        statement=r"Forked into $x$ copies, a job that takes $R_1$ rounds takes $\lceil R_1 / x \rceil$.",
        procedure=ForAll(copy_space(between, longer, copies=integers(2, 3)), rounds),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/thm-3-rounds-alike",
        quote="the total number of rounds to complete the job is reduced accordingly (to equal the ceiling function "
        r"of the ratio $\frac{R_1}{x}$)",
        note="Copies run on the fastest nodes.",
    ),
    Claim(
        key="hadar/thm-3-rounds-alike",
        place="proof of Theorem 3",
        statement=r"On equal nodes, a job that takes $R_1$ rounds takes $\lceil R_1 / x \rceil$ with $x$ copies.",
        procedure=ForAll(copy_space(within_nodes, alike, copies=integers(1, 4)), rounds),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=r"""
With speed $v$, $R_1 = \lceil w / v \rceil$ and $x$ copies take $\lceil w / (x v) \rceil = \lceil \lceil w / v
\rceil / x \rceil$: for whole $x$ and $m$, $y \le x m$ if and only if $\lceil y \rceil \le x m$.""",
    ),
    Claim(
        key="hadar/thm-3",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 < \mathrm{CRU}_1^x < \mathrm{CRU}_1^n$, eq. (11), " + f"{SPLIT}.",
        procedure=ForAll(copy_space(between, longer, n=(3, 4), copies=integers(2, 3)), increasing),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/thm-3-fastest",
        quote=r"By observing equations above, we have $$CRU_1^1 < CRU_1^x < CRU_1^n = CRU_1^{n+j}, \quad (11)$$",
        note="With copies on the fastest nodes, which is best for the claim.",
    ),
    Claim(
        key="hadar/thm-3-weak",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 \le \mathrm{CRU}_1^x \le \mathrm{CRU}_1^n$, copies being on any $x$ nodes, "
        + f"{SPLIT}.",
        procedure=ForAll(copy_space(between, longer, n=(3, 4), copies=integers(2, 3)), in_any_order),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("hadare",),
        instead="hadar/thm-3-fastest",
        note="Copies run on the first nodes of the list.",
    ),
    Claim(
        key="hadar/thm-3-fastest",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 \le \mathrm{CRU}_1^2 \le \dots \le \mathrm{CRU}_1^n$ on the $x$ fastest nodes, "
        r"the work being divided in proportion to speed.",
        procedure=ForAll(copy_space(speeds=rationals(1, 8, 2), works=rationals(1, 40, 3)), not_decreasing),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("hadare",),
        proof=FORMULA + FASTEST,
        mechanical=(by_z3("one more node does not lower x w / (S_x R_x), all real numbers", fewer_with_one_more),),
    ),
    Claim(
        key="hadar/thm-3-more",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^n = \mathrm{CRU}_1^{n+j}$: copies beyond one for each node change nothing.",
        procedure=ForAll(copy_space(copies=integers(1, 3)), more_copies_than_nodes, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        policies=("hadare",),
        quote=r"Since only $n$ copies will be assigned to the nodes in each round, the additional forked job will not "
        r"reduce the number of rounds needed to complete model training, and thus cluster resource utilization "
        r"($CRU_1^{n+j}$) is the same as $CRU_1^n$.",
        proof="A node runs at most one copy of a job, so at most $n$ copies run, on the same nodes and with the same "
        "parts.",
        note="The policy's plans of a round are compared, node by node.",
    ),
    Claim(
        key="hadar/thm-3-batch",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_m^1 < \mathrm{CRU}_m^n$ for any number $m$ of jobs, eq. (14).",
        procedure=ForAll(copy_space(as_many_jobs, longer, n=(2, 3), m=(2, 3)), full_without_copies),
        expected=ClaimVerdict.FALSE,
        policies=("hadare",),
        instead="hadar/thm-3-batch-alike",
        quote="we conclude that the maximum CRU, is attained when each job is forked to n copies, yielding "
        r"$CRU_m^1 < CRU_m^x < CRU_m^n = CRU_m^{n+1}$ … where m is any number of jobs in a batch.",
        note="Where jobs without copies keep all nodes busy to the end, copies cannot increase the utilisation.",
    ),
)
