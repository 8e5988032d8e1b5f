"""Prices of GPUs in an FFT round with few GPU types, by exact steps that raise or lower the prices of some types.

The relaxation's dual is, for prices p of the types, jobs j of d_j GPUs at costs c and K idle GPUs, ::

    max  sum_i p_i Y_i - K max_i p_i + sum_j d_j min(0, min_i (c[j, i] / d_j - p_i))

Each term is a minimum of numbers less one price, times a number >= 0, or linear. So the sum is L-natural-concave: where
no change of the prices of a set of types by the same amount increases it, it is largest (Murota, Discrete Convex
Analysis, 2003). Along such a direction it is piecewise linear: with rising prices, job after job leaves its other place
for the set, each at the price where both are equal, until they fill the GPUs of the set. So one sort finds the best
step of each set, and the best of all sets is taken.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.gpu_prices import cheapest_places
from hetopt.tolerances import PROVEN, ROUNDING

ASCENT_TYPES = 4
"""Most types with which the steps, over all sets of types, are faster than a linear program in HiGHS."""

ALL = 300
"""Most jobs of which all enter at once."""

MOST_STEPS = 100
"""Most steps; some 3 to 8 are usual, and bounds hold at any prices."""


def ascended_prices(cost: Floats, demand: Positions, room: Positions, idle: int) -> Floats:
    """(k,) costs that one more GPU of each type in use saves: an optimum of the relaxation's dual.

    Of many jobs, only those of least cost enter first, and then those to which the prices are worth it. The time grows
    with ``2 ** k``.

    Parameters
    ----------
    cost, demand, room, idle:
        See :class:`hetopt.models.fft.round_search.Round`.
    """
    able, price = np.isfinite(cost).any(axis=1), np.zeros(len(room))
    jobs = able if len(cost) <= ALL else cheapest_places(cost, demand, room).any(axis=1)
    while True:
        price = _ascended(cost[jobs], demand[jobs], room, idle, price)
        least, size = (cost - demand[:, None] * price).min(axis=1), np.abs(cost).min(axis=1)
        if not (more := able & ~jobs & (least < -PROVEN * size)).any():
            return price
        jobs = jobs | more


def _ascended(cost: Floats, demand: Positions, room: Positions, idle: int, price: Floats) -> Floats:
    """:func:`ascended_prices` of jobs that can all run, from ``price``."""
    k, price = len(room), price.copy()
    per_gpu = np.hstack([(cost / demand[:, None]).T, np.zeros((k, 1))])  # the last job: the idle GPUs
    gpus, waits = np.append(demand, float(idle)), np.zeros(per_gpu.shape[1])
    waits[-1] = np.inf
    sets = (np.arange(1, 2**k)[:, None] >> np.arange(k) & 1).astype(bool)
    rooms, rows = sets @ room.astype(float), np.arange(len(sets))
    smallest = ROUNDING * float(np.abs(per_gpu[np.isfinite(per_gpu)]).max(initial=0.0)) * rooms[-1]
    for _ in range(MOST_STEPS):
        least = _least_of_sets(per_gpu - price[:, None])
        inside, outside = least[1:], np.minimum(least[-2::-1], waits)
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
