"""FIND_ALLOC: the GPUs that pay most for one job now, on one server or spread over several [Hadar, Algorithm 2]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from hetopt.models.hadar.market import Market, ServerSeats, Types


class Level(NamedTuple):
    """A speed that the gang may have if it keeps its GPUs from now on.

    Attributes
    ----------
    speed:
        Work per second.
    types:
        GPU types that are not slower.
    slots:
        Slots that it pays for: until it is done (or one, as printed).
    value, kept:
        Utility if it starts on other GPUs than it has now, and if it keeps them (which saves the restart).
    """

    speed: float
    types: Types
    slots: float
    value: float
    kept: float


@dataclass(frozen=True, eq=False)
class Bid:
    """What one job wants in this round.

    Attributes
    ----------
    job:
        Its position.
    gpus:
        Demand of the gang.
    levels:
        Fastest first.
    charges:
        (H,) what communication costs per server where the gang is spread, in utility.
    now:
        The GPUs that it is on; empty if it waits.
    """

    job: int
    gpus: int
    levels: tuple[Level, ...]
    charges: tuple[float, ...]
    now: ServerSeats = ()

    @cached_property
    def least_charges(self) -> list[float]:
        """The sums of the 0, 1, 2 … smallest charges; the last is repeated once."""
        sums = [0.0, *accumulate(sorted(self.charges))]
        return [*sums, sums[-1]]


class Offer(NamedTuple):
    """GPUs for a job.

    Attributes
    ----------
    payoff:
        Utility less cost, mu_j [Hadar, Algorithm 2, line 29].
    seats:
        Where.
    """

    payoff: float
    seats: ServerSeats


def find_offer(market: Market, bid: Bid) -> Offer | None:
    """The GPUs of the largest payoff, be it positive or not; None where the gang has no room.

    Its speed is that of its slowest GPU. For each speed that is possible, GPUs of types at least so fast are compared:
    the cheapest on one server, the cheapest over servers with the cost of communication, and those that it has now,
    which cost no restart. Exact: no other GPUs have a larger payoff. Of equals what it has now comes first, then one
    server, then the faster.
    """
    best = _kept(market, bid)
    for level in bid.levels:
        if (one := market.on_one_server(level.types, bid.gpus)) is not None:
            best = _better(best, Offer(level.value - level.slots * one.cost, one.seats))
        if (spread := _spread(market, bid, level, -np.inf if best is None else best.payoff)) is not None:
            best = _better(best, spread)
    return best


def _better(best: Offer | None, other: Offer) -> Offer:
    return other if best is None or other.payoff > best.payoff else best


def _kept(market: Market, bid: Bid) -> Offer | None:
    """The payoff of staying."""
    if not (bid.now and market.has(bid.now)):
        return None
    kinds = {k for _, k, _ in bid.now}
    level = next((level for level in bid.levels if kinds <= set(level.types)), None)
    if level is None:
        return None
    return Offer(level.kept - level.slots * market.cost(bid.now) - _talk(bid, bid.now), bid.now)


def _spread(market: Market, bid: Bid, level: Level, least: float) -> Offer | None:
    """The best GPUs on several servers, where they can pay more than ``least``."""
    cheapest = market.anywhere(level.types, bid.gpus)
    if cheapest is None or bid.gpus == 1:
        return None
    talk = bid.least_charges[max(2, market.fewest(level.types, bid.gpus))]
    bound = level.value - level.slots * cheapest.cost - talk  # no GPUs are cheaper, nor so many servers
    if bound <= least:
        return None
    if _talk(bid, cheapest.seats) <= talk:
        return Offer(level.value - level.slots * cheapest.cost - _talk(bid, cheapest.seats), cheapest.seats)
    found = market.on_servers(level.types, bid.gpus, level.slots, bid.charges)
    if found is None:
        return None
    return Offer(level.value - level.slots * market.cost(found.seats) - _talk(bid, found.seats), found.seats)


def _talk(bid: Bid, seats: ServerSeats) -> float:
    """Cost of communication; a gang on one server has none."""
    servers = {h for h, _, _ in seats}
    return sum(bid.charges[h] for h in servers) if len(servers) > 1 else 0.0
