"""P1: the integer program over slots, with the rules of Hadar's section III-A as rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from hetopt.errors import NotSolved
from hetopt.models.hadar.problem import Problem
from hetopt.models.hadar.schedules import Schedule
from hetopt.models.hadar.solved import Solved, claimed, proven, solved
from hetopt.programs.compiling import from_pyomo
from hetopt.solving.backends import run
from hetopt.solving.options import Options


@dataclass(frozen=True)
class TimeIndexed:
    """P1 as an integer program, [Hadar, eq. 1 to 1e].

    Whole w[j, t, c] GPUs of each cell; binary runs[j, t, v] that the gang runs in slot t at the v-th fastest speed
    x[j, v] of the job; binary ends[j, t] that t is its last slot. With s[j, c] the speed that the cell allows ::

        maximise  sum_j,t U_j[t] ends[j, t]   subject to
        sum_t,v x[j, v] runs[j, t, v] >= enough_j sum_t ends[j, t]                 (1a)
        w[j, t, c] <= min(c_c, W_j) sum_{v: x[j, v] <= s[j, c]} runs[j, t, v]      (1b)
        sum_v runs[j, t, v] <= sum_{t' >= t} ends[j, t']                           (1c)
        sum_j w[j, t, c] <= c_c                                                    (1d)
        sum_c w[j, t, c] = W_j sum_v runs[j, t, v]                                 (1e)
        sum_t ends[j, t] <= 1                                                      admission

    ``enough`` is half-way between the most work that slots can do and is too little, and the least that is enough: the
    same schedules as with the work itself, and a solver's tolerance decides nothing.

    Parameters
    ----------
    admission:
        Jobs may be left out. As printed (False) every job must finish, so P1 has no solution where slots are too few,
        and is not equivalent to P2.
    options:
        Of the solver.
    """

    admission: bool = True
    options: Options = field(default_factory=proven)

    def __call__(self, problem: Problem) -> Solved:
        """The best schedules.

        Raises
        ------
        NotSolved
            No usable solution; ``"infeasible"`` where all jobs must finish and cannot.
        """
        model = self.build(problem)
        program = from_pyomo(model)
        if not program.col_names:
            return solved(problem, [], None)
        point = run(program, self.options)
        value = dict(zip(program.col_names, point.x.tolist(), strict=True))
        chosen: dict[int, list[tuple[int, int, int]]] = {}
        for (j, t, c), w in model.w.items():
            if gpus := round(value.get(w.name, 0.0)):
                chosen.setdefault(j, []).append((t, c, gpus))
        return claimed(problem, [Schedule(j, tuple(sorted(gpus))) for j, gpus in chosen.items()], point)

    def build(self, problem: Problem) -> Any:
        """The Pyomo model; jobs, slots, cells and speeds count from 0. Jobs that arrive too late are not in it.

        Raises
        ------
        NotSolved
            Every job must finish, and one arrives too late.
        """
        model = pyo.ConcreteModel(name="Hadar P1")
        jobs = [j for j in range(len(problem.demand)) if problem.first[j] < problem.slots]
        if not self.admission and len(jobs) < len(problem.demand):
            late = problem.name(int(problem.first.argmax()))
            raise NotSolved(f"job {late!r} must finish, and arrives after the last slot has begun", "infeasible")
        cells, capacity, demand = range(len(problem.cells)), problem.capacity.tolist(), problem.demand.tolist()
        level = {j: [float(v) for v in problem.levels(j)] for j in jobs}
        speed = {(j, c): float(problem.speed[j, problem.kind[c]]) for j in jobs for c in cells}
        slots = {j: range(int(problem.first[j]), problem.slots) for j in jobs}
        here = [(j, t) for j in jobs for t in slots[j]]
        seats = [(j, t, c) for j, t in here for c in cells if speed[j, c]]
        enough = {j: _enough(problem, j, len(slots[j])) for j in jobs}
        model.w = pyo.Var(seats, domain=pyo.NonNegativeIntegers)
        model.runs = pyo.Var([(j, t, v) for j, t in here for v in range(len(level[j]))], domain=pyo.Binary)
        model.ends = pyo.Var(here, domain=pyo.Binary)

        def runs(j: int, t: int, fastest: int = 0) -> Any:
            return sum(model.runs[j, t, v] for v in range(fastest, len(level[j])))

        def ends(j: int, since: int = 0) -> Any:
            return sum(model.ends[j, t] for t in slots[j] if t >= since)

        def room(_: Any, t: int, c: int) -> Any:
            there = [model.w[j, t, c] for j in jobs if (j, t, c) in model.w]
            return sum(there) <= capacity[c] if there else pyo.Constraint.Skip

        gain = sum(float(problem.value[at]) * model.ends[at] for at in here)
        model.gain = pyo.Objective(expr=gain, sense=pyo.maximize)
        model.done = pyo.Constraint(
            jobs,
            rule=lambda _, j: (
                sum(level[j][v] * model.runs[j, t, v] for t in slots[j] for v in range(len(level[j])))
                >= enough[j] * ends(j)
            ),
        )
        model.pace = pyo.Constraint(
            seats,
            rule=lambda _, j, t, c: (
                model.w[j, t, c] <= min(capacity[c], demand[j]) * runs(j, t, level[j].index(speed[j, c]))
            ),
        )
        model.last = pyo.Constraint(here, rule=lambda _, j, t: runs(j, t) <= ends(j, t))
        model.room = pyo.Constraint(range(problem.slots), cells, rule=room)
        model.gang = pyo.Constraint(
            here, rule=lambda _, j, t: sum(model.w[j, t, c] for c in cells if speed[j, c]) == demand[j] * runs(j, t)
        )
        least = 0 if self.admission else 1
        model.admission = pyo.Constraint(jobs, rule=lambda _, j: (least, ends(j), 1))
        return model


def _enough(problem: Problem, job: int, slots: int, most: int = 20_000) -> float:
    """Work between too little and enough, of all sums of speeds in so many slots; the work itself if these are many."""
    need, sums, latest = float(problem.least_work[job]), {0.0}, {0.0}
    for _ in range(slots):
        latest = {done + float(v) for done in latest for v in problem.levels(job) if done < need} - sums
        sums |= latest
        if len(sums) > most:
            return float(problem.work[job])
    below = max(done for done in sums if done < need)
    return (below + min((done for done in sums if done >= need), default=below + 2)) / 2  # no sum: out of reach
