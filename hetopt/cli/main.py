"""The entry point of ``hetopt``: find the command, run it, and print its errors as one line.

The exit code is 2 for bad input, and 1 for a program without a solution.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from hetopt.cli.app import new_app
from hetopt.errors import HetoptError, MissingPackage, NotSolved, SuspiciousSpeedups
from hetopt.plugins import COMMANDS
from hetopt.presentation import console


def app_for(words: Sequence[str]) -> typer.Typer:
    """The application with only the command of these words if possible, since importing all commands takes seconds."""
    if words and (point := COMMANDS.points.get(words[0])):
        try:
            command = point.load()
        except Exception as problem:  # any other problem is reported with all commands
            if missing := MissingPackage.of(problem):
                raise missing from None
        else:
            app = new_app()
            app.command(point.name)(command)
            return app
    from hetopt.cli.core_commands import app

    return app


def main() -> None:
    """Run the command; print errors of hetopt as one line, and exit with a code."""
    console.forgive_encodings()
    try:
        with _warnings_as_notes():
            app_for(sys.argv[1:])()
    except NotSolved as problem:
        sys.exit(_fail(problem, 1))
    except HetoptError as problem:
        sys.exit(_fail(problem, 2))
    except OSError as problem:  # the disk is full, a pipe was closed …
        text = f"{problem.filename}: {problem.strerror}" if problem.filename and problem.strerror else str(problem)
        sys.exit(_fail(text, 2))


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print each warning of hetopt once, as one line without the location in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", SuspiciousSpeedups)
        show = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, SuspiciousSpeedups):
                console.note(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = note
        yield


def _fail(problem: object, code: int) -> int:
    console.note(" ".join(str(problem).split()))
    return code
