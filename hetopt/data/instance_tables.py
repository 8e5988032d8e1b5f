"""Instances as pandas tables and folders of CSV files."""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
import pandas as pd

from hetopt.checks import choices, count, known
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.file_values import to_number
from hetopt.data.instance_data import STATE_FIELDS, InstanceData, warn_of_scales
from hetopt.data.packing import Packing
from hetopt.data.saving import check_folder, check_free, save
from hetopt.data.workload import ONLY_JOB_TYPE, GangSize, Job, JobType, Stage, Tenant, TrainingPhase
from hetopt.errors import InvalidInstance, Item, KeyPath, UnusableFile

Made = TypeVar("Made", bound=InstanceData)

INDEX = {
    "servers": ("server",),
    "gpu_types": ("gpu_type",),
    "tenants": ("tenant", "job_type"),
    "jobs": ("job",),
    "stages": ("job", "stage"),
    "sizes": ("job", "gpus"),
    "phases": ("job", "phase"),
    "held": ("name",),
    "done": ("job",),
    "placed": ("job", "server"),
    "packings": ("model", "other", "gpus"),
    "instance": ("name",),
}
"""Table -> index columns in a CSV file; ``job_type`` may be absent."""


def filled(
    rows: Iterable[tuple[Any, Mapping[str, Any], Any]], index: str, types: Iterable[str], fields: Iterable[str]
) -> pd.DataFrame:
    """A table with a row for each (name, values per type, object with ``fields``)."""
    types, fields = list(types), list(fields)
    data, names = [], []
    for name, values, part in rows:
        names.append(name)
        data.append([values.get(t, 0) for t in types] + [_enum_as_text(getattr(part, f)) for f in fields])
    return pd.DataFrame(data, index=pd.Index(names, name=index), columns=pd.Index(types + fields))


def _enum_as_text(value: Any) -> Any:
    """A member of an enum of text as its text; other values unchanged."""
    return str(value) if isinstance(value, str) else value


def table_rows(
    table: pd.DataFrame | None, key: str, types: Iterable[str], fields: tuple[str, ...], prefix: str = ""
) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    """(name, values per type, values per given field) of each row; empty cells of fields are left out.

    The columns of the types begin with ``prefix``.
    """
    if table is None:
        return []
    columns, of = list(table.columns), {prefix + t: t for t in types}
    for column in columns:
        if columns.count(column) > 1:
            raise InvalidInstance(f"has the column {column!r} twice; keep one").in_table(key)
        if column not in of and column not in fields:
            names = choices(str(column), [*of, *fields])
            raise InvalidInstance(f"has the unknown column {column!r}; {names}").in_table(key)
    for column, t in of.items():
        if column not in columns:
            called = f" {column!r}" if prefix else ""
            raise InvalidInstance(
                f"has no column{called} for GPU type {t!r}; give one (0 where there is none)"
            ).in_table(key)
    if key != "instance":  # whose name may be empty
        for i, name in enumerate(table.index.tolist(), 1):
            if not isinstance(name, tuple) and pd.isna(name):
                raise InvalidInstance(f"has no name in row {i}").in_table(key)
    if table.index.has_duplicates:
        twice = table.index[table.index.duplicated()].tolist()[0]
        raise InvalidInstance("occurs twice; every row needs its own name").in_table(key, twice)
    rows = []
    for name, cells in zip(table.index.tolist(), table.astype(object).to_numpy().tolist(), strict=True):
        row = dict(zip(columns, cells, strict=True))
        own = {f: row[f] for f in fields if f in row and not pd.isna(row[f])}
        rows.append((name, {t: row[column] for column, t in of.items()}, own))
    return rows


def made(key: str, name: Any, make: Callable[..., Any], *values: Any, **fields: Any) -> Any:
    """``make(*values, **fields)``; errors name the table and the row."""
    try:
        return make(*values, **fields)
    except InvalidInstance as problem:
        raise problem.in_table(key, name) from None


STAGE = tuple(f.name for f in dataclasses.fields(Stage))
PHASE = tuple(f.name for f in dataclasses.fields(TrainingPhase))
ABOUT = ("time", "source")


def state_tables(instance: InstanceData, types: list[str]) -> dict[str, pd.DataFrame]:
    """``stages``, ``sizes``, ``phases``, ``held``, ``done``, ``placed``, ``packings``, ``instance``; see `tables`."""
    parts: dict[str, list[tuple[tuple[Any, ...], list[Any]]]] = {
        key: [
            ((job.name, i), [getattr(part, f) for f in fields])
            for job in instance.jobs
            for i, part in enumerate(getattr(job, key), 1)
        ]
        for key, fields in (("stages", STAGE), ("phases", PHASE))
    }
    batches = [BATCH_SIZE + t for t in types]
    parts["sizes"] = [
        ((j.name, s.gpus), [*(s.throughput.get(t, 0.0) for t in types), *map(s.batch_size.get, types)])
        for j in instance.jobs
        for s in j.sizes
    ]
    held = [((name,), [gpus.get(t) for t in types]) for name, gpus in instance.held.items()]
    placed = [
        ((job, server), [gpus.get(t) for t in types])
        for job, hosts in instance.placed.items()
        for server, gpus in hosts.items()
    ]
    about = [((instance.name,), [instance.time, instance.source])]
    return {
        "stages": _indexed("stages", parts["stages"], STAGE),
        "sizes": _indexed("sizes", parts["sizes"], [*types, *batches]).dropna(axis=1, how="all"),
        "phases": _indexed("phases", parts["phases"], PHASE),
        "held": _indexed("held", held, types),
        "done": _indexed("done", [((job,), [work]) for job, work in instance.done.items()], ["work"]),
        "placed": _indexed("placed", placed, types),
        "packings": _indexed("packings", list(_packing_rows(instance)), types),
        "instance": _indexed("instance", about if any([instance.name, instance.time, instance.source]) else [], ABOUT),
    }


def _packing_rows(instance: InstanceData) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """For each order of two models the parts of the first; 0 GPUs stand for gangs of any size."""
    for packing in instance.packings:
        for one in [packing, packing.reversed()][: len(set(packing.models))]:
            parts = [one.parts[t][0] if t in one.parts else None for t in instance.cluster.type_names]
            yield (*one.models, one.gpus or 0), parts


def _packings(table: pd.DataFrame, types: list[str]) -> list[Packing]:
    rows = {name: _present(parts) for name, parts, _ in table_rows(table, "packings", types, ())}
    seen, packings = set[Any](), list[Packing]()
    for name, parts in rows.items():
        if not isinstance(name, tuple) or len(name) != 3:
            raise InvalidInstance(f"must have the index {', '.join(INDEX['packings'])}").in_table("packings", name)
        model, other, gpus = name
        if name in seen:
            continue
        beside = rows.get((other, model, gpus), {})
        if beside.keys() != parts.keys():
            problem = f"has other GPU types than the row of {other!r} beside {model!r}; give both rows of two models"
            raise InvalidInstance(problem).in_table("packings", name)
        seen |= {name, (other, model, gpus)}
        both = {t: (part, beside[t]) for t, part in parts.items()}
        size = made("packings", name, count, gpus, "gpus")
        packings.append(made("packings", name, Packing, (model, other), both, size or None))
    return packings


def _indexed(key: str, rows: list[tuple[tuple[Any, ...], list[Any]]], columns: Iterable[str]) -> pd.DataFrame:
    """A table of (index, cells) rows with the index of :data:`INDEX`."""
    index: pd.Index = pd.MultiIndex.from_tuples([name for name, _ in rows], names=INDEX[key])
    if len(INDEX[key]) == 1:
        index = pd.Index([name for (name,), _ in rows], name=INDEX[key][0])
    return pd.DataFrame([cells for _, cells in rows], index=index, columns=pd.Index(columns), dtype=object)


def parts_of(table: pd.DataFrame | None, key: str, make: type[Stage | TrainingPhase]) -> dict[Any, list[Any]]:
    """Job -> its stages (phases) in the order of their numbers; the first three fields of both are required."""
    numbered: dict[Any, dict[Any, Any]] = {}
    fields, one = tuple(f.name for f in dataclasses.fields(make)), INDEX[key][1]
    for name, _, own in table_rows(table, key, (), fields):
        job, number = _pair(name, key)
        made(key, name, count, number, one, least=1)
        if missing := [f for f in fields[:3] if f not in own]:
            raise InvalidInstance("is missing", missing[0]).in_table(key, name)
        if numbered.setdefault(job, {}).setdefault(number, part := made(key, name, make, **own)) is not part:
            raise InvalidInstance(f"occurs twice; number the {key} of a job 1, 2, …").in_table(key, name)
    for job, rows in numbered.items():
        for absent in (number for number in range(1, len(rows) + 1) if number not in rows):
            raise InvalidInstance(f"{one} {absent} of job {job!r} is missing; number them 1, 2, …").in_table(key)
    return {job: [rows[number] for number in sorted(rows)] for job, rows in numbered.items()}


def sizes_of(table: pd.DataFrame | None, types: Iterable[str]) -> dict[Any, list[GangSize]]:
    """Job -> the other sizes of its gang, in the order of the table."""
    found: dict[Any, list[GangSize]] = {}
    batches = {BATCH_SIZE + t: t for t in types}
    for name, speed, own in table_rows(table, "sizes", types, tuple(batches)):
        job, gpus = _pair(name, "sizes")
        size = made("sizes", name, GangSize, gpus, speed, {batches[key]: n for key, n in own.items()})
        found.setdefault(job, []).append(size)
    return found


def _pair(name: Any, key: str) -> tuple[Any, Any]:
    if not isinstance(name, tuple) or len(name) != 2:
        raise InvalidInstance(f"must have the index {', '.join(INDEX[key])}").in_table(key, name)
    return name


def state_fields(state: dict[str, Any], types: list[str]) -> dict[str, Any]:
    """Fields of the instance from the tables in ``state``; values that are not tables take precedence."""
    plain = {key: value for key, value in state.items() if not isinstance(value, pd.DataFrame)}
    for key in plain:
        known(key, STATE_FIELDS, "from_tables", "field")
    fields: dict[str, Any] = {}
    for key, table in state.items():
        if key in plain:
            continue
        if key == "instance":
            fields |= _about(table)
        elif key == "done":
            fields[key] = {job: own.get("work", 0.0) for job, _, own in table_rows(table, key, (), ("work",))}
        elif key == "held":
            fields[key] = {name: _present(gpus) for name, gpus, _ in table_rows(table, key, types, ())}
        elif key == "placed":
            fields[key] = {}
            for name, gpus, _ in table_rows(table, key, types, ()):
                job, server = _pair(name, key)
                fields[key].setdefault(job, {})[server] = _present(gpus)
        elif key == "packings":
            fields[key] = _packings(table, types)
        else:
            raise InvalidInstance(f"there is no table {key!r}; {choices(key, INDEX)}")
    return fields | plain


def _present(gpus: dict[str, Any]) -> dict[str, Any]:
    """The cells that are not empty."""
    return {t: n for t, n in gpus.items() if not pd.isna(n)}


def _about(table: pd.DataFrame) -> dict[str, Any]:
    rows = table_rows(table, "instance", (), ABOUT)
    if len(rows) != 1:
        raise InvalidInstance(f"has {len(rows)} rows; it must have one").in_table("instance")
    name, _, own = rows[0]
    return {"name": "" if pd.isna(name) else name, **own}


SERVER = ("nic_bytes_per_s", "intra_bytes_per_s", "disk_bytes")
GPU_TYPE = ("memory_bytes",)
TENANT = ("weight", "memory_bytes")
THROUGHPUT = "throughput."
"""Prefix of columns with throughputs of tenants."""
BATCH_SIZE = "batch_size."
"""Prefix of columns with batch sizes of gangs."""
JOB = tuple(
    f.name for f in dataclasses.fields(Job) if f.name not in ("name", "throughput", "stages", "sizes", "phases")
)


def _is_text(hint: Any) -> bool:
    """Whether values of that type are text, or may also be None."""
    return any(isinstance(part, type) and issubclass(part, str) for part in (hint, *get_args(hint)))


TEXT = (*(key for key, hint in get_type_hints(Job).items() if key in JOB and _is_text(hint)), "source")
"""Columns of text, in which numbers are not read; the others are fields of numbers."""


def tables(instance: InstanceData) -> dict[str, pd.DataFrame]:
    """``instance`` as tables; empty ones are left out.

    Returns
    -------
    dict
        ``servers``: index server, a column per GPU type (GPUs), nic_bytes_per_s, intra_bytes_per_s, disk_bytes.
        ``gpu_types``: index gpu_type, memory_bytes. ``tenants``: index tenant, or (tenant, job_type) where a tenant
        has several; a column per GPU type (speedup), weight, memory_bytes. ``jobs``: index job; a column per GPU
        type (work per second), demand, work, arrival (seconds) and the other fields of :class:`hetopt.Job`.
        ``stages``: index (job, stage from 1), the fields of :class:`hetopt.Stage`. ``sizes``: index (job, GPUs of the
        gang), a column per GPU type (work per second), columns ``batch_size.<type>``. ``phases``: index (job, phase
        from 1), the fields of :class:`hetopt.TrainingPhase`. ``held``: index name, a column per GPU type (GPUs).
        ``done``: index job, work. ``placed``: index (job, server), a column per GPU type (GPUs). ``packings``: index
        (model, other, gpus), 0 GPUs for gangs of any size; a column per GPU type: the part of its isolated rate that a
        job of the model keeps beside one of the other, empty where they cannot share; a row for each order of two
        models.
        ``instance``: one row, index name; time (seconds), source.

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
    make: Callable[..., Made],
    servers: pd.DataFrame,
    *,
    tenants: pd.DataFrame | None = None,
    jobs: pd.DataFrame | None = None,
    gpu_types: pd.DataFrame | None = None,
    stages: pd.DataFrame | None = None,
    sizes: pd.DataFrame | None = None,
    phases: pd.DataFrame | None = None,
    any_scale: bool = False,
    **state: Any,
) -> Made:
    """Make the instance in tables of the form of :func:`tables`.

    Parameters
    ----------
    make:
        Called with the fields of the instance.
    servers:
        Its columns other than bandwidths and disk are the GPU types, in order, unless ``gpu_types`` gives them.
    tenants:
        As :func:`tables` makes it, or with columns ``throughput.<type>`` of work per second of one GPU, in any unit of
        work; each row is divided by its smallest that is not 0.
    jobs, gpu_types, stages, sizes, phases:
        As :func:`tables` makes them.
    any_scale:
        Do not warn of speedups that are relative to something other than the slowest GPU type.
    state:
        ``held``, ``done``, ``placed``, ``packings`` and ``instance`` as :func:`tables` makes them, or fields of
        :class:`hetopt.Instance`: held, done and placed as mappings, packings, time, name, source.

    Raises
    ------
    InvalidInstance
        A missing, unknown or duplicate column, a bad cell (named by row and column), or an invalid instance.

    Warns
    -----
    SuspiciousSpeedups
        The smallest speedup of a tenant above zero is not 1, as if these were throughputs.
    """
    given = {"servers": servers, "gpu_types": gpu_types, "tenants": tenants, "jobs": jobs}
    given |= {"stages": stages, "sizes": sizes, "phases": phases}
    for key, table in given.items():
        if not isinstance(table, pd.DataFrame) and (key == "servers" or table is not None):
            raise InvalidInstance(f"is a {type(table).__name__}; it must be a pandas DataFrame", key)
    names = (
        [str(t) for t in gpu_types.index] if gpu_types is not None else [c for c in servers.columns if c not in SERVER]
    )
    types = [made("gpu_types", n, GPUType, n, **own) for n, _, own in table_rows(gpu_types, "gpu_types", (), GPU_TYPE)]
    rows = table_rows(servers, "servers", names, SERVER)
    servers_made = tuple(made("servers", name, Server, name, gpus, **own) for name, gpus, own in rows)
    cluster = Cluster(tuple(types or map(GPUType, names)), servers_made)
    parts: dict[str, dict[Any, Any]] = {
        "stages": parts_of(stages, "stages", Stage),
        "sizes": sizes_of(sizes, names),
        "phases": parts_of(phases, "phases", TrainingPhase),
    }
    job_rows = [
        made("jobs", n, Job, n, speed, **_job(own, n), **{key: tuple(of.pop(n, ())) for key, of in parts.items()})
        for n, speed, own in table_rows(jobs, "jobs", names, JOB)
    ]
    for key, left in ((key, of) for key, of in parts.items() if of):
        raise InvalidInstance(f"names the job {next(iter(left))!r}, which is not in table jobs").in_table(key)
    try:
        instance = make(cluster, tenants=_tenants(tenants, names), jobs=tuple(job_rows), **state_fields(state, names))
    except InvalidInstance as problem:
        if problem.table is not None or len(problem.path) < 2 or problem.path[0] not in INDEX:
            raise
        raise problem.in_table(str(problem.path[0]), problem.path[1]) from None
    _warn_of_scales(instance, any_scale, tenants, "table tenants")
    return instance


def _warn_of_scales(instance: InstanceData, any_scale: Any, tenants: pd.DataFrame | None, source: str) -> None:
    """``tenants``: the table of tenants, from ``source``."""
    by_job_type = tenants is not None and tenants.index.nlevels > 1

    def row(_: int, tenant: Tenant, job_type: JobType) -> str:
        return f"row {(tenant.name, job_type.name) if by_job_type else tenant.name!r} of {source}"

    first = instance.cluster.type_names[0]
    warn_of_scales(instance, any_scale, row, f"call the columns {THROUGHPUT + first!r} and so on")


def write_csv(instance: InstanceData, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write each table of :func:`tables` as ``folder/<name>.csv``; the folder is made if absent.

    Nothing is lost: :func:`read_csv` gives an equal instance.

    Parameters
    ----------
    overwrite:
        Replace existing tables, and delete those that this instance does not have.

    Raises
    ------
    UnusableFile
        A table exists and ``overwrite`` is False (then nothing is written), or the folder cannot be written.
    """
    check_folder(folder)
    paths = {name: Path(folder) / f"{name}.csv" for name in INDEX}
    for path in paths.values():  # before the first is written, so that read_csv never mixes old and new files
        check_free(path, overwrite=overwrite)
    frames = tables(instance)
    for name, path in paths.items():
        if name in frames:
            # A source may contain line breaks.
            text = frames[name].to_csv(quoting=csv.QUOTE_ALL) if name == "instance" else frames[name].to_csv()
            save(text, path, overwrite=overwrite)
        else:
            path.unlink(missing_ok=True)


def read_csv(
    folder: str | os.PathLike[str], make: Callable[..., Made], *, any_scale: bool = False, **state: Any
) -> Made:
    """The instance in ``servers.csv`` and, where present, the other tables of :func:`tables`; ``state`` overrides them.

    ``any_scale`` and the warnings are those of :func:`from_tables`.

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
        instance = from_tables(make, **{**found, **state}, any_scale=True)
    except InvalidInstance as problem:
        table = problem.table or next((key for key in problem.path[:1] if key in INDEX), None)
        file = Path(folder) if table is None else Path(folder) / f"{table}.csv"
        raise problem.in_file(str(file)) from None
    _warn_of_scales(instance, any_scale, found.get("tenants"), str(Path(folder) / "tenants.csv"))
    return instance


def _csv(path: Path) -> pd.DataFrame:
    index = INDEX[path.stem]
    header, rows = _cells(path)
    if twice := [column for column in header if header.count(column) > 1]:
        raise InvalidInstance(f"has the column {twice[0]!r} twice; keep one").in_file(str(path))
    table = pd.DataFrame([[cell or np.nan for cell in row] for row in rows], columns=header, dtype=object)
    for column in table.columns:
        if column not in (*index, *TEXT) or column in ("stage", "gpus", "phase"):
            table[column] = table[column].astype(object).map(to_number)
    keys = [key for key in index if key in table.columns]
    if missing := [key for key in index if key not in keys and key != "job_type"]:
        raise InvalidInstance(f"has no column {missing[0]!r}; its first columns must hold the names").in_file(str(path))
    return table.set_index(keys if len(keys) > 1 else keys[0])


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header, and the cells of each other row; empty rows, and empty cells at the end of all rows, are skipped."""
    rows = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            while header and not header[-1]:
                del header[-1]
            width = len(header)
            for cells in lines:
                if any(cells[width:]):
                    wrong = f"has {len(cells)} cells in a row, and {width} columns; quote a cell that contains commas"
                    raise InvalidInstance(wrong).in_file(str(path), lines.line_num)
                if any(cells):
                    rows.append(cells[:width] + [""] * (width - len(cells)))
    except OSError as problem:
        raise UnusableFile.of(problem, path, "read") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InvalidInstance(f"is not CSV: {problem}").in_file(str(path)) from None
    return header, rows


def _tenant_table(instance: InstanceData) -> pd.DataFrame:
    pairs = [(tenant, job_type) for tenant in instance.tenants for job_type in tenant.job_types]
    types = instance.cluster.type_names
    table = filled(((None, own.speedup, own) for _, own in pairs), "tenant", types, ("memory_bytes",))
    table.insert(len(types), "weight", [tenant.weight for tenant, _ in pairs])
    if all(t.has_single_type for t in instance.tenants):
        return table.set_index(pd.Index([tenant.name for tenant, _ in pairs], name="tenant"))
    names = [(tenant.name, job_type.name) for tenant, job_type in pairs]
    return table.set_index(pd.MultiIndex.from_tuples(names, names=["tenant", "job_type"]))


def _job(own: dict[str, Any], name: Any) -> dict[str, Any]:
    if "work" not in own:
        problem = InvalidInstance("is missing; give the work of every job", ("jobs", Item(name), "work"))
        raise problem.in_table("jobs", name)
    return own


def _tenants(table: pd.DataFrame | None, types: list[str]) -> tuple[Tenant, ...]:
    """The tenants of a table with one row per tenant or per (tenant, job type)."""
    job_types: dict[Any, list[JobType]] = {}
    weights: dict[Any, Any] = {}
    columns = [] if table is None else list(table.columns)
    measured = [THROUGHPUT + t for t in types if THROUGHPUT + t in columns and THROUGHPUT + t not in types]
    if measured and (relative := [t for t in types if t in columns]):
        raise InvalidInstance(
            f"has the columns {relative[0]!r} (speedup) and {measured[0]!r}; give all of one kind"
        ).in_table("tenants")
    prefix, make = (THROUGHPUT, JobType.from_throughput) if measured else ("", partial(JobType, any_scale=True))
    for name, speed, own in table_rows(table, "tenants", types, TENANT, prefix):
        tenant, job_type = name if isinstance(name, tuple) and len(name) == 2 else (name, ONLY_JOB_TYPE)
        key: KeyPath = ("tenants", Item(tenant))
        weight = own.pop("weight", 1.0)
        if weights.setdefault(tenant, weight) != weight:
            other = InvalidInstance(f"is {weight}, in another row {weights[tenant]}", (*key, "weight"))
            raise other.in_table("tenants", name)
        try:
            made_type = made("tenants", name, make, job_type, speed, **own)
        except InvalidInstance as problem:
            own_key = () if job_type == ONLY_JOB_TYPE else ("job_types", Item(job_type))
            raise problem.at((*key, *own_key, *problem.path[2:])) from None
        job_types.setdefault(tenant, []).append(made_type)
    return tuple(made("tenants", t, Tenant, t, tuple(job_types[t]), weights[t]) for t in job_types)
