"""Search for counterexamples: random cases drawn by Hypothesis, and a directed search over simple numbers."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import nsmallest
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import CaseNumbers, Space

C = TypeVar("C")
Slack = Callable[[Any], Fraction | float]

PER_GRID = 1500
"""Cases looked at of one shape and one height of numbers; larger grids are sampled."""

STARTS = 4
"""The best cases of each grid from which moves start."""

STEPS = 40
"""Moves from one start."""

TOGETHER = 3000
"""Random changes of two or three entries at once, after which a counterexample counts as small."""

MOST_SMALLER = 60_000
"""Smaller cases of the same shape that are tried one by one, so that none is missed."""


@dataclass
class CounterexampleSearch(Generic[C]):
    """One search, and what it has found.

    Attributes
    ----------
    space, slack, finding:
        Of the claim. ``slack`` may be a float or rough; ``finding`` decides.
    until:
        Value of ``time.perf_counter()`` at which to stop.
    tried:
        Cases looked at so far.
    found:
        The counterexample, and why it is one.
    smallest:
        Whether all cases with no more entries and a smaller sum were looked at.
    best:
        The lowest slack that was seen, and where.
    """

    space: Space[C]
    slack: Slack
    finding: Callable[[C], Finding]
    until: float
    seed: int = 0
    tried: int = 0
    seen: dict[tuple[object, ...], float] = field(default_factory=dict)
    found: tuple[CaseNumbers, Finding] | None = None
    smallest: bool = False
    best: tuple[float, CaseNumbers] | None = None

    def run(self) -> tuple[CaseNumbers, Finding] | None:
        """A counterexample, as small as could be made in the time, or None."""
        rng = random.Random(self.seed)
        for height in self._heights():
            for sizes in self.space.shapes():
                grid = [
                    (slack, i, numbers)
                    for i, numbers in enumerate(self.space.level(sizes, height, PER_GRID, rng))
                    if (slack := self.look(numbers)) is not None
                ]
                if self._over():
                    return self._shrunk(rng)
                for _, _, start in nsmallest(STARTS, grid, key=lambda item: item[:2]):
                    self._climb(start, rng)
                    if self._over():
                        return self._shrunk(rng)
        return None

    def _heights(self) -> Iterator[int]:
        yield from range(1, self.space.levels() + 1)
        while True:  # only random samples are left
            yield self.space.levels()

    def _over(self) -> bool:
        return self.found is not None or time.perf_counter() > self.until

    def look(self, numbers: CaseNumbers) -> float | None:
        """The slack of a case; None for one outside the hypotheses, seen before, or after the end."""
        if self._over():
            return None
        key = numbers.key()
        if key in self.seen:
            return None
        self.tried += 1
        case = self.space.build(numbers)
        slack = float("inf") if case is None else float(self.slack(case))
        self.seen[key] = slack
        if case is None:
            return None
        if slack < 0:
            finding = self.finding(case)
            if finding.refutes:
                self.found = (numbers, finding)
            elif not finding.decided:
                slack = 0.0
        if self.best is None or slack < self.best[0]:
            self.best = slack, numbers
        return slack

    def _climb(self, start: CaseNumbers, rng: random.Random) -> None:
        """Moves that lower the slack, and now and then one that keeps it."""
        here, best = start, self.seen[start.key()]
        for _ in range(STEPS):
            around = list(self.space.neighbours(here))
            rng.shuffle(around)
            level: CaseNumbers | None = None
            for other in around:
                slack = self.look(other)
                if self._over():
                    return
                if slack is not None and slack < best:
                    here, best, level = other, slack, None
                    break
                if slack is not None and slack == best and level is None:
                    level = other
            else:
                if level is None:
                    return
                here = level

    # -- shrinking -----------------------------------------------------------------------------------------------

    def _shrunk(self, rng: random.Random) -> tuple[CaseNumbers, Finding] | None:
        """Simpler and simpler: one change at a time, then some at once, then all smaller cases of the shape."""
        if self.found is None:
            return None
        numbers, finding = self.found
        moved = True
        while moved and time.perf_counter() < self.until:
            moved = False
            for other in self._simpler(numbers, rng):
                if self.space.weight(other) < self.space.weight(numbers) and (smaller := self._refutes(other)):
                    numbers, finding, moved = other, smaller, True
                    break
                if time.perf_counter() > self.until:
                    break
        self.found = numbers, finding
        return self._least(numbers, finding)

    def _simpler(self, numbers: CaseNumbers, rng: random.Random) -> Iterator[CaseNumbers]:
        """One change that makes it smaller, then two or three at random that may."""
        yield from self.space.smaller(numbers)
        for i in range(TOGETHER):
            yield self.space.jumbled(numbers, 2 + i % 2, rng)

    def _refutes(self, numbers: CaseNumbers) -> Finding | None:
        self.tried += 1
        case = self.space.build(numbers)
        if case is None or not self.slack(case) < 0:
            return None
        finding = self.finding(case)
        return finding if finding.refutes else None

    def _least(self, numbers: CaseNumbers, finding: Finding) -> tuple[CaseNumbers, Finding]:
        """The smallest of all cases with no more entries and no larger sum, where they can be counted through."""
        here = {name: self.space.size_of(numbers, name) for name in self.space.sizes}
        entries, total = self.space.weight(numbers)[:2]
        grids = [(sizes, total + 1) for sizes in self.space.shapes() if self.space.entries(sizes) < entries]
        grids.append((here, total))
        if sum(self.space.count_lighter(*grid) for grid in grids) > MOST_SMALLER:
            return numbers, finding
        for grid in grids:
            for other in self.space.lighter(*grid):
                if time.perf_counter() > self.until:
                    return numbers, finding
                if smaller := self._refutes(other):
                    self.smallest = True
                    return other, smaller
        self.smallest = True
        return numbers, finding


def search_counterexample(
    space: Space[C], slack: Slack, finding: Callable[[C], Finding], seconds: float, seed: int = 0
) -> CounterexampleSearch[C]:
    """Search for this time; :attr:`CounterexampleSearch.found` is the counterexample, as small as time allows."""
    search = CounterexampleSearch(space, slack, finding, time.perf_counter() + seconds, seed)
    search.found = search.run()
    return search


class _Refuted(Exception):
    """A case for which the conclusion fails; shown to Hypothesis so that it shrinks it."""


@contextmanager
def temporary_hypothesis_folder() -> Iterator[None]:
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


def draw_counterexample(
    space: Space[C],
    slack: Callable[[C], Fraction | float],
    finding: Callable[[C], Finding],
    count: int,
    start: int,
) -> tuple[tuple[CaseNumbers, Finding] | None, int, int]:
    """Draw ``count`` cases: the simplest for which the conclusion fails, if any; how many were drawn and not decided.

    Raises
    ------
    InvalidOption
        None of them meets the hypotheses.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
    from hypothesis.errors import HypothesisException, Unsatisfiable

    found: list[tuple[CaseNumbers, Finding]] = []
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
    def look(pair: tuple[CaseNumbers, C]) -> None:
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
