"""Instances as pandas tables and as folders of CSV files.

Four tables, each with names as its index: ``servers`` (a column of GPUs per type), ``gpu_types`` (memory), ``tenants``
(a column of speedup per type, and weight) and ``jobs`` (a column of throughput per type, demand, work, arrival …).
Columns other than GPU types may be absent, and cells empty, for the default. The state (time, held, done, placed) and
the stages of jobs are not in tables: :func:`from_tables` takes the state as fields, files hold everything.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from hetopt.checks import choices
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.errors import InvalidInstance, UnusableFile
from hetopt.files.schema import to_number

SERVER = ("nic_bytes_per_s", "intra_bytes_per_s", "disk_bytes")
GPU_TYPE = ("memory_bytes",)
TENANT = ("weight", "memory_bytes")
TEXT = ("tenant", "job_type", "dataset", "utility", "parallelism")
JOB = tuple(f.name for f in dataclasses.fields(Job) if f.name not in ("name", "throughput", "stages"))


def tables(instance: Instance) -> dict[str, pd.DataFrame]:
    """The cluster, tenants and jobs of ``instance`` as tables; those that would be empty are left out.

    Returns
    -------
    dict
        ``servers``: index server, a column per GPU type (GPUs), nic_bytes_per_s, intra_bytes_per_s, disk_bytes.
        ``gpu_types``: index gpu_type, memory_bytes. ``tenants``: index tenant, or (tenant, job_type) where someone
        has several; a column per GPU type (speedup), weight, memory_bytes. ``jobs``: index job; a column per GPU
        type (work per second), demand, work, arrival (seconds) and the other fields of :class:`hetopt.Job`.

    Raises
    ------
    InvalidInstance
        A GPU type has the name of another column.
    """
    cluster, types = instance.cluster, instance.cluster.type_names
    for name, columns in (("servers", SERVER), ("tenants", TENANT), ("jobs", JOB)):
        for t in types:
            if t in columns:
                raise InvalidInstance(f"GPU type {t!r} has the name of a column of {name}; rename it to make tables")
    result = {
        "servers": _table(((s.name, s.gpus, s) for s in cluster.servers), "server", types, SERVER),
        "gpu_types": _table(((t.name, {}, t) for t in cluster.gpu_types), "gpu_type", (), GPU_TYPE),
    }
    if instance.tenants:
        result["tenants"] = _tenant_table(instance)
    if instance.jobs:
        result["jobs"] = _table(((j.name, j.throughput, j) for j in instance.jobs), "job", types, JOB)
    return result


def from_tables(
    servers: pd.DataFrame,
    *,
    tenants: pd.DataFrame | None = None,
    jobs: pd.DataFrame | None = None,
    gpu_types: pd.DataFrame | None = None,
    **instance: Any,
) -> Instance:
    """The instance that tables in the form of :func:`tables` hold.

    Parameters
    ----------
    servers:
        Its columns other than bandwidths and disk are the GPU types, in order, unless ``gpu_types`` gives them.
    tenants, jobs, gpu_types:
        As :func:`tables` makes them.
    instance:
        Further fields of :class:`hetopt.Instance`: time, held, done, placed, name, source.

    Raises
    ------
    InvalidInstance
        A missing, unknown or double column, a bad cell (named by row and column), or no valid instance.
    """
    for key, table in (("servers", servers), ("gpu_types", gpu_types), ("tenants", tenants), ("jobs", jobs)):
        if not isinstance(table, pd.DataFrame) and (key == "servers" or table is not None):
            raise InvalidInstance(f"{key} is a {type(table).__name__}; it must be a pandas DataFrame")
    names = (
        [str(t) for t in gpu_types.index] if gpu_types is not None else [c for c in servers.columns if c not in SERVER]
    )
    kinds = [GPUType(n, **own) for n, _, own in _rows(gpu_types, "gpu_types", (), GPU_TYPE)] or [*map(GPUType, names)]
    rows = _rows(servers, "servers", names, SERVER)
    cluster = Cluster(
        tuple(kinds), tuple(_make("servers", name, Server, name, gpus, **own) for name, gpus, own in rows)
    )
    made = [_make("jobs", n, Job, n, speed, **_job(own, n)) for n, speed, own in _rows(jobs, "jobs", names, JOB)]
    return Instance(cluster, tenants=_tenants(tenants, names), jobs=tuple(made), **instance)


def write_csv(instance: Instance, folder: str | os.PathLike[str]) -> None:
    """Write each table as ``folder/<name>.csv``; the folder is made and must not hold such files yet.

    Raises
    ------
    UnusableFile
        A file is there already, or the folder cannot be written.
    """
    from hetopt.files.instance_files import save

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UnusableFile(f"{folder} cannot be made: {problem.strerror}") from None
    for name, table in tables(instance).items():
        save(table.to_csv(), Path(folder) / f"{name}.csv")


def read_csv(folder: str | os.PathLike[str], **instance: Any) -> Instance:
    """The instance in ``servers.csv`` and, where present, ``gpu_types.csv``, ``tenants.csv``, ``jobs.csv``.

    Raises
    ------
    UnusableFile
        ``servers.csv`` is absent, or a file cannot be read.
    InvalidInstance
        As :func:`from_tables`, or no CSV.
    """
    found = {}
    for name in ("servers", "gpu_types", "tenants", "jobs"):
        path = Path(folder) / f"{name}.csv"
        if name == "servers" or path.exists():
            found[name] = _csv(path)
    return from_tables(**found, **instance)


def _csv(path: Path) -> pd.DataFrame:
    index = {"tenants": "tenant", "servers": "server", "gpu_types": "gpu_type", "jobs": "job"}[path.stem]
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
    except OSError as problem:
        raise UnusableFile(f"{path} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # pandas' own errors and wrong encodings
        raise InvalidInstance(f"{path} is not CSV: {' '.join(str(problem).split())}") from None
    for column in table.columns:
        if column not in (index, *TEXT):
            table[column] = table[column].astype(object).map(to_number)
    keys = [key for key in ((index, "job_type") if index == "tenant" else (index,)) if key in table.columns]
    if index not in keys:
        raise InvalidInstance(f"{path} has no column {index!r}; its first column must hold the names")
    return table.set_index(keys if len(keys) > 1 else index)


def _table(
    rows: Iterable[tuple[Any, Mapping[str, Any], Any]], index: str, types: Iterable[str], fields: Iterable[str]
) -> pd.DataFrame:
    """A row for each (name, values per type, object with ``fields``)."""
    types, fields = list(types), list(fields)
    data, names = [], []
    for name, values, part in rows:
        names.append(name)
        data.append([values.get(t, 0) for t in types] + [_cell(getattr(part, f)) for f in fields])
    return pd.DataFrame(data, index=pd.Index(names, name=index), columns=pd.Index(types + fields))


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _tenant_table(instance: Instance) -> pd.DataFrame:
    pairs = [(tenant, kind) for tenant in instance.tenants for kind in tenant.job_types]
    types = instance.cluster.type_names
    table = _table(((None, kind.speedup, kind) for _, kind in pairs), "tenant", types, ("memory_bytes",))
    table.insert(len(types), "weight", [tenant.weight for tenant, _ in pairs])
    if all(len(t.job_types) == 1 and t.job_types[0].name == "jobs" for t in instance.tenants):
        return table.set_index(pd.Index([tenant.name for tenant, _ in pairs], name="tenant"))
    names = [(tenant.name, kind.name) for tenant, kind in pairs]
    return table.set_index(pd.MultiIndex.from_tuples(names, names=["tenant", "job_type"]))


def _rows(
    table: pd.DataFrame | None, key: str, types: Iterable[str], fields: tuple[str, ...]
) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """(name, values per type, values per given field) of each row; empty cells of fields are left out."""
    if table is None:
        return []
    columns, types = list(table.columns), list(types)
    for column in columns:
        if columns.count(column) > 1:
            raise InvalidInstance(f"{key} has the column {column!r} twice; keep one")
        if column not in types and column not in fields:
            raise InvalidInstance(f"{key} has the unknown column {column!r}; {choices(str(column), [*types, *fields])}")
    for t in types:
        if t not in columns:
            raise InvalidInstance(f"{key} has no column for GPU type {t!r}; give one (0 where there is none)")
    rows = []
    for name, cells in zip(table.index.tolist(), table.astype(object).itertuples(index=False, name=None), strict=True):
        row = dict(zip(columns, cells, strict=True))
        own = {f: row[f] for f in fields if f in row and not pd.isna(row[f])}
        rows.append((name, {t: row[t] for t in types}, own))
    return rows


def _make(key: str, name: Any, kind: Callable[..., Any], *values: Any, **fields: Any) -> Any:
    """``kind(*values, **fields)``, saying which table and row are wrong where it refuses them."""
    try:
        return kind(*values, **fields)
    except InvalidInstance as problem:
        raise InvalidInstance(f"row {name!r} of table {key}: {problem}") from None


def _job(own: dict[str, Any], name: Any) -> dict[str, Any]:
    if "work" not in own:
        raise InvalidInstance(f"row {name!r} of table jobs: work is missing; give the work of every job")
    return own


def _tenants(table: pd.DataFrame | None, types: list[str]) -> tuple[Tenant, ...]:
    """Tenants of a table with one row each, or with a row for each (tenant, job type)."""
    kinds: dict[Any, list[JobType]] = {}
    weights: dict[Any, Any] = {}
    for name, speed, own in _rows(table, "tenants", types, TENANT):
        tenant, kind = name if isinstance(name, tuple) and len(name) == 2 else (name, "jobs")
        if kind == "jobs" and tenant in kinds and not isinstance(name, tuple):
            raise InvalidInstance(f"row {name!r} of table tenants occurs twice; every tenant needs its own name")
        weight = own.pop("weight", 1.0)
        if weights.setdefault(tenant, weight) != weight:
            raise InvalidInstance(
                f"row {name!r} of table tenants: weight is {weight}, in another row {weights[tenant]}"
            )
        kinds.setdefault(tenant, []).append(_make("tenants", name, JobType, kind, speed, **own))
    return tuple(_make("tenants", t, Tenant, t, tuple(kinds[t]), weights[t]) for t in kinds)
