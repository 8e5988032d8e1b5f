"""A dashboard server with or without a token, and requests to it; fixtures to import."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from dashboard_state import RecordedState
from waiting import PATIENCE

from hetopt.executor.dashboard import reader as reading
from hetopt.executor.dashboard import server as serving
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.dashboard.server import DashboardServer

TOKEN = "correct-horse.battery_staple~1"
Answer = tuple[int, dict[str, str], str]

_TASKS: dict[DashboardServer, asyncio.Task[None]] = {}
"""Those that serve."""


@contextmanager
def served(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    max_age: float = 0.0,
    lock_seconds: float = PATIENCE,
    request_seconds: float = PATIENCE,
) -> Iterator[DashboardServer]:
    """A server of this state, on a free port."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(reading, "MAX_AGE", max_age)
        patch.setattr(reading, "LOCK_SECONDS", lock_seconds)
        patch.setattr(serving, "REQUEST_SECONDS", request_seconds)
        reader = stack.enter_context(closing(Reader(folder)))
        server = stack.enter_context(closing(DashboardServer(reader, host, 0, token)))
        _TASKS[server] = task = asyncio.new_event_loop().create_task(server.serve())
        thread = threading.Thread(target=_run, args=(task,))
        thread.start()
        try:
            yield server
        finally:
            stop(server)
            thread.join()


def _run(task: asyncio.Task[None]) -> None:
    with closing(task.get_loop()) as loop, suppress(asyncio.CancelledError):
        loop.run_until_complete(task)


def stop(server: DashboardServer) -> None:
    """End its task, once."""
    task = _TASKS.pop(server, None)
    if task is not None:
        task.get_loop().call_soon_threadsafe(task.cancel)


def fetch(
    server: DashboardServer,
    path: str = "/",
    method: str = "GET",
    body: bytes | None = None,
    *,
    client: str = "127.0.0.1",
    **headers: str,
) -> Answer:
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(client, server.port, timeout=PATIENCE)
    with closing(connection):
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        if answer.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        return answer.status, dict(answer.headers), content.decode()


def raw(server: DashboardServer, request: bytes) -> bytes:
    """The answer to these bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


@pytest.fixture(name="recorded")
def recorded_state(tmp_path: Path) -> RecordedState:
    made = RecordedState(tmp_path / "state")
    made.node("n", {"K80": 2})
    made.lease(made.job("early-bird"), [("n", "K80", 0)], 9900.0)
    return made


@pytest.fixture(name="server")
def open_server(recorded: RecordedState) -> Iterator[DashboardServer]:
    with served(recorded.database.folder) as made:
        yield made


@pytest.fixture(name="closed")
def closed_server(recorded: RecordedState) -> Iterator[DashboardServer]:
    """With a token."""
    with served(recorded.database.folder, token=TOKEN) as made:
        yield made
