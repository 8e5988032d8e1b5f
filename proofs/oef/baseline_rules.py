"""The rules of Gavel and Gandiva_fair according to [OEF, section 2.4], in fractions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from hetopt.proofs.oef.tenant_cases import Constraints, Optimum, Share, TenantCase

F = Fraction

AllocationRule = Callable[[TenantCase], Optimum]
"""Shares without regard to demands."""


def gavel(case: TenantCase) -> Optimum:
    """Max-min of the ratios to the equal split, with at most one GPU's time per tenant: [OEF, eq. 3].

    The row ``sum_j x_l^j <= 1`` of each tenant is from Gavel; OEF omits it.
    """
    return max_min(case, [(case.row({(e, j): F(1) for j in range(case.k)}, [F(0)]), F(1)) for e in range(case.n)])


def max_min(case: TenantCase, further: Constraints | None = None) -> Optimum:
    """Max-min of the ratios to the equal split, under ``further`` rows."""
    rows = [*case.capacity_rows(extra=1), *(further or ())]
    for e, speed in enumerate(case.speed):
        fair = case.worth(e, case.gpus) / case.n
        rows.append((case.row({(e, j): -w for j, w in enumerate(speed)}, [fair]), F(0)))
    return case.optimum(case.largest_level(rows))


@dataclass(frozen=True)
class PairTrade:
    """A trade: ``seller`` gives ``moved`` GPUs of ``fast`` to ``buyer`` for ``price`` times as many of ``slow``."""

    buyer: int
    seller: int
    slow: int
    fast: int
    price: Fraction
    moved: Fraction


def gandiva_fair(case: TenantCase) -> tuple[Share, list[PairTrade]]:
    """Equal split, then trades at second prices, as in ``models/gandiva_fair.py``; speedups are positive."""
    share = [[m / case.n for m in case.gpus] for _ in range(case.n)]
    trades = []
    for slow, fast in _pairs(case):
        gain = [row[fast] / row[slow] for row in case.speed]
        while (trade := _next(gain, share, slow, fast)) is not None:
            b, s = trade.buyer, trade.seller
            share[b][fast] += trade.moved
            share[s][fast] -= trade.moved
            share[s][slow] += trade.moved * trade.price
            share[b][slow] -= trade.moved * trade.price
            trades.append(trade)
    return tuple(tuple(row) for row in share), trades


def by_gandiva_fair(case: TenantCase) -> Optimum:
    """The allocation of :func:`gandiva_fair`, which counts as a unique optimum."""
    share, _ = gandiva_fair(case)
    return Optimum(share, sum(case.rates(share), F(0)), True, ())


def _pairs(case: TenantCase) -> list[tuple[int, int]]:
    """Pairs (slow, fast) of types, the largest ratio of speedups first; most tenants are faster on the fast type."""
    found = []
    for i, j in combinations(range(case.k), 2):
        later = sum(row[j] >= row[i] for row in case.speed) >= sum(row[i] >= row[j] for row in case.speed)
        slow, fast = (i, j) if later else (j, i)
        gain = [row[fast] / row[slow] for row in case.speed]
        if max(gain) > min(gain):
            found.append((-max(gain) / min(gain), slow, fast))
    return [(slow, fast) for _, slow, fast in sorted(found)]


def _next(gain: list[Fraction], share: list[list[Fraction]], slow: int, fast: int) -> PairTrade | None:
    buyers = [e for e, row in enumerate(share) if row[slow] > 0]
    sellers = [e for e, row in enumerate(share) if row[fast] > 0]
    if not buyers or not sellers:
        return None
    buyer, seller = max(buyers, key=lambda e: (gain[e], -e)), min(sellers, key=lambda e: (gain[e], e))
    if gain[buyer] <= gain[seller]:
        return None
    second = max((gain[e] for e in buyers if e != buyer), default=F(0))
    price = second if second > gain[seller] else (gain[buyer] + gain[seller]) / 2
    return PairTrade(buyer, seller, slow, fast, price, min(share[seller][fast], share[buyer][slow] / price))
