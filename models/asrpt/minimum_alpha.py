"""The GPU mapping with the shortest iteration, as an integer program."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo

from hetopt.errors import InvalidOption
from hetopt.models.asrpt.contents import Room, Whole
from hetopt.models.asrpt.exact_mapping import first_servers_first, linear, one_minute, settled, solve_from, started
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.pipelines.graph import job_graph
from hetopt.pipelines.iteration_time import Asynchronous
from hetopt.pipelines.mapping import GPUMapping, Mapper, Stopwatch, in_order
from hetopt.pipelines.pipeline import Pipeline
from hetopt.pipelines.servers import Servers
from hetopt.solving.options import Options
from hetopt.tolerances import EQUAL, PROVEN


@dataclass(frozen=True)
class MinimumAlpha:
    """Minimise the iteration time of [ASRPT, eq. 7] over all mappings.

    Only counts decide, so replicas of a stage are not told apart. Binary y[s, m, c] says that server m has c replicas
    of stage s; x[s, m] = sum_c c y[s, m, c]. In units of the start's iteration U (``base``, ``saving`` as in
    :mod:`hetopt.models.asrpt.contents`) ::

        minimise  z   subject to
        sum_m x[s, m] = k_s                                    every replica is somewhere
        sum_s slices_s x[s, m] <= free_m                       there is room
        sum_c y[s, m, c] <= 1
        z >= sum_c base[s, c] y[s, m, c] - sum_r saving[s, r] x[r, m]
        sum_r saving[s, r] x[r, m] >= sum_c (base[s, c] - U) y[s, m, c]      nothing is slower than the start
        x[s*, m] >= x[s*, m']    for equal servers m before m', s* the stage with most replicas

    Choices that are slower than the start with the best neighbours beside them do not enter.

    Parameters
    ----------
    start:
        Mapper whose result the search begins with and never falls below.
    timing:
        How long an iteration takes; another than :class:`Asynchronous` is no maximum over servers.
    options:
        Solver, time limit (a minute by default; the gap is then told), gap, threads, seed.

    Raises
    ------
    InvalidOption
        Another ``timing``.
    """

    start: Mapper = field(default_factory=LocalSearch)
    timing: Asynchronous = field(default_factory=Asynchronous)
    options: Options = field(default_factory=one_minute)

    def __post_init__(self) -> None:
        if not isinstance(self.timing, Asynchronous):
            raise InvalidOption(f"MinimumAlpha.timing is {self.timing!r}; it must be Asynchronous")

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; its bound is in seconds.

        Raises
        ------
        InvalidInstance
            There is no room.
        NotSolved
            The time limit came before any mapping was known.
        SolverUnavailable
            The solver is unknown, not installed or not licensed.
        """
        watch = Stopwatch()
        start, room = started(self.start, pipeline, servers), Room(pipeline, servers, self.timing)
        bound, status, counts = room.bound, "time_limit", start
        if start is None or room.iteration(start.T) > bound * (1 + PROVEN):
            model = _model(room, start)
            if (point := solve_from(model, self.options)) is not None:
                bound, status = max(bound, -point.bound * pyo.value(model.unit)), point.status
            counts = np.zeros((len(pipeline), len(servers)), dtype=np.int64)
            for (s, m, c), chosen in model.y.items():
                counts[s - 1, m] += c * round(pyo.value(chosen))
        assert counts is not None
        counts, graph = first_servers_first(counts, servers), job_graph(pipeline)
        status = settled(status, float(room.iteration(counts.T)), bound)
        return GPUMapping(graph, servers, in_order(counts), self.timing, "exact-alpha", bound, status, watch.seconds)

    def build(self, pipeline: Pipeline, servers: Servers) -> Any:
        """The Pyomo model; its variables hold the start.

        Indices of stages count from 1, those of servers from 0; ``model.unit`` is U in seconds.
        """
        return _model(Room(pipeline, servers, self.timing), started(self.start, pipeline, servers))


Counted = tuple[int, Any]
"""How many replicas, and the variable that says so."""


def _model(room: Room, given: Whole | None) -> Any:
    largest = int(room.pipeline.replicas.argmax())
    start = None if given is None else first_servers_first(given, room.servers, largest)
    pipeline, stages, servers = room.pipeline, range(len(room.pipeline)), range(len(room.free))
    slowest = room.timing.most(pipeline, room.servers) if start is None else room.iteration(start.T)
    unit = float(slowest) or 1.0
    model = pyo.ConcreteModel(name=f"{pipeline.name}: minimum alpha")
    model.unit = pyo.Param(initialize=unit)
    best = {like: room.best(*like).tolist() for like in map(room.like, servers)}
    choices = [
        (s + 1, m, c)
        for s in stages
        for m in servers
        for c in range(1, int(pipeline.replicas[s]) + 1)
        if best[room.like(m)][s][c] <= unit * (1 + PROVEN)
    ]
    model.y = pyo.Var(choices, domain=pyo.Binary)
    model.z = pyo.Var(bounds=(min(1.0, room.bound / unit) - EQUAL, 1 + EQUAL), initialize=1.0)
    model.seconds = pyo.Objective(expr=model.z, sense=pyo.minimize)
    here: list[list[list[Counted]]] = [[[] for _ in servers] for _ in stages]
    for (s, m, c), y in model.y.items():
        y.value = int(start is not None and start[s - 1, m] == c)
        here[s - 1][m].append((c, y))
    model.placed, model.room, model.one = pyo.ConstraintList(), pyo.ConstraintList(), pyo.ConstraintList()
    model.pace, model.beside, model.order = pyo.ConstraintList(), pyo.ConstraintList(), pyo.ConstraintList()
    for s in stages:
        every = linear(pair for own in here[s] for pair in own)
        model.placed.add(every == int(pipeline.replicas[s]))
    for m in servers:
        used = [(c * int(pipeline.slices[s]), y) for s in stages for c, y in here[s][m]]
        if used:
            model.room.add(linear(used) <= room.free[m])
        for s in stages:
            if here[s][m]:
                _stage_rows(model, room, here, s, m, unit)
    _order_rows(model, room, here)
    return model


def _stage_rows(model: Any, room: Room, here: list[list[list[Counted]]], s: int, m: int, unit: float) -> None:
    """One count, the pace that it sets, and what must be beside it, for one stage on one server."""
    own, cost = here[s][m], room.costs[room.kind[m]]
    model.one.add(linear((1, y) for _, y in own) <= 1)
    beside = [(cost.saving[s, r] * c / unit, y) for r in range(len(here)) for c, y in here[r][m] if cost.saving[s, r]]
    base = [(cost.base[s, c] / unit, y) for c, y in own]
    model.pace.add(linear([(1, model.z), *((-b, y) for b, y in base), *beside]) >= 0)
    if lacking := [(1 - b, y) for b, y in base if b > 1 + PROVEN]:
        model.beside.add(linear([*beside, *lacking]) >= -PROVEN)


def _order_rows(model: Any, room: Room, here: list[list[list[Counted]]]) -> None:
    """Equal servers in descending order of the replicas that they have of the largest stage."""
    first = here[int(room.pipeline.replicas.argmax())]
    for key in sorted({room.like(m) for m in range(len(room.free))}):
        for m, n in pairwise(m for m in range(len(room.free)) if room.like(m) == key):
            if first[m] or first[n]:
                model.order.add(linear([*first[m], *((-c, y) for c, y in first[n])]) >= 0)
