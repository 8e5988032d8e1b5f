"""Theorem 5.3: whether optimal allocations are Pareto-efficient."""

from __future__ import annotations

from fractions import Fraction

from hetopt.data.rationals import numbers_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.mechanical import by_sympy
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import integers, rationals
from hetopt.proofs.oef.float_screens import cooperative, inefficiency, screened
from hetopt.proofs.oef.proof_algebra import GIFT, HALF
from hetopt.proofs.oef.tenant_cases import OPTIMAL, UNIQUE, Optimum, TenantCase, rising, tenant_space

F = Fraction

EQUAL_RATES = "all optima have the same rates, t* each"


def efficient(case: TenantCase, found: Optimum, *, equal: bool = False) -> Finding:
    """Whether no other allocation gives one tenant more and none less, by a linear program.

    With ``equal`` all optima have the same rates, so any of them represents all.
    """
    rates = case.rates(found.share)
    gain, share = case.dominating(rates)
    words = f"rates ({numbers_text(rates)})"
    words += f" are dominated by ({numbers_text(case.rates(share))})" if gain else " are not dominated"
    pictures = (case.picture("optimum", found.share), case.picture("better for some, worse for none", share))
    certificate = (
        OPTIMAL,
        EQUAL_RATES if equal else UNIQUE,
        "the other allocation is within the capacity and harms no user",
    )
    return Finding(-gain, words, certificate, pictures, found.unique or equal)


def skipped_level() -> str:
    """Check in sympy by how much level 1 of the closed form lies above the segment between levels 0 and 2."""
    import sympy

    a, d, c = sympy.symbols("r1 d r3", positive=True)
    r1, r2, r3 = a, a + d, c
    v = [(r1 + r2 + r3) / 3, (r2 + r3) / 2, r3]
    cost = [0, r1 / 2, 2 * r2]
    above = (v[1] - v[0]) * cost[2] - (v[2] - v[0]) * cost[1]
    expected = (a * d + 2 * d**2 + 2 * d * c) / 6
    return "" if sympy.simplify(above - expected) == 0 else f"the difference is {sympy.factor(above)}"


THREE_USERS = r"""
Let $w_i = (1, r_i)$, $r_1 \le r_2 \le r_3$, and let $u_i$ have $p_i$ of the first type and $q_i$ of the second in
an envy-free allocation of everything. For $r_i < r_j$ envy-freeness gives $q_i \le q_j$; number users of equal $r$
by $q$. Write $y_h = (n-h)(q_{h+1} - q_h) \ge 0$, $q_0 = 0$, for $h = 0, \dots, n-1$. Then $\sum_h y_h = \sum_i q_i
= m_2$; since $u_h$ does not envy $u_{h+1}$, $p_h - p_{h+1} \ge r_h (q_{h+1} - q_h)$, so $m_1 = n p_n + \sum_h h
(p_h - p_{h+1}) \ge n p_n + \sum_h c_h y_h$ with $c_h = h r_h / (n-h)$; and the total is $m_1 + \sum_h v_h y_h$ with
$v_h$ the mean of $r_{h+1}, \dots, r_n$. Conversely every $y \ge 0$ with $\sum y_h = m_2$ and $\sum c_h y_h \le m_1$
comes from an envy-free allocation (at level $h$ the users after $h$ share $y_h$ evenly, each of the others has type
1 worth as much to $u_h$; the rest of type 1 is split evenly). So $y$ is optimal in this program.

An allocation of everything is Pareto-efficient unless $q_l > 0$ and $p_h > 0$ for some $r_l < r_h$ (else one price
between the two kinds of owners supports it). Take such $l < h$. Then $y_a > 0$ for some $a < l$. If $p_n > 0$, the
second row has slack, and moving a little of $y_a$ to level $n-1$ gains, as $v_a < v_{n-1}$: a contradiction. Else
$y_g > 0$ for some $g \ge h$, since $p_g - p_{g+1} \le r_{g+1} (q_{g+1} - q_g)$. With $n = 3$: $a = 0$, $g = 2$,
$r_1 < r_2$. But then level 1 lies above the segment between levels 0 and 2: with $d = r_2 - r_1$, $(v_1 - v_0) c_2
- (v_2 - v_0) c_1 = (r_1 d + 2 d^2 + 2 d r_3) / 6 > 0$, so moving from both to level 1 gains at the same cost: a
contradiction."""

INEFFICIENT = screened(cooperative, inefficiency)

CLAIMS = (
    Claim(
        key="oef/thm-5.3",
        place="Theorem 5.3",
        statement=r"Non-cooperative OEF is Pareto-efficient even if some speedups are 0, with $w_l^1 = 1$.",
        procedure=ForAll(
            tenant_space(speeds=integers(0, 6)),
            lambda c: efficient(c, c.noncooperative, equal=True),
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/thm-5.3-positive",
        note="A speedup is 0 where the memory of a type is too small. The first type of the paper is the slowest of "
        "every user, so its speedups are positive.",
    ),
    Claim(
        key="oef/thm-5.3-positive",
        place="Theorem 5.3",
        statement=r"Non-cooperative OEF is Pareto-efficient if all speedups are positive (every optimum).",
        quote="OEF achieves pareto-efficiency.",
        procedure=ForAll(
            tenant_space(speeds=rationals(0, 6, 2)[1:]), lambda c: efficient(c, c.noncooperative, equal=True)
        ),
        expected=ClaimVerdict.TRUE,
        policies=("oef-noncooperative",),
        proof=r"""
Every user has $t^*$, the largest level that all can have. If some allocation gives $u_l$ more than $t^*$ and no user
less, $u_l$ can give every other user a small part of its GPUs, which have a positive worth for every user, and keep
more than $t^*$. Then all have more than $t^*$: a contradiction.""",
        mechanical=GIFT,
    ),
    Claim(
        key="oef/thm-5.3-cooperative",
        place="Theorem 5.3",
        statement=r"Cooperative OEF is Pareto-efficient.",
        quote="Moreover, the *pareto-efficiency* are always maintained in both environments.",
        procedure=ForAll(tenant_space(rising), lambda c: efficient(c, c.cooperative), screen=INEFFICIENT),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/thm-5.3-cooperative-three",
        note="It holds for two users and any number of GPU types (`oef/thm-5.3-cooperative-two`). The allocation with "
        "a larger total in the paper's proof is not envy-free. Equal budgets (policy `ceei`) give envy-freeness, the "
        "sharing incentive and Pareto efficiency together.",
    ),
    Claim(
        key="oef/thm-5.3-cooperative-two-types",
        place="Theorem 5.3",
        statement=r"Cooperative OEF is Pareto-efficient for two GPU types.",
        procedure=ForAll(
            tenant_space(n=(4, 5), k=(2, 2), speeds=integers(1, 30)),
            lambda c: efficient(c, c.cooperative),
            screen=INEFFICIENT,
        ),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/thm-5.3-cooperative-three",
    ),
    Claim(
        key="oef/thm-5.3-cooperative-two",
        place="Theorem 5.3",
        statement=r"Cooperative OEF is Pareto-efficient for two users (every optimum).",
        procedure=ForAll(
            tenant_space(n=(2, 2), speeds=rationals(0, 6, 2)), lambda c: efficient(c, c.cooperative), all_optima=True
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=r"""
For two users envy-freeness is the sharing incentive, $w_l x_l \ge w_l m / 2$ (unused GPUs only help). A dominating
allocation satisfies it too, and its total would exceed the largest total: a contradiction.""",
        mechanical=HALF,
    ),
    Claim(
        key="oef/thm-5.3-cooperative-three",
        place="Theorem 5.3",
        statement=r"Cooperative OEF is Pareto-efficient for three users and two GPU types, all speedups positive, "
        "$w_l^1 = 1$ (every optimum).",
        procedure=ForAll(
            tenant_space(n=(3, 3), k=(2, 2), speeds=rationals(0, 9, 2)[1:]),
            lambda c: efficient(c, c.cooperative),
            all_optima=True,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=THREE_USERS,
        mechanical=(by_sympy("level 1 lies above the segment", skipped_level),),
        note="Without $w_l^1 = 1$ it fails: $w_1 = (6, 2)$, $w_2 = (12, 16)$, $w_3 = (6, 9)$, $m = (1, 1)$.",
    ),
)
