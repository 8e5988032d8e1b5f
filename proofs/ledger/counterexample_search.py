"""Search for counterexamples: random draws by Hypothesis, and a directed search over simple numbers."""

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

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import HypothesisException, Unsatisfiable

from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import CaseNumbers, Space

C = TypeVar("C")
Slack = Callable[[Any], Fraction | float]

PER_GRID = 1500
"""Cases evaluated per shape and number of values per entry; larger grids are sampled."""

STARTS = 4
"""Best cases of each grid from which a local search starts."""

STEPS = 40
"""Moves of one local search."""

RANDOM_CHANGES = 3000
"""Random changes of two or three entries tried while a counterexample is shrunk."""

MOST_SMALLER = 60_000
"""Largest number of smaller cases that are enumerated to prove that none of them is a counterexample."""


@dataclass
class CounterexampleSearch(Generic[C]):
    """A directed search and its result.

    The search evaluates grids of simple numbers, lowers the slack by local search from the best cases, and shrinks the
    first counterexample.

    Attributes
    ----------
    space, slack, finding:
        The cases of the claim, an estimate of the slack (possibly a float), and the exact decision.
    until:
        Value of ``time.perf_counter()`` at which to stop.
    tried:
        Number of evaluated cases.
    found:
        The counterexample and its finding.
    smallest:
        Whether the search evaluated all cases with at most as many entries and a smaller sum of complexities.
    best:
        The lowest slack so far, and its case.
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
        """Search until the time limit; return a counterexample, as small as time allows, or None."""
        rng = random.Random(self.seed)
        for height in self._heights():
            for sizes in self.space.shapes():
                grid = [
                    (slack, i, numbers)
                    for i, numbers in enumerate(self.space.level(sizes, height, PER_GRID, rng))
                    if (slack := self.evaluate(numbers)) is not None
                ]
                if self._finished():
                    return self._shrunk(rng)
                for _, _, start in nsmallest(STARTS, grid, key=lambda item: item[:2]):
                    self._descend(start, rng)
                    if self._finished():
                        return self._shrunk(rng)
        return None

    def _heights(self) -> Iterator[int]:
        yield from range(1, self.space.levels() + 1)
        while True:  # only random samples remain
            yield self.space.levels()

    def _finished(self) -> bool:
        return self.found is not None or time.perf_counter() > self.until

    def evaluate(self, numbers: CaseNumbers) -> float | None:
        """The slack of a case; None if it violates the hypotheses, was evaluated before, or the search has ended."""
        if self._finished():
            return None
        key = numbers.key()
        if key in self.seen:
            return None
        self.tried += 1
        case = self.space.case(numbers)
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

    def _descend(self, start: CaseNumbers, rng: random.Random) -> None:
        """Move to neighbours of lower slack, or of equal slack if there is none."""
        here, best = start, self.seen[start.key()]
        for _ in range(STEPS):
            around = list(self.space.neighbours(here))
            rng.shuffle(around)
            level: CaseNumbers | None = None
            for other in around:
                slack = self.evaluate(other)
                if self._finished():
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
        """Shrink the counterexample by single changes, by several changes at once, then by enumeration."""
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
        """Yield cases with one change that makes them smaller, then cases with two or three random changes."""
        yield from self.space.smaller(numbers)
        for i in range(RANDOM_CHANGES):
            yield self.space.randomly_changed(numbers, 2 + i % 2, rng)

    def _refutes(self, numbers: CaseNumbers) -> Finding | None:
        self.tried += 1
        case = self.space.case(numbers)
        if case is None or not self.slack(case) < 0:
            return None
        finding = self.finding(case)
        return finding if finding.refutes else None

    def _least(self, numbers: CaseNumbers, finding: Finding) -> tuple[CaseNumbers, Finding]:
        """The smallest counterexample with at most as many entries and as large a sum, if few enough cases remain."""
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
    """Search for ``seconds``; :attr:`CounterexampleSearch.found` is the counterexample, as small as time allows."""
    search = CounterexampleSearch(space, slack, finding, time.perf_counter() + seconds, seed)
    search.found = search.run()
    return search


class _Refuted(Exception):
    """Signals a counterexample to Hypothesis, which then shrinks it."""


@contextmanager
def temporary_hypothesis_folder() -> Iterator[None]:
    """Make Hypothesis store its files in a temporary folder instead of the working directory."""
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
    space: Space[C], slack: Slack, finding: Callable[[C], Finding], count: int, start: int
) -> tuple[tuple[CaseNumbers, Finding] | None, int, int]:
    """Draw ``count`` cases from the seed ``start``; return the simplest counterexample, and the numbers of drawn and of
    undecided cases.

    Raises
    ------
    InvalidOption
        No drawn case meets the hypotheses.
    """
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
    def judge(pair: tuple[CaseNumbers, C]) -> None:
        nonlocal tried, undecided
        tried += 1
        numbers, case = pair
        if slack(case) < 0:
            result = finding(case)
            undecided += not result.decided
            if result.refutes:
                found[:] = [(numbers, result)]
                raise _Refuted

    try:
        judge()
    except _Refuted:
        return found[0], tried, undecided
    except Unsatisfiable:
        raise InvalidOption("no case that was drawn meets the hypotheses") from None
    except HypothesisException:
        if not found:
            raise
    return None, tried, undecided
