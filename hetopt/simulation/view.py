"""The instance that a policy sees at some time of a simulation.

The simulated instance has been checked as a whole, so the visible part is not checked again: it is assembled from
slices of its arrays. Mappings such as ``held`` are built only when they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities, JobTypeKey, job_type_key, job_type_keys
from hetopt.data.gpu_locations import HeldGPUs, Hosts, held_gpus, hosts_of
from hetopt.data.instance import Instance
from hetopt.data.instance_data import entity_names
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.decisions.system import JobCopy
from hetopt.simulation.estimate_errors import estimated_left
from hetopt.simulation.job_states import JobStates
from hetopt.simulation.seen_phases import SeenPhases

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

    def get(self, key: str, default: Any = None) -> Any:
        """As of any mapping; without this, a missing key raises an error within."""
        return self._made.get(key, default)

    def items(self) -> ItemsView[str, Value]:
        """As of any mapping; without this, each item would be a call of Python."""
        return self._made.items()

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
        self.jobs, self.names = tuple(view.phases.jobs[who].tolist()), tuple(view.names[who].tolist())
        self.by_name = dict(zip(self.names, self.jobs, strict=True))
        self.position = dict(zip(self.names, range(len(who)), strict=True))
        self.columns = {key: _read_only(estimated.job_array(key)[who]) for key in COLUMNS}
        self.columns["work"] = _read_only(view.phases.work[who])
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
            "other_sizes": {e: all_jobs.other_sizes[i] for e, i in enumerate(who.tolist()) if i in all_jobs.other_sizes}
            if all_jobs.other_sizes
            else {},
        }
        self.tenants, self.entity_of = view.tenants(frozenset(view.owner_number[who].tolist()))


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
    phases:
        The phases of jobs that policies see.
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
        self.phases, self.names = SeenPhases(instance.jobs, estimated.jobs), _objects(self.true_jobs.names)
        names = {key: name for name, key in job_type_keys(instance).items()}
        numbers = {key: number for number, key in enumerate(names)}
        owners = map(self.owner.get, self.true_jobs.names)
        self.owner_number = np.array([-1 if owner is None else numbers[owner] for owner in owners])
        self._job_types = [(t, kind) for t in estimated.tenants for kind in t.job_types]
        self.throughput_column = {job: names[owner] for job, owner in self.owner.items()}
        speedups = instance.entities("tenants").speed if tenants else ()
        self._speedups = dict(zip(names, speedups, strict=True))
        self._visible: VisibleJobs | None = None
        self._tenants_of: tuple[frozenset[int], tuple[Tenant, ...], dict[JobTypeKey, str]]
        self._tenants_of = frozenset(), (), {}
        self._partial: dict[tuple[str, tuple[str, ...]], Tenant] = {}

    def tenants(self, present: frozenset[int]) -> tuple[tuple[Tenant, ...], dict[JobTypeKey, str]]:
        """The tenants with the job types of these numbers, and the entity name of each."""
        if present != self._tenants_of[0]:
            pairs = [self._job_types[number] for number in sorted(present) if number >= 0]
            kinds = {t.name: (t, [kind for _, kind in own]) for t, own in groupby(pairs, itemgetter(0))}
            tenants = tuple(self._tenant(t, tuple(own)) for t, own in kinds.values())
            keys = [(t.name, kind.name) for t, kind in pairs]
            names = dict(zip(keys, entity_names(tenants), strict=True))
            self._tenants_of = present, tenants, names
        return self._tenants_of[1:]

    def _tenant(self, tenant: Tenant, job_types: tuple[JobType, ...]) -> Tenant:
        """The tenant with some of its job types."""
        key = tenant.name, tuple(kind.name for kind in job_types)
        if key not in self._partial:
            self._partial[key] = replace(tenant, job_types=job_types)
        return self._partial[key]

    def instance(self, time: float, who: Positions, cluster: Cluster, states: JobStates) -> Instance:
        """The instance with the jobs ``who`` and the tenants and job types that have one of them.

        ``held`` stays empty (unknown) until the first job has run; from then on it has the GPUs of all jobs. Calls with
        the same array object ``who`` share the arrays of its jobs until one of them begins a phase.
        """
        visible, done = self._visible, states.work[who] - states.left_at(time, who)
        changed = self.phases.any and self.phases.advance(who, done)
        if visible is None or changed or visible.who is not who or visible.cluster is not cluster:
            visible = self._visible = VisibleJobs(self, who, cluster)
        estimate = visible.columns["work"]
        left = _read_only(estimated_left(estimate, done))
        ran = who[states.ran[who]]
        where = {i: states.where[i] or {} for i in who[states.running[who]].tolist()}
        halves = {i: 0.5 for i in states.shares if i in where}
        fields = {
            "cluster": cluster,
            "tenants": visible.tenants,
            "jobs": visible.jobs,
            "time": time,
            "held": LazyMapping(lambda: self._held(visible, ran, where, halves)) if len(ran) else {},
            "done": LazyMapping(lambda: dict(zip(visible.names, (estimate - left).tolist(), strict=True))),
            "placed": LazyMapping(lambda: self._placed(where)) if len(ran) else {},
            "name": self.estimated.name,
            "source": self.estimated.source,
            "packings": self.estimated.packings,
            "packing_table": self.estimated.packing_table,
        }
        held = _read_only(states.held[who]) if len(ran) else None
        return Instance.of_entities(
            fields,
            visible.by_name,
            {**visible.columns, "work_left": left},
            lambda instance: Entities(**visible.arrays, held=held, instance=instance),
        )

    def _held(
        self, visible: VisibleJobs, ran: Positions, where: Mapping[int, HeldGPUs], halves: Mapping[int, float]
    ) -> dict[str, Any]:
        """Entity -> GPU type -> GPUs; ``where``: of the running jobs; ``halves``: part of it that counts."""
        held: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for i in ran.tolist():
            name = self.estimated_jobs.names[i]
            rows = [held[name]]
            if name in self.owner:
                rows.append(held[visible.entity_of[self.owner[name]]])
            gpus, counted = where.get(i, {}), halves.get(i, 1.0)
            for (_, t), n in gpus.items():
                for row in rows:
                    row[t] += counted * n
        return dict(held)

    def _placed(self, where: Mapping[int, HeldGPUs]) -> dict[str, Hosts]:
        """Running job -> server -> GPU type -> GPUs."""
        names = self.estimated_jobs.names
        return {names[i]: hosts for i, gpus in where.items() if (hosts := hosts_of(gpus))}

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


def _objects(items: Sequence[object]) -> Any:
    """(n,) the items as an array, from which numpy takes some faster than Python does."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array
