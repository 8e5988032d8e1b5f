"""The fields of an instance and their checks: cluster, tenants, jobs, and their current state."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from operator import attrgetter
from typing import Any, Self

import numpy as np

from hetopt import checks
from hetopt.checks import FrozenDict, boolean, count, is_real, known, mapping, members, number, shown, unique
from hetopt.data.array_types import Floats
from hetopt.data.capacity import type_parts
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import Placed
from hetopt.data.packing import Packing, PackingTable, packing_table
from hetopt.data.workload import Job, JobType, Tenant, slowest, warn_of_scale
from hetopt.errors import InvalidInstance, Item, KeyPath
from hetopt.tolerances import EQUAL


@dataclass(frozen=True)
class InstanceData:
    """The checked fields of :class:`hetopt.Instance`, where they are described."""

    cluster: Cluster
    tenants: tuple[Tenant, ...] = ()
    jobs: tuple[Job, ...] = ()
    time: float = 0.0
    held: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    done: Mapping[str, float] = field(default_factory=dict)
    placed: Placed = field(default_factory=dict)
    name: str = ""
    source: str = ""
    packings: tuple[Packing, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.cluster, Cluster):
            raise InvalidInstance(
                f"is {shown(self.cluster)}; it must be a Cluster, e.g. Cluster.of({{'V100': 4}})", "cluster"
            )
        object.__setattr__(self, "tenants", members(self.tenants, Tenant, "tenants"))
        object.__setattr__(self, "jobs", members(self.jobs, Job, "jobs"))
        object.__setattr__(self, "time", number(self.time, "time"))
        for key in ("name", "source"):
            if not isinstance(getattr(self, key), str):
                raise InvalidInstance(f"is {getattr(self, key)!r}; it must be text", key)
        unique((t.name for t in self.tenants), "tenant")
        unique(tenant_entity_names(self), "tenant or tenant/job type")
        unique((j.name for j in self.jobs), "job")
        unique((*tenant_entity_names(self), *(j.name for j in self.jobs)), "tenant or job")
        check_speeds(self)
        self._check_jobs()
        object.__setattr__(self, "packings", members(self.packings, Packing, "packings"))
        _ = self.packing_table  # rejects unknown GPU types and packings that occur twice
        jobs, tenants = {j.name: j for j in self.jobs}, tenant_entity_names(self)
        object.__setattr__(self, "done", check_done(self.done, jobs))
        object.__setattr__(self, "placed", check_placed(self.placed, jobs, self.cluster, self.halved))
        held = check_held(self.held, tenants, jobs, self.cluster, self.placed, self.halved)
        object.__setattr__(self, "held", held)

    def _check_jobs(self) -> None:
        job_types = {t.name: {job_type.name for job_type in t.job_types} for t in self.tenants}
        total = sum(self.cluster.capacity.values())
        for job in self.jobs:
            if job.tenant is not None and self.tenants:
                known(job.tenant, job_types, ("jobs", Item(job.name), "tenant"), "tenant")
                if job.job_type is not None:
                    known(job.job_type, job_types[job.tenant], ("jobs", Item(job.name), "job_type"), "job type")
            if job.demand > total:
                raise InvalidInstance(
                    f"is {job.demand} GPUs, but the cluster has {total}; it could never run",
                    ("jobs", Item(job.name), "demand"),
                )

    @cached_property
    def halved(self) -> frozenset[str]:
        """Jobs that hold half of their gang's GPUs, as they share them: jobs without sizes of models with a packing."""
        if not (self.packings and isinstance(self.held, Mapping)):
            return frozenset()
        models, found = {model for one in self.packings for model in one.models}, set[str]()
        for job in self.jobs:
            gpus = self.held.get(job.name) if job.model in models and not job.sizes else None
            if isinstance(gpus, Mapping) and sum(n for n in gpus.values() if is_real(type(n))) == job.demand / 2:
                found.add(job.name)
        return frozenset(found)

    @cached_property
    def packing_table(self) -> PackingTable:
        """The packings by their models."""
        return packing_table(self.packings, self.cluster.type_names)

    @classmethod
    def trusted(cls, fields: Mapping[str, Any], job: Mapping[str, Job], job_arrays: Mapping[str, Floats]) -> Self:
        """An instance of already checked fields, without checking them again.

        Parameters
        ----------
        fields:
            Every field.
        job, job_arrays:
            The jobs by name; attributes of jobs as read-only arrays, as :meth:`job_array` returns them.
        """
        made = object.__new__(cls)
        for key, value in {**fields, "job": job, "_job_arrays": dict(job_arrays)}.items():
            object.__setattr__(made, key, value)
        return made

    def __str__(self) -> str:
        """One line, e.g. ``oef/eq6: 2 tenants, 0 jobs; 1 GPU1 + 1 GPU2 on 2 servers; time 0 s``."""
        gpus = " + ".join(f"{count} {gpu_type}" for gpu_type, count in self.cluster.capacity.items())
        return (
            f"{self.name or 'instance'}: {len(self.tenants)} tenants, {len(self.jobs)} jobs; "
            f"{gpus} on {len(self.cluster.servers)} servers; time {self.time:g} s"
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields only; cached arrays are computed again when needed."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Job name -> job."""
        return FrozenDict({j.name: j for j in self.jobs})

    def work_left(self, name: str) -> float:
        """Work that the job still has to do, in the unit of ``Job.work``; never negative."""
        return max(0.0, self.job[name].work - self.done.get(name, 0.0))

    def job_array(self, attribute: str) -> Floats:
        """(n,) one numeric field of every job, in order, or ``"work_left"``; cached."""
        if attribute not in self._job_arrays:
            if attribute == "work_left":
                done = np.array([self.done.get(job.name, 0.0) for job in self.jobs]) if self.done else 0.0
                values = np.maximum(column(self.jobs, "work") - done, 0.0)
            else:
                values = column(self.jobs, attribute)
            values.flags.writeable = False
            self._job_arrays[attribute] = values
        return self._job_arrays[attribute]

    @cached_property
    def _job_arrays(self) -> dict[str, Floats]:
        return {}


STATE_FIELDS = {f.name for f in dataclasses.fields(InstanceData)} - {"cluster", "tenants", "jobs"}
"""Fields of the current state, in addition to cluster and entities."""


def tenant_entity_names(instance: InstanceData) -> list[str]:
    """One name per (tenant, job type): that of the tenant if it has a single job type."""
    return entity_names(instance.tenants)


def entity_names(tenants: Iterable[Tenant]) -> list[str]:
    """As :func:`tenant_entity_names`, of these tenants."""
    return [
        t.name if len(t.job_types) == 1 else f"{t.name}/{job_type.name}" for t in tenants for job_type in t.job_types
    ]


def _check_types(instance: InstanceData, key: KeyPath, given: Collection[str]) -> None:
    known = instance.cluster.type_names
    if tuple(given) == known:
        return
    for name in given:
        checks.known(name, known, key, "GPU type")
    for name in known:
        if name not in given:
            raise InvalidInstance(f"has no value for GPU type {name!r}; give one (0 where it cannot run)", key)


def check_speeds(instance: InstanceData) -> None:
    """Raise :class:`InvalidInstance` unless every job type and job has a speed for exactly the cluster's types.

    One of them must be positive on a GPU type whose memory is large enough.
    """
    memory = {t.name: t.memory_bytes for t in instance.cluster.gpu_types if t.memory_bytes is not None}
    for tenant in instance.tenants:
        key: KeyPath = ("tenants", Item(tenant.name))
        for job_type in tenant.job_types:
            _check_types(instance, (*key, "speedup"), job_type.speedup)
            _check_memory(memory, key, job_type.speedup, job_type.memory_bytes)
    for job in instance.jobs:
        key = ("jobs", Item(job.name))
        _check_types(instance, (*key, "throughput"), job.throughput)
        _check_memory(memory, key, job.throughput, job.memory_bytes)


def _check_memory(memory: Mapping[str, float], key: KeyPath, speeds: Mapping[str, float], need: float) -> None:
    if need and not any(speed > 0 and need <= memory.get(t, np.inf) for t, speed in speeds.items()):
        raise InvalidInstance(
            f"is {need:g}; it fits no GPU type that it can run on: {dict(memory)!r} (bytes)", (*key, "memory_bytes")
        )


def warn_of_scales(
    instance: InstanceData, any_scale: Any, where: Callable[[int, Tenant, JobType], str], remedy: str
) -> None:
    """As :func:`~hetopt.data.workload.warn_of_scale` for the tenants of ``instance``, unless ``any_scale``.

    ``where`` gets position, tenant and job type.
    """
    if not boolean(any_scale, "any_scale", InvalidInstance):
        rows = [(i, tenant, job_type) for i, tenant in enumerate(instance.tenants) for job_type in tenant.job_types]
        warn_of_scale([slowest(job_type.speedup) for _, _, job_type in rows], lambda i: where(*rows[i]), remedy)


def column(items: Sequence[Any], attribute: str) -> Floats:
    """(n,) one numeric attribute of n items."""
    return np.array(list(map(attrgetter(attribute), items)), dtype=float)


def check_held(
    value: Any,
    tenants: Collection[str],
    jobs: Collection[str],
    cluster: Cluster,
    placed: Placed,
    halved: Collection[str] = (),
) -> Mapping[str, Mapping[str, float]]:
    """Entity -> GPU type -> GPUs >= 0, of each kind of entity no more than there are.

    ``tenants`` are the names of tenants or of their job types. Jobs hold the GPUs on which they are ``placed``; those
    in ``halved`` share them, and hold half of each.
    """
    names = {*tenants, *jobs}
    result: dict[str, FrozenDict[str, float]] = {}
    for entity, gpus in mapping(value, "held").items():
        key = ("held", Item(entity))
        known(entity, names, "held", "tenant or job")
        row = {known(t, cluster.type_names, key, "GPU type"): n for t, n in mapping(gpus, key).items()}
        result[entity] = FrozenDict({t: number(n, (*key, Item(t))) for t, n in row.items()})
    for job, gpus_there in _by_type(placed).items():
        there = {t: n / 2 for t, n in gpus_there.items()} if job in halved else gpus_there
        given = result.setdefault(job, FrozenDict(there))
        if {t: n for t, n in given.items() if n} != there:
            raise InvalidInstance(
                f"is {_gpus(given)}, but placed[{job!r}] is on {_gpus(there)}; they must agree", ("held", Item(job))
            )
    for kind, entities in (("tenants", tenants), ("jobs", jobs)):
        _check_capacity(kind, [result[name] for name in entities if name in result], cluster)
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
    """Tenants together hold at most all GPUs, as averages over time; the same holds for jobs."""
    for t, there in cluster.capacity.items():
        if type_parts((total := fsum(row.get(t, 0.0) for row in rows)) - there, there) > EQUAL:
            raise InvalidInstance(f"gives {kind} {total:.15g} {t} together; the cluster has {there}", "held")


def check_done(value: Any, jobs: Collection[str]) -> Mapping[str, float]:
    """Job -> work done >= 0."""
    rows = mapping(value, "done").items()
    return FrozenDict({known(j, jobs, "done", "job"): number(w, ("done", Item(j))) for j, w in rows})


def check_placed(value: Any, jobs: Mapping[str, Job], cluster: Cluster, halved: Collection[str] = ()) -> Placed:
    """Job -> server -> GPU type -> whole GPUs: whole gangs only, and no server over its capacity.

    Jobs in ``halved`` share their GPUs, and count half of each.
    """
    result: dict[str, FrozenDict[str, FrozenDict[str, int]]] = {}
    used: Counter[tuple[str, str]] = Counter()  # in halves of GPUs
    for job, hosts in mapping(value, "placed").items():
        known(job, jobs, "placed", "job")
        rows: dict[str, FrozenDict[str, int]] = {}
        for server, gpus in mapping(hosts, ("placed", Item(job))).items():
            key = ("placed", Item(job), Item(server))
            known(server, cluster.by_name, ("placed", Item(job)), "server")
            rows[server] = FrozenDict({t: count(n, (*key, Item(t))) for t, n in mapping(gpus, key).items()})
            for t, n in rows[server].items():
                known(t, cluster.type_names, key, "GPU type")
                used[server, t] += n if job in halved else 2 * n
        result[job] = FrozenDict(rows)
    for (server, t), n in used.items():
        if n > 2 * (there := cluster.by_name[server].gpus.get(t, 0)):
            raise InvalidInstance(f"puts jobs on {n / 2:g} {t} of server {server!r}; it has {there}", "placed")
    for job, by_type in _by_type(result).items():
        demand = jobs[job].demand
        forked = all(sum(gpus.values()) in (0, demand) for gpus in result[job].values())
        if (total := sum(by_type.values())) not in (0, *jobs[job].rates) and not forked:
            sizes = "" if not jobs[job].sizes else f" (or, as it is elastic, one of {[*jobs[job].rates]})"
            raise InvalidInstance(
                f"has {total} GPUs; a gang runs on its demand, {demand}{sizes}, "
                "and each copy of a forked job on this number of one server",
                ("placed", Item(job)),
            )
    return FrozenDict(result)
