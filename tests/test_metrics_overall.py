"""The row of all metrics: every number against its own function, and what does not apply is NaN."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import by_hand, log_of, simulations
from simulated import Shortest

from hetopt import HierarchicalPlacer, Instance, Log, instances, simulate
from hetopt.metrics import METRICS, changes, cru, decision_seconds, envy, jct, sharing, summary, switching
from hetopt.metrics.finish_time import IDEALS
from hetopt.models import hadare


def test_by_hand() -> None:
    log, instance = by_hand()
    timed = replace(log, decision_seconds=pd.Series([1.0, 2.0, 6.0]), jobs=log.jobs.assign(wasted=[8.0, 0, 2, 0]))
    found = summary(timed, instance)
    assert found[["jobs", "started", "finished", "unfinished", "not_arrived"]].tolist() == [4, 3, 2, 2, 1]
    assert found[["queueing_mean", "starvation_mean", "starvation_max"]].tolist() == [6, 4, 12]
    assert found[["switches_mean", "beneficial", "lost", "lost_share"]].tolist() == [0.25, 1, 3, 3 / 34]
    assert found["wasted_share"] == (8 / 40 + 0.5) / 4
    assert found[["switches_per_hour", "switches_per_round"]].tolist() == [1 / (58 / 3600), 1 / 3]
    assert found[["gru", "cru", "utilisation"]].tolist() == [42 / 96, 31 / 48, 42 / 96]
    assert found[["decision_mean", "decision_max"]].tolist() == [3, 6]
    assert found[["changed", "altered", "stragglers"]].tolist() == [1, 1 / 3, 0]
    assert found[["makespan", "total_flow", "throughput", "envy", "sharing", "deviation"]].isna().all()


def test_every_ideal_of_finish_time_fairness_has_its_metrics() -> None:
    """The ideals are functions, their metrics rows of a table; neither may have one that the other lacks."""
    names = [f"ftf_{ideal}_{key}" for ideal in IDEALS for key in ("mean", "max", "below_1", "jain")]
    assert [name for name in METRICS if name.startswith("ftf_")] == names


def test_every_number_is_defined_with_its_unit() -> None:
    assert list(summary(*by_hand()).index) == list(METRICS)
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.meaning[0].isupper()
        assert not metric.meaning.endswith(".")
        assert metric.description == f"{metric.meaning} ({metric.unit})."


def test_before_the_first_arrival_there_is_nothing() -> None:
    instance = Instance.from_jobs([[1.0]], 1, [1], [1], arrival=[10.0])
    log = simulate(Shortest(), instance, until=5.0)
    found = summary(log, instance)
    assert found[["jobs", "not_arrived"]].tolist() == [0, 1]
    assert found.drop(["jobs", "started", "finished", "unfinished", "not_arrived", "lost"]).isna().all()
    assert found["lost"] == 0


def test_without_a_placer_only_cru_is_missing() -> None:
    jobs = Instance.from_jobs([[2.0, 1.0]] * 3, 1, [600, 300, 900], [1, 1], round_seconds=1.0)
    rows = {
        name: summary(simulate(Shortest(round_seconds=60.0), jobs, placer=placer), jobs)
        for name, placer in (("placed", HierarchicalPlacer()), ("types", None))
    }
    table = pd.DataFrame(rows)
    assert table.loc["cru"].isna().tolist() == [False, True]
    same = table.drop(["cru", *(name for name in METRICS if name.startswith("decision"))])
    assert (same["placed"].fillna(-1) == same["types"].fillna(-1)).all()


def test_copies_may_finish_faster_than_alone() -> None:
    """The one case in which rho < 1 under "exclusive": HadarE trains on five servers at once."""
    mix = instances.load("hadar/m3")
    found = summary(simulate(hadare.HadarE(90.0), mix), mix)
    assert found["ftf_exclusive_below_1"] > 0


@given(simulations() | simulations(tenants=True))
@settings(max_examples=examples(20, 60))
def test_the_row_says_what_the_functions_say(case: tuple[Log, Instance]) -> None:
    log, instance = case
    found = summary(log, instance)
    assert list(found.index) == list(METRICS)
    np.testing.assert_array_equal(
        found[["jct_mean", "jct_median", "jct_p95", "jct_p99"]], jct(log, instance)[["mean", "median", "p95", "p99"]]
    )
    np.testing.assert_array_equal(found["lost_share"], switching(log, instance)["lost_share"])
    np.testing.assert_array_equal(found[["changed", "altered"]], changes(log, instance).mean())
    shares = ["gru", "cru", "utilisation", "lost_share", "beneficial", "changed", "altered"]
    assert found[[*shares, *(name for name in METRICS if "below" in name)]].dropna().between(0, 1).all()
    assert found["ftf_exclusive_below_1"] == 0 or not found["finished"]
    if len(log.spans) and (log.spans["servers"] != "").all():
        assert found["cru"] == cru(log, instance)
    if instance.tenants and len(log.rounds):
        np.testing.assert_array_equal(found["sharing"], sharing(log, instance).min())
        np.testing.assert_array_equal(found["envy"], envy(log, instance)["gain"].clip(lower=0).max())
    else:
        assert found[["throughput", "sharing", "envy"]].isna().all()
    np.testing.assert_array_equal(found["decision_max"], decision_seconds(log)["max"])


@given(st.permutations(range(5)))
@settings(max_examples=10)
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    log, instance = by_hand()
    other = replace(log, spans=log.spans.iloc[order], jobs=log.jobs.iloc[::-1])
    pd.testing.assert_series_equal(summary(other, instance), summary(log, instance))
    assert log_of([], [], [0.0, 1.0], 1).spans.empty


def test_the_page_has_the_definitions() -> None:
    page = Path(__file__).parents[1] / "docs" / "how-to" / "measure-a-simulation.md"
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert rows == {name: metric.description for name, metric in METRICS.items()}
