"""Windows and timelines: the busiest stretch against brute force, and bars that lie on GPUs as the log says."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import NAN, by_hand, log_of, simulations
from report_cases import MIX

from hetopt import Instance, InvalidOption, Log
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunStore
from hetopt.presentation.gantt import GanttBar
from hetopt.presentation.simulation_report import gantt_charts
from hetopt.presentation.simulation_report.gantt_charts import (
    STARTS,
    busiest_window,
    job_bars,
    parse_window,
    windows_of,
)
from hetopt.presentation.style import series_styles


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:60", (0.0, 60.0)), ("2h:6h", (7200.0, 21600.0)), (" 1.5 min : 1d", (90.0, 86400.0)), ("30m:.5h", None)],
)
def test_windows_are_read(text: str, seconds: tuple[float, float] | None) -> None:
    if seconds is None:
        with pytest.raises(InvalidOption, match="end must be after"):
            parse_window(text)
    else:
        assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "a:b", "1:2:3", "-1:5", "1e3:1e4", "2 weeks:3 weeks", "5:5", "nan:1"])
def test_windows_that_are_none(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"window is .* must be"):
        parse_window(text)


def test_a_window_that_shows_nothing() -> None:
    """One workload lasts from 0 to 24, the other from 0 to 64; of the third nothing ran."""
    log, _ = by_hand()
    logs = {"a": [log], "b": [log_with([])], "c": []}
    assert windows_of(logs, (23.0, 99.0)) == {"a": (23.0, 99.0), "b": (23.0, 99.0)}
    assert windows_of(logs, (24.0, 30.0)) == {"b": (24.0, 30.0)}
    for window in ((64.0, 70.0), (-5.0, 0.0)):
        with pytest.raises(InvalidOption, match="a lasts from 0 to 24; b lasts from 0 to 64; choose one within it"):
            windows_of(logs, window)
    assert windows_of({"c": []}, (0.0, 1.0)) == {}


JOBS = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 90), st.integers(1, 8)), min_size=1, max_size=6)


def log_with(jobs: list[tuple[int, int, int]], unit: float = 1.0, whole: int = 64) -> Log:
    """Jobs by arrival, stay (0: unfinished) and demand; the log ends after the ``whole``, all in this unit."""
    rows = [
        (f"j{i}", None, unit * arrival, NAN, unit * (arrival + stay) if stay else NAN, 0, 8.0, 8.0 if stay else 0.0)
        for i, (arrival, stay, _) in enumerate(jobs)
    ]
    log = log_of(rows, [], [0.0, unit * whole], 8.0)
    return replace(log, jobs=log.jobs.assign(demand=[demand for *_, demand in jobs]))


@given(st.lists(JOBS, min_size=1, max_size=2))
def test_no_window_asks_for_more(cases: list[list[tuple[int, int, int]]]) -> None:
    """An hour of four, against every hour that begins at a whole minute, in whole numbers: the first of the best."""
    assert STARTS == 181
    logs = [log_with(jobs, 60.0, 240) for jobs in cases]

    def demanded(begin: int) -> int:
        total = 0
        for jobs in cases:
            for arrival, stay, gpus in jobs:
                leaves = arrival + stay if stay else 240
                total += gpus * max(0, min(begin + 60, leaves) - max(begin, arrival))
        return total

    every = [demanded(begin) for begin in range(181)]
    assert busiest_window(logs) == pytest.approx([60.0 * (every.index(max(every)) + i) for i in (0, 60)])


def test_the_standard_window_is_a_quarter_from_one_to_four_hours() -> None:
    log, hour = log_with([(0, 4, 1)]), 3600.0
    for whole, length in ((0.5, 0.5), (3.0, 1.0), (8.0, 2.0), (100.0, 4.0)):
        rounds = pd.DataFrame({"start": [0.0], "end": [whole * hour]})
        assert busiest_window([replace(log, rounds=rounds, events=log.events.iloc[:0])]) == (0.0, length * hour)


def test_bars_by_hand() -> None:
    """One job moves to another server and loses 2 s; z takes its place; y starts twice; w never runs."""
    log = by_hand()[0]
    styles = series_styles(["A", "B"])
    bars = job_bars(log, ["z", "y", "w"], styles)
    assert bars == [
        GanttBar(1, 0, 1, 0.0, 8.0, styles["A"], "a-0", begun=0.0),
        GanttBar(1, 0, 1, 16.0, 20.0, styles["A"], "a-0", begun=17.0),
        GanttBar(0, 0, 1, 16.0, 24.0, styles["B"], "b-0", begun=16.0),
    ]
    assert [(bar.end, bar.begun) for bar in job_bars(log, ["x"], {})] == [(8.0, 0.0), (14.0, 10.0)]


@given(simulations())
def test_bars_are_the_spans_and_copies_do_not_hide_each_other(case: tuple[Log, Instance]) -> None:
    log, _ = case
    jobs = sorted(set(log.spans["job"]))
    bars = job_bars(log, jobs, {})
    found = sorted((jobs[bar.row], bar.start, bar.end, bar.label) for bar in bars)
    assert found == sorted(log.spans[["job", "start", "end", "servers"]].itertuples(index=False, name=None))
    for a, b in combinations(bars, 2):
        assert a.row != b.row or a.line != b.line or a.end <= b.start or b.end <= a.start


def test_copies_stand_side_by_side(tmp_path: Path) -> None:
    """HadarE runs a job on several servers at once."""
    Experiment((MIX,), (SystemVariant("hadare"),)).run(RunStore(tmp_path))
    (part,) = RunFolder.of(tmp_path).workloads
    ((_, log),) = part.logs(0)
    bars = job_bars(log, sorted(log.jobs.index), {})
    assert max(bar.line for bar in bars) > 0


def test_the_jobs_with_most_gpu_time_have_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 GPU-seconds of y and 14 of x in all; in the last 6 seconds, 6 of z and 4 of y; the rows are by arrival."""
    monkeypatch.setattr(gantt_charts, "MOST_ROWS", 2)
    logs = {"s": by_hand()[0]}
    for window, names in (((0.0, 24.0), ["x", "y"]), ((18.0, 24.0), ["y", "z"])):
        found = gantt_charts.gantt_charts(logs, window, "w")
        (drawn,) = found["pictures"]
        assert re.findall(r">([wxyz])</text>", drawn.svg) == names
        assert (found["shown"], [key.label for key in found["keys"]]) == (2, ["A", "B", "starting or moving"])
