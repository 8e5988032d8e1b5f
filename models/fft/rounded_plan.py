"""A plan near the relaxation of an FFT round: each running job on its best type, then exchanges between types.

Best types need more GPUs of some types than there are, and leave others free. A step moves jobs from a type with too
many to one with free GPUs, and perhaps some back, so that no type gets more than it has free. A knapsack finds the
exchange of least loss per GPU among those with few jobs of each size. So each step comes nearer to a plan. If there is
no such exchange, a type passes what it has too many or too few of to a larger type, or to the jobs that wait. In the
order of the types by size, the first misfit that a step changes becomes smaller, so there is an end. Exchanges that
move no GPUs in sum then make the plan cheaper.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.solving.blocks import Flags
from hetopt.tolerances import PROVEN

FEW = 3
"""Most jobs of one size that an exchange moves in each direction."""

MANY = 4
"""Number of the largest gangs. If they have fewer GPUs than must move, half of these move at once, and none back. Sums
on the way in a knapsack, in the order of its jobs, differ from the result by at most as many GPUs."""

Exchange = tuple[float, Positions, Positions]
"""Loss per GPU, or in all if no GPU moves in sum, and the jobs that move there and back."""


def rounded(loss: Floats, waits: Floats, demand: Positions, room: Positions, runs: Flags) -> Positions | None:
    """(n,) type of each job in a plan in which as many GPUs run, -1 where a job waits; None if exchanges find none.

    Parameters
    ----------
    loss, waits:
        (n, k) and (n,) by how much the cost grows if a job runs on a type, or waits; infinite where it cannot.
    demand, room:
        (n,) GPUs of each gang and (k,) of each type.
    runs:
        (n,) jobs that run at first.
    """
    k = len(room)  # the place of the jobs that wait
    losses, choice = np.column_stack([loss, waits]), np.where(runs, loss.argmin(axis=1), k)
    rooms = np.append(room, demand[~runs].sum())
    known: dict[tuple[int, int], Exchange] = {}
    while True:
        free = rooms - np.bincount(choice, demand, k + 1).astype(np.intp)
        if (free >= 0).all():
            return np.where(choice < k, choice, -1)
        pairs = list(product(np.flatnonzero(free < 0).tolist(), np.flatnonzero(free > 0).tolist()))
        for pair in pairs:
            if pair not in known:
                known[pair] = _exchange(losses, demand, choice, pair, 1, int(np.abs(free[[*pair]]).min()))
        best = min(pairs, key=lambda pair: known[pair][0], default=None)
        if best is None:
            return None
        exchange = known[best]
        if exchange[0] == np.inf:
            if (found := _to_larger(losses, demand, choice, free, np.append(room, room.sum() + 1))) is None:
                return None
            best, exchange = found
        choice = _exchanged(choice, best, exchange)
        known = {pair: exchange for pair, exchange in known.items() if not set(best) & set(pair)}


def _to_larger(
    loss: Floats, demand: Positions, choice: Positions, free: Positions, size: Positions
) -> tuple[tuple[int, int], Exchange] | None:
    """The exchange of least loss per GPU that moves the misfit of a type, or half of a large one, to a larger place.

    A small type may have none of the gangs that another one needs; a larger one has more of each size.

    Parameters
    ----------
    size:
        GPUs of the types; of the jobs that wait, more than of any type.
    """
    found, least = None, np.inf
    misfits = free < 0 if free.sum() > 0 else free  # where GPUs may stay idle, free ones fit
    for i, m in product(np.flatnonzero(misfits).tolist(), range(len(size))):
        if size[m] > size[i]:
            pair, gpus = ((i, m) if free[i] < 0 else (m, i)), abs(int(free[i]))
            exchange = _exchange(loss, demand, choice, pair, gpus, gpus)
            if exchange[0] < least:
                found, least = (pair, exchange), exchange[0]
    return found


def _exchanged(choice: Positions, types: tuple[int, int], exchange: Exchange) -> Positions:
    """The choice after an exchange."""
    after, (_, there, back) = choice.copy(), exchange
    after[back], after[there] = types
    return after


def improved(cost: Floats, demand: Positions, plan: Positions) -> Positions:
    """The plan after exchanges of as many GPUs between two types, or a type and the jobs that wait.

    Parameters
    ----------
    cost:
        (n, k) cost of each job on each type; infinite where it cannot run.
    plan:
        (n,) type of each job, -1 where it waits.
    """
    k, jobs = cost.shape[1], np.arange(len(cost))
    costs, best = np.column_stack([cost, np.zeros(len(cost))]), np.where(plan < 0, k, plan)
    worth, pairs = costs[jobs, best], list(combinations(range(k + 1), 2))
    while pairs:
        i, h = pair = pairs.pop()
        exchange = _exchange(costs, demand, best, pair, 0, 0)
        if exchange[0] < -PROVEN * np.abs(worth).sum():
            choice = _exchanged(best, pair, exchange)
            if (after := costs[jobs, choice]).sum() < worth.sum():  # else rounding hides that it is not better
                best, worth = choice, after
                pairs = list(dict.fromkeys([*pairs, *(p for p in combinations(range(k + 1), 2) if {i, h} & set(p))]))
    return np.where(best == k, -1, best)


def _exchange(
    loss: Floats, demand: Positions, choice: Positions, types: tuple[int, int], least: int, most: int
) -> Exchange:
    """The exchange of least loss per GPU that moves ``least`` to ``most`` GPUs from the first type to the second.

    Of more than ``MANY`` of the largest gangs, half move: those that lose least per GPU.
    """
    one, other = types
    reach = MANY * int(demand.max(initial=1))
    jobs, more = _by_rate(loss, demand, choice, one, other)
    if most > reach:
        number = int((np.cumsum(demand[jobs]) <= most // 2).sum())
        total = float(more[:number].sum()) / float(demand[jobs[:number]].sum()) if number else np.inf
        return total, jobs[:number], jobs[:0]
    there, back = _few(jobs, more, demand), _few(*_by_rate(loss, demand, choice, other, one), demand)
    turn = np.concatenate([np.arange(len(own)) / max(len(own), 1) for own, _ in (there, back)])
    order = np.argsort(turn, kind="stable")  # by relative rank, so that sums on the way stay within reach
    jobs, more = np.concatenate([there[0], back[0]])[order], np.concatenate([there[1], back[1]])[order]
    moved = (demand * np.where(choice == one, 1, -1))[jobs]
    rate, chosen = _knapsack(moved, more, reach, least, most)
    return rate, jobs[chosen & (moved > 0)], jobs[chosen & (moved < 0)]


def _knapsack(moved: Positions, loss: Floats, reach: int, least: int, most: int) -> tuple[float, Flags]:
    """The least loss per GPU of jobs whose ``moved`` sum to ``least`` to ``most`` GPUs, and whether each is chosen.

    Sums of the first jobs stay within ``reach`` of these.
    """
    cost, steps = np.full(reach + most + 1 + reach, np.inf), []
    cost[reach] = 0.0
    for gpus, extra in zip(moved.tolist(), loss.tolist(), strict=True):
        with_ = np.full(len(cost), np.inf)
        with_[max(gpus, 0) : len(cost) + min(gpus, 0)] = cost[max(-gpus, 0) : len(cost) - max(gpus, 0)] + extra
        steps.append(with_ < cost)
        cost = np.minimum(cost, with_)
    rate = cost[reach + least : reach + most + 1] / np.maximum(np.arange(least, most + 1), 1)
    at, chosen = int(rate.argmin()), np.zeros(len(moved), dtype=bool)
    place = reach + least + at
    if rate[at] < np.inf:
        for t in range(len(moved) - 1, -1, -1):
            chosen[t] = steps[t][place]
            place -= int(moved[t]) if chosen[t] else 0
    return float(rate[at]), chosen


def _by_rate(loss: Floats, demand: Positions, choice: Positions, one: int, other: int) -> tuple[Positions, Floats]:
    """The jobs of one type that can run on the other, and what each loses there, by loss per GPU."""
    jobs = np.flatnonzero((choice == one) & np.isfinite(loss[:, other]))
    more = loss[jobs, other] - loss[jobs, one]
    order = np.argsort(more / demand[jobs], kind="stable")
    return jobs[order], more[order]


def _few(jobs: Positions, more: Floats, demand: Positions) -> tuple[Positions, Floats]:
    """The first of these jobs of each size."""
    order = np.argsort(demand[jobs], kind="stable")
    _, first, number = np.unique(demand[jobs[order]], return_index=True, return_counts=True)
    few = order[np.arange(len(order)) - np.repeat(first, number) < FEW]
    return jobs[few], more[few]
