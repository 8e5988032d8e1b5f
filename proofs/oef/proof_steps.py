"""Steps in the proofs of Theorems 3.2 and 3.3: tight constraints of the slowest user, and marginal over-reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis
from hetopt.proofs.oef import profitable_misreports
from hetopt.proofs.oef.misreport_cases import RISING, MisreportCase, in_truth, misreport_space, over
from hetopt.proofs.oef.proof_algebra import GIVING, NO_ENVY_BY_GIFTS
from hetopt.proofs.oef.tenant_cases import (
    OPTIMAL,
    UNIQUE,
    Constraints,
    TenantCase,
    rising,
    slowest_first,
    tenant_space,
)

F = Fraction
EVERY = "the slack is the largest over all optima, by a linear program in fractions"


def same_rates(case: TenantCase) -> Finding:
    """Equation (7) as printed: some other user has the throughput of u1 in the optimum of cooperative OEF."""
    found = case.cooperative
    first, *others = case.rates(found.share)
    nearest = min(others, key=lambda rate: abs(rate - first))
    words = f"u1 has {number_text(first)}, no other user has that; the nearest rate is {number_text(nearest)}"
    return Finding(
        -abs(nearest - first), words, (OPTIMAL, UNIQUE), (case.picture("optimum", found.share),), found.unique
    )


def largest_slack(
    case: TenantCase, rows: Constraints, total: Fraction, surpluses: Sequence[Sequence[Fraction]]
) -> Finding:
    """Whether u1's constraints can all be slack in an optimum where it has a type that suits another user better.

    ``surpluses`` are linear in the shares; the first constraint is slack if all of them are above their right sides,
    the last entries.
    """
    common: Constraints = [([*row, F(0)], v) for row, v in [*case.capacity_rows(), case.total_row(total), *rows]]
    slack = [([*[-v for v in coefficients], F(1)], -right) for *coefficients, right in surpluses]
    worst, share = F(0), case.free.share
    for j in range(case.k):
        if any(row[j] > case.speed[0][j] for row in case.speed):
            has = (case.row({(0, j): F(-1)}, [F(1)]), F(0))
            found = case.largest_level([*common, *slack, has])
            if found.value > worst:
                worst, share = found.value, case.optimum(found).share
    words = f"in an optimum u1 has {number_text(worst)} more than its constraint requires"
    return Finding(-worst, words, (OPTIMAL, EVERY), (case.picture("optimum", share),))


def envy_of_first(case: TenantCase) -> Finding:
    """Equation (7) corrected: u1 values the GPUs of some other user as much as its own."""
    own = {(0, j): w for j, w in enumerate(case.speed[0])}
    surpluses = [[*case.row(own | {(o, j): -w for j, w in enumerate(case.speed[0])}), F(0)] for o in range(1, case.n)]
    return largest_slack(case, case.envy_rows(), case.cooperative.total, surpluses)


def surplus_of_first(case: TenantCase) -> Finding:
    """Equation (8) corrected: u1 has exactly the rate of its part of the cluster."""
    own = case.row({(0, j): w for j, w in enumerate(case.speed[0])})
    part = case.worth(0, case.gpus) / case.n
    return largest_slack(case, case.sharing_rows(), case.sharing.total, [[*own, part]])


def largest_surplus(case: TenantCase) -> Finding:
    """Equation (8) as printed, for all optima of the largest total under the sharing incentive."""
    rows = [*case.sharing_rows(), case.total_row(case.sharing.total)]
    found = case.best_of(case.row({(0, j): w for j, w in enumerate(case.speed[0])}), rows)
    rate, part = case.worth(0, found.share[0]), case.worth(0, case.gpus) / case.n
    words = f"an optimum gives u1 {number_text(rate)}, and its part of the cluster {number_text(part)}"
    return Finding(part - rate, words, (OPTIMAL, EVERY), (case.picture("one of the optima", found.share),))


def pays(finding: Finding) -> Finding:
    """Whether the misreport of a finding of strategy-proofness is profitable."""
    slack = -finding.slack if finding.slack < 0 else profitable_misreports.NOT_HARMED
    return replace(finding, slack=slack)


def below_others(case: MisreportCase) -> bool:
    """Whether u1 reports more than the truth on all types but the first, and at most what every other user has."""
    truth, reported = case.truth.speed, case.reported.speed[0]
    more = all(b > a for a, b in zip(truth[0][1:], reported[1:], strict=True))
    return more and all(b <= w for row in truth[1:] for b, w in zip(reported, row, strict=True))


def only_last(case: MisreportCase) -> bool:
    """Whether u1 reports the truth on all types but the last."""
    return case.truth.speed[0][:-1] == case.reported.speed[0][:-1]


GIVEN = (*RISING, *in_truth(slowest_first))
MARGINAL = Hypothesis(r"$u_1$ over-reports all types $j \ge 2$, $w_1^j < w'^j_1 \le \min_{l > 1} w_l^j$", below_others)
LAST = Hypothesis(r"$u_1$ over-reports the last type only", only_last)
SUITS = "of a type on which some user is faster than $u_1$"
GIVES = r"""
Suppose {slack} in an optimum where $u_1$ has some of a type on which another user is faster. Let $u_1$ give every other
user the part $\varepsilon / (n-1)$ of its GPUs, $\varepsilon$ small. {kept} The total changes by
$\varepsilon \bigl(\frac1{{n-1}} \sum_{{l > 1}} w_l x_1 - w_1 x_1\bigr) > 0$, as no user is slower than $u_1$ on any
type: a contradiction."""

CLAIMS = (
    Claim(
        key="oef/eq-7",
        place="eq. (7)",
        statement=r"In the optimum of cooperative OEF, $w_1 x_1 - w_l x_l = 0$ for some $l \ne 1$.",
        procedure=ForAll(tenant_space(rising, slowest_first), same_rates),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/eq-7-corrected",
        quote=r"To achieve optimal efficiency, we should have stringent *envy-free* constraints on $\vec{x}_1$ and "
        r"another user $\vec{x}_l$ such that: $\vec{W}_1 \cdot \vec{x}_1 - \vec{W}_l \cdot \vec{x}_l = 0, \quad l "
        r"\neq 1$",
        note=r"A misprint: a tight constraint of envy-freeness is $w_1 x_1 = w_1 x_l$.",
    ),
    Claim(
        key="oef/eq-7-corrected",
        place="eq. (7)",
        statement=rf"In every optimum of cooperative OEF in which $u_1$ has GPUs {SUITS}, $w_1 x_1 = w_1 x_l$ for some "
        r"$l \ne 1$.",
        procedure=ForAll(tenant_space(rising, slowest_first), envy_of_first),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof=GIVES.format(
            slack=r"$w_1 x_1 > w_1 x_l$ for all $l > 1$",
            kept="Then $u_1$ still envies no user. The others receive the same, so they envy each other as before, and "
            "$u_1$ less than before.",
        ),
        mechanical=(*GIVING, *NO_ENVY_BY_GIFTS),
        note="If $u_1$ has only types on which all users are equally fast, moving them changes no total.",
    ),
    Claim(
        key="oef/eq-8",
        place="eq. (8)",
        statement=r"In every optimum of the largest total under the sharing incentive, $w_1 x_1 = w_1 m / n$.",
        procedure=ForAll(tenant_space(rising, slowest_first), largest_surplus),
        expected=ClaimVerdict.FALSE,
        policies=("sharing-incentive-only",),
        instead="oef/eq-8-corrected",
        quote=r"In this scenario, user 1 is also subjected to a stringent *sharing-incentive* constraint on the "
        r"allocation "
        r"vector $\vec{x}_1$: $\vec{W}_1 \cdot \vec{x}_1 - \vec{W}_1 \cdot \frac{\vec{m}}{n} = 0$",
    ),
    Claim(
        key="oef/eq-8-corrected",
        place="eq. (8)",
        statement=rf"In every optimum of the largest total under the sharing incentive in which $u_1$ has GPUs "
        rf"{SUITS}, "
        r"$w_1 x_1 = w_1 m / n$.",
        procedure=ForAll(tenant_space(rising, slowest_first), surplus_of_first),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("sharing-incentive-only",),
        proof=GIVES.format(
            slack=r"$w_1 x_1 > w_1 m / n$", kept="Then $u_1$ still has its part of the cluster, and the others gain."
        ),
        mechanical=GIVING,
    ),
    Claim(
        key="oef/thm-3.2-marginal",
        place="Theorem 3.2",
        statement=r"Under cooperative OEF every marginal over-report of the slowest user pays: $w_1 x'_1 > w_1 x_1$.",
        procedure=ForAll(
            misreport_space(over, *GIVEN, MARGINAL, n=(2, 3), k=(2, 3)),
            lambda c: pays(profitable_misreports.cooperative(c)),
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/thm-3.2",
        quote=r"If the rightmost non-zero element $x_1^j$ does not reach the limit $m_j$, it becomes apparent that the "
        r"inequality $x_1^{j'} > x_1^j$ holds by utilizing Lemma 3.1. Consequently, we have $\vec{W}_1 \cdot "
        r"\vec{x}_1' > "
        r"\vec{W}_1 \cdot \vec{x}_1$.",
        note="The proof of Theorem 3.2. One profitable misreport is enough for the theorem.",
    ),
    Claim(
        key="oef/thm-3.3-marginal",
        place="Theorem 3.3",
        statement=r"With the largest total under the sharing incentive, every over-report of the slowest user on the "
        r"last "
        r"type pays: $w_1 x'_1 > w_1 x_1$.",
        procedure=ForAll(
            misreport_space(over, *GIVEN, LAST, n=(2, 3), k=(2, 3)), lambda c: pays(profitable_misreports.sharing(c))
        ),
        expected=ClaimVerdict.FALSE,
        policies=("sharing-incentive-only",),
        instead="oef/thm-3.3",
        quote=r"This implies that $\vec{x}'_1 \geq \vec{x}_1$ by utilizing Lemma 3.1, violating *strategy-proofness*.",
        note="The proof of Theorem 3.3. One profitable misreport is enough for the theorem.",
    ),
)
