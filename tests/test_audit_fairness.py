"""Envy-freeness, sharing incentive, capacity and adjacent types against loops in Fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetopt
from hetopt import auditing
from hetopt.data.rationals import rational
from hetopt.models import oef
from hetopt.proofs.strategies import job_instances, shares, tenant_instances
from hetopt.tolerances import EQUAL, PROVEN


def meant(value: float) -> Fraction:
    return rational(float(value))


def rate_of(instance, e, gpus, limited=None):
    """Rate of entity e with some GPUs, gangs at their speed per GPU.

    A job's is max v.y over y <= gpus with sum y <= demand; here its dual, min_t demand t + sum_k g_k max(0, v_k - t),
    whose minimum lies where t is 0 or one of the speeds.
    """
    entities = instance.entities()
    demand = meant(entities.demand[e])
    speeds = [meant(v) / demand for v in entities.speed[e]]
    limited = entities.kind == "jobs" if limited is None else limited
    prices = [Fraction(0), *speeds] if limited else [Fraction(0)]
    return min(demand * t + sum(g * max(Fraction(0), v - t) for v, g in zip(speeds, gpus, strict=True)) for t in prices)


def gpus_of(instance, table):
    demand = instance.entities().demand
    return [[x * int(d) for x in row] for row, d in zip(table.tolist(), demand, strict=True)]


def tempted(instance, e, o, gpus):
    """Rate of e with the GPUs of o times the ratio of weights: as many as its gang can use, in the time of o's."""
    entities = instance.entities()
    ratio = meant(entities.weight[e]) / meant(entities.weight[o])
    average = rate_of(instance, e, [ratio * g for g in gpus[o]])
    if entities.kind == "tenants":
        return average
    demand = [meant(entities.demand[i]) for i in (e, o)]
    speeds = [meant(v) / demand[0] for v in entities.speed[e]]
    in_time = sum(v * g for v, g in zip(speeds, gpus[o], strict=True)) * min(ratio, demand[0] / demand[1])
    return min(average, in_time)


def least_envy_slack(instance, table):
    """Min over pairs of (own - other's) / whole, by loops."""
    entities, gpus = instance.entities(), gpus_of(instance, table)
    weight, whole = [meant(w) for w in entities.weight], [meant(m) for m in entities.capacity]
    slacks = [
        (rate_of(instance, e, gpus[e]) - tempted(instance, e, o, gpus)) / rate_of(instance, e, whole)
        for e in range(len(weight))
        for o in range(len(weight))
        if e != o
    ]
    return min(slacks)


def least_fair_slack(instance, table):
    entities, gpus = instance.entities(), gpus_of(instance, table)
    weight, whole = [meant(w) for w in entities.weight], [meant(m) for m in entities.capacity]
    part = [w / sum(weight) for w in weight]
    return min(
        (rate_of(instance, e, gpus[e]) - rate_of(instance, e, [part[e] * m for m in whole]))
        / rate_of(instance, e, whole)
        for e in range(len(weight))
    )


INSTANCES = st.one_of(
    tenant_instances(tenants=(2, 5), weighted=True),
    tenant_instances(tenants=(2, 4), zeros=True),
    job_instances(jobs=(2, 5)),
)


@given(st.data())
def test_exact_slack_is_what_loops_in_fractions_find(data):
    instance = data.draw(INSTANCES)
    table = data.draw(shares(instance))
    envy = auditing.envy_free(instance, table, exact=True)
    fair = auditing.sharing_incentive(instance, table, exact=True)
    assert envy.exact == least_envy_slack(instance, table)
    assert fair.exact == least_fair_slack(instance, table)
    assert envy.holds is (envy.exact >= 0)
    assert fair.holds is (fair.exact >= 0)
    assert (envy.witness is None) is envy.holds


@given(st.data())
def test_floats_agree_with_fractions(data):
    instance = data.draw(INSTANCES)
    table = data.draw(shares(instance))
    for check in (auditing.envy_free, auditing.sharing_incentive, auditing.within_capacity, auditing.adjacent_types):
        exact, rounded = check(instance, table, exact=True), check(instance, table.astype(float))
        assert rounded.slack == pytest.approx(exact.slack, abs=EQUAL)
        assert rounded.holds is exact.holds


@given(st.data())
def test_witness_of_envy_is_true(data):
    """The numbers of the witness follow from the bundles it names, and its pair is the worst of the matrix."""
    instance = data.draw(INSTANCES)
    table = data.draw(shares(instance))
    verdict = auditing.envy_free(instance, table, exact=True)
    matrix = auditing.envy_matrix(instance, table)
    off = matrix.to_numpy() - np.diag(np.full(len(matrix), np.inf))
    assert off.max() == pytest.approx(-verdict.slack, abs=EQUAL)
    if verdict.holds:
        return
    envy, entities = verdict.witness, instance.entities()
    e, o = entities.position[envy.envious], entities.position[envy.envied]
    gpus = gpus_of(instance, table)
    assert envy.own == {k: g for k, g in zip(entities.types, gpus[e], strict=True) if g}
    assert envy.rate == rate_of(instance, e, gpus[e])
    ratio = meant(entities.weight[e]) / meant(entities.weight[o])
    assert envy.tempting_rate == rate_of(instance, e, [ratio * g for g in gpus[o]])
    assert envy.excess > 0
    assert envy.envious in envy.explain()
    assert envy.envied in envy.explain()


@given(st.data(), st.integers(2, 7))
def test_units_do_not_matter(data, factor):
    """Speeds in another unit, and a cluster of many such clusters, get the same slacks and verdicts."""
    instance = data.draw(tenant_instances(tenants=(2, 4), weighted=True))
    table = data.draw(shares(instance)).astype(float)
    entities = instance.entities()
    faster = hetopt.Instance.from_speedups(
        entities.speed * factor, entities.capacity.astype(int), weights=entities.weight.tolist(), any_scale=True
    )
    larger = hetopt.Instance.from_speedups(
        entities.speed, factor * entities.capacity.astype(int), weights=entities.weight.tolist(), any_scale=True
    )
    for check in (
        auditing.envy_free,
        auditing.sharing_incentive,
        auditing.pareto_efficient,
        auditing.within_capacity,
        auditing.adjacent_types,
    ):
        verdict = check(instance, table)
        for other in (check(faster, table), check(larger, factor * table)):
            assert other.holds is verdict.holds
            assert other.slack == pytest.approx(verdict.slack, abs=EQUAL)


@given(tenant_instances(tenants=(2, 5), weighted=True))
def test_cooperative_oef_is_fair_until_one_tenant_takes_all(instance):
    """[OEF, Theorem 5.1]; the mutated allocation must fail both audits, or they could not fail."""
    allocation = hetopt.solve(oef.cooperative(), instance)
    assert auditing.envy_free(instance, allocation)
    assert auditing.sharing_incentive(instance, allocation)
    assert auditing.within_capacity(instance, allocation)
    greedy = np.zeros(instance.entities().shape)
    greedy[0] = instance.entities().capacity
    envy = auditing.envy_free(instance, greedy)
    assert envy.holds is False
    assert envy.witness.envied == instance.tenants[0].name
    assert auditing.sharing_incentive(instance, greedy).holds is False


def test_large_markets_are_compared_in_blocks(monkeypatch):
    """Blocks of one row find the same pair as one block of all."""
    rng = np.random.default_rng(0)
    instance = hetopt.Instance.from_speedups(np.c_[np.ones(30), rng.uniform(1, 5, (30, 2))], [4, 4, 4])
    table = rng.dirichlet(np.ones(30), 3).T * 4
    whole, matrix = auditing.envy_free(instance, table), auditing.envy_matrix(instance, table)
    monkeypatch.setattr("hetopt.data.rates.BLOCK", 1)
    parts = auditing.envy_free(instance, table)
    assert (parts.witness.envious, parts.witness.envied) == (whole.witness.envious, whole.witness.envied)
    again = auditing.envy_matrix(instance, table)
    assert np.allclose(again, matrix, rtol=0, atol=PROVEN), "parts of rates with the whole cluster: of size 1"


def two_job_types() -> hetopt.Instance:
    """A tenant with two job types, each at its best on another GPU type, beside one that is fast on both."""
    cluster = hetopt.Cluster.of({"A": 2, "B": 2})
    kinds = (hetopt.JobType("slow", {"A": 1, "B": 1}), hetopt.JobType("fast", {"A": 1, "B": 5}))
    return hetopt.Instance(cluster, tenants=(hetopt.Tenant("u", kinds), hetopt.Tenant("v", {"A": 1, "B": 2})))


def test_levels_judge_the_same_shares_differently():
    """By hand: u has 2 A for its slow jobs and nothing for the fast ones, v has 2 B."""
    instance = two_job_types()
    table = [[2, 0], [0, 0], [0, 2]]
    per_type = auditing.envy_free(instance, table, exact=True)
    assert (per_type.witness.envious, per_type.witness.envied) == ("u/fast", "v")
    # u/fast would have 1/2 * (5 * 2) = 5 of 12 with the whole cluster
    assert per_type.exact == Fraction(-5, 12)
    # even split: rows' mean is (1, 3); own rate 2, with v's GPUs 6, with the whole cluster 8
    even = auditing.envy_free(instance, table, level="even split", exact=True)
    assert (even.witness.rate, even.witness.tempting_rate, even.exact) == (2, 6, Fraction(-1, 2))
    # free reuse: best row is (1, 5); own rate 2, with v's GPUs 10, with the whole cluster 12
    free = auditing.envy_free(instance, table, level="free reuse", exact=True)
    assert (free.witness.rate, free.witness.tempting_rate, free.exact) == (2, 10, Fraction(-2, 3))
    assert auditing.sharing_incentive(instance, table, level="free reuse", exact=True).exact == Fraction(
        2, 12
    ) - Fraction(1, 2)
    assert auditing.sharing_incentive(instance, table, level="even split", exact=True).exact == Fraction(
        2, 8
    ) - Fraction(1, 2)


@given(st.data())
def test_virtual_users_and_even_split_are_fair_under_cooperative_oef(data):
    """[THEOREMS, several job types]: fair per virtual user and for the fixed even split."""
    rows = data.draw(tenant_instances(tenants=(4, 4), types=(2, 3))).entities()
    types = [f"T{j}" for j in range(rows.shape[1])]
    speedups = [dict(zip(types, row.tolist(), strict=True)) for row in rows.speed]
    kinds = [hetopt.JobType(f"k{i}", row, any_scale=True) for i, row in enumerate(speedups)]
    cluster = hetopt.Cluster.of(dict(zip(types, rows.capacity.astype(int).tolist(), strict=True)))
    tenants = (
        hetopt.Tenant("u", tuple(kinds[:2]), 2.0),
        hetopt.Tenant("v", (kinds[2],)),
        hetopt.Tenant("w", (kinds[3],)),
    )
    instance = hetopt.Instance(cluster, tenants=tenants)
    allocation = hetopt.solve(oef.cooperative(), instance)
    for level in ("job type", "even split"):
        assert auditing.envy_free(instance, allocation, level=level)
        assert auditing.sharing_incentive(instance, allocation, level=level)


def test_capacity_names_the_type_and_the_negative_share():
    instance = hetopt.Instance.from_speedups([[1, 2], [1, 3]], [2, 4])
    over = auditing.within_capacity(instance, [[1, 3], [1, 3]])
    assert (over.holds, over.slack) == (False, -0.5)
    assert (over.witness.gpu_type, over.witness.given, over.witness.capacity) == ("GPU2", 6, 4)
    negative = auditing.within_capacity(instance, [[-1, 0], [1, 0]], exact=True)
    assert (negative.witness.entity, negative.exact) == ("u1", Fraction(-1, 2))
    assert auditing.within_capacity(instance, [[1, 1], [0.5, 1]]).slack == 1 / 4


def test_a_gap_in_the_types_is_found_and_absent_types_are_no_gap():
    instance = hetopt.Instance.from_speedups([[1, 2, 3, 4], [1, 2, 3, 4]], [1, 1, 0, 1])
    assert auditing.adjacent_types(instance, [[0, 1, 0, 1], [1, 0, 0, 0]]).holds
    verdict = auditing.adjacent_types(instance, [[0.25, 0, 0, 1], [0, 1, 0, 0]])
    assert (verdict.holds, verdict.slack) == (False, -0.25)
    assert (verdict.witness.entity, verdict.witness.missing) == ("u1", ("GPU2",))


def test_a_single_entity_has_no_envy():
    instance = hetopt.Instance.from_speedups([[1, 3]], [1, 1])
    assert auditing.envy_free(instance, [[0, 1]]).slack == 3 / 4
