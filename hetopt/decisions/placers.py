"""Placers: from a plan over jobs to servers, with the losses of packing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from hetopt.checks import FrozenDict, at_least, mapping, members, one_of
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Parallelism
from hetopt.errors import InvalidOption, InvalidPlan
from hetopt.results.allocation import Placement, Plan, WaitReason

Seats = dict[str, int]
"""Server -> GPUs of one type."""


class Placer(Protocol):
    """Chooses servers for the jobs of a plan."""

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of each job that can be placed, and the reason for each that cannot.

        Raises
        ------
        InvalidPlan
            The plan is over tenants or has more GPUs than there are.
        """
        ...


@dataclass(frozen=True)
class HierarchicalPlacer:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", _kinds(self.whole, type(self).__name__))

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""

        def rank(job: Job, gpus: int) -> tuple[int, ...]:
            return int(job.parallelism == Parallelism.PIPELINE), -gpus

        return PlacementRun(plan, instance, self.whole).run(rank, self.sticky, self.consolidate)


@dataclass(frozen=True)
class MoreWorkersFirst:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", _kinds(self.whole, type(self).__name__))

    def __call__(self, plan: Plan, instance: Instance) -> Placement:
        """The servers of the plan's jobs."""
        return PlacementRun(plan, instance, self.whole).run(lambda _, gpus: (-gpus,), self.sticky, False)


def _kinds(whole: Iterable[str], owner: str) -> tuple[Parallelism, ...]:
    given = members(whole, str, f"{owner}.whole", InvalidOption)
    return tuple(Parallelism(one_of(kind, Parallelism, f"{owner}.whole")) for kind in given)


def pack(gpus: int, free: Mapping[str, int], near: Iterable[str] = ()) -> Seats | None:
    """Seats for ``gpus`` GPUs on as few of the servers as possible, or None if there is not enough room.

    If a single server has room: the tightest fit among ``near``, else the tightest fit among all, which leaves large
    holes to large gangs. Otherwise the emptiest server is filled and the rest packed in the same way, which takes the
    fewest servers. Ties go to the first server.
    """
    near = set(near)
    if gpus and (tight := _tightest(gpus, free, near)) is not None:
        return {tight: gpus}
    seats, left = {}, gpus
    room = {server: n for server, n in free.items() if n > 0}
    if sum(room.values()) < gpus:
        return None
    while left:
        if (tight := _tightest(left, room, near)) is not None:
            seats[tight] = left
            return seats
        server = max(room, key=lambda s: (room[s], s in near))
        seats[server] = room.pop(server)
        left -= seats[server]
    return seats


def _tightest(gpus: int, free: Mapping[str, int], near: set[str]) -> str | None:
    """The server with the tightest fit, among ``near`` if possible; None if no server has room."""
    fits = (server for server, n in free.items() if n >= gpus)
    return min(fits, key=lambda server: (server not in near, free[server]), default=None)


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


SeatChoice = Callable[[Job, int, Mapping[str, int], Iterable[str]], Seats | None]
"""(job, GPUs, free GPUs by server, present servers) -> its seats, or None if there is not enough room."""


class PlannedGPUs(NamedTuple):
    """The GPUs of one type that the plan gives to a job."""

    job: Job
    gpu_type: str
    gpus: int


class PlacementRun:
    """One run of a placer over the jobs of a plan, type by type.

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
        self.choose: SeatChoice = choose or (lambda _, gpus, free, near: pack(gpus, free, near))
        if plan.entities.kind != "jobs":
            raise InvalidPlan(
                "the plan is over tenants; select their jobs first (hetopt.decisions.selection.LongestStarved)"
            )
        self.instance, self.whole = instance, whole
        self.servers = instance.cluster.by_name
        self.x = np.rint(plan.x).astype(int)
        self.entities = plan.entities
        self.free: dict[str, Seats] = {t: self._empty(t) for t in self.entities.types}
        self.hosts: dict[str, dict[str, Seats]] = {}  # job -> GPU type -> server -> GPUs
        self.waiting: dict[str, WaitReason] = {}

    def run(self, rank: Callable[[Job, int], tuple[int, ...]], sticky: bool, consolidate: bool) -> Placement:
        """Keep the servers of jobs that stay, pack the others in the order of ``rank``, consolidate."""
        planned = [
            PlannedGPUs(self.instance.job[self.entities.names[i]], self.entities.types[k], int(self.x[i, k]))
            for i, k in np.argwhere(self.x).tolist()
        ]
        staying, others = list[PlannedGPUs](), list[PlannedGPUs]()
        for one in planned:
            before = self._before(one.job.name, one.gpu_type)
            if sticky and sum(before.values()) == one.gpus:
                self._take(one.job.name, one.gpu_type, before)
                staying.append(one)
            else:
                others.append(one)
        for one in sorted(others, key=lambda one: rank(one.job, one.gpus)):
            if one.job.name not in self.waiting:
                self._place(*one)
        if consolidate:
            self._consolidate(staying)
        return self._placement()

    def _before(self, job: str, gpu_type: str) -> Seats:
        """The job's present seats on the type."""
        placed = self.instance.placed.get(job, {})
        return {server: gpus[gpu_type] for server, gpus in placed.items() if gpus.get(gpu_type, 0)}

    def _take(self, job: str, gpu_type: str, seats: Seats) -> None:
        for server, n in seats.items():
            self.free[gpu_type][server] -= n
        self.hosts.setdefault(job, {})[gpu_type] = seats

    def _release(self, job: str, gpu_type: str) -> Seats:
        seats = self.hosts[job].pop(gpu_type)
        for server, n in seats.items():
            self.free[gpu_type][server] += n
        return seats

    def _place(self, job: Job, gpu_type: str, gpus: int) -> None:
        near = {*self.instance.placed.get(job.name, {}), *self._servers(job.name)}
        seats = self.choose(job, gpus, self.free[gpu_type], near)
        if seats is None:
            raise InvalidPlan(f"the plan has more GPUs of {gpu_type!r} than there are: no room for job {job.name!r}")
        if job.parallelism in self.whole and len({*seats, *self._servers(job.name)}) > 1:
            for other in list(self.hosts.get(job.name, {})):
                self._release(job.name, other)
            self.waiting[job.name] = NoServerFits(gpus, gpu_type, job.parallelism)
            return
        self._take(job.name, gpu_type, seats)

    def _servers(self, job: str) -> set[str]:
        return {server for seats in self.hosts.get(job, {}).values() for server in seats}

    def _consolidate(self, staying: list[PlannedGPUs]) -> None:
        """Move spread jobs into a single server with room, the cheapest migration first."""

        def migration_seconds(one: PlannedGPUs) -> float:
            cards = [self.servers[s].nic_bytes_per_s for s in self.hosts[one.job.name][one.gpu_type]]
            return one.job.checkpoint_bytes / min(cards)

        there = [one for one in staying if one.job.name not in self.waiting]
        spread = [one for one in there if len(self.hosts[one.job.name][one.gpu_type]) > 1]
        for job, t, n in sorted(spread, key=migration_seconds):
            before = self._release(job.name, t)
            seats = pack(n, self.free[t], before)
            self._take(job.name, t, before if seats is None or len(seats) > 1 else seats)

    def _placement(self) -> Placement:
        hosts: dict[str, dict[str, Seats]] = {}
        split = extra = moved = 0
        for job, types in self.hosts.items():
            own: dict[str, Seats] = {}
            more, moves = 0, False
            for t, seats in types.items():
                for server, n in seats.items():
                    own.setdefault(server, {})[t] = n
                if len(seats) > 1:
                    more += len(seats) - self._fewest(t, seats)
                old = self._before(job, t)
                moves |= bool(old) and old != seats and sum(old.values()) == sum(seats.values())
            if own:
                hosts[job] = own
            split, extra, moved = split + (more > 0), extra + more, moved + moves
        given_up = {"split": split, "extra_servers": extra, "moved": moved, "waiting": len(self.waiting)}
        return Placement(hosts, self.waiting, given_up)

    def _fewest(self, gpu_type: str, seats: Seats) -> int:
        """The fewest servers of an empty cluster that have as many GPUs."""
        return len(pack(sum(seats.values()), self._empty(gpu_type)) or {})

    def _empty(self, gpu_type: str) -> Seats:
        """The seats of an empty cluster."""
        return {s.name: s.gpus[gpu_type] for s in self.instance.cluster.servers if s.gpus.get(gpu_type, 0)}


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

        def choose(job: Job, gpus: int, free: Mapping[str, int], near: Iterable[str]) -> Seats | None:
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
        if gpus > 0 and room > 0:
            seats[server] = min(gpus, room)
            gpus -= seats[server]
    return None if gpus > 0 else seats
