"""Placers: from a plan over jobs to servers, with the losses of packing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from hetopt.checks import FrozenDict, at_least, mapping, members, one_of
from hetopt.data.gpu_locations import Hosts, on_one_server
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Parallelism
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.formulations.traits import Traits
from hetopt.results.allocation import Placement, Plan, WaitReason

Seats = dict[str, int]
"""Server -> GPUs of one type."""


class Placer(Protocol):
    """Chooses servers for the jobs of a plan.

    It must follow only from the plan, the jobs and servers, and where jobs are now; not from the time or the work done.
    While these stay the same, the simulator keeps a placement that moved no job, and does not call the placer.
    """

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of each job that can be placed, and the reason for each that cannot.

        Raises
        ------
        InvalidPlan
            The plan is over tenants or has more GPUs than there are.
        """
        ...


class _KeepsWhole:
    """Base of placers with the setting ``whole``."""

    whole: tuple[Parallelism, ...]

    def __post_init__(self) -> None:
        key = f"{type(self).__name__}.whole"
        given = members(self.whole, str, key, InvalidOption)
        object.__setattr__(self, "whole", tuple(Parallelism(one_of(kind, Parallelism, key)) for kind in given))

    @property
    def traits(self) -> Traits:
        """With ``whole`` a job that waits for a server leaves the GPUs of its plan idle."""
        return Traits(idles="jobs that no single server can hold leave their GPUs idle" if self.whole else "")


@dataclass(frozen=True)
class HierarchicalPlacer(_KeepsWhole):
    """FFT's placer, [FFT, section 4.3].

    1. A job that keeps its GPU type keeps its servers.
    2. Of the others, tensor- and data-parallel jobs are packed first, larger ones first, each into as few servers
       as possible; then pipeline-parallel jobs, which lose less by network hops.
    3. Jobs that keep their servers but are spread over several move to a single server with room, in the order of
       their migration costs (checkpoint bytes over the slowest of their network cards). Room appears when jobs arrive
       and finish, so this happens at these events only.

    Parameters
    ----------
    sticky:
        Step 1; without it every job is placed again in each round.
    consolidate:
        Step 3.
    whole:
        Kinds of parallelism whose jobs wait rather than be spread over several servers.

    Raises
    ------
    InvalidOption
        ``whole`` names no kind of parallelism.
    """

    sticky: bool = True
    consolidate: bool = True
    whole: tuple[Parallelism, ...] = ()

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""

        def rank(job: Job, gpus: int) -> tuple[int, ...]:
            return int(job.parallelism == Parallelism.PIPELINE), -gpus

        return PlacementRun(plan, instance, self.whole).run(rank, self.sticky, self.consolidate)


@dataclass(frozen=True)
class MoreWorkersFirst(_KeepsWhole):
    """OEF's placer, [OEF, section 4.3]: jobs with more workers first, each into as few servers as possible.

    Parameters
    ----------
    sticky:
        Jobs that keep their GPU type keep their servers, which OEF does not specify. Without this, too, a job's
        present server is preferred if it has room.
    whole:
        Kinds of parallelism whose jobs wait rather than be spread over several servers.

    Raises
    ------
    InvalidOption
        ``whole`` names no kind of parallelism.
    """

    sticky: bool = False
    whole: tuple[Parallelism, ...] = ()

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""
        return PlacementRun(plan, instance, self.whole).run(lambda _, gpus: (-gpus,), self.sticky, False)


class FreeGPUs(dict[str, int]):
    """Server -> free GPUs of one type, with the servers also in the order of these numbers.

    So the tightest and the emptiest server are found in logarithmic time. Only :meth:`add` may change the numbers.
    """

    @cached_property
    def _servers(self) -> tuple[str, ...]:
        return tuple(self)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {server: i for i, server in enumerate(self._servers)}

    @cached_property
    def _ascending(self) -> list[int]:
        """``free GPUs * servers + position`` of each server, sorted; built when it is first needed."""
        return sorted(n * len(self) + i for i, n in enumerate(self.values()))

    def add(self, seats: Mapping[str, int], sign: int = 1) -> None:
        """Free these seats; ``sign`` -1: take them."""
        ordered: list[int] | None = self.__dict__.get("_ascending")
        for server, n in seats.items():
            free = self[server]
            self[server] = now = free + sign * n
            if ordered is not None:
                i, many = self._position[server], len(self)
                del ordered[bisect_left(ordered, free * many + i)]
                insort(ordered, now * many + i)

    def tightest(self, gpus: int, near: Collection[str], but: Collection[str] = ()) -> str | None:
        """The server with the fewest free GPUs among those with ``gpus``, if possible one of ``near``; None if none.

        Servers in ``but`` do not count. Ties go to the first server.
        """
        if near and (fits := [(self[s], self._position[s]) for s in near if s not in but and self.get(s, 0) >= gpus]):
            return self._servers[min(fits)[1]]
        ordered, many = self._ascending, len(self)
        for at in range(bisect_left(ordered, gpus * many), many):
            if (server := self._servers[ordered[at] % many]) not in but:
                return server
        return None

    def emptiest_first(self, near: Collection[str]) -> Iterator[str]:
        """The servers with free GPUs, most first; of equal ones those of ``near`` first, then in their order."""
        ordered, end = self._ascending, len(self)
        while end and (most := ordered[end - 1] // len(self)) > 0:
            first = bisect_left(ordered, most * len(self))
            close = {self._position[s] for s in near if self.get(s) == most}
            yield from (self._servers[i] for i in sorted(close))
            yield from (self._servers[i] for at in range(first, end) if (i := ordered[at] % len(self)) not in close)
            end = first


def pack(gpus: int, free: Mapping[str, int], near: Collection[str] = ()) -> Seats | None:
    """Seats for ``gpus`` GPUs on as few of the servers as possible, or None if there is not enough room.

    If a single server has room: the tightest fit among ``near``, else the tightest fit among all, which leaves large
    holes to large gangs. Otherwise the emptiest server is filled and the rest packed in the same way, which takes the
    fewest servers. Ties go to the first server.
    """
    room, seats = free if isinstance(free, FreeGPUs) else FreeGPUs(free), Seats()
    if not gpus:
        return seats
    emptiest: Iterator[str] | None = None
    while (tight := room.tightest(gpus, near, seats)) is None:
        emptiest = emptiest or room.emptiest_first(near)
        if (server := next(emptiest, None)) is None:
            return None
        seats[server] = room[server]
        gpus -= room[server]
    seats[tight] = gpus
    return seats


@dataclass(frozen=True)
class NoServerFits:
    """No single server has room for a job that must not be spread over several.

    Attributes
    ----------
    gpus, gpu_type:
        GPUs that the job needs, and their type.
    parallelism:
        Kind of parallelism that prevents spreading.
    """

    gpus: int
    gpu_type: str
    parallelism: Parallelism

    def __str__(self) -> str:
        return f"no single server has {self.gpus} free GPUs of {self.gpu_type!r} for a {self.parallelism} job"


SeatChoice = Callable[[Job, int, Mapping[str, int], Collection[str]], Seats | None]
"""(job, GPUs, free GPUs by server, present servers) -> its seats, or None if there is not enough room."""


NOWHERE: Mapping[str, Any] = FrozenDict()
"""The servers, or seats, of a job without GPUs."""


class PlannedGPUs(NamedTuple):
    """The GPUs of one type that the plan gives to a job, and its present seats on the type.

    Attributes
    ----------
    stays:
        Whether it keeps its number of GPUs of the type, so that it can keep its servers.
    """

    job: Job
    gpu_type: str
    gpus: int
    before: Mapping[str, int]
    stays: bool


class PlacementRun:
    """One run of a placer over the jobs of a plan, type by type.

    Two jobs that share their GPUs are placed as one gang, that of the first; it stays where either of them is.

    Parameters
    ----------
    whole:
        As of :class:`HierarchicalPlacer`.
    choose:
        Chooses the seats of a job; default: as few servers as possible (:func:`pack`).

    Raises
    ------
    InvalidPlan
        The plan is over tenants.
    """

    def __init__(
        self, plan: Plan, instance: Instance, whole: tuple[Parallelism, ...] = (), choose: SeatChoice | None = None
    ) -> None:
        if plan.entities.kind != "jobs":
            raise InvalidPlan(
                "the plan is over tenants; select their jobs first (hetopt.decisions.selection.LongestStarved)"
            )
        self.choose, self.whole, self.cluster = choose, whole, instance.cluster
        self.placed = dict(instance.placed.items())
        names, types, jobs = plan.entities.names, plan.entities.types, instance.job
        x = np.rint(plan.gangs).astype(int)
        rows, columns = np.nonzero(x)
        self.packed = dict(plan.packed)
        self.planned: list[PlannedGPUs] = []
        for i, k, n in zip(rows.tolist(), columns.tolist(), x[rows, columns].tolist(), strict=True):
            t = types[k]
            before, stays = self._before(names[i], t, n)
            if not stays and names[i] in self.packed:
                other, stays = self._before(self.packed[names[i]], t, n)
                before = other if stays else before
            self.planned.append(PlannedGPUs(jobs[names[i]], t, n, before, stays))
        self.free = {t: FreeGPUs(self.cluster.seats[t]) for t in types}
        self.hosts: dict[str, dict[str, Mapping[str, int]]] = {}  # job -> GPU type -> server -> GPUs
        self.waiting: dict[str, WaitReason] = {}
        self._fewest_servers: dict[tuple[str, int], int] = {}

    def _before(self, name: str, gpu_type: str, gpus: int) -> tuple[Mapping[str, int], bool]:
        """Present seats of a job on the type, and whether they are as many as it is to have."""
        there, before = self.placed.get(name, NOWHERE), NOWHERE
        if there:
            before = {server: m for server, own in there.items() if (m := own.get(gpu_type, 0))}
        return before, bool(before) and sum(before.values()) == gpus

    def _is_free(self, one: PlannedGPUs) -> bool:
        """Whether no job that shared the present seats of ``one`` has kept them."""
        free = self.free[one.gpu_type]
        return all(n <= free[server] for server, n in one.before.items())

    def run(self, rank: Callable[[Job, int], tuple[int, ...]], sticky: bool, consolidate: bool) -> Placement:
        """Keep the servers of jobs that stay, pack the others in the order of ``rank``, consolidate."""
        spread, others = list[PlannedGPUs](), list[PlannedGPUs]()
        for one in self.planned:
            if not (sticky and one.stays and self._is_free(one)):
                others.append(one)
                continue
            self._take(one.job.name, one.gpu_type, one.before)
            if len(one.before) > 1:
                spread.append(one)
        for one in sorted(others, key=lambda one: rank(one.job, one.gpus)):
            if one.job.name not in self.waiting:
                self._place(*one[:4])
        if consolidate:
            self._consolidate(spread)
        return self._placement([*spread, *others])

    def _take(self, job: str, gpu_type: str, seats: Mapping[str, int]) -> None:
        self.free[gpu_type].add(seats, -1)
        if (own := self.hosts.get(job)) is None:
            self.hosts[job] = {gpu_type: seats}
        else:
            own[gpu_type] = seats

    def _release(self, job: str, gpu_type: str) -> None:
        self.free[gpu_type].add(self.hosts[job].pop(gpu_type))

    def _place(self, job: Job, gpu_type: str, gpus: int, before: Mapping[str, int]) -> None:
        free = self.free[gpu_type]
        near: Collection[str] = self.placed.get(job.name, NOWHERE)
        own: set[str] = set()  # servers on other types
        if elsewhere := self.hosts.get(job.name, NOWHERE):
            own = {server for seats in elsewhere.values() for server in seats}
            near = own.union(near)
        seats = pack(gpus, free, near) if self.choose is None else self.choose(job, gpus, free, near)
        if seats is None:
            raise InvalidPlan(f"the plan has more GPUs of {gpu_type!r} than there are: no room for job {job.name!r}")
        if self.whole and job.parallelism in self.whole and len(own.union(seats)) > 1:
            for other in list(elsewhere):
                self._release(job.name, other)
            self.waiting[job.name] = NoServerFits(gpus, gpu_type, job.parallelism)
            return
        self._take(job.name, gpu_type, before if seats == before else seats)

    def _consolidate(self, spread: list[PlannedGPUs]) -> None:
        """Move jobs that are spread into a single server with room, the cheapest migration first."""

        def migration_seconds(one: PlannedGPUs) -> float:
            return one.job.checkpoint_bytes / min(self.cluster.by_name[s].nic_bytes_per_s for s in one.before)

        placed = [one for one in spread if one.job.name not in self.waiting]
        for job, t, n, before, _ in sorted(placed, key=migration_seconds):
            self._release(job.name, t)
            seats = pack(n, self.free[t], before)
            self._take(job.name, t, before if seats is None or len(seats) > 1 else seats)

    def _placement(self, loose: list[PlannedGPUs]) -> Placement:
        """The result; GPUs that are not ``loose`` keep their only server, unless their job waits."""
        extra, moved = dict[str, int](), set[str]()
        for one in loose:
            name = one.job.name
            if name in self.waiting:  # moves nowhere
                continue
            seats = self.hosts[name][one.gpu_type]
            if one.stays and seats is not one.before:
                moved.add(name)
            if len(seats) > 1 and (more := len(seats) - self._fewest(one.gpu_type, one.gpus)):
                extra[name] = extra.get(name, 0) + more
        hosts = {job: by_server(seats) for job, seats in self.hosts.items() if seats}
        for first, second in self.packed.items():
            if first in self.waiting:
                self.waiting[second] = self.waiting[first]
            elif first in hosts:
                hosts[second] = hosts[first]
        given_up = {"split": len(extra), "extra_servers": sum(extra.values()), "moved": len(moved)}
        return Placement(hosts, self.waiting, {**given_up, "waiting": len(self.waiting)})

    def _fewest(self, gpu_type: str, gpus: int) -> int:
        """The fewest servers of an empty cluster that have as many GPUs."""
        if (gpu_type, gpus) not in self._fewest_servers:
            self._fewest_servers[gpu_type, gpus] = len(pack(gpus, self.cluster.seats[gpu_type]) or {})
        return self._fewest_servers[gpu_type, gpus]


def by_server(seats: Mapping[str, Mapping[str, int]]) -> Hosts:
    """Server -> GPU type -> GPUs of a job, from GPU type -> server -> GPUs."""
    if len(seats) == 1:
        ((gpu_type, own),) = seats.items()
        if len(own) == 1:
            ((server, n),) = own.items()
            return on_one_server(server, gpu_type, n)
    hosts: dict[str, dict[str, int]] = {}
    for gpu_type, own in seats.items():
        for server, n in own.items():
            hosts.setdefault(server, {})[gpu_type] = n
    return FrozenDict({server: FrozenDict(gpus) for server, gpus in hosts.items()})


LARGEST_TENSOR: Mapping[str, float] = FrozenDict(
    {"VGG-16": 392 / 526.8, "VGG-19": 392 / 547.1, "ResNet-50": 9 / 80.6, "ResNet-152": 9 / 149.6, "VGG": 392 / 526.8}
)
"""Model -> part of its parameters in the largest tensor: MB of tensors in the simulator that Tiresias' authors
published (Apache-2.0); VGG stands for VGG-16. No language model or DenseNet of :mod:`hetopt.traces.paper_models` has a
quarter of its parameters in one tensor."""

PACK_LIMIT = 0.5
"""Between the VGGs (0.7 and more) and all others (0.25 and less); Tiresias learns the limit and prints none."""


@dataclass(frozen=True)
class TensorSkew:
    """Tiresias' placer, as FFT's baseline: only jobs with one large tensor are consolidated [FFT, section 6.2.4].

    Jobs of models whose largest tensor has more than ``limit`` of the parameters come first, larger ones first, each on
    as few servers as possible. All others, in the order of the plan, take the first free GPUs, as under
    :class:`FirstFree`. ``Job.parallelism`` is ignored.

    Parameters
    ----------
    largest:
        Model -> part of its parameters in the largest tensor, 0 to 1; models that are missing have no large one.
    limit:
        From 0 to 1.
    sticky:
        Jobs that keep their GPU type keep their servers.

    Raises
    ------
    InvalidOption
        A number out of its range.
    """

    largest: Mapping[str, float] = field(default_factory=lambda: LARGEST_TENSOR)
    limit: float = PACK_LIMIT
    sticky: bool = True

    def __post_init__(self) -> None:
        given = mapping(self.largest, "TensorSkew.largest", InvalidOption).items()
        parts = {n: at_least(v, f"TensorSkew.largest[{n!r}]", 0.0, InvalidOption, most=1.0) for n, v in given}
        object.__setattr__(self, "largest", FrozenDict(parts))
        at_least(self.limit, "TensorSkew.limit", 0.0, InvalidOption, most=1.0)

    def skewed(self, job: Job) -> bool:
        """Whether the job is consolidated."""
        return self.largest.get(job.model or "", 0.0) > self.limit

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""

        def rank(job: Job, gpus: int) -> tuple[int, ...]:
            return (0, -gpus) if self.skewed(job) else (1, 0)

        def choose(job: Job, gpus: int, free: Mapping[str, int], near: Collection[str]) -> Seats | None:
            return pack(gpus, free, near) if self.skewed(job) else first_seats(gpus, free)

        return PlacementRun(plan, instance, choose=choose).run(rank, self.sticky, False)


@dataclass(frozen=True)
class FirstFree:
    """Placement without optimisation: each job, in the order of the plan, takes the first free GPUs of its type.

    GPUs are numbered server by server, as in a list of workers. According to FFT, Gavel and AlloX [FFT, section 6.2.4],
    and according to OEF, Gavel and Gandiva_fair [OEF, section 6.3.1] do not optimise placement.

    Parameters
    ----------
    sticky:
        Jobs that keep their GPU type keep their servers.
    """

    sticky: bool = True

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""
        run = PlacementRun(plan, instance, choose=lambda _job, gpus, free, _near: first_seats(gpus, free))
        return run.run(lambda *_: (), self.sticky, False)


def first_seats(gpus: int, free: Mapping[str, int]) -> Seats | None:
    """The first ``gpus`` free seats, server by server in the order of ``free``; None if there are fewer."""
    seats: Seats = {}
    for server, room in free.items():
        if gpus <= 0:
            break
        if room > 0:
            seats[server] = min(gpus, room)
            gpus -= seats[server]
    return None if gpus > 0 else seats
