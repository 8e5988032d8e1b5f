"""The optimum of Shockwave's program, from the numbers of rounds of each job, and the order of the rounds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from hetopt.data.array_types import Positions
from hetopt.data.instance import Instance
from hetopt.errors import InvalidFormulation, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.models.gavel.gavel_components import TimeFraction
from hetopt.models.shockwave.shockwave_components import EarlyRounds, OneTypePerRound, RoundsGiven, window
from hetopt.programs.linear import Point
from hetopt.results.allocation import Allocation
from hetopt.solving.optimising import optimise
from hetopt.solving.options import Options
from hetopt.tolerances import scale


def best_rounds(formulation: Formulation, instance: Instance, rounds: int, options: Options) -> Allocation:
    """The optimum of the program of a window of ``rounds`` rounds that begins now.

    The objective depends only on how many rounds a job has on each GPU type. So these numbers are found first, with the
    capacity of the whole window: a small program whose optimum is a bound. Then rounds are found in which no job has
    more than its number. The whole program is solved only if these are not within the gap of the bound, and the small
    one was solved in time.

    Parameters
    ----------
    formulation:
        Components over a :func:`~hetopt.models.shockwave.shockwave_components.window` of the instance. All but
        ``OneTypePerRound`` have a field ``round_seconds``.
    options:
        Options of each search.

    Raises
    ------
    InvalidFormulation
        A component without the field ``round_seconds``.
    NotSolved
        No usable solution.
    """
    began, spread = time.perf_counter(), window(instance, rounds)
    numbers, relaxed = _numbers_of_rounds(formulation, window(instance, 1), rounds, options)
    bound, enough = relaxed.bound, relaxed.bound - options.gap * scale(relaxed.bound)
    found: Allocation | None = None
    with suppress(NotSolved):
        found = (formulation + RoundsGiven(numbers, rounds, fewer=True)).solve(spread, options)
    if found is None or (found.certificate.objective < enough and relaxed.status != "time_limit"):
        with nullcontext() if found is None else suppress(NotSolved):
            whole = formulation.solve(spread, options)
            bound = min(bound, whole.certificate.bound)
            found = max(whole, found or whole, key=lambda one: one.certificate.objective)
    assert found is not None
    own = found.certificate
    bound = max(bound, own.objective)
    status = "optimal" if bound == own.objective else "gap" if own.status == "optimal" else own.status
    seconds = time.perf_counter() - began
    return Allocation(found.entities, found.x, replace(own, status=status, bound=bound, seconds=seconds))


def _numbers_of_rounds(
    formulation: Formulation, instance: Instance, rounds: int, options: Options
) -> tuple[dict[str, dict[str, int]], Point]:
    """Job -> GPU type -> rounds, and the optimum that has them.

    The window is a single round of the ``instance``, of which jobs have whole multiples of 1 / rounds.
    """
    parts: list[Any] = [part for part in formulation if not isinstance(part, OneTypePerRound)]
    for part in parts:
        if not hasattr(part, "round_seconds"):
            problem = "has no field round_seconds; the numbers of rounds in a window are found with longer rounds"
            raise InvalidFormulation(problem, part.name)
    whole = Formulation((TimeFraction(), *(replace(p, round_seconds=rounds * p.round_seconds) for p in parts)))
    program = whole.compile(instance)
    assert program.share is not None
    share = program.share.ravel()
    unit = np.ones(program.shape[1]) if program.col_unit is None else program.col_unit.copy()
    integer, upper = program.integer.copy(), program.col_upper.copy()
    unit[share], integer[share], upper[share] = 1.0 / rounds, True, np.minimum(upper[share], 1.0)
    point = optimise(replace(program, col_unit=unit, integer=integer, col_upper=upper), options)
    types = [name.rpartition("@")[0] for name in instance.cluster.type_names]
    table = np.rint(point.share * rounds).astype(int).tolist()
    rows = zip(instance.jobs, table, strict=True)
    return {job.name: dict(zip(types, row, strict=True)) for job, row in rows}, point


def in_order(
    found: Allocation, instance: Instance, rounds: int, weight: Mapping[str, float], options: Options
) -> Positions:
    """(n, rounds) GPU type of each job in each round, -1 for none, with the rounds of heavier jobs first.

    Jobs keep their numbers of rounds on each type. The sum of their mean rounds, by weight, is least; if the search for
    this order ends without a solution, only whole rounds are exchanged.

    Parameters
    ----------
    found:
        Shares in the ``instance``, a :func:`~hetopt.models.shockwave.shockwave_components.window` of ``rounds`` rounds.
    weight:
        Job -> weight.
    options:
        Options of the search.
    """
    names, k = found.entities.names, found.x.shape[1] // rounds
    given = np.rint(found.x).reshape(len(names), rounds, k)
    every = given.sum(axis=(1, 2))
    cost = np.divide([weight[name] for name in names], every, out=np.zeros(len(names)), where=every > 0)
    given = given[:, np.argsort(-(cost @ given.any(axis=2)), kind="stable")]
    types = [name.rpartition("@")[0] for name in found.entities.types[:k]]
    numbers = {n: dict(zip(types, row, strict=True)) for n, row in zip(names, given.sum(axis=1).tolist(), strict=True)}
    rounds_of = dict(zip(names, every.tolist(), strict=True))
    parts = OneTypePerRound(rounds), RoundsGiven(numbers, rounds), EarlyRounds(weight, rounds_of, rounds)
    with suppress(NotSolved):
        given = np.rint(Formulation(parts, title="Order of rounds").solve(instance, options).x).reshape(given.shape)
    return np.where(given.any(axis=2), given.argmax(axis=2), -1)
