"""P2 over given schedules, and its dual P3: as readable Pyomo models, and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyomo.environ as pyo
from scipy import sparse

from hetopt.checks import boolean
from hetopt.data.entities import Floats
from hetopt.models.hadar.problem import Problem
from hetopt.models.hadar.schedules import Schedule
from hetopt.models.hadar.time_indexed import CAPACITY, CELLS, SLOTS, UTILITY
from hetopt.programs.linear import LinearProgram
from hetopt.programs.mathematics import Mathematics, described

_SYMBOLS = (
    *Mathematics.read(
        r"""
        symbols
          J | jobs of which there is a schedule
          S[j] | schedules of job j |  | \mathbb{S}_{#1}
          f[j, s] | last slot of schedule s of job j
          w[j, h, r, t, s]
            | GPUs of type r on server h that schedule s of job j has in slot t | GPUs | w_{#1#2}^{#3#5}(#4)
          used | triples (h, r, t): cells and slots that some schedule uses
        """
    ).symbols,
    SLOTS,
    CELLS,
    CAPACITY,
    UTILITY,
)

P2 = Mathematics.read(
    r"""
    Hadar, P2: the best choice of schedules
    maximise
      gain [Hadar, eq. (2)] | utility of the jobs that are admitted | utility
        sum(y[j, s] * U[j, f[j, s]] for j in J for s in S[j])
    subject to
      room [Hadar, eq. (2a)] | no more GPUs are in use than there are | GPUs
        sum(w[j, h, r, t, s] * y[j, s] for j in J for s in S[j]) <= c[h, r] for h, r, t in used
      once [Hadar, eq. (2b)] | a job has one schedule or none
        sum(y[j, s] for s in S[j]) <= 1 for j in J
    with
      y[j, s] [Hadar, eq. (2c)] | whether job j runs by schedule s
        y[j, s] in {0, 1} for j in J for s in S[j]
    """,
    symbols=_SYMBOLS,
)
P2_RELAXED = replace(
    P2,
    title=f"{P2.title}, relaxed",
    variables=(replace(P2.variables[0], formula="y[j, s] >= 0", source=""),),
)
P3 = Mathematics.read(
    r"""
    Hadar, P3: prices, the dual of P2
    minimise
      cost [Hadar, eq. (3)]
        | payoffs of the jobs and what all GPUs cost, no less than the utility of any choice in P2 | utility
        sum(mu[j] for j in J) + sum(c[h, r] * k[h, r, t] for h, r in C for t in T)
    subject to
      pays [Hadar, eq. (3a)] | no schedule pays more than the payoff of its job | utility
        mu[j] >= U[j, f[j, s]] - sum(k[h, r, t] * w[j, h, r, t, s] for h, r in C for t in T)
        for j in J for s in S[j]
    with
      k[h, r, t] [Hadar, eq. (3a)] | price of a GPU of type r on server h in slot t | utility/GPU | k_{#1}^{#2}(#3)
        k[h, r, t] >= 0 for h, r, t in used, else 0
      mu[j] [Hadar, eq. (3a)] | payoff of job j | utility
        mu[j] >= 0 for j in J
    """,
    symbols=_SYMBOLS,
)


def p2(whole: bool = True) -> Mathematics:
    """The best choice of schedules; without ``whole`` its relaxation."""
    return P2 if boolean(whole, "whole") else P2_RELAXED


def p3() -> Mathematics:
    """Prices of GPUs and payoffs of jobs: the dual of the best choice of schedules."""
    return P3


def schedule_model(problem: Problem, schedules: Sequence[Schedule], *, whole: bool = True) -> Any:
    """P2 with the columns ``schedules``, [Hadar, eq. 2 to 2c]; with ``whole=False`` its relaxation.

    ``print(P2)`` shows it. Schedules count from 0 in the given order, across jobs.
    """
    model = pyo.ConcreteModel(name="Hadar P2")
    used, owners = _uses(problem, schedules), _owners(problem, schedules)
    pairs = [(problem.name(schedule.job), i) for i, schedule in enumerate(schedules)]
    model.y = pyo.Var(pairs, domain=pyo.Binary if whole else pyo.NonNegativeReals)
    gain = sum(float(s.value(problem)) * model.y[at] for at, s in zip(pairs, schedules, strict=True))
    model.gain = pyo.Objective(expr=gain, sense=pyo.maximize)
    capacity = dict(zip(problem.cells, problem.capacity.tolist(), strict=True))
    model.room = pyo.Constraint(
        list(used),
        rule=lambda m, h, r, t: sum(n * m.y[pairs[i]] for i, n in used[h, r, t]) <= capacity[h, r],
    )
    model.once = pyo.Constraint(list(owners), rule=lambda m, j: sum(m.y[j, i] for i in owners[j]) <= 1)
    described(model, P2 if whole else P2_RELAXED)
    return model


def dual_model(problem: Problem, schedules: Sequence[Schedule]) -> Any:
    """P3 with the rows of ``schedules``, [Hadar, eq. 3 and 3a]; ``print(P3)`` shows it.

    Prices of resources that no schedule uses are 0 and omitted.
    """
    model = pyo.ConcreteModel(name="Hadar P3")
    used, owners = _uses(problem, schedules), _owners(problem, schedules)
    model.k = pyo.Var(list(used), domain=pyo.NonNegativeReals)
    model.mu = pyo.Var(list(owners), domain=pyo.NonNegativeReals)
    capacity = dict(zip(problem.cells, problem.capacity.tolist(), strict=True))
    rent = sum(capacity[h, r] * model.k[h, r, t] for h, r, t in used)
    model.cost = pyo.Objective(expr=sum(model.mu[j] for j in owners) + rent, sense=pyo.minimize)

    def pays(m: Any, j: str, i: int) -> Any:
        cost = sum(n * m.k[*problem.cells[c], t] for t, c, n in schedules[i].gpus)
        return m.mu[j] + cost >= float(schedules[i].value(problem))

    model.pays = pyo.Constraint([(problem.name(s.job), i) for i, s in enumerate(schedules)], rule=pays)
    described(model, P3)
    return model


def schedule_program(problem: Problem, schedules: Sequence[Schedule], *, whole: bool = True) -> LinearProgram:
    """The program of :func:`schedule_model` without Pyomo; a property test checks that they are equal."""
    used, owners = _uses(problem, schedules), _owners(problem, schedules)
    row = {("room", *at): i for i, at in enumerate(used)} | {("once", j): len(used) + i for i, j in enumerate(owners)}
    entries = [(row["room", *at], i, n) for at, uses in used.items() for i, n in uses]
    entries += [(row["once", j], i, 1) for j, own in owners.items() for i in own]
    rows, columns, data = np.array(entries, dtype=float).reshape(-1, 3).T
    n = len(schedules)
    capacity = dict(zip(problem.cells, problem.capacity.tolist(), strict=True))
    matrix = sparse.coo_array((data, (rows.astype(int), columns.astype(int))), shape=(len(row), n))
    return LinearProgram.of(
        np.array([float(s.value(problem)) for s in schedules]),
        matrix,
        np.full(len(row), -np.inf),
        np.array([capacity[h, r] for h, r, _ in used] + [1.0] * len(owners), dtype=float),
        col_upper=1.0 if whole else np.inf,
        integer=whole,
        row_names=[f"{kind}[{','.join(map(str, at))}]" for kind, *at in row],
        col_names=[f"y[{problem.name(schedule.job)},{i}]" for i, schedule in enumerate(schedules)],
    )


def duals(problem: Problem, schedules: Sequence[Schedule], row_dual: Floats) -> tuple[Floats, dict[int, float]]:
    """(T, C) prices, and job -> payoff for jobs with a schedule, from the duals of :func:`schedule_program`."""
    prices, used, owners = np.zeros(problem.none_used().shape), _uses(problem, schedules), _owners(problem, schedules)
    cells = {cell: c for c, cell in enumerate(problem.cells)}
    for (h, r, t), dual in zip(used, row_dual.tolist(), strict=False):
        prices[t, cells[h, r]] = max(0.0, dual)
    payoffs = row_dual[len(used) :].tolist()
    return prices, {schedules[own[0]].job: dual for own, dual in zip(owners.values(), payoffs, strict=True)}


def _uses(problem: Problem, schedules: Sequence[Schedule]) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    """(server, GPU type, slot) -> (position of the schedule, GPUs), slot by slot."""
    used: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, schedule in enumerate(schedules):
        for t, c, n in schedule.gpus:
            used.setdefault((t, c), []).append((i, n))
    return {(*problem.cells[c], t): uses for (t, c), uses in sorted(used.items())}


def _owners(problem: Problem, schedules: Sequence[Schedule]) -> dict[str, list[int]]:
    """Job -> positions of its schedules, in the order of jobs."""
    owners: dict[int, list[int]] = {}
    for i, schedule in enumerate(schedules):
        owners.setdefault(schedule.job, []).append(i)
    return {problem.name(j): own for j, own in sorted(owners.items())}
