"""Comparison of several policies on one instance by the same measures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from hetopt.auditing import pareto_efficient
from hetopt.checks import counted
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, members
from hetopt.data.instance import Instance
from hetopt.data.rates import fair_part_rate, largest_relative_envy, most_at_once, rate_with, sharing_ratio
from hetopt.data.units import Unit
from hetopt.data.workload import slowest_of_rows
from hetopt.decisions.first_round import FirstRound, place
from hetopt.display import Displayed
from hetopt.errors import HetoptError, InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.policies import Policy, solve
from hetopt.metrics.definitions import Metric, by_name
from hetopt.results.allocation import Allocation, Plan
from hetopt.tolerances import EQUAL, scale

COLUMNS: Mapping[str, Metric] = by_name(
    Metric(
        "total",
        "total normalised throughput: speedups of tenants; of jobs, relative to the slowest type that runs them",
        Unit.SPEEDUP_GPUS,
    ),
    Metric("least", "least normalised throughput per weight", Unit.SPEEDUP_GPUS),
    Metric(
        "sharing", "least rate / rate with the fair part of every GPU type (sharing ratio); fair from 1 on", least=1.0
    ),
    Metric(
        "envy",
        "largest gain with another's GPUs, as a part of the own rate (relative envy); 0: envy-free",
        Unit.SHARE,
        most=0.0,
    ),
    Metric(
        "pareto",
        "gains possible without loss to others, in parts of a rate with the whole cluster; 0: Pareto-efficient",
        Unit.SHARE,
        most=0.0,
    ),
    Metric("gpus", "GPUs in use, on average over time", Unit.GPUS),
    Metric("seconds", "wall time from the instance to the result", Unit.SECONDS, "time"),
)
"""Columns of the table of results; a value visibly out of its bounds violates a fairness property."""

PLACED: Mapping[str, Metric] = by_name(
    Metric("running", "jobs that run in the first round, each with all its GPUs", Unit.COUNT),
    Metric("waiting", "jobs that wait", Unit.COUNT),
    Metric("gpus", "whole GPUs in use", Unit.GPUS),
    Metric("total", "total normalised throughput of the jobs that run", Unit.SPEEDUP_GPUS),
    Metric(
        "change",
        "this total less that of the allocation, as a part of it; above 0: more now, less in other rounds",
        Unit.SHARE,
    ),
    Metric("servers", "servers per running job"),
    Metric("spread", "jobs that run on several servers", Unit.COUNT),
    Metric("extra", "servers that these jobs use beyond the fewest that an empty cluster would need", Unit.COUNT),
)
"""Columns of the table after rounding and placement."""


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Comparison(Displayed):
    """The results of several policies on one instance.

    Attributes
    ----------
    instance:
        The instance.
    results:
        Policy name -> its result.
    table:
        A row per measured result with the columns of :data:`COLUMNS`.
    refused:
        Policy name -> why it gave no result, e.g. because it does not apply to the instance.
    unmeasured:
        Policy name -> why its result cannot be measured.
    rounds:
        Policy name -> its first round on servers.
    placed:
        A row per placed result with the columns of :data:`PLACED`; empty if the instance has no jobs.
    unplaced:
        Policy name -> why its measured result cannot be rounded and placed.
    on_part:
        Names of results that are for a part of the jobs; they are listed last, and never recommended.
    """

    instance: Instance
    results: Mapping[str, Allocation | Plan]
    table: pd.DataFrame
    refused: Mapping[str, str]
    unmeasured: Mapping[str, str]
    rounds: Mapping[str, FirstRound]
    placed: pd.DataFrame
    unplaced: Mapping[str, str]
    on_part: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        missing = len(self.refused) + len(self.unmeasured)
        shown = self.table if len(self.table) else dict(self.refused)
        return f"Comparison({counted(len(self.table), 'result')}, {missing} missing)\n{shown}"

    def extended(self, other: Comparison, suffix: str) -> Comparison:
        """Add results on a part of the jobs, with ``suffix`` after their names; they are no longer refused."""

        def add(own: Mapping[str, T], others: Mapping[str, T]) -> dict[str, T]:
            return {**own, **{name + suffix: value for name, value in others.items()}}

        def append(own: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
            return pd.concat([own, others.rename(index=lambda name: name + suffix)])

        return Comparison(
            instance=self.instance,
            results=add(self.results, other.results),
            table=append(self.table, other.table),
            refused={name: why for name, why in self.refused.items() if name not in other.results},
            unmeasured=add(self.unmeasured, other.unmeasured),
            rounds=add(self.rounds, other.rounds),
            placed=append(self.placed, other.placed),
            unplaced=add(self.unplaced, other.unplaced),
            on_part=self.on_part.union(name + suffix for name in other.results),
        )


@dataclass(frozen=True)
class Recommendation:
    """The policy that a comparison recommends, and why.

    Attributes
    ----------
    policy:
        The policy: of those with the fewest violated properties, the one with the highest total.
    violated:
        Fairness properties (columns) that it violates.
    equals:
        Number of policies that violate as few properties, itself included.
    total:
        Its total normalised throughput.
    highest:
        The policy with the highest total of all, and this total.
    """

    policy: str
    violated: tuple[str, ...]
    equals: int
    total: float
    highest: tuple[str, float]


def recommend(comparison: Comparison) -> Recommendation | None:
    """The recommended policy of a comparison; None if no result on all jobs was measured."""
    table = comparison.table.drop(index=list(comparison.on_part), errors="ignore")
    if table.empty:
        return None
    violated = {str(name): violations(dict(row)) for name, row in table.iterrows()}
    total = {str(name): float(value) for name, value in table["total"].items()}
    best, highest = ranked(comparison)[0], max(total, key=lambda name: total[name])
    if total[highest] - total[best] <= EQUAL * scale(total[highest]):
        highest = best
    equals = sum(len(own) == len(violated[best]) for own in violated.values())
    return Recommendation(best, violated[best], equals, total[best], (highest, total[highest]))


def ranked(comparison: Comparison) -> list[str]:
    """Measured policies: the fewest violated properties first, then the highest total; results on a part last.

    Policies whose totals differ only by rounding stay in the order of the comparison.
    """
    order: dict[str, tuple[bool, int, float]] = {
        str(name): (name in comparison.on_part, len(violations(dict(row))), -row["total"])
        for name, row in comparison.table.iterrows()
    }
    first, place = (False, -1, 0.0), dict[str, tuple[bool, int, float]]()
    for name in sorted(order, key=lambda name: order[name]):
        if order[name][:2] != first[:2] or order[name][2] - first[2] > EQUAL * scale(first[2]):
            first = order[name]
        place[name] = first
    return sorted(order, key=lambda name: place[name])


def violations(row: Mapping[str, float]) -> tuple[str, ...]:
    """Fairness properties (columns) that a row of the table violates."""
    return tuple(key for key, column in COLUMNS.items() if column.is_violated(float(row[key])))


def by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason -> the policies that it applies to."""
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
        Tenants, jobs, or both. With tenants, a policy that decides on jobs is measured by the sum over each tenant's
        jobs.
    policies:
        Name -> policy.
    progress:
        Called with the name of each policy before it runs.

    Returns
    -------
    Comparison
        With jobs, each measured result is also rounded and placed for a first round. What fails for a policy is listed
        with the reason: no result, a result that cannot be measured, or one that cannot be placed.

    Raises
    ------
    InvalidOption
        There are no policies.
    """
    if not policies:
        raise InvalidOption("is empty; give one or more policies by name", "policies")
    results: dict[str, Allocation | Plan] = {}
    rows: dict[str, dict[str, float]] = {}
    refused: dict[str, str] = {}
    unmeasured: dict[str, str] = {}
    rounds: dict[str, FirstRound] = {}
    placed: dict[str, dict[str, float]] = {}
    unplaced: dict[str, str] = {}
    for name, policy in policies.items():
        progress(name)
        began = time.perf_counter()
        try:
            results[name] = solve(policy, instance)
        except HetoptError as problem:
            refused[name] = problem.reason
            continue
        seconds = time.perf_counter() - began
        try:
            rows[name] = {**measure(instance, results[name]), "seconds": seconds}
        except HetoptError as problem:
            unmeasured[name] = problem.reason
            continue
        try:
            if instance.jobs:
                first = place(instance, results[name])
                placed[name] = measure_placed(first, rows[name]["total"])
                rounds[name] = first
        except HetoptError as problem:
            unplaced[name] = problem.reason
    return Comparison(
        instance,
        results=results,
        table=_frame(rows, COLUMNS),
        refused=refused,
        unmeasured=unmeasured,
        rounds=rounds,
        placed=_frame(placed, PLACED),
        unplaced=unplaced,
    )


def compare_with_fallback(
    instance: Instance,
    policies: Mapping[str, Formulation | Policy],
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """:func:`compare`; policies that refuse gangs of several sizes fall back on the jobs of the most frequent size."""
    comparison = compare(instance, policies, progress)
    if not comparison.refused or len({job.demand for job in instance.jobs}) < 2:
        return comparison
    alike = of_one_demand(instance)
    others = compare(alike, {name: policies[name] for name in comparison.refused})
    return comparison.extended(others, f" ({alike.jobs[0].demand}-GPU jobs)")


def _frame(rows: Mapping[str, Mapping[str, float]], columns: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(dict(rows), orient="index", columns=list(columns)).rename_axis("policy")


def measure_placed(first: FirstRound, total_before: float) -> dict[str, float]:
    """The numbers of :data:`PLACED` for one round; ``total_before``: the total before rounding."""
    decision = first.decision
    servers = [len(hosts) for hosts in first.hosts.values()]
    runs = decision.gpus.any(axis=1)
    entities, gpus = by_tenant(first.instance, Plan(decision.entities, decision.gpus))
    total = float((normalised(entities) * gpus).sum())
    return {
        "running": float(runs.sum()),
        "waiting": float((~runs).sum()),
        "gpus": float(decision.gpus.sum()),
        "total": total,
        "change": total / total_before - 1.0 if total_before > 0 else 0.0,
        "servers": sum(servers) / len(servers) if servers else np.nan,
        "spread": float(sum(n > 1 for n in servers)),
        "extra": float(decision.given_up.get("extra_servers", 0.0)),
    }


def measure(instance: Instance, result: Allocation | Plan) -> dict[str, float]:
    """The numbers of :data:`COLUMNS` (without seconds) for one result."""
    entities, gpus = by_tenant(instance, result)
    forked = isinstance(result, Plan) and result.placement is not None and bool(result.placement.dispatch)
    speed, most = normalised(entities), None if forked else most_at_once(entities)
    rate = rate_with(speed, gpus, most)
    fair = fair_part_rate(speed, entities.weight, entities.capacity, most)
    plan = Plan(entities, gpus)
    return {
        "total": float(rate.sum()),
        "least": float((rate / entities.weight).min()),
        "sharing": float(np.nan_to_num(sharing_ratio(rate, fair), nan=1.0).min()),  # 1: it can use no GPU
        "envy": largest_relative_envy(entities, gpus),
        "pareto": max(0.0, -pareto_efficient(instance, plan).slack),
        "gpus": float(gpus.sum()),
    }


def normalised(entities: Entities) -> Floats:
    """(n, k) speed per GPU (no unit): speedups of tenants; of jobs, relative to the slowest type that runs them."""
    if entities.kind == "tenants":
        return entities.per_gpu
    return np.asarray(entities.per_gpu / slowest_of_rows(entities.per_gpu, entities.allowed)[:, None])


def by_tenant(instance: Instance, result: Allocation | Plan) -> tuple[Entities, Floats]:
    """Entities and their (n, k) GPUs; GPUs of jobs are summed per tenant if the instance has tenants.

    Raises
    ------
    InvalidInstance
        A job has no tenant, or its tenant has several job types and the job names none.
    """
    entities, gpus = result.entities, result.gpu_array
    if entities.kind == "tenants" or not instance.tenants:
        return entities, gpus
    position = entities.position
    parts = [
        [position[instance.jobs[i].name] for i in jobs if instance.jobs[i].name in position]
        for jobs in members(instance).values()
    ]
    return instance.entities("tenants"), np.array([gpus[rows].sum(axis=0) for rows in parts])


def of_one_demand(instance: Instance) -> Instance:
    """Keep only the jobs with the most frequent demand, for policies that need equal demands."""
    counts = Counter(job.demand for job in instance.jobs)
    demand = min(counts, key=lambda d: (-counts[d], d))
    return instance.with_jobs(job.name for job in instance.jobs if job.demand == demand)
