"""Theorem 5.1: envy-freeness, the sharing incentive, and their cost in efficiency."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations

from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import rationals
from hetopt.proofs.oef.proof_algebra import AFFORDABLE, DIVISION, SHARING, TOTALS
from hetopt.proofs.oef.tenant_cases import OPTIMAL, Optimum, TenantCase, rising, tenant_space

F = Fraction
ZEROS = rationals(0, 6, 2)
ANY = tenant_space(speeds=ZEROS)
WEIGHTED = tenant_space(speeds=ZEROS, weights=rationals(1, 3, 2), n=(1, 4), k=(1, 3))


def most_envy(case: TenantCase, found: Optimum) -> Finding:
    """Envy-freeness of one allocation."""
    weights, share = case.weights, found.share
    slack, e, o = min(
        (
            (case.worth(e, share[e]) - weights[e] / weights[o] * case.worth(e, share[o]), e, o)
            for e, o in permutations(range(case.n), 2)
        ),
        default=(F(0), 0, 0),
    )
    words = f"u{e + 1} would have {number_text(-slack)} more with the GPUs of u{o + 1}" if slack < 0 else "no envy"
    return Finding(slack, words, (OPTIMAL,), (case.picture("optimum", found.share),))


def least_surplus(case: TenantCase, found: Optimum) -> Finding:
    """The sharing incentive of one allocation."""
    part = [w / sum(case.weights) for w in case.weights]
    slack, e = min((case.worth(e, found.share[e]) - part[e] * case.worth(e, case.gpus), e) for e in range(case.n))
    more = "less" if slack < 0 else "more"
    words = f"u{e + 1} has {number_text(abs(slack))} {more} than with its part of the cluster"
    return Finding(slack, words, (OPTIMAL,), (case.picture("optimum", found.share),))


def idle(case: TenantCase, found: Optimum) -> Finding:
    """Whether every GPU that some tenant can use is in use."""
    most = F(0)
    for j, m in enumerate(case.gpus):
        if any(row[j] for row in case.speed):
            most = max(most, m - sum((row[j] for row in found.share), F(0)))
    return Finding(-most, f"{number_text(most)} GPUs of a type are idle", (OPTIMAL,))


def as_large_as_all(case: TenantCase) -> Finding:
    """Whether no allocation has a larger total: the unqualified "optimal resource efficiency"."""
    coop, free = case.cooperative, case.free
    words = f"its total is {number_text(coop.total)}, and {number_text(free.total)} without envy-freeness"
    pictures = (case.picture("cooperative OEF", coop.share), case.picture("largest total", free.share))
    return Finding(coop.total - free.total, words, (OPTIMAL,), pictures)


def largest_of_envy_free(case: TenantCase) -> Finding:
    """Whether no envy-free allocation has a larger total, by prices of the rows of envy and of capacity.

    The prices p >= 0 of all types and q >= 0 of all pairs prove it if every share costs at least what it adds to the
    total: ``p_j + sum_i (q_il pi_i w_i^j - q_li pi_i w_l^j) >= w_l^j``, with the total equal to ``p.m``.
    """
    found, pairs = case.cooperative, list(permutations(range(case.n), 2))
    price, envy = found.dual[: case.k], dict(zip(pairs, found.dual[case.k :], strict=True))
    pi, w = case.weights, case.speed
    costs = [
        price[j]
        + sum((envy[i, e] * pi[i] * w[i][j] - envy[e, i] * pi[i] * w[e][j] for i in range(case.n) if i != e), F(0))
        - w[e][j]
        for e in range(case.n)
        for j in range(case.k)
    ]
    bound = sum((p * m for p, m in zip(price, case.gpus, strict=True)), F(0))
    slack = min(*costs, *price, *envy.values(), found.total - bound, bound - found.total, F(0))
    return Finding(slack, f"prices prove the total {number_text(found.total)}", (OPTIMAL,))


def order_of_totals(case: TenantCase) -> Finding:
    """Whether the totals are ordered: noncooperative <= cooperative <= sharing incentive only <= free."""
    totals = [case.noncooperative.total, case.cooperative.total, case.sharing.total, case.free.total]
    slack = min(b - a for a, b in pairwise(totals))
    return Finding(slack, " <= ".join(map(number_text, totals)), (OPTIMAL,))


def between(case: TenantCase) -> Finding:
    """Whether the total of equal budgets lies between those of both OEF programs, up to the policy's rounding."""
    import hetopt
    from hetopt.models.ceei import equal_budgets
    from hetopt.tolerances import EQUAL, scale

    total = F(float(hetopt.solve(equal_budgets(), case.instance).rate.sum()))
    room = F(EQUAL * scale(float(case.free.total)))
    low, high = case.noncooperative.total, case.cooperative.total
    return Finding(
        min(total - low, high - total) + room, f"{number_text(low)} <= {float(total):.6g} <= {number_text(high)}"
    )


def as_printed(case: TenantCase) -> Finding:
    """Equation (10c) as printed compares a rate with itself, so the program is that of eq. (4).

    An optimum of eq. (4) is envy-free if and only if cooperative OEF, the corrected eq. (10), has the same total.
    """
    found = most_envy(case, case.free)
    slack = case.cooperative.total - case.free.total
    total = f"no envy-free allocation has the total {number_text(case.free.total)}, so every optimum has envy"
    return Finding(slack, f"{total}; in one of them {found.explanation}", (OPTIMAL, total), found.pictures)


SHARING_INCENTIVE = r"""
No GPU that some user can use is idle: dividing unused GPUs in proportion to the weights increases no user's envy
($\pi_i w_l z_l = \pi_l w_l z_i$ for $z_l = \pi_l z$) and raise the total. Envy-freeness of $u_l$ towards every user,
$w_l x_l \ge \frac{\pi_l}{\pi_i} w_l x_i$, multiplied by $\pi_i$ and summed over all $i$ (itself included), is
$w_l x_l \sum_i \pi_i \ge \pi_l\, w_l \sum_i x_i = \pi_l\, w_l m$: types that $u_l$ can use are fully used, and the
others are worth nothing to it."""

ENVY_FREE = "These are the rows of its program, the corrected eq. (10c)."

CLAIMS = (
    Claim(
        key="oef/thm-5.1-envy",
        place="Theorem 5.1",
        statement=r"Cooperative OEF is envy-free: $w_l x_l \ge w_l x_i$; with weights $\pi_i w_l x_l \ge \pi_l w_l "
        r"x_i$.",
        quote="Cooperative OEF achieves the optimal resource efficiency, while ensuring sharing-incentive and "
        "envy-freeness.",
        procedure=ForAll(WEIGHTED, lambda c: most_envy(c, c.cooperative)),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative",),
        proof=ENVY_FREE,
    ),
    Claim(
        key="oef/eq-10c",
        place="eq. (10c)",
        statement=r"Equation (10c) as printed, $\sum_j w_l^j x_l^j \ge \sum_j w_l^j x_l^j$, makes allocations "
        r"envy-free.",
        quote=r"we formulate the cooperative OEF framework as follows: … $\sum_{j=1}^k w_l^j \cdot x_l^j \geq "
        r"\sum_{j=1}^k w_l^j \cdot x_l^j, \quad \forall 1 \leq i, l \leq n.$",
        procedure=ForAll(ANY, as_printed),
        expected=ClaimVerdict.FALSE,
        instead="oef/thm-5.1-envy",
        note="A misprint: the right side is that of $x_i$.",
    ),
    Claim(
        key="oef/thm-5.1-sharing",
        place="Theorem 5.1",
        statement=r"Cooperative OEF gives the sharing incentive: $w_l x_l \ge w_l m / n$; with weights "
        r"$w_l x_l \ge w_l m\, \pi_l / \sum_i \pi_i$.",
        quote="the pursuit of *envy-freeness* inherently leads to *sharing-incentive* when we maximize the "
        "overall resource efficiency.",
        procedure=ForAll(WEIGHTED, lambda c: least_surplus(c, c.cooperative)),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative",),
        proof=SHARING_INCENTIVE,
        mechanical=(*DIVISION, *SHARING),
    ),
    Claim(
        key="oef/thm-5.1-all-used",
        place="Theorem 5.1",
        statement=r"Cooperative OEF uses all GPUs of every type $j$ that some user can use, $\sum_i x_i^j = m_j$.",
        quote=r"Note that we also have $\sum_{i=1}^n x_i^j = m_j$ for each type $j$ of GPU resources.",
        procedure=ForAll(WEIGHTED, lambda c: idle(c, c.cooperative)),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative",),
        proof=SHARING_INCENTIVE.split("Envy-freeness")[0],
        mechanical=DIVISION,
        note="The proof of Theorem 5.1 assumes it.",
    ),
    Claim(
        key="oef/thm-5.1-optimal",
        place="Theorem 5.1",
        statement="Cooperative OEF achieves the optimal resource efficiency, read as the largest total of eq. (4), "
        "without fairness.",
        quote="Furthermore, the OEF framework guarantees the best resource efficiency, since linear optimization "
        "yields a globally optimal solution.",
        procedure=ForAll(tenant_space(rising), as_large_as_all),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/thm-5.1-optimal-envy-free",
        note="Section 2.3.2 defines optimal efficiency as the highest overall throughput *while also taking various "
        "fairness considerations into account*, which excludes this reading.",
    ),
    Claim(
        key="oef/thm-5.1-optimal-envy-free",
        place="Theorem 5.1",
        statement="Cooperative OEF achieves the optimal resource efficiency, read as the largest total of all "
        "envy-free allocations.",
        quote="In cooperative environments, OEF achieves the optimal resource efficiency and ensures "
        "*sharing-incentive* and *envy-freeness* (Theorem 5.1).",
        procedure=ForAll(WEIGHTED, largest_of_envy_free),
        expected=ClaimVerdict.TRUE,
        policies=("oef-cooperative",),
        proof="By definition of the program (10), with (10c) corrected. An optimum exists: envy-free allocations are a "
        "compact set, to which giving nothing to all belongs.",
        note="The reading of section 2.3.2. By the same section the largest total under the sharing incentive is "
        "larger: `oef/totals`.",
    ),
    Claim(
        key="oef/totals",
        place="Theorem 5.1",
        statement=r"total(non-cooperative) $\le$ total(cooperative) $\le$ total(sharing incentive only) $\le$ "
        r"total(free), for equal weights.",
        quote="*Naively maintaining fairness properties reduces resource efficiency.*",
        procedure=ForAll(ANY, order_of_totals),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative", "oef-noncooperative", "sharing-incentive-only", "efficiency-only"),
        proof=r"""
Let $u_l$ be the rates with equal budgets (CEEI), 1 each, at some equilibrium (one exists: Eisenberg and Gale, 1959),
and let non-cooperative OEF give user $l$ GPUs of the cost $c_l$ there; $\sum_l c_l \le n$. No bundle is better for
its cost, so $t^* \le u_l c_l$, and $(u_l + t^* c_l)^2 \ge 4 u_l t^* c_l \ge (2 t^*)^2$. Hence $u_l \ge 2 t^* - t^*
c_l$, in total at least $n t^*$. Equal budgets are envy-free (every user can afford what any user has), so cooperative
OEF has at least their total. It gives the sharing incentive (Theorem 5.1), so the program with only these rows has at
least its total; and the program without fairness has the largest total.""",
        mechanical=(*AFFORDABLE, *TOTALS),
    ),
    Claim(
        key="oef/totals-equal-budgets",
        place="Theorem 5.1",
        statement=r"total(non-cooperative) $\le$ total(equal budgets) $\le$ total(cooperative).",
        procedure=ForAll(tenant_space(speeds=rationals(1, 6, 2)), between, share=F(1, 2)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("ceei", "oef-cooperative", "oef-noncooperative"),
        proof="By the proof of the order of all totals.",
        mechanical=(*AFFORDABLE, *TOTALS),
        note="The total of the policy is a float, so the instances check it up to rounding; the verdict depends on the "
        "proof.",
    ),
)
