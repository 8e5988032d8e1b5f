"""Which GPUs where: the shapes in which the GPUs of jobs are given, and the conversions between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Hosts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Server -> GPU type -> GPUs of one job."""

Placed: TypeAlias = Mapping[str, Hosts]
"""Job -> server -> GPU type -> GPUs."""

HeldGPUs: TypeAlias = Mapping[tuple[str, str], float]
"""(server, GPU type) -> GPUs that a job holds; the server is "" where jobs are not placed on servers."""


def held_gpus(hosts: Hosts) -> dict[tuple[str, str], int]:
    """(server, GPU type) -> GPUs, without zeros, in the order of the servers' names."""
    return {(server, t): n for server, gpus in sorted(hosts.items()) for t, n in gpus.items() if n}


def hosts_of(held: HeldGPUs) -> dict[str, dict[str, int]]:
    """Server -> GPU type -> GPUs; empty where the servers are not given."""
    hosts: dict[str, dict[str, int]] = {}
    for (server, t), n in held.items():
        if server:
            hosts.setdefault(server, {})[t] = int(n)
    return hosts
