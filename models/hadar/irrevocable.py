"""Hadar as its theorem means it: each job is committed to its best schedule at its arrival, or refused for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hetopt.checks import choices
from hetopt.errors import InvalidOption
from hetopt.models.hadar.prices import Prices, largest_part, limits, printed_prices, proven_prices
from hetopt.models.hadar.problem import Integers, Problem
from hetopt.models.hadar.schedules import Schedule, best_schedule
from hetopt.models.hadar.solved import Solved, solved


@dataclass(frozen=True, eq=False)
class Committed:
    """What the jobs were committed to, one after another.

    Attributes
    ----------
    solved:
        The schedules; their bound is the final dual objective D where that proves it, else infinite.
    prices:
        The price function.
    steps:
        One row per job in the order of their arrival: ``payoff`` (of its best schedule at the prices then; NaN where it
        had none), ``committed``, and the growth of the two objectives, ``primal`` (P_j - P_{j-1}) and ``dual``
        (D_j - D_{j-1}).
    initial:
        D_0, the worth of all GPUs at their lowest price.
    """

    solved: Solved
    prices: Prices
    steps: pd.DataFrame
    initial: float

    @property
    def utility(self) -> float:
        """Sum of the utilities, ALG."""
        return self.solved.utility

    @property
    def dual(self) -> float:
        """The final dual objective D.

        No schedules that take at most ``delta`` of a cell are worth more, at proven prices: no price ever falls. At
        printed ones a job may be refused for want of GPUs though it would pay, and then D bounds nothing.
        """
        return self.initial + float(self.steps["dual"].sum())


@dataclass(frozen=True)
class Irrevocable:
    """Commits each job at its arrival to the schedule with the largest payoff > 0, s* of [Hadar, eq. 4], or refuses it.

    Parameters
    ----------
    prices:
        ``"proven"``: no schedules that take at most ``delta`` of a cell in a slot are worth more than ``prices.factor``
        times the result, and GPUs suffice by price alone. ``"printed"``: [Hadar, eq. 5 to 7], whose factor 2 alpha does
        not hold; that no server is overfull rests on the check in [Hadar, eq. 8].
    delta:
        With proven prices: the largest part of a server's GPUs of a type that a job may take. By default what gangs may
        take of any, so that the guarantee covers all schedules; a smaller one keeps jobs from others.
    eta:
        Of printed prices, see :func:`~hetopt.models.hadar.prices.printed_prices`.

    Raises
    ------
    InvalidOption
        ``prices`` is neither.
    """

    prices: str = "proven"
    delta: float | None = None
    eta: float | None = None

    def __post_init__(self) -> None:
        if self.prices not in PRICES:
            raise InvalidOption(f"Irrevocable.prices is {self.prices!r}; {choices(str(self.prices), PRICES)}")

    @property
    def is_proven(self) -> bool:
        """Whether capacity holds by price alone."""
        return self.prices == "proven"

    def price_function(self, problem: Problem) -> Prices:
        """The prices.

        Raises
        ------
        InvalidInstance, InvalidOption
            They are not defined; see :mod:`hetopt.models.hadar.prices`.
        """
        return proven_prices(problem, self.delta) if self.is_proven else printed_prices(problem, self.eta)

    def __call__(self, problem: Problem) -> Committed:
        """The schedules of the jobs, which come in the order of their arrival, then of the instance.

        Raises
        ------
        InvalidInstance, InvalidOption
            The prices are not defined; see :mod:`hetopt.models.hadar.prices`.
        """
        prices = self.price_function(problem)
        order = sorted(range(len(problem.demand)), key=lambda j: problem.instance.jobs[j].arrival)
        used, taken, rows = problem.none_used(), [], []
        initial = float((prices(used) * problem.capacity).sum())
        for job, payoff, schedule in commit(
            problem, prices, order, used, proven=self.is_proven, guarded=not self.is_proven
        ):
            rows.append(
                (problem.name(job), payoff, schedule is not None, *_growth(problem, prices, used, schedule, payoff))
            )
            if schedule is not None:
                taken.append(schedule)
        steps = pd.DataFrame(rows, columns=["job", "payoff", "committed", "primal", "dual"]).set_index("job")
        covered = self.is_proven and prices.delta >= largest_part(problem)
        bound = initial + float(steps["dual"].sum()) if covered else np.inf
        return Committed(solved(problem, taken, bound, "gap"), prices, steps, initial)


PRICES = ("proven", "printed")


def commit(
    problem: Problem, prices: Prices, order: Iterable[int], used: Integers, *, proven: bool, guarded: bool = True
) -> Iterable[tuple[int, float, Schedule | None]]:
    """(job, payoff, schedule or None) of the jobs in ``order``; ``used`` (T, C) grows with what is committed.

    Parameters
    ----------
    proven:
        A job takes at most ``delta`` of a cell.
    guarded:
        Look at the GPUs left, [Hadar, eq. 8]. Proven prices do without, if their bounds hold for all jobs.
    """
    most = np.broadcast_to(limits(problem, prices.delta) if proven else problem.capacity, used.shape)
    for job in order:
        best = best_schedule(problem, job, prices(used), np.minimum(most, problem.capacity - used) if guarded else most)
        payoff = np.nan if best is None else float(best.payoff)
        schedule = best.schedule if best is not None and payoff > 0 else None
        for t, c, n in schedule.gpus if schedule else ():
            used[t, c] += n
        yield job, payoff, schedule


def _growth(
    problem: Problem, prices: Prices, used: Integers, schedule: Schedule | None, payoff: float
) -> tuple[float, float]:
    """P_j - P_{j-1} and D_j - D_{j-1}, where ``used`` already holds the schedule."""
    if schedule is None:
        return 0.0, 0.0
    before = used.copy()
    for t, c, n in schedule.gpus:
        before[t, c] -= n
    with np.errstate(invalid="ignore"):  # prices beyond the largest float
        risen = np.where(used > before, (prices(used) - prices(before)) * problem.capacity, 0.0).sum()
    return float(schedule.value(problem)), payoff + float(risen)
