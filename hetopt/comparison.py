"""Several policies on one instance, side by side and judged alike."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hetopt.allocation import Allocation, Plan
from hetopt.auditing import pareto_efficient
from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance
from hetopt.data.membership import members
from hetopt.envy import largest_envy
from hetopt.errors import HetoptError
from hetopt.programs.formulation import Formulation
from hetopt.solving.road import Policy, solve
from hetopt.tolerances import VISIBLE

COLUMNS = {
    "total": "total normalised throughput: what as many GPUs of the slowest type would yield",
    "least": "least normalised throughput per weight",
    "sharing": "least rate / rate with the fair part of every GPU type; 1 or more: the sharing incentive holds",
    "envy": "largest gain that someone would have with another's GPUs; 0: envy-free",
    "pareto": "gains possible without loss to others, in parts of a rate with the whole cluster; 0: Pareto-efficient",
    "gpus": "GPUs in use",
    "seconds": "wall time from the instance to the result",
}
"""Columns of the table and what they mean."""


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
    """

    instance: Instance
    results: Mapping[str, Allocation | Plan]
    table: pd.DataFrame
    refused: Mapping[str, str]

    def extended(self, other: Comparison, label: str) -> Comparison:
        """With the rows of another comparison, named by ``label.format(name)``; what ran there is refused no longer."""
        names = {name: label.format(name) for name in other.results}
        return Comparison(
            self.instance,
            {**self.results, **{names[name]: result for name, result in other.results.items()}},
            pd.concat([self.table, other.table.rename(index=names)]),
            {name: why for name, why in self.refused.items() if name not in other.results},
        )


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
        Policies that refuse the instance are listed with the reason, and the others go on.
    """
    results: dict[str, Allocation | Plan] = {}
    rows: dict[str, dict[str, float]] = {}
    refused: dict[str, str] = {}
    for name, policy in policies.items():
        progress(name)
        began = time.perf_counter()
        try:
            result = solve(policy, instance)
            seconds = time.perf_counter() - began
            rows[name] = {**judge(instance, result), "seconds": seconds}
            results[name] = result
        except HetoptError as problem:
            refused[name] = str(problem)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS)).rename_axis("policy")
    return Comparison(instance, results, table, refused)


def judge(instance: Instance, result: Allocation | Plan) -> dict[str, float]:
    """The numbers of :data:`COLUMNS` (without seconds) for one result."""
    entities, gpus = by_tenant(instance, result)
    speed = normalised(entities)
    rate = np.einsum("ek,ek->e", speed, gpus)
    fair = entities.weight / entities.weight.sum() * (speed @ entities.capacity)
    plan = Plan(entities, gpus)
    return {
        "total": float(rate.sum()),
        "least": float((rate / entities.weight).min()),
        "sharing": float((rate / fair).min()),
        "envy": largest_envy(entities, gpus),
        "pareto": max(0.0, -pareto_efficient(instance, plan).slack),
        "gpus": float(gpus.sum()),
    }


def normalised(entities: Entities) -> Floats:
    """(n, k) speed per GPU relative to the slowest type that runs the entity; no unit."""
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
