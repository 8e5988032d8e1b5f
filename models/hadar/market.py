"""One round's market: GPUs in use, their prices, and the cheapest GPUs for a gang, on one server or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.models.hadar.problem import Integers

Types = tuple[int, ...]
"""Positions of GPU types, ascending."""

ServerSeats = tuple[tuple[int, int, int], ...]
"""Triples (server, GPU type, GPUs), sorted."""


class Cheapest(NamedTuple):
    """GPUs and what they cost per slot."""

    cost: float
    seats: ServerSeats


@dataclass(frozen=True, eq=False)
class Tariff:
    """``k(g) = low (high / low) ** (g / c)`` for each server and GPU type, [Hadar, eq. 5].

    Attributes
    ----------
    capacity:
        (H, k) GPUs c.
    low, high:
        (k,) utility per GPU and slot, 0 < low <= high.
    """

    capacity: Integers
    low: Floats
    high: Floats

    def __call__(self, used: Integers, server: int) -> list[float]:
        """(k,) prices of a server of which ``used`` (H, k) GPUs are in use; infinite where it has none."""
        row = []
        for k, (g, c) in enumerate(zip(used[server].tolist(), self.capacity[server].tolist(), strict=True)):
            low = float(self.low[k])
            row.append(low * (float(self.high[k]) / low) ** (g / c) if c else np.inf)
        return row


class Market:
    """Servers that fill up, with the prices of what is left.

    Costs of the n cheapest GPUs of a server are kept for every set of GPU types that was asked for, and renewed where
    a server changes.
    """

    def __init__(self, tariff: Tariff) -> None:
        self.tariff = tariff
        self.used = np.zeros_like(tariff.capacity)
        servers = range(len(self.used))
        self.price = [tariff(self.used, h) for h in servers]
        self.free = tariff.capacity.tolist()
        self._costs: dict[Types, list[list[float]]] = {}
        self._single: dict[tuple[Types, int], Cheapest | None] = {}
        self._spread: dict[tuple[Types, int], Cheapest | None] = {}
        self._fewest: dict[tuple[Types, int], int] = {}

    @classmethod
    def of(cls, cluster: Cluster, low: Floats, high: Floats) -> Market:
        """The empty servers of ``cluster``."""
        rows = [[server.gpus.get(t, 0) for t in cluster.type_names] for server in cluster.servers]
        return cls(Tariff(np.array(rows, dtype=np.int64), low, high))

    def copy(self) -> Market:
        """An independent one in the same state."""
        made = object.__new__(Market)
        made.tariff, made.used = self.tariff, self.used.copy()
        made.price, made.free = list(self.price), [list(row) for row in self.free]
        made._costs = {types: list(rows) for types, rows in self._costs.items()}
        made._single, made._spread, made._fewest = dict(self._single), dict(self._spread), dict(self._fewest)
        return made

    @property
    def state(self) -> bytes:
        """What prices and room depend on, as a key."""
        return self.used.tobytes()

    def take(self, seats: ServerSeats) -> None:
        """These GPUs are in use from now on."""
        for h, k, n in seats:
            self.used[h, k] += n
            self.free[h][k] -= n
        for h in {h for h, _, _ in seats}:
            self.price[h] = self.tariff(self.used, h)
            for types, rows in self._costs.items():
                rows[h] = self._server_costs(h, types)
        self._single, self._spread, self._fewest = {}, {}, {}

    def has(self, seats: ServerSeats) -> bool:
        """Whether these GPUs are free."""
        return all(self.free[h][k] >= n for h, k, n in seats)

    def cost(self, seats: ServerSeats) -> float:
        """Price of these GPUs per slot."""
        return sum(self.price[h][k] * n for h, k, n in seats)

    def room(self, types: Types) -> int:
        """Free GPUs of these types."""
        return sum(len(row) - 1 for row in self.costs(types))

    def costs(self, types: Types) -> list[list[float]]:
        """For each server: cost per slot of its 0, 1, 2 … cheapest free GPUs of these types, as far as they go."""
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

    def seats(self, h: int, types: Types, gpus: int) -> ServerSeats:
        """The cheapest ``gpus`` GPUs of these types on server h."""
        taken = []
        for _, k in sorted((self.price[h][k], k) for k in types):
            if (n := min(self.free[h][k], gpus)) > 0:
                taken.append((h, k, n))
                gpus -= n
        return tuple(sorted(taken))

    def on_one_server(self, types: Types, gpus: int) -> Cheapest | None:
        """The cheapest ``gpus`` GPUs of one server; of equal ones on the first. None where no server has so many."""
        key = (types, gpus)
        if key not in self._single:
            fits = [(row[gpus], h) for h, row in enumerate(self.costs(types)) if len(row) > gpus]
            cost, h = min(fits, default=(np.inf, -1))
            self._single[key] = Cheapest(cost, self.seats(h, types, gpus)) if fits else None
        return self._single[key]

    def anywhere(self, types: Types, gpus: int) -> Cheapest | None:
        """The cheapest ``gpus`` GPUs anywhere, of equally cheap ones the first; None where there is no room."""
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
        """Servers that so many GPUs of these types need at least; there must be room."""
        key = (types, gpus)
        if key not in self._fewest:
            left, number = gpus, 0
            for most in sorted((len(row) - 1 for row in self.costs(types)), reverse=True):
                if left <= 0:
                    break
                left, number = left - most, number + 1
            self._fewest[key] = number
        return self._fewest[key]

    def on_servers(self, types: Types, gpus: int, slots: float, charges: Sequence[float]) -> Cheapest | None:
        """The GPUs with the least ``slots`` times price plus ``charges[h]`` for each server h that they are on.

        A knapsack over servers: exact. Of servers alike in price, room and
        charge no more than ``gpus`` are looked at.

        Returns
        -------
        Cheapest | None
            The whole of that cost, charges included; None where there is no room.
        """
        if self.room(types) < gpus:
            return None
        best, taken = np.full(gpus + 1, np.inf), []
        best[0] = 0.0
        seen: dict[tuple[object, ...], int] = {}
        for h, row in enumerate(self.costs(types)):
            alike = (charges[h], *row)
            seen[alike] = seen.get(alike, 0) + 1
            if len(row) == 1 or seen[alike] > gpus:
                continue
            longer, choice = best.copy(), np.zeros(gpus + 1, dtype=np.int64)
            for m in range(1, min(gpus, len(row) - 1) + 1):
                cost = best[: gpus + 1 - m] + (slots * row[m] + charges[h])
                cheaper = cost < longer[m:]
                longer[m:][cheaper] = cost[cheaper]
                choice[m:][cheaper] = m
            best = longer
            taken.append((h, choice))
        seats: list[tuple[int, int, int]] = []
        n = gpus
        for h, choice in reversed(taken):
            if m := int(choice[n]):
                seats += self.seats(h, types, m)
                n -= m
        return Cheapest(float(best[gpus]), tuple(sorted(seats)))
