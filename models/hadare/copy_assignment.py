"""Assignment of HadarE's copies to servers: repeatedly the copy with the largest payoff.

A copy of job j on server h has a payoff for each speed v that its gang may have there, and takes the largest:

    payoff[j, h] = max over v of  gain[j, v] - slots[j, v] * cost[types[j, v], demand[j], h]

where the gang takes the cheapest free GPUs of h among the types that are not slower than v. If these are all faster
than v, they are also the cheapest for some faster speed, with no smaller gain and no more slots. So the first of the
best speeds, the fastest first, is that of the slowest GPU. Gain and slots depend on the job alone, the cost on the
server alone: all payoffs are a few operations on arrays.

An assigned copy changes only the payoffs on its server, whose prices rise and whose free GPUs go, and those of its job,
to which a further copy adds less. :class:`LargestEntry` then finds the largest payoff of n jobs and H servers in
O((n + H) sqrt(n)) steps instead of n H.

A gang that fits on no single server runs on several, and its payoff is that of Hadar: its gain less the price of its
GPUs and the cost of communication. After each copy many such payoffs are too high. So those that become the largest are
searched again, and after :data:`SEARCHES` searches all are bounded from above at once: prices only rise, free GPUs only
go, so a payoff never rises, and with v the gain, s the slots and w the weight of communication against price,

    payoff = v - s * f(w),    f(w) = min over GPUs of price + w * cards,

where f is a minimum of functions that are linear in w: concave, so above its chords between a few weights at which it
is known (:meth:`~hetopt.models.hadar.round_market.GPUMarket.least_spread`). The gang with the largest bound is searched
exactly before it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hetopt.data.array_types import Floats, Integers, Positions
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.models.hadar.appraisal import RoundSettings, open_market, placed_gpus
from hetopt.models.hadar.round_market import Bid, GPUMarket, ServerGPUs, SpreadBids, find_offer
from hetopt.models.hadar.utilities import utility_of
from hetopt.tolerances import WORK

Assigned = dict[int, dict[int, "CopyOn"]]
"""Job -> server -> its copy there, as positions."""

SEARCHES = 8
"""Searches for gangs on several servers after a copy was assigned; then the payoffs of all such gangs are bounded."""

SEVERAL = -1
"""Stands for the servers of a job that is not forked, because its gang fits on no single server."""


@dataclass(frozen=True)
class CopyOn:
    """A copy on one server.

    Attributes
    ----------
    rate:
        Work per second.
    steady:
        Average rate over the round, including a restart.
    gpus:
        Its GPUs.
    """

    rate: float
    steady: float
    gpus: ServerGPUs


@dataclass(frozen=True, eq=False)
class ForkingRound:
    """The jobs and servers of one round.

    Attributes
    ----------
    instance:
        The jobs and servers.
    jobs:
        The jobs, with estimated throughputs.
    settings:
        Round length, restart time, utility.
    last:
        Job -> servers that ran a copy of it in the last round.
    most:
        Largest number of copies of a job.
    added:
        The value of a copy is what it adds to its job's utility, not the utility as the only copy.
    """

    instance: Instance
    jobs: Entities
    settings: RoundSettings
    last: Mapping[str, frozenset[str]]
    most: int
    added: bool

    @cached_property
    def paces(self) -> Floats:
        """(k, n) the speeds that each job's gang may have, in descending order; 0 where there are fewer."""
        return np.ascontiguousarray(-np.sort(-self.jobs.task_speed_now, axis=1).T)

    def running(self, *, stays: bool) -> float:
        """The part of the round in which a copy runs, without its restart."""
        return 1 - (0.0 if stays else self.settings.restart_seconds) / self.settings.round_seconds

    def most_copies(self, j: int) -> int:
        """Largest number of copies of job j."""
        return min(self.most, self.instance.jobs[j].copies or self.most)

    def values(self, jobs: Positions, rate: Floats) -> tuple[Floats, Floats]:
        """Gain of one more copy of each of these jobs at each pace, and the slots that it pays for.

        Parameters
        ----------
        rate:
            (r,) rate of the other copies of each job.

        Returns
        -------
        tuple
            Twice (2, k, r): with a restart, and without. The gain is minus infinity where the job has no such pace.
        """
        left, paces = self.instance.job_array("work_left")[jobs], self.paces[:, jobs]
        steady = np.stack([paces * self.running(stays=stays) for stays in (False, True)])
        already = rate if self.added else np.zeros(len(jobs))
        with np.errstate(divide="ignore", invalid="ignore"):
            rounds = np.where(rate + steady > 0, left / (rate + steady), np.inf) / self.settings.round_seconds
            slots = np.maximum(1.0, np.ceil(rounds - WORK))
            seconds, before = left / (already + steady), left / already
        gain = np.full(steady.shape, -np.inf)
        for i, j in enumerate(jobs.tolist()):
            if left[i] > 0:
                at = np.flatnonzero(paces[:, i])
                gain[:, at, i] = self._gains(j, seconds[:, at, i], float(before[i]) if already[i] > 0 else None)
        return gain, slots

    def _gains(self, j: int, seconds: Floats, before: float | None) -> Floats:
        """Utility of job j on completion after ``seconds`` from now; if it would be ``before``, what that adds."""
        job = self.instance.jobs[j]
        times = seconds.ravel() if before is None else np.append(seconds, before)
        worth = np.asarray(utility_of(job, self.settings.utility)(job, self.instance.time - job.arrival + times))
        return (worth if before is None else worth[:-1] - worth[-1]).reshape(seconds.shape)


class GangCosts:
    """Cost per slot of the cheapest free GPUs for a gang on each server, for all pairs (GPU types, GPUs) of some job.

    Attributes
    ----------
    pair:
        (k, n) position of the pair that a job needs at each of its paces.
    cost:
        (H, U) infinite where a server has too few free GPUs.
    """

    def __init__(self, market: GPUMarket, speed: Floats, paces: Floats, demand: Integers) -> None:
        self.market = market
        in_time = speed.T[None, :, :] >= np.where(paces > 0, paces, np.inf)[:, None, :]  # pace, type, job
        k, _, n = in_time.shape
        rows = np.concatenate([in_time.transpose(0, 2, 1).reshape(k * n, k), np.tile(demand, k)[:, None]], axis=1)
        first, pair = _alike(rows)
        self.pair = pair.reshape(k, n)
        self._allowed, self._gpus = np.ascontiguousarray(rows[first, :k].T.astype(bool)), rows[first, k]
        self.cost = np.stack([self._server_costs(h) for h in range(len(market.free))])

    def types(self, pace: int, j: int) -> tuple[int, ...]:
        """Positions of the types that are not slower than a pace of job j."""
        return tuple(np.flatnonzero(self._allowed[:, self.pair[pace, j]]).tolist())

    def update(self, h: int) -> None:
        """Compute the costs again after GPUs of server h were taken."""
        self.cost[h] = self._server_costs(h)

    def _server_costs(self, h: int) -> Floats:
        price, free = self.market.price[h], self.market.free[h]
        missing, taken = self._gpus, {}
        for _, k in sorted((price[k], k) for k in range(len(free)) if free[k]):
            taken[k] = np.where(self._allowed[k], np.minimum(missing, free[k]), 0)
            missing = missing - taken[k]
        cost = np.zeros(len(self._gpus))
        for k in sorted(taken):  # summed in the order of GPUMarket.cost
            cost += np.where(taken[k] > 0, price[k], 0.0) * taken[k]
        cost[missing > 0] = np.inf
        return cost


def _alike(rows: Integers) -> tuple[Positions, Positions]:
    """Position of one row of each class of equal rows, and the class of each row."""
    # Rows as bytes: numpy sorts these much faster than rows of numbers.
    packed = np.ascontiguousarray(rows)
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return first, of


class LargestEntry:
    """An (m, n) table whose rows and columns change, and its largest entry.

    Every row is cut into blocks of about sqrt(n) entries, of which the largest is cached.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._size = max(1, math.isqrt(columns))
        blocks = -(-columns // self._size)
        self._table = np.full((rows, blocks * self._size), -np.inf)
        self._top = np.full((rows, blocks), -np.inf)
        self._columns = columns

    def set_row(self, row: int, values: Floats) -> None:
        """Replace a row."""
        self._table[row, : self._columns] = values
        self._top[row] = self._table[row].reshape(-1, self._size).max(axis=1)

    def set_column(self, column: int, values: Floats) -> None:
        """Replace a column."""
        self._table[:, column] = values
        block = column // self._size
        self._top[:, block] = self._block(block).max(axis=1)

    def set_entry(self, row: int, column: int, value: float) -> None:
        """Replace one entry."""
        self._table[row, column] = value
        block = column // self._size
        self._top[row, block] = self._block(block)[row].max()

    def find(self) -> tuple[float, int, int]:
        """The largest value, its row and its column; in ties the first column, then the first row."""
        value = self._top.max()
        block = int((self._top == value).any(axis=0).argmax())
        here = self._block(block) == value
        column = int(here.any(axis=0).argmax())
        return float(value), int(here[:, column].argmax()), block * self._size + column

    def _block(self, block: int) -> Floats:
        return self._table[:, block * self._size : (block + 1) * self._size]


def assign(forking: ForkingRound, *, fill: bool) -> Assigned:
    """The copies of the round: repeatedly the one with the largest payoff; at most one copy of a job per server.

    In ties the earlier job first, then the earlier server.

    Parameters
    ----------
    fill:
        Continue when no payoff is positive, so that no server that could run a copy is idle.

    Returns
    -------
    dict
        Job -> server -> its copy, as positions; the server is :data:`SEVERAL` for a job that is not forked, because its
        gang fits on no single server.
    """
    return _Assignment(forking).run(-math.inf if fill else 0.0)


class SpreadGang(NamedTuple):
    """The best GPUs of a gang on several servers after a number of steps."""

    step: int
    copy: CopyOn


class _Assignment:
    """The copies assigned so far, and the payoffs of all further copies.

    The last row of payoffs belongs to :data:`SEVERAL`; an entry there is a bound or was exact at an earlier step.

    Attributes
    ----------
    open, ran:
        (H, n) whether the job may have a further copy on this server, and whether it ran one in the last round.
    wide, spread:
        The bids of the jobs whose gang fits on no single server, and the GPUs that pay most for those whose payoff is
        entered exactly.
    step, searches_left, changed:
        Number of copies that were assigned, of searches until all payoffs are bounded (once after each copy; negative
        from then on), and (H,) the last copy that took GPUs of a server.
    """

    def __init__(self, forking: ForkingRound) -> None:
        instance, jobs = forking.instance, forking.jobs
        self.forking, self.assigned = forking, Assigned()
        self.market, appraised = open_market(instance, jobs, forking.settings, placed_gpus(instance))
        self.costs = GangCosts(self.market, jobs.task_speed_now, forking.paces, jobs.demand.astype(np.int64))
        n, servers = len(jobs.names), len(self.market.free)
        self.gain, self.slots = forking.values(np.arange(n), np.zeros(n))
        on_some = np.asarray(np.isfinite(self.costs.cost).any(axis=0))
        fits = set(np.flatnonzero(on_some[self.costs.pair].any(axis=0)).tolist())
        self.wide = {a.bid.job: self._in_all_slots(a.bid) for a in appraised if a.bid.job not in fits}
        self.open, self.ran = np.ones((servers, n), dtype=bool), np.zeros((servers, n), dtype=bool)
        self.open[:, list(self.wide)] = False
        position = {server.name: h for h, server in enumerate(instance.cluster.servers)}
        for name in forking.last.keys() & jobs.position.keys():
            own = [position[server] for server in forking.last[name] if server in position]
            self.ran[own, jobs.position[name]] = True
        self.step, self.searches_left, self.changed = 0, SEARCHES, [0] * servers
        self.spread: dict[int, SpreadGang] = {}
        self.payoffs = LargestEntry(servers + 1, n)
        for h in range(servers):
            self.payoffs.set_row(h, self._on_server(h))
        self.market.expect_bids(self.wide.values())
        self.spread_bids = SpreadBids(self.wide)
        self._bound_spread()

    def run(self, least: float) -> Assigned:
        """All copies with a payoff above ``least``."""
        while True:
            payoff, h, j = self.payoffs.find()
            if not payoff > least:
                return self.assigned
            if j not in self.wide:
                self._take(j, h, self._copy(j, h))
            elif j in self.spread and self._is_current(self.spread[j]):
                self._take(j, SEVERAL, self.spread[j].copy)
            elif self.searches_left == 0:
                self._bound_spread()
            else:
                self._enter_spread(j)

    def _take(self, j: int, h: int, copy: CopyOn) -> None:
        """Assign a copy, and compute the payoffs that it changes."""
        own = self.assigned.setdefault(j, {})
        own[h] = copy
        self.market.take(copy.gpus)
        self.open[h if h != SEVERAL and len(own) < self.forking.most_copies(j) else slice(None), j] = False
        rate = sum(copy.steady for copy in own.values())
        self.gain[:, :, [j]], self.slots[:, :, [j]] = self.forking.values(np.array([j]), np.array([rate]))
        self.step, self.searches_left = self.step + 1, SEARCHES
        for server in {server for server, _, _ in copy.gpus}:
            self.changed[server] = self.step
            self.costs.update(server)
            self.payoffs.set_row(server, self._on_server(server))
        self.payoffs.set_column(j, np.append(self._of_job(j), -np.inf))

    def _on_server(self, h: int) -> Floats:
        """(n,) payoff of a further copy of each job on this server."""
        cost, stay = self.costs.cost[h][self.costs.pair], np.flatnonzero(self.ran[h])
        payoff = (self.gain[0] - self.slots[0] * cost).max(axis=0)
        payoff[stay] = (self.gain[1][:, stay] - self.slots[1][:, stay] * cost[:, stay]).max(axis=0)
        return np.where(self.open[h], payoff, -np.inf)

    def _of_job(self, j: int) -> Floats:
        """(H,) payoff of a further copy of this job on each server."""
        payoff = self._at_paces(j, np.arange(len(self.open))).max(axis=1)
        return np.where(self.open[:, j], payoff, -np.inf)

    def _at_paces(self, j: int, servers: Positions) -> Floats:
        """(len(servers), k) payoff of a further copy of this job at each pace."""
        stays = self.ran[servers, j].astype(np.intp)
        cost = self.costs.cost[servers[:, None], self.costs.pair[:, j]]
        return self.gain[stays, :, j] - self.slots[stays, :, j] * cost

    def _copy(self, j: int, h: int) -> CopyOn:
        """The best copy of this job on this server."""
        pace = int(self._at_paces(j, np.array([h])).argmax())
        gpus = self.market.cheapest_on(h, self.costs.types(pace, j), int(self.forking.jobs.demand[j]))
        rate = float(self.forking.paces[pace, j])
        return CopyOn(rate, rate * self.forking.running(stays=bool(self.ran[h, j])), gpus)

    def _in_all_slots(self, bid: Bid) -> Bid:
        """The bid with the gains and slots of copies."""
        levels = []
        for level in bid.levels:
            pace = int((self.forking.paces[:, bid.job] == level.speed).argmax())
            slots, (value, kept) = self.slots[0, pace, bid.job], self.gain[:, pace, bid.job]
            levels.append(level._replace(slots=float(slots), value=float(value), kept=float(kept)))
        return replace(bid, levels=tuple(levels))

    def _bound_spread(self) -> None:
        """Enter bounds on the payoffs of all gangs on several servers."""
        bounds = self.spread_bids.most(self.market, self.gain.shape[2])
        bounds[[j for j in self.assigned if j in self.wide]] = -np.inf
        self.payoffs.set_row(SEVERAL, bounds)
        self.spread = {}
        self.searches_left = -1

    def _enter_spread(self, j: int) -> None:
        """Search the GPUs of a job that is not forked on several servers as under Hadar, and enter the payoff."""
        bid, payoff = self.wide[j], -math.inf
        self.searches_left -= 1
        if j not in self.assigned and (offer := find_offer(self.market, bid)) is not None:
            rate = min(float(self.forking.jobs.task_speed[j, k]) for _, k, _ in offer.gpus)
            stays, payoff = offer.gpus == bid.now, offer.payoff
            copy = CopyOn(rate, rate * self.forking.running(stays=stays), offer.gpus)
            self.spread[j] = SpreadGang(self.step, copy)
        self.payoffs.set_entry(SEVERAL, j, payoff)

    def _is_current(self, gang: SpreadGang) -> bool:
        """Whether the gang's GPUs are as they were; then they are still the best, for others only became dearer."""
        return all(self.changed[h] <= gang.step for h, _, _ in gang.copy.gpus)
