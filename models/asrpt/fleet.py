"""Free GPUs of each GPU type while jobs start and end, candidate placements on them, and the jobs to be scheduled."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from hetopt.data.cluster import Cluster
from hetopt.data.workload import Job, Stage
from hetopt.errors import InvalidInstance, Item
from hetopt.stages.iteration_time import Timing
from hetopt.stages.mapping import Mapper, check_mapping
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


class ServerSlots(NamedTuple):
    """GPUs of one server for one job."""

    server: int
    gpus: int
    replicas: tuple[int, ...]  # of each stage


Mapped = tuple[tuple[tuple[int, ...], ...], Any]
"""(replicas of each stage on each server, seconds of an iteration) for a pattern of free GPUs."""


@dataclass(frozen=True, eq=False)
class CandidatePlacement:
    """GPUs that a job could get now.

    Attributes
    ----------
    fleet:
        Position of the fleet (GPU type).
    slots:
        GPUs per server.
    seconds:
        Seconds of one iteration there.
    """

    fleet: int
    slots: tuple[ServerSlots, ...]
    seconds: Any


class Fleet:
    """The servers of one GPU type, sorted by free GPUs.

    Parameters
    ----------
    servers:
        All servers of the type, with all of their GPUs.
    mapper, timing:
        Mapping of replicas to GPUs, and iteration time. Called once for each pipeline and pattern of free GPUs, so the
        mapper must treat equal servers equally.
    position:
        Position of the fleet in the cluster.
    cache:
        Mappings that a fleet of the same servers has found; shared with it.
    """

    def __init__(
        self,
        servers: Servers,
        mapper: Mapper,
        timing: Timing,
        position: int = 0,
        cache: dict[Any, Mapped | None] | None = None,
    ) -> None:
        self.servers, self.mapper, self.timing, self.position = servers, mapper, timing, position
        self.free: list[int] = servers.free.tolist()
        self.total = self.available = servers.total
        self._kind = servers.kind
        self._alike = max(self._kind) == 0
        self._with: list[list[int]] = [[] for _ in range(max(self.free) + 1)]  # free GPUs -> servers, in order
        for m, n in enumerate(self.free):
            self._with[n].append(m)
        self._cache: dict[Any, Mapped | None] = {} if cache is None else cache

    def copy(self) -> Fleet:
        """An independent copy; the cache of mappings is shared."""
        made = copy(self)
        made.free, made._with = list(self.free), [list(row) for row in self._with]
        return made

    def candidate(self, pipeline: Pipeline, *, consolidate: bool) -> CandidatePlacement | None:
        """GPUs for a job now; None if there are too few.

        Parameters
        ----------
        consolidate:
            From the servers with the most free GPUs [ASRPT, Algorithm 1, line 9]; else from those with the fewest (line
            22), to keep large blocks free. Of equal servers the first. For a job with slices, whole servers are added
            until it fits.
        """
        if pipeline.gpus > self.available:
            return None
        if pipeline.sliced:
            return self._for_slices(pipeline, consolidate)
        left, slots = pipeline.gpus, []
        for m in self._in_order(consolidate):
            use = min(left, self.free[m])
            slots.append((m, use))
            left -= use
            if not left:
                break
        return self._mapped(pipeline, slots)

    def _for_slices(self, pipeline: Pipeline, consolidate: bool) -> CandidatePlacement | None:
        slots: list[tuple[int, int]] = []
        offered = 0
        for m in self._in_order(consolidate):
            slots.append((m, self.free[m]))
            offered += self.free[m]
            if offered >= pipeline.gpus and (placement := self._mapped(pipeline, slots)) is not None:
                return placement
        return None

    def on(self, pipeline: Pipeline, gpus: Sequence[tuple[int, int]]) -> CandidatePlacement | None:
        """The placement of a job on these (server, GPUs); None if slices do not fit there."""
        return self._mapped(pipeline, gpus)

    def take(self, placement: CandidatePlacement) -> None:
        """Mark the GPUs of a placement as in use."""
        for slot in placement.slots:
            self._change(slot.server, -slot.gpus)

    def release(self, placement: CandidatePlacement) -> None:
        """Mark the GPUs of a placement as free."""
        for slot in placement.slots:
            self._change(slot.server, slot.gpus)

    def _change(self, m: int, gpus: int) -> None:
        self._with[self.free[m]].remove(m)
        self.free[m] += gpus
        self.available += gpus
        insort(self._with[self.free[m]], m)

    def _in_order(self, consolidate: bool) -> Iterable[int]:
        rows = self._with[:0:-1] if consolidate else self._with[1:]
        return (m for row in rows for m in row)

    def _mapped(self, pipeline: Pipeline, gpus: Sequence[tuple[int, int]]) -> CandidatePlacement | None:
        if pipeline.silent:
            slots = tuple(ServerSlots(m, n, (n,)) for m, n in gpus)
            if (found := self._cache.get(pipeline)) is None:
                found = self._cache[pipeline] = (), self.timing.least(pipeline, self.servers)
            return CandidatePlacement(self.position, slots, found[1])
        order = sorted(gpus, key=lambda slot: -slot[1])
        pattern = tuple(n for _, n in order)
        key = (pipeline, pattern) if self._alike else (pipeline, pattern, tuple(self._kind[m] for m, _ in order))
        if key not in self._cache:
            self._cache[key] = self._map(pipeline, order)
        found = self._cache[key]
        if found is None:
            return None
        columns, seconds = found
        slices = pipeline.slice_counts
        slots = tuple(
            ServerSlots(m, sum(n * t for n, t in zip(own, slices, strict=True)), own)
            for (m, _), own in zip(order, columns, strict=True)
            if any(own)
        )
        return CandidatePlacement(self.position, slots, seconds)

    def _map(
        self, pipeline: Pipeline, order: Sequence[tuple[int, int]]
    ) -> tuple[tuple[tuple[int, ...], ...], Any] | None:
        servers = self.servers.take(order)
        try:
            mapping = check_mapping(self.mapper(pipeline, servers))
        except InvalidInstance:  # slices that do not fit
            if not pipeline.sliced:
                raise
            return None
        seconds = self.timing(pipeline, mapping.replicas, servers)[()]
        return tuple(map(tuple, mapping.replicas.T.tolist())), seconds

    def fewest(self, pipeline: Pipeline) -> Any:
        """alpha~_min: seconds on the fewest servers of the empty fleet [ASRPT, section IV-B]; None if it does not fit.

        At most alpha_max, at least the true minimum; greedy filling can split a stage that fits on another server.
        """
        empty = Fleet(self.servers, self.mapper, self.timing, cache=self._cache)
        placement = empty.candidate(pipeline, consolidate=True)
        return None if placement is None else placement.seconds


@dataclass(frozen=True, eq=False)
class TypeOption:
    """A job on one GPU type that can run it.

    Attributes
    ----------
    fleet:
        Position of the type's fleet.
    pipeline:
        Its stages on this type.
    least, most:
        alpha~_min and alpha_max: seconds of one iteration on the fewest servers, and with all replicas apart.
    """

    fleet: int
    pipeline: Pipeline
    least: Any
    most: Any


@dataclass(frozen=True, eq=False)
class PredictedJob:
    """A job with its predicted length.

    Attributes
    ----------
    name:
        Name of the job.
    gpus:
        GPUs g_i.
    options:
        GPU types that it may run on, the fastest first.
    predicted:
        Predicted number of iterations n~_i.
    """

    name: str
    gpus: int
    options: tuple[TypeOption, ...]
    predicted: Any

    @property
    def seconds(self) -> Any:
        """Predicted duration, n~ alpha~_min, on its fastest type."""
        return self.predicted * self.options[0].least


class TypeOptions:
    """The :class:`TypeOption` objects of jobs; jobs with the same stages and speeds share them."""

    def __init__(self, cluster: Cluster, fleets: Sequence[Fleet | None]) -> None:
        """``fleets``: one for each GPU type of the cluster in order; None where it has no GPU of a type."""
        self.cluster, self.fleets = cluster, fleets
        self._cache: dict[tuple[Any, ...], tuple[tuple[Stage, ...], tuple[TypeOption, ...]]] = {}

    def of(self, job: Job) -> tuple[TypeOption, ...]:
        """The GPU types that ``job`` may run on, the fastest first, in ties in the cluster's order.

        Empty if these types have no GPUs now, e.g. because servers are drained.

        Raises
        ------
        InvalidInstance
            The job does not fit on any of these types, even when empty.
        """
        speeds = tuple(job.throughput.items())
        key = (id(job.stages) if job.stages else job.demand, speeds, job.memory_bytes)  # hashing stages takes long
        if key not in self._cache:
            self._cache[key] = job.stages, self._made(job)  # keeps the stages alive, so that their id stays unique
        return self._cache[key][1]

    def _made(self, job: Job) -> tuple[TypeOption, ...]:
        found, able = [], False
        for i, (t, fleet) in enumerate(zip(self.cluster.gpu_types, self.fleets, strict=True)):
            speed = job.throughput.get(t.name, 0.0)
            if fleet is None or speed <= 0 or job.memory_bytes > t.memory_limit:
                continue
            able = True
            if fleet.total < job.demand:
                continue
            pipeline = Pipeline.of(job, t.name)
            if (least := fleet.fewest(pipeline)) is not None:
                most = fleet.timing.most(pipeline, fleet.servers)
                found.append((-speed, i, TypeOption(i, pipeline, least, most)))
        if able and not found:
            raise InvalidInstance(
                f"needs {job.demand} GPUs of one type, and memory and servers for its stages; "
                "it does not fit on the empty cluster",
                ("jobs", Item(job.name)),
            )
        return tuple(option for *_, option in sorted(found, key=lambda row: row[:2]))
