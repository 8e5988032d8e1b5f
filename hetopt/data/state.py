"""The state part of an instance, checked: GPUs held, work done, places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from hetopt.checks import FrozenDict, count, known, mapping, number
from hetopt.data.cluster import Cluster
from hetopt.errors import InvalidInstance

if TYPE_CHECKING:
    from hetopt.data.instance import Instance


def held(
    value: Any, tenants: Collection[str], jobs: Collection[str], cluster: Cluster
) -> Mapping[str, Mapping[str, float]]:
    """Entity -> GPU type -> GPUs >= 0; ``tenants`` are the names of tenants or of their job types."""
    tenants = set(tenants)
    names = tenants.union(jobs)
    result: dict[str, FrozenDict[str, float]] = {}
    for entity, gpus in mapping(value, "held").items():
        key = f"held[{entity!r}]"
        known(entity, names, "held", "tenant or job")
        if entity in tenants and entity in jobs:
            raise InvalidInstance(f"{key} may mean the tenant or the job of that name; give one another name")
        row = {known(t, cluster.type_names, key, "GPU type"): n for t, n in mapping(gpus, key).items()}
        result[entity] = FrozenDict({t: number(n, f"{key}[{t!r}]") for t, n in row.items()})
    return FrozenDict(result)


def done(value: Any, jobs: Collection[str]) -> Mapping[str, float]:
    """Job -> work done >= 0."""
    rows = mapping(value, "done").items()
    return FrozenDict({known(j, jobs, "done", "job"): number(w, f"done[{j!r}]") for j, w in rows})


def placed(value: Any, jobs: Collection[str], cluster: Cluster) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Job -> server -> GPU type -> whole GPUs, no server holding more than it has."""
    result: dict[str, FrozenDict[str, FrozenDict[str, int]]] = {}
    used: Counter[tuple[str, str]] = Counter()
    for job, hosts in mapping(value, "placed").items():
        known(job, jobs, "placed", "job")
        rows: dict[str, FrozenDict[str, int]] = {}
        for server, gpus in mapping(hosts, f"placed[{job!r}]").items():
            key = f"placed[{job!r}][{server!r}]"
            known(server, cluster.by_name, f"placed[{job!r}]", "server")
            rows[server] = FrozenDict({t: count(n, f"{key}[{t!r}]") for t, n in mapping(gpus, key).items()})
            for t, n in rows[server].items():
                known(t, cluster.type_names, key, "GPU type")
                used[server, t] += n
        result[job] = FrozenDict(rows)
    for (server, t), n in used.items():
        if n > (there := cluster.by_name[server].gpus.get(t, 0)):
            raise InvalidInstance(f"placed puts jobs on {n} {t} of server {server!r}; it has {there}")
    return FrozenDict(result)


def at(instance: Instance, time: float) -> dict[str, Any]:
    """The fields of ``instance`` that are others at ``time``; see :meth:`hetopt.Instance.at`."""
    arrived = [j for j in instance.jobs if j.arrival <= time]
    jobs = tuple(j for j in arrived if instance.work_left(j.name) > 0)
    if instance.jobs and not jobs:
        raise InvalidInstance(f"time is {time:.15g} s; {_why_none(instance, time)}")
    gone = {j.name for j in instance.jobs} - {j.name for j in jobs}
    rows = {
        key: {name: row for name, row in getattr(instance, key).items() if name not in gone}
        for key in ("held", "done", "placed")
    }
    if len(rows["held"]) < len(instance.held) and not any(j.name in rows["held"] for j in jobs):
        rows["held"][jobs[0].name] = FrozenDict()  # that those who are left hold nothing is still known
    return {"jobs": jobs, "time": time, **rows}


def _why_none(instance: Instance, time: float) -> str:
    """Why no job is present."""
    first = min(instance.jobs, key=lambda j: j.arrival)
    if first.arrival > time:
        return f"no job has arrived by then, the first is {first.name!r} at {first.arrival:.15g} s"
    coming = [j.arrival for j in instance.jobs if j.arrival > time]
    later = f"; the next arrives at {min(coming):.15g} s" if coming else ""
    return f"every job that has arrived by then is finished{later}"
