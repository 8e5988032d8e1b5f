"""Solution of an offline problem: schedules, their utility, and the proven bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hetopt.errors import InvalidPlan
from hetopt.models.hadar.problem import Problem
from hetopt.models.hadar.schedules import Schedule, used_by
from hetopt.programs.point import Point, Status
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale


@dataclass(frozen=True, eq=False)
class Solved:
    """Schedules of the admitted jobs, checked against the problem.

    Attributes
    ----------
    problem:
        The problem.
    schedules:
        One for each admitted job, in the order of jobs.
    utility:
        Sum of their utilities.
    bound:
        Upper bound on the utility of any schedules.
    status:
        As in :class:`~hetopt.programs.point.Point`.
    """

    problem: Problem
    schedules: tuple[Schedule, ...]
    utility: float
    bound: float
    status: Status

    @property
    def gap(self) -> float:
        """Gap between bound and utility, relative to the bound."""
        return (self.bound - self.utility) / scale(self.bound)

    @property
    def table(self) -> pd.DataFrame:
        """One row per job, slot, server and GPU type: ``gpus``."""
        rows = [(self.problem.name(s.job), t, *self.problem.cells[c], n) for s in self.schedules for t, c, n in s.gpus]
        return pd.DataFrame(rows, columns=["job", "slot", "server", "gpu_type", "gpus"])

    @property
    def finish(self) -> dict[str, float]:
        """Job -> second at which it is done, without the jobs left out."""
        start, length = self.problem.instance.time, self.problem.seconds
        return {self.problem.name(s.job): start + (s.last + 1) * length for s in self.schedules}

    @property
    def utilisation(self) -> list[float]:
        """Fraction of all GPUs in use, slot by slot up to the last used one."""
        used = used_by(self.schedules, self.problem).sum(axis=1)
        last = max((s.last for s in self.schedules), default=-1)
        return [float(n) / float(self.problem.capacity.sum()) for n in used[: last + 1]]

    def __repr__(self) -> str:
        done = f"{len(self.schedules)} of {len(self.problem.demand)} jobs"
        return f"Solved({done}, utility {self.utility:g}, {self.status})\n{self.table}"


def proven() -> Options:
    """Options for a search to a proof: utilities may be seconds minus a week, of which a usual gap is many seconds."""
    return Options(gap=PROVEN)


def solved(problem: Problem, schedules: Sequence[Schedule], bound: float | None, status: Status = "optimal") -> Solved:
    """The solution with these schedules, after a check of feasibility; ``bound`` None: their own utility."""
    check_schedules(problem, schedules)
    utility = float(sum(s.value(problem) for s in schedules))
    ordered = tuple(sorted(schedules, key=lambda s: s.job))
    return Solved(problem, ordered, utility, utility if bound is None else max(bound, utility), status)


def claimed(problem: Problem, schedules: Sequence[Schedule], point: Point) -> Solved:
    """The solution that a solver claims by ``point``."""
    return solved(problem, schedules, point.bound if point.status != "optimal" else None, point.status)


def check_schedules(problem: Problem, schedules: Sequence[Schedule]) -> None:
    """Raise :class:`InvalidPlan` unless the schedules satisfy (1a) to (1e), checked from the problem alone."""
    if len({s.job for s in schedules}) < len(schedules):
        raise InvalidPlan("a job has two schedules")
    for schedule in schedules:
        name, j = problem.name(schedule.job), schedule.job
        for t, seats in schedule.by_slot.items():
            _check_slot(problem, name, j, t, seats)
        if schedule.work(problem) < problem.least_work[j]:
            raise InvalidPlan(f"job {name!r} is not done at the end of its schedule, {schedule.gpus}")
    over = used_by(schedules, problem) > problem.capacity
    for t, c in zip(*(axis.tolist() for axis in over.nonzero()), strict=True):
        raise InvalidPlan(
            f"in slot {t} the schedules use more than the {problem.capacity[c]} GPUs of {problem.cells[c]}"
        )


def _check_slot(problem: Problem, name: str, job: int, slot: int, seats: Any) -> None:
    if not problem.first[job] <= slot < problem.slots:
        raise InvalidPlan(f"job {name!r} runs in slot {slot}; it may from {problem.first[job]} to {problem.slots - 1}")
    gpus = sum(n for _, n in seats)
    if gpus != problem.demand[job] or min(n for _, n in seats) < 1:
        raise InvalidPlan(f"job {name!r} has {gpus} GPUs in slot {slot}; its gang has {problem.demand[job]}")
    for c, _ in seats:
        if not problem.speed[job, problem.kind[c]] > 0:
            raise InvalidPlan(f"job {name!r} is on {problem.cells[c]} in slot {slot}, where it cannot run")
