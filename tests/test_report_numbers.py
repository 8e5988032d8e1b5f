"""Numbers of the report: statistics over seeds, means over intervals of time, distributions, formatting."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from metric_cases import simulations
from report_cases import TRACE, invented

from hetopt import Instance, Log, UnknownName
from hetopt.data.units import Better, Unit
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunKey, RunRecord, RunStore
from hetopt.experiments.seed_statistics import SeedStatistics
from hetopt.metrics import completion, efficiency
from hetopt.metrics.definitions import METRICS, Theme, by_theme, metric_of
from hetopt.metrics.over_time import extent, mean_throughput, mean_utilisation, mean_waiting
from hetopt.presentation.simulation_report.result_tables import best_names

ROWS = {
    ("t", "a", 0): {"jct_mean": 4.0, "gru": 0.5, "beneficial": math.nan, "jobs": 9.0},
    ("t", "a", 1): {"jct_mean": 8.0, "gru": 0.75, "beneficial": 0.5, "jobs": 9.0},
    ("t", "b", 0): {"jct_mean": 2.0, "gru": 0.5, "beneficial": math.nan, "jobs": 7.0},
    ("t", "b", 1): {"jct_mean": 16.0, "gru": 0.25, "beneficial": math.nan, "jobs": 7.0},
    ("t", "c", 0): {"jct_mean": 1.0, "gru": 1.0, "beneficial": 1.0, "jobs": 7.0},
    ("t", "c", 1): "too large",
    ("t", "d", 0): "no tenants",
}


EQUAL = (("a", 3600.0, 0.5), ("b", 3600.1, 0.50001), ("c", 7200.0, 0.49999))
"""System, mean completion time and GPU utilisation."""


@pytest.fixture
def statistics(tmp_path: Path) -> SeedStatistics:
    (part,) = RunFolder.of(invented(tmp_path, ROWS)).workloads
    return part.statistics


def test_statistics_by_hand(statistics: SeedStatistics) -> None:
    assert statistics.systems == ["c", "a", "b"]
    assert statistics.mean["jct_mean"].tolist() == [1.0, 6.0, 9.0]
    assert statistics.least["jct_mean"].tolist() == [1.0, 4.0, 2.0]
    assert statistics.most["jct_mean"].tolist() == [1.0, 8.0, 16.0]
    assert statistics.known["beneficial"].tolist() == [1, 1, 0]
    assert statistics.seeds == {"c": [0], "a": [0, 1], "b": [0, 1]}
    assert statistics.refused == {"c": {1: "too large"}, "d": {0: "no tenants"}}
    assert statistics.metrics == ["jobs", "jct_mean", "beneficial", "gru"]
    assert set(statistics.absent) == set(METRICS) - set(statistics.metrics)


def test_the_best_are_those_with_all_seeds(statistics: SeedStatistics) -> None:
    """System c ran with one seed only; no system is best in the number of jobs."""
    assert best_names(statistics, "jct_mean") == ["a"]
    assert best_names(statistics, "gru") == ["a"]
    assert best_names(statistics, "jobs") == []


def test_equal_as_written_is_equally_good(tmp_path: Path) -> None:
    rows = {("t", name, 0): {"jct_mean": jct, "gru": gru} for name, jct, gru in EQUAL}
    (part,) = RunFolder.of(invented(tmp_path, rows)).workloads
    assert best_names(part.statistics, "jct_mean") == ["a", "b"]
    assert best_names(part.statistics, "gru") == [], "all are written as 50.00 %"


def test_ratios_are_taken_seed_by_seed(statistics: SeedStatistics) -> None:
    ratios = statistics.ratios("b")["jct_mean"]
    assert ratios.to_dict() == {("a", 0): 2.0, ("a", 1): 0.5, ("b", 0): 1.0, ("b", 1): 1.0, ("c", 0): 0.5}
    only = statistics.ratios("c")["jct_mean"]
    assert np.isnan(only["a", 1])
    assert only["a", 0] == 4.0


def test_the_baseline_is_fft_or_the_first(statistics: SeedStatistics, tmp_path: Path) -> None:
    assert statistics.baseline() == "c"
    assert statistics.baseline("b") == "b"
    with pytest.raises(UnknownName, match="'d' to compare with; known: a, b, c"):
        statistics.baseline("d")
    (part,) = RunFolder.of(invented(tmp_path / "2", {("t", "fft", 0): {"jct_mean": 2.0}, **ROWS})).workloads
    assert part.statistics.baseline() == "fft"


def test_a_variant_of_the_baseline_is_found_by_its_system(tmp_path: Path) -> None:
    store = RunStore(invented(tmp_path, ROWS))
    key = RunKey("t", "fft[normalise=False]", 0)
    store.write(RunRecord(key, {"system": "fft"}, {"jct_mean": 9.0}), None)
    (part,) = RunFolder.of(tmp_path).workloads
    assert part.statistics.baseline() == part.statistics.baseline("fft") == "fft[normalise=False]"


def test_every_metric_has_a_theme_and_a_unit() -> None:
    """A metric that is new to the package stands below a heading, too."""
    found = by_theme([*METRICS, "new"])
    assert sorted(name for names in found.values() for name in names) == sorted([*METRICS, "new"])
    assert found[Theme.OTHER] == ["new"]
    assert set(found) == set(Theme)
    assert {metric.unit for metric in METRICS.values()} == set(Unit) - {Unit.GPUS}
    assert metric_of("jct_mean").unit is Unit.SECONDS
    assert [metric_of(name).better for name in ("jct_mean", "utilisation", "jobs", "ftf_gavel_below_1", "new")] == [
        Better.LOWER,
        Better.HIGHER,
        Better.NEITHER,
        Better.HIGHER,
        Better.NEITHER,
    ]


@given(simulations())
def test_areas_under_the_curves_are_those_of_the_metrics(case: tuple[Log, Instance]) -> None:
    """GPU-seconds of training, and seconds that jobs wait, are the same however they are divided."""
    log, instance = case
    if not len(log.rounds) or not len(log.jobs):
        return
    edges = np.linspace(*extent([log]), 8)
    length = np.diff(edges)
    trained = (log.spans["end"] - log.spans["start"] - log.spans["lost"]).clip(lower=0.0) @ log.spans["gpus"]
    assert np.nansum(mean_utilisation(log, edges) * length) * log.capacity == pytest.approx(trained)
    assert np.nansum(mean_waiting(log, edges) * length) == pytest.approx(completion(log, instance)["queueing"].sum())


def test_promises_are_those_of_the_metric(tmp_path: Path) -> None:
    """Means over time of both curves are what hetopt.metrics.efficiency says."""
    Experiment((TRACE,), (SystemVariant("oef-cooperative"),), (0,)).run(RunStore(tmp_path))
    ((run),) = RunStore(tmp_path).runs()
    edges = np.linspace(*extent([run.log]), 51)
    estimated, actual = mean_throughput(run.log, edges)
    whole = (run.log.rounds["end"] - run.log.rounds["start"]).sum()
    expected = efficiency(run.log, TRACE.instance(0)).loc["total"]
    for curve, key in ((estimated, "estimated"), (actual, "actual")):
        assert np.nansum(curve * np.diff(edges)) / whole == pytest.approx(expected[key])
