"""Lending by the times at which types run out, for the shares of the library's policies; rates by duality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations
from math import inf
from typing import Any

from hetopt.formulations.policies import Policy
from hetopt.models import baselines, gavel, oef
from hetopt.models.gandiva_fair import gandiva_fair
from hetopt.proofs.adversaries.linear_optima import HOLDS
from hetopt.proofs.adversaries.oef_optima import Tenants, policy_share
from hetopt.tolerances import EQUAL

F = Fraction
Table = list[list[Fraction]]

FAIR: tuple[Policy, ...] = (
    oef.cooperative(),
    replace(gavel.max_min_fairness(tenant_gpus=inf), kind="tenants"),
    gandiva_fair(),
    baselines.equal_split(),
)


def shares_of(case: Any, policies: Sequence[Policy]) -> Iterator[Table]:
    """The shares of these policies, as fractions."""
    for policy in policies:
        yield [[F(max(0.0, float(x))) for x in row] for row in policy_share(Tenants.of(case.tenants), policy)]


def rate(speed: Sequence[Fraction], demand: Fraction, gpus: Sequence[Fraction]) -> Fraction:
    """The rate of jobs for ``demand`` GPUs on these: the least of all bounds by a price of a job's time."""
    prices = (F(0), *speed)
    return min(p * demand + sum((max(w - p, F(0)) * n for w, n in zip(speed, gpus, strict=True)), F(0)) for p in prices)


def own_gpus(speed: Sequence[Fraction], demand: Fraction, gpus: Sequence[Fraction]) -> list[Fraction]:
    """The user's GPUs that its jobs use: what faster types leave of its demand."""
    used = []
    for j, (w, n) in enumerate(zip(speed, gpus, strict=True)):
        better = (m for i, (v, m) in enumerate(zip(speed, gpus, strict=True)) if (v, -i) > (w, -j))
        used.append(min(n, max(F(0), demand - sum(better, F(0)))))
    return used


def borrowed(speed: Table, idle: Sequence[Fraction], waits: Sequence[Fraction]) -> Table:
    """(n, k) GPUs that users borrow at the pace of one GPU per unit of time.

    While a type has GPUs it is taken by the users that have no faster type left. So the type that runs out first is the
    one for which they have, at the least time, taken all of it.
    """
    order = [sorted(range(len(idle)), key=lambda j: (-row[j], j)) for row in speed]
    ends: dict[int, Fraction] = {j: F(0) for j, m in enumerate(idle) if m <= 0}
    while True:
        begins: dict[int, list[tuple[Fraction, Fraction]]] = {}
        for types, most in zip(order, waits, strict=True):
            begin = F(0)
            for j in types:
                if j not in ends:
                    begins.setdefault(j, []).append((begin, most))
                    break
                begin = max(begin, ends[j])
        found = [(end, j) for j, takers in begins.items() if (end := _time_to_take(idle[j], takers)) is not None]
        if not found:
            break
        end, j = min(found)
        ends[j] = end
    taken = [[F(0)] * len(idle) for _ in speed]
    for row, types, most in zip(taken, order, waits, strict=True):
        begin = F(0)
        for j in types:
            end = min(most, ends.get(j, most))
            row[j] = max(F(0), end - begin)
            begin = max(begin, end)
    return taken


def _time_to_take(gpus: Fraction, takers: Sequence[tuple[Fraction, Fraction]]) -> Fraction | None:
    """When users (begin, end) have taken these GPUs; None if never."""
    times = sorted({time for taker in takers for time in taker})
    done = F(0)
    for time, after in pairwise(times):
        pace = sum(begin <= time < end for begin, end in takers)
        if pace and done + pace * (after - time) >= gpus:
            return time + (gpus - done) / pace
        done += pace * (after - time)
    return None


def in_use(case: Any, share: Table) -> Table:
    """(n, k) GPUs in use after lending."""
    speed, demand = case.tenants.speed, case.demand
    own = [own_gpus(w, d, row) for w, d, row in zip(speed, demand, share, strict=True)]
    idle = [m - sum(column, F(0)) for m, column in zip(case.tenants.gpus, zip(*own, strict=True), strict=True)]
    waits = [d - sum(row, F(0)) for d, row in zip(demand, own, strict=True)]
    more = borrowed(speed, idle, waits)
    return [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(own, more, strict=True)]


def loss(case: Any) -> Fraction:
    """The smallest change of a user's rate by lending."""
    slack = HOLDS
    for share in shares_of(case, (*FAIR, oef.noncooperative())):
        for w, d, mine, used in zip(case.tenants.speed, case.demand, share, in_use(case, share), strict=True):
            slack = min(slack, rate(w, d, used) - rate(w, d, mine))
    return F(slack)


def surplus(case: Any) -> Fraction:
    """The smallest surplus over the part of the cluster of a user that can use its share."""
    slack, part = HOLDS, [m / len(case.demand) for m in case.tenants.gpus]
    for share in shares_of(case, FAIR):
        for w, d, mine, used in zip(case.tenants.speed, case.demand, share, in_use(case, share), strict=True):
            if d >= sum(mine) + EQUAL:
                slack = min(slack, rate(w, d, used) - rate(w, d, part))
    return F(slack)


def split_surplus(case: Any) -> Fraction:
    """The smallest surplus over the part of the cluster under the equal split."""
    part = [m / len(case.demand) for m in case.tenants.gpus]
    used = in_use(case, [part] * len(case.demand))
    users = zip(case.tenants.speed, case.demand, used, strict=True)
    return F(min(rate(w, d, row) - rate(w, d, part) for w, d, row in users))


def envy_of_waiting(case: Any) -> Fraction:
    """The smallest difference between the rate of a user that waits and its rate with another's GPUs in use."""
    slack = HOLDS
    for share in shares_of(case, (oef.cooperative(), baselines.equal_split())):
        used = in_use(case, share)
        for e, o in permutations(range(len(share)), 2):
            w, d = case.tenants.speed[e], case.demand[e]
            if d >= sum(share[e]) + EQUAL and d >= sum(used[e]) + EQUAL:
                slack = min(slack, rate(w, d, used[e]) - rate(w, d, used[o]))
    return F(slack)


def one_type_gain(case: Any) -> Fraction:
    """Minus the gain of u1 by its report of its jobs, of one GPU type: the largest number of GPUs for each is found."""

    def most(reported: Any) -> Fraction:
        (gpus,) = reported.tenants.gpus
        part = gpus / len(reported.demand)
        needs = [max(F(0), d - part) for d in reported.demand]
        idle = gpus - sum((min(d, part) for d in reported.demand), F(0))
        levels = sorted(needs)
        for i, level in enumerate(levels):  # users with the i least needs have what they need
            common = (idle - sum(levels[:i], F(0))) / (len(levels) - i)
            if common < level:
                return F(min(reported.demand[0], part) + min(needs[0], common))
        return F(reported.demand[0])

    true = case.truth.demand[0]
    return F(min(true, most(case.truth)) - min(true, most(case.reported)))
