"""Rules of OEF's paper by simulation in fractions: Gandiva_fair's trades, and rounding."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import ceil, floor, lcm
from typing import Any

from hetopt.proofs.adversaries.linear_optima import FAILS, HOLDS

F = Fraction


def traded(
    speed: Sequence[Sequence[Fraction]], gpus: Sequence[Fraction], pairs: Iterable[tuple[int, int]], *, last_first: bool
) -> list[list[Fraction]]:
    """Gandiva_fair: trades of slow for fast GPUs in the order of ``pairs``; ties by the first or the last user."""
    share = [[m / len(speed) for m in gpus] for _ in speed]
    order = list(range(len(speed)))[:: -1 if last_first else 1]
    for slow, fast in pairs:
        ratio = [row[fast] / row[slow] for row in speed]
        while True:
            rich = sorted((e for e in order if share[e][slow]), key=lambda e: -ratio[e])
            poor = sorted((e for e in order if share[e][fast]), key=lambda e: ratio[e])
            if not rich or not poor or ratio[rich[0]] <= ratio[poor[0]]:
                break
            buyer, seller = rich[0], poor[0]
            second = ratio[rich[1]] if len(rich) > 1 else F(0)
            price = second if second > ratio[seller] else (ratio[buyer] + ratio[seller]) / 2
            if share[buyer][slow] < price * share[seller][fast]:
                paid, bought = share[buyer][slow], share[buyer][slow] / price
            else:
                paid, bought = price * share[seller][fast], share[seller][fast]
            for e, sign in ((buyer, 1), (seller, -1)):
                share[e][fast] += sign * bought
                share[e][slow] -= sign * paid
    return share


def rates_of(speed: Sequence[Sequence[Fraction]], share: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """The rates of all users."""
    return [sum((w * x for w, x in zip(*pair, strict=True)), F(0)) for pair in zip(speed, share, strict=True)]


def gandiva_surplus(case: Any) -> Fraction:
    """The smallest surplus over the equal split, for all orders of the pairs of types and both ways to break ties."""
    fair = rates_of(case.speed, [[m / len(case.speed) for m in case.gpus]] * len(case.speed))
    every = permutations(combinations(range(len(case.gpus)), 2))
    shares = (traded(case.speed, case.gpus, order, last_first=way) for order in every for way in (False, True))
    return min(a - b for share in shares for a, b in zip(rates_of(case.speed, share), fair, strict=True))


def exchangeable(case: Any, share: Sequence[Sequence[Fraction]]) -> bool:
    """Whether two users gain by an exchange of two types, or a GPU is idle: the allocation is dominated."""
    ratio = [row[1] / row[0] for row in case.speed]
    slow, fast = ([r for r, row in zip(ratio, share, strict=True) if row[j] > 0] for j in (0, 1))
    used = [sum(column) for column in zip(*share, strict=True)] == list(case.gpus)
    return not used or max(slow, default=F(0)) > min(fast, default=max(ratio))


def gandiva_exchange(case: Any) -> Fraction:
    """Whether users could gain by an exchange after the trades; ties are broken in both ways."""
    shares = (traded(case.speed, case.gpus, [(0, 1)], last_first=way) for way in (False, True))
    return FAILS if any(exchangeable(case, share) for share in shares) else HOLDS


# -- rounding --------------------------------------------------------------------------------------------------------


def rounded_deviation(case: Any) -> Fraction:
    """1/2 minus the largest deviation of all that rounding can reach, with halves up or down in every round."""
    worst = F(0)
    for ideal in set(case.ideal):
        reached, new = {F(0)}, {F(0)}
        while new:
            due = {ideal + dev for dev in new}
            new = {v - real for v in due for real in {ceil(v - F(1, 2)), floor(v + F(1, 2))}} - reached
            reached |= new
        worst = max(worst, *map(abs, reached))
    return F(1, 2) - worst


def earliest_deadlines(case: Any) -> Fraction:
    """1 minus the largest deviation of all schedules by earliest deadlines, with ties broken in all ways.

    The s-th GPU of a tenant of share x may be assigned from round floor((s - 1) / x) + 1 to ceil(s / x). Schedules
    repeat after as many rounds as the shares have as common denominator.
    """
    ideal, gpus, worst = case.ideal, case.gpus, F(0)
    reached = {(0,) * len(ideal)}
    for t in range(1, lcm(*(x.denominator for x in ideal)) + 1):
        found = set()
        for counts in reached:
            due = sorted(
                (ceil(F(s, 1) / x), i)
                for i, x in enumerate(ideal)
                for s in range(counts[i] + 1, counts[i] + gpus + 1)
                if floor((s - 1) / x) + 1 <= t
            )
            if len(due) < gpus:
                return FAILS  # a GPU is idle
            last = due[gpus - 1][0]
            first, ties = [i for d, i in due if d < last], [i for d, i in due if d == last]
            for chosen in set(combinations(ties, gpus - len(first))):
                found.add(tuple(c + (*first, *chosen).count(i) for i, c in enumerate(counts)))
        reached = found
        worst = max(worst, *(abs(t * x - c) for counts in reached for x, c in zip(ideal, counts, strict=True)))
    return 1 - worst if worst < 1 else FAILS


GANG_ROUNDS = 30
"""Rounds of gangs."""


def nearest_gangs(case: Any) -> Fraction:
    """The smallest T D^2 - |dev|^2 for random shares that are means of usable points; ties by the last point."""
    sizes = ([0, *range(d, case.gpus + 1)] for d in case.demand)
    points = [p for p in product(*sizes) if sum(p) <= case.gpus][::-1]
    rng = random.Random(len(points))
    means = ([rng.choice(points) for _ in range(rng.randint(1, 7))] for _ in range(2))
    return min(least_room(points, drawn) for drawn in means)


def least_room(points: Sequence[tuple[int, ...]], drawn: Sequence[tuple[int, ...]]) -> Fraction:
    """The smallest T D^2 - |dev|^2 for the mean of the points ``drawn``; all in units of 1 / len(drawn)."""
    widest = max(_distance(p, q) for p, q in product(points, repeat=2))
    units, ideal = len(drawn), [sum(column) for column in zip(*drawn, strict=True)]
    dev, room = [0] * len(ideal), F(widest)
    for t in range(1, GANG_ROUNDS + 1):
        due = [a + b for a, b in zip(dev, ideal, strict=True)]
        real = min(points, key=lambda p: _distance(due, [units * v for v in p]))
        dev = [a - units * b for a, b in zip(due, real, strict=True)]
        room = min(room, t * widest - F(_distance(dev, [0] * len(dev)), units**2))
    return room


def _distance(a: Sequence[int], b: Sequence[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
