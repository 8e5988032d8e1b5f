"""The instance: a cluster, its tenants and jobs, and its state now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pyomo.common.gc_manager import PauseGC

from hetopt.checks import FrozenDict, boolean, expect, known, number
from hetopt.data import inputs, instance_files, instance_tables
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities, Kind, check_kind, job_entities, tenant_entities
from hetopt.data.instance_data import STATE_FIELDS, InstanceData, tenant_entity_names
from hetopt.data.workload import Job, Tenant, slowest_of_rows, warn_of_scale
from hetopt.errors import InvalidInstance, Item, NotApplicable


@dataclass(frozen=True)
class Instance(InstanceData):
    """The input of a policy.

    Parameters
    ----------
    cluster:
        GPU types and servers.
    tenants:
        Tenants, which share the cluster fairly; may be empty if only jobs matter.
    jobs:
        Jobs present now; may be empty if tenants always have enough work.
    time:
        Now, in seconds.
    held:
        Entity (tenant, ``tenant/job type``, or job) -> GPU type -> GPUs held now. If it names no tenant (no job),
        the GPUs held by tenants (jobs) are unknown, and a switching cost is zero. Jobs hold the GPUs of ``placed``.
    done:
        Job -> work done so far (unit of ``Job.work``); absent means 0.
    placed:
        Job -> server -> GPU type -> GPUs: where it runs now.
    name, source:
        The name of the instance, and the source of its numbers.
    packings:
        How fast jobs of two models run on the same GPUs; jobs of other models never share GPUs. A job that shares its
        GPUs now holds half of each of those on which it is placed.

    Raises
    ------
    InvalidInstance
        Duplicate or unknown names, missing GPU types, negative numbers, a gang larger than the cluster, more GPUs
        held than there are.
    """

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
            Do not warn of rows that are relative to something else.
        instance:
            Further fields of :class:`Instance`.

        Raises
        ------
        InvalidInstance
            Numbers that do not fit together, or labels that are no tenant or GPU type here.

        Warns
        -----
        SuspiciousSpeedups
            The smallest entry of a row above zero is not 1, as if these were throughputs.
        """
        rows = inputs.tenant_rows("speedups", speedups, capacity, tenants, weights)
        made = cls._of_tenants(rows, partial(Tenant, any_scale=True), "from_speedups", instance)
        if not boolean(any_scale, "any_scale", InvalidInstance):
            warn_of_scale(
                slowest_of_rows(rows.table),
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
        """An instance of OEF's setting (section 2.3) from measured throughputs.

        Each tenant's row is divided by its throughput on the slowest type on which it can run.

        Parameters
        ----------
        throughputs:
            (n, k) work per second of tenant l on one GPU of type j, in any unit of work; units may differ between
            tenants; 0 where it cannot run. The labels of a DataFrame are tenants and GPU types.
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
        rows = inputs.tenant_rows("throughputs", throughputs, capacity, tenants, weights)
        return cls._of_tenants(rows, Tenant.from_throughput, "from_throughputs", instance)

    @classmethod
    def _of_tenants(
        cls, rows: inputs.TenantRows, make: Callable[..., Tenant], called: str, fields: dict[str, Any]
    ) -> Instance:
        """An instance of ``make(name, GPU type -> value, weight)`` for each row, and of ``fields``.

        ``called`` is the name of the public method, for errors.
        """
        for key in fields:
            known(key, STATE_FIELDS | {"jobs", "tenants", "weights"}, called, "field")
        types, names = rows.cluster.type_names, rows.names
        with PauseGC():  # nothing here is garbage; collecting takes 40% of the time of 100,000 tenants
            tenants = tuple(
                make(name, dict(zip(types, row, strict=True)), weight)
                for name, row, weight in zip(names, rows.table.tolist(), rows.weights, strict=True)
            )
            return cls(rows.cluster, tenants=tenants, **inputs.with_held(fields, names, rows.cluster))

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
            (n,) GPUs, or one number for all; the labels of a Series are jobs, in any order. The same for all columns.
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
        cluster = Cluster.of(inputs.capacity(capacity, throughput))
        round_seconds = number(round_seconds, "round_seconds", strict=True)
        given = inputs.matrix(throughput, "throughput", cluster.type_names, jobs)
        table = given / round_seconds
        table = np.where((given > 0) & (table == 0), given, table)  # Job refuses values that are too small to divide
        names = inputs.names(jobs, "j", throughput if isinstance(throughput, pd.DataFrame) else table, "jobs")
        for key in fields:
            known(key, _JOB_FIELDS | STATE_FIELDS | {"jobs", "tenants"}, "from_jobs", "field")
        columns = {"work": work, "demand": demand, "arrival": arrival}
        columns |= {key: value for key, value in fields.items() if key in _JOB_FIELDS}
        lists = {
            key: inputs.column(value, key, names, 0.0 if key == "arrival" else None) for key, value in columns.items()
        }
        with PauseGC():
            try:
                rows = tuple(
                    Job(name, dict(zip(cluster.type_names, row, strict=True)), **dict(zip(lists, own, strict=True)))
                    for name, row, *own in zip(names, table.tolist(), *lists.values(), strict=True)
                )
            except InvalidInstance as problem:
                if "throughput" not in problem.path:
                    raise
                hint = f"this is per second, and throughput per round of {round_seconds:g} s"
                raise problem.with_hint(hint) from None
            others = {key: value for key, value in fields.items() if key not in _JOB_FIELDS}
            return cls(cluster, jobs=rows, **inputs.with_held(others, names, cluster))

    @classmethod
    def read(cls, path: str | PathLike[str], *, any_scale: bool = False) -> Instance:
        """The instance in a YAML or JSON file.

        Parameters
        ----------
        path:
            Ends with ``.yaml``, ``.yml`` or ``.json``; or ``<stdin>``, standard input.
        any_scale:
            Accept speedups that are not relative to the slowest GPU type, without a warning.

        Raises
        ------
        UnusableFile
            The file is absent, a folder, not readable, or larger than 1 GiB.
        InvalidInstance
            It does not contain a valid instance. The message names file, line, key, value and the allowed values.
        InvalidOption
            Another ending.

        Warns
        -----
        SuspiciousSpeedups
            The smallest positive ``speedup`` of a tenant is not 1, as if these were throughputs.
        """
        return instance_files.read(path, cls, any_scale=any_scale)

    @classmethod
    def decode(
        cls,
        document: Any,
        label: str | PathLike[str] = "document",
        *,
        text: str = "",
        any_scale: bool = False,
    ) -> Instance:
        """The instance in plain data (mappings, lists, text, numbers) in the form of the schema.

        Parameters
        ----------
        document:
            As :func:`hetopt.data.instance_files.encode` returns.
        label:
            What errors call the data.
        text:
            The YAML or JSON text that the data are from; errors name the line in it.
        any_scale:
            As for :func:`read`, which lists the warnings.

        Raises
        ------
        InvalidInstance
            The data do not describe an instance.
        """
        return instance_files.decode(document, cls, label, text=text, any_scale=any_scale)

    def write(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write to a YAML or JSON file; see :func:`hetopt.data.instance_files.write`."""
        instance_files.write(self, path, overwrite=overwrite)

    @classmethod
    def from_tables(cls, servers: pd.DataFrame, **tables: Any) -> Instance:
        """The instance in pandas tables; see :func:`hetopt.data.instance_tables.from_tables`."""
        return instance_tables.from_tables(cls, servers, **tables)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The instance as pandas tables; see :func:`hetopt.data.instance_tables.tables`."""
        return instance_tables.tables(self)

    @classmethod
    def read_csv(cls, folder: str | PathLike[str], *, any_scale: bool = False, **state: Any) -> Instance:
        """The instance in a folder of CSV files; see :func:`hetopt.data.instance_tables.read_csv`."""
        return instance_tables.read_csv(folder, cls, any_scale=any_scale, **state)

    def write_csv(self, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write each table as a CSV file; see :func:`hetopt.data.instance_tables.write_csv`."""
        instance_tables.write_csv(self, folder, overwrite=overwrite)

    def replace(self, **changes: Any) -> Instance:
        """A copy with some fields changed; ``held`` may be an (n, k) array in the order of :meth:`entities`.

        If ``placed`` changes and ``held`` does not, jobs hold the GPUs of the new ``placed``.

        Raises
        ------
        InvalidInstance
            An unknown field, or data that do not fit together.
        """
        for key in changes:
            known(key, {f.name for f in dataclasses.fields(self)}, "replace", "field")
        if "held" not in changes and isinstance(changes.get("placed"), Mapping):
            moved = {*self.placed, *changes["placed"]}
            changes["held"] = {name: gpus for name, gpus in self.held.items() if name not in moved}
        if "held" in changes and not isinstance(changes["held"], Mapping):
            names = tenant_entity_names(self) or [j.name for j in self.jobs]
            changes = inputs.with_held(changes, names, self.cluster)
        return dataclasses.replace(self, **changes)

    def at(self, time: float) -> Instance:
        """The instance at a time, with the jobs that have arrived and are unfinished then; itself if all stays.

        Entries of other jobs in ``held``, ``done`` and ``placed`` are dropped; all else stays, including tenants and
        the work done.

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
        time = number(time, "time")
        present = [job for job in self.jobs if job.arrival <= time and self.work_left(job.name) > 0]
        if self.jobs and not present:
            raise InvalidInstance(f"is {time:.15g} s; {_why_none(self, time)}", "time")
        there = self.with_jobs(job.name for job in present)
        return there if time == self.time else there.replace(time=time)

    def with_jobs(self, names: Iterable[str]) -> Instance:
        """The instance with only these of its jobs, in their order; itself if all stay.

        Entries of other jobs in ``held``, ``done`` and ``placed`` are dropped.

        Raises
        ------
        InvalidInstance
            A name of no job.
        """
        if isinstance(names, str):
            raise InvalidInstance(f"is {names!r}; it must be a list of names", "names")
        keep = {known(name, self.job, "names", "job") for name in names}
        if len(keep) == len(self.jobs):
            return self
        jobs = tuple(job for job in self.jobs if job.name in keep)
        held, done, placed = (
            {name: row for name, row in rows.items() if name in keep or name not in self.job}
            for rows in (self.held, self.done, self.placed)
        )
        if jobs and len(held) < len(self.held) and not any(job.name in held for job in jobs):
            # An empty entry states that the remaining jobs hold nothing; without one it would be unknown.
            held[jobs[0].name] = FrozenDict()
        return self.replace(jobs=jobs, held=held, done=done, placed=placed)

    @cached_property
    def _tenants(self) -> Entities:
        with PauseGC():
            return tenant_entities(self)

    @cached_property
    def _jobs(self) -> Entities:
        with PauseGC():
            return job_entities(self)

    @classmethod
    def of_entities(
        cls,
        fields: Mapping[str, Any],
        job: Mapping[str, Job],
        job_arrays: Mapping[str, Floats],
        entities: Callable[[Instance], Entities],
    ) -> Instance:
        """As :meth:`trusted`, with the array view of the jobs, which ``entities`` returns for the instance."""
        made = cls.trusted(fields, job, job_arrays)
        object.__setattr__(made, "_jobs", entities(made))
        return made

    def entities(self, kind: Kind | None = None) -> Entities:
        """The array view: of the requested ``kind``; by default tenants, or jobs if there are no tenants.

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


read = Instance.read

_JOB_FIELDS = {f.name for f in dataclasses.fields(Job)} - {"name", "throughput"}


def _why_none(instance: Instance, time: float) -> str:
    """Why no job is present."""
    first = min(instance.jobs, key=lambda j: j.arrival)
    if first.arrival > time:
        return f"no job has arrived by then, the first is {first.name!r} at {first.arrival:.15g} s"
    coming = [j.arrival for j in instance.jobs if j.arrival > time]
    later = f"; the next arrives at {min(coming):.15g} s" if coming else ""
    return f"every job that has arrived by then is finished{later}"


def present_entities(instance: Instance, kind: Kind | None, policy: str, *, mixed: bool = False) -> Entities:
    """The entities of ``kind`` among which ``policy`` (its name, for messages) shares the cluster.

    Jobs must have arrived, and a job's gang must fit on a GPU type that can run it; with ``mixed``, on all such types
    together. An entity whose usable GPU types have no GPUs now, e.g. because servers are drained,
    stays among the entities and gets nothing.

    Raises
    ------
    NotApplicable
        There is none of that kind.
    InvalidInstance
        A job that arrives later; a gang that is too large for every type that can run it.
    """
    expect(Instance, instance, "instance")
    if kind is not None and not (instance.tenants if kind == "tenants" else instance.jobs):
        other = "jobs" if kind == "tenants" else "tenants"
        raise NotApplicable(
            f"is for {kind}, and the instance has none; add {kind}, or take a policy for {other}", policy
        )
    entities = instance.entities(kind)
    if entities.kind == "jobs":
        _check_arrived(instance)
        check_mixed_gangs(entities) if mixed else check_gangs_fit_one_type(entities)
    return entities


def check_mixed_gangs(entities: Entities) -> None:
    """Raise :class:`InvalidInstance` for a gang larger than all GPUs that can run it, if there are any."""
    room = (entities.task_speed > 0) @ entities.capacity
    for i in np.flatnonzero((entities.demand > room) & (room > 0)).tolist():
        raise InvalidInstance(
            f"is {entities.demand[i]:g} GPUs; the types that can run it have {room[i]:g} together",
            ("jobs", Item(entities.names[i]), "demand"),
        )


def _check_arrived(instance: Instance) -> None:
    arrival = instance.job_array("arrival")
    for i in np.flatnonzero(arrival > instance.time)[:1].tolist():
        moment = max(instance.time, float(arrival.min()))
        raise InvalidInstance(
            f"is {arrival[i]:.15g} s, after time = {instance.time:.15g} s; "
            f"leave jobs out until they have arrived: instance.at({moment:.15g}) has those present then",
            ("jobs", Item(instance.jobs[i].name), "arrival"),
        )


def check_gangs_fit_one_type(entities: Entities) -> None:
    """Refuse a job whose gang is larger than every GPU type that can run it; types may have no GPUs now."""
    for i in np.flatnonzero(~entities.allowed.any(axis=1)).tolist():
        if largest := entities.capacity[entities.task_speed[i] > 0].max():
            raise InvalidInstance(
                f"is {entities.demand[i]:g} GPUs, and its gang runs on one type; "
                f"the types that can run it have at most {largest:g}",
                ("jobs", Item(entities.names[i]), "demand"),
            )
