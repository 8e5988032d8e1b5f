"""FFT's round in one search: how many GPUs can be used is mostly plain to see, the least cost is then one program.

The general road solves an integer program for each of the two. Both find a plan of the same GPUs and the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.models.fft.arrays import round_program
from hetopt.models.fft.parts import LinearGain, OneType, WorkConserving
from hetopt.programs.formulation import Component
from hetopt.programs.linear import LinearProgram, Names
from hetopt.solving.backends import run
from hetopt.solving.options import Options
from hetopt.solving.point import Point
from hetopt.solving.road import optimise
from hetopt.tolerances import STAGE, scale

Solve = Callable[[Entities, Options], Point]


def round_specialist(parts: Sequence[Component]) -> Solve | None:
    """Solves a round of these parts, or None where it is more than linear gains after the GPUs in use."""
    whole = [part for part in parts if isinstance(part, OneType)]
    gains = [part for part in parts if isinstance(part, LinearGain)]
    first = [part for part in gains if getattr(part, "priority", 0)]
    if len(whole) != 1 or len(gains) != len(parts) - 1 or len(gains) == len(first):
        return None
    if len(first) != 1 or not isinstance(first[0], WorkConserving):
        return None
    return partial(solve_round, gains, whole[0])


def solve_round(gains: Sequence[LinearGain], one_type: OneType, entities: Entities, options: Options) -> Point:
    """The best point of the round; where packing the largest gangs first leaves the most GPUs open, by two programs."""
    program = round_program(gains, one_type, entities)
    x = packed(entities)
    used, most = float(entities.gpus(x).sum()), most_gpus(entities)
    if used < most or options.time_limit is not None:  # what a limit leaves is for the general road to say
        return optimise(program, options)
    first = program.first_stage
    best = Point(first, x.ravel(), used, used, "optimal", method="packing")
    return replace(run(_keeping(program, used), options.started()), earlier=(best,))


def most_gpus(entities: Entities) -> float:
    """No plan uses more GPUs: those that there are, those that are asked for, also type by type."""
    able = entities.allowed
    asked = float(entities.demand[able.any(axis=1)].sum())
    there = np.minimum(entities.capacity, np.where(able, entities.demand[:, None], 0.0).sum(axis=0))
    return min(asked, float(there.sum()))


def packed(entities: Entities) -> Floats:
    """(n, k) zeros and ones: the largest gangs first, each where least room is left over."""
    x, free = np.zeros(entities.shape), entities.capacity.tolist()
    able = [np.flatnonzero(row).tolist() for row in entities.allowed]
    for e in np.argsort(-entities.demand, kind="stable").tolist():
        need = float(entities.demand[e])
        fits = [k for k in able[e] if free[k] >= need]
        if fits:
            best = min(fits, key=lambda k: free[k])
            x[e, best] = 1.0
            free[best] -= need
    return x


def _keeping(program: LinearProgram, gpus: float) -> LinearProgram:
    """The stage after the first, written at once: ``program.keep(gpus)`` but for the row's scale."""
    (first,) = program.earlier
    rows, columns = program.A.shape
    old, row = program.A, np.flatnonzero(first.c)
    ends = old.indptr + np.concatenate([[0], np.cumsum(first.c != 0)])
    data, index = np.empty(ends[-1]), np.empty(ends[-1], dtype=old.indices.dtype)
    own = np.zeros(len(data), dtype=bool)
    own[ends[1:][row] - 1] = True  # the new row is the last entry of its columns
    data[own], index[own] = first.c[row], rows
    data[~own], index[~own] = old.data, old.indices
    names = program.row_names
    return replace(
        program,
        A=sparse.csc_array((data, index, ends), shape=(rows + 1, columns)),
        row_lower=np.append(program.row_lower, gpus - STAGE * scale(gpus)),
        row_upper=np.append(program.row_upper, np.inf),
        row_names=Names(rows + 1, lambda i: "earlier_stage[0]" if i == rows else names[i]),
        earlier=(),
        kept={rows: first},
    )
