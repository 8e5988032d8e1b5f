"""One job in stages on servers, in fractions: its placements, their iterations, and spaces of such cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb, prod
from operator import index
from typing import Any

import numpy as np

from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Stage
from hetopt.models.asrpt.fleet import Fleet
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.placement_costs import Whole
from hetopt.proofs.ledger.claim import number
from hetopt.proofs.ledger.pictures import Shares, placed
from hetopt.proofs.ledger.space import Choose, Numbers, Space, Table, whole
from hetopt.proofs.placements import every_placement
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers, as_fractions

F = Fraction
ZERO, ONE = F(0), F(1)
BYTES = whole(0, 8)
BANDWIDTHS = whole(1, 12)
BANDS = whole(1, 6)

ALL_PLACEMENTS = "all placements were enumerated, their iterations computed in fractions by (4) to (7), repaired"


def staged_job(
    name: str,
    replicas: Sequence[Fraction],
    seconds: Sequence[Fraction],
    parameters: Sequence[Fraction],
    outputs: Sequence[Fraction],
    *,
    work: Fraction = ONE,
    arrival: Fraction = ZERO,
) -> Job:
    """A job of stages that each take ``seconds`` in an iteration; ``outputs`` of all but the last."""
    stages = tuple(
        Stage(int(k), float(p), 0.0, parameter_bytes=float(h), output_bytes=float(d))
        for k, p, h, d in zip(replicas, seconds, parameters, (*outputs, F(0)), strict=True)
    )
    speed = 1 / float(max(seconds)) if max(seconds) else 1.0
    gpus = sum(stage.gpus for stage in stages)
    return Job(name, {"GPU": speed}, float(work), gpus, arrival=float(arrival), stages=stages)


def cluster_of(free: Sequence[int], nic: Fraction, intra: Fraction) -> Cluster:
    """Servers with so many GPUs; ``nic`` is the part of the card that comes with each GPU, B_inter / g."""
    servers = tuple(
        Server(f"server{m + 1}", {"GPU": n}, nic_bytes_per_s=float(nic * n), intra_bytes_per_s=float(intra))
        for m, n in enumerate(free)
    )
    return Cluster((GPUType("GPU"),), servers)


def servers_of(free: Sequence[int], nic: Fraction, intra: Fraction) -> Servers:
    """The same for the model of an iteration, with bandwidths as fractions."""
    names = tuple(f"server{m + 1}" for m in range(len(free)))
    alike = [as_fractions(np.array([value] * len(free), dtype=object)) for value in (nic, intra)]
    return Servers(names, np.array(free), *alike)


def exact(value: Any) -> Fraction:
    """An entry of an array of fractions; sums of nothing are whole numbers of numpy's own kind."""
    return value if isinstance(value, Fraction) else Fraction(index(value))


@dataclass(frozen=True, eq=False)
class Placing:
    """A job, and servers with room for it.

    Attributes
    ----------
    job:
        In stages whose numbers are short, so that its floats are what is meant.
    free:
        GPUs of each server.
    nic, intra:
        b = B_inter / g and B_intra, the same on all servers.
    """

    job: Job
    free: tuple[int, ...]
    nic: Fraction
    intra: Fraction

    @cached_property
    def instance(self) -> Instance:
        """As an instance of the library."""
        return Instance(cluster_of(self.free, self.nic, self.intra), jobs=(self.job,))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages in fractions."""
        return Pipeline.of(self.job).exact()

    @cached_property
    def servers(self) -> Servers:
        """The servers in fractions."""
        return servers_of(self.free, self.nic, self.intra)

    @cached_property
    def placements(self) -> list[Whole]:
        """All (S, M) tables of replicas."""
        return list(every_placement(self.pipeline, self.servers))

    @cached_property
    def alphas(self) -> list[Fraction]:
        """Seconds of an iteration of each placement."""
        return [exact(v) for v in self.seconds(np.array(self.placements)).tolist()]

    def seconds(self, x: Any) -> Any:
        """Seconds of an iteration of (..., S, M) replicas [ASRPT, eq. 7]."""
        return Asynchronous()(self.pipeline, x, self.servers)

    @cached_property
    def shortest(self) -> Fraction:
        """alpha_min."""
        return min(self.alphas)

    @cached_property
    def apart(self) -> Fraction:
        """alpha_max as the paper computes it: every replica on a server of its own."""
        return exact(Asynchronous().most(self.pipeline, self.servers))

    @cached_property
    def greedy(self) -> Fraction:
        """alpha~_min: Heavy-Edge on servers that are filled one after the other."""
        return exact(self._empty.fewest(self.pipeline))

    @property
    def greedily(self) -> Whole:
        """Where :attr:`greedy` places the replicas."""
        offer = self._empty.candidate(self.pipeline, consolidate=True)
        assert offer is not None, "there is room"
        x = np.zeros((len(self.pipeline), len(self.free)), dtype=int)
        for seat in offer.slots:
            x[:, seat.server] = seat.replicas
        return x

    @property
    def _empty(self) -> Fleet:
        return Fleet(self.servers, HeavyEdge(), Asynchronous())

    def told(self, x: Whole) -> str:
        """A placement in words, server by server."""
        columns = ("+".join(f"{n} of S{s + 1}" for s, n in enumerate(column) if n) for column in x.T.tolist())
        return " | ".join(column or "nothing" for column in columns)

    def picture(self, title: str, x: Whole, alpha: Fraction) -> Shares:
        """Replicas of each stage on each server, and how long an iteration takes."""
        stages = [f"S{s + 1}" for s in range(len(x))]
        return placed(f"{title}: {number(alpha)} s", stages, x.tolist(), self.free)


def alike(
    where: Callable[[Placing], bool] = lambda _: True,
    *,
    stages: tuple[int, int] = (1, 3),
    servers: tuple[int, int] = (1, 3),
    gpus: tuple[int, int] = (1, 3),
    ladder: tuple[Fraction, ...] = (),
    most_placements: int = 200,
) -> Space[Placing]:
    """A job on equal servers for which ``where`` holds.

    Parameters
    ----------
    ladder:
        Bytes and bandwidths to choose from; then nothing has to be computed.
    """

    def build(numbers: Numbers) -> Placing | None:
        replicas, count, size = numbers.row("replicas"), int(numbers.one("servers")), int(numbers.one("gpus"))
        if sum(replicas) > count * size or _ways(replicas, count) > most_placements:
            return None
        nothing = {"seconds": (F(0),) * len(replicas)} if ladder else {}
        case = Placing(_job(numbers, **nothing), (size,) * count, *numbers.row("bandwidth"))
        return case if where(case) else None

    tables = _stage_tables(4, ladder)
    tables["servers"], tables["gpus"] = Table(1, 1, whole(*servers)), Table(1, 1, whole(*gpus))
    tables["bandwidth"] = Table(1, 2, _positive(ladder) or BANDWIDTHS)
    return Space({"s": stages}, tables, build)


def filled(*, stages: tuple[int, int] = (1, 3), servers: tuple[int, int] = (2, 3)) -> Space[Placing]:
    """A job on servers that have just as many free GPUs as it needs; B_intra >= g B_inter / g for the largest."""

    def build(numbers: Numbers) -> Placing | None:
        free = tuple(map(int, numbers.row("free")))
        nic, intra = numbers.row("bandwidth")
        if sum(free) != sum(numbers.row("replicas")) or sum(free) > 6 or intra < max(free) * nic:
            return None
        return Placing(_job(numbers), free, nic, intra)

    def choose(choose: Choose, sizes: Mapping[str, int]) -> Numbers:
        s, m = sizes["s"], sizes["m"]
        replicas: list[Fraction] = []
        for i in range(s):
            least = max(1, m - (s - 1)) if i == 0 else 1
            most = min(3, min(6, 4 * m) - int(sum(replicas)) - (s - 1 - i))
            replicas.append(choose(whole(least, most)))
        free, left = list[Fraction](), int(sum(replicas))
        for after in reversed(range(m)):
            free.append(choose(whole(max(1, left - 4 * after), min(4, left - after))))
            left -= int(free[-1])
        rows = {"replicas": replicas, "free": free}
        for key, columns in (("seconds", s), ("parameters", s), ("outputs", s - 1)):
            rows[key] = [choose(tables[key].values) for _ in range(columns)]
        nic = choose([v for v in BANDS if v * max(free) <= BANDS[-1]])
        rows["bandwidth"] = [nic, choose([v for v in BANDS if v >= nic * max(free)])]
        return Numbers({key: (tuple(rows[key]),) for key in tables})

    tables = {key: replace(table, values=whole(int(min(table.values)), 4)) for key, table in _stage_tables(3).items()}
    tables["free"] = Table(1, "m", whole(1, 4))
    tables["bandwidth"] = Table(1, 2, BANDS)
    return Space({"s": stages, "m": servers}, tables, build, choose)


def _positive(ladder: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    return tuple(v for v in ladder if v > 0)


def _stage_tables(most_replicas: int, ladder: tuple[Fraction, ...] = ()) -> dict[str, Table]:
    tables = {"replicas": Table(1, "s", whole(1, most_replicas))}
    if not ladder:
        tables["seconds"] = Table(1, "s", BYTES)
    tables["parameters"] = Table(1, "s", ladder or BYTES)
    tables["outputs"] = Table(1, "s-1", _positive(ladder) or whole(1, 8))
    return tables


def _job(numbers: Numbers, **known: tuple[Fraction, ...]) -> Job:
    keys = ("replicas", "seconds", "parameters", "outputs")
    return staged_job("job", *(known[key] if key in known else numbers.row(key) for key in keys))


def _ways(replicas: Sequence[Fraction], servers: int) -> int:
    """At most so many placements."""
    return prod(comb(int(k) + servers - 1, servers - 1) for k in replicas)
