"""Which node runs a copy of which job in a round: one copy after another, each where it pays most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.models.hadar.bids import Terms, appraise, price_bounds, serial_seconds
from hetopt.models.hadar.market import Market, Seats
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
    seats: Seats


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
        appraised = appraise(self.instance, self.jobs, self.terms, {}, serial_seconds(self.instance, self.jobs))
        market = Market.of(self.instance.cluster, *price_bounds(appraised, self.jobs.capacity))
        servers = range(len(self.instance.cluster.servers))
        wide = {a.bid.job: a.bid for a in appraised if not any(self.copy(market, a.bid.job, h) for h in servers)}
        return market, wide

    def spread(self, market: Market, bid: Bid) -> CopyOn | None:
        """The gang of a job that fits on no one server, over several as Hadar would have it."""
        offer = find_offer(market, bid)
        if offer is None:
            return None
        rate = min(float(self.jobs.task_speed[bid.job, k]) for _, k, _ in offer.seats)
        lost = self.terms.restart_seconds if self.jobs.names[bid.job] not in self.last else 0.0
        return CopyOn(rate, rate * (1 - lost / self.terms.round_seconds), offer.seats)

    def copy(self, market: Market, j: int, h: int) -> CopyOn | None:
        """The fastest gang of job j on server h, on the slowest GPUs that are fast enough; None without room."""
        speed, free, need = self.jobs.task_speed[j].tolist(), market.free[h], int(self.jobs.demand[j])
        taken: list[int] = []
        for k in sorted((k for k, v in enumerate(speed) if v > 0 and free[k]), key=lambda k: -speed[k]):
            taken.append(k)
            if sum(free[k] for k in taken) >= need:
                return self._seated(j, h, speed, free, taken)
        return None

    def _seated(self, j: int, h: int, speed: list[float], free: list[int], types: list[int]) -> CopyOn:
        left, seats = int(self.jobs.demand[j]), []
        for k in reversed(types):
            if (n := min(left, free[k])) > 0:
                seats.append((h, k, n))
                left -= n
        rate = min(speed[k] for _, k, _ in seats)
        stays = self.instance.cluster.servers[h].name in self.last.get(self.jobs.names[j], ())
        lost = 0.0 if stays else self.terms.restart_seconds
        return CopyOn(rate, rate * (1 - lost / self.terms.round_seconds), tuple(sorted(seats)))

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
    """Copies that are given out one by one, and what every further copy would pay."""

    the: Round
    market: Market
    wide: dict[int, Bid]
    assigned: Assigned = field(default_factory=dict)

    def run(self, least: float) -> Assigned:
        """All copies that pay more than ``least``; of equal ones that of the job, then of the server, named first."""
        jobs, servers = range(len(self.the.jobs.names)), range(len(self.market.free))
        offers = {
            (j, h): found
            for j in jobs
            for h in ([SEVERAL] if j in self.wide else servers)
            if (found := self._offer(j, h)) is not None
        }
        while offers:
            (j, h), (payoff, copy) = max(offers.items(), key=lambda offer: offer[1][0])
            if payoff <= least:
                break
            self.market.take(copy.seats)
            self.assigned.setdefault(j, {})[h] = copy
            taken = {server for server, _, _ in copy.seats}
            for at in [at for at in offers if at[0] == j or at[1] in taken or at[1] == SEVERAL]:
                found = self._offer(*at)
                if found is None:
                    del offers[at]
                else:
                    offers[at] = found
        return self.assigned

    def _offer(self, j: int, h: int) -> tuple[float, CopyOn] | None:
        """What a further copy pays there now; None where there is no room for it, or the job has enough."""
        own = self.assigned.get(j, {})
        if h in own or len(own) >= self.the.most or self.the.instance.work_left(self.the.jobs.names[j]) <= 0:
            return None
        copy = self.the.spread(self.market, self.wide[j]) if h == SEVERAL else self.the.copy(self.market, j, h)
        if copy is None:
            return None
        return self.the.payoff(self.market, j, copy, sum(c.steady for c in own.values())), copy


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
