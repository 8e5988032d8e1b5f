"""A better bound on the cost of an FFT round than its relaxation: which jobs run, by one knapsack.

At prices y of GPUs, job j costs ``r[j, i] = c[j, i] - d[j] y[i]`` on type i, at least ``m[j] = min_i r[j, i]``. Let K
GPUs be in use, and z[j] be 1 if job j runs. Then every plan costs, besides a constant, at least ::

    sum_j m[j] z[j] + sum_ji (r[j, i] - m[j]) x[j, i],    sum_j d[j] z[j] = K,    z in {0, 1}

The bound of the relaxation has ``sum_j min(0, m[j])`` in place of the first sum. This is far off where few jobs wait,
or few run: whole gangs with the least m do not sum to the GPUs that must wait. A knapsack finds the least first sum,
and how much larger it is if a job runs or waits.

A plan in which job j waits although m[j] < 0, or runs although m[j] > 0, costs ``abs(m[j])`` more than that bound. So
the jobs of least ``abs(m[j])`` suffice for the knapsack, while the others wait or run as in the relaxation: this bounds
all plans unless the result is larger than the least ``abs(m[j])`` of the others, of which then more enter; in any
case, the smaller of both is a bound. Where GPUs stay idle, the constant is a lower bound, with the highest price.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.models.fft.knapsacks import LARGEST, Core, Losses
from hetopt.solving.blocks import Flags

FEW = 200
"""Jobs in the first knapsack."""

MORE = 4
"""Growth of the number of jobs while the others limit the bound, as long as tables are small."""


def losses_by_running(reduced: Floats, demand: Positions, used: int, relaxed: float) -> tuple[Losses, Flags]:
    """A bound on the cost of all plans with its losses, and (n,) the jobs that run where it is attained.

    Parameters
    ----------
    reduced:
        (n, k) cost of each job on each type less that of its GPUs; infinite where it cannot run.
    demand:
        (n,) GPUs of each gang.
    used:
        Number of GPUs in use.
    relaxed:
        The bound in which each job runs where its reduced cost is least and negative.
    """
    least = reduced.min(axis=1)
    far, many = np.abs(least), FEW
    order = np.argsort(far, kind="stable")[: np.isfinite(least).sum()]
    while True:
        near, limit = np.sort(order[:many]), float(far[order[many]]) if many < len(order) else np.inf
        running = least < 0
        running[near] = False
        room, total = used - int(demand[running].sum()), int(demand[near].sum())
        of_waiting = 2 * room > total  # the smaller table: of the jobs that wait
        value, fills = (-least[near], total - room) if of_waiting else (least[near], room)
        core, prices = Core(value[:, None], demand[near], np.array([fills]), 0, near), np.zeros(len(near))
        cost, chosen = core.knapsacks.bound(prices) if fills >= 0 else (np.inf, np.zeros((len(near), 1), dtype=bool))
        gain = max(cost - float(np.minimum(value, 0.0).sum()), 0.0)
        if gain < limit or limit == np.inf or MORE**2 * len(near) * fills > LARGEST:
            break
        many *= MORE
    running[near] = chosen[:, 0] != of_waiting
    if gain == limit == np.inf:  # there is no plan
        return Losses(gain, np.zeros_like(reduced), np.zeros_like(least)), running
    is_limited, gain = gain >= limit, min(gain, limit)
    runs, waits = np.where(least > 0, least - gain, 0.0), np.where(least < 0, -least - gain, 0.0)
    runs[near] = waits[near] = 0.0
    if not is_limited:
        _, inside, outside = core.knapsacks.losses(prices)
        own = np.minimum((inside[:, 0], outside), limit - gain)
        runs[near], waits[near] = own[::-1] if of_waiting else own
    other_type = reduced - np.where(np.isfinite(least), least, 0.0)[:, None]
    return Losses(relaxed + gain, runs[:, None] + other_type, waits), running
