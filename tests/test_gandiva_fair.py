"""Gandiva_fair: the papers' numbers, and that no trade ever hurts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.errors import InvalidInstance
from hetopt.models import gandiva_fair
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL, FINE

EQ1 = hetopt.Instance.from_speedups([[1, 2], [1, 3], [1, 4]], capacity=[1, 1])
POLICY = gandiva_fair.gandiva_fair()


def test_oef_equation_1() -> None:
    """[OEF, eq. 1]: u3 buys at price 3, then u2 at 2.5; E printed as (1.18, 1.41, 1.76) comes from a rounded X."""
    a = hetopt.solve(POLICY, EQ1)
    assert a.x == pytest.approx(np.array([[1, 4 / 45], [0, 7 / 15], [0, 4 / 9]]), abs=EQUAL)
    assert a.rate.to_numpy() == pytest.approx([53 / 45, 7 / 5, 16 / 9], rel=EQUAL)
    assert a.rate.sum() == pytest.approx(196 / 45, rel=EQUAL)
    _, trades = POLICY.trades(EQ1)
    assert [(t.buyer, t.seller, t.price) for t in trades] == [(2, 0, 3.0), (1, 0, 2.5)]
    assert not hetopt.audit(EQ1, a).envy_free.holds, "u3 prefers what u2 has"
    assert a.certificate.status == "rule"
    assert a.certificate.objective <= a.certificate.bound


def test_a_seller_gains_by_an_over_report() -> None:
    """[OEF, section 2.4]: u1 reports 2.8, the second price becomes 2.9, and u1 has (1, 0.1073), truly worth 1.215."""
    lie = hetopt.Instance.from_speedups([[1, 2.8], [1, 3], [1, 4]], capacity=[1, 1])
    share, trades = POLICY.trades(lie)
    assert [t.price for t in trades] == pytest.approx([3.0, 2.9])
    assert share[0].round(4).tolist() == [1.0, 0.1073]
    assert np.array([[1, 2], [1, 3], [1, 4]])[0] @ share[0] == pytest.approx(1.2146, rel=100 * EQUAL)
    assert share[0] @ [1, 2] > 53 / 45


@settings(max_examples=60)
@given(inst=tenant_instances(tenants=(1, 6), weighted=True, zeros=True))
def test_every_trade_helps_and_no_tenant_falls_below_equal_division(inst: hetopt.Instance) -> None:
    """Trades replayed one by one: at no step does a rate fall, and GPUs are only passed on."""
    e = inst.entities()
    share, trades = POLICY.trades(inst)
    now = np.outer(e.weight / e.weight.sum(), e.capacity)
    for t in trades:
        before = e.rate(now)
        now[t.buyer, t.fast] += t.moved
        now[t.seller, t.fast] -= t.moved
        now[t.buyer, t.slow] -= t.moved * t.price
        now[t.seller, t.slow] += t.moved * t.price
        assert now.min() >= -EQUAL
        assert (e.rate(now) >= before * (1 - EQUAL)).all()
        bought = e.speed[t.buyer, t.fast] - t.price * e.speed[t.buyer, t.slow]
        sold = t.price * e.speed[t.seller, t.slow] - e.speed[t.seller, t.fast]
        assert bought + sold > 0, "the buyer or the seller gains"
    assert np.where(e.allowed, now, 0.0) == pytest.approx(share, abs=EQUAL)
    a = hetopt.solve(POLICY, inst)
    assert (a.rate.to_numpy() >= equal_share_rate(e) * (1 - EQUAL)).all()
    assert a.certificate.violation <= EQUAL


@given(inst=tenant_instances(tenants=(2, 5), types=(2, 2), weighted=True))
def test_with_two_types_no_trade_is_left(inst: hetopt.Instance) -> None:
    """Efficient between two types: a holder of slow GPUs gains no more by fast ones than any holder of those."""
    share, trades = POLICY.trades(inst)
    gain = inst.entities().speed[:, 1] / inst.entities().speed[:, 0]
    slow = 0 if (gain >= 1).sum() >= (gain <= 1).sum() else 1
    gain = gain if slow == 0 else 1 / gain
    holds_slow, holds_fast = share[:, slow] > FINE, share[:, 1 - slow] > FINE
    if holds_slow.any() and holds_fast.any():
        assert gain[holds_slow].max() <= gain[holds_fast].min() * (1 + EQUAL)
    assert len(trades) <= 2 * len(gain), "every trade leaves a tenant with nothing more to give"


def test_weights_are_the_parts_at_the_beginning() -> None:
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 2]], capacity=[4, 8], weights=[1, 3])
    assert hetopt.solve(POLICY, inst).x == pytest.approx(np.array([[1, 2], [3, 6]]))


def test_a_useless_type_goes_to_whom_it_is_of_use() -> None:
    """u1 cannot use GPU2 at all: u2 buys at the mean price 3/2 as much as it can pay."""
    inst = hetopt.Instance.from_speedups([[1, 0], [1, 3]], capacity=[1, 1])
    a = hetopt.solve(POLICY, inst)
    assert a.x == pytest.approx(np.array([[1, 0], [0, 1 / 2 + 1 / 3]]))


def test_it_is_about_tenants() -> None:
    @given(inst=job_instances(jobs=(1, 1)))
    @settings(max_examples=1)
    def without_tenants(inst: hetopt.Instance) -> None:
        with pytest.raises(InvalidInstance, match="GandivaFair is for tenants, and the instance has none"):
            hetopt.solve(POLICY, inst)

    without_tenants()
