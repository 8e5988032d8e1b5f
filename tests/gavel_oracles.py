"""Gavel's policies by name, and the same mathematics in cvxpy from plain loops over the instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

import hetopt
from hetopt.formulations.formulation import Formulation
from hetopt.models import gavel
from hetopt.models.gavel.gavel_methods import FEW

POLICIES: dict[str, Callable[[], Formulation]] = {
    "max_min": gavel.max_min_fairness,
    "max_min_of_time": lambda: gavel.max_min_fairness(scale_by_demand=False),
    "total": gavel.total_throughput,
    "makespan": gavel.makespan,
    "fifo": gavel.fifo,
    "shortest": gavel.shortest_job_first,
    "finish_time": gavel.finish_time_fairness,
    "completion": gavel.mean_completion_time,
}


class Plain:
    """Numbers of an instance's jobs, or of its tenants as if they were jobs of one GPU without a limit of time."""

    def __init__(self, inst: hetopt.Instance) -> None:
        self.capacity = list(inst.cluster.capacity.values())
        self.timed = not inst.tenants
        if inst.tenants:
            self.speed = np.array([list(t.job_types[0].speedup.values()) for t in inst.tenants])
            self.demand = np.ones(len(self.speed))
            self.weight = np.array([t.weight for t in inst.tenants])
        else:
            self.speed = np.array([list(j.throughput.values()) for j in inst.jobs])
            self.demand = np.array([j.demand for j in inst.jobs])
            self.speed[self.demand[:, None] > np.array(self.capacity)] = 0  # a gang runs on one type, or not at all
            self.weight = np.array([j.weight for j in inst.jobs])
            self.work = np.array([j.work - inst.done.get(j.name, 0.0) for j in inst.jobs])
            self.elapsed = np.array([inst.time - j.arrival for j in inst.jobs])
        self.part = self.weight / self.weight.sum()
        self.fair = np.array(
            [p * s @ self.capacity / d for p, s, d in zip(self.part, self.speed, self.demand, strict=True)]
        )

    def optimum(self, objective: Callable[[Any], Any]) -> float:
        x = cp.Variable(self.speed.shape, nonneg=True)
        rate = cp.sum(cp.multiply(self.speed, x), axis=1)
        rows = [self.demand @ x <= self.capacity, x[self.speed == 0] == 0]
        if self.timed:
            rows.append(cp.sum(x, axis=1) <= 1)
        problem = cp.Problem(cp.Maximize(objective(rate)), rows)
        problem.solve(solver="CLARABEL")
        assert problem.status == "optimal"
        return float(problem.value)

    def value(self, policy: str) -> float:
        if policy in ("max_min", "max_min_of_time"):
            base = self.fair * (self.demand if policy == "max_min_of_time" else 1)
            return self.optimum(lambda rate: cp.min(cp.multiply(1 / base, rate)))
        if policy == "total":
            size = self.speed.max()
            return size * self.optimum(lambda rate: cp.sum(cp.multiply(self.weight / size, rate)))
        if policy == "makespan":
            horizon = (self.work / self.fair).max()
            return self.optimum(lambda rate: cp.min(cp.multiply(horizon / self.work, rate)))
        alone = self.speed @ self.capacity * np.minimum(self.part / self.demand, 1 / sum(self.capacity))
        if policy == "finish_time":
            total = self.elapsed + self.work / alone
            return self.optimum(
                lambda rate: (
                    -cp.max(
                        self.elapsed / total
                        + cp.multiply(self.work / alone / total, cp.inv_pos(cp.multiply(1 / alone, rate)))
                    )
                )
            )
        if policy == "completion":
            seconds = self.weight * self.work / alone
            size = seconds.max()
            value = self.optimum(
                lambda rate: -cp.sum(cp.multiply(seconds / size, cp.inv_pos(cp.multiply(1 / alone, rate))))
            )
            return float(size * value)
        raise AssertionError(policy)


def many(seed: int, n: int = 3 * FEW) -> hetopt.Instance:
    """More jobs than simplex is asked to solve: gangs, weights, types that cannot run some, arrivals."""
    rng = np.random.default_rng(seed)
    speed = rng.uniform(1, 10, (n, 1)) * np.cumprod(np.c_[np.ones(n), rng.uniform(0.8, 3, (n, 2))], axis=1)
    speed[rng.random((n, 3)) < 0.1] = 0.0
    speed[speed.sum(axis=1) == 0] = 1.0
    jobs = hetopt.Instance.from_jobs(
        speed,
        rng.choice([1, 2, 4], n),
        rng.lognormal(6, 1.5, n) + 1,
        [n // 4, n // 5, n // 3],
        arrival=rng.uniform(0, 1e4, n),
        time=1e4,
    )
    weighted = [
        hetopt.Job(**{**vars(j), "weight": float(w)}) for j, w in zip(jobs.jobs, rng.choice([1, 2, 5], n), strict=True)
    ]
    return jobs.replace(jobs=weighted)
