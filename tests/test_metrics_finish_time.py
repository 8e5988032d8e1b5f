"""Finish-time fairness by its three definitions, against hand computation and fractions."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from metric_cases import NAN, by_hand, is_present, log_of, moments, simulations
from simulated import Shortest

from hetopt import Cluster, Instance, Job, Log, simulate
from hetopt.errors import UnknownName
from hetopt.metrics import finish_time_fairness, summary
from hetopt.metrics.finish_time import IDEALS, mean_present, rate_alone
from hetopt.tolerances import PROVEN


def test_by_hand() -> None:
    log, instance = by_hand()
    exclusive = finish_time_fairness(log, instance, "exclusive")
    np.testing.assert_array_equal(exclusive["shared"], [14, 20, NAN, NAN])
    assert exclusive["ideal"].tolist() == [8, 11, 64, 1]
    np.testing.assert_array_equal(exclusive["rho"], [14 / 8, 20 / 11, NAN, NAN])
    # x: (2*4 + 3*10)/14 = 19/7 present, so 14/19 of an A and as much of a B; y: 50/20 present
    themis = finish_time_fairness(log, instance, "themis")
    assert themis["ideal"].iloc[0] == pytest.approx(32 / (14 / 19 * 4 + 5 / 19 * 2))
    assert themis["ideal"].iloc[1] == pytest.approx(11 / (0.8 * 0.5 + 0.8 * 0.25))
    assert themis["ideal"].iloc[2:].isna().all()
    # x: 12 min(1/n, 1/4) = 3 per second. y: 3 min(1/(2n), 1/4): 0.75 for 4 s, 0.5 for 10 s, then 0.75
    gavel = finish_time_fairness(log, instance, "gavel")
    assert gavel["ideal"].tolist() == [pytest.approx(32 / 3), 18.0, 64.0, 1.0]


def test_below_one_counts_the_jobs_that_are_better_off() -> None:
    log, instance = by_hand()
    found = summary(log, instance)
    assert found["ftf_exclusive_below_1"] == 0
    assert found["ftf_exclusive_max"] == 20 / 11
    assert found["ftf_gavel_below_1"] == 0
    assert found["ftf_themis_below_1"] == 0.0


def test_alone_everything_is_one() -> None:
    """A job that is alone in a cluster of one type, and does not lose a second, is neither better nor worse off."""
    jobs = Instance.from_jobs([[1.0], [3.0]], 1, [7, 5], [2], arrival=[0, 9000], round_seconds=1.0)
    found = summary(simulate(Shortest(), jobs), jobs)
    for name in IDEALS:
        assert found[[f"ftf_{name}_mean", f"ftf_{name}_max", f"ftf_{name}_below_1"]].tolist() == pytest.approx(
            [1, 1, 0]
        )


def test_a_job_that_takes_longer_in_isolation_still_counts_itself() -> None:
    """A is done at 4, and would have had half of the GPU until 4, and again until 8 beside b."""
    instance = Instance.from_jobs([[1.0], [1.0]], 1, [4, 12], [1], round_seconds=1.0)
    rows = [("j1", None, 0.0, 0.0, 4.0, 0, 4.0, 4.0), ("j2", None, 0.0, 4.0, 16.0, 0, 12.0, 12.0)]
    spans = [("j1", 0.0, 4.0, "GPU1", "", 1, 0.0, 4.0), ("j2", 4.0, 16.0, "GPU1", "", 1, 0.0, 12.0)]
    table = finish_time_fairness(log_of(rows, spans, [0.0, 4.0, 16.0], 1), instance, "gavel")
    assert table["ideal"].tolist() == [8.0, 14.0]
    assert table["rho"].tolist() == [0.5, 16 / 14]


def test_a_gang_that_no_type_has_room_for() -> None:
    """3 GPUs of 2 fast and 2 slow ones go at 1; with half of all there is, they do so 2/3 of the time."""
    instance = Instance(
        Cluster.of({"A": 2, "B": 2}), jobs=(Job("a", {"A": 4, "B": 1}, 8, demand=3), Job("b", {"A": 1, "B": 1}, 1))
    )
    assert rate_alone(instance.entities("jobs")).tolist() == [1, 1]
    rows = [("a", None, 0.0, 0.0, 8.0, 0, 8.0, 8.0), ("b", None, 0.0, 7.0, 8.0, 0, 1.0, 1.0)]
    log = log_of(rows, [("a", 0.0, 8.0, "A+B", "", 3, 0.0, 8.0), ("b", 7.0, 8.0, "B", "", 1, 0.0, 1.0)], [0.0, 8.0], 4)
    assert finish_time_fairness(log, instance, "exclusive").loc["a", "rho"] == 1
    assert finish_time_fairness(log, instance, "themis").loc["a", "ideal"] == 8 * 3 / 2


def test_an_unknown_definition_is_refused() -> None:
    with pytest.raises(UnknownName, match="no definition of finish-time fairness 'shockwave'; known: exclusive, gavel"):
        finish_time_fairness(*by_hand(), "shockwave")


def best_pace(job: Job, capacity: dict[str, int]) -> Fraction:
    """By trying all gangs."""
    seats = product(*[range(min(n, job.demand) + 1) for n in capacity.values()])
    speeds = [Fraction(job.throughput[t]) for t in capacity]
    gangs = [[v for v, n in zip(speeds, gang, strict=True) if n] for gang in seats if sum(gang) == job.demand]
    return max(min(gang) for gang in gangs)


def paces(job: Job, capacity: dict[str, int]) -> list[Fraction]:
    alone = [Fraction(job.throughput[t]) if n >= job.demand else Fraction(0) for t, n in capacity.items()]
    return alone if any(alone) else [best_pace(job, capacity)] * len(capacity)


def themis(job: Job, number: Fraction, capacity: dict[str, int]) -> Fraction:
    """Seconds with GPUs m/N of each type, the fastest first, at most the gang's size in all."""
    left, rate = Fraction(job.demand), Fraction(0)
    for pace, gpus in sorted(zip(paces(job, capacity), capacity.values(), strict=True), reverse=True):
        used = min(left, gpus / number)
        rate, left = rate + pace * used / job.demand, left - used
    return Fraction(job.work) / rate


def gavel(job: Job, log: Log, capacity: dict[str, int]) -> Fraction:
    """Seconds with 1/n(t) of every type, by walking from moment to moment."""
    scale = sum(v * m for v, m in zip(paces(job, capacity), capacity.values(), strict=True))
    rows = list(log.jobs.itertuples())
    others = [row for row in rows if row.Index != job.name]
    left, now = Fraction(job.work), Fraction(job.arrival)

    def rate(moment: Fraction) -> Fraction:
        n = 1 + sum(is_present(row, moment) for row in others)
        return scale * min(Fraction(1, n * job.demand), Fraction(1, sum(capacity.values())))

    for moment, length in moments(log):
        if moment < now:
            continue
        if rate(moment) * length >= left:
            return now + left / rate(moment) - Fraction(job.arrival)
        left, now = left - rate(moment) * length, now + length
    return now + left / rate(now + 1) - Fraction(job.arrival)


@given(simulations())
@settings(max_examples=60)
def test_all_three_in_fractions(case: tuple[Log, Instance]) -> None:
    log, instance = case
    capacity = dict(instance.cluster.capacity)
    tables = {name: finish_time_fairness(log, instance, name) for name in IDEALS}
    for row in log.jobs.itertuples():
        job = instance.job[row.Index]
        found = {name: table.loc[job.name] for name, table in tables.items()}
        assert found["exclusive"]["ideal"] == Fraction(job.work) / best_pace(job, capacity)
        assert found["gavel"]["ideal"] == pytest.approx(float(gavel(job, log, capacity)), rel=PROVEN)
        if np.isnan(row.finish):
            assert all(np.isnan(table["rho"]) for table in found.values())
            continue
        stay = Fraction(row.finish) - Fraction(row.arrival)
        here = [(n, length) for n, length in _present(log) if row.arrival < n < row.finish]
        number = sum(sum(is_present(other, n) for other in log.jobs.itertuples()) * length for n, length in here) / stay
        assert found["themis"]["ideal"] == pytest.approx(float(themis(job, number, capacity)), rel=PROVEN)
        for table in found.values():
            assert table["rho"] == table["shared"] / table["ideal"]
        assert found["exclusive"]["rho"] >= 1  # no gang is faster than the best one alone
        assert found["exclusive"]["ideal"] <= found["themis"]["ideal"] * (1 + PROVEN)


def _present(log: Log) -> list[tuple[Fraction, Fraction]]:
    return list(moments(log))


def test_twenty_thousand_jobs_take_seconds() -> None:
    """All definitions together; a loop over pairs of jobs would take minutes."""
    dice, n = np.random.default_rng(0), 20_000
    arrival = np.sort(dice.uniform(0, 1e6, n)).round()
    demand = dice.choice([1, 2, 4, 8], n)
    work = dice.integers(100, 10_000, n).astype(float)
    names = [f"j{i}" for i in range(n)]
    rows = zip(names, work.tolist(), demand.tolist(), arrival.tolist(), strict=True)
    jobs = tuple(Job(name, {"A": 2.0, "B": 1.0}, *row) for name, *row in rows)
    instance = Instance(Cluster.of({"A": 64, "B": 64}), jobs=jobs)
    finish = arrival + work * dice.uniform(1, 50, n)
    table = pd.DataFrame({"tenant": None, "arrival": arrival, "start": arrival, "finish": finish}, index=names)
    log = log_of([], [], [0.0, float(finish.max())], 128)
    log = replace(log, jobs=table.assign(switches=0, work=work, done=work))
    instance.entities("jobs")
    began = time.thread_time()
    means = {name: finish_time_fairness(log, instance, name)["rho"].mean() for name in IDEALS}
    assert time.thread_time() - began < 60
    assert means["exclusive"] > max(means["themis"], means["gavel"])
    number = mean_present(arrival, finish)
    for i in range(0, n, n // 8):
        overlap = np.minimum(finish, finish[i]) - np.maximum(arrival, arrival[i])
        assert number[i] == pytest.approx(np.maximum(overlap, 0).sum() / (finish[i] - arrival[i]), rel=PROVEN)
