"""The dashboard over HTTP: who may read it, what cannot be done with it, and what it says when the books are away."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from dashboard_books import Books, busy

from hetopt.errors import HetoptError, InvalidOption, UnusableFile
from hetopt.executor import tables
from hetopt.executor.dashboard import server as serving
from hetopt.executor.dashboard.access import Access, address, check_token
from hetopt.executor.dashboard.command import dashboard
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.dashboard.script import POLICY
from hetopt.executor.dashboard.server import HEADERS, MOST_AT_ONCE, Server
from hetopt.executor.store import DATABASE, StateStore

TOKEN = "correct-horse.battery_staple~1"
Answer = tuple[int, dict[str, str], str]


@contextmanager
def served(folder: Path, *, token: str | None = None, kept: float = 0.0, patience: float = 0.3) -> Iterator[Server]:
    """A server of these books, on a port that is free."""
    with closing(Reader(folder, patience=patience, kept=kept)) as reader, Server(reader, port=0, token=token) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: Server, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.where.port, timeout=20)
    with closing(connection):
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        said = answer.read()
        if answer.headers.get("Content-Encoding") == "gzip":
            said = gzip.decompress(said)
        return answer.status, dict(answer.headers), said.decode()


def raw(server: Server, request: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", server.where.port), timeout=20) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


@pytest.fixture
def books(tmp_path: Path) -> Books:
    made = Books(tmp_path / "state")
    made.node("n", {"K80": 2})
    made.lease(made.job("early-bird"), [("n", "K80", 0)], 9900.0)
    return made


@pytest.fixture
def server(books: Books) -> Iterator[Server]:
    with served(books.store.folder) as made:
        yield made


@pytest.fixture
def closed(books: Books) -> Iterator[Server]:
    """With a token."""
    with served(books.store.folder, token=TOKEN) as made:
        yield made


# -- places and methods


def test_three_places(server: Server) -> None:
    status, headers, text = ask(server)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert text.startswith("<!doctype html>")
    assert "early-bird" in text
    status, headers, part = ask(server, "/fragment?x=1")
    assert status == 200
    assert part.startswith('<section id="head"')
    status, headers, said = ask(server, "/api/snapshot.json")
    assert headers["Content-Type"] == "application/json"
    assert [job["name"] for job in json.loads(said)["jobs"]] == ["early-bird"]


def test_headers_keep_browsers_from_doing_more(server: Server) -> None:
    for path in ("/", "/fragment", "/api/snapshot.json", "/nothing"):
        _, headers, _ = ask(server, path)
        assert {key: headers[key] for key in HEADERS} == HEADERS
        assert headers["Server"] == "hetopt"
    assert POLICY.startswith("default-src 'none'; ")
    assert HEADERS["Cache-Control"] == "no-store"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert "http:" not in POLICY
    assert "*" not in POLICY


def test_head_is_get_without_the_body(server: Server) -> None:
    _, headers, _ = ask(server, "/nothing")
    status, short, text = ask(server, "/nothing", "HEAD")
    assert (status, text) == (404, "")
    assert {**short, "Date": ""} == {**headers, "Date": ""}
    assert ask(server, "/", "HEAD")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_can_be_changed(server: Server, method: str) -> None:
    status, headers, _ = ask(server, "/", method, b"x" * 5000 if method in ("POST", "PUT") else None)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/state.db",
        "/state.db",
        "//elsewhere/fragment",
        "/fragment/",
        "/api",
        "/api/snapshot.json/..",
        "*",
    ],
)
def test_all_else_is_not_there(server: Server, path: str) -> None:
    status, _, text = ask(server, path)
    assert status == 404
    assert "passwd" not in text


def test_a_request_that_is_none_gets_a_plain_answer(server: Server) -> None:
    for request in (
        b"<script>alert(1)</script>\r\n\r\n",
        b"GET / HTTP/9.9 x\r\n\r\n",
        b"GET //[ HTTP/1.0\r\nHost: ::\r\n\r\n",
    ):
        answer = raw(server, request)
        assert b"alert" not in answer
        assert b"Traceback" not in answer
    assert b" 400 " in raw(server, b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n").splitlines()[0]
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70000 + b" HTTP/1.0\r\n\r\n").splitlines()[0]
    assert b" 431 " in raw(server, b"GET / HTTP/1.0\r\n" + b"a: b\r\n" * 200 + b"\r\n").splitlines()[0]
    assert ask(server)[0] == 200


def test_large_answers_are_packed_for_those_who_can(server: Server) -> None:
    _, headers, text = ask(server, Accept_Encoding="gzip, deflate")
    assert headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in ask(server)[1]
    assert "</html>" in text


# -- who may read


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.1.2.3:8422", "[::1]:8422", "[::1]"])
def test_this_machine_may(server: Server, host: str) -> None:
    assert ask(server, Host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8422",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "",
        "10.0.0.1",
        "[::2]",
        "2130706433",
    ],
)
def test_names_that_others_let_lead_here_may_not(server: Server, host: str) -> None:
    """Else any page in the same browser could read this one (DNS rebinding)."""
    status, _, text = ask(server, Host=host)
    assert status == 403
    assert "early-bird" not in text
    assert "evil" not in text
    assert b" 403 " in raw(server, b"GET / HTTP/1.0\r\n\r\n").splitlines()[0]


def test_with_a_token_nobody_reads_without(closed: Server) -> None:
    for path in ("/", "/fragment", "/api/snapshot.json", "/nothing"):
        for method in ("GET", "HEAD", "POST"):
            status, headers, text = ask(closed, path, method)
            assert status == 401
            assert headers["WWW-Authenticate"] == 'Bearer realm="hetopt"'
            assert "early-bird" not in text
    for wrong in ("Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"):
        assert ask(closed, Authorization=wrong)[0] == 401
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        assert ask(closed, Authorization=right, Host="lab.example")[0] == 200


def test_a_token_in_the_address_becomes_a_cookie(closed: Server) -> None:
    status, headers, text = ask(closed, f"/?token={TOKEN}")
    assert (status, text, headers["Location"]) == (303, "", "./")
    assert ask(closed, f"/api/snapshot.json?token={TOKEN}")[1]["Location"] == "snapshot.json"
    cookie, *flags = headers["Set-Cookie"].split("; ")
    assert set(flags) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    name, _, value = cookie.partition("=")
    assert name == f"hetopt-{closed.where.port}"
    assert TOKEN not in value
    assert ask(closed, Cookie=cookie)[0] == 200
    assert ask(closed, Cookie=f"a=b; {cookie}; c=d")[0] == 200
    for wrong in (f"{name}={TOKEN}", f"{name}=", f"{name}x={value}", f"{name}={value[:-1]}0", ";;=", f'{name}="\\'):
        assert ask(closed, Cookie=wrong)[0] == 401
    for wrong in ("", "x", f"{TOKEN}x", TOKEN[:-1], "%00", "%F0", "a&token=b"):
        assert ask(closed, f"/?token={wrong}", Cookie=cookie)[0] == 401
    assert ask(closed, "/?" + "&".join(f"a{i}=1" for i in range(50)))[0] == 401


def test_another_token_means_another_cookie() -> None:
    assert Access("a" * 9, 1).set_cookie != Access("b" * 9, 1).set_cookie
    assert Access("a" * 9, 1).set_cookie == Access("a" * 9, 1).set_cookie


def test_the_token_is_told_to_nobody(closed: Server, capfd: pytest.CaptureFixture[str]) -> None:
    said = "".join(
        str(answer)
        for answer in (
            ask(closed, f"/nothing?token={TOKEN}"),
            ask(closed, f"/?token={TOKEN}", "POST", b""),
            ask(closed, f"/?token={TOKEN}", "BREW"),
            ask(closed, f"/?token={TOKEN}x"),
            raw(closed, f"GET /?token={TOKEN} HTTP/9 9\r\n\r\n".encode()),
            raw(closed, f"{TOKEN}\r\n\r\n".encode()),
            ask(closed, Authorization=f"Bearer {TOKEN}"),
        )
    )
    out, err = capfd.readouterr()
    assert TOKEN not in said + out + err
    with pytest.raises(InvalidOption) as wrong:
        check_token("sec ret")
    assert "sec ret" not in str(wrong.value)
    assert "it must have 8 to 200" in str(wrong.value)


@pytest.mark.parametrize("token", ["", "short", "with space", "pässword1", "a" * 201, "a/b/c/d/e"])
def test_tokens_that_are_none(books: Books, token: str) -> None:
    with pytest.raises(InvalidOption, match="letters, digits"):
        dashboard(state=books.store.folder, port=0, token=token)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
def test_others_are_let_in_with_a_token_only(books: Books, host: str) -> None:
    with pytest.raises(InvalidOption, match=r"HETOPT_TOKEN \(or --token\).*ssh -L"):
        dashboard(state=books.store.folder, host=host, port=0)
    assert not address(host, 0, TOKEN).loopback


def test_places_to_listen(books: Books) -> None:
    assert address("localhost", 80, None).loopback
    assert address("127.0.0.1", 80, None).shown == "http://127.0.0.1:80/"
    assert socket.gethostname() in address("0.0.0.0", 80, TOKEN).shown
    with pytest.raises(InvalidOption, match=r"--port is 65536; it must be from 0"):
        dashboard(state=books.store.folder, port=65536)
    with pytest.raises(InvalidOption, match=r"--host is 'no\.such\.host\.invalid', which is no address"):
        dashboard(state=books.store.folder, host="no.such.host.invalid")
    with pytest.raises(InvalidOption, match=r"--port 0: .*198\.51\.100\.7"):
        dashboard(state=books.store.folder, host="198.51.100.7", port=0, token=TOKEN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidOption, match=rf"--port {port}: Address already in use \(on 127\.0\.0\.1\); --port 0"
        ):
            dashboard(state=books.store.folder, port=port)


@pytest.mark.skipif(not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
def test_over_ipv6(books: Books) -> None:
    with closing(Reader(books.store.folder)) as reader, Server(reader, "::1", 0) as server:
        assert server.url == f"http://[::1]:{server.where.port}/"


# -- when the books are away


def test_books_that_others_do_not_let_go_of(books: Books, server: Server) -> None:
    books.store.close()
    with closing(sqlite3.connect(books.store.folder / DATABASE, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        status, headers, text = ask(server)
        assert status == 503
        assert headers["Retry-After"] == "5"
        assert "database is locked" in text
        assert 'http-equiv="refresh"' in text
        assert {key: headers[key] for key in HEADERS} == HEADERS
        assert ask(server, "/fragment")[0] == 503
        status, headers, text = ask(server, "/api/snapshot.json")
        assert (status, headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
        other.execute("COMMIT")
    assert ask(server)[0] == 200


def test_books_that_are_damaged_or_gone(books: Books, server: Server) -> None:
    path = books.store.folder / DATABASE
    books.store.close()
    kept = path.read_bytes()
    for content, said in (
        (b"no database at all" * 1000, "is damaged"),
        (kept[:100] + bytes(len(kept) - 100), "state.db"),
        (b"", "no such table"),
    ):
        path.write_bytes(content)
        status, _, text = ask(server)
        assert (status, said in text) == (503, True), text
        assert "Traceback" not in text
    path.unlink()
    assert "has no state of a cluster any more" in ask(server)[2]
    assert not path.exists(), "reading makes nothing"
    path.write_bytes(kept)
    assert ask(server)[0] == 200


@pytest.mark.parametrize("content", ["{", "[]", '{"gpus": 3, "up": true, "note": ""}', "[" * 100_000])
def test_books_with_rubbish_in_them(books: Books, server: Server, content: str) -> None:
    with books.store.writing() as connection:
        connection.execute(tables.nodes.update().values(content=content))
    status, _, text = ask(server)
    assert status == 503
    assert "what it holds cannot be shown" in text
    with books.store.writing() as connection:
        connection.execute(tables.nodes.delete())
    assert ask(server)[0] == 200


def test_books_of_another_version(books: Books, server: Server) -> None:
    books.facts(version="999")
    assert "is of version 999; this hetopt reads 1" in ask(server)[2]


def test_a_slip_of_the_page_is_no_traceback_in_the_browser(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: object) -> str:
        raise RuntimeError("deep inside")

    monkeypatch.setattr(serving, "PLACES", {"/": ("text/html", wrong)})
    status, _, text = ask(server)
    assert status == 500
    assert "deep" not in text
    assert "deep inside" in capfd.readouterr().err
    monkeypatch.undo()
    assert ask(server)[0] == 200


def test_looking_changes_nothing(books: Books) -> None:
    with closing(Reader(books.store.folder)) as reader:
        reader.look()
        with pytest.raises(UnusableFile, match="readonly"), reader.store.writing() as connection:
            connection.execute(tables.jobs.delete())
    assert sorted(path.name for path in books.store.folder.iterdir()) == ["state.db", "state.db-shm", "state.db-wal"]


def test_the_clock_is_the_controllers(books: Books) -> None:
    """After a restart of the machine a controller sets it anew, maybe after this has begun to look."""
    with closing(Reader(books.store.folder, kept=0.0)) as reader:
        before = reader.look().now.now
        text = json.loads(books.store.clock.text)
        books.facts(clock=json.dumps(text | {"base": text["base"] + 500.0}))
        assert 500.0 <= reader.look().now.now - before < 520.0


# -- many at once


def test_many_who_ask_share_a_look(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    before = Reader._read
    monkeypatch.setattr(Reader, "_read", lambda reader: looks.append(1) or before(reader))
    with served(books.store.folder, kept=60.0, patience=5.0) as server:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(ask(server)[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [200] * 20
    assert len(looks) == 1


def test_who_says_nothing_does_not_keep_others_waiting_for_ever(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving.Handler, "timeout", 0.5)
    where = ("127.0.0.1", server.where.port)
    silent = [socket.create_connection(where, timeout=20) for _ in range(MOST_AT_ONCE)]
    try:
        assert [one.recv(1) for one in silent] == [b""] * MOST_AT_ONCE, "hung up on"
    finally:
        for one in silent:
            one.close()
    assert ask(server)[0] == 200


def test_one_too_many_is_turned_away(server: Server) -> None:
    where = ("127.0.0.1", server.where.port)
    silent = [socket.create_connection(where, timeout=20) for _ in range(MOST_AT_ONCE + 1)]
    try:
        assert silent[-1].recv(1) == b""
    finally:
        for one in silent:
            one.close()


def test_a_look_that_takes_too_long_is_said_to(books: Books) -> None:
    with closing(Reader(books.store.folder, patience=0.1)) as reader:
        reader._lock.acquire()
        with pytest.raises(UnusableFile, match="is not read in time"):
            reader.look()
        reader._lock.release()


# -- the command


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    books = busy(tmp_path / "state", jobs=6)
    program = "import typer; from hetopt.executor.dashboard.command import dashboard; typer.run(dashboard)"
    words = [sys.executable, "-c", program, "--state", str(books.store.folder), "--port", "0"]
    environment = os.environ | {"HETOPT_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said, hint = process.stdout.readline(), process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/; Ctrl-C ends it", said)
        assert found, said
        with closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=20)) as connection:
            connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert "?token=..." in hint
    assert TOKEN not in said + hint + out


def test_the_command_says_what_is_wrong_with_the_state(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="hetopt submit"):
        dashboard(state=tmp_path / "none")
    with StateStore(tmp_path / "s"):
        pass
    (tmp_path / "s" / DATABASE).write_bytes(b"rubbish" * 1000)
    with pytest.raises(HetoptError, match="damaged"):
        dashboard(state=tmp_path / "s")


# -- in a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser = pytest.mark.skipif(CHROMIUM is None, reason="none of chromium, chromium-browser, google-chrome is on PATH")


def browse(server: Server, folder: Path, *words: str, query: str = "") -> tuple[str, list[str], set[str]]:
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
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    console = re.findall(r"CONSOLE[^ ]*\] (.*)", process.stderr)
    own = rf'"initiator":"{re.escape(server.url.rstrip("/"))}".*"url":"([a-z]+://[^/"]*)'
    asked = set(re.findall(own, log.read_text(errors="replace")))
    return process.stdout, console, asked


class Then:
    """Looks as before, but does something between one look and the next."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch, *then: object) -> None:
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
    books: Books, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    books: Books, closed: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Then(closed, monkeypatch, lambda: books.job("came-later"))
    dom, console, _ = browse(closed, tmp_path, query=f"?token={TOKEN}")
    assert "came-later" in dom
    assert console == []
    assert TOKEN not in dom


@browser
@pytest.mark.parametrize("what", ["stops", "breaks"])
def test_a_browser_says_that_nobody_answers(
    books: Books, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
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
