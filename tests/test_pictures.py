"""Pictures show the numbers they are given, in each format, and refuse a path they cannot write."""

from __future__ import annotations

import os
import re
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

import hetopt
from hetopt.errors import InvalidOption, UnusableFile
from hetopt.experiments.comparison import compare
from hetopt.models import gavel, oef
from hetopt.presentation import allocation_pictures
from hetopt.presentation.allocation_pictures import (
    check_picture_path,
    draw,
    draw_envy,
    draw_prices,
    draw_shares,
    save_figure,
)
from hetopt.presentation.comparison_page import page
from hetopt.presentation.fonts import family_of, label, labels
from hetopt.presentation.pictures import panel
from hetopt.presentation.style import HEAT, canvas
from hetopt.tolerances import EQUAL

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
RESULT = hetopt.solve(oef.cooperative(), INST)
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("ending", MAGIC)
def test_a_picture_is_written_in_each_format(tmp_path: Path, ending: str) -> None:
    path = save_figure(draw(RESULT, "title"), tmp_path / f"out{ending}")
    assert path.read_bytes().startswith(MAGIC[ending])


def test_a_picture_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_figure(draw(RESULT), tmp_path / "out.png")
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UnusableFile, match="No space left"):
            save_figure(draw(RESULT, "another"), path)
    assert path.read_bytes() == before
    assert save_figure(draw(RESULT, "another"), path).read_bytes() != before


def boxes(axes: Axes) -> list[list[tuple[float, float, float, float]]]:
    """Left, right, lower and upper edges of the boxes of each shape."""
    found = []
    for patch in axes.patches:
        assert isinstance(patch, PathPatch)
        corners = np.asarray(patch.get_path().vertices).reshape(-1, 5, 2)
        edges = np.stack([corners.min(axis=1)[:, 0], corners.max(axis=1)[:, 0],
                          corners.min(axis=1)[:, 1], corners.max(axis=1)[:, 1]], axis=1)  # fmt: skip
        found.append([tuple(row) for row in edges.tolist()])
    return found


def test_bars_are_as_long_as_the_gpus() -> None:
    """u1 has 1 GPU1 and 1/4 GPU2, u2 3/4 GPU2."""
    axes = Figure().subplots()
    draw_shares(axes, RESULT)
    assert [[box[:2] for box in own] for own in boxes(axes)] == [
        [pytest.approx((0, 1), abs=EQUAL)],
        [pytest.approx((1, 1.25), abs=EQUAL), pytest.approx((0, 0.75), abs=EQUAL)],
    ]
    assert [patch.get_label() for patch in axes.patches] == ["GPU1", "GPU2"]


def test_prices_are_drawn_only_where_there_are_any() -> None:
    axes = Figure().subplots()
    draw_prices(axes, RESULT.certificate.prices)
    assert [own[0][1] for own in boxes(axes)] == pytest.approx([1.75, 3.5], rel=EQUAL)
    assert len(draw(hetopt.Plan(RESULT.entities, np.eye(2))).axes) == 2, "shares and envy"


def test_the_envy_matrix_says_by_how_much() -> None:
    """u1 has GPU1 and a rate of 1, and would have 2 with GPU2, 100 % more; u2 has 5 and would have 1."""
    axes = Figure().subplots()
    draw_envy(axes, hetopt.Plan(RESULT.entities, np.eye(2)))
    assert [text.get_text() for text in axes.texts] == ["100"]
    assert axes.texts[0].get_position() == (1, 0), "u1 envies u2"
    assert [len(own) for own in boxes(axes)] == [3, 1]
    assert [patch.get_facecolor() for patch in axes.patches] == [to_rgba(HEAT[0]), to_rgba(HEAT[3])]


def test_many_tenants_stay_readable() -> None:
    many = hetopt.Instance.from_throughputs(1 + np.arange(600.0).reshape(300, 2) / 600, capacity=[30, 30])
    axes = Figure().subplots()
    draw_shares(axes, hetopt.Plan(many.entities(), np.ones((300, 2))))
    assert len(axes.get_yticks()) == 40
    assert "40 of 300" in axes.get_title()


@pytest.mark.parametrize(("name", "message"), [("x.gif", "must end in one of .png"), ("no/x.png", "does not exist")])
def test_a_path_that_cannot_be_written_is_refused_first(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        check_picture_path(tmp_path / name)


ODD = ("机器学习", "$\\alpha$ [lab]", "_hidden", 'O\'Brien & "Sons" <Machine Learning Research>/llm', "x" * 70, "Zoë")


def odd_result() -> hetopt.Allocation:
    table = 1 + np.arange(12.0).reshape(6, 2) / 12
    inst = hetopt.Instance.from_throughputs(table, capacity={"_T4$": 3, "A100-SXM4-80GB-PCIe": 2}, tenants=ODD)
    return hetopt.solve(oef.cooperative(), inst)


@pytest.mark.parametrize("ending", MAGIC)
def test_no_name_brings_a_warning_or_is_lost(tmp_path: Path, ending: str) -> None:
    """Warnings are errors here; an SVG holds the names as text, which the browser's fonts can draw."""
    path = save_figure(draw(odd_result(), "机器 $x$ and _y"), tmp_path / f"out{ending}")
    if ending == ".svg":
        text = path.read_text(encoding="utf-8")
        for shown in ("机器学习", "$\\alpha$ [lab]", "_hidden", "/llm", "Zoë", "_T4$", "机器 $x$ and _y"):
            assert shown in text


@pytest.mark.parametrize(
    "expected_message",
    ["Glyph 26426 (\\N{CJK}) missing from font(s) DejaVu Sans.", "constrained_layout not applied", "Glyph 1"],
)
def test_other_warnings_are_heard_while_a_picture_is_drawn(expected_message: str) -> None:
    """Only letters missing from our own pictures are expected: not other warnings, nor the same in others' pictures."""
    with canvas(()), pytest.raises(UserWarning, match=re.escape(expected_message)):
        warnings.warn(expected_message, UserWarning, stacklevel=1)


@pytest.mark.parametrize("n", [1, 4, 9, 24, 60])
@pytest.mark.parametrize("length", [1, 60])
def test_panels_stay_apart_within_the_page_and_large(n: int, length: int) -> None:
    """With their labels and titles, for few and many tenants of short and long names."""
    names = [f"{i}{'n' * length}" for i in range(n)]
    table = 1 + np.random.default_rng(n).random((n, 3)).cumsum(axis=1)
    capacity = {"T4": 5, "V100": 5, "A100-SXM4-80GB": 5}
    inst = hetopt.Instance.from_speedups(table, capacity, tenants=names, any_scale=True)
    figure = draw(hetopt.solve(oef.noncooperative(), inst), "title")
    covered = [box for axes in figure.axes if (box := axes.get_tightbbox()) is not None]
    assert len(covered) == 3, "shares, envy, prices"
    for i, box in enumerate(covered):
        assert min(box.x0, box.y0) >= 0
        assert (box.x1, box.y1) <= (figure.bbox.x1, figure.bbox.y1)
        assert not any(box.overlaps(other) for other in covered[:i])
    widths = [axes.get_window_extent().width / figure.dpi for axes in figure.axes]
    assert min(widths) > 1.5, "inches"


@pytest.mark.parametrize("length", [1, 6, 40])
def test_rows_of_the_envy_matrix_are_as_high_as_their_names(length: int) -> None:
    """Upright names of columns take height from the rows."""
    result = hetopt.solve(
        oef.cooperative(),
        hetopt.Instance.from_speedups(
            [[1, 2 + i] for i in range(6)], [2, 2], tenants=[f"{i}" + "x" * (length - 1) for i in range(6)]
        ),
    )
    height, draw_panel = allocation_pictures._panels(result, result)[1]
    with canvas(result.entities.names):
        figure, axes = panel(height)
        draw_panel(axes)
        figure.draw_without_rendering()
        boxes = [tick.get_window_extent() for tick in axes.get_yticklabels()]
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))


def test_long_names_keep_both_ends() -> None:
    assert label("short", 1) == "short"
    cut = [label(f"{'x' * 40}/{kind}", 1, 20) for kind in ("llm", "small")]
    assert cut == ["xxxxxxxxxx…xxxxx/llm", "xxxxxxxxxx…xxx/small"]


def test_names_that_would_look_alike_lose_what_they_share() -> None:
    hosts = {f"rack1-node-{i:02d}.cluster.example.org": i for i in range(3)}
    assert labels(hosts, 16) == ["…0…", "…1…", "…2…"]
    assert labels({"one": 1, "two": 2}) == ["one", "two"]
    assert labels({"a": 1}) == ["a"]


@given(st.lists(st.text(st.sampled_from("ab"), max_size=9), unique=True, max_size=6))
def test_labels_are_those_of_each_where_they_differ(names: list[str]) -> None:
    numbered = {name: i for i, name in enumerate(names)}
    alone = [label(name, i, 6) for name, i in numbered.items()]
    together = labels(numbered, 6)
    assert len(set(together)) >= len(set(alone))
    assert together == alone or len(set(alone)) < len(alone)


@given(st.text(max_size=60), st.integers(4, 30))
def test_labels_are_short_and_harmless(name: str, most: int) -> None:
    """East Asian letters are two wide; what fits and can be drawn stays as it is."""
    shown = label(name, 7, most)
    assert len(shown) <= max(most, len(name)) if name == shown else len(shown) <= most
    if len(name) * 2 <= most and all(family_of(letter) for letter in name):
        assert shown == name


def test_letters_without_a_font_get_a_number() -> None:
    """U+10FFFF is a letter of no font."""
    assert label("a\U0010ffff", 3) == "a\U0010ffff (3)"


def test_envy_of_a_page_is_between_tenants_as_in_its_table() -> None:
    inst = hetopt.instances.load("lab36/jobs")
    inst = inst.replace(time=max(job.arrival for job in inst.jobs))
    titles = [axes.get_title(loc="left") for axes in draw(hetopt.solve(gavel.fifo(), inst)).axes]
    assert titles == [
        "GPUs of jobs",
        "Envy between 20 of 24 jobs",
        "Prices of the GPU types",
    ]
    comparison = compare(inst, {"fifo": gavel.fifo()})
    assert ">Envy between tenants<" in page(comparison, "title", {})
