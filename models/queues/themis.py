"""Themis: GPUs are auctioned off among those who are furthest behind an own part of the cluster (NSDI'20)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, at_least, expect
from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.rounders import most_due
from hetopt.errors import InvalidOption
from hetopt.models.fft.parts import ROUND_SECONDS
from hetopt.models.fft.ties import settled
from hetopt.models.queues.checking import forward
from hetopt.models.queues.choosing import able, capacities, fastest, gangs, plan_of
from hetopt.models.queues.room import Room
from hetopt.results.allocation import Plan
from hetopt.solving.options import Options
from hetopt.tolerances import INTEGRAL


@dataclass(frozen=True)
class ThemisState:
    """What Themis remembers from one call to the next.

    Attributes
    ----------
    time:
        When it was asked last, in seconds.
    crowd:
        Job -> integral, over the seconds since it was seen first, of the weights of all jobs that were present then.
    seen:
        Job -> when it was seen first, in seconds.
    present:
        Sum of the weights of the jobs that were present at the last call.
    """

    time: float
    crowd: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    present: float = 0.0

    def __post_init__(self) -> None:
        for key in ("crowd", "seen"):
            object.__setattr__(self, key, FrozenDict(getattr(self, key)))


@dataclass(frozen=True)
class Themis:
    """Each round, the jobs with the worst finish-time fairness share the GPUs so that the product of values is largest.

    A job's rho is its finish time, counted from its arrival, over the time that it would take alone on 1/N of every
    GPU type, N being the average number of jobs since it arrived. The part 1 - ``fairness`` of the jobs whose rho is
    largest is offered all GPUs; its value for GPUs is 1 / rho with them. Whole gangs on one type each are dealt out so
    that the product of all values is largest, by an integer program. GPUs that are left go to all others, those with
    the largest rho first, each on its fastest type with room.

    A bundle lasts for one round, a lease. So a job that gets none loses a round, and one that gets slow GPUs loses part
    of it (see :func:`finish_seconds`); after that it counts as running on its fastest type. On GPUs of one type that is
    the usual estimate, work left over rate. The hidden payments of the auction, which withhold part of what each winner
    gets so that no wrong bid pays, are not taken: a gang cannot run on part of its GPUs, and nobody bids here.

    Parameters
    ----------
    fairness:
        The knob f of [0, 1): 0 offers the GPUs to all; the larger, the fewer are asked, at least one.
    round_seconds:
        Length of a lease.
    time_limit:
        Seconds for the search, after which the best packing found is taken; None: until one is proven best.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    fairness: float = 0.8
    round_seconds: float = ROUND_SECONDS
    time_limit: float | None = 10.0

    def __post_init__(self) -> None:
        if at_least(self.fairness, "Themis.fairness", 0.0, InvalidOption) >= 1:
            raise InvalidOption(f"Themis.fairness is {self.fairness:g}; it must be below 1, else nobody is asked")
        at_least(self.round_seconds, "Themis.round_seconds", 0.0, InvalidOption, strict=True)
        Options(time_limit=self.time_limit)  # refuses what is no limit

    def __call__(self, instance: Instance, state: ThemisState | None = None) -> tuple[Plan, ThemisState]:
        """Who runs in the round that begins now, and what is to be remembered.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; a time before the state's.
        """
        jobs = present_entities(instance, "jobs", "Themis")
        now = self._advanced(jobs, state)
        rho = self._rho(jobs, now)
        order = np.lexsort((instance.job_array("arrival"), -rho[:, -1]))
        order = order[able(jobs)[order]]
        room = Room(capacities(jobs), {})
        for job, kind in self._auction(jobs, order, rho).items():
            room.give(job, ((kind, int(jobs.demand[job])),))
        choose = fastest(jobs)
        for job in order.tolist():
            if not room.left:
                break
            if job not in room.given:
                room.start(job, choose)
        return plan_of(jobs, room.given), now

    def rho(self, instance: Instance, state: ThemisState | None = None) -> Floats:
        """(n, k + 1) rho of each job with its gang on each type for the next round, and (last) without GPUs.

        Infinite on types that cannot run the gang, and 0 for jobs that are finished or that nothing can run now.
        """
        jobs = present_entities(instance, "jobs", "Themis")
        return self._rho(jobs, self._advanced(jobs, state))

    def _rho(self, jobs: Entities, now: ThemisState) -> Floats:
        instance = jobs.source
        since = instance.time - np.array([now.seen[name] for name in jobs.names])
        crowd = np.array([now.crowd[name] for name in jobs.names])
        with np.errstate(divide="ignore", invalid="ignore"):
            many = np.where(since > 0, crowd / since, now.present) / jobs.weight  # N
            part = np.minimum(1.0 / (many * jobs.demand), 1.0 / jobs.capacity.sum())
            alone = instance.job_array("work") / ((jobs.speed @ jobs.capacity) * part)
            rho = finish_seconds(jobs, self.round_seconds) / alone[:, None]
        return np.where(able(jobs)[:, None], rho, 0.0)

    def _advanced(self, jobs: Entities, state: ThemisState | None) -> ThemisState:
        instance = jobs.source
        state = ThemisState(instance.time) if state is None else expect(ThemisState, state, "state", InvalidOption)
        passed = forward(instance, state.time) * state.present
        crowd = {name: state.crowd[name] + passed if name in state.crowd else 0.0 for name in jobs.names}
        seen = {name: state.seen.get(name, instance.time) for name in jobs.names}
        return ThemisState(instance.time, crowd, seen, float(jobs.weight.sum()))

    def _auction(self, jobs: Entities, order: NDArray[np.intp], rho: Floats) -> dict[int, int]:
        """Job -> GPU type of those who win GPUs."""
        asked = order[: max(1, math.ceil((1 - self.fairness) * len(order) - INTEGRAL))]
        gain = np.zeros(jobs.shape)
        e, k = np.nonzero(jobs.allowed & np.isin(np.arange(len(gain)), asked)[:, None])
        gain[e, k] = np.log(rho[e, -1] / rho[e, k])
        x = most_due(jobs, gain / jobs.demand[:, None], Options(time_limit=self.time_limit))
        choice = np.where(x.any(axis=1), x.argmax(axis=1), -1)
        cost = np.hstack([np.where(gain > 0, -gain, np.inf), np.zeros((len(gain), 1))])
        last = {jobs.names[e]: jobs.types[kind] for e, ((kind, _),) in gangs(jobs).items()}
        choice = settled(choice, cost, jobs, last)
        return {e: int(choice[e]) for e in np.flatnonzero(choice >= 0).tolist()}


def finish_seconds(jobs: Entities, lease: float) -> Floats:
    """(n, k + 1) seconds from each job's arrival to its end, with its gang on each type for one lease, or (last) idle.

    After the lease it counts as running on its fastest type: with s its speed in the lease, s* the best and w the work
    left, ``elapsed + w / s* + lease (1 - s / s*)``; where the lease suffices, ``elapsed + w / s``. Infinite on types
    that cannot run the gang.
    """
    instance = jobs.source
    elapsed = np.maximum(instance.time - instance.job_array("arrival"), 0.0)[:, None]
    work = instance.job_array("work_left")[:, None]
    speed = np.hstack([jobs.speed, np.zeros((len(work), 1))])
    with np.errstate(divide="ignore", invalid="ignore"):
        best = jobs.speed.max(axis=1, keepdims=True)
        longer = work / best + lease * (1 - speed / best)
        seconds = elapsed + np.where(speed * lease >= work, work / speed, longer)
    seconds[:, :-1][~jobs.allowed] = np.inf
    return seconds
