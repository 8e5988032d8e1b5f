"""The state part of an instance, checked: GPUs held, work done, places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from math import fsum
from typing import TYPE_CHECKING, Any, TypeAlias

from hetopt.checks import FrozenDict, count, known, mapping, number
from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job
from hetopt.errors import InvalidInstance
from hetopt.tolerances import FEASIBILITY, scale

if TYPE_CHECKING:
    from hetopt.data.instance import Instance

Placed: TypeAlias = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Job -> server -> GPU type -> GPUs."""


def held(
    value: Any, tenants: Collection[str], jobs: Collection[str], cluster: Cluster, placed: Placed
) -> Mapping[str, Mapping[str, float]]:
    """Entity -> GPU type -> GPUs >= 0, of each kind of entity no more than there are.

    ``tenants`` are the names of tenants or of their job types. What jobs are ``placed`` on they hold.
    """
    names = {*tenants, *jobs}
    result: dict[str, FrozenDict[str, float]] = {}
    for entity, gpus in mapping(value, "held").items():
        key = f"held[{entity!r}]"
        known(entity, names, "held", "tenant or job")
        row = {known(t, cluster.type_names, key, "GPU type"): n for t, n in mapping(gpus, key).items()}
        result[entity] = FrozenDict({t: number(n, f"{key}[{t!r}]") for t, n in row.items()})
    for job, there in _by_type(placed).items():
        told = result.setdefault(job, FrozenDict(there))
        if {t: n for t, n in told.items() if n} != there:
            raise InvalidInstance(
                f"held[{job!r}] is {_gpus(told)}, but placed[{job!r}] is on {_gpus(there)}; they must agree"
            )
    for kind, those in (("tenants", tenants), ("jobs", jobs)):
        _check_capacity(kind, [result[name] for name in those if name in result], cluster)
    return FrozenDict(result)


def _by_type(placed: Placed) -> dict[str, dict[str, int]]:
    """Job -> GPU type -> GPUs on all its servers."""
    result: dict[str, dict[str, int]] = {}
    for job, hosts in placed.items():
        total: Counter[str] = Counter()
        for gpus in hosts.values():
            total.update({t: n for t, n in gpus.items() if n})
        result[job] = dict(total)
    return result


def _gpus(row: Mapping[str, float]) -> str:
    return " + ".join(f"{n:.15g} {t}" for t, n in row.items() if n) or "nothing"


def _check_capacity(kind: str, rows: list[FrozenDict[str, float]], cluster: Cluster) -> None:
    """Tenants hold together, as averages over time, at most the GPUs that there are, and so do jobs."""
    for t, there in cluster.capacity.items():
        if (total := fsum(row.get(t, 0.0) for row in rows)) > there + FEASIBILITY * scale([there]):
            raise InvalidInstance(f"held gives {kind} {total:.15g} {t} together; the cluster has {there}")


def done(value: Any, jobs: Collection[str]) -> Mapping[str, float]:
    """Job -> work done >= 0."""
    rows = mapping(value, "done").items()
    return FrozenDict({known(j, jobs, "done", "job"): number(w, f"done[{j!r}]") for j, w in rows})


def placed(value: Any, jobs: Mapping[str, Job], cluster: Cluster) -> Placed:
    """Job -> server -> GPU type -> whole GPUs, a gang whole or not at all, no server holding more than it has."""
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
    for job, by_type in _by_type(result).items():
        demand = jobs[job].demand
        forked = all(sum(gpus.values()) in (0, demand) for gpus in result[job].values())
        if (total := sum(by_type.values())) not in (0, demand) and not forked:
            raise InvalidInstance(
                f"placed[{job!r}] has {total} GPUs; a gang runs on its demand, {demand}, "
                "and each copy of a forked job on so many of one server"
            )
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
