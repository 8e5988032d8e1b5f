"""Prices of GPUs that grow exponentially with the GPUs in use [Hadar, eq. 5 to 7].

The policy prices each server and GPU type in a round by :class:`ServerPrices`, with U_min and U_max of
:func:`hetopt.models.hadar.appraisal.price_bounds`, and ``Irrevocable`` prices each slot
by :class:`Prices`, with those of :func:`printed_prices` or :func:`proven_prices`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetopt.checks import at_least
from hetopt.data.array_types import Floats, Integers
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.hadar.job_schedules import best_schedule
from hetopt.models.hadar.offline_problem import OfflineProblem
from hetopt.models.hadar.utilities import utility_of
from hetopt.tolerances import WORK


@dataclass(frozen=True, eq=False)
class Prices:
    """``k(g) = low (high / low) ** (g / ((1 - delta) c))`` per GPU and slot for a cell of c GPUs of which g are in use.

    Attributes
    ----------
    low, high:
        (C,) U_min and U_max, utility per GPU and slot, 0 < low <= high.
    capacity:
        (C,) c.
    delta:
        Largest fraction of a cell that a job may take at once; 0 gives [Hadar, eq. 5]. With a larger value the price
        reaches ``high`` while every job still fits.
    """

    low: Floats
    high: Floats
    capacity: Integers
    delta: float = 0.0

    def __call__(self, used: Integers) -> Floats:
        """Prices of cells with ``used`` (…, C) GPUs in use, same shape."""
        full = np.asarray(used) / ((1 - self.delta) * self.capacity)
        with np.errstate(over="ignore"):  # a price beyond the largest float is infinite
            return np.asarray(self.low * (self.high / self.low) ** full)

    @cached_property
    def steepness(self) -> float:
        """A = max ln(high / low)."""
        return float(np.log(self.high / self.low).max())

    @property
    def printed_factor(self) -> float:
        """2 alpha with alpha = max(1, A), as [Hadar, Theorem 2] claims; it does not hold."""
        return 2 * max(1.0, self.steepness)

    @property
    def factor(self) -> float:
        """2 alpha' with alpha' = max(1, (exp(A delta / (1 - delta)) - 1) / delta), which is proven.

        Schedules that take at most ``delta`` of a cell in a slot have at most this multiple of the utility of the
        schedules that :class:`~hetopt.models.hadar.irrevocable.Irrevocable` commits to at these prices. Infinite if it
        exceeds the largest float, e.g. for gangs that may take nearly all of a cell.
        """
        return 2 * max(1.0, step_factor(self.steepness / (1 - self.delta), self.delta))


@dataclass(frozen=True, eq=False)
class ServerPrices:
    """``k(g) = low (high / low) ** (g / c)`` for each server and GPU type, [Hadar, eq. 5].

    Attributes
    ----------
    capacity:
        (H, k) GPUs c.
    low, high:
        (k,) utility per GPU and slot, 0 < low <= high.
    """

    capacity: Integers
    low: Floats
    high: Floats

    def __call__(self, used: Integers, server: int) -> list[float]:
        """(k,) prices of a server of which ``used`` (H, k) GPUs are in use; infinite where it has none."""
        row = []
        for k, (g, c) in enumerate(zip(used[server].tolist(), self.capacity[server].tolist(), strict=True)):
            low = float(self.low[k])
            row.append(low * (float(self.high[k]) / low) ** (g / c) if c else np.inf)
        return row


def step_factor(steepness: float, step: float) -> float:
    """The least alpha of the allocation-cost relation for steps s, fractions of a cell: (exp(a s) - 1) / s.

    From this alpha on, paying k(g) for s c GPUs covers 1/alpha of c (k(g + s c) - k(g)) [Hadar, Definition 1]. It
    exceeds a for every s > 0, so [Hadar, Lemma 3], which holds for infinitesimal steps, does not imply Definition 1.
    """
    try:
        return math.expm1(steepness * step) / step if step else steepness
    except OverflowError:
        return math.inf


def printed_prices(problem: OfflineProblem, eta: float | None = None) -> Prices:
    """U_max and U_min per GPU type as printed, [Hadar, eq. 6 and 7], with interpretations where the paper is open.

    Interpretation: M_j = W_j; w_j^r = W_j for the types that can run the job; t_j^min and t_j^max as completion times
    of a gang that runs alone on its fastest or slowest type, in slots; U_j(T - a_j) as the least utility > 0 that the
    job can reach within the slots (a deadline gives 0, from which no price grows).

    Parameters
    ----------
    eta:
        Scaling factor; by default the least that the text of the proof of [Hadar, Theorem 2] requires, ``sum c /
        min_j(t_j^max W_j)``. That proof omits the sum over slots: with more than two slots D_0 may still exceed OPT /
        2.

    Raises
    ------
    InvalidInstance
        No job can complete in time.
    InvalidOption
        ``eta`` is not positive.
    """
    worth = {j: problem.value[j][problem.value[j] > 0].min() for j in _in_time(problem)}
    slowest = {j: whole_slots(problem.work[j] / min(problem.levels(j))) for j in worth}
    if eta is None:
        eta = float(problem.capacity.sum()) / min(slowest[j] * int(problem.demand[j]) for j in worth)
    at_least(eta, "eta", 0.0, InvalidOption, strict=True)
    low = min(worth[j] / (slowest[j] * int(problem.demand[j])) for j in worth) / (4 * eta)
    best = {j: _alone(problem, j) / int(problem.demand[j]) for j in worth}
    high = [
        max((best[j] for j in worth if problem.speed[j, k] > 0), default=max(best.values()))
        for k in problem.gpu_type.tolist()
    ]
    return Prices(np.full(len(high), low), np.maximum(high, low), problem.capacity)


def proven_prices(problem: OfflineProblem, delta: float | None = None) -> Prices:
    """U_max = max_j U_j* and U_min = min_j U_j* / (2 T sum c), U_j* being the utility of job j alone: with guarantee.

    Parameters
    ----------
    delta:
        Largest fraction of a cell that a job may take in a slot; by default the largest that any gang may take.

    Raises
    ------
    InvalidInstance
        A gang may fill a cell, or no job can complete in time.
    InvalidOption
        ``delta`` is not between 0 and 1.
    """
    if delta is None:
        delta = largest_fraction(problem)
    at_least(delta, "delta", 0.0, InvalidOption, strict=True)
    if delta >= 1:
        raise InvalidInstance(
            "a gang may take all GPUs of a type on a server, so that no price leaves GPUs for it; the guarantee "
            "needs servers with more GPUs of each type than any gang has, or delta < 1, the largest fraction that a "
            "job may take; prices='printed' have no guarantee"
        )
    room = np.broadcast_to(limits(problem, delta), problem.none_used().shape)
    alone = [best_schedule(problem, j, np.zeros(room.shape), room) for j in range(len(problem.demand))]
    worth = [float(best.payoff) for best in alone if best is not None and best.payoff > 0]
    if not worth:
        raise InvalidInstance("no job can complete within the slots (and delta) with a utility > 0")
    low = min(worth) / (2 * problem.slots * int(problem.capacity.sum()))
    cells = len(problem.capacity)
    return Prices(np.full(cells, low), np.full(cells, max(worth)), problem.capacity, float(delta))


def largest_fraction(problem: OfflineProblem) -> float:
    """delta: the largest fraction of a cell that a gang may take."""
    able = (problem.speed > 0)[:, problem.gpu_type]
    taken = np.minimum(problem.demand[:, None], problem.capacity) / problem.capacity
    return float(np.where(able, taken, 0.0).max())


def whole_slots(slots: float) -> int:
    """Whole slots (or rounds) that hold this number of slots, at least one; rounding errors do not count."""
    return max(1, math.ceil(slots - WORK))


def limits(problem: OfflineProblem, delta: float) -> Integers:
    """(C,) GPUs of each cell that one job may take: ``delta c``, rounded down."""
    return np.asarray(np.floor(delta * problem.capacity + WORK).astype(np.int64))


def _in_time(problem: OfflineProblem) -> list[int]:
    """Jobs with a utility > 0 at some completion time.

    Raises
    ------
    InvalidInstance
        There is none.
    """
    jobs = [j for j in range(len(problem.demand)) if (problem.value[j] > 0).any()]
    if not jobs:
        raise InvalidInstance("no job has a utility > 0 within the slots")
    return jobs


def _alone(problem: OfflineProblem, job: int) -> float:
    """U_j(t_j^min): the utility of a gang that runs alone on its fastest type from its arrival on."""
    own, default = problem.instance.jobs[job], problem.utility
    seconds = float(problem.work[job] / max(problem.levels(job))) * problem.seconds
    return float(np.asarray(utility_of(own, default)(own, np.array(seconds))))
