"""Mean and median of earlier jobs of a group: what the random forest is compared with [ASRPT, section V-B]."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.workload import Job
from hetopt.prediction.predictors import Learner


@dataclass(frozen=True)
class GroupMean:
    """The mean work of earlier jobs of the group; 0 for the first of a group and for jobs without one."""

    def learner(self) -> Learner:
        """A learner that has seen nothing yet."""
        return _GroupLearner(_Means)


@dataclass(frozen=True)
class GroupMedian:
    """The median work of earlier jobs of the group (of an even number the mean of the middle two); else 0."""

    def learner(self) -> Learner:
        """A learner that has seen nothing yet."""
        return _GroupLearner(_Medians)


class _Tally(Protocol):
    """A figure for each group that can be kept up to date."""

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


class _Notes:
    """Everything observed, in order, and its tally."""

    def __init__(self, fresh: Callable[[], _Tally], rows: Iterable[tuple[str, float]] = ()) -> None:
        self.fresh, self.tally = fresh, fresh()
        self.rows: list[tuple[str, float]] = []
        self.add(rows)

    def add(self, rows: Iterable[tuple[str, float]]) -> None:
        for group, work in rows:
            self.rows.append((group, work))
            self.tally.add(group, work)


class _GroupLearner:
    """Copies share their notes; one that finds that another has written on takes up its own, from its part of them."""

    def __init__(self, fresh: Callable[[], _Tally]) -> None:
        self._notes, self._seen = _Notes(fresh), 0

    def observe(self, jobs: Sequence[Job]) -> None:
        """Add the work of finished jobs to their groups."""
        notes = self._own()
        notes.add((job.group, job.work) for job in jobs if job.group is not None)
        self._seen = len(notes.rows)

    def predict(self, jobs: Sequence[Job]) -> Floats:
        """(n,) figures of the jobs' groups."""
        tally = self._own().tally
        return np.array([0.0 if job.group is None else tally.of(job.group) for job in jobs])

    def copy(self) -> Self:
        """The same notes."""
        twin = type(self).__new__(type(self))
        twin._notes, twin._seen = self._notes, self._seen
        return twin

    def _own(self) -> _Notes:
        if len(self._notes.rows) != self._seen:
            self._notes = _Notes(self._notes.fresh, self._notes.rows[: self._seen])
        return self._notes
