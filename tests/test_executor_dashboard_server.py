"""The dashboard over HTTP: allowed requests, and its errors when the state database is unavailable."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from dashboard_server import TOKEN, fetch, open_server, raw, recorded_state, served  # noqa: F401 - fixtures
from dashboard_state import RecordedState, busy
from waiting import PATIENCE, until

from hetopt.errors import HetoptError, UnusableFile
from hetopt.executor import schema
from hetopt.executor.commands import dashboard
from hetopt.executor.dashboard import reader as reading
from hetopt.executor.dashboard import server as serving
from hetopt.executor.dashboard.page import POLICY
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.dashboard.server import HEADERS, DashboardServer
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import DATABASE

# -- paths and methods


def test_the_three_paths_are_served(server: DashboardServer) -> None:
    status, headers, text = fetch(server)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert text.startswith("<!doctype html>")
    assert "early-bird" in text
    status, headers, part = fetch(server, "/fragment?x=1")
    assert status == 200
    assert part.startswith('<section id="head"')
    status, headers, body = fetch(server, "/api/snapshot.json")
    assert headers["Content-Type"] == "application/json"
    assert [job["name"] for job in json.loads(body)["jobs"]] == ["early-bird"]


def test_headers_restrict_browsers(server: DashboardServer) -> None:
    for path in ("/", "/fragment", "/api/snapshot.json", "/nothing"):
        _, headers, _ = fetch(server, path)
        assert {key: headers[key] for key in HEADERS} == HEADERS
    assert POLICY.startswith("default-src 'none'; ")
    assert HEADERS["Cache-Control"] == "no-store"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert "http:" not in POLICY
    assert "*" not in POLICY


def test_head_is_get_without_the_body(server: DashboardServer) -> None:
    _, headers, _ = fetch(server, "/nothing")
    status, short, text = fetch(server, "/nothing", "HEAD")
    assert (status, text) == (404, "")
    assert {**short, "Date": ""} == {**headers, "Date": ""}
    assert fetch(server, "/", "HEAD")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_requests_that_change_something_are_refused(server: DashboardServer, method: str) -> None:
    status, headers, _ = fetch(server, "/", method, b"x" * 5000 if method in ("POST", "PUT") else None)
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
def test_other_paths_are_not_found(server: DashboardServer, path: str) -> None:
    status, _, text = fetch(server, path)
    assert status == 404
    assert "passwd" not in text


def test_an_invalid_request_gets_a_plain_error(server: DashboardServer) -> None:
    for request in (
        b"<script>alert(1)</script>\r\n\r\n",
        b"GET / HTTP/9.9 x\r\n\r\n",
        b"GET //[ HTTP/1.0\r\nHost: ::\r\n\r\n",
    ):
        answer = raw(server, request)
        assert b"alert" not in answer
        assert b"Traceback" not in answer
    assert b" 404 " in raw(server, b"GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n").splitlines()[0]
    for endless in (b"GET /" + b"a" * 70000, b"GET / HTTP/1.0\r\n" + b"a: b\r\n" * 20000):
        assert closed_on(server, endless)
    assert fetch(server)[0] == 200


def test_large_answers_are_compressed_for_clients_that_accept_it(server: DashboardServer) -> None:
    _, headers, text = fetch(server, Accept_Encoding="gzip, deflate")
    assert headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in fetch(server)[1]
    assert "</html>" in text


# -- the state database is unavailable


def test_a_locked_database_is_an_error(recorded: RecordedState) -> None:
    recorded.database.close()
    with (
        served(recorded.database.folder, lock_seconds=0.2) as server,
        closing(sqlite3.connect(recorded.database.folder / DATABASE, isolation_level=None)) as other,
    ):
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        status, headers, text = fetch(server)
        assert status == 503
        assert headers["Retry-After"] == "5"
        assert "database is locked" in text
        assert 'http-equiv="refresh"' in text
        assert {key: headers[key] for key in HEADERS} == HEADERS
        assert fetch(server, "/fragment")[0] == 503
        status, headers, text = fetch(server, "/api/snapshot.json")
        assert (status, headers["Content-Type"]) == (503, "text/plain; charset=utf-8")
        other.execute("COMMIT")
        other.close()
        until(lambda: fetch(server)[0] == 200, "they are read again")


def test_a_damaged_or_removed_database_is_an_error(recorded: RecordedState, server: DashboardServer) -> None:
    path = recorded.database.folder / DATABASE
    recorded.database.close()
    before = path.read_bytes()
    for content, message in (
        (b"no database at all" * 1000, "is damaged"),
        (before[:100] + bytes(len(before) - 100), "state.db"),
        (b"", "no such table"),
    ):
        path.write_bytes(content)
        status, _, text = fetch(server)
        assert (status, message in text) == (503, True), text
        assert "Traceback" not in text
    path.unlink()
    assert "has no state of a cluster any more" in fetch(server)[2]
    assert not path.exists(), "reading makes nothing"
    path.write_bytes(before)
    assert fetch(server)[0] == 200


@pytest.mark.parametrize("content", ["{", '{"a": 1}', "[" * 100_000])
def test_damaged_facts_are_an_error(recorded: RecordedState, server: DashboardServer, content: str) -> None:
    recorded.facts(round_seconds=content, next_round="1.0", round="1")
    status, _, text = fetch(server)
    assert status == 503
    assert "its content cannot be shown" in text
    recorded.facts(round_seconds="300.0")
    assert fetch(server)[0] == 200


def test_a_database_of_another_version_is_an_error(recorded: RecordedState, server: DashboardServer) -> None:
    recorded.facts(version="999")
    assert f"is of version 999; this hetopt reads {schema.VERSION}" in fetch(server)[2]


def test_an_exception_in_the_page_shows_no_traceback_in_the_browser(
    server: DashboardServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: object) -> str:
        raise RuntimeError("deep inside")

    monkeypatch.setattr(serving, "PATHS", {"/": ("text/html", wrong)})
    status, _, text = fetch(server)
    assert status == 500
    assert "deep" not in text
    assert "deep inside" in capfd.readouterr().err
    monkeypatch.undo()
    assert fetch(server)[0] == 200


def test_reading_changes_nothing(recorded: RecordedState) -> None:
    with closing(Reader(recorded.database.folder)) as reader:
        reader.read()
        with pytest.raises(UnusableFile, match="readonly"), reader.database.writing() as connection:
            connection.change("DELETE FROM jobs")
    assert sorted(path.name for path in recorded.database.folder.iterdir()) == [
        "leases",
        "state.db",
        "state.db-shm",
        "state.db-wal",
    ]


def test_the_page_uses_the_clock_of_the_controller(recorded: RecordedState, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a reboot a controller sets it again, possibly after the reader was opened."""
    monkeypatch.setattr("hetopt.executor.dashboard.reader.MAX_AGE", 0.0)
    with closing(Reader(recorded.database.folder)) as reader:
        before = reader.read().snapshot.now
        text = json.loads(recorded.database.clock.text)
        recorded.facts(clock=json.dumps(text | {"base": text["base"] + 500.0}))
        assert 500.0 <= reader.read().snapshot.now - before < 520.0


# -- many at once


def test_simultaneous_requests_share_a_read(recorded: RecordedState, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    before = Reader._read
    monkeypatch.setattr(Reader, "_read", lambda reader: reads.append(1) or before(reader))
    with served(recorded.database.folder, max_age=60.0) as server:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(fetch(server)[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [200] * 20
    assert len(reads) == 1


def connect(server: DashboardServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def closed_on(server: DashboardServer, request: bytes) -> bool:
    """Whether the server closes a connection on which it gets this, without an answer."""
    with connect(server) as connection:
        try:
            connection.sendall(request)
            return connection.recv(1) == b""
        except ConnectionError:
            return True


STARTS = [b"G", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9999\r\nHost: l\r\n\r\nx"]


@pytest.mark.parametrize("number", [40, 200])
def test_slow_requests_do_not_delay_others(server: DashboardServer, number: int) -> None:
    """Each has sent another part of a request: all stay open while other requests are answered."""
    slow = [connect(server) for _ in range(number)]
    try:
        for i in range(len(STARTS[-1])):
            for k, one in enumerate(slow):
                one.sendall(STARTS[k % len(STARTS)][i : i + 1])
            if not i % 20:
                assert fetch(server)[0] == 200
        for one in slow:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
    finally:
        for one in slow:
            one.close()


@pytest.mark.parametrize("start", STARTS)
def test_slow_requests_are_closed_at_the_deadline(recorded: RecordedState, start: bytes) -> None:
    """However often they send another byte: the deadline is that of the whole request."""
    with served(recorded.database.folder, request_seconds=1.0) as server, connect(server) as slow:
        slow.sendall(start)
        slow.settimeout(0.05)

        def closed() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until(closed, "the connection is closed")


def test_an_answer_that_is_not_read_is_closed_at_the_deadline(
    recorded: RecordedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATHS", {"/": ("text/html", lambda _: "x" * 50_000_000)})
    with served(recorded.database.folder, request_seconds=0.5) as server, connect(server) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: server.pages == 1, "it is sent")
        until(lambda: server.pages == 0, "it is given up")


def test_beyond_the_limit_the_oldest_idle_connection_is_closed(
    server: DashboardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_IDLE", 5)
    slow = list[socket.socket]()
    try:
        for number in range(1, 6):
            slow.append(connect(server))
            until(lambda: len(server.idle) == number, "it is accepted")  # noqa: B023
        assert fetch(server)[0] == 200
        assert slow[0].recv(1) == b""
        slow[1].sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert slow[1].recv(1) == b"H"
    finally:
        for one in slow:
            one.close()


def test_a_slow_page_does_not_delay_other_requests(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, end = threading.Event(), threading.Event()

    def slow(_: object) -> str:
        begun.set()
        end.wait(PATIENCE)
        return "at last"

    monkeypatch.setattr(serving, "PATHS", {"/": ("text/html", slow)})
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(fetch(server)[2]))
    thread.start()
    assert begun.wait(PATIENCE)
    assert fetch(server, "/nothing")[0] == 404
    assert fetch(server, Host="elsewhere")[0] == 403
    monkeypatch.setattr(serving, "MAX_PAGES", 1)
    status, headers, text = fetch(server)
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "too many requests" in text
    assert not found
    end.set()
    thread.join()
    assert found == ["at last"]


def test_requests_that_wait_for_a_locked_database_share_its_error(
    recorded: RecordedState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is as young as the end of the read, however long that took."""
    monkeypatch.setattr("hetopt.executor.dashboard.reader.MAX_AGE", PATIENCE)
    with closing(Reader(recorded.database.folder)) as reader:
        reads, clock = list[float](), [0.0]

        def fails(_: Reader) -> None:
            reads.append(clock[0])
            clock[0] += 10 * PATIENCE
            raise UnusableFile("locked")

        monkeypatch.setattr(Reader, "_read", fails)
        monkeypatch.setattr(reading.time, "monotonic", lambda: clock[0])
        for _ in range(3):
            with pytest.raises(UnusableFile, match="locked"):
                reader.read()
        assert reads == [0.0]


# -- the command


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    recorded = busy(tmp_path / "state", jobs=6)
    program = (  # where the tests run in the background of a shell, SIGINT is ignored at first
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from hetopt.cli.main import main; main()"
    )
    words = [sys.executable, "-c", program, "dashboard", "--state", str(recorded.database.folder), "--port", "0"]
    environment = os.environ | {"HETOPT_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line, hint = process.stdout.readline(), process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/; Ctrl-C ends it", line)
        assert found, line
        with closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)) as connection:
            connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "hetopt: stopped\n")
    assert "?token=..." in hint
    assert TOKEN not in line + hint + out


def test_the_command_reports_errors_of_the_state(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="hetopt submit"):
        dashboard(state=tmp_path / "none")
    with StateDatabase(tmp_path / "s"):
        pass
    (tmp_path / "s" / DATABASE).write_bytes(b"rubbish" * 1000)
    with pytest.raises(HetoptError, match="damaged"):
        dashboard(state=tmp_path / "s")
