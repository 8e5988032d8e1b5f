"""The market of one round: GPUs in use and their prices, and the best GPUs for one job (FIND_ALLOC).

:class:`GPUMarket` finds the cheapest GPUs for a gang on one server or several, :func:`find_offer` those with the
largest payoff [Hadar, Algorithm 2]; :func:`offer_model` states the same choice as an integer program, the reference for
the fast search.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo
from numpy.lib.stride_tricks import sliding_window_view

from hetopt.data.array_types import Floats, Integers
from hetopt.data.cluster import Cluster
from hetopt.models.hadar.prices import ServerPrices
from hetopt.programs.mathematics import Mathematics, described

Types = tuple[int, ...]
"""Positions of GPU types, ascending."""

ServerGPUs = tuple[tuple[int, int, int], ...]
"""Triples (server, GPU type, GPUs), sorted."""

Cards = tuple[float, ...]
"""(H,) communication cost per server of a spread gang, relative to a network card of 10 Gbit/s."""


class Cheapest(NamedTuple):
    """GPUs and their cost per slot."""

    cost: float
    gpus: ServerGPUs


class SpreadGPUs(NamedTuple):
    """GPUs of a gang on several servers: communication (the sum of the cards in use), cost per slot, and the GPUs."""

    talk: float
    cost: float
    gpus: ServerGPUs


class Knapsack(NamedTuple):
    """The GPUs of gangs on several servers that are best for a weight of communication against price.

    Attributes
    ----------
    weight:
        The weight.
    least:
        Least sum of price and weighted communication of 0, 1, 2 … GPUs.
    choices:
        For each server, in the order in which they were added: its GPUs if so many are on it and on those before.
    gangs:
        GPUs of the gang -> the best; of those found so far.
    """

    weight: float
    least: Floats
    choices: list[tuple[int, Integers]]
    gangs: dict[int, SpreadGPUs]


WEIGHTS = 9
"""Weights of communication against price that are solved at once."""


class GPUMarket:
    """Free GPUs of the servers and their prices in one round.

    Costs of the n cheapest GPUs of a server are cached for every requested set of GPU types, and updated when the
    server changes.

    Attributes
    ----------
    weights, largest:
        Weights of communication against price, ascending from 0, for which gangs of up to ``largest`` GPUs on several
        servers are found at once; see :meth:`expect_bids`.
    """

    def __init__(self, prices: ServerPrices) -> None:
        self.prices = prices
        self.weights, self.largest = [0.0], 0
        self.used = np.zeros_like(prices.capacity)
        servers = range(len(self.used))
        self.price = [prices(self.used, h) for h in servers]
        self.free = prices.capacity.tolist()
        self._costs: dict[Types, list[list[float]]] = {}
        self._single: dict[tuple[Types, int], Cheapest | None] = {}
        self._spread: dict[tuple[Types, int], Cheapest | None] = {}
        self._fewest: dict[tuple[Types, int], int] = {}
        self._least_cards: dict[tuple[Types, int], float] = {}
        self._knapsacks: dict[Types, list[Knapsack]] = {}  # by ascending weight

    @classmethod
    def of(cls, cluster: Cluster, low: Floats, high: Floats) -> GPUMarket:
        """The empty servers of ``cluster``."""
        rows = [[server.gpus.get(t, 0) for t in cluster.type_names] for server in cluster.servers]
        return cls(ServerPrices(np.array(rows, dtype=np.int64), low, high))

    def copy(self) -> GPUMarket:
        """An independent copy."""
        made = copy(self)
        made.used = self.used.copy()
        made.price, made.free = list(self.price), [list(row) for row in self.free]
        made._costs = {types: list(rows) for types, rows in self._costs.items()}
        made._single, made._spread, made._fewest = dict(self._single), dict(self._spread), dict(self._fewest)
        made._least_cards = dict(self._least_cards)
        made._knapsacks = {types: list(known) for types, known in self._knapsacks.items()}
        return made

    def expect_bids(self, bids: Iterable[Bid]) -> None:
        """Choose the first weights from those of the bids to come: their quantiles."""
        gangs = [bid for bid in bids if bid.gpus > 1]
        weights = [bid.charge / level.slots for bid in gangs for level in bid.levels]
        if weights:
            self.largest = max(bid.gpus for bid in gangs)
            self.weights = np.unique([0.0, *np.quantile(weights, np.linspace(0, 1, WEIGHTS))]).tolist()

    @property
    def state(self) -> bytes:
        """The GPUs in use as a hashable key; prices and free GPUs depend on nothing else."""
        return self.used.tobytes()

    def take(self, gpus: ServerGPUs) -> None:
        """Mark these GPUs as in use, and update prices."""
        for h, k, n in gpus:
            self.used[h, k] += n
            self.free[h][k] -= n
        for h in {h for h, _, _ in gpus}:
            self.price[h] = self.prices(self.used, h)
            for types, rows in self._costs.items():
                rows[h] = self._server_costs(h, types)
        taken = {k for _, k, _ in gpus}
        self._single, self._spread, self._fewest, self._least_cards = {}, {}, {}, {}
        self._knapsacks = {types: own for types, own in self._knapsacks.items() if taken.isdisjoint(types)}

    def has(self, gpus: ServerGPUs) -> bool:
        """Whether these GPUs are free."""
        return all(self.free[h][k] >= n for h, k, n in gpus)

    def cost(self, gpus: ServerGPUs) -> float:
        """Price of these GPUs per slot."""
        return sum(self.price[h][k] * n for h, k, n in gpus)

    def room(self, types: Types) -> int:
        """Free GPUs of these types."""
        return sum(len(row) - 1 for row in self.costs(types))

    def costs(self, types: Types) -> list[list[float]]:
        """For each server: cost per slot of its 0, 1, 2 … cheapest free GPUs of these types, up to all of them."""
        if types not in self._costs:
            self._costs[types] = [self._server_costs(h, types) for h in range(len(self.used))]
        return self._costs[types]

    def _server_costs(self, h: int, types: Types) -> list[float]:
        total, row = 0.0, [0.0]
        for price, k in sorted((self.price[h][k], k) for k in types):
            for _ in range(self.free[h][k]):
                total += price
                row.append(total)
        return row

    def cheapest_on(self, h: int, types: Types, gpus: int) -> ServerGPUs:
        """The cheapest ``gpus`` GPUs of these types on server h."""
        taken = []
        for _, k in sorted((self.price[h][k], k) for k in types):
            if (n := min(self.free[h][k], gpus)) > 0:
                taken.append((h, k, n))
                gpus -= n
        return tuple(sorted(taken))

    def on_one_server(self, types: Types, gpus: int) -> Cheapest | None:
        """The cheapest ``gpus`` GPUs on one server, in a tie the first server; None if no server has enough."""
        key = (types, gpus)
        if key not in self._single:
            fits = [(row[gpus], h) for h, row in enumerate(self.costs(types)) if len(row) > gpus]
            cost, h = min(fits, default=(np.inf, -1))
            self._single[key] = Cheapest(cost, self.cheapest_on(h, types, gpus)) if fits else None
        return self._single[key]

    def anywhere(self, types: Types, gpus: int) -> Cheapest | None:
        """The cheapest ``gpus`` GPUs on any servers, in a tie the first ones; None if there are too few."""
        key = (types, gpus)
        if key not in self._spread:
            self._spread[key] = self._anywhere(types, gpus)
        return self._spread[key]

    def _anywhere(self, types: Types, gpus: int) -> Cheapest | None:
        if self.room(types) < gpus:
            return None
        cells = sorted((self.price[h][k], h, k) for h, row in enumerate(self.free) for k in types if row[k])
        taken, cost = [], 0.0
        for price, h, k in cells:
            n = min(self.free[h][k], gpus)
            taken.append((h, k, n))
            cost += price * n
            gpus -= n
            if not gpus:
                break
        return Cheapest(cost, tuple(sorted(taken)))

    def fewest(self, types: Types, gpus: int) -> int:
        """The fewest servers that provide ``gpus`` GPUs of these types; there must be enough free ones."""
        key = (types, gpus)
        if key not in self._fewest:
            left, number = gpus, 0
            for most in sorted((len(row) - 1 for row in self.costs(types)), reverse=True):
                if left <= 0:
                    break
                left, number = left - most, number + 1
            self._fewest[key] = number
        return self._fewest[key]

    def least_cards(self, types: Types, gpus: int, cards: Cards) -> float:
        """At most the sum of ``cards`` over the servers of any spread gang; there must be enough free GPUs."""
        key = (types, gpus)
        if key not in self._least_cards:
            self._least_cards[key] = sum(sorted(cards)[: max(2, self.fewest(types, gpus))])
        return self._least_cards[key]

    def on_servers(self, types: Types, gpus: int, slots: float, charge: float, cards: Cards) -> ServerGPUs:
        """The GPUs that minimise ``slots`` times price plus ``charge * cards[h]`` for each server h in use.

        There must be enough free GPUs. The least price plus w times the cards in use is concave in the weight w =
        charge / slots. So GPUs that are best for a smaller and for a larger weight are best between them, too, and many
        bids share the knapsacks of a few weights.
        """
        weight, known = charge / slots, self._spread_gangs(types, gpus, cards)
        at = bisect_left(known, weight, key=lambda own: own.weight)
        around = [self._gang(types, own, gpus, cards) for own in known[max(0, at - 1) : at + 1]]
        if len(around) == 2 and around[0][:2] == around[1][:2]:
            return around[1].gpus
        if at == len(known) or known[at].weight != weight:
            known[at:at] = self._solve_knapsacks(types, len(known[0].least) - 1, [weight], cards)
        return self._gang(types, known[at], gpus, cards).gpus

    def least_spread(self, types: Types, gpus: Integers, weights: Floats, cards: Cards) -> Floats:
        """For each pair of a number of GPUs and a weight: at most the least price plus weight times the cards in use.

        As that is concave and does not decrease in the weight, it is above its chords, and above its last known value.
        """
        known = self._spread_gangs(types, int(gpus.max()), cards)
        grid, least = np.array([own.weight for own in known]), np.stack([own.least for own in known])
        above = np.clip(np.searchsorted(grid, weights), min(1, len(grid) - 1), len(grid) - 1)
        below = np.maximum(above - 1, 0)
        low, high = least[below, gpus], least[above, gpus]
        fits, part = np.isfinite(low), np.zeros(len(weights))
        np.divide(weights - grid[below], grid[above] - grid[below], out=part, where=above > below)
        rise = np.subtract(high, low, out=np.zeros(len(low)), where=fits)
        return np.asarray(low + np.minimum(part, 1.0) * rise)

    def _spread_gangs(self, types: Types, gpus: int, cards: Cards) -> list[Knapsack]:
        """The known knapsacks of these types, by ascending weight, for all numbers up to ``gpus`` at least."""
        known = self._knapsacks.get(types)
        if known is None or len(known[0].least) <= gpus:
            weights = self.weights if known is None else [own.weight for own in known]
            known = self._knapsacks[types] = self._solve_knapsacks(types, max(gpus, self.largest), weights, cards)
        return known

    def _solve_knapsacks(self, types: Types, gpus: int, weights: Sequence[float], cards: Cards) -> list[Knapsack]:
        """For each weight: the GPUs that minimise price plus weight times ``cards`` of the servers in use.

        Exact knapsacks over servers, for all numbers up to ``gpus``. Of servers with equal prices, free GPUs and cards,
        at most ``gpus`` are considered.
        """
        rows = self.costs(types)
        most = min(gpus, max(map(len, rows)) - 1)
        # The least cost of 0, 1, 2 … GPUs, after infinite costs of negative numbers, in windows of 1 + most numbers.
        best = np.full((len(weights), most + gpus + 1), np.inf)
        best[:, most] = 0.0
        windows = sliding_window_view(best, most + 1, axis=1)[:, :, ::-1]
        seen: Counter[tuple[float, ...]] = Counter()
        taken: list[tuple[int, Integers]] = []
        for h, row in enumerate(rows):
            alike = (cards[h], *row)
            seen[alike] += 1
            if len(row) == 1 or seen[alike] > gpus:
                continue
            own = np.array(row[: most + 1]) + np.array(weights)[:, None] * cards[h]
            own[:, 0] = 0.0
            cost = windows[:, :, : own.shape[1]] + own[:, None, :]
            choice = cost.argmin(axis=2)
            taken.append((h, choice))
            best[:, most:] = np.take_along_axis(cost, choice[:, :, None], axis=2)[:, :, 0]
        return [
            Knapsack(weight, best[i, most:], [(h, choice[i]) for h, choice in taken], {})
            for i, weight in enumerate(weights)
        ]

    def _gang(self, types: Types, knapsack: Knapsack, gpus: int, cards: Cards) -> SpreadGPUs:
        """The best GPUs of a gang in a knapsack."""
        if gpus not in knapsack.gangs:
            placed, left = list[tuple[int, int, int]](), gpus
            for h, choice in reversed(knapsack.choices):
                if n := int(choice[left]):
                    placed += self.cheapest_on(h, types, n)
                    left -= n
            talk = math.fsum(cards[h] for h in {h for h, _, _ in placed})
            found = tuple(sorted(placed))
            knapsack.gangs[gpus] = SpreadGPUs(talk, self.cost(found), found)
        return knapsack.gangs[gpus]


class Level(NamedTuple):
    """A speed that a gang may have if it keeps its GPUs from now on.

    Attributes
    ----------
    speed:
        Work per second.
    types:
        GPU types that are not slower.
    slots:
        Slots that it pays for: until it completes (or one, as printed).
    value, kept:
        Utility on new GPUs, and utility on its current GPUs (without a restart).
    """

    speed: float
    types: Types
    slots: float
    value: float
    kept: float


@dataclass(frozen=True, eq=False)
class Bid:
    """Bid of one job in a round.

    Attributes
    ----------
    job:
        Position of the job.
    gpus:
        Demand of the gang.
    levels:
        Possible speeds, the fastest first.
    charge:
        Communication cost, in utility, per server with a card of 10 Gbit/s of a gang that spans servers.
    cards:
        (H,) that cost of each server relative to this card; the same for all bids of a market.
    now:
        The GPUs that it runs on; empty if it waits.
    """

    job: int
    gpus: int
    levels: tuple[Level, ...]
    charge: float
    cards: Cards
    now: ServerGPUs = ()

    @property
    def charges(self) -> Cards:
        """(H,) communication cost per server of a gang that spans servers, in utility."""
        return tuple(self.charge * card for card in self.cards)


class GangOffer(NamedTuple):
    """GPUs for a gang, and their payoff.

    Attributes
    ----------
    payoff:
        Utility minus cost, mu_j [Hadar, Algorithm 2, line 29].
    gpus:
        Triples (server, GPU type, GPUs).
    """

    payoff: float
    gpus: ServerGPUs


def find_offer(market: GPUMarket, bid: Bid) -> GangOffer | None:
    """The GPUs with the largest payoff, positive or not; None if there are too few for the gang.

    A gang's speed is that of its slowest GPU. For each possible speed, GPUs of types at least that fast are compared:
    the cheapest on one server, the cheapest over servers including communication, and the current GPUs, which need no
    restart. Exact: no other GPUs have a larger payoff. Ties: the current GPUs first, then one server, then the faster
    level.
    """
    best = _kept(market, bid)
    for level in bid.levels:
        if (one := market.on_one_server(level.types, bid.gpus)) is not None:
            best = _better(best, GangOffer(level.value - level.slots * one.cost, one.gpus))
        if (spread := _spread(market, bid, level, -np.inf if best is None else best.payoff)) is not None:
            best = _better(best, spread)
    return best


class SpreadBids:
    """Bids of gangs that fit on no single server, and bounds on their payoffs as arrays.

    Attributes
    ----------
    bids:
        Job -> its bid.
    """

    def __init__(self, bids: Mapping[int, Bid]) -> None:
        self.bids = bids
        pairs = sorted(((level.types, bid, level) for bid in bids.values() for level in bid.levels), key=itemgetter(0))
        self._levels = []
        for types, own in groupby(pairs, itemgetter(0)):
            of = list(own)
            job, gpus = (np.array([getattr(bid, key) for _, bid, _ in of]) for key in ("job", "gpus"))
            value, slots = (np.array([getattr(level, key) for *_, level in of]) for key in ("value", "slots"))
            self._levels.append((types, job, gpus, value, slots, np.array([bid.charge for _, bid, _ in of]) / slots))

    def most(self, market: GPUMarket, jobs: int) -> Floats:
        """(jobs,) at least the payoffs of :func:`find_offer`; minus infinity for jobs without a bid or enough GPUs."""
        found = np.full(jobs, -np.inf)
        for types, job, gpus, value, slots, weight in self._levels:
            cards = self.bids[int(job[0])].cards
            np.maximum.at(found, job, value - slots * market.least_spread(types, gpus, weight, cards))
        for j, bid in self.bids.items():
            if bid.now and (kept := _kept(market, bid)) is not None:
                found[j] = max(found[j], kept.payoff)
        return found


def _better(best: GangOffer | None, other: GangOffer) -> GangOffer:
    return other if best is None or other.payoff > best.payoff else best


def _kept(market: GPUMarket, bid: Bid) -> GangOffer | None:
    """The payoff of the current GPUs; None if the job has none, or they are in use."""
    if not (bid.now and market.has(bid.now)):
        return None
    types = {k for _, k, _ in bid.now}
    level = next((level for level in bid.levels if types <= set(level.types)), None)
    if level is None:
        return None
    return GangOffer(level.kept - level.slots * market.cost(bid.now) - _communication_cost(bid, bid.now), bid.now)


def _spread(market: GPUMarket, bid: Bid, level: Level, least: float) -> GangOffer | None:
    """The best GPUs on several servers; None if they cannot pay more than ``least``."""
    cheapest = market.anywhere(level.types, bid.gpus)
    if cheapest is None or bid.gpus == 1:
        return None
    least_charge = bid.charge * market.least_cards(level.types, bid.gpus, bid.cards)
    bound = level.value - level.slots * cheapest.cost - least_charge
    if bound <= least:
        return None
    gpus = cheapest.gpus
    if _communication_cost(bid, gpus) > least_charge:  # else no GPUs are cheaper, and none communicate less
        gpus = market.on_servers(level.types, bid.gpus, level.slots, bid.charge, bid.cards)
    return GangOffer(level.value - level.slots * market.cost(gpus) - _communication_cost(bid, gpus), gpus)


def _communication_cost(bid: Bid, gpus: ServerGPUs) -> float:
    """Communication cost of a gang on these GPUs; 0 on one server."""
    servers = {h for h, _, _ in gpus}
    return sum(bid.charge * bid.cards[h] for h in servers) if len(servers) > 1 else 0.0


OFFER = Mathematics.read(
    r"""
    Hadar, eq. 8: the GPUs with the largest payoff for one job in one round
    maximise
      payoff [Hadar, eq. (8); Algorithm 2, lines 27 and 29]
        | utility minus the price of the GPUs and the cost of communication | utility
        sum(U[l] * at[l] for l in V) - sum(T[l] * k[h, r] * w[l, h, r] for l in V for h, r in cells[l]) - talk
    subject to
      gang [Hadar, eq. (1e)] | the gang has all of its GPUs, at one speed | GPUs
        sum(w[l, h, r] for h, r in cells[l]) == W * at[l] for l in V
      one_speed | it has one speed
        sum(at[l] for l in V) == 1
      room [Hadar, eq. (8)] | no more GPUs are in use than there are | GPUs
        gamma[h, r] + sum(w[l, h, r] for l in V) <= c[h, r] for h, r in C
      here | a server with GPUs of the gang is marked as on | GPUs
        sum(w[l, h, r] for l in V for r in R) <= W * on[h] for h in H
      one_server | a gang on several servers is marked as spread | servers
        sum(on[h] for h in H) <= 1 + (len(H) - 1) * spread
      talks [Hadar, Algorithm 2, line 27]
        | a gang that is spread pays for communication at each of its servers | utility
        talk >= sum(b[h] * on[h] for h in H) - sum(b[h] for h in H) * (1 - spread)
    with
      w[l, h, r] [Hadar, eq. (1b)] | GPUs of type r on server h at speed l | GPUs
        w[l, h, r] in {0, 1, ...} for l in V for h, r in cells[l], else 0
      at[l] | whether the gang runs at its speed l
        at[l] in {0, 1} for l in V
      on[h] | whether the gang has GPUs of server h
        on[h] in {0, 1} for h in H
      spread | whether the gang has GPUs of several servers
        spread in {0, 1}
      talk | cost of communication | utility
        talk >= 0
    symbols
      V | numbers of the speeds that the gang may have, the fastest is 0
      H | servers
      R | GPU types
      U[l] | utility at speed l | utility | \mathcal{U}_{#1}
      T[l] | slots that the job pays for at speed l: until it completes, or one as printed | slots
      k[h, r] | price of a GPU of type r on server h | utility/(GPU slot) | k_{#1}^{#2}
      W | GPUs of the gang | GPUs
      gamma[h, r] | GPUs of type r in use on server h | GPUs | \gamma_{#1}^{#2}
      c[h, r] | GPUs of type r on server h | GPUs | c_{#1}^{#2}
      b[h] | cost of communication at server h | utility
      C | cells (h, r): server h has free GPUs of type r
      cells[l] | cells of C whose type is no slower than speed l |  | C_{#1}
    """
)


def offer() -> Mathematics:
    """The GPUs with the largest payoff for one job in one round, [Hadar, eq. 8]."""
    return OFFER


def offer_model(market: GPUMarket, bid: Bid) -> Any:
    """[Hadar, eq. 8] for one job and one round; ``print(OFFER)`` shows it.

    Speeds, servers and GPU types are numbered from 0. The option to keep the current GPUs without a restart is not
    modelled.
    """
    model = pyo.ConcreteModel(name="Hadar eq. 8")
    servers, levels = range(len(market.free)), range(len(bid.levels))
    cells = [(v, h, k) for v in levels for h in servers for k in bid.levels[v].types if market.free[h][k]]
    model.w = pyo.Var(cells, domain=pyo.NonNegativeIntegers)
    model.at = pyo.Var(levels, domain=pyo.Binary)
    model.on = pyo.Var(servers, domain=pyo.Binary)
    model.spread = pyo.Var(domain=pyo.Binary)
    model.talk = pyo.Var(domain=pyo.NonNegativeReals)
    worth = sum(bid.levels[v].value * model.at[v] for v in levels)
    paid = sum(bid.levels[v].slots * market.price[h][k] * model.w[v, h, k] for v, h, k in cells)
    model.payoff = pyo.Objective(expr=worth - paid - model.talk, sense=pyo.maximize)
    model.gang = pyo.Constraint(
        levels,
        rule=lambda m, v: sum(m.w[cell] for cell in cells if cell[0] == v) - bid.gpus * m.at[v] == 0,
    )
    model.one_speed = pyo.Constraint(expr=sum(model.at[v] for v in levels) == 1)
    model.room = pyo.Constraint(
        sorted({(h, k) for _, h, k in cells}),
        rule=lambda m, h, k: sum(m.w[c] for c in cells if c[1:] == (h, k)) <= market.free[h][k],
    )
    model.here = pyo.Constraint(
        servers, rule=lambda m, h: sum(m.w[cell] for cell in cells if cell[1] == h) - bid.gpus * m.on[h] <= 0
    )
    everywhere = sum(model.on[h] for h in servers)
    model.one_server = pyo.Constraint(expr=everywhere <= 1 + (len(servers) - 1) * model.spread)
    talks = sum(bid.charges[h] * model.on[h] for h in servers)
    model.talks = pyo.Constraint(expr=model.talk >= talks - sum(bid.charges) * (1 - model.spread))
    described(model, OFFER)
    return model
