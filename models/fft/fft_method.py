"""FFT's round: the largest number of GPUs in use, then the least cost, without a general integer search.

1. Each type can fill at most its largest subset sum of gangs, so the sum over types, or all demand, bounds the GPUs in
   use. A packing, or a plan of least cost that uses so many, usually attains it; else an integer program decides.
2. The least cost with so many GPUs follows from one table of all types if few jobs are in doubt
   (:mod:`~hetopt.models.fft.core_tables`), else from knapsack bounds (:mod:`~hetopt.models.fft.round_search`), first
   with alike types merged (:mod:`~hetopt.models.fft.alike_types`). Where these leave a gap, and for small rounds, an
   integer program decides.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.errors import NotSolved
from hetopt.models.fft.alike_types import merged
from hetopt.models.fft.core_tables import TYPES, solve_small, solve_whole
from hetopt.models.fft.fft_components import OneType, WorkConserving
from hetopt.models.fft.gpu_prices import gpu_prices
from hetopt.models.fft.round_search import Found, Round, solve
from hetopt.models.objectives import is_linear_gain
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point, Status
from hetopt.programs.model import ComponentTraits
from hetopt.solving.integer import FEW
from hetopt.solving.optimising import Method, optimise, run
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale

FINER = 0.5
"""Part of the gap up to which a round with merged types is solved; jobs may cost more in the split plan."""


LARGEST = 30_000_000
"""Jobs times cells of the table of what plans can use: some 10 ms."""


def _serves(compiled: Compiled) -> bool:
    """Whether the components are ``OneType``, ``WorkConserving`` at a higher priority, and other linear gains."""
    parts = compiled.formulation.components
    gains = [part for part in parts if is_linear_gain(part)]
    others = [type(part) for part in parts if not is_linear_gain(part)]
    first = [type(part) for part in gains if ComponentTraits.of(part).priority]
    return others == [OneType] and first == [WorkConserving] and len(gains) > len(first)


def solve_round(compiled: Compiled, options: Options) -> Point:
    """The best point of the round, proven up to ``options.gap`` or until the time limit."""
    options = options.started()
    entities, program = compiled.entities, compiled.program
    room = fillable(entities)
    x, most = packed(entities), most_gpus(entities, room)
    small, feasible = len(program.c) <= FEW, int(entities.gpus(x).sum()) == most
    found = None
    if not feasible and not small:
        found = _least_cost(_round(program.c, entities, room, most, options), options, None, feasible=False)
    if not feasible and (found is None or found.choice is None):
        best = optimise(program.with_objectives(program.objectives[0]), replace(options, gap=0.0))
        if best.status == "time_limit":
            return optimise(program, options)
        x, most, found = np.rint(best.share), round(best.objective), None
    if found is None:
        round_ = _round(program.c, entities, room, most, options if not small else None)
        start = _start(compiled, most)
        found = Found(start, np.inf, round_.bound, 0) if small else _least_cost(round_, options, start, feasible=True)
    if found.choice is None:
        found = replace(found, choice=np.where(x.any(axis=1), x.argmax(axis=1), -1))
    point = _proven(program, entities, found, most, options)
    first = program.with_objectives(program.objectives[0])
    return replace(point, earlier=(Point(first, point.x, most, most, "optimal", method="packing"),))


def small_plan(entities: Entities, gain: Floats, options: Options, start: Positions | None = None) -> Found | None:
    """The plan of most GPUs, then most gain, proven up to ``options.gap``; None if that takes more than small tables.

    Parameters
    ----------
    gain:
        (n, k) gains; ignored where a job cannot run.
    start:
        (n,) type of each job in a plan within capacity, -1 where it waits, or None.
    """
    if options.method != "auto" or options.solver != "highs" or options.exact:
        return None
    options, room = options.started(), fillable(entities)
    running = None if start is None else int(entities.demand[start >= 0].sum())
    most = most_gpus(entities, room)
    if running in (None, most) and (found := _by_tables(entities, gain, room, most, options, start)) is not None:
        return found
    exact = most_packed(entities)
    if exact in (None, most):
        return None
    return _by_tables(entities, gain, room, exact, options, start if running == exact else None)


def _by_tables(
    entities: Entities, gain: Floats, room: Positions, used: int, options: Options, start: Positions | None
) -> Found | None:
    """The plan of most gain with ``used`` GPUs in use, by tables of all places if they are small, else by prices."""
    found = solve_whole(_round(gain, entities, room, used, None))
    return found or solve_small(_round(gain, entities, room, used, options), options.gap, start)


def _round(gain: Floats, entities: Entities, room: Positions, used: int, options: Options | None) -> Round:
    """The round with ``used`` GPUs in use; its prices are 0 without ``options``."""
    able = entities.allowed
    cost = np.where(able, -gain.reshape(able.shape), np.inf)
    demand = entities.demand.astype(np.intp)
    idle, price = int(room.sum()) - used, np.zeros(len(room))
    if options is not None:
        with suppress(NotSolved):  # infeasible or too late; bounds hold at any prices
            price = gpu_prices(cost, demand, room, idle, options)
    return Round(cost, demand, room, idle, price)


def _start(compiled: Compiled, used: int) -> Positions | None:
    """(n,) type of each job in the point that the caller expects to be good, if it is a plan with ``used`` GPUs."""
    if compiled.start is None:
        return None
    entities, runs = compiled.entities, compiled.start.any(axis=1)
    choice = np.where(runs, compiled.start.argmax(axis=1), -1)
    gpus = np.bincount(choice[runs], entities.demand[runs], entities.shape[1])
    return choice if (gpus <= entities.capacity).all() and gpus.sum() == used else None


def _least_cost(round_: Round, options: Options, start: Positions | None, *, feasible: bool) -> Found:
    """The least cost by knapsacks; ``feasible`` if a plan is known to exist."""
    if (small := solve_small(round_, options.gap, start)) is not None:
        return small
    bound = -np.inf
    if (alike := merged(round_, options.gap)) is not None:
        found = solve(alike.part, FINER * options.gap, options.deadline, feasible=feasible)
        bound = found.bound
        if found.choice is not None:
            start = alike.split(found.choice)
    return solve(round_, options.gap, options.deadline, start, bound, feasible=feasible)


def _proven(program: LinearProgram, entities: Entities, found: Found, used: int, options: Options) -> Point:
    """The plan of ``found`` as a point; if a gap is left, an integer program closes it."""
    assert found.choice is not None
    x = (found.choice[:, None] == np.arange(entities.shape[1])).astype(float).ravel()
    kept = program.keep(used)
    value = kept.objective(x)
    bound = max(kept.offset - found.bound, value)
    allowance = max(options.gap, PROVEN) * float(np.abs(kept.c * x).sum())
    status: Status = "optimal" if bound - value <= PROVEN * scale(value) else "gap"
    point = Point(kept, x, value, bound, status, method="knapsacks", passes=found.passes)
    if bound - value <= allowance * (1 + PROVEN):
        return point
    if options.left != 0:
        try:
            other = _by_program(program, used, options)
            best = other if other.objective > value else point
            return replace(best, bound=max(best.objective, min(bound, other.bound)), status=other.status)
        except NotSolved as problem:
            if problem.status != "time_limit":
                raise
    return replace(point, status="time_limit")


def _by_program(program: LinearProgram, used: int, options: Options) -> Point:
    """The best point with ``used`` GPUs in use, by an integer program."""
    kept = program.keep(used)
    return run(kept.scaled(), options).unscaled(kept)


METHOD = Method("fft-round", _serves, solve_round)


def fillable(entities: Entities) -> Positions:
    """(k,) most GPUs of each type that gangs can fill: the largest sum of their demands within its capacity."""
    most = []
    for able, capacity in zip(entities.allowed.T, entities.capacity.astype(np.intp).tolist(), strict=True):
        sums, within = 1, (1 << (capacity + 1)) - 1  # bit s is set if some gangs sum to s
        for demand, number in zip(*np.unique(entities.demand[able], return_counts=True), strict=True):
            sums = _with_gangs(sums, int(demand), min(int(number), capacity // int(demand)), within)
        most.append(sums.bit_length() - 1)
    return np.array(most, dtype=np.intp)


def _with_gangs(sums: int, demand: int, number: int, within: int) -> int:
    """The set of sums with up to ``number`` gangs of this demand more, by doubling."""
    part = 1
    while number > 0:
        taken = min(part, number)
        sums |= (sums << (taken * demand)) & within
        number, part = number - taken, 2 * part
    return sums


def most_gpus(entities: Entities, room: Positions) -> int:
    """Upper bound on the GPUs of a plan: what each type can fill, and all demand that can run."""
    return int(min(entities.demand[entities.allowed.any(axis=1)].sum(), room.sum()))


def most_packed(entities: Entities) -> int | None:
    """The most GPUs that a plan can use, by a table of the numbers of each type that plans use; None if it is large."""
    size = entities.capacity.astype(np.intp) + 1
    if len(size) > TYPES or len(entities.names) * np.prod(size, dtype=float) > LARGEST:
        return None
    reached = np.zeros(size, dtype=bool)
    reached.flat[0] = True
    for demand, able in zip(entities.demand.astype(np.intp).tolist(), entities.allowed, strict=True):
        before = reached.copy()
        for i in np.flatnonzero(able).tolist():
            np.moveaxis(reached, i, 0)[demand:] |= np.moveaxis(before, i, 0)[:-demand]
    return int(np.sum(np.nonzero(reached), axis=0).max())


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
