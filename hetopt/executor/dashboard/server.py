"""Serves the page over HTTP: read only, at three paths, to clients with access."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
import socket
import traceback
from asyncio import Future
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from hetopt.errors import HetoptError, InvalidOption
from hetopt.executor.dashboard.page import POLICY, fragment, notice, page
from hetopt.executor.dashboard.reader import DashboardState, Reader

REQUEST_SECONDS = 10.0
"""Seconds until the headers of a request must have arrived, and then its body; it must be answered in 6 times that."""

MAX_IDLE = 400
"""Connections whose requests have not arrived; of more, the oldest is closed."""

MAX_PAGES, THREADS = 32, 4
"""Pages that are made and sent at a time, beyond which requests are refused, and threads that make them."""

MAX_HEADER_BYTES, MAX_BODY_BYTES = 16384, 65536

RETRY_SECONDS = 5
"""Seconds after which a browser tries again after an error."""

HEADERS = {
    "Server": "hetopt",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"

PATHS: Mapping[str, tuple[str, Callable[[DashboardState], str]]] = {
    "/": (HTML, page),
    "/fragment": (HTML, fragment),
    "/api/snapshot.json": (JSON, lambda state: json.dumps(state.snapshot.plain())),
}
"""Path -> type and text of the answer."""

MESSAGES = {
    401: "This page requires a token: open it once with ?token=... behind its address, or send it as a bearer token.",
    403: "Without a token this page is shown on its own machine only: open it as localhost or 127.0.0.1.",
    404: "There is nothing here; the page is at /.",
    405: "This is for reading only: GET and HEAD.",
    500: "The page cannot be made; the terminal of `hetopt dashboard` shows why.",
}
"""Status -> message, which never repeats a part of the request."""

# -- access

TOKEN = re.compile(r"[A-Za-z0-9._~-]{8,200}")

LOCAL = re.compile(r"(localhost\.?|127(\.\d{1,3}){3}|\[::1\])(:\d*)?", re.IGNORECASE)
"""Header ``Host`` of this machine; with another name, a page of another site could read this one (DNS rebinding)."""


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    family: socket.AddressFamily
    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        everywhere = ipaddress.ip_address(self.host.partition("%")[0]).is_unspecified
        host = socket.gethostname() if everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"


def address(host: str, port: int, token: str | None) -> Address:
    """Where to listen.

    Raises
    ------
    InvalidOption
        The port or the host is invalid, the token has other letters or a wrong length (the message does not have it),
        or others reach the address and there is no token.
    """
    if token is not None and not TOKEN.fullmatch(token):
        raise InvalidOption(
            f"the token (--token, HETOPT_TOKEN) has {len(token)} characters; it must have 8 to 200, of letters, "
            "digits, '-', '.', '_' and '~', such as `openssl rand -hex 16` prints"
        )
    if not 0 <= port < 65536:
        raise InvalidOption(f"is {port}; it must be from 0 (any that is free) to 65535", "--port")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidOption(f"is {host!r}, which is no address of this machine; 127.0.0.1 is", "--host") from None
    family, _, _, _, where = found[0]
    chosen = Address(socket.AddressFamily(family), str(where[0]), port)
    if token is None and not chosen.loopback:
        raise InvalidOption(
            f"is {host!r}, which others reach, and there is no token; set HETOPT_TOKEN (or --token), for "
            "instance to what `openssl rand -hex 16` prints, or leave --host out and come by `ssh -L`",
            "--host",
        )
    return chosen


class Access:
    """Decides whether a request is answered.

    Parameters
    ----------
    token:
        The token of requests; None: all requests to this machine by one of its loopback names are answered.
    port:
        Names the cookie, as browsers share those of all ports of a host.
    """

    def __init__(self, token: str | None, port: int) -> None:
        self._token, self._name = token, f"hetopt-{port}"
        self._session = hmac.new((token or "").encode(), b"hetopt dashboard", hashlib.sha256).hexdigest()

    @property
    def cookie(self) -> str:
        """The header that sets a cookie in place of the token, from which it is derived."""
        return f"{self._name}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    def status(self, headers: Mapping[str, str], query: str) -> HTTPStatus:
        """``OK``, ``SEE_OTHER`` if the query has the token, ``UNAUTHORIZED``, or ``FORBIDDEN`` (without a token)."""
        if self._token is None:
            local = LOCAL.fullmatch(headers.get("Host", "").strip())
            return HTTPStatus.OK if local else HTTPStatus.FORBIDDEN
        try:
            given = parse_qs(query, keep_blank_values=True, max_num_fields=20).get("token")
        except ValueError:
            return HTTPStatus.UNAUTHORIZED
        if given is not None:
            return HTTPStatus.SEE_OTHER if _same(given[0], self._token) else HTTPStatus.UNAUTHORIZED
        scheme, _, word = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(word.strip(), self._token):
            return HTTPStatus.OK
        with suppress(CookieError):
            cookie = SimpleCookie(headers.get("Cookie", "")).get(self._name)
            if cookie is not None and _same(cookie.value, self._session):
                return HTTPStatus.OK
        return HTTPStatus.UNAUTHORIZED


def _same(given: str, right: str) -> bool:
    """Compare in a time that does not depend on how much is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


# -- the server


class DashboardServer:
    """The server of one cluster's page.

    Parameters
    ----------
    reader:
        Reads the state.
    host, port:
        Where to listen; port 0 takes one that is free.
    token:
        The token of requests; None: only on loopback.
    request_seconds:
        See :data:`REQUEST_SECONDS`.

    Raises
    ------
    InvalidOption
        It cannot listen there, or must not.
    """

    def __init__(
        self,
        reader: Reader,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        where = address(host, port, token)
        both = where.family == socket.AF_INET6
        try:
            self._socket = socket.create_server((where.host, port), family=where.family, dualstack_ipv6=both)
        except OSError as problem:
            raise InvalidOption(
                f"--port {port}: {os.strerror(problem.errno or 0)} (on {where.host}); --port 0 takes one that is free"
            ) from None
        self._socket.setblocking(False)
        self.reader, self.request_seconds = reader, request_seconds
        self.address = replace(where, port=int(self._socket.getsockname()[1]))
        self.access = Access(token, self.address.port)
        self.idle: dict[IOStream, None] = {}  # the oldest connection first
        self.pages, self._pool = 0, ThreadPoolExecutor(THREADS)
        self._runner, self._stop = asyncio.Runner(), asyncio.Event()

    def serve_forever(self) -> None:
        """Serve until :meth:`shutdown`, or Ctrl-C, which is raised as KeyboardInterrupt."""
        with self._runner as runner:
            runner.run(self._serve())

    def shutdown(self) -> None:
        """Let :meth:`serve_forever` return; from any thread."""
        with suppress(RuntimeError):  # it has returned
            self._runner.get_loop().call_soon_threadsafe(self._stop.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._pool.shutdown(cancel_futures=True)

    async def _serve(self) -> None:
        logging.getLogger("tornado").addHandler(logging.NullHandler())  # its lines may have the token
        logging.getLogger("tornado").propagate = False
        handlers = [(".*", PageHandler, {"server": self})]
        pages = Application(handlers, compress_response=True, log_function=lambda _: None)
        http = _Server(
            pages,
            no_keep_alive=True,
            idle_connection_timeout=self.request_seconds,
            body_timeout=self.request_seconds,
            max_header_size=MAX_HEADER_BYTES,
            max_body_size=MAX_BODY_BYTES,
        )
        http.dashboard = self
        http.add_socket(self._socket)
        try:
            await self._stop.wait()
        finally:
            http.stop()
            await http.close_all_connections()
            self._pool.shutdown(cancel_futures=True)

    async def answer(self, path: str) -> tuple[HTTPStatus, str, str]:
        """Status, type and text for a path of :data:`PATHS`, made in a thread, as it may take long."""
        problem = "too many requests at a time"
        if self.pages <= MAX_PAGES:
            kind, make = PATHS[path]
            try:
                text = await asyncio.get_running_loop().run_in_executor(self._pool, lambda: make(self.reader.read()))
            except HetoptError as error:
                problem = str(error)
            else:
                return HTTPStatus.OK, kind, text
        kind, text = TEXT, f"The state of the cluster cannot be read: {problem}."
        if path == "/":
            kind, text = HTML, notice("the state cannot be read", text, again=RETRY_SECONDS)
        return HTTPStatus.SERVICE_UNAVAILABLE, kind, text


class _Server(HTTPServer):
    """Closes connections after a time, and the oldest idle one where there are too many: each has one request."""

    dashboard: DashboardServer

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        idle = self.dashboard.idle
        if len(idle) >= MAX_IDLE:
            oldest = next(iter(idle))
            del idle[oldest]
            oldest.close()
        idle[stream] = None
        asyncio.get_running_loop().call_later(6 * self.dashboard.request_seconds, stream.close)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        self.dashboard.idle.pop(server_conn.stream, None)
        super().on_close(server_conn)


class PageHandler(RequestHandler):
    """One request."""

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, server: DashboardServer) -> None:
        """Set the server."""
        self._server = server

    def set_default_headers(self) -> None:
        """Headers of all answers."""
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def compute_etag(self) -> None:
        """None: nothing is cached."""

    async def get(self) -> None:
        """Answer if the client has access, which is checked first."""
        request = self.request
        self._server.idle.pop(request.connection.stream, None)  # type: ignore[union-attr]
        access = self._server.access
        status = access.status(request.headers, request.query)
        if status >= 400:
            raise HTTPError(status)
        if request.path not in PATHS:
            raise HTTPError(404)
        if status == HTTPStatus.SEE_OTHER:  # takes the token out of the address
            self.set_header("Location", request.path.rpartition("/")[2] or "./")
            self.set_header("Set-Cookie", access.cookie)
            await self._send(status, TEXT, "")
            return
        self._server.pages += 1
        try:
            await self._send(*await self._server.answer(request.path))  # until the client has it
        finally:
            self._server.pages -= 1

    head = get

    def _send(self, status: HTTPStatus, kind: str, text: str) -> Future[None]:
        self.set_status(status)
        self.set_header("Content-Type", kind)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.set_header("Retry-After", str(RETRY_SECONDS))
        return self.finish(text.encode("utf-8", "replace"))

    def write_error(self, status_code: int, **_: Any) -> None:
        """Refuse; whether there is no access comes before all else."""
        access = self._server.access.status(self.request.headers, self.request.query)
        status, link = HTTPStatus(access if access >= 400 else status_code), None
        if status == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="hetopt"')
            link = {"target": "./", "text": "Continue with the cookie."}
        if status == 405:
            self.set_header("Allow", "GET, HEAD")
        text = MESSAGES.get(status, "This request is not answered.")
        self._send(status, HTML, notice(status.phrase.lower(), text, link=link))

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Print the traceback of a slip without the request, which may have the token."""
        if not isinstance(value, HTTPError | StreamClosedError):
            traceback.print_exception(typ, value, tb)
