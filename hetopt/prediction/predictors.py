"""Predictors of a job's work: settings, and what learns from finished jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.workload import Job


class Learner(Protocol):
    """What has been learned so far; changes as jobs finish."""

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn from finished jobs, whose ``work`` is now known."""
        ...

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) predicted work, in the unit of :attr:`hetopt.Job.work`; 0 for jobs whose like has not been seen."""
        ...

    def copy(self) -> Self:
        """An independent learner that knows the same."""
        ...


class Predictor(Protocol):
    """Settings of a way to predict: a frozen dataclass, so that a policy may have it as a setting."""

    def learner(self) -> Learner:
        """A learner that has seen nothing yet."""
        ...


@dataclass(frozen=True)
class Perfect:
    """Knows the work of every job beforehand: the yardstick of the others (A-SRPT-Perfect)."""

    def learner(self) -> Learner:
        """A learner that needs none."""
        return _Truth()


class _Truth:
    def observe(self, jobs: Sequence[Job]) -> None:
        """Nothing is left to learn."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) the jobs' own work."""
        return np.array([job.work for job in jobs], dtype=float)

    def copy(self) -> Self:
        """Itself: it never changes."""
        return self
