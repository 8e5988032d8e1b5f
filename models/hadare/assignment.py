"""Which node runs a copy of which job in a round: one copy after another, each where it pays most."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.models.hadar.bids import Terms, levels_of, opened, seats_now
from hetopt.models.hadar.market import Market, ServerSeats, Types
from hetopt.models.hadar.offers import Bid, find_offer
from hetopt.models.hadar.utilities import utility_of
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
    seats: ServerSeats


@dataclass(frozen=True, eq=False)
class Round:
    """What the nodes can do for the jobs in one round.

    Attributes
    ----------
    instance:
        The jobs and servers.
    jobs:
        The jobs, with the throughputs that are believed.
    terms:
        Round length, restart, utility.
    last:
        Job -> servers that ran a copy of it in the last round.
    most:
        Copies of a job at most.
    added:
        A copy is worth what it adds to its job's utility, not as much as if it were the only one.
    """

    instance: Instance
    jobs: Entities
    terms: Terms
    last: Mapping[str, frozenset[str]]
    most: int
    added: bool

    def market(self) -> tuple[Market, dict[int, Bid]]:
        """Empty servers with this round's prices, and the bids of the jobs whose gang fits on no one server."""
        market, appraised = opened(self.instance, self.jobs, self.terms, seats_now(self.instance))
        servers = range(len(self.instance.cluster.servers))
        fits = {a.bid.job for a in appraised if any(next(self.copies(market, a.bid.job, h), None) for h in servers)}
        return market, {a.bid.job: a.bid for a in appraised if a.bid.job not in fits}

    def spread(self, market: Market, bid: Bid) -> Iterator[CopyOn]:
        """The gang of a job that fits on no one server, over several as Hadar would have it."""
        if (offer := find_offer(market, bid)) is not None:
            yield self._copy(bid.job, offer.seats, stays=offer.seats == bid.now)

    def copies(self, market: Market, j: int, h: int) -> Iterator[CopyOn]:
        """The gangs that job j may have on server h: for each speed the cheapest GPUs that are fast enough."""
        need, name = int(self.jobs.demand[j]), self.instance.cluster.servers[h].name
        for types in self._types[j]:
            if len(market.costs(types)[h]) > need:
                yield self._copy(j, market.seats(h, types, need), stays=name in self.last.get(self.jobs.names[j], ()))

    def _copy(self, j: int, seats: ServerSeats, *, stays: bool) -> CopyOn:
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

    def payoff(self, market: Market, j: int, copy: CopyOn, rate: float) -> float:
        """What the copy adds, less the price of its GPUs until the job is done; ``rate`` of the copies that it has."""
        already = rate if self.added else 0.0
        gain = self.worth(j, already + copy.steady) - (self.worth(j, already) if self.added else 0.0)
        left = self.instance.work_left(self.jobs.names[j])
        slots = max(1, math.ceil(left / (rate + copy.steady) / self.terms.round_seconds - WORK))
        return gain - slots * market.cost(copy.seats)


def assign(the: Round, *, fill: bool) -> Assigned:
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

    the: Round
    market: Market
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


def fewest_in_the_last_round(the: Round, assigned: Assigned) -> Assigned:
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
