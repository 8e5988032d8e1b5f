"""Compositions of formulations: the properties that hold after a component is added."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import attrgetter

import hetopt
from hetopt.auditing import envy_free, sharing_incentive
from hetopt.auditing.verdict import Verdict
from hetopt.data.instance import Instance
from hetopt.models import oef
from hetopt.models.objectives import SwitchingCost
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.finding_pictures import shares_picture
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import CaseNumbers, Hypothesis, Space, TableShape, integers, rationals
from hetopt.proofs.oef.tenant_cases import GPUS, OPTIMAL, UNIQUE, TenantCase, about, case_of, positive, relative

F = Fraction


@dataclass(frozen=True)
class HeldGPUsCase:
    """Tenants that hold GPUs, and a price for each GPU gained.

    Attributes
    ----------
    tenants:
        The tenants.
    first:
        (n,) fraction of every GPU type that each tenant holds.
    price:
        Price of a GPU gained.
    """

    tenants: TenantCase
    first: tuple[Fraction, ...]
    price: Fraction

    @cached_property
    def instance(self) -> Instance:
        """The instance with the held GPUs."""
        held = [[float(part * m) for m in self.tenants.gpus] for part in self.first]
        return self.tenants.instance.replace(held=held)

    @cached_property
    def optimum(self) -> hetopt.Allocation:
        """The exact optimum of cooperative OEF with the price."""
        return hetopt.solve(oef.cooperative() + SwitchingCost(float(self.price)), self.instance, exact=True)

    def plain(self) -> bool:
        """Whether tenants hold nothing or an equal share, and the price is not negative."""
        return set(self.first) <= {F(0), F(1, self.tenants.n)} and self.price >= 0

    def finding(self, verdict: Verdict) -> Finding:
        """Convert an exact verdict to a finding."""
        exact = self.optimum.certificate.exact
        assert exact is not None
        assert exact.share is not None
        assert verdict.exact is not None
        gpus = [list(row) for row in exact.share]
        worth = [self.tenants.worth(e, row) for e, row in enumerate(gpus)]
        picture = shares_picture("optimum with the switching cost", gpus, self.tenants.gpus, worth)
        return Finding(verdict.exact, verdict.explain(), (OPTIMAL, UNIQUE), (picture,), bool(exact.unique))


def held_gpus_space() -> Space[HeldGPUsCase]:
    """Two or three tenants; each holds nothing or an equal share."""

    def build(numbers: CaseNumbers) -> HeldGPUsCase:
        tenants = case_of(numbers)
        return HeldGPUsCase(tenants, tuple(part / tenants.n for part in numbers.row("held")), numbers.one("price"))

    tables = {
        "speed": TableShape("n", "k-1", integers(1, 6)),
        "gpus": TableShape(1, "k", GPUS),
        "held": TableShape(1, "n", integers(0, 1)),
        "price": TableShape(1, 1, rationals(0, 4, 2)),
    }
    held = Hypothesis(
        "every tenant holds nothing or an equal share of every type; every GPU gained has the same price, at least 0",
        HeldGPUsCase.plain,
    )
    given = about(attrgetter("tenants"), relative, positive)
    return Space({"n": (2, 3), "k": (2, 2)}, tables, build, hypotheses=(*given, held))


CLAIMS = (
    Claim(
        key="oef/switching-envy",
        place="eq. (10), extended",
        statement="Cooperative OEF with a price on every GPU gained is envy-free (every optimum).",
        procedure=ForAll(
            held_gpus_space(),
            lambda c: c.finding(envy_free(c.instance, c.optimum, exact=True)),
            share=F(1, 2),
            all_optima=True,
        ),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-cooperative",),
        proof="Envy-freeness is a set of rows of its program, and the price changes only the objective.",
    ),
    Claim(
        key="oef/switching-sharing",
        place="eq. (10), extended",
        statement="Cooperative OEF with a price on every GPU gained gives the sharing incentive.",
        procedure=ForAll(held_gpus_space(), lambda c: c.finding(sharing_incentive(c.instance, c.optimum, exact=True))),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/switching-envy",
        note="Theorem 5.1 requires that all GPUs are in use; GPUs with a price above their worth stay idle.",
    ),
)
