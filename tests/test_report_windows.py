"""Windows and timelines: the busiest stretch against brute force, and bars that lie on GPUs as the log says."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import NAN, by_hand, log_of, seated, simulations
from report_cases import MIX, TRACE, Page

from hetopt import Instance, InvalidOption, Log
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunStore
from hetopt.presentation.gantt import GanttBar
from hetopt.presentation.simulation_report import gantt_charts
from hetopt.presentation.simulation_report.gantt_charts import (
    STARTS,
    bars_of,
    busiest_window,
    largest,
    parse_window,
    spans_in,
    windows_of,
)
from hetopt.presentation.simulation_report.report_page import page
from hetopt.presentation.simulation_report.runs import LoadedRuns
from hetopt.presentation.style import SeriesStyle, series_styles


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


LIFE = (-1.0, 1e9)
"""A window in which everything is."""


def test_bars_by_hand() -> None:
    """One GPU of b-0 and both of a-0; x moves to one GPU of a-0 and loses 2 s; z takes its place on b-0."""
    log = seated(by_hand()[0])
    spans = spans_in(log, (0.0, 24.0))
    x, y = SeriesStyle(0), SeriesStyle(1)
    assert bars_of(spans, {"a-0": 2, "b-0": 2}, series_styles(["x", "y"])) == [
        GanttBar(1, 0, 1, 0.0, 8.0, x, "x", begun=0.0),
        GanttBar(0, 0, 2, 0.0, 8.0, y, "y", begun=0.0),
        GanttBar(0, 0, 1, 8.0, 14.0, x, "x", begun=10.0),
        GanttBar(0, 0, 2, 16.0, 20.0, y, "y", begun=17.0),
        GanttBar(1, 0, 1, 16.0, 24.0, None, "z", begun=16.0),
    ]
    assert spans_in(log, (14.0, 16.0)).empty
    assert largest([spans], "job", 2) == ["y", "x"], "24 and 14 GPU-seconds; z has 8"
    late = spans_in(log, (18.0, 24.0))
    assert late["held"].tolist() == [4.0, 6.0]
    assert bars_of(late, {"z": 3, "y": 3}, series_styles(["A", "B"]), by_job=True) == [
        GanttBar(1, 0, 1, 16.0, 20.0, SeriesStyle(0), "a-0", begun=17.0),
        GanttBar(0, 0, 1, 16.0, 24.0, SeriesStyle(1), "b-0", begun=16.0),
    ]


@given(simulations())
def test_bars_are_the_spans(case: tuple[Log, Instance]) -> None:
    """As many GPUs as the span has, on its servers; and no two jobs on one GPU, where all gangs are on one server."""
    log, instance = case
    if (log.spans["servers"] == "").any():
        return
    sizes = {server.name: int(sum(server.gpus.values())) for server in instance.cluster.servers}
    bars = bars_of(spans_in(log, LIFE), sizes, {})
    names = list(sizes)
    found: dict[tuple[str, float, float, str], int] = {}
    for bar in bars:
        assert 0 <= bar.line < bar.line + bar.lines <= sizes[names[bar.row]]
        key = (bar.label, bar.start, bar.end, names[bar.row])
        found[key] = found.get(key, 0) + bar.lines
    expected = {
        (span.job, span.start, span.end, server): sum(here.values())
        for span in log.spans.itertuples()
        for server, here in json.loads(span.seats).items()
    }
    assert found == expected
    for a, b in combinations(bars, 2):
        apart = a.row != b.row or a.line + a.lines <= b.line or b.line + b.lines <= a.line
        assert apart or a.end <= b.start or b.end <= a.start


@given(simulations())
def test_copies_in_a_row_do_not_hide_each_other(case: tuple[Log, Instance]) -> None:
    log, _ = case
    if log.spans.empty:
        return
    spans = spans_in(log, LIFE)
    jobs = largest([spans], "job", 40)
    assert set(jobs) == set(log.spans["job"])
    bars = bars_of(spans, dict.fromkeys(jobs, len(spans)), {}, by_job=True)
    assert len(bars) == len(log.spans)
    for a, b in combinations(bars, 2):
        assert a.row != b.row or a.line != b.line or a.end <= b.start or b.end <= a.start


def test_a_gang_on_several_servers_has_bars_on_each() -> None:
    """Three GPUs on two servers of two, one of which has another job."""
    rows = [(name, None, 0.0, 0.0, 8.0, 0, 1.0, 1.0) for name in ("x", "y")]
    spans = [("x", 0.0, 8.0, "A", "a-0", 1, 0.0, 1.0), ("y", 0.0, 8.0, "A", "a-0+a-1", 3, 0.0, 1.0)]
    log = log_of(rows, spans, [0.0, 8.0], 4.0)
    seats = [{"a-0": {"A": 1}}, {"a-0": {"A": 1}, "a-1": {"A": 2}}]
    log = replace(log, spans=log.spans.assign(tenant=None, seats=[json.dumps(here) for here in seats]))
    bars = bars_of(spans_in(log, (0.0, 8.0)), {"a-0": 2, "a-1": 2}, {})
    assert [(bar.label, bar.row, bar.line, bar.lines) for bar in bars] == [
        ("x", 0, 0, 1),
        ("y", 0, 1, 1),
        ("y", 1, 0, 2),
    ]


def test_copies_stand_side_by_side(tmp_path: Path) -> None:
    """HadarE runs a job on several servers at once; a page of it has a row per server."""
    Experiment((MIX,), (SystemVariant("hadare"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path), window=(0.0, 1000.0)))
    assert "A row per server" in found.text
    assert "A row per job" not in found.text


def test_many_servers_are_shown_by_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gantt_charts, "MOST_ROWS", 8)
    Experiment((TRACE,), (SystemVariant("fft"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert "A row per server" not in found.text
    assert "A row per job: the 8 with most GPU time here" in found.text


def test_jobs_are_rows_where_the_instance_is_not_known() -> None:
    """The sizes of servers are not known either. A job that waits or is unfinished is a thin line: four jobs came."""
    log, _ = by_hand()
    ((kind),) = gantt_charts.gantt_charts(LoadedRuns(0, logs={"s": seated(log)}), (0.0, 24.0), "w")
    assert (kind["rows"], kind["shown"]) == ("job", 3), "w never ran"
    assert [key.label for key in kind["keys"]] == ["A", "B", "starting or moving"]
