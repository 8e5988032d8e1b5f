"""Search for counterexamples: random draws, and a directed search over simple numbers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import merge, nsmallest
from itertools import chain, count, islice
from typing import Any, Generic, TypeAlias, TypeVar

from hetopt.data.array_types import Floats
from hetopt.errors import InvalidOption
from hetopt.proofs.ledger.claim import Finding
from hetopt.proofs.ledger.space import CaseNumbers, Space

C = TypeVar("C")
Slack = Callable[[Any], Fraction | float]
Screen: TypeAlias = Callable[[Sequence[C]], Sequence[float] | Floats]

PER_GRID = 1500
"""Cases evaluated per shape and number of values per entry; larger grids are sampled."""

PER_DRAW = 500
"""Structured cases drawn per shape and round; a round with a screen draws more."""

SCREENED = 10
"""Factor of the draws of a round if a screen estimates them."""

BLOCK = 250
"""Cases that a screen estimates at once."""

STARTS = 4
"""Cases of each grid from which a local search starts: half of them the best, half of them among the best."""

STEPS = 40
"""Moves of one local search."""

RANDOM_CHANGES = 3000
"""Random changes of two or three entries tried while a counterexample is shrunk."""

MOST_SMALLER = 60_000
"""Largest number of smaller cases that are enumerated to prove that none of them is a counterexample."""

MISSES = 200
"""Tables drawn for each case wanted, as many do not meet the hypotheses."""

PATIENCE = 2.0
"""Least seconds in which smaller shapes are searched after a counterexample, and most to shrink a drawn one."""

PERSISTENCE = 3
"""Smaller shapes are searched for this many times the seconds that it took to find the counterexample."""


@dataclass
class CounterexampleSearch(Generic[C]):
    """A directed search and its result.

    The search goes round the shapes, the smallest first. In each round it evaluates a grid of simple numbers and
    structured draws of every shape, and lowers the slack by local search from good cases. It shrinks a counterexample,
    and goes on with smaller shapes.

    Attributes
    ----------
    space, slack, finding:
        The cases of the claim, an estimate of the slack (possibly a float), and the exact decision.
    screen:
        Float estimates of the slack of many cases at once; None: ``slack``, case by case.
    until:
        Value of ``time.perf_counter()`` at which to stop.
    tried:
        Number of evaluated cases.
    found:
        The counterexample and its finding.
    smallest:
        Whether the claim's own decision was made on all tables of listed values with fewer entries, or with as many and
        a smaller sum of complexities, and none refutes the claim.
    best:
        The lowest slack so far, and its case.
    """

    space: Space[C]
    slack: Slack
    finding: Callable[[C], Finding]
    until: float
    seed: int = 0
    screen: Screen[C] | None = None
    tried: int = 0
    seen: dict[tuple[object, ...], float] = field(default_factory=dict)
    found: tuple[CaseNumbers, Finding] | None = None
    smallest: bool = False
    best: tuple[float, CaseNumbers] | None = None

    def run(self) -> tuple[CaseNumbers, Finding] | None:
        """Search until the time limit; return a counterexample, as small as time allows, or None."""
        rng, began, end = random.Random(self.seed), time.perf_counter(), self.until
        for turn in count(1):
            tried = self.tried
            for sizes in self._shapes():
                known = self.found
                self._search(sizes, turn, rng)
                if self.found is not None and self.found is not known:
                    self.found = self.shrunk(rng, *self.found)
                    spent = time.perf_counter() - began
                    self.until = min(end, time.perf_counter() + max(PATIENCE, PERSISTENCE * spent))
                    break
                if time.perf_counter() > self.until:
                    break
            exhausted = self.tried == tried and turn > self.space.levels()
            if exhausted or time.perf_counter() > self.until or not self._shapes():
                break
        if self.found is not None:
            self.until = min(end, time.perf_counter() + max(PATIENCE, time.perf_counter() - began))
            found, self.until = self._simplified_by_draws(rng, *self.found), end
            self.found = self._smallest_by_enumeration(*found)
        return self.found

    def _shapes(self) -> list[dict[str, int]]:
        """The shapes with fewer entries than the counterexample, or all."""
        every = self.space.shapes()
        if self.found is None:
            return every
        most = self.space.weight(self.found[0])[0]
        return [sizes for sizes in every if self.space.entries(sizes) < most]

    def _search(self, sizes: Mapping[str, int], turn: int, rng: random.Random) -> None:
        """One round in one shape, until a counterexample is found that is smaller than the known one."""
        known, self.found = self.found, None
        draws = PER_DRAW * (1 if self.screen is None else SCREENED)
        height = min(turn, self.space.levels())
        blocks = chain(self.space.level(sizes, height, PER_GRID, rng), self.space.structured(sizes, draws, rng))
        grid = [(slack, i, numbers) for i, (numbers, slack) in enumerate(self._evaluated(blocks))]
        good = nsmallest(STARTS * STARTS, grid, key=lambda item: item[:2])
        starts = good[: STARTS // 2] + rng.sample(good, min(len(good), STARTS - STARTS // 2))
        for slack, _, start in starts:
            if not self._finished():
                self._descend(start, slack, rng)
        self.found = self.found or known

    def _finished(self) -> bool:
        return self.found is not None or time.perf_counter() > self.until

    def _evaluated(self, every: Iterable[CaseNumbers]) -> Iterator[tuple[CaseNumbers, float]]:
        """Yield the new cases that meet the hypotheses, with their slacks, until a counterexample is found."""
        block: list[tuple[CaseNumbers, C]] = []
        for numbers in every:
            key = numbers.key()
            if key in self.seen:
                continue
            if self._finished():
                return
            self.seen[key] = float("inf")
            self.tried += 1
            case = self.space.case(numbers)
            if case is not None:
                block.append((numbers, case))
            if len(block) == (1 if self.screen is None else BLOCK):
                yield from self._judged(block)
                block = []
        if block and not self._finished():
            yield from self._judged(block)

    def _judged(self, block: list[tuple[CaseNumbers, C]]) -> list[tuple[CaseNumbers, float]]:
        """The cases with their slacks; negative ones are decided exactly, the lowest first."""
        slacks = self._estimates([case for _, case in block])
        for i in sorted((i for i, slack in enumerate(slacks) if slack < 0), key=slacks.__getitem__):
            finding = self.finding(block[i][1])
            if finding.refutes:
                self.found = block[i][0], finding
                break
            if self.screen is not None or not finding.decided:
                slacks[i] = max(0.0, float(finding.slack))
        judged = [(numbers, slack) for (numbers, _), slack in zip(block, slacks, strict=True)]
        for numbers, slack in judged:
            self.seen[numbers.key()] = slack
            if self.best is None or slack < self.best[0]:
                self.best = slack, numbers
        return judged

    def _estimates(self, cases: list[C]) -> list[float]:
        if self.screen is not None:
            return [float(slack) for slack in self.screen(cases)]
        return [float(self.slack(case)) for case in cases]

    def _descend(self, start: CaseNumbers, best: float, rng: random.Random) -> None:
        """Move to neighbours of lower slack, or of equal slack if there is none."""
        here = start
        for _ in range(STEPS):
            around = list(self.space.neighbours(here))
            rng.shuffle(around)
            level: CaseNumbers | None = None
            for other, slack in self._evaluated(around):
                if slack < best:
                    here, best, level = other, slack, None
                    break
                if slack == best and level is None:
                    level = other
            else:
                if level is None:
                    return
                here = level
            if self._finished():
                return

    # -- shrinking -----------------------------------------------------------------------------------------------

    def shrunk(self, rng: random.Random, numbers: CaseNumbers, finding: Finding) -> tuple[CaseNumbers, Finding]:
        """Shrink the counterexample by single changes, then by several changes at once."""
        moved = True
        while moved and time.perf_counter() < self.until:
            smaller = self._first_refuting(self._only_lighter(self._changed(numbers, rng), numbers))
            moved = smaller is not None
            if smaller is not None:
                numbers, finding = smaller
        return numbers, finding

    def _changed(self, numbers: CaseNumbers, rng: random.Random) -> Iterator[CaseNumbers]:
        """Yield cases with one change that makes them smaller, then cases with two or three random changes."""
        yield from self.space.smaller(numbers)
        for i in range(RANDOM_CHANGES):
            yield self.space.randomly_changed(numbers, 2 + i % 2, rng)

    def _only_lighter(self, every: Iterable[CaseNumbers], numbers: CaseNumbers) -> Iterator[CaseNumbers]:
        """Those with a smaller weight, until the time limit."""
        weight = self.space.weight(numbers)
        for other in every:
            if time.perf_counter() > self.until:
                return
            if self.space.weight(other) < weight:
                yield other

    def _first_refuting(
        self, every: Iterable[CaseNumbers], screened: bool = True
    ) -> tuple[CaseNumbers, Finding] | None:
        """The first counterexample, or None; estimates decide which cases are judged, unless ``screened`` is false."""
        numbered = iter(every)
        while time.perf_counter() < self.until:
            block = list(islice(numbered, 1 if self.screen is None or not screened else STARTS * STARTS))
            if not block:
                return None
            self.tried += len(block)
            cases = [(numbers, case) for numbers in block if (case := self.space.case(numbers)) is not None]
            slacks = self._estimates([case for _, case in cases]) if screened else [-1.0] * len(cases)
            for (numbers, case), slack in zip(cases, slacks, strict=True):
                if slack < 0 and (finding := self.finding(case)).refutes:
                    return numbers, finding
        return None

    def _simplified_by_draws(
        self, rng: random.Random, numbers: CaseNumbers, finding: Finding
    ) -> tuple[CaseNumbers, Finding]:
        """A counterexample of the same shape with simpler numbers, from further grids and draws."""
        here = {name: self.space.size_of(numbers, name) for name in self.space.sizes}
        levels = self.space.levels()
        while time.perf_counter() < self.until:
            draws = chain.from_iterable(
                chain(self.space.level(here, 1 + i % levels, PER_DRAW, rng), self.space.structured(here, PER_DRAW, rng))
                for i in range(levels)
            )
            smaller = self._first_refuting(self._only_lighter(draws, numbers))
            if smaller is not None:
                numbers, finding = self.shrunk(rng, *smaller)
        return numbers, finding

    def _smallest_by_enumeration(self, numbers: CaseNumbers, finding: Finding) -> tuple[CaseNumbers, Finding]:
        """The smallest counterexample with at most as many entries and as large a sum, if few enough cases remain."""
        entries, total = self.space.weight(numbers)[:2]
        shapes = [sizes for sizes in self.space.shapes() if self.space.entries(sizes) <= entries]
        grids = [(sizes, total + (self.space.entries(sizes) < entries)) for sizes in shapes]
        if sum(self.space.count_lighter(*grid) for grid in grids) > MOST_SMALLER:
            return numbers, finding
        lighter = merge(*(self.space.lighter(*grid) for grid in grids), key=lambda other: self.space.weight(other)[:2])
        smaller = self._first_refuting(lighter, screened=False)
        self.smallest = smaller is not None or time.perf_counter() < self.until
        return smaller or (numbers, finding)


def search_counterexample(
    space: Space[C],
    slack: Slack,
    finding: Callable[[C], Finding],
    seconds: float,
    seed: int = 0,
    screen: Screen[C] | None = None,
) -> CounterexampleSearch[C]:
    """Search for ``seconds``; :attr:`CounterexampleSearch.found` is the counterexample, as small as time allows."""
    search = CounterexampleSearch(space, slack, finding, time.perf_counter() + seconds, seed, screen)
    search.found = search.run()
    return search


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
    rng, tried, undecided = random.Random(start), 0, 0
    for numbers in islice(space.draws(rng), MISSES * count):
        if (case := space.case(numbers)) is None:
            continue
        tried += 1
        if slack(case) < 0:
            result = finding(case)
            undecided += not result.decided
            if result.refutes:
                search = CounterexampleSearch(space, slack, finding, time.perf_counter() + PATIENCE)
                return search.shrunk(rng, numbers, result), tried, undecided
        if tried == count:
            break
    if not tried:
        raise InvalidOption("no case that was drawn meets the hypotheses")
    return None, tried, undecided
