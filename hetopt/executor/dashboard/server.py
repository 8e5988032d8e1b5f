"""Serves the page over HTTP: read only, at three paths, to clients with access."""

from __future__ import annotations

import gzip
import json
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from hetopt.errors import HetoptError, InvalidOption
from hetopt.executor.dashboard.access import Access, address
from hetopt.executor.dashboard.page import POLICY, fragment, notice, page
from hetopt.executor.dashboard.reader import DashboardState, Reader

MAX_REQUESTS = 32
"""Requests that are answered at a time; more are refused."""

MAX_BODY = 65536
"""Bytes of a request's body that are read before it is refused."""

RETRY_SECONDS = 5
"""Seconds after which a browser tries again after an error."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-database",
}

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"

PATHS: Mapping[str, tuple[str, Callable[[DashboardState], str]]] = {
    "/": (HTML, page),
    "/fragment": (HTML, fragment),
    "/api/snapshot.json": (JSON, lambda state: json.dumps(state.snapshot.plain())),
}
"""Path -> type and text of the answer."""

MESSAGES = {
    400: "This is no request that can be read.",
    401: "This page requires a token: open it once with ?token=... behind its address, or send it as a bearer token.",
    403: "Without a token this page is shown on its own machine only: open it as localhost or 127.0.0.1.",
    404: "There is nothing here; the page is at /.",
    405: "This is for reading only: GET and HEAD.",
    500: "The page cannot be made; the terminal of `hetopt dashboard` shows why.",
}
"""Status -> message, which never repeats a part of the request."""


class DashboardServer(ThreadingHTTPServer):
    """The server of one cluster's page.

    Parameters
    ----------
    reader:
        Reads the state.
    host, port:
        Where to listen; port 0 takes one that is free.
    token:
        The token of requests; None: only on loopback.

    Raises
    ------
    InvalidOption
        It cannot listen there, or must not.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, reader: Reader, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        where = address(host, port, token)
        self.reader, self.address_family = reader, where.family
        self._room = threading.BoundedSemaphore(MAX_REQUESTS)
        try:
            super().__init__((where.host, where.port), Handler)
        except OSError as problem:
            raise InvalidOption(
                f"--port {port}: {problem.strerror} (on {where.host}); --port 0 takes one that is free"
            ) from None
        self.address = replace(where, port=int(self.server_address[1]))
        self.access = Access(token, self.address.port)

    def server_bind(self) -> None:
        """Bind without a look-up of this machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "hetopt", int(self.server_address[1])

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request, or hang up if there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error without the request; clients may hang up at any time."""
        problem = sys.exc_info()[1]
        if not isinstance(problem, (ConnectionError, TimeoutError)):
            print(f"hetopt: dashboard: {type(problem).__name__}", file=sys.stderr)

    def server_close(self) -> None:
        """Stop listening, and wait a little for answers under way."""
        super().server_close()
        free = 0
        while free < MAX_REQUESTS and self._room.acquire(timeout=2.0):
            free += 1
        if free:
            self._room.release(free)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: DashboardServer
    timeout = 10.0
    server_version, sys_version = "hetopt", ""

    def _answer(self) -> None:
        """Answer a request with any method; access is checked first."""
        try:
            target = urlsplit(self.path)
        except ValueError:
            return self._refuse(400)
        access = self.server.access
        status = access.status(self.headers, target.query)
        if status >= 400:
            return self._refuse(status)
        if self.command not in ("GET", "HEAD"):
            return self._refuse(405)
        if target.path not in PATHS:
            return self._refuse(404)
        if status == HTTPStatus.SEE_OTHER:  # takes the token out of the address
            location = target.path.rpartition("/")[2] or "./"
            return self._send(status, TEXT, "", {"Location": location, "Set-Cookie": access.cookie})
        kind, make = PATHS[target.path]
        try:
            text = make(self.server.reader.read())
        except HetoptError as problem:
            text = f"The state of the cluster cannot be read: {problem}."
            if target.path == "/":
                text = notice("the state cannot be read", text, again=RETRY_SECONDS)
            return self._send(503, HTML if target.path == "/" else TEXT, text, {"Retry-After": str(RETRY_SECONDS)})
        except Exception:  # the server continues after any error
            traceback.print_exc()
            return self._refuse(500)
        return self._send(200, kind, text)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _answer

    def _refuse(self, status: int) -> None:
        headers, link = {}, None
        if status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="hetopt"'
            link = {"target": "./", "text": "Continue with the cookie."}
        if status == 405:
            headers["Allow"] = "GET, HEAD"
            length = self.headers.get("Content-Length", "0")
            if length.isascii() and length.isdecimal():  # a client that still sends would miss the answer
                self.rfile.read(min(int(length), MAX_BODY))
        text = MESSAGES.get(status, "This request is not answered.")
        self._send(status, HTML, notice(HTTPStatus(status).phrase.lower(), text, link=link), headers)

    def _send(self, status: int, kind: str, text: str, more: Mapping[str, str] | None = None) -> None:
        body = text.encode("utf-8", "replace")
        headers = {"Content-Type": kind, **HEADERS, **(more or {})}
        if len(body) > 2000:
            headers["Vary"] = "Accept-Encoding"
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                body = gzip.compress(body, 1)
                headers["Content-Encoding"] = "gzip"
        self.send_response_only(status)
        headers |= {"Server": "hetopt", "Date": self.date_time_string(), "Content-Length": str(len(body))}
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that the library cannot read, without repeating it."""
        if not hasattr(self, "headers"):
            self.headers = self.MessageClass()
        self._refuse(405 if code == HTTPStatus.NOT_IMPLEMENTED else int(code))
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests may have the token."""
