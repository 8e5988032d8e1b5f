"""OEF's claims: each verdict, and the exact optima behind them against the library and by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ledger_cases import cases

import hetopt
from hetopt.auditing import adjacent_types, envy_free, pareto_efficient, sharing_incentive
from hetopt.decisions.rounders import PrintedWholeGPUs
from hetopt.models import baselines, gavel, oef
from hetopt.models.gandiva_fair import GandivaFair
from hetopt.models.gavel.gavel_components import TimeFraction
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import CaseNumbers
from hetopt.proofs.oef import adjacency, baseline_rules, property_table, share_rounding, vertices, weights_and_job_types
from hetopt.proofs.oef import misreport_cases as misreports
from hetopt.proofs.oef import profitable_misreports as strategy_proofness
from hetopt.proofs.oef.envy_and_sharing import WEIGHTED, idle, least_surplus, most_envy
from hetopt.proofs.oef.pareto_efficiency import efficient
from hetopt.proofs.oef.tenant_cases import (
    Optimum,
    TenantCase,
    positive,
    ratio_ordered,
    relative,
    some_gpus,
    tenant_space,
    weakly_ratio_ordered,
)
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=40, deadline=None)


ANY = cases(tenant_space(speeds=tuple(F(v, 2) for v in range(11)), k=(1, 3)))
POSITIVE = cases(tenant_space(positive, k=(1, 3)))


# -- optima: this small simplex method against the library's exact optima -------------------------------------------


@FEW
@given(ANY)
def test_optima_are_those_of_the_library(case: TenantCase) -> None:
    for what, found in (
        (oef.cooperative(), case.cooperative),
        (oef.noncooperative(), case.noncooperative),
        (baselines.sharing_incentive_only(), case.sharing),
        (baselines.efficiency_only(), case.free),
    ):
        exact = hetopt.solve(what, case.instance, exact=True).certificate.exact
        assert exact is not None
        assert exact.share is not None
        share = tuple(tuple(row) for row in exact.share.tolist())
        assert sum(case.rates(share)) == found.total
        if found.unique and positive(case):  # shares that are worth nothing are fixed there and free here
            assert share == found.share
            assert exact.unique


@FEW
@given(cases(WEIGHTED))
def test_weighted_optima_are_those_of_the_library(case: TenantCase) -> None:
    for what, found in ((oef.cooperative(), case.cooperative), (oef.noncooperative(), case.noncooperative)):
        exact = hetopt.solve(what, case.instance, exact=True).certificate.exact
        assert exact is not None
        assert exact.objective == found.total


@FEW
@given(POSITIVE)
def test_findings_agree_with_the_audits(case: TenantCase) -> None:
    """The slack here is in throughput, that of an audit in parts of the throughput with the whole cluster."""
    for found in (case.cooperative, case.noncooperative, case.free):
        share = np.array([*map(list, found.share), None], dtype=object)[:-1]
        table = np.array(share.tolist(), dtype=object)
        whole = [case.worth(e, case.gpus) for e in range(case.n)]
        audits: list[tuple[Callable[..., hetopt.Verdict], Finding]] = [
            (envy_free, most_envy(case, found)),
            (sharing_incentive, least_surplus(case, found)),
            (pareto_efficient, efficient(case, found)),
            (adjacent_types, adjacency.adjacent(case, found)),
        ]
        for audit, finding in audits:
            verdict = audit(case.instance, table, exact=True)
            assert verdict.holds == (finding.slack >= 0)
            if audit is adjacent_types:
                assert verdict.exact == finding.slack
            elif audit in (envy_free, sharing_incentive) and not verdict.holds:
                assert verdict.exact is not None
                assert any(verdict.exact * w == finding.slack for w in whole) or verdict.exact < 0 > finding.slack
        assert idle(case, found).slack == 0 or found is not case.cooperative


@FEW
@given(cases(tenant_space(positive, n=(2, 3), k=(3, 3), speeds=(F(1), F(2), F(3)))))
def test_the_worst_gap_is_no_smaller_than_that_of_any_optimum(case: TenantCase) -> None:
    """Optima by other objectives, of all orders of users, are among those that are looked at."""
    worst = -adjacency.adjacent_everywhere(case, cooperative=False).slack
    rows = case.equal_rows()
    for order in permutations(range(case.n)):
        gain = [order[e] * (j % 2 + 1) for e in range(case.n) for j in range(case.k)]
        other = case.best_of(gain, rows)
        assert case.rates(other.share) == (case.level,) * case.n
        size, _ = adjacency.gap(case, other)
        assert size <= worst


def test_filling_and_gaps_by_hand() -> None:
    case = TenantCase(((F(1), F(2), F(4)), (F(1), F(4), F(5))), (F(1), F(1), F(1)))
    found = case.noncooperative
    assert found.share == ((1, 0, F(8, 9)), (0, 1, F(1, 9)))
    assert found.unique
    assert adjacency.misplaced(case, found) == F(8, 9)
    assert adjacency.gap(case, found) == (F(8, 9), 0)
    full = Optimum(((F(1), F(1), F(1, 2)), (F(0), F(0), F(1, 2))), F(0), True, ())
    assert adjacency.misplaced(case, full) == 0
    assert adjacency.gap(case, full) == (0, 0)
    holes = Optimum(((F(1, 2), F(0), F(1)), (F(1, 2), F(1), F(0))), F(0), True, ())
    assert adjacency.misplaced(case, holes) == 1  # all of GPU3 before any of GPU2
    assert adjacency.gap(case, holes) == (F(1, 2), 0)


@FEW
@given(cases(tenant_space(positive, n=(2, 3), k=(2, 3))), st.integers(0, 2**20))
def test_no_optimum_is_further_out_of_order_than_claimed(case: TenantCase, seed: int) -> None:
    """For the non-cooperative and the sharing-incentive program: random corners of the face, and means of two."""
    rng = np.random.default_rng(seed)
    for found, rows in (
        (case.noncooperative, case.equal_rows()),
        (case.sharing, case.sharing_rows()),
        (case.cooperative, case.envy_rows()),
    ):
        kept = [*rows, case.total_row(found.total)]
        corners = [case.best_of([int(v) for v in rng.integers(-3, 4, case.n * case.k)], kept) for _ in range(3)]
        ordered = adjacency.filled_everywhere(case, found, rows).slack == 0
        for one in [found, *corners]:
            assert sum(case.rates(one.share)) == found.total
            assert adjacency.misplaced(case, one) == 0 or not ordered
        if found.unique:
            assert ordered == (adjacency.misplaced(case, found) == 0)


def test_the_face_of_optima_by_hand() -> None:
    """Two alike on two types: of the optima some give u1 half of GPU2 and not all of GPU1."""
    alike = TenantCase(((F(1), F(2)),) * 2, (F(1), F(1)))
    worst = adjacency.filled_everywhere(alike, alike.noncooperative, alike.equal_rows())
    assert worst.slack < 0
    assert adjacency.served_in_order(alike).slack < 0
    unlike = TenantCase(((F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    assert adjacency.filled_everywhere(unlike, unlike.noncooperative, unlike.equal_rows()).slack == 0
    assert adjacency.served_in_order(unlike).slack == 0


def test_weights_second_prices_and_several_types_by_hand() -> None:
    """Eq. (6) with u2 twice: 1 and 5 with envy-freeness; eq. (1) with u3 reporting 2.5; two of four with two types."""
    eq_6 = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)), (F(1), F(2)))
    assert eq_6.rates(eq_6.cooperative.share) == (1, 5)
    assert weights_and_job_types.twice_as_much(eq_6, eq_6.cooperative).slack == -3
    assert weights_and_job_types.twice_as_much(eq_6, eq_6.noncooperative).slack == 0
    eq_1 = TenantCase(((F(1), F(4)), (F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    lie = property_table.misreport_gains(
        misreports.MisreportCase(eq_1, eq_1.reporting(0, (F(1), F(5, 2)))), property_table.by_gandiva_fair
    )
    assert lie.slack == F(16, 9) - F(52, 27)
    rows = ((1, F(3, 2), F(9, 4)), (1, 2, 4), (1, 3, F(15, 2)), (1, 5, F(35, 2)))
    four = TenantCase(tuple(tuple(map(F, row)) for row in rows), (F(3), F(4), F(3)))
    assert vertices.with_several(four.noncooperative) == 2
    assert vertices.most_have_one_type(four).refutes
    assert vertices.several_types(four, four.noncooperative).slack == 0


def test_order_of_ratios_by_hand() -> None:
    one = TenantCase(((F(1), F(2), F(4)), (F(1), F(3), F(9))), (F(1), F(1), F(1)))
    assert ratio_ordered(one)
    assert not ratio_ordered(TenantCase(one.speed[::-1], one.gpus))
    assert not ratio_ordered(TenantCase(((F(1), F(2), F(4)), (F(1), F(4), F(5))), one.gpus))
    assert not ratio_ordered(TenantCase((one.speed[0], one.speed[0]), one.gpus))


def test_speedups_relative_to_the_first_type_are_needed() -> None:
    """Three claims fail for other scales of the users' speedups, by the examples in their notes."""
    ordered = TenantCase(tuple((F(a), F(b)) for a, b in ((18, 27), (18, 30), (6, 16))), (F(2), F(1)))
    assert ratio_ordered(ordered)
    assert not relative(ordered)
    found = adjacency.filled(ordered, ordered.cooperative)
    assert (found.decided, found.slack) == (True, -F(5, 24))
    ties = TenantCase(tuple(tuple(map(F, row)) for row in ((2, 2, 1), (1, 1, 1))), (F(1),) * 3)
    assert weakly_ratio_ordered(ties)
    assert adjacency.sorted_optimum(ties).slack == -1
    three = TenantCase(tuple((F(a), F(b)) for a, b in ((6, 2), (12, 16), (6, 9))), (F(1), F(1)))
    dominated = efficient(three, three.cooperative)
    assert dominated.decided
    assert dominated.slack < 0


def test_types_without_gpus_separate_the_types_of_a_tenant() -> None:
    empty = TenantCase(((F(1), F(2), F(4)),), (F(1), F(0), F(1)))
    assert not some_gpus(empty)
    assert some_gpus(replace(empty, gpus=(F(1),) * 3))
    space = tenant_space(some_gpus, n=(1, 1), k=(3, 3))
    assert space.case(CaseNumbers.of(speed=[[F(2), F(4)]], gpus=[F(1), F(0), F(1)])) is None
    assert space.case(CaseNumbers.of(speed=[[F(2), F(4)]], gpus=[F(1), F(1), F(1)])) is not None
    assert space.case(CaseNumbers.of(speed=[[F(0), F(4)]], gpus=[F(1), F(1), F(1)])) is None


# -- lies ------------------------------------------------------------------------------------------------------------


@FEW
@given(misreports.misreport_space(misreports.any_report, k=(2, 2)).strategy())
def test_a_misreport_gains_what_the_library_computes(drawn: tuple[object, misreports.MisreportCase]) -> None:
    case = drawn[1]
    assume(case.reported.noncooperative.unique and case.truth.noncooperative.unique)
    finding = strategy_proofness.noncooperative(case)
    rates = []
    for instance in (case.truth.instance, case.reported.instance):
        exact = hetopt.solve(oef.noncooperative(), instance, exact=True).certificate.exact
        assert exact is not None
        assert exact.share is not None
        rates.append(case.truth.worth(0, exact.share[0].tolist()))
    assert finding.slack == rates[0] - rates[1]


def test_misreporters_are_tenants_with_a_different_report() -> None:
    truth = TenantCase(((F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    case = misreports.MisreportCase(truth, truth.reporting(1, (F(1), F(5))))
    assert case.misreporters == (1,)
    assert all(misreports.over(a, b) for a, b in zip(truth.speed[1], case.reported.speed[1], strict=True))
    both = misreports.MisreportCase(truth, truth.reporting(1, (F(1), F(5))).reporting(0, (F(1), F(4))))
    assert misreports.gain(both, truth.cooperative, both.reported.cooperative)[0] == min(
        both.truth.worth(e, both.reported.cooperative.share[e]) - truth.worth(e, truth.cooperative.share[e])
        for e in (0, 1)
    )


def test_misreports_of_the_paper_pay_what_it_prints() -> None:
    """W = (1,2), (1,4), u1 reports 3: 3/2 to 5/3; W = (1,2), (1,5), u2 reports 1: 15/7 to 8/3 (non-cooperative)."""
    fig = TenantCase(((F(1), F(2)), (F(1), F(4))), (F(1), F(1)))
    assert strategy_proofness.cooperative(misreports.MisreportCase(fig, fig.reporting(0, (F(1), F(3))))).slack == F(
        3, 2
    ) - F(5, 3)
    low = TenantCase(((F(1), F(5)), (F(1), F(2))), (F(1), F(1)))
    assert strategy_proofness.noncooperative(misreports.MisreportCase(low, low.reporting(0, (F(1), F(1))))).slack == F(
        15, 7
    ) - F(8, 3)
    fake = TenantCase(((F(1), F(2)), (F(1), F(5)), (F(1), F(1))), (F(1), F(1)), (F(1, 2), F(1), F(1, 2)))
    truth = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
    assert strategy_proofness.with_false_type(misreports.MisreportCase(truth, fake)).slack == F(15, 7) - F(41, 19)


# -- rivals ----------------------------------------------------------------------------------------------------------


@FEW
@given(POSITIVE)
def test_gandiva_fair_is_that_of_the_library(case: TenantCase) -> None:
    share, trades = baseline_rules.gandiva_fair(case)
    there, done = GandivaFair().trades(case.instance)
    assert np.array(share, dtype=float) == pytest.approx(there, abs=EQUAL)
    assert [(t.buyer, t.seller, t.slow, t.fast) for t in trades] == [(t.buyer, t.seller, t.slow, t.fast) for t in done]


@FEW
@given(cases(tenant_space(lambda c: positive(c) and sum(c.gpus) <= c.n, n=(2, 4), k=(1, 3))))
def test_gavel_is_that_of_the_library(case: TenantCase) -> None:
    """Its level: the least ratio to the equal split, with the row on time."""
    found = baseline_rules.gavel(case)
    fair = [case.worth(e, case.gpus) / case.n for e in range(case.n)]
    least = min(rate / part for rate, part in zip(case.rates(found.share), fair, strict=True))
    policy = gavel.max_min_fairness()
    policy = policy.without("time_fraction") if "time_fraction" in policy.names else policy
    other = hetopt.solve(policy + TimeFraction(tenant_gpus=1.0), case.instance)
    assert float(least) == pytest.approx(min(other.rate / np.array(fair, dtype=float)), rel=EQUAL)
    assert all(sum(row) <= 1 for row in found.share)


# -- users, vertices, rounds -----------------------------------------------------------------------------------------


def test_copies_by_hand() -> None:
    case = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)), (F(1), F(3, 2)))
    many, factor = weights_and_job_types.copies(case)
    assert factor == 2
    assert many.speed == (case.speed[0],) * 2 + (case.speed[1],) * 3
    two = TenantCase(case.speed, case.gpus, (F(1), F(2)))
    assert two.noncooperative.share == ((1, F(1, 3)), (0, F(2, 3)))
    assert weights_and_job_types.copies(two)[0].noncooperative.share == ((1, F(1, 3)), (0, F(1, 3)), (0, F(1, 3)))


def test_worth_to_a_user_with_two_job_types_by_hand() -> None:
    pairs = TenantCase(((F(1), F(2)), (F(1), F(4)), (F(1), F(3))), (F(1), F(1)), (F(1, 2), F(1, 2), F(1)))
    case = weights_and_job_types.MultiTypeCase(pairs, 2)
    assert case.reused((F(1), F(1))) == 5
    assert case.split((F(1), F(1))) == (3 + 5) / F(2)


def test_most_shares_are_those_of_the_middle_of_all_optima() -> None:
    alike = TenantCase(((F(1), F(2)), (F(1), F(2))), (F(1), F(1)))
    assert vertices.most_shares(alike).slack == -1
    apart = TenantCase(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
    assert vertices.most_shares(apart).slack == 0  # unique: (1, 4/7), (0, 3/7)


@FEW
@given(share_rounding.constant_shares_space().strategy())
def test_the_printed_rounding_is_that_of_the_library(drawn: tuple[object, share_rounding.ConstantShares]) -> None:
    case = drawn[1]
    x = np.array([[float(v)] for v in case.ideal])
    given_ = baselines.by_rule(case.instance.entities("tenants"), x, "shares", 0.0)
    state, made = None, []
    for _ in range(8):
        plan, state = PrintedWholeGPUs(starvation_rule=False)(given_, case.instance, state)
        made.append(tuple(int(v) for v in plan.x[:, 0]))
    ours = case.printed(starve=False)[:8]
    halves = any(
        ((t + 1) * i - sum(row[e] for row in ours[:t])) % 1 == F(1, 2)
        for t in range(8)
        for e, i in enumerate(case.ideal)
    )
    assert made == ours or halves  # only a half, or what floats make of it, may go either way


def test_rounding_by_hand() -> None:
    half = share_rounding.ConstantShares((F(1, 2), F(1, 2)), 1, (1, 1))
    assert half.printed(starve=False)[:4] == [(1, 1), (0, 0), (1, 1), (0, 0)]
    assert half.by_library()[:4] == [(1, 0), (0, 1), (1, 0), (0, 1)]
    assert share_rounding.deviation(half, half.by_library()) == F(1, 2)
    starving = share_rounding.ConstantShares((F(1), F(1)), 2, (2, 2))
    assert starving.printed(starve=True)[:2] == [(0, 0), (2, 2)]
    assert share_rounding.within_capacity(starving, starve=True).slack == -2
