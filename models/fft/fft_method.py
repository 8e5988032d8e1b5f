"""FFT's round: the largest number of GPUs in use, then the least cost, without a general integer search.

1. Each type can fill at most its largest subset sum of gangs, so the sum over types, or all demand, bounds the GPUs in
   use. A packing, or a plan of least cost that uses so many, usually attains it; else a table of all numbers that plans
   can use decides, or where that is large an integer program.
2. The least cost with so many GPUs follows from one table of all types if few jobs are in doubt
   (:mod:`~hetopt.models.fft.core_tables`), else from knapsack bounds (:mod:`~hetopt.models.fft.round_search`), first
   with alike types merged (:mod:`~hetopt.models.fft.alike_types`). Where these leave a gap, and in small rounds that
   one table does not prove, an integer program decides.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.errors import NotSolved
from hetopt.models.fft.alike_types import merged
from hetopt.models.fft.core_tables import TYPES, solve_small, solve_whole
from hetopt.models.fft.fft_components import OneType, WorkConserving
from hetopt.models.fft.gpu_prices import gpu_prices
from hetopt.models.fft.knapsacks import Core, halves
from hetopt.models.fft.round_search import Found, Round, solve
from hetopt.models.objectives import is_linear_gain
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import LinearProgram, Point, Status
from hetopt.programs.model import ComponentTraits
from hetopt.solving.integer import FEW
from hetopt.solving.optimising import Method, optimise, run, stopped
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale

LARGEST = 30_000_000
"""Largest number of steps over cells of the table of what plans can use: some 50 ms."""

FINER = 0.5
"""Part of the gap up to which a round with merged types is solved; jobs may cost more in the split plan."""


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
    program, solver = compiled.program, RoundSolver(compiled.entities, compiled.program.c, options)
    start = _start(compiled)
    found = solver.by_tables(start)
    if found is None:
        used, best = solver.packable or solver.most, _packing(compiled, solver.most)
        found = solver.by_knapsacks(used, start, feasible=used in (solver.packable, best.objective))
        if found.choice is None and best.objective < used:
            best = _most_in_use(best, options)
            if best.status == "time_limit":
                best = replace(best, x=_columns(compiled, _exchanged(solver, best)))
                return replace(stopped(program, best), earlier=(best,))
            found = solver.by_knapsacks(round(best.objective), start, feasible=True)
        if found.choice is None:
            found = replace(found, choice=_exchanged(solver, best))
    return _proven(compiled, found, options)


def _packing(compiled: Compiled, most: int) -> Point:
    """A packing of the gangs as a point of the first objective, the GPUs in use, which ``most`` bounds."""
    entities, program = compiled.entities, compiled.program
    x, first = packed(entities), program.with_objectives(program.objectives[0])
    return Point(first, x.ravel(), float(entities.gpus(x).sum()), most, "gap", method="packing")


def _most_in_use(packing: Point, options: Options) -> Point:
    """The most GPUs in use by an integer program; ``packing`` if nothing better is found within the time limit."""
    try:
        point = optimise(packing.program, replace(options, gap=0.0))
    except NotSolved as problem:
        if problem.status != "time_limit":
            raise
        return replace(packing, status="time_limit")
    if point.objective >= packing.objective:
        return point
    return replace(packing, bound=min(packing.bound, point.bound), status=point.status)


def _exchanged(solver: RoundSolver, point: Point) -> Positions:
    """(n,) types of the cheapest plan with as many gangs of each demand on each type as the plan ``point``."""
    x, jobs = np.rint(point.share), np.arange(len(solver.demand))
    before = np.where(x.any(axis=1), x.argmax(axis=1), -1)
    used = np.bincount(before + 1, np.where(before >= 0, solver.demand, 0), x.shape[1] + 1)[1:].astype(np.intp)
    core = Core(solver.cost, solver.demand, used, 0, jobs)
    after = core.with_numbers(core.numbers_of(before), before)
    return before if after is None else after


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
    return RoundSolver(entities, gain, options.started()).by_tables(start)


class RoundSolver:
    """A round as arrays, with any number of GPUs in use.

    Parameters
    ----------
    gain:
        (n, k) gains, in any shape; ignored where a job cannot run.
    options:
        Started.
    """

    def __init__(self, entities: Entities, gain: Floats, options: Options) -> None:
        self.entities, self.options = entities, options
        self.cost = np.where(entities.allowed, -gain.reshape(entities.shape), np.inf)
        self.demand, self.room = entities.demand.astype(np.intp), fillable(entities)
        self.most = int(min(entities.demand[entities.allowed.any(axis=1)].sum(), self.room.sum()))
        self.rounds: dict[int, Round] = {}

    @cached_property
    def packable(self) -> int | None:
        """The most GPUs that a plan uses; None if a table of them is large. It is at most ``most``."""
        return most_packed(self.entities, self.most)

    def priced(self, used: int) -> Round:
        """The round with ``used`` GPUs in use."""
        if used not in self.rounds:
            idle, price = int(self.room.sum()) - used, np.zeros(len(self.room))
            with suppress(NotSolved):  # infeasible or too late; bounds hold at any prices
                price = gpu_prices(self.cost, self.demand, self.room, idle, self.options)
            self.rounds[used] = Round(self.cost, self.demand, self.room, idle, price)
        return self.rounds[used]

    def by_tables(self, start: Positions | None) -> Found | None:
        """The plan of most GPUs, then least cost, if small tables prove it; ``start`` is a plan or None."""
        used = self.most if self._running(start) in (None, self.most) else self.packable
        found = None if used is None else self._with_used(used, start)
        if found is None and used == self.most and self.packable not in (None, self.most):
            return self._with_used(self.packable, start)
        return found

    def _with_used(self, used: int, start: Positions | None) -> Found | None:
        """With ``used`` GPUs in use: by tables of all places if they are small, else by prices."""
        without_prices = Round(self.cost, self.demand, self.room, int(self.room.sum()) - used, np.zeros(len(self.room)))
        own = start if self._running(start) == used else None
        return solve_whole(without_prices) or solve_small(self.priced(used), self.options.gap, own)

    def _running(self, start: Positions | None) -> int | None:
        return None if start is None else int(self.demand[start >= 0].sum())

    def by_knapsacks(self, used: int, start: Positions | None, *, feasible: bool) -> Found:
        """The least cost with ``used`` GPUs in use; without a plan in small rounds, and where it finds none.

        Parameters
        ----------
        start:
            A plan, or None.
        feasible:
            Whether a plan with so many is known to exist.
        """
        round_, gap, deadline = self.priced(used), self.options.gap, self.options.deadline
        start = start if self._running(start) == used else None
        if round_.cost.size <= FEW:
            return Found(start, np.inf, round_.relaxed.bound, 0)
        bound, method = -np.inf, "knapsacks"
        if (alike := merged(round_, gap)) is not None:
            found = solve(alike.part, FINER * gap, deadline, feasible=feasible)
            bound, method = found.bound, found.method
            split = None if found.choice is None else alike.split(found.choice)
            if split is not None:
                plans = [round_.polished(split), *([] if start is None else [start])]
                start = min(plans, key=lambda choice: round_.worth(choice)[0])
        found = solve(round_, gap, deadline, start, bound, feasible=feasible)
        return replace(found, method=method) if method == "counting" else found


def _start(compiled: Compiled) -> Positions | None:
    """(n,) type of each job in the point that the caller expects to be good, if it is a plan."""
    if compiled.start is None:
        return None
    entities, runs = compiled.entities, compiled.start.any(axis=1)
    choice = np.where(runs, compiled.start.argmax(axis=1), -1)
    gpus = np.bincount(choice[runs], entities.demand[runs], entities.shape[1])
    fits = (gpus <= entities.capacity).all() and entities.allowed[runs, choice[runs]].all()
    return choice if fits else None


def _proven(compiled: Compiled, found: Found, options: Options) -> Point:
    """The plan of ``found`` as a point; if a gap is left, an integer program closes it."""
    assert found.choice is not None
    program, x = compiled.program, _columns(compiled, found.choice)
    used = float(compiled.entities.demand[found.choice >= 0].sum())
    first = program.with_objectives(program.objectives[0])
    kept = program.keep(used)
    value = kept.objective(x)
    bound = max(kept.offset - found.bound, value)
    allowance = max(options.gap, PROVEN) * float(np.abs(kept.c * x).sum())
    status: Status = "optimal" if bound - value <= PROVEN * scale(value) else "gap"
    point = Point(kept, x, value, bound, status, method=found.method, passes=found.passes)
    if bound - value > allowance * (1 + PROVEN):
        point = _closed(point, program, used, options)
    return replace(point, earlier=(Point(first, point.x, used, used, "optimal", method="packing"),))


def _closed(point: Point, program: LinearProgram, used: float, options: Options) -> Point:
    """``point`` or a better one, proven by an integer program as far as the time limit allows."""
    if options.left != 0:
        try:
            kept = program.keep(used)
            other = run(kept.scaled(), options).unscaled(kept)
            best = other if other.objective > point.objective else point
            return replace(best, bound=max(best.objective, min(point.bound, other.bound)), status=other.status)
        except NotSolved as problem:
            if problem.status != "time_limit":
                return point
    return replace(point, status="time_limit")


def _columns(compiled: Compiled, choice: Positions) -> Floats:
    """(columns,) the plan ``choice``."""
    return np.asarray(choice[:, None] == np.arange(compiled.entities.shape[1]), dtype=float).ravel()


METHOD = Method("fft-round", _serves, solve_round)


def fillable(entities: Entities) -> Positions:
    """(k,) most GPUs of each type that gangs can fill: the largest sum of their demands within its capacity."""
    most = []
    for able, capacity in zip(entities.allowed.T, entities.capacity.astype(np.intp).tolist(), strict=True):
        sums, within = 1, (1 << (capacity + 1)) - 1  # bit s is set if some gangs sum to s
        number = np.bincount(entities.demand[able].astype(np.intp))
        for demand in np.flatnonzero(number).tolist():
            for part in halves(min(int(number[demand]), capacity // demand)):
                sums |= (sums << (part * demand)) & within
        most.append(sums.bit_length() - 1)
    return np.array(most, dtype=np.intp)


def most_packed(entities: Entities, bound: int) -> int | None:
    """The most GPUs that a plan can use, by a table of the numbers of each type that plans use; None if it is large.

    ``bound``: an upper bound, at which the search ends.
    """
    exist = entities.capacity > 0
    capacity = entities.capacity[exist].astype(np.intp)
    alike, number = np.unique(
        np.column_stack([entities.demand, entities.allowed[:, exist]]).astype(np.intp), axis=0, return_counts=True
    )
    number = np.minimum(number, capacity.sum() // alike[:, 0])
    if len(capacity) > TYPES or number.sum() * np.prod(capacity + 1.0) * len(capacity) > LARGEST:
        return None
    used = np.indices((capacity + 1).tolist()).sum(axis=0)
    reached = used == 0
    for row in np.repeat(alike, number, axis=0):
        before, demand = reached.copy(), int(row[0])
        for i in np.flatnonzero(row[1:]).tolist():
            np.moveaxis(reached, i, 0)[demand:] |= np.moveaxis(before, i, 0)[:-demand]
        if (reached & (used == bound)).any():
            return bound
    return int(used[reached].max())


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
