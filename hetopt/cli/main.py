"""The entry point of ``hetopt``: run the command, and print its errors as one line.

The exit code is 2 for bad input, 1 for a program without a solution, and 130 after Ctrl-C.
"""

from __future__ import annotations

import atexit
import gc
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from hetopt.errors import CheckpointWarning, HetoptError, MissingPackage, NotSolved, SuspiciousSpeedups
from hetopt.presentation import console

ONE_LINE = (SuspiciousSpeedups, CheckpointWarning)
"""Warnings that are printed as one line without the location in the code."""


def main() -> None:
    """Run the command; print errors of hetopt as one line, and exit with a code."""
    gc.set_threshold(50_000)  # imports leave no garbage: looking for it took a fifth of their time
    atexit.register(gc.freeze)  # nor is a last look at all objects worth its time
    from hetopt.cli.app import app

    console.forgive_encodings()
    try:
        with warnings.catch_warnings():
            for category in ONE_LINE:
                warnings.simplefilter("once", category)
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            app()
    except (HetoptError, ModuleNotFoundError) as problem:
        found = MissingPackage.of(problem) or problem
        if not isinstance(found, HetoptError):
            raise
        _fail(found, 1 if isinstance(found, NotSolved) else 2)
    except OSError as problem:  # the disk is full, a pipe was closed …
        _fail(f"{problem.filename}: {problem.strerror}" if problem.filename and problem.strerror else problem, 2)


def _fail(problem: object, code: int) -> NoReturn:
    console.note(" ".join(str(problem).split()))
    sys.exit(code)


def _show_warning(
    usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Print warnings of hetopt as one line, others as usual."""
    if issubclass(category, ONE_LINE):
        console.note(str(message))
    else:
        usual(message, category, *where, **more)
