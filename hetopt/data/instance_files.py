"""Instances in YAML and JSON files."""

from __future__ import annotations

import dataclasses
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from hetopt.checks import known, shown
from hetopt.data import documents, schema
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.documents import DocumentError
from hetopt.data.file_values import Part
from hetopt.data.instance_data import InstanceData, warn_of_scales
from hetopt.data.packing import Packing
from hetopt.data.saving import save
from hetopt.data.schema import SCHEMA
from hetopt.data.standard_input import STANDARD_INPUT, read_bytes
from hetopt.data.workload import ONLY_JOB_TYPE, GangSize, Job, JobType, Stage, Tenant, TrainingPhase
from hetopt.errors import InvalidInstance, InvalidOption, Item, KeyPath, UnusableFile, format_path


class _Named(Protocol):
    name: str


P = TypeVar("P", bound=_Named)
T = TypeVar("T")
Made = TypeVar("Made", bound=InstanceData)


def _validated(document: Any) -> schema.InstancePart:
    if document is None:
        raise DocumentError(f"is empty; it must hold an instance, beginning with 'schema: {schema.SCHEMA}'")
    if not isinstance(document, Mapping):
        found = reprlib.repr(document)
        raise DocumentError(f"holds {found}; it must be a mapping with the keys schema, cluster, tenants …")
    if document.get("schema") != schema.SCHEMA:
        given = f"schema is {document['schema']!r}" if "schema" in document else "schema is missing"
        raise DocumentError(f"{given}; this version of hetopt reads 'schema: {schema.SCHEMA}'", ("schema",))
    try:
        return schema.InstancePart.model_validate(dict(document))
    except ValidationError as problem:
        raise first_error(problem) from None
    except RecursionError:
        raise DocumentError("has too many levels of mappings and lists; the files of hetopt need fewer") from None


WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "non-empty",
}


def first_error(problem: ValidationError, what: str = "an instance") -> DocumentError:
    """The first error of pydantic on one line; ``what`` the file must contain."""
    error = problem.errors(include_url=False)[0]
    path = tuple(p for p in error["loc"] if p != "[key]")
    fault = error["type"]
    if fault == "missing":
        missing = InvalidInstance(f"is missing; {format_path(path[:-1]) or what} must have one", path)
        return DocumentError(missing, path[:-1])
    if fault == "unknown":
        path = (*path, error["ctx"]["key"])
        return DocumentError(InvalidInstance(error["msg"], path), path)
    wanted = error["msg"] if fault == "wrong" else WANTED.get(fault) or error.get("ctx", {}).get("expected")
    found = reprlib.repr(error["input"])
    return DocumentError(InvalidInstance(f"is {found}; it must be {wanted or error['msg']}", path), path)


def to_instance(document: Any, make: Callable[..., Made]) -> Made:
    """The instance in ``document`` (mappings, lists, text, numbers).

    ``make``: the class Instance, which is above this module, called with the fields.

    Raises
    ------
    DocumentError
        The document does not describe an instance.
    """
    part = _validated(document)
    cluster = _cluster(part.cluster)
    tenants, jobs = _rows(part.tenants, ("tenants",), _tenant), _rows(part.jobs, ("jobs",), _job)
    rest = {key: getattr(part, key) for key in ("time", "held", "done", "placed", "name", "source")}
    packings = [_packing(one, i) for i, one in enumerate(part.packings)]
    try:
        return make(cluster, tenants=tenants, jobs=jobs, packings=packings, **rest)
    except InvalidInstance as problem:
        raise DocumentError(problem, _position(problem.path, part)) from None


def _position(path: KeyPath, part: schema.InstancePart) -> KeyPath:
    """Position of a tenant's, job's or packing's value in the document, which lists them; others are unchanged."""
    if len(path) < 2 or path[0] not in ("tenants", "jobs", "packings"):
        return path
    names = [row.name for row in getattr(part, str(path[0]))]
    return (path[0], names.index(path[1]), *path[2:])


@contextmanager
def _at(*position: str | int) -> Iterator[None]:
    """Convert an :class:`InvalidInstance` about the item at ``position`` to a :class:`DocumentError`."""
    try:
        yield
    except InvalidInstance as problem:
        in_cluster = position[0] == "cluster" and problem.path[:1] != ("cluster",) and problem.path
        inside = problem.path[2:] if len(position) > 1 else problem.path
        raise DocumentError(problem.within("cluster") if in_cluster else problem, (*position, *inside)) from None


def _rows(parts: Sequence[P], key: KeyPath, make: Callable[[P], T]) -> tuple[T, ...]:
    """Convert each part; names must differ; errors have their position."""
    first: dict[str, int] = {}
    rows = []
    for i, part in enumerate(parts):
        if first.setdefault(part.name, i) != i:
            other, at = format_path((*key, first[part.name])), (*key, i, "name")
            twice = InvalidInstance(f"is {shown(part.name)}, the name of {other}; every name must differ", at)
            raise DocumentError(twice, at)
        with _at(*key, i):
            rows.append(make(part))
    return tuple(rows)


ELSEWHERE = {
    "gpus_per_server": "give the number of GPUs in gpus of each server",
    "memory_bytes": "give memory_bytes in each of gpu_types",
    "nic_bytes_per_s": "give nic_bytes_per_s in each of the servers",
    "intra_bytes_per_s": "give intra_bytes_per_s in each of the servers",
    "disk_bytes": "give disk_bytes in each of the servers",
}
"""Key that requires ``capacity`` -> the alternative where servers are listed."""


def _cluster(part: schema.ClusterPart) -> Cluster:
    given = {key: value for key, value in part if value is not None}
    long = ("gpu_types", "servers")
    if part.capacity is not None:
        for key in (key for key in long if key in given):
            raise _cluster_error(f"has both capacity and {key}; give capacity, or gpu_types and servers", key)
        try:
            return Cluster.of(**given)
        except InvalidInstance as problem:
            known_key = problem.path[:1] and problem.path[0] in given
            error = problem.within("cluster") if known_key else problem
            raise DocumentError(error, error.path if known_key else ("cluster", "capacity")) from None
    for key in (key for key in long if key not in given):
        missing = InvalidInstance("is missing; give gpu_types and servers, or capacity", ("cluster", key))
        raise DocumentError(missing, ("cluster",))
    for key in (key for key in ELSEWHERE if key in given):
        raise _cluster_error(f"has both servers and {key}; with servers, {ELSEWHERE[key]}", key)
    types = _rows(part.gpu_types or (), ("cluster", "gpu_types"), lambda t: GPUType(**dict(t)))
    servers = _rows(part.servers or (), ("cluster", "servers"), lambda s: _server(s, types))
    with _at("cluster"):
        return Cluster(types, servers)


def _cluster_error(problem: str, key: str) -> DocumentError:
    return DocumentError(InvalidInstance(problem, "cluster"), ("cluster", key))


def _server(part: schema.ServerPart, types: Sequence[GPUType]) -> Server:
    known_types = [t.name for t in types]
    for name in part.gpus:
        known(name, known_types, ("servers", Item(part.name), "gpus"), "GPU type")
    return Server(**dict(part))


def _one_of(part: Part, key: KeyPath, names: Sequence[str]) -> str:
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        have = " and ".join(given) or f"none of {', '.join(names)}"
        raise InvalidInstance(f"has {have}; it must have exactly one of {', '.join(names)}", key)
    return given[0]


def _job_type(part: schema.JobTypePart | schema.TenantPart, name: str) -> JobType:
    memory = part.memory_bytes or 0.0
    if part.throughput is not None:
        return JobType.from_throughput(name, part.throughput, memory)
    return JobType(name, part.speedup or {}, memory, any_scale=True)  # decode warns, with file and line


def _tenant(part: schema.TenantPart) -> Tenant:
    key: KeyPath = ("tenants", Item(part.name))
    if _one_of(part, key, ("speedup", "throughput", "job_types")) != "job_types":
        try:
            only = _job_type(part, ONLY_JOB_TYPE)
        except InvalidInstance as problem:
            raise problem.at((*key, *problem.path[2:])) from None
        return Tenant(part.name, (only,), part.weight)
    if part.memory_bytes is not None:
        raise InvalidInstance("has job_types and memory_bytes; give memory_bytes in each job type", key)
    job_types = part.job_types or []
    for job_type in job_types:
        _one_of(job_type, (*key, "job_types", Item(job_type.name)), ("speedup", "throughput"))
    try:
        rows = tuple(_job_type(job_type, job_type.name) for job_type in job_types)
    except InvalidInstance as problem:
        raise problem.within(*key) from None
    return Tenant(part.name, rows, part.weight)


def _job(part: schema.JobPart) -> Job:
    made = {
        "stages": tuple(Stage(**dict(one)) for one in part.stages),
        "sizes": tuple(GangSize(**dict(one)) for one in part.sizes),
        "phases": tuple(TrainingPhase(**dict(one)) for one in part.phases),
    }
    return Job(**{**dict(part), **made})


def _packing(part: schema.PackingPart, i: int) -> Packing:
    with _at("packings", i):
        first, second = part.models
        return Packing((first, second), {t: (own[0], own[1]) for t, own in part.parts.items()}, part.gpus)


Plain = dict[str, Any]


def encode(instance: InstanceData) -> Plain:
    """The instance as plain data that :func:`hetopt.data.instance_files.decode` turns back into an equal one.

    Fields with their default are omitted, and equivalent short forms are used.
    """
    document = {"schema": SCHEMA, **_fields(instance, "cluster")}
    document["cluster"] = _short_cluster(instance.cluster) or _fields(instance.cluster)
    if instance.tenants:
        document["tenants"] = [_tenant_row(tenant) for tenant in instance.tenants]
    first = ("schema", "name", "source", "cluster")
    return {key: document[key] for key in (*first, *document) if key in document}


def as_document(value: Any) -> Any:
    """Dataclasses, mappings and sequences as dicts and lists; whole floats as integers, which are easier to read."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: as_document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_document(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return str(value) if isinstance(value, str) else value


def _fields(part: Any, *keep: str) -> Plain:
    """Name -> value of the fields that differ from their default."""
    row = {}
    for item in dataclasses.fields(part):
        value = getattr(part, item.name)
        default = item.default_factory() if callable(item.default_factory) else item.default
        if item.name in keep or value != default:
            row[item.name] = as_document(value)
    return row


def _tenant_row(tenant: Tenant) -> Plain:
    row = _fields(tenant)
    if tenant.has_single_type:
        only: JobType = tenant.job_types[0]
        row = {**{key: row[key] for key in row if key != "job_types"}, **_fields(only)}
        row["name"] = tenant.name
    return row


def _short_cluster(cluster: Cluster) -> Plain | None:
    """The cluster as ``capacity`` and the properties common to all servers; None if that cannot express it."""
    if not cluster.servers:
        return None
    first = cluster.servers[0]
    short: Plain = {"capacity": dict(cluster.capacity)}
    largest = max(max(server.gpus.values(), default=0) for server in cluster.servers)
    if largest < max(cluster.capacity.values()):
        short["gpus_per_server"] = largest
    if memory := {t.name: t.memory_bytes for t in cluster.gpu_types if t.memory_bytes is not None}:
        short["memory_bytes"] = memory
    short |= {key: value for key, value in _fields(first).items() if key not in ("name", "gpus")}
    try:
        same = Cluster.of(**short) == cluster
    except InvalidInstance:
        return None
    return as_document(short) if same else None


LARGEST = 2**30
"""Size of the largest file that is read, in bytes."""

PARSERS = {".yaml": documents.from_yaml, ".yml": documents.from_yaml, ".json": documents.from_json}


def read(path: str | os.PathLike[str], make: Callable[..., Made], *, any_scale: bool = False) -> Made:
    """Read a YAML or JSON file; see :meth:`hetopt.Instance.read`. ``make`` is called with the fields."""
    document, text = _read(path)
    return decode(document, make, path, text=text, any_scale=any_scale)


def read_document(path: str | os.PathLike[str]) -> Any:
    """The plain data in a YAML or JSON file, not yet checked against the schema; errors as :func:`read`."""
    return _read(path)[0]


def _read(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The plain data, and the text that they are from."""
    parse, text = _parser(path), _text(Path(path))
    try:
        return parse(text), text
    except DocumentError as error:
        raise _located(error, path, text) from None


def decode(
    document: Any,
    make: Callable[..., Made],
    label: str | os.PathLike[str] = "document",
    *,
    text: str = "",
    any_scale: bool = False,
) -> Made:
    """Read plain data; see :meth:`hetopt.Instance.decode`.

    ``make`` is called with the fields. Errors name ``label``, and the line in ``text``.
    """
    try:
        instance = to_instance(document, make)
    except DocumentError as error:
        raise _located(error, label, text) from None

    def where(i: int, tenant: Tenant, job_type: JobType) -> str:
        short = "speedup" in document["tenants"][i]
        inside: KeyPath = () if short else ("job_types", tenant.job_types.index(job_type))
        at = ("tenants", i, *inside, "speedup")
        place = f"tenants[{tenant.name!r}]" if short else f"tenants[{tenant.name!r}].job_types[{job_type.name!r}]"
        return str(_located(DocumentError(f"{place}.speedup", at), label, text))

    warn_of_scales(instance, any_scale, where, "write throughput instead of speedup")
    return instance


def write(instance: InstanceData, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write an instance as YAML or JSON (the ending decides); :func:`read` gives an equal one.

    The file appears complete or not at all: a temporary file in the same folder is renamed.

    Raises
    ------
    UnusableFile
        There is a file and ``overwrite`` is False, or the folder is absent or not allowed to be written.
    InvalidOption
        An ending other than ``.yaml``, ``.yml``, ``.json``.
    """
    dump = documents.to_json if _parser(path) is documents.from_json else documents.to_yaml
    save(dump(encode(instance)), path, overwrite=overwrite)


def _parser(path: str | os.PathLike[str]) -> Any:
    if str(path) == STANDARD_INPUT:
        return documents.from_json_or_yaml
    ending = Path(path).suffix.lower()
    if ending not in PARSERS:
        what = f"ends with {ending!r}" if ending else "has no suffix"
        raise InvalidOption(f"{what}; the name must end with one of {', '.join(PARSERS)}").in_file(str(path))
    return PARSERS[ending]


def _text(path: Path) -> str:
    try:
        content = read_bytes(path, LARGEST)
        if len(content) <= LARGEST:
            return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        error = InvalidInstance(f"is not UTF-8 text (byte {problem.start}); it must be YAML or JSON")
        raise error.in_file(str(path)) from None
    except (OSError, ValueError) as problem:
        raise UnusableFile.of(problem, path, "read") from None
    large = UnusableFile(f"has more than {LARGEST:,} bytes; make the instance from arrays or tables instead")
    raise large.in_file(str(path))


def _located(error: DocumentError, label: str | os.PathLike[str], text: str) -> InvalidInstance:
    """The error with file and line, on one line."""
    problem = error.problem if isinstance(error.problem, InvalidInstance) else InvalidInstance(str(error.problem))
    return problem.in_file(str(label), error.found_line(text))
