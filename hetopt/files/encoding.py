"""Instances as plain data (mappings, lists, text, numbers) in the form of :mod:`hetopt.files.schema`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.data.workload import JobType, Tenant
from hetopt.errors import InvalidInstance
from hetopt.files.schema import SCHEMA

Plain = dict[str, Any]


def encode(instance: Instance) -> Plain:
    """The instance as plain data that :func:`hetopt.files.instance_files.decode` turns back into an equal one.

    Fields that have their default are left out, and short forms are used where they say the same.
    """
    document = {"schema": SCHEMA, **_fields(instance, "cluster")}
    document["cluster"] = _short_cluster(instance.cluster) or _fields(instance.cluster)
    if instance.tenants:
        document["tenants"] = [_tenant(tenant) for tenant in instance.tenants]
    first = ("schema", "name", "source", "cluster")
    return {key: document[key] for key in (*first, *document) if key in document}


def plain(value: Any) -> Any:
    """Dataclasses, mappings and sequences as dicts and lists; whole floats as integers, which read more easily."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
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
            row[item.name] = plain(value)
    return row


def _tenant(tenant: Tenant) -> Plain:
    row = _fields(tenant)
    if len(tenant.job_types) == 1 and tenant.job_types[0].name == "jobs":
        only: JobType = tenant.job_types[0]
        row = {**{key: row[key] for key in row if key != "job_types"}, **_fields(only)}
        row["name"] = tenant.name
    return row


def _short_cluster(cluster: Cluster) -> Plain | None:
    """The cluster as ``capacity`` and what is alike in all servers, or None if it cannot be said so."""
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
    return plain(short) if same else None
