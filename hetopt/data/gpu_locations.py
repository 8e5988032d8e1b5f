"""Which GPUs where: the shapes in which the GPUs of jobs are given, and the conversions between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from hetopt.checks import FrozenDict

Hosts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Server -> GPU type -> GPUs of one job."""

Placed: TypeAlias = Mapping[str, Hosts]
"""Job -> server -> GPU type -> GPUs."""

HeldGPUs: TypeAlias = Mapping[tuple[str, str], float]
"""(server, GPU type) -> GPUs that a job holds; the server is "" where jobs are not placed on servers."""


def held_gpus(hosts: Hosts) -> dict[tuple[str, str], int]:
    """(server, GPU type) -> GPUs, without zeros, in the order of the servers' names."""
    return {(server, t): n for server, gpus in sorted(hosts.items()) for t, n in gpus.items() if n}


@lru_cache(maxsize=100_000)
def on_one_server(server: str, gpu_type: str, gpus: int) -> Hosts:
    """The hosts of a job on one server: the same object for all such jobs, of which a simulation has many."""
    return FrozenDict({server: FrozenDict({gpu_type: gpus})})


def hosts_of(held: HeldGPUs) -> Hosts:
    """Server -> GPU type -> GPUs; empty where the servers are not given."""
    if len(held) == 1:
        (((server, t), n),) = held.items()
        return on_one_server(server, t, int(n)) if server else {}
    hosts: dict[str, dict[str, int]] = {}
    for (server, t), n in held.items():
        if server:
            hosts.setdefault(server, {})[t] = int(n)
    return hosts
