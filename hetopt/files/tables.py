"""Instances as pandas tables and as folders of CSV files, without loss.

Each table has names as its index: ``servers`` (a column of GPUs per type), ``gpu_types`` (memory), ``tenants`` (a
column of speedup per type, or ``throughput.<type>``, and weight), ``jobs`` (a column of throughput per type, demand,
work, arrival …), ``stages`` of jobs, and the state: ``held``, ``done``, ``placed``, ``instance`` with the time. Only
``servers`` must be there. Columns other than GPU types may be absent, and cells empty, for the default.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from hetopt.checks import boolean
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.scale import check_instance
from hetopt.data.workload import Job, JobType, Tenant
from hetopt.errors import InvalidInstance, UnusableFile
from hetopt.files.saving import check_folder, check_free, save
from hetopt.files.schema import to_number
from hetopt.files.state_tables import stages_of, state_fields, state_tables
from hetopt.files.table_rows import INDEX, filled, make, table_rows

SERVER = ("nic_bytes_per_s", "intra_bytes_per_s", "disk_bytes")
GPU_TYPE = ("memory_bytes",)
TENANT = ("weight", "memory_bytes")
TEXT = ("tenant", "job_type", "dataset", "utility", "parallelism", "group", "model", "source")
THROUGHPUT = "throughput."
"""Before the names of GPU types: the columns of tenants hold throughputs."""
JOB = tuple(f.name for f in dataclasses.fields(Job) if f.name not in ("name", "throughput", "stages"))


def tables(instance: Instance) -> dict[str, pd.DataFrame]:
    """The whole of ``instance`` as tables; those that would be empty are left out.

    Returns
    -------
    dict
        ``servers``: index server, a column per GPU type (GPUs), nic_bytes_per_s, intra_bytes_per_s, disk_bytes.
        ``gpu_types``: index gpu_type, memory_bytes. ``tenants``: index tenant, or (tenant, job_type) where someone
        has several; a column per GPU type (speedup), weight, memory_bytes. ``jobs``: index job; a column per GPU
        type (work per second), demand, work, arrival (seconds) and the other fields of :class:`hetopt.Job`.
        ``stages``: index (job, stage from 1), the fields of :class:`hetopt.Stage`. ``held``: index name, a column
        per GPU type (GPUs). ``done``: index job, work. ``placed``: index (job, server), a column per GPU type
        (GPUs). ``instance``: one row, index name; time (seconds), source.

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
        "servers": filled(((s.name, s.gpus, s) for s in cluster.servers), "server", types, SERVER),
        "gpu_types": filled(((t.name, {}, t) for t in cluster.gpu_types), "gpu_type", (), GPU_TYPE),
    }
    if instance.tenants:
        result["tenants"] = _tenant_table(instance)
    if instance.jobs:
        result["jobs"] = filled(((j.name, j.throughput, j) for j in instance.jobs), "job", types, JOB)
    return result | {key: table for key, table in state_tables(instance, list(types)).items() if len(table)}


def from_tables(
    servers: pd.DataFrame,
    *,
    tenants: pd.DataFrame | None = None,
    jobs: pd.DataFrame | None = None,
    gpu_types: pd.DataFrame | None = None,
    stages: pd.DataFrame | None = None,
    any_scale: bool = False,
    **state: Any,
) -> Instance:
    """The instance that tables in the form of :func:`tables` hold.

    Parameters
    ----------
    servers:
        Its columns other than bandwidths and disk are the GPU types, in order, unless ``gpu_types`` gives them.
    tenants:
        As :func:`tables` makes it, or with columns ``throughput.<type>`` of work per second of one GPU, in any unit of
        work; each row is divided by its smallest that is not 0.
    jobs, gpu_types, stages:
        As :func:`tables` makes them.
    any_scale:
        Speedups that are relative to something else than the slowest GPU type are meant so; nothing is warned of.
    state:
        ``held``, ``done``, ``placed`` and ``instance`` as :func:`tables` makes them, or fields of
        :class:`hetopt.Instance`: held, done and placed as mappings, time, name, source.

    Raises
    ------
    InvalidInstance
        A missing, unknown or double column, a bad cell (named by row and column), or no valid instance.

    Warns
    -----
    SuspiciousSpeedups
        The smallest speedup of a tenant above zero is not 1: it looks like throughputs.
    """
    given = {"servers": servers, "gpu_types": gpu_types, "tenants": tenants, "jobs": jobs, "stages": stages}
    for key, table in given.items():
        if not isinstance(table, pd.DataFrame) and (key == "servers" or table is not None):
            raise InvalidInstance(f"{key} is a {type(table).__name__}; it must be a pandas DataFrame")
    names = (
        [str(t) for t in gpu_types.index] if gpu_types is not None else [c for c in servers.columns if c not in SERVER]
    )
    kinds = [GPUType(n, **own) for n, _, own in table_rows(gpu_types, "gpu_types", (), GPU_TYPE)]
    rows = table_rows(servers, "servers", names, SERVER)
    servers_made = tuple(make("servers", name, Server, name, gpus, **own) for name, gpus, own in rows)
    cluster = Cluster(tuple(kinds or map(GPUType, names)), servers_made)
    pipelines = stages_of(stages)
    made = [
        make("jobs", n, Job, n, speed, **_job(own, n), stages=tuple(pipelines.pop(n, ())))
        for n, speed, own in table_rows(jobs, "jobs", names, JOB)
    ]
    if pipelines:
        raise InvalidInstance(f"table stages names the job {next(iter(pipelines))!r}, which is not in table jobs")
    instance = Instance(cluster, tenants=_tenants(tenants, names), jobs=tuple(made), **state_fields(state, names))
    if not boolean(any_scale, "any_scale", InvalidInstance):
        _check_scale(instance, "of table tenants")
    return instance


def _check_scale(instance: Instance, of: str) -> None:
    first = instance.cluster.type_names[0]
    check_instance(
        instance,
        lambda _, tenant, kind: f"row {tenant.name if len(tenant.job_types) == 1 else (tenant.name, kind.name)!r} {of}",
        f"call the columns {THROUGHPUT + first!r} and so on",
    )


def write_csv(instance: Instance, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write each table of :func:`tables` as ``folder/<name>.csv``; the folder is made if absent.

    Nothing is lost: :func:`read_csv` gives an equal instance.

    Parameters
    ----------
    overwrite:
        Replace the tables that are there already, and delete those that this instance does not have.

    Raises
    ------
    UnusableFile
        A table is there already and ``overwrite`` is False (then nothing is written), or the folder cannot be written.
    """
    check_folder(folder)
    paths = {name: Path(folder) / f"{name}.csv" for name in INDEX}
    for path in paths.values():  # all before the first is written: read_csv would take old and new ones together
        check_free(path, overwrite=overwrite)
    made = tables(instance)
    for name, path in paths.items():
        if name in made:
            # a source may hold line ends
            text = made[name].to_csv(quoting=csv.QUOTE_ALL) if name == "instance" else made[name].to_csv()
            save(text, path, overwrite=overwrite)
        else:
            path.unlink(missing_ok=True)


def read_csv(folder: str | os.PathLike[str], *, any_scale: bool = False, **state: Any) -> Instance:
    """The instance in ``servers.csv`` and, where present, the other tables of :func:`tables`; ``state`` goes before.

    ``any_scale`` and what is warned of are as of :func:`from_tables`.

    Raises
    ------
    UnusableFile
        ``servers.csv`` is absent, or a file cannot be read.
    InvalidInstance
        As :func:`from_tables`, or no CSV; the message names the file.
    """
    found = {}
    for name in INDEX:
        path = Path(folder) / f"{name}.csv"
        if name == "servers" or path.exists():
            found[name] = _csv(path)
    try:
        instance = from_tables(**{**found, **state}, any_scale=True)
    except InvalidInstance as problem:
        raise InvalidInstance(_in_files(str(problem), Path(folder))) from None
    if not boolean(any_scale, "any_scale", InvalidInstance):
        _check_scale(instance, f"of {Path(folder) / 'tenants.csv'}")
    return instance


def _in_files(message: str, folder: Path) -> str:
    """A message of :func:`from_tables` that names the file instead of the table."""
    key = "|".join(INDEX)
    if row := re.match(rf"(row .*?) of table ({key})\b", message):
        return f"{folder / row[2]}.csv: {row[1]}{message[row.end() :]}"
    if table := re.match(rf"(?:table )?({key})(?= )", message):
        return f"{folder / table[1]}.csv{message[table.end() :]}"
    return f"{folder}: {message}"


def _csv(path: Path) -> pd.DataFrame:
    index = INDEX[path.stem]
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        header = pd.read_csv(path, dtype=str, keep_default_na=False, header=None, nrows=1).iloc[0].tolist()
    except OSError as problem:
        raise UnusableFile(f"{path} cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:  # pandas' own errors and wrong encodings
        raise InvalidInstance(f"{path} is not CSV: {' '.join(str(problem).split())}") from None
    if twice := [column for column in header if header.count(column) > 1]:
        raise InvalidInstance(f"{path} has the column {twice[0]!r} twice; keep one")
    for column in table.columns:
        if column not in (*index, *TEXT) or column == "stage":
            table[column] = table[column].astype(object).map(to_number)
    keys = [key for key in index if key in table.columns]
    if missing := [key for key in index if key not in keys and key != "job_type"]:
        raise InvalidInstance(f"{path} has no column {missing[0]!r}; its first columns must hold the names")
    return table.set_index(keys if len(keys) > 1 else keys[0])


def _tenant_table(instance: Instance) -> pd.DataFrame:
    pairs = [(tenant, kind) for tenant in instance.tenants for kind in tenant.job_types]
    types = instance.cluster.type_names
    table = filled(((None, kind.speedup, kind) for _, kind in pairs), "tenant", types, ("memory_bytes",))
    table.insert(len(types), "weight", [tenant.weight for tenant, _ in pairs])
    if all(len(t.job_types) == 1 and t.job_types[0].name == "jobs" for t in instance.tenants):
        return table.set_index(pd.Index([tenant.name for tenant, _ in pairs], name="tenant"))
    names = [(tenant.name, kind.name) for tenant, kind in pairs]
    return table.set_index(pd.MultiIndex.from_tuples(names, names=["tenant", "job_type"]))


def _job(own: dict[str, Any], name: Any) -> dict[str, Any]:
    if "work" not in own:
        raise InvalidInstance(f"row {name!r} of table jobs: work is missing; give the work of every job")
    return own


def _tenants(table: pd.DataFrame | None, types: list[str]) -> tuple[Tenant, ...]:
    """Tenants of a table with one row each, or with a row for each (tenant, job type)."""
    kinds: dict[Any, list[JobType]] = {}
    weights: dict[Any, Any] = {}
    columns = [] if table is None else list(table.columns)
    measured = [THROUGHPUT + t for t in types if THROUGHPUT + t in columns and THROUGHPUT + t not in types]
    if measured and (relative := [t for t in types if t in columns]):
        raise InvalidInstance(
            f"tenants has the columns {relative[0]!r} (speedup) and {measured[0]!r}; give all of one kind"
        )
    prefix, job_type = (THROUGHPUT, JobType.from_throughput) if measured else ("", partial(JobType, any_scale=True))
    for name, speed, own in table_rows(table, "tenants", types, TENANT, prefix):
        tenant, kind = name if isinstance(name, tuple) and len(name) == 2 else (name, "jobs")
        if kind == "jobs" and tenant in kinds and not isinstance(name, tuple):
            raise InvalidInstance(f"row {name!r} of table tenants occurs twice; every tenant needs its own name")
        weight = own.pop("weight", 1.0)
        if weights.setdefault(tenant, weight) != weight:
            raise InvalidInstance(
                f"row {name!r} of table tenants: weight is {weight}, in another row {weights[tenant]}"
            )
        kinds.setdefault(tenant, []).append(make("tenants", name, job_type, kind, speed, **own))
    return tuple(make("tenants", t, Tenant, t, tuple(kinds[t]), weights[t]) for t in kinds)
