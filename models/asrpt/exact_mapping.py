"""Shared by the two exact GPU mappings: symbols, solving a Pyomo model from a start, and canonical counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from hetopt.data.array_types import Integers
from hetopt.errors import InvalidInstance, NotSolved
from hetopt.programs.linear import Point, Status
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.pyomo_reading import from_pyomo
from hetopt.solving.highs import Session
from hetopt.solving.optimising import run
from hetopt.solving.options import Options
from hetopt.stages.mapping import Mapper, check_room
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import FEASIBILITY, PROVEN

_STAGES = Mathematics.read(
    """
    where
      a[s] [ASRPT, section III-B] | bytes that a replica of stage s sends in its AllReduce | bytes
        a[s] == 2 * (k[s] - 1) * h[s] / k[s] for s in S
    symbols
      S | stages of the job
      k[s] | replicas of stage s
      t[s] | GPUs of a replica of stage s, all of one server | GPUs
      l[s, r] | what a replica of stage s and one of r exchange in an iteration: 2 d / k of neighbours, else 0 | bytes
      e[s] | tokens that two replicas of stage s exchange in an iteration | bytes
      h[s] | parameters of stage s | bytes
    """
)
(REDUCED,), STAGES = _STAGES.definitions, tuple(one for one in _STAGES.symbols if one.name != "S")
"""Symbols of a job's stages, used by both exact mappings, which number the stages differently."""


def one_minute() -> Options:
    """Options with a time limit of one minute."""
    return Options(time_limit=60.0)


def started(start: Mapper, pipeline: Pipeline, servers: Servers) -> Integers | None:
    """(S, M) replicas as placed by the mapper ``start``; None if it does not find GPUs for all slices.

    Raises
    ------
    InvalidInstance
        Too few free GPUs.
    """
    check_room(pipeline, servers)
    try:
        return start(pipeline, servers).replicas
    except InvalidInstance:
        if not pipeline.sliced:
            raise
        return None


def settled(status: Status, value: float, bound: float) -> Status:
    """``status``, or ``"optimal"`` if the bound proves it."""
    return "optimal" if value <= bound * (1 + PROVEN) else status


def first_servers_first(counts: Integers, servers: Servers, stage: int = 0) -> Integers:
    """(S, M) counts with equal servers in descending order of ``stage``, then lexicographically of all stages."""
    alike: dict[tuple[int, int], list[int]] = {}
    for m, like in enumerate(zip(servers.kind, servers.free.tolist(), strict=True)):
        alike.setdefault(like, []).append(m)
    done = counts.copy()
    for same in alike.values():
        order = sorted(same, key=lambda m: (counts[stage, m], counts[:, m].tolist()), reverse=True)
        done[:, same] = counts[:, order]
    return done


def solve_from(model: Any, options: Options, *, presolve: bool = True) -> Point | None:
    """Solve ``model`` from the values of its variables, which then have the values of the solution.

    Parameters
    ----------
    presolve:
        False if HiGHS's presolve takes longer than it saves.

    Returns
    -------
    Point | None
        The solver's point; None if the time limit was reached before any point, then the variables keep the start.

    Raises
    ------
    NotSolved
        No solution for another reason than the time limit, or at the limit if the variables have no start.
    InvalidInstance
        Infeasible: slices do not fit.
    SolverUnavailable
        The solver is unknown, not installed or not licensed.
    """
    program = from_pyomo(model)
    free = [v for v in model.component_data_objects(pyo.Var, active=True) if not v.fixed]
    start = np.array([v.value for v in free], dtype=float)
    try:
        if options.solver == "highs" and not options.exact:
            session = Session(program, options, presolve=presolve)
            session.start_from(start)
            point = session.solve()
        else:
            point = run(program, options, start)
    except NotSolved as problem:
        if problem.status == "infeasible":
            raise InvalidInstance(
                f"the job does not fit on the servers ({model.name}): a sliced replica needs all its GPUs on one server"
            ) from None
        if problem.status != "time_limit" or program.violation(start) > FEASIBILITY:
            raise
        return None
    whole = np.where(program.integer, np.rint(point.x), point.x)
    for variable, value in zip(free, whole.tolist(), strict=True):
        variable.set_value(value, skip_validation=True)
    return point
