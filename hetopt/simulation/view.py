"""The instance that a policy sees at some time of a simulation.

The simulated instance has been checked as a whole, so the visible part is not checked again: it is assembled from
slices of its arrays. Mappings such as ``held`` are built only when they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities, JobTypeKey, job_type_key, job_type_keys
from hetopt.data.gpu_locations import HeldGPUs, Hosts, held_gpus, hosts_of
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Tenant
from hetopt.decisions.system import JobCopy
from hetopt.simulation.estimate_errors import estimated_left
from hetopt.simulation.job_states import JobStates

Value = TypeVar("Value")

COLUMNS = ("arrival", "work", "weight", "checkpoint_bytes")
"""Numbers of jobs that policies read in every round."""


def held_at_start(instance: Instance, job: Job, on_servers: bool) -> HeldGPUs | None:
    """GPUs that the job holds in the instance, or None: by server if ``on_servers`` and known, else by type."""
    placed = instance.placed.get(job.name, {})
    if placed and on_servers:
        return held_gpus(placed)
    held: dict[tuple[str, str], float] = {("", t): n for t, n in instance.held.get(job.name, {}).items() if n}
    for gpus in placed.values() if not held else ():
        for t, n in gpus.items():
            held["", t] = held.get(("", t), 0) + n
    return held or None


class LazyMapping(Mapping[str, Value]):
    """A mapping that is built when it is first read."""

    def __init__(self, make: Callable[[], dict[str, Value]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> dict[str, Value]:
        return self._make()

    def __getitem__(self, key: str) -> Value:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return repr(self._made)

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        return dict, (self._made,)


class VisibleJobs:
    """The visible jobs with their arrays, until the jobs or servers change."""

    def __init__(self, view: InstanceView, who: Positions, cluster: Cluster) -> None:
        all_jobs, estimated = view.estimated_jobs, view.estimated
        self.who, self.cluster = who, cluster
        self.jobs = tuple(estimated.jobs[i] for i in who.tolist())
        self.names = tuple(all_jobs.names[i] for i in who.tolist())
        self.by_name = {job.name: job for job in self.jobs}
        self.position = {name: i for i, name in enumerate(self.names)}
        self.columns = {key: _read_only(estimated.job_array(key)[who]) for key in COLUMNS}
        any_type = _read_only(all_jobs.task_speed[who])
        demand = _read_only(all_jobs.demand[who])
        capacity = _read_only(np.array([cluster.capacity[t] for t in all_jobs.types], dtype=float))
        self.arrays: dict[str, Any] = {
            "kind": "jobs",
            "names": self.names,
            "types": all_jobs.types,
            "speed": _read_only(np.where(demand[:, None] <= capacity, any_type, 0.0)),
            "any_type": any_type,
            "demand": demand,
            "weight": _read_only(all_jobs.weight[who]),
            "owner": _read_only(np.arange(len(who), dtype=np.intp)),
            "capacity": capacity,
            "positions": self.position,
        }
        self.owners = frozenset(view.owner[name] for name in self.names if name in view.owner)
        self.tenants, self.entity_of = view.tenants(self.owners)


class InstanceView:
    """Builds the instance that a policy sees at some time.

    Parameters
    ----------
    instance:
        The simulated instance.
    estimated:
        The same with the errors of estimates, see :class:`~hetopt.simulation.estimate_errors.EstimateErrors`.

    Attributes
    ----------
    true_jobs, estimated_jobs:
        All jobs, with their true speeds and with those that policies see.
    owner:
        Job -> its tenant and job type, for the jobs that belong to a tenant.
    throughput_column:
        Job -> name of its tenant (or tenant/job type) in the log.
    """

    def __init__(self, instance: Instance, estimated: Instance) -> None:
        self.estimated = estimated
        self.true_jobs, self.estimated_jobs = instance.entities("jobs"), estimated.entities("jobs")
        tenants = {t.name: t for t in instance.tenants}
        self.owner: dict[str, JobTypeKey] = {
            j.name: job_type_key(j, tenants) for j in instance.jobs if tenants and j.tenant is not None
        }
        names = {key: name for name, key in job_type_keys(instance).items()}
        self.throughput_column = {job: names[owner] for job, owner in self.owner.items()}
        speedups = instance.entities("tenants").speed if tenants else ()
        self._speedups = dict(zip(names, speedups, strict=True))
        self._visible: VisibleJobs | None = None
        self._tenants_of: tuple[frozenset[JobTypeKey], tuple[Tenant, ...], dict[JobTypeKey, str]]
        self._tenants_of = frozenset(), (), {}

    def tenants(self, present: frozenset[JobTypeKey]) -> tuple[tuple[Tenant, ...], dict[JobTypeKey, str]]:
        """The tenants with the job types ``present``, and the entity name of each."""
        if present != self._tenants_of[0]:
            kinds = {t: tuple(k for k in t.job_types if (t.name, k.name) in present) for t in self.estimated.tenants}
            tenants = tuple(replace(t, job_types=own) for t, own in kinds.items() if own)
            names = job_type_keys(Instance(self.estimated.cluster, tenants=tenants))
            self._tenants_of = present, tenants, {owner: name for name, owner in names.items()}
        return self._tenants_of[1:]

    def instance(self, time: float, who: Positions, cluster: Cluster, states: JobStates) -> Instance:
        """The instance with the jobs ``who`` and the tenants and job types that have one of them.

        ``held`` stays empty (unknown) until the first job has run; from then on it has the GPUs of all jobs. Calls with
        the same array object ``who`` share the arrays of its jobs.
        """
        visible = self._visible
        if visible is None or visible.who is not who or visible.cluster is not cluster:
            visible = self._visible = VisibleJobs(self, who, cluster)
        estimate = visible.columns["work"]
        left = _read_only(estimated_left(estimate, states.work[who] - states.left_at(time, who)))
        ran = [i for i in who.tolist() if states.where[i] is not None]
        where, running = [states.where[i] for i in ran], states.running[ran].tolist()
        fields = {
            "cluster": cluster,
            "tenants": visible.tenants,
            "jobs": visible.jobs,
            "time": time,
            "held": LazyMapping(lambda: self._held(visible, ran, where, running)) if ran else {},
            "done": LazyMapping(lambda: dict(zip(visible.names, (estimate - left).tolist(), strict=True))),
            "placed": LazyMapping(lambda: _placed([self.estimated_jobs.names[i] for i in ran], where, running))
            if ran
            else {},
            "name": self.estimated.name,
            "source": self.estimated.source,
        }
        held = _read_only(states.held[who]) if ran else None
        return Instance.of_entities(
            fields,
            visible.by_name,
            {**visible.columns, "work_left": left},
            lambda instance: Entities(**visible.arrays, held=held, instance=instance),
        )

    def _held(
        self, visible: VisibleJobs, ran: list[int], where: list[HeldGPUs | None], running: list[bool]
    ) -> dict[str, Mapping[str, float]]:
        held: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for i, gpus, runs in zip(ran, where, running, strict=True):
            name = self.estimated_jobs.names[i]
            rows = [held[name]]
            if name in self.owner:
                rows.append(held[visible.entity_of[self.owner[name]]])
            for (_, t), n in (gpus or {}).items() if runs else ():
                for row in rows:
                    row[t] += n
        return dict(held)

    def throughput(self, i: int, gpus: Floats, rate: float) -> float:
        """Normalised throughput of a job: GPUs times its tenant's speedups, reduced as its rate is."""
        owner = self.owner.get(self.true_jobs.names[i])
        if owner is None:
            return 0.0
        full = float(gpus @ self.true_jobs.task_speed[i]) / float(self.true_jobs.demand[i])
        return float(gpus @ self._speedups[owner]) * rate / full

    def copy_throughput(self, i: int, copy: JobCopy) -> float:
        """Normalised throughput of one copy of a forked job."""
        gpus = np.array([copy.gpus.get(t, 0) for t in self.true_jobs.types], dtype=float)
        return self.throughput(i, gpus, copy.rate)


def _placed(names: list[str], where: list[HeldGPUs | None], running: list[bool]) -> dict[str, Hosts]:
    placed = {n: hosts_of(gpus or {}) for n, gpus, runs in zip(names, where, running, strict=True) if runs}
    return {name: hosts for name, hosts in placed.items() if hosts}


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array
