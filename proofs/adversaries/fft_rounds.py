"""Rounds of FFT by brute force: every plan, every optimum, and runs over several rounds with every tie-break."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

F = Fraction

Plan: TypeAlias = tuple[int, ...]
"""Position of the GPU type of each job, -1 if it waits."""

WAITS = -1


@dataclass(frozen=True)
class Gang:
    """A job: demand d, work W, work theta per round on each type, and round of arrival a."""

    demand: int
    work: Fraction
    speed: tuple[Fraction, ...]
    arrival: int = 0

    @classmethod
    def of(cls, job: Any) -> Gang:
        """The data of a job of a case."""
        return cls(int(job.demand), F(job.work), tuple(map(F, job.speed)), int(job.arrival))

    def types(self, gpus: Sequence[int]) -> list[int]:
        """Positions of the types on which it can run."""
        return [i for i, y in enumerate(gpus) if self.speed[i] > 0 and self.demand <= y]


@dataclass(frozen=True)
class Round:
    """The present jobs of a round, with rho in work as printed, or in fractions of the job.

    Attributes
    ----------
    owed:
        (n,) rho of the jobs.
    fractions:
        Whether theta in rho theta, and rho, are in fractions of the job.
    """

    gangs: tuple[Gang, ...]
    gpus: tuple[int, ...]
    time: int
    owed: tuple[Fraction, ...]
    fractions: bool = True

    @classmethod
    def of(cls, case: Any, *, fractions: bool = True) -> Round:
        """The data of a round of a case."""
        gangs = tuple(map(Gang.of, case.gangs))
        owed = tuple(case.rho) or (F(0),) * len(gangs)
        return cls(gangs, tuple(map(int, case.gpus)), int(case.time), owed, fractions)

    def plans(self) -> Iterator[Plan]:
        """All plans by [FFT, eq. 1]: any type for each job, unless it cannot run there or the type has too few GPUs."""
        for plan in product(range(WAITS, len(self.gpus)), repeat=len(self.gangs)):
            left, allowed = list(self.gpus), True
            for gang, i in zip(self.gangs, plan, strict=True):
                if i != WAITS:
                    left[i] -= gang.demand
                    allowed = allowed and left[i] >= 0 and gang.speed[i] > 0
            if allowed:
                yield plan

    def used(self, plan: Plan) -> int:
        """GPUs in use."""
        return sum(gang.demand for gang, i in zip(self.gangs, plan, strict=True) if i != WAITS)

    @property
    def fullest(self) -> list[Plan]:
        """The plans with K* GPUs in use."""
        plans = list(self.plans())
        most = max(map(self.used, plans))
        return [plan for plan in plans if self.used(plan) == most]

    def pace(self, j: int, plan: Plan) -> Fraction:
        """Work of a job in the round, in the unit of theta in rho theta."""
        gang, i = self.gangs[j], plan[j]
        if i == WAITS:
            return F(0)
        return gang.speed[i] / gang.work if self.fractions else gang.speed[i]

    def cost(self, plan: Plan) -> Fraction:
        """[FFT, eq. 4]."""
        return plain_cost(self, plan) - sum((rho * self.pace(j, plan) for j, rho in enumerate(self.owed)), F(0))

    def optima(self, plans: Sequence[Plan] | None = None) -> set[Plan]:
        """The plans of least cost among ``plans``, by default among those with K* GPUs."""
        costs = {plan: self.cost(plan) for plan in plans or self.fullest}
        least = min(costs.values())
        return {plan for plan, cost in costs.items() if cost == least}

    def owing(self, j: int, rho: Fraction) -> Round:
        """A copy with another rho of one job."""
        return replace(self, owed=(*self.owed[:j], rho, *self.owed[j + 1 :]))


def plain_cost(step: Round, plan: Plan) -> Fraction:
    """[FFT, eq. 3]."""
    found = F(0)
    for gang, i in zip(step.gangs, plan, strict=True):
        if i != WAITS:
            theta = gang.speed[i]
            found += (step.time - gang.arrival) * theta / gang.work + gang.demand * gang.work / theta
    return found


def fair_time(gang: Gang, present: int, gpus: Sequence[int]) -> Fraction:
    """Tau - a: rounds on the fastest type with enough GPUs, longer by d |A| / sum(Y) if that exceeds 1."""
    rounds = gang.work / max(gang.speed[i] for i in gang.types(gpus))
    return max(rounds, rounds * gang.demand * present / sum(gpus))


def part_time(gang: Gang, present: int, gpus: Sequence[int]) -> Fraction:
    """Tau - a as printed: without preemption on the best type of 1/|A| of the cluster."""
    every = (gang.work / gang.speed[i] * max(F(1), F(gang.demand * present, gpus[i])) for i in gang.types(gpus))
    return min(every)


def owed_next(rho: Fraction, mu: Fraction, fair: Fraction, done: Fraction) -> Fraction:
    """[FFT, eq. 5]."""
    after = rho + mu * (fair - done)
    return after if after > 0 else F(0)


# -- several rounds --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Work done and rho of all jobs at the start of a round."""

    done: tuple[Fraction, ...]
    owed: tuple[Fraction, ...]


@dataclass(frozen=True)
class Run:
    """Jobs that arrive over time, with mu = age / (tau - a), or for the first jobs the constants ``mu``."""

    gangs: tuple[Gang, ...]
    gpus: tuple[int, ...]
    mu: tuple[Fraction, ...] = ()
    fractions: bool = True

    @property
    def start(self) -> State:
        """The state before the first round."""
        zeros = (F(0),) * len(self.gangs)
        return State(zeros, zeros)

    def present(self, state: State, time: int) -> list[int]:
        """Positions of the jobs that have arrived and are not complete."""
        return [j for j, gang in enumerate(self.gangs) if gang.arrival <= time and state.done[j] < gang.work]

    def finished(self, state: State) -> bool:
        """Whether all jobs are complete."""
        return all(done >= gang.work for done, gang in zip(state.done, self.gangs, strict=True))

    def round(self, state: State, time: int) -> Round:
        """The round of the present jobs."""
        here = self.present(state, time)
        owed = tuple(state.owed[j] for j in here)
        return Round(tuple(self.gangs[j] for j in here), self.gpus, time, owed, self.fractions)

    def after(self, state: State, time: int, plan: Plan) -> State:
        """The state after a round with this plan of the present jobs."""
        here = self.present(state, time)
        done, owed = list(state.done), list(state.owed)
        for j, i in zip(here, plan, strict=True):
            gang = self.gangs[j]
            fair = fair_time(gang, len(here), self.gpus)
            mu = self.mu[j] if j < len(self.mu) else (time - gang.arrival) / fair
            work = gang.speed[i] if i != WAITS else F(0)
            unit = gang.work if self.fractions else F(1)
            owed[j] = owed_next(owed[j], mu, gang.work / fair / unit, work / unit)
            done[j] += work
        return State(tuple(done), tuple(owed))

    def canonical(self, state: State) -> State:
        """The state with equal jobs in a fixed order."""
        order = sorted(range(len(self.gangs)), key=lambda j: (_key(self.gangs[j]), state.done[j], state.owed[j]))
        places = sorted(range(len(self.gangs)), key=lambda j: (_key(self.gangs[j]), j))
        done, owed = list(state.done), list(state.owed)
        for place, j in zip(places, order, strict=True):
            done[place], owed[place] = state.done[j], state.owed[j]
        return State(tuple(done), tuple(owed))


def _key(gang: Gang) -> tuple[Any, ...]:
    return gang.arrival, gang.demand, gang.work, gang.speed


MOST_STATES = 40
"""States per round that are followed."""


def all_rounds(run: Run, most: int) -> Iterator[tuple[State, Round, set[Plan]]]:
    """The states, rounds and optima that any tie-breaking can reach in ``most`` rounds from round 0 on."""
    states = [run.start]
    for time in range(most):
        reached: set[State] = set()
        for state in states:
            step = run.round(state, time)
            if not step.gangs:
                reached.add(state)
                continue
            optima = step.optima()
            yield state, step, optima
            reached |= {run.canonical(run.after(state, time, plan)) for plan in optima}
        states = sorted(reached, key=lambda state: (state.done, state.owed))[:MOST_STATES]


def one_run(run: Run, choose: Callable[[Sequence[Plan]], Plan]) -> Iterator[tuple[int, list[int], Plan]]:
    """(Round, present jobs, plan) until all jobs are complete, with ties broken by ``choose``."""
    state, time = run.start, 0
    while not run.finished(state):
        here = run.present(state, time)
        if here:
            plan = choose(sorted(run.round(state, time).optima()))
            yield time, here, plan
            state = run.after(state, time, plan)
        time += 1


TIE_BREAKS: tuple[Callable[[Sequence[Plan]], Plan], ...] = (
    lambda plans: plans[0],
    lambda plans: plans[-1],
    lambda plans: random.Random(len(plans)).choice(plans),
)
"""The first, the last and a random optimum."""
