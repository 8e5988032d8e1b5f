"""Carry out decisions in a simulation: start, keep, stop, move and fail jobs, and record what they do."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.decisions.speed_models import HeldGPUs
from hetopt.decisions.system import Copy, Decision
from hetopt.simulation.execution_model import ExecutionModel, JobPlacement
from hetopt.simulation.job_states import JobStates, Positions, RunningCopies, RunningCopy
from hetopt.simulation.log import Recorder
from hetopt.simulation.view import InstanceView, where_at_first

MANY = 8
"""So many jobs that stop are booked sooner in arrays than one by one."""


class Dispatcher:
    """Carries out decisions; jobs are told by their positions in the instance.

    Attributes
    ----------
    states, record, view, model:
        What jobs have done; the tables; names and speedups of tenants; speeds and losses.
    time:
        Now, in seconds; whoever moves the clock sets it.
    wake:
        When the copies of a job have done what they were told, and nothing else happens before.
    """

    def __init__(
        self, instance: Instance, view: InstanceView, record: Recorder, model: ExecutionModel, *, rounds: bool
    ) -> None:
        self.view, self.record, self.model, self.rounds = view, record, model, rounds
        self.states = JobStates(instance)
        self.time, self.wake = instance.time, math.inf
        self._told: dict[int, tuple[object, object]] = {}  # job -> the hosts and replicas that it was told last

    def found(self, instance: Instance, i: int, on_servers: bool) -> None:
        """Job i runs already when the simulation begins, if the instance says so."""
        states, job = self.states, self.states.jobs[i]
        where = where_at_first(instance, job, on_servers)
        if where is None:
            return
        states.where[i], states.running[i], states.start[i], states.since[i] = where, True, self.time, self.time
        for (_, t), n in where.items():
            states.held[i, self.model.entities.types.index(t)] += n
        self.record.start(self.time, job.name, job.tenant, where)

    # -- progress

    def settle(self, i: int, work: float | None = None) -> None:
        """JobStates what a running job has done since it was booked last; ``work`` where that is known."""
        states, name = self.states, self.states.jobs[i].name
        if i in states.forked:
            self._settle_copies(i, states.forked.pop(i), work)
        elif self.record.is_open(name):
            done, lost = states.done_since(i, self.time)
            done = done if work is None else work
            speedup = self.view.speedup(i, states.held[i], states.rate.item(i)) if self.view.owner else 0.0
            self.record.progress(name, done, lost, speedup)
            states.left[i] -= done
            states.since[i] = self.time
            if lost:
                states.lost[i] += lost

    def _settle_copies(self, i: int, forked: RunningCopies, work: float | None) -> None:
        """The same for a job in copies, whose spans end with that; its loss is what its copies lost on average."""
        states, name = self.states, self.states.jobs[i].name
        done = forked.by(self.time)
        work = min(done, float(states.left[i])) if work is None else work
        part = work / done if done > 0 else 0.0
        for copy in forked.copies:
            key = (name, copy.copy.server)
            waited = min(copy.ready, self.time) - float(states.since[i])
            self.record.progress(key, copy.by(self.time) * part, waited, self.view.speedup_of(i, copy.copy))
            self.record.stop(min(copy.end, self.time), key)
            states.lost[i] += waited / len(forked.copies)
        states.left[i] -= work
        states.since[i] = self.time

    def settle_copies(self) -> None:
        """JobStates what all copies did: each was told what to do until now."""
        for i in [i for i in self.states.forked if self.states.running[i]]:
            self.settle(i)

    def trained_since(self, who: Positions, time: float) -> bool:
        """Whether one of these jobs has trained since it started, and since that time."""
        began = np.maximum(np.maximum(self.states.ready[who], self.states.since[who]), time)
        return bool((self.states.running[who] & (self.states.rate[who] > 0) & (began < self.time)).any())

    def waits_still(self, who: Positions, time: float, ready: Floats) -> bool:
        """Whether one of these jobs is still getting ready as it was two decisions ago: its wait goes on, and ends."""
        there = self.states.ready[who]
        return bool((self.states.running[who] & (there > time) & (there == ready[who])).any())

    def finish(self, i: int) -> None:
        """Job i has done all its work."""
        self.settle(i, float(self.states.left[i]))
        self.states.finish[i], self.states.left[i] = self.time, 0.0
        self.leave(i)

    def leave(self, i: int, stays: Collection[str] = ()) -> None:
        """Job i leaves its GPUs, but not the servers where it ``stays``; what it did has been booked."""
        self.states.pauses(i)
        if self.model.disks is not None:
            where = self.states.where[i] or {}
            self.model.left(i, {place: n for place, n in where.items() if place[0] not in stays}, self.time)
        self.record.stop(self.time, self.states.jobs[i].name)

    def stop(self, i: int) -> None:
        """Job i is stopped in order."""
        self.settle(i)
        self.leave(i)

    def stop_all(self, who: list[int]) -> None:
        """Jobs are stopped in order, many at once in a fraction of the time."""
        states, record = self.states, self.record
        if len(who) < MANY or any(i in states.forked for i in who):
            for i in who:
                self.stop(i)
            return
        at = np.array(who)
        done, lost = states.all_done_since(at, self.time)
        for i, work, seconds in zip(who, done.tolist(), lost.tolist(), strict=True):
            name = states.jobs[i].name
            if record.is_open(name):
                speedup = self.view.speedup(i, states.held[i], states.rate.item(i)) if self.view.owner else 0.0
                record.progress(name, work, seconds, speedup)
                record.stop(self.time, name)
                states.lost[i] += seconds
            if self.model.disks is not None:
                self.model.left(i, states.where[i] or {}, self.time)
        states.left[at] -= done
        states.since[at] = self.time
        states.all_pause(at)

    def fail(self, i: int, server: str = "") -> None:
        """Job i loses its GPUs, and what it did since its last checkpoint, which lies on shared storage.

        Of a job in copies, that is what the copy on ``server`` did since the decision: copies are merged with the next.
        """
        states, rate, name = self.states, float(self.states.rate[i]), self.states.jobs[i].name
        copies = states.forked[i].copies if i in states.forked else ()
        undone = sum(copy.by(self.time) for copy in copies if copy.copy.server == server)
        self.settle(i)
        if not copies and rate > 0 and self.record.is_open(name):
            undone = self.model.undone(rate, self.record.work_of(name) / rate)
        if self.model.environment.checkpoint_seconds is not None:
            undone = min(undone, float(states.work[i] - states.left[i]))
            states.left[i] += undone
            states.wasted[i] += undone
        self.leave(i)
        states.failed.add(i)

    def delay(self, i: int, seconds: float) -> None:
        """Job i pauses on its GPUs for so many seconds; copies have been told what to do, and do it."""
        if i not in self.states.forked:
            self.settle(i)
            self.record.pause(self.time, self.states.jobs[i].name)
            self.states.ready[i] = max(float(self.states.ready[i]), self.time) + seconds
            self.states.goes_on(i, self.time)

    # -- decisions

    def carry_out(self, who: Positions, decision: Decision) -> None:
        """Let the jobs ``who``, the rows of the decision, run as it says.

        Those that stop or move stop first: whoever comes finds the disks as those who go have left them.
        """
        states, runs, wanted = self.states, self.states.running[who], decision.gpus.any(axis=1)
        self.stop_all(who[runs & ~wanted].tolist())
        if decision.placement is None:
            same = runs & (states.held[who] == decision.gpus).all(axis=1) & (states.rate[who] > 0)
            wanted = wanted & ~same
        starts: list[tuple[int, JobPlacement]] = []
        moving: list[int] = []
        forking: list[tuple[int, int]] = []
        rows = np.flatnonzero(wanted)
        for row, i in zip(rows.tolist(), who[rows].tolist(), strict=True):
            name = decision.entities.names[row]
            if name in decision.copies:
                forking.append((row, i))
                continue
            if self._is_told(i, name, decision):
                continue
            place = self.model.place(decision, row)
            moves = bool(runs[row])
            if moves and states.where[i] == place.where and i not in states.ready_on:
                self._keep_on(i, place)
                continue
            starts.append((i, place))
            if moves and states.where[i] != place.where:
                moving.append(i)
        self.stop_all(moving)
        for row, i in forking:
            self._run_copies(i, decision.copies[decision.entities.names[row]], decision.gpus[row])
        for i, place in starts:
            self.run(i, place)

    def _is_told(self, i: int, name: str, decision: Decision) -> bool:
        """Whether job i runs on the very hosts that the decision gives it, and nothing has to be worked out."""
        if decision.placement is None:
            return False
        told = decision.placement.hosts[name], decision.placement.replicas.get(name)
        if self._told.get(i) == told and self.states.running[i]:
            return True
        self._told[i] = told
        return False

    def _keep_on(self, i: int, place: JobPlacement) -> None:
        """The job stays where it is; its rate may be another, say because its stages are mapped anew."""
        rate = self.model.rate(i, place)
        if rate != self.states.rate[i]:
            self.settle(i)
            self.states.rate[i] = rate
            self.states.goes_on(i, self.time)

    def _left(self, i: int) -> HeldGPUs | None:
        """Where job i comes from: nowhere if it lost its GPUs, so that it restarts even where it was."""
        return {} if i in self.states.failed else self.states.where[i]

    def run(self, i: int, place: JobPlacement) -> None:
        """Job i starts there, for the first time or again."""
        states, job = self.states, self.states.jobs[i]
        before = states.where[i]
        if before is None:
            states.start[i] = self.time
        if states.running[i]:  # it was forked, and has one copy left
            states.ready[i] = max(self.time, *states.ready_on[i].values())
        else:
            states.ready[i] = self.time + self.model.lost(i, self._left(i), place.where, self.time)
            states.switches[i] += before is not None and before is not place.where and before != place.where
        states.ready_on.pop(i, None)
        self.record.start(self.time, job.name, job.tenant, place.where)
        states.running[i], states.where[i], states.since[i], states.held[i] = True, place.where, self.time, place.gpus
        states.rate[i] = self.model.rate(i, place)
        states.goes_on(i, self.time)

    def _run_copies(self, i: int, copies: tuple[Copy, ...], gpus: Floats) -> None:
        """A copy on GPUs that the job has already goes on, others begin as after a restart; a span per decision."""
        states, job = self.states, self.states.jobs[i]
        if math.isnan(states.start[i]):
            states.start[i] = self.time
        before, went_on, waits = states.where[i], bool(states.running[i]), float(states.ready[i])
        there = before or {}
        kept = {told.server for told in copies if all(there.get(place) == n for place, n in told.seats.items())}
        if went_on:
            self.settle(i)
            self.leave(i, kept)
        self._told.pop(i, None)
        runs: list[RunningCopy] = []
        new, had = False, states.ready_on.pop(i, {})
        merge = self.model.merge_seconds if len(copies) > 1 else 0.0
        ready_on: dict[str, float] = {}
        for told in copies:
            copy = Copy(told.server, told.gpus, self.model.pace(i, told), told.work)
            stays = told.server in kept
            new |= not stays
            if stays and went_on:  # a restart that is not over yet goes on
                ready = max(self.time, had.get(copy.server, waits))
            else:
                left = copy.seats if stays and i not in states.failed else self._left(i)
                ready = self.time + self.model.lost(i, left, copy.seats, self.time)
            ready_on[copy.server] = ready
            runs.append(RunningCopy(copy, ready + merge))
            self.record.start(self.time, job.name, job.tenant, copy.seats, (job.name, copy.server))
        where: HeldGPUs = {place: n for copy in runs for place, n in copy.copy.seats.items()}
        states.switches[i] += new and before is not None
        states.running[i], states.since[i], states.held[i], states.where[i] = True, self.time, gpus, where
        states.forked[i], states.rate[i] = RunningCopies(tuple(runs)), sum(copy.copy.rate for copy in runs)
        states.ready_on[i], states.ready[i] = ready_on, min(ready_on.values())
        states.goes_on(i, self.time)
        if not self.rounds and math.isinf(states.forked[i].when(float(states.left[i]))):
            self.wake = min(self.wake, states.forked[i].over)
