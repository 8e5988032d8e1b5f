"""PAL: any job order, and GPUs with the least product of locality and variability factors (Jain et al., SC'24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, check_round_seconds, mapping, one_of, whole
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.placers import pack
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.formulations.traits import Traits
from hetopt.models.queues.gpu_pool import (
    IN_ORDER,
    GPUChoice,
    PlacedGPUs,
    Preemption,
    allocate_in_order,
    gang_sizes,
    sorted_jobs,
)
from hetopt.models.queues.job_orders import ORDERS, QueuePolicy
from hetopt.results.allocation import Placement, Plan
from hetopt.stages.speed_models import Variability
from hetopt.tolerances import INTEGRAL


@dataclass(frozen=True)
class GPUGroup:
    """The GPUs of one type in one server.

    Attributes
    ----------
    server:
        Name of the server.
    kind:
        Position of the GPU type.
    gpus:
        Number of GPUs.
    """

    server: str
    kind: int
    gpus: int


def places_of(cluster: Cluster) -> list[GPUGroup]:
    """The GPUs of each type in each server, server by server."""
    kinds = {t: k for k, t in enumerate(cluster.type_names)}
    return [GPUGroup(server.name, kinds[t], n) for server in cluster.servers for t, n in server.gpus.items()]


class LeastProduct:
    """Each job takes free GPUs of one type with the least product of a locality factor L and a variability factor V.

    L is 1 if all GPUs are in one server, else ``across``. V is the factor of the slowest GPU: the job's throughput on
    its best type over that on this type, times the variability of the server. PAL scans a matrix of all L and V in
    ascending order of the products and takes the first entry with enough GPUs; this finds the same entry directly.
    Ties: one server first, then the first type of the cluster. Among the best servers that can hold the whole gang: the
    one with the fewest free GPUs; else as few servers as possible among those with at most this V.
    """

    def __init__(self, jobs: Entities, places: Sequence[GPUGroup], across: float, variability: Variability) -> None:
        self.demand, self.speed = gang_sizes(jobs), jobs.speed.tolist()
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
        if spread:
            return self.apart(need, [(value, place) for value, place in ranked if value <= v], free)
        alike = [place for value, place in ranked if value == v and free[place] >= need]
        return ((self.together(need, alike, free), need),)

    def together(self, need: int, alike: Sequence[int], free: Sequence[int]) -> int:
        """The place for a gang of ``need`` among those that can hold it at the same V."""
        return min(alike, key=free.__getitem__)

    def apart(self, need: int, ranked: Sequence[tuple[float, int]], free: Sequence[int]) -> PlacedGPUs:
        """GPUs for a gang of ``need`` among ``ranked`` pairs (V, place), which suffice only together."""
        there = {self.places[place].server: place for _, place in ranked}
        placed = pack(need, {server: free[place] for server, place in there.items()})
        assert placed is not None
        return tuple((there[server], n) for server, n in placed.items())

    def _entry(
        self, need: int, ranked: Sequence[tuple[float, int]], free: Sequence[int]
    ) -> tuple[float, bool, float] | None:
        """(product, whether it spans servers, V) of the first entry with enough GPUs of one type."""
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
        """For each type that can run the job: pairs (V, place) in ascending order of V."""
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
"""Locality factor of a gang that spans servers: the constant in the code that PAL's authors published."""


@dataclass(frozen=True)
class PAL:
    """Jobs in a given order, each on the free GPUs with the least product of locality and variability factors.

    See :class:`~hetopt.models.queues.pal.LeastProduct`. The policy chooses servers itself.

    Parameters
    ----------
    order:
        ``"srtf"``, ``"srsf"``, ``"las"`` or ``"fifo"`` (without preemption unless ``moves``), as the policies of these
        names, or a queue policy whose order it takes; its other settings are ignored.
    across:
        Slowdown of a job whose GPUs are not all in one server, >= 1.
    variability:
        Server -> slowdown of jobs on its GPUs, or server -> model (``Job.model``) -> slowdown, as in
        :class:`~hetopt.stages.speed_models.Variability`. 1 for absent servers and models; servers that are not in
        the cluster, e.g. because they have failed, are ignored.
    classes:
        Model -> class of sensitivity to variability, 0 for the most sensitive. Among the first jobs of the queue, as
        many as fit the cluster together, jobs of a lower class choose their GPUs first, jobs of other models last.
        Empty: the order decides.
    moves:
        In each decision all jobs are placed again, with ``"fifo"`` too. False: running jobs keep their GPUs unless they
        are preempted.
    backfill:
        Jobs behind a job that does not fit may start before it.
    round_seconds:
        Length of a round; None: decisions at arrivals and completions.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    order: str | QueuePolicy = "srtf"
    across: float = ACROSS
    variability: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    moves: bool = False
    backfill: bool = True
    round_seconds: float | None = ROUND_SECONDS

    def __post_init__(self) -> None:
        if not isinstance(self.order, QueuePolicy):
            one_of(self.order, ORDERS, "PAL.order")
        at_least(self.across, "PAL.across", 1.0, InvalidOption)
        given = mapping(self.variability, "PAL.variability", InvalidOption).items()
        rows = {name: _factors(row, f"PAL.variability[{name!r}]") for name, row in given}
        object.__setattr__(self, "variability", FrozenDict(rows))
        classes = mapping(self.classes, "PAL.classes", InvalidOption).items()
        object.__setattr__(self, "classes", FrozenDict({m: whole(c, f"PAL.classes[{m!r}]", 0) for m, c in classes}))
        for key in ("moves", "backfill"):
            boolean(getattr(self, key), f"PAL.{key}")
        check_round_seconds(self, or_none=True)

    @property
    def traits(self) -> Traits:
        """It decides in rounds, if it has any, and chooses servers; without ``backfill`` GPUs may idle."""
        return Traits(self.round_seconds, places=True, idles="" if self.backfill else IN_ORDER)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Plan, Any]:
        """The plan from now on with its placement; the state is that of the order.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`. With a state: the time is before that of the state. With
            ``"fifo"`` and without ``moves``: a job holds GPUs, but its whole gang is not placed on one type.
        """
        jobs = present_entities(instance, "jobs", "PAL")
        policy = self.order if isinstance(self.order, QueuePolicy) else ORDERS[self.order]
        stays = Preemption.NONE if policy.preemption is Preemption.NONE else Preemption.LAST_FIRST
        preemption = Preemption.ALL if self.moves else stays
        keys, state = policy.ranked(jobs, state)
        places = places_of(instance.cluster)
        running = _running(jobs, places, preemption=preemption)
        capacity = [place.gpus for place in places]
        order = self._sensitive_first(jobs, sorted_jobs(jobs, keys))
        choose = self.choice(jobs, places)
        given = allocate_in_order(order, capacity, running, choose, preemption=preemption, backfill=self.backfill)
        return _plan(jobs, places, given), state

    def choice(self, jobs: Entities, places: Sequence[GPUGroup]) -> GPUChoice:
        """The rule that chooses the GPUs of a job among these places."""
        return LeastProduct(jobs, places, self.across, Variability(self.variability))

    def _sensitive_first(self, jobs: Entities, order: list[int]) -> list[int]:
        if not self.classes:
            return order
        total = np.cumsum(jobs.demand[order])
        head = int(np.searchsorted(total, jobs.capacity.sum() + INTEGRAL, side="right"))
        last = max(self.classes.values()) + 1
        of = [self.classes.get(job.model or "", last) for job in jobs.source.jobs]
        return sorted(order[:head], key=of.__getitem__) + order[head:]


def _running(jobs: Entities, places: list[GPUGroup], *, preemption: Preemption) -> dict[int, PlacedGPUs]:
    """Job -> its GPUs, for gangs that are placed on one type that can run them; other jobs count as waiting."""
    instance, position = jobs.source, {(place.server, jobs.types[place.kind]): i for i, place in enumerate(places)}
    result: dict[int, PlacedGPUs] = {}
    for e, name in enumerate(jobs.names):
        hosts = instance.placed.get(name, {})
        placed = tuple((position[server, t], n) for server, own in hosts.items() for t, n in own.items() if n)
        kinds = {places[place].kind for place, _ in placed}
        if sum(n for _, n in placed) == jobs.demand[e] and len(kinds) == 1 and jobs.allowed[e, min(kinds)]:
            result[e] = placed
        elif preemption is Preemption.NONE and any(instance.held.get(name, {}).values()):
            raise InvalidInstance(
                f"holds GPUs and placed[{name!r}] is {dict(hosts)!r}; under PAL with order 'fifo' a job that runs is "
                f"placed on its {jobs.demand[e]:g} GPUs, all of one type on which it can run",
                ("jobs", Item(name)),
            )
    return result


def _plan(jobs: Entities, places: list[GPUGroup], given: Mapping[int, PlacedGPUs]) -> Plan:
    x = np.zeros(jobs.shape)
    hosts: dict[str, dict[str, dict[str, int]]] = {}
    for job, placed in given.items():
        for i, n in placed:
            x[job, places[i].kind] += n
            hosts.setdefault(jobs.names[job], {})[places[i].server] = {jobs.types[places[i].kind]: n}
    spread = float(sum(len(own) > 1 for own in hosts.values()))
    given_up = {"idle": float(jobs.capacity.sum() - x.sum()), "spread": spread}
    return Plan(jobs, x, given_up=given_up, placement=Placement(hosts))


def _factors(value: Any, key: str) -> float | FrozenDict[str, float]:
    """A factor > 0, or such factors by model."""
    if not isinstance(value, Mapping):
        return at_least(value, key, 0.0, InvalidOption, strict=True)
    rows = mapping(value, key, InvalidOption).items()
    return FrozenDict({m: at_least(v, f"{key}[{m!r}]", 0.0, InvalidOption, strict=True) for m, v in rows})
