"""The page about stored simulations says what is stored: every number, name, refusal, and nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from statistics import fmean

import pytest
from report_cases import MIX, NAME, SYSTEMS, TRACE, Page, edit, filled, invented

from hetopt.errors import InvalidInstance, UnknownName
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder, log_of_jobs
from hetopt.experiments.run_store import RunStore
from hetopt.metrics.definitions import METRICS, Theme, by_theme
from hetopt.metrics.finish_time import IDEALS, finish_time_fairness
from hetopt.presentation.simulation_report import result_tables
from hetopt.presentation.simulation_report.report_page import page
from hetopt.presentation.tables import Cell, Mark


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("stored") / "runs")


@pytest.fixture(scope="module")
def text(runs: Path) -> str:
    return page(RunFolder.of(runs))


@pytest.fixture(scope="module")
def shown(text: str) -> Page:
    return Page(text)


def test_numbers_of_the_page_are_those_of_the_table(runs: Path, shown: Page) -> None:
    """Means over seeds of every metric of every system, to the last digit."""
    rows = RunStore(runs).table().to_dict("records")
    by_workload = {name: [row for row in rows if row["workload"] == name] for name in ("fft-trace-1", "hadar/m5")}
    for heading in by_theme(METRICS):
        found = [table for table in shown.tables if table.section == heading]
        for table, (workload, own) in zip(found, by_workload.items(), strict=False):
            expected = {}
            for system in {row["system"] for row in own}:
                for metric in table.head[1:]:
                    values = [row[metric] for row in own if row["system"] == system and row[metric] == row[metric]]
                    if values:
                        expected[system, metric] = fmean(values)
            assert table.numbers() == pytest.approx(expected), (workload, heading)


def test_every_metric_is_shown_or_listed_as_absent(shown: Page) -> None:
    listed = {name for table in shown.tables for name in table.head}
    absent = re.findall(r"Not available for these systems: ([^.]*)\.", shown.text)
    assert set(METRICS) <= listed | {name for line in absent for name in line.split(", ")}
    assert ["sharing" in line.split(", ") for line in absent] == [False, True], "fft-trace-1 has tenants, hadar/m5 none"
    assert "sharing" in listed
    for metric in listed & set(METRICS):
        assert METRICS[metric].meaning in shown.text


def test_systems_stand_in_the_order_of_mean_completion_time(shown: Page) -> None:
    table = shown.of("Main numbers")
    means = [table.numbers()[row.name, "mean JCT"] for row in table.rows]
    assert means == sorted(means)
    assert {row.name for row in table.rows} == {*SYSTEMS, NAME}


HOUR, NAN = 3600.0, float("nan")
BY_HAND: dict[tuple[str, str, int], dict[str, float] | str] = {
    ("t", "a", 0): {"jct_mean": 2 * HOUR, "makespan": 3 * HOUR, "utilisation": 0.5},
    ("t", "a", 1): {"jct_mean": 5 * HOUR, "makespan": NAN, "utilisation": 0.5},
    ("t", "b", 0): {"jct_mean": 4 * HOUR, "makespan": 8 * HOUR, "utilisation": 0.75},
    ("t", "b", 1): {"jct_mean": 4.25 * HOUR, "makespan": 9 * HOUR, "utilisation": 1.0},
}


def test_ranges_gaps_and_the_best_by_hand(tmp_path: Path) -> None:
    """Hours of two systems and two seeds; one makespan is not known."""
    (part,) = RunFolder.of(invented(tmp_path, BY_HAND)).workloads
    metrics = ("jct_mean", "makespan", "gru")
    table = result_tables.numbers_table(part.statistics, metrics, ("system", ["a", "b"]))
    dash = "\N{EN DASH}"
    assert [(column.name, column.unit) for column in table.columns[1:]] == [
        ("mean JCT", "h"),
        ("makespan", "h"),
        ("GRU", "%"),
    ]
    (_, *first), (_, *second) = table.rows
    assert [(cell.text, cell.value, cell.notes, cell.mark) for cell in first] == [
        ("3.500", 12600.0, (f"2.000 {dash} 5.000",), Mark.BEST),
        ("3.000", 10800.0, ("1 of 2 seeds",), None),
        (dash, None, ("0 of 2 seeds",), Mark.QUIET),
    ]
    assert second[1] == Cell("8.500", 30600.0, (f"8.000 {dash} 9.000",)), "no other system to compare with"
    ratios = result_tables.numbers_table(part.statistics, metrics, ("system", ["a", "b"]), baseline="b")
    assert [(cell.value, cell.notes) for cell in ratios.rows[0][1:3]] == [
        (pytest.approx((2 / 4 + 5 / 4.25) / 2), (f"0.500 {dash} 1.176",)),
        (3 / 8, ("1 of 2 seeds",)),
    ]
    assert [cell.notes for cell in ratios.rows[1][1:3]] == [(), ()], "the baseline is 1 with every seed"


def test_the_answer_by_hand(tmp_path: Path) -> None:
    (part,) = RunFolder.of(invented(tmp_path, BY_HAND)).workloads
    assert result_tables.best_systems(part.statistics, "themis", "b") == {
        ("a",): ["mean JCT (3.500 h, 0.84 of b)"],
        ("b",): ["utilisation (87.50 %)"],
    }, "only one makespan is over both seeds"


def test_ratios_are_means_of_ratios_with_the_same_seed(runs: Path, shown: Page) -> None:
    stored = [row for row in RunStore(runs).table().to_dict("records") if row["workload"] == "fft-trace-1"]
    rows = {(row["system"], row["seed"]): row for row in stored}
    found = shown.of("Relative to fft").numbers()
    for system in (*SYSTEMS, NAME):
        expected = fmean(rows[system, seed]["jct_mean"] / rows["fft", seed]["jct_mean"] for seed in (0, 1))
        assert found[system, "mean JCT"] == pytest.approx(expected)


def test_the_page_is_whole_and_can_be_heard(text: str, shown: Page) -> None:
    """Every element is closed, ids are unique (the reader checks), pictures say what they show, nothing is loaded."""
    assert len(shown.ids) == len(set(shown.ids))
    assert all((link.startswith("#") and link[1:] in shown.ids) or link == "data:," for link in shown.links)
    assert {"answer", "w0", "w1", "systems", "papers"} <= set(shown.ids)
    assert len(shown.pictures) == 2 * 2 + 5 * 3 + 3 * 3 + 1, "distributions; per system; the estimate"
    for picture in shown.pictures:
        assert picture["role"] == "img"
        assert picture["aria-label"]
        assert {"width", "height"}.isdisjoint(picture)
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_names_are_text_everywhere(text: str, shown: Page) -> None:
    """The label would be bold if it were not escaped."""
    assert "<b>Ä" not in text
    assert sum(NAME in str(picture["aria-label"]) for picture in shown.pictures) >= 4
    assert shown.text.count(NAME) >= 8


def test_refused_runs_are_listed_with_the_reason(shown: Page) -> None:
    assert "Did not run" in shown.headings
    assert "gandiva-fair: is for tenants, and the instance has none" in shown.text
    systems = {row.name: [cell for cell, _ in row.cells] for row in shown.of("Systems").rows}
    assert systems["gandiva-fair"][3] == "0 of 1"
    assert systems["fft"][:4] == ["fft", "default", "300", "3 of 3"]
    assert all(
        row.name != "gandiva-fair" for table in shown.tables if table.section in set(Theme) for row in table.rows
    )


def test_the_page_states_what_was_run(shown: Page) -> None:
    assert "9 servers with 12 T4, 12 A10, 12 V100; 12 jobs, 8 tenants. Seeds 0, 1." in shown.text
    assert "count12" in shown.text
    assert "world.restart_seconds30.0" in shown.text


def test_the_same_folder_gives_the_same_page(runs: Path, text: str, tmp_path: Path) -> None:
    """Also elsewhere: no path and no time stands in it."""
    shutil.copytree(runs, tmp_path / "runs")
    again = page(RunFolder.of(tmp_path / "runs"))
    assert again == text
    assert str(runs.parent) not in text


def test_colours_do_not_change_with_the_section(text: str) -> None:
    """Every sample of a system has the same colour, by its place among all names."""
    order = sorted({*SYSTEMS, NAME, "hadar", "hadare", "gandiva-fair"})
    samples = re.findall(r'stroke="var\(--(s\d)\)" stroke-width="3"/></svg>gavel<', text)
    assert len(samples) > 3
    assert set(samples) == {f"s{order.index('gavel')}"}


def test_unfinished_jobs_leave_gaps_and_are_warned_of(tmp_path: Path) -> None:
    Experiment((TRACE,), (SystemVariant("fft"), SystemVariant("srtf")), until=600.0).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert "Jobs that did not finish (mean over seeds): " in found.text
    assert "See the warnings there." in found.text
    numbers = found.of("Main numbers").numbers()
    assert {column for _, column in numbers} > {"mean JCT"}
    assert all(column != "makespan" for _, column in numbers)


def test_nothing_finished_at_all(tmp_path: Path) -> None:
    Experiment((TRACE,), (SystemVariant("fft"),), until=1.0).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert found.of("Jobs").numbers()["fft", "finished"] == 0


def test_one_system_with_one_seed(tmp_path: Path) -> None:
    Experiment((MIX,), (SystemVariant("hadar"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert "hadar/m5: only hadar ran." in found.text
    assert "Relative to hadar" not in found.headings
    assert "one seed" in found.text


def test_all_runs_refused(tmp_path: Path) -> None:
    Experiment((MIX,), (SystemVariant("gandiva-fair"),)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    assert "hadar/m5: no system ran it." in found.text
    assert "is for tenants" in found.text


def test_runs_that_are_not_alike_are_flagged(tmp_path: Path) -> None:
    """The same workload by name, with other settings or other seeds."""
    path = invented(tmp_path, {("t", "a", 0): "no", ("t", "b", 0): "no", ("t", "b", 1): "no"})
    edit(path / "t" / "a" / "seed-0", settings={"workload": {"count": 5}, "world": {"spread": True}})
    edit(path / "t" / "b" / "seed-0", settings={"workload": {"count": 7}, "world": {"spread": True}})
    edit(path / "t" / "b" / "seed-1", settings={"workload": {"count": 7}, "world": {"spread": True}})
    found = Page(page(RunFolder.of(path)))
    assert "Not comparable: runs differ in workload.count: 5 (a); 7 (b)." in found.text
    assert "world.spreadtrue" in found.text


def test_other_seeds_are_warned_of_and_not_drawn(tmp_path: Path) -> None:
    """The baseline has no curve with the seed that is drawn."""
    for name, seed in (("fft", 1), ("srtf", 0), ("fifo", 0)):
        Experiment((TRACE,), (SystemVariant(name),), (seed,)).run(RunStore(tmp_path))
    found = Page(page(RunFolder.of(tmp_path)))
    listed = {"fft with 1", "srtf with 0", "fifo with 0"}
    assert set(re.findall(r"over other traces: ([^.]*)\.", found.text)[0].split("; ")) == listed
    assert "Relative to fft" in found.headings
    assert "Seed 0, means over intervals of" in found.text
    assert "Thin grey line" not in found.text


def test_fairness_needs_only_the_jobs(runs: Path) -> None:
    """What is not read of other seeds does not matter for it."""
    for run in RunFolder.of(runs).runs:
        if run.record.refused is None and run.key.workload == "fft-trace-1":
            instance = TRACE.instance(run.key.seed)
            for name in IDEALS:
                whole, part = (finish_time_fairness(log, instance, name) for log in (run.log, log_of_jobs(run)))
                assert whole.equals(part)


def test_a_trace_that_changed_is_noticed(tmp_path: Path) -> None:
    """Another seed stands in the record than was run: its jobs are others, and there is no fairness of it."""
    Experiment((TRACE,), (SystemVariant("srtf"),), (0,)).run(RunStore(tmp_path))
    edit(tmp_path / "fft-trace-1" / "srtf" / "seed-0", seed=5)
    found = Page(page(RunFolder.of(tmp_path)))
    assert "No finish-time fairness" in found.headings
    assert "srtf: the trace gives other jobs now than when it was simulated" in found.text


def test_options_are_heard(runs: Path) -> None:
    some = RunFolder.of(runs, ["gavel", "tiresias"])
    found = Page(page(some, baseline="tiresias", window=(0.0, 600.0), seed=1, fairness="gavel"))
    assert "Relative to tiresias" in found.headings
    assert "Seed 1, from 0 s to 10 min: as requested." in found.text
    assert "Finish-time fairness (gavel)" in found.text
    assert {row.name for row in found.of("Main numbers").rows} == {"gavel", "tiresias"}


def test_a_system_that_was_refused_everywhere_is_no_baseline(runs: Path) -> None:
    with pytest.raises(UnknownName, match="no system 'gandiva-fair' to compare with"):
        page(RunFolder.of(runs), baseline="gandiva-fair")


def test_a_window_outside_of_one_workload_is_noted_there(runs: Path) -> None:
    """Trace 1 lasts longer than the mix."""
    ends = [run.log.end for run in RunFolder.of(runs, ["fft"]).runs if run.key.seed == 0]
    start, end = sorted(ends)
    found = Page(page(RunFolder.of(runs, ["fft"]), window=(start + 1.0, end)))
    assert found.text.count("This workload has no jobs in the requested window.") == 1
    assert "as requested" in found.text


def test_systems_are_chosen_by_label_or_name(tmp_path: Path) -> None:
    """The text of a label does not name a system."""
    variants = (SystemVariant("fifo", label="srtf[mine]"), SystemVariant("srtf", label="other"))
    Experiment((TRACE,), variants).run(RunStore(tmp_path))
    for wanted, label in (("srtf", "other"), ("fifo", "srtf[mine]"), ("srtf[mine]", "srtf[mine]")):
        folder = RunFolder.of(tmp_path, [wanted])
        assert folder.systems == [label]
        assert folder.table["system_name"].tolist() == ["srtf" if label == "other" else "fifo"]


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    Experiment((MIX,), (SystemVariant("hadar"),)).run(RunStore(tmp_path))
    (tmp_path / "hadar_m5" / "hadar" / "seed-0" / "jobs.csv.gz").write_bytes(b"no table")
    with pytest.raises(InvalidInstance, match="table 'jobs' cannot be read"):
        page(RunFolder.of(tmp_path))
