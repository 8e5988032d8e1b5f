"""Queues in a fixed job order: FIFO, shortest remaining time, shortest remaining service, least attained service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, boolean, check_round_seconds, expect, one_of
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.policy_checks import elapsed_since
from hetopt.models.queues.gpu_pool import (
    IN_ORDER,
    TYPES,
    Preemption,
    TypeRule,
    allocate_in_order,
    running_gangs,
    running_gangs_checked,
    sorted_jobs,
    type_capacities,
    type_plan,
)
from hetopt.results.allocation import Plan


@dataclass(frozen=True)
class QueuePolicy(ABC):
    """Base of queues in a job order; whole gangs on one GPU type each. Ties: by arrival, then as in the instance.

    Parameters
    ----------
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.
    types:
        ``"fastest"`` or ``"roomiest"``: :data:`~hetopt.models.queues.gpu_pool.TypeRule`.
    backfill:
        Jobs behind a job that does not fit may start before it.

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
        check_round_seconds(self, or_none=True)
        one_of(self.types, TYPES, f"{name}.types")
        boolean(self.backfill, f"{name}.backfill")

    @property
    @abstractmethod
    def preemption(self) -> Preemption:
        """Which running jobs may be preempted."""

    @abstractmethod
    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, Any]:
        """(n,) keys, the smallest first in the queue, and the next state."""

    @property
    def traits(self) -> Traits:
        """It decides in rounds, if it has any; without ``backfill`` GPUs may idle."""
        return Traits(self.round_seconds, idles="" if self.backfill else IN_ORDER)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan from now on, and the next state.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`. Without preemption: a job holds anything but its gang on
            one type. With a state: the time is before that of the state.
        """
        name = type(self).__name__
        jobs = present_entities(instance, "jobs", name)
        keys, state = self.ranked(jobs, state)
        order, never = sorted_jobs(jobs, keys), self.preemption is Preemption.NONE
        running = running_gangs_checked(jobs, name) if never else running_gangs(jobs, order)
        given = allocate_in_order(
            order,
            type_capacities(jobs),
            running,
            TYPES[self.types](jobs),
            preemption=self.preemption,
            backfill=self.backfill,
        )
        return type_plan(jobs, given), state


@dataclass(frozen=True)
class FIFO(QueuePolicy):
    """First in, first out: jobs start in the order of arrival, and are not preempted unless they may move.

    With ``backfill`` a job that fits may start before jobs ahead of it that do not fit.

    Parameters
    ----------
    moves:
        In each decision every job in turn takes the best type that is left, as in Gavel's performance-aware FIFO. So
        running jobs may move, and stop if a job that arrived earlier takes their GPUs.
    """

    backfill: bool = False
    moves: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean(self.moves, "FIFO.moves")

    @property
    def preemption(self) -> Preemption:
        """None without ``moves``; with it all are placed again."""
        return Preemption.ALL if self.moves else Preemption.NONE

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Arrivals, and no state."""
        return jobs.source.job_array("arrival"), None


@dataclass(frozen=True)
class PreemptiveQueuePolicy(QueuePolicy):
    """Base of queues in which running jobs are preempted by jobs ahead of them.

    Parameters
    ----------
    moves:
        In each decision every job in turn takes the best type that is left. False: running jobs stay where they are;
        where free GPUs do not suffice, the last running job in the order is preempted first.
    """

    moves: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean(self.moves, f"{type(self).__name__}.moves")

    @property
    def preemption(self) -> Preemption:
        """All running jobs with ``moves``; else the last in the order first."""
        return Preemption.ALL if self.moves else Preemption.LAST_FIRST


@dataclass(frozen=True)
class SRTF(PreemptiveQueuePolicy):
    """Shortest remaining time first: the work left over the throughput on the fastest type that takes the gang."""

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Remaining times in seconds, and no state."""
        return seconds_of(jobs, jobs.source.job_array("work_left")), None


@dataclass(frozen=True)
class SRSF(PreemptiveQueuePolicy):
    """Shortest remaining service first: remaining time times GPUs, the ideal of Tiresias (NSDI'19)."""

    def ranked(self, jobs: Entities, state: Any) -> tuple[Floats, None]:
        """Remaining GPU-seconds, and no state."""
        return jobs.demand * seconds_of(jobs, jobs.source.job_array("work_left")), None


@dataclass(frozen=True)
class LASState:
    """State of LAS between calls.

    Attributes
    ----------
    time:
        Time of the last call, in seconds.
    attained:
        Job -> GPU-seconds received until then.
    """

    time: float
    attained: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attained", FrozenDict(self.attained))


@dataclass(frozen=True)
class LAS(PreemptiveQueuePolicy):
    """Least attained service first: jobs with the fewest GPU-seconds so far.

    Without rounds it decides at arrivals and completions only, so that jobs do not share a GPU in between.
    """

    round_seconds: float | None = ROUND_SECONDS

    def ranked(self, jobs: Entities, state: LASState | None) -> tuple[Floats, LASState]:
        """Attained GPU-seconds, which are also the state."""
        instance, names = jobs.source, jobs.names
        if state is None:
            state = LASState(instance.time)
        before = expect(LASState, state, "state", InvalidOption).attained
        passed = elapsed_since(instance, state.time)
        known = np.array([before.get(name, np.nan) for name in names])
        attained = np.where(np.isnan(known), spent(jobs), known + passed * held_gpu_counts(jobs))
        return attained, LASState(instance.time, dict(zip(names, attained.tolist(), strict=True)))


def seconds_of(jobs: Entities, work: Floats) -> Floats:
    """(n,) seconds for ``work`` on the fastest type that can run the gang; infinite if no type can."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(work > 0, work / jobs.speed.max(axis=1), 0.0))


def spent(jobs: Entities) -> Floats:
    """(n,) attained GPU-seconds of jobs in their first call: the time of the work done on the fastest type."""
    instance = jobs.source
    seconds = seconds_of(jobs, instance.job_array("work") - instance.job_array("work_left"))
    return np.asarray(jobs.demand * np.where(np.isfinite(seconds), seconds, 0.0))


def held_gpu_counts(jobs: Entities) -> Floats:
    """(n,) GPUs that each job holds now."""
    return np.zeros(len(jobs.names)) if jobs.held is None else np.asarray(jobs.held.sum(axis=1))


ORDERS: Mapping[str, QueuePolicy] = {"fifo": FIFO(), "srtf": SRTF(), "srsf": SRSF(), "las": LAS()}
"""Queue policies by name."""
