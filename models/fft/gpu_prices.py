"""Prices of GPUs in an FFT round: the duals of its linear relaxation, over the places that matter.

Few of the places (job, type) matter: the relaxation over the cheapest ones per GPU, enough to fill each type several
times, is extended by all places of negative reduced cost until there are none.
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
from hetopt.tolerances import PROVEN

COVER = 3.0
"""Number of times that the first places can fill each type; all places follow where these contain no plan."""


def gpu_prices(cost: Floats, demand: Positions, room: Positions, idle: int, options: Options) -> Floats:
    """(k,) costs that one more GPU of each type in use saves, at an optimum of the relaxation.

    Parameters
    ----------
    cost, demand, room, idle:
        See :class:`hetopt.models.fft.round_search.Round`.

    Raises
    ------
    NotSolved
        The relaxation is infeasible, or the time limit came first.
    """
    able, chosen = np.isfinite(cost), cheapest_places(cost, demand, room)
    while True:
        jobs, types = np.nonzero(chosen)
        try:
            price, waits = _priced(cost[jobs, types], demand[jobs], jobs, types, room, idle, options, len(demand))
        except NotSolved as problem:
            if problem.status != "infeasible" or chosen.sum() == able.sum():
                raise
            chosen = able
            continue
        reduced = cost - demand[:, None] * price
        new = able & ~chosen & (reduced < waits[:, None] - PROVEN * np.where(able, np.abs(cost), 0.0))
        if not new.any():
            return price
        chosen |= new


def cheapest_places(cost: Floats, demand: Positions, room: Positions) -> Flags:
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
    waits = np.zeros(jobs_in_all)
    waits[rows] = -np.maximum(0.0, dual[k : k + len(rows)])
    return -dual[:k] - (dual[-1] if idle else 0.0), waits
