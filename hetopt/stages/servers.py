"""The servers available to a job: free GPUs, and the bandwidths between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import count, counted, known, number, text, unique
from hetopt.data.array_types import Numbers
from hetopt.data.cluster import INTRA_BYTES_PER_S, NIC_BYTES_PER_S, Server
from hetopt.data.entities import read_only
from hetopt.data.instance import Instance
from hetopt.data.rationals import exact_fractions
from hetopt.errors import InvalidInstance


@dataclass(frozen=True, eq=False)
class Servers:
    """M servers with GPUs of one type.

    Attributes
    ----------
    names:
        Names of the M servers.
    free:
        (M,) free GPUs, > 0.
    nic:
        (M,) bandwidth of the network card per GPU, B_inter / g, in bytes/s.
    intra:
        (M,) bandwidth between two GPUs of the server, B_intra, in bytes/s.

    Raises
    ------
    InvalidInstance
        A server without GPUs or bandwidth, or two with the same name.
    """

    names: tuple[str, ...]
    free: NDArray[np.int64]
    nic: Numbers
    intra: Numbers

    @classmethod
    def alike(
        cls,
        free: Sequence[int] | Mapping[str, int],
        *,
        gpus: int | None = None,
        nic_bytes_per_s: float = NIC_BYTES_PER_S,
        intra_bytes_per_s: float = INTRA_BYTES_PER_S,
    ) -> Self:
        """Servers with ``gpus`` GPUs each (default: the largest number of free GPUs).

        Parameters
        ----------
        free:
            Free GPUs per server, or server -> free GPUs; a bare sequence names them ``server1, server2, …``.
        gpus:
            GPUs of each server, which share its network card.
        nic_bytes_per_s, intra_bytes_per_s:
            As of :class:`hetopt.Server`.
        """
        named = free if isinstance(free, Mapping) else {f"server{i + 1}": n for i, n in enumerate(free)}
        counts = {name: count(n, f"free[{name!r}]") for name, n in named.items()}
        size = max([1, *counts.values()]) if gpus is None else count(gpus, "gpus", least=1)
        for name, n in counts.items():
            if n > size:
                raise InvalidInstance(f"is {n}; the server has {counted(size, 'GPU')}", f"free[{name!r}]")
        number(nic_bytes_per_s, "nic_bytes_per_s", strict=True)
        number(intra_bytes_per_s, "intra_bytes_per_s", strict=True)
        m = len(counts)
        nic = np.full(m, nic_bytes_per_s / size)
        return cls(tuple(counts), np.array(list(counts.values()), dtype=np.int64), nic, np.full(m, intra_bytes_per_s))

    @cached_property
    def kind(self) -> tuple[int, ...]:
        """Index of the pair (nic, intra) of each server among the distinct pairs."""
        pairs = list(zip(self.nic.tolist(), self.intra.tolist(), strict=True))
        number = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
        return tuple(number[pair] for pair in pairs)

    @classmethod
    def of(cls, instance: Instance, gpu_type: str, *, busy: bool = True) -> Self:
        """The servers of ``instance`` with GPUs of that type that no placed job uses.

        Parameters
        ----------
        gpu_type:
            Type of the GPUs.
        busy:
            False: ignore placed jobs.

        Raises
        ------
        InvalidInstance
            The type does not exist or has no free GPU; or a server has no GPU of any type.
        """
        known(gpu_type, instance.cluster.type_names, "gpu_type", "GPU type")
        for empty in (s.name for s in instance.cluster.servers if not s.gpus):
            raise InvalidInstance("has no GPU; leave it out", f"servers[{empty!r}]")
        used: dict[str, int] = {}
        for hosts in instance.placed.values() if busy else ():
            for server, gpus in hosts.items():
                used[server] = used.get(server, 0) + gpus.get(gpu_type, 0)
        left = {s.name: s.gpus.get(gpu_type, 0) - used.get(s.name, 0) for s in instance.cluster.servers}
        there = [s for s in instance.cluster.servers if left[s.name] > 0]
        if not there:
            raise InvalidInstance(f"no server has a free GPU of type {gpu_type!r}")
        nic, intra = bandwidths(there)
        return cls(tuple(s.name for s in there), np.array([left[s.name] for s in there]), nic, intra)

    def __post_init__(self) -> None:
        unique(self.names, "server")
        for name, free, nic, intra in zip(self.names, self.free, self.nic, self.intra, strict=True):
            text(name, "server name")
            if free <= 0:
                raise InvalidInstance(f"server {name!r} has no GPU; leave it out")
            if not (nic > 0 and intra > 0):
                raise InvalidInstance(f"server {name!r} has the bandwidths {nic} and {intra} bytes/s; both must be > 0")
        for key in ("free", "nic", "intra"):
            object.__setattr__(self, key, read_only(np.array(getattr(self, key))))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def total(self) -> int:
        """Number of free GPUs."""
        return int(self.free.sum())

    @cached_property
    def fast_inside(self) -> bool:
        """Whether B_intra >= B_inter / g on all servers: the hypothesis of the bounds on the time of an iteration."""
        return bool((self.intra >= self.nic.max()).all())

    def take(self, gpus: Mapping[int, int] | Sequence[tuple[int, int]]) -> Servers:
        """The servers at these positions, in this order, with these numbers of GPUs."""
        pairs = list(gpus.items() if isinstance(gpus, Mapping) else gpus)
        where = [m for m, _ in pairs]
        names = tuple(self.names[m] for m in where)
        return Servers(names, np.array([n for _, n in pairs], dtype=np.int64), self.nic[where], self.intra[where])

    def exact(self) -> Servers:
        """The same with bandwidths as fractions."""
        return replace(self, nic=exact_fractions(self.nic), intra=exact_fractions(self.intra))


def bandwidths(servers: Sequence[Server]) -> tuple[Numbers, Numbers]:
    """(nic per GPU, intra) of each server in bytes/s; a server without GPUs counts as one with one GPU."""
    nic = np.array([s.nic_bytes_per_s / (sum(s.gpus.values()) or 1) for s in servers])
    return nic, np.array([s.intra_bytes_per_s for s in servers])
