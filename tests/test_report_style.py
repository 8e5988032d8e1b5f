"""Colours of the report differ for every kind of sight, on light and dark pages; pictures take the page's colours."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hetopt.presentation.simulation_report.axes import AxesGrid, time_axis, width_of
from hetopt.presentation.simulation_report.report_style import (
    DARK,
    DASHES,
    GRID,
    INK,
    LIGHT,
    PAGE,
    PAGES,
    STYLE,
    VARIABLES,
    canvas,
    legend,
    picture,
    system_styles,
)

VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""Linear RGB as people see it: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1."""

TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""SRGB (IEC 61966-2-1) to CIE XYZ, white D65."""

Three = NDArray[np.float64]


def linear(colour: str) -> Three:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Three) -> Three:
    x, y, z = TO_XYZ @ np.clip(rgb, 0, 1) / TO_XYZ.sum(axis=1)
    f = [np.cbrt(v) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a: str, b: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) + 0.05 for colour in (a, b))
    return high / low


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_differ_for_all_kinds_of_vision(scheme: tuple[str, ...], vision: str) -> None:
    """20 is ten times what is just seen side by side (CIE 1976)."""
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in scheme]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_colours_stand_out_from_the_page(scheme: str, colours: tuple[str, ...]) -> None:
    """Three to one is what WCAG 2.1 asks of graphics."""
    assert min(contrast(colour, PAGES[scheme]) for colour in colours) > 2.99


def test_words_stand_out_from_the_page() -> None:
    for scheme in re.findall(r"--ink: (#\w+); --quiet: (#\w+); --grid: #\w+; --page: (#\w+);", STYLE):
        ink, quiet, page = scheme
        assert contrast(ink, page) > 7
        assert contrast(quiet, page) > 4.5


def test_as_many_systems_as_there_are_colours_times_lines_look_different() -> None:
    names = [f"s{i}" for i in range(len(LIGHT) * len(DASHES))]
    found = system_styles(names)
    lines = {(look.colour, str(look.line()["linestyle"])) for look in found.values()}
    bars = {(look.bar()["facecolor"], look.bar()["hatch"]) for look in found.values()}
    assert len(lines) == len(bars) == len({look.swatch() for look in found.values()}) == len(names)
    assert system_styles([*names, "more"])["more"].colour == LIGHT[0]


def test_pictures_take_the_colours_of_the_page() -> None:
    with canvas(["a"]):
        figure, ((axes,),) = AxesGrid(1, 1, 1.0, 0.5).figure()
        axes.plot([0, 1], [0, 1], color=LIGHT[2])
        axes.bar([0.5], [0.5], color="#123456")
        axes.set_title("x < 1.23456 & 'y'")
        drawn = picture(figure, "one", 'says "<this>"', "<b>caption</b>", "above")
    assert all(colour not in drawn for colour in (INK, GRID, PAGE, *LIGHT))
    assert "var(--s2)" in drawn
    assert "var(--ink)" in drawn
    assert "#123456" in drawn
    assert "x &lt; 1.23456 &amp; 'y'" in drawn
    assert "aria-label='says &quot;&lt;this&gt;&quot;'" in drawn
    assert drawn.startswith("<figure>above<svg role='img'")
    assert drawn.endswith("<figcaption><b>caption</b></figcaption></figure>")
    assert not re.search(r"\d\.\d{3}", drawn.replace("1.23456", ""))
    assert "<metadata" not in drawn


def test_pictures_with_other_names_share_no_ids() -> None:
    def ids(name: str) -> set[str]:
        with canvas([]):
            figure, ((axes,),) = AxesGrid(1, 1, 1.0, 0.5).figure()
            axes.plot([0, 1], [0, 1])
            return set(re.findall(r'id="([^"]+)"', picture(figure, name, "", "")))

    assert ids("one") == ids("one")
    assert ids("one")
    assert not ids("one") & ids("two")


def test_legends_are_text() -> None:
    assert legend([("<i></i>", "a < b")]) == "<ul class='legend'><li><i></i>a &lt; b</li></ul>"


def test_every_colour_of_pictures_is_declared_in_all_schemes() -> None:
    for name in (*VARIABLES.values(), "best"):
        assert STYLE.count(f"--{name}: #") == 3, "light, dark, print"


def test_frames_are_in_inches() -> None:
    figure, axes = AxesGrid(2, 3, 1.0, 2.0, right=0.5, top=0.25, bottom=0.75, beside=0.3, below=0.5).figure()
    assert isinstance(figure, Figure)
    width, height = figure.get_size_inches()
    assert height == pytest.approx(0.25 + 1 + 0.5 + 1 + 0.75)
    boxes = [[a.get_position() for a in row] for row in axes]
    assert boxes[0][0].x0 * width == pytest.approx(2.0)
    assert boxes[0][2].x1 * width == pytest.approx(width - 0.5)
    assert (boxes[0][1].x0 - boxes[0][0].x1) * width == pytest.approx(0.3)
    assert (boxes[0][0].y0 - boxes[1][0].y1) * height == pytest.approx(0.5)
    assert boxes[1][0].y0 * height == pytest.approx(0.75)
    assert (boxes[1][0].y1 - boxes[1][0].y0) * height == pytest.approx(1.0)
    assert width_of(["中文", "abc"]) == width_of(["abcd"]) > width_of([])


@pytest.mark.parametrize(
    ("begin", "end", "unit", "ticks"),
    [
        (0.0, 4 * 3600.0, "h", ["0", "0.5", "1"]),
        (0.0, 90.0, "s", ["0", "10", "20"]),
        (86400.0, 11 * 86400.0, "d", ["1", "2", "3"]),
    ],
)
def test_time_has_round_ticks(begin: float, end: float, unit: str, ticks: list[str]) -> None:
    figure, ((axes,),) = AxesGrid(1, 1, 1.0, 0.5).figure()
    time_axis(axes, begin, end)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    shown = [
        text.get_text() for at, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if low <= at <= high
    ]
    assert axes.get_xlabel() == f"time ({unit})"
    assert shown[:3] == ticks
    assert len(shown) <= 13
