"""Which GPUs are free while jobs come and go, and what a job would get of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hetopt.errors import InvalidInstance
from hetopt.stages.iteration_time import Timing
from hetopt.stages.mapping import Mapper, check_mapping
from hetopt.stages.pipeline import Pipeline
from hetopt.stages.servers import Servers


class Seat(NamedTuple):
    """GPUs of one server for one job."""

    server: int
    gpus: int
    replicas: tuple[int, ...]  # of each stage


Mapped = tuple[tuple[tuple[int, ...], ...], Any]
"""(replicas of each stage on each server of a pattern, seconds of an iteration)."""


@dataclass(frozen=True, eq=False)
class Offer:
    """What a job would get now.

    Attributes
    ----------
    fleet:
        Position of the fleet (GPU type) that offers it.
    seats:
        GPUs per server.
    seconds:
        Of one iteration there.
    """

    fleet: int
    seats: tuple[Seat, ...]
    seconds: Any


class Fleet:
    """The servers of one GPU type, sorted by free GPUs.

    Parameters
    ----------
    servers:
        All of them, with all of their GPUs.
    mapper, timing:
        Who maps replicas to GPUs, and how long an iteration then takes. Asked once for each pipeline and pattern of
        free GPUs, so a mapper shall give equal servers equal rights.
    position:
        Of the fleet among those of the cluster.
    """

    def __init__(self, servers: Servers, mapper: Mapper, timing: Timing, position: int = 0) -> None:
        self.servers, self.mapper, self.timing, self.position = servers, mapper, timing, position
        self.free: list[int] = servers.free.tolist()
        self.total = self.available = servers.total
        self._kind = servers.kind
        self._alike = max(self._kind) == 0
        self._with: list[list[int]] = [[] for _ in range(max(self.free) + 1)]  # free GPUs -> servers, in order
        for m, n in enumerate(self.free):
            self._with[n].append(m)
        self._known: dict[Any, Mapped | None] = {}

    def copy(self) -> Fleet:
        """An independent one in the same state; what is known of mappings is shared."""
        made = object.__new__(Fleet)
        made.__dict__.update(self.__dict__)
        made.free, made._with = list(self.free), [list(row) for row in self._with]
        return made

    def offer(self, pipeline: Pipeline, *, consolidate: bool) -> Offer | None:
        """GPUs for a job now, or None where there is no room.

        Parameters
        ----------
        consolidate:
            From the servers with most free GPUs [ASRPT, Algorithm 1, line 9]; else from those with least (line 22), to
            keep large holes for others. Of equal servers the first. A job with slices is offered whole servers, one
            more until it fits.
        """
        if pipeline.gpus > self.available:
            return None
        if pipeline.sliced:
            return self._for_slices(pipeline, consolidate)
        left, seats = pipeline.gpus, []
        for m in self._in_order(consolidate):
            use = min(left, self.free[m])
            seats.append((m, use))
            left -= use
            if not left:
                break
        return self._mapped(pipeline, seats)

    def _for_slices(self, pipeline: Pipeline, consolidate: bool) -> Offer | None:
        seats: list[tuple[int, int]] = []
        offered = 0
        for m in self._in_order(consolidate):
            seats.append((m, self.free[m]))
            offered += self.free[m]
            if offered >= pipeline.gpus and (offer := self._mapped(pipeline, seats)) is not None:
                return offer
        return None

    def on(self, pipeline: Pipeline, gpus: Sequence[tuple[int, int]]) -> Offer | None:
        """The mapping of a job that has so many GPUs of these servers; None where slices do not fit there."""
        return self._mapped(pipeline, gpus)

    def take(self, offer: Offer) -> None:
        """The GPUs of ``offer`` are in use from now on."""
        for seat in offer.seats:
            self._change(seat.server, -seat.gpus)

    def release(self, offer: Offer) -> None:
        """They are free again."""
        for seat in offer.seats:
            self._change(seat.server, seat.gpus)

    def _change(self, m: int, gpus: int) -> None:
        self._with[self.free[m]].remove(m)
        self.free[m] += gpus
        self.available += gpus
        insort(self._with[self.free[m]], m)

    def _in_order(self, consolidate: bool) -> Iterable[int]:
        rows = self._with[:0:-1] if consolidate else self._with[1:]
        return (m for row in rows for m in row)

    def _mapped(self, pipeline: Pipeline, gpus: Sequence[tuple[int, int]]) -> Offer | None:
        if pipeline.silent:
            seats = tuple(Seat(m, n, (n,)) for m, n in gpus)
            if (known := self._known.get(pipeline)) is None:
                known = self._known[pipeline] = (), self.timing.least(pipeline, self.servers)
            return Offer(self.position, seats, known[1])
        order = sorted(gpus, key=lambda seat: -seat[1])
        pattern = tuple(n for _, n in order)
        key = (pipeline, pattern) if self._alike else (pipeline, pattern, tuple(self._kind[m] for m, _ in order))
        if key not in self._known:
            self._known[key] = self._map(pipeline, order)
        known = self._known[key]
        if known is None:
            return None
        columns, seconds = known
        slices = pipeline.slice_counts
        seats = tuple(
            Seat(m, sum(n * t for n, t in zip(own, slices, strict=True)), own)
            for (m, _), own in zip(order, columns, strict=True)
            if any(own)
        )
        return Offer(self.position, seats, seconds)

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
        """alpha~_min: seconds on the fewest servers of the empty fleet [ASRPT, section IV-B]; None without room.

        At most alpha_max, at least the true minimum; filling servers greedily can split a stage that fits elsewhere.
        """
        empty = Fleet(self.servers, self.mapper, self.timing)
        empty._known = self._known
        offer = empty.offer(pipeline, consolidate=True)
        return None if offer is None else offer.seconds
