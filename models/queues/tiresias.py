"""Tiresias: queues by attained service in GPU-seconds (Gu et al., NSDI'19), and FFT's queues for each GPU type."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, at_least, expect, shown, whole
from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidOption
from hetopt.models.fft.fft_components import ROUND_SECONDS
from hetopt.models.policy_checks import forward, one_of, seconds_or_events
from hetopt.models.queues.gpu_pool import (
    PlacedGPUs,
    capacities,
    demands,
    first_with_room,
    gangs,
    in_order,
    plan_of,
    roomiest,
    walk,
)
from hetopt.models.queues.job_orders import held_gpus, spent
from hetopt.results.allocation import Plan
from hetopt.tolerances import WORK

Kinds: TypeAlias = NDArray[np.intp]
"""(n,) a whole number for each job: its queue, or the position of its GPU type and -1 for none."""


def by_lot(jobs: Entities, kind: Kinds, seed: int) -> Kinds:
    """(n,) types: each new job goes to any of those that can run it, all equally likely.

    Parameters
    ----------
    kind:
        (n,) types so far. A job that has none, but holds its gang on one, is put there.
    seed:
        Of the lot, which depends on it and the job's name alone.
    """
    kind = _so_far(jobs, kind)
    for job, able in _new(jobs, kind):
        lot = blake2b(f"{seed}/{jobs.names[job]}".encode(), digest_size=8).digest()
        kind[job] = able[int.from_bytes(lot) % len(able)]
    return kind


def by_least_service(jobs: Entities, kind: Kinds) -> Kinds:
    """(n,) types: each new job goes to that whose jobs have least GPU-seconds left in all, in a tie to the first.

    Jobs that are new at once are put one after the other, as they arrived, and count for the next.
    """
    kind = _so_far(jobs, kind)
    with np.errstate(divide="ignore", invalid="ignore"):
        service = (jobs.demand * jobs.source.job_array("work_left"))[:, None] / jobs.speed
    there = np.flatnonzero(kind >= 0)
    left = np.bincount(kind[there], weights=service[there, kind[there]], minlength=len(jobs.types)).tolist()
    for job, able in _new(jobs, kind):
        kind[job] = min(able, key=left.__getitem__)
        left[kind[job]] += float(service[job, kind[job]])
    return kind


def _so_far(jobs: Entities, kind: Kinds) -> Kinds:
    """A copy in which jobs whose type can no longer run them have none, and new jobs that run the type they hold."""
    kind = np.where(jobs.allowed[np.arange(len(kind)), kind], kind, -1)
    for job, ((held, _),) in gangs(jobs).items():
        kind[job] = held if kind[job] < 0 else kind[job]
    return kind


def _new(jobs: Entities, kind: Kinds) -> Iterator[tuple[int, list[int]]]:
    """Jobs without a type, as they arrived, with the types that can run them; not those that nothing can run now."""
    new = np.flatnonzero((kind < 0) & jobs.allowed.any(axis=1))
    for job in new[np.argsort(jobs.source.job_array("arrival")[new], kind="stable")].tolist():
        yield job, np.flatnonzero(jobs.allowed[job]).tolist()


PerType: TypeAlias = Literal["random", "least-service"]
Order: TypeAlias = Literal["attained", "remaining"]

FIRST_LIMIT = 3250.0
"""GPU-seconds after which a job leaves the first queue: the first limit in the simulator that the authors published.
Neither Hadar, which compares with two queues, nor FFT prints one."""


class Life(NamedTuple):
    """What is remembered of a job.

    Attributes
    ----------
    service:
        GPU-seconds received since it arrived, or since it was last promoted.
    waited:
        Seconds that it has waited in the same time since it ran first.
    start:
        When it ran first; NaN if it never has.
    gpu_type:
        The type whose queue it is in; None where there are no such queues, or no type can run it now.
    """

    service: float
    waited: float
    start: float
    gpu_type: str | None


@dataclass(frozen=True)
class TiresiasState:
    """What Tiresias remembers from one call to the next.

    Attributes
    ----------
    time:
        When it was asked last, in seconds.
    lives:
        Job -> what is remembered of it.
    """

    time: float
    lives: Mapping[str, Life] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lives", FrozenDict(self.lives))


@dataclass(eq=False)
class _Past:
    """The lives of n jobs as arrays, brought forward to now."""

    service: Floats
    waited: Floats
    start: Floats
    kind: Kinds


@dataclass(frozen=True)
class Tiresias:
    """Discretised two-dimensional LAS: jobs that have received many GPU-seconds come after those that have few.

    A job begins in the first queue and goes to the next at each of the ``thresholds``. Within a queue those that ran
    first come first, then the others as they arrived: FIFO by start, so that nobody is stopped for one of its own
    queue that has not run yet. Jobs that run stay where they are unless those ahead need their GPUs; the last is
    stopped first.

    Parameters
    ----------
    thresholds:
        GPU-seconds at which jobs go to the next queue, growing; so there is one more queue than thresholds.
    promote:
        A job that has waited so many times as long as it has run goes back to the first queue, and both count anew
        from then on. None: never, as Hadar's evaluation has it [Hadar, section IV].
    per_type:
        None: it knows nothing of GPU types; a job takes the type with most free GPUs. Else there are queues for each
        type, and a job stays in those of one for good [FFT, section 6.1.4]: of one by lot, from ``seed`` and its name
        alone (``"random"``), or of that whose jobs have least GPU-seconds left in all when it is first seen
        (``"least-service"``).
    order:
        ``"attained"``: as above. ``"remaining"``: the job with fewest GPU-seconds left first, with no queues by
        service (FFT's SRSTF); on its type, or where there are no queues for each type on its fastest.
    seed:
        Of the lot.
    round_seconds:
        Length of a round; None: decisions at arrivals, completions, and whenever a job changes its queue.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    thresholds: tuple[float, ...] = (FIRST_LIMIT,)
    promote: float | None = None
    per_type: PerType | None = None
    order: Order = "attained"
    seed: int = 0
    round_seconds: float | None = ROUND_SECONDS

    def __post_init__(self) -> None:
        name = type(self).__name__
        try:
            limits = tuple(self.thresholds)
        except TypeError:
            raise InvalidOption(f"{name}.thresholds is {shown(self.thresholds)}; it must be a sequence") from None
        least = 0.0
        for i, limit in enumerate(limits):
            least = at_least(limit, f"{name}.thresholds[{i}]", least, InvalidOption, strict=True)
        object.__setattr__(self, "thresholds", tuple(map(float, limits)))
        one_of(self.order, get_args(Order), f"{name}.order")
        if self.per_type is not None:
            one_of(self.per_type, get_args(PerType), f"{name}.per_type")
        if self.promote is not None:
            at_least(self.promote, f"{name}.promote", 0.0, InvalidOption, strict=True)
            if self.order == "remaining":
                raise InvalidOption(f"{name}.promote is {self.promote:g}; order 'remaining' has no queue to return to")
        object.__setattr__(self, "seed", whole(self.seed, f"{name}.seed", 0))
        seconds_or_events(self.round_seconds, f"{name}.round_seconds")

    def __call__(self, instance: Instance, state: TiresiasState | None = None) -> tuple[Plan, TiresiasState]:
        """Who runs from now on, and what is to be remembered.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; a time before the state's.
        """
        jobs = present_entities(instance, "jobs", type(self).__name__)
        if state is None:
            state = TiresiasState(instance.time)
        past = self._past(jobs, expect(TiresiasState, state, "state", InvalidOption))
        choose = roomiest(jobs)
        if self.per_type is not None:
            choose = first_with_room(demands(jobs), [[k] if k >= 0 else [] for k in past.kind.tolist()])
        order = in_order(jobs, *self._keys(jobs, past))
        given = walk(order, capacities(jobs), gangs(jobs), choose, stops="last", backfill=True)
        runs = list(given)
        past.start[runs] = np.where(np.isnan(past.start[runs]), instance.time, past.start[runs])
        types = [jobs.types[k] if k >= 0 else None for k in past.kind.tolist()]
        lives = map(Life, past.service.tolist(), past.waited.tolist(), past.start.tolist(), types)
        after = TiresiasState(instance.time, dict(zip(jobs.names, lives, strict=True)))
        return plan_of(jobs, given, self._wake(jobs, past, given)), after

    def _past(self, jobs: Entities, state: TiresiasState) -> _Past:
        instance, held = jobs.source, held_gpus(jobs)
        passed, runs = forward(instance, state.time), held > 0
        new = Life(math.nan, 0.0, math.nan, None)
        service, waited, start, types = zip(*(state.lives.get(name, new) for name in jobs.names), strict=True)
        known = np.array(service)
        past = _Past(
            service=np.where(np.isnan(known), spent(jobs), known + passed * held),
            waited=np.array(waited),
            start=np.array(start),
            kind=np.array([jobs.types.index(t) if t in jobs.types else -1 for t in types], dtype=np.intp),
        )
        begun = np.isnan(past.start) & (runs | (past.service > 0))
        past.start[begun] = instance.job_array("arrival")[begun]
        waits = ~runs & ~np.isnan(past.start) & ~np.isnan(known)
        past.waited[waits] += passed
        if self.promote is not None:
            ran = past.service / jobs.demand
            back = waits & (self._queue(past.service) > 0) & (past.waited >= self.promote * ran * (1 - WORK))
            past.service[back], past.waited[back] = 0.0, 0.0
        if self.per_type == "random":
            past.kind = by_lot(jobs, past.kind, self.seed)
        elif self.per_type == "least-service":
            past.kind = by_least_service(jobs, past.kind)
        return past

    def _queue(self, service: Floats) -> Kinds:
        """(n,) the queue of each job, from 0."""
        return np.searchsorted(np.array(self.thresholds) * (1 - WORK), service, side="right")

    def _keys(self, jobs: Entities, past: _Past) -> tuple[Floats, ...]:
        if self.order == "attained":
            return self._queue(past.service).astype(float), np.where(np.isnan(past.start), np.inf, past.start)
        speed = jobs.speed.max(axis=1)
        if self.per_type is not None:
            speed = jobs.speed[np.arange(len(speed)), past.kind]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.asarray(jobs.demand * jobs.source.job_array("work_left") / speed),)

    def _wake(self, jobs: Entities, past: _Past, given: Mapping[int, PlacedGPUs]) -> float | None:
        """When the next job changes its queue, if nothing happens before; None in rounds."""
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
    """Tiresias as FFT compares with it: each job in the queue of one GPU type, drawn by lot."""
    return Tiresias(per_type="random")
