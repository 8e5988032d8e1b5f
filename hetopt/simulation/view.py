"""What a policy sees of a simulation: the instance as it is now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.data.membership import Owner, owner_of, owners
from hetopt.data.workload import Job, Tenant
from hetopt.simulation.forked import Copy
from hetopt.simulation.overheads import Where
from hetopt.simulation.pipeline import Decision


class Present(Protocol):
    """A job that has arrived and is unfinished."""

    job: Job
    left: float
    last: Where | None
    running: bool


def where_at_first(instance: Instance, job: Job, on_servers: bool) -> Where | None:
    """The GPUs on which the instance says that the job runs: by server where that is wanted and known, else by type."""
    placed = instance.placed.get(job.name, {})
    if placed and on_servers:
        return {(server, t): n for server, gpus in sorted(placed.items()) for t, n in gpus.items() if n}
    held: dict[tuple[str, str], float] = {("", t): n for t, n in instance.held.get(job.name, {}).items() if n}
    for gpus in placed.values() if not held else ():
        for t, n in gpus.items():
            held["", t] = held.get(("", t), 0) + n
    return held or None


def where_now(name: str, gpus: Floats, decision: Decision) -> Where:
    """The servers (or, without placement, the GPU types) that a decision gives to a job."""
    if decision.placement is not None:
        hosts = decision.placement.hosts[name]
        return {(server, t): n for server, own in sorted(hosts.items()) for t, n in own.items() if n}
    pairs = [(decision.entities.types[k], float(gpus[k])) for k in np.flatnonzero(gpus)]
    return {("", t): int(n) if n.is_integer() else n for t, n in pairs}


class View:
    """Makes the instance that a policy sees at some time."""

    def __init__(self, instance: Instance) -> None:
        self.whole = instance
        tenants = {t.name: t for t in instance.tenants}
        self.owner: dict[str, Owner] = {
            j.name: owner_of(j, tenants) for j in instance.jobs if tenants and j.tenant is not None
        }
        names = {owner: name for name, owner in owners(instance).items()}
        self.column = {job: names[owner] for job, owner in self.owner.items()}
        self._speedups = {
            (t.name, kind.name): np.array([kind.speedup[k] for k in instance.cluster.type_names])
            for t in instance.tenants
            for kind in t.job_types
        }
        self._entities = instance.entities("jobs")
        self._shown: tuple[frozenset[Owner], tuple[Tenant, ...], dict[Owner, str]] = (frozenset(), (), {})

    def instance(self, time: float, present: Mapping[str, Present]) -> Instance:
        """The instance with the jobs ``present`` and with those tenants and job types that have one of them.

        ``held`` stays empty (unknown) until the first job has run; from then on it tells what everyone has.
        """
        owners_now = frozenset(self.owner[name] for name in present if name in self.owner)
        if owners_now != self._shown[0]:
            self._shown = (owners_now, *self._tenants(owners_now))
        ran = {name: life for name, life in present.items() if life.last is not None}
        held: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        placed: dict[str, dict[str, dict[str, int]]] = {}
        for name, life in ran.items():
            rows = [held[name]]
            if name in self.owner:
                rows.append(held[self._shown[2][self.owner[name]]])
            for (server, t), n in (life.last or {}).items() if life.running else ():
                for row in rows:
                    row[t] += n
                if server:
                    placed.setdefault(name, {}).setdefault(server, {})[t] = int(n)
        jobs = tuple(life.job for life in present.values())
        done = {name: life.job.work - life.left for name, life in present.items()}
        return replace(self.whole, tenants=self._shown[1], jobs=jobs, time=time, held=held, done=done, placed=placed)

    def _tenants(self, present: frozenset[Owner]) -> tuple[tuple[Tenant, ...], dict[Owner, str]]:
        """The tenants with the job types ``present``, and the entity name of each."""
        kinds = {t: tuple(k for k in t.job_types if (t.name, k.name) in present) for t in self.whole.tenants}
        tenants = tuple(replace(t, job_types=own) for t, own in kinds.items() if own)
        names = owners(Instance(self.whole.cluster, tenants=tenants))
        return tenants, {owner: name for name, owner in names.items()}

    def speedup(self, name: str, gpus: Floats, rate: float) -> float:
        """Normalised throughput of a job: GPUs times its tenant's speedups, less what a slow GPU holds up."""
        if name not in self.owner:
            return 0.0
        i = self._entities.position[name]
        full = float(gpus @ self._entities.task_speed[i]) / float(self._entities.demand[i])
        return float(gpus @ self._speedups[self.owner[name]]) * rate / full

    def speedup_of(self, name: str, copy: Copy) -> float:
        """The same of one copy of a forked job."""
        gpus = np.array([copy.gpus.get(t, 0) for t in self.whole.cluster.type_names], dtype=float)
        return self.speedup(name, gpus, copy.rate)
