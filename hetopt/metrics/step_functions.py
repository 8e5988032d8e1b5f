"""Step functions of time: values that hold from a begin to an end, sums over ranges, and when a sum is reached.

Sums over ranges use sums of 2, 4, 8 … neighbouring intervals, so that they add only the values of a range. A difference
of two cumulative sums would lose the digits of short ranges late in a long log.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hetopt.data.array_types import Floats, Positions


def step_sums(first: Positions, last: Positions, values: Floats, steps: int) -> Floats:
    """(steps,) sum of the values at each step; each holds from step ``first`` up to, not including, ``last``."""
    change = np.zeros(steps + 1)
    np.add.at(change, first, values)
    np.add.at(change, last, -values)
    return np.asarray(change[:-1].cumsum())


def present_over_time(begins: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """(m,) times of arrivals and departures, in order, and (m,) number present from each on; ends may be infinite."""
    times = np.unique(np.concatenate([begins, ends[np.isfinite(ends)]]))
    present = step_sums(np.searchsorted(times, begins), np.searchsorted(times, ends), np.ones(len(begins)), len(times))
    return times, present


def range_sums(values: Floats, first: Positions, last: Positions) -> Floats:
    """(q,) sums of ``values[first:last]``, for q pairs of positions with first <= last."""
    total, level = np.zeros(len(first)), values
    low, high = first.copy(), last.copy()
    while (low < high).any():
        odd = (low < high) & (low % 2 == 1)
        total[odd] += level[low[odd]]
        low[odd] += 1
        odd = (low < high) & (high % 2 == 1)
        high[odd] -= 1
        total[odd] += level[high[odd]]
        low, high, level = low // 2, high // 2, _pairs(level)
    return total


def _pairs(level: Floats) -> Floats:
    even = np.append(level, 0.0) if len(level) % 2 else level
    return np.asarray(even.reshape(-1, 2).sum(axis=1))


def reach(values: Floats, first: Positions, need: Floats) -> tuple[Positions, Floats]:
    """(q,) positions at which the sum of ``values`` from ``first`` on exceeds ``need``, and the remainder there.

    Parameters
    ----------
    values:
        (m,) numbers >= 0.
    first, need:
        (q,) positions of the first value, and sums to reach.

    Returns
    -------
    tuple
        The position p, with ``sum(values[first:p]) <= need < sum(values[first:p + 1])``, or m where all values
        together are not more; and ``need - sum(values[first:p])``.
    """
    size = 1 << len(values).bit_length()
    levels = [np.concatenate([values, np.full(size - len(values), np.inf)])]  # no sum passes infinity
    while len(levels[-1]) > 1:
        levels.append(_pairs(levels[-1]))
    at, rest, found = first.copy(), need.astype(float), np.full(len(first), len(levels) - 1)
    climbing = np.ones(len(first), dtype=bool)
    for height, level in enumerate(levels):
        odd = climbing & (at % 2 == 1)
        within = odd.copy()
        within[odd] = level[at[odd]] <= rest[odd]
        rest[within] -= level[at[within]]
        at[within] += 1
        climbing &= within | ~odd
        found[odd & ~within] = height
        at[climbing & (height < len(levels) - 1)] //= 2
    for height in range(len(levels) - 1, 0, -1):
        down = found >= height
        at[down] *= 2
        past = down.copy()
        past[down] = levels[height - 1][at[down]] <= rest[down]
        rest[past] -= levels[height - 1][at[past]]
        at[past] += 1
    return at, rest


def merged(keys: Positions, begins: Floats, ends: Floats) -> tuple[Positions, Floats, Floats]:
    """Merge intervals of one key that touch or overlap: keys, begins and ends, in order."""
    order = np.lexsort((begins, keys))
    keys, begins, ends = keys[order], begins[order], ends[order]
    if not len(keys):
        return keys, begins, ends
    until = pd.Series(ends).groupby(keys).cummax().to_numpy(dtype=float)
    new = np.ones(len(keys), dtype=bool)
    new[1:] = (keys[1:] != keys[:-1]) | (begins[1:] > until[:-1])
    heads = np.flatnonzero(new)
    return keys[heads], begins[heads], np.maximum.reduceat(ends, heads)
