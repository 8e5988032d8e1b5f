"""The instance: a cluster, who wants it, and the state it is in now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pyomo.common.gc_manager import PauseGC

from hetopt.checks import FrozenDict, boolean, known, members, number, unique
from hetopt.data import arrays, scale, state
from hetopt.data.cluster import Cluster
from hetopt.data.entities import (
    Entities,
    Floats,
    Kind,
    check_kind,
    check_speeds,
    column,
    job_entities,
    tenant_entities,
    tenant_entity_names,
)
from hetopt.data.workload import Job, Tenant
from hetopt.errors import InvalidInstance


@dataclass(frozen=True)
class Instance:
    """Everything that a policy may know.

    Parameters
    ----------
    cluster:
        GPU types and servers.
    tenants:
        Those who are owed fair parts; may be empty where only jobs matter.
    jobs:
        Jobs present now; may be empty where tenants always have enough work.
    time:
        Now, in seconds.
    held:
        Entity (tenant, ``tenant/job type``, or job) -> GPU type -> GPUs held now. Where it names no tenant (no job),
        what tenants (jobs) hold is unknown, and then a switching cost is zero. Jobs hold what they are placed on.
    done:
        Job -> work done so far (unit of ``Job.work``); absent means 0.
    placed:
        Job -> server -> GPU type -> GPUs: where it runs now.
    name, source:
        What the instance is called and where its numbers come from.

    Raises
    ------
    InvalidInstance
        Duplicate or unknown names, missing GPU types, negative numbers, a gang larger than the cluster, more GPUs
        held than there are.
    """

    cluster: Cluster
    tenants: tuple[Tenant, ...] = ()
    jobs: tuple[Job, ...] = ()
    time: float = 0.0
    held: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    done: Mapping[str, float] = field(default_factory=dict)
    placed: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.cluster, Cluster):
            raise InvalidInstance(f"cluster is {self.cluster!r}; it must be a Cluster, e.g. Cluster.of({{'V100': 4}})")
        object.__setattr__(self, "tenants", members(self.tenants, Tenant, "tenants"))
        object.__setattr__(self, "jobs", members(self.jobs, Job, "jobs"))
        object.__setattr__(self, "time", number(self.time, "time"))
        for key in ("name", "source"):
            if not isinstance(getattr(self, key), str):
                raise InvalidInstance(f"{key} is {getattr(self, key)!r}; it must be text")
        unique((t.name for t in self.tenants), "tenant")
        unique(tenant_entity_names(self), "tenant or tenant/job type")
        unique((j.name for j in self.jobs), "job")
        unique((*tenant_entity_names(self), *(j.name for j in self.jobs)), "tenant or job")
        check_speeds(self)
        self._check_jobs()
        jobs, tenants = {j.name: j for j in self.jobs}, tenant_entity_names(self)
        object.__setattr__(self, "done", state.done(self.done, jobs))
        object.__setattr__(self, "placed", state.placed(self.placed, jobs, self.cluster))
        object.__setattr__(self, "held", state.held(self.held, tenants, jobs, self.cluster, self.placed))

    def _check_jobs(self) -> None:
        kinds = {t.name: {kind.name for kind in t.job_types} for t in self.tenants}
        total = sum(self.cluster.capacity.values())
        for job in self.jobs:
            if job.tenant is not None and self.tenants:
                known(job.tenant, kinds, f"jobs[{job.name!r}].tenant", "tenant")
                if job.job_type is not None:
                    known(job.job_type, kinds[job.tenant], f"jobs[{job.name!r}].job_type", "job type")
            if job.demand > total:
                raise InvalidInstance(
                    f"jobs[{job.name!r}].demand is {job.demand} GPUs, but the cluster has {total}; it could never run"
                )

    def __str__(self) -> str:
        """One line, e.g. ``oef/eq6: 2 tenants, 0 jobs; 1 GPU1 + 1 GPU2 on 2 servers; time 0 s``."""
        gpus = " + ".join(f"{count} {kind}" for kind, count in self.cluster.capacity.items())
        return (
            f"{self.name or 'instance'}: {len(self.tenants)} tenants, {len(self.jobs)} jobs; "
            f"{gpus} on {len(self.cluster.servers)} servers; time {self.time:g} s"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Fields alone: the cached arrays are made again where they are needed."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def from_speedups(
        cls,
        speedups: ArrayLike | pd.DataFrame,
        capacity: Mapping[str, int] | Sequence[int] | pd.Series[int],
        *,
        weights: Sequence[float] | pd.Series[float] | float | None = None,
        tenants: Sequence[str] | None = None,
        any_scale: bool = False,
        **instance: Any,
    ) -> Instance:
        """An instance of OEF's setting (section 2.3).

        Parameters
        ----------
        speedups:
            (n, k) speedup w of tenant l on GPU type j, relative to the slowest type that it can run on, so that each
            row's smallest entry above zero is 1; no unit. The labels of a DataFrame are tenants and GPU types.
        capacity:
            (k,) GPUs per type, or GPU type -> GPUs in the order of the columns (of a DataFrame: in any order).
        weights:
            (n,) weights pi; default all 1. The labels of a Series are tenants, in any order.
        tenants:
            n names; default the DataFrame's, else ``u1, u2, …`` as in the paper.
        any_scale:
            Rows that are relative to something else are meant so; nothing is warned of.
        instance:
            Further fields of :class:`Instance`.

        Raises
        ------
        InvalidInstance
            Numbers that do not fit together, or labels that are no tenant or GPU type here.

        Warns
        -----
        SuspiciousSpeedups
            The smallest entry of a row above zero is not 1: it looks like throughputs.
        """
        rows = arrays.tenant_rows("speedups", speedups, capacity, tenants, weights)
        made = cls._of_tenants(rows, partial(Tenant, any_scale=True), "from_speedups", instance)
        if not boolean(any_scale, "any_scale", InvalidInstance):
            scale.check_scale(
                scale.slowest_of_rows(rows.table),
                lambda i: f"tenants[{rows.names[i]!r}].speedup",
                "call Instance.from_throughputs",
            )
        return made

    @classmethod
    def from_throughputs(
        cls,
        throughputs: ArrayLike | pd.DataFrame,
        capacity: Mapping[str, int] | Sequence[int] | pd.Series[int],
        *,
        weights: Sequence[float] | pd.Series[float] | float | None = None,
        tenants: Sequence[str] | None = None,
        **instance: Any,
    ) -> Instance:
        """An instance of OEF's setting (section 2.3) from what was measured.

        Each tenant's row is divided by its throughput on the slowest type on which it can run at all.

        Parameters
        ----------
        throughputs:
            (n, k) work per second of tenant l on one GPU of type j, in any unit of work of its own; 0 where it cannot
            run. The labels of a DataFrame are tenants and GPU types.
        capacity, weights, tenants, instance:
            As of :meth:`from_speedups`.

        Raises
        ------
        InvalidInstance
            As of :meth:`from_speedups`.

        Examples
        --------
        >>> import hetopt
        >>> inst = hetopt.Instance.from_throughputs([[10, 20], [0, 300]], capacity=[1, 1])
        >>> inst == hetopt.Instance.from_speedups([[1, 2], [0, 1]], capacity=[1, 1])
        True
        """
        rows = arrays.tenant_rows("throughputs", throughputs, capacity, tenants, weights)
        return cls._of_tenants(rows, Tenant.from_throughput, "from_throughputs", instance)

    @classmethod
    def _of_tenants(
        cls, rows: arrays.TenantRows, make: Callable[..., Tenant], called: str, fields: dict[str, Any]
    ) -> Instance:
        """``make(name, GPU type -> value, weight)`` of each row, and the ``fields`` given to the method ``called``."""
        for key in fields:
            known(key, STATE_FIELDS | {"jobs"}, called, "field")
        types, names = rows.cluster.type_names, rows.names
        with PauseGC():  # nothing here is garbage; collecting takes 40% of the time of 100,000 tenants
            tenants = tuple(
                make(name, dict(zip(types, row, strict=True)), weight)
                for name, row, weight in zip(names, rows.table.tolist(), rows.weights, strict=True)
            )
            return cls(rows.cluster, tenants=tenants, **arrays.with_held(fields, names, rows.cluster))

    @classmethod
    def from_jobs(
        cls,
        throughput: ArrayLike | pd.DataFrame,
        demand: Sequence[int] | pd.Series[int] | int,
        work: Sequence[float] | pd.Series[float] | float,
        capacity: Mapping[str, int] | Sequence[int] | pd.Series[int],
        *,
        round_seconds: float = 300.0,
        arrival: Sequence[float] | pd.Series[float] | float | None = None,
        jobs: Sequence[str] | None = None,
        **fields: Any,
    ) -> Instance:
        """An instance of FFT's setting (section 4.1).

        Parameters
        ----------
        throughput:
            (n, k) work (epochs) that the job's whole gang does per round on GPU type i. The labels of a DataFrame are
            jobs and GPU types.
        demand:
            (n,) GPUs, or one number for all; the labels of a Series are jobs, in any order. So for all columns.
        work:
            (n,) total work W in epochs.
        capacity:
            (k,) GPUs per type, or GPU type -> GPUs in the order of the columns (of a DataFrame: in any order).
        round_seconds:
            Length of the round that ``throughput`` refers to, in seconds.
        arrival:
            (n,) seconds; default 0.
        jobs:
            n names; default the DataFrame's, else ``j1, j2, …``.
        fields:
            Further fields of :class:`Job`, each a column (``weight``, ``memory_bytes``, ``checkpoint_bytes``,
            ``tenant`` …), and of :class:`Instance`.

        Raises
        ------
        InvalidInstance
            Numbers that do not fit together, labels that are no job or GPU type here, or an unknown field.
        """
        cluster = Cluster.of(arrays.capacity(capacity, throughput))
        round_seconds = number(round_seconds, "round_seconds", strict=True)
        given = arrays.matrix(throughput, "throughput", cluster.type_names, jobs)
        table = given / round_seconds
        table = np.where((given > 0) & (table == 0), given, table)  # Job refuses what is too small to be divided
        names = arrays.names(jobs, "j", throughput if isinstance(throughput, pd.DataFrame) else table, "jobs")
        for key in fields:
            known(key, _JOB_FIELDS | STATE_FIELDS | {"tenants"}, "from_jobs", "field")
        columns = {"work": work, "demand": demand, "arrival": arrival}
        columns |= {key: value for key, value in fields.items() if key in _JOB_FIELDS}
        lists = {
            key: arrays.column(value, key, names, 0.0 if key == "arrival" else None) for key, value in columns.items()
        }
        with PauseGC():
            rows = tuple(
                Job(name, dict(zip(cluster.type_names, row, strict=True)), **dict(zip(lists, own, strict=True)))
                for name, row, *own in zip(names, table.tolist(), *lists.values(), strict=True)
            )
            others = {key: value for key, value in fields.items() if key not in _JOB_FIELDS}
            return cls(cluster, jobs=rows, **arrays.with_held(others, names, cluster))

    @staticmethod
    def read(path: str | PathLike[str], *, any_scale: bool = False) -> Instance:
        """The instance in a YAML or JSON file; see :func:`hetopt.data.instance_files.read`."""
        from hetopt.data import instance_files as files

        return files.read(path, any_scale=any_scale)

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write to a YAML or JSON file; see :func:`hetopt.data.instance_files.write`."""
        from hetopt.data import instance_files as files

        files.write(self, path, overwrite=overwrite)

    @staticmethod
    def from_tables(servers: pd.DataFrame, **tables: Any) -> Instance:
        """The instance in pandas tables; see :func:`hetopt.data.tables.from_tables`."""
        from hetopt.data.tables import from_tables

        return from_tables(servers, **tables)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The instance as pandas tables; see :func:`hetopt.data.tables.tables`."""
        from hetopt.data.tables import tables

        return tables(self)

    def replace(self, **changes: Any) -> Instance:
        """A copy with some fields changed; ``held`` may be an (n, k) array in the order of :meth:`entities`.

        Where ``placed`` changes and ``held`` does not, jobs hold what they are placed on then.
        """
        if "held" not in changes and isinstance(changes.get("placed"), Mapping):
            moved = {*self.placed, *changes["placed"]}
            changes["held"] = {name: gpus for name, gpus in self.held.items() if name not in moved}
        if "held" in changes and not isinstance(changes["held"], Mapping):
            names = tenant_entity_names(self) or [j.name for j in self.jobs]
            changes = arrays.with_held(changes, names, self.cluster)
        return dataclasses.replace(self, **changes)

    def at(self, time: float) -> Instance:
        """The instance at another time: with the jobs that have arrived and are unfinished then.

        What is said of other jobs in ``held``, ``done`` and ``placed`` is dropped; all else stays as it is, tenants and
        the work done included.

        Parameters
        ----------
        time:
            Seconds.

        Raises
        ------
        InvalidInstance
            There are jobs, and none is left.

        Examples
        --------
        >>> import hetopt
        >>> day = hetopt.Instance.from_jobs([[2, 4], [2, 6]], 1, work=8, capacity=[1, 1], arrival=[0, 600])
        >>> [job.name for job in day.at(300).jobs], [job.name for job in day.at(600).jobs]
        (['j1'], ['j1', 'j2'])
        """
        return self.replace(**state.at(self, number(time, "time")))

    @cached_property
    def _tenants(self) -> Entities:
        with PauseGC():
            return tenant_entities(self)

    @cached_property
    def _jobs(self) -> Entities:
        with PauseGC():
            return job_entities(self)

    def entities(self, kind: Kind | None = None) -> Entities:
        """The array view: tenants where there are any, else jobs, or the ``kind`` asked for.

        Raises
        ------
        InvalidInstance
            There is none of that kind.
        InvalidOption
            ``kind`` is neither ``"tenants"`` nor ``"jobs"``.
        """
        check_kind("kind", kind)
        if kind is None:
            kind = "tenants" if self.tenants else "jobs"
        if not (self.tenants if kind == "tenants" else self.jobs):
            raise InvalidInstance(f"the instance has no {kind}; add at least one")
        return self._tenants if kind == "tenants" else self._jobs

    @cached_property
    def job(self) -> Mapping[str, Job]:
        """Job name -> job."""
        return FrozenDict({j.name: j for j in self.jobs})

    def work_left(self, name: str) -> float:
        """Work that the job still has to do, in the unit of ``Job.work``; never negative."""
        return max(0.0, self.job[name].work - self.done.get(name, 0.0))

    def job_array(self, attribute: str) -> Floats:
        """(n,) one numeric field of every job, in order; ``"work_left"`` for the work still to do. Made once."""
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


_JOB_FIELDS = {f.name for f in dataclasses.fields(Job)} - {"name", "throughput"}
STATE_FIELDS = {f.name for f in dataclasses.fields(Instance)} - {"cluster", "tenants", "jobs"}
"""Fields that say what happens now, beside cluster and entities."""
