"""The GPU mapping with the shortest iteration time, as an integer program."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo

from hetopt.checks import shown
from hetopt.data.array_types import Integers
from hetopt.errors import InvalidOption
from hetopt.models.asrpt.exact_mapping import (
    REDUCED,
    STAGES,
    first_servers_first,
    one_minute,
    settled,
    solve_from,
    started,
)
from hetopt.models.asrpt.local_search import LocalSearch
from hetopt.models.asrpt.placement_costs import RESOLUTION, PlacementCosts
from hetopt.programs.linear import Status
from hetopt.programs.mathematics import Mathematics, described
from hetopt.programs.model import linear
from hetopt.solving.options import Options
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.job_graph import job_graph
from hetopt.stages.mapping import GPUMapping, Mapper, in_order
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import PROVEN, ROUNDING

MATHEMATICS = Mathematics.read(
    r"""
    A-SRPT: the GPU mapping with the shortest iteration
    minimise
      seconds [ASRPT, eq. (7)] | iteration time relative to that of the start | u
        z
    subject to
      placed [ASRPT, eq. (2)] | every replica is on some server | replicas
        sum(x[s, m] for m in M) == k[s] for s in S
      room [ASRPT, eq. (3)] | no server has more than its free GPUs | GPUs
        sum(t[s] * x[s, m] for s in S) <= g[m] for m in M
      one | at most one number of replicas of a stage is chosen per server; without one the stage is absent
        sum(y[s, m, c] for c in counts[s, m]) <= 1 for s in S for m in M
      pace [ASRPT, eq. (7)] | the slowest stage on any server determines the iteration time | s
        u * z >= sum(base[s, m, c] * y[s, m, c] for c in counts[s, m]) - sum(save[s, r, m] * x[r, m] for r in S if r
          != s) - worst[s, m] * (1 - sum(y[s, m, c] for c in counts[s, m]))
        for s in S for m in M if len(counts[s, m]) > 0
      beside | a stage that would be slower than the start without neighbours has neighbours on its server | s
        sum(save[s, r, m] * x[r, m] for r in S if r != s) + worst[s, m] >= sum((base[s, m, c] + worst[s, m] - longest
          * u) * y[s, m, c] for c in slow[s, m]) for s in S for m in M if len(slow[s, m]) > 0
      order | of equal servers the first has most of the largest stage | replicas
        x[top, m] >= x[top, n] for m, n in pairs
    with
      y[s, m, c] | whether server m has c replicas of stage s
        y[s, m, c] in {0, 1} for s in S for m in M for c in counts[s, m]
      z | seconds of an iteration | u
        least <= z <= longest
    where
      x[s, m] | replicas of stage s on server m | replicas | x_{#1}^{#2}
        x[s, m] == sum(c * y[s, m, c] for c in counts[s, m]) for s in S for m in M
      base[s, m, c] [ASRPT, eq. (7)] | a stage with c replicas on server m and no neighbours there | s
        base[s, m, c] == comp[s, m] + comm[s, m, c] + theta_r * reduce[s, m, c]
        for s in S for m in M for c in {1, ..., k[s]}
      comp[s, m] [ASRPT, eq. (4)] | computation of a stage on server m, with the exchange between slices | s
        comp[s, m] == pf[s] + theta_b * pb[s] + 2 * (t[s] - 1) * q[s] / (t[s] * B[m]) for s in S for m in M
      comm[s, m, c] [ASRPT, eq. (5)]
        | its exchange with other replicas if its server has c of its replicas and no neighbours | s
        comm[s, m, c] == sum(l[s, r] * k[r] for r in S if r != s) / (t[s] * b[m]) + e[s] * ((k[s] - c) / (t[s] *
          b[m]) + (c - 1) / (t[s] * B[m])) for s in S for m in M for c in {1, ..., k[s]}
      reduce[s, m, c] [ASRPT, eq. (6)] | its AllReduce if c of its replicas are there | s
        reduce[s, m, c] == (a[s] / (t[s] * B[m]) if c == k[s] else a[s] / (c * t[s] * b[m]))
        for s in S for m in M for c in {1, ..., k[s]}
      save[s, r, m] [ASRPT, eq. (5)] | time that a replica of r on server m saves a stage s there | s
        save[s, r, m] == l[s, r] * (1 / (t[s] * b[m]) - 1 / (t[s] * B[m]))
        for s in S for r in S for m in M if r != s
      worst[s, m]
        | largest time that neighbours add to stage s on server m, if its links are slower than its card | s
        worst[s, m] == sum(max(0, -save[s, r, m]) * k[r] for r in S if r != s) for s in S for m in M
    symbols
      S | stages of the job, from 1 on
      M | servers, from 0 on
      g[m] | free GPUs of server m | GPUs
      b[m] | bandwidth of the network card for each GPU of server m, B inter / g in the paper | bytes/s
      B[m] | bandwidth between two GPUs of server m, B intra in the paper | bytes/s
      pf[s] | computation of stage s forwards | s | p^f_{#1}
      pb[s] | computation of stage s backwards | s | p^b_{#1}
      q[s] | bytes that the GPUs of a replica of stage s reduce among themselves | bytes
      theta_b | part of the backward computation that does not overlap with the AllReduce
      theta_r | part of the AllReduce that does not overlap with computation
      u | iteration time of the start; without a start, an upper bound | s
      longest | iteration time of the start, 1 but for rounding; without a start, an upper bound | u
      least | lower bound on the iteration time | u
      counts[s, m] | numbers of replicas with which stage s can be as fast on server m as the start
      slow[s, m] | those of counts with base + worst > longest u
      top | the stage with most replicas |  | s^*
      pairs | neighbours (m, n) in the order of equal servers
    """,
    definitions=(REDUCED,),
    symbols=STAGES,
)


@dataclass(frozen=True)
class MinimumAlpha:
    """Minimise the iteration time of [ASRPT, eq. 7] over all mappings, exactly.

    ``print(MinimumAlpha().mathematics)`` shows the integer program.

    Only counts matter (:mod:`hetopt.models.asrpt.placement_costs`), so replicas of a stage are interchangeable. Choices
    that are slower than the start even with the best neighbours on the same server are omitted. Seconds are rounded to
    multiples of :data:`~hetopt.models.asrpt.placement_costs.RESOLUTION` u, so that the program needs no tolerances.

    Parameters
    ----------
    start:
        Mapper whose result is the initial solution; the search never returns a worse one.
    timing:
        Model of the iteration time; only with :class:`Asynchronous` is it a maximum over servers.
    options:
        Solver, time limit (a minute by default; the gap is then reported), gap, threads, seed.

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
            raise InvalidOption(f"is {shown(self.timing)}; it must be Asynchronous", "MinimumAlpha.timing")

    def __call__(self, pipeline: Pipeline, servers: Servers) -> GPUMapping:
        """The mapping; its bound is in seconds.

        Raises
        ------
        InvalidInstance
            Too few free GPUs.
        NotSolved
            The time limit was reached before any mapping was found.
        SolverUnavailable
            The solver is unknown, not installed or not licensed.
        """
        began = time.perf_counter()
        start, costs = started(self.start, pipeline, servers), PlacementCosts(pipeline, servers, self.timing)
        status: Status = "time_limit"
        bound, counts = costs.bound, start
        if start is None or costs.iteration(start.T) > bound * (1 + PROVEN):
            model = _model(costs, start)
            if (point := solve_from(model, self.options)) is not None:
                bound, status = max(bound, -point.bound * pyo.value(model.unit)), point.status
            counts = np.zeros((len(pipeline), len(servers)), dtype=np.int64)
            for (s, m, c), chosen in model.y.items():
                counts[s - 1, m] += c * round(pyo.value(chosen))
        assert counts is not None
        counts, graph = first_servers_first(counts, servers), job_graph(pipeline)
        value = float(costs.iteration(counts.T))
        bound = min(bound, value)  # a solver's bound may be too large by its tolerance
        status, seconds = settled(status, value, bound), time.perf_counter() - began
        return GPUMapping(graph, servers, in_order(counts), self.timing, "exact-alpha", bound, status, seconds)

    @property
    def mathematics(self) -> Mathematics:
        """The program."""
        return MATHEMATICS

    def build(self, pipeline: Pipeline, servers: Servers) -> Any:
        """The Pyomo model; its variables have the values of the start.

        Indices of stages count from 1, those of servers from 0; ``model.unit`` is u in seconds.
        """
        return _model(PlacementCosts(pipeline, servers, self.timing), started(self.start, pipeline, servers))


Counted = tuple[int, Any]
"""(number of replicas, the binary variable of this choice)."""


def _model(costs: PlacementCosts, given: Integers | None) -> Any:
    largest = int(costs.pipeline.replicas.argmax())
    start = None if given is None else first_servers_first(given, costs.servers, largest)
    pipeline, stages, servers = costs.pipeline, range(len(costs.pipeline)), range(len(costs.free))
    unit = float(costs.longest if start is None else costs.iteration(start.T)) or 1.0
    model = pyo.ConcreteModel(name=f"{pipeline.name}: minimum alpha")
    model.unit = pyo.Param(initialize=unit, doc="u: iteration time of the start; without a start, an upper bound (s)")
    costs = costs.rounded(unit)
    limit = float(costs.longest if start is None else costs.iteration(start.T)) or 1.0
    best = {like: costs.best(*like).tolist() for like in map(costs.equal_key, servers)}
    choices = [
        (s + 1, m, c)
        for s in stages
        for m in servers
        for c in range(1, int(pipeline.replicas[s]) + 1)
        if best[costs.equal_key(m)][s][c] <= limit * (1 + PROVEN)
    ]
    model.y = pyo.Var(choices, domain=pyo.Binary)
    least = math.ceil((costs.bound - ROUNDING) / RESOLUTION) * RESOLUTION  # all mappings take multiples of it
    model.z = pyo.Var(bounds=(min(limit, least), limit), initialize=limit)
    model.seconds = pyo.Objective(expr=model.z, sense=pyo.minimize)
    here: list[list[list[Counted]]] = [[[] for _ in servers] for _ in stages]
    for (s, m, c), y in model.y.items():
        y.value = int(start is not None and start[s - 1, m] == c)
        here[s - 1][m].append((c, y))
    for name in ("placed", "room", "one", "pace", "beside", "order"):
        model.add_component(name, pyo.Constraint(pyo.Any))
    for s in stages:
        every = linear(pair for own in here[s] for pair in own)
        model.placed[s + 1] = every == int(pipeline.replicas[s])
    for m in servers:
        used = [(c * int(pipeline.slices[s]), y) for s in stages for c, y in here[s][m]]
        if used:
            model.room[m] = linear(used) <= costs.free[m]
        for s in stages:
            if here[s][m]:
                _stage_rows(model, costs, here, s, m, limit)
    _order_rows(model, costs, here)
    described(model, MATHEMATICS)
    return model


def _stage_rows(
    model: Any, costs: PlacementCosts, here: list[list[list[Counted]]], s: int, m: int, limit: float
) -> None:
    """Rows for one stage on one server: one count, its iteration time, and the neighbours that it requires.

    Neighbours can cost a stage up to ``worst`` (:meth:`~hetopt.models.asrpt.placement_costs.StageSeconds.worst`), which
    is subtracted if the stage is absent.
    """
    own, cost = here[s][m], costs.by_kind[costs.kind[m]]
    model.one[s + 1, m] = linear((1, y) for _, y in own) <= 1
    beside = [(cost.saving[s, r] * c, y) for r in range(len(here)) for c, y in here[r][m] if cost.saving[s, r]]
    worst = float(cost.worst(costs.pipeline)[s])
    base = [(cost.base[s, c] + worst, y) for c, y in own]
    model.pace[s + 1, m] = linear([(1, model.z), *((-b, y) for b, y in base), *beside]) >= -worst
    if lacking := [(limit - b, y) for b, y in base if b > limit]:
        model.beside[s + 1, m] = linear([*beside, *lacking]) >= -worst


def _order_rows(model: Any, costs: PlacementCosts, here: list[list[list[Counted]]]) -> None:
    """Symmetry breaking: equal servers in descending order of their replicas of the largest stage."""
    first = here[int(costs.pipeline.replicas.argmax())]
    for key in sorted({costs.equal_key(m) for m in range(len(costs.free))}):
        for m, n in pairwise(m for m in range(len(costs.free)) if costs.equal_key(m) == key):
            if first[m] or first[n]:
                model.order[m, n] = linear([*first[m], *((-c, y) for c, y in first[n])]) >= 0
