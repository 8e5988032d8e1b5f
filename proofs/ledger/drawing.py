"""Cases that Hypothesis draws: nothing but what meets the hypotheses, shrunk where the conclusion fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import HypothesisException, Unsatisfiable

from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import Numbers, Space

C = TypeVar("C")


class _Refuted(Exception):
    """A case for which the conclusion fails; shown to Hypothesis so that it shrinks it."""


@contextmanager
def nothing_left() -> Iterator[None]:
    """Hypothesis makes a folder where it is run; a command that uses it leaves none behind."""
    variable = "HYPOTHESIS_STORAGE_DIRECTORY"
    if variable in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="hetopt-", ignore_cleanup_errors=True) as folder:
        os.environ[variable] = folder
        try:
            yield
        finally:
            del os.environ[variable]


def drawn(
    space: Space[C],
    slack: Callable[[C], Fraction | float],
    finding: Callable[[C], Finding],
    count: int,
    start: int,
) -> tuple[tuple[Numbers, Finding] | None, int, int]:
    """Draw ``count`` cases: the simplest for which the conclusion fails, if any; how many were drawn and not decided.

    Raises
    ------
    InvalidOption
        None of them meets the hypotheses.
    """
    found: list[tuple[Numbers, Finding]] = []
    tried, undecided = 0, 0

    @seed(start)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(space.strategy())
    def look(pair: tuple[Numbers, C]) -> None:
        nonlocal tried, undecided
        tried += 1
        numbers, case = pair
        if slack(case) < 0:
            told = finding(case)
            undecided += not told.decided
            if told.refutes:
                found[:] = [(numbers, told)]
                raise _Refuted

    try:
        look()
    except _Refuted:
        return found[0], tried, undecided
    except Unsatisfiable:
        raise InvalidOption("no case that was drawn meets the hypotheses") from None
    except HypothesisException:
        if not found:
            raise
    return None, tried, undecided
