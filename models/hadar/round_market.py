"""The market of one round: GPUs in use and their prices, and the best GPUs for one job (FIND_ALLOC).

:class:`GPUMarket` finds the cheapest GPUs for a gang on one server or several, :func:`find_offer` those with the
largest payoff [Hadar, Algorithm 2]; :func:`offer_model` states the same choice as an integer program, the reference for
the fast search.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyomo.environ as pyo
from numpy.lib.stride_tricks import sliding_window_view

from hetopt.data.array_types import Floats
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


class Weighted(NamedTuple):
    """The GPUs of a spread gang that are best for a weight of communication against price.

    Attributes
    ----------
    weight:
        The weight.
    talk, cost:
        Communication (the sum of the cards in use) and cost per slot.
    gpus:
        The GPUs.
    """

    weight: float
    talk: float
    cost: float
    gpus: ServerGPUs


class GPUMarket:
    """Free GPUs of the servers and their prices in one round.

    Costs of the n cheapest GPUs of a server are cached for every requested set of GPU types, and updated when the
    server changes.
    """

    def __init__(self, prices: ServerPrices) -> None:
        self.prices = prices
        self.used = np.zeros_like(prices.capacity)
        servers = range(len(self.used))
        self.price = [prices(self.used, h) for h in servers]
        self.free = prices.capacity.tolist()
        self._costs: dict[Types, list[list[float]]] = {}
        self._single: dict[tuple[Types, int], Cheapest | None] = {}
        self._spread: dict[tuple[Types, int], Cheapest | None] = {}
        self._fewest: dict[tuple[Types, int], int] = {}
        self._least_cards: dict[tuple[Types, int], float] = {}
        self._spread_for: dict[tuple[Types, int], list[Weighted]] = {}

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
        made._spread_for = {key: list(known) for key, known in self._spread_for.items()}
        return made

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
        self._single, self._spread, self._fewest, self._least_cards, self._spread_for = {}, {}, {}, {}, {}

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
        weight = charge / slots
        known = self._spread_for.setdefault((types, gpus), [])
        at = bisect_left(known, weight, key=lambda own: own.weight)
        around = known[max(0, at - 1) : at + 1]
        if len(around) == 2 and (around[0].talk, around[0].cost) == (around[1].talk, around[1].cost):
            return around[1].gpus
        if not (around and around[-1].weight == weight):
            gpus_on = self._knapsack(types, gpus, slots, [charge * card for card in cards])
            talk = math.fsum(cards[h] for h in {h for h, _, _ in gpus_on})
            known.insert(at, Weighted(weight, talk, self.cost(gpus_on), gpus_on))
        return known[at].gpus

    def _knapsack(self, types: Types, gpus: int, slots: float, charges: Sequence[float]) -> ServerGPUs:
        """The GPUs that minimise ``slots`` times price plus ``charges[h]`` for each server h in use.

        An exact knapsack over servers. Of servers with equal prices, free GPUs and charges, at most ``gpus`` are
        considered.
        """
        rows = self.costs(types)
        most = min(gpus, max(map(len, rows)) - 1)
        # The least cost of 0, 1, 2 … GPUs, after infinite costs of negative numbers, in windows of 1 + most numbers.
        best = np.full(most + gpus + 1, np.inf)
        best[most] = 0.0
        windows = sliding_window_view(best, most + 1)[:, ::-1]
        seen: Counter[tuple[float, ...]] = Counter()
        taken = []
        for h, row in enumerate(rows):
            alike = (charges[h], *row)
            seen[alike] += 1
            if len(row) == 1 or seen[alike] > gpus:
                continue
            own = slots * np.array(row[: most + 1]) + charges[h]
            own[0] = 0.0
            cost = windows[:, : len(own)] + own
            taken.append((h, cost.argmin(axis=1)))
            best[most:] = cost.min(axis=1)
        placed: list[tuple[int, int, int]] = []
        for h, choice in reversed(taken):
            if n := int(choice[gpus]):
                placed += self.cheapest_on(h, types, n)
                gpus -= n
        return tuple(sorted(placed))


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
