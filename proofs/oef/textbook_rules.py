"""Properties of rules from the literature: equal split, equal budgets (CEEI), and the largest total."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter

from hetopt.data.instance import Instance
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers, rationals
from hetopt.proofs.oef.envy_and_sharing import ANY, WEIGHTED, least_surplus, most_envy
from hetopt.proofs.oef.misreport_cases import MisreportCase, any_report, misreport_pays, misreport_space
from hetopt.proofs.oef.pareto_efficiency import efficient
from hetopt.proofs.oef.proof_algebra import AFFORDABLE, SUPPORTED
from hetopt.proofs.oef.tenant_cases import Optimum, Share, TenantCase, about, positive, relative, some_gpus

F = Fraction


def equal_split(case: TenantCase) -> Optimum:
    """An equal share of every GPU type for each user."""
    share = (tuple(m / case.n for m in case.gpus),) * case.n
    return Optimum(share, sum(case.rates(share), F(0)), True, ())


@dataclass(frozen=True)
class Equilibrium:
    """A market with equal budgets and its equilibrium.

    Attributes
    ----------
    tenants:
        The users with their speedups, relative to the first type, and the GPUs of each type.
    share:
        (n, k) GPUs that each user buys.
    price:
        (k,) prices of a GPU.
    """

    tenants: TenantCase
    share: Share
    price: tuple[Fraction, ...]

    @property
    def instance(self) -> Instance:
        """The instance of the market; its numbers of GPUs are scaled to integers."""
        scale = 1
        for m in self.tenants.gpus:
            scale *= m.denominator
        speed = [[float(w) for w in row] for row in self.tenants.speed]
        return Instance.from_speedups(speed, [int(m * scale) for m in self.tenants.gpus], any_scale=True)

    @property
    def optimum(self) -> Optimum:
        """The allocation of the equilibrium."""
        return Optimum(self.share, sum(self.tenants.rates(self.share), F(0)), True, ())

    def clears(self) -> bool:
        """Whether each user spends its budget of 1 on types with the most work per cost, and all GPUs are sold."""
        spent = [sum((p * x for p, x in zip(self.price, row, strict=True)), F(0)) for row in self.share]
        best = [max(w / p for w, p in zip(row, self.price, strict=True)) for row in self.tenants.speed]
        thrifty = all(
            w / p == most
            for row, bundle, most in zip(self.tenants.speed, self.share, best, strict=True)
            for w, p, x in zip(row, self.price, bundle, strict=True)
            if x
        )
        sold = tuple(sum(column, F(0)) for column in zip(*self.share, strict=True)) == self.tenants.gpus
        return thrifty and sold and all(v == 1 for v in spent)


def equilibrium_space() -> Space[Equilibrium]:
    """Markets built from their equilibria: prices, parts of the budgets, and speedups per price below the best."""

    def build(numbers: CaseNumbers) -> Equilibrium:
        price, spent = numbers.row("price"), numbers["spent"]
        share = tuple(tuple(s / (sum(row) or 1) / p for s, p in zip(row, price, strict=True)) for row in spent)
        value = [
            [p if s else p * low for p, s, low in zip(price, row, lower, strict=True)]
            for row, lower in zip(spent, numbers["value"], strict=True)
        ]
        speed = tuple(tuple(v / row[0] for v in row) for row in value)
        gpus = tuple(sum(column, F(0)) for column in zip(*share, strict=True))
        return Equilibrium(TenantCase(speed, gpus), share, price)

    tables = {
        "price": TableShape(1, "k", integers(1, 4)),
        "spent": TableShape("n", "k", integers(0, 3)),
        "value": TableShape("n", "k", rationals(0, 1, 2, 3, 4)[1:]),
    }
    clears = "users have equal budgets, spend them on the types with the most work per cost, and buy all GPUs"
    given = about(attrgetter("tenants"), relative, positive, some_gpus)
    return Space({"n": (1, 4), "k": (1, 3)}, tables, build, hypotheses=(*given, Hypothesis(clears, Equilibrium.clears)))


def in_equilibrium(check: Callable[[TenantCase, Optimum], Finding]) -> ForAll[Equilibrium]:
    """A property of the allocation of every equilibrium."""
    return ForAll(equilibrium_space(), lambda case: check(case.tenants, case.optimum))


def largest_sums_are_efficient(case: TenantCase) -> Finding:
    """Pareto efficiency of the largest sums, with equal weights and others, free and with the sharing incentive."""
    gain = [pi * w for pi, row in zip(case.weights, case.speed, strict=True) for w in row]
    optima = (case.free, case.sharing, case.best_of(gain, []), case.best_of(gain, case.sharing_rows()))
    return min((efficient(case, found) for found in optima), key=lambda finding: finding.slack)


def unmoved(case: MisreportCase) -> Finding:
    """Whether a report changes no rate under the equal split."""
    return misreport_pays(case, equal_split(case.truth), equal_split(case.reported))


SECTION = "section 2.3"
EQUAL, BUDGETS = ("equal-split",), ("ceei",)
TOTALS = ("efficiency-only", "sharing-incentive-only", "gavel-total-throughput")
MAX_MIN = (
    "While Max-Min based schedulers excel in offering users various fairness attributes, they fall short in "
    "delivering satisfactory throughput performance to tenants in heterogeneous clusters"
)
AFFORDS = "At equilibrium prices every user has a bundle of the largest rate that its budget of 1 buys."

CLAIMS = (
    Claim(
        key="oef/equal-split-envy",
        place=SECTION,
        statement="The equal split is envy-free.",
        quote=MAX_MIN,
        procedure=ForAll(ANY, lambda c: most_envy(c, equal_split(c))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=EQUAL,
        proof="All users have the same GPUs.",
    ),
    Claim(
        key="oef/equal-split-sharing",
        place=SECTION,
        statement="The equal split is sharing-incentive.",
        quote=MAX_MIN,
        procedure=ForAll(ANY, lambda c: least_surplus(c, equal_split(c))),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=EQUAL,
        proof="Every user has its part of the cluster itself.",
    ),
    Claim(
        key="oef/equal-split-reports",
        place=SECTION,
        statement="Under the equal split no report pays, for one user or several.",
        quote=MAX_MIN,
        procedure=ForAll(misreport_space(any_report, all_misreport=True), unmoved),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=EQUAL,
        proof="The allocation does not depend on the reports.",
    ),
    Claim(
        key="oef/ceei-envy",
        place=SECTION,
        statement="Equal budgets (CEEI) are envy-free.",
        procedure=in_equilibrium(most_envy),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=BUDGETS,
        proof=f"{AFFORDS} The bundle of any other user costs 1, too.",
        mechanical=AFFORDABLE,
    ),
    Claim(
        key="oef/ceei-sharing",
        place=SECTION,
        statement="Equal budgets (CEEI) are sharing-incentive.",
        procedure=in_equilibrium(least_surplus),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=BUDGETS,
        proof=f"{AFFORDS} All GPUs are sold for $n$, so a part $m / n$ of the cluster costs 1.",
        mechanical=AFFORDABLE,
    ),
    Claim(
        key="oef/ceei-pareto",
        place=SECTION,
        statement="Equal budgets (CEEI) are Pareto-efficient.",
        procedure=in_equilibrium(efficient),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=BUDGETS,
        proof=f"{AFFORDS} In a dominating allocation a user that gains has GPUs that cost more than 1, and every other "
        "user has GPUs that cost at least 1. Together they cost more than $n$, but all GPUs cost $n$.",
        mechanical=SUPPORTED,
    ),
    Claim(
        key="oef/largest-total-pareto",
        place=SECTION,
        statement="The largest sum of throughputs, with positive weights, is Pareto-efficient; also if every user must "
        "have at least a given throughput (every optimum).",
        procedure=ForAll(WEIGHTED, largest_sums_are_efficient, all_optima=True),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=TOTALS,
        proof="A dominating allocation gives every user at least as much, so it satisfies the same constraints, and "
        "its sum is larger.",
    ),
    Claim(
        key="oef/sharing-only-sharing",
        place=SECTION,
        statement="The largest total under the sharing incentive is sharing-incentive.",
        procedure=ForAll(ANY, lambda c: least_surplus(c, c.sharing)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("sharing-incentive-only",),
        proof="These are the rows of its program.",
    ),
)
