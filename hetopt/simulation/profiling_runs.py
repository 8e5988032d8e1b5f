"""The profiling runs of a simulation: which job runs on which GPU type, and which jobs pause or wait for it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hetopt.simulation.dispatcher import Dispatcher
from hetopt.simulation.log import EventKind
from hetopt.simulation.profiling import fewest


@dataclass(eq=False)
class ProfilingRun:
    """A job runs on GPUs of one type until ``end``, while the jobs in ``paused`` wait."""

    end: float
    gpus: float
    paused: set[int]


class ProfilingRuns:
    """The profiling runs of new jobs.

    A run uses idle GPUs, and those of jobs that pause for it. Where other runs leave too few GPUs for its gang, it
    waits, first come, first served. A job that a decision places on the GPUs of a run begins after the run.

    Parameters
    ----------
    seconds:
        Length of a run.
    dispatcher:
        Delays jobs.
    capacity:
        GPU type -> GPUs that are up now.
    present:
        The jobs that may hold GPUs.
    schedule:
        ``schedule(time, what)``: has ``what`` called then.
    arrive:
        Called with a job that has been profiled.
    """

    def __init__(
        self,
        seconds: float,
        dispatcher: Dispatcher,
        capacity: Callable[[str], int],
        present: dict[int, None],
        schedule: Callable[[float, Callable[[], None]], None],
        arrive: Callable[[int], None],
    ) -> None:
        self.seconds, self.dispatcher, self.capacity, self.present = seconds, dispatcher, capacity, present
        self.schedule, self.arrive = schedule, arrive
        self.pending = 0
        """Jobs that are being profiled or wait for it."""
        self._running: defaultdict[int, list[ProfilingRun]] = defaultdict(list)
        self._waiting: defaultdict[int, deque[tuple[int, Sequence[str]]]] = defaultdict(deque)

    def submit(self, i: int, types: Sequence[str]) -> None:
        """Profile job i on each of these types, one after another."""
        self.pending += 1
        self._next(i, types)

    def _next(self, i: int, types: Sequence[str]) -> None:
        if not types:
            self.pending -= 1
            self.arrive(i)
            return
        k = self.dispatcher.model.entities.types.index(types[0])
        self._waiting[k].append((i, types))
        self._begin(k)

    def _begin(self, k: int) -> None:
        """Begin the next runs on a type while there are GPUs for them."""
        queue = self._waiting[k]
        while queue:
            i, types = queue[0]
            there, need = self.capacity(types[0]), self.dispatcher.states.jobs[i].demand
            taken = sum(run.gpus for run in self._running[k])
            if need <= there < taken + need:
                return
            queue.popleft()
            if there < need:  # servers are down
                self._next(i, types[1:])
            else:
                self._run(i, k, types, there - taken)

    def _run(self, i: int, k: int, types: Sequence[str], left: float) -> None:
        time, job = self.dispatcher.time, self.dispatcher.states.jobs[i]
        self.dispatcher.record.event(time, EventKind.PROFILE, job.name)
        busy = self._busy(k)
        paused = fewest(job.demand - (left - sum(n for _, n in busy)), busy)
        for j in paused:
            self.dispatcher.delay(j, self.seconds)
        run = ProfilingRun(time + self.seconds, job.demand, set(paused))
        self._running[k].append(run)
        self.schedule(run.end, partial(self._end, i, k, run, types[1:]))

    def _end(self, i: int, k: int, run: ProfilingRun, types: Sequence[str]) -> None:
        self._running[k].remove(run)
        self._begin(k)
        self._next(i, types)

    def _busy(self, k: int) -> list[tuple[int, float]]:
        """(job, GPUs) of the jobs that train on the type, or will before the end of all of its runs."""
        states = self.dispatcher.states
        holders = [(j, float(states.held[j, k])) for j in self.present if states.held[j, k] > 0]
        return [(j, n) for j, n in holders if not any(self._waits(j, run) for run in self._running[k])]

    def _waits(self, j: int, run: ProfilingRun) -> bool:
        return j in run.paused and float(self.dispatcher.states.ready[j]) >= run.end

    def make_way(self) -> None:
        """Jobs that have just been placed on the GPUs of a run begin after it."""
        states, time = self.dispatcher.states, self.dispatcher.time
        for k, profiling_runs in self._running.items():
            if not profiling_runs:
                continue
            busy, last = self._busy(k), max(profiling_runs, key=lambda run: run.end)
            there = self.capacity(self.dispatcher.model.entities.types[k])
            over = sum(n for _, n in busy) + sum(run.gpus for run in profiling_runs) - there
            for j in fewest(over, [(j, n) for j, n in busy if states.since[j] == time]):
                self.dispatcher.delay(j, last.end - time)
                last.paused.add(j)
