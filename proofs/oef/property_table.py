"""Table 1: the properties of Gavel, Gandiva_fair and OEF, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import Exists, ForAll
from hetopt.proofs.ledger.space import Space
from hetopt.proofs.oef.baseline_rules import gandiva_fair, gavel
from hetopt.proofs.oef.envy_and_sharing import SHARING_INCENTIVE, least_surplus, most_envy
from hetopt.proofs.oef.misreports import MisreportCase, any_report, misreport_pays, misreport_space, over
from hetopt.proofs.oef.oef_claim import oef_claim
from hetopt.proofs.oef.pareto_efficiency import CLAIMS as EFFICIENCY
from hetopt.proofs.oef.pareto_efficiency import efficient
from hetopt.proofs.oef.strategy_proofness import OVER
from hetopt.proofs.oef.tenant_cases import OPTIMAL, UNIQUE, Optimum, TenantCase, positive, rising, tenant_space

F = Fraction
RULE = "the rule gives one allocation, computed in fractions"

AllocationRule = Callable[[TenantCase], Optimum]


def by_gandiva_fair(case: TenantCase) -> Optimum:
    """The allocation after the trades; it is the only one, so it counts as a unique optimum."""
    share, _ = gandiva_fair(case)
    return Optimum(share, sum(case.rates(share), F(0)), True, ())


def decided(finding: Finding, found: Optimum) -> Finding:
    """Decide only if the optimum is unique; other optima do not refute a mechanism."""
    certificate = (RULE,) if not found.dual else (OPTIMAL, UNIQUE)
    return Finding(finding.slack, finding.explanation, certificate, finding.pictures, found.unique)


def envy(case: TenantCase, by: AllocationRule) -> Finding:
    """Envy-freeness."""
    return decided(most_envy(case, by(case)), by(case))


def sharing(case: TenantCase, by: AllocationRule) -> Finding:
    """The sharing incentive."""
    return decided(least_surplus(case, by(case)), by(case))


def pareto(case: TenantCase, by: AllocationRule) -> Finding:
    """Pareto efficiency under capacity alone."""
    return decided(efficient(case, by(case)), by(case))


def total(case: TenantCase, by: AllocationRule) -> Finding:
    """The largest total among allocations with the sharing incentive, as section 2.4 measures."""
    found, best = by(case), case.sharing
    words = f"the total is {found.total}; {best.total} is possible with the sharing incentive"
    pictures = (case.picture("allocation", found.share), case.picture("largest total with it", best.share))
    return decided(Finding(found.total - best.total, words, pictures=pictures), found)


def misreport_gains(case: MisreportCase, by: AllocationRule) -> Finding:
    """Strategy-proofness against over-reports."""
    return misreport_pays(case, by(case.truth), by(case.reported))


PLAIN = tenant_space(lambda c: positive(c) and rising(c), n=(2, 3), k=(2, 3))
FEW_GPUS = tenant_space(lambda c: rising(c) and sum(c.gpus) <= c.n, n=(2, 4), k=(2, 3))
LIES = misreport_space(over, n=(2, 3), k=(2, 2), where=lambda c: rising(c.truth) and rising(c.reported))


def second_price(truth: TenantCase) -> bool:
    """The first user accelerates most, and the others not equally: it pays the second user's price."""
    first, *others = (row[1] for row in truth.speed)
    return first > max(others) > min(others)


FASTEST_LIES = misreport_space(
    any_report,
    n=(3, 4),
    k=(2, 2),
    where=lambda c: rising(c.truth) and rising(c.reported) and second_price(c.truth),
)
"""Misreports of the user that accelerates most, in any direction."""
LIES_ON_FEW_GPUS = misreport_space(
    over, n=(2, 4), k=(2, 2), where=lambda c: rising(c.truth) and rising(c.reported) and sum(c.truth.gpus) <= c.truth.n
)
Check = Callable[[TenantCase, AllocationRule], Finding]
CHECKS: dict[str, tuple[str, Check]] = {
    "pareto": ("Pareto-efficient", pareto),
    "envy": ("envy-free", envy),
    "sharing": ("sharing-incentive", sharing),
    "total": ("of optimal efficiency under the sharing incentive", total),
}


@dataclass(frozen=True)
class TableRow:
    """A row of the table: the names of the mechanism, its allocation, and the cases to test."""

    key: str
    name: str
    policy: str
    by: AllocationRule
    cases: Space[TenantCase] = PLAIN
    lies: Space[MisreportCase] = LIES
    note: str = ""
    level: bool = False

    def any_optimum(self, case: TenantCase) -> Optimum:
        """An allocation that represents all optima if these have the same rates (``level``)."""
        found = self.by(case)
        return replace(found, unique=found.unique or self.level)

    def cell(
        self, column: str, *, printed: bool, expected: ClaimVerdict, proof: str = "", instead: str = "", mark: str = ""
    ) -> Claim:
        """The claim of one cell: "yes" is a claim about all cases, "no" about some case."""
        key = f"oef/table-1-{self.key}-{column}"
        universal: ForAll[Any]
        if column == "lies":
            words = "strategy-proof against over-reports"
            universal = ForAll(self.lies, lambda c: misreport_gains(c, self.by))
        else:
            words, check = CHECKS[column]
            by = self.by if column == "envy" else self.any_optimum
            universal = ForAll(self.cases, lambda c: check(c, by))
        return Claim(
            key=key,
            paper="OEF",
            place="Table 1",
            statement=f"{self.name} is {'' if printed else 'not '}{words}.",
            procedure=universal if printed else Exists(universal),
            expected=expected,
            policies=(self.policy,),
            proof=proof or ("" if printed else "One instance is enough."),
            instead=instead,
            note=mark or self.note,
        )


GAVEL = TableRow(
    "gavel",
    "Gavel",
    "gavel-max-min",
    gavel,
    FEW_GPUS,
    LIES_ON_FEW_GPUS,
    "With Gavel's own row, which eq. (3) needs: a tenant uses at most one GPU's time. The cases have at most as "
    "many GPUs as tenants; with more the equal split breaks that row. The policy `gavel-max-min` has that row for jobs "
    "alone.",
)
GANDIVA = TableRow(
    "gandiva",
    "Gandiva_fair",
    "gandiva-fair",
    by_gandiva_fair,
    note="The trading rule as in `models/gandiva_fair.py`: every pair of types has one turn.",
)
BOTH = (
    "The table has one row for both programs; section 5 claims strategy-proofness for the non-cooperative one, and by "
)
BOTH += "its yardstick for Gandiva_fair (section 2.4) neither is optimal. No program has all five."
OTHER = "The other of the two has it:"
ANY = "Against any report it is not: `oef/thm-5.4`."
COOPERATIVE = TableRow("cooperative", "Cooperative OEF", "oef-cooperative", lambda case: case.cooperative, note=BOTH)
NONCOOPERATIVE = TableRow(
    "noncooperative",
    "Non-cooperative OEF",
    "oef-noncooperative",
    lambda case: case.noncooperative,
    note=BOTH,
    level=True,
)
LEVEL = r"All have $t^*$ in every optimum, so one of them speaks for all. " + EFFICIENCY[1].proof

CLAIMS = (
    GAVEL.cell("pareto", printed=False, expected=ClaimVerdict.TRUE),
    GAVEL.cell("envy", printed=False, expected=ClaimVerdict.TRUE),
    GAVEL.cell(
        "sharing",
        printed=True,
        expected=ClaimVerdict.TRUE,
        proof=r"The equal split has all ratios 1 and keeps Gavel's row, as $\sum_j m_j / n \le 1$. So the least "
        r"ratio of the "
        r"optimum is at least 1, and no less without that row.",
    ),
    GAVEL.cell("lies", printed=False, expected=ClaimVerdict.TRUE),
    GAVEL.cell("total", printed=False, expected=ClaimVerdict.TRUE),
    GANDIVA.cell(
        "pareto",
        printed=True,
        expected=ClaimVerdict.FALSE,
        instead="oef/gandiva-two-types",
        mark=f"{GANDIVA.note} Repeated until no trade is left, the turns leave the case dominated, too (by 1/48).",
    ),
    GANDIVA.cell("envy", printed=False, expected=ClaimVerdict.TRUE),
    GANDIVA.cell(
        "sharing",
        printed=True,
        expected=ClaimVerdict.TRUE,
        proof="Every user begins with the equal split, and a price between the speedups of buyer and seller leaves "
        "both with "
        "at least what they had.",
    ),
    GANDIVA.cell("lies", printed=False, expected=ClaimVerdict.TRUE),
    GANDIVA.cell("total", printed=False, expected=ClaimVerdict.TRUE),
    COOPERATIVE.cell("pareto", printed=True, expected=ClaimVerdict.FALSE, instead="oef/thm-5.3-cooperative-three"),
    COOPERATIVE.cell(
        "envy", printed=True, expected=ClaimVerdict.TRUE, proof="These are the rows of its program, eq. (10c) as meant."
    ),
    COOPERATIVE.cell("sharing", printed=True, expected=ClaimVerdict.TRUE, proof=SHARING_INCENTIVE),
    COOPERATIVE.cell(
        "lies",
        printed=True,
        expected=ClaimVerdict.FALSE,
        mark=f"{BOTH} Non-cooperative OEF has it: `oef/thm-5.4-over`.",
    ),
    COOPERATIVE.cell("total", printed=True, expected=ClaimVerdict.FALSE, instead="oef/totals"),
    NONCOOPERATIVE.cell("pareto", printed=True, expected=ClaimVerdict.TRUE, proof=LEVEL),
    NONCOOPERATIVE.cell(
        "envy", printed=True, expected=ClaimVerdict.FALSE, mark=f"{BOTH} Cooperative OEF has it: `oef/thm-5.1-envy`."
    ),
    NONCOOPERATIVE.cell(
        "sharing",
        printed=True,
        expected=ClaimVerdict.FALSE,
        mark=f"{BOTH} Cooperative OEF has it: `oef/thm-5.1-sharing`.",
    ),
    NONCOOPERATIVE.cell(
        "lies",
        printed=True,
        expected=ClaimVerdict.TRUE,
        proof=OVER,
        mark=f"{BOTH} Against any report it is not: `oef/thm-5.4`.",
    ),
    NONCOOPERATIVE.cell("total", printed=True, expected=ClaimVerdict.FALSE, instead="oef/totals"),
    oef_claim(
        key="oef/second-price",
        place="section 2.4",
        statement="The second price of Gandiva_fair prevents the fastest-accelerating user from misreported about its "
        "speedup on fast GPUs.",
        procedure=ForAll(FASTEST_LIES, lambda c: misreport_gains(c, by_gandiva_fair)),
        expected=ClaimVerdict.FALSE,
        policies=("gandiva-fair",),
        note="The cases have a second price: two other users at least, not alike. By an under-report the fastest lets "
        "another buy first, and buys what is left at a lower price. In eq. (1) u3 reports 2.5, buys at 9/4 instead of "
        "3 and has 52/27 instead of 16/9.",
    ),
    oef_claim(
        key="oef/gandiva-two-types",
        place="Table 1",
        statement="Gandiva_fair is Pareto-efficient for two GPU types where all speedups are positive.",
        procedure=ForAll(tenant_space(positive, n=(2, 5), k=(2, 2)), lambda c: pareto(c, by_gandiva_fair)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("gandiva-fair",),
        proof=r"""
A trade uses up the buyer's slow GPUs or the seller's fast ones, for good: no user who gains more is left with slow
ones to buy with, no user who gains less with fast ones to sell. So there are at most $2n$ trades, and in the end
no user who holds slow GPUs gains more by fast ones than some user who holds fast GPUs. One price lies between the
speedups of both kinds of owners; at it every user has the best bundle that it can afford, so a dominating allocation
would cost more than all GPUs are worth at that price.""",
        note=GANDIVA.note,
    ),
)
