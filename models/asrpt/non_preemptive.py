"""Non-preemptive schedulers: A-SRPT with its virtual machine [ASRPT, Algorithm 1], and list scheduling as baseline."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Self

from hetopt.models.asrpt.fleet import CandidatePlacement, Fleet, PredictedJob

Number = Any
"""Seconds: floats, or fractions for exact results."""


class VirtualMachine:
    """Preemptive SRPT in continuous time, event by event.

    A job of size 0 completes at its arrival. Of jobs with equal remaining time the running one continues, else the one
    that arrived first runs. The paper's machine works in slots; one job per slot would violate its Lemma 1.
    """

    def __init__(self) -> None:
        self._now: Number = 0
        self._running: tuple[Number, int, str] | None = None  # (seconds left, counter, job)
        self._waiting: list[tuple[Number, int, str]] = []
        self._counter = 0
        self._done: list[str] = []

    def copy(self) -> VirtualMachine:
        """An independent copy."""
        made = copy(self)
        made._waiting, made._done = list(self._waiting), list(self._done)
        return made

    def arrive(self, time: Number, job: str, size: Number) -> None:
        """``job`` arrives at ``time`` and needs ``size`` seconds; times never decrease between calls."""
        self._advance(time)
        self._counter += 1
        entry = (size, self._counter, job)
        if size <= 0:
            self._done.append(job)
        elif self._running is None:
            self._running = entry
        elif size < self._running[0]:
            heappush(self._waiting, self._running)
            self._running = entry
        else:
            heappush(self._waiting, entry)

    def withdraw(self, time: Number, job: str) -> None:
        """Remove ``job`` at ``time``; other jobs continue without it."""
        self._advance(time)
        if self._running is not None and self._running[2] == job:
            self._running = heappop(self._waiting) if self._waiting else None
        else:
            self._waiting = [entry for entry in self._waiting if entry[2] != job]
            heapify(self._waiting)
            self._done = [name for name in self._done if name != job]

    def completed(self, time: Number) -> list[str]:
        """Jobs completed by ``time`` since the last call, in the order of completion."""
        self._advance(time)
        done, self._done = self._done, []
        return done

    @property
    def next(self) -> Number:
        """Time of the next completion if no job arrives before; infinity without jobs."""
        if self._done:
            return self._now
        return math.inf if self._running is None else self._now + self._running[0]

    def _advance(self, time: Number) -> None:
        while self._running is not None and self._now + self._running[0] <= time:
            left, _, job = self._running
            self._now += left
            self._done.append(job)
            self._running = heappop(self._waiting) if self._waiting else None
        if time > self._now:
            if self._running is not None:
                left, counter, job = self._running
                self._running = (left - (time - self._now), counter, job)
            self._now = time


@dataclass(frozen=True, eq=False)
class Started:
    """A job that starts, and its placement until it finishes."""

    job: PredictedJob
    placement: CandidatePlacement


class NonPreemptiveScheduler(ABC):
    """Base of non-preemptive schedulers: GPUs in use, and candidate placements [ASRPT, Algorithm 1, lines 8-23].

    Jobs whose iteration can take ``heavy`` times as long when scattered as on the fewest servers are
    communication-heavy: they get GPUs of the servers with the most free GPUs. All other jobs get GPUs of the servers
    with the fewest. A job uses the fastest of its GPU types with enough free GPUs.

    Parameters
    ----------
    fleets:
        One for each GPU type; None for types without GPUs.
    heavy:
        COMM_HEAVY; 0: all jobs are communication-heavy, infinity: none is.
    """

    def __init__(self, fleets: Sequence[Fleet | None], heavy: Any) -> None:
        self.fleets, self.heavy = list(fleets), heavy
        self.running: dict[str, CandidatePlacement] = {}

    def copy(self) -> Self:
        """An independent copy."""
        made = copy(self)
        made.fleets = [fleet and fleet.copy() for fleet in self.fleets]
        made.running = dict(self.running)
        return made

    @abstractmethod
    def arrive(self, time: Number, job: PredictedJob) -> None:
        """``job`` arrives at ``time``; times never decrease between calls."""

    @abstractmethod
    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``, after all arrivals and completions up to then."""

    @property
    def wake(self) -> Number:
        """Time of the next decision if no job arrives or finishes before; infinity if none is needed."""
        return math.inf

    def finish(self, name: str) -> None:
        """A running job finishes."""
        placement = self.running.pop(name)
        self._fleet(placement).release(placement)

    @abstractmethod
    def withdraw(self, time: Number, name: str) -> None:
        """A waiting job is withdrawn at ``time``."""

    def adopt(self, name: str, placement: CandidatePlacement) -> None:
        """Register a job that runs already."""
        self._fleet(placement).take(placement)
        self.running[name] = placement

    def _fleet(self, placement: CandidatePlacement) -> Fleet:
        fleet = self.fleets[placement.fleet]
        assert fleet is not None
        return fleet

    def _fits(self, job: PredictedJob) -> bool:
        return any((fleet := self.fleets[c.fleet]) is not None and fleet.available >= job.gpus for c in job.options)

    def _candidate(self, job: PredictedJob) -> tuple[CandidatePlacement, bool] | None:
        """The best placement now, and whether the job is communication-heavy there; None without enough free GPUs."""
        for option in job.options:
            fleet = self.fleets[option.fleet]
            assert fleet is not None
            if fleet.available >= job.gpus:
                is_heavy = bool(option.most >= self.heavy * option.least)
                if (placement := fleet.candidate(option.pipeline, consolidate=is_heavy)) is not None:
                    return placement, is_heavy
        return None

    def _start(self, job: PredictedJob, placement: CandidatePlacement) -> Started:
        self.adopt(job.name, placement)
        return Started(job, placement)


class VirtualSRPTScheduler(NonPreemptiveScheduler):
    """A-SRPT: the order in which a virtual single machine completes the jobs [ASRPT, Algorithm 1].

    The head of the queue starts as soon as enough GPUs are free. If it is communication-heavy and its iteration on the
    candidate placement takes more than ``heavy`` times the least, it is delayed, with all jobs behind it, until there
    is a better placement or ``delay g/G n~ alpha~_min`` seconds have passed (lines 15-20). Any improvement is accepted
    (line 18).

    Parameters
    ----------
    fleets, heavy:
        As of :class:`NonPreemptiveScheduler`.
    delay:
        tau.
    virtual:
        The virtual machine; default: without jobs.
    """

    def __init__(
        self, fleets: Sequence[Fleet | None], heavy: Any, delay: Any, virtual: VirtualMachine | None = None
    ) -> None:
        super().__init__(fleets, heavy)
        self.delay = delay
        self.gpus = sum(fleet.total for fleet in fleets if fleet is not None)
        self.virtual = virtual or VirtualMachine()
        self.jobs: dict[str, PredictedJob] = {}
        self.queue: deque[PredictedJob] = deque()
        self.delayed: tuple[PredictedJob, Any, Number] | None = None  # (head, seconds of the first placement, deadline)

    def copy(self) -> Self:
        """An independent copy."""
        made = super().copy()
        made.virtual, made.jobs, made.queue = self.virtual.copy(), dict(self.jobs), deque(self.queue)
        return made

    def size(self, job: PredictedJob) -> Any:
        """Seconds on the virtual machine, ``g/G n~ alpha~_min``."""
        return job.gpus * job.seconds / self.gpus

    def arrive(self, time: Number, job: PredictedJob) -> None:
        """``job`` arrives at ``time``."""
        self.jobs[job.name] = job
        self.virtual.arrive(time, job.name, self.size(job))

    def withdraw(self, time: Number, name: str) -> None:
        """A waiting job is withdrawn, also from the virtual machine."""
        self.virtual.withdraw(time, name)
        self.jobs.pop(name, None)
        self.queue = deque(job for job in self.queue if job.name != name)
        if self.delayed is not None and self.delayed[0].name == name:
            self.delayed = None

    @property
    def wake(self) -> Number:
        """The end of a delay or, without waiting jobs, the next completion on the virtual machine."""
        if self.delayed is not None:
            return self.delayed[2]
        return math.inf if self.queue else self.virtual.next

    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``."""
        self.queue.extend(self.jobs.pop(name) for name in self.virtual.completed(time))
        started: list[Started] = []
        while self.delayed is not None or self.queue:
            begun = self._head(time) if self.delayed is None else self._delayed_head(time, *self.delayed)
            if begun is None:
                break
            started.append(begun)
        return started

    def _head(self, time: Number) -> Started | None:
        job = self.queue[0]
        found = self._candidate(job)
        if found is None:
            return None
        placement, is_heavy = found
        self.queue.popleft()
        least = next(option.least for option in job.options if option.fleet == placement.fleet)
        deadline = time + self.delay * self.size(job)
        if is_heavy and placement.seconds > self.heavy * least and deadline > time:
            self.delayed = (job, placement.seconds, deadline)
            return None
        return self._start(job, placement)

    def _delayed_head(self, time: Number, job: PredictedJob, seconds: Any, deadline: Number) -> Started | None:
        found = self._candidate(job)
        assert found is not None, "no other job gets GPUs while the head is delayed"
        if found[0].seconds < seconds or time >= deadline:
            self.delayed = None
            return self._start(job, found[0])
        return None


class ListScheduler(NonPreemptiveScheduler):
    """List scheduling: jobs in ascending order of a key, in ties in the order of arrival.

    Parameters
    ----------
    key:
        ``"duration"``: predicted seconds; ``"workload"``: these times GPUs; ``"submission"``: time of arrival.
    conserving:
        True: any job that fits starts, in that order (work-conserving); False: no job overtakes the first.
    """

    def __init__(self, fleets: Sequence[Fleet | None], heavy: Any, key: str, *, conserving: bool) -> None:
        super().__init__(fleets, heavy)
        self.key, self.conserving = key, conserving
        self.counter = 0
        self.queues: dict[Any, list[tuple[Any, int, PredictedJob]]] = {}  # equal needs -> heap

    def copy(self) -> Self:
        """An independent copy."""
        made = super().copy()
        made.queues = {key: list(heap) for key, heap in self.queues.items()}
        return made

    def arrive(self, time: Number, job: PredictedJob) -> None:
        """``job`` arrives at ``time``."""
        self.counter += 1
        rank = {"duration": job.seconds, "workload": job.seconds * job.gpus, "submission": time}[self.key]
        need: tuple[Any, ...] | None = (job.gpus, tuple(c.fleet for c in job.options)) if self.conserving else None
        if need is not None and job.options[0].pipeline.sliced:
            need = (*need, job.options[0].pipeline)  # whether slices fit depends on more than free GPUs
        heappush(self.queues.setdefault(need, []), (rank, self.counter, job))

    def withdraw(self, time: Number, name: str) -> None:
        """A waiting job is withdrawn."""
        for heap in self.queues.values():
            heap[:] = [entry for entry in heap if entry[2].name != name]
            heapify(heap)

    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``."""
        started: list[Started] = []
        open_queues = [heap for heap in self.queues.values() if heap and self._fits(heap[0][2])]
        while open_queues:
            heap = min(open_queues, key=lambda heap: heap[0][:2])
            job = heap[0][2]
            if (found := self._candidate(job)) is not None:
                heappop(heap)
                started.append(self._start(job, found[0]))
            else:
                open_queues.remove(heap)
            open_queues = [heap for heap in open_queues if heap and self._fits(heap[0][2])]
        return started
