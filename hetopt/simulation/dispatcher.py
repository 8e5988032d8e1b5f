"""Carry out decisions in a simulation: start, keep, preempt, move and fail jobs, and record what they do."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from hetopt.data.array_types import Floats, Positions
from hetopt.data.gpu_locations import HeldGPUs
from hetopt.data.instance import Instance
from hetopt.decisions.system import Decision, JobCopy
from hetopt.simulation.execution_model import ExecutionModel, JobPlacement
from hetopt.simulation.job_states import JobStates, RunningCopies, RunningCopy
from hetopt.simulation.log import Recorder
from hetopt.simulation.view import InstanceView, held_at_start


class Dispatcher:
    """Carries out decisions; jobs are given by their positions in the instance.

    Attributes
    ----------
    states, record, view, model:
        State of each job; tables of the log; throughput of tenants; rates and losses of jobs.
    time:
        Now, in seconds: the clock of the simulation, which the simulator advances.
    copies_end:
        Without rounds: second at which the copies of a job have done their work, so that a decision is needed; infinity
        if there is none.
    """

    def __init__(
        self, instance: Instance, view: InstanceView, record: Recorder, model: ExecutionModel, *, in_rounds: bool
    ) -> None:
        self.view, self.record, self.model, self.in_rounds = view, record, model, in_rounds
        self.states = JobStates(instance)
        self.time, self.copies_end = instance.time, math.inf
        self._last_placed: dict[int, tuple[object, ...]] = {}  # job -> hosts, replicas and partner of the last decision

    def start_held(self, instance: Instance, i: int, on_servers: bool) -> None:
        """Let job i run from the beginning of the simulation, if it holds GPUs in the instance."""
        states, job = self.states, self.states.jobs[i]
        where = held_at_start(instance, job, on_servers)
        if where is None:
            return
        gpus = np.zeros(len(self.model.entities.types))
        for (_, t), n in where.items():
            gpus[self.model.entities.types.index(t)] += n
        counted = where
        if job.name in instance.halved:
            scale = job.demand / float(gpus.sum())  # 2 where it is not placed, so that only its halves are known
            where = {place: scale * n for place, n in where.items()}
            gpus, counted = scale * gpus / 2, {place: n / 2 for place, n in where.items()}
        states.start[i] = self.time
        states.hold(i, self.time, where, gpus)
        self.record.begin_span(self.time, job.name, job.tenant, counted)

    def record_work(self, i: int, work: float | None = None) -> None:
        """Record the work of a running job since the last record; ``work`` where it is known."""
        states, name = self.states, self.states.jobs[i].name
        if i in states.forked:
            self._record_copies(i, states.forked.pop(i), work)
        elif self.record.is_open(name):  # else its copies have been recorded at this second
            done, lost = states.done_since(i, self.time)
            done = done if work is None else work
            throughput = self.view.throughput(i, states.held[i], states.rate.item(i)) if self.view.owner else 0.0
            self.record.progress(name, done, lost, throughput)
            states.left[i] -= done
            states.since[i] = self.time
            if lost:
                states.lost[i] += lost

    def _record_copies(self, i: int, forked: RunningCopies, work: float | None) -> None:
        """Record the work of a job in copies, and end their spans; its lost time is the mean over the copies."""
        states, name = self.states, self.states.jobs[i].name
        done = forked.work_done(self.time)
        work = min(done, float(states.left[i])) if work is None else work
        part = work / done if done > 0 else 0.0
        for copy in forked.copies:
            key = (name, copy.decided.server)
            waited = min(copy.ready, self.time) - float(states.since[i])
            self.record.progress(
                key, copy.work_done(self.time) * part, waited, self.view.copy_throughput(i, copy.decided)
            )
            self.record.end_span(min(copy.end, self.time), key)
            states.lost[i] += waited / len(forked.copies)
        states.left[i] -= work
        states.since[i] = self.time

    def record_all_copies(self) -> None:
        """Record the work of all copies, whose decision ends now."""
        self.copies_end = math.inf
        for i in list(self.states.forked):
            self.record_work(i)

    def finish(self, i: int) -> None:
        """Record that job i has done all its work, and free its GPUs."""
        self.record_work(i, float(self.states.left[i]))
        self.states.finish[i], self.states.left[i] = self.time, 0.0
        self._release(i)

    def _release(self, i: int, stays: Collection[str] = ()) -> None:
        """Free the GPUs of job i, whose work is recorded; it keeps its dataset on the servers where it ``stays``."""
        self.states.release([i])
        if self.model.disks is not None:
            where = self.states.where[i] or {}
            self.model.leave(i, {place: n for place, n in where.items() if place[0] not in stays}, self.time)
        self.record.end_span(self.time, self.states.jobs[i].name)
        self._end_sharing([i])

    def _end_sharing(self, who: Sequence[int]) -> None:
        """Let the other jobs that share the GPUs of ``who``, who have lost them, run alone there from now on."""
        shares = self.states.shares
        ended = {i: place.partner for i in who if (place := shares.pop(i, None)) is not None}
        for i, j in ended.items():
            other = None if j is None else shares.get(j)
            if j is not None and other is not None and other.partner == i:
                self._last_placed.pop(j, None)
                self._keep_on(j, other.alone)

    def preempt(self, who: Sequence[int]) -> None:
        """Take the GPUs of running jobs without loss of work, for a decision or at the end of the simulation."""
        states, view = self.states, self.view
        if not who:
            return
        for i in who:
            if i in states.forked:
                self.record_work(i)
        rates = [view.throughput(i, states.held[i], states.rate.item(i)) for i in who] if view.owner else repeat(0.0)
        for i, work, lost, rate in zip(who, *states.stop(who, self.time), rates, strict=False):
            self.record.end_span(self.time, states.jobs[i].name, work, lost, rate)
            if self.model.disks is not None:
                self.model.leave(i, states.where[i] or {}, self.time)
        self._end_sharing(who)

    def fail(self, i: int, server: str = "") -> None:
        """Take the GPUs of job i, and its work since the last checkpoint, which is on shared storage.

        A job in copies loses the work of the copy on ``server`` since the decision: the next decision merges copies.
        """
        states, rate, name = self.states, float(self.states.rate[i]), self.states.jobs[i].name
        copies = states.forked[i].copies if i in states.forked else ()
        undone = sum(copy.work_done(self.time) for copy in copies if copy.decided.server == server)
        self.record_work(i)
        if not copies and rate > 0 and self.record.is_open(name):
            undone = self.model.undone(rate, self.record.work_of(name) / rate)
        if self.model.environment.checkpoint_seconds is not None:
            undone = min(undone, float(states.work[i] - states.left[i]))
            states.left[i] += undone
            states.wasted[i] += undone
        self._release(i)
        states.failed.add(i)

    def delay(self, i: int, seconds: float) -> None:
        """Pause job i on its GPUs for ``seconds``; copies do not pause."""
        if i not in self.states.forked:
            self.record_work(i)
            self.record.pause(self.time, self.states.jobs[i].name)
            self.states.ready[i] = max(float(self.states.ready[i]), self.time) + seconds
            self.states.schedule_end(i, self.time)

    def carry_out(self, who: Positions, decision: Decision) -> None:
        """Start, move and preempt the jobs ``who``, the rows of the decision.

        Jobs are preempted before others start, so that starting jobs find the disks as the preempted jobs left them.
        """
        states, placed, names = self.states, decision.placement, decision.entities.names
        runs, changes = states.running[who], decision.gpus.any(axis=1)
        self.preempt(who[runs & ~changes].tolist())
        if placed is None:
            same = runs & (states.held[who] == decision.gpus).all(axis=1) & (states.rate[who] > 0)
            if decision.packed:  # perhaps with another job
                same &= [name not in decision.packed for name in names]
            changes &= ~same
        starts: list[tuple[int, JobPlacement]] = []
        moving: list[int] = []
        forking: list[tuple[int, int]] = []
        rows = np.flatnonzero(changes)
        for row, i, running in zip(rows.tolist(), who[rows].tolist(), runs[rows].tolist(), strict=True):
            name = names[row]
            if name in decision.copies:
                forking.append((row, i))
                continue
            if placed is not None:
                own = placed.hosts[name], placed.replicas.get(name), decision.packed.get(name)
                if running and self._last_placed.get(i) == own:
                    continue
                self._last_placed[i] = own
            place = self.model.place(decision, row)
            stays = running and states.where[i] == place.where
            if stays and i not in states.ready_on:
                self._keep_on(i, place)
                continue
            starts.append((i, place))
            if running and not stays:
                moving.append(i)
        self.preempt(moving)
        for row, i in forking:
            self._run_copies(i, decision.copies[decision.entities.names[row]], decision.gpus[row])
        for i, place in starts:
            self.run(i, place)

    def _keep_on(self, i: int, place: JobPlacement) -> None:
        """Update the rate of a job that keeps its GPUs: of stages that are mapped otherwise, or beside another job."""
        rate, states = self.model.rate(i, place), self.states
        if rate != states.rate[i]:
            self.record_work(i)
            states.rate[i] = rate
            states.schedule_end(i, self.time)
        if not np.array_equal(place.gpus, states.held[i]):
            self.record_work(i)
            self.record.count(self.time, states.jobs[i].name, place.counted)
            states.held[i] = place.gpus
        self._share(i, place)

    def _share(self, i: int, place: JobPlacement) -> None:
        """Note whether job i shares its GPUs from now on."""
        self.states.shares.pop(i, None)
        if place.partner is not None:
            self.states.shares[i] = place

    def _last_gpus(self, i: int) -> HeldGPUs | None:
        """GPUs on which job i last ran; empty if it lost them by a failure, so that it restarts even there."""
        return {} if i in self.states.failed else self.states.where[i]

    def run(self, i: int, place: JobPlacement) -> None:
        """Start job i on these GPUs, for the first time or again."""
        states, job = self.states, self.states.jobs[i]
        before = states.where[i]
        if before is None:
            states.start[i] = self.time
        if states.running[i]:  # it was forked and continues with one copy
            states.ready[i] = max(self.time, *states.ready_on[i].values())
        else:
            states.ready[i] = self.time + self.model.start_seconds(i, self._last_gpus(i), place.where, self.time)
            states.switches[i] += before is not None and before is not place.where and before != place.where
        states.ready_on.pop(i, None)
        self.record.begin_span(self.time, job.name, job.tenant, place.counted)
        states.hold(i, self.time, place.where, place.gpus)
        self._share(i, place)
        states.rate[i] = self.model.rate(i, place)
        states.schedule_end(i, self.time)

    def _run_copies(self, i: int, copies: tuple[JobCopy, ...], gpus: Floats) -> None:
        """Run job i in copies: those on GPUs that it has continue, others restart; a span per copy and decision."""
        states, job = self.states, self.states.jobs[i]
        if math.isnan(states.start[i]):
            states.start[i] = self.time
        before, was_running, ready_before = states.where[i], bool(states.running[i]), float(states.ready[i])
        staying = {new.server for new in copies if all((before or {}).get(p) == n for p, n in new.where.items())}
        if was_running:
            self.record_work(i)
            self._release(i, staying)
        self._last_placed.pop(i, None)
        runs: list[RunningCopy] = []
        moved, ready_on_before = False, states.ready_on.pop(i, {})
        merge = self.model.merge_seconds if len(copies) > 1 else 0.0
        ready_on: dict[str, float] = {}
        for decided in copies:
            copy = replace(decided, rate=self.model.copy_rate(i, decided))
            stays = copy.server in staying
            moved |= not stays
            if stays and was_running:  # an unfinished restart continues
                ready = max(self.time, ready_on_before.get(copy.server, ready_before))
            else:
                last_gpus = copy.where if stays and i not in states.failed else self._last_gpus(i)
                ready = self.time + self.model.start_seconds(i, last_gpus, copy.where, self.time)
            ready_on[copy.server] = ready
            runs.append(RunningCopy(copy, ready + merge))
            self.record.begin_span(self.time, job.name, job.tenant, copy.where, (job.name, copy.server))
        where: HeldGPUs = {place: n for copy in runs for place, n in copy.decided.where.items()}
        states.switches[i] += moved and before is not None
        states.hold(i, self.time, where, gpus)
        states.forked[i], states.rate[i] = RunningCopies(tuple(runs)), sum(copy.decided.rate for copy in runs)
        states.ready_on[i], states.ready[i] = ready_on, min(ready_on.values())
        states.schedule_end(i, self.time)
        if not self.in_rounds and math.isinf(states.forked[i].time_of(float(states.left[i]))):
            self.copies_end = min(self.copies_end, states.forked[i].end)
