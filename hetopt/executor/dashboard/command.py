"""The command that shows a cluster in a browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

from typer import Option

from hetopt.executor.commands import StateFolder


def dashboard(
    state: StateFolder,
    host: Annotated[
        str, Option(help="Where to listen; another than this machine's loopback only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port; 0 takes one that is free.")] = 8422,
    token: Annotated[
        str | None,
        Option(
            envvar="HETOPT_TOKEN",
            help="Every request must have it. Others on this machine may see options: set it there.",
        ),
    ] = None,
    once: Annotated[Path | None, Option(help="Write the page to this file (-: standard output), and end.")] = None,
) -> None:
    """Show the cluster in a browser, until Ctrl-C. It only reads: nothing can be changed there."""
    from hetopt.data.saving import save
    from hetopt.executor.dashboard.page import page
    from hetopt.executor.dashboard.reader import Reader
    from hetopt.executor.dashboard.server import DashboardServer

    with closing(Reader(state)) as reader:
        if once is not None:
            text = page(reader.read(), live=False)
            if str(once) == "-":
                print(text)
                return
            save(text.encode("utf-8", "replace"), once, overwrite=True)
            print(f"page: {once}")
            return
        with DashboardServer(reader, host, port, token) as server:
            print(f"the dashboard is at {server.address.url}; Ctrl-C ends it")
            if token is None:
                print("all users of this machine can read it; a token (HETOPT_TOKEN) prevents that")
            else:
                print("open it with ?token=... behind the address once; then a cookie stands for it")
            if not server.address.loopback:
                print("the connection is not encrypted: in other networks use `ssh -L` or a proxy with TLS")
            server.serve_forever()
