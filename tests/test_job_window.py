"""A window of job numbers in order of arrival: where a simulation stops, and over which jobs metrics are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import Drawn, instances, simulations
from refused import refused
from simulated import Shortest, fig_2

from hetopt import Instance, InvalidOption, Log, simulate
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload
from hetopt.metrics import completion, finish_time_fairness, jct_cdf, migrations, summary
from hetopt.presentation.simulation_report.report_page import page


def numbered(instance: Instance, window: tuple[int, int]) -> list[str]:
    """Names of the jobs with these numbers, as Gavel counts its ids: by arrival, then as they are listed."""
    jobs = sorted(enumerate(instance.jobs), key=lambda pair: (pair[1].arrival, pair[0]))
    return [job.name for _, job in jobs][window[0] : window[1]]


@st.composite
def windows(draw: st.DrawFn, instance: Instance) -> tuple[int, int]:
    first = draw(st.integers(0, len(instance.jobs) - 1))
    return first, draw(st.integers(first + 1, len(instance.jobs)))


@given(st.data(), instances(), st.sampled_from([None, 16.0]), st.integers(0, 99))
@settings(max_examples=examples(40, 300), deadline=None)
def test_a_simulation_stops_when_its_jobs_have_finished(
    data: st.DataObject, instance: Instance, seconds: float | None, seed: int
) -> None:
    """Up to the first decision after the last of them the log is that of the whole simulation."""
    window = data.draw(windows(instance))
    whole = simulate(Drawn(seed, seconds), instance)
    log = simulate(Drawn(seed, seconds), instance, job_window=window)
    names = numbered(instance, window)
    last = whole.jobs.loc[names, "finish"].max()
    later = [time for time in (*whole.rounds["start"], *whole.rounds["end"]) if time >= last]
    assert log.end == min(later)
    assert log.jobs.loc[names, "finish"].tolist() == whole.jobs.loc[names, "finish"].tolist()
    pd.testing.assert_frame_equal(log.rounds, whole.rounds[whole.rounds["start"] < log.end])
    assert log.job_window == window


@given(st.data(), simulations())
@settings(max_examples=examples(40, 300), deadline=None)
def test_metrics_are_over_its_jobs(data: st.DataObject, case: tuple[Log, Instance]) -> None:
    """As in the tables of all jobs without the rows of the others."""
    whole, instance = case
    window = data.draw(windows(instance))
    log, names = replace(whole, job_window=window), numbered(instance, window)
    own = [name for name in whole.jobs_with_work.index if name in names]
    assert log.counted_jobs.index.tolist() == own
    for metric in (completion, finish_time_fairness, migrations):
        pd.testing.assert_frame_equal(metric(log, instance), metric(whole, instance).loc[own])
    row, everything, jobs = summary(log, instance), summary(whole, instance), whole.jobs.loc[own]
    jct = (jobs["finish"] - jobs["arrival"]).dropna()
    expected = {
        "jobs": len(own),
        "finished": len(jct),
        "unfinished": len(own) - len(jct),
        "not_arrived": len(names) - len(whole.jobs.index.intersection(names)),
        "jct_mean": jct.mean(),
        "jct_p99": jct.quantile(0.99),
        "switches_mean": jobs["switches"].mean(),
        "ftf_themis_max": finish_time_fairness(whole, instance)["rho"].loc[own].max(),
    }
    complete = own and len(jct) == len(names)
    expected["makespan"] = jobs["finish"].max() - jobs["arrival"].min() if complete else np.nan
    expected["total_flow"] = jct.sum() if complete else np.nan
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, nan_ok=True), name
    assert jct_cdf(log, instance).iloc[-1:].tolist() == ([len(jct) / len(own)] if len(jct) else [])
    for name in ("utilisation", "gru", "idle_gap_share", "changed", "stragglers"):  # of the cluster and of decisions
        assert row[name] == pytest.approx(everything[name], nan_ok=True), name


def test_by_hand() -> None:
    """J1 and J4 arrive at 0, J2 at 600; listed as J1, J2, J4. Number 1 is J4."""
    instance = fig_2()
    whole = simulate(Shortest(), instance)
    log = simulate(Shortest(), instance, job_window=(1, 2))
    assert log.counted_jobs.index.tolist() == ["J4"]
    assert summary(log, instance)["jct_mean"] == whole.jobs.loc["J4", "jct"]
    assert summary(replace(whole, job_window=(1, 2)), instance)["jct_mean"] == whole.jobs.loc["J4", "jct"]


SMALL = TraceWorkload("gavel-like", "hadar/cluster60", count=12)


@pytest.mark.parametrize("window", [(0, 4), (2, 2), (-1, 2), (0.0, 2), (0,), "0:2", (True, 2), 3])
def test_other_windows_are_refused(window: Any) -> None:
    with refused(InvalidOption, "job_window", "from 0 to 3, the number of jobs"):
        simulate(Shortest(), fig_2(), job_window=window)
    experiment = Experiment((replace(SMALL, count=3),), (SystemVariant("srtf"),), job_window=window)
    with refused(InvalidOption, "job_window", "from 0 to 3, the number of jobs"):
        next(experiment.runs()).run()


@pytest.mark.parametrize("window", [(0, 4), (2, 1), "ab"])
def test_other_windows_of_a_log_are_refused(window: Any) -> None:
    log = simulate(Shortest(), fig_2())
    with refused(InvalidOption, "job_window", "from 0 to 3, the number of jobs"):
        summary(replace(log, job_window=window), fig_2())


def test_stored_runs_keep_it(tmp_path: Path) -> None:
    """Summary, logs and page are over the window; other windows count as other settings."""
    one = Experiment((SMALL,), (SystemVariant("srtf"),), job_window=(3, 9))
    one.run(RunStore(tmp_path))
    assert one.run(RunStore(tmp_path)) == []
    with pytest.raises(InvalidOption, match=r"job_window was \[3, 9\]"):
        replace(one, job_window=(3, 8)).run(RunStore(tmp_path))
    (run,) = RunStore(tmp_path).runs()
    names = numbered(SMALL.instance(0), (3, 9))
    assert run.record.summary["jobs"] == run.record.summary["finished"] == 6
    assert sorted(run.log.counted_jobs.index) == sorted(names)
    assert run.record.summary["jct_mean"] == pytest.approx(run.log.jobs.loc[names, "jct"].mean())
    assert "job_window" in page(RunFolder.of(tmp_path))
    with refused(InvalidOption, "job_window"):
        replace(one, job_window=(3, 13)).run(RunStore(tmp_path / "other"))


def test_the_option(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("simulate", "gavel-like", "--cluster", "hadar/cluster60", "--count", "12", "-p", "srtf,fifo")
    code, out, errors = run(*words, "--job-window", "3:9", "--json")
    assert code == 0, errors
    assert [row["jobs"] for row in json.loads(out)] == [6, 6]
    for window, what in (("3", "FIRST:END"), ("3:x", "FIRST:END"), ("9:3", "from 0 to 12"), ("3:13", "from 0 to 12")):
        code, out, errors = run(*words, "--out", "other", "--job-window", window)
        assert (code, out) == (2, "")
        assert what in errors
    assert not Path("other").exists()
