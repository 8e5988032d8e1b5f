"""The fewest rounds for all jobs with gangs over mixed GPU types, by exhaustive search in fractions.

In a round every job has a whole gang, of any types and servers, or nothing, and runs at the speed of its slowest GPU
[Hadar, eq. 1a to 1e]. So only GPUs per type matter, and a choice for a round that does at least as much for every job
dominates another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from hetopt.checks import at_least
from hetopt.data.instance import Instance, check_mixed_gangs
from hetopt.data.rationals import simple_fractions
from hetopt.errors import InvalidInstance, InvalidOption

Left: TypeAlias = tuple[Fraction, ...]
"""Work left of each job."""

GPUsByType: TypeAlias = tuple[int, ...]
"""GPUs of each type; all 0 for a waiting job."""


@dataclass(frozen=True)
class ShortestSchedule:
    """A shortest schedule.

    Attributes
    ----------
    gangs:
        For each round: job -> GPU type -> GPUs; waiting jobs are absent.
    capacity:
        GPUs in the cluster.
    """

    gangs: tuple[dict[str, dict[str, int]], ...]
    capacity: int

    def __len__(self) -> int:
        return len(self.gangs)

    @property
    def utilisation(self) -> list[Fraction]:
        """Fraction of all GPUs in use, round by round."""
        return [Fraction(sum(n for own in jobs.values() for n in own.values()), self.capacity) for jobs in self.gangs]


def gang_totals(instance: Instance) -> set[int]:
    """Possible numbers of GPUs in use: sums of demands of some jobs, up to all GPUs."""
    totals = {0}
    for job in instance.jobs:
        totals |= {total + job.demand for total in totals}
    return {total for total in totals if total <= sum(instance.cluster.capacity.values())}


def least_rounds(instance: Instance, round_seconds: float, most: int = 20) -> ShortestSchedule:
    """A schedule with the fewest rounds; all jobs must be present from the start.

    Parameters
    ----------
    round_seconds:
        Length of a round.
    most:
        Largest number of rounds to try.

    Raises
    ------
    InvalidInstance
        A gang is too large, a job cannot run or arrives later, or the work takes more than ``most`` rounds.
    InvalidOption
        The length of a round is not positive.
    """
    at_least(round_seconds, "round_seconds", 0.0, InvalidOption, strict=True)
    jobs = instance.entities("jobs")
    check_mixed_gangs(jobs)
    for job in instance.jobs:
        if job.arrival > instance.time:
            raise InvalidInstance(f"job {job.name!r} arrives at {job.arrival:g} s; all must be present from the start")
    speed = simple_fractions(jobs.task_speed * round_seconds)
    gangs = [list(_gangs(instance, j, speed[j].tolist())) for j in range(len(jobs.names))]
    moves = _best_moves(gangs, [int(c) for c in jobs.capacity])
    start: Left = tuple(simple_fractions(instance.job_array("work_left")).tolist())
    previous: dict[Left, tuple[Left, tuple[GPUsByType, ...]]] = {}
    states = [start]
    for _ in range(most + 1):
        if (done := next((state for state in states if not any(state)), None)) is not None:
            return ShortestSchedule(
                tuple(_named_gangs(instance, _path(previous, start, done))), int(jobs.capacity.sum())
            )
        after: dict[Left, None] = {}
        for state in states:
            for work, choice in moves:
                left = tuple(max(Fraction(0), w - v) for w, v in zip(state, work, strict=True))
                if left not in after and left != state:
                    after[left] = None
                    previous.setdefault(left, (state, choice))
        states = _undominated(list(after))
    raise InvalidInstance(f"the jobs take more than most = {most} rounds")


def _gangs(instance: Instance, j: int, speed: list[Fraction]) -> Iterator[tuple[Fraction, GPUsByType]]:
    """(work per round, GPUs per type) of every possible gang of the job, and of no gang."""
    capacity, demand = instance.cluster.capacity.values(), instance.jobs[j].demand
    yield Fraction(0), (0,) * len(speed)
    for gang in product(*(range(min(c, demand) + 1 if v else 1) for c, v in zip(capacity, speed, strict=True))):
        if sum(gang) == demand:
            yield min(v for v, n in zip(speed, gang, strict=True) if n), gang


def _best_moves(
    gangs: list[list[tuple[Fraction, GPUsByType]]], capacity: list[int]
) -> list[tuple[Left, tuple[GPUsByType, ...]]]:
    """(work of each job, its gang) of the choices for a round that no other choice dominates."""
    every: dict[Left, tuple[GPUsByType, ...]] = {}
    for choice in product(*gangs):
        if all(sum(g[k] for _, g in choice) <= c for k, c in enumerate(capacity)):
            every.setdefault(tuple(v for v, _ in choice), tuple(g for _, g in choice))
    best = _undominated([tuple(-v for v in work) for work in every])  # dominance is by less work left
    return [(work, every[work]) for work in (tuple(-v for v in negated) for negated in best)]


def _undominated(states: list[Left]) -> list[Left]:
    """The states that no other state dominates."""
    found: list[Left] = []
    for state in sorted(set(states), key=lambda s: (sum(s), s)):
        if not any(all(a <= b for a, b in zip(other, state, strict=True)) for other in found):
            found.append(state)
    return found


def _path(
    previous: dict[Left, tuple[Left, tuple[GPUsByType, ...]]], start: Left, end: Left
) -> list[tuple[GPUsByType, ...]]:
    """The choices that lead from ``start`` to ``end``."""
    path = []
    while end != start:
        end, choice = previous[end]
        path.append(choice)
    return path[::-1]


def _named_gangs(instance: Instance, path: list[tuple[GPUsByType, ...]]) -> Iterator[dict[str, dict[str, int]]]:
    types = instance.cluster.type_names
    for gangs in path:
        named = zip(instance.jobs, gangs, strict=True)
        yield {job.name: {t: n for t, n in zip(types, gang, strict=True) if n} for job, gang in named if any(gang)}
