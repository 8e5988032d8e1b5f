"""Who may read the dashboard."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from dashboard_server import TOKEN, closed_server, fetch, open_server, raw, recorded_state, served  # noqa: F401 - fixtures
from dashboard_state import RecordedState

from hetopt.errors import InvalidOption
from hetopt.executor.commands import dashboard
from hetopt.executor.dashboard.reader import Reader
from hetopt.executor.dashboard.server import DashboardServer


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "127.1.2.3:8422", "[::1]:8422", "[::1]"])
def test_requests_from_this_machine_are_answered(server: DashboardServer, host: str) -> None:
    assert fetch(server, Host=host)[0] == 200


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
def test_host_names_of_others_that_resolve_here_are_refused(server: DashboardServer, host: str) -> None:
    """Otherwise any page in the same browser could read this one (DNS rebinding)."""
    status, _, text = fetch(server, Host=host)
    assert status == 403
    assert "early-bird" not in text
    assert "evil" not in text
    assert b" 403 " in raw(server, b"GET / HTTP/1.0\r\n\r\n").splitlines()[0]


def test_a_server_with_a_token_refuses_requests_without_it(closed: DashboardServer) -> None:
    for path in ("/", "/fragment", "/api/snapshot.json", "/nothing"):
        for method in ("GET", "HEAD", "POST"):
            status, headers, text = fetch(closed, path, method)
            assert status == 401
            assert headers["Www-Authenticate"] == 'Bearer realm="hetopt"'
            assert "early-bird" not in text
    for wrong in ("Bearer", "Bearer ", "Bearer x", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"):
        assert fetch(closed, Authorization=wrong)[0] == 401
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        assert fetch(closed, Authorization=right, Host="lab.example")[0] == 200


def test_a_token_in_the_url_becomes_a_cookie(closed: DashboardServer) -> None:
    status, headers, text = fetch(closed, f"/?token={TOKEN}")
    assert (status, text, headers["Location"]) == (303, "", "./")
    assert fetch(closed, f"/api/snapshot.json?token={TOKEN}")[1]["Location"] == "snapshot.json"
    cookie, *flags = headers["Set-Cookie"].split("; ")
    assert set(flags) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    name, _, value = cookie.partition("=")
    assert name == f"hetopt-{closed.port}"
    assert TOKEN not in value
    assert fetch(closed, Cookie=cookie)[0] == 200
    assert fetch(closed, Cookie=f"a=b; {cookie}; c=d")[0] == 200
    for wrong in (f"{name}={TOKEN}", f"{name}=", f"{name}x={value}", f"{name}={value[:-1]}0", ";;=", f'{name}="\\'):
        assert fetch(closed, Cookie=wrong)[0] == 401
    for wrong in ("", "x", f"{TOKEN}x", TOKEN[:-1], "%00", "%F0", "a&token=b"):
        assert fetch(closed, f"/?token={wrong}", Cookie=cookie)[0] == 401
    assert fetch(closed, "/?" + "&".join(f"a{i}=1" for i in range(50)))[0] == 401


def test_the_cookie_depends_on_the_token(recorded: RecordedState) -> None:
    with closing(Reader(recorded.database.folder)) as reader:
        servers = [DashboardServer(reader, token=token) for token in ("a" * 9, "b" * 9, "a" * 9)]
        for server in servers:
            server.close()
    one, other, again = (server.session for server in servers)
    assert one == again != other


def test_the_token_is_in_no_answer_or_message(closed: DashboardServer, capfd: pytest.CaptureFixture[str]) -> None:
    answers = "".join(
        str(answer)
        for answer in (
            fetch(closed, f"/nothing?token={TOKEN}"),
            fetch(closed, f"/?token={TOKEN}", "POST", b""),
            fetch(closed, f"/?token={TOKEN}", "BREW"),
            fetch(closed, f"/?token={TOKEN}x"),
            raw(closed, f"GET /?token={TOKEN} HTTP/9 9\r\n\r\n".encode()),
            raw(closed, f"{TOKEN}\r\n\r\n".encode()),
            fetch(closed, Authorization=f"Bearer {TOKEN}"),
        )
    )
    out, err = capfd.readouterr()
    assert TOKEN not in answers + out + err
    with pytest.raises(InvalidOption) as wrong:
        DashboardServer(closed.reader, token="sec ret")
    assert "sec ret" not in str(wrong.value)
    assert "it must have 8 to 200" in str(wrong.value)


@pytest.mark.parametrize("token", ["", "short", "with space", "pässword1", "a" * 201, "a/b/c/d/e"])
def test_invalid_tokens_are_refused(recorded: RecordedState, token: str) -> None:
    with pytest.raises(InvalidOption, match="letters, digits"):
        dashboard(state=recorded.database.folder, port=0, token=token)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3"])
def test_other_hosts_need_a_token(recorded: RecordedState, host: str) -> None:
    with pytest.raises(InvalidOption, match=r"HETOPT_TOKEN \(or --token\).*ssh -L"):
        dashboard(state=recorded.database.folder, host=host, port=0)


def test_addresses_to_listen_on(recorded: RecordedState) -> None:
    with closing(Reader(recorded.database.folder)) as reader:
        local, everywhere = DashboardServer(reader, "localhost"), DashboardServer(reader, "0.0.0.0", token=TOKEN)
        for server in (local, everywhere):
            server.close()
        assert (local.loopback, everywhere.loopback) == (True, False)
        assert local.url == f"http://127.0.0.1:{local.port}/"
        assert everywhere.url == f"http://{socket.gethostname()}:{everywhere.port}/"
    with pytest.raises(InvalidOption, match=r"--port is 65536; it must be from 0"):
        dashboard(state=recorded.database.folder, port=65536)
    with pytest.raises(InvalidOption, match=r"--host is 'no\.such\.host\.invalid', which is no address"):
        dashboard(state=recorded.database.folder, host="no.such.host.invalid")
    with pytest.raises(InvalidOption, match=r"--port 0: .*198\.51\.100\.7"):
        dashboard(state=recorded.database.folder, host="198.51.100.7", port=0, token=TOKEN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidOption, match=rf"--port {port}: Address already in use \(on 127\.0\.0\.1\); --port 0"
        ):
            dashboard(state=recorded.database.folder, port=port)


@pytest.mark.skipif(not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "clients"), [("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])])
def test_the_page_is_served_over_ipv6(recorded: RecordedState, host: str, clients: list[str]) -> None:
    """Listening on all addresses includes IPv4."""
    with served(recorded.database.folder, host=host, token=TOKEN) as server:
        for client in clients:
            assert fetch(server, client=client, Authorization=f"Bearer {TOKEN}")[0] == 200
            assert fetch(server, client=client)[0] == 401
        assert (server.url == f"http://[::1]:{server.port}/") == (host == "::1")
