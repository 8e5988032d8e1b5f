"""The entry point of ``hetopt``: run the command, and print its errors as one line.

The exit code is 2 for bad input, 1 for a program without a solution, and 130 after Ctrl-C.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetopt.cli.app import app
from hetopt.errors import HetoptError, MissingPackage, NotSolved, SuspiciousSpeedups
from hetopt.presentation import console


def main() -> None:
    """Run the command; print errors of hetopt as one line, and exit with a code."""
    gc.set_threshold(50_000)  # imports leave no garbage, and a fifth of their time was to look for it
    console.forgive_encodings()
    try:
        with _warnings_as_notes():
            app()
    except ModuleNotFoundError as problem:
        if (missing := MissingPackage.of(problem)) is None:
            raise
        sys.exit(_fail(missing, 2))
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
