"""HadarE's copies on nodes, and Hadar's decisions in one round, computed a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.models.hadare.hadare_policy import HadarE
from hetopt.proofs.adversaries.hadar_slots import (
    EXACTLY,
    TIE,
    Gang,
    Prices,
    cells_of,
    decimal,
    gangs_of,
    orders,
    utility,
)
from hetopt.proofs.hadar.copy_cases import CopyCase
from hetopt.proofs.hadar.slot_cases import SlotCase

F = Fraction


# -- copies ----------------------------------------------------------------------------------------------------------


def busy_parts(speeds: Sequence[Fraction], work: Fraction) -> list[Fraction]:
    """For each round of a job on these nodes the part in which all of them are busy; the nodes end together."""
    pace, parts = sum(speeds, F(0)), list[Fraction]()
    while work > 0:
        parts.append(min(F(1), work / pace))
        work -= pace
    return parts


def used_share(case: CopyCase, nodes: Sequence[int]) -> Fraction:
    """The utilisation of all nodes by the first job's copies on ``nodes``."""
    parts = busy_parts([case.speed[i] for i in nodes], case.work[0])
    return len(nodes) * sum(parts, F(0)) / (len(parts) * len(case.speed))


def fastest_first(case: CopyCase) -> list[int]:
    """Nodes by falling speed, the last of equal nodes first."""
    return sorted(range(len(case.speed)), key=lambda i: (case.speed[i], i), reverse=True)


def choices(case: CopyCase) -> Iterator[tuple[int, ...]]:
    """All choices of x nodes."""
    return combinations(range(len(case.speed)), case.copies)


def fewest_rounds(case: CopyCase, copies: int) -> int:
    """The fewest rounds of all jobs on equal nodes, by HiGHS: nodes of each job in each round, and rounds in use."""
    jobs, nodes = len(case.work), len(case.speed)
    most = sum(-(-w // case.speed[0]) for w in case.work)
    width = jobs * most
    rows, low = list[Any](), list[float]()

    def add(entries: dict[int, float], least: float) -> None:
        row = np.zeros(width + most)
        for at, value in entries.items():
            row[at] = value
        rows.append(row)
        low.append(least)

    for j, work in enumerate(case.work):
        add({j * most + r: float(case.speed[0]) for r in range(most)}, float(work))
        for r in range(most):
            add({width + r: float(copies), j * most + r: -1.0}, 0.0)
    for r in range(most):
        add({width + r: float(nodes)} | {j * most + r: -1.0 for j in range(jobs)}, 0.0)
        if r:
            add({width + r - 1: 1.0, width + r: -1.0}, 0.0)
    upper = np.array([float(nodes)] * width + [1.0] * most)
    cost = np.array([0.0] * width + [1.0] * most)
    limits = LinearConstraint(np.array(rows), lb=low)
    found = milp(
        cost, constraints=limits, integrality=np.ones(len(cost), dtype=int), bounds=Bounds(0, upper), options=EXACTLY
    )
    assert found.success, found.message
    return round(float(found.fun))


def policy_rounds(case: CopyCase, copies: int, most: int = 8) -> list[dict[str, list[int]]]:
    """For each round the nodes of each job under the library's policy, until all work is done or ``most`` rounds."""
    policy = HadarE(SECONDS, copies=copies, restart_seconds=0.0, last_round="all")
    left, found = {f"j{j}": work for j, work in enumerate(case.work)}, list[dict[str, list[int]]]()
    while left and len(found) < most:
        placement = policy(_instance(case.speed, left))[0].placement
        assert placement is not None
        found.append({job: [int(node) for node in own] for job, own in placement.dispatch.items()})
        for job, nodes in found[-1].items():
            left[job] -= sum((case.speed[i] for i in nodes), F(0))
        left = {job: work for job, work in left.items() if work > 0}
    return found


SECONDS = 100.0
"""Length of a round of the policy."""


def _instance(speeds: Sequence[Fraction], work: Mapping[str, Fraction]) -> Instance:
    """Nodes 0, 1, ... of one GPU each, and jobs with this work."""
    types = tuple(GPUType(f"type{i}") for i in range(len(speeds)))
    servers = tuple(Server(str(i), {t.name: 1}) for i, t in enumerate(types))
    rates = {t.name: float(v) / SECONDS for t, v in zip(types, speeds, strict=True)}
    return Instance(Cluster(types, servers), jobs=tuple(Job(name, rates, float(w)) for name, w in work.items()))


# -- decisions in one round ------------------------------------------------------------------------------------------

Price = Callable[[int, int], Decimal]
"""(cell, GPUs in use) -> price of a GPU."""

Used = tuple[int, ...]
"""GPUs in use in each cell."""


class Taken(NamedTuple):
    """The GPUs of a job, and its payoff."""

    payoff: Decimal
    seats: tuple[int, ...]


def cost_of(seats: Sequence[int], used: Used, price: Price) -> Decimal:
    """The price of these GPUs with ``used`` in use."""
    return sum((n * price(i, used[i]) for i, n in enumerate(seats) if n), Decimal(0))


def offered(case: SlotCase, price: Price, used: Used, j: int, *, last: bool) -> Taken | None:
    """FIND_ALLOC: a cheapest gang, in ties the fastest, then the first or ``last``; None if it does not pay."""
    cells = tuple(cells_of(case))
    best: tuple[Decimal, Gang] | None = None
    for gang in gangs_of(case.jobs[j], cells):
        if all(used[i] + n <= cells[i][1] for i, n in enumerate(gang.seats)):
            cost = cost_of(gang.seats, used, price)
            if best is None or cost < best[0] - TIE:
                best = cost, gang
            elif cost < best[0] + TIE and (gang.speed > best[1].speed or (last and gang.speed == best[1].speed)):
                best = best[0], gang
    payoff = decimal(case.jobs[j].worth) - best[0] if best else Decimal(0)
    return Taken(payoff, best[1].seats) if best and payoff > TIE else None


def added(used: Used, seats: Sequence[int]) -> Used:
    """GPUs in use with these as well."""
    return tuple(a + b for a, b in zip(used, seats, strict=True))


def decided_as_printed(
    case: SlotCase, price: Price, *, last: bool
) -> tuple[tuple[tuple[int, ...], ...], set[tuple[int, Used]]]:
    """Algorithm 2, line by line: the gangs that it returns, and its states (job, GPUs in use)."""
    full, visited = tuple(gpus for _, gpus in cells_of(case)), set[tuple[int, Used]]()

    def call(index: int, taken: tuple[tuple[int, ...], ...], used: Used) -> tuple[tuple[int, ...], ...]:
        visited.add((index, used))
        if index >= len(case.jobs) or used == full:  # lines 1 to 3
            return taken
        own = offered(case, price, used, index, last=last)
        if own is None:  # lines 7 to 9
            return taken
        after = added(used, own.seats)
        with_it, without = call(index + 1, (*taken, own.seats), after), call(index + 1, taken, used)
        cost = sum((cost_of(seats, after, price) for seats in with_it), Decimal(0))
        other = sum((cost_of(seats, used, price) for seats in without), Decimal(0))
        return with_it if cost < other - TIE else without

    return call(0, (), (0,) * len(full)), visited


def best_by_recursion(case: SlotCase, price: Price, *, last: bool) -> Decimal:
    """The sum of payoffs that the recursion finds, null meaning that the job is skipped."""
    full = tuple(gpus for _, gpus in cells_of(case))

    def call(index: int, used: Used) -> Decimal:
        if index >= len(case.jobs) or used == full:
            return Decimal(0)
        own, skipped = offered(case, price, used, index, last=last), call(index + 1, used)
        return skipped if own is None else max(skipped, own.payoff + call(index + 1, added(used, own.seats)))

    return call(0, (0,) * len(full))


def best_of_all_decisions(case: SlotCase, price: Price, *, last: bool) -> Decimal:
    """The largest sum of payoffs over all sets of jobs, which take what they are offered in turn."""
    best = Decimal(0)
    for chosen in product((0, 1), repeat=len(case.jobs)):
        used, total = (0,) * len(cells_of(case)), Decimal(0)
        for j in range(len(case.jobs)):
            own = offered(case, price, used, j, last=last) if chosen[j] else None
            if own is not None:
                used, total = added(used, own.seats), total + own.payoff
        best = max(best, total)
    return best


# -- Algorithm 1 with jobs of one round ------------------------------------------------------------------------------


def served_in_rounds(case: SlotCase, prices: Prices) -> tuple[int, Fraction]:
    """The least number of free GPUs of a cell, and the least ALG, of all runs that decide again in every round."""
    cells, every = tuple(cells_of(case)), list(orders(case))
    free = min(gpus for _, gpus in cells)
    totals = {tuple(range(len(case.jobs))): F(0)}  # jobs left -> least utility of the others
    for t in range(case.slots):
        after = dict[tuple[int, ...], Fraction]()
        for left, total in totals.items():
            for order in every:
                queue = [j for j in order if j in left and case.jobs[j].arrival <= t]
                for used, done in _in_turn(case, prices, t, queue):
                    free = min(free, *(gpus - n for (_, gpus), n in zip(cells, used, strict=True)))
                    gain = total + sum((utility(case.jobs[j], t) for j in done), F(0))
                    rest = tuple(j for j in left if j not in done)
                    after[rest] = min(after.get(rest, gain), gain)
        totals = after
    return free, min(totals.values())


def _in_turn(case: SlotCase, prices: Prices, t: int, queue: Sequence[int]) -> set[tuple[Used, frozenset[int]]]:
    """(GPUs in use, jobs served) after a round in which jobs take a gang with the largest payoff, for all ties."""
    cells = tuple(cells_of(case))
    states: set[tuple[Used, frozenset[int]]] = {((0,) * len(cells), frozenset())}
    for j in queue:
        after = set[tuple[Used, frozenset[int]]]()
        for used, done in states:
            costs = [(cost_of(g.seats, used, prices.price), g.seats) for g in gangs_of(case.jobs[j], cells)]
            least = min(cost for cost, _ in costs)
            if decimal(utility(case.jobs[j], t)) - least <= TIE:
                after.add((used, done))
                continue
            after |= {(added(used, seats), done | {j}) for cost, seats in costs if cost < least + TIE}
        states = after
    return states
