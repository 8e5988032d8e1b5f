"""HadarE: every job forked over the nodes, so that no node is idle while a job has work for it [Hadar, section V]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from hetopt.checks import FrozenDict, at_least, choices, expect, shown, whole
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.models.hadar.bids import Terms
from hetopt.models.hadar.market import ServerSeats
from hetopt.models.hadar.policy import plan_of
from hetopt.models.hadar.utilities import NegativeJCT, Utility, as_utility
from hetopt.models.hadare.assignment import SEVERAL, Assigned, Round, assign, fewest_in_the_last_round
from hetopt.models.hadare.beliefs import Beliefs
from hetopt.results.allocation import Plan

Initial = Callable[[Job, str], float]
"""(job, GPU type) -> throughput that is believed before any measurement, in any unit common to a job's types."""


@dataclass(frozen=True)
class HadarEState:
    """What HadarE remembers from one round to the next.

    Attributes
    ----------
    beliefs:
        Of the throughput of jobs on GPU types; None where throughputs are known.
    last:
        Job -> server -> GPU types of its copy there in the last round.
    """

    beliefs: Beliefs | None = None
    last: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        last = {job: FrozenDict(own) for job, own in self.last.items()}
        object.__setattr__(self, "last", FrozenDict(last))


@dataclass(frozen=True)
class HadarE:
    """Hadar over copies of jobs, of which each node runs one or none, and which share the work that their job has left.

    Each round nodes are given to the copies for which they pay most (:func:`~hetopt.models.hadare.assignment.assign`);
    the work left of a job is split over its nodes in proportion to their throughput; at the end what they have done is
    added up and their parameters are averaged (:func:`~hetopt.executor.averaging.consolidate`). A copy is a whole
    gang on one server; a job whose gang fits on no one server is not forked, and runs over several as under Hadar.

    Parameters
    ----------
    round_seconds:
        Length of a round.
    copies:
        Of each job at most, beside what the job itself says (:attr:`Job.copies <hetopt.Job>`); by default as many as
        there are servers.
    utility:
        Of jobs that name none: a utility or the name of one.
    restart_seconds:
        What a copy loses on a server on which its job did not run in the last round.
    worth:
        A copy is worth what it adds to the utility of its job (``"added"``), or as much as if it were the job's only
        one (``"alone"``, as Hadar sees copies that it is given as jobs).
    fill:
        A node that pays for nobody is given to the job that it helps most, so that none is idle.
    last_round:
        Where a round will finish all jobs, each runs on the fewest of its fastest nodes that finish it within the round
        (``"fastest"``, [Hadar, section V-A]), or on all (``"all"``), which is over sooner but keeps more nodes busy.
    initial:
        Throughput that is believed before a job was measured on a GPU type, such as equation (10); what was measured
        corrects it (:class:`~hetopt.models.hadare.beliefs.Beliefs`). By default throughputs are known from the start.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    round_seconds: float = 360.0
    copies: int | None = None
    utility: Utility | str = field(default_factory=NegativeJCT)
    restart_seconds: float = 10.0
    worth: Literal["added", "alone"] = "added"
    fill: bool = True
    last_round: Literal["fastest", "all"] = "fastest"
    initial: Initial | None = None

    def __post_init__(self) -> None:
        at_least(self.round_seconds, "HadarE.round_seconds", 0.0, InvalidOption, strict=True)
        at_least(self.restart_seconds, "HadarE.restart_seconds", 0.0, InvalidOption)
        if self.copies is not None:
            whole(self.copies, "HadarE.copies", 1)
        as_utility(self.utility, "HadarE.utility")
        if self.initial is not None and (isinstance(self.initial, type) or not callable(self.initial)):
            raise InvalidOption(
                f"HadarE.initial is {shown(self.initial)}; give a function (job, GPU type) -> throughput, such as one "
                "that asks hetopt.models.hadare.Estimate().throughput"
            )
        for key, known in (("worth", ("added", "alone")), ("last_round", ("fastest", "all"))):
            if (value := getattr(self, key)) not in known:
                raise InvalidOption(f"HadarE.{key} is {shown(value)}; {choices(str(value), known)}")
        if self.restart_seconds >= self.round_seconds:
            raise InvalidOption(
                f"HadarE.restart_seconds is {self.restart_seconds:g}; it must be less than round_seconds = "
                f"{self.round_seconds:g}, or no copy would ever train on a new node"
            )

    @property
    def mixes(self) -> bool:
        """Gangs may have GPUs of several types."""
        return True

    @property
    def places(self) -> bool:
        """It chooses servers itself."""
        return True

    def __call__(self, instance: Instance, state: HadarEState | None = None) -> tuple[Plan, HadarEState]:
        """The copies of the round that begins now, with the work that each is to do.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later, or a gang that does not fit on all GPUs that can run it.
        """
        jobs = present_entities(instance, "jobs", type(self).__name__, mixed=True)
        if state is not None:
            expect(HadarEState, state, "state", InvalidOption)
        beliefs = self._believed(instance, jobs, state)
        the = Round(
            instance,
            jobs if beliefs is None else _as_believed(jobs, beliefs),
            Terms(self.round_seconds, self.restart_seconds, utility=as_utility(self.utility, "HadarE.utility")),
            {} if state is None else {job: frozenset(own) for job, own in state.last.items()},
            len(instance.cluster.servers) if self.copies is None else int(self.copies),
            self.worth == "added",
        )
        assigned = assign(the, fill=self.fill)
        if self.last_round == "fastest":
            assigned = fewest_in_the_last_round(the, assigned)
        plan, last = _plan(instance, jobs, assigned)
        return plan, HadarEState(beliefs, last)

    def _believed(self, instance: Instance, jobs: Entities, state: HadarEState | None) -> Beliefs | None:
        """Beliefs with the estimates of new jobs, and with what the nodes of the last round have reported.

        A node reports steps per second; in an instance that is the throughput of the job on its slowest GPU there.
        """
        if self.initial is None:
            return None
        beliefs = Beliefs({}) if state is None or state.beliefs is None else state.beliefs
        able = {
            name: [t for k, t in enumerate(jobs.types) if jobs.task_speed[j, k] > 0]
            for name, j in jobs.position.items()
        }
        new = {name: own for name, own in able.items() if name not in beliefs.estimates}
        beliefs = beliefs.with_jobs({n: {t: self.initial(instance.job[n], t) for t in own} for n, own in new.items()})
        for name, copies in state.last.items() if state is not None else ():
            for types in set(copies.values()) if name in jobs.position else ():
                speed = {t: float(jobs.task_speed[jobs.position[name], jobs.types.index(t)]) for t in types}
                slowest = min(speed, key=lambda t: speed[t])
                beliefs = beliefs.measured(name, slowest, speed[slowest])
        return beliefs


def _as_believed(jobs: Entities, beliefs: Beliefs) -> Entities:
    """The jobs with the throughputs that are believed."""
    believed = jobs.task_speed.copy()
    for name, j in jobs.position.items():
        for k, t in enumerate(jobs.types):
            if believed[j, k] > 0:
                believed[j, k] = beliefs.throughput(name, t)
    return replace(jobs, speed=np.where(jobs.speed > 0, believed, 0.0), any_type=believed)


def _plan(instance: Instance, jobs: Entities, assigned: Assigned) -> tuple[Plan, dict[str, dict[str, tuple[str, ...]]]]:
    """The plan with its placement, and job -> server -> GPU types."""
    servers = instance.cluster.servers
    seats: dict[str, ServerSeats] = {}
    dispatch: dict[str, dict[str, float]] = {}
    for j, own in assigned.items():
        name, every = jobs.names[j], sum(copy.rate for copy in own.values())
        seats[name] = tuple(seat for _, copy in sorted(own.items()) for seat in copy.seats)
        if SEVERAL not in own:
            left = instance.work_left(name)
            dispatch[name] = {servers[h].name: left * copy.rate / every for h, copy in sorted(own.items())}
    plan = plan_of(instance, jobs, seats, dispatch)
    assert plan.placement is not None
    hosts = plan.placement.hosts
    return plan, {name: {server: tuple(own) for server, own in there.items()} for name, there in hosts.items()}
