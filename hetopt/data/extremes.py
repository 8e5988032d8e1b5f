"""The two numbers of an instance with the largest ratio, the usual reason for a solver's failure."""

from __future__ import annotations

from collections.abc import Iterator

from hetopt.data.instance import Instance
from hetopt.data.workload import ONLY_JOB_TYPE

FAR = 1e6
"""Smallest ratio that is reported; measured data stay far below."""


def farthest_apart(instance: Instance) -> str:
    """Keys and values of the two numbers with the largest ratio, as text; empty if all ratios are small."""
    groups = [sorted(group, key=lambda pair: pair[1]) for group in _groups(instance)]
    largest = max((group for group in groups if group), key=lambda group: group[-1][1] / group[0][1])
    (low, least), (high, most) = largest[0], largest[-1]
    return f"{high} is {most:g}, {low} is {least:g}" if most / least >= FAR else ""


def _groups(instance: Instance) -> Iterator[list[tuple[str, float]]]:
    """Groups of comparable numbers: (key, positive value) pairs."""
    capacity = instance.cluster.capacity.items()
    yield [("one GPU", 1.0), *((f"cluster.capacity[{t!r}]", float(n)) for t, n in capacity if n)]
    for kind in ("tenants", "jobs"):
        rows = getattr(instance, kind)
        yield [(f"{kind}[{row.name!r}].weight", row.weight) for row in rows]
    speedups = [
        (f"tenants[{tenant.name!r}].job_types[{job_type.name!r}].speedup[{t!r}]", speed)
        for tenant in instance.tenants
        for job_type in tenant.job_types
        for t, speed in job_type.speedup.items()
    ]
    yield [(key.replace(f".job_types[{ONLY_JOB_TYPE!r}]", ""), speed) for key, speed in speedups if speed]
    throughputs = [(f"jobs[{j.name!r}].throughput[{t!r}]", v) for j in instance.jobs for t, v in j.throughput.items()]
    yield [(key, speed) for key, speed in throughputs if speed]
    yield [(f"jobs[{job.name!r}].work", job.work) for job in instance.jobs]
