"""Profiling runs as they happen: whose turn it is on which GPU type, who pauses meanwhile, who waits for GPUs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hetopt.simulation.dispatcher import Floor
from hetopt.simulation.log import Kind
from hetopt.simulation.profiling import fewest


@dataclass(eq=False)
class Trial:
    """A job runs on GPUs of one type until ``end``, while those in ``paused`` wait."""

    end: float
    gpus: float
    paused: set[int]


class Trials:
    """The profiling runs of new jobs.

    A run has GPUs of its own: those that nobody holds, and those of jobs that pause for it. Where other runs have so
    many that a gang is not left, the next waits, first come, first served. A job that a decision puts on GPUs that a
    run has begins when the run is over.

    Parameters
    ----------
    seconds:
        Of a run.
    floor:
        Where jobs are delayed.
    capacity:
        GPU type -> GPUs that are there now.
    present:
        The jobs that may hold GPUs.
    plan:
        ``plan(time, what)``: have something done then.
    arrive:
        Told of a job that has been profiled.
    """

    def __init__(
        self,
        seconds: float,
        floor: Floor,
        capacity: Callable[[str], int],
        present: dict[int, None],
        plan: Callable[[float, Callable[[], None]], None],
        arrive: Callable[[int], None],
    ) -> None:
        self.seconds, self.floor, self.capacity, self.present = seconds, floor, capacity, present
        self.plan, self.arrive = plan, arrive
        self.number = 0
        """Jobs that are being profiled."""
        self._running: defaultdict[int, list[Trial]] = defaultdict(list)
        self._waiting: defaultdict[int, deque[tuple[int, Sequence[str]]]] = defaultdict(deque)

    def come(self, i: int, types: Sequence[str]) -> None:
        """Job i is to run on each of these types, one after another."""
        self.number += 1
        self._next(i, types)

    def _next(self, i: int, types: Sequence[str]) -> None:
        if not types:
            self.number -= 1
            self.arrive(i)
            return
        k = self.floor.physics.entities.types.index(types[0])
        self._waiting[k].append((i, types))
        self._begin(k)

    def _begin(self, k: int) -> None:
        """Begin the runs on a type whose turn it is, while there are GPUs for them."""
        queue = self._waiting[k]
        while queue:
            i, types = queue[0]
            there, need = self.capacity(types[0]), self.floor.book.jobs[i].demand
            lent = sum(trial.gpus for trial in self._running[k])
            if need <= there < lent + need:
                return
            queue.popleft()
            if there < need:  # servers are gone
                self._next(i, types[1:])
            else:
                self._run(i, k, types, there - lent)

    def _run(self, i: int, k: int, types: Sequence[str], left: float) -> None:
        time, job = self.floor.time, self.floor.book.jobs[i]
        self.floor.record.event(time, Kind.PROFILE, job.name)
        busy = self._busy(k)
        paused = fewest(job.demand - (left - sum(n for _, n in busy)), busy)
        for j in paused:
            self.floor.delay(j, self.seconds)
        trial = Trial(time + self.seconds, job.demand, set(paused))
        self._running[k].append(trial)
        self.plan(trial.end, lambda: self._over(i, k, trial, types[1:]))

    def _over(self, i: int, k: int, trial: Trial, types: Sequence[str]) -> None:
        self._running[k].remove(trial)
        self._begin(k)
        self._next(i, types)

    def _busy(self, k: int) -> list[tuple[int, float]]:
        """(job, GPUs) of those that train on the type, or will before all of its runs are over."""
        book = self.floor.book
        holders = [(j, float(book.held[j, k])) for j in self.present if book.held[j, k] > 0]
        return [(j, n) for j, n in holders if not any(self._waits(j, trial) for trial in self._running[k])]

    def _waits(self, j: int, trial: Trial) -> bool:
        return j in trial.paused and float(self.floor.book.ready[j]) >= trial.end

    def make_way(self) -> None:
        """Jobs that have just been put on GPUs of a run begin when it is over."""
        book, time = self.floor.book, self.floor.time
        for k, trials in self._running.items():
            if not trials:
                continue
            busy, last = self._busy(k), max(trials, key=lambda trial: trial.end)
            there = self.capacity(self.floor.physics.entities.types[k])
            over = sum(n for _, n in busy) + sum(trial.gpus for trial in trials) - there
            for j in fewest(over, [(j, n) for j, n in busy if book.since[j] == time]):
                self.floor.delay(j, last.end - time)
                last.paused.add(j)
