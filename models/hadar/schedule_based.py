"""P2: choice of schedules, among all of them or by column generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hetopt.data.entities import Floats
from hetopt.errors import InvalidOption
from hetopt.models.hadar.problem import Numbers, Problem
from hetopt.models.hadar.schedule_programs import duals, schedule_program
from hetopt.models.hadar.schedules import Schedule, best_schedule, schedules
from hetopt.models.hadar.solved import Solved, claimed, proven, solved
from hetopt.solving.backends import run
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale


@dataclass(frozen=True)
class Enumerated:
    """P2 over all schedules, [Hadar, eq. 2]: for small cases, and as a reference.

    Parameters
    ----------
    most:
        Limit of schedules per job.
    options:
        Solver options.
    """

    most: int = 20_000
    options: Options = field(default_factory=proven)

    def __call__(self, problem: Problem) -> Solved:
        """The best schedules.

        Raises
        ------
        InvalidOption
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
    schedules: tuple[Schedule, ...]
    prices: Floats
    payoffs: Floats
    bound: float
    rounds: int


@dataclass(frozen=True)
class ColumnGeneration:
    """P2 by column generation over schedules.

    The relaxation is solved over some schedules. Pricing finds for every job the schedule with the largest payoff
    (:func:`~hetopt.models.hadar.schedules.best_schedule`), which enters if it pays more than mu, until none does. An
    integer program then chooses among the generated schedules. If its value is below the bound, every schedule with a
    payoff within the gap of mu is generated, too: no better choice contains any other, so the result is optimal.

    Parameters
    ----------
    most:
        Limit of schedules per job in the last step; beyond it, the gap stays open.
    options:
        Solver options; ``time_limit`` applies to the whole search.
    """

    most: int = 20_000
    options: Options = field(default_factory=proven)

    def __call__(self, problem: Problem) -> Solved:
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

    def relaxation(self, problem: Problem) -> Relaxed:
        """The relaxation's optimum, with prices.

        Raises
        ------
        NotSolved
            No usable solution.
        """
        options = self.options.started()
        jobs, prices = range(len(problem.demand)), np.zeros(problem.none_used().shape)
        made: dict[Schedule, None] = {p.schedule: None for j in jobs if (p := best_schedule(problem, j, prices))}
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


def dual_bound(problem: Problem, prices: Numbers) -> tuple[Any, list[Any]]:
    """P3's objective at (T, C) ``prices`` >= 0 with the least feasible mu, and these mu, [Hadar, eq. 3 and 4].

    It bounds the utility of all schedules (weak duality); without rounding, with ``problem.exact`` and prices in
    Fractions.

    Raises
    ------
    InvalidOption
        Prices have a wrong shape, are negative or NaN.
    """
    prices = np.asarray(prices)
    if prices.shape != problem.none_used().shape or not (prices >= 0).all():
        raise InvalidOption(
            f"prices has shape {prices.shape} or an entry below 0; it must be >= 0, of shape (slots, cells) = "
            f"{problem.none_used().shape}"
        )
    found = [best_schedule(problem, j, prices) for j in range(len(problem.demand))]
    payoffs = [max(0, best.payoff) if best else 0 for best in found]
    return sum(payoffs) + (prices * problem.capacity).sum(), payoffs


def _noise(problem: Problem) -> float:
    return PROVEN * scale(problem.value.astype(float))


def _within_gap(problem: Problem, relaxed: Relaxed, gap: float, most: int) -> list[Schedule] | None:
    """All schedules that a choice better by up to ``gap`` may contain; None if they are too many."""
    least = relaxed.payoffs - gap - _noise(problem)
    try:
        every = [schedules(problem, j, relaxed.prices, pays, most) for j, pays in enumerate(least.tolist())]
    except InvalidOption:
        return None
    return [priced.schedule for own in every for priced in own]


def _chosen(problem: Problem, columns: Sequence[Schedule], options: Options, bound: float | None) -> Solved:
    """The best integral choice among ``columns``; ``bound`` over all schedules if these are only some."""
    if not columns:
        return solved(problem, [], None)
    point = run(schedule_program(problem, columns), options)
    taken = [columns[i] for i in np.flatnonzero(point.x > 0.5).tolist()]
    if bound is None:
        return claimed(problem, taken, point)
    found = solved(problem, taken, bound, "gap")
    return replace(found, status="optimal") if found.gap <= PROVEN else found
