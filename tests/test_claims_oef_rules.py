"""OEF's claims about rules from the literature: equilibria, the equal split, max-min ratios, and prices of envy."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from ledger_cases import cases
from scipy.optimize import linprog

import hetopt
from hetopt.models.ceei import equal_budgets
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.oef import baseline_rules, envy_and_sharing, textbook_rules
from hetopt.proofs.oef.envy_and_sharing import ANY, WEIGHTED
from hetopt.proofs.oef.misreport_cases import MisreportCase
from hetopt.proofs.oef.tenant_cases import TenantCase, tenant_space
from hetopt.proofs.oef.textbook_rules import Equilibrium
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=25, deadline=None)
EQ_6 = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))


@FEW
@given(cases(textbook_rules.equilibrium_space()))
def test_equilibria_have_the_rates_of_the_policy(case: Equilibrium) -> None:
    """The rates of an equilibrium are unique, and the policy computes them by a convex program."""
    found = hetopt.solve(equal_budgets(), case.instance)
    scale = float(case.instance.entities("tenants").capacity[0] / float(case.tenants.gpus[0]))
    whole = np.array([float(case.tenants.worth(e, case.tenants.gpus)) for e in range(case.tenants.n)])
    rates = np.array(case.tenants.rates(case.share), dtype=float)
    assert np.asarray(found.rate) / scale / whole == pytest.approx(rates / whole, rel=1000 * EQUAL)


def test_equilibria_by_hand() -> None:
    """Eq. (6): prices 2/3 and 4/3; u1 buys GPU1 and 1/4 of GPU2, u2 the rest."""
    share = ((F(1), F(1, 4)), (F(0), F(3, 4)))
    market = Equilibrium(EQ_6, share, (F(2, 3), F(4, 3)))
    assert market.clears()
    assert market.optimum.total == F(3, 2) + F(15, 4)
    assert not replace(market, price=(F(1), F(1))).clears()  # u1 does not buy what is best for its cost
    assert not replace(market, share=((F(1), F(0)), (F(0), F(1)))).clears()  # budgets are not spent
    assert not replace(market, tenants=replace(EQ_6, gpus=(F(1), F(2)))).clears()  # GPU2 is left over


def test_numbers_without_a_buyer_are_no_equilibrium() -> None:
    space = textbook_rules.equilibrium_space()

    def accepted(*spent: tuple[int, int]) -> bool:
        value = [[F(1)] * 2] * 2
        numbers = CaseNumbers.of(price=[F(1), F(2)], spent=[list(map(F, row)) for row in spent], value=value)
        return space.case(numbers) is not None

    assert accepted((1, 1), (0, 1))
    assert not accepted((1, 1), (0, 0))
    assert not accepted((0, 1), (0, 1))


def test_the_equal_split_by_hand() -> None:
    found = textbook_rules.equal_split(EQ_6)
    assert found.share == ((F(1, 2),) * 2,) * 2
    assert found.total == F(3, 2) + 3
    assert textbook_rules.unmoved(MisreportCase(EQ_6, EQ_6.reporting(0, (F(1), F(4))))).slack == 0


@FEW
@given(cases(tenant_space(n=(2, 3), k=(1, 3))))
def test_max_min_ratios_are_those_of_scipy(case: TenantCase) -> None:
    """Without Gavel's row, and with it: the largest smallest ratio to the equal split."""
    n, k = case.n, case.k
    w, gpus = np.array(case.speed, dtype=float), np.array(case.gpus, dtype=float)
    rows, right = [np.append(np.tile(np.eye(k)[j], n), 0) for j in range(k)], [*gpus]
    for e in range(n):
        row = np.zeros((n, k))
        row[e] = -w[e]
        rows.append(np.append(row.ravel(), w[e] @ gpus / n))
        right.append(0.0)
    for further in (False, True):
        if further:
            rows += [np.append(np.repeat(np.eye(n)[e], k), 0) for e in range(n)]
            right += [1.0] * n
        least = -linprog([*[0.0] * (n * k), -1.0], np.array(rows), right).fun
        found = baseline_rules.gavel(case) if further else baseline_rules.max_min(case)
        ratio = min(rate / (case.worth(e, case.gpus) / n) for e, rate in enumerate(case.rates(found.share)))
        assert float(ratio) == pytest.approx(least, rel=EQUAL)
        assert all(sum(column) <= m for column, m in zip(zip(*found.share, strict=True), case.gpus, strict=True))


def test_max_min_by_hand() -> None:
    """Eq. (6): ratio 15/13, where u1 has GPU1 and 19/52 of GPU2."""
    found = baseline_rules.max_min(EQ_6)
    rates = EQ_6.rates(found.share)
    assert rates[0] / F(3, 2) == rates[1] / 3
    assert found.share[0][0] == 1
    assert 1 + 2 * found.share[0][1] == rates[0]
    assert 5 * (1 - found.share[0][1]) == rates[1]


@FEW
@given(cases(WEIGHTED))
def test_prices_of_envy_prove_the_total_that_scipy_finds(case: TenantCase) -> None:
    n, k = case.n, case.k
    w, pi = np.array(case.speed, dtype=float), np.array(case.weights, dtype=float)
    rows, right = [np.tile(np.eye(k)[j], n) for j in range(k)], [float(m) for m in case.gpus]
    for e, o in permutations(range(n), 2):
        row = np.zeros((n, k))
        row[e], row[o] = -pi[o] * w[e], pi[e] * w[e]
        rows.append(row.ravel())
        right.append(0.0)
    best = -linprog(-w.ravel(), np.array(rows), right).fun
    assert float(case.cooperative.total) == pytest.approx(best, rel=EQUAL)
    assert envy_and_sharing.largest_of_envy_free(case).slack == 0


@FEW
@given(cases(ANY))
def test_wrong_prices_prove_nothing(case: TenantCase) -> None:
    """Without the price of the first type, or with a smaller total, the check fails."""
    found = case.cooperative
    if found.dual[0]:
        other = replace(case)
        other.__dict__["cooperative"] = replace(found, dual=(F(0), *found.dual[1:]))
        assert envy_and_sharing.largest_of_envy_free(other).slack < 0
    other = replace(case)
    other.__dict__["cooperative"] = replace(found, total=found.total - 1)
    assert envy_and_sharing.largest_of_envy_free(other).slack == -1
