"""Bounds for programs in which each block takes one choice or none: by prices, and by how far the gains have moved.

The program: job j, of d_j GPUs, takes at most one GPU type i that it is allowed, with a gain g[j, i]; type i has Y_i
GPUs; all plans that are compared use K GPUs in all, the most that can be packed. ::

    max  sum_j g[j, x_j]    subject to   sum_{j: x_j = i} d_j <= Y_i,   sum_{j runs} d_j = K

**By prices.** For any lambda >= 0 (one per type) and any sigma, weak duality bounds every plan::

    sum_i lambda_i Y_i - sigma K + sum_j max(0, max_i (g[j, i] - d_j (lambda_i - sigma)))

A plan attains the bound if the net prices p_i = lambda_i - sigma, and those of two further places, waiting (p = 0) and
idle (p = -sigma), let no job prefer another place than its own. Job j at place a demands p_a - p_b <= (g[j, a] -
g[j, b]) / d_j for each other place b; lambda >= 0 demands p_idle <= p_i, with equality if type i has idle GPUs. These
are differences of k + 2 numbers, so shortest paths find prices, if there are some; the bound is valid for whatever they
find. The plan is then optimal even for shares of jobs: nothing has to be searched.

**By drift.** Let B bound the gain of every plan at gains c. At gains c + D no plan gains more than B plus the most that
D gives to any plan. As all plans use K GPUs, that is, for any price p of a GPU, at most::

    p K + sum_j max(0, max_i D[j, i] - d_j p)

and least at the density D / d of the job with which jobs of decreasing density fill K GPUs. B may come from an integer
search, which proves plans that prices cannot.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities


def value_of(gain: Floats, choice: Positions) -> tuple[float, float]:
    """Gain of the plan, and its size: the sum of the absolute gains.

    Parameters
    ----------
    gain:
        (n, k) gains.
    choice:
        (n,) position of each job's type, -1 where it waits.
    """
    runs = np.flatnonzero(choice >= 0)
    own = gain[runs, choice[runs]]
    return float(own.sum()), float(np.abs(own).sum())


def drift_bound(bound: float, before: Floats, now: Floats, entities: Entities, used: float) -> float:
    """Upper bound at the gains ``now``, from one at the gains ``before``, on plans that use ``used`` GPUs.

    Parameters
    ----------
    before, now:
        (n, k) gains, 0 where a job cannot run.
    """
    able = entities.allowed.any(axis=1)
    most = np.where(entities.allowed, now - before, -np.inf).max(axis=1)[able]
    demand = entities.demand[able]
    if not len(most):
        return bound
    density = most / demand
    order = np.argsort(-density)
    last = int(np.searchsorted(np.cumsum(demand[order]), used))
    price = density[order[min(last, len(order) - 1)]]
    return bound + float(price * used + np.maximum(most - demand * price, 0.0).sum())


def price_bound(gain: Floats, entities: Entities, choice: Positions) -> float:
    """Upper bound on the gain of every plan with as many GPUs, by the prices that support the plan ``choice`` best.

    Parameters
    ----------
    gain:
        (n, k) gains, 0 where a job cannot run.
    choice:
        (n,) position of each job's type, -1 where it waits; a plan within capacity.
    """
    k, demand = gain.shape[1], entities.demand
    net = _supporting(_limits(gain, entities, choice))
    price = np.maximum(net[:k] - net[k + 1], 0.0)  # lambda; sigma is -net[k + 1]
    used = float(demand[choice >= 0].sum())
    offer = np.where(entities.allowed, gain - demand[:, None] * (price + net[k + 1]), 0.0)
    return float(price @ entities.capacity) + float(net[k + 1]) * used + float(np.maximum(offer.max(axis=1), 0.0).sum())


def _limits(gain: Floats, entities: Entities, choice: Positions) -> Floats:
    """(k + 2, k + 2) largest differences of net prices, of row over column; the last two places: waiting, idle."""
    n, k = gain.shape
    limits = np.full((k + 2, k + 2), np.inf)
    np.fill_diagonal(limits, 0.0)
    limits[k + 1, :k] = 0.0
    place = np.where(choice >= 0, choice, k)
    there = np.zeros((n, k + 1))
    there[:, :k] = np.where(entities.allowed, gain, -np.inf)
    own = there[np.arange(n), place]
    order = np.argsort(place, kind="stable")
    margin = ((own[:, None] - there) / entities.demand[:, None])[order]
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    taken = place[order][first]
    limits[taken, : k + 1] = np.minimum.reduceat(margin, first, axis=0)
    free = entities.capacity > np.bincount(place, weights=entities.demand, minlength=k + 1)[:k]
    limits[np.flatnonzero(free), k + 1] = 0.0
    return limits


def _supporting(limits: Floats) -> Floats:
    """(k + 2,) net prices within the limits of their differences if there are some, 0 for waiting."""
    net = np.zeros(len(limits))
    for _ in range(len(limits)):
        nearer = (limits + net).min(axis=1)
        if (nearer == net).all():
            break
        net = nearer
    return np.asarray(net - net[-2])
