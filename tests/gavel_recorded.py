"""Recorded results of Gavel's own simulator, and its shares by the solver that it used.

``../shared/data/parity`` has the jobs and completion times, with how they were made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from gavel_rounds import Shares

from hetopt import Cluster, Instance, Job

DATA = Path(__file__).parents[2] / "shared" / "data"
TYPES = ("v100", "p100", "k80")
GPUS = {100: 8, 120: 8, 400: 36}
"""Number of jobs -> GPUs of each type."""
ROUND = 360.0


def recorded_jobs(number: int) -> Instance:
    """The jobs of a recorded run; skips the test where the data are absent."""
    path = DATA / "parity" / f"gavel_{number}_jobs.csv"
    if not path.exists():
        pytest.skip(f"{path.parent} is absent")
    speed = pd.read_csv(DATA / "throughput" / "gavel_throughputs.csv").set_index(["job_type", "scale_factor"])
    jobs = [
        Job(
            str(row.job),
            {t: float(v) for t, v in speed.loc[(row.model, row.gpus), list(TYPES)].items()},
            float(row.steps),
            int(row.gpus),
            arrival=float(row.arrival_s),
        )
        for row in pd.read_csv(path).itertuples()
    ]
    return Instance(Cluster.of(dict.fromkeys(TYPES, GPUS[number])), jobs=tuple(jobs))


def recorded_times(number: int, policy: str) -> pd.Series[float]:
    """Job -> completion time in seconds, under the policy of this name in Gavel."""
    table = pd.read_csv(DATA / "parity" / f"gavel_{number}_jct.csv", dtype={"job": str})
    return table[table["policy"] == policy].set_index("job")["jct_s"]


def differences(times: pd.Series[float], recorded: pd.Series[float]) -> tuple[float, float, float]:
    """Relative differences: of the means, of the medians, and the median over jobs of the absolute one."""
    each = ((times - recorded) / recorded).abs().median()
    return times.mean() / recorded.mean() - 1, times.median() / recorded.median() - 1, float(each)


def first_that_fits(now: Instance) -> dict[str, list[float]]:
    """Gavel's ``fifo_perf``: each job in turn all of its fastest type of those with room for its gang.

    The first job for which no type has room ends the search. One that cannot run on any type with room does not.
    """
    free, found = dict(now.cluster.capacity), {job.name: [0.0] * len(TYPES) for job in now.jobs}
    for job in sorted(now.jobs, key=lambda job: job.arrival):
        room = [t for t in sorted(free) if free[t] >= job.demand]
        if not room:
            break
        best = max(room, key=lambda t: job.throughput[t])
        if job.throughput[best] > 0:
            free[best] -= job.demand
            found[job.name][TYPES.index(best)] = 1.0
    return found


class Ecos:
    """Gavel's policies as cone programs for ECOS, whose point among the optimal ones decides what follows."""

    def __init__(self, now: Instance) -> None:
        self.names = [job.name for job in now.jobs]
        self.columns = sorted(TYPES)
        self.speed = np.array([[job.throughput[t] for t in self.columns] for job in now.jobs])
        self.demand = np.array([[float(job.demand)] * len(TYPES) for job in now.jobs])
        self.capacity = np.array([now.cluster.capacity[t] for t in self.columns], dtype=float)
        self.left = now.job_array("work_left")
        self.elapsed = now.time - now.job_array("arrival")
        self.x = cp.Variable(self.speed.shape)

    def isolated(self) -> np.ndarray[Any, Any]:
        """(n, k) shares of each job alone on its part of every type."""
        x = self.capacity / len(self.names) / self.demand
        return np.asarray(x / np.maximum(x.sum(axis=1, keepdims=True), 1.0))

    def solve(self, objective: Any, rows: list[Any]) -> str:
        base = [
            self.x >= 0,
            cp.sum(cp.multiply(self.demand, self.x), axis=0) <= self.capacity,
            cp.sum(self.x, axis=1) <= 1,
        ]
        problem = cp.Problem(objective, base + rows)
        problem.solve(solver="ECOS")
        return str(problem.status)

    def shares(self) -> dict[str, list[float]]:
        order = [self.columns.index(t) for t in TYPES]
        x = self.isolated() if self.x.value is None else self.x.value.clip(0.0, 1.0)  # ECOS fails at times
        return dict(zip(self.names, x[:, order].tolist(), strict=True))


def ecos_max_min(now: Instance) -> dict[str, list[float]]:
    """Max-min fairness."""
    own = Ecos(now)
    part = own.capacity / len(own.names) / (own.capacity / len(own.names)).sum()
    weight = 1.0 / (own.speed * part).sum(axis=1, keepdims=True)
    ratio = cp.sum(cp.multiply(own.speed * weight * own.demand, own.x), axis=1)
    own.solve(cp.Maximize(cp.min(ratio)), [])
    return own.shares()


def ecos_finish_time() -> Shares:
    """Finish-time fairness, with the isolated times that add up from call to call."""
    known: dict[str, tuple[float, float, float]] = {}

    def shares(now: Instance) -> dict[str, list[float]]:
        own, ratios = Ecos(now), []
        rate = (own.speed * own.isolated()).sum(axis=1)
        for i, name in enumerate(own.names):
            seconds, before, last = known.get(name, (0.0, own.left[i], 1.0))
            seconds += (before - own.left[i]) / last
            known[name] = seconds, own.left[i], rate[i]
            reached = cp.sum(cp.multiply(own.speed[i], own.x[i]))
            finish = own.elapsed[i] + own.left[i] * cp.inv_pos(reached)
            ratios.append(finish / (seconds + own.left[i] / rate[i]))
        own.solve(cp.Minimize(ratios[0] if len(ratios) == 1 else cp.maximum(*ratios)), [])
        return own.shares()

    return shares


def ecos_makespan(now: Instance) -> dict[str, list[float]]:
    """The makespan by bisection to 5 %; the shares are a feasible point of the last program that has one."""
    found: Ecos | None = None
    least, most, last = 100.0, 1e6, 1e6
    while found is None:
        while 1.05 * least < most:
            seconds = (least + most) / 2.0
            own = Ecos(now)
            rate = cp.sum(cp.multiply(own.speed, own.x), axis=1)
            if own.solve(cp.Maximize(1), [rate >= own.left / seconds]) == "optimal":
                found, most = own, seconds
            else:
                least = seconds
        most, least, last = 10.0 * last, last, 10.0 * last
    return found.shares()
