"""Jobs that run in copies on several servers at once, each copy with the work that it is to do until the next decision.

A copy is a whole gang on one server. What all copies do together counts (HadarE). A copy that has done its work waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hetopt.simulation.overheads import Where
from hetopt.tolerances import WORK


@dataclass(frozen=True)
class Copy:
    """A copy as a decision has it.

    Attributes
    ----------
    server:
        Where it runs.
    gpus:
        GPU type -> GPUs there.
    rate:
        Work per second.
    work:
        What it is to do.
    """

    server: str
    gpus: Mapping[str, int]
    rate: float
    work: float

    @cached_property
    def seats(self) -> Where:
        """(server, GPU type) -> GPUs."""
        return {(self.server, t): n for t, n in sorted(self.gpus.items()) if n}


@dataclass(frozen=True)
class Running:
    """A copy that trains from second ``ready`` on."""

    copy: Copy
    ready: float

    @property
    def end(self) -> float:
        """When it has done its work."""
        return self.ready + self.copy.work / self.copy.rate

    def by(self, time: float) -> float:
        """Work done by then."""
        return self.copy.work if time >= self.end else self.copy.rate * max(0.0, time - self.ready)


@dataclass(frozen=True)
class Forked:
    """The copies of one job from a decision to the next."""

    copies: tuple[Running, ...]

    @property
    def over(self) -> float:
        """When all have done their work."""
        return max((copy.end for copy in self.copies), default=math.inf)

    def by(self, time: float) -> float:
        """Work that all have done by then."""
        return sum(copy.by(time) for copy in self.copies)

    def when(self, work: float, slack: float = 0.0) -> float:
        """When they have done so much together; infinity where they are not to do so much, but for ``slack``."""
        if not self.copies:
            return math.inf
        moments = sorted({moment for copy in self.copies for moment in (copy.ready, copy.end)})
        if self.by(moments[-1]) < work * (1 - WORK) - slack:
            return math.inf
        before, done = moments[0], 0.0
        for moment in moments[1:]:
            more = self.by(moment)
            if more >= work:
                return before + (work - done) / (more - done) * (moment - before) if more > done else moment
            before, done = moment, more
        return before
