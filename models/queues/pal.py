"""PAL: any job order, and GPUs with the least product of locality and variability factors (Jain et al., SC'24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, mapping
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.job_rates import Variability
from hetopt.decisions.placement import pack
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.fft.fft_components import ROUND_SECONDS
from hetopt.models.policy_checks import one_of, seconds_or_events
from hetopt.models.queues.gpu_pool import PlacedGPUs, Preemption, demands, in_order, walk
from hetopt.models.queues.job_orders import ORDERS
from hetopt.results.allocation import Placement, Plan


@dataclass(frozen=True)
class GPUGroup:
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


def places_of(cluster: Cluster) -> list[GPUGroup]:
    """Those that have GPUs, server by server."""
    kinds = {t: k for k, t in enumerate(cluster.type_names)}
    return [GPUGroup(server.name, kinds[t], n) for server in cluster.servers for t, n in server.gpus.items()]


class LeastProduct:
    """Each job takes GPUs of one type with the least product of L and V, of all that are free.

    L is 1 where all of them are in one server, else ``across``; V is that of the slowest: the job's throughput on its
    best type over that on theirs, times the variability of their server. PAL goes through a matrix of all L and V by
    growing products and takes the first entry for which there are enough GPUs; this finds that entry at once.
    Ties: in one server, then the first type of the cluster. In one server that with least room to spare of the best;
    else as few servers as possible of those with such a V or a smaller one.
    """

    def __init__(self, jobs: Entities, places: Sequence[GPUGroup], across: float, variability: Variability) -> None:
        self.demand, self.speed = demands(jobs), jobs.speed.tolist()
        self.jobs = jobs.source.jobs
        self.places, self.across, self.variability = places, across, variability
        self.known: dict[tuple[object, ...], list[list[tuple[float, int]]]] = {}

    def __call__(self, job: int, free: Sequence[int]) -> PlacedGPUs | None:
        """See :class:`~hetopt.models.queues.gpu_pool.GPUChoice`."""
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


ACROSS = 1.7
"""What spreading over servers costs: the constant in the code that PAL's authors published."""


@dataclass(frozen=True)
class PAL:
    """Jobs in some order, each on the free GPUs with the least product of locality and variability.

    See :class:`~hetopt.models.queues.pal.LeastProduct`. It chooses servers itself.

    Parameters
    ----------
    order:
        ``"srtf"``, ``"srsf"``, ``"las"`` or ``"fifo"``, which never stops a job: as the policies of these names.
    across:
        How many times as long a job takes as it expects when its GPUs are not all in one server, >= 1.
    variability:
        Server -> how many times as long jobs take on its GPUs; or server -> model (``Job.model``) -> that: what
        :class:`~hetopt.decisions.job_rates.Variability` makes come true. What is absent is 1, and servers that are not
        there, say because they have failed, mean nothing.
    moves:
        In each decision all jobs are placed anew; else those that run keep their GPUs unless they are stopped.
    backfill:
        Those behind a job that finds no room may start.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    order: str = "srtf"
    across: float = ACROSS
    variability: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    moves: bool = False
    backfill: bool = True
    round_seconds: float | None = ROUND_SECONDS

    def __post_init__(self) -> None:
        one_of(self.order, ORDERS, "PAL.order")
        at_least(self.across, "PAL.across", 1.0, InvalidOption)
        rows = {name: _factors(row, f"PAL.variability[{name!r}]") for name, row in _names(self.variability).items()}
        object.__setattr__(self, "variability", FrozenDict(rows))
        for key in ("moves", "backfill"):
            boolean(getattr(self, key), f"PAL.{key}")
        seconds_or_events(self.round_seconds, "PAL.round_seconds")

    @property
    def places(self) -> bool:
        """It chooses servers itself."""
        return True

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """Who runs where from now on; the state is that of the order.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; with a state, a time before it. Under ``"fifo"`` a job
            that holds GPUs without its whole gang being placed on one type.
        """
        jobs = present_entities(instance, "jobs", "PAL")
        order, stops = ORDERS[self.order], self._stops
        keys, state = order.ranked(jobs, state)
        places = places_of(instance.cluster)
        running = _running(jobs, places, may_stop=stops != "nobody")
        choose = LeastProduct(jobs, places, self.across, Variability(self.variability))
        capacity = [place.gpus for place in places]
        given = walk(in_order(jobs, keys), capacity, running, choose, stops=stops, backfill=self.backfill)
        return _plan(jobs, places, given), state

    @property
    def _stops(self) -> Preemption:
        return "nobody" if ORDERS[self.order].stops == "nobody" else "all" if self.moves else "last"


def _running(jobs: Entities, places: list[GPUGroup], *, may_stop: bool) -> dict[int, PlacedGPUs]:
    """Job -> where its gang is placed now, all on one type that can run it; others count as waiting."""
    instance, position = jobs.source, {(place.server, jobs.types[place.kind]): i for i, place in enumerate(places)}
    result: dict[int, PlacedGPUs] = {}
    for e, name in enumerate(jobs.names):
        hosts = instance.placed.get(name, {})
        seats = tuple((position[server, t], n) for server, own in hosts.items() for t, n in own.items() if n)
        kinds = {places[place].kind for place, _ in seats}
        if sum(n for _, n in seats) == jobs.demand[e] and len(kinds) == 1 and jobs.allowed[e, min(kinds)]:
            result[e] = seats
        elif not may_stop and any(instance.held.get(name, {}).values()):
            raise InvalidInstance(
                f"jobs[{name!r}] holds GPUs and placed[{name!r}] is {dict(hosts)!r}; under PAL with order 'fifo' a job "
                f"that runs is placed on its {jobs.demand[e]:g} GPUs, all of one type on which it can run"
            )
    return result


def _plan(jobs: Entities, places: list[GPUGroup], given: Mapping[int, PlacedGPUs]) -> Plan:
    x = np.zeros(jobs.shape)
    hosts: dict[str, dict[str, dict[str, int]]] = {}
    for job, seats in given.items():
        for i, n in seats:
            x[job, places[i].kind] += n
            hosts.setdefault(jobs.names[job], {})[places[i].server] = {jobs.types[places[i].kind]: n}
    spread = float(sum(len(own) > 1 for own in hosts.values()))
    given_up = {"idle": float(jobs.capacity.sum() - x.sum()), "spread": spread}
    return Plan(jobs, x, given_up=given_up, placement=Placement(hosts))


def _names(value: Any, key: str = "PAL.variability") -> Mapping[str, Any]:
    try:
        return mapping(value, key)
    except InvalidInstance as problem:
        raise InvalidOption(str(problem)) from None


def _factors(value: Any, key: str) -> float | FrozenDict[str, float]:
    """A factor > 0, or such factors by model."""
    if not isinstance(value, Mapping):
        return at_least(value, key, 0.0, InvalidOption, strict=True)
    rows = _names(value, key).items()
    return FrozenDict({m: at_least(v, f"{key}[{m!r}]", 0.0, InvalidOption, strict=True) for m, v in rows})
