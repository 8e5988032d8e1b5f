"""Compositions of formulations: what stays true when a part is added."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import hetopt
from hetopt.auditing import envy_free, sharing_incentive
from hetopt.auditing.verdict import Verdict
from hetopt.data.instance import Instance
from hetopt.models import oef
from hetopt.models.objectives import SwitchingCost
from hetopt.proofs.ledger.claim import Claim, Finding
from hetopt.proofs.ledger.means import ForAll
from hetopt.proofs.ledger.pictures import shares
from hetopt.proofs.ledger.space import Numbers, Space, Table, parts, whole
from hetopt.proofs.oef.tenants import GPUS, OPTIMAL, UNIQUE, Tenants

F = Fraction


@dataclass(frozen=True)
class Moving:
    """Tenants who hold GPUs now, and a price for every GPU gained.

    Attributes
    ----------
    tenants:
        Who shares.
    first:
        (n,) which part of all types each holds now, in parts of a whole.
    price:
        Of a GPU gained.
    """

    tenants: Tenants
    first: tuple[Fraction, ...]
    price: Fraction

    @cached_property
    def instance(self) -> Instance:
        """With what is held."""
        held = [[float(part * m) for m in self.tenants.gpus] for part in self.first]
        return self.tenants.instance.replace(held=held)

    @cached_property
    def optimum(self) -> hetopt.Allocation:
        """Of cooperative OEF with the price, exactly."""
        return hetopt.solve(oef.cooperative() + SwitchingCost(float(self.price)), self.instance, exact=True)

    def finding(self, verdict: Verdict) -> Finding:
        """A verdict in fractions as a finding."""
        exact = self.optimum.certificate.exact
        assert exact is not None
        assert exact.share is not None
        assert verdict.exact is not None
        gpus = [list(row) for row in exact.share]
        worth = [self.tenants.worth(e, row) for e, row in enumerate(gpus)]
        picture = shares("optimum with the switching cost", gpus, self.tenants.gpus, worth)
        return Finding(verdict.exact, verdict.explain(), (OPTIMAL, UNIQUE), (picture,), bool(exact.unique))


def moving() -> Space[Moving]:
    """Two or three tenants; each holds nothing or an equal part."""

    def build(numbers: Numbers) -> Moving:
        speed = tuple((F(1), *row) for row in numbers["speed"])
        n = len(speed)
        first = tuple(part / n for part in numbers.row("held"))
        return Moving(Tenants(speed, numbers.row("gpus")), first, numbers.one("price"))

    tables = {
        "speed": Table("n", "k-1", whole(1, 6)),
        "gpus": Table(1, "k", GPUS),
        "held": Table(1, "n", whole(0, 1)),
        "price": Table(1, 1, parts(0, 4, 2)),
    }
    return Space({"n": (2, 3), "k": (2, 2)}, tables, build)


CLAIMS = (
    Claim(
        key="oef/switching-envy",
        paper="OEF",
        place="eq. (10), extended",
        statement="Cooperative OEF with a price on every GPU gained stays envy-free (every optimum).",
        means=ForAll(
            moving(), lambda c: c.finding(envy_free(c.instance, c.optimum, exact=True)), share=F(1, 2), every=True
        ),
        expected="true",
        printed=False,
        policies=("oef-cooperative",),
        proof="Envy-freeness is among its rows, and a price changes the objective alone.",
    ),
    Claim(
        key="oef/switching-sharing",
        paper="OEF",
        place="eq. (10), extended",
        statement="Cooperative OEF with a price on every GPU gained gives the sharing incentive.",
        means=ForAll(
            moving(),
            lambda c: c.finding(sharing_incentive(c.instance, c.optimum, exact=True)),
        ),
        expected="false",
        printed=False,
        policies=("oef-cooperative",),
        instead="oef/switching-envy",
        note="Theorem 5.1 needs that everything is used, and GPUs that cost more than they bring stay idle.",
    ),
)
