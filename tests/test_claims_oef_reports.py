"""OEF's claims about misreports: prices of users, groups, payments and under-reports, by hand and by scipy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ledger_cases import cases
from scipy.optimize import linprog

from hetopt.proofs.oef import profitable_misreports as strategy_proofness
from hetopt.proofs.oef.misreport_cases import MisreportCase, any_report, misreport_space, over
from hetopt.proofs.oef.tenant_cases import TenantCase, tenant_space
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=30, deadline=None)
EQ_6 = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
"""Non-cooperative OEF gives (1, 4/7) and (0, 3/7), 15/7 each."""

FASTER_FIRST = TenantCase(EQ_6.speed[::-1], EQ_6.gpus)


def largest_level(speed: list[list[float]], gpus: list[float]) -> float:
    """By scipy: the largest rate that all can have."""
    n, k = len(speed), len(gpus)
    rows, right = [], []
    for j in range(k):
        rows.append([float(c % k == j and c < n * k) for c in range(n * k + 1)])
        right.append(gpus[j])
    for e, row in enumerate(speed):
        rows.append([*(-row[c % k] if c // k == e else 0.0 for c in range(n * k)), 1.0])
        right.append(0.0)
    found = linprog([*[0.0] * (n * k), -1.0], rows, right)
    return -float(found.fun)


@FEW
@given(cases(tenant_space(n=(2, 3), k=(1, 3))))
def test_prices_of_users_prove_the_level(case: TenantCase) -> None:
    """With p_j the largest lambda_l w_l^j, t <= sum lambda_l w_l x_l <= p m for every allocation."""
    part = strategy_proofness.row_prices(case)
    assert sum(part) == 1
    assert min(part) >= 0
    prices = [max(a * row[j] for a, row in zip(part, case.speed, strict=True)) for j in range(case.k)]
    assert sum(p * m for p, m in zip(prices, case.gpus, strict=True)) == case.level


def test_the_weighted_mean_by_hand() -> None:
    """Prices 5/7 of u1 and 2/7 of u2; u2 reports (1, 1): t' = 4/3, and it truly has 8/3."""
    assert strategy_proofness.row_prices(EQ_6) == (F(5, 7), F(2, 7))
    case = MisreportCase(FASTER_FIRST, FASTER_FIRST.reporting(0, (F(1), F(1))))
    assert case.reported.level == F(4, 3)
    found = strategy_proofness.weighted_mean(case)
    assert found.slack == F(15, 7) - F(5, 7) * F(4, 3) - F(2, 7) * F(8, 3)


@FEW
@given(cases(misreport_space(any_report, all_misreport=True, n=(2, 3))))
def test_a_group_has_the_level_that_scipy_finds_with_its_gpus(case: MisreportCase) -> None:
    group, share = case.misreporters, np.array(case.reported.noncooperative.share, dtype=float)
    speed = [[float(w) for w in case.truth.speed[e]] for e in group]
    best = largest_level(speed, share[list(group)].sum(axis=0).tolist())
    found = strategy_proofness.after_trades(case)
    assert float(case.truth.level - found.slack) == pytest.approx(best, rel=EQUAL, abs=EQUAL)


def test_one_misreporting_user_cannot_trade() -> None:
    """u2 reports (1, 1) and truly has 8/3."""
    case = MisreportCase(FASTER_FIRST, FASTER_FIRST.reporting(0, (F(1), F(1))))
    assert strategy_proofness.after_trades(case).slack == F(15, 7) - F(8, 3)


def test_payments_by_hand() -> None:
    """u1 reports 3 and gets (1, 1/2): it has 2 instead of 15/7, and u2 has 5/2."""
    case = MisreportCase(EQ_6, EQ_6.reporting(0, (F(1), F(3))))
    found = strategy_proofness.with_payments(case)
    assert found.decided
    assert found.slack == 2 * F(15, 7) - 2 - F(5, 2)


@FEW
@given(cases(misreport_space(over, n=(2, 3))))
def test_payments_cannot_exceed_what_the_other_users_gain(case: MisreportCase) -> None:
    """The user that over-reports does not gain, so the pair gains at most what the honest user does."""
    found = strategy_proofness.with_payments(case)
    assert -found.slack <= case.reported.level - case.truth.level


def test_under_reports_by_hand() -> None:
    """A part of 1/16: u1 reports 15/8 and gains 8/385, u2 reports 75/16 and gains 75/749."""
    assert strategy_proofness.nondegenerate(EQ_6)
    found = strategy_proofness.under_reports_pay(EQ_6)
    assert found.slack == F(8, 385)
    u2 = TenantCase(EQ_6.speed, EQ_6.gpus).reporting(1, (F(1), F(75, 16)))
    assert EQ_6.worth(1, u2.noncooperative.share[1]) - EQ_6.level == F(75, 749)
    alike = TenantCase((EQ_6.speed[0],) * 2, EQ_6.gpus)
    assert not strategy_proofness.nondegenerate(alike)
    single = TenantCase(((F(1), F(2)),), EQ_6.gpus)
    assert strategy_proofness.under_reports_pay(single).slack < 0  # one user has everything in any case


@FEW
@given(cases(tenant_space(strategy_proofness.nondegenerate, n=(2, 3), k=(2, 3))), st.integers(0, 8))
def test_a_small_under_report_gains_what_the_proof_states(case: TenantCase, choice: int) -> None:
    """(1 - lambda) delta x' exactly, as long as the same shares are positive."""
    held = [(e, j) for e in range(case.n) for j in range(1, case.k) if case.noncooperative.share[e][j]]
    assume(held)
    e, j = held[choice % len(held)]
    row = list(case.speed[e])
    concealed = row[j] / 1024
    row[j] -= concealed
    after = case.reporting(e, row).noncooperative.share
    same = [[bool(v) for v in own] for own in after] == [[bool(v) for v in own] for own in case.noncooperative.share]
    assume(same)
    gain = case.worth(e, after[e]) - case.level
    assert gain == (1 - strategy_proofness.row_prices(case)[e]) * concealed * after[e][j]
    assert gain > 0
