"""Predictors, which are settings, and learners, which remember: what the two can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from hetopt.checks import members
from hetopt.data.entities import Floats
from hetopt.data.workload import Job


class Learner(Protocol):
    """The memory of a predictor: it watches jobs finish, and tells how much work other jobs will be."""

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn from finished jobs, in the order in which they finished; their ``work`` is the truth."""
        ...

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) predicted work of jobs, in the unit of ``Job.work``; 0 for those the like of which it has not seen.

        It must not look at the ``work`` of these jobs.
        """
        ...

    def copy(self) -> Self:
        """A learner with the same memory; what either sees from now on does not reach the other.

        Policies keep a learner in the state that they return, so a copy takes constant time.
        """
        ...


class Predictor(Protocol):
    """How work is predicted: frozen settings, of which any number of learners can be made."""

    def learner(self) -> Learner:
        """A learner that has seen nothing yet."""
        ...


@dataclass(frozen=True)
class Perfect:
    """The truth: A-SRPT-Perfect of [ASRPT, section V-A]. The one predictor that looks at ``Job.work``."""

    def learner(self) -> Learner:
        """It has nothing to learn."""
        return _Oracle()


class _Oracle:
    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn nothing."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) work."""
        return np.array([job.work for job in jobs], dtype=float)

    def copy(self) -> Self:
        """Itself: there is nothing to remember."""
        return self


@dataclass(frozen=True)
class Experienced:
    """A predictor whose learners have seen earlier jobs, as A-SRPT trains on a part of the trace before it starts.

    Parameters
    ----------
    predictor:
        How it predicts.
    history:
        Finished jobs in the order in which they finished. They are learnt from once, when the first learner is made.

    Raises
    ------
    InvalidInstance
        ``history`` is no sequence of jobs.
    """

    predictor: Predictor
    history: tuple[Job, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", members(self.history, Job, "Experienced.history"))

    def learner(self) -> Learner:
        """A learner that has seen ``history``."""
        return self._taught.copy()

    @cached_property
    def _taught(self) -> Learner:
        learner = self.predictor.learner()
        learner.observe(self.history)
        return learner
