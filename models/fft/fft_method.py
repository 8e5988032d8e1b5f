"""FFT's round in one search: a heuristic usually attains the largest number of GPUs, so one program gives the cost.

Otherwise one integer program per priority is solved. Both find a plan with the same GPUs and the same cost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.models.fft.fft_components import OneType, WorkConserving
from hetopt.models.objectives import is_linear_gain
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.programs.model import ComponentTraits
from hetopt.solving.optimising import Method, optimise, run
from hetopt.solving.options import Options


def _serves(compiled: Compiled) -> bool:
    """Whether the components are ``OneType``, ``WorkConserving`` at a higher priority, and other linear gains."""
    parts = compiled.formulation.components
    gains = [part for part in parts if is_linear_gain(part)]
    others = [type(part) for part in parts if not is_linear_gain(part)]
    first = [type(part) for part in gains if ComponentTraits.of(part).priority]
    return others == [OneType] and first == [WorkConserving] and len(gains) > len(first)


def solve_round(compiled: Compiled, options: Options) -> Point:
    """The best point of the round; by two programs if the greedy packing does not attain the bound on GPUs in use."""
    entities, program = compiled.entities, compiled.program
    x = packed(entities)
    used, most = float(entities.gpus(x).sum()), most_gpus(entities)
    if used < most or options.time_limit is not None:  # time limits are left to the general solve path
        return optimise(program, options)
    first = program.with_objectives(program.objectives[0])
    best = Point(first, x.ravel(), used, used, "optimal", method="packing")
    kept = program.keep(used)
    start = None if compiled.start is None else compiled.start.ravel()
    return replace(run(kept.scaled(), options.started(), start).unscaled(kept), earlier=(best,))


METHOD = Method("fft-round", _serves, solve_round)


def most_gpus(entities: Entities) -> float:
    """Upper bound on the GPUs of a plan: available GPUs and demands, also type by type."""
    able = entities.allowed
    demanded = float(entities.demand[able.any(axis=1)].sum())
    available = np.minimum(entities.capacity, np.where(able, entities.demand[:, None], 0.0).sum(axis=0))
    return min(demanded, float(available.sum()))


def packed(entities: Entities) -> Floats:
    """(n, k) zeros and ones: best fit of the gangs in order of decreasing size."""
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
