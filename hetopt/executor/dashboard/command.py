"""The command that shows a cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hetopt.cli.options import StateFolder
from hetopt.presentation import console

PORT = 8422


def dashboard(
    state: StateFolder = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; another than this machine's loopback only with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes one that is free.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HETOPT_TOKEN",
            help="Every request must have it. Others on this machine may see options: set it there.",
        ),
    ] = None,
    once: Annotated[Path | None, typer.Option(help="Write the page to this file, and end.")] = None,
) -> None:
    """Show the cluster in a browser, until Ctrl-C. It only reads: nothing can be changed there."""
    from hetopt.data.saving import save
    from hetopt.executor.dashboard.page import page
    from hetopt.executor.dashboard.reader import Reader
    from hetopt.executor.dashboard.server import DashboardServer
    from hetopt.executor.store import default_folder

    reader = Reader(default_folder() if state is None else state)
    try:
        if once is not None:
            save(page(reader.look(), live=False).encode("utf-8", "replace"), once, overwrite=True)
            console.print_line(f"page: {once}")
            return
        with DashboardServer(reader, host, port, token) as server:
            console.print_line(f"the dashboard is at {server.url}; Ctrl-C ends it")
            for line in _hints(token is not None, server.where.loopback):
                console.print_line(line)
            server.serve_forever()
    finally:
        reader.close()


def _hints(has_token: bool, loopback: bool) -> list[str]:
    """How to come in, and who else may."""
    if not has_token:
        return ["whoever is on this machine can read it; a token (HETOPT_TOKEN) keeps others out"]
    hints = ["open it with ?token=... behind the address once; then a cookie stands for it"]
    if not loopback:
        hints.append("the connection is not encrypted: in a network you do not trust, use `ssh -L` or a proxy with TLS")
    return hints
