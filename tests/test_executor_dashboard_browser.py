"""The dashboard in headless Chromium: layout, renewal, and what it reports when the server does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_server import TOKEN, closed_server, open_server, recorded_state, served, stop  # noqa: F401 - fixtures
from dashboard_state import RecordedState, busy, seen
from pages_in_browser import chromium, opened, problems_of
from waiting import PATIENCE

from hetopt.errors import UnusableFile
from hetopt.executor.dashboard.page import page
from hetopt.executor.dashboard.server import DashboardServer

WAIT = 1000 * PATIENCE


@pytest.fixture(name="browser", scope="module")
def one_browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


def wait_for(tab: Any, selector: str, text: str) -> None:
    tab.locator(selector, has_text=text).wait_for(timeout=WAIT)


@pytest.mark.parametrize("kind", ["busy", "empty"])
def test_pages_fit_and_can_be_read_at_all_widths(browser: Any, tmp_path: Path, kind: str) -> None:
    recorded = busy(tmp_path / "s") if kind == "busy" else RecordedState(tmp_path / "s")
    path = tmp_path / "page.html"
    path.write_text(page(seen(recorded), live=False))
    assert problems_of(browser, path) == []


def test_the_shadow_of_a_table_ends_with_it(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(seen(busy(tmp_path / "s")), live=False))
    with opened(browser, path, 390, "light") as tab:
        beside = tab.evaluate("""() => [...document.querySelectorAll(".scroll > table")].map((table) => {
            const own = table.getBoundingClientRect(), box = table.parentElement.getBoundingClientRect();
            return Math.max(own.top - box.top, box.bottom - own.bottom);
        })""")
    assert len(beside) == 5
    assert max(beside) < 1


def test_the_page_renews_itself(browser: Any, recorded: RecordedState, server: DashboardServer) -> None:
    with opened(browser, server.url, 1400, "light") as tab:
        messages: list[str] = []
        tab.on("console", lambda message: messages.append(message.text))
        tab.reload()
        recorded.job("came-later")
        wait_for(tab, "#pending", "came-later")
        assert tab.title() == "1 running, 1 pending: hetopt"
        assert tab.inner_text("#beat") == "renewed every 3 s"
        assert messages == [], "nothing breaks the Content-Security-Policy"


def test_the_cookie_stands_for_the_token(browser: Any, recorded: RecordedState, closed: DashboardServer) -> None:
    with opened(browser, closed.url, 1400, "light") as tab:
        assert "requires a token" in tab.inner_text("main")
        tab.goto(f"{closed.url}?token={TOKEN}")
        recorded.job("came-later")
        wait_for(tab, "#pending", "came-later")
        assert TOKEN not in tab.content()
        assert TOKEN not in tab.url


@pytest.mark.parametrize("what", ["stops", "fails"])
def test_the_page_reports_that_the_server_does_not_answer(
    browser: Any, server: DashboardServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fails() -> None:
        raise UnusableFile("the disk <b>is</b> gone")

    with opened(browser, server.url, 1400, "light") as tab:
        if what == "stops":
            stop(server)
        else:
            monkeypatch.setattr(server.reader, "read", fails)
        text = {"stops": "The server does not answer.", "fails": "the disk <b>is</b> gone"}[what]
        wait_for(tab, "#problem", text)
        assert tab.get_attribute("#live", "class") == "stale"
        assert "early-bird" in tab.inner_text("#running"), "the last state stays"


def test_the_page_keeps_places_focus_and_selection(browser: Any, tmp_path: Path) -> None:
    """A table within it, its place, its focus and open details stay although rows come in above."""
    recorded = busy(tmp_path / "state")
    with served(recorded.database.folder) as server, opened(browser, server.url, 1400, "light") as tab:
        tab.evaluate("""() => {
            document.querySelector("#running details").open = true;
            const table = document.getElementById("scroll-pending");
            table.scrollTop = 77;
            table.focus({preventScroll: true});
            document.body.style.paddingBottom = "100vh";
            document.getElementById("finished").scrollIntoView();
        }""")
        place = "document.getElementById('finished').getBoundingClientRect().top"
        before = tab.evaluate(place)
        for i in range(4):
            recorded.node(f"new-{i}", {"K80": 1})
        wait_for(tab, "#nodes", "new-3")
        assert abs(tab.evaluate(place) - before) < 2
        assert tab.evaluate("scrollY") > 99
        assert tab.evaluate("document.getElementById('scroll-pending').scrollTop") == 77
        assert tab.evaluate("document.activeElement.id") == "scroll-pending"
        assert tab.evaluate("document.querySelector('#running details').open")
        tab.evaluate("getSelection().selectAllChildren(document.querySelector('#nodes h2'))")
        recorded.node("while-selected", {"K80": 1})
        for _ in range(2):  # the first may have been requested before
            with tab.expect_response("**/fragment", timeout=WAIT):
                pass
        assert tab.evaluate("getSelection().toString()") == "Nodes"
        assert "while-selected" not in tab.inner_text("#nodes")
        tab.evaluate("getSelection().removeAllRanges()")
        wait_for(tab, "#nodes", "while-selected")


def test_the_page_is_complete_without_scripts(browser: Any, server: DashboardServer) -> None:
    with opened(browser, server.url, 390, "dark", scripts=False) as tab:
        assert "early-bird" in tab.inner_text("#running")
        assert "Scripts are off" in tab.inner_text("body")
