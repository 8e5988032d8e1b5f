"""State of the jobs in a simulation: work, rate and GPUs of each, as arrays over all jobs.

Progress is recorded when a job starts, is preempted or finishes; in between it follows from the rate, so that time
costs nothing for the jobs that stay as they are. The arrays hold the work left; work done is work minus work left.

A forked job runs in copies on several servers at once, each copy with its own work until the next decision. A copy is a
whole gang on one server. The work of all copies counts (HadarE). A copy that has done its work waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.data.gpu_locations import HeldGPUs
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.system import JobCopy
from hetopt.simulation.execution_model import JobPlacement
from hetopt.tolerances import WORK


@dataclass(frozen=True)
class RunningCopy:
    """A copy that trains from second ``ready`` on."""

    decided: JobCopy
    ready: float

    @property
    def end(self) -> float:
        """Second at which it has done its work."""
        return self.ready + self.decided.work / self.decided.rate

    def work_done(self, time: float) -> float:
        """Work done by then."""
        return self.decided.work if time >= self.end else self.decided.rate * max(0.0, time - self.ready)


@dataclass(frozen=True)
class RunningCopies:
    """The copies of one forked job from a decision to the next."""

    copies: tuple[RunningCopy, ...]

    @property
    def end(self) -> float:
        """Second at which all have done their work."""
        return max((copy.end for copy in self.copies), default=math.inf)

    def work_done(self, time: float) -> float:
        """Work that all have done by then."""
        return sum(copy.work_done(time) for copy in self.copies)

    def time_of(self, work: float, slack: float = 0.0) -> float:
        """Second at which all copies together have done ``work``; infinity if their work is less by over ``slack``."""
        if not self.copies:
            return math.inf
        moments = sorted({moment for copy in self.copies for moment in (copy.ready, copy.end)})
        if self.work_done(moments[-1]) < work * (1 - WORK) - slack:
            return math.inf
        before, done = moments[0], 0.0
        for moment in moments[1:]:
            more = self.work_done(moment)
            if more >= work:
                return before + (work - done) / (more - done) * (moment - before) if more > done else moment
            before, done = moment, more
        return before


class JobStates:
    """State of the n jobs of an instance. Times in seconds, work in the unit of ``Job.work``, rates in work per second.

    Attributes
    ----------
    left, start, finish, rate:
        (n,) work left at the last record; first start and finish, NaN before; rate while it runs, else 0.
    since, ready:
        (n,) progress is recorded until ``since``; training begins, or began, at ``ready``.
    running, number_running:
        (n,) whether it holds GPUs; number of these jobs.
    ran:
        (n,) whether it holds GPUs or has held some.
    held:
        (n, k) GPUs that it holds now.
    switches, first_round, rounds, lost, wasted:
        (n,) restarts on other GPUs; the first round in which it could run; rounds until it finished (-1: not yet);
        seconds of starting, moving and pausing; work lost by server failures.
    where:
        GPUs on which each job runs or last ran; None before. Jobs that share GPUs have all of them here, and half in
        ``held``.
    shares:
        Job -> its placement, for the running jobs that share their GPUs with another.
    failed:
        Jobs that have lost their GPUs by a failure and have not restarted since.
    forked, ready_on:
        Copies of the forked jobs; server -> second from which the copy there can train.
    """

    def __init__(self, instance: Instance) -> None:
        self.jobs: tuple[Job, ...] = instance.jobs
        self.entities: Entities = instance.entities("jobs")
        n = len(self.jobs)
        self.work = np.array(instance.job_array("work"))
        self.left = np.array(instance.job_array("work_left"))
        self.rate, self.since, self.ready = (np.zeros(n) for _ in range(3))
        self.running, self.ran = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.held = np.zeros(self.entities.shape)
        self.number_running = 0
        # Lists are faster than arrays for access job by job.
        self.start, self.finish, self.lost, self.wasted = [math.nan] * n, [math.nan] * n, [0.0] * n, [0.0] * n
        self.switches, self.first_round, self.rounds = [0] * n, [0] * n, [-1] * n
        self.where: list[HeldGPUs | None] = [None] * n
        self.shares: dict[int, JobPlacement] = {}
        self.failed: set[int] = set()
        self.forked: dict[int, RunningCopies] = {}
        self.ready_on: dict[int, dict[str, float]] = {}
        self._ending: list[tuple[float, int, int]] = []
        self._stamp = [0] * n  # heap entries with an older stamp are void

    def done_since(self, i: int, time: float) -> tuple[float, float]:
        """Work of job i since the last record, and the seconds that it lost."""
        since, ready = self.since.item(i), self.ready.item(i)  # Python numbers are faster than those of numpy
        begun = since if since > ready else ready if ready < time else time
        return min(self.rate.item(i) * (time - begun), self.left.item(i)), begun - since

    def stop(self, who: Sequence[int], time: float) -> tuple[list[float], list[float]]:
        """Free the GPUs of running jobs: their work since the last record, now recorded, and the seconds they lost."""
        at = np.array(who)
        since, ready = self.since[at], self.ready[at]
        begun = np.maximum(since, np.minimum(ready, time))
        done = np.minimum(self.rate[at] * (time - begun), self.left[at])
        self.left[at] -= done
        self.since[at] = time
        lost = (begun - since).tolist()
        for i, seconds in zip(who, lost, strict=True):
            self.lost[i] += seconds
        self.release(who)
        return done.tolist(), lost

    def left_at(self, time: float, who: Positions) -> Floats:
        """(m,) work that jobs have left at ``time``."""
        trained = np.maximum(time - np.maximum(self.since[who], self.ready[who]), 0.0)
        return np.asarray(np.maximum(self.left[who] - self.rate[who] * trained, 0.0))

    def parts_done(self, time: float, who: Positions) -> tuple[float, float]:
        """Finished part of these jobs, and part of their work that is done, in GPU-seconds on the fastest types."""
        fastest = self.entities.task_speed[who].max(axis=1, initial=0.0)
        size = np.divide(self.entities.demand[who], fastest, out=np.zeros_like(fastest), where=fastest > 0)
        total = float(size @ self.entities.source.job_array("work_left")[who])
        work = 1.0 - float(size @ self.left_at(time, who)) / total if total > 0 else 1.0
        return float((self.left[who] <= 0).mean()), work

    def schedule_end(self, i: int, time: float) -> None:
        """Schedule the end of job i, from its rate, ``ready`` and copies."""
        self._stamp[i] += 1
        if i in self.forked:
            end = self.forked[i].time_of(float(self.left[i]), WORK * float(self.work[i]))
        else:
            rate = self.rate.item(i)
            end = max(time, self.ready.item(i)) + self.left.item(i) / rate if rate else math.inf
        if end < math.inf:
            heappush(self._ending, (end, i, self._stamp[i]))

    def hold(self, i: int, time: float, where: HeldGPUs, gpus: Floats) -> None:
        """Have job i hold these GPUs, also given by type, from ``time`` on."""
        if not self.running[i]:
            self.number_running += 1
        self.running[i], self.since[i], self.held[i], self.where[i] = True, time, gpus, where
        self.ran[i] = True
        self.failed.discard(i)

    def release(self, who: Sequence[int]) -> None:
        """Free the GPUs of running jobs."""
        for i in who:
            self._stamp[i] += 1
        self.number_running -= len(who)
        at = np.array(who) if len(who) > 1 else who[0]
        self.running[at], self.rate[at], self.held[at] = False, 0.0, 0.0
        if len(self._ending) > 64 + 4 * len(self.jobs):  # most entries of the heap are void
            self._ending = [entry for entry in self._ending if self._stamp[entry[1]] == entry[2]]
            heapify(self._ending)

    @property
    def next_end(self) -> float:
        """Second at which the next running job finishes; infinity for never."""
        while self._ending and self._stamp[self._ending[0][1]] != self._ending[0][2]:
            heappop(self._ending)
        return self._ending[0][0] if self._ending else math.inf

    def pop_finished(self, time: float) -> int | None:
        """A running job that has done its work by ``time``, within a tolerance; None if there is none."""
        end = self.next_end
        if math.isinf(end):
            return None
        i = self._ending[0][1]
        if end <= time or self.rate[i] * (end - time) <= WORK * self.work[i]:
            heappop(self._ending)
            return i
        return None

    def rows(self, until: float) -> dict[str, Any]:
        """Columns of the table of jobs that have arrived until then."""
        arrival = self.entities.source.job_array("arrival")
        here = np.flatnonzero(arrival <= until)
        jobs = [self.jobs[i] for i in here.tolist()]
        return {
            "job": [job.name for job in jobs],
            "tenant": [job.tenant for job in jobs],
            "demand": self.entities.demand[here].astype(np.int64),
            "arrival": arrival[here],
            "start": np.array(self.start)[here],
            "finish": np.array(self.finish)[here],
            "jct": np.array(self.finish)[here] - arrival[here],
            "starvation": np.array(self.start)[here] - arrival[here],
            "switches": np.array(self.switches, dtype=np.int64)[here],
            "rounds": np.array(self.rounds, dtype=np.int64)[here],
            "lost": np.array(self.lost)[here],
            "work": self.work[here],
            "done": self.work[here] - self.left[here],
            "wasted": np.array(self.wasted)[here],
        }
