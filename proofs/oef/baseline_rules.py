"""The rules of Gavel and Gandiva_fair as described in [OEF, section 2.4], in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from hetopt.proofs.oef.tenant_cases import Optimum, Share, TenantCase
from hetopt.proofs.small_programs import RowVector, maximise_exactly

F = Fraction


def gavel(case: TenantCase) -> Optimum:
    """Max-min of the ratios to the equal split, each tenant with at most one GPU's time: [OEF, eq. 3].

    The row ``sum_j x_l^j <= 1`` of each tenant is from Gavel; OEF omits it.
    """
    shares = case.n * case.k
    rows: list[tuple[RowVector, Fraction]] = []
    for j, m in enumerate(case.gpus):
        rows.append(([F(1) if c < shares and c % case.k == j else F(0) for c in range(shares + 1)], m))
    for e in range(case.n):
        rows.append(([F(1) if c < shares and c // case.k == e else F(0) for c in range(shares + 1)], F(1)))
        fair = case.worth(e, case.gpus) / case.n
        own = [-case.speed[e][c % case.k] if c // case.k == e else F(0) for c in range(shares)]
        rows.append(([*own, fair], F(0)))
    found = maximise_exactly([*[F(0)] * shares, F(1)], rows)
    share = tuple(tuple(found.x[e * case.k : (e + 1) * case.k]) for e in range(case.n))
    return Optimum(share, sum(case.rates(share), F(0)), found.unique, found.dual)


@dataclass(frozen=True)
class PairTrade:
    """``seller`` gives ``moved`` GPUs of ``fast`` to ``buyer`` for ``price`` times as many of ``slow``."""

    buyer: int
    seller: int
    slow: int
    fast: int
    price: Fraction
    moved: Fraction


def gandiva_fair(case: TenantCase) -> tuple[Share, list[PairTrade]]:
    """Equal split, then trades at second prices; speedups positive. The rule of ``models/gandiva_fair.py``."""
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


def _pairs(case: TenantCase) -> list[tuple[int, int]]:
    """Pairs of types, the greatest gap of speedups first; the fast one is the faster for most."""
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
