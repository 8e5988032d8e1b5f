"""The command ``hetopt`` without sub-commands."""

from __future__ import annotations

from typing import Annotated

import typer

from hetopt import __version__


def new_app() -> typer.Typer:
    """``hetopt`` without any command."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Schedule deep-learning jobs on clusters with several GPU types.",
    )
    app.callback()(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hetopt {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedule deep-learning jobs on clusters with several GPU types."""
