"""Colours differ for every kind of sight, on light and dark pages; pictures take the colours of the page."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from hetopt.presentation.gantt import time_axis
from hetopt.presentation.pages import stylesheet
from hetopt.presentation.pictures import inline_svg, panel
from hetopt.presentation.style import (
    DARK,
    DASHES,
    GRID,
    HATCHES,
    INK,
    LIGHT,
    PAGE,
    VARIABLES,
    SeriesStyle,
    canvas,
    contrast,
    series_styles,
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


def test_contrast_is_that_of_wcag() -> None:
    for a, b in combinations(["#000000", "#ffffff", *LIGHT, *DARK], 2):
        low, high = sorted(float(TO_XYZ[1] @ linear(colour)) + 0.05 for colour in (a, b))
        assert contrast(a, b) == pytest.approx(high / low, rel=1 / 100)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_differ_for_all_kinds_of_vision(scheme: tuple[str, ...], vision: str) -> None:
    """20 is ten times what is just seen side by side (CIE 1976)."""
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in scheme]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_page(scheme: int) -> None:
    """About three to one is what WCAG 2.1 asks of graphics, 4.5 of text."""
    page = VARIABLES["page"][scheme]
    assert min(contrast(colour, page) for colour in (LIGHT, DARK)[scheme]) > 2.97
    assert contrast(VARIABLES["ink"][scheme], page) > 7
    assert min(contrast(VARIABLES[name][scheme], page) for name in ("quiet", "good", "bad", "warn")) > 4.5


def test_as_many_systems_as_there_are_colours_times_lines_look_different() -> None:
    names = [f"s{i}" for i in range(len(LIGHT) * len(DASHES))]
    found = series_styles(names)
    lines = {(look.colour, str(look.line()["linestyle"])) for look in found.values()}
    bars = {(look.bar()["facecolor"], look.bar()["hatch"]) for look in found.values()}
    keys = {(key.variable, key.dashes) for key in (look.key("", line=True) for look in found.values())}
    assert len(lines) == len(bars) == len(keys) == len(names)
    assert series_styles([*names, "more"])["more"].colour == LIGHT[0]


def test_pictures_take_the_colours_of_the_page() -> None:
    with canvas(["a"]):
        figure, axes = panel(1.0)
        axes.plot([0, 1], [0, 1], color=LIGHT[2])
        axes.bar([0.5], [0.5], color="#123456")
        axes.set_title("x < 1.23456 & 'y'")
        for i in range(len(LIGHT)):
            axes.text(0, 0, "letters", color=SeriesStyle(i).letters)
        drawn = inline_svg(figure, 'says "<this>"')
    assert all(colour not in drawn for colour in (INK, GRID, PAGE, *LIGHT))
    assert {"var(--s2)", "#123456", *(f"var(--t{i})" for i in range(len(LIGHT)))} <= set(re.findall(r'"(.*?)"', drawn))
    assert "x &lt; 1.23456 &amp; 'y'" in drawn
    assert 'aria-label="says &quot;&lt;this&gt;&quot;"' in drawn
    assert not re.search(r"\d\.\d{2}", drawn.replace("1.23456", ""))
    assert "<metadata" not in drawn


@pytest.mark.parametrize("hatch", HATCHES)
def test_hatches_are_small(hatch: str) -> None:
    """Dots would take 300 kB."""
    with canvas([]):
        figure, axes = panel(1.0)
        axes.bar([0.5], [0.5], hatch=hatch)
        assert len(inline_svg(figure, hatch)) < 10_000


def test_pictures_with_other_texts_share_no_ids() -> None:
    def ids(text: str) -> set[str]:
        with canvas([]):
            figure, axes = panel(1.0)
            axes.plot([0, 1], [0, 1])
            return set(re.findall(r'id="([^"]+)"', inline_svg(figure, text)))

    assert ids("one") == ids("one")
    assert ids("one")
    assert not ids("one") & ids("two")


def test_every_colour_of_pictures_is_declared_in_all_schemes() -> None:
    for name in VARIABLES:
        assert stylesheet().count(f"--{name}: #") == 3, "light, dark, print"


@pytest.mark.parametrize(
    ("begin", "end", "unit", "ticks"),
    [
        (0.0, 4 * 3600.0, "h", ["0", "0.5", "1"]),
        (0.0, 90.0, "s", ["0", "10", "20"]),
        (86400.0, 11 * 86400.0, "d", ["1", "2", "3"]),
    ],
)
def test_time_has_round_ticks(begin: float, end: float, unit: str, ticks: list[str]) -> None:
    figure, axes = panel(1.0)
    time_axis(axes, begin, end)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    shown = [
        text.get_text() for at, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if low <= at <= high
    ]
    assert axes.get_xlabel() == f"time ({unit})"
    assert shown[:3] == ticks
    assert len(shown) <= 13
