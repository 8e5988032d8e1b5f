"""Utilities of completion times, U_j(f_j - a_j) [Hadar, section III-A].

Any function of a job and of completion times is a utility if it is >= 0 and never increases with the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hetopt.checks import at_least, choices, lookup, shown
from hetopt.data.array_types import Floats
from hetopt.data.workload import Job
from hetopt.errors import HetoptError, InvalidInstance, InvalidOption, Item, UnknownName
from hetopt.tolerances import EQUAL, scale


class Utility(Protocol):
    """Utility of completion times."""

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility >= 0 of completion ``seconds`` (> 0, any shape) after arrival, same shape; never increasing."""
        ...


@dataclass(frozen=True)
class EffectiveThroughput:
    """Work per second between arrival and completion, ``E N / (f - a)`` [Hadar, section III-A].

    Parameters
    ----------
    relative:
        Divide by the job's largest throughput: the fraction of its ideal speed (no unit; at most 1 for a job that
        started with no work done). False, as printed: an iteration of one model counts as much as an iteration of any
        other.
    """

    relative: bool = False

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility of completion after ``seconds``."""
        return (job.work / max(job.throughput.values()) if self.relative else job.work) / np.asarray(seconds)


@dataclass(frozen=True)
class NegativeJCT:
    """``most_seconds`` minus the completion time, at least 0: the utility -JCT, shifted to be non-negative.

    If all jobs complete within ``most_seconds``, the largest sum gives the least total completion time.

    Parameters
    ----------
    most_seconds:
        Completion time from which the utility is 0; a week by default.

    Raises
    ------
    InvalidOption
        It is not positive.
    """

    most_seconds: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        at_least(self.most_seconds, "NegativeJCT.most_seconds", 0.0, InvalidOption, strict=True)

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility of completion after ``seconds``."""
        return np.maximum(0.0, self.most_seconds - np.asarray(seconds))


@dataclass(frozen=True)
class Deadline:
    """1 until the job's deadline, ``late`` after it.

    Parameters
    ----------
    late:
        Utility of a completion after the deadline, from 0 to 1.

    Raises
    ------
    InvalidOption
        ``late`` is not from 0 to 1.
    InvalidInstance
        When called: the job has no deadline.
    """

    late: float = 0.0

    def __post_init__(self) -> None:
        at_least(self.late, "Deadline.late", 0.0, InvalidOption, most=1.0)

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility of completion after ``seconds``."""
        if job.deadline is None:
            raise InvalidInstance(
                "has no deadline, on which its utility depends; give it one", ("jobs", Item(job.name))
            )
        left = job.deadline - job.arrival
        return np.where(np.asarray(seconds) <= left + EQUAL * scale(left), 1.0, self.late)


@dataclass(frozen=True)
class Finished:
    """1 for any completion time."""

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility of completion after ``seconds``."""
        return np.ones(np.shape(seconds))


@dataclass(frozen=True)
class Weighted:
    """The job's weight times another utility."""

    utility: Utility = field(default_factory=Finished)

    def __call__(self, job: Job, seconds: Floats) -> Floats:
        """Utility of completion after ``seconds``."""
        return job.weight * self.utility(job, seconds)


UTILITIES: Mapping[str, Utility] = {
    "effective-throughput": EffectiveThroughput(),
    "relative-throughput": EffectiveThroughput(relative=True),
    "negative-jct": NegativeJCT(),
    "deadline": Deadline(),
    "finished": Finished(),
    "weight": Weighted(),
    "weighted-throughput": Weighted(EffectiveThroughput(relative=True)),
    "weighted-jct": Weighted(NegativeJCT()),
    "weighted-deadline": Weighted(Deadline()),
}
"""Utilities by the names that ``Job.utility`` may have."""


def utility_of(job: Job, default: Utility) -> Utility:
    """The utility that the job names, else ``default``.

    Raises
    ------
    UnknownName
        The job names one that does not exist.
    """
    if job.utility is None:
        return default
    if job.utility not in UTILITIES:
        path = ("jobs", Item(job.name), "utility")
        raise UnknownName(f"is {shown(job.utility)}; {choices(job.utility, UTILITIES)}", path)
    return UTILITIES[job.utility]


def as_utility(given: Any, key: str) -> Utility:
    """``given`` as a utility: one of :data:`UTILITIES` by its name, or a callable.

    Raises
    ------
    UnknownName
        There is no utility of that name.
    InvalidOption
        It is neither a name nor a callable.
    """
    if isinstance(given, str):
        return lookup(UTILITIES, given, "utility")
    if isinstance(given, type) or not isinstance(given, Callable):  # type: ignore[arg-type]
        raise InvalidOption(
            f"is {shown(given)}; it must be a utility's name or a function (job, seconds) -> utility", key
        )
    return given  # type: ignore[no-any-return]


def checked_utility(utility: Utility, job: Job, seconds: Floats) -> Floats:
    """The utility of completion times in ascending order (last axis), checked.

    Raises
    ------
    InvalidOption
        It is negative, NaN or infinite, or increases with the time.
    """
    try:
        value = np.asarray(utility(job, seconds), dtype=float)
    except HetoptError:
        raise
    except (TypeError, ValueError) as problem:
        raise InvalidOption(
            f"the utility of job {job.name!r} cannot be computed for an array of times: {problem}; it must take an "
            "array and return one of the same shape, e.g. numpy.exp(-seconds)"
        ) from None
    if value.shape != np.shape(seconds):
        raise InvalidOption(f"the utility of job {job.name!r} has shape {value.shape} for times {np.shape(seconds)}")
    flat, times = value.ravel(), np.ravel(seconds)
    for i in np.flatnonzero(~(np.isfinite(flat) & (flat >= 0)))[:1].tolist():
        raise InvalidOption(
            f"the utility of job {job.name!r} is {flat[i]:g} on completion after {times[i]:g} s; "
            "it must be finite and >= 0"
        )
    rises = value[..., 1:] - np.minimum.accumulate(value, axis=-1)[..., :-1] > EQUAL * scale(value)
    if rises.any():
        *row, i = (int(axis[0]) for axis in np.nonzero(rises))
        least = int(np.argmin(value[tuple(row)][: i + 1])) if row else int(np.argmin(value[: i + 1]))
        at, later = (*row, least), (*row, i + 1)
        raise InvalidOption(
            f"the utility of job {job.name!r} increases from {value[at]:g} on completion after "
            f"{np.asarray(seconds)[at]:g} s to {value[later]:g} after {np.asarray(seconds)[later]:g} s; "
            "it must not increase with the completion time"
        )
    return value
