"""The command ``hetopt report``: the page, JSON, and one line for what is wrong."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
from report_cases import Page, edit, invented

from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_store import RunStore
from hetopt.experiments.trace_workload import TraceWorkload

Run = Callable[..., tuple[int, str, str]]
SYSTEMS = tuple(SystemVariant(name) for name in ("srtf", "fifo", "gandiva-fair"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("command") / "runs"
    Experiment((TraceWorkload("hadar/m3"),), SYSTEMS).run(RunStore(path))
    return path


def test_a_page_is_written_into_the_folder_and_replaced(run: Run, folder: Path) -> None:
    code, out, err = run("report", folder)
    assert (code, out, err) == (0, f"page: {folder / 'report.html'}\n", "")
    first = (folder / "report.html").read_text()
    assert {"fifo", "srtf"} <= {row.name for row in Page(first).of("Main numbers").rows}
    (folder / "report.html").write_text("old")
    assert run("report", folder)[0] == 0
    assert (folder / "report.html").read_text() == first


def test_options_reach_the_page(run: Run, folder: Path, tmp_path: Path) -> None:
    words = ("--baseline", "srtf", "--window", "0:10min", "--policy", "srtf, fifo", "--fairness", "exclusive")
    code, _, err = run("report", folder, "--out", tmp_path / "a.html", *words, "--seed", 0)
    assert (code, err) == (0, "")
    found = Page((tmp_path / "a.html").read_text())
    assert "Relative to srtf" in found.headings
    assert "from 0 s to 10 min: as requested" in found.text
    assert "gandiva-fair" not in found.text
    assert "Finish-time fairness (exclusive)" in found.text


def test_json_has_the_numbers(run: Run, folder: Path) -> None:
    code, out, _ = run("report", folder, "--json")
    assert code == 0
    data = json.loads(out)
    own = data["workloads"]["hadar/m3"]
    rows = RunStore(folder).table()
    for system in ("srtf", "fifo"):
        values = rows[rows["system"] == system]["jct_mean"].tolist()
        assert own["mean"][system]["jct_mean"] == pytest.approx(fmean(values))
        assert own["mean"][system]["sharing"] is None
    assert list(own["refused"]) == ["gandiva-fair"]
    assert data["claims"] == []
    assert data["page"].endswith("report.html")


def test_the_browser_is_opened_where_asked(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run("report", folder)[0] == 0
    assert opened == []
    assert run("report", folder, "--open")[0] == 0
    assert opened == [(folder / "report.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "fifa"], "did you mean 'fifo'?"),
        (["--policy", "srft"], "did you mean 'srtf'?"),
        (["--window", "9h:9.5h"], "choose one within it"),
        (["--window", "soon"], "must be START:END"),
        (["--seed", "3"], "it must be one of 0"),
        (["--fairness", "unfair"], "no definition of finish-time fairness 'unfair'"),
        (["--out", "page.pdf"], "--out is 'page.pdf'; the page is HTML, so its name must end with .html"),
        (["--out", "/nowhere/page.html"], "/nowhere/page.html: cannot be written"),
    ],
)
def test_bad_options_are_one_line(run: Run, folder: Path, words: list[str], message: str) -> None:
    code, out, err = run("report", folder, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("hetopt: ")
    assert err.count("\n") == 1


def test_folders_that_hold_nothing(run: Run, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "is not a folder"), (tmp_path, "holds no run")):
        code, _, err = run("report", path)
        assert code == 2
        assert message in err


def test_a_damaged_record(run: Run, tmp_path: Path) -> None:
    path = invented(tmp_path, {("t", "a", 0): {"jct_mean": 1.0}}) / "t" / "a" / "seed-0"
    edit(path, version=0)
    assert "not a record of a run of this version" in run("report", tmp_path)[2]
    (path / "run.json").write_text("{")
    assert "is not a record of a run" in run("report", tmp_path)[2]


def test_tables_that_are_gone(run: Run, tmp_path: Path) -> None:
    invented(tmp_path, {("t", "a", 0): {"jct_mean": 1.0}})
    code, _, err = run("report", tmp_path)
    assert code == 2
    assert "has no table 'jobs'; run it again" in err
