"""Pareto efficiency in rational numbers, without any solver: prices that prove it, or a trade that refutes it.

An allocation x of divisible GPUs with rates ``v[e].x[e]`` is Pareto-efficient iff three things cannot be done:

1. hand out what is left of a type to someone who can use it;
2. take GPUs from someone to whom they are worth nothing, for someone to whom they are worth something;
3. trade in a ring: holder e of type k gives some for type k', worth ``v[e, k'] / v[e, k]`` as much to it, and so
   on around types with a product of ratios above 1; then all stay as they are and the last one gains.

Let ``r[k, k']`` be the largest ratio among the holders of k. Without a ring above 1 the largest products of ratios
``p[k']`` over all paths to k' are finite, and they are prices: ``p[k'] >= p[k] v[e, k'] / v[e, k]`` for each holder e
of k. With ``weights[e] = min_k p[k] / v[e, k]`` the allocation maximises the weighted sum of rates, all weights being
positive, so nothing dominates it. This is weak duality; the converse is what the three cases show.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from hetopt.auditing.gains import NAME, judged_by_gain
from hetopt.auditing.holdings import Holdings
from hetopt.auditing.verdict import Verdict, judged
from hetopt.auditing.witnesses import SupportingPrices


def exact_efficiency(held: Holdings) -> Verdict:
    """Decide Pareto efficiency of holdings in Fractions that respect capacity."""
    better = _handed_out(held)
    if better is None:
        prices = _prices(held)
        if isinstance(prices, SupportingPrices):
            return judged(NAME, Fraction(0), prices, proof=prices)
        better = _trade(held, prices)
    return judged_by_gain(held, better)


def _handed_out(held: Holdings) -> Any:
    """The allocation with leftovers and useless GPUs given to those who gain most by them; None if there are none."""
    better, found = held.gpus.copy(), False
    for k in range(len(held.types)):
        worth = held.value[:, k] / held.whole
        if not (worth > 0).any():
            continue
        best = int(worth.argmax())
        useless = np.flatnonzero((held.value[:, k] == 0) & (held.gpus[:, k] > 0))
        spare = held.capacity[k] - held.gpus[:, k].sum() + held.gpus[useless, k].sum()
        if spare > 0:
            better[useless, k] = Fraction(0)
            better[best, k] += spare
            found = True
    return better if found else None


def _prices(held: Holdings) -> SupportingPrices | list[tuple[int, int]]:
    """Prices that prove efficiency, or a ring of (type, its holder who gives it), in the order of the trade."""
    k = len(held.types)
    ratio, holder = _ratios(held)
    price, before = [Fraction(1)] * k, [-1] * k
    changed = -1
    for _ in range(k + 1):
        changed = -1
        for i in range(k):
            for j in range(k):
                if price[i] * ratio[i][j] > price[j]:
                    price[j], before[j], changed = price[i] * ratio[i][j], i, j
        if changed < 0:
            break
    if changed >= 0:
        return [(i, holder[i][j]) for i, j in _ring(before, changed)]
    for j in range(k):
        if not (held.value[:, j] > 0).any():
            price[j] = Fraction(0)  # worth nothing to anybody
    return _proof(held, price)


def _ratios(held: Holdings) -> tuple[list[list[Fraction]], list[list[int]]]:
    """ratio[i][j]: the largest v[e, j] / v[e, i] among holders e of type i (0: nobody); holder[i][j]: that e."""
    k = len(held.types)
    ratio, holder = [[Fraction(0)] * k for _ in range(k)], [[-1] * k for _ in range(k)]
    for e, i in np.argwhere((held.gpus > 0) & (held.value > 0)).tolist():
        for j in range(k):
            worth = held.value[e, j] / held.value[e, i]
            if i != j and worth > ratio[i][j]:
                ratio[i][j], holder[i][j] = worth, e
    return ratio, holder


def _ring(before: list[int], start: int) -> list[tuple[int, int]]:
    """The ring of types in the tree of predecessors, as pairs (type given, type received)."""
    node = start
    for _ in before:
        node = before[node]
    ring, j = [], node
    while True:
        ring.append((before[j], j))
        j = before[j]
        if j == node:
            return ring[::-1]


def _trade(held: Holdings, ring: list[tuple[int, int]]) -> Any:
    """The largest trade around ``ring`` that leaves all but the last as they are."""
    types, givers = [i for i, _ in ring], [e for _, e in ring]
    amount = [Fraction(1)]
    for (i, e), j in zip(ring[:-1], types[1:], strict=True):
        amount.append(amount[-1] * held.value[e, i] / held.value[e, j])
    size = min(held.gpus[e, i] / a for (i, e), a in zip(ring, amount, strict=True))
    better = held.gpus.copy()
    for place, (i, e) in enumerate(ring):
        better[e, i] -= size * amount[place]
        better[givers[place - 1], i] += size * amount[place]
    return better


def _proof(held: Holdings, price: list[Fraction]) -> SupportingPrices:
    weights = {}
    for e, name in enumerate(held.names):
        bids = [price[k] / v for k, v in enumerate(held.value[e].tolist()) if v > 0]
        weights[name] = min(bids, default=Fraction(1))  # to whom nothing is worth anything, any weight will do
    return SupportingPrices(dict(zip(held.types, price, strict=True)), weights)
