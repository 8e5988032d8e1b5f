"""A plan near the relaxation of an FFT round: each running job on its best type, then exchanges between types.

Best types need more GPUs of some types than there are, and leave others free. A step moves a job from a type with too
many to one with free GPUs, and perhaps a smaller one back, so that no type gets more than it has free. Of all these
exchanges, the one of least loss per GPU is taken. So each step comes nearer to a plan. With gangs of many sizes a
few steps suffice.
"""

from __future__ import annotations

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.solving.blocks import Flags

MANY = 4
"""Several jobs move at once if more GPUs must move than this many of the largest gangs have; none comes back then."""


def rounded(loss: Floats, demand: Positions, room: Positions, runs: Flags) -> Positions | None:
    """(n,) type of each job in a plan in which these jobs run, -1 where one waits; None if exchanges find none.

    Parameters
    ----------
    loss:
        (n, k) by how much the cost grows if a job runs on a type; infinite where it cannot run.
    demand, room:
        (n,) GPUs of each gang and (k,) of each type.
    runs:
        (n,) jobs that can run.
    """
    sizes, size = np.unique(np.append(0, demand), return_inverse=True)
    size = size[1:]
    choice = np.where(runs, loss.argmin(axis=1), -1)
    free = room - np.bincount(choice[runs], demand[runs], len(room)).astype(np.intp)
    moves = [_moves(loss, size, np.flatnonzero(choice == i), i) for i in range(len(room))]
    while (free < 0).any():
        best, step = np.inf, None
        for i in np.flatnonzero(free < 0).tolist():
            for h in np.flatnonzero(free > 0).tolist():
                rate, gangs = _exchange(moves[i][0][:, h], moves[h][0][:, i], sizes, int(min(-free[i], free[h])))
                if rate < best:
                    best, step = rate, (i, h, *gangs)
        if step is None:
            return None
        i, h, there, back = step
        jobs = np.array([moves[i][1][there, h]])
        if min(-free[i], free[h]) > MANY * sizes[-1]:
            jobs = _cheapest(loss, demand, np.flatnonzero(choice == i), (i, h), int(min(-free[i], free[h])) // 2)
        elif back:
            choice[moves[h][1][back, i]] = i
        choice[jobs] = h
        free = room - np.bincount(choice[choice >= 0], demand[choice >= 0], len(room)).astype(np.intp)
        for type_ in (i, h):
            moves[type_] = _moves(loss, size, np.flatnonzero(choice == type_), type_)
    return choice


def _cheapest(loss: Floats, demand: Positions, jobs: Positions, types: tuple[int, int], most: int) -> Positions:
    """Those of the ``jobs`` that lose least per GPU from one type to another, up to so many GPUs."""
    rate = (loss[jobs, types[1]] - loss[jobs, types[0]]) / demand[jobs]
    order = np.argsort(rate, kind="stable")
    fits = (np.cumsum(demand[jobs[order]]) <= most) & np.isfinite(rate[order])
    return np.asarray(jobs[order[fits]])


def _moves(loss: Floats, size: Positions, jobs: Positions, type_: int) -> tuple[Floats, Positions]:
    """For each size, (., k) the least loss if one of the ``jobs`` on a type moves to another one, and that job.

    ``size``: (n,) position of each gang's size; 0 is no gang.
    """
    shape = int(size.max(initial=0)) + 1, loss.shape[1]
    least, job = np.full(shape, np.inf), np.zeros(shape, dtype=np.intp)
    more = loss[jobs] - loss[jobs, type_][:, None]
    for i in range(shape[1]):
        order = np.lexsort((more[:, i], size[jobs]))
        there, first = np.unique(size[jobs[order]], return_index=True)
        least[there, i], job[there, i] = more[order[first], i], jobs[order[first]]
    return least, job


def _exchange(there: Floats, back: Floats, sizes: Positions, most: int) -> tuple[float, tuple[int, int]]:
    """The least loss per GPU with which up to ``most`` GPUs move, and positions of the sizes that go there and back."""
    back = back.copy()
    back[0] = 0.0
    moved = sizes[:, None] - sizes
    rate = np.where((moved > 0) & (moved <= most), there[:, None] + back, np.inf) / np.maximum(moved, 1)
    at = np.unravel_index(int(rate.argmin()), rate.shape)
    return float(rate[at]), (int(at[0]), int(at[1]))
