"""Pareto efficiency against a linear program written separately, a closed form for two types, and the papers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import hetopt
from hetopt import auditing
from hetopt.models import oef
from hetopt.proofs.strategies import job_instances, shares, tenant_instances
from hetopt.tolerances import EQUAL


def best_total_gain(instance, share, row_limit=False):
    """The largest sum of gains, each over the rate with the whole cluster, by scipy over shares (not parts)."""
    entities = instance.entities()
    n, k = entities.shape
    rate = (entities.speed * share).sum(axis=1)
    whole = (entities.speed / entities.demand[:, None]) @ entities.capacity
    keeps, fits, time = np.zeros((n, n * k)), np.zeros((k, n * k)), np.zeros((n, n * k))
    for e in range(n):
        for j in range(k):
            keeps[e, e * k + j] = -entities.speed[e, j]
            fits[j, e * k + j] = entities.demand[e]
            time[e, e * k + j] = 1.0
    rows, right = [keeps, fits], [-rate, entities.capacity]
    if row_limit:
        rows, right = [*rows, time], [*right, np.ones(n)]
    gain = (entities.speed / whole[:, None]).ravel()
    solved = linprog(-gain, A_ub=np.vstack(rows), b_ub=np.concatenate(right), method="highs-ipm")
    assert solved.status == 0, solved.message
    return -solved.fun - (rate / whole).sum()


INSTANCES = st.one_of(
    tenant_instances(tenants=(1, 5), types=(1, 4)),
    tenant_instances(tenants=(2, 4), types=(2, 3), zeros=True),
    job_instances(jobs=(1, 5)),
)


@given(st.data(), st.booleans())
def test_slack_is_what_another_program_finds(data, waste):
    instance = data.draw(INSTANCES)
    share = data.draw(shares(instance, waste=waste)).astype(float)
    verdict = auditing.pareto_efficient(instance, share)
    gain = best_total_gain(instance, share)
    assert verdict.slack == pytest.approx(-gain, abs=EQUAL)
    assert verdict.holds is bool(gain <= EQUAL)


@given(st.data(), st.booleans())
def test_exact_verdict_agrees_and_carries_its_proof(data, waste):
    """Either prices that prove it, checked here, or a possible allocation that takes from nobody, checked here."""
    instance = data.draw(INSTANCES)
    table = data.draw(shares(instance, waste=waste))
    verdict = auditing.pareto_efficient(instance, table, exact=True)
    entities = instance.entities()
    held = auditing.holdings(instance, table, exact=True)
    assert verdict.holds is bool(best_total_gain(instance, table.astype(float)) <= EQUAL)
    if verdict.holds:
        proves(verdict.proof, held)
        return
    better = np.array([[verdict.witness.bundles[e].get(t, 0) for t in entities.types] for e in entities.names])
    after = (held.value * better).sum(axis=1)
    assert (better >= 0).all()
    assert (better.sum(axis=0) <= held.capacity).all()
    assert (after >= held.rate).all()
    assert (after > held.rate).any()
    assert list(verdict.witness.after.values()) == after.tolist()
    assert verdict.exact < 0


def proves(proof, held):
    """Complementary slackness of max sum weights * rate, in Fractions."""
    for e, name in enumerate(held.names):
        assert proof.weights[name] > 0
        for k, kind in enumerate(held.types):
            value = proof.weights[name] * held.value[e, k]
            assert value <= proof.prices[kind]
            assert value == proof.prices[kind] or held.gpus[e, k] == 0
    for k, kind in enumerate(held.types):
        assert proof.prices[kind] == 0 or held.gpus[:, k].sum() == held.capacity[k]


@given(st.data())
def test_two_types_are_decided_by_pairs(data):
    """With two types, all used and all speeds positive: efficient iff whoever holds type 1 has no larger ratio than
    anybody who holds type 2.
    """
    instance = data.draw(tenant_instances(tenants=(2, 5), types=(2, 2)))
    table = data.draw(shares(instance, waste=False))
    ratio = (speed := instance.entities().speed)[:, 1] / speed[:, 0]
    first, second = ratio[table[:, 0] > 0], ratio[table[:, 1] > 0]
    assert auditing.pareto_efficient(instance, table, exact=True).holds is bool(first.max() <= second.min())


@given(st.data())
def test_time_limit_allows_fewer_allocations(data):
    """The row sum_k share <= 1 against the same row in the other program; it can only raise the slack."""
    instance = data.draw(job_instances(jobs=(1, 4)))
    share = data.draw(shares(instance)).astype(float)
    share = share / max(1.0, share.sum(axis=1).max())
    limited = auditing.pareto_efficient(instance, share, time_limited=True)
    assert limited.slack == pytest.approx(-best_total_gain(instance, share, row_limit=True), abs=EQUAL)
    assert limited.slack >= auditing.pareto_efficient(instance, share).slack - EQUAL


def test_time_limit_decides_between_two_verdicts():
    """One gang of two GPUs that runs all the time on the slow type: alone it could have both types."""
    instance = hetopt.Instance.from_jobs([[1, 1]], demand=[1], work=[9], capacity=[1, 1])
    assert auditing.pareto_efficient(instance, [[1, 0]], time_limited=True).holds
    assert auditing.pareto_efficient(instance, [[1, 0]]).holds is False
    assert auditing.pareto_efficient(instance, [[1, 1]], time_limited=True).holds is None


@given(tenant_instances(tenants=(2, 5), types=(1, 4), weighted=True))
def test_noncooperative_oef_is_efficient_with_positive_speeds(instance):
    """[OEF, Theorem 5.3], with w > 0 [THEOREMS]; idling a tenth of it must be noticed."""
    allocation = hetopt.solve(oef.noncooperative(), instance)
    assert auditing.pareto_efficient(instance, allocation)
    idle = auditing.pareto_efficient(instance, 0.9 * allocation.x)
    assert idle.holds is False
    assert idle.witness.gains


def test_noncooperative_oef_is_not_efficient_with_zeros():
    """[THEOREMS, Theorem 5.3]: W = (1,0),(1,1), m = (1,3)."""
    instance = hetopt.Instance.from_speedups([[1, 0], [1, 1]], [1, 3])
    verdict = auditing.pareto_efficient(instance, hetopt.solve(oef.noncooperative(), instance))
    assert verdict.holds is False
    assert set(verdict.witness.gains) == {"u2"}
    assert verdict.witness.after["u2"] == pytest.approx(3)


def cooperative_counterexample():
    """[THEOREMS, Theorem 5.3]: W = (1,2,3),(1,4,7),(1,5,9), m = 1; rates 2, 9/2, 23/4."""
    return hetopt.Instance.from_speedups([[1, 2, 3], [1, 4, 7], [1, 5, 9]], [1, 1, 1])


def test_cooperative_oef_is_not_efficient():
    """Its rates (2, 9/2, 23/4) are dominated by (2, 9/2, 81/14), which is not envy-free."""
    instance = cooperative_counterexample()
    allocation = hetopt.solve(oef.cooperative(), instance)
    assert allocation.rate.tolist() == pytest.approx([2, 9 / 2, 23 / 4])
    verdict = auditing.pareto_efficient(instance, allocation)
    assert verdict.holds is False
    assert verdict.witness.after == pytest.approx({"u1": 2, "u2": 9 / 2, "u3": 81 / 14})
    assert verdict.slack == pytest.approx(-(81 / 14 - 23 / 4) / 15)
    assert auditing.envy_free(instance, verdict.witness.table.to_numpy()).holds is False


def test_the_trade_that_refutes_it_is_exact():
    """The optimum by hand, envy-free without tolerance: u3 gives GPU2 for GPU3, 9/5 as fast, to u2, 7/4 as fast."""
    instance = cooperative_counterexample()
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    table = [[1, half, 0], [0, quarter, half], [0, quarter, half]]
    assert auditing.envy_free(instance, table, exact=True).exact == 0
    verdict = auditing.pareto_efficient(instance, table, exact=True)
    assert verdict.witness.before == {"u1": 2, "u2": Fraction(9, 2), "u3": Fraction(23, 4)}
    assert verdict.witness.after == {"u1": 2, "u2": Fraction(9, 2), "u3": Fraction(81, 14)}
    assert verdict.exact == -(Fraction(81, 14) - Fraction(23, 4)) / 15


def test_what_cannot_be_compared_is_undecided():
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 3]], [1, 1])
    for exact in (False, True):
        verdict = auditing.pareto_efficient(instance, [[1, 1], [1, 1]], exact=exact)
        assert verdict.holds is None
        assert "2 GPUs of GPU1 are given, and there are 1" in verdict.why
        with pytest.raises(TypeError, match="undecided"):
            bool(verdict)


def test_free_reuse_sees_gains_that_virtual_users_cannot():
    """A tenant's GPUs serve its slow jobs although its fast ones would use them twice as well."""
    kinds = (hetopt.JobType("slow", {"A": 1, "B": 1}), hetopt.JobType("fast", {"A": 1, "B": 4}))
    instance = hetopt.Instance(
        hetopt.Cluster.of({"A": 1, "B": 1}),
        tenants=(hetopt.Tenant("u", kinds), hetopt.Tenant("v", {"A": 1, "B": 2})),
    )
    table = [[0, Fraction(1, 4)], [0, Fraction(1, 4)], [1, Fraction(1, 2)]]
    assert auditing.pareto_efficient(instance, table, exact=True).holds is False  # slow and fast should trade with v
    whole = auditing.pareto_efficient(instance, [[0, 1], [0, 0], [1, 0]], level="free reuse", exact=True)
    assert whole.holds
    proves(whole.proof, auditing.holdings(instance, [[0, 1], [0, 0], [1, 0]], level="free reuse", exact=True))
    with pytest.raises(hetopt.InvalidOption, match="even split"):
        auditing.pareto_efficient(instance, table, level="even split")


def test_an_exact_audit_with_time_limit_is_refused():
    instance = hetopt.Instance.from_jobs([[1, 1]], demand=[1], work=[9], capacity=[1, 1])
    with pytest.raises(hetopt.InvalidOption, match="time_limited"):
        auditing.pareto_efficient(instance, [[1, 0]], exact=True, time_limited=True)
    assert hetopt.audit(instance, [[1, 0]], exact=True, time_limited=True).pareto_efficient.holds is None
