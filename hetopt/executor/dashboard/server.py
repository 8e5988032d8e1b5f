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
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address
from types import TracebackType
from typing import Any

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

MAX_PAGES = 32
"""Pages that are made and sent at a time; further requests are refused."""

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

TOKEN = re.compile(r"[A-Za-z0-9._~-]{8,200}")

LOCAL = re.compile(r"(localhost\.?|127(\.\d{1,3}){3}|\[::1\])(:\d*)?", re.IGNORECASE)
"""Header ``Host`` of this machine; with another name, a page of another site could read this one (DNS rebinding)."""


class DashboardServer:
    """The server of one cluster's page.

    Parameters
    ----------
    reader:
        Reads the state.
    host, port:
        Where to listen; port 0 takes one that is free.
    token:
        The token of requests; None: requests to this machine by one of its loopback names are answered.

    Attributes
    ----------
    port, url:
        The port, and the address for a browser on this machine.
    loopback:
        Whether only this machine reaches it.

    Raises
    ------
    InvalidOption
        The port or the host is invalid or in use, the token has other letters or a wrong length (the message does not
        have it), or others reach the address and there is no token.
    """

    def __init__(self, reader: Reader, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self.reader, self.token = reader, token
        self._socket, where = _listen(host, port, token)
        self.port = int(self._socket.getsockname()[1])
        self.loopback = where.is_loopback
        shown = socket.gethostname() if where.is_unspecified else f"[{where}]" if where.version == 6 else where
        self.url = f"http://{shown}:{self.port}/"
        self.cookie = f"hetopt-{self.port}"  # browsers share cookies of all ports of a host
        self.session = hmac.new((token or "").encode(), b"hetopt dashboard", hashlib.sha256).hexdigest()
        self.idle: dict[IOStream, None] = {}  # the oldest connection first
        self.pages = 0  # that are made and sent now
        self._pool = ThreadPoolExecutor(1)  # the settings of Matplotlib belong to the whole process

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    async def serve(self) -> None:
        """Serve until it is cancelled."""
        logging.getLogger("tornado").addHandler(logging.NullHandler())  # its lines may have the token
        logging.getLogger("tornado").propagate = False
        http = _Server(
            Application([(".*", _Request, {"server": self})], compress_response=True, log_function=lambda _: None),
            no_keep_alive=True,
            idle_connection_timeout=REQUEST_SECONDS,
            body_timeout=REQUEST_SECONDS,
            max_header_size=MAX_HEADER_BYTES,
            max_body_size=MAX_BODY_BYTES,
        )
        http.dashboard = self
        http.add_socket(self._socket)
        try:
            await asyncio.Event().wait()
        finally:
            http.stop()
            await http.close_all_connections()
            self._pool.shutdown(cancel_futures=True)

    async def made(self, make: Callable[[DashboardState], str]) -> str:
        """A text of the state, made in a thread, as it may take long."""
        if self.pages > MAX_PAGES:
            raise HetoptError("too many requests at a time")
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: make(self.reader.read()))


def _listen(host: str, port: int, token: str | None) -> tuple[socket.socket, IPv4Address | IPv6Address]:
    """A socket that listens, and its address."""
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
    family, name = found[0][0], str(found[0][4][0])
    where = ipaddress.ip_address(name)
    if token is None and not where.is_loopback:
        raise InvalidOption(
            f"is {host!r}, which others reach, and there is no token; set HETOPT_TOKEN (or --token), for "
            "instance to what `openssl rand -hex 16` prints, or leave --host out and come by `ssh -L`",
            "--host",
        )
    try:
        listening = socket.create_server((name, port), family=family, dualstack_ipv6=family == socket.AF_INET6)
    except OSError as problem:
        raise InvalidOption(
            f"--port {port}: {os.strerror(problem.errno or 0)} (on {name}); --port 0 takes one that is free"
        ) from None
    listening.setblocking(False)
    return listening, where


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
        asyncio.get_running_loop().call_later(6 * REQUEST_SECONDS, stream.close)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        self.dashboard.idle.pop(server_conn.stream, None)
        super().on_close(server_conn)


class _Request(RequestHandler):
    """One request: access is checked before all else."""

    SUPPORTED_METHODS = ("GET", "HEAD")

    def initialize(self, server: DashboardServer) -> None:
        self._server = server

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def compute_etag(self) -> None:
        """None: nothing is cached."""

    def _access(self) -> HTTPStatus:
        """``OK``, ``SEE_OTHER`` if the query has the token, ``UNAUTHORIZED``, or ``FORBIDDEN`` (without a token)."""
        server, headers = self._server, self.request.headers
        if server.token is None:
            local = LOCAL.fullmatch(headers.get("Host", "").strip())
            return HTTPStatus.OK if local else HTTPStatus.FORBIDDEN
        if given := self.request.query_arguments.get("token"):
            same = hmac.compare_digest(given[0], server.token.encode())
            return HTTPStatus.SEE_OTHER if same else HTTPStatus.UNAUTHORIZED
        scheme, _, word = headers.get("Authorization", "").partition(" ")
        bearer = word.strip() if scheme.lower() == "bearer" else ""
        pairs = (bearer, server.token), (self.get_cookie(server.cookie, ""), server.session)
        same = any(hmac.compare_digest(one.encode(), right.encode()) for one, right in pairs)
        return HTTPStatus.OK if same else HTTPStatus.UNAUTHORIZED

    async def get(self) -> None:
        server, path = self._server, self.request.path
        server.idle.pop(self.request.connection.stream, None)  # type: ignore[union-attr]
        status = self._access()
        if status >= 400:
            raise HTTPError(status)
        if path not in PATHS:
            raise HTTPError(404)
        if status == HTTPStatus.SEE_OTHER:  # takes the token out of the address
            cookie = f"{server.cookie}={server.session}; Path=/; HttpOnly; SameSite=Strict"  # stands for the token
            await self._send(status, TEXT, "", Location=path.rpartition("/")[2] or "./", Set_Cookie=cookie)
            return
        kind, make = PATHS[path]
        server.pages += 1
        try:
            await self._send(status, kind, await server.made(make))
        except HetoptError as problem:
            kind, text = TEXT, f"The state of the cluster cannot be read: {problem}."
            if path == "/":
                kind, text = HTML, notice("the state cannot be read", text, again=RETRY_SECONDS)
            await self._send(HTTPStatus.SERVICE_UNAVAILABLE, kind, text, Retry_After=str(RETRY_SECONDS))
        finally:
            server.pages -= 1

    head = get

    def _send(self, status: HTTPStatus, kind: str, text: str, **headers: str) -> Future[None]:
        """Send an answer; the result is there once the client has it."""
        self.set_status(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.set_header(name.replace("_", "-"), value)
        return self.finish(text.encode("utf-8", "replace"))

    def write_error(self, status_code: int, **_: Any) -> None:
        access = self._access()
        status, link, headers = HTTPStatus(access if access >= 400 else status_code), None, {}
        if status == 401:
            headers["WWW_Authenticate"] = 'Bearer realm="hetopt"'
            link = {"target": "./", "text": "Continue with the cookie."}
        if status == 405:
            headers["Allow"] = "GET, HEAD"
        text = MESSAGES.get(status, "This request is not answered.")
        self._send(status, HTML, notice(status.phrase.lower(), text, link=link), **headers)

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Print a traceback without the request, which may have the token."""
        if not isinstance(value, HTTPError | StreamClosedError):
            traceback.print_exception(typ, value, tb)
