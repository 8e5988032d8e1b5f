"""P1: the integer program over slots, with the rules of Hadar's section III-A as rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyomo.environ as pyo

from hetopt.checks import boolean
from hetopt.errors import NotSolved
from hetopt.models.hadar.job_schedules import JobSchedule, OfflineSolution, claimed, proven, solved
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.programs.mathematics import Mathematics, Symbol, described
from hetopt.programs.pyomo_reading import from_pyomo
from hetopt.solving.optimising import run
from hetopt.solving.options import Options

SLOTS = Symbol("T", "slots 0, 1, … of L seconds each")
CELLS = Symbol("C", "cells (h, r): server h has GPUs of type r")
CAPACITY = Symbol("c", "GPUs of type r on server h", "GPUs", "h, r", "c_{#1}^{#2}")
UTILITY = Symbol(
    "U", "utility U(f - a) of job j if it is done at the end f of slot t", "utility", "j, t", r"\mathcal{U}_{#1}(#2)"
)

P1 = Mathematics.read(
    r"""
    Hadar, P1: the best schedules of all jobs, slot by slot
    maximise
      gain [Hadar, eq. (1)] | utility of the jobs that finish | utility
        sum(U[j, t] * ends[j, t] for j in J for t in slots[j])
    subject to
      done [Hadar, eq. (1a)] | a job that finishes with slot t has done all of its work in the slots up to t
        sum(p[j, t, i, l] * runs[j, u, l] for u in slots[j] for l in speeds[j] if u <= t) >= q[j, t, i] *
          sum(ends[j, u] for u in slots[j] if u <= t) for j in J for t in slots[j] for i in limits[j, t]
      pace [Hadar, eq. (1b)] | a gang that runs at a speed has only GPUs of types at least as fast | GPUs
        w[j, h, r, t] <= min(c[h, r], W[j]) * sum(runs[j, t, l] for l in speeds[j] if v[j, l] <= X[j, r])
        for j in J for h, r in cells[j] for t in slots[j]
      last [Hadar, eq. (1c)] | a gang runs at one speed, and not after its last slot
        sum(runs[j, t, l] for l in speeds[j]) <= sum(ends[j, u] for u in slots[j] if u >= t)
        for j in J for t in slots[j]
      room [Hadar, eq. (1d)] | no more GPUs are in use than there are | GPUs
        sum(w[j, h, r, t] for j in J) <= c[h, r] for h, r in C for t in T
      gang [Hadar, eq. (1e)] | a gang has all of its GPUs or none | GPUs
        sum(w[j, h, r, t] for h, r in cells[j]) == W[j] * sum(runs[j, t, l] for l in speeds[j])
        for j in J for t in slots[j]
      admission | a job may be rejected
        sum(ends[j, t] for t in slots[j]) <= 1 for j in J
    with
      w[j, h, r, t] [Hadar, eq. (1e)] | GPUs of type r on server h for job j in slot t | GPUs | w_{#1#2}^{#3}(#4)
        w[j, h, r, t] in {0, 1, ...} for j in J for h, r in cells[j] for t in slots[j], else 0
      runs[j, t, l] | whether the gang of j runs at its speed l in slot t
        runs[j, t, l] in {0, 1} for j in J for t in slots[j] for l in speeds[j]
      ends[j, t] | whether slot t is the last of job j
        ends[j, t] in {0, 1} for j in J for t in slots[j]
    symbols
      J | jobs that arrive before the last slot begins
      slots[j] | slots that begin when job j has arrived or later, t >= a |  | T_{#1}
      cells[j] | cells whose type can run job j |  | C_{#1}
      W[j] | GPUs of the gang of job j | GPUs
      X[j, r] | part of its work that the gang of j does in a slot if its slowest GPU is of type r: L W X / (E N)
        there | 1/slot | X_{#1}^{#2}
      speeds[j] | numbers of the speeds that the gang of j may have, the fastest is 0 |  | V_{#1}
      v[j, l] | speed l of the gang of job j: its different X > 0 in descending order | 1/slot
      limits[j, t] | numbers of the inequalities that say with which numbers of slots at each speed job j is done by
        the end of slot t
      p[j, t, i, l] | coefficients of inequality i of them: with one speed or two an edge of the convex hull of all such
        numbers, with more speeds v
      q[j, t, i] | its right side; with more speeds half-way between the largest sum of speeds below the work of j and
        the smallest sum at or above it, so that rounding does not matter
    """,
    symbols=(SLOTS, CELLS, CAPACITY, UTILITY),
)
P1_AS_PRINTED = replace(
    P1,
    rows=(
        *P1.rows[:-1],
        replace(
            P1.rows[-1],
            formula="sum(ends[j, t] for t in slots[j]) == 1",
            source="Hadar, eq. (1a)",
            meaning="every job finishes",
        ),
    ),
)


def p1(admission: bool = True) -> Mathematics:
    """The best schedules of all jobs, slot by slot; without ``admission``, as printed, every job must finish."""
    return P1 if boolean(admission, "admission") else P1_AS_PRINTED


@dataclass(frozen=True)
class TimeIndexed:
    """P1 as an integer program, [Hadar, eq. 1 to 1e]; ``print(TimeIndexed().mathematics)`` shows it.

    The paper's minimum (1b) and maximum (1c) become binary choices of a speed and of a last slot.

    Parameters
    ----------
    admission:
        Jobs may be rejected. False, as printed: every job must finish, so P1 is infeasible if there are too few slots,
        and not equivalent to P2.
    options:
        Solver options.
    """

    admission: bool = True
    options: Options = field(default_factory=proven)

    def __call__(self, problem: OfflineProblem) -> OfflineSolution:
        """The best schedules.

        Raises
        ------
        NotSolved
            No usable solution; ``"infeasible"`` if all jobs must finish but cannot.
        """
        model = self.build(problem)
        program = from_pyomo(model)
        if not program.col_names:
            return solved(problem, [], None)
        point = run(program, self.options)
        value = dict(zip(program.col_names, point.x.tolist(), strict=True))
        jobs = {job.name: j for j, job in enumerate(problem.instance.jobs)}
        cells = {cell: c for c, cell in enumerate(problem.cells)}
        chosen: dict[int, list[tuple[int, int, int]]] = {}
        for (j, h, r, t), w in model.w.items():
            if gpus := round(value.get(w.name, 0.0)):
                chosen.setdefault(jobs[j], []).append((t, cells[h, r], gpus))
        return claimed(problem, [JobSchedule(j, tuple(sorted(gpus))) for j, gpus in chosen.items()], point)

    @property
    def mathematics(self) -> Mathematics:
        """The program."""
        return p1(self.admission)

    def build(self, problem: OfflineProblem) -> Any:
        """The Pyomo model, with names of jobs, servers and GPU types; slots and speeds count from 0.

        Raises
        ------
        NotSolved
            Every job must finish, and one arrives too late.
        """
        model = pyo.ConcreteModel(name="Hadar P1")
        present = [j for j in range(len(problem.demand)) if problem.first[j] < problem.slots]
        if not self.admission and len(present) < len(problem.demand):
            late = problem.name(int(problem.first.argmax()))
            raise NotSolved(f"job {late!r} must finish, and arrives after the last slot has begun", "infeasible")
        jobs = {problem.name(j): j for j in present}
        cells = dict(zip(problem.cells, problem.capacity.tolist(), strict=True))
        demand = {j: int(problem.demand[i]) for j, i in jobs.items()}
        level = {j: [float(v) for v in problem.levels(i)] for j, i in jobs.items()}
        types = dict(zip((r for _, r in problem.cells), problem.gpu_type.tolist(), strict=True))
        speed = {(j, r): float(problem.speed[i, k]) for j, i in jobs.items() for r, k in types.items()}
        slots = {j: range(int(problem.first[i]), problem.slots) for j, i in jobs.items()}
        here = [(j, t) for j in jobs for t in slots[j]]
        seats = [(j, h, r, t) for j, t in here for h, r in cells if speed[j, r]]
        limits = {(j, t): slot_limits(problem, jobs[j], n) for j in jobs for n, t in enumerate(slots[j], 1)}
        model.w = pyo.Var(seats, domain=pyo.NonNegativeIntegers)
        model.runs = pyo.Var([(j, t, v) for j, t in here for v in range(len(level[j]))], domain=pyo.Binary)
        model.ends = pyo.Var(here, domain=pyo.Binary)

        def runs(j: str, t: int, fastest: int = 0) -> Any:
            return sum(model.runs[j, t, v] for v in range(fastest, len(level[j])))

        def ends(j: str, since: int = 0) -> Any:
            return sum(model.ends[j, t] for t in slots[j] if t >= since)

        def room(_: Any, h: str, r: str, t: int) -> Any:
            there = [model.w[j, h, r, t] for j in jobs if (j, h, r, t) in model.w]
            return sum(there) <= cells[h, r] if there else pyo.Constraint.Skip

        gain = sum(float(problem.value[jobs[j], t]) * model.ends[j, t] for j, t in here)
        model.gain = pyo.Objective(expr=gain, sense=pyo.maximize)
        model.done = pyo.Constraint(
            [(j, t, i) for j, t in here for i in range(len(limits[j, t]))],
            rule=lambda _, j, t, i: (
                sum(p * model.runs[j, u, v] for v, p in enumerate(limits[j, t][i][0]) if p for u in slots[j] if u <= t)
                >= limits[j, t][i][1] * sum(model.ends[j, u] for u in slots[j] if u <= t)
            ),
        )
        model.pace = pyo.Constraint(
            seats,
            rule=lambda _, j, h, r, t: (
                model.w[j, h, r, t] <= min(cells[h, r], demand[j]) * runs(j, t, level[j].index(speed[j, r]))
            ),
        )
        model.last = pyo.Constraint(here, rule=lambda _, j, t: runs(j, t) <= ends(j, t))
        model.room = pyo.Constraint([(h, r, t) for t in range(problem.slots) for h, r in cells], rule=room)
        model.gang = pyo.Constraint(
            here,
            rule=lambda _, j, t: sum(model.w[j, h, r, t] for h, r in cells if speed[j, r]) == demand[j] * runs(j, t),
        )
        least = None if self.admission else 1
        model.admission = pyo.Constraint(list(jobs), rule=lambda _, j: (least, ends(j), 1))
        described(model, self.mathematics)
        return model


Limit = tuple[tuple[float, ...], float]
"""Coefficients p of the numbers n of slots at each speed, fastest first, and q: p.n >= q."""


def slot_limits(problem: OfflineProblem, job: int, slots: int) -> list[Limit]:
    """What the numbers of slots at each speed satisfy with which ``job`` is done within ``slots`` slots.

    With one speed or two these are the edges of the convex hull of these numbers, which are whole. With more speeds it
    is a threshold for the sum of the speeds.
    """
    need, levels = float(problem.least_work[job]), [float(v) for v in problem.levels(job)]
    if len(levels) > 2:
        return [(tuple(levels), _enough(problem, job, slots))]
    corners, slower = list[tuple[int, int]](), levels[1] if len(levels) > 1 else math.inf
    for fast in range(slots + 1):
        rest = need - levels[0] * fast
        slow = max(0, math.ceil(rest / slower)) if len(levels) > 1 else (0 if rest <= 0 else slots + 1)
        if fast + slow > slots:
            continue
        while len(corners) > 1 and _turn(corners[-2], corners[-1], (fast, slow)) <= 0:
            corners.pop()
        corners.append((fast, slow))
        if not slow:
            break
    if not corners:
        return [((0.0,) * len(levels), 1.0)]
    edges = [((b - d, c - a), a * (b - d) + b * (c - a)) for (a, b), (c, d) in pairwise(corners)]
    (least, _), (_, left) = corners[0], corners[-1]
    edges += [((1, 0), least)] * bool(least) + [((0, 1), left)] * bool(left)
    return [(tuple(map(float, p[: len(levels)])), float(q)) for p, q in edges]


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    """Positive if the path from a by b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _enough(problem: OfflineProblem, job: int, slots: int, most: int = 20_000) -> float:
    """A threshold that separates insufficient from sufficient sums of speeds; the work if there are too many sums."""
    need, sums, latest = float(problem.least_work[job]), {0.0}, {0.0}
    for _ in range(slots):
        latest = {done + float(v) for done in latest for v in problem.levels(job) if done < need} - sums
        sums |= latest
        if len(sums) > most:
            return float(problem.work[job])
    below = max(done for done in sums if done < need)
    return (below + min((done for done in sums if done >= need), default=below + 2)) / 2  # no sum suffices
