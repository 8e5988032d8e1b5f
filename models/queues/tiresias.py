"""Tiresias: queues by attained service in GPU-seconds (Gu et al., NSDI'19), and FFT's queues for each GPU type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect, one_of, shown, whole
from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.policy_checks import elapsed_since
from hetopt.models.queues.gpu_pool import (
    TYPES,
    PlacedGPUs,
    Preemption,
    TypeRule,
    allocate_in_order,
    first_type_that_fits,
    gang_sizes,
    running_gangs,
    sorted_jobs,
    type_capacities,
    type_plan,
)
from hetopt.models.queues.job_orders import held_gpu_counts, spent
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK


def random_types(jobs: Entities, kind: Positions, seed: int) -> Positions:
    """(n,) types: each new job gets a type that can run it, drawn uniformly at random.

    Parameters
    ----------
    kind:
        (n,) current types. A job without a type that holds its gang on one type gets that type.
    seed:
        Seed of the draw, which depends only on it and on the job's name.
    """
    kind = _current(jobs, kind)
    for job, able in _new(jobs, kind):
        digest = blake2b(f"{seed}/{jobs.names[job]}".encode(), digest_size=8).digest()
        kind[job] = able[int.from_bytes(digest) % len(able)]
    return kind


def least_service_types(jobs: Entities, kind: Positions) -> Positions:
    """(n,) types: each new job gets the type whose jobs have the fewest GPU-seconds left in total, in a tie the first.

    Several new jobs are assigned one after another in the order of arrival, and each counts for the next.
    """
    kind = _current(jobs, kind)
    with np.errstate(divide="ignore", invalid="ignore"):
        service = (jobs.demand * jobs.source.job_array("work_left"))[:, None] / jobs.speed
    there = np.flatnonzero(kind >= 0)
    left = np.bincount(kind[there], weights=service[there, kind[there]], minlength=len(jobs.types)).tolist()
    for job, able in _new(jobs, kind):
        kind[job] = min(able, key=left.__getitem__)
        left[kind[job]] += float(service[job, kind[job]])
    return kind


def _current(jobs: Entities, kind: Positions) -> Positions:
    """A copy without types that can no longer run their job, and with the held type for running jobs without a type."""
    kind = np.where(jobs.allowed[np.arange(len(kind)), kind], kind, -1)
    for job, ((held, _),) in running_gangs(jobs).items():
        kind[job] = held if kind[job] < 0 else kind[job]
    return kind


def _new(jobs: Entities, kind: Positions) -> Iterator[tuple[int, list[int]]]:
    """Jobs without a type in the order of arrival, each with the types that can run it, if there are any."""
    new = np.flatnonzero((kind < 0) & jobs.allowed.any(axis=1))
    for job in new[np.argsort(jobs.source.job_array("arrival")[new], kind="stable")].tolist():
        yield job, np.flatnonzero(jobs.allowed[job]).tolist()


PerType: TypeAlias = Literal["random", "least-service"]
Order: TypeAlias = Literal["attained", "remaining"]
Within: TypeAlias = Literal["start", "running"]

FIRST_LIMIT = 3250.0
"""GPU-seconds after which a job leaves the first queue: the first threshold in the simulator that the authors
published. Neither Hadar, which compares with two queues, nor FFT prints a threshold."""


class JobRecord(NamedTuple):
    """Attained service and waiting time of a job.

    Attributes
    ----------
    service:
        GPU-seconds attained since its arrival or its last promotion.
    waited:
        Seconds waited in the same period, after it first ran in it.
    start:
        Time of its first start in seconds; NaN before it.
    gpu_type:
        The type whose queue it is in; None without queues per type, or if no type can run it now.
    queue, place:
        Its queue and its place among all jobs after the last decision; -1 unless ``within="running"``.
    """

    service: float
    waited: float
    start: float
    gpu_type: str | None
    queue: int = -1
    place: int = -1


@dataclass(frozen=True)
class TiresiasState:
    """State of Tiresias between calls.

    Attributes
    ----------
    time:
        Time of the last call, in seconds.
    records:
        Job -> its service and waiting time.
    """

    time: float
    records: Mapping[str, JobRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", FrozenDict(self.records))


@dataclass(eq=False)
class _History:
    """The records of n jobs as arrays, advanced to the current time."""

    service: Floats
    waited: Floats
    start: Floats
    kind: Positions
    queue: Positions
    place: Positions


@dataclass(frozen=True)
class Tiresias:
    """Discretised two-dimensional LAS: jobs with more attained GPU-seconds are in later queues.

    A job starts in the first queue and moves to the next queue at each of the ``thresholds``. Running jobs stay where
    they are unless jobs ahead of them need their GPUs; the last one is preempted first.

    Parameters
    ----------
    thresholds:
        GPU-seconds at which jobs move to the next queue, increasing; there is one more queue than thresholds.
    promote:
        A job that has waited this many times as long as it has run returns to the first queue, and both times restart
        at 0. None: never, as in Hadar's evaluation [Hadar, section IV].
    per_type:
        None: a job may take any type, see ``types``. Otherwise there are queues per type, and a job stays in the queues
        of one type [FFT, section 6.1.4]: a type drawn at random from ``seed`` and the job's name (``"random"``), or the
        type whose jobs have the fewest GPU-seconds left in total at the job's first call (``"least-service"``).
    order:
        ``"attained"``: as above. ``"remaining"``: the job with the fewest GPU-seconds left first, without queues by
        service (FFT's SRSTF), computed on its type, or without queues per type on its fastest type.
    within:
        Order within a queue. ``"start"``: by first start, then by arrival, so that a job that has run is not preempted
        by a job of the same queue that has not (NSDI'19). ``"running"``, as in the authors' simulator: running jobs,
        then waiting jobs, both as at the last decision; then arrivals; then jobs from other queues.
    seed:
        Seed of the random types.
    round_seconds:
        Length of a round in seconds; None: decisions at arrivals, completions, and whenever a job changes its queue.
    types:
        Without queues per type: the type of a job that starts, :data:`~hetopt.models.queues.gpu_pool.TypeRule`.
        Tiresias itself ignores types: it takes that with the most free GPUs.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    thresholds: tuple[float, ...] = (FIRST_LIMIT,)
    promote: float | None = None
    per_type: PerType | None = None
    order: Order = "attained"
    within: Within = "start"
    seed: int = 0
    round_seconds: float | None = ROUND_SECONDS
    types: TypeRule = "roomiest"

    def __post_init__(self) -> None:
        name = type(self).__name__
        try:
            limits = tuple(self.thresholds)
        except TypeError:
            raise InvalidOption(f"is {shown(self.thresholds)}; it must be a sequence", f"{name}.thresholds") from None
        least = 0.0
        for i, limit in enumerate(limits):
            least = at_least(limit, f"{name}.thresholds[{i}]", least, InvalidOption, strict=True)
        object.__setattr__(self, "thresholds", tuple(map(float, limits)))
        one_of(self.order, get_args(Order), f"{name}.order")
        one_of(self.within, get_args(Within), f"{name}.within")
        if self.within == "running" and self.order == "remaining":
            raise InvalidOption("is 'running'; order 'remaining' has no queues", f"{name}.within")
        if self.per_type is not None:
            one_of(self.per_type, get_args(PerType), f"{name}.per_type")
        if self.promote is not None:
            at_least(self.promote, f"{name}.promote", 0.0, InvalidOption, strict=True)
            if self.order == "remaining":
                raise InvalidOption(
                    f"is {self.promote:g}; order 'remaining' has no queue to return to", f"{name}.promote"
                )
        one_of(self.types, TYPES, f"{name}.types")
        if self.per_type is not None and self.types != "roomiest":
            raise InvalidOption(
                f"is {self.types!r}; with queues per type a job starts on that of its queue", f"{name}.types"
            )
        object.__setattr__(self, "seed", whole(self.seed, f"{name}.seed", 0))
        check_round_seconds(self, or_none=True)

    @property
    def traits(self) -> Traits:
        """It decides in rounds, if it has any; with queues per type, jobs wait for theirs."""
        return Traits(self.round_seconds, idles="jobs wait for the GPU type of their queue" if self.per_type else "")

    def __call__(self, instance: Instance, state: TiresiasState | None = None) -> tuple[Plan, TiresiasState]:
        """The plan from now on, and the next state.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; the time is before that of the state.
        """
        jobs = present_entities(instance, "jobs", type(self).__name__)
        if state is None:
            state = TiresiasState(instance.time)
        past = self._past(jobs, expect(TiresiasState, state, "state", InvalidOption))
        choose = TYPES[self.types](jobs)
        if self.per_type is not None:
            choose = first_type_that_fits(gang_sizes(jobs), [[k] if k >= 0 else [] for k in past.kind.tolist()])
        keys = self._keys(jobs, past)
        order = sorted_jobs(jobs, *keys)
        running = running_gangs(jobs, order)
        given = allocate_in_order(
            order, type_capacities(jobs), running, choose, preemption=Preemption.LAST_FIRST, backfill=True
        )
        runs = list(given)
        past.start[runs] = np.where(np.isnan(past.start[runs]), instance.time, past.start[runs])
        if self.within == "running":
            self._line_up(jobs, past, keys, runs)
        types = [jobs.types[k] if k >= 0 else None for k in past.kind.tolist()]
        columns = (column.tolist() for column in (past.service, past.waited, past.start))
        records = map(JobRecord, *columns, types, past.queue.tolist(), past.place.tolist())
        after = TiresiasState(instance.time, dict(zip(jobs.names, records, strict=True)))
        return type_plan(jobs, given, self._wake(jobs, past, given)), after

    def _past(self, jobs: Entities, state: TiresiasState) -> _History:
        instance, held = jobs.source, held_gpu_counts(jobs)
        passed, runs = elapsed_since(instance, state.time), held > 0
        new = JobRecord(math.nan, 0.0, math.nan, None)
        service, waited, start, types, queue, place = zip(
            *(state.records.get(name, new) for name in jobs.names), strict=True
        )
        known = np.array(service)
        past = _History(
            service=np.where(np.isnan(known), spent(jobs), known + passed * held),
            waited=np.array(waited),
            start=np.array(start),
            kind=np.array([jobs.types.index(t) if t in jobs.types else -1 for t in types], dtype=np.intp),
            queue=np.array(queue, dtype=np.intp),
            place=np.array(place, dtype=np.intp),
        )
        begun = np.isnan(past.start) & (runs | (past.service > 0))
        past.start[begun] = instance.job_array("arrival")[begun]
        waits = ~runs & (past.service > 0) & ~np.isnan(known)
        past.waited[waits] += passed
        if self.promote is not None:
            ran = past.service / jobs.demand
            back = waits & (self._queue(past.service) > 0) & (past.waited >= self.promote * ran * (1 - WORK))
            past.service[back], past.waited[back] = 0.0, 0.0
        if self.per_type == "random":
            past.kind = random_types(jobs, past.kind, self.seed)
        elif self.per_type == "least-service":
            past.kind = least_service_types(jobs, past.kind)
        return past

    def _queue(self, service: Floats) -> Positions:
        """(n,) the queue of each job, from 0."""
        return np.searchsorted(np.array(self.thresholds) * (1 - WORK), service, side="right")

    def _keys(self, jobs: Entities, past: _History) -> tuple[Floats, ...]:
        if self.order == "attained":
            queue = self._queue(past.service)
            if self.within == "start":
                return queue.astype(float), np.where(np.isnan(past.start), np.inf, past.start)
            joined = np.where(queue == past.queue, 0.0, np.where(past.queue < 0, 1.0, 2.0))
            return queue.astype(float), joined, np.where(joined > 0, 0.0, past.place)
        speed = jobs.speed.max(axis=1)
        if self.per_type is not None:
            speed = jobs.speed[np.arange(len(speed)), past.kind]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.asarray(jobs.demand * jobs.source.job_array("work_left") / speed),)

    def _line_up(self, jobs: Entities, past: _History, keys: tuple[Floats, ...], runs: list[int]) -> None:
        """Record each job's queue and place: running jobs, then waiting jobs, each in the order of this decision."""
        waits = ~np.isin(np.arange(len(past.queue)), runs)
        past.queue = self._queue(past.service)
        past.place[np.lexsort((jobs.source.job_array("arrival"), *reversed(keys), waits))] = np.arange(len(waits))

    def _wake(self, jobs: Entities, past: _History, given: Mapping[int, PlacedGPUs]) -> float | None:
        """Time in seconds at which the next job changes its queue if nothing happens before; None in rounds."""
        if self.round_seconds is not None or self.order == "remaining":
            return None
        queue, limits = self._queue(past.service), np.array([*self.thresholds, np.inf])
        runs = np.isin(np.arange(len(queue)), list(given))
        until = np.where(runs, (limits[queue] - past.service) / jobs.demand, np.inf)
        if self.promote is not None:
            starves = ~runs & (queue > 0)
            until = np.where(starves, self.promote * past.service / jobs.demand - past.waited, until)
        first = float(until.min())
        return jobs.source.time + first if math.isfinite(first) else None


def tiresias_per_type() -> Tiresias:
    """Tiresias as a baseline of FFT: each job in the queue of one GPU type, drawn at random."""
    return Tiresias(per_type="random")
