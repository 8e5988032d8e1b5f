"""Idle gaps and Jain's index, against a walk over all moments, hand computation and other formulas."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import by_hand, instances, is_present, moments, seated, simulations, spans_of
from refused import refused
from simulated import Shortest

from hetopt import Cluster, Instance, Job, Log, Overheads, simulate
from hetopt.errors import InvalidInstance, MetricUnavailable
from hetopt.metrics import finish_time_fairness, idle_gaps, jain_index, sharing, summary
from hetopt.simulation.environment import Environment
from hetopt.simulation.server_changes import ServerChange
from hetopt.tolerances import EQUAL

Gap = tuple[Fraction, Fraction, Fraction, Fraction]


def walked(log: Log, instance: Instance) -> list[Gap]:
    """Start, end, GPU-seconds, and those that decisions left, moment by moment from the rows of the log."""
    spans, gaps = spans_of(log), list[Gap]()
    down: set[str] = set()
    changes = [row for row in log.events.itertuples() if row.kind in ("down", "up")]
    first = {row.job: row.kind for row in reversed(changes)}
    down |= {server for server, kind in first.items() if kind == "up"}
    before, decided = Fraction(-1), False
    for middle, length in moments(log):
        start, end = middle - length / 2, middle + length / 2
        for row in changes:
            if row.time == start:
                (down.add if row.kind == "down" else down.discard)(row.job)
        runs = [span for span in spans if span.runs(middle)]
        idle = {t: -sum(span.of(t) for span in runs) for t in instance.cluster.type_names}
        for server in instance.cluster.servers:
            for t, n in server.gpus.items():
                idle[t] += n if server.name not in down else 0
        waiting = [
            instance.job[row.Index]
            for row in log.jobs_with_work.itertuples()
            if is_present(row, middle) and row.Index not in {span.job for span in runs}
        ]
        fitting = {
            (job.name, t)
            for job in waiting
            for t, n in idle.items()
            if job.throughput.get(t, 0) > 0 and job.demand <= n
        }
        if not fitting:
            continue
        most = sum(instance.job[name].demand for name in {name for name, _ in fitting})
        usable = min(sum(idle[t] for t in {t for _, t in fitting}), most)
        decided = (log.rounds["start"] == start).any() or (decided and before == start)
        own = (start, end, Fraction(usable) * length, Fraction(usable) * length * decided)
        if gaps and before == start:
            last = gaps.pop()
            own = (last[0], end, last[2] + own[2], last[3] + own[3])
        gaps.append(own)
        before = end
    return gaps


@given(simulations())
@settings(max_examples=examples(60, 400), deadline=None)
def test_gaps_are_those_of_a_walk_over_all_moments(case: tuple[Log, Instance]) -> None:
    log, instance = case
    expected = walked(log, instance)
    found = idle_gaps(log, instance)
    assert found.to_numpy(dtype=float).tolist() == [[float(value) for value in gap] for gap in expected]
    row = summary(log, instance)
    whole = log.capacity * (log.end - log.jobs_with_work["arrival"].min())
    assert row["idle_gaps"] == len(expected)
    assert row["idle_gap_share"] == pytest.approx(float(sum(gap[2] for gap in expected)) / whole, rel=EQUAL)
    assert row["idle_gap_decided"] == pytest.approx(float(sum(gap[3] for gap in expected)) / whole, rel=EQUAL)
    assert row["idle_gap_max"] == max((float(b - a) for a, b, *_ in expected), default=np.nan) or not expected


def test_by_hand() -> None:
    """Z fits on B from its arrival; while x moves, y and z need the 3 idle GPUs; w arrives after the last decision."""
    log, instance = by_hand()
    found = idle_gaps(seated(log), instance)
    assert found.to_numpy().tolist() == [[4, 16, 4 + 18 + 6, 24], [20, 24, 4, 0]]
    row = summary(log, instance)
    assert row[["idle_gap_share", "idle_gap_decided", "idle_gaps", "idle_gap_max"]].tolist() == [
        32 / 96,
        24 / 96,
        2,
        12,
    ]


@given(instances(mixed=False), st.sampled_from([None, 16.0]))
@settings(max_examples=examples(30, 200), deadline=None)
def test_a_greedy_policy_leaves_no_gap_after_a_decision(instance: Instance, seconds: float | None) -> None:
    """At events it leaves none at all; in rounds only those that open within a round."""
    log = simulate(Shortest(round_seconds=seconds), instance)
    assert (idle_gaps(log, instance)["decided"] == 0).all()
    if seconds is None:
        assert idle_gaps(log, instance).empty


def test_gpus_of_a_server_that_is_down_are_not_idle() -> None:
    """Two jobs on two servers with one GPU each; one server is down from 10 to 30, the other is added at 5."""
    jobs = tuple(Job(f"j{i}", {"A": 1.0}, 50.0) for i in range(2))
    instance = Instance(Cluster.of({"A": 3}, gpus_per_server=1), jobs=jobs)
    changes = (ServerChange(5.0, "a-2", up=True), ServerChange(10.0, "a-0"), ServerChange(30.0, "a-0", up=True))
    log = simulate(Shortest(), instance, environment=Environment(Overheads(transfer=False), changes=changes))
    assert idle_gaps(log, instance).empty
    two = replace(instance, cluster=Cluster.of({"A": 2}, gpus_per_server=1))
    log = simulate(Shortest(), two, environment=Environment(Overheads(transfer=False), changes=changes[1:]))
    assert idle_gaps(log, two).empty
    without = replace(log, events=log.events[:0])
    assert idle_gaps(without, two)[["start", "end", "gpu_seconds"]].to_numpy().tolist() == [[10.0, 30.0, 20.0]]


def test_before_the_log_nothing_is_idle() -> None:
    jobs = tuple(Job(name, {"A": 1.0}, 50.0, 1) for name in "ab")
    instance = Instance(Cluster.of({"A": 1}), jobs=jobs, time=100.0)
    log = simulate(Shortest(), instance)
    assert idle_gaps(log, instance).empty
    assert summary(log, instance)["idle_gap_share"] == 0.0


def test_jobs_without_work_wait_for_nothing_and_hide_no_gap() -> None:
    """Job b waits from 0 on beside an idle GPU; the span is of a job that had no work left at the beginning."""
    instance = Instance(Cluster.of({"A": 2}), jobs=(Job("a", {"A": 1.0}, 50.0, 1), Job("b", {"A": 1.0}, 50.0, 1)))
    log = simulate(Shortest(), instance)
    jobs = log.jobs.assign(finish=[np.nan, 50.0], start=[0.0, 40.0])
    spans = log.spans.assign(start=[0.0, 40.0], end=[40.0, 50.0])
    old = replace(log, jobs=jobs, spans=spans)
    assert idle_gaps(old, instance)[["start", "end", "gpu_seconds"]].to_numpy().tolist() == [[0.0, 40.0, 40.0]]


def test_events_of_an_unknown_server_are_reported() -> None:
    instance = Instance(Cluster.of({"A": 1}), jobs=(Job("a", {"A": 1.0}, 50.0, 1),))
    log = simulate(Shortest(), instance)
    down = log.events.assign(job="moon", kind="down")
    with refused(InvalidInstance, "log.events"):
        idle_gaps(replace(log, events=down), instance)


def test_an_unknown_division_of_gangs_is_reported() -> None:
    """Two types on one server: which GPUs a gang of two has is unknown without the column seats."""
    log, instance = by_hand()
    spans = log.spans.assign(gpu_type="A+B", servers="", gpus=3)
    with pytest.raises(MetricUnavailable, match="division of gangs"):
        idle_gaps(replace(log, spans=spans), instance)
    assert np.isnan(summary(replace(log, spans=spans), instance)["idle_gap_share"])


# Jain's index


def test_jain_by_hand() -> None:
    assert jain_index(np.array([3.0, 3.0])) == 1.0
    assert jain_index(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
    assert jain_index(np.array([7.0, 7.0, 0.0, 0.0, 0.0])) == pytest.approx(2 / 5)
    assert jain_index(np.ones(2) / 1e200) == jain_index(np.array([1e200])) == 1.0
    assert np.isnan(jain_index(np.zeros(0)))
    assert np.isnan(jain_index(np.zeros(3)))


@given(st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=9))
def test_jain_follows_from_the_coefficient_of_variation(values: list[float]) -> None:
    """1 / (1 + (standard deviation / mean)²), so it is in [1/n, 1]."""
    found, column = jain_index(np.array(values)), pd.Series(values)
    assert found == pytest.approx(1 / (1 + (column.std(ddof=0) / column.mean()) ** 2))
    assert 1 / len(values) * (1 - EQUAL) <= found <= 1 + EQUAL


@given(simulations(tenants=True))
@settings(max_examples=examples(20, 100), deadline=None)
def test_the_summary_has_it_over_jobs_and_tenants(case: tuple[Log, Instance]) -> None:
    """Over jobs: ideal time / completion time of each finished one; over tenants: the sharing ratios."""
    log, instance = case
    row = summary(log, instance)
    columns = {"sharing_jain": sharing(log, instance).dropna()}
    for name in ("exclusive", "themis", "gavel"):
        table = finish_time_fairness(log, instance, name).dropna()
        columns[f"ftf_{name}_jain"] = (table["ideal"] / table["shared"])[table["ideal"] < inf]
    for name, x in columns.items():
        expected = x.sum() ** 2 / (len(x) * (x**2).sum()) if (x > 0).any() else np.nan
        assert row[name] == pytest.approx(expected, nan_ok=True)
