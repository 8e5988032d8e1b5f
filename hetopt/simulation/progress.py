"""Progress of a simulation as values: what is done, how fast, and when it will end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias


@dataclass(frozen=True)
class SimulationProgress:
    """Progress of a simulation.

    Attributes
    ----------
    simulated:
        Seconds since the beginning, on the clock of the simulation.
    finished, jobs:
        Number of finished jobs, and of those that are to finish.
    decisions:
        Number of decisions.
    part:
        Fraction of the wall-clock time that has passed, from 0 to 1, as far as it can be known, see :func:`part_done`.
    seconds:
        Wall-clock seconds so far, with those of earlier processes whose checkpoint this one continues.
    earlier:
        The progress with which this process began; None: from the beginning.
    """

    simulated: float
    finished: int
    jobs: int
    decisions: int
    part: float
    seconds: float
    earlier: SimulationProgress | None = None

    @property
    def decisions_per_second(self) -> float:
        """Decisions per wall-clock second of this process."""
        before, seconds = (0, 0.0) if self.earlier is None else (self.earlier.decisions, self.earlier.seconds)
        return (self.decisions - before) / (self.seconds - seconds) if self.seconds > seconds else 0.0

    @property
    def remaining(self) -> float | None:
        """Wall-clock seconds to the end, if :attr:`part` grows as in this process so far; None: unknown."""
        before, seconds = (0.0, 0.0) if self.earlier is None else (self.earlier.part, self.earlier.seconds)
        if self.part <= before:
            return None
        return (self.seconds - seconds) * max(1.0 - self.part, 0.0) / (self.part - before)


def part_done(finished: float, work: float) -> float:
    """The part of the wall-clock time of a simulation that is over; 0 (unknown) while no job has finished.

    The finished jobs predict too short a time to the end, because short jobs finish first; the work done predicts too
    long a time, because rounds are cheap at the end, when few jobs are left. The geometric mean of both predictions is
    taken.

    Parameters
    ----------
    finished:
        Finished part of the jobs.
    work:
        Part of their work that is done, in GPU-seconds on the fastest type of each.
    """
    if not finished * work:
        return 0.0
    return 1.0 / (1.0 + sqrt((1.0 / finished - 1.0) * (1.0 / work - 1.0)))


REPORT_SECONDS = 1.0
"""Least wall-clock time between two reports."""

ProgressFunction: TypeAlias = Callable[[SimulationProgress], None]
"""Called with the progress, at most once per second and at the end."""
