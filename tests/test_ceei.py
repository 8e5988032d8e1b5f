"""The equal-budget market: its equilibrium conditions, another solver's optimum, fairness, and the ledger's example."""

from __future__ import annotations

import time
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetopt
from hetopt.data.rates import equal_share_rate
from hetopt.models import baselines, ceei, oef
from hetopt.models.fairness_components import row_excess
from hetopt.proofs.strategies import job_instances, tenant_instances
from hetopt.tolerances import EQUAL, FEASIBILITY, PROVEN

LEDGER = hetopt.Instance.from_speedups([[1, 2, 3], [1, 4, 7], [1, 5, 9]], capacity=[1, 1, 1])
"""Where the cooperative optimum (2, 9/2, 23/4) is not Pareto efficient."""


def test_the_ledgers_example_by_hand() -> None:
    """Prices 6/13, 12/13, 21/13 clear the market: u1 and u2 meet on GPU2, u2 and u3 on GPU3; budgets are 1."""
    a = hetopt.solve(ceei.equal_budgets(), LEDGER)
    assert a.rate.to_numpy() == pytest.approx([13 / 6, 13 / 3, 39 / 7], rel=EQUAL)
    assert a.certificate.prices.to_numpy() == pytest.approx(np.array([6, 12, 21]) / 13, rel=EQUAL)
    assert a.certificate.gap <= PROVEN
    assert hetopt.audit(LEDGER, a).pareto_efficient.holds
    assert not hetopt.audit(LEDGER, hetopt.solve(oef.cooperative(), LEDGER)).pareto_efficient.holds


@settings(max_examples=30)
@given(inst=st.one_of(tenant_instances(weighted=True, zeros=True), tenant_instances(tenants=(2, 8), weighted=True)))
def test_the_conditions_of_a_market_equilibrium(inst: hetopt.Instance) -> None:
    """Everyone spends its weight on best value for money, and whatever costs something is sold out."""
    a = hetopt.solve(ceei.equal_budgets(), inst)
    e, price = a.entities, a.certificate.prices.to_numpy()
    assert a.certificate.gap <= PROVEN
    assert a.certificate.violation <= FEASIBILITY
    assert (price >= 0).all()
    assert a.x @ price == pytest.approx(e.weight, rel=100 * EQUAL)
    sold = a.x.sum(axis=0)
    assert (price * (e.capacity - sold)).sum() <= EQUAL * e.weight.sum()
    value = a.rate.to_numpy() / e.weight  # rate per unit of money; no other bundle for the same money has more
    assert (e.speed <= value[:, None] * price * (1 + 100 * EQUAL)).all()


@settings(max_examples=25)
@given(inst=st.one_of(tenant_instances(weighted=True, zeros=True), job_instances(zeros=True)))
def test_the_optimum_is_that_of_another_solver(inst: hetopt.Instance) -> None:
    e = inst.entities()
    x = cp.Variable(e.shape, nonneg=True)
    rows = [e.demand @ x <= e.capacity, x[~e.allowed] == 0]
    if inst.jobs:
        rows.append(cp.sum(x, axis=1) <= 1)
    unit = equal_share_rate(e)
    gain = e.weight @ cp.log(cp.multiply(1 / unit, cp.sum(cp.multiply(e.speed, x), axis=1)))
    problem = cp.Problem(cp.Maximize(gain), rows)
    problem.solve(solver="CLARABEL")
    c = hetopt.solve(ceei.equal_budgets(), inst).certificate
    constant = float(e.weight @ np.log(unit))
    assert c.objective - constant == pytest.approx(
        float(problem.value), rel=10 * EQUAL, abs=10 * EQUAL * e.weight.sum()
    )


@settings(max_examples=30)
@given(inst=tenant_instances(tenants=(1, 6), weighted=True))
def test_it_is_envy_free_efficient_and_shares_gladly(inst: hetopt.Instance) -> None:
    a = hetopt.solve(ceei.equal_budgets(), inst)
    e = a.entities
    size = (e.per_gpu @ e.capacity)[:, None]
    assert (row_excess(e, np.array(a.x)) / size).max() <= 10 * EQUAL
    assert (a.rate.to_numpy() >= equal_share_rate(e) * (1 - 10 * EQUAL)).all()
    # Pareto: no allocation has a larger total at these inverse rates than n, by the first-order condition.
    best = hetopt.solve(baselines.efficiency_only(), _scaled(inst, a.rate.to_numpy() / e.weight))
    assert best.certificate.objective == pytest.approx(e.weight.sum(), rel=100 * EQUAL)


def _scaled(inst: hetopt.Instance, by: np.ndarray) -> hetopt.Instance:
    rows = inst.entities().speed / by[:, None]
    return hetopt.Instance.from_speedups(rows, dict(inst.cluster.capacity), any_scale=True)


@settings(max_examples=20)
@given(inst=tenant_instances(tenants=(2, 5), types=(2, 4)))
def test_totals_are_ordered_as_the_ledger_says(inst: hetopt.Instance) -> None:
    """total(non-cooperative) <= total(CEEI) <= total(cooperative) <= total(sharing incentive) <= total(free)."""
    order = [
        oef.noncooperative(),
        ceei.equal_budgets(),
        oef.cooperative(),
        baselines.sharing_incentive_only(),
        baselines.efficiency_only(),
    ]
    total = [float(hetopt.solve(policy, inst).rate.sum()) for policy in order]
    assert all(a <= b * (1 + 10 * EQUAL) for a, b in pairwise(total)), total


def test_identical_tenants_share_equally() -> None:
    a = hetopt.solve(
        ceei.equal_budgets(), hetopt.Instance.from_speedups([[1, 2, 4]] * 5, [5, 5, 5], weights=[1, 1, 1, 1, 4])
    )
    assert a.rate.to_numpy() == pytest.approx(np.array([1, 1, 1, 1, 4]) * 35 / 8, rel=EQUAL)


def test_many_tenants_are_solved_to_nine_digits() -> None:
    rng = np.random.default_rng(0)
    rows = np.c_[np.ones(200), np.cumprod(rng.uniform(1, 2, (200, 9)), axis=1)]
    inst = hetopt.Instance.from_speedups(rows, [20] * 10)
    began = time.thread_time()
    c = hetopt.solve(ceei.equal_budgets(), inst).certificate
    assert c.gap <= PROVEN
    assert time.thread_time() - began < 20.0
