"""One job in stages on servers, in fractions: its placements, their iteration times, and spaces of such cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb, prod
from operator import index
from typing import Any

import numpy as np

from hetopt.data.array_types import Integers
from hetopt.data.cluster import Cluster, GPUType, Server
from hetopt.data.instance import Instance
from hetopt.data.rationals import exact_fractions, number_text
from hetopt.data.workload import Job, Stage
from hetopt.models.asrpt.fleet import Fleet
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.proofs.asrpt.all_placements import every_placement
from hetopt.proofs.ledger.finding_pictures import SharesPicture, placement_picture
from hetopt.proofs.ledger.space import (
    CaseNumbers,
    Hypothesis,
    Space,
    TableShape,
    ValueChooser,
    hypothesis,
    integers,
)
from hetopt.stages.iteration_time import Asynchronous
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers

F = Fraction
ZERO, ONE = F(0), F(1)
BYTES = integers(0, 8)
BANDWIDTHS = integers(1, 12)
BANDS = integers(1, 6)

ALL_PLACEMENTS = "all placements were enumerated, their iterations computed in fractions by the repaired (4) to (7)"


def staged_job(
    name: str,
    replicas: Sequence[Fraction],
    seconds: Sequence[Fraction],
    parameters: Sequence[Fraction],
    outputs: Sequence[Fraction],
    *,
    backward: Sequence[Fraction] = (),
    work: Fraction = ONE,
    arrival: Fraction = ZERO,
) -> Job:
    """A job of stages with ``seconds`` forward per iteration each; ``outputs`` of all stages but the last."""
    behind = backward or (F(0),) * len(replicas)
    stages = tuple(
        Stage(int(k), float(p), float(b), parameter_bytes=float(h), output_bytes=float(d))
        for k, p, b, h, d in zip(replicas, seconds, behind, parameters, (*outputs, F(0)), strict=True)
    )
    longest = max(p + b for p, b in zip(seconds, behind, strict=True))
    speed = 1 / float(longest) if longest else 1.0
    gpus = sum(stage.gpus for stage in stages)
    return Job(name, {"GPU": speed}, float(work), gpus, arrival=float(arrival), stages=stages)


def cluster_of(free: Sequence[int], nic: Fraction, intra: Fraction) -> Cluster:
    """Servers with these free GPUs; ``nic`` is the network bandwidth per GPU, B_inter / g."""
    servers = tuple(
        Server(f"server{m + 1}", {"GPU": n}, nic_bytes_per_s=float(nic * n), intra_bytes_per_s=float(intra))
        for m, n in enumerate(free)
    )
    return Cluster((GPUType("GPU"),), servers)


def servers_of(free: Sequence[int], nic: Fraction, intra: Fraction) -> Servers:
    """The servers of :func:`cluster_of` for iteration times, with bandwidths as fractions."""
    names = tuple(f"server{m + 1}" for m in range(len(free)))
    bandwidths = [exact_fractions([value] * len(free)) for value in (nic, intra)]
    return Servers(names, np.array(free), *bandwidths)


def exact(value: Any) -> Fraction:
    """An entry of an array as a fraction; numpy returns an integer for an empty sum."""
    return value if isinstance(value, Fraction) else Fraction(index(value))


@dataclass(frozen=True, eq=False)
class StagedCase:
    """A job, and servers on which it fits.

    Attributes
    ----------
    job:
        The job; its numbers are exact as floats.
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
        """The case as an instance of the library."""
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
    def placements(self) -> list[Integers]:
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
        """alpha_max as printed: every replica on its own server."""
        return exact(Asynchronous().most(self.pipeline, self.servers))

    @cached_property
    def greedy(self) -> Fraction:
        """alpha~_min: Heavy-Edge on servers that are filled one after another."""
        return exact(self._empty.fewest(self.pipeline))

    @property
    def greedy_placement(self) -> Integers:
        """The placement of :attr:`greedy`."""
        offer = self._empty.candidate(self.pipeline, consolidate=True)
        assert offer is not None, "there is room"
        x = np.zeros((len(self.pipeline), len(self.free)), dtype=int)
        for seat in offer.slots:
            x[:, seat.server] = seat.replicas
        return x

    @property
    def _empty(self) -> Fleet:
        return Fleet(self.servers, HeavyEdge(), Asynchronous())

    def text_of(self, x: Integers) -> str:
        """A placement as text, server by server."""
        columns = ("+".join(f"{n} of S{s + 1}" for s, n in enumerate(column) if n) for column in x.T.tolist())
        return " | ".join(column or "nothing" for column in columns)

    def picture(self, title: str, x: Integers, alpha: Fraction) -> SharesPicture:
        """Picture of the replicas of each stage on each server, with the iteration time ``alpha`` in the title."""
        stages = [f"S{s + 1}" for s in range(len(x))]
        return placement_picture(f"{title}: {number_text(alpha)} s", stages, x.tolist(), self.free)


@hypothesis("the job fits on the servers")
def fitting(case: StagedCase) -> bool:
    """There are enough GPUs."""
    return case.pipeline.gpus <= sum(case.free)


@hypothesis("stages take no time to compute")
def computing_nothing(case: StagedCase) -> bool:
    """Iterations consist of communication."""
    return not case.pipeline.computing.any()


@hypothesis("the job uses all free GPUs")
def filling(case: StagedCase) -> bool:
    """As a mapper is called: with the GPUs that the job was given."""
    return bool(case.pipeline.gpus == sum(case.free))


@hypothesis(r"$B_{intra} \ge B_{inter} / g$")
def fast_inside(case: StagedCase) -> bool:
    """Links within a server are no slower than a GPU's share of the network card."""
    return case.intra >= case.nic


@hypothesis(r"$B_{intra} \ge B_{inter}$")
def fast_links(case: StagedCase) -> bool:
    """Links within a server are no slower than a whole network card."""
    return case.intra >= case.nic * max(case.free)


fast_cards = Hypothesis[StagedCase](f"{fast_links.text} on the server with most free GPUs", fast_links)


CONSERVED = Hypothesis[Any](
    r"the input of all replicas of a stage is the output of those before, $k_{s-1} d^{out}_{s-1} = k_s d^{in}_s$"
)
EVEN = Hypothesis[Any](
    "bytes between stages are split evenly over all pairs of replicas, and gradients of the same size come back"
)


def equal_servers_space(
    *hypotheses: Hypothesis[StagedCase],
    stages: tuple[int, int] = (1, 3),
    servers: tuple[int, int] = (1, 3),
    gpus: tuple[int, int] = (1, 3),
    values: tuple[Fraction, ...] = (),
    most_placements: int = 200,
) -> Space[StagedCase]:
    """A job on equal servers, with these hypotheses.

    Parameters
    ----------
    values:
        Possible bytes and bandwidths of a job without computation; by default the job has computation times as well.
    """

    def build(numbers: CaseNumbers) -> StagedCase | None:
        """The case; None if it may have more placements than are enumerated."""
        replicas, count, size = numbers.row("replicas"), int(numbers.one("servers")), int(numbers.one("gpus"))
        if _ways(replicas, count) > most_placements:
            return None
        seconds = (F(0),) * len(replicas) if values else numbers.row("seconds")
        return StagedCase(_job(numbers, seconds), (size,) * count, *numbers.row("bandwidth"))

    tables = _stage_tables(4, values)
    tables["servers"], tables["gpus"] = TableShape(1, 1, integers(*servers)), TableShape(1, 1, integers(*gpus))
    tables["bandwidth"] = TableShape(1, 2, _positive(values) or BANDWIDTHS)
    stated = (fitting, computing_nothing) if values else (fitting,)
    return Space({"s": stages}, tables, build, None, (*stated, *hypotheses))


def full_servers_space(
    *hypotheses: Hypothesis[StagedCase], stages: tuple[int, int] = (1, 3), servers: tuple[int, int] = (2, 3)
) -> Space[StagedCase]:
    """A job on servers with exactly the GPUs that it needs, with these hypotheses; links within servers are fast."""

    def build(numbers: CaseNumbers) -> StagedCase | None:
        """The case; None for more GPUs than are enumerated."""
        free = tuple(map(int, numbers.row("free")))
        if sum(free) > 6:
            return None
        return StagedCase(_job(numbers, numbers.row("seconds")), free, *numbers.row("bandwidth"))

    def draw(choose: ValueChooser, sizes: Mapping[str, int]) -> CaseNumbers:
        s, m = sizes["s"], sizes["m"]
        replicas: list[Fraction] = []
        for i in range(s):
            least = max(1, m - (s - 1)) if i == 0 else 1
            most = min(3, min(6, 4 * m) - int(sum(replicas)) - (s - 1 - i))
            replicas.append(choose(integers(least, most)))
        free, left = list[Fraction](), int(sum(replicas))
        for after in reversed(range(m)):
            free.append(choose(integers(max(1, left - 4 * after), min(4, left - after))))
            left -= int(free[-1])
        rows = {"replicas": replicas, "free": free}
        for key, columns in (("seconds", s), ("parameters", s), ("outputs", s - 1)):
            rows[key] = [choose(tables[key].values) for _ in range(columns)]
        nic = choose([v for v in BANDS if v * max(free) <= BANDS[-1]])
        rows["bandwidth"] = [nic, choose([v for v in BANDS if v >= nic * max(free)])]
        return CaseNumbers({key: (tuple(rows[key]),) for key in tables})

    tables = {
        key: replace(table, values=integers(int(min(table.values)), 4)) for key, table in _stage_tables(3).items()
    }
    tables["free"] = TableShape(1, "m", integers(1, 4))
    tables["bandwidth"] = TableShape(1, 2, BANDS)
    return Space({"s": stages, "m": servers}, tables, build, draw, (filling, *hypotheses))


def _positive(values: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    return tuple(v for v in values if v > 0)


def _stage_tables(most_replicas: int, values: tuple[Fraction, ...] = ()) -> dict[str, TableShape]:
    tables = {"replicas": TableShape(1, "s", integers(1, most_replicas))}
    if not values:
        tables["seconds"] = TableShape(1, "s", BYTES)
    tables["parameters"] = TableShape(1, "s", values or BYTES)
    tables["outputs"] = TableShape(1, "s-1", _positive(values) or integers(1, 8))
    return tables


def _job(numbers: CaseNumbers, seconds: tuple[Fraction, ...]) -> Job:
    return staged_job("job", numbers.row("replicas"), seconds, numbers.row("parameters"), numbers.row("outputs"))


def _ways(replicas: Sequence[Fraction], servers: int) -> int:
    """Upper bound of the number of placements."""
    return prod(comb(int(k) + servers - 1, servers - 1) for k in replicas)
