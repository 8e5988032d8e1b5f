"""The page about simulations in a browser: what is legible and fits at each width, and without scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages_in_browser import chromium, opened, problems_of
from report_cases import TRACE

from hetopt.experiments.environment_settings import EnvironmentSettings
from hetopt.experiments.experiment import Experiment, SystemVariant
from hetopt.experiments.run_folder import RunFolder
from hetopt.experiments.run_store import RunStore
from hetopt.presentation.simulation_report.report_page import page

LONG = "a-label-that-is-too-long-for-most-pictures[normalise=False, round_seconds=300, restarts=many]"
NAMES = ("fft", LONG, "$x_1$", "调度器-中文名称-很长的名字", "<i>&amp;", "two words", *(f"p{i}" for i in range(6)))
POLICIES = ("fft", "srtf", "fifo", "tiresias", "gavel", "oef-cooperative")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two systems with two seeds, which restart slowly; 12 systems with one seed, of which jobs do not finish."""
    folder = tmp_path_factory.mktemp("pages")
    few = tuple(SystemVariant(name) for name in ("fft", "oef-cooperative"))
    Experiment((TRACE,), few, (0, 1), EnvironmentSettings(restart_seconds=60.0)).run(RunStore(folder / "few"))
    many = tuple(SystemVariant(POLICIES[i % len(POLICIES)], label=name) for i, name in enumerate(NAMES))
    Experiment((TRACE,), many, until=3600.0).run(RunStore(folder / "many"))
    for name in ("few", "many"):
        (folder / f"{name}.html").write_text(page(RunFolder.of(folder / name)), "utf-8")
    return {name: folder / f"{name}.html" for name in ("few", "many")}


@pytest.mark.parametrize("name", ["few", "many"])
def test_the_page_is_legible_and_fits(pages: dict[str, Path], name: str) -> None:
    with chromium() as browser:
        assert problems_of(browser, pages[name]) == []


def test_the_page_is_complete_without_scripts(pages: dict[str, Path]) -> None:
    """The details can be opened, and the answer is on the first screen of a phone."""
    with chromium() as browser, opened(browser, pages["few"], 390, "light", scripts=False) as tab:
        tab.get_by_text("All numbers").click()
        assert tab.get_by_role("heading", name="Use of the cluster").is_visible()
        box = tab.locator("#answer").bounding_box()
        assert box["y"] + box["height"] < 844


@pytest.mark.parametrize("name", ["few", "many"])
def test_the_page_prints(pages: dict[str, Path], name: str) -> None:
    """On A4 across: what is folded stays so, and nothing is wider than the paper where all is open."""
    with chromium() as browser, opened(browser, pages[name], 1032, "light") as tab:
        tab.emulate_media(media="print")
        assert not tab.get_by_role("heading", name="Use of the cluster").is_visible()
        tab.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        assert tab.evaluate("document.documentElement.scrollWidth") == 1032


def test_pages_are_small(pages: dict[str, Path]) -> None:
    assert pages["few"].stat().st_size < 250_000
    assert pages["many"].stat().st_size < 800_000
