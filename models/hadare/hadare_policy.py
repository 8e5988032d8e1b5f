"""HadarE: every job forked over the nodes, so that no node is idle while a job has work for it [Hadar, section V]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect, one_of, shown, whole
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.hadar.appraisal import RoundSettings
from hetopt.models.hadar.hadar_policy import placed_plan
from hetopt.models.hadar.round_market import ServerGPUs
from hetopt.models.hadar.utilities import NegativeJCT, Utility, as_utility
from hetopt.models.hadare.copy_assignment import SEVERAL, Assigned, ForkingRound, assign
from hetopt.models.hadare.corrected_throughput import ThroughputEstimates
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK


def fewest_in_the_last_round(forking: ForkingRound, assigned: Assigned) -> Assigned:
    """If the round finishes all jobs: for each job the fewest of its fastest copies that finish it within the round.

    The paper takes the nodes that finished first in the previous round [Hadar, section V-A]; with steps split in
    proportion to throughput all nodes finish together. So the fastest are taken, in ties those that ran the job before.
    """
    names, seconds = forking.jobs.names, forking.settings.round_seconds
    left = {j: forking.instance.work_left(name) for j, name in enumerate(names)}
    ends = all(sum(c.steady for c in assigned.get(j, {}).values()) * seconds >= left[j] * (1 - WORK) for j in left)
    if not ends:
        return assigned
    fewer: Assigned = {}
    for j, own in assigned.items():
        order = sorted(own, key=lambda h: (-own[h].rate, own[h].steady < own[h].rate, h))
        done, kept = 0.0, {}
        for h in order:
            if done >= left[j] * (1 - WORK):
                break
            kept[h] = own[h]
            done += own[h].steady * seconds
        fewer[j] = kept
    return fewer


Initial = Callable[[Job, str], float]
"""(job, GPU type) -> initial throughput before any measurement, in any unit common to a job's types."""


@dataclass(frozen=True)
class HadarEState:
    """State of HadarE between rounds.

    Attributes
    ----------
    estimates:
        Estimated throughputs of jobs on GPU types; None if throughputs are known.
    last:
        Job -> server -> GPU types of its copy there in the last round.
    """

    estimates: ThroughputEstimates | None = None
    last: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        last = {job: FrozenDict(own) for job, own in self.last.items()}
        object.__setattr__(self, "last", FrozenDict(last))


@dataclass(frozen=True)
class HadarE:
    """Hadar over copies of jobs: each node runs at most one copy, and copies share the remaining work of their job.

    Each round nodes are assigned to the copies with the largest payoff
    (:func:`~hetopt.models.hadare.copy_assignment.assign`); the work left of a job is split over its nodes in proportion
    to their throughput; at the end of the round the work done is summed and their parameters are averaged
    (:func:`~hetopt.executor.averaging.consolidate`). A copy is a whole gang on one server; a job whose gang fits on no
    single server is not forked, and runs on several servers as under Hadar.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    copies:
        Largest number of copies of each job, besides the limit of the job itself (:attr:`Job.copies <hetopt.Job>`); by
        default the number of servers.
    utility:
        Utility of jobs that name none: a utility or its name.
    restart_seconds:
        Time that a copy loses on a server on which its job did not run in the last round.
    worth:
        Value of a copy: what it adds to the utility of its job (``"added"``), or the utility as the job's only copy
        (``"alone"``, as if copies were jobs under Hadar).
    fill:
        Assign nodes without a positive payoff to the job with the largest payoff, so that no node is idle.
    last_round:
        If a round will finish all jobs, each runs on the fewest of its fastest nodes that finish it within the round
        (``"fastest"``, [Hadar, section V-A]), or on all nodes (``"all"``), which finishes sooner but keeps more nodes
        busy.
    initial:
        Initial throughput before a job was measured on a GPU type, such as equation (10); measurements correct it
        (:class:`~hetopt.models.hadare.corrected_throughput.ThroughputEstimates`). By default throughputs are known from
        the start.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    round_seconds: float = GAVEL_ROUND_SECONDS
    copies: int | None = None
    utility: Utility | str = field(default_factory=NegativeJCT)
    restart_seconds: float = 10.0
    worth: Literal["added", "alone"] = "added"
    fill: bool = True
    last_round: Literal["fastest", "all"] = "fastest"
    initial: Initial | None = None

    def __post_init__(self) -> None:
        check_round_seconds(self)
        at_least(self.restart_seconds, "HadarE.restart_seconds", 0.0, InvalidOption)
        if self.copies is not None:
            whole(self.copies, "HadarE.copies", 1)
        as_utility(self.utility, "HadarE.utility")
        if self.initial is not None and (isinstance(self.initial, type) or not callable(self.initial)):
            raise InvalidOption(
                f"is {shown(self.initial)}; it must be a function (job, GPU type) -> throughput, "
                "e.g. based on hetopt.models.hadare.Estimate().throughput",
                "HadarE.initial",
            )
        one_of(self.worth, ("added", "alone"), "HadarE.worth")
        one_of(self.last_round, ("fastest", "all"), "HadarE.last_round")
        if self.restart_seconds >= self.round_seconds:
            raise InvalidOption(
                f"is {self.restart_seconds:g}; it must be less than round_seconds = "
                f"{self.round_seconds:g}, or a copy on a new node would do no work",
                "HadarE.restart_seconds",
            )

    @property
    def traits(self) -> Traits:
        """It decides in rounds, chooses servers, mixes GPU types and forks jobs."""
        idles = "a server runs at most one copy"
        return Traits(self.round_seconds, places=True, mixes=True, forks=True, idles=idles)

    def __call__(self, instance: Instance, state: HadarEState | None = None) -> tuple[Plan, HadarEState]:
        """The plan of the round that begins now with the work of each copy, and the next state.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later, or a gang that does not fit on all GPUs that can run it.
        """
        jobs = present_entities(instance, "jobs", type(self).__name__, mixed=True)
        if state is not None:
            expect(HadarEState, state, "state", InvalidOption)
        estimates = self._updated_estimates(instance, jobs, state)
        forking = ForkingRound(
            instance,
            jobs if estimates is None else _with_estimates(jobs, estimates),
            RoundSettings(self.round_seconds, self.restart_seconds, utility=as_utility(self.utility, "HadarE.utility")),
            {} if state is None else {job: frozenset(own) for job, own in state.last.items()},
            len(instance.cluster.servers) if self.copies is None else int(self.copies),
            self.worth == "added",
        )
        assigned = assign(forking, fill=self.fill)
        if self.last_round == "fastest":
            assigned = fewest_in_the_last_round(forking, assigned)
        plan, last = _plan(instance, jobs, assigned)
        return plan, HadarEState(estimates, last)

    def _updated_estimates(
        self, instance: Instance, jobs: Entities, state: HadarEState | None
    ) -> ThroughputEstimates | None:
        """Estimates with new jobs, and with the measurements of the last round.

        A node reports steps per second; in an instance that is the throughput of the job on its slowest GPU there.
        """
        if self.initial is None:
            return None
        estimates = ThroughputEstimates({}) if state is None or state.estimates is None else state.estimates
        able = {
            name: [t for k, t in enumerate(jobs.types) if jobs.task_speed[j, k] > 0]
            for name, j in jobs.position.items()
        }
        new = {name: own for name, own in able.items() if name not in estimates.estimates}
        estimates = estimates.with_jobs(
            {n: {t: self.initial(instance.job[n], t) for t in own} for n, own in new.items()}
        )
        for name, copies in state.last.items() if state is not None else ():
            for types in set(copies.values()) if name in jobs.position else ():
                speed = {t: float(jobs.task_speed[jobs.position[name], jobs.types.index(t)]) for t in types}
                slowest = min(speed, key=lambda t: speed[t])
                estimates = estimates.measured(name, slowest, speed[slowest])
        return estimates


def _with_estimates(jobs: Entities, estimates: ThroughputEstimates) -> Entities:
    """The jobs with estimated throughputs."""
    estimated = jobs.task_speed.copy()
    for name, j in jobs.position.items():
        for k, t in enumerate(jobs.types):
            if estimated[j, k] > 0:
                estimated[j, k] = estimates.throughput(name, t)
    return replace(jobs, speed=np.where(jobs.speed > 0, estimated, 0.0), any_type=estimated)


def _plan(instance: Instance, jobs: Entities, assigned: Assigned) -> tuple[Plan, dict[str, dict[str, tuple[str, ...]]]]:
    """The plan with its placement, and job -> server -> GPU types."""
    servers = instance.cluster.servers
    placed: dict[str, ServerGPUs] = {}
    dispatch: dict[str, dict[str, float]] = {}
    for j, own in assigned.items():
        name, every = jobs.names[j], sum(copy.rate for copy in own.values())
        placed[name] = tuple(seat for _, copy in sorted(own.items()) for seat in copy.gpus)
        if SEVERAL not in own:
            left = instance.work_left(name)
            dispatch[name] = {servers[h].name: left * copy.rate / every for h, copy in sorted(own.items())}
    plan = placed_plan(instance, jobs, placed, dispatch)
    assert plan.placement is not None
    hosts = plan.placement.hosts
    return plan, {name: {server: tuple(own) for server, own in there.items()} for name, there in hosts.items()}
