"""Shows the page over HTTP: to read, at three places, and to nobody who may not."""

from __future__ import annotations

import gzip
import json
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from hetopt.errors import HetoptError, InvalidOption
from hetopt.executor.dashboard.access import Access, address, check_token
from hetopt.executor.dashboard.page import POLICY, fragment, notice, page
from hetopt.executor.dashboard.reader import Look, Reader

MOST_AT_ONCE = 32
"""Requests that are answered at a time; more are turned away."""

MOST_BODY = 65536
"""Bytes of a request's body that are read before it is refused."""

AGAIN = 5
"""Seconds after which a browser that was told of a problem comes again."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"

PLACES: Mapping[str, tuple[str, Callable[[Look], str]]] = {
    "/": (HTML, page),
    "/fragment": (HTML, fragment),
    "/api/snapshot.json": (JSON, lambda look: json.dumps(look.now.plain())),
}
"""Path -> what kind of answer, and the answer."""

WORDS = {
    400: "This is no request that can be read.",
    401: "This page asks for a token: open it once with ?token=... behind its address, or send it as a bearer token.",
    403: "Without a token this page is shown on its own machine only: open it as localhost or 127.0.0.1.",
    404: "There is nothing here; the page is at /.",
    405: "This is for reading only: GET and HEAD.",
    500: "The page cannot be made; the terminal of `hetopt dashboard` says more.",
}
"""What is said; never anything that came with the request."""


class DashboardServer(ThreadingHTTPServer):
    """The server of one cluster's page.

    Parameters
    ----------
    reader:
        Looks at the books.
    host, port:
        Where to listen; port 0 takes one that is free.
    token:
        That every request must have; None: only on loopback.

    Raises
    ------
    InvalidOption
        It cannot listen there, or must not.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, reader: Reader, host: str = "127.0.0.1", port: int = 8422, token: str | None = None) -> None:
        where = address(host, port, check_token(token))
        self.reader, self.address_family = reader, where.family
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        try:
            super().__init__((where.host, where.port), Handler)
        except OSError as problem:
            raise InvalidOption(
                f"--port {port}: {problem.strerror} (on {where.host}); --port 0 takes one that is free"
            ) from None
        self.where = type(where)(where.family, where.host, int(self.server_address[1]))
        self.access = Access(token, self.where.port)

    @property
    def url(self) -> str:
        """Where the page is."""
        return self.where.shown

    def server_bind(self) -> None:
        """Without asking anybody for this machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "hetopt", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is room."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One request, then the room is free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up before the answer is no news; anything else is, without what was asked."""
        problem = sys.exc_info()[1]
        if not isinstance(problem, (ConnectionError, TimeoutError)):
            print(f"hetopt: dashboard: {type(problem).__name__}", file=sys.stderr)

    def server_close(self) -> None:
        """Stop listening, and wait a little for answers that are under way."""
        super().server_close()
        held = 0
        while held < MOST_AT_ONCE and self._room.acquire(timeout=2.0):
            held += 1
        for _ in range(held):
            self._room.release()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: DashboardServer
    timeout = 10.0
    server_version, sys_version = "hetopt", ""

    def _any(self) -> None:
        """Whatever the method: first whether it may, then what."""
        try:
            target = urlsplit(self.path)
        except ValueError:
            return self._refuse(400)
        access, offered = self.server.access, None
        if access.open:
            if not access.local(self.headers.get("Host")):
                return self._refuse(403)
        else:
            offered = access.offered(target.query)
            if not (access.known(self.headers) if offered is None else offered):
                return self._refuse(401)
        if self.command not in ("GET", "HEAD"):
            return self._refuse(405)
        if target.path not in PLACES:
            return self._refuse(404)
        if offered:  # the address with the token is not to stay in sight
            plain = target.path.rpartition("/")[2] or "./"
            return self._send(303, TEXT, "", {"Location": plain, "Set-Cookie": access.set_cookie})
        return self._show(target.path)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _any

    def _show(self, path: str) -> None:
        """The answer, or why there is none now."""
        kind, make = PLACES[path]
        try:
            text = make(self.server.reader.look())
        except HetoptError as problem:
            said = f"The state of the cluster cannot be read: {problem}."
            body = said if path != "/" else notice("the state cannot be read", said, again=AGAIN)
            return self._send(503, HTML if path == "/" else TEXT, body, {"Retry-After": str(AGAIN)})
        except Exception:  # whatever it is, the server goes on; nothing of the request is in it
            traceback.print_exc()
            return self._refuse(500)
        return self._send(200, kind, text)

    def _refuse(self, status: int) -> None:
        said = WORDS.get(status, "This request is not answered.")
        more = {"WWW-Authenticate": 'Bearer realm="hetopt"'} if status == 401 else {}
        if status == 405:
            more["Allow"] = "GET, HEAD"
            self._read_body()
        link = {"target": "./", "text": "Continue with the cookie."} if status == 401 else None
        self._send(status, HTML, notice(HTTPStatus(status).phrase.lower(), said, link=link), more)

    def _read_body(self) -> None:
        """So that the client hears the answer before the connection ends."""
        length = self.headers.get("Content-Length", "0")
        if length.isascii() and length.isdecimal():
            self.rfile.read(min(int(length), MOST_BODY))

    def _send(self, status: int, kind: str, text: str, more: Mapping[str, str] | None = None) -> None:
        body = text.encode("utf-8", "replace")
        headers = {"Content-Type": kind, **HEADERS, **(more or {})}
        if len(body) > 2000:
            headers["Vary"] = "Accept-Encoding"
            if "gzip" in self.headers.get("Accept-Encoding", ""):
                body = gzip.compress(body, 1)
                headers["Content-Encoding"] = "gzip"
        self.send_response_only(status)
        self.send_header("Server", "hetopt")
        self.send_header("Date", self.date_time_string())
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, without repeating what was asked."""
        if not hasattr(self, "headers"):
            self.headers = self.MessageClass()
        status = 405 if code == HTTPStatus.NOT_IMPLEMENTED else int(code)
        self._refuse(status)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked for may hold the token."""
