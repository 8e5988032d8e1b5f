"""Section 4.4: the number of positive shares of an optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hetopt.data.rationals import number_text
from hetopt.proofs.ledger.claim import Claim, ClaimVerdict, Finding
from hetopt.proofs.ledger.procedures import ForAll
from hetopt.proofs.ledger.space import Hypothesis, rationals
from hetopt.proofs.oef.tenant_cases import (
    OPTIMAL,
    UNIQUE,
    Optimum,
    Share,
    TenantCase,
    choose_ratio_ordered,
    ratio_ordered,
    rising,
    tenant_space,
)

F = Fraction


def shares_above_zero(case: TenantCase, found: Optimum, *, decided: bool = True) -> Finding:
    """Compare the number of positive shares with n + k - 1."""
    count = sum(1 for row in found.share for x in row if x)
    words = f"{count} shares are above 0; n + k - 1 = {case.n + case.k - 1}"
    pictures = (case.picture("optimum", found.share),)
    return Finding(F(case.n + case.k - 1 - count), words, (OPTIMAL, UNIQUE), pictures, decided)


def most_shares(case: TenantCase) -> Finding:
    """Compare the largest number of positive shares of an optimum with n + k - 1.

    The mean of optima that each maximise one share has a positive share wherever some optimum has.
    """
    optima: list[Share] = [case.noncooperative.share]
    for e in range(case.n):
        for j in range(case.k):
            gain = [1 if (o, i) == (e, j) else 0 for o in range(case.n) for i in range(case.k)]
            optima.append(case.best_of(gain, case.equal_rows()).share)
    mean = tuple(
        tuple(sum((share[e][j] for share in optima), F(0)) / len(optima) for j in range(case.k)) for e in range(case.n)
    )
    rates = case.rates(mean)
    assert all(rate == case.level * w for rate, w in zip(rates, case.weights, strict=True))
    finding = shares_above_zero(case, Optimum(mean, sum(rates, F(0)), False, ()))
    return replace(finding, certificate=(f"all rates are {number_text(case.level)}, the optimum",))


def with_several(found: Optimum) -> int:
    """Number of tenants with more than one type."""
    return sum(sum(1 for x in row if x) > 1 for row in found.share)


def most_have_one_type(case: TenantCase) -> Finding:
    """Whether more than half of the tenants have one type only."""
    found = case.noncooperative
    one = case.n - with_several(found)
    slack = F(min(0, 2 * one - case.n - 1))
    words = f"{one} of {case.n} tenants have one type of GPU, the others several of the {case.k} types"
    return Finding(slack, words, (OPTIMAL, UNIQUE), (case.picture("optimum", found.share),), found.unique)


def several_types(case: TenantCase, found: Optimum) -> Finding:
    """Compare the number of tenants with several types with k - 1."""
    count = with_several(found)
    return Finding(F(case.k - 1 - count), f"{count} tenants have several types", (OPTIMAL,))


RISING = rationals(1, 9, 2)

CLAIMS = (
    Claim(
        key="oef/nonzeros",
        place="section 4.4",
        statement=r"Every optimum of non-cooperative OEF has at most $n + k - 1$ shares above 0.",
        procedure=ForAll(tenant_space(rising, n=(2, 3), k=(2, 3)), most_shares),
        expected=ClaimVerdict.FALSE,
        printed=False,
        policies=("oef-noncooperative",),
        instead="oef/nonzeros-vertex",
        note="The paper uses ECOS, an interior-point method, which returns a point in the middle of all optima.",
    ),
    Claim(
        key="oef/nonzeros-vertex",
        place="section 4.4",
        statement=r"A vertex optimum of non-cooperative OEF, as the simplex method finds it, has at most $n + k - 1$ "
        "shares above 0.",
        procedure=ForAll(tenant_space(), lambda c: shares_above_zero(c, c.noncooperative)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof=r"""
The program has $k$ rows of capacity and $n$ rows of equal rates over the shares and the level $t$. At a vertex at
most $n + k$ of all variables (slacks included) are above 0, and $t$ is one of them.""",
    ),
    Claim(
        key="oef/one-type",
        place="section 4.4",
        statement="When the number of GPU types is smaller than the number of tenants, most tenants get one type "
        "of GPU only (non-cooperative OEF).",
        quote="Hence, when the number of GPU types is smaller than the number of tenants, most tenants will be "
        "allocated only one type of GPU.",
        procedure=ForAll(
            tenant_space(
                Hypothesis("$k < n$", lambda c: c.k < c.n),
                ratio_ordered,
                rising,
                n=(3, 4),
                k=(2, 3),
                speeds=RISING,
                chosen=choose_ratio_ordered,
            ),
            most_have_one_type,
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-noncooperative",),
        instead="oef/one-type-vertex",
        note='"Most" is read as more than half.',
    ),
    Claim(
        key="oef/one-type-vertex",
        place="section 4.4",
        statement="At a vertex optimum of non-cooperative OEF at most $k - 1$ tenants have several types of GPUs.",
        quote="Furthermore, we provide a theoretical finding that, with OEF, only a few users and their "
        "respective jobs will experience the straggler effect.",
        procedure=ForAll(tenant_space(), lambda c: several_types(c, c.noncooperative)),
        expected=ClaimVerdict.TRUE,
        printed=False,
        policies=("oef-noncooperative",),
        proof="Of the at most $n + k - 1$ shares above 0 (`oef/nonzeros-vertex`) every user has one, as $t^* > 0$. So "
        "at most $k - 1$ users have further ones.",
    ),
    Claim(
        key="oef/nonzeros-cooperative",
        place="section 4.4",
        statement=r"The optimum of cooperative OEF has at most $n + k - 1$ shares above 0.",
        quote="According to the Extreme Point Theorem [32], the allocation matrix produced by OEF contains a "
        "maximum of $(n + m - 1)$ nonzero elements.",
        procedure=ForAll(
            tenant_space(rising),
            lambda c: shares_above_zero(c, c.cooperative, decided=c.cooperative.unique),
        ),
        expected=ClaimVerdict.FALSE,
        policies=("oef-cooperative",),
        instead="oef/nonzeros-vertex",
        note="The program has a row for every pair of users. With a row for every user, as in non-cooperative OEF, the "
        "bound holds: `oef/nonzeros-vertex`.",
    ),
)
