"""Queues in a fixed job order: FIFO, shortest remaining time, shortest remaining service, least attained service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, boolean, expect
from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidOption
from hetopt.models.fft.fft_components import ROUND_SECONDS
from hetopt.models.policy_checks import forward, one_of, seconds_or_events
from hetopt.models.queues.gpu_pool import (
    TYPES,
    Preemption,
    TypeRule,
    capacities,
    gangs,
    in_order,
    plan_of,
    unstoppable,
    walk,
)
from hetopt.results.allocation import Plan


@dataclass(frozen=True)
class QueuePolicy(ABC):
    """Jobs in some order, whole gangs on one GPU type each; equals as they arrived, then as in the instance.

    Parameters
    ----------
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.
    types:
        ``"fastest"`` or ``"roomiest"``: :data:`~hetopt.models.queues.gpu_pool.TypeRule`.
    backfill:
        Those behind a job that finds no room may start.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    round_seconds: float | None = None
    types: TypeRule = "fastest"
    backfill: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        seconds_or_events(self.round_seconds, f"{name}.round_seconds")
        one_of(self.types, TYPES, f"{name}.types")
        boolean(self.backfill, f"{name}.backfill")

    @property
    @abstractmethod
    def stops(self) -> Preemption:
        """Which jobs that run may be stopped."""

    @abstractmethod
    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, Any]:
        """(n,) numbers, the least of which comes first, and what is to be remembered."""

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """Who runs from now on.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; where nobody is stopped also a job that holds anything
            but its gang on one type. With a state, a time before it.
        """
        name = type(self).__name__
        jobs = present_entities(instance, "jobs", name)
        keys, state = self.ranked(jobs, state)
        running = unstoppable(jobs, name) if self.stops == "nobody" else gangs(jobs)
        given = walk(
            in_order(jobs, keys),
            capacities(jobs),
            running,
            TYPES[self.types](jobs),
            stops=self.stops,
            backfill=self.backfill,
        )
        return plan_of(jobs, given), state


@dataclass(frozen=True)
class FIFO(QueuePolicy):
    """First in, first out: jobs start as they arrived, nobody before those ahead of it, and are never stopped.

    With ``backfill`` a job that fits overtakes those that do not.
    """

    backfill: bool = False

    @property
    def stops(self) -> Preemption:
        """Nobody."""
        return "nobody"

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Arrivals; nothing to remember."""
        return jobs.source.job_array("arrival"), None


@dataclass(frozen=True)
class PreemptiveQueuePolicy(QueuePolicy):
    """Jobs that run are stopped for those ahead of them.

    Parameters
    ----------
    moves:
        In each decision everybody in turn takes the best type that is left; else jobs that run stay where they are,
        and the last in order is stopped first, where GPUs that nobody holds do not suffice.
    """

    moves: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean(self.moves, f"{type(self).__name__}.moves")

    @property
    def stops(self) -> Preemption:
        """All, or the last."""
        return "all" if self.moves else "last"


@dataclass(frozen=True)
class SRTF(PreemptiveQueuePolicy):
    """Shortest remaining time first: the work left over the throughput on the fastest type that takes the gang."""

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Remaining times in seconds; nothing to remember."""
        return seconds_of(jobs, jobs.source.job_array("work_left")), None


@dataclass(frozen=True)
class SRSF(PreemptiveQueuePolicy):
    """Shortest remaining service first: remaining time (as :class:`SRTF`) times GPUs, Tiresias' ideal (NSDI'19)."""

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Remaining GPU-seconds; nothing to remember."""
        return jobs.demand * seconds_of(jobs, jobs.source.job_array("work_left")), None


@dataclass(frozen=True)
class LASState:
    """What LAS remembers.

    Attributes
    ----------
    time:
        When it was asked last, in seconds.
    attained:
        Job -> GPU-seconds received until then.
    """

    time: float
    attained: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attained", FrozenDict(self.attained))


@dataclass(frozen=True)
class LAS(PreemptiveQueuePolicy):
    """Least attained service first, in GPU-seconds: those who have received least so far.

    Without rounds it decides at arrivals and completions only, so that jobs do not share a GPU in between.
    """

    round_seconds: float | None = ROUND_SECONDS

    def ranked(self, jobs: Entities, state: LASState | None) -> tuple[Floats, LASState]:
        """GPU-seconds received, which are what is remembered."""
        instance, names = jobs.source, jobs.names
        if state is None:
            state = LASState(instance.time)
        before = expect(LASState, state, "state", InvalidOption).attained
        passed = forward(instance, state.time)
        known = np.array([before.get(name, np.nan) for name in names])
        attained = np.where(np.isnan(known), spent(jobs), known + passed * held_gpus(jobs))
        return attained, LASState(instance.time, dict(zip(names, attained.tolist(), strict=True)))


def seconds_of(jobs: Entities, work: Floats) -> Floats:
    """(n,) seconds that so much work takes on the fastest type with room for the gang; infinite where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(work > 0, work / jobs.speed.max(axis=1), 0.0))


def spent(jobs: Entities) -> Floats:
    """(n,) GPU-seconds that a job which is seen for the first time counts as having received.

    What its work done takes on its fastest type; nothing where it has not begun.
    """
    instance = jobs.source
    seconds = seconds_of(jobs, instance.job_array("work") - instance.job_array("work_left"))
    return np.asarray(jobs.demand * np.where(np.isfinite(seconds), seconds, 0.0))


def held_gpus(jobs: Entities) -> Floats:
    """(n,) GPUs that each job holds now."""
    return np.zeros(len(jobs.names)) if jobs.held is None else np.asarray(jobs.held.sum(axis=1))


ORDERS: Mapping[str, QueuePolicy] = {"fifo": FIFO(), "srtf": SRTF(), "srsf": SRSF(), "las": LAS()}
"""Orders by name."""
