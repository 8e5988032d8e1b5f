"""Results: fractional allocations, whole-GPU plans, placements on servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hetopt.checks import FrozenDict, any_mapping, counted, shown
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, read_only
from hetopt.data.gpu_locations import Placed
from hetopt.data.packing import PackedShares
from hetopt.display import Displayed
from hetopt.errors import InvalidOption, InvalidPlan, Item
from hetopt.results.certificate import Certificate

RANGED = 2_000
"""Largest number of shares for which JSON has sensitivities, which need another solve."""


def as_table(entities: Entities, values: ArrayLike, key: str) -> Floats:
    """``values`` as a read-only (n, k) table of floats, or :class:`InvalidPlan`."""
    try:
        table = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidPlan(f"is {shown(values)}; it must be a table of numbers", key) from None
    if table.shape != entities.shape:
        raise InvalidPlan(f"has shape {table.shape}; it must be {entities.shape}, entities x GPU types", key)
    if not np.isfinite(table).all():
        raise InvalidPlan("has NaN or infinite numbers", key)
    return read_only(table)


def in_halves(x: Floats) -> Floats:
    """``x`` rounded to halves: whole GPUs, and those that two jobs share."""
    return np.asarray(np.rint(2.0 * x) / 2.0)


def _pairs(entities: Entities, pairs: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of different jobs, each of which is in one pair at most."""
    found = tuple(pair if isinstance(pair, tuple) else tuple(pair) for pair in pairs)
    seen = Counter(name for pair in found for name in pair)
    for pair in found:
        if len(pair) != 2 or any(seen[name] > 1 or name not in entities.position for name in pair):
            raise InvalidPlan(
                f"has {shown(pair)}; it must be two jobs of the plan, which are in no other pair", "packed"
            )
    return found


@dataclass(frozen=True, eq=False)
class Allocation(Displayed):
    """The share of each entity on each GPU type.

    Attributes
    ----------
    entities:
        Names and numbers of the entities.
    x:
        (n, k) shares. Tenants: GPUs; jobs: part of the time that the gang runs on the type.
    certificate:
        The solver's claims and the measured values.
    packed:
        The time that jobs share their GPUs in pairs; None if the formulation has no pairs. The shares are then the
        parts of all time after which a job alone would have done as much.
    """

    entities: Entities
    x: Floats
    certificate: Certificate
    packed: PackedShares | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", as_table(self.entities, self.x, "x"))

    @property
    def share(self) -> pd.DataFrame:
        """(n, k) shares as a table."""
        return self.entities.frame(self.x)

    @property
    def gpu_array(self) -> Floats:
        """(n, k) GPUs: share times demand; each job of a pair has half of the GPUs that they share."""
        return self.entities.gpus(self.x) if self.packed is None else self.packed.gpus(self.entities.demand)

    @property
    def gpus(self) -> pd.DataFrame:
        """(n, k) GPUs as a table, as of :attr:`gpu_array`."""
        return self.entities.frame(self.gpu_array)

    @property
    def together(self) -> pd.DataFrame:
        """(p, k) parts of time in which pairs of jobs share their GPUs, as a table; without the pairs that never do."""
        names, types = self.entities.names, self.entities.types
        pairs = [] if self.packed is None else [(names[i], names[j]) for i, j in self.packed.pairs.tolist()]
        index = pd.MultiIndex.from_tuples(pairs, names=["job", "other"])
        table = np.zeros((0, len(types))) if self.packed is None else self.packed.together
        return pd.DataFrame(table, index=index, columns=pd.Index(types, name="gpu_type"))

    @property
    def rate(self) -> pd.Series[float]:
        """(n,) normalised throughput of each tenant (no unit), or work per second of each job."""
        return self.entities.series(self.entities.rate(self.x), "rate")

    @property
    def exact(self) -> pd.DataFrame:
        """(n, k) shares as fractions, with ``Options(exact=True)``.

        Raises
        ------
        ValueError
            The result is not exact.
        """
        if self.certificate.exact is None or self.certificate.exact.share is None:
            raise InvalidOption("this allocation is not exact; solve with Options(exact=True)")
        return self.entities.frame(self.certificate.exact.share)

    def as_dict(self) -> dict[str, Any]:
        """JSON types: shares (fractions as text if exact), rates, the certificate and sensitivities."""
        exact = self.certificate.exact is not None
        return {
            "kind": self.entities.kind,
            "share": self.share.to_dict(orient="index"),
            "rate": self.rate.to_dict(),
            **({"together": self._listed_pairs()} if self.packed is not None else {}),
            **({"exact_share": self.exact.map(str).to_dict(orient="index")} if exact else {}),
            **_optimality(self.certificate, self.x),
        }

    def _listed_pairs(self) -> list[dict[str, Any]]:
        table = self.together
        pairs, rows = table.index.tolist(), table.to_dict(orient="records")
        return [{"jobs": list(pair), "share": row} for pair, row in zip(pairs, rows, strict=True)]

    def __repr__(self) -> str:
        return f"Allocation({self.certificate.status}, objective={self.certificate.objective:g})\n{self.share}"


@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """Whole GPUs for one round.

    Attributes
    ----------
    entities:
        Names and numbers of the entities (tenants, or jobs).
    x:
        (n, k) whole GPUs.
    owed:
        (n, k) GPUs that rounding has withheld so far and will repay (negative: given in advance), or None.
    given_up:
        GPUs that this step lost, by name of the loss (e.g. ``"idle"``, ``"forgiven"``).
    certificate:
        Certificate of the program behind the plan, if there is one.
    placement:
        Servers of the jobs, if the policy chooses them; None if a placer does.
    wake:
        Time of the next call of the policy in seconds, unless an event comes earlier; None: only at events.
    borrowers:
        Jobs that run on GPUs which their tenant borrows for this round.
    packed:
        Pairs of jobs that share their GPUs in this round. Each of them has half of each of these GPUs in ``x``.
    """

    entities: Entities
    x: Floats
    owed: Floats | None = None
    given_up: Mapping[str, float] = field(default_factory=dict)
    certificate: Certificate | None = None
    placement: Placement | None = None
    wake: float | None = None
    borrowers: Collection[str] = frozenset()
    packed: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", as_table(self.entities, self.x, "x"))
        object.__setattr__(self, "packed", _pairs(self.entities, self.packed))
        if self.owed is not None:
            object.__setattr__(self, "owed", as_table(self.entities, self.owed, "owed"))
        object.__setattr__(self, "given_up", FrozenDict(self.given_up))

    @property
    def gpu_array(self) -> Floats:
        """(n, k) GPUs, like :attr:`Allocation.gpu_array`."""
        return self.x

    @cached_property
    def gangs(self) -> Floats:
        """(n, k) whole GPUs, where the first job of each pair has those of both, and the second none."""
        if not self.packed:
            return self.x
        first, second = np.array([[self.entities.position[name] for name in pair] for pair in self.packed]).T
        x = self.x.copy()
        x[first] += x[second]
        x[second] = 0.0
        return read_only(x)

    @property
    def gpus(self) -> pd.DataFrame:
        """(n, k) whole GPUs as a table; halves for jobs that share them."""
        return self.entities.frame(in_halves(self.x) if self.packed else np.rint(self.x).astype(int))

    @property
    def assigned(self) -> dict[str, str | None]:
        """Entity -> the GPU type it runs on, or None if it waits.

        Raises
        ------
        ValueError
            An entity has GPUs of several types; read :attr:`gpus` instead.
        """
        assigned: dict[str, str | None] = {}
        for name, row in zip(self.entities.names, self.x, strict=True):
            types = np.flatnonzero(row)
            if len(types) > 1:
                raise InvalidOption(f"{name!r} has GPUs of several types; read plan.gpus instead of plan.assigned")
            assigned[name] = self.entities.types[types[0]] if len(types) else None
        return assigned

    def as_dict(self) -> dict[str, Any]:
        """JSON types: GPUs, losses, and the certificate and sensitivities of the program if there is one."""
        return {
            "kind": self.entities.kind,
            "gpus": self.gpus.to_dict(orient="index"),
            **({"packed": [list(pair) for pair in self.packed]} if self.packed else {}),
            "given_up": dict(self.given_up),
            **_optimality(self.certificate, self.x),
        }

    def __repr__(self) -> str:
        return f"Plan({counted(int(self.x.sum()), 'GPU')})\n{self.gpus}"


def _optimality(certificate: Certificate | None, x: Floats) -> dict[str, Any]:
    changes = certificate.sensitivity if certificate is not None and x.size <= RANGED else None
    return {
        "certificate": None if certificate is None else certificate.as_dict(),
        "sensitivity": None if changes is None else changes.as_dict(),
    }


class WaitReason(Protocol):
    """Why a job has no GPUs in a round: a record; ``str()`` of it is a message."""

    def __str__(self) -> str:
        """The reason as a message."""
        ...


@dataclass(frozen=True)
class Placement:
    """GPUs of jobs on servers.

    Attributes
    ----------
    hosts:
        Job -> server -> GPU type -> GPUs.
    waiting:
        Jobs of the plan without servers -> reason.
    given_up:
        Losses of the placement, by name, as counts: ``"split"``, ``"moved"``, ``"waiting"`` and ``"spread"`` are jobs,
        ``"extra_servers"`` servers. No name may be one of the plan's.
    replicas:
        Job -> server -> replicas of each of its stages there, for jobs with mapped stages.
    dispatch:
        Forked job -> server -> work (unit of ``Job.work``) of its copy there until the next decision. It has a whole
        gang on each of its ``hosts``; other jobs have one gang in all.
    """

    hosts: Placed
    waiting: Mapping[str, WaitReason] = field(default_factory=dict)
    given_up: Mapping[str, float] = field(default_factory=dict)
    replicas: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    dispatch: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        hosts = {}
        for job, there in any_mapping(self.hosts, "hosts", InvalidPlan, "from jobs to servers").items():
            if type(there) is not FrozenDict:  # those of a placer are frozen, and many jobs share one
                own = any_mapping(there, ("hosts", Item(job)), InvalidPlan, "from servers to GPUs").items()
                there = FrozenDict({server: FrozenDict(gpus) for server, gpus in own})
            hosts[job] = there
        object.__setattr__(self, "hosts", FrozenDict(hosts))
        object.__setattr__(self, "waiting", FrozenDict(self.waiting))
        object.__setattr__(self, "given_up", FrozenDict(self.given_up))
        replicas = {job: FrozenDict({m: tuple(n) for m, n in own.items()}) for job, own in self.replicas.items()}
        object.__setattr__(self, "replicas", FrozenDict(replicas))
        dispatch = {job: FrozenDict(work) for job, work in self.dispatch.items()}
        object.__setattr__(self, "dispatch", FrozenDict(dispatch))

    @property
    def table(self) -> pd.DataFrame:
        """One row per job, server and GPU type."""
        rows = [
            (job, server, kind, n)
            for job, servers in self.hosts.items()
            for server, gpus in servers.items()
            for kind, n in gpus.items()
        ]
        return pd.DataFrame(rows, columns=["job", "server", "gpu_type", "gpus"])
