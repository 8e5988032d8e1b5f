"""Pareto efficiency against a linear program written separately, a closed form for two types, and the papers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy.optimize import linprog

import hetopt
from hetopt import auditing
from hetopt.data.rates import largest_relative_envy
from hetopt.experiments.comparison import compare, measure
from hetopt.models import fft, gavel, oef
from hetopt.models.objectives import WeightedRate
from hetopt.proofs.strategies import job_instances, shares, tenant_instances
from hetopt.tolerances import EQUAL


def rate_of(speed, most_each, most):
    """The largest speed.x over x <= most_each with sum x <= most, by scipy."""
    solved = linprog(-speed, A_ub=[np.ones(len(speed))], b_ub=[most], bounds=[(0, m) for m in most_each])
    assert solved.status == 0, solved.message
    return -solved.fun


def best_total_gain(instance, share, row_limit=None):
    """The largest sum of gains, each over the rate with the whole cluster, by scipy over shares (not parts)."""
    entities = instance.entities()
    n, k = entities.shape
    row_limit = entities.kind == "jobs" if row_limit is None else row_limit
    most = 1.0 if row_limit else np.inf
    everything = entities.capacity / entities.demand[:, None]
    if row_limit:
        rate = np.array([rate_of(entities.speed[e], share[e], most) for e in range(n)])
        whole = np.array([rate_of(entities.speed[e], everything[e], most) for e in range(n)])
    else:
        rate, whole = (entities.speed * share).sum(axis=1), (entities.speed * everything).sum(axis=1)
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
    """Either prices that prove it or a feasible allocation without losers; both are checked here."""
    instance = data.draw(INSTANCES)
    table = data.draw(shares(instance, waste=waste))
    verdict = auditing.pareto_efficient(instance, table, exact=True, demand_limited=False)
    entities = instance.entities()
    held = auditing.holdings(instance, table, exact=True, demand_limited=False)
    gain = best_total_gain(instance, table.astype(float), row_limit=False)
    assert verdict.holds is bool(gain <= EQUAL)
    if verdict.holds:
        proves(verdict.proof, held)
        return
    assert float(verdict.exact) == pytest.approx(-gain, abs=EQUAL)
    better = np.array([[verdict.witness.bundles[e].get(t, 0) for t in entities.types] for e in entities.names])
    after = (held.per_gpu * better).sum(axis=1)
    assert (better >= 0).all()
    assert (better.sum(axis=0) <= held.capacity).all()
    assert (after >= held.rate).all()
    assert (after > held.rate).any()
    assert list(verdict.witness.after.values()) == after.tolist()


def proves(proof, held):
    """Complementary slackness of max sum weights * rate, in Fractions."""
    for e, name in enumerate(held.names):
        assert proof.weights[name] > 0
        for k, kind in enumerate(held.types):
            value = proof.weights[name] * held.per_gpu[e, k]
            assert value <= proof.prices[kind]
            assert value == proof.prices[kind] or held.gpus[e, k] == 0
    for k, kind in enumerate(held.types):
        assert proof.prices[kind] == 0 or held.gpus[:, k].sum() == held.capacity[k]


@given(st.data())
def test_two_types_are_decided_by_pairs(data):
    """With two types, all used and all speeds positive: efficient iff no holder of type 1 has a larger ratio than
    a holder of type 2.
    """
    instance = data.draw(tenant_instances(tenants=(2, 5), types=(2, 2)))
    table = data.draw(shares(instance, waste=False))
    ratio = (speed := instance.entities().speed)[:, 1] / speed[:, 0]
    first, second = ratio[table[:, 0] > 0], ratio[table[:, 1] > 0]
    assert auditing.pareto_efficient(instance, table, exact=True).holds is bool(first.max() <= second.min())


@given(st.data())
def test_time_limit_allows_fewer_allocations(data):
    """With and without the row sum_k share <= 1, for jobs and for tenants that are taken for jobs of one GPU."""
    instance = data.draw(st.one_of(job_instances(jobs=(1, 4)), tenant_instances(tenants=(1, 4), types=(1, 3))))
    share = data.draw(shares(instance)).astype(float)
    for limited in (True, False):
        verdict = auditing.pareto_efficient(instance, share, demand_limited=limited)
        assert verdict.slack == pytest.approx(-best_total_gain(instance, share, row_limit=limited), abs=EQUAL)


def test_time_limit_decides_between_two_verdicts():
    """A job of one GPU has all the time it can use; only with work for both GPUs at a time would it gain."""
    instance = hetopt.Instance.from_jobs([[1, 1]], demand=[1], work=[9], capacity=[1, 1])
    assert auditing.pareto_efficient(instance, [[1, 0]]).holds
    assert auditing.pareto_efficient(instance, [[1, 0]], demand_limited=False).holds is False
    assert auditing.pareto_efficient(instance, [[1, 1]]).holds  # no other entity can use the rest


def test_gpus_that_a_gang_cannot_use_are_missed_by_others():
    """j1 holds a second GPU without use, half of the time; j2 waits for it."""
    instance = hetopt.Instance.from_jobs([[1], [1]], demand=[1, 1], work=[9, 9], capacity=[2])
    verdict = auditing.pareto_efficient(instance, [[1.5], [0.5]])
    assert verdict.holds is False
    assert verdict.witness.gains == pytest.approx({"j2": 0.5 / 300})


def test_jobs_that_run_all_the_time_have_no_envy():
    """4 GPUs, gangs of 1 and 3: the small one could not use the others' GPUs; a tenant with more work could."""
    instance = hetopt.Instance.from_jobs([[1], [3]], demand=[1, 3], work=[9, 9], capacity=[4])
    plan, _ = fft.FFT(round_seconds=300.0)(instance)
    assert plan.x.tolist() == [[1], [3]]
    verdicts = hetopt.audit(instance, plan)
    assert (verdicts.envy_free.holds, verdicts.sharing_incentive.holds, verdicts.pareto_efficient.holds) == (True,) * 3
    assert largest_relative_envy(plan.entities, plan.x) == 0
    assert compare(instance, {"fft": fft.FFT(round_seconds=300.0)}).table.loc[
        "fft", ["envy", "pareto", "total"]
    ].tolist() == [0, 0, 4]
    linear = hetopt.audit(instance, plan, demand_limited=False)
    assert (linear.envy_free.slack, linear.sharing_incentive.slack) == pytest.approx((-0.5, -0.25))


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
        assert "2 GPUs of GPU1 allocated; the capacity is 1" in verdict.why
        with pytest.raises(TypeError, match="undecided"):
            bool(verdict)


def test_whom_no_type_can_run_does_not_disturb_the_proof():
    """A gang of three on types of two GPUs: it can use none."""
    instance = hetopt.Instance.from_jobs([[1, 1], [1, 2]], demand=[3, 1], work=[9, 9], capacity=[2, 2])
    table = [[0, 0], [2, 2]]
    verdict = auditing.pareto_efficient(instance, table, exact=True, demand_limited=False)
    assert verdict.holds
    proves(verdict.proof, auditing.holdings(instance, table, exact=True, demand_limited=False))


def test_an_exact_allocation_is_audited_exactly():
    """[OEF, eq. 6] from the program to the proof without a rounded number."""
    instance = hetopt.instances.load("oef/eq6")
    allocation = hetopt.solve(oef.cooperative(), instance, exact=True)
    verdicts = hetopt.audit(instance, allocation, exact=True)
    assert (verdicts.envy_free.exact, verdicts.pareto_efficient.exact, verdicts.capacity.exact) == (0, 0, 0)
    with pytest.raises(hetopt.InvalidOption, match="exact=True"):
        hetopt.audit(instance, hetopt.solve(oef.cooperative(), instance), exact=True)


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


@given(st.data(), st.booleans())
def test_exact_verdicts_where_time_is_limited(data, waste):
    """Jobs, and tenants taken for jobs of one GPU: as the float program says, and every witness holds in Fractions."""
    instance = data.draw(
        st.one_of(job_instances(jobs=(1, 4), zeros=True), tenant_instances(tenants=(1, 4), types=(1, 3)))
    )
    table = data.draw(shares(instance, waste=waste))
    verdict = auditing.pareto_efficient(instance, table, exact=True, demand_limited=True)
    assert verdict.holds is bool(best_total_gain(instance, table.astype(float), row_limit=True) <= EQUAL)
    if verdict.holds:
        assert verdict.exact == 0
        return
    held, types = auditing.holdings(instance, table, exact=True, demand_limited=True), instance.entities().types
    better = np.array([[verdict.witness.bundles[e].get(t, Fraction(0)) for t in types] for e in held.names])
    assert (better >= 0).all()
    assert (better.sum(axis=0) <= held.capacity).all()
    after = held.rate_with(better)
    assert (after >= held.rate).all()
    assert (after > held.rate).any()


def test_an_exact_optimum_of_jobs_is_audited_exactly():
    """Thirds of speeds and of weights: efficient to the last digit, and not any more once a little is left."""
    instance = hetopt.Instance.from_jobs(
        [[1, 1 / 3], [2 / 7, 1]], demand=[2, 1], work=[9, 9], capacity=[2, 1], weight=[1.003, 2.7]
    )
    allocation = hetopt.solve(gavel.max_min_fairness() + WeightedRate(), instance, exact=True)
    assert hetopt.audit(instance, allocation, exact=True).pareto_efficient.exact == 0
    less = np.asarray(allocation.certificate.exact.share) * Fraction(10**12 - 1, 10**12)
    assert hetopt.audit(instance, less, exact=True).pareto_efficient.holds is False


@pytest.mark.parametrize("exact", [True, False])
def test_where_no_entity_can_use_a_gpu_nothing_can_be_gained(exact):
    instance = hetopt.Instance.from_speedups([[0, 1]], capacity=[1, 0])
    assert auditing.pareto_efficient(instance, [[0, 0]], exact=exact).holds


def test_whole_tenants_have_no_limit_of_time():
    """An audit with the limit does not judge them without it."""
    kinds = (hetopt.JobType("slow", {"A": 1}), hetopt.JobType("fast", {"A": 1}))
    instance = hetopt.Instance(hetopt.Cluster.of({"A": 1}), tenants=(hetopt.Tenant("u", kinds),))
    with pytest.raises(hetopt.InvalidOption, match="whole tenants"):
        auditing.envy_free(instance, [[0.5], [0.5]], level="free reuse", demand_limited=True)
    verdicts = hetopt.audit(instance, [[1], [0]]).by_tenant
    assert all(verdict.holds for verdict in verdicts.values())
    limited = hetopt.audit(instance, [[1], [0]], demand_limited=True).by_tenant
    assert limited.keys() == verdicts.keys()
    for label, verdict in limited.items():
        assert (verdict.label, verdict.holds) == (label, None)
        assert "demand_limited does not apply to whole tenants" in verdict.why


def test_an_entity_that_can_use_no_gpu_does_not_spoil_the_comparison() -> None:
    """As in the audit, which finds the sharing incentive met: its fair-part rate is 0."""
    instance = hetopt.Instance.from_speedups([[1, 0], [1, 2]], capacity=[0, 2])
    allocation = hetopt.solve(oef.cooperative(), instance)
    assert hetopt.audit(instance, allocation).sharing_incentive.holds
    assert measure(instance, allocation)["sharing"] == 1.0


@pytest.mark.parametrize("tolerance", [-1, float("nan"), "x", None])
@pytest.mark.parametrize("check", [auditing.envy_free, auditing.within_capacity, auditing.pareto_efficient])
def test_a_tolerance_is_a_number_from_zero(check, tolerance):
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
    with refused(hetopt.InvalidOption, "tolerance"):
        check(inst, [[1, 0], [0, 1]], tolerance=tolerance)
