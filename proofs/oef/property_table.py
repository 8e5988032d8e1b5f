"""Table 1: the properties of Gavel, Gandiva_fair and OEF, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding, ProofPart
from hetopt.proofs.ledger.procedures import Exists, ForAll
from hetopt.proofs.ledger.space import Space, hypothesis
from hetopt.proofs.oef.baseline_rules import AllocationRule, by_gandiva_fair, gavel, max_min
from hetopt.proofs.oef.envy_and_sharing import ENVY_FREE, SHARING_INCENTIVE, least_surplus, most_envy
from hetopt.proofs.oef.misreport_cases import (
    RISING,
    MisreportCase,
    any_report,
    in_truth,
    misreport_pays,
    misreport_space,
    over,
)
from hetopt.proofs.oef.pareto_efficiency import CLAIMS as EFFICIENCY
from hetopt.proofs.oef.pareto_efficiency import efficient
from hetopt.proofs.oef.profitable_misreports import OVER
from hetopt.proofs.oef.proof_algebra import ONE_PRICE, TRADES
from hetopt.proofs.oef.tenant_cases import OPTIMAL, UNIQUE, Optimum, TenantCase, rising, tenant_space

F = Fraction
RULE = "the rule gives one allocation, computed in fractions"

Check = Callable[[TenantCase, Optimum], Finding]


def checked(check: Check, case: TenantCase, found: Optimum) -> Finding:
    """The finding of a check, decided only if the optimum is unique: other optima do not refute a mechanism."""
    certificate = (OPTIMAL, UNIQUE) if found.dual else (RULE,)
    return replace(check(case, found), certificate=certificate, decided=found.unique)


def largest_total(case: TenantCase, found: Optimum) -> Finding:
    """Whether the total is the largest under the sharing incentive, the measure of section 2.4."""
    best = case.sharing
    words = f"the total is {found.total}; {best.total} is possible with the sharing incentive"
    pictures = (case.picture("allocation", found.share), case.picture("largest total", best.share))
    return Finding(found.total - best.total, words, pictures=pictures)


def misreport_gains(case: MisreportCase, by: AllocationRule) -> Finding:
    """Whether a misreport is not profitable."""
    return misreport_pays(case, by(case.truth), by(case.reported))


@hypothesis(r"there are at most as many GPUs as users, $\sum_j m_j \le n$")
def few_gpus(case: TenantCase) -> bool:
    """Then the equal split meets Gavel's row."""
    return sum(case.gpus) <= case.n


PLAIN = tenant_space(rising, n=(2, 3), k=(2, 3))
FEW_GPUS = tenant_space(rising, few_gpus, n=(2, 4), k=(2, 3))
MISREPORTS = misreport_space(over, *RISING, n=(2, 3), k=(2, 2))


@hypothesis("$u_1$ has the largest speedup, and pays a second price: at least two others have different speedups")
def second_price(truth: TenantCase) -> bool:
    """The second-largest speedup of a buyer is above that of the seller."""
    first, *others = (row[1] for row in truth.speed)
    return first > max(others) > min(others)


FASTEST_MISREPORTS = misreport_space(
    any_report,
    *RISING,
    *in_truth(second_price),
    n=(3, 4),
    k=(2, 2),
)
"""Any misreports of the user with the largest speedup."""
MISREPORTS_ON_FEW_GPUS = misreport_space(over, *RISING, *in_truth(few_gpus), n=(2, 4), k=(2, 2))
CHECKS: dict[str, tuple[str, Check]] = {
    "pareto": ("Pareto-efficient", efficient),
    "envy": ("envy-free", most_envy),
    "sharing": ("sharing-incentive", least_surplus),
    "total": ("of optimal efficiency under the sharing incentive", largest_total),
}
"""Column -> the property in words, and its check."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table: the names of the mechanism, its allocation, and the cases to test.

    With ``level`` all optima have the same rates, so that any of them decides properties of rates.
    """

    key: str
    name: str
    policy: str
    by: AllocationRule
    cases: Space[TenantCase] = PLAIN
    misreports: Space[MisreportCase] = MISREPORTS
    note: str = ""
    level: bool = False

    def finding(self, column: str, case: TenantCase) -> Finding:
        """Decide a property of the allocation of one case."""
        found = self.by(case)
        if column != "envy" and self.level:
            found = replace(found, unique=True)
        return checked(CHECKS[column][1], case, found)

    def cell(
        self,
        column: str,
        *,
        yes: bool,
        expected: ClaimVerdict,
        printed: bool = True,
        condition: str = "",
        quote: str = "",
        proof: str = "",
        mechanical: tuple[ProofPart, ...] = (),
        instead: str = "",
        note: str = "",
    ) -> Claim:
        """The claim of one cell: a "yes" is about all cases, a "no" about some case.

        A ``condition`` that the claim needs follows its statement. ``printed``: whether the paper claims this; its row
        of OEF is about two programs.
        """
        universal: ForAll[Any]
        if column == "lies":
            words = "strategy-proof against over-reports"
            universal = ForAll(self.misreports, lambda c: misreport_gains(c, self.by))
        else:
            words = CHECKS[column][0]
            universal = ForAll(self.cases, lambda c: self.finding(column, c))
        return Claim(
            key=f"oef/table-1-{self.key}-{column}",
            place="Table 1",
            statement=f"{self.name} is {'' if yes else 'not '}{words}{condition}.",
            quote=quote,
            procedure=universal if yes else Exists(universal),
            expected=expected,
            printed=printed,
            policies=(self.policy,),
            proof=proof or ("" if yes else "One instance is enough."),
            mechanical=mechanical,
            instead=instead,
            note=note or self.note,
        )


GAVEL = TableRow(
    "gavel",
    "Gavel",
    "gavel-max-min",
    gavel,
    FEW_GPUS,
    MISREPORTS_ON_FEW_GPUS,
    "With the row of Gavel that eq. (3) requires: a tenant uses at most one GPU's time. With more GPUs than tenants "
    "the equal split violates it. The policy `gavel-max-min` has that row for jobs only: `oef/gavel-without-row`.",
)
GANDIVA = TableRow(
    "gandiva",
    "Gandiva_fair",
    "gandiva-fair",
    by_gandiva_fair,
    note="The trading rule of `models/gandiva_fair.py`: one turn for every pair of types.",
)
BOTH = (
    "The table has one row for both programs; sections 4 and 5 claim strategy-proofness for the non-cooperative one, "
    "envy-freeness and the sharing incentive for the cooperative one. By "
    "the measure used for Gandiva_fair (section 2.4) neither is optimal. No program has all five properties."
)
COOPERATIVE = TableRow("cooperative", "Cooperative OEF", "oef-cooperative", lambda case: case.cooperative, note=BOTH)
NONCOOPERATIVE = TableRow(
    "noncooperative",
    "Non-cooperative OEF",
    "oef-noncooperative",
    lambda case: case.noncooperative,
    note=BOTH,
    level=True,
)
LEVEL = r"All users have $t^*$ in every optimum, so any optimum represents all. " + EFFICIENCY[1].proof

CLAIMS = (
    GAVEL.cell(
        "pareto",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="This demonstrates the *pareto-inefficiency* and non-optimal resource efficiency under Gavel.",
    ),
    GAVEL.cell(
        "envy",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="However, Gavel falls short to provide high resource efficiency and *envy-freeness*.",
    ),
    GAVEL.cell(
        "sharing",
        yes=True,
        expected=ClaimVerdict.TRUE,
        condition=", if it gives every user at most one GPU's time and there are at most as many GPUs as users",
        quote="This policy is naturally *sharing-incentive*.",
        proof=r"In the equal split all ratios are 1, and it satisfies Gavel's row since $\sum_j m_j / n \le 1$. So the "
        r"smallest ratio of the optimum is at least 1.",
    ),
    Claim(
        key="oef/gavel-without-row",
        place="Table 1",
        statement="Gavel without its row, so that tenants may use several GPUs at a time, is sharing-incentive.",
        procedure=ForAll(PLAIN, lambda c: checked(least_surplus, c, max_min(c))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("gavel-max-min",),
        proof="In the equal split all ratios are 1, so the smallest ratio of the optimum is at least 1.",
    ),
    GAVEL.cell(
        "lies",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="In this sense, Gavel does not achieve *strategy-proofness* either.",
    ),
    GAVEL.cell(
        "total",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="This demonstrates the *pareto-inefficiency* and non-optimal resource efficiency under Gavel.",
    ),
    GANDIVA.cell(
        "pareto",
        yes=True,
        expected=ClaimVerdict.FALSE,
        quote=r"$\text{Gandiva}_{\text{fair}}$ is *pareto-efficient*",
        instead="oef/gandiva-two-types",
        note=f"{GANDIVA.note} With turns repeated until no trade is left, the result is still dominated (by 1/48).",
    ),
    GANDIVA.cell(
        "envy",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="however, it violates *envy-freeness*, as the algorithm proceeds greedily, regardless of inter-user "
        "constraints.",
    ),
    GANDIVA.cell(
        "sharing",
        yes=True,
        expected=ClaimVerdict.TRUE,
        quote="Since this trading mechanism can only increase each user's training throughput, "
        r"$\text{Gandiva}_{\text{fair}}$ satisfies *sharing-incentive*.",
        proof="Every user begins with the equal split, and a trade at a price between the speedups of buyer and seller "
        "lowers the rate of neither.",
        mechanical=TRADES,
    ),
    GANDIVA.cell(
        "lies",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote=r"Another limitation of $\text{Gandiva}_{\text{fair}}$ is that it cannot completely prevent all users "
        "from lying.",
    ),
    GANDIVA.cell(
        "total",
        yes=False,
        expected=ClaimVerdict.TRUE,
        quote="Without cheating, this allocation achieves much higher resource efficiency than "
        r"$\text{Gandiva}_{\text{fair}}$, indicating $\text{Gandiva}_{\text{fair}}$ fails to provide optimal "
        "resource efficiency under *sharing-incentive* constraints.",
    ),
    COOPERATIVE.cell(
        "pareto",
        yes=True,
        expected=ClaimVerdict.FALSE,
        quote="OEF satisfies *pareto-efficiency* (Theorem 5.3).",
        instead="oef/thm-5.3-cooperative-three",
    ),
    COOPERATIVE.cell(
        "envy",
        yes=True,
        expected=ClaimVerdict.TRUE,
        quote="In cooperative environments where cheating is a non-issue, it ensures *envy-freeness* and "
        "*sharing-incentive*",
        proof=ENVY_FREE,
    ),
    COOPERATIVE.cell(
        "sharing",
        yes=True,
        expected=ClaimVerdict.TRUE,
        quote="In cooperative environments where cheating is a non-issue, it ensures *envy-freeness* and "
        "*sharing-incentive*",
        proof=SHARING_INCENTIVE,
    ),
    COOPERATIVE.cell("lies", yes=True, printed=False, expected=ClaimVerdict.FALSE, instead="oef/thm-5.4-over"),
    COOPERATIVE.cell(
        "total",
        yes=True,
        expected=ClaimVerdict.FALSE,
        quote="In cooperative environments where cheating is a non-issue, it ensures … while maximizing the resource "
        "efficiency.",
        instead="oef/totals",
    ),
    NONCOOPERATIVE.cell(
        "pareto",
        yes=True,
        expected=ClaimVerdict.TRUE,
        condition=" if all speedups are positive",
        quote="OEF satisfies *pareto-efficiency* (Theorem 5.3).",
        proof=LEVEL,
    ),
    NONCOOPERATIVE.cell("envy", yes=True, printed=False, expected=ClaimVerdict.FALSE, instead="oef/thm-5.1-envy"),
    NONCOOPERATIVE.cell("sharing", yes=True, printed=False, expected=ClaimVerdict.FALSE, instead="oef/thm-5.1-sharing"),
    NONCOOPERATIVE.cell(
        "lies",
        yes=True,
        expected=ClaimVerdict.TRUE,
        quote="In non-cooperative environments, OEF ensures *strategy-proofness* (Theorem 5.4).",
        proof=OVER,
        note=f"{BOTH} It is not strategy-proof against all reports: `oef/thm-5.4`.",
    ),
    NONCOOPERATIVE.cell(
        "total",
        yes=True,
        expected=ClaimVerdict.FALSE,
        quote="Specifically, OEF prioritizes *strategy-proofness* while maximizing resource efficiency in "
        "non-cooperative environments where multiple tenants may cheat to compete for limited resources.",
        instead="oef/totals",
    ),
    Claim(
        key="oef/second-price",
        place="section 2.4",
        statement="The second price of Gandiva_fair prevents the user with the largest speedup from misreporting its "
        "speedup on fast GPUs.",
        quote="In addition, the second-price auction mechanism also prevents the fastest-accelerating user from "
        "lying about his speedup on fast GPUs.",
        procedure=ForAll(FASTEST_MISREPORTS, lambda c: misreport_gains(c, by_gandiva_fair)),
        expected=ClaimVerdict.FALSE,
        policies=("gandiva-fair",),
        note="The cases have a second price: at least two other users, with different speedups. After an under-report, "
        "another user buys first, and the fastest user buys the rest at a lower price. In eq. (1) u3 reports 2.5, buys "
        "at 9/4 instead of 3 and has 52/27 instead of 16/9.",
    ),
    Claim(
        key="oef/gandiva-two-types",
        place="Table 1",
        statement="Gandiva_fair is Pareto-efficient for two GPU types if all speedups are positive.",
        procedure=ForAll(tenant_space(n=(2, 5), k=(2, 2)), lambda c: checked(efficient, c, by_gandiva_fair(c))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("gandiva-fair",),
        proof=r"""
A trade ends when the buyer has no slow GPUs left, or the seller no fast GPUs, and they never get any again: no user
with a larger speedup has slow GPUs left to pay with, and no user with a smaller speedup has fast GPUs left to sell. So
there are at most $2n$ trades, and in the end no user with slow GPUs has a larger speedup than a user with fast GPUs.
Hence a price exists between the speedups of both groups, at which every user has the best bundle that it can afford. A
dominating allocation would cost more than all GPUs are worth at that price.""",
        mechanical=ONE_PRICE,
        note=GANDIVA.note,
    ),
)
