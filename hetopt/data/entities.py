"""The array view of an instance, which components and methods read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hetopt.data.array_types import Floats, Numbers
from hetopt.data.cluster import Cluster
from hetopt.data.instance_data import InstanceData, column, tenant_entity_names
from hetopt.data.pairs import Pairs, packable_pairs
from hetopt.data.rationals import simple_fractions
from hetopt.data.workload import Job, Tenant
from hetopt.errors import InvalidInstance, InvalidOption, Item

Kind: TypeAlias = Literal["tenants", "jobs"]
KINDS = get_args(Kind)
"""The kinds of entities."""
Number = TypeVar("Number", bound=np.generic)


def check_kind(key: str, kind: str | None) -> None:
    """Raise :class:`~hetopt.errors.InvalidOption` unless ``kind`` is a :data:`Kind` or None."""
    if not (kind is None or (isinstance(kind, str) and kind in KINDS)):
        raise InvalidOption(f"is {kind!r}; it must be 'tenants' or 'jobs'", key)


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """``array``, or a read-only copy if it is writeable."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Entities:
    """The n entities that share the cluster (tenants' job types, or jobs), and their speeds on k GPU types.

    Attributes
    ----------
    kind:
        ``"tenants"`` or ``"jobs"``.
    names:
        n names: ``"u1"``, or ``"u1/lstm"`` where a tenant has several job types.
    types:
        k GPU types, in the cluster's order.
    speed:
        (n, k) rate per unit of share. Tenants: speedup per GPU (no unit); jobs: work per second of
        the whole gang on this type alone. 0 where memory is too small, or the type has fewer GPUs than the gang.
    demand:
        (n,) GPUs that one unit of share takes: 1 for tenants, the gang's size for jobs.
    weight:
        (n,) importance; a tenant's weight is divided equally among its job types (OEF, section 4.2.4).
    owner:
        (n,) position of the tenant in ``instance.tenants``; for jobs the job's own position.
    capacity:
        (k,) GPUs of each type.
    held:
        (n, k) GPUs held now, or None where the instance gives none for this kind.
    instance:
        Source of the numbers, for components that need more (work, arrival, checkpoints …); None if built directly.
    any_type:
        (n, k) as ``speed``, but not 0 where only the gang is too large for the type; None: the same. Read it as
        :attr:`task_speed`.
    positions:
        Name -> row, where it is known already. Read it as :attr:`position`.
    other_sizes:
        Row of an elastic job -> GPUs other than ``demand`` -> (k,) work per second of a gang of this size on each type.
    """

    kind: Kind
    names: tuple[str, ...]
    types: tuple[str, ...]
    speed: Floats
    demand: Floats
    weight: Floats
    owner: NDArray[np.intp]
    capacity: Floats
    held: Floats | None
    instance: InstanceData | None = field(default=None, repr=False)
    any_type: Floats | None = field(default=None, repr=False)
    positions: dict[str, int] | None = field(default=None, repr=False)
    other_sizes: Mapping[int, Mapping[int, Floats]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for key in ("any_type", "speed", "demand", "weight", "owner", "capacity", "held"):
            if (array := getattr(self, key)) is not None:
                object.__setattr__(self, key, read_only(array))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, k)."""
        return len(self.names), len(self.types)

    @property
    def task_speed(self) -> Floats:
        """(n, k) speed on each type, even if it has too few GPUs for the whole gang.

        A gang over several types runs at the smallest of their speeds (Hadar; the simulator).
        """
        return self.speed if self.any_type is None else self.any_type

    @cached_property
    def task_speed_now(self) -> Floats:
        """(n, k) as :attr:`task_speed`, but 0 on types without GPUs now, e.g. because servers are drained."""
        return np.where(self.capacity > 0, self.task_speed, 0.0)

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """(n, k) True where the entity can run."""
        return np.asarray(self.speed > 0)

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs of jobs that may share their GPUs, see :func:`~hetopt.data.pairs.packable_pairs`."""
        return packable_pairs(self.source, self.allowed, self.types)

    @cached_property
    def position(self) -> dict[str, int]:
        """Name -> row."""
        return {name: i for i, name in enumerate(self.names)} if self.positions is None else self.positions

    @cached_property
    def per_gpu(self) -> Floats:
        """(n, k) speed per GPU: ``speed / demand``."""
        return np.asarray(self.speed / self.demand[:, None])

    @cached_property
    def exact(self) -> Entities:
        """The same in Fractions: every float is read as the simple fraction that it rounds."""
        keys = ("speed", "demand", "weight", "capacity", "held", "any_type")
        read: dict[str, Any] = {key: simple_fractions(a) for key in keys if (a := getattr(self, key)) is not None}
        return replace(self, **read)

    @property
    def is_exact(self) -> bool:
        """Whether the numbers are Fractions."""
        return self.speed.dtype == object

    def number(self, value: float) -> Any:
        """``value`` in the number type of these entities: a float, or the simple fraction that it rounds."""
        return self.numbers(np.array([value]))[0] if self.is_exact else value

    def numbers(self, values: Floats) -> Numbers:
        """As :meth:`number`, for an array."""
        return simple_fractions(values) if self.is_exact else values

    def job_array(self, key: str) -> Numbers:
        """(n,) an attribute of each job, such as ``"work_left"``.

        Raises
        ------
        InvalidInstance
            The entities were built without an instance.
        """
        return self.numbers(self.source.job_array(key))

    @property
    def source(self) -> InstanceData:
        """The instance behind these arrays.

        Raises
        ------
        InvalidInstance
            They were built without an instance.
        """
        if self.instance is None:
            raise InvalidInstance(
                "is None; work and arrivals of jobs are needed, take instance.entities()", "entities.instance"
            )
        return self.instance

    def rate(self, share: Floats) -> Floats:
        """(n,) rate of each entity for an (n, k) share: normalised throughput, or work per second."""
        return np.asarray(np.einsum("ek,ek->e", self.speed, share))

    def gpus(self, share: Floats) -> Floats:
        """(n, k) GPUs that an (n, k) share takes."""
        return np.asarray(share * self.demand[:, None])

    def frame(self, values: NDArray[np.generic] | Sequence[Sequence[object]]) -> pd.DataFrame:
        """An (n, k) table with names as rows and GPU types as columns."""
        rows = pd.Index(self.names, name=self.kind[:-1])
        return pd.DataFrame(values, index=rows, columns=pd.Index(self.types, name="gpu_type"))

    def series(self, values: Floats, name: str) -> pd.Series[float]:
        """An (n,) column with names as rows."""
        return pd.Series(values, index=pd.Index(self.names, name=self.kind[:-1]), name=name)


class WatchedEntities(Entities):
    """Entities that note whether their source or the GPUs that they hold are read.

    What follows from them without that is the same for all entities that :func:`agree` with them.
    """

    numbers_only: bool
    """True until the source or the GPUs that are held are read."""

    @classmethod
    def of(cls, entities: Entities) -> WatchedEntities:
        """The same entities, of which nothing has been read."""
        made = object.__new__(cls)
        made.__dict__.update({item.name: getattr(entities, item.name) for item in fields(Entities)}, numbers_only=True)
        return made

    def __getattribute__(self, name: str) -> Any:
        if name in ("instance", "held"):
            object.__getattribute__(self, "__dict__")["numbers_only"] = False
        return object.__getattribute__(self, name)


def agree(before: Entities, now: Entities) -> bool:
    """Whether both are the same entities with the same numbers, but for their sources and the GPUs that they hold."""
    if (before.kind, before.names, before.types) != (now.kind, now.names, now.types):
        return False
    pairs = ((getattr(before, key), getattr(now, key)) for key in ARRAYS)
    return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)


ARRAYS = ("speed", "any_type", "demand", "weight", "owner", "capacity")
"""Numbers of entities, but for the GPUs that they hold."""


def _speeds(cluster: Cluster, rows: Sequence[Mapping[str, float]], memory_bytes: Floats) -> Floats:
    """(n, k) speeds from a mapping per row; 0 on GPU types with less memory than the worker needs."""
    table = np.stack([np.array([row[k] for row in rows], dtype=float) for k in cluster.type_names], axis=1)
    memory = np.array([t.memory_limit for t in cluster.gpu_types])
    return np.where(memory_bytes[:, None] <= memory, table, 0.0)


def _capacity(cluster: Cluster) -> Floats:
    return np.array(list(cluster.capacity.values()), dtype=float)


def _held(instance: InstanceData, names: Sequence[str], types: Sequence[str]) -> Floats | None:
    if not any(name in instance.held for name in names):
        return None
    none: dict[str, float] = {}
    return np.array([[instance.held.get(e, none).get(t, 0.0) for t in types] for e in names], dtype=float)


def tenant_entities(instance: InstanceData) -> Entities:
    """The (tenant, job type) pairs of ``instance``: OEF's virtual users."""
    rows = [(i, t, job_type) for i, t in enumerate(instance.tenants) for job_type in t.job_types]
    types = instance.cluster.type_names
    speedups, memory = [own.speedup for _, _, own in rows], column([own for _, _, own in rows], "memory_bytes")
    names = tenant_entity_names(instance)
    return Entities(
        kind="tenants",
        names=tuple(names),
        types=types,
        speed=_speeds(instance.cluster, speedups, memory),
        demand=np.ones(len(rows)),
        weight=np.array([t.weight / len(t.job_types) for _, t, _ in rows], dtype=float),
        owner=np.array([i for i, _, _ in rows], dtype=np.intp),
        capacity=_capacity(instance.cluster),
        held=_held(instance, names, types),
        instance=instance,
    )


def _other_sizes(cluster: Cluster, jobs: Sequence[Job]) -> dict[int, dict[int, Floats]]:
    found: dict[int, dict[int, Floats]] = {}
    for e, job in enumerate(jobs):
        if job.sizes:
            fits = [job.memory_bytes <= t.memory_limit for t in cluster.gpu_types]
            rates = {
                n: [own.get(t, 0.0) for t in cluster.type_names] for n, own in job.rates.items() if n != job.demand
            }
            found[e] = {n: read_only(np.where(fits, rate, 0.0)) for n, rate in rates.items()}
    return found


def job_entities(instance: InstanceData) -> Entities:
    """The jobs of ``instance``."""
    jobs, types = instance.jobs, instance.cluster.type_names
    speed = _speeds(instance.cluster, [job.throughput for job in jobs], column(jobs, "memory_bytes"))
    demand, capacity = column(jobs, "demand"), _capacity(instance.cluster)
    return Entities(
        kind="jobs",
        names=tuple(job.name for job in jobs),
        types=types,
        speed=np.where(demand[:, None] <= capacity, speed, 0.0),
        any_type=speed,
        demand=demand,
        weight=column(jobs, "weight"),
        owner=np.arange(len(jobs), dtype=np.intp),
        capacity=capacity,
        held=_held(instance, [job.name for job in jobs], types),
        instance=instance,
        other_sizes=_other_sizes(instance.cluster, jobs),
    )


JobTypeKey = tuple[str, str]
"""(tenant, job type) by name; unlike the entity's name, it does not depend on the tenant's other job types."""


def job_type_keys(instance: InstanceData) -> dict[str, JobTypeKey]:
    """Entity name -> (tenant, job type), in the order of the tenants' entities."""
    pairs = [(t.name, job_type.name) for t in instance.tenants for job_type in t.job_types]
    return dict(zip(tenant_entity_names(instance), pairs, strict=True))


def job_type_key(job: Job, tenants: dict[str, Tenant]) -> JobTypeKey:
    """The (tenant, job type) that the job belongs to.

    Raises
    ------
    InvalidInstance
        The job names no tenant, or no job type where the tenant has several.
    """
    if job.tenant is None:
        raise InvalidInstance(
            "is None; GPUs are shared among tenants, so every job must name one of them",
            ("jobs", Item(job.name), "tenant"),
        )
    job_types = tenants[job.tenant].job_types
    if job.job_type is not None:
        return job.tenant, job.job_type
    if len(job_types) > 1:
        names = ", ".join(job_type.name for job_type in job_types)
        raise InvalidInstance(
            f"is None; tenant {job.tenant!r} has several: {names}", ("jobs", Item(job.name), "job_type")
        )
    return job.tenant, job_types[0].name


def members(instance: InstanceData) -> dict[JobTypeKey, list[int]]:
    """(tenant, job type) -> positions of its jobs in ``instance.jobs``.

    Raises
    ------
    InvalidInstance
        A job names no tenant, or no job type, see :func:`job_type_key`.
    """
    tenants = {t.name: t for t in instance.tenants}
    result: dict[JobTypeKey, list[int]] = {key: [] for key in job_type_keys(instance).values()}
    for i, job in enumerate(instance.jobs):
        result[job_type_key(job, tenants)].append(i)
    return result


def keys(entities: Entities, instance: InstanceData) -> list[tuple[str, ...]]:
    """Key of each entity in state kept between rounds: ``(tenant, job type)`` or ``(job,)``."""
    if entities.kind == "jobs":
        return [(name,) for name in entities.names]
    known = job_type_keys(instance)
    return [known[name] for name in entities.names]
