"""Who may see the page, and where it may listen."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from dataclasses import dataclass
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from hetopt.errors import InvalidOption

LEAST_TOKEN = 8
"""Letters of a token at least."""

_TOKEN = re.compile(rf"[A-Za-z0-9._~-]{{{LEAST_TOKEN},200}}")


@dataclass(frozen=True)
class Address:
    """A place to listen at."""

    family: socket.AddressFamily
    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def shown(self) -> str:
        """As a browser on this machine may write it."""
        anywhere = ipaddress.ip_address(self.host.partition("%")[0]).is_unspecified
        host = socket.gethostname() if anywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"


def address(host: str, port: int, token: str | None) -> Address:
    """Where to listen.

    Raises
    ------
    InvalidOption
        The port is none, the host is unknown, or others reach it and there is no token.
    """
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


def check_token(token: str | None) -> str | None:
    """``token``, if it can stand in an address and a header.

    Raises
    ------
    InvalidOption
        It cannot, or is too short. The message does not have it.
    """
    if token is not None and not _TOKEN.fullmatch(token):
        raise InvalidOption(
            f"the token (--token, HETOPT_TOKEN) has {len(token)} characters; it must have {LEAST_TOKEN} to 200, of "
            "letters, digits, '-', '.', '_' and '~', such as `openssl rand -hex 16` prints"
        )
    return token


class Access:
    """Decides about a request by its head.

    Parameters
    ----------
    token:
        That a request must have; None: whoever reaches this machine's loopback may look.
    port:
        Names the cookie, since browsers keep those of all ports of a host together.
    """

    def __init__(self, token: str | None, port: int) -> None:
        self._token = token
        self.cookie = f"hetopt-{port}"
        key = b"" if token is None else token.encode()
        self._session = hmac.new(key, b"hetopt dashboard", hashlib.sha256).hexdigest()

    @property
    def open(self) -> bool:
        """Whether no token is asked for."""
        return self._token is None

    def local(self, host: str | None) -> bool:
        """Whether the header ``Host`` names this machine, so that no other site's name was made to lead here."""
        if host is None:
            return False
        name = host.strip()
        name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
        if name.lower() in ("localhost", "localhost."):
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def offered(self, query: str) -> bool | None:
        """Whether the token in a query is right; None where it has none."""
        try:
            given = parse_qs(query, keep_blank_values=True, max_num_fields=20).get("token")
        except ValueError:
            return False
        return None if given is None else self._same(given[0], self._token)

    def known(self, headers: Message) -> bool:
        """Whether the token is in the head of a request, or the cookie that stands for it."""
        scheme, _, word = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._same(word.strip(), self._token):
            return True
        try:
            found = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and self._same(found.value, self._session)

    @property
    def set_cookie(self) -> str:
        """The header that lets a browser come again; it has not the token, but what follows from it."""
        return f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"

    @staticmethod
    def _same(given: str, right: str | None) -> bool:
        """In a time that does not tell how much of it is right."""
        return right is not None and hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())
