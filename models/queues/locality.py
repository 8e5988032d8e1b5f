"""PAL's choice of GPUs: the least product of what spreading costs (L) and of how slow they are for the job (V)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.decisions.placers import pack
from hetopt.decisions.speed_models import Variability
from hetopt.models.queues.choosing import demands
from hetopt.models.queues.room import Seats


@dataclass(frozen=True)
class Place:
    """The GPUs of one type in one server.

    Attributes
    ----------
    server:
        Its name.
    kind:
        Position of the GPU type.
    gpus:
        How many there are.
    """

    server: str
    kind: int
    gpus: int


def places_of(cluster: Cluster) -> list[Place]:
    """Those that have GPUs, server by server."""
    kinds = {t: k for k, t in enumerate(cluster.type_names)}
    return [Place(server.name, kinds[t], n) for server in cluster.servers for t, n in server.gpus.items()]


class LeastProduct:
    """Each job takes GPUs of one type with the least product of L and V, of all that are free.

    L is 1 where all of them are in one server, else ``across``; V is that of the slowest: the job's throughput on its
    best type over that on theirs, times the variability of their server. PAL goes through a matrix of all L and V by
    growing products and takes the first entry for which there are enough GPUs; this finds that entry at once.
    Ties: in one server, then the first type of the cluster. In one server that with least room to spare of the best;
    else as few servers as possible of those with such a V or a smaller one.
    """

    def __init__(self, jobs: Entities, places: Sequence[Place], across: float, variability: Variability) -> None:
        self.demand, self.speed = demands(jobs), jobs.speed.tolist()
        self.jobs = jobs.source.jobs
        self.places, self.across, self.variability = places, across, variability
        self.known: dict[tuple[object, ...], list[list[tuple[float, int]]]] = {}

    def __call__(self, job: int, free: Sequence[int]) -> Seats | None:
        """See :class:`~hetopt.models.queues.room.Choose`."""
        need, best = self.demand[job], None
        for ranked in self._ranked(job):
            entry = self._entry(need, ranked, free)
            if entry is not None and (best is None or entry[:2] < best[0][:2]):
                best = entry, ranked
        if best is None:
            return None
        (_, spread, v), ranked = best
        if not spread:
            alike = [place for value, place in ranked if value == v and free[place] >= need]
            return ((min(alike, key=free.__getitem__), need),)
        there = {self.places[place].server: place for value, place in ranked if value <= v}
        seats = pack(need, {server: free[place] for server, place in there.items()})
        assert seats is not None
        return tuple((there[server], n) for server, n in seats.items())

    def _entry(
        self, need: int, ranked: Sequence[tuple[float, int]], free: Sequence[int]
    ) -> tuple[float, bool, float] | None:
        """(product, whether it is spread, V) of the first entry with enough GPUs of one type."""
        total, several = 0, None
        for v, place in ranked:
            if several is not None and v > several * self.across:
                break
            if free[place] >= need:
                return v, False, v
            total += free[place]
            if several is None and total >= need:
                several = v
        return None if several is None else (several * self.across, True, several)

    def _ranked(self, job: int) -> list[list[tuple[float, int]]]:
        """For each type that can run the job: (V, place), least V first."""
        speed, of = self.speed[job], self.jobs[job]
        key = (*speed, of.model)
        if key not in self.known:
            rows: dict[int, list[tuple[float, int]]] = {k: [] for k, v in enumerate(speed) if v > 0}
            for i, place in enumerate(self.places):
                if place.kind in rows:
                    slower = max(speed) / speed[place.kind] * self.variability.factor(of, place.server)
                    rows[place.kind].append((slower, i))
            self.known[key] = [sorted(row) for row in rows.values()]
        return self.known[key]
