"""Throughput, envy and the sharing incentive of tenants over time, against hand computation, the audit and loops."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from metric_cases import NAN, by_hand, is_present, log_of, simulations, spans_of
from simulated import Shortest

from hetopt import Cluster, Instance, Job, JobType, Log, Plan, Tenant, simulate
from hetopt.auditing import envy_matrix, sharing_incentive
from hetopt.errors import InvalidInstance, MetricUnavailable
from hetopt.metrics import efficiency, envy, envy_over_time, estimated_and_actual, sharing, sharing_over_time
from hetopt.models import oef
from hetopt.tolerances import EQUAL, PROVEN


def case() -> tuple[Log, Instance]:
    """U has a GPU of A for two rounds, v one of B, which it likes less, and is gone in the second; w waits."""
    speedups = {"u": {"A": 1, "B": 1}, "v": {"A": 4, "B": 2}, "w": {"A": 1, "B": 2}}
    tenants = tuple(
        Tenant(name, table, 2.0 if name == "w" else 1.0, any_scale=True) for name, table in speedups.items()
    )
    jobs = tuple(Job(f"j{name}", table, 16.0, tenant=name) for name, table in speedups.items())
    instance = Instance(Cluster.of({"A": 2, "B": 2}), tenants, jobs)
    rows = [
        ("ju", "u", 0.0, 0.0, NAN, 0, 16.0, 12.0),
        ("jv", "v", 0.0, 0.0, 8.0, 0, 16.0, 16.0),
        ("jw", "w", 0.0, NAN, NAN, 0, 16.0, 0.0),
    ]
    spans = [("ju", 0.0, 12.0, "A", "", 1, 0.0, 12.0), ("jv", 0.0, 8.0, "B", "", 1, 0.0, 16.0)]
    actual = pd.DataFrame({"u": [1.0, 1.0], "v": [2.0, 0.0]})  # w never ran
    estimated = pd.DataFrame({"u": [1.0, 2.0], "v": [4.0, NAN], "w": [0.0, 1.0]}, index=[0.0, 8.0])
    return log_of(rows, spans, [0.0, 8.0, 12.0], 4, actual, estimated=estimated), instance


def test_estimated_and_actual_by_hand() -> None:
    log, instance = case()
    table = estimated_and_actual(log, instance)
    assert table.index.tolist() == [0, 8]
    assert table["actual"].to_numpy().tolist() == [[1, 2, 0, 3], [1, 0, 0, 1]]
    assert table["estimated"].to_numpy().tolist() == [[1, 4, 0, 5], [2, 0, 1, 3]]
    found = efficiency(log, instance)
    assert found["actual"].tolist() == [1, 16 / 12, 0, 28 / 12]
    assert found["estimated"].tolist() == [16 / 12, 32 / 12, 4 / 12, 52 / 12]
    assert found.loc["total", "deviation"] == pytest.approx(1 - 28 / 52)


def test_sharing_by_hand() -> None:
    """With weights 1, 1, 2 u is owed a quarter of 4, v of 12, w a half of 6; without v u a third."""
    log, instance = case()
    np.testing.assert_array_equal(sharing_over_time(log, instance), [[1, 2 / 3, 0], [1 / (4 / 3), NAN, 0]])
    assert sharing(log, instance).tolist() == [12 / (8 + 4 * 4 / 3), 2 / 3, 0]


def test_envy_by_hand() -> None:
    """U values both types alike; v would have 4 in place of 2, of 12; w 4 of 6 with v's GPU, twice its weight."""
    log, instance = case()
    rows = [
        [0, "u", "v", 0],
        [0, "v", "u", 2 / 12],
        [0, "w", "v", 4 / 6],
        [8, "u", "w", -1 / 4],
        [8, "w", "u", 2 / 6],
    ]
    assert envy_over_time(log, instance).to_numpy().tolist() == rows
    found = envy(log, instance)
    assert found["envied"].tolist() == ["v", "u", "v"]
    assert found["gain"].tolist() == [(8 - 12) / (4 * 12), 2 / 12, 8 * 4 / (6 * 12)]


def test_job_types_share_the_weight_of_those_present() -> None:
    """Until its second type comes, the first has all of u's half; then each a quarter, [OEF, section 4.2.4]."""
    kinds = JobType("p", {"A": 1}), JobType("q", {"A": 1})
    tenants = Tenant("u", kinds), Tenant("v", {"A": 1})
    jobs = (
        Job("j1", {"A": 1}, 16, tenant="u", job_type="p"),
        Job("j2", {"A": 1}, 16, tenant="u", job_type="q", arrival=8),
        Job("j3", {"A": 1}, 16, tenant="v"),
    )
    instance = Instance(
        Cluster.of({"A": 4}),
        tenants,
        tuple(Job(j.name, j.throughput, j.work, 1, j.arrival, j.tenant, job_type=j.job_type) for j in jobs),
    )
    rows = [(j.name, j.tenant, j.arrival, j.arrival, NAN, 0, 16.0, 8.0) for j in jobs]
    spans = [(j.name, j.arrival, 16.0, "A", "", 1, 0.0, 8.0) for j in jobs]
    actual = pd.DataFrame({"u/p": [1.0, 1.0], "u/q": [0.0, 1.0], "v": [1.0, 1.0]})
    log = log_of(rows, spans, [0.0, 8.0, 16.0], 4, actual)
    np.testing.assert_array_equal(sharing_over_time(log, instance), [[0.5, NAN, 0.5], [1, 1, 0.5]])


def test_missing_information_is_named() -> None:
    log, instance = case()
    plain = replace(log, estimated=pd.DataFrame())
    with pytest.raises(MetricUnavailable, match=r"log.estimated is empty, which this metric needs"):
        estimated_and_actual(plain, instance)
    assert sharing(plain, instance).loc["w"] == 0
    with pytest.raises(InvalidInstance, match=r"log.estimated has no row for the decision at 8 s"):
        efficiency(replace(log, estimated=log.estimated.head(1)), instance)
    with pytest.raises(InvalidInstance, match=r"the table of actual throughput has 2 rows and the columns \['x'\]"):
        sharing(replace(log, throughput=pd.DataFrame({"x": [1.0, 1.0]})), instance)
    with pytest.raises(InvalidInstance, match="the instance has no tenants"):
        envy(*by_hand())
    with pytest.raises(InvalidInstance, match=r"the table of actual throughput has 1 row "):
        sharing(replace(log, throughput=log.throughput.head(1)), instance)


def test_a_gang_of_unknown_make_up_leaves_envy_open() -> None:
    """Its tenant, and every tenant compared with it: u and v alone meet no other then."""
    log, instance = case()
    mixed = replace(log, spans=log.spans.assign(gpu_type=["A+B", "B"], gpus=[3, 1]))
    table = envy_over_time(mixed, instance).set_index(["start", "tenant"])
    assert table["gain"].isna().tolist() == [True, False, False, True, True]
    assert table.loc[(0.0, "v"), "envied"] == "w"


def naive(log: Log, instance: Instance) -> list[tuple[float, dict[str, Fraction], dict[str, dict[str, Fraction]]]]:
    """Per decision: start, weight of those present, and their GPUs by type."""
    found = []
    jobs = {row.Index: row for row in log.jobs.itertuples()}
    spans = spans_of(log)
    for start in log.rounds["start"].tolist():
        weight = {
            t.name: Fraction(t.weight)
            for t in instance.tenants
            if any(is_present(row, Fraction(start)) for row in jobs.values() if row.tenant == t.name)
        }
        gpus: dict[str, dict[str, Fraction]] = {
            t.name: dict.fromkeys(instance.cluster.type_names, Fraction(0)) for t in instance.tenants
        }
        for span in spans:
            if span.start <= start < span.end:
                for kind in span.types:
                    gpus[jobs[span.job].tenant][kind] += Fraction(span.of(kind))
        found.append((start, weight, gpus))
    return found


def rate(tenant: Tenant, gpus: dict[str, Any]) -> Fraction:
    return sum((Fraction(tenant.job_types[0].speedup[t]) * n for t, n in gpus.items()), Fraction(0))


@given(simulations(tenants=True))
@settings(max_examples=60)
def test_against_a_walk_over_the_rounds(drawn: tuple[Log, Instance]) -> None:
    """In fractions; each round's envy also against the audit of a plan with these GPUs."""
    log, instance = drawn
    tenants = {t.name: t for t in instance.tenants}
    whole = {name: rate(t, instance.cluster.capacity) for name, t in tenants.items()}
    table, share = envy_over_time(log, instance).set_index(["start", "tenant"]), sharing_over_time(log, instance)
    seconds = [Fraction(e) - Fraction(s) for s, e in zip(log.rounds["start"], log.rounds["end"], strict=True)]
    had: dict[tuple[str, str], Fraction] = {}
    owed, got, time = (dict.fromkeys(tenants, Fraction(0)) for _ in range(3))
    for r, (start, weight, gpus) in enumerate(naive(log, instance)):
        present = {row for at, row in table.index if at == start}
        assert present == weight.keys()
        for e in weight:
            with_others = {o: rate(tenants[e], gpus[o]) * weight[e] / weight[o] for o in weight}
            for o, value in with_others.items():
                had[e, o] = had.get((e, o), Fraction(0)) + value * seconds[r]
            gains = [(value - with_others[e]) / whole[e] for o, value in with_others.items() if o != e]
            expected = float(max(gains)) if gains else NAN
            assert table.loc[(start, e), "gain"] == pytest.approx(expected, rel=PROVEN, nan_ok=True)
            fair = whole[e] * weight[e] / sum(weight.values())
            actual = log.throughput[e].iloc[r] if e in log.throughput else 0.0
            assert share.loc[start, e] == pytest.approx(float(Fraction(actual) / fair), rel=PROVEN)
            owed[e], got[e], time[e] = (
                owed[e] + fair * seconds[r],
                got[e] + Fraction(actual) * seconds[r],
                time[e] + seconds[r],
            )
        if len(weight) == len(tenants):
            _check_with_the_audit(instance, gpus, table.loc[start])
    overall, ratio = envy(log, instance), sharing(log, instance)
    for e in tenants:
        gains = [(value - had[e, e]) / (whole[e] * time[e]) for (own, o), value in had.items() if own == e != o]
        expected = float(max(gains)) if gains else NAN
        assert overall.loc[e, "gain"] == pytest.approx(expected, rel=PROVEN, abs=PROVEN, nan_ok=True)
        assert ratio[e] == pytest.approx(float(got[e] / owed[e]) if owed[e] else NAN, rel=PROVEN, nan_ok=True)


def _check_with_the_audit(instance: Instance, gpus: dict[str, dict[str, Fraction]], table: pd.DataFrame) -> None:
    entities = instance.entities("tenants")
    plan = Plan(entities, np.array([[float(n) for n in gpus[name].values()] for name in entities.names]))
    matrix = envy_matrix(instance, plan).to_numpy(copy=True)
    np.fill_diagonal(matrix, -np.inf)
    assert table.loc[list(entities.names), "gain"].tolist() == pytest.approx(matrix.max(axis=1).tolist(), abs=EQUAL)


def test_sharing_without_overheads_is_that_of_the_audit() -> None:
    """One round, all present: the least of the ratios is below 1 just where the audit says so."""
    log, instance = case()
    plan = Plan(instance.entities("tenants"), np.array([[1.0, 0], [0, 1], [0, 0]]))
    assert not sharing_incentive(instance, plan).holds
    assert sharing_over_time(log, instance).iloc[0].min() < 1


def test_gpus_too_small_for_the_job_type_are_worth_nothing_to_the_tenant() -> None:
    """Actual throughput, fair part and envy have one speedup: 0 where the memory of the job type does not fit."""
    cluster = Cluster.of({"A": 1, "B": 1}, memory_bytes={"A": 8.0, "B": 2.0})
    tenant = Tenant("u", (JobType("big", {"A": 2, "B": 1}, memory_bytes=4.0),))
    small = Job("j", {"A": 0, "B": 1}, work=10, tenant="u")  # a job with little memory among those of the tenant
    instance = Instance(cluster, (tenant,), (small,))
    log = simulate(Shortest(), instance)
    assert log.jobs["finish"].tolist() == [10.0]
    assert log.throughput["u"].tolist() == [0.0]
    assert sharing(log, instance)["u"] == 0


def test_a_tenant_named_like_the_sum_is_not_overwritten() -> None:
    tenants, jobs = (Tenant("total", {"A": 1.0}),), (Job("j", {"A": 1.0}, 10.0, tenant="total"),)
    instance = Instance(Cluster.of({"A": 1}), tenants, jobs)
    log = simulate(oef.cooperative(), instance, round_seconds=10.0)
    with pytest.raises(MetricUnavailable, match="tenant is named 'total'"):
        sharing(log, instance)
