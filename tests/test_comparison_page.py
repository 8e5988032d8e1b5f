"""The page of a comparison: which policy it recommends and why, its picture, and the page in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Annotation
from pages_in_browser import chromium, opened, problems_of

import hetopt
from hetopt.data.workload import Job
from hetopt.experiments.comparison import (
    COLUMNS,
    PLACED,
    Comparison,
    Recommendation,
    compare,
    compare_with_fallback,
    ranked,
    recommend,
)
from hetopt.models import baselines, gavel, oef
from hetopt.models.allox import AlloX
from hetopt.presentation.comparison_page import page, write
from hetopt.presentation.trade_off_picture import DOT, place_labels, trade_off
from hetopt.presentation.views import comparison_view, reason_of
from hetopt.tolerances import FINE, VISIBLE

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
RESULT = oef.cooperative().solve(INST)


def made(table: pd.DataFrame) -> Comparison:
    """A comparison with these numbers and nothing else."""
    return Comparison(INST, {}, table, {}, {}, {}, pd.DataFrame(columns=list(PLACED)), {})


def test_results_on_a_part_of_the_jobs_are_never_recommended() -> None:
    """The second is fair and has most, but for fewer jobs; alone it is not recommended, marked or a star."""
    whole = made(table_of([(4, 0.9, 0, 0), (5, 1.1, 0, 0)]))
    part = replace(whole, on_part=frozenset(["p1"]))
    assert [getattr(recommend(one), "policy", None) for one in (whole, part)] == ["p1", "p0"]
    assert recommend(part) == Recommendation("p0", ("sharing",), 1, 4, ("p0", 4))
    assert (ranked(whole), ranked(part)) == (["p1", "p0"], ["p0", "p1"])
    alone = replace(part, table=part.table.loc[["p1"]])
    assert recommend(alone) is None
    assert not comparison_view(alone)[0].marked
    assert [name.get_label() for name in trade_off(alone).axes[0].collections] == ["envy-free"]


def test_both_parts_of_a_comparison_know_which_results_are_on_a_part() -> None:
    jobs = (Job("big", {"T4": 1.0, "V100": 2.0}, 9, 4), Job("one", {"T4": 1.0, "V100": 2.0}, 9))
    instance = hetopt.Instance(hetopt.Cluster.of({"T4": 4, "V100": 4}), jobs=jobs)
    found = compare_with_fallback(instance, {"all": baselines.efficiency_only(), "allox": AlloX()})
    assert set(found.table.index) == {"all", "allox (1-GPU jobs)"}
    assert found.on_part == {"allox (1-GPU jobs)"}


def table_of(rows: list[tuple[float, float, float, float]]) -> pd.DataFrame:
    """Total, sharing, envy and pareto of policies p0, p1, …"""
    frame = pd.DataFrame(
        rows, columns=["total", "sharing", "envy", "pareto"], index=[f"p{i}" for i in range(len(rows))]
    )
    return frame.reindex(columns=list(COLUMNS), fill_value=1.0)


ROWS = st.tuples(
    st.sampled_from([1.0, 2.5, 4.0]),
    st.sampled_from([0.0, 0.9, 0.9999, 1.0, 1.2]),
    st.sampled_from([0.0, 1 / 10**4, 0.1, np.inf]),
    st.sampled_from([0.0, 1 / 10**4, 0.3]),
)


@given(st.lists(ROWS, min_size=1, max_size=7))
def test_the_recommended_policy_fails_least_and_then_yields_most(rows: list[tuple[float, float, float, float]]) -> None:
    """Counted here by hand: fair are ratios from 1 on, and envy and gains of 0."""
    fails = [(sharing < 1 - VISIBLE) + (envy > VISIBLE) + (pareto > VISIBLE) for _, sharing, envy, pareto in rows]
    best = max(total for (total, *_), own in zip(rows, fails, strict=True) if own == min(fails))
    comparison = made(table_of(rows))
    found = recommend(comparison)
    assert found is not None
    i = int(found.policy[1:])
    assert (fails[i], rows[i][0]) == (min(fails), best)
    assert (len(found.violated), found.equals) == (min(fails), fails.count(min(fails)))
    assert found.highest[1] == max(total for total, *_ in rows)
    order = [int(name[1:]) for name in ranked(comparison)]
    assert [(fails[j], -rows[j][0]) for j in order] == sorted((f, -t) for f, (t, *_) in zip(fails, rows, strict=True))
    assert recommend(made(table_of([]))) is None


def test_totals_that_differ_by_rounding_are_equal() -> None:
    """Otherwise the noise of a solver would choose the policy; a visible difference still decides."""
    noise = FINE * 4
    equal = made(table_of([(4, 1, 0, 0), (4 + noise, 1, 0, 0), (4 - noise, 1, 0, 0), (4 + noise, 0.9, 0, 0)]))
    assert ranked(equal) == ["p0", "p1", "p2", "p3"]
    assert recommend(equal) == Recommendation("p0", (), 3, 4, ("p0", 4))
    assert ranked(made(table_of([(4, 1, 0, 0), (4.01, 1, 0, 0)]))) == ["p1", "p0"]


ALL = ("sharing", "envy", "pareto")
FAIR = " gives all at least their fair part, leaves no reason for envy and wastes nothing. "
ENVIOUS = (
    ": no policy is fair in all three ways. It gives all at least their fair part and wastes nothing, but leaves "
    "reasons for envy. "
)
UNFAIR = (
    ": no policy is fair in any way. It gives some less than their fair part, leaves reasons for envy and could give "
    "some more without loss to others. "
)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Recommendation("p", (), 1, 4.0, ("q", 5.0)),
            f"{FAIR}No other does so. It has a total throughput of 4 GPUs of speedup 1. "
            "q, which is less fair, has the highest of all: 5 (25 % more).",
        ),
        (
            Recommendation("p", (), 3, 4.0, ("p", 4.0)),
            f"{FAIR}Of 3 policies that do so, it has the highest total throughput of "
            "4 GPUs of speedup 1, the highest of all.",
        ),
        (
            Recommendation("p", ("envy",), 1, 4.0, ("p", 4.0)),
            f"{ENVIOUS}All others fail in more ways. "
            "It has a total throughput of 4 GPUs of speedup 1, the highest of all.",
        ),
        (
            Recommendation("p", ALL, 2, 0.0, ("p", 0.0)),
            f"{UNFAIR}Of 2 policies alike, it has the highest total throughput of "
            "0 GPUs of speedup 1, the highest of all.",
        ),
    ],
)
def test_the_reason_says_first_whether_anything_is_fair(found: Recommendation, text: str) -> None:
    assert reason_of(found).replace("\N{NARROW NO-BREAK SPACE}", " ") == text


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=14, unique=True),
    st.lists(st.tuples(st.floats(5, 120), st.sampled_from([11.0, 22.0])), min_size=14, max_size=14),
)
def test_labels_overlap_neither_dots_nor_each_other(
    cells: list[tuple[int, int]], sizes: list[tuple[float, float]]
) -> None:
    """And not the line, where there is room: dots lie on a grid whose cells hold a label each."""
    dots = np.array([(20 + 150.0 * x, 40 + 60.0 * y) for x, y in cells])
    boxes = place_labels(dots, np.array(sizes[: len(dots)]), np.array([0.0, 0.0, 800.0, 400.0]), 320.0)
    marks = [(320, 0, 320, 400), *((x - DOT, y - DOT, x + DOT, y + DOT) for x, y in dots.tolist())]
    for i, (left, bottom, right, top) in enumerate(boxes):
        assert (right - left, top - bottom) == pytest.approx(sizes[i])
        assert 0 <= left <= right <= 800
        assert 0 <= bottom <= top <= 400
        for other in (*marks, *boxes[:i]):
            assert right <= other[0] or other[2] <= left or top <= other[1] or other[3] <= bottom


def test_the_dots_are_at_their_numbers_and_all_names_are_there() -> None:
    """Rows that are not finite are left out; policies at one place share a label."""
    table = table_of([(4, 1.1, 0, 0), (4, 1.1, 0.5, 0), (3, 0.5, np.inf, 0), (2, np.inf, 0, 0)])
    axes = trade_off(made(table)).axes[0]
    offsets = [tuple(at) for own in axes.collections for at in np.asarray(own.get_offsets()).tolist()]
    assert sorted(offsets) == [(0.5, 3), (1.1, 4), (1.1, 4)]
    line, *texts = [text.get_text() for text in axes.texts if isinstance(text, Annotation)]
    assert line == "fair from here on"
    assert sorted(name for text in texts for name in re.split(r"\n|, ", text)) == ["p0", "p1", "p2"]
    assert len(texts) == 2


def test_lines_to_dots_are_behind_names() -> None:
    """Where many policies are near each other, lines cross names."""
    table = table_of([(4 + i / 50, 1 + i / 400, 0, 0) for i in range(40)]).rename(index="{}-with-a-long-name".format)
    names = [text for text in trade_off(made(table)).axes[0].texts if isinstance(text, Annotation)]
    lines = [name for name in names if name.arrow_patch is not None]
    assert lines
    assert not any(line.get_text() for line in lines)
    assert max(line.zorder for line in lines) < min(name.zorder for name in names if name.get_text())


POLICIES = {
    "o<e>f & co": oef.cooperative(), "efficiency 机器": baselines.efficiency_only(),
    "$max$ _min": gavel.max_min_fairness(),
    "all\"ox'": AlloX(), "equal " + "split " * 12: baselines.equal_split(),
}  # fmt: skip


def odd() -> Comparison:
    lab = hetopt.instances.load("lab36/jobs").at(5400)
    return compare(lab, POLICIES)


def test_a_page_with_odd_names_is_readable_at_all_widths(tmp_path: Path) -> None:
    """Policies that fail are there with the reason; both tables are in the order of the recommendation."""
    comparison = odd()
    path = write(comparison, tmp_path, "odd <names>", {"hetopt": "1"})
    text = path.read_text(encoding="utf-8")
    assert "<dt>all&#34;ox&#39;</dt><dd>no result: AlloX needs jobs of one common demand" in text
    tables = re.findall(r"<tbody>.*?</tbody>", text, re.DOTALL)[:2]
    names = [re.findall(r'<th scope="row"[^>]*><a href="[^"]*">(.*?)</a>', table) for table in tables]
    expected = [name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for name in ranked(comparison)]
    assert names == [expected, expected]
    assert "4 of 5 policies; below the tables is why others have no result." in text
    assert "<caption>4 of 5 policies</caption>" in text
    with chromium() as browser:
        assert problems_of(browser, path) == []
        with opened(browser, path, 390, "light") as tab:
            (star,) = [one.bounding_box() for one in tab.locator("figure text[font-weight]").all() if one.is_visible()]
            assert star["x"] + star["width"] < 390, "the recommended policy is on a phone's screen"


def many(count: int = 16) -> Comparison:
    """Policies with the envies 0, 1, … in another order, and one infinite."""
    table = table_of([(4.0, 1.1, np.inf if i == 3 else i * 7.0 % count, 0.0) for i in range(count)])
    return replace(made(table), results=dict.fromkeys(table.index, RESULT))


def test_the_script_sorts_filters_and_opens(tmp_path: Path) -> None:
    """By numbers, of which infinity is the largest; a link to a folded part, or into one, opens it."""
    comparison = many()
    path = write(comparison, tmp_path, "many", {})
    envy = dict(comparison.table["envy"])
    with chromium() as browser, opened(browser, path, 1400, "light") as tab:
        rows = "[...document.querySelector('tbody').rows].filter((row) => !row.hidden)"
        names = f"{rows}.map((row) => row.cells[0].textContent)"
        for down in (False, True):
            tab.get_by_role("columnheader", name="envy").click()
            assert tab.evaluate(names) == sorted(envy, key=lambda name: envy[name], reverse=down)
        tab.get_by_role("searchbox").fill("p1")
        assert set(tab.evaluate(names)) == {name for name in envy if "p1" in name}
        assert not tab.get_by_text("No row matches").is_visible()
        tab.get_by_role("searchbox").fill("p99")
        assert tab.evaluate(names) == []
        assert tab.get_by_text("No row matches “p99”.").is_visible()
        inner = "document.querySelector('#p5').lastElementChild"
        tab.evaluate(f"{inner}.id = 'inner'")
        for target, shown in (("p4", "#p4 figure"), ("inner", "#inner")):
            assert not tab.locator(shown).first.is_visible()
            tab.evaluate(f"location.hash = '{target}'")
            tab.locator(shown).first.wait_for(state="visible")


def test_the_picture_of_the_demo_is_written_equally_each_time(tmp_path: Path) -> None:
    comparison = odd()
    for name in ("one", "two"):
        write(comparison, tmp_path / name, "title", {})
    one, two = ((tmp_path / name / "trade-off.svg").read_text(encoding="utf-8") for name in ("one", "two"))
    assert one == two
    assert "o&lt;e&gt;f &amp; co" in one
    assert len(trade_off(comparison).axes) == 1
    assert page(comparison, "title", {}) == page(comparison, "title", {})
