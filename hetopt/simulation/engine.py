"""The clockwork of the simulator: events in the order (time, kind, counter), and the work done between them.

Progress is booked per job when it is asked for (at decisions, and when the job ends), so an event costs nothing to
the jobs that it does not touch. Work left is what is counted; work done is work asked minus work left.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop
from typing import Any

from hetopt.data.cluster import Cluster
from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.errors import Stalled
from hetopt.simulation.forked import Copy, Forked, Running
from hetopt.simulation.log import Kind, Log, Recorder
from hetopt.simulation.overheads import Overhead, Where
from hetopt.simulation.pipeline import Decision, Pipeline
from hetopt.simulation.view import View, where_at_first, where_now
from hetopt.tolerances import WORK


@dataclass(eq=False)
class Life:
    """One job: its fate so far, and what it runs on now. Times in seconds, rate in work per second."""

    job: Job
    position: int
    left: float
    start: float = math.nan
    finish: float = math.nan
    switches: int = 0
    first_round: int = 0
    rounds: int | None = None
    last: Where | None = None  # where it runs, or last ran
    running: bool = False
    rate: float = 0.0
    speedup: float = 0.0
    since: float = 0.0  # progress is booked until here
    ready: float = 0.0  # training begins, or began, here
    forked: Forked | None = None  # its copies, where it runs in several; then rate is that of all of them
    ready_on: dict[str, float] = field(default_factory=dict)  # server -> when its copy there can train

    @property
    def end(self) -> float:
        """When it will be finished at its present rate."""
        if self.forked is not None:
            return self.forked.when(self.left, WORK * self.job.work)
        return max(self.since, self.ready) + self.left / self.rate if self.running and self.rate > 0 else math.inf


class Engine:
    """A simulation between two events; the policy is asked with all that is present."""

    def __init__(
        self, instance: Instance, pipeline: Pipeline, overheads: Overhead, seconds: float | None, patience: int
    ) -> None:
        self.cluster: Cluster = instance.cluster
        self.began, self.time, self.seconds, self.patience = instance.time, instance.time, seconds, patience
        self.pipeline, self.overheads = pipeline, overheads
        self.memory: tuple[Any, Any, Any] | None = None
        self.round, self.decisions, self.quiet, self.changed = 0, 0, 0, False
        self.wake = math.inf  # when the policy wants to be asked again if nothing happens before
        self.view = View(instance)
        self.record = Recorder(float(sum(instance.cluster.capacity.values())), self.view.column)
        self.lives = [Life(j, i, instance.work_left(j.name)) for i, j in enumerate(instance.jobs)]
        unfinished = [life for life in self.lives if life.left > 0]
        self.finished = len(self.lives) - len(unfinished)
        self.coming = deque(sorted(unfinished, key=lambda life: (life.job.arrival, life.position)))
        self.present: dict[str, Life] = {}
        self.ending: list[tuple[float, int, Life]] = []
        for life in unfinished:
            life.last = where_at_first(instance, life.job, pipeline.places)
            if life.last is not None:
                life.running, life.start, life.since = True, self.time, self.time
                self.record.start(self.time, life.job.name, life.job.tenant, life.last)

    def step(self, until: float, limit: float) -> bool:
        """Go to the next event and handle all that happens then; False when the simulation is over."""
        if not self.coming and not self.present:
            return self._close(self.time if self.seconds is None else min(self._next_decision(), until))
        arrival = max(self.time, self.coming[0].job.arrival) if self.coming else math.inf
        time = min(arrival, self.ending[0][0] if self.ending else math.inf, self._next_decision())
        if math.isinf(time):
            raise Stalled(f"at {self.time:g} s nothing runs and nothing more arrives; {self._waiting()}")
        if time > until:
            return self._close(until)
        self.time = time
        while self.ending and self._ends_by(time):
            self._finish(heappop(self.ending)[2])
        while self.coming and self.coming[0].job.arrival <= time:
            self._arrive(self.coming.popleft())
        if self._next_decision() == time:
            if self.decisions >= limit and self.present:
                return self._close(time)
            self._decide()
        return True

    def _next_decision(self) -> float:
        if self.seconds is None:
            return self.time if self.changed else max(self.time, self.wake)
        return self.began + self.round * self.seconds

    def _round_at(self, time: float) -> int:
        """The first round that starts at ``time`` or later."""
        if self.seconds is None:
            return 0
        number = max(0, math.floor((time - self.began) / self.seconds) - 1)
        while self.began + number * self.seconds < time:
            number += 1
        return number

    def _waiting(self) -> str:
        names = [life.job.name for life in self.present.values()]
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        why = "The policy gives them nothing that they can run on"
        if moved := sum(life.running for life in self.present.values()):
            why = f"The policy moves the {moved} that run before they have restarted, so that no work is done"
        return f"{len(names)} jobs are unfinished: {listed}. {why}"

    def _ends_by(self, time: float) -> bool:
        """Whether the next job to end is done now, but for work that counts as none."""
        end, _, life = self.ending[0]
        return end <= time or (end < math.inf and life.rate * (end - time) <= WORK * life.job.work)

    def _arrive(self, life: Life) -> None:
        self.present[life.job.name] = life
        life.first_round = self._round_at(life.job.arrival)
        self.record.event(self.time, Kind.ARRIVE, life.job.name)
        self.changed, self.quiet = True, 0

    def _finish(self, life: Life) -> None:
        self._book(life, life.left)
        life.finish, life.left = self.time, 0.0
        life.rounds = None if self.seconds is None else self.round - life.first_round
        self._stop(life)
        self.record.event(self.time, Kind.FINISH, life.job.name)
        del self.present[life.job.name]
        self.changed, self.quiet, self.finished = True, 0, self.finished + 1

    def _book(self, life: Life, work: float | None = None) -> float:
        """Book what a running job has done since it was last asked; ``work`` where that is known."""
        if life.forked is not None:
            return self._book_copies(life, life.forked, work)
        begun = min(max(life.since, life.ready), self.time)
        work = min(life.rate * (self.time - begun), life.left) if work is None else work
        self.record.progress(life.job.name, work, begun - life.since, life.speedup)
        life.left -= work
        life.since = self.time
        return work

    def _book_copies(self, life: Life, forked: Forked, work: float | None) -> float:
        """The same for a job in copies, whose spans end with that."""
        done = forked.by(self.time)
        work = min(done, life.left) if work is None else work
        part = work / done if done > 0 else 0.0
        for copy in forked.copies:
            key = (life.job.name, copy.copy.server)
            waited = min(copy.ready, self.time) - life.since
            self.record.progress(key, copy.by(self.time) * part, waited, self.view.speedup_of(life.job.name, copy.copy))
            self.record.stop(min(copy.end, self.time), key)
        life.left -= work
        life.forked, life.since = None, self.time
        return work

    def _decide(self) -> None:
        """Book what was done, ask the policy, and let the jobs run as it says."""
        work = sum([self._book(life) for life in self.present.values() if life.running])
        self.record.end_round(self.time)
        self.changed, self.wake = False, math.inf
        if not self.present:
            self.round = self._round_at(self.coming[0].job.arrival) if self.coming else self.round
            return
        self.quiet = self.quiet + 1 if work == 0 and self.decisions else 0
        if self.quiet >= self.patience:
            raise Stalled(f"no progress in {self.quiet} decisions up to {self.time:g} s; {self._waiting()}")
        self.record.event(self.time, Kind.DECIDE)
        decision, self.memory = self.pipeline(self.view.instance(self.time, self.present), self.memory)
        self.decisions += 1
        self.round += 1
        self.wake = math.inf if decision.wake is None else decision.wake
        self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        for i, name in enumerate(decision.entities.names):
            life, gpus, rate = self.present[name], decision.gpus[i], float(decision.rate[i])
            if name in decision.copies and rate > 0:
                self._run_copies(life, decision.copies[name], rate)
            elif rate > 0:
                self._run(life, where_now(name, gpus, decision), rate, gpus)
            elif life.running:
                self._stop(life)
        running = [life for life in self.present.values() if life.running]
        self.ending = [(life.end, life.position, life) for life in running]
        heapify(self.ending)
        gpus_held = float(decision.gpus.sum())
        self.record.begin_round(self.time, len(self.present), len(running), gpus_held, decision.given_up)

    def _run(self, life: Life, where: Where, rate: float, gpus: Floats) -> None:
        if math.isnan(life.start):
            life.start = self.time
        if not (life.running and life.last == where):
            if life.running:
                self._stop(life)
            lost = 0.0 if self.pipeline.fluid else self.overheads(life.job, life.last, where, self.cluster)
            life.ready = self.time + lost
            life.ready_on = {}
            life.switches += life.last is not None and life.last != where
        elif life.ready_on:  # it was forked, and has one copy left
            life.ready, life.ready_on = max(self.time, *life.ready_on.values()), {}
        if not self.record.is_open(life.job.name):
            self.record.start(self.time, life.job.name, life.job.tenant, where)
        life.running, life.last, life.since, life.rate = True, where, self.time, rate
        life.speedup = self.view.speedup(life.job.name, gpus, rate)

    def _run_copies(self, life: Life, copies: tuple[Copy, ...], rate: float) -> None:
        """A copy on GPUs that the job has already goes on, others begin as after a restart; a span per decision."""
        if math.isnan(life.start):
            life.start = self.time
        before, went_on = life.last, life.running
        if life.running:
            self._stop(life)
        runs, new, life.ready_on, had = [], False, {}, life.ready_on
        merge = getattr(self.overheads, "merge_seconds", 0.0) if len(copies) > 1 else 0.0
        for copy in copies:
            stays = before is not None and all(before.get(place) == n for place, n in copy.seats.items())
            new |= not stays
            if stays and went_on:  # a restart that is not over yet goes on
                ready = max(self.time, had.get(copy.server, life.ready))
            else:
                ready = self.time + self.overheads(life.job, copy.seats if stays else before, copy.seats, self.cluster)
            life.ready_on[copy.server] = ready
            runs.append(Running(copy, ready + merge))
            self.record.start(self.time, life.job.name, life.job.tenant, copy.seats, (life.job.name, copy.server))
        life.switches += new and before is not None
        life.running, life.forked, life.rate, life.since = True, Forked(tuple(runs)), rate, self.time
        life.last = {place: n for copy in copies for place, n in copy.seats.items()}
        if self.seconds is None and math.isinf(life.end):  # ask again once its copies are done
            self.wake = min(self.wake, life.forked.over)

    def _stop(self, life: Life) -> None:
        life.running, life.rate = False, 0.0
        if self.record.is_open(life.job.name):
            self.record.stop(self.time, life.job.name)

    def _close(self, time: float) -> bool:
        """The end: book what was done until then."""
        self.time = time
        for life in self.present.values():
            if life.running:
                self._book(life)
                self._stop(life)
        self.record.end_round(time)
        return False

    def log(self) -> Log:
        """The tables."""
        arrived = [life for life in self.lives if life.job.arrival <= self.time]
        rows = [
            {
                "job": life.job.name,
                "tenant": life.job.tenant,
                "arrival": life.job.arrival,
                "start": life.start,
                "finish": life.finish,
                "jct": life.finish - life.job.arrival,
                "starvation": life.start - life.job.arrival,
                "switches": life.switches,
                "rounds": life.rounds,
                "work": life.job.work,
                "done": life.job.work - life.left,
            }
            for life in arrived
        ]
        return self.record.log(rows)
