"""Common parts of the two exact GPU mappings: solving a Pyomo model from a start, and handling of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from hetopt.errors import InvalidInstance, NotSolved
from hetopt.models.asrpt.placement_costs import Whole
from hetopt.programs.compiling import from_pyomo
from hetopt.programs.point import Point, Status
from hetopt.solving.backends import run
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.stages.mapping import Mapper, check_room
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers
from hetopt.tolerances import FEASIBILITY, PROVEN


def one_minute() -> Options:
    """Options that stop a search after a minute."""
    return Options(time_limit=60.0)


def started(start: Mapper, pipeline: Pipeline, servers: Servers) -> Whole | None:
    """(S, M) replicas as placed by the mapper ``start``; None if it finds no room for slices, though there may be.

    Raises
    ------
    InvalidInstance
        There is no room.
    """
    check_room(pipeline, servers)
    try:
        return start(pipeline, servers).replicas
    except InvalidInstance:
        if not pipeline.sliced:
            raise
        return None


def settled(status: Status | str, value: float, bound: float) -> Status | str:
    """``status``, or ``"optimal"`` if the bound proves it."""
    return "optimal" if value <= bound * (1 + PROVEN) else status


def first_servers_first(counts: Whole, servers: Servers, stage: int = 0) -> Whole:
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
    """Solve ``model`` from the values of its variables; afterwards they have the values of the solution.

    Parameters
    ----------
    presolve:
        False if HiGHS's presolve takes longer than it saves.

    Returns
    -------
    Point | None
        The solver's point; None if the time limit came before any point, and the variables keep the start.

    Raises
    ------
    NotSolved
        For other reasons than the time limit, or at the limit if the variables have no start.
    InvalidInstance
        There is no solution: slices have no room.
    SolverUnavailable
        The solver is unknown, not installed or not licensed.
    """
    program = from_pyomo(model)
    free = [v for v in model.component_data_objects(pyo.Var, active=True) if not v.fixed]
    start = np.array([v.value for v in free], dtype=float)
    try:
        if options.solver == "highs":
            session = Session(program, options, presolve=presolve)
            session.start_from(start)
            point = session.solve()
        else:
            point = run(program, options, start)
    except NotSolved as problem:
        if problem.status == "infeasible":
            raise InvalidInstance(
                f"there is no room on the servers ({model.name}): all GPUs of a sliced replica must be on one server"
            ) from None
        if problem.status != "time_limit" or program.violation(start) > FEASIBILITY:
            raise
        return None
    whole = np.where(program.integer, np.rint(point.x), point.x)
    for variable, value in zip(free, whole.tolist(), strict=True):
        variable.set_value(value, skip_validation=True)
    return point
