"""Prices of GPUs in an FFT round: the duals of its linear relaxation, over the places that matter.

Few of the places (job, type) matter: the relaxation over the cheapest ones per GPU, enough to fill each type several
times, is extended by all places of negative reduced cost until there are none. With few types, exact steps that raise
or lower the prices of some types take its place. For prices p of the types, jobs j of d_j GPUs at costs c and K idle
GPUs, the dual is ::

    max  sum_i p_i Y_i - K max_i p_i + sum_j d_j min(0, min_i (c[j, i] / d_j - p_i))

Each term is a minimum of numbers less one price, times a number >= 0, or linear. So the sum is L-natural-concave: where
no change of the prices of a set of types by the same amount increases it, it is largest (Murota, Discrete Convex
Analysis, 2003). Along such a direction it is piecewise linear: with rising prices, job after job leaves its other place
for the set, each at the price where both are equal, until they fill the GPUs of the set. So one sort finds the best
step of each set, and the best of all sets is taken.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.programs.linear import LinearProgram
from hetopt.solving.blocks import Flags
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, ROUNDING

COVER = 3.0
"""Number of times that the first places can fill each type; all places follow where these contain no plan."""

STEP_TYPES = 4
"""Most types with which the steps, over all sets of types, are faster than a linear program in HiGHS."""

ALL = 300
"""Most jobs of which all enter at once."""

MOST_STEPS = 100
"""Most steps; some 3 to 8 are usual, and bounds hold at any prices."""


def gpu_prices(cost: Floats, demand: Positions, room: Positions, idle: int, options: Options) -> Floats:
    """(k,) costs that one more GPU of each type in use saves, at an optimum of the relaxation.

    Parameters
    ----------
    cost, demand, room, idle:
        See :class:`hetopt.models.fft.round_search.Round`.

    Raises
    ------
    NotSolved
        The relaxation of many types is infeasible, or the time limit came first.
    """
    if len(room) <= STEP_TYPES:
        return stepped_prices(cost, demand, room, idle)
    able, chosen = np.isfinite(cost), _cheapest(cost, demand, room)
    while True:
        jobs, types = np.nonzero(chosen)
        try:
            price, most = _priced(cost[jobs, types], demand[jobs], jobs, types, room, idle, options, len(demand))
        except NotSolved as problem:
            if problem.status != "infeasible" or chosen.sum() == able.sum():
                raise
            chosen = able
            continue
        reduced = cost - demand[:, None] * price
        new = able & ~chosen & (reduced < most[:, None] - PROVEN * np.where(able, np.abs(cost), 0.0))
        if not new.any():
            return price
        chosen |= new


def _cheapest(cost: Floats, demand: Positions, room: Positions) -> Flags:
    """The places of least cost per GPU, enough to fill each type, and all GPUs, ``COVER`` times."""
    rate = np.where(np.isfinite(cost), cost, np.inf) / demand[:, None]
    chosen: Flags = np.zeros(cost.shape, dtype=bool)
    for i, most in enumerate(room.tolist()):
        chosen[_filling(rate[:, i], demand, COVER * most), i] = True
    chosen[_filling(rate.min(axis=1), demand, COVER * room.sum())] = True
    return chosen & np.isfinite(cost)


def _filling(rate: Floats, demand: Positions, gpus: float) -> Positions:
    order = np.argsort(rate)
    return order[: 1 + np.searchsorted(np.cumsum(demand[order]), gpus)]


def _priced(
    cost: Floats,
    demand: Positions,
    jobs: Positions,
    types: Positions,
    room: Positions,
    idle: int,
    options: Options,
    jobs_in_all: int,
) -> tuple[Floats, Floats]:
    """Prices of GPUs, and (n,) the largest reduced cost at which a job runs: at most 0."""
    rows, job = np.unique(jobs, return_inverse=True)
    k, m, total = len(room), len(cost), 1 if idle else 0
    ones = np.ones(m)
    index = np.column_stack([types, k + job] + [np.full(m, k + len(rows))] * total)
    value = np.column_stack([demand, ones] + [demand] * total)
    width = index.shape[1]
    matrix = sparse.csc_array(
        (value.ravel(), index.ravel(), width * np.arange(m + 1)), shape=(k + len(rows) + total, m)
    )
    in_use = [room.sum() - idle] * total
    lower = np.concatenate([room if not idle else np.full(k, -np.inf), np.full(len(rows), -np.inf), in_use])
    upper = np.concatenate([room, np.ones(len(rows)), in_use])
    program = LinearProgram.of(-cost, matrix, lower.astype(float), upper.astype(float), col_upper=1.0)
    _, dual, _ = Session(program, options, presolve=False, explain=False).values()
    most = np.zeros(jobs_in_all)
    most[rows] = -np.maximum(0.0, dual[k : k + len(rows)])
    return -dual[:k] - (dual[-1] if idle else 0.0), most


def stepped_prices(cost: Floats, demand: Positions, room: Positions, idle: int) -> Floats:
    """(k,) costs that one more GPU of each type in use saves: an optimum of the relaxation's dual.

    Of many jobs, only those of least cost enter first, and then those to which the prices are worth it. The time grows
    with ``2 ** k``.

    Parameters
    ----------
    cost, demand, room, idle:
        See :class:`hetopt.models.fft.round_search.Round`.
    """
    able, price = np.isfinite(cost).any(axis=1), np.zeros(len(room))
    jobs = able if len(cost) <= ALL else _cheapest(cost, demand, room).any(axis=1)
    while True:
        price = _stepped(cost[jobs], demand[jobs], room, idle, price)
        least, size = (cost - demand[:, None] * price).min(axis=1), np.abs(cost).min(axis=1)
        if not (more := able & ~jobs & (least < -PROVEN * size)).any():
            return price
        jobs = jobs | more


def _stepped(cost: Floats, demand: Positions, room: Positions, idle: int, price: Floats) -> Floats:
    """:func:`stepped_prices` of jobs that can all run, from ``price``."""
    k, price = len(room), price.copy()
    per_gpu = np.hstack([(cost / demand[:, None]).T, np.zeros((k, 1))])  # the last job: the idle GPUs
    gpus, nowhere = np.append(demand, float(idle)), np.zeros(per_gpu.shape[1])
    nowhere[-1] = np.inf  # the idle GPUs are on some type
    sets = (np.arange(1, 2**k)[:, None] >> np.arange(k) & 1).astype(bool)
    rooms, rows = sets @ room.astype(float), np.arange(len(sets))
    smallest = ROUNDING * float(np.abs(per_gpu[np.isfinite(per_gpu)]).max(initial=0.0)) * rooms[-1]
    for _ in range(MOST_STEPS):
        least = _least_of_sets(per_gpu - price[:, None])
        inside, outside = least[1:], np.minimum(least[-2::-1], nowhere)
        enters = inside - outside
        order = np.argsort(enters, axis=1)
        full = np.minimum((np.cumsum(gpus[order], axis=1) < rooms[:, None]).sum(axis=1), len(gpus) - 1)
        step = enters[rows, order[rows, full]]
        if not np.isfinite(step).all():  # the idle GPUs fill the set at any prices: up to where the first job enters
            after = enters[rows, order[rows, np.minimum(full + 1, len(gpus) - 1)]]
            step = np.where(np.isfinite(step), step, np.where(np.isfinite(after), after, 0.0))
        gain = rooms * step + (np.minimum(outside, inside - step[:, None]) - np.minimum(outside, inside)) @ gpus
        if gain[best := int(gain.argmax())] <= smallest:
            break
        price[sets[best]] += step[best]
    return price


def _least_of_sets(cost: Floats) -> Floats:
    """(2 ** k, n) least of the (k, n) costs over each set of types; set s has type i if bit i of s is set."""
    k, n = cost.shape
    least = np.full((2**k, n), np.inf)
    for i in range(k):
        np.minimum(least[: 2**i], cost[i], out=least[2**i : 2 ** (i + 1)])
    return least
