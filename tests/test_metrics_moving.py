"""Moves, whom they helped and what they cost, against hand computation, FFT's worked example, and the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from metric_cases import SPANS, by_hand, simulations, spans_of
from simulated import MINUTE, Shortest, fig_2

from hetopt import Instance, Log, Overheads, Plan, instances, simulate
from hetopt.errors import MetricUnavailable
from hetopt.formulations.traits import Traits
from hetopt.metrics import migrations, moves, switching, wasted_share
from hetopt.models import hadare


def test_by_hand() -> None:
    log, instance = by_hand()
    table = moves(log, instance)
    assert table.to_numpy().tolist() == [[8.0, "x", "B", "A", "b-0", "a-0", True, True]]  # y resumes where it was
    jobs = migrations(log, instance)
    assert jobs["switches"].tolist() == [1, 0, 0, 0]
    assert jobs["present"].tolist() == [14, 20, 20, 4]
    assert jobs["running"].tolist() == [14, 12, 8, 0]
    assert jobs["lost"].tolist() == [2, 1, 0, 0]
    assert switching(log, instance).to_dict() == {
        "switches": 1,
        "per_job": 0.25,
        "per_job_hour": 1 / (58 / 3600),
        "per_round": 1 / 3,
        "beneficial": 1,
        "lost": 3,
        "lost_share": 3 / 34,
    }


def test_ffts_figure_2() -> None:
    """J4 moves T4 -> A10 -> T4 -> A10, twice to a faster GPU; 6 of its 18 minutes are lost."""
    instance = fig_2()
    log = simulate(Shortest(by_left=False), instance, overheads=Overheads(restart_seconds=2 * MINUTE))
    assert switching(log, instance)["beneficial"] == 2 / 3
    own = migrations(log, instance).loc["J4"]
    assert own[["switches", "between_types", "beneficial"]].tolist() == [3, 3, 2]
    assert own["lost"] == pytest.approx(6 * MINUTE)
    assert own["running"] == pytest.approx(18 * MINUTE)


@dataclass(frozen=True)
class Alternate:
    """Two jobs that change places every round, [FFT, Fig. 3]. State: whose turn it is."""

    round_seconds: float

    @property
    def traits(self) -> Traits:
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: bool | None = None) -> tuple[Plan, bool]:
        jobs = instance.entities("jobs")
        return Plan(jobs, np.eye(2)[:: -1 if state else 1][: len(jobs.names)]), not state


def test_ffts_figure_3() -> None:
    """Moving takes 40 % of each round, which leaves a utilisation of 60 %."""
    jobs = Instance.from_jobs([[8, 1], [8, 1]], 1, [27 * 10, 27 * 10], [1, 1], round_seconds=50.0)
    log = simulate(Alternate(50.0), jobs, overheads=Overheads(start_seconds=20.0, restart_seconds=20.0), max_rounds=20)
    found = switching(log, jobs)
    assert found["lost_share"] == 0.4
    assert found["beneficial"] == 0.5  # one goes up, the other down
    assert found["per_round"] == 2 * 19 / 20
    assert log.utilisation == pytest.approx(0.6)


def test_a_type_as_fast_as_the_last_is_no_benefit_and_a_server_no_type() -> None:
    log, instance = by_hand()
    same = instance.replace(jobs=tuple(replace(job, throughput={"A": 1, "B": 1}) for job in instance.jobs))
    assert switching(log, same)["beneficial"] == 0
    spans = log.spans.assign(gpu_type="A", servers=["a-0", "a-0", "b-0", "a-0", "b-0"])
    found = moves(replace(log, spans=spans), instance)
    assert found[["from_servers", "to_servers", "between_types", "beneficial"]].to_numpy().tolist() == [
        ["a-0", "b-0", False, False]
    ]
    assert np.isnan(switching(replace(log, spans=spans), instance)["beneficial"])


def test_the_same_types_in_another_order_are_no_type_change() -> None:
    """Gangs and copies list their types in the order of their servers."""
    log, instance = by_hand()
    rows = [
        ("y", 0.0, 8.0, "A+B", "a-0+b-0", 2, 0.0, 4.0),
        ("y", 8.0, 16.0, "B+A", "a-0+b-0", 4, 0.0, 4.0),
        ("x", 0.0, 8.0, "A", "a-0", 1, 0.0, 4.0),
        ("x", 0.0, 8.0, "B", "b-0", 1, 0.0, 4.0),
        ("x", 8.0, 16.0, "B", "a-0", 1, 0.0, 4.0),
        ("x", 8.0, 16.0, "A", "b-0", 1, 0.0, 4.0),
    ]
    found = moves(replace(log, spans=pd.DataFrame(rows, columns=SPANS)), instance)
    assert found[["job", "between_types"]].to_numpy().tolist() == [["x", False], ["y", False]]


def test_copies_count_together() -> None:
    """A job moves when one of its copies is where it was not; that a copy is given up is no move."""
    mix = instances.load("hadar/m3")
    log = simulate(hadare.HadarE(90.0), mix, overheads=Overheads(restart_seconds=10.0))
    expected = []
    for name, own in log.spans.groupby("job"):
        there = [(start, set(rows["servers"])) for start, rows in own.groupby("start")]
        expected += [(start, name) for (_, old), (start, new) in pairwise(there) if new - old]
    table = moves(log, mix)
    assert list(zip(table["time"], table["job"], strict=True)) == sorted(expected)
    assert 0 < len(table) <= log.jobs["switches"].sum()
    assert any(" " in servers for servers in table["to_servers"])


@given(simulations())
@settings(max_examples=60)
def test_against_the_simulator_and_a_plain_loop(case: tuple[Log, Instance]) -> None:
    log, instance = case
    spans = spans_of(log)
    jobs, table = migrations(log, instance), moves(log, instance)
    for name, own in ((name, [s for s in spans if s.job == name]) for name in log.jobs.index):
        own.sort(key=lambda span: span.start)
        speed = instance.job[name].throughput
        between = better = changed = 0
        for before, after in pairwise(own):
            old, new = (min(speed[t] for t in span.types) for span in (before, after))
            changed += before.seats != after.seats
            between += before.types != after.types
            better += before.types != after.types and new > old
        row = jobs.loc[name]
        assert (row["between_types"], row["beneficial"]) == (between, better)
        assert (table["job"] == name).sum() == changed
        assert changed == row["switches"]
        assert row["lost"] == sum(Fraction(span.lost) for span in own)
        assert row["running"] == sum(Fraction(span.end) - Fraction(span.start) for span in own)
    total = switching(log, instance)
    assert np.isnan(total["lost_share"]) or 0 <= total["lost_share"] <= 1
    assert total["switches"] == log.jobs["switches"].sum()


def test_work_lost_with_a_server() -> None:
    log, instance = by_hand()
    jobs = log.jobs.assign(wasted=[8.0, 0.0, 2.0, 0.0])
    assert wasted_share(replace(log, jobs=jobs), instance).tolist() == [8 / 40, 0, 0.5, 0]
    with pytest.raises(MetricUnavailable, match=r"has no column .wasted., which this metric needs; known: arrival"):
        wasted_share(log, instance)
