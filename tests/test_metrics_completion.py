"""When jobs finish and how long they wait, against hand computation and a walk over all moments."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from metric_cases import NAN, by_hand, is_present, log_of, moments, simulations, spans_of
from simulated import Shortest

from hetopt import Cluster, Instance, Job, Log, simulate
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.metrics import completion, counts, finished_over_time, jct, jct_cdf, totals


def test_by_hand() -> None:
    log, instance = by_hand()
    assert counts(log, instance).to_dict() == {
        "jobs": 4,
        "started": 3,
        "finished": 2,
        "unfinished": 2,
        "done_before": 0,
        "not_arrived": 1,
    }
    table = completion(log, instance)
    assert table.index.tolist() == ["x", "y", "z", "w"]
    assert table["held"].tolist() == [14, 12, 8, 0]
    assert table["queueing"].tolist() == [0, 8, 12, 4]
    assert table["starvation"].tolist() == [0, 0, 12, 4]  # w has not started: until the end of the log
    np.testing.assert_array_equal(table["jct"], [14, 20, NAN, NAN])
    assert totals(log, instance).isna().all()
    found = jct(log, instance)
    assert found[["mean", "median", "max", "finished", "unfinished"]].tolist() == [17, 17, 20, 2, 2]
    assert found["p95"] == pytest.approx(14 + 0.95 * 6)
    assert jct_cdf(log, instance).to_dict() == {14: 0.25, 20: 0.5}
    assert finished_over_time(log, instance).to_dict() == {14: 0.25, 20: 0.5}


def test_sums_of_a_log_without_unfinished_jobs() -> None:
    jobs = Instance(Cluster.of({"A": 1}), jobs=(Job("a", {"A": 1}, 4, arrival=2), Job("b", {"A": 1}, 4, arrival=3)))
    log = log_of(
        [("a", None, 2.0, 2.0, 6.0, 0, 4.0, 4.0), ("b", None, 3.0, 6.0, 10.0, 0, 4.0, 4.0)],
        [("a", 2.0, 6.0, "A", "", 1, 0.0, 4.0), ("b", 6.0, 10.0, "A", "", 1, 0.0, 4.0)],
        [2.0, 3.0, 6.0, 10.0],
        1.0,
    )
    assert totals(log, jobs).to_dict() == {"makespan": 8, "total_completion": 16, "total_flow": 11}
    assert completion(log, jobs)["queueing"].tolist() == [0, 3]


def test_sums_wait_for_jobs_that_have_not_come() -> None:
    jobs = Instance.from_jobs([[1.0], [1.0]], 1, work=[4, 4], capacity=[1], arrival=[0, 100], round_seconds=1.0)
    log = simulate(Shortest(), jobs, until=50.0)
    assert log.jobs["finish"].tolist() == [4.0]
    assert totals(log, jobs).isna().all()
    assert jct(log, jobs)["mean"] == 4


def test_copies_at_the_same_time_count_once() -> None:
    jobs = Instance(Cluster.of({"A": 2}, gpus_per_server=1), jobs=(Job("a", {"A": 1}, 8),))
    spans = [("a", 0.0, 4.0, "A", "a-0", 1, 0.0, 4.0), ("a", 0.0, 3.0, "A", "a-1", 1, 0.0, 3.0)]
    log = log_of(
        [("a", None, 0.0, 0.0, 5.0, 0, 8.0, 8.0)], [*spans, ("a", 4.0, 5.0, "A", "a-1", 1, 0.0, 1.0)], [0.0, 8.0], 2
    )
    assert completion(log, jobs)[["held", "queueing"]].to_numpy().tolist() == [[5, 0]]


def test_jobs_without_work_left_are_counted_apart() -> None:
    jobs = Instance.from_jobs([[1.0], [1.0]], 1, work=[4, 4], capacity=[1], done={"j1": 4})
    log = simulate(Shortest(), jobs)
    assert counts(log, jobs)[["jobs", "finished", "done_before"]].tolist() == [1, 1, 1]
    assert totals(log, jobs)["total_flow"] == log.jobs.loc["j2", "finish"]


@given(simulations())
@settings(max_examples=40)
def test_waiting_against_a_walk_over_all_moments(case: tuple[Log, Instance]) -> None:
    """Queueing + held = stay, exactly; and what the simulator itself says of starvation and makespan."""
    log, instance = case
    table, number = completion(log, instance), counts(log, instance)
    held = dict.fromkeys(log.jobs.index, Fraction(0))
    waits = dict.fromkeys(log.jobs.index, Fraction(0))
    spans, jobs = spans_of(log), list(log.jobs.itertuples())
    for moment, length in moments(log):
        running = {span.job for span in spans if span.runs(moment)}
        for row in jobs:
            if row.Index in running:
                held[row.Index] += length
            elif is_present(row, moment):
                waits[row.Index] += length
    assert table["held"].tolist() == list(held.values())
    assert table["queueing"].tolist() == list(waits.values())
    done = table.dropna()
    assert (done["held"] + done["queueing"] == done["jct"]).all()
    began = log.jobs["start"].notna()
    assert (table["starvation"][began] == log.jobs["starvation"][began]).all()
    assert number["jobs"] == number["finished"] + number["unfinished"] == len(log.jobs)
    assert number["not_arrived"] == len(instance.jobs) - len(log.jobs)
    sums = totals(log, instance)
    if number["finished"] == len(instance.jobs):
        assert sums["makespan"] == log.makespan
        assert sums["total_flow"] == sums["total_completion"] - sum(job.arrival for job in instance.jobs)
    else:
        assert sums.isna().all()
    for curve in (jct_cdf(log, instance), finished_over_time(log, instance)):
        assert curve.is_monotonic_increasing
        assert curve.index.is_monotonic_increasing
        assert curve.iloc[-1] == number["finished"] / number["jobs"] if len(curve) else not number["finished"]


def test_a_log_of_something_else_is_refused() -> None:
    log, instance = by_hand()
    with pytest.raises(InvalidInstance, match=r"log.jobs has job 'x', which the instance does not have"):
        completion(log, instance.replace(jobs=instance.jobs[1:]))
    with pytest.raises(InvalidOption, match=r"log is .*, which is not a hetopt Log"):
        completion(log.jobs, instance)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance, match=r"log.spans has job 'z'"):
        counts(log_of([], [("z", 0.0, 1.0, "A", "", 1, 0.0, 1.0)], [0.0, 1.0], 1), instance)
