"""Predictors of the work of jobs: their protocols, the truth, and averages over groups of recurring jobs."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Protocol, Self

import numpy as np

from hetopt.checks import members, shown
from hetopt.data.array_types import Floats
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance


class Learner(Protocol):
    """The state of a predictor: it observes finished jobs and predicts the work of others."""

    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn from finished jobs in order of completion; their ``work`` is the truth."""
        ...

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) predicted work of jobs, in the unit of ``Job.work``; 0 for jobs without similar observed jobs.

        It must not use the ``work`` of these jobs.
        """
        ...

    def copy(self) -> Self:
        """An independent learner with the same state.

        Policies keep a learner in the state that they return, so a copy must take constant time.
        """
        ...


class Predictor(Protocol):
    """Frozen settings from which any number of learners can be made."""

    def learner(self) -> Learner:
        """A learner without observations."""
        ...


@dataclass(frozen=True)
class Perfect:
    """The truth: A-SRPT-Perfect of [ASRPT, section V-A]. The only predictor that uses the work of the job itself."""

    def learner(self) -> Learner:
        """A learner that predicts ``Job.work``."""
        return _Oracle()


class _Oracle:
    def observe(self, jobs: Sequence[Job]) -> None:
        """Learn nothing."""

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) work."""
        return np.array([job.work for job in jobs], dtype=float)

    def copy(self) -> Self:
        """Itself: it has no state."""
        return self


@dataclass(frozen=True)
class Pretrained:
    """A predictor whose learners start with earlier jobs, as A-SRPT trains on a part of the trace before it starts.

    Parameters
    ----------
    predictor:
        The predictor to train.
    history:
        Finished jobs in order of completion. They are observed once, when the first learner is made.

    Raises
    ------
    InvalidInstance
        ``history`` is not a sequence of jobs.
    """

    predictor: Predictor
    history: tuple[Job, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", members(self.history, Job, "Pretrained.history"))

    def learner(self) -> Learner:
        """A learner that has observed ``history``."""
        return self._trained.copy()

    @cached_property
    def _trained(self) -> Learner:
        learner = self.predictor.learner()
        learner.observe(self.history)
        return learner


@dataclass(frozen=True)
class GroupMean:
    """The mean work of earlier jobs of the group; 0 for the first job of a group and for jobs without a group."""

    def learner(self) -> Learner:
        """A learner without observations."""
        return _GroupLearner(_Means)


@dataclass(frozen=True)
class GroupMedian:
    """The median work of earlier jobs of the group (the mean of the middle two of an even number); else 0."""

    def learner(self) -> Learner:
        """A learner without observations."""
        return _GroupLearner(_Medians)


class _Average(Protocol):
    """An average per group that can be updated."""

    def add(self, group: str, work: float) -> None: ...

    def of(self, group: str) -> float: ...


class _Means:
    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, group: str, work: float) -> None:
        total, number = self._sums.get(group, (0.0, 0))
        self._sums[group] = total + work, number + 1

    def of(self, group: str) -> float:
        total, number = self._sums.get(group, (0.0, 1))
        return total / number


class _Medians:
    def __init__(self) -> None:
        self._sorted: dict[str, list[float]] = {}

    def add(self, group: str, work: float) -> None:
        insort(self._sorted.setdefault(group, []), work)

    def of(self, group: str) -> float:
        works = self._sorted.get(group)
        return (works[(len(works) - 1) // 2] + works[len(works) // 2]) / 2 if works else 0.0


class _Observations:
    """All observations in order, and their averages."""

    def __init__(self, fresh: Callable[[], _Average], rows: Iterable[tuple[str, float]] = ()) -> None:
        self.fresh, self.average = fresh, fresh()
        self.rows: list[tuple[str, float]] = []
        self.add(rows)

    def add(self, rows: Iterable[tuple[str, float]]) -> None:
        for group, work in rows:
            self.rows.append((group, work))
            self.average.add(group, work)


class _GroupLearner:
    """Copies share a history until one of them extends it; then each other copy takes over its part of it."""

    def __init__(self, fresh: Callable[[], _Average]) -> None:
        self._observations, self._seen = _Observations(fresh), 0

    def observe(self, jobs: Sequence[Job]) -> None:
        """Add the work of finished jobs to their groups."""
        history = self._own()
        history.add((job.group, job.work) for job in jobs if job.group is not None)
        self._seen = len(history.rows)

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) averages of the jobs' groups."""
        average = self._own().average
        return np.array([0.0 if job.group is None else average.of(job.group) for job in jobs])

    def copy(self) -> Self:
        """A learner with the same history."""
        return copy(self)

    def _own(self) -> _Observations:
        if len(self._observations.rows) != self._seen:
            self._observations = _Observations(self._observations.fresh, self._observations.rows[: self._seen])
        return self._observations


def group_of(*meta: str) -> str:
    """Name of the group of jobs with the same meta-information, such as user, data set and command line.

    A hash of the tuple (BLAKE2b, 128 bits) [ASRPT, section IV-C3]: the same on every machine and in every run; it
    depends on the division into parts and on their order. The probability that any two of a billion groups
    share a name is below 10^-20.

    Raises
    ------
    InvalidInstance
        No meta-information, or a part that is not text.

    Examples
    --------
    >>> group_of("ann", "ImageNet", "train.py --lr 0.1")
    '0f0b905cd4aa69e16a81e764f24e26f1'
    """
    if not meta:
        raise InvalidInstance(
            "has no meta-information; it needs texts such as user, data set, command line", "group_of()"
        )
    digest = blake2b(digest_size=16)
    for i, part in enumerate(meta):
        if not isinstance(part, str):
            raise InvalidInstance(f"is {shown(part)}; it must be text", f"meta[{i}]")
        encoded = part.encode("utf-8", "surrogatepass")  # command lines may hold bytes that are not text
        digest.update(len(encoded).to_bytes(8, "big"))  # the division into parts is hashed, too
        digest.update(encoded)
    return digest.hexdigest()
