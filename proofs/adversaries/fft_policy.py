"""Plans of the library's FFT policy over several rounds, in floats, compared with all plans of each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from hetopt.data.instance import Instance
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.adversaries.fft_rounds import WAITS, Plan, Round

F = Fraction

POLICIES = (FFT(), FFT(normalise=False, restart_seconds=ROUND_SECONDS))
"""The default, and rho in work as printed with moves that take a round."""

ROUNDS = 3
"""Consecutive rounds of the policy."""


def policy_plans(step: Round, policy: FFT) -> Iterator[tuple[Round, list[list[float]]]]:
    """The present jobs of a round, and the GPUs of each type that they receive, in consecutive rounds."""
    instance = Instance.from_jobs(
        [[float(v) for v in gang.speed] for gang in step.gangs],
        [gang.demand for gang in step.gangs],
        [float(gang.work) for gang in step.gangs],
        step.gpus,
        arrival=[ROUND_SECONDS * gang.arrival for gang in step.gangs],
        time=ROUND_SECONDS * step.time,
    )
    jobs = {job.name: gang for job, gang in zip(instance.jobs, step.gangs, strict=True)}
    done, state = dict.fromkeys(jobs, 0.0), None
    for later in range(ROUNDS):
        left = [name for name in jobs if done[name] < jobs[name].work]
        if not left:
            return
        now = instance.replace(done=done).at(ROUND_SECONDS * (step.time + later))
        plan, state = policy(now, state)
        gangs = tuple(jobs[name] for name in left)
        yield Round(gangs, step.gpus, step.time + later, (F(0),) * len(left)), plan.x.tolist()
        for name, row in zip(left, plan.x.tolist(), strict=True):
            done[name] += sum(float(v) for v, gpus in zip(jobs[name].speed, row, strict=True) if gpus)


def violates_rows(step: Round, gpus: list[list[float]]) -> bool:
    """Whether a job has GPUs of several types, a part of its gang or GPUs it cannot use, or a type has too few."""
    for gang, row in zip(step.gangs, gpus, strict=True):
        if any(v not in (0, gang.demand) for v in row) or sum(v > 0 for v in row) > 1:
            return True
        if any(v and not theta for v, theta in zip(row, gang.speed, strict=True)):
            return True
    return any(sum(column) > y for column, y in zip(zip(*gpus, strict=True), step.gpus, strict=True))


def lets_a_fitting_job_wait(step: Round, gpus: list[list[float]]) -> bool:
    """Whether a plan with one more job than the policy's exists."""
    where: Plan = tuple(next((i for i, v in enumerate(row) if v), WAITS) for row in gpus)
    more = (
        (*where[:j], i, *where[j + 1 :]) for j, at in enumerate(where) if at == WAITS for i in range(len(step.gpus))
    )
    every = set(step.plans())
    return any(plan in every for plan in more)


def uses_other_number(step: Round, gpus: list[list[float]]) -> bool:
    """Whether the number of GPUs in use is not K*."""
    return sum(map(sum, gpus)) != max(map(step.used, step.plans()))


Fault = Callable[[Round, list[list[float]]], bool]


def without(fault: Fault) -> Callable[[Any], Fraction]:
    """The slack of "no plan of the policy has this fault"."""

    def slack(case: Any) -> Fraction:
        step = Round.of(case)
        found = any(fault(*plan) for policy in POLICIES for plan in policy_plans(step, policy))
        return F(-1) if found else F(1)

    return slack
