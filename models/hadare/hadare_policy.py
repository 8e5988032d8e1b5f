"""HadarE: every job forked over the nodes, so that no node is idle while a job has work for it [Hadar, section V]."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from hetopt.checks import FrozenDict, at_least, choices, expect, shown, whole
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.models.hadar.appraisal import RoundSettings, levels_of, opened, seats_now
from hetopt.models.hadar.hadar_policy import plan_of
from hetopt.models.hadar.round_market import Bid, GPUMarket, ServerGPUs, Types, find_offer
from hetopt.models.hadar.utilities import NegativeJCT, Utility, as_utility, utility_of
from hetopt.models.hadare.corrected_throughput import ThroughputEstimates
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK

Assigned = dict[int, dict[int, "CopyOn"]]
"""Job -> server -> its copy there, as positions."""

SEVERAL = -1
"""Stands for the servers of a job that is not forked, since its gang fits on no one server."""


@dataclass(frozen=True)
class CopyOn:
    """A copy on one server.

    Attributes
    ----------
    rate:
        Work per second.
    steady:
        The same less what a restart takes of the round.
    seats:
        Its GPUs.
    """

    rate: float
    steady: float
    seats: ServerGPUs


@dataclass(frozen=True, eq=False)
class ForkingRound:
    """What the nodes can do for the jobs in one round.

    Attributes
    ----------
    instance:
        The jobs and servers.
    jobs:
        The jobs, with the throughputs that are believed.
    terms:
        ForkingRound length, restart, utility.
    last:
        Job -> servers that ran a copy of it in the last round.
    most:
        Copies of a job at most.
    added:
        A copy is worth what it adds to its job's utility, not as much as if it were the only one.
    """

    instance: Instance
    jobs: Entities
    terms: RoundSettings
    last: Mapping[str, frozenset[str]]
    most: int
    added: bool

    def market(self) -> tuple[GPUMarket, dict[int, Bid]]:
        """Empty servers with this round's prices, and the bids of the jobs whose gang fits on no one server."""
        market, appraised = opened(self.instance, self.jobs, self.terms, seats_now(self.instance))
        servers = range(len(self.instance.cluster.servers))
        fits = {a.bid.job for a in appraised if any(next(self.copies(market, a.bid.job, h), None) for h in servers)}
        return market, {a.bid.job: a.bid for a in appraised if a.bid.job not in fits}

    def spread(self, market: GPUMarket, bid: Bid) -> Iterator[CopyOn]:
        """The gang of a job that fits on no one server, over several as Hadar would have it."""
        if (offer := find_offer(market, bid)) is not None:
            yield self._copy(bid.job, offer.seats, stays=offer.seats == bid.now)

    def copies(self, market: GPUMarket, j: int, h: int) -> Iterator[CopyOn]:
        """The gangs that job j may have on server h: for each speed the cheapest GPUs that are fast enough."""
        need, name = int(self.jobs.demand[j]), self.instance.cluster.servers[h].name
        for types in self._types[j]:
            if len(market.costs(types)[h]) > need:
                yield self._copy(j, market.seats(h, types, need), stays=name in self.last.get(self.jobs.names[j], ()))

    def _copy(self, j: int, seats: ServerGPUs, *, stays: bool) -> CopyOn:
        rate = min(float(self.jobs.task_speed[j, k]) for _, k, _ in seats)
        lost = 0.0 if stays else self.terms.restart_seconds
        return CopyOn(rate, rate * (1 - lost / self.terms.round_seconds), seats)

    @cached_property
    def _types(self) -> list[list[Types]]:
        """For each job and each of its speeds, the fastest first: the GPU types that are not slower."""
        return [[types for _, types in levels_of(row)] for row in self.jobs.task_speed_now.tolist()]

    def worth(self, j: int, rate: float) -> float:
        """Utility of job j if it went on at this rate, 0 if it never ends."""
        if rate <= 0:
            return 0.0
        job = self.instance.jobs[j]
        seconds = self.instance.time - job.arrival + self.instance.work_left(job.name) / rate
        return float(np.asarray(utility_of(job, self.terms.utility)(job, np.array(seconds))))

    def payoff(self, market: GPUMarket, j: int, copy: CopyOn, rate: float) -> float:
        """What the copy adds, less the price of its GPUs until the job is done; ``rate`` of the copies that it has."""
        already = rate if self.added else 0.0
        gain = self.worth(j, already + copy.steady) - (self.worth(j, already) if self.added else 0.0)
        left = self.instance.work_left(self.jobs.names[j])
        slots = max(1, math.ceil(left / (rate + copy.steady) / self.terms.round_seconds - WORK))
        return gain - slots * market.cost(copy.seats)


def assign(the: ForkingRound, *, fill: bool) -> Assigned:
    """The copies of the round, each time the one that pays most next; at most one of a job on a server.

    Parameters
    ----------
    fill:
        Go on where none pays, so that no server is idle that could run a copy.

    Returns
    -------
    dict
        Job -> server -> its copy, as positions; the server is :data:`SEVERAL` for a job that is not forked, since its
        gang fits on no one server.
    """
    return _Assignment(the, *the.market()).run(-math.inf if fill else 0.0)


@dataclass
class _Assignment:
    """Copies that are given out one by one, and a heap of what every further copy would pay.

    As servers fill, there are fewer GPUs to choose from at higher prices. So a copy there pays less and less, an entry
    of the heap is never too low, and it is looked at again when its turn comes. When a job gets a copy, its others are
    worth another amount, more or less, and enter anew.
    """

    the: ForkingRound
    market: GPUMarket
    wide: dict[int, Bid]
    assigned: Assigned = field(default_factory=dict)
    heap: list[tuple[float, int, int, int]] = field(default_factory=list)

    def run(self, least: float) -> Assigned:
        """All copies that pay more than ``least``; of equal ones that of the job, then of the server, named first."""
        for j in range(len(self.the.jobs.names)):
            self._enter(j)
        while self.heap:
            entered, j, h, copies = heapq.heappop(self.heap)
            if copies != len(self.assigned.get(j, {})) or (offer := self._offer(j, h)) is None:
                continue
            payoff, copy = offer
            if payoff < -entered:
                heapq.heappush(self.heap, (-payoff, j, h, copies))
            elif payoff <= least:
                break
            else:
                self.market.take(copy.seats)
                self.assigned.setdefault(j, {})[h] = copy
                self._enter(j)
        return self.assigned

    def _enter(self, j: int) -> None:
        """What a further copy of the job pays on each server."""
        copies = len(self.assigned.get(j, {}))
        for h in [SEVERAL] if j in self.wide else range(len(self.market.free)):
            if (offer := self._offer(j, h)) is not None:
                heapq.heappush(self.heap, (-offer[0], j, h, copies))

    def _offer(self, j: int, h: int) -> tuple[float, CopyOn] | None:
        """What a further copy pays there now; None where there is no room for it, or the job has enough."""
        own = self.assigned.get(j, {})
        most = min(self.the.most, self.the.instance.jobs[j].copies or self.the.most)
        if h in own or len(own) >= most or self.the.instance.work_left(self.the.jobs.names[j]) <= 0:
            return None
        if h == SEVERAL:
            copies = self.the.spread(self.market, self.wide[j])
        else:
            copies = self.the.copies(self.market, j, h)
        rate = sum(copy.steady for copy in own.values())
        paid = [(self.the.payoff(self.market, j, copy, rate), copy) for copy in copies]
        return max(paid, key=lambda offer: offer[0], default=None)


def fewest_in_the_last_round(the: ForkingRound, assigned: Assigned) -> Assigned:
    """Where the round finishes all jobs: of each the fewest of its fastest copies that finish it within the round.

    The paper takes those nodes that were done first in the round before [Hadar, section V-A], which for steps split in
    proportion to throughput are none in particular; the fastest are taken, of equals those that ran the job before.
    """
    names, seconds = the.jobs.names, the.terms.round_seconds
    left = {j: the.instance.work_left(name) for j, name in enumerate(names)}
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

    beliefs: ThroughputEstimates | None = None
    last: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        last = {job: FrozenDict(own) for job, own in self.last.items()}
        object.__setattr__(self, "last", FrozenDict(last))


@dataclass(frozen=True)
class HadarE:
    """Hadar over copies of jobs, of which each node runs one or none, and which share the work that their job has left.

    Each round nodes are given to the copies for which they pay most
    (:func:`~hetopt.models.hadare.hadare_policy.assign`); the work left of a job is split over its nodes in proportion
    to their throughput; at the end what they have done is added up and their parameters are averaged
    (:func:`~hetopt.executor.averaging.consolidate`). A copy is a whole gang on one server; a job whose gang fits on no
    one server is not forked, and runs over several as under Hadar.

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
        corrects it (:class:`~hetopt.models.hadare.corrected_throughput.ThroughputEstimates`). By default throughputs
        are known from the start.

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
        the = ForkingRound(
            instance,
            jobs if beliefs is None else _as_believed(jobs, beliefs),
            RoundSettings(self.round_seconds, self.restart_seconds, utility=as_utility(self.utility, "HadarE.utility")),
            {} if state is None else {job: frozenset(own) for job, own in state.last.items()},
            len(instance.cluster.servers) if self.copies is None else int(self.copies),
            self.worth == "added",
        )
        assigned = assign(the, fill=self.fill)
        if self.last_round == "fastest":
            assigned = fewest_in_the_last_round(the, assigned)
        plan, last = _plan(instance, jobs, assigned)
        return plan, HadarEState(beliefs, last)

    def _believed(self, instance: Instance, jobs: Entities, state: HadarEState | None) -> ThroughputEstimates | None:
        """Beliefs with the estimates of new jobs, and with what the nodes of the last round have reported.

        A node reports steps per second; in an instance that is the throughput of the job on its slowest GPU there.
        """
        if self.initial is None:
            return None
        beliefs = ThroughputEstimates({}) if state is None or state.beliefs is None else state.beliefs
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


def _as_believed(jobs: Entities, beliefs: ThroughputEstimates) -> Entities:
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
    seats: dict[str, ServerGPUs] = {}
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
