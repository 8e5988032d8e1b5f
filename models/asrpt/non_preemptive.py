"""Non-preemptive schedulers: A-SRPT with its virtual machine [ASRPT, Algorithm 1], and list scheduling as baseline."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Self

from hetopt.models.asrpt.fleet import CandidatePlacement, Fleet, PredictedJob

Number = Any
"""Seconds: floats, or fractions where nothing shall be rounded."""


class VirtualMachine:
    """Preemptive SRPT in continuous time, event by event.

    A job of size 0 completes as it arrives. Of jobs with equal time left, the one that runs goes on; else the one that
    arrived first goes first. The paper's machine works in slots; one job per slot would break its Lemma 1.
    """

    def __init__(self) -> None:
        self._now: Number = 0
        self._running: tuple[Number, int, str] | None = None  # (seconds left, counter, job)
        self._waiting: list[tuple[Number, int, str]] = []
        self._counter = 0
        self._done: list[str] = []

    def copy(self) -> VirtualMachine:
        """An independent one in the same state."""
        made = VirtualMachine()
        made.__dict__.update(self.__dict__)
        made._waiting, made._done = list(self._waiting), list(self._done)
        return made

    def arrive(self, time: Number, job: str, size: Number) -> None:
        """``job`` needs ``size`` seconds from ``time`` on, which is no earlier than any time told before."""
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
        """``job`` needs no more; others go on as if it were not there from ``time`` on."""
        self._advance(time)
        if self._running is not None and self._running[2] == job:
            self._running = heappop(self._waiting) if self._waiting else None
        else:
            self._waiting = [entry for entry in self._waiting if entry[2] != job]
            heapify(self._waiting)
            self._done = [name for name in self._done if name != job]

    def completed(self, time: Number) -> list[str]:
        """Jobs that have completed by ``time`` since this was last asked, in the order of completion."""
        self._advance(time)
        done, self._done = self._done, []
        return done

    @property
    def next(self) -> Number:
        """When the next job completes, if none arrives before; infinity without any."""
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
    """A job that starts, and what it gets until it is finished."""

    task: PredictedJob
    offer: CandidatePlacement


class NonPreemptiveScheduler(ABC):
    """What all of them share: GPUs in use, and the servers that a job is offered [ASRPT, Algorithm 1, lines 8-23].

    Jobs whose iteration can take ``heavy`` times as long when scattered as on the fewest servers are heavy in
    communication: they get GPUs of the servers with most free ones. All others get those of the servers with least. A
    job goes to the fastest of its GPU types that has enough GPUs free.

    Parameters
    ----------
    fleets:
        One for each GPU type; None for types without GPUs.
    heavy:
        COMM_HEAVY.
    """

    def __init__(self, fleets: Sequence[Fleet | None], heavy: Any) -> None:
        self.fleets, self.heavy = list(fleets), heavy
        self.running: dict[str, CandidatePlacement] = {}

    def copy(self) -> Self:
        """An independent one in the same state."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.fleets = [fleet and fleet.copy() for fleet in self.fleets]
        made.running = dict(self.running)
        return made

    @abstractmethod
    def arrive(self, time: Number, task: PredictedJob) -> None:
        """``task`` is there from ``time`` on; times never decrease."""

    @abstractmethod
    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``, after all arrivals and completions up to then have been told."""

    @property
    def wake(self) -> Number:
        """When something may start though no job arrives or finishes before; infinity for never."""
        return math.inf

    def finish(self, name: str) -> None:
        """A running job is done."""
        offer = self.running.pop(name)
        self._fleet(offer).release(offer)

    @abstractmethod
    def withdraw(self, time: Number, name: str) -> None:
        """A job that waits is not there any more from ``time`` on."""

    def adopt(self, name: str, offer: CandidatePlacement) -> None:
        """A job runs already."""
        self._fleet(offer).take(offer)
        self.running[name] = offer

    def _fleet(self, offer: CandidatePlacement) -> Fleet:
        fleet = self.fleets[offer.fleet]
        assert fleet is not None
        return fleet

    def _fits(self, task: PredictedJob) -> bool:
        return any((fleet := self.fleets[c.fleet]) is not None and fleet.available >= task.gpus for c in task.choices)

    def _offer(self, task: PredictedJob) -> tuple[CandidatePlacement, bool] | None:
        """The best offer now and whether the job is heavy in communication there; None where there is no room."""
        for choice in task.choices:
            fleet = self.fleets[choice.fleet]
            assert fleet is not None
            if fleet.available >= task.gpus:
                is_heavy = bool(choice.most >= self.heavy * choice.least)
                if (offer := fleet.offer(choice.pipeline, consolidate=is_heavy)) is not None:
                    return offer, is_heavy
        return None

    def _start(self, task: PredictedJob, offer: CandidatePlacement) -> Started:
        self.adopt(task.name, offer)
        return Started(task, offer)


class VirtualSRPTScheduler(NonPreemptiveScheduler):
    """A-SRPT: the order in which a virtual single machine completes the jobs [ASRPT, Algorithm 1].

    The head of the queue starts as soon as enough GPUs are free. If it is heavy in communication and the GPUs offered
    make its iteration more than ``heavy`` times the least, it is delayed, and all behind it, until it is offered better
    ones or ``delay g/G n~ alpha~_min`` seconds have passed (lines 15-20). Any improvement is accepted (line 18).
    """

    def __init__(self, fleets: Sequence[Fleet | None], heavy: Any, delay: Any) -> None:
        super().__init__(fleets, heavy)
        self.delay = delay
        self.gpus = sum(fleet.total for fleet in fleets if fleet is not None)
        self.virtual = VirtualMachine()
        self.tasks: dict[str, PredictedJob] = {}
        self.queue: deque[PredictedJob] = deque()
        self.delayed: tuple[PredictedJob, Any, Number] | None = None  # (head, iteration that was offered, deadline)

    def copy(self) -> Self:
        """An independent one in the same state."""
        made = super().copy()
        made.virtual, made.tasks, made.queue = self.virtual.copy(), dict(self.tasks), deque(self.queue)
        return made

    def size(self, task: PredictedJob) -> Any:
        """Seconds on the virtual machine, ``g/G n~ alpha~_min``."""
        return task.gpus * task.seconds / self.gpus

    def arrive(self, time: Number, task: PredictedJob) -> None:
        """``task`` is there from ``time`` on."""
        self.tasks[task.name] = task
        self.virtual.arrive(time, task.name, self.size(task))

    def withdraw(self, time: Number, name: str) -> None:
        """A job that waits is not there any more, nor on the virtual machine."""
        self.virtual.withdraw(time, name)
        self.tasks.pop(name, None)
        self.queue = deque(task for task in self.queue if task.name != name)
        if self.delayed is not None and self.delayed[0].name == name:
            self.delayed = None

    @property
    def wake(self) -> Number:
        """The end of a delay, or, where nobody waits for GPUs, the next completion on the virtual machine."""
        if self.delayed is not None:
            return self.delayed[2]
        return math.inf if self.queue else self.virtual.next

    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``."""
        self.queue.extend(self.tasks.pop(name) for name in self.virtual.completed(time))
        started: list[Started] = []
        while self.delayed is not None or self.queue:
            begun = self._head(time) if self.delayed is None else self._delayed_head(time, *self.delayed)
            if begun is None:
                break
            started.append(begun)
        return started

    def _head(self, time: Number) -> Started | None:
        task = self.queue[0]
        found = self._offer(task)
        if found is None:
            return None
        offer, is_heavy = found
        self.queue.popleft()
        least = next(choice.least for choice in task.choices if choice.fleet == offer.fleet)
        deadline = time + self.delay * self.size(task)
        if is_heavy and offer.seconds > self.heavy * least and deadline > time:
            self.delayed = (task, offer.seconds, deadline)
            return None
        return self._start(task, offer)

    def _delayed_head(self, time: Number, task: PredictedJob, seconds: Any, deadline: Number) -> Started | None:
        found = self._offer(task)
        assert found is not None, "GPUs are not given to others while the head is delayed"
        if found[0].seconds < seconds or time >= deadline:
            self.delayed = None
            return self._start(task, found[0])
        return None


class ListScheduler(NonPreemptiveScheduler):
    """Jobs in ascending order of a key; who arrived first goes first among equals.

    Parameters
    ----------
    key:
        ``"duration"``: predicted seconds; ``"workload"``: these times GPUs; ``"submission"``: time of arrival.
    conserving:
        True: whoever fits starts, in that order (work-conserving); False: nobody overtakes the first.
    """

    def __init__(self, fleets: Sequence[Fleet | None], heavy: Any, key: str, *, conserving: bool) -> None:
        super().__init__(fleets, heavy)
        self.key, self.conserving = key, conserving
        self.counter = 0
        self.queues: dict[Any, list[tuple[Any, int, PredictedJob]]] = {}  # who needs the same -> heap

    def copy(self) -> Self:
        """An independent one in the same state."""
        made = super().copy()
        made.queues = {key: list(heap) for key, heap in self.queues.items()}
        return made

    def arrive(self, time: Number, task: PredictedJob) -> None:
        """``task`` is there from ``time`` on."""
        self.counter += 1
        rank = {"duration": task.seconds, "workload": task.seconds * task.gpus, "submission": time}[self.key]
        need: tuple[Any, ...] | None = (task.gpus, tuple(c.fleet for c in task.choices)) if self.conserving else None
        if need is not None and task.choices[0].pipeline.sliced:
            need = (*need, task.choices[0].pipeline)  # whether slices fit is not a matter of free GPUs alone
        heappush(self.queues.setdefault(need, []), (rank, self.counter, task))

    def withdraw(self, time: Number, name: str) -> None:
        """A job that waits is not there any more."""
        for heap in self.queues.values():
            heap[:] = [entry for entry in heap if entry[2].name != name]
            heapify(heap)

    def decide(self, time: Number) -> list[Started]:
        """The jobs that start at ``time``."""
        started: list[Started] = []
        open_queues = [heap for heap in self.queues.values() if heap and self._fits(heap[0][2])]
        while open_queues:
            heap = min(open_queues, key=lambda heap: heap[0][:2])
            task = heap[0][2]
            if (found := self._offer(task)) is not None:
                heappop(heap)
                started.append(self._start(task, found[0]))
            else:
                open_queues.remove(heap)
            open_queues = [heap for heap in open_queues if heap and self._fits(heap[0][2])]
        return started
