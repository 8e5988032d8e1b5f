"""Several policies on one instance, side by side and judged alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from hetopt.auditing import pareto_efficient
from hetopt.data.entities import Entities, Floats, members
from hetopt.data.instance import Instance
from hetopt.data.worth import largest_relative_envy, most_at_once, worth
from hetopt.decisions.first_round import FirstRound, place
from hetopt.errors import HetoptError
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy, solve
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import VISIBLE

COLUMNS = {
    "total": "total normalised throughput: speedups of tenants; of jobs, relative to the slowest type that runs them",
    "least": "least normalised throughput per weight",
    "sharing": "least rate / rate with the fair part of every GPU type; 1 or more: the sharing incentive holds",
    "envy": "largest gain with another's GPUs, relative to the own rate (relative envy); 0: envy-free",
    "pareto": "gains possible without loss to others, in parts of a rate with the whole cluster; 0: Pareto-efficient",
    "gpus": "GPUs in use, on average over time",
    "seconds": "wall time from the instance to the result",
}
"""Columns of the table and what they mean."""

PLACED = {
    "running": "jobs that run in the first round, each with all its GPUs",
    "waiting": "jobs that wait",
    "gpus": "whole GPUs in use",
    "total": "total normalised throughput of the jobs that run",
    "given up": "part of the total above that this round lacks; below 0: it has more, and less in other rounds",
    "servers": "servers per running job",
    "spread": "jobs that run on several servers",
    "extra": "servers that these jobs use beyond the fewest that an empty cluster would need",
}
"""Columns of the table after rounding and placement, and what they mean."""


def spell(value: float) -> str:
    """A number of either table."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "-"
    text = f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return text.removeprefix("-") if float(text) == 0 else text


def spell_placed(column: str, value: float) -> str:
    """A number of the table after rounding: counts without decimals."""
    return f"{value:.0f}" if column in ("running", "waiting", "gpus", "spread", "extra") else spell(value)


def is_bad(column: str, value: float) -> bool:
    """Whether a number of that column means that a fairness property is visibly lost."""
    if column == "sharing":
        return value < 1 - VISIBLE
    return column in ("envy", "pareto") and value > VISIBLE


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several policies make of one instance.

    Attributes
    ----------
    instance:
        The instance.
    results:
        Policy name -> its result.
    table:
        A row per policy, the columns of :data:`COLUMNS`.
    refused:
        Policy name -> why it does not apply to this instance.
    rounds:
        Policy name -> its first round on servers.
    placed:
        A row per policy, the columns of :data:`PLACED`; without rows where the instance has no jobs.
    unplaced:
        Policy name -> why its result cannot be carried out.
    """

    instance: Instance
    results: Mapping[str, Allocation | Plan]
    table: pd.DataFrame
    refused: Mapping[str, str]
    rounds: Mapping[str, FirstRound]
    placed: pd.DataFrame
    unplaced: Mapping[str, str]

    def extended(self, other: Comparison, label: str) -> Comparison:
        """With the rows of another comparison, named by ``label.format(name)``; what ran there is refused no longer."""
        names = {name: label.format(name) for name in other.results}
        return Comparison(
            self.instance,
            {**self.results, **_renamed(other.results, names)},
            pd.concat([self.table, other.table.rename(index=names)]),
            {name: why for name, why in self.refused.items() if name not in other.results},
            {**self.rounds, **_renamed(other.rounds, names)},
            pd.concat([self.placed, other.placed.rename(index=names)]),
            {**self.unplaced, **_renamed(other.unplaced, names)},
        )


T = TypeVar("T")


def _renamed(values: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names[name]: value for name, value in values.items()}


def by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason -> the policies that it holds for."""
    reasons: dict[str, list[str]] = {}
    for name, why in refused.items():
        reasons.setdefault(why, []).append(name)
    return reasons


def compare(
    instance: Instance,
    policies: Mapping[str, Formulation | Policy],
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run every policy once on ``instance``.

    Parameters
    ----------
    instance:
        Tenants, jobs, or both. Where it has tenants, a policy that decides on jobs is judged by what it gives
        to each tenant's jobs together.
    policies:
        Name -> policy.
    progress:
        Called with the name of each policy before it runs.

    Returns
    -------
    Comparison
        Where there are jobs, each result is also rounded and placed for a first round. Policies that refuse the
        instance are listed with the reason, and the others go on.
    """
    results: dict[str, Allocation | Plan] = {}
    rows: dict[str, dict[str, float]] = {}
    refused: dict[str, str] = {}
    rounds: dict[str, FirstRound] = {}
    placed: dict[str, dict[str, float]] = {}
    unplaced: dict[str, str] = {}
    for name, policy in policies.items():
        progress(name)
        began = time.perf_counter()
        try:
            result = solve(policy, instance)
            seconds = time.perf_counter() - began
            rows[name] = {**judge(instance, result), "seconds": seconds}
            results[name] = result
        except HetoptError as problem:
            refused[name] = problem.reason
            continue
        try:
            if instance.jobs:
                first = place(instance, result)
                placed[name] = judge_placed(first, rows[name]["total"])
                rounds[name] = first
        except HetoptError as problem:
            unplaced[name] = problem.reason
    return Comparison(instance, results, _frame(rows, COLUMNS), refused, rounds, _frame(placed, PLACED), unplaced)


def _frame(rows: Mapping[str, Mapping[str, float]], columns: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(dict(rows), orient="index", columns=list(columns)).rename_axis("policy")


def judge_placed(first: FirstRound, promised: float) -> dict[str, float]:
    """The numbers of :data:`PLACED` for one round; ``promised`` is the total of what it was rounded from."""
    decision, servers = first.decision, [len(where) for where in first.hosts.values()]
    runs = decision.gpus.any(axis=1)
    entities, gpus = by_tenant(first.instance, Plan(decision.entities, decision.gpus))
    total = float((normalised(entities) * gpus).sum())
    return {
        "running": float(runs.sum()),
        "waiting": float((~runs).sum()),
        "gpus": float(decision.gpus.sum()),
        "total": total,
        "given up": 1.0 - total / promised if promised > 0 else 0.0,
        "servers": sum(servers) / len(servers) if servers else np.nan,
        "spread": float(sum(n > 1 for n in servers)),
        "extra": float(decision.given_up.get("extra_servers", 0.0)),
    }


def judge(instance: Instance, result: Allocation | Plan) -> dict[str, float]:
    """The numbers of :data:`COLUMNS` (without seconds) for one result."""
    entities, gpus = by_tenant(instance, result)
    forked = isinstance(result, Plan) and result.placement is not None and bool(result.placement.dispatch)
    speed, most = normalised(entities), None if forked else most_at_once(entities)
    rate = worth(speed, gpus, most)
    fair = worth(speed, (entities.weight / entities.weight.sum())[:, None] * entities.capacity, most)
    plan = Plan(entities, gpus)
    return {
        "total": float(rate.sum()),
        "least": float((rate / entities.weight).min()),
        "sharing": float((rate / fair).min()),
        "envy": largest_relative_envy(entities, gpus),
        "pareto": max(0.0, -pareto_efficient(instance, plan).slack),
        "gpus": float(gpus.sum()),
    }


def normalised(entities: Entities) -> Floats:
    """(n, k) speed per GPU without unit: a tenant's speedups; a job's relative to the slowest type that runs it."""
    if entities.kind == "tenants":
        return entities.per_gpu
    slowest = np.where(entities.allowed, entities.per_gpu, np.inf).min(axis=1)
    return np.asarray(entities.per_gpu / slowest[:, None])


def by_tenant(instance: Instance, result: Allocation | Plan) -> tuple[Entities, Floats]:
    """Entities and their (n, k) GPUs; jobs' GPUs are added up per tenant where the instance has tenants.

    Raises
    ------
    InvalidInstance
        A job has no tenant, or no job type where its tenant has several, so that it is unclear whose GPUs they are.
    """
    entities = result.entities
    gpus = result.x if isinstance(result, Plan) else entities.gpus(result.x)
    if entities.kind == "tenants" or not instance.tenants:
        return entities, gpus
    position = entities.position
    parts = [
        [position[instance.jobs[i].name] for i in jobs if instance.jobs[i].name in position]
        for jobs in members(instance).values()
    ]
    return instance.entities("tenants"), np.array([gpus[rows].sum(axis=0) for rows in parts])


def of_one_demand(instance: Instance) -> Instance:
    """The instance with only those jobs that want the commonest number of GPUs (AlloX knows no others)."""
    counts = Counter(job.demand for job in instance.jobs)
    demand = min(counts, key=lambda d: (-counts[d], d))
    kept = {job.name for job in instance.jobs if job.demand == demand}
    return instance.replace(
        jobs=tuple(job for job in instance.jobs if job.name in kept),
        held={name: gpus for name, gpus in instance.held.items() if name in kept or name not in instance.job},
        done={name: work for name, work in instance.done.items() if name in kept},
        placed={name: where for name, where in instance.placed.items() if name in kept},
    )
