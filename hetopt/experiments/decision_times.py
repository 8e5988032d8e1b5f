"""Measuring how long policies take to decide as instances grow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

import pandas as pd

from hetopt.data.instance import Instance
from hetopt.errors import InvalidOption
from hetopt.formulations.policies import Policy, check_policy, solve


def decision_seconds(policies: Mapping[str, Policy], instances: Mapping[int, Sequence[Instance]]) -> pd.DataFrame:
    """Median seconds of one decision, from the instance to the plan.

    Every decision starts from a copy of the instance without cached arrays. Policies alternate on each instance, so
    that load on the machine affects all of them.

    Parameters
    ----------
    policies:
        Name -> policy or formulation.
    instances:
        Size, such as the number of jobs -> instances of that size.

    Returns
    -------
    DataFrame
        Index ``size``, a column per policy.

    Raises
    ------
    InvalidOption
        No policy, no size, or a size without instances.
    """
    if not policies or not instances or not all(instances.values()):
        raise InvalidOption("needs a policy, a size, and an instance of each size", "decision_seconds")
    for policy in policies.values():
        check_policy(policy)
    rows: dict[int, dict[str, float]] = {}
    for size in sorted(instances):
        seconds: dict[str, list[float]] = {name: [] for name in policies}
        for instance in instances[size]:
            for name, policy in policies.items():
                fresh = instance.replace()
                began = time.perf_counter()
                solve(policy, fresh)
                seconds[name].append(time.perf_counter() - began)
        rows[size] = {name: statistics.median(own) for name, own in seconds.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(policies))
    table.index.name = "size"
    return table
