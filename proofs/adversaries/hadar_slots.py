"""Hadar's jobs in slots, formulated a second time: gangs, schedules, programs for HiGHS, and runs of Algorithm 1.

Prices are decimals of 28 digits; payoffs that differ by less than :data:`TIE` count as equal, so that all ways to break
ties are followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from hetopt.proofs.hadar.slot_cases import SlotCase, SlotJob

F = Fraction
TIE = Decimal(10) ** -18
"""Payoffs this close are equal: rounding leaves less, and different sums of roots of small numbers differ by more."""

Uses = tuple[int, ...]
"""GPUs of every cell in every slot: entry ``slot * cells + cell``."""


class Gang(NamedTuple):
    """GPUs of one job in a slot: its speed, and GPUs of each cell."""

    speed: Fraction
    seats: tuple[int, ...]


class Plan(NamedTuple):
    """A schedule of one job: its utility, and its GPUs."""

    value: Fraction
    uses: Uses


def cells_of(case: SlotCase) -> list[tuple[int, int]]:
    """(GPU type, GPUs) of every pair of a server and a type that it has."""
    return [(r, gpus) for row in case.servers for r, gpus in enumerate(row) if gpus]


def utility(job: SlotJob, last: int) -> Fraction:
    """Utility of completion in slot ``last``; fading: times the least time over the time from the arrival."""
    whole = last - job.arrival + 1
    return job.worth * (job.work / max(job.speed) / whole if job.fading else 1)


@lru_cache(maxsize=64)
def gangs_of(job: SlotJob, cells: tuple[tuple[int, int], ...]) -> list[Gang]:
    """All gangs of W GPUs on types that can run the job: (1b) and (1e)."""
    found = []
    for seats in product(*(range(min(gpus, job.gpus) + 1) for _, gpus in cells)):
        speeds = [job.speed[r] for (r, _), n in zip(cells, seats, strict=True) if n]
        if sum(seats) == job.gpus and min(speeds) > 0:
            found.append(Gang(min(speeds), seats))
    return found


def every_plan(case: SlotCase, job: SlotJob) -> Iterator[tuple[Plan, list[tuple[int, Fraction]]]]:
    """All schedules that complete the job, also with superfluous slots, and their (slot, speed) in order."""
    cells = tuple(cells_of(case))
    idle = Gang(F(0), (0,) * len(cells))
    slots = range(case.slots)
    for choice in product(*([idle, *(gangs_of(job, cells) if t >= job.arrival else ())] for t in slots)):
        speeds = [(t, gang.speed) for t, gang in enumerate(choice) if gang.speed]
        if sum(speed for _, speed in speeds) >= job.work:
            yield Plan(utility(job, speeds[-1][0]), tuple(n for gang in choice for n in gang.seats)), speeds


def plans_of(case: SlotCase, j: int, *, lean: bool = True) -> list[Plan]:
    """All schedules of a job; ``lean``: only those in which no slot could be left out."""
    return _plans(case, case.jobs[j], lean)


@lru_cache(maxsize=64)
def _plans(case: SlotCase, job: SlotJob, lean: bool) -> list[Plan]:
    return [
        plan
        for plan, speeds in every_plan(case, job)
        if not lean or sum(v for _, v in speeds) - min(v for _, v in speeds) < job.work
    ]


# -- programs --------------------------------------------------------------------------------------------------------


def solve_binary(value: Sequence[float], rows: Any, most: Any) -> float:
    """The largest total of binary variables with ``rows x <= most``, by HiGHS."""
    if not len(value):
        return 0.0
    gain = -np.asarray(value, dtype=float)
    limits = LinearConstraint(np.asarray(rows, dtype=float), ub=np.asarray(most, dtype=float))
    found = milp(
        gain, constraints=limits, integrality=np.ones(len(gain), dtype=int), bounds=Bounds(0, 1), options=EXACTLY
    )
    assert found.success, found.message
    return -float(found.fun)


EXACTLY: Any = {"mip_rel_gap": 0.0}
"""HiGHS stops at the optimum only."""


@lru_cache(maxsize=16)
def time_indexed(case: SlotCase) -> float:
    """The optimum of P1 with admission: a binary for each gang in each slot, and for each slot of completion."""
    cells, gain = tuple(cells_of(case)), list[float]()
    rows, most = list[dict[int, float]](), list[float]()
    capacity = [dict[int, float]() for _ in range(case.slots * len(cells))]
    for job in case.jobs:
        pace, once = list[tuple[int, int, float]](), dict[int, float]()
        for t in range(job.arrival, case.slots):
            alone = dict[int, float]()
            for gang in gangs_of(job, cells):
                alone[len(gain)] = 1.0
                pace.append((t, len(gain), float(gang.speed)))
                for i, n in enumerate(gang.seats):
                    capacity[t * len(cells) + i][len(gain)] = float(n)
                gain.append(0.0)
            rows.append(alone)
            most.append(1.0)
        for last in range(job.arrival, case.slots):
            once[len(gain)] = 1.0
            rows.append({**{at: -v for t, at, v in pace if t <= last}, len(gain): float(job.work)})
            most.append(0.0)
            gain.append(float(utility(job, last)))
        rows.append(once)
        most.append(1.0)
    rows += capacity
    most += [float(gpus) for _ in range(case.slots) for _, gpus in cells]
    table = np.zeros((len(rows), len(gain)))
    for at, row in enumerate(rows):
        for column, entry in row.items():
            table[at, column] = entry
    return solve_binary(gain, table, most)


def by_schedules(case: SlotCase) -> tuple[list[float], Any, list[float]]:
    """P2: utilities of all schedules of all jobs, rows (2a) and (2b), and their right sides."""
    columns = [(j, plan) for j in range(len(case.jobs)) for plan in plans_of(case, j, lean=False)]
    table = [[*map(float, plan.uses), *(float(i == j) for i in range(len(case.jobs)))] for j, plan in columns]
    most = [float(gpus) for _ in range(case.slots) for _, gpus in cells_of(case)] + [1.0] * len(case.jobs)
    return [float(plan.value) for _, plan in columns], np.array(table).reshape(-1, len(most)).T, most


def least(cost: Any, rows: Any, most: Any) -> float:
    """The least cost of ``x >= 0`` with ``rows x <= most``, by HiGHS."""
    found = linprog(cost, A_ub=rows, b_ub=most, bounds=(0, None), method="highs")
    assert found.fun is not None, found.message
    return float(found.fun)


# -- prices ----------------------------------------------------------------------------------------------------------


def decimal(value: Fraction | int) -> Decimal:
    """A fraction as a decimal."""
    return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=4096)
def power(base: Fraction, exponent: Fraction) -> Decimal:
    """A power of a fraction."""
    return Decimal(1) if base == 1 else (decimal(base).ln() * decimal(exponent)).exp()


class Prices(NamedTuple):
    """The price function (5): U_min, U_max and GPUs of each cell, and delta (0 as printed)."""

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    gpus: tuple[int, ...]
    delta: Fraction

    def rise(self, cell: int, step: int) -> Decimal:
        """Factor of the price when ``step`` more GPUs are in use."""
        return power(self.high[cell] / self.low[cell], step / ((1 - self.delta) * self.gpus[cell]))

    def price(self, cell: int, used: int) -> Decimal:
        """Price with ``used`` GPUs in use."""
        return decimal(self.low[cell]) * self.rise(cell, used)


def gpu_slots(case: SlotCase) -> list[Fraction]:
    """For each job t_max W: whole slots of the gang alone on the slowest type that can run it, times its GPUs."""
    return [F(-(-job.work // min(v for v in job.speed if v))) * job.gpus for job in case.jobs]


def least_utility(case: SlotCase, j: int) -> Fraction:
    """U_j(T - a_j): that of completion in the last slot."""
    return utility(case.jobs[j], case.slots - 1)


def printed(case: SlotCase) -> Prices:
    """Equations (6) and (7), with the least eta that the proof of Theorem 2 allows."""
    cells, need = cells_of(case), gpu_slots(case)
    eta = F(sum(gpus for _, gpus in cells), min(need))
    low = min(least_utility(case, j) / n for j, n in enumerate(need)) / (4 * eta)
    each = {r: [job.worth / job.gpus for job in case.jobs if job.speed[r]] for r, _ in cells}
    best = max(job.worth / job.gpus for job in case.jobs)
    high = tuple(max(low, max(each[r], default=best)) for r, _ in cells)
    return Prices((low,) * len(cells), high, tuple(gpus for _, gpus in cells), F(0))


def fewest_slots(case: SlotCase, j: int) -> int:
    """The fewest slots in which a job is done: as many as its work needs on its W fastest GPUs."""
    job = case.jobs[j]
    speeds = sorted((job.speed[r] for r, gpus in cells_of(case) for _ in range(gpus)), reverse=True)
    return -(-job.work // speeds[job.gpus - 1])


def alone(case: SlotCase) -> dict[int, Fraction]:
    """U_j*: for each job that can complete with positive utility, its utility alone."""
    last = [job.arrival + fewest_slots(case, j) - 1 for j, job in enumerate(case.jobs)]
    return {j: worth for j, f in enumerate(last) if f < case.slots and (worth := utility(case.jobs[j], f)) > 0}


def corrected(case: SlotCase) -> Prices:
    """U_max = max U*, U_min = min U* / (2 T sum c), with delta as large as the largest part of a cell."""
    cells, worth = cells_of(case), list(alone(case).values())
    low = min(worth) / (2 * case.slots * sum(gpus for _, gpus in cells))
    parts = [F(min(job.gpus, gpus), gpus) for job in case.jobs for r, gpus in cells if job.speed[r]]
    return Prices((low,) * len(cells), (max(worth),) * len(cells), tuple(gpus for _, gpus in cells), max(parts))


def enlarged(prices: Prices) -> Decimal:
    """Alpha' = max(1, (e^(a delta / (1 - delta)) - 1) / delta)."""
    delta = prices.delta
    e = power(prices.high[0] / prices.low[0], delta / (1 - delta))
    return max(Decimal(1), (e - 1) / decimal(delta))


# -- runs of Algorithm 1 ---------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """The decision for a job: its utility (0 if refused), mu_j, and D_j - D_{j-1}."""

    job: int
    value: Fraction
    payoff: Decimal
    growth: Decimal


class Run(NamedTuple):
    """A run: steps, GPUs in use, and the least alpha >= 1 with which Definition 1 holds in every step."""

    steps: tuple[Step, ...]
    used: Uses
    alpha: Decimal

    @property
    def total(self) -> Fraction:
        """ALG."""
        return sum((step.value for step in self.steps), F(0))


def orders(case: SlotCase) -> Iterator[tuple[int, ...]]:
    """All orders of arrival; jobs that arrive in the same slot in any order, but equal jobs once."""
    seen = set()
    for order in permutations(range(len(case.jobs))):
        times = [case.jobs[j].arrival for j in order]
        if times == sorted(times) and (jobs := tuple(case.jobs[j] for j in order)) not in seen:
            seen.add(jobs)
            yield order


def payoff_of(prices: Prices, used: Uses, plan: Plan) -> Decimal:
    """phi_j(s) at the prices with these GPUs in use."""
    cells, cost = len(prices.gpus), Decimal(0)
    for at, n in enumerate(plan.uses):
        if n:
            cost += n * prices.price(at % cells, used[at])
    return decimal(plan.value) - cost


def runs_of(case: SlotCase, prices: Prices, *, checked: bool) -> list[Run]:
    """All runs of Algorithm 1, with all orders of equal arrivals and all best schedules; ``checked``: within (8)."""
    found = list[Run]()
    for order in orders(case):
        states = [Run((), (0,) * (case.slots * len(prices.gpus)), Decimal(1))]
        for j in order:
            after = [longer for run in states for longer in _decided(case, prices, run, j, checked)]
            states = list({_key(case, run): run for run in after}.values())
        found += states
    return found


def _decided(case: SlotCase, prices: Prices, run: Run, j: int, checked: bool) -> Iterator[Run]:
    cells = len(prices.gpus)
    plans = [
        plan
        for plan in plans_of(case, j)
        if not checked or all(run.used[at] + n <= prices.gpus[at % cells] for at, n in enumerate(plan.uses) if n)
    ]
    payoffs = [payoff_of(prices, run.used, plan) for plan in plans]
    most = max(payoffs, default=Decimal(0))
    if most <= TIE:
        yield run._replace(steps=(*run.steps, Step(j, F(0), Decimal(0), Decimal(0))))
        return
    for plan, payoff in zip(plans, payoffs, strict=True):
        if payoff > most - TIE:
            growth, alpha = payoff, run.alpha
            for at, n in enumerate(plan.uses):
                if n:
                    i, gpus = at % cells, prices.gpus[at % cells]
                    growth += gpus * (prices.price(i, run.used[at] + n) - prices.price(i, run.used[at]))
                    alpha = max(alpha, gpus * (prices.rise(i, n) - 1) / n)
            used = tuple(a + b for a, b in zip(run.used, plan.uses, strict=True))
            yield Run((*run.steps, Step(j, plan.value, payoff, growth)), used, alpha)


def _key(case: SlotCase, run: Run) -> object:
    """Runs with the same key go on alike: equal cells are exchangeable."""
    cells = cells_of(case)
    columns = tuple(sorted((*cell, run.used[i :: len(cells)]) for i, cell in enumerate(cells)))
    return columns, run.alpha.quantize(TIE), tuple((s.job, s.value, s.growth.quantize(TIE)) for s in run.steps)


def least_free(case: SlotCase, used: Uses) -> int:
    """The least number of free GPUs of a cell in a slot."""
    cells = cells_of(case)
    return min(cells[at % len(cells)][1] - n for at, n in enumerate(used))
