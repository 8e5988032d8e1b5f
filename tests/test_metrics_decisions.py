"""What decisions took and changed, and mixed gangs, against hand computation and comparing round with round."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from metric_cases import Span, by_hand, log_of, simulations, spans_of
from simulated import table_1

from hetopt import Cluster, Instance, Job, Log, simulate
from hetopt.errors import MetricUnavailable
from hetopt.metrics import changes, decision_seconds, stragglers
from hetopt.models import fft


def test_by_hand() -> None:
    """At 8 x moves and y is stopped; at 16 x has finished, y and z begin."""
    table = changes(*by_hand())
    assert table.index.tolist() == [0, 8, 16]
    assert table["changed"].tolist() == [True, True, True]
    assert table["altered"].tolist() == [False, True, False]


def test_a_round_in_which_everyone_stays_or_finishes_changes_nothing() -> None:
    """FFT's Table 1: the jobs stay for a round, one finishes after two and the other then moves."""
    table = changes(simulate(fft.FFT(60.0), table_1()), table_1())
    assert table.to_numpy().tolist() == [[True, False], [False, False], [True, True], [False, False]]
    jobs = Instance(Cluster.of({"A": 2}), jobs=(Job("a", {"A": 1}, 12), Job("b", {"A": 1}, 20)))
    rows = [("a", None, 0.0, 0.0, 12.0, 0, 12.0, 12.0), ("b", None, 0.0, 0.0, 20.0, 0, 20.0, 20.0)]
    spans = [("a", 0.0, 12.0, "A", "", 1, 0.0, 12.0), ("b", 0.0, 20.0, "A", "", 1, 0.0, 20.0)]
    assert changes(log_of(rows, spans, [0.0, 8.0, 16.0, 24.0], 2), jobs)["changed"].tolist() == [True, False, False]


def test_seconds_of_decisions() -> None:
    log, instance = by_hand()
    timed = replace(log, decision_seconds=pd.Series([1.0, 2.0, 6.0]))
    assert decision_seconds(timed)[["mean", "median", "max"]].tolist() == [3, 2, 6]
    assert decision_seconds(timed)["p99"] == pytest.approx(2 + 0.98 * 4)
    with pytest.raises(MetricUnavailable, match=r"log.decision_seconds is empty"):
        decision_seconds(log)
    assert len(changes(log, instance)) == 3  # does not need it


def test_workers_of_mixed_gangs() -> None:
    log, instance = by_hand()
    mixed = log.spans.assign(gpu_type=["B", "A+B", "A", "A", "A+B"])
    table = stragglers(replace(log, spans=mixed), instance)
    assert table.to_numpy().tolist() == [[1, 2], [0, 0], [1, 1]]
    assert not stragglers(log, instance).to_numpy().any()


@given(simulations())
@settings(max_examples=60)
def test_against_comparing_round_with_round(case: tuple[Log, Instance]) -> None:
    log, instance = case
    spans, starts = spans_of(log), log.rounds["start"].tolist()
    finish = {name: at for name, at in log.jobs["finish"].items() if pd.notna(at)}

    def here(start: float) -> dict[str, Span]:
        return {span.job: span for span in spans if span.start <= start < span.end}

    def place(span: Span | None) -> str | None:
        return None if span is None else span.seats

    expected, mixed, before = [], [], dict[str, Span]()
    for start in starts:
        now = here(start)
        begins = any(place(before.get(job)) != place(span) for job, span in now.items())
        stops = any(
            place(now.get(job)) != place(span) and finish.get(job, float("inf")) > start for job, span in before.items()
        )
        expected.append([begins or stops, stops])
        several = [span.gpus for span in now.values() if len(span.types) > 1]
        mixed.append([len(several), sum(several)])
        before = now
    assert changes(log, instance).to_numpy().tolist() == expected
    assert stragglers(log, instance).to_numpy().tolist() == mixed
