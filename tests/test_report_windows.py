"""Windows and timelines: the busiest stretch against brute force, and bars that lie on GPUs as the log says."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import NAN, by_hand, log_of, seated, simulations
from report_cases import MIX, TRACE, Page

from hetopt import InvalidOption, Log
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunStore
from hetopt.presentation.simulation_report import timelines
from hetopt.presentation.simulation_report.loaded_runs import LoadedRuns
from hetopt.presentation.simulation_report.report_page import ReportOptions, page
from hetopt.presentation.simulation_report.timelines import (
    GanttBar,
    bars_of_jobs,
    bars_on_servers,
    busiest_window,
    check_window,
    chosen_jobs,
    demands,
    parse_window,
    server_sizes,
)


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


def test_windows_that_show_nothing() -> None:
    log, _ = by_hand()
    check_window((23.0, 99.0), [log], "it")
    for window in ((24.0, 30.0), (-5.0, 0.0)):
        with pytest.raises(InvalidOption, match="it lasts from 0 to 24; choose one within it"):
            check_window(window, [log], "it")


JOBS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 24), st.integers(1, 8)), min_size=1, max_size=6)


def log_with(jobs: list[tuple[int, int, int]]) -> Log:
    """Jobs by arrival, stay (0: unfinished) and demand; the log ends at 64 s."""
    rows = [
        (f"j{i}", None, float(arrival), NAN, float(arrival + stay) if stay else NAN, 0, 8.0, 8.0 if stay else 0.0)
        for i, (arrival, stay, _) in enumerate(jobs)
    ]
    log = log_of(rows, [], [0.0, 64.0], 8.0)
    return replace(log, jobs=log.jobs.assign(demand=[demand for *_, demand in jobs]))


@given(st.lists(JOBS, min_size=1, max_size=2), st.integers(1, 70))
def test_no_stretch_asks_for_more(cases: list[list[tuple[int, int, int]]], length: int) -> None:
    """Against all stretches that begin at whole seconds, one by one in whole numbers: the first of the best."""
    logs = [log_with(jobs) for jobs in cases]
    start, end = busiest_window(logs, float(length))
    if length >= 64:
        assert (start, end) == (0.0, 64.0)
        return

    def demanded(begin: float) -> float:
        total = 0.0
        for jobs in cases:
            for arrival, stay, gpus in jobs:
                leaves = arrival + stay if stay else 64
                total += gpus * max(0.0, min(begin + length, leaves) - max(begin, arrival))
        return total

    every = [demanded(float(begin)) for begin in range(64 - length + 1)]
    assert end == start + length
    assert demanded(start) == max(every)
    assert start == every.index(max(every))


def test_the_standard_window_is_a_quarter_from_one_to_four_hours() -> None:
    log, hour = log_with([(0, 4, 1)]), 3600.0
    for whole, length in ((0.5, 0.5), (3.0, 1.0), (8.0, 2.0), (100.0, 4.0)):
        rounds = pd.DataFrame({"start": [0.0], "end": [whole * hour]})
        assert busiest_window([replace(log, rounds=rounds, events=log.events.iloc[:0])]) == (0.0, length * hour)


def test_what_jobs_ask_for_by_hand() -> None:
    """Of three jobs the last is unfinished: it is there until the end."""
    begins, ends, gpus = demands([log_with([(0, 8, 2), (4, 8, 1), (16, 0, 4)])])
    assert (begins.tolist(), ends.tolist(), gpus.tolist()) == ([0.0, 4.0, 16.0], [8.0, 12.0, 64.0], [2, 1, 4])


def test_bars_by_hand() -> None:
    """One GPU of b-0 and both of a-0; x moves to one GPU of a-0 and loses 2 s; z takes its place on b-0."""
    log, instance = by_hand()
    log = seated(log)
    room = server_sizes([log], instance)
    assert room == {"a-0": 2, "b-0": 2}
    assert server_sizes([log], None) == {"a-0": 2, "b-0": 1}
    bars = bars_on_servers(log, (0.0, 24.0), room)
    assert bars == [
        GanttBar("x", "x", 0.0, 0.0, 8.0, 1, 0, 1),
        GanttBar("y", "y", 0.0, 0.0, 8.0, 0, 0, 2),
        GanttBar("x", "x", 8.0, 10.0, 14.0, 0, 0, 1),
        GanttBar("y", "y", 16.0, 17.0, 20.0, 0, 0, 2),
        GanttBar("z", "z", 16.0, 16.0, 24.0, 1, 0, 1),
    ]
    assert bars_on_servers(log, (14.0, 16.0), room) == []
    assert chosen_jobs([log], (0.0, 24.0), 2) == ["x", "y"]
    assert chosen_jobs([log], (16.0, 24.0)) == ["y", "z"]
    assert bars_of_jobs(log, (16.0, 24.0), ["z", "y"]) == [
        GanttBar("y", "A", 16.0, 17.0, 20.0, 1, 0, 1),
        GanttBar("z", "B", 16.0, 16.0, 24.0, 0, 0, 1),
    ]


def test_without_servers_there_are_no_rows_of_them() -> None:
    log, instance = by_hand()
    assert server_sizes([replace(log, spans=log.spans.assign(servers=""))], instance) is None


@given(simulations())
def test_bars_are_the_spans(case: tuple[Log, object]) -> None:
    """As many GPUs as the span has, on its servers; and no two jobs on one GPU, where all gangs are on one server."""
    log, instance = case
    room = server_sizes([log], instance)  # type: ignore[arg-type]
    if room is None:
        return
    bars = bars_on_servers(log, (-1.0, 1e9), room)
    names = list(room)
    found: dict[tuple[str, float, float, str], int] = {}
    for bar in bars:
        assert 0 <= bar.row < bar.row + bar.height <= room[names[bar.group]]
        key = (bar.job, bar.start, bar.end, names[bar.group])
        found[key] = found.get(key, 0) + bar.height
    expected = {
        (span.job, span.start, span.end, server): sum(here.values())
        for span in log.spans.itertuples()
        for server, here in json.loads(span.seats).items()
    }
    assert found == expected
    for a, b in combinations(bars, 2):
        apart = a.group != b.group or a.row + a.height <= b.row or b.row + b.height <= a.row
        assert apart or a.end <= b.start or b.end <= a.start
    seen = server_sizes([log], None) or {}
    assert all(seen[server] <= number for server, number in room.items() if server in seen)


@given(simulations())
def test_copies_in_a_row_do_not_hide_each_other(case: tuple[Log, object]) -> None:
    log, _ = case
    jobs = chosen_jobs([log], (-1.0, 1e9))
    held = (log.spans["end"] - log.spans["start"]) * log.spans["gpus"]
    assert set(jobs) == set(held.groupby(log.spans["job"]).sum().index)
    bars = bars_of_jobs(log, (-1.0, 1e9), jobs)
    assert len(bars) == len(log.spans)
    for a, b in combinations(bars, 2):
        assert a.group != b.group or a.row != b.row or a.end <= b.start or b.end <= a.start


def test_a_gang_on_several_servers_has_bars_on_each() -> None:
    """Three GPUs on two servers of two, one of which has another job."""
    rows = [(name, None, 0.0, 0.0, 8.0, 0, 1.0, 1.0) for name in ("x", "y")]
    spans = [("x", 0.0, 8.0, "A", "a-0", 1, 0.0, 1.0), ("y", 0.0, 8.0, "A", "a-0+a-1", 3, 0.0, 1.0)]
    log = log_of(rows, spans, [0.0, 8.0], 4.0)
    seats = [{"a-0": {"A": 1}}, {"a-0": {"A": 1}, "a-1": {"A": 2}}]
    log = replace(log, spans=log.spans.assign(tenant=None, seats=[json.dumps(here) for here in seats]))
    bars = bars_on_servers(log, (0.0, 8.0), {"a-0": 2, "a-1": 2})
    assert [(bar.job, bar.group, bar.row, bar.height) for bar in bars] == [
        ("x", 0, 0, 1),
        ("y", 0, 1, 1),
        ("y", 1, 0, 2),
    ]


def test_copies_stand_side_by_side(tmp_path: Path) -> None:
    """HadarE runs a job on several servers at once; a page of it has a row per server."""
    Experiment((MIX,), (SystemVariant("hadare"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path), ReportOptions(window=(0.0, 1000.0))))
    assert "A row per server" in found.text
    assert "A row per job" not in found.text


def test_many_servers_are_shown_by_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_GANTT_ROWS", 8)
    Experiment((TRACE,), (SystemVariant("fft"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert "A row per server" not in found.text
    assert "A row per job: the 12 with most GPU time here" in found.text


def test_too_many_bars_become_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same picture, without a shape for each colour in its text."""
    log, instance = by_hand()
    log = replace(seated(log), jobs=log.jobs.assign(demand=1))
    loaded = LoadedRuns(0, logs={"s": log}, instance=instance)
    drawn = timelines.gantt_charts(loaded, None, "w")
    monkeypatch.setattr(timelines, "DRAWN", 3)
    dots = timelines.gantt_charts(loaded, None, "w")
    assert "<image" in dots
    assert "<image" not in drawn
    assert drawn.count("<path") > dots.count("<path")


def test_rows_are_as_high_as_their_gpus() -> None:
    """The picture is in inches: a bar of two of four GPUs is half its row."""
    boxes = timelines._boxes([GanttBar("x", "", 0, 0, 1, 1, 1, 2)], (2, 4), by_row=True)
    assert boxes == [(3, 5)]
    shared = timelines._boxes(
        [GanttBar("x", "", 0, 0, 1, 0, 0, 1), GanttBar("x", "", 0, 0, 1, 0, 1, 1)], (1,), by_row=False
    )
    assert np.allclose([low for low, _ in shared], [0.1, 0.5])
    assert shared[1][1] - shared[1][0] == pytest.approx(float(Fraction(2, 5)))
