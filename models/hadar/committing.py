"""The version of Hadar that the guarantee is about, as a policy: a job is given all its slots at once, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, expect, whole
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.hadar.irrevocable import Irrevocable, commit
from hetopt.models.hadar.market import ServerSeats
from hetopt.models.hadar.policy import plan_of
from hetopt.models.hadar.prices import Prices
from hetopt.models.hadar.problem import Integers, Problem
from hetopt.models.hadar.schedules import Schedule
from hetopt.models.hadar.utilities import NegativeJCT, Utility, as_utility
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK


@dataclass(frozen=True, eq=False)
class Commitments:
    """What has been promised; the state of :class:`Committing`.

    Attributes
    ----------
    cluster:
        Whose GPUs.
    start:
        Second at which slot 0 begins.
    prices:
        The price function.
    used:
        (T, C) GPUs promised.
    schedules:
        Job -> its schedule, or None where it was refused.
    """

    cluster: Cluster
    start: float
    prices: Prices
    used: Integers
    schedules: Mapping[str, Schedule | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", FrozenDict(self.schedules))


@dataclass(frozen=True)
class Committing:
    """Commits each job, when it is first seen, to its best schedule over the slots left, or refuses it for good.

    The bounds of prices are those of the jobs that are there at the first call. With ``prices="proven"`` the guarantee
    of :class:`~hetopt.models.hadar.irrevocable.Irrevocable` holds if no later job is worth more or less than these, no
    later gang is larger, and restarts take no time; it needs servers with more GPUs of each type than any gang has, so
    printed prices are the default. GPUs are never promised twice. A job that is not done at the end of its schedule,
    because of restarts, is seen anew.

    Parameters
    ----------
    slots:
        T, rounds from the first call on for which GPUs can be promised.
    round_seconds:
        Length of a round.
    utility:
        Of jobs that name none: a utility or the name of one.
    prices, delta, eta:
        As of :class:`~hetopt.models.hadar.irrevocable.Irrevocable`.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    slots: int = 100
    round_seconds: float = 360.0
    utility: Utility | str = field(default_factory=NegativeJCT)
    prices: str = "printed"
    delta: float | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        whole(self.slots, "Committing.slots", 1)
        at_least(self.round_seconds, "Committing.round_seconds", 0.0, InvalidOption, strict=True)
        as_utility(self.utility, "Committing.utility")
        self.rule  # noqa: B018 - refuses other prices

    @property
    def rule(self) -> Irrevocable:
        """How a job is committed."""
        return Irrevocable(self.prices, self.delta, self.eta)

    @property
    def places(self) -> bool:
        """It chooses servers itself."""
        return True

    @property
    def ends(self) -> bool:
        """After its last slot it runs nobody any more."""
        return True

    def __call__(self, instance: Instance, state: Commitments | None = None) -> tuple[Plan, Commitments | None]:
        """Who runs where in the round that begins now, as promised; the state holds the promises.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later, a gang too large; other servers than at the first call; or prices are not
            defined (a gang may fill a server).
        """
        jobs = present_entities(instance, "jobs", type(self).__name__, mixed=True)
        if state is not None and expect(Commitments, state, "state", InvalidOption).cluster != instance.cluster:
            raise InvalidInstance("the servers are not those for which GPUs were promised; begin without a state")
        start = instance.time if state is None else state.start
        there = tuple(job for job, speeds in zip(instance.jobs, jobs.task_speed_now, strict=True) if speeds.any())
        if not there and state is None:  # no job by which prices could be set
            return plan_of(instance, jobs, {}), None
        slot, seats, refused = math.floor((instance.time - start) / self.round_seconds + WORK), {}, 0
        if there:
            now = instance.replace(jobs=there, time=start, **_of(instance, there))
            problem = Problem.of(now, int(self.slots), self.round_seconds, self.utility)
            problem = replace(problem, first=np.maximum(problem.first, slot))
            if state is None:
                state = Commitments(instance.cluster, start, self.rule.price_function(problem), problem.none_used())
            state = self._committed(problem, state, slot)
            for job in there:
                schedule = state.schedules[job.name]
                refused += schedule is None
                if schedule is not None and (own := _seats(problem, schedule, slot)):
                    seats[job.name] = own
        plan = plan_of(instance, jobs, seats)
        return replace(plan, given_up={**plan.given_up, "refused": float(refused)}), state

    def _committed(self, problem: Problem, state: Commitments, slot: int) -> Commitments:
        """``state`` and the promises to jobs that have none."""
        schedules, used = dict(state.schedules), state.used.copy()
        names = [job.name for job in problem.instance.jobs]
        over = {name for name, own in schedules.items() if own is not None and own.last < slot}
        order = [j for j, name in enumerate(names) if name not in schedules or name in over]
        order.sort(key=lambda j: problem.instance.jobs[j].arrival)
        for j, _, schedule in commit(problem, state.prices, order, used, proven=self.rule.is_proven):
            schedules[names[j]] = schedule
        gone = schedules.keys() - set(names)
        return replace(state, used=used, schedules={n: s for n, s in schedules.items() if n not in gone})


def _of(instance: Instance, jobs: tuple[Job, ...]) -> dict[str, Any]:
    """What the instance says of these jobs alone."""
    names = {job.name for job in jobs}
    tables = {key: getattr(instance, key) for key in ("held", "done", "placed")}
    return {key: {name: row for name, row in table.items() if name in names} for key, table in tables.items()}


def _seats(problem: Problem, schedule: Schedule, slot: int) -> ServerSeats:
    """(server, GPU type, GPUs) as positions."""
    servers = {server.name: h for h, server in enumerate(problem.instance.cluster.servers)}
    own = schedule.by_slot.get(slot, ())
    return tuple((servers[problem.cells[c][0]], int(problem.kind[c]), n) for c, n in own)
