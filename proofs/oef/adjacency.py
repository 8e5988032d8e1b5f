"""Lemma 3.1 and Theorem 5.2: the GPU types of each tenant in an optimal allocation."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, pairwise

from hetopt.data.rationals import digits, numbers_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers
from hetopt.proofs.oef import float_screens
from hetopt.proofs.oef.float_screens import gaps, out_of_order, screened
from hetopt.proofs.oef.proof_algebra import EXCHANGES, GIFT, HALF, PAIRS, SECOND_OBJECTIVE, THREE
from hetopt.proofs.oef.tenant_cases import (
    OPTIMAL,
    UNIQUE,
    Constraints,
    Optimum,
    TenantCase,
    choose_ratio_ordered,
    ratio_ordered,
    rising,
    slowest_first,
    some_gpus,
    tenant_space,
    weakly_ratio_ordered,
)

F = Fraction

SAME_TOTAL = (OPTIMAL, "the allocation in the picture meets all rows and has the same total")


def misplaced(case: TenantCase, found: Optimum) -> Fraction:
    """The smallest part of a type that must move so that the row of u1 is filled from left to right."""
    part = [x / m for x, m in zip(found.share[0], case.gpus, strict=True)]
    gaps = [min(part[b], 1 - part[a]) for b in range(case.k) for a in range(b)]
    return max(gaps, default=F(0))


def filled(case: TenantCase, found: Optimum) -> Finding:
    """Lemma 3.1 for one optimum."""
    words = f"u1 gets ({', '.join(map(digits, found.share[0]))}) of ({numbers_text(case.gpus)}) GPUs"
    picture = case.picture("optimum", found.share)
    return Finding(-misplaced(case, found), words, (OPTIMAL, UNIQUE), (picture,), found.unique)


def filled_everywhere(case: TenantCase, found: Optimum, rows: Constraints) -> Finding:
    """Lemma 3.1 for all allocations under ``rows`` with the total of ``found``.

    If u1 has some of a later type in one allocation and lacks some of an earlier type in another, both are true in
    their mean.
    """
    kept = [*rows, case.total_row(found.total)]
    entries = [[1 if c == j else 0 for c in range(case.n * case.k)] for j in range(case.k)]
    most = [case.best_of(gain, kept).share for gain in entries]
    least = [case.best_of([-v for v in gain], kept).share for gain in entries]
    worst = filled(case, found)
    for a, b in combinations(range(case.k), 2):
        share = tuple(
            tuple((x + y) / 2 for x, y in zip(*both, strict=True)) for both in zip(least[a], most[b], strict=True)
        )
        one = filled(case, Optimum(share, found.total, False, ()))
        if one.slack < worst.slack:
            worst = one
    return Finding(worst.slack, worst.explanation, SAME_TOTAL, worst.pictures)


def gap(case: TenantCase, found: Optimum) -> tuple[Fraction, int]:
    """The largest gap in the types of a tenant: the smallest part that must move to close it, and the tenant."""
    worst = (F(0), 0)
    for e, shares in enumerate(found.share):
        part = [x / m for x, m in zip(shares, case.gpus, strict=True)]
        there = [j for j, v in enumerate(part) if v]
        for a, b in pairwise(there):
            if b - a > 1:
                worst = max(worst, (min(max(part[: a + 1]), max(part[b:])), e), key=lambda item: item[0])
    return worst


def adjacent(case: TenantCase, found: Optimum) -> Finding:
    """Theorem 5.2 for one optimum."""
    size, e = gap(case, found)
    words = f"u{e + 1} gets ({', '.join(map(digits, found.share[e]))})"
    return Finding(-size, words, (OPTIMAL, UNIQUE), (case.picture("optimum", found.share),), found.unique)


def adjacent_everywhere(case: TenantCase, *, cooperative: bool) -> Finding:
    """Theorem 5.2 for all optima of a program of OEF."""
    if cooperative:
        return _adjacent_under(case, case.cooperative, case.envy_rows())
    return _adjacent_under(case, case.noncooperative, case.equal_rows())


def _adjacent_under(case: TenantCase, found: Optimum, rows: Constraints) -> Finding:
    """Theorem 5.2 for all allocations under ``rows`` with the total of ``found``."""
    size, share, e = case.furthest_gap(found, rows)
    words = f"an optimum gives u{e + 1} ({numbers_text(share[e])})"
    return Finding(-size, words, SAME_TOTAL, (case.picture("one of the optima", share),))


def sorted_optimum(case: TenantCase) -> Finding:
    """Theorem 5.2 for all optima of the second program, which maximises sum l j w_l^j x_l^j."""
    gain = [(e + 1) * (j + 1) * w for e, row in enumerate(case.speed) for j, w in enumerate(row)]
    found = case.best_of(gain, case.equal_rows())
    value = sum((g * x for g, x in zip(gain, chain(*found.share), strict=True)), F(0))
    return _adjacent_under(case, found, [*case.equal_rows(), ([-g for g in gain], -value)])


def served_in_order(case: TenantCase) -> Finding:
    """Lemma 3.1 and Theorem 5.2 for all optima of the largest total under the sharing incentive."""
    found, rows = case.sharing, case.sharing_rows()
    findings = (filled_everywhere(case, found, rows), _adjacent_under(case, found, rows))
    return min(findings, key=lambda finding: finding.slack)


EXCHANGE = r"""
Suppose $x_l^{j'} > 0$ and $x_h^j > 0$ for two users $l < h$ and two types $j < j'$. Let $h$ give $l$ a small amount
$\varepsilon$ of type $j$ in exchange for $\varepsilon w_l^j / w_l^{j'}$ GPUs of type $j'$, so that the throughput of
$l$ is unchanged. These are worth $\varepsilon w_h^{j'} w_l^j / w_l^{j'} > \varepsilon w_h^j$ to $h$, since its ratio
is the larger one. So $h$ gains and no user loses."""

SORTED = r"""
So no two such shares exist. All GPUs are in use, since every user can use them. Hence, if $x_1^{j'} > 0$, no
other user has any of a type $j < j'$, and $u_1$ has all of it (Lemma 3.1). And if $u_e$ has types $a$ and $c$ and
none of $b$, $a < b < c$, then some $u_o$ has $b$: with $o < e$ that and $x_e^a > 0$, with $o > e$ that and $x_e^c >
0$ is such a pair (Theorem 5.2)."""

NONCOOPERATIVE = (
    EXCHANGE
    + r""" It can divide its gain among all users, since GPUs of any type have a positive worth for each of them.
Then all have more than $t^*$, the largest level that all can have: a contradiction."""
    + SORTED
)

COOPERATIVE_2 = (
    EXCHANGE
    + r""" For two users envy-freeness is the sharing incentive: $w_l x_l \ge w_l x_i$ with $x_l + x_i = m$ is
$w_l x_l \ge w_l m / 2$ (and unused GPUs only help). No user has lost, so the new allocation is feasible, and its total
is larger."""
    + SORTED
)

COOPERATIVE_3 = r"""
Take an optimum $x$ in the relative interior of the set of optima: a user that has a type in some optimum has it in $x$,
and a row of envy that is tight in $x$, $i \to l$ for short, is tight in all. If tight rows form a cycle, giving
every user on it the bundle of the next is optimal as well; so all users on a cycle have the same types. Suppose that
$u_1$ has type $j'$ and some other user type $j < j'$. With $r_i = w_i^{j'} / w_i^j$ and $v_i = w_i^{j'}$, both
increasing with $i$, let $u_l$, $l > 1$, give $u_1$ a small amount $a_l \ge 0$ of type $j$ (0 if it has none) for $b_l
\ge 0$ of type $j'$. In units of its $v_i$ every user gains $g_l = b_l - a_l / r_l$ and $g_1 = \sum_l a_l / r_1 -
\sum_l b_l$; together $S = \sum_l a_l (1/r_1 - 1/r_l) > 0$. Tight rows stay satisfied if $g_i \ge g_l + a_l (1/r_l -
1/r_i)$ for $i \to l$, $i > 1$; $g_1 \ge g_l - a_l (1/r_1 - 1/r_l)$ for $1 \to l$; and $g_i \ge g_1 - \sum_l a_l
(1/r_1 - 1/r_i)$ for $i \to 1$. The total changes by $\sum_i v_i g_i$, so in each case it is enough to find
gains with the sum $S$ for which this is positive.

If $u_3$ has $j$: $a_3 = 1$, $a_2 = 0$ and equal gains $S / 3$. Else $u_2$ has it: $a_2 = 1$. Equal gains suffice
unless $3 \to 2$, which requires $g_3 \ge g_2 + \delta$, $\delta = 1/r_2 - 1/r_3$. As $u_3$ has no $j$, no cycle joins
$u_2$ and $u_3$; so $2 \to 3$ is not tight.

If $1 \to 3$ is not tight either: $g_1 = g_2 = (S - \delta)/3$ and $g_3 = g_2 + \delta$. Then $b_3 = g_3 > 0$ and
$b_2 = g_2 + 1/r_2 > 0$, and $\sum_i v_i g_i = S \bar v + \delta (v_3 - \bar v) > 0$ with $\bar v$ the mean of the
$v_i$.

If $1 \to 3$ is tight, $2 \to 1$ is not (it would close a cycle), so no row of $u_2$ is, and its rate may fall
slightly. With $D = x_3 - x_2$: $w_3 D = 0$, and $w_1 D \ge 0$, since $w_1 x_3 = w_1 x_1 \ge w_1 x_2$. $D$ has a
negative entry, at $j$. If all its negative entries came before all positive ones, $w_3 D = 0$ would give $w_1 D < 0$,
for $w_1^t / w_3^t$ falls with $t$. So $u_3$ has some type $s$ and $u_2$ some type $t > s$. Let $u_3$ give $u_2$ a
small amount of $s$ for an amount of $t$ of the same worth to $u_1$. Then $1 \to 2$ and $1 \to 3$ remain satisfied,
$u_3$ gains, and values the bundle of $u_2$ less than before. Per unit of the exchanged worth the total grows by
$(w_3^t - w_2^t) / w_1^t - (w_3^s - w_2^s) / w_1^s > 0$, since $w_2 / w_1$ and $w_3 / w_2$ both grow from $s$ to $t$
and are at least 1.

In all cases the total of an optimum increases: a contradiction. So no other user has any $j < j'$, and as everything
is in use, $u_1$ has all of it."""

TWO_TYPES = r"""
Let $r_l = w_l^2$, $a_l$ and $b_l$ be the GPUs of $u_l$ of both types, and $R = \sum_l r_l$. Suppose $b_1 > 0$ and $a_g
> 0$ for some $g > 1$. Let $y$ give type 1 to $u_1$ alone, $e$ of type 2 to $u_1$ and $e + c$ to every other user, with
$c = m_1 / r_1$ and $n e + (n - 1) c = m_2$ ($e$ may be negative). No user envies another in $y$: $u_1$ is indifferent,
and the others have $r_l c \ge m_1$. Its total is $R (e + c) = R (m_2 + m_1 / r_1) / n$.

In $x$, $u_l$ does not envy $u_h$ for $l < h$: $r_l (b_h - b_l) \le a_l - a_h \le a_l$. Hence for all $l$ and $h$
$r_1 (r_h - r_l)(b_h - b_l) \le (r_h - r_1) a_l + (r_l - r_1) a_h$, strictly at $l = h = g$. The sum over all pairs is
$r_1 (n \sum_l r_l b_l - R\, m_2) < (R - n r_1) m_1$, that is, the total $m_1 + \sum_l r_l b_l$ of $x$ is below that of
$y$. By the rows of envy between $u_1$ and $u_l$, $(r_l - r_1)(b_l - b_1) \ge 0$, so every $b_l > 0$. So a small step
from $x$ towards $y$ is an envy-free allocation with a larger total: a contradiction. All GPUs are in use, so $a_1 =
m_1$."""

SECOND_STAGE = r"""
Let $l < h$, $j < j'$, $x_l^{j'} > 0$ and $x_h^j > 0$ in an optimum. With a strictly larger ratio of $h$ the exchange
of the strict case raises $t^*$. With equal ratios, let $h$ give $a$ GPUs of type $j$ for $b$ of type $j'$ with $w_l^j
a = w_l^{j'} b$ and so $w_h^j a = w_h^{j'} b$: all rates are unchanged. The second objective changes by $l (j - j')
w_l^j a + h (j' - j) w_h^j a = (j' - j)\, a\, (h w_h^j - l w_l^j) > 0$, since $w_h^j \ge w_l^j$ (ratios to the first
type, on which all have 1) and $h > l$: a contradiction. Without such pairs types are adjacent, as in the strict
case."""

TYPES_OF = r"where $w_l^1 = 1$ and later types are faster for every user"
RELATIVE = "$w_l^1 = 1$"
RATIO = r"$w_l^j w_h^{j'} > w_l^{j'} w_h^j$ for all users $l < h$ and types $j < j'$, all speedups positive"
COOPERATIVE_ORDER = screened(float_screens.cooperative, out_of_order)
NONCOOPERATIVE_ORDER = screened(float_screens.noncooperative, out_of_order)
ELEMENTWISE = (rising, slowest_first, some_gpus)
ORDERED = (ratio_ordered, some_gpus)
ANY_ORDER = tenant_space(*ORDERED, chosen=choose_ratio_ordered)

CLAIMS = (
    Claim(
        key="oef/lemma-3.1",
        place="Lemma 3.1",
        statement=r"The slowest user, $w_1^j = \min_l w_l^j$ for all $j$, "
        + TYPES_OF
        + r", is served from left to right: $x_1^{j'} > 0$ only if $x_1^j = m_j$ for all $j < j'$ "
        r"(non-cooperative OEF).",
        quote=r"To achieve optimal efficiency, in $\vec{x}_1$, which represents the allocation for the user with "
        "the slowest speedup, all non-zero elements are positioned at the leftmost positions and have a value of "
        "$m_j$, except for the right-most element.",
        procedure=ForAll(
            tenant_space(*ELEMENTWISE),
            lambda c: filled(c, c.noncooperative),
            screen=NONCOOPERATIVE_ORDER,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/lemma-3.1-ratio",
    ),
    Claim(
        key="oef/lemma-3.1-ratio",
        place="Lemma 3.1",
        statement=f"Lemma 3.1 for ratio-ordered users: {RATIO} (non-cooperative OEF, every optimum).",
        procedure=ForAll(ANY_ORDER, lambda c: filled_everywhere(c, c.noncooperative, c.equal_rows())),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=NONCOOPERATIVE,
        mechanical=(*EXCHANGES, *GIFT),
    ),
    Claim(
        key="oef/lemma-3.1-cooperative",
        place="Lemma 3.1",
        statement=r"Lemma 3.1 for cooperative OEF, with its order: $w_1^j = \min_l w_l^j$, " + TYPES_OF + ".",
        quote=r"These inequalities imply that the non-zero elements in $\vec{x}_1$ are filled from left to right, "
        r"and $x_1^q > 0$ holds only when $x_1^p = m_p, \forall p < q$.",
        procedure=ForAll(
            tenant_space(*ELEMENTWISE),
            lambda c: filled(c, c.cooperative),
            screen=COOPERATIVE_ORDER,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/lemma-3.1-cooperative-two",
        note="Its proof is used for the cooperative program in Theorems 3.2 and 3.3.",
    ),
    Claim(
        key="oef/lemma-3.1-cooperative-two",
        place="Lemma 3.1",
        statement=f"Lemma 3.1 for cooperative OEF with two ratio-ordered users (every optimum): {RATIO}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(2, 2), chosen=choose_ratio_ordered),
            lambda c: filled_everywhere(c, c.cooperative, c.envy_rows()),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=COOPERATIVE_2,
        mechanical=(*EXCHANGES, *HALF),
    ),
    Claim(
        key="oef/lemma-3.1-cooperative-three",
        place="Lemma 3.1",
        statement=f"Lemma 3.1 for cooperative OEF with three ratio-ordered users (every optimum): {RATIO}, {RELATIVE}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(3, 3), chosen=choose_ratio_ordered),
            lambda c: filled_everywhere(c, c.cooperative, c.envy_rows()),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=COOPERATIVE_3,
        mechanical=THREE,
        note="Without $w_l^1 = 1$ it fails: $w_1 = (18, 27)$, $w_2 = (18, 30)$, $w_3 = (6, 16)$, $m = (2, 1)$ give "
        r"$u_1$ $(1, \frac5{24})$.",
    ),
    Claim(
        key="oef/lemma-3.1-cooperative-more",
        place="Lemma 3.1",
        statement=f"Lemma 3.1 for cooperative OEF with four or more ratio-ordered users: {RATIO}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(4, 5), chosen=choose_ratio_ordered),
            lambda c: filled(c, c.cooperative),
            screen=COOPERATIVE_ORDER,
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/lemma-3.1-cooperative-two-types",
        note="The counterexample has four users and four types. Three types: `oef/lemma-3.1-cooperative-three-types`.",
    ),
    Claim(
        key="oef/lemma-3.1-cooperative-two-types",
        place="Lemma 3.1",
        statement="Lemma 3.1 for cooperative OEF with two types and any number of ratio-ordered users (every optimum): "
        f"{RATIO}, {RELATIVE}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(2, 6), k=(2, 2), chosen=choose_ratio_ordered),
            lambda c: filled_everywhere(c, c.cooperative, c.envy_rows()),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=TWO_TYPES,
        mechanical=PAIRS,
        note="Without $w_l^1 = 1$ it fails, as for three users.",
    ),
    Claim(
        key="oef/lemma-3.1-cooperative-three-types",
        place="Lemma 3.1",
        statement=f"Lemma 3.1 for cooperative OEF with three types and four or more ratio-ordered users: {RATIO}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(4, 6), k=(3, 3), chosen=choose_ratio_ordered),
            lambda c: filled(c, c.cooperative),
            screen=COOPERATIVE_ORDER,
        ),
        expected=ClaimVerdict.OPEN,
        printed=False,
        policies=("oef-cooperative",),
    ),
    Claim(
        key="oef/lemma-3.1-sharing",
        place="Lemma 3.1",
        statement=r"Lemma 3.1 for the largest total under the sharing incentive, with its order: "
        r"$w_1^j = \min_l w_l^j$, " + TYPES_OF + ".",
        quote=r"having $x_1^k \geq \frac{m_k}{n}$ would lead to $x_1^j = m_j, \forall j \neq k$.",
        procedure=ForAll(tenant_space(*ELEMENTWISE), lambda c: filled(c, c.sharing)),
        expected=ClaimVerdict.FALSE,
        policies=("sharing-incentive-only",),
        instead="oef/lemma-3.1-sharing-ratio",
        note="Its proof is used for that program in Theorem 3.3.",
    ),
    Claim(
        key="oef/lemma-3.1-sharing-ratio",
        place="Lemma 3.1",
        statement="Lemma 3.1 and Theorem 5.2 for the largest total under the sharing incentive, for ratio-ordered "
        f"users (every optimum): {RATIO}.",
        procedure=ForAll(ANY_ORDER, served_in_order),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("sharing-incentive-only",),
        proof=EXCHANGE
        + " The rows of the sharing incentive remain satisfied, and the total is larger: a contradiction."
        + SORTED,
        mechanical=EXCHANGES,
    ),
    Claim(
        key="oef/thm-5.2",
        place="Theorem 5.2",
        statement=r"Non-cooperative OEF gives every user adjacent types; users ordered by elementwise speedups, "
        + TYPES_OF
        + ".",
        quote="Under OEF, users are allocated adjacent GPU types.",
        procedure=ForAll(
            tenant_space(*ELEMENTWISE),
            lambda c: adjacent(c, c.noncooperative),
            screen=screened(float_screens.noncooperative, gaps),
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.2-ratio",
    ),
    Claim(
        key="oef/thm-5.2-ratio",
        place="Theorem 5.2",
        statement=f"Every optimum of non-cooperative OEF gives ratio-ordered users adjacent types: {RATIO}.",
        procedure=ForAll(ANY_ORDER, lambda c: adjacent_everywhere(c, cooperative=False)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=NONCOOPERATIVE,
        mechanical=(*EXCHANGES, *GIFT),
    ),
    Claim(
        key="oef/thm-5.2-ties",
        place="Theorem 5.2",
        statement=r"Theorem 5.2 for ratio-ordered users, where ratios may be equal: $w_l^j w_h^{j'} \ge w_l^{j'} "
        "w_h^j$, all positive (every optimum).",
        procedure=ForAll(
            tenant_space(weakly_ratio_ordered, rising, some_gpus),
            lambda c: adjacent_everywhere(c, cooperative=False),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.2-sorted",
    ),
    Claim(
        key="oef/thm-5.2-sorted",
        place="Theorem 5.2",
        statement=r"For ratio-ordered users, where ratios may be equal, every optimum of non-cooperative OEF with the "
        r"largest $\sum_{l,j} l\, j\, w_l^j x_l^j$ gives every user adjacent types: $w_l^j w_h^{j'} \ge w_l^{j'} "
        rf"w_h^j$ for all users $l < h$ and types $j < j'$, all speedups positive, {RELATIVE}.",
        procedure=ForAll(tenant_space(weakly_ratio_ordered, some_gpus), sorted_optimum),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=SECOND_STAGE,
        mechanical=(*EXCHANGES, *SECOND_OBJECTIVE),
        note=r"What `oef.noncooperative(canonical=True)` solves. Without $w_l^1 = 1$ it fails: $w_1 = (2, 2, 1)$, "
        r"$w_2 = (1, 1, 1)$, $m = (1, 1, 1)$.",
    ),
    Claim(
        key="oef/thm-5.2-cooperative",
        place="Theorem 5.2",
        statement=r"Cooperative OEF gives every user adjacent types; users ordered by elementwise speedups, "
        + TYPES_OF
        + ".",
        quote="In this sense, we can directly trade between the first and the second column, or trade between the "
        "second and the third column within $X$ to generate higher efficiency without hurting anyone, thus "
        "contradicting the optimality of OEF.",
        procedure=ForAll(
            tenant_space(*ELEMENTWISE),
            lambda c: adjacent(c, c.cooperative),
            screen=screened(float_screens.cooperative, gaps),
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/thm-5.2-cooperative-two",
    ),
    Claim(
        key="oef/thm-5.2-cooperative-more",
        place="Theorem 5.2",
        statement=f"Theorem 5.2 for cooperative OEF with three or more ratio-ordered users, {TYPES_OF}: {RATIO}.",
        procedure=ForAll(
            tenant_space(
                *ORDERED,
                rising,
                n=(3, 4),
                k=(3, 4),
                speeds=integers(1, 16),
                chosen=choose_ratio_ordered,
            ),
            lambda c: adjacent(c, c.cooperative),
            screen=screened(float_screens.cooperative, gaps),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/thm-5.2-cooperative-two",
    ),
    Claim(
        key="oef/thm-5.2-cooperative-two",
        place="Theorem 5.2",
        statement=f"Every optimum of cooperative OEF gives two ratio-ordered users adjacent types: {RATIO}.",
        procedure=ForAll(
            tenant_space(*ORDERED, n=(2, 2), chosen=choose_ratio_ordered),
            lambda c: adjacent_everywhere(c, cooperative=True),
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=COOPERATIVE_2,
        mechanical=(*EXCHANGES, *HALF),
    ),
)
