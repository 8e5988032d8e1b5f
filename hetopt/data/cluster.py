"""GPU types, servers and the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from hetopt.checks import FrozenDict, count, known, mapping, members, number, shown, text, unique
from hetopt.errors import InvalidInstance, Item

MOST_SERVERS = 1_000_000
"""Most servers that :meth:`Cluster.of` makes, so that a typing error in a capacity cannot exhaust the memory."""

NIC_BYTES_PER_S = 1.25e9
"""Bandwidth of a network card of 10 Gbit/s [FFT, section 6.1.1; ASRPT, section V-B]."""

INTRA_BYTES_PER_S = 300e9
"""Bandwidth between two GPUs of a host [ASRPT, section V-B]."""


@dataclass(frozen=True)
class GPUType:
    """One model of GPU.

    Parameters
    ----------
    name:
        As tenants and jobs refer to it, e.g. ``"V100"``.
    memory_bytes:
        Memory of one GPU in bytes; None if unknown (then nothing is too large for it).

    Raises
    ------
    InvalidInstance
        Empty name, memory that is not positive.
    """

    name: str
    memory_bytes: float | None = None

    def __post_init__(self) -> None:
        text(self.name, "GPU type name")
        if self.memory_bytes is not None:
            memory = number(self.memory_bytes, ("gpu_types", Item(self.name), "memory_bytes"), strict=True)
            object.__setattr__(self, "memory_bytes", memory)

    @property
    def memory_limit(self) -> float:
        """The most bytes that a worker may need; infinite if the memory is unknown."""
        return math.inf if self.memory_bytes is None else self.memory_bytes


@dataclass(frozen=True)
class Server:
    """One host.

    Parameters
    ----------
    name:
        Unique in the cluster.
    gpus:
        GPU type -> how many of it this host has (whole GPUs).
    nic_bytes_per_s:
        Bandwidth of the network card in bytes/s; default 10 Gbit/s = 1.25e9 (FFT, section 6.1.1).
    intra_bytes_per_s:
        Bandwidth between two GPUs of this host in bytes/s; default 300e9 (A-SRPT, section V-B).
    disk_bytes:
        Local disk for datasets in bytes; None for no limit.

    Raises
    ------
    InvalidInstance
        Negative or fractional GPU counts, bandwidth that is not positive.
    """

    name: str
    gpus: Mapping[str, int]
    nic_bytes_per_s: float = NIC_BYTES_PER_S
    intra_bytes_per_s: float = INTRA_BYTES_PER_S
    disk_bytes: float | None = None

    def __post_init__(self) -> None:
        key = "servers", Item(text(self.name, "server name"))
        gpus = {t: count(n, (*key, "gpus", Item(t))) for t, n in mapping(self.gpus, (*key, "gpus")).items()}
        object.__setattr__(self, "gpus", FrozenDict({t: n for t, n in gpus.items() if n}))
        for name in ("nic_bytes_per_s", "intra_bytes_per_s"):
            object.__setattr__(self, name, number(getattr(self, name), (*key, name), strict=True))
        if self.disk_bytes is not None:
            object.__setattr__(self, "disk_bytes", number(self.disk_bytes, (*key, "disk_bytes")))


@dataclass(frozen=True)
class Cluster:
    """GPU types in a fixed order (columns of every table) and the servers that hold them.

    Parameters
    ----------
    gpu_types:
        In order, usually slowest first; adjacency of types (OEF, Theorem 5.2) refers to this order.
    servers:
        Hosts; their GPU types must be among ``gpu_types``.

    Raises
    ------
    InvalidInstance
        No GPU type, no GPU, duplicate names, a server with an unknown GPU type.
    """

    gpu_types: tuple[GPUType, ...]
    servers: tuple[Server, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpu_types", members(self.gpu_types, GPUType, ("cluster", "gpu_types")))
        object.__setattr__(self, "servers", members(self.servers, Server, ("cluster", "servers")))
        if not self.gpu_types:
            raise InvalidInstance("is empty; a cluster needs at least one GPU type", ("cluster", "gpu_types"))
        unique((t.name for t in self.gpu_types), "GPU type")
        unique((s.name for s in self.servers), "server")
        for server in self.servers:
            for name in server.gpus:
                known(name, self.type_names, ("servers", Item(server.name), "gpus"), "GPU type")
        if sum(self.capacity.values()) == 0:
            raise InvalidInstance("the cluster is empty: no server has a GPU; give at least one server with one GPU")

    @cached_property
    def type_names(self) -> tuple[str, ...]:
        """Names of the GPU types, in order."""
        return tuple(t.name for t in self.gpu_types)

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """GPU type -> GPUs of it in the whole cluster."""
        return FrozenDict({t: sum(s.gpus.get(t, 0) for s in self.servers) for t in self.type_names})

    @cached_property
    def seats(self) -> Mapping[str, Mapping[str, int]]:
        """GPU type -> server -> its GPUs of that type, without servers that have none."""
        return FrozenDict(
            {t: FrozenDict({s.name: s.gpus[t] for s in self.servers if s.gpus.get(t)}) for t in self.type_names}
        )

    @cached_property
    def slowest_cards(self) -> Mapping[str, float]:
        """GPU type -> bytes/s of the slowest network card among the servers that have GPUs of the type."""
        by_name = self.by_name
        return FrozenDict({t: min(by_name[s].nic_bytes_per_s for s in own) for t, own in self.seats.items() if own})

    @cached_property
    def by_name(self) -> Mapping[str, Server]:
        """Server name -> server."""
        return FrozenDict({s.name: s for s in self.servers})

    def gpu_type(self, name: str) -> GPUType:
        """The GPU type of that name."""
        known(name, self.type_names, "gpu_type", "GPU type")
        return self.gpu_types[self.type_names.index(name)]

    @classmethod
    def of(
        cls,
        capacity: Mapping[str, int] | Sequence[int],
        *,
        gpus_per_server: int | None = None,
        memory_bytes: Mapping[str, float] | None = None,
        **server: float | None,
    ) -> Cluster:
        """A cluster from GPUs per type.

        Parameters
        ----------
        capacity:
            GPU type -> GPUs; a bare sequence names the types ``GPU1, GPU2, …`` as the papers do.
        gpus_per_server:
            GPUs of one type that share a host; by default one host has all GPUs of a type.
        memory_bytes:
            GPU type -> memory of one GPU in bytes, where known.
        server:
            Further arguments of every :class:`Server`, e.g. ``nic_bytes_per_s``.

        Raises
        ------
        InvalidInstance
            Counts that are not whole numbers, memory of an unknown type, more than 1,000,000 servers.
        """
        if not isinstance(capacity, Mapping):
            if isinstance(capacity, str) or not isinstance(capacity, Iterable):
                raise InvalidInstance(
                    f"is {shown(capacity)}; it must map GPU types to GPUs, or list GPUs per type", "capacity"
                )
            capacity = {f"GPU{i + 1}": n for i, n in enumerate(capacity)}
        gpus = {t: count(n, ("capacity", Item(t))) for t, n in mapping(capacity, "capacity").items()}
        memory = mapping({} if memory_bytes is None else memory_bytes, "memory_bytes")
        for name in memory:
            known(name, gpus, "memory_bytes", "GPU type")
        size = max(gpus.values(), default=1) or 1
        if gpus_per_server is not None:
            size = count(gpus_per_server, "gpus_per_server", least=1)
        if sum(-(-n // size) for n in gpus.values()) > MOST_SERVERS:
            raise InvalidInstance(
                f"is {shown(gpus)}; in servers of {size} that is more than {MOST_SERVERS} servers", "capacity"
            )
        prefix = {t: t.lower() for t in gpus} if len({t.lower() for t in gpus}) == len(gpus) else {t: t for t in gpus}
        servers = [
            Server(f"{prefix[t]}-{i}", {t: min(size, n - i * size)}, **server)  # type: ignore[arg-type]
            for t, n in gpus.items()
            for i in range(-(-n // size))
        ]
        return cls(tuple(GPUType(t, memory.get(t)) for t in gpus), tuple(servers))

    def with_more(self, gpus: Mapping[str, int]) -> Cluster:
        """The cluster with more GPUs: for each type a further server like the first that has GPUs of this type.

        Raises
        ------
        InvalidInstance
            An unknown GPU type, or not a whole number of GPUs.
        """
        added = []
        for t, n in gpus.items():
            known(t, self.type_names, ("more_gpus",), "GPU type")
            like = next((s for s in self.servers if s.gpus.get(t)), self.servers[0])
            name = next(name for i in range(len(self.servers) + 1) if (name := f"more-{t}-{i}") not in self.by_name)
            added.append(replace(like, name=name, gpus={t: count(n, ("more_gpus", Item(t)))}))
        return Cluster(self.gpu_types, (*self.servers, *added))
