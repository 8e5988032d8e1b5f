"""From plain data in the form of :mod:`hetopt.files.schema` to an instance; what is wrong is said with its place."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from hetopt.checks import known
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, JobType, Stage, Tenant
from hetopt.errors import InvalidInstance
from hetopt.files import schema
from hetopt.files.documents import Fault, Path, spell


class _Named(Protocol):
    name: str


P = TypeVar("P", bound=_Named)
T = TypeVar("T")


def to_instance(document: Any) -> Instance:
    """The instance that ``document`` (mappings, lists, text, numbers) stands for.

    Raises
    ------
    Fault
        It is none.
    """
    return _instance(_model(document))


def _model(document: Any) -> schema.InstancePart:
    if document is None:
        raise Fault(f"is empty; it must hold an instance, beginning with 'schema: {schema.SCHEMA}'")
    if not isinstance(document, Mapping):
        raise Fault(f"holds {reprlib.repr(document)}; it must be a mapping with the keys schema, cluster, tenants …")
    if document.get("schema") != schema.SCHEMA:
        given = f"schema is {document['schema']!r}" if "schema" in document else "schema is missing"
        raise Fault(f"{given}; this version of hetopt reads 'schema: {schema.SCHEMA}'", ("schema",))
    try:
        return schema.InstancePart.model_validate(dict(document))
    except ValidationError as problem:
        raise fault_of(problem) from None
    except RecursionError:
        raise Fault("has too many levels of mappings and lists; no file of hetopt needs so many") from None


AT: Path = ("cluster",)

WANTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "one that is not empty",
}


def fault_of(problem: ValidationError, what: str = "an instance") -> Fault:
    """The first error of pydantic as one line of ours; ``what`` the file must hold."""
    error = problem.errors(include_url=False)[0]
    path = tuple(p for p in error["loc"] if p != "[key]")
    kind, key = error["type"], spell(path)
    if kind == "missing":
        return Fault(f"{key} is missing; {spell(path[:-1]) or what} must have one", path[:-1])
    if kind == "unknown":
        return Fault(f"{key} {error['msg']}".strip(), (*path, error["ctx"]["key"]))
    wanted = error["msg"] if kind == "wrong" else WANTED.get(kind) or error.get("ctx", {}).get("expected")
    return Fault(f"{key} is {reprlib.repr(error['input'])}; it must be {wanted or error['msg']}", path)


def _instance(part: schema.InstancePart) -> Instance:
    cluster = _cluster(part.cluster)
    tenants, jobs = _rows(part.tenants, ("tenants",), _tenant), _rows(part.jobs, ("jobs",), _job)
    rest = {key: getattr(part, key) for key in ("time", "held", "done", "placed", "name", "source")}
    try:
        return Instance(cluster, tenants=tenants, jobs=jobs, **rest)
    except InvalidInstance as problem:
        raise Fault(str(problem), _guess(str(problem), part)) from None


def _guess(message: str, part: schema.InstancePart) -> Path:
    """Path of the tenant or job that a message of :class:`Instance` begins with, for the line."""
    found = re.match(r"(tenants|jobs)\['(.*?)'\]\.?(\w*)|(\w+)", message)
    if found is None or found[4]:
        return (found[4],) if found else ()
    names = [row.name for row in getattr(part, found[1])]
    return (found[1], names.index(found[2]), found[3]) if found[2] in names else (found[1],)


@contextmanager
def _at(*path: str | int) -> Iterator[None]:
    """Say where in the file the data of an :class:`InvalidInstance` stand; what is in the cluster says so."""
    try:
        yield
    except InvalidInstance as problem:
        inside = path[:1] == AT and not re.match(r"(the )?cluster", str(problem))
        raise Fault(f"cluster.{problem}" if inside else str(problem), path) from None


def _rows(parts: Sequence[P], key: Path, make: Callable[[P], T]) -> tuple[T, ...]:
    """What ``make`` makes of each part, all with different names; what is wrong is said with its place."""
    first: dict[str, int] = {}
    rows = []
    for i, part in enumerate(parts):
        if first.setdefault(part.name, i) != i:
            place, other = spell((*key, i, "name")), spell((*key, first[part.name]))
            raise Fault(f"{place} is {part.name!r}, the name of {other}; every name must differ", (*key, i, "name"))
        with _at(*key, i):
            rows.append(make(part))
    return tuple(rows)


ELSEWHERE = {
    "gpus_per_server": "say in the gpus of each server how many it has",
    "memory_bytes": "give memory_bytes in each of gpu_types",
    "nic_bytes_per_s": "give nic_bytes_per_s in each of the servers",
    "intra_bytes_per_s": "give intra_bytes_per_s in each of the servers",
    "disk_bytes": "give disk_bytes in each of the servers",
}
"""Keys that go with ``capacity`` -> what to do instead where servers are listed."""


def _cluster(part: schema.ClusterPart) -> Cluster:
    given = {key: value for key, value in part if value is not None}
    long = ("gpu_types", "servers")
    if part.capacity is not None:
        for key in (key for key in long if key in given):
            raise Fault(f"cluster has both capacity and {key}; give capacity, or gpu_types and servers", (*AT, key))
        try:
            return Cluster.of(**given)
        except InvalidInstance as problem:
            key = str(problem).partition(" ")[0]
            text = f"cluster.{problem}" if key in given else str(problem)
            raise Fault(text, (*AT, key if key in given else "capacity")) from None
    for key in (key for key in long if key not in given):
        raise Fault(f"cluster.{key} is missing; give gpu_types and servers, or capacity", AT)
    for key in (key for key in ELSEWHERE if key in given):
        raise Fault(f"cluster has both servers and {key}; with servers, {ELSEWHERE[key]}", (*AT, key))
    types = _rows(part.gpu_types or (), (*AT, "gpu_types"), lambda t: GPUType(**dict(t)))
    servers = _rows(part.servers or (), (*AT, "servers"), lambda s: _server(s, types))
    with _at(*AT):
        return Cluster(types, servers)


def _server(part: schema.ServerPart, types: Sequence[GPUType]) -> Server:
    known_types = [t.name for t in types]
    for name in part.gpus:
        known(name, known_types, f"servers[{part.name!r}].gpus", "GPU type")
    return Server(**dict(part))


def _one_of(part: schema.Part, key: str, names: Sequence[str]) -> str:
    given = [name for name in names if getattr(part, name) is not None]
    if len(given) != 1:
        have = " and ".join(given) or f"none of {', '.join(names)}"
        raise InvalidInstance(f"{key} has {have}; it must have exactly one of {', '.join(names)}")
    return given[0]


def _job_type(part: schema.JobTypePart | schema.TenantPart, name: str) -> JobType:
    memory = part.memory_bytes or 0.0
    if part.throughput is not None:
        return JobType.from_throughput(name, part.throughput, memory)
    return JobType(name, part.speedup or {}, memory, any_scale=True)


def _tenant(part: schema.TenantPart) -> Tenant:
    key = f"tenants[{part.name!r}]"
    if _one_of(part, key, ("speedup", "throughput", "job_types")) != "job_types":
        with _within("job_types['jobs']", key):
            return Tenant(part.name, (_job_type(part, "jobs"),), part.weight)
    if part.memory_bytes is not None:
        raise InvalidInstance(f"{key} has job_types and memory_bytes; give memory_bytes in each job type")
    kinds = part.job_types or []
    for kind in kinds:
        _one_of(kind, f"{key}.job_types[{kind.name!r}]", ("speedup", "throughput"))
    with _within("job_types[", f"{key}.job_types["):
        rows = tuple(_job_type(kind, kind.name) for kind in kinds)
    return Tenant(part.name, rows, part.weight)


@contextmanager
def _within(beginning: str, better: str) -> Iterator[None]:
    """Let errors that begin with the key of a job type say whose it is."""
    try:
        yield
    except InvalidInstance as problem:
        text = str(problem)
        raise InvalidInstance(better + text.removeprefix(beginning) if text.startswith(beginning) else text) from None


def _job(part: schema.JobPart) -> Job:
    return Job(**{**dict(part), "stages": tuple(Stage(**dict(stage)) for stage in part.stages)})
