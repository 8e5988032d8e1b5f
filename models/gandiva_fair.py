"""Gandiva_fair: equal division, then trades of slow GPUs for fast ones at second prices, [OEF, section 2.4].

Chaudhary, Ramjee, Sivathanu, Kwatra, Viswanatha: Balancing Efficiency and Fairness in Heterogeneous GPU Clusters for
Deep Learning, EuroSys 2020.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.rates import fair_part
from hetopt.formulations.traits import Traits
from hetopt.models.baselines import by_rule
from hetopt.results.allocation import Allocation


@dataclass(frozen=True)
class GPUTrade:
    """``seller`` gives ``moved`` GPUs of type ``fast`` to ``buyer`` for ``moved * price`` GPUs of type ``slow``."""

    buyer: int
    seller: int
    slow: int
    fast: int
    price: float
    moved: float


@dataclass(frozen=True)
class GandivaFair:
    """Trades between tenants in greedy order; every pair of GPU types is traded once.

    Each tenant starts with its fair part of every GPU type, weight / sum(weight). Between two types (each pair once, in
    order of decreasing gap between two tenants' speedups):

    - the buyer is the tenant with the largest speedup on the fast type among the tenants that still hold slow GPUs,
    - the seller is the tenant with the smallest speedup among the tenants that still hold fast GPUs,
    - the price, in slow GPUs per fast GPU, is the second-highest speedup among the tenants that hold slow GPUs; if it
      does not exceed the seller's speedup (only buyer and seller remain), it is the mean of both speedups,
    - they trade until one of them has no GPUs left to give.

    The price lies between both speedups, so neither tenant loses: each keeps at least the rate of equal division. A
    pair of types is traded once, so two tenants may still gain by trading GPUs that a later pair moved. The policy is
    not strategy-proof: sellers may gain by reporting larger speedups, buyers by reporting smaller ones.
    """

    @property
    def traits(self) -> Traits:
        """Its allocations share GPUs in time."""
        return Traits(fractional=True)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation, None]:
        """The allocation, and no state."""
        began = time.perf_counter()
        share, _ = self.trades(instance)
        return by_rule(_tenants(instance), share, "trading", time.perf_counter() - began), None

    def trades(self, instance: Instance) -> tuple[Floats, list[GPUTrade]]:
        """(n, k) final GPUs, and the trades in order; GPUs that are useless to their owner stay idle."""
        entities = _tenants(instance)
        share = fair_part(entities.weight, entities.capacity)
        done: list[GPUTrade] = []
        for slow, fast in _pairs(entities.speed):
            gain = _gain(entities.speed[:, slow], entities.speed[:, fast])
            while (trade := _next_trade(gain, share, slow, fast)) is not None:
                _carry_out(trade, share)
                done.append(trade)
        return np.where(entities.allowed, share, 0.0), done


def _tenants(instance: Instance) -> Entities:
    return present_entities(instance, "tenants", "GandivaFair")


def _gain(slow: Floats, fast: Floats) -> Floats:
    """(n,) speedup of the fast type over the slow one; infinite where the slow one is useless, NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(fast / slow)


def _pairs(speed: Floats) -> list[tuple[int, int]]:
    """Pairs (slow, fast) of types that two tenants would exchange, the largest gap first.

    The fast type of a pair is the one that is faster for most tenants; in a tie the later one.
    """
    k = speed.shape[1]
    found: list[tuple[float, int, int]] = []
    for i in range(k):
        for j in range(i + 1, k):
            later = int((speed[:, j] >= speed[:, i]).sum()) >= int((speed[:, i] >= speed[:, j]).sum())
            slow, fast = (i, j) if later else (j, i)
            gain = _gain(speed[:, slow], speed[:, fast])
            gain = gain[~np.isnan(gain)]
            if len(gain) and gain.max() > gain.min():
                gap = float(gain.max() / gain.min()) if gain.min() > 0 else np.inf
                found.append((-gap, slow, fast))
    return [(slow, fast) for _, slow, fast in sorted(found)]


def _next_trade(gain: Floats, share: Floats, slow: int, fast: int) -> GPUTrade | None:
    """The next trade by the rule, or None if no trade is beneficial."""
    buyers = np.flatnonzero((share[:, slow] > 0) & ~np.isnan(gain))
    sellers = np.flatnonzero((share[:, fast] > 0) & ~np.isnan(gain))
    if not len(buyers) or not len(sellers):
        return None
    buyer, seller = int(buyers[gain[buyers].argmax()]), int(sellers[gain[sellers].argmin()])
    if gain[buyer] <= gain[seller]:
        return None
    price = _price(gain, buyers[buyers != buyer], buyer, seller)
    moved = share[seller, fast] if price == 0 else min(share[seller, fast], share[buyer, slow] / price)
    return GPUTrade(buyer, seller, slow, fast, price, float(moved))


def _price(gain: Floats, others: NDArray[np.intp], buyer: int, seller: int) -> float:
    """Slow GPUs per fast GPU, between the gains of seller and buyer, finite."""
    second = float(gain[others].max(initial=0.0))
    price = second if second > gain[seller] else float(gain[buyer] + gain[seller]) / 2.0
    if np.isfinite(price):
        return price
    finite = gain[np.isfinite(gain)]  # slow GPUs are worthless to the buyer: it accepts any price
    return float(max(finite.max(initial=0.0), gain[seller]))


def _carry_out(trade: GPUTrade, share: Floats) -> None:
    """Move the GPUs; a tenant that gives all its GPUs is left with exactly 0."""
    buyer, seller, slow, fast = trade.buyer, trade.seller, trade.slow, trade.fast
    paid = trade.moved * trade.price
    sold_out = trade.moved >= share[seller, fast]
    share[buyer, fast] += trade.moved
    share[seller, fast] = 0.0 if sold_out else share[seller, fast] - trade.moved
    share[seller, slow] += paid if sold_out else share[buyer, slow]
    share[buyer, slow] = max(0.0, share[buyer, slow] - paid) if sold_out else 0.0


def gandiva_fair() -> GandivaFair:
    """Equal division, then trades of slow GPUs for fast ones at second prices."""
    return GandivaFair()
