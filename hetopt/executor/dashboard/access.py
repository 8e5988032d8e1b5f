"""Who may read the page, and where the server may listen."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from hetopt.errors import InvalidOption

MIN_LETTERS = 8
"""Least number of letters of a token."""

TOKEN = re.compile(rf"[A-Za-z0-9._~-]{{{MIN_LETTERS},200}}")

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
            f"the token (--token, HETOPT_TOKEN) has {len(token)} characters; it must have {MIN_LETTERS} to 200, of "
            "letters, digits, '-', '.', '_' and '~', such as `openssl rand -hex 16` prints"
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
        The token of requests; None: all that come to this machine by a name of it are answered.
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

    def status(self, headers: Message, query: str) -> HTTPStatus:
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
