"""The dashboard over HTTP: what cannot be done with it, and what it says when the books are away."""

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
from dashboard_books import Books, busy
from dashboard_server import TOKEN, ask, open_server, raw, served, some_books  # noqa: F401 - fixtures
from waiting import PATIENCE, until

from hetopt.errors import HetoptError, UnusableFile
from hetopt.executor import schema
from hetopt.executor.commands import dashboard
from hetopt.executor.dashboard import server as serving
from hetopt.executor.dashboard.page import POLICY
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.dashboard.server import HEADERS, MAX_REQUESTS, DashboardServer
from hetopt.executor.state_database import StateDatabase
from hetopt.executor.state_folder import DATABASE

# -- places and methods


def test_three_places(server: DashboardServer) -> None:
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


def test_headers_keep_browsers_from_doing_more(server: DashboardServer) -> None:
    for path in ("/", "/fragment", "/api/snapshot.json", "/nothing"):
        _, headers, _ = ask(server, path)
        assert {key: headers[key] for key in HEADERS} == HEADERS
        assert headers["Server"] == "hetopt"
    assert POLICY.startswith("default-src 'none'; ")
    assert HEADERS["Cache-Control"] == "no-database"
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert "http:" not in POLICY
    assert "*" not in POLICY


def test_head_is_get_without_the_body(server: DashboardServer) -> None:
    _, headers, _ = ask(server, "/nothing")
    status, short, text = ask(server, "/nothing", "HEAD")
    assert (status, text) == (404, "")
    assert {**short, "Date": ""} == {**headers, "Date": ""}
    assert ask(server, "/", "HEAD")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_can_be_changed(server: DashboardServer, method: str) -> None:
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
def test_all_else_is_not_there(server: DashboardServer, path: str) -> None:
    status, _, text = ask(server, path)
    assert status == 404
    assert "passwd" not in text


def test_a_request_that_is_none_gets_a_plain_answer(server: DashboardServer) -> None:
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


def test_large_answers_are_packed_for_those_who_can(server: DashboardServer) -> None:
    _, headers, text = ask(server, Accept_Encoding="gzip, deflate")
    assert headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in ask(server)[1]
    assert "</html>" in text


# -- when the books are away


def test_books_that_others_do_not_let_go_of(books: Books) -> None:
    books.database.close()
    with (
        served(books.database.folder, lock_seconds=0.2) as server,
        closing(sqlite3.connect(books.database.folder / DATABASE, isolation_level=None)) as other,
    ):
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
        other.close()
        until(lambda: ask(server)[0] == 200, "they are read again")


def test_books_that_are_damaged_or_gone(books: Books, server: DashboardServer) -> None:
    path = books.database.folder / DATABASE
    books.database.close()
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
def test_books_with_rubbish_in_them(books: Books, server: DashboardServer, content: str) -> None:
    with books.database.writing() as connection:
        connection.update("nodes", {"content": content})
    status, _, text = ask(server)
    assert status == 200
    assert "cannot be read" in text
    with books.database.writing() as connection:
        connection.change("DELETE FROM nodes")
    assert ask(server)[0] == 200


def test_books_of_another_version(books: Books, server: DashboardServer) -> None:
    books.facts(version="999")
    assert f"is of version 999; this hetopt reads {schema.VERSION}" in ask(server)[2]


def test_a_slip_of_the_page_is_no_traceback_in_the_browser(
    server: DashboardServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong(_: object) -> str:
        raise RuntimeError("deep inside")

    monkeypatch.setattr(serving, "PATHS", {"/": ("text/html", wrong)})
    status, _, text = ask(server)
    assert status == 500
    assert "deep" not in text
    assert "deep inside" in capfd.readouterr().err
    monkeypatch.undo()
    assert ask(server)[0] == 200


def test_reading_changes_nothing(books: Books) -> None:
    with closing(Reader(books.database.folder)) as reader:
        reader.read()
        with pytest.raises(UnusableFile, match="readonly"), reader.database.writing() as connection:
            connection.change("DELETE FROM jobs")
    assert sorted(path.name for path in books.database.folder.iterdir()) == ["state.db", "state.db-shm", "state.db-wal"]


def test_the_clock_is_the_controllers(books: Books) -> None:
    """After a restart of the machine a controller sets it anew, maybe after the reader has begun."""
    with closing(Reader(books.database.folder, max_age=0.0)) as reader:
        before = reader.read().snapshot.now
        text = json.loads(books.database.clock.text)
        books.facts(clock=json.dumps(text | {"base": text["base"] + 500.0}))
        assert 500.0 <= reader.read().snapshot.now - before < 520.0


# -- many at once


def test_simultaneous_requests_share_a_read(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    before = Reader._read
    monkeypatch.setattr(Reader, "_read", lambda reader: reads.append(1) or before(reader))
    with served(books.database.folder, max_age=60.0) as server:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(ask(server)[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [200] * 20
    assert len(reads) == 1


def test_who_says_nothing_does_not_keep_others_waiting_for_ever(
    server: DashboardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("127.0.0.1", server.address.port)
    with monkeypatch.context() as patch:
        patch.setattr(serving.Handler, "timeout", 0.5)
        silent = [socket.create_connection(where, timeout=PATIENCE) for _ in range(MAX_REQUESTS)]
        found = [one.recv(1) for one in silent]
    try:
        assert found == [b""] * MAX_REQUESTS, "hung up on"
    finally:
        for one in silent:
            one.close()
    assert ask(server)[0] == 200


def test_one_too_many_is_turned_away(server: DashboardServer) -> None:
    where = ("127.0.0.1", server.address.port)
    silent = [socket.create_connection(where, timeout=PATIENCE) for _ in range(MAX_REQUESTS + 1)]
    try:
        assert silent[-1].recv(1) == b""
    finally:
        for one in silent:
            one.close()


def test_a_read_that_takes_too_long_is_reported(books: Books) -> None:
    with closing(Reader(books.database.folder, lock_seconds=0.1)) as reader:
        reader._lock.acquire()
        with pytest.raises(UnusableFile, match="is not read in time"):
            reader.read()
        reader._lock.release()


# -- the command


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    books = busy(tmp_path / "state", jobs=6)
    program = (  # where the tests run in the background of a shell, SIGINT is ignored at first
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from hetopt.cli.main import main; main()"
    )
    words = [sys.executable, "-c", program, "dashboard", "--state", str(books.database.folder), "--port", "0"]
    environment = os.environ | {"HETOPT_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said, hint = process.stdout.readline(), process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/; Ctrl-C ends it", said)
        assert found, said
        with closing(http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE)) as connection:
            connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "hetopt: stopped\n")
    assert "?token=..." in hint
    assert TOKEN not in said + hint + out


def test_the_command_says_what_is_wrong_with_the_state(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="hetopt submit"):
        dashboard(state=tmp_path / "none")
    with StateDatabase(tmp_path / "s"):
        pass
    (tmp_path / "s" / DATABASE).write_bytes(b"rubbish" * 1000)
    with pytest.raises(HetoptError, match="damaged"):
        dashboard(state=tmp_path / "s")
