"""OEF's claims: each verdict, and the exact optima behind them against the library and by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ledger_cases import cases

import hetopt
from hetopt.auditing import adjacent_types, envy_free, pareto_efficient, sharing_incentive
from hetopt.decisions.whole_gpus import AsPrinted
from hetopt.models import baselines, gavel, oef
from hetopt.models.gandiva_fair import GandivaFair
from hetopt.models.gavel.gavel_components import TimeFraction
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.oef import lies, properties_table, reports, rivals, rounds, shapes, users, vertices
from hetopt.proofs.oef.efficiency import efficient
from hetopt.proofs.oef.fairness import WEIGHTED, idle, least_surplus, most_envy
from hetopt.proofs.oef.tenants import Optimum, Tenants, positive, ratio_ordered, tenants
from hetopt.tolerances import EQUAL

F = Fraction
FEW = settings(max_examples=40, deadline=None)


ANY = cases(tenants(speeds=tuple(F(v, 2) for v in range(11)), k=(1, 3)))
POSITIVE = cases(tenants(positive, k=(1, 3)))


# -- optima: this small simplex method against the library's exact optima -------------------------------------------


@FEW
@given(ANY)
def test_optima_are_those_of_the_library(case: Tenants) -> None:
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
def test_weighted_optima_are_those_of_the_library(case: Tenants) -> None:
    for what, found in ((oef.cooperative(), case.cooperative), (oef.noncooperative(), case.noncooperative)):
        exact = hetopt.solve(what, case.instance, exact=True).certificate.exact
        assert exact is not None
        assert exact.objective == found.total


@FEW
@given(POSITIVE)
def test_findings_agree_with_the_audits(case: Tenants) -> None:
    """The slack here is in throughput, that of an audit in parts of the throughput with the whole cluster."""
    for found in (case.cooperative, case.noncooperative, case.free):
        share = np.array([*map(list, found.share), None], dtype=object)[:-1]
        table = np.array(share.tolist(), dtype=object)
        whole = [case.worth(e, case.gpus) for e in range(case.n)]
        audits: list[tuple[Callable[..., hetopt.Verdict], Finding]] = [
            (envy_free, most_envy(case, found)),
            (sharing_incentive, least_surplus(case, found)),
            (pareto_efficient, efficient(case, found)),
            (adjacent_types, shapes.adjacent(case, found)),
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
@given(cases(tenants(positive, n=(2, 3), k=(3, 3), speeds=(F(1), F(2), F(3)))))
def test_the_worst_gap_is_no_smaller_than_that_of_any_optimum(case: Tenants) -> None:
    """Optima by other objectives, of all orders of users, are among those that are looked at."""
    worst = -shapes.adjacent_everywhere(case, cooperative=False).slack
    rows = case.equal_rows()
    for order in permutations(range(case.n)):
        gain = [order[e] * (j % 2 + 1) for e in range(case.n) for j in range(case.k)]
        other = case.best_of(gain, rows)
        assert case.rates(other.share) == (case.level,) * case.n
        size, _ = shapes.gap(case, other)
        assert size <= worst


def test_filling_and_gaps_by_hand() -> None:
    case = Tenants(((F(1), F(2), F(4)), (F(1), F(4), F(5))), (F(1), F(1), F(1)))
    found = case.noncooperative
    assert found.share == ((1, 0, F(8, 9)), (0, 1, F(1, 9)))
    assert found.unique
    assert shapes.out_of_order(case, found) == F(8, 9)
    assert shapes.gap(case, found) == (F(8, 9), 0)
    full = Optimum(((F(1), F(1), F(1, 2)), (F(0), F(0), F(1, 2))), F(0), True, ())
    assert shapes.out_of_order(case, full) == 0
    assert shapes.gap(case, full) == (0, 0)
    holes = Optimum(((F(1, 2), F(0), F(1)), (F(1, 2), F(1), F(0))), F(0), True, ())
    assert shapes.out_of_order(case, holes) == 1  # all of GPU3 before any of GPU2
    assert shapes.gap(case, holes) == (F(1, 2), 0)


@FEW
@given(cases(tenants(positive, n=(2, 3), k=(2, 3))), st.integers(0, 2**20))
def test_no_optimum_is_further_out_of_order_than_is_said(case: Tenants, seed: int) -> None:
    """For the non-cooperative and the sharing-incentive program: random corners of the face, and means of two."""
    rng = np.random.default_rng(seed)
    for found, rows in (
        (case.noncooperative, case.equal_rows()),
        (case.sharing, case.sharing_rows()),
        (case.cooperative, case.envy_rows()),
    ):
        kept = [*rows, case.total_row(found.total)]
        corners = [case.best_of([int(v) for v in rng.integers(-3, 4, case.n * case.k)], kept) for _ in range(3)]
        ordered = shapes.filled_everywhere(case, found, rows).slack == 0
        for one in [found, *corners]:
            assert sum(case.rates(one.share)) == found.total
            assert shapes.out_of_order(case, one) == 0 or not ordered
        if found.unique:
            assert ordered == (shapes.out_of_order(case, found) == 0)


def test_the_face_of_optima_by_hand() -> None:
    """Two alike on two types: of the optima some give u1 half of GPU2 and not all of GPU1."""
    alike = Tenants(((F(1), F(2)),) * 2, (F(1), F(1)))
    worst = shapes.filled_everywhere(alike, alike.noncooperative, alike.equal_rows())
    assert worst.slack < 0
    assert shapes.served_in_order(alike).slack < 0
    unlike = Tenants(((F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    assert shapes.filled_everywhere(unlike, unlike.noncooperative, unlike.equal_rows()).slack == 0
    assert shapes.served_in_order(unlike).slack == 0


def test_weights_second_prices_and_several_types_by_hand() -> None:
    """Eq. (6) with u2 twice: 1 and 5 with envy-freeness; eq. (1) with u3 reporting 2.5; two of four with two types."""
    eq_6 = Tenants(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)), (F(1), F(2)))
    assert eq_6.rates(eq_6.cooperative.share) == (1, 5)
    assert users.twice_as_much(eq_6, eq_6.cooperative).slack == -3
    assert users.twice_as_much(eq_6, eq_6.noncooperative).slack == 0
    eq_1 = Tenants(((F(1), F(4)), (F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    lie = properties_table.lie(lies.Lie(eq_1, eq_1.reporting(0, (F(1), F(5, 2)))), properties_table.by_gandiva_fair)
    assert lie.slack == F(16, 9) - F(52, 27)
    rows = ((1, F(3, 2), F(9, 4)), (1, 2, 4), (1, 3, F(15, 2)), (1, 5, F(35, 2)))
    four = Tenants(tuple(tuple(map(F, row)) for row in rows), (F(3), F(4), F(3)))
    assert vertices.with_several(four.noncooperative) == 2
    assert vertices.most_have_one_type(four).refutes
    assert vertices.several_types(four, four.noncooperative).slack == 0


def test_order_of_ratios_by_hand() -> None:
    one = Tenants(((F(1), F(2), F(4)), (F(1), F(3), F(9))), (F(1), F(1), F(1)))
    assert ratio_ordered(one)
    assert not ratio_ordered(Tenants(one.speed[::-1], one.gpus))
    assert not ratio_ordered(Tenants(((F(1), F(2), F(4)), (F(1), F(4), F(5))), one.gpus))
    assert not ratio_ordered(Tenants((one.speed[0], one.speed[0]), one.gpus))


# -- lies ------------------------------------------------------------------------------------------------------------


@FEW
@given(lies.lies(lies.anyhow, k=(2, 2)).strategy())
def test_a_lie_is_worth_what_the_library_gives(drawn: tuple[object, lies.Lie]) -> None:
    case = drawn[1]
    assume(case.told.noncooperative.unique and case.truth.noncooperative.unique)
    finding = reports.noncooperative(case)
    rates = []
    for instance in (case.truth.instance, case.told.instance):
        exact = hetopt.solve(oef.noncooperative(), instance, exact=True).certificate.exact
        assert exact is not None
        assert exact.share is not None
        rates.append(case.truth.worth(0, exact.share[0].tolist()))
    assert finding.slack == rates[0] - rates[1]


def test_liars_are_those_whose_report_differs() -> None:
    truth = Tenants(((F(1), F(2)), (F(1), F(3))), (F(1), F(1)))
    case = lies.Lie(truth, truth.reporting(1, (F(1), F(5))))
    assert case.liars == (1,)
    assert all(lies.over(a, b) for a, b in zip(truth.speed[1], case.told.speed[1], strict=True))
    assert not lies.under(F(2), F(3))
    both = lies.Lie(truth, truth.reporting(1, (F(1), F(5))).reporting(0, (F(1), F(4))))
    assert lies.gain(both, truth.cooperative, both.told.cooperative)[0] == min(
        both.truth.worth(e, both.told.cooperative.share[e]) - truth.worth(e, truth.cooperative.share[e]) for e in (0, 1)
    )


def test_papers_lies_pay_what_the_paper_says() -> None:
    """W = (1,2), (1,4), u1 reports 3: 3/2 to 5/3; W = (1,2), (1,5), u2 reports 1: 15/7 to 8/3 (non-cooperative)."""
    fig = Tenants(((F(1), F(2)), (F(1), F(4))), (F(1), F(1)))
    assert reports.cooperative(lies.Lie(fig, fig.reporting(0, (F(1), F(3))))).slack == F(3, 2) - F(5, 3)
    low = Tenants(((F(1), F(5)), (F(1), F(2))), (F(1), F(1)))
    assert reports.noncooperative(lies.Lie(low, low.reporting(0, (F(1), F(1))))).slack == F(15, 7) - F(8, 3)
    fake = Tenants(((F(1), F(2)), (F(1), F(5)), (F(1), F(1))), (F(1), F(1)), (F(1, 2), F(1), F(1, 2)))
    truth = Tenants(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
    assert reports.with_false_type(lies.Lie(truth, fake)).slack == F(15, 7) - F(41, 19)


# -- rivals ----------------------------------------------------------------------------------------------------------


@FEW
@given(POSITIVE)
def test_gandiva_fair_is_that_of_the_library(case: Tenants) -> None:
    share, trades = rivals.gandiva_fair(case)
    there, done = GandivaFair().trades(case.instance)
    assert np.array(share, dtype=float) == pytest.approx(there, abs=EQUAL)
    assert [(t.buyer, t.seller, t.slow, t.fast) for t in trades] == [(t.buyer, t.seller, t.slow, t.fast) for t in done]


@FEW
@given(cases(tenants(lambda c: positive(c) and sum(c.gpus) <= c.n, n=(2, 4), k=(1, 3))))
def test_gavel_is_that_of_the_library(case: Tenants) -> None:
    """Its level: the least ratio to the equal split, with the row on time."""
    found = rivals.gavel(case)
    fair = [case.worth(e, case.gpus) / case.n for e in range(case.n)]
    least = min(rate / part for rate, part in zip(case.rates(found.share), fair, strict=True))
    policy = gavel.max_min_fairness()
    policy = policy.without("time_fraction") if "time_fraction" in policy.names else policy
    other = hetopt.solve(policy + TimeFraction(tenant_gpus=1.0), case.instance)
    assert float(least) == pytest.approx(min(other.rate / np.array(fair, dtype=float)), rel=EQUAL)
    assert all(sum(row) <= 1 for row in found.share)


# -- users, vertices, rounds -----------------------------------------------------------------------------------------


def test_copies_by_hand() -> None:
    case = Tenants(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)), (F(1), F(3, 2)))
    many, factor = users.copies(case)
    assert factor == 2
    assert many.speed == (case.speed[0],) * 2 + (case.speed[1],) * 3
    two = Tenants(case.speed, case.gpus, (F(1), F(2)))
    assert two.noncooperative.share == ((1, F(1, 3)), (0, F(2, 3)))
    assert users.copies(two)[0].noncooperative.share == ((1, F(1, 3)), (0, F(1, 3)), (0, F(1, 3)))


def test_worth_to_a_user_with_two_job_types_by_hand() -> None:
    pairs = Tenants(((F(1), F(2)), (F(1), F(4)), (F(1), F(3))), (F(1), F(1)), (F(1, 2), F(1, 2), F(1)))
    case = users.Users(pairs, 2)
    assert case.reused((F(1), F(1))) == 5
    assert case.split((F(1), F(1))) == (3 + 5) / F(2)


def test_most_shares_are_those_of_the_middle_of_all_optima() -> None:
    alike = Tenants(((F(1), F(2)), (F(1), F(2))), (F(1), F(1)))
    assert vertices.most_shares(alike).slack == -1
    apart = Tenants(((F(1), F(2)), (F(1), F(5))), (F(1), F(1)))
    assert vertices.most_shares(apart).slack == 0  # unique: (1, 4/7), (0, 3/7)


@FEW
@given(rounds.sharers().strategy())
def test_the_printed_rounding_is_that_of_the_library(drawn: tuple[object, rounds.Shares]) -> None:
    case = drawn[1]
    x = np.array([[float(v)] for v in case.ideal])
    given_ = baselines.by_rule(case.instance.entities("tenants"), x, "shares", 0.0)
    state, made = None, []
    for _ in range(8):
        plan, state = AsPrinted(starvation_rule=False)(given_, case.instance, state)
        made.append(tuple(int(v) for v in plan.x[:, 0]))
    ours = case.printed(starve=False)[:8]
    halves = any(
        ((t + 1) * i - sum(row[e] for row in ours[:t])) % 1 == F(1, 2)
        for t in range(8)
        for e, i in enumerate(case.ideal)
    )
    assert made == ours or halves  # only a half, or what floats make of it, may go either way


def test_rounding_by_hand() -> None:
    half = rounds.Shares((F(1, 2), F(1, 2)), 1, (1, 1))
    assert half.printed(starve=False)[:4] == [(1, 1), (0, 0), (1, 1), (0, 0)]
    assert half.by_library()[:4] == [(1, 0), (0, 1), (1, 0), (0, 1)]
    assert rounds.deviation(half, half.by_library()) == F(1, 2)
    starving = rounds.Shares((F(1), F(1)), 2, (2, 2))
    assert starving.printed(starve=True)[:2] == [(0, 0), (2, 2)]
    assert rounds.within_capacity(starving, starve=True).slack == -2
