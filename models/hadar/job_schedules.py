"""Schedules of jobs: the best one of a job at given prices [Hadar, eq. 4], enumeration, and checked solutions.

At fixed prices slots interact only through the work done in them: in each slot and for each speed the cheapest GPUs are
taken, and labels (work done, cost), none of which dominates another, decide which slots run at which speed. All
functions on schedules work on floats and on Fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hetopt.data.array_types import Integers, Numbers
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.programs.linear import Point, Status
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale

CellGPUs = tuple[tuple[int, int], ...]
"""Pairs (cell, GPUs) in the order of cells."""


@dataclass(frozen=True)
class JobSchedule:
    """The slots and GPUs of one job.

    Attributes
    ----------
    job:
        Position of the job.
    gpus:
        Triples (slot, cell, GPUs), sorted.
    """

    job: int
    gpus: tuple[tuple[int, int, int], ...]

    @cached_property
    def last(self) -> int:
        """The slot f_j at whose end the job completes."""
        return self.gpus[-1][0]

    @cached_property
    def by_slot(self) -> dict[int, CellGPUs]:
        """Slot -> (cell, GPUs)."""
        return {t: tuple((c, n) for _, c, n in own) for t, own in groupby(self.gpus, key=lambda entry: entry[0])}

    def value(self, problem: OfflineProblem) -> Any:
        """Utility of the schedule."""
        return problem.value[self.job, self.last]

    def cost(self, prices: Numbers) -> Any:
        """Cost at (T, C) prices."""
        return sum(prices[t, c] * n for t, c, n in self.gpus)

    def work(self, problem: OfflineProblem) -> Any:
        """Work done, as a fraction of ``Job.work``; the slowest GPU of a slot determines the speed (1b)."""
        return sum(min(problem.speed[self.job, problem.gpu_type[c]] for c, _ in own) for own in self.by_slot.values())

    def hosts(self, problem: OfflineProblem) -> dict[int, dict[str, dict[str, int]]]:
        """Slot -> server -> GPU type -> GPUs."""
        result: dict[int, dict[str, dict[str, int]]] = {}
        for t, c, n in self.gpus:
            server, gpu_type = problem.cells[c]
            result.setdefault(t, {}).setdefault(server, {})[gpu_type] = n
        return result


class PricedSchedule(NamedTuple):
    """A schedule and its payoff: utility minus cost."""

    payoff: Any
    schedule: JobSchedule


class TooManySchedules(InvalidOption):
    """A job has more schedules than may be enumerated."""


class _Label(NamedTuple):
    """Work done up to a slot, its cost, and the GPUs."""

    work: Any
    cost: Any
    gpus: tuple[tuple[int, CellGPUs], ...]

    def schedule(self, job: int) -> JobSchedule:
        """The schedule of these GPUs."""
        return JobSchedule(job, tuple((t, c, n) for t, cells in self.gpus for c, n in cells))


def used_by(schedules: Sequence[JobSchedule], problem: OfflineProblem) -> Integers:
    """(T, C) GPUs that the schedules use together."""
    used = problem.none_used()
    for schedule in schedules:
        for t, c, n in schedule.gpus:
            used[t, c] += n
    return used


def cheapest(
    problem: OfflineProblem, job: int, prices: Sequence[Any], room: Sequence[int], level: Any
) -> CellGPUs | None:
    """The job's cheapest GPUs in a slot that allow the speed ``level``; None if there are too few.

    Parameters
    ----------
    prices, room:
        (C,) of the slot: price per GPU, and GPUs that may be taken.
    """
    need, cells = int(problem.demand[job]), []
    able = [c for c, k in enumerate(problem.gpu_type.tolist()) if room[c] > 0 and problem.speed[job, k] >= level]
    for c in sorted(able, key=lambda c: (prices[c], c)):
        taken = min(int(room[c]), need)
        cells.append((c, taken))
        need -= taken
        if not need:
            return tuple(sorted(cells))
    return None


def best_schedule(
    problem: OfflineProblem, job: int, prices: Numbers, room: Integers | None = None
) -> PricedSchedule | None:
    """The schedule with the largest payoff at ``prices``, s* of [Hadar, eq. 4]; None if none completes in time.

    Parameters
    ----------
    prices:
        (T, C) >= 0, utility per GPU and slot.
    room:
        (T, C) GPUs that may be taken; default all.
    """
    room = np.broadcast_to(problem.capacity, prices.shape) if room is None else room
    need, levels, best = problem.least_work[job], problem.levels(job), None
    labels = [_Label(0, 0, ())]
    for t in range(int(problem.first[job]), problem.slots):
        own, free = prices[t].tolist(), room[t].tolist()
        offers = [(v, cells) for v in levels if (cells := cheapest(problem, job, own, free, v)) is not None]
        longer = [
            _Label(label.work + v, label.cost + sum(own[c] * n for c, n in cells), (*label.gpus, (t, cells)))
            for v, cells in offers
            for label in labels
        ]
        for label in longer:
            if label.work >= need:
                payoff = problem.value[job, t] - label.cost
                if best is None or payoff > best.payoff:
                    best = PricedSchedule(payoff, label.schedule(job))
        labels = _undominated([*labels, *(label for label in longer if label.work < need)])
        if best is not None and t + 1 < problem.slots:  # utilities do not rise, and costs do not fall
            labels = [label for label in labels if problem.value[job, t + 1] - label.cost > best.payoff]
    return best


def _undominated(labels: list[_Label]) -> list[_Label]:
    """Labels that no other label dominates in work and cost; of equal labels the first."""
    kept: list[_Label] = []
    for label in sorted(labels, key=lambda label: (label.cost, -label.work)):
        if not kept or label.work > kept[-1].work:
            kept.append(label)
    return kept


def schedules(
    problem: OfflineProblem, job: int, prices: Numbers | None = None, least: Any = None, most: int = 100_000
) -> list[PricedSchedule]:
    """All minimal schedules of the job: without any of its slots the job would not be done.

    A superfluous slot only takes GPUs, and utilities do not rise, so an optimum needs no other schedules.

    Parameters
    ----------
    prices:
        (T, C) >= 0; default none.
    least:
        Only schedules of at least this payoff; default all.
    most:
        Largest number of schedules.

    Raises
    ------
    TooManySchedules
        There are more than ``most``.
    """
    prices = np.zeros(problem.none_used().shape) if prices is None else prices
    found: list[PricedSchedule] = []
    ways = _gangs(problem, job)
    if len(gangs := list(islice(ways, most + 1))) <= most:
        for priced in _enumerated(problem, job, prices, least, gangs):
            found.append(priced)
            if len(found) > most:
                break
    if max(len(gangs), len(found)) > most:
        raise TooManySchedules(
            f"job {problem.name(job)!r} has more than {most} schedules; use fewer slots, or ColumnGeneration(), "
            "which generates only those that it needs"
        )
    return found


def _enumerated(
    problem: OfflineProblem, job: int, prices: Numbers, least: Any, gangs: list[tuple[Any, CellGPUs]]
) -> Iterator[PricedSchedule]:
    need, value = problem.least_work[job], problem.value[job]
    options = [
        [(speed, sum(prices[t, c] * n for c, n in cells), cells) for speed, cells in gangs]
        for t in range(problem.slots)
    ]
    fastest = max(problem.levels(job))

    def extend(t: int, label: _Label, slowest: Any) -> Iterator[PricedSchedule]:
        """All schedules that continue ``label`` from slot t on; ``slowest``: the least speed of its slots."""
        if t == problem.slots or label.work + (problem.slots - t) * fastest < need:
            return
        if least is not None and value[t] - label.cost < least:
            return
        yield from extend(t + 1, label, slowest)
        for speed, cost, cells in options[t]:
            work, paid, slow = label.work + speed, label.cost + cost, min(slowest, speed)
            longer = _Label(work, paid, (*label.gpus, (t, cells)))
            if work < need:
                yield from extend(t + 1, longer, slow)
            elif work - slow < need and (least is None or value[t] - paid >= least):
                yield PricedSchedule(value[t] - paid, longer.schedule(job))

    yield from extend(int(problem.first[job]), _Label(0, 0, ()), fastest)


def _gangs(problem: OfflineProblem, job: int) -> Iterator[tuple[Any, CellGPUs]]:
    """All (speed, GPUs by cell) that the gang may have in a slot."""
    speed = [problem.speed[job, k] for k in problem.gpu_type.tolist()]
    able = [c for c in range(len(problem.cells)) if speed[c] > 0]

    def ways(i: int, left: int) -> Iterator[CellGPUs]:
        """All ways to place ``left`` workers on the cells ``able[i:]``."""
        if not left:
            yield ()
        elif i < len(able):
            for n in range(min(int(problem.capacity[able[i]]), left) + 1):
                for rest in ways(i + 1, left - n):
                    yield ((able[i], n), *rest) if n else rest

    for cells in ways(0, int(problem.demand[job])):
        yield min(speed[c] for c, _ in cells), cells


@dataclass(frozen=True, eq=False)
class OfflineSolution:
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
        Upper bound on the utility of any set of schedules.
    status:
        As in :class:`~hetopt.programs.linear.Point`.
    """

    problem: OfflineProblem
    schedules: tuple[JobSchedule, ...]
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
        """Admitted job -> its completion time in seconds."""
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
        return f"OfflineSolution({done}, utility {self.utility:g}, {self.status})\n{self.table}"


def proven() -> Options:
    """Options for proven optimality: utilities may be a week in seconds, of which the default gap is many seconds."""
    return Options(gap=PROVEN)


def solved(
    problem: OfflineProblem, schedules: Sequence[JobSchedule], bound: float | None, status: Status = "optimal"
) -> OfflineSolution:
    """The solution with these schedules, after a check of feasibility; ``bound`` None: their utility."""
    check_schedules(problem, schedules)
    utility = float(sum(s.value(problem) for s in schedules))
    ordered = tuple(sorted(schedules, key=lambda s: s.job))
    return OfflineSolution(problem, ordered, utility, utility if bound is None else max(bound, utility), status)


def claimed(problem: OfflineProblem, schedules: Sequence[JobSchedule], point: Point) -> OfflineSolution:
    """The solution with these schedules and the status and bound of the solver's ``point``."""
    return solved(problem, schedules, point.bound if point.status != "optimal" else None, point.status)


def check_schedules(problem: OfflineProblem, schedules: Sequence[JobSchedule]) -> None:
    """Raise :class:`InvalidPlan` unless the schedules satisfy (1a) to (1e), checked from the problem alone."""
    if len({s.job for s in schedules}) < len(schedules):
        raise InvalidPlan("a job has two schedules")
    for schedule in schedules:
        name, j = problem.name(schedule.job), schedule.job
        for t, cells in schedule.by_slot.items():
            _check_slot(problem, name, j, t, cells)
        if schedule.work(problem) < problem.least_work[j]:
            raise InvalidPlan(f"job {name!r} is not done at the end of its schedule, {schedule.gpus}")
    over = used_by(schedules, problem) > problem.capacity
    for t, c in zip(*(axis.tolist() for axis in over.nonzero()), strict=True):
        raise InvalidPlan(
            f"in slot {t} the schedules use more than the {problem.capacity[c]} GPUs of {problem.cells[c]}"
        )


def _check_slot(problem: OfflineProblem, name: str, job: int, slot: int, cells: Any) -> None:
    if not problem.first[job] <= slot < problem.slots:
        raise InvalidPlan(f"job {name!r} runs in slot {slot}; it may from {problem.first[job]} to {problem.slots - 1}")
    gpus = sum(n for _, n in cells)
    if gpus != problem.demand[job] or min(n for _, n in cells) < 1:
        raise InvalidPlan(f"job {name!r} has {gpus} GPUs in slot {slot}; its gang has {problem.demand[job]}")
    for c, _ in cells:
        if not problem.speed[job, problem.gpu_type[c]] > 0:
            raise InvalidPlan(f"job {name!r} is on {problem.cells[c]} in slot {slot}, where it cannot run")
