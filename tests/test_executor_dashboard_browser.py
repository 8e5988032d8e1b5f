"""The dashboard in a real browser, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from dashboard_books import Books, busy
from dashboard_server import TOKEN, closed_server, open_server, served, some_books  # noqa: F401 - fixtures
from waiting import PATIENCE

from hetopt.errors import UnusableFile
from hetopt.executor.dashboard import server as serving
from hetopt.executor.dashboard.server import DashboardServer

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser = pytest.mark.skipif(CHROMIUM is None, reason="none of chromium, chromium-browser, google-chrome is on PATH")


def browse(server: DashboardServer, folder: Path, *words: str, query: str = "") -> tuple[str, list[str], set[str]]:
    """The document after twelve (virtual) seconds, what the console said, and hosts that the page asked for anything.

    What the browser wants for itself finds no host.
    """
    assert CHROMIUM is not None
    log = folder / "net.json"
    process = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--enable-logging=stderr",
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
            "--window-size=1280,900", "--virtual-time-budget=12000", *words, "--dump-dom", f"{server.url}{query}",
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    console = re.findall(r"CONSOLE[^ ]*\] (.*)", process.stderr)
    own = rf'"initiator":"{re.escape(server.url.rstrip("/"))}".*"url":"([a-z]+://[^/"]*)'
    asked = set(re.findall(own, log.read_text(errors="replace")))
    return process.stdout, console, asked


class Then:
    """Looks as before, but does something between one look and the next."""

    def __init__(self, server: DashboardServer, monkeypatch: pytest.MonkeyPatch, *then: object) -> None:
        self.look, self.then, self.lock = server.reader.look, list(then), threading.Lock()
        monkeypatch.setattr(server.reader, "look", self)

    def __call__(self) -> object:
        with self.lock:
            found = self.look()
            if self.then and callable(do := self.then.pop(0)):
                do()
            return found


@browser
def test_a_browser_shows_what_has_changed(
    books: Books, server: DashboardServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Then(server, monkeypatch, lambda: books.job("came-later"))
    dom, console, asked = browse(server, tmp_path, f"--screenshot={tmp_path / 'page.png'}")
    assert "came-later" in dom
    assert "<title>1 running, 1 waiting: hetopt</title>" in dom
    assert "renewed every 3 s" in dom
    assert console == []
    assert asked == {server.url.rstrip("/")}
    assert (tmp_path / "page.png").stat().st_size > 10_000


@browser
def test_a_browser_comes_in_with_the_token_and_goes_on_with_the_cookie(
    books: Books, closed: DashboardServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Then(closed, monkeypatch, lambda: books.job("came-later"))
    dom, console, _ = browse(closed, tmp_path, query=f"?token={TOKEN}")
    assert "came-later" in dom
    assert console == []
    assert TOKEN not in dom


@browser
@pytest.mark.parametrize("what", ["stops", "breaks"])
def test_a_browser_says_that_nobody_answers(
    books: Books, server: DashboardServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def stops() -> None:
        server.shutdown()
        server.socket.close()

    def breaks() -> None:
        raise UnusableFile("the disk <b>is</b> gone")

    Then(server, monkeypatch, None, {"stops": stops, "breaks": breaks}[what], *[breaks] * 50)
    dom, _, _ = browse(server, tmp_path)
    said = {"stops": "The server has not answered since ", "breaks": "the disk &lt;b&gt;is&lt;/b&gt; gone"}[what]
    assert said in dom
    assert '<body class="stale">' in dom
    assert "early-bird" in dom, "what was there before is still shown"


@browser
def test_a_browser_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page, a table within it and the focus stay where they were, though a line comes in above."""
    probe = """<script>
      setTimeout(() => {
        document.getElementById("scroll-queue").scrollTop = 77;
        document.getElementById("scroll-queue").focus({preventScroll: true});
        document.getElementById("over").scrollIntoView();
        window.before = document.getElementById("over").getBoundingClientRect().top;
      }, 500);
      setTimeout(() => {
        const moved = Math.abs(document.getElementById("over").getBoundingClientRect().top - window.before);
        document.documentElement.dataset.probe = [
          document.getElementById("scroll-queue").scrollTop, document.activeElement.id, moved < 2, scrollY > 99].join();
      }, 9000);
    </script>"""
    books = busy(tmp_path / "state")
    kind, make = serving.PLACES["/"]
    monkeypatch.setitem(serving.HEADERS, "Content-Security-Policy", "default-src 'unsafe-inline' 'self' data:")
    monkeypatch.setattr(serving, "PLACES", {**serving.PLACES, "/": (kind, lambda look: f"{make(look)}{probe}")})
    with served(books.store.folder) as server:
        Then(server, monkeypatch, lambda: [books.node(f"new-{i}", {"K80": 1}) for i in range(4)])
        dom, console, _ = browse(server, tmp_path)
    assert console == []
    assert "new-3" in dom
    assert 'data-probe="77,scroll-queue,true,true"' in dom
