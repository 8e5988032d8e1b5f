"""Theorem 3: whether more copies of a job use more of the cluster."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil

from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.proofs.hadar.nodes import Nodes, nodes, strict
from hetopt.proofs.ledger.claim import Claim, Finding, number
from hetopt.proofs.ledger.means import ForAll
from hetopt.proofs.ledger.pictures import Bar, Timeline
from hetopt.proofs.ledger.space import parts, whole

F = Fraction
ROUNDS = "busy times round by round, in fractions"


def between(case: Nodes) -> bool:
    """1 < x < n."""
    return 1 < case.copies < case.n


def increasing(case: Nodes) -> Finding:
    """Equation (11) with copies on the fastest nodes."""
    return _ordered(case, [case.fastest[:x] for x in (1, case.copies, case.n)], equal=False)


def in_any_order(case: Nodes) -> Finding:
    """Equation (11) with equality allowed and copies on the nodes that are named first."""
    return _ordered(case, [list(range(x)) for x in (1, case.copies, case.n)], equal=True)


def not_decreasing(case: Nodes) -> Finding:
    """All numbers of copies, on the fastest nodes."""
    return _ordered(case, [case.fastest[:x] for x in range(1, case.n + 1)], equal=True)


def _ordered(case: Nodes, choices: list[list[int]], *, equal: bool) -> Finding:
    """Whether each choice of nodes uses more than the one before."""
    used = [case.used(own) for own in choices]
    margin = min((b - a for a, b in pairwise(used)), default=F(1))
    told = ", ".join(
        f"{len(own)} {'copies use' if len(own) > 1 else 'copy uses'} {number(u)}"
        for own, u in zip(choices, used, strict=True)
    )
    pictures = tuple(case.picture(f"nodes {', '.join(str(i + 1) for i in sorted(own))}", own) for own in choices[1:])
    return Finding(margin if equal else strict(margin), told, (ROUNDS,), pictures)


def more_copies_than_nodes(case: Nodes) -> Finding:
    """What the policy does with n and with n + x copies: the same, node by node."""
    policy = [HadarE(360.0, copies=c, restart_seconds=0.0, last_round="all") for c in (case.n, case.n + case.copies)]
    placements = [one(case.instance)[0].placement for one in policy]
    alike = placements[0] == placements[1]
    return Finding(
        F(0) if alike else F(-1), f"plans for n and n + {case.copies} copies are {'' if alike else 'not '}alike"
    )


def formula(case: Nodes) -> Finding:
    """CRU round by round against x (w / S) / (n ceil(w / S))."""
    own = list(range(min(case.copies, case.n)))
    there, said = case.used(own), case.by_formula(own)
    return Finding(-abs(there - said), f"round by round {number(there)}, by the formula {number(said)}", (ROUNDS,))


def rounds(case: Nodes) -> Finding:
    """Rounds of x copies on the fastest nodes against ceil(R_1 / x)."""
    alone, together = (len(case.run(case.fastest[:x], case.work[0])) for x in (1, case.copies))
    said = ceil(F(alone, case.copies))
    words = f"one copy takes {alone} rounds, {case.copies} copies take {together}, not {said}"
    picture = case.picture(f"{case.copies} copies", case.fastest[: case.copies])
    return Finding(F(-abs(together - said)), words, (ROUNDS,), (picture,))


def full_without_copies(case: Nodes) -> Finding:
    """As many jobs as nodes, the j-th alone on the j-th node: whether forking could use more."""
    runs = [case.run([j], w) for j, w in enumerate(case.work)]
    busy = sum((sum(part.values(), F(0)) for run in runs for part in run), F(0))
    used = busy / (case.n * max(map(len, runs)))
    words = f"without forking {number(used)} of the cluster is used; no schedule uses more than 1"
    bars = tuple(
        Bar(f"node{j + 1}", F(r), r + part[j], f"j{j + 1}") for j, run in enumerate(runs) for r, part in enumerate(run)
    )
    return Finding(strict(1 - used), words, (ROUNDS,), (Timeline("without forking", bars, "rounds"),))


SPLIT = r"with $\mathrm{CRU}_1^x$ of one job on $x$ of $n$ nodes, its work divided in proportion to speed"
LONGER = "a job takes more than a round on every node"

FORMULA = r"""
Let the $x$ nodes do $S_x$ in a round. A round with at least $S_x$ left keeps all of them busy to its end and does
$S_x$. One with less, $l < S_x$, gives node $i$ the part $l v_i / S_x$, which it does in $l / S_x$ of the round: all
end together. So there are $\lceil w / S_x \rceil$ rounds, in which each node is busy for $w / S_x$ rounds in all."""

FASTEST = r"""
By the formula $n\, \mathrm{CRU}_1^x = w / \bigl(\bar S_x \lceil w / S_x \rceil\bigr)$ with $\bar S_x = S_x / x$,
the mean speed of the $x$ fastest nodes. It does not grow with $x$, as each further node is no faster than the mean;
$S_x$ grows, so $\lceil w / S_x \rceil$ does not either. So the quotient does not fall."""

CLAIMS = (
    Claim(
        key="hadar/cru-formula",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^x = \dfrac{x\, (w / S_x)}{n\, \lceil w / S_x \rceil}$, $S_x$ being what the $x$ "
        r"nodes do in a "
        f"round, {SPLIT}.",
        means=ForAll(nodes(lambda c: c.copies <= c.n, copies=whole(1, 4), longer=False), formula),
        expected="true",
        printed=False,
        policies=("hadare",),
        proof=FORMULA,
    ),
    Claim(
        key="hadar/thm-3-rounds",
        paper="Hadar",
        place="proof of Theorem 3",
        statement=r"Forked into $x$ copies, a job that takes $R_1$ rounds takes $\lceil R_1 / x \rceil$.",
        means=ForAll(nodes(between, copies=whole(2, 3)), rounds),
        expected="false",
        policies=("hadare",),
        instead="hadar/thm-3-rounds-alike",
        note="Each time on the fastest nodes.",
    ),
    Claim(
        key="hadar/thm-3-rounds-alike",
        paper="Hadar",
        place="proof of Theorem 3",
        statement="The same where all nodes are alike.",
        means=ForAll(nodes(lambda c: c.copies <= c.n, copies=whole(1, 4), longer=False, alike=True), rounds),
        expected="true",
        printed=False,
        policies=("hadare",),
        proof=r"""
With speed $v$, $R_1 = \lceil w / v \rceil$ and $x$ copies take $\lceil w / (x v) \rceil = \lceil \lceil w / v
\rceil / x \rceil$: for whole $x$ and $m$, $y \le x m$ if and only if $\lceil y \rceil \le x m$.""",
    ),
    Claim(
        key="hadar/thm-3",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 < \mathrm{CRU}_1^x < \mathrm{CRU}_1^n$ for $1 < x < n$, eq. (11), "
        + f"{SPLIT}; {LONGER}.",
        means=ForAll(nodes(between, n=(3, 4), copies=whole(2, 3)), increasing),
        expected="false",
        policies=("hadare",),
        instead="hadar/thm-3-fastest",
        note="With copies on the fastest nodes, which is best for the claim.",
    ),
    Claim(
        key="hadar/thm-3-weak",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 \le \mathrm{CRU}_1^x \le \mathrm{CRU}_1^n$, copies being on any $x$ nodes, "
        + f"{SPLIT}; {LONGER}.",
        means=ForAll(nodes(between, n=(3, 4), copies=whole(2, 3)), in_any_order),
        expected="false",
        printed=False,
        policies=("hadare",),
        instead="hadar/thm-3-fastest",
        note="On the nodes that are named first.",
    ),
    Claim(
        key="hadar/thm-3-fastest",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^1 \le \mathrm{CRU}_1^2 \le \dots \le \mathrm{CRU}_1^n$ on the $x$ fastest nodes, "
        r"the work being divided in proportion to speed.",
        means=ForAll(nodes(speeds=parts(1, 8, 2), works=parts(1, 40, 3), longer=False), not_decreasing),
        expected="true",
        printed=False,
        policies=("hadare",),
        proof=FORMULA + FASTEST,
    ),
    Claim(
        key="hadar/thm-3-more",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_1^n = \mathrm{CRU}_1^{n+j}$: copies beyond one for each node change nothing.",
        means=ForAll(nodes(copies=whole(1, 3), longer=False), more_copies_than_nodes, share=F(1, 2)),
        expected="true",
        policies=("hadare",),
        proof="A node runs at most one copy of a job, so at most $n$ copies run, on the same nodes and with the same "
        "parts.",
        note="The policy gives the same plan of a round, node by node.",
    ),
    Claim(
        key="hadar/thm-3-batch",
        paper="Hadar",
        place="Theorem 3",
        statement=r"$\mathrm{CRU}_m^1 < \mathrm{CRU}_m^n$ for any number $m$ of jobs, eq. (14); here $m = n$; "
        + f"{LONGER}.",
        means=ForAll(nodes(lambda c: c.n == len(c.work), n=(2, 3), m=(2, 3)), full_without_copies),
        expected="false",
        policies=("hadare",),
        instead="hadar/thm-3-fastest",
        note="Where jobs without copies keep all nodes busy to the end, no copies can use more.",
    ),
)
