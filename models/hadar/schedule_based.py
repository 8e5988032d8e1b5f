"""P2, the choice of schedules, and its dual P3: models, arrays, full enumeration and column generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyomo.environ as pyo
from scipy import sparse

from hetopt.checks import boolean
from hetopt.data.array_types import Floats, Numbers
from hetopt.errors import InvalidOption
from hetopt.models.hadar.job_schedules import (
    JobSchedule,
    OfflineSolution,
    TooManySchedules,
    best_schedule,
    claimed,
    proven,
    schedules,
    solved,
)
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.models.hadar.time_indexed import CAPACITY, CELLS, SLOTS, UTILITY
from hetopt.programs.linear import LinearProgram
from hetopt.programs.mathematics import Mathematics, described
from hetopt.solving.optimising import run
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale

_SYMBOLS = (
    *Mathematics.read(
        r"""
        symbols
          J | jobs of which there is a schedule
          S[j] | schedules of job j |  | \mathbb{S}_{#1}
          f[j, s] | last slot of schedule s of job j
          w[j, h, r, t, s]
            | GPUs of type r on server h that schedule s of job j has in slot t | GPUs | w_{#1#2}^{#3#5}(#4)
          used | triples (h, r, t): cells and slots that a schedule uses
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
        | payoffs of the jobs plus the cost of all GPUs, an upper bound on the utility of any choice in P2 | utility
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


def schedule_model(problem: OfflineProblem, schedules: Sequence[JobSchedule], *, whole: bool = True) -> Any:
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


def dual_model(problem: OfflineProblem, schedules: Sequence[JobSchedule]) -> Any:
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


def schedule_program(problem: OfflineProblem, schedules: Sequence[JobSchedule], *, whole: bool = True) -> LinearProgram:
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


def duals(
    problem: OfflineProblem, schedules: Sequence[JobSchedule], row_dual: Floats
) -> tuple[Floats, dict[int, float]]:
    """(T, C) prices, and job -> payoff for jobs with a schedule, from the duals of :func:`schedule_program`."""
    prices, used, owners = np.zeros(problem.none_used().shape), _uses(problem, schedules), _owners(problem, schedules)
    cells = {cell: c for c, cell in enumerate(problem.cells)}
    for (h, r, t), dual in zip(used, row_dual.tolist(), strict=False):
        prices[t, cells[h, r]] = max(0.0, dual)
    payoffs = row_dual[len(used) :].tolist()
    return prices, {schedules[own[0]].job: dual for own, dual in zip(owners.values(), payoffs, strict=True)}


def _uses(
    problem: OfflineProblem, schedules: Sequence[JobSchedule]
) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    """(server, GPU type, slot) -> (position of the schedule, GPUs), slot by slot."""
    used: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, schedule in enumerate(schedules):
        for t, c, n in schedule.gpus:
            used.setdefault((t, c), []).append((i, n))
    return {(*problem.cells[c], t): uses for (t, c), uses in sorted(used.items())}


def _owners(problem: OfflineProblem, schedules: Sequence[JobSchedule]) -> dict[str, list[int]]:
    """Job -> positions of its schedules, in the order of jobs."""
    owners: dict[int, list[int]] = {}
    for i, schedule in enumerate(schedules):
        owners.setdefault(schedule.job, []).append(i)
    return {problem.name(j): own for j, own in sorted(owners.items())}


@dataclass(frozen=True)
class Enumerated:
    """P2 over all schedules, [Hadar, eq. 2]: for small cases, as a reference.

    Parameters
    ----------
    most:
        Largest number of schedules per job.
    options:
        Solver options.
    """

    most: int = 20_000
    options: Options = field(default_factory=proven)

    def __call__(self, problem: OfflineProblem) -> OfflineSolution:
        """The best schedules.

        Raises
        ------
        TooManySchedules
            A job has more than ``most`` schedules.
        NotSolved
            No usable solution.
        """
        every = [p.schedule for j in range(len(problem.demand)) for p in schedules(problem, j, most=self.most)]
        return _chosen(problem, every, self.options, None)


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The optimum of P2's relaxation, which equals that of P3.

    Attributes
    ----------
    utility:
        Sum of the utilities of fractional schedules.
    schedules:
        The generated schedules.
    prices:
        (T, C) optimal prices k, utility per GPU and slot.
    payoffs:
        (n,) mu: the largest payoff of any schedule of the job at these prices, at least 0.
    bound:
        The dual objective at these prices, a bound proven by weak duality.
    rounds:
        Number of programs solved.
    """

    utility: float
    schedules: tuple[JobSchedule, ...]
    prices: Floats
    payoffs: Floats
    bound: float
    rounds: int


@dataclass(frozen=True)
class ColumnGeneration:
    """P2 by column generation over schedules.

    The relaxation is solved over a subset of the schedules. Pricing finds for every job the schedule with the largest
    payoff (:func:`~hetopt.models.hadar.job_schedules.best_schedule`), which enters if its payoff exceeds mu, until none
    does. An integer program then chooses among the generated schedules. If its value is below the bound, all schedules
    with a payoff within the gap of mu are generated as well: a better choice contains no others, so the result is
    optimal.

    Parameters
    ----------
    most:
        Largest number of schedules per job in the last step; beyond it the gap remains.
    options:
        Solver options; ``time_limit`` applies to the whole search.
    """

    most: int = 20_000
    options: Options = field(default_factory=proven)

    def __call__(self, problem: OfflineProblem) -> OfflineSolution:
        """The best schedules.

        Raises
        ------
        NotSolved
            No usable solution.
        """
        options = self.options.started()
        relaxed = self.relaxation(problem)
        found = _chosen(problem, relaxed.schedules, options, relaxed.bound)
        if found.status == "optimal":
            return found
        near = _within_gap(problem, relaxed, found.bound - found.utility, self.most)
        return found if near is None else _chosen(problem, near, options, None)

    def relaxation(self, problem: OfflineProblem) -> Relaxed:
        """The relaxation's optimum, with prices.

        Raises
        ------
        NotSolved
            No usable solution.
        """
        options = self.options.started()
        jobs, prices = range(len(problem.demand)), np.zeros(problem.none_used().shape)
        made: dict[JobSchedule, None] = {p.schedule: None for j in jobs if (p := best_schedule(problem, j, prices))}
        rounds, utility = 0, 0.0
        while made:
            options.check_time()
            program = schedule_program(problem, list(made), whole=False)
            point, rounds = run(program, options), rounds + 1
            assert point.row_dual is not None
            utility, (prices, paid) = point.objective, duals(problem, list(made), point.row_dual)
            best = [best_schedule(problem, j, prices) for j in jobs]
            new = [p.schedule for p in best if p and p.payoff > paid.get(p.schedule.job, 0.0) + _noise(problem)]
            if not (new := [s for s in new if s not in made]):
                break
            made.update(dict.fromkeys(new))
        bound, payoffs = dual_bound(problem, prices)
        return Relaxed(utility, tuple(made), prices, np.array(payoffs, dtype=float), float(bound), rounds)


def dual_bound(problem: OfflineProblem, prices: Numbers) -> tuple[Any, list[Any]]:
    """P3's objective at (T, C) ``prices`` >= 0 with the least feasible mu, and these mu, [Hadar, eq. 3 and 4].

    It bounds the utility of all schedules (weak duality); exactly, with ``problem.exact`` and prices in Fractions.

    Raises
    ------
    InvalidOption
        Prices have a wrong shape, are negative or NaN.
    """
    prices = np.asarray(prices)
    if prices.shape != problem.none_used().shape or not (prices >= 0).all():
        raise InvalidOption(
            f"has shape {prices.shape} or an entry below 0; it must be >= 0, of shape (slots, cells) = "
            f"{problem.none_used().shape}",
            "prices",
        )
    found = [best_schedule(problem, j, prices) for j in range(len(problem.demand))]
    payoffs = [max(0, best.payoff) if best else 0 for best in found]
    return sum(payoffs) + (prices * problem.capacity).sum(), payoffs


def _noise(problem: OfflineProblem) -> float:
    return PROVEN * scale(problem.value.astype(float))


def _within_gap(problem: OfflineProblem, relaxed: Relaxed, gap: float, most: int) -> list[JobSchedule] | None:
    """All schedules that a choice better by up to ``gap`` may contain; None if there are too many."""
    least = relaxed.payoffs - gap - _noise(problem)
    try:
        every = [schedules(problem, j, relaxed.prices, pays, most) for j, pays in enumerate(least.tolist())]
    except TooManySchedules:
        return None
    return [priced.schedule for own in every for priced in own]


def _chosen(
    problem: OfflineProblem, columns: Sequence[JobSchedule], options: Options, bound: float | None
) -> OfflineSolution:
    """The best integral choice among ``columns``; ``bound`` over all schedules if these are only some."""
    if not columns:
        return solved(problem, [], None)
    point = run(schedule_program(problem, columns), options)
    taken = [columns[i] for i in np.flatnonzero(point.x > 0.5).tolist()]
    if bound is None:
        return claimed(problem, taken, point)
    found = solved(problem, taken, bound, "gap")
    return replace(found, status="optimal") if found.gap <= PROVEN else found
