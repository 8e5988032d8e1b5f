"""Results in notebooks: tables that are readable on any ground, and figures without pyplot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from pages_in_browser import chromium, problems_of

import hetopt
from hetopt import instances
from hetopt.data.workload import Job
from hetopt.display import Displayed
from hetopt.errors import InvalidOption
from hetopt.experiments.comparison import compare
from hetopt.models import baselines, oef
from hetopt.models.allox import AlloX
from hetopt.models.asrpt import HeavyEdge
from hetopt.models.fft import FFT
from hetopt.presentation.notebook import html
from hetopt.presentation.style import LIGHT
from hetopt.presentation.tables import MOST_ROWS
from hetopt.presentation.views import view
from hetopt.stages.mapping import map_jobs
from hetopt.tolerances import EQUAL

ODD = ("<b>bold</b>", "R&D", "机器")


@cache
def results() -> Mapping[str, Displayed]:
    """One of each class, with names that look like HTML."""
    inst = hetopt.Instance.from_speedups([[1, 2], [1, 5], [1, 3]], {"<T4>": 4, "V&100": 4}, tenants=ODD)
    share = hetopt.solve(oef.cooperative(), inst)
    jobs = hetopt.Instance.from_jobs([[1, 2], [1, 5], [1, 3]], [1, 2, 1], work=[9, 90, 9], capacity=[2, 2], jobs=ODD)
    policies = {"o<ef": oef.cooperative(), "all": baselines.efficiency_only(), "a<x": AlloX()}
    mapped = map_jobs(instances.load("asrpt/fig2"), HeavyEdge())
    return {
        "allocation": share,
        "plan": hetopt.Plan(inst.entities("tenants"), np.array([[1, 2], [3, 0], [0, 0]])),
        "audit": hetopt.audit(inst, hetopt.solve(baselines.efficiency_only(), inst)),
        "log": hetopt.simulate(FFT(), jobs),
        "mapping": mapped.mappings["job"],
        "mapped": mapped,
        "comparison": compare(inst, policies),
    }


NAMES = tuple(results())


class Tags(HTMLParser):
    """Checks that every element ends where it should."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_gets_a_table_without_a_picture(name: str) -> None:
    text = results()[name]._repr_html_()
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert "table" in tags.seen
    assert not tags.seen & {"svg", "img", "script", "b", "t4"}, "no pictures, and names are no elements"
    assert all(
        line.startswith(".hetopt ")
        for line in text[text.index("<style>") + 8 : text.index("</style>")].split("\n")
        if line
    )


def test_names_numbers_and_reasons_are_there() -> None:
    shown = {name: html(value) for name, value in results().items()}
    for odd in ("&lt;b&gt;bold&lt;/b&gt;", "R&amp;D", "机器"):
        assert all(
            odd in shown[name] for name in ("allocation", "plan", "audit", "log") if name != "audit" or odd[0] == "R"
        )
    assert "<dt>optimal</dt><dd>objective" in shown["allocation"]
    assert "fails</td>" in shown["audit"]
    assert "<dt>finished</dt><dd>3 of 3 jobs</dd>" in shown["log"]
    assert "<dt>iteration</dt><dd>36.4 ms" in shown["mapping"]
    assert "<dt>a&lt;x</dt><dd>no result: is for jobs" in shown["comparison"], "why a policy has no result"


def test_long_tables_are_cut() -> None:
    many = hetopt.Instance.from_throughputs(1 + np.arange(600.0).reshape(300, 2) / 600, capacity=[30, 30])
    text = hetopt.Plan(many.entities(), np.zeros((300, 2)))._repr_html_()
    assert text.count("<tr>") == MOST_ROWS + 1
    assert f"… {300 - MOST_ROWS} more" in text


@pytest.mark.parametrize("name", NAMES)
def test_figures_show_themselves_and_leave_no_state(tmp_path: Path, name: str) -> None:
    figure = results()[name].plot(tmp_path / "out.svg")
    assert "<svg" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert figure.get_facecolor()[3] == 1, "a ground of its own, also in dark notebooks"
    assert not plt.get_fignums()


def test_a_path_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"must end in one of \.png"):
        results()["log"].plot(tmp_path / "x.gif")
    with pytest.raises(TypeError, match="int has no view"):
        html(3)


def test_a_comparison_is_shown_in_few_lines() -> None:
    """Its results hold programs of many lines."""
    found = results()["comparison"]
    assert repr(found).count("\n") == 4
    assert repr(found).startswith("Comparison(2 results, 1 missing)\n")
    assert "is for jobs" in repr(compare(found.instance, {"a<x": AlloX()}))  # type: ignore[attr-defined]
    with pytest.raises(InvalidOption, match="policies is empty"):
        compare(found.instance, {})  # type: ignore[attr-defined]


def test_properties_without_a_slack_are_drawn() -> None:
    axes = results()["audit"].plot().axes[0]
    words = dict(zip((t.get_text() for t in axes.get_yticklabels()), (t.get_text() for t in axes.texts), strict=True))
    assert {name: word.strip() for name, word in words.items()} == results()["audit"].table["verdict"].to_dict()  # type: ignore[attr-defined]


def test_the_bars_of_a_log_are_its_spans() -> None:
    """Seconds on each GPU type, measured in the picture; its figure has dark bars for what was lost."""
    jobs = (Job("a", {"T4": 1.0, "V100": 2.0}, 4000), Job("b", {"T4": 1.0, "V100": 2.0}, 9000, 2, arrival=100.0))
    log = hetopt.simulate(FFT(), hetopt.Instance(hetopt.Cluster.of({"T4": 2, "V100": 1}), jobs=jobs))
    axes = log.plot().axes[0]
    spans = log.spans.assign(seconds=log.spans["end"] - log.spans["start"])
    expected = spans.groupby("gpu_type")["seconds"].sum().tolist()
    found = []
    for colour in LIGHT[: len(expected)]:
        for patch in axes.patches:
            if to_hex(patch.get_facecolor()) == colour:
                corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)[:, :, 0]
                found.append(float((corners.max(axis=1) - corners.min(axis=1)).sum()))
    assert found == pytest.approx(expected, rel=EQUAL)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    (table,) = view(log)
    assert {f"time ({column.unit})" for column in table.columns[2:6]} == {axes.get_xlabel()}, "the same unit"


def test_results_load_no_pictures_before_they_are_shown() -> None:
    """``import matplotlib`` takes half a second."""
    code = (
        "import sys, hetopt; from hetopt.models import oef\n"
        "hetopt.solve(oef.cooperative(), hetopt.Instance.from_speedups([[1, 2]], [1, 1]))\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", "#000000"), ("#111111", "#e0e0e0")])
def test_tables_are_readable_on_light_and_dark_grounds(tmp_path: Path, ground: str, ink: str) -> None:
    style = f"<style>body {{ background: {ground}; color: {ink}; margin: 8px }}</style>"
    head = f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">{style}'
    page = tmp_path / "notebook.html"
    page.write_text(head + "".join(value._repr_html_() for value in results().values()), encoding="utf-8")
    with chromium() as browser:
        assert problems_of(browser, page) == []
