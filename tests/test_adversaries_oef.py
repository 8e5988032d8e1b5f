"""Adversaries of OEF: they find the known counterexamples and planted errors, and no fault in true claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from adversary_cases import some_cases
from ledger_cases import stored_case

import hetopt
from hetopt.models import baselines
from hetopt.models.ceei import equal_budgets
from hetopt.proofs.adversaries import oef_optima as optima
from hetopt.proofs.adversaries import oef_rules as rules
from hetopt.proofs.adversaries.linear_optima import Form, Lines, Program, compare, holds_unless, require
from hetopt.proofs.adversaries.oef_optima import Market, Tenants, every_optimum
from hetopt.proofs.oef.compositions import HeldGPUsCase
from hetopt.proofs.oef.misreport_cases import MisreportCase
from hetopt.proofs.oef.share_rounding import ConstantShares
from hetopt.proofs.oef.tenant_cases import TenantCase
from hetopt.proofs.oef.weights_and_job_types import MultiTypeCase
from hetopt.tolerances import EQUAL

pytest.importorskip("z3")

F = Fraction
PAPER = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
"""[OEF, eq. 6]."""

IDENTICAL = TenantCase(((F(1), F(2)),) * 2, (F(1), F(1)))


@pytest.mark.parametrize(
    ("program", "fault", "false"),
    [
        (optima.equal_rates, optima.envy, "table-1-noncooperative-envy"),
        (optima.equal_rates, optima.below_part, "table-1-noncooperative-sharing"),
        (optima.gavel, optima.envy, "table-1-gavel-envy"),
        (optima.gavel, optima.dominated, "table-1-gavel-pareto"),
        (optima.envy_free, optima.not_twice, "weights-twice-cooperative"),
    ],
)
def test_conditions_on_every_optimum_find_the_faults_of_other_programs(
    program: optima.Choice, fault: optima.Negation, false: str
) -> None:
    assert every_optimum(program, fault)(stored_case(f"oef/{false}")) < 0


def fastest_first(users: Tenants) -> Program:
    return users.program((), users.rate(0))


@pytest.mark.parametrize(
    ("program", "fault"),
    [
        (fastest_first, optima.dominated),  # the other user counts with the weight 0
        (fastest_first, optima.idle),
        (optima.gavel_without_row, optima.values_all_less),
        (optima.gavel_without_row, optima.off_its_part),
    ],
)
def test_conditions_on_every_optimum_find_planted_errors(program: optima.Choice, fault: optima.Negation) -> None:
    useless = TenantCase(((F(1), F(0)), (F(1), F(3))), (F(1), F(1)))
    assert min(every_optimum(program, fault)(case) for case in (PAPER, useless)) < 0


@pytest.mark.parametrize(
    "program", [optima.equal_rates, optima.envy_free, optima.sharing, optima.gavel, optima.sorted_shares]
)
@pytest.mark.parametrize("key", ["oef/totals", "oef/lemma-3.1-ratio"])
def test_prices_prove_the_optimum_of_highs(program: optima.Choice, key: str) -> None:
    for case in some_cases(key, 5):
        one = program(Tenants.of(case))
        assert float(one.value) == pytest.approx(one.value_in_floats, rel=EQUAL)


def test_totals_of_the_paper() -> None:
    users = Tenants.of(PAPER)
    assert [users.envy_free.value, users.free.value] == [F(21, 4), 6]
    reported = Tenants.of(replace(PAPER, speed=((F(1), F(4)), PAPER.speed[1])))
    assert users.values(reported.envy_free.optimum) == [[1, F(3, 8)], [0, F(5, 8)]]


def test_equal_budgets_are_those_of_the_library() -> None:
    for case in some_cases("oef/totals-equal-budgets", 5):
        rates = [float(rate) for rate in Market(Tenants.of(case)).rates]
        assert np.asarray(hetopt.solve(equal_budgets(), case.instance).rate) == pytest.approx(rates, rel=EQUAL)


def test_every_equilibrium_is_considered() -> None:
    def some_slow(users: Tenants) -> Lines:
        return require(compare(users.share(0, 0), ">", Form()))

    def no_slow(users: Tenants) -> Lines:
        return require(compare(users.share(0, 0), "=", Form()))

    users = Tenants.of(IDENTICAL)
    assert (
        holds_unless(Market(users).equilibrium, some_slow(users))
        == holds_unless(Market(users).equilibrium, no_slow(users))
        < 0
    )


def test_misreports_with_more_gpus_pay() -> None:
    truth = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
    reported = TenantCase(((F(1), F(3)), (F(1), F(5))), (F(1), F(2)))
    case = MisreportCase(truth, reported)
    assert optima.largest_mean(case) < 0
    assert optima.all_gain(case) < 0
    assert optima.gain_by_trades(case) < 0


def test_an_under_report_of_the_only_user_does_not_pay() -> None:
    assert optima.under_reports(TenantCase(((F(1), F(2)),), (F(1), F(1)))) < 0


def test_wrong_weights_of_job_types_are_found() -> None:
    rows = ((F(1), F(2)), (F(1), F(3)), (F(1), F(5)))
    assert optima.envy_of_users(MultiTypeCase(TenantCase(rows, (F(1), F(1)), (F(1), F(1), F(1))), 2)) < 0
    assert optima.surplus_of_users(MultiTypeCase(TenantCase(rows, (F(1), F(1)), (F(1, 9), F(1, 9), F(1))), 2)) < 0


def test_weights_are_copies() -> None:
    users = Tenants.of(replace(PAPER, weight=(F(1), F(3, 2))))
    many, units = optima.copied(users)
    assert (len(many.speed), units) == (5, 2)
    assert optima.level_of_copies(replace(PAPER, weight=(F(1), F(2)))) == 0
    assert Tenants.of(replace(PAPER, weight=(F(1), F(2)))).level == F(15, 8) - F(5, 24)


def test_a_price_without_rows_of_envy_leaves_envy() -> None:
    case = HeldGPUsCase(PAPER, (F(1, 2), F(0)), F(1, 2))
    assert optima.envy_with_price(case, lambda users: users.free) < 0


def test_vertices() -> None:
    users = Tenants.of(IDENTICAL)
    assert optima.is_vertex(users, [[F(1), F(1, 4)], [F(0), F(3, 4)]])
    assert not optima.is_vertex(users, [[F(1, 2), F(1, 2)], [F(1, 2), F(1, 2)]])
    assert len({str(share) for share in optima.vertices(users, 8)}) == 2


def test_trades() -> None:
    case = TenantCase(((F(1), F(2)), (F(1), F(3)), (F(1), F(4))), (F(1), F(1)))  # [OEF, eq. 1]
    share = rules.traded(case.speed, case.gpus, [(0, 1)], last_first=False)
    assert [[round(float(x), 2) for x in row] for row in share] == [[1, 0.09], [0, 0.47], [0, 0.44]]
    assert not rules.exchangeable(case, share)
    assert rules.exchangeable(case, [[F(1, 3), F(1, 3)]] * 3)
    assert rules.exchangeable(case, [[F(1), F(0)], [F(0), F(1, 2)], [F(0), F(0)]])


@pytest.mark.parametrize("ideal", [(F(2, 3), F(2, 3)), (F(1, 3), F(1, 3))])
def test_deadlines_fail_for_other_sums_of_shares(ideal: tuple[F, ...]) -> None:
    assert rules.earliest_deadlines(ConstantShares(ideal, 1, (1, 1))) < 0


def test_rounding_of_other_shares() -> None:
    assert rules.rounded_deviation(ConstantShares((F(1, 2),), 1, (1,))) == 0
    assert rules.least_room([(0, 0), (2, 0)], [(0, 3)]) < 0  # not a mean of usable points


def test_conditions_without_an_optimum_are_an_error() -> None:
    impossible = ["(assert false)"]
    with pytest.raises(ValueError, match="contradict each other"):
        holds_unless(impossible, ["(assert true)"])


@pytest.mark.parametrize("slack", [optima.equal_split_envy, optima.equal_split_surplus])
def test_another_policy_than_the_equal_split_is_refuted(slack: Callable[[Any], Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(optima.baselines, "equal_split", baselines.efficiency_only)
    assert slack(PAPER) < -EQUAL


def test_a_policy_under_which_reports_pay_is_refuted(monkeypatch: Any) -> None:
    reported = replace(PAPER, speed=((F(1), F(6)), PAPER.speed[1]))
    case = SimpleNamespace(truth=PAPER, reported=reported)
    assert optima.equal_split_after_reports(case) == pytest.approx(0, abs=EQUAL)
    monkeypatch.setattr(optima.baselines, "equal_split", baselines.efficiency_only)
    assert optima.equal_split_after_reports(case) < -EQUAL


Slack = Callable[[Any], Any]


@pytest.mark.parametrize(
    "slack", [optima.equal_split_envy, optima.equal_split_surplus, optima.order_of_totals, optima.total_of_copies]
)
def test_slacks_of_identical_users_are_0(slack: Slack) -> None:
    assert slack(IDENTICAL) == pytest.approx(0, abs=EQUAL)
