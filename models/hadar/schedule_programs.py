"""P2 over given schedules, and its dual P3: as Pyomo models to read, and as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo
from scipy import sparse

from hetopt.models.hadar.problem import Problem
from hetopt.models.hadar.schedules import Schedule
from hetopt.programs.linear import LinearProgram


def schedule_model(problem: Problem, schedules: Sequence[Schedule], *, whole: bool = True) -> Any:
    """P2 with the columns ``schedules``, [Hadar, eq. 2 to 2c]; with ``whole=False`` its relaxation.

    ``maximise sum_s U_s y[s]`` subject to ``sum_s w_s[t, c] y[s] <= c_c`` for every slot t and cell c (``room``), and
    ``sum_{s of j} y[s] <= 1`` for every job j (``once``).
    """
    model = pyo.ConcreteModel(name="Hadar P2")
    used, owners = _uses(schedules), _owners(schedules)
    model.y = pyo.Var(range(len(schedules)), domain=pyo.Binary if whole else pyo.NonNegativeReals)
    gain = sum(float(s.value(problem)) * model.y[i] for i, s in enumerate(schedules))
    model.gain = pyo.Objective(expr=gain, sense=pyo.maximize)
    model.room = pyo.Constraint(
        list(used),
        rule=lambda m, t, c: sum(n * m.y[i] for i, n in used[t, c]) <= int(problem.capacity[c]),
    )
    model.once = pyo.Constraint(list(owners), rule=lambda m, j: sum(m.y[i] for i in owners[j]) <= 1)
    return model


def dual_model(problem: Problem, schedules: Sequence[Schedule]) -> Any:
    """P3 with the rows of ``schedules``, [Hadar, eq. 3 and 3a].

    ``minimise sum_j mu[j] + sum_t,c c_c k[t, c]`` subject to ``mu[j] + sum_t,c w_s[t, c] k[t, c] >= U_s`` for every
    schedule s of every job j, all >= 0. Prices of what no schedule uses are 0 and not in it.
    """
    model = pyo.ConcreteModel(name="Hadar P3")
    used, owners = _uses(schedules), _owners(schedules)
    model.k = pyo.Var(list(used), domain=pyo.NonNegativeReals)
    model.mu = pyo.Var(list(owners), domain=pyo.NonNegativeReals)
    rent = sum(int(problem.capacity[c]) * model.k[t, c] for t, c in used)
    model.cost = pyo.Objective(expr=sum(model.mu[j] for j in owners) + rent, sense=pyo.minimize)
    model.pays = pyo.Constraint(
        range(len(schedules)),
        rule=lambda m, i: (
            m.mu[schedules[i].job] + sum(n * m.k[t, c] for t, c, n in schedules[i].gpus)
            >= float(schedules[i].value(problem))
        ),
    )
    return model


def schedule_program(problem: Problem, schedules: Sequence[Schedule], *, whole: bool = True) -> LinearProgram:
    """The program of :func:`schedule_model` without Pyomo; a property test says that they are the same."""
    used, owners = _uses(schedules), _owners(schedules)
    row = {("room", *at): i for i, at in enumerate(used)} | {("once", j): len(used) + i for i, j in enumerate(owners)}
    entries = [(row["room", t, c], i, n) for (t, c), uses in used.items() for i, n in uses]
    entries += [(row["once", j], i, 1) for j, own in owners.items() for i in own]
    rows, columns, data = np.array(entries, dtype=float).reshape(-1, 3).T
    n = len(schedules)
    matrix = sparse.coo_array((data, (rows.astype(int), columns.astype(int))), shape=(len(row), n))
    return LinearProgram(
        c=np.array([float(s.value(problem)) for s in schedules]),
        A=sparse.csc_array(matrix),
        row_lower=np.full(len(row), -np.inf),
        row_upper=np.array([float(problem.capacity[c]) for _, c in used] + [1.0] * len(owners)),
        col_lower=np.zeros(n),
        col_upper=np.full(n, 1.0 if whole else np.inf),
        integer=np.full(n, whole),
        row_names=[f"{kind}[{','.join(map(str, at))}]" for kind, *at in row],
        col_names=[f"y[{i}]" for i in range(n)],
    )


def _uses(schedules: Sequence[Schedule]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """(slot, cell) -> (position of the schedule, GPUs), both sorted."""
    used: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, schedule in enumerate(schedules):
        for t, c, n in schedule.gpus:
            used.setdefault((t, c), []).append((i, n))
    return dict(sorted(used.items()))


def _owners(schedules: Sequence[Schedule]) -> dict[int, list[int]]:
    """Job -> positions of its schedules, sorted."""
    owners: dict[int, list[int]] = {}
    for i, schedule in enumerate(schedules):
        owners.setdefault(schedule.job, []).append(i)
    return dict(sorted(owners.items()))
