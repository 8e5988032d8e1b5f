"""The machine room of a simulation: jobs start, go on, stop, move and fail; what they do goes into book and record."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from hetopt.data.entities import Floats
from hetopt.data.instance import Instance
from hetopt.decisions.system import Decision
from hetopt.simulation.execution_model import Physics, Place
from hetopt.simulation.job_states import Book, Copy, Forked, Positions, Running
from hetopt.simulation.log import Recorder
from hetopt.simulation.overheads import Where
from hetopt.simulation.view import View, where_at_first

MANY = 8
"""So many jobs that stop are booked sooner in arrays than one by one."""


class Floor:
    """Carries out decisions; jobs are told by their positions in the instance.

    Attributes
    ----------
    book, record, view, physics:
        What jobs have done; the tables; names and speedups of tenants; speeds and losses.
    time:
        Now, in seconds; whoever moves the clock sets it.
    wake:
        When the copies of a job have done what they were told, and nothing else happens before.
    """

    def __init__(self, instance: Instance, view: View, record: Recorder, physics: Physics, *, rounds: bool) -> None:
        self.view, self.record, self.physics, self.rounds = view, record, physics, rounds
        self.book = Book(instance)
        self.time, self.wake = instance.time, math.inf
        self._told: dict[int, tuple[object, object]] = {}  # job -> the hosts and replicas that it was told last

    def found(self, instance: Instance, i: int, on_servers: bool) -> None:
        """Job i runs already when the simulation begins, if the instance says so."""
        book, job = self.book, self.book.jobs[i]
        where = where_at_first(instance, job, on_servers)
        if where is None:
            return
        book.where[i], book.running[i], book.start[i], book.since[i] = where, True, self.time, self.time
        for (_, t), n in where.items():
            book.held[i, self.physics.entities.types.index(t)] += n
        self.record.start(self.time, job.name, job.tenant, where)

    # -- progress

    def settle(self, i: int, work: float | None = None) -> None:
        """Book what a running job has done since it was booked last; ``work`` where that is known."""
        book, name = self.book, self.book.jobs[i].name
        if i in book.forked:
            self._settle_copies(i, book.forked.pop(i), work)
        elif self.record.is_open(name):
            done, lost = book.done_since(i, self.time)
            done = done if work is None else work
            speedup = self.view.speedup(i, book.held[i], book.rate.item(i)) if self.view.owner else 0.0
            self.record.progress(name, done, lost, speedup)
            book.left[i] -= done
            book.since[i] = self.time
            if lost:
                book.lost[i] += lost

    def _settle_copies(self, i: int, forked: Forked, work: float | None) -> None:
        """The same for a job in copies, whose spans end with that; its loss is what its copies lost on average."""
        book, name = self.book, self.book.jobs[i].name
        done = forked.by(self.time)
        work = min(done, float(book.left[i])) if work is None else work
        part = work / done if done > 0 else 0.0
        for copy in forked.copies:
            key = (name, copy.copy.server)
            waited = min(copy.ready, self.time) - float(book.since[i])
            self.record.progress(key, copy.by(self.time) * part, waited, self.view.speedup_of(i, copy.copy))
            self.record.stop(min(copy.end, self.time), key)
            book.lost[i] += waited / len(forked.copies)
        book.left[i] -= work
        book.since[i] = self.time

    def settle_copies(self) -> None:
        """Book what all copies did: each was told what to do until now."""
        for i in [i for i in self.book.forked if self.book.running[i]]:
            self.settle(i)

    def trained_since(self, who: Positions, time: float) -> bool:
        """Whether one of these jobs has trained since it started, and since that time."""
        began = np.maximum(np.maximum(self.book.ready[who], self.book.since[who]), time)
        return bool((self.book.running[who] & (self.book.rate[who] > 0) & (began < self.time)).any())

    def waits_still(self, who: Positions, time: float, ready: Floats) -> bool:
        """Whether one of these jobs is still getting ready as it was two decisions ago: its wait goes on, and ends."""
        there = self.book.ready[who]
        return bool((self.book.running[who] & (there > time) & (there == ready[who])).any())

    def finish(self, i: int) -> None:
        """Job i has done all its work."""
        self.settle(i, float(self.book.left[i]))
        self.book.finish[i], self.book.left[i] = self.time, 0.0
        self.leave(i)

    def leave(self, i: int, stays: Collection[str] = ()) -> None:
        """Job i leaves its GPUs, but not the servers where it ``stays``; what it did has been booked."""
        self.book.pauses(i)
        if self.physics.disks is not None:
            where = self.book.where[i] or {}
            self.physics.left(i, {place: n for place, n in where.items() if place[0] not in stays}, self.time)
        self.record.stop(self.time, self.book.jobs[i].name)

    def stop(self, i: int) -> None:
        """Job i is stopped in order."""
        self.settle(i)
        self.leave(i)

    def stop_all(self, who: list[int]) -> None:
        """Jobs are stopped in order, many at once in a fraction of the time."""
        book, record = self.book, self.record
        if len(who) < MANY or any(i in book.forked for i in who):
            for i in who:
                self.stop(i)
            return
        at = np.array(who)
        done, lost = book.all_done_since(at, self.time)
        for i, work, seconds in zip(who, done.tolist(), lost.tolist(), strict=True):
            name = book.jobs[i].name
            if record.is_open(name):
                speedup = self.view.speedup(i, book.held[i], book.rate.item(i)) if self.view.owner else 0.0
                record.progress(name, work, seconds, speedup)
                record.stop(self.time, name)
                book.lost[i] += seconds
            if self.physics.disks is not None:
                self.physics.left(i, book.where[i] or {}, self.time)
        book.left[at] -= done
        book.since[at] = self.time
        book.all_pause(at)

    def fail(self, i: int, server: str = "") -> None:
        """Job i loses its GPUs, and what it did since its last checkpoint, which lies on shared storage.

        Of a job in copies, that is what the copy on ``server`` did since the decision: copies are merged with the next.
        """
        book, rate, name = self.book, float(self.book.rate[i]), self.book.jobs[i].name
        copies = book.forked[i].copies if i in book.forked else ()
        undone = sum(copy.by(self.time) for copy in copies if copy.copy.server == server)
        self.settle(i)
        if not copies and rate > 0 and self.record.is_open(name):
            undone = self.physics.undone(rate, self.record.work_of(name) / rate)
        if self.physics.world.checkpoint_seconds is not None:
            undone = min(undone, float(book.work[i] - book.left[i]))
            book.left[i] += undone
            book.wasted[i] += undone
        self.leave(i)
        book.failed.add(i)

    def delay(self, i: int, seconds: float) -> None:
        """Job i pauses on its GPUs for so many seconds; copies have been told what to do, and do it."""
        if i not in self.book.forked:
            self.settle(i)
            self.record.pause(self.time, self.book.jobs[i].name)
            self.book.ready[i] = max(float(self.book.ready[i]), self.time) + seconds
            self.book.goes_on(i, self.time)

    # -- decisions

    def carry_out(self, who: Positions, decision: Decision) -> None:
        """Let the jobs ``who``, the rows of the decision, run as it says.

        Those that stop or move stop first: whoever comes finds the disks as those who go have left them.
        """
        book, runs, wanted = self.book, self.book.running[who], decision.gpus.any(axis=1)
        self.stop_all(who[runs & ~wanted].tolist())
        if decision.placement is None:
            same = runs & (book.held[who] == decision.gpus).all(axis=1) & (book.rate[who] > 0)
            wanted = wanted & ~same
        starts: list[tuple[int, Place]] = []
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
            place = self.physics.place(decision, row)
            moves = bool(runs[row])
            if moves and book.where[i] == place.where and i not in book.ready_on:
                self._keep_on(i, place)
                continue
            starts.append((i, place))
            if moves and book.where[i] != place.where:
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
        if self._told.get(i) == told and self.book.running[i]:
            return True
        self._told[i] = told
        return False

    def _keep_on(self, i: int, place: Place) -> None:
        """The job stays where it is; its rate may be another, say because its stages are mapped anew."""
        rate = self.physics.rate(i, place)
        if rate != self.book.rate[i]:
            self.settle(i)
            self.book.rate[i] = rate
            self.book.goes_on(i, self.time)

    def _left(self, i: int) -> Where | None:
        """Where job i comes from: nowhere if it lost its GPUs, so that it restarts even where it was."""
        return {} if i in self.book.failed else self.book.where[i]

    def run(self, i: int, place: Place) -> None:
        """Job i starts there, for the first time or again."""
        book, job = self.book, self.book.jobs[i]
        before = book.where[i]
        if before is None:
            book.start[i] = self.time
        if book.running[i]:  # it was forked, and has one copy left
            book.ready[i] = max(self.time, *book.ready_on[i].values())
        else:
            book.ready[i] = self.time + self.physics.lost(i, self._left(i), place.where, self.time)
            book.switches[i] += before is not None and before is not place.where and before != place.where
        book.ready_on.pop(i, None)
        self.record.start(self.time, job.name, job.tenant, place.where)
        book.running[i], book.where[i], book.since[i], book.held[i] = True, place.where, self.time, place.gpus
        book.rate[i] = self.physics.rate(i, place)
        book.goes_on(i, self.time)

    def _run_copies(self, i: int, copies: tuple[Copy, ...], gpus: Floats) -> None:
        """A copy on GPUs that the job has already goes on, others begin as after a restart; a span per decision."""
        book, job = self.book, self.book.jobs[i]
        if math.isnan(book.start[i]):
            book.start[i] = self.time
        before, went_on, waits = book.where[i], bool(book.running[i]), float(book.ready[i])
        there = before or {}
        kept = {told.server for told in copies if all(there.get(place) == n for place, n in told.seats.items())}
        if went_on:
            self.settle(i)
            self.leave(i, kept)
        self._told.pop(i, None)
        runs: list[Running] = []
        new, had = False, book.ready_on.pop(i, {})
        merge = self.physics.merge_seconds if len(copies) > 1 else 0.0
        ready_on: dict[str, float] = {}
        for told in copies:
            copy = Copy(told.server, told.gpus, self.physics.pace(i, told), told.work)
            stays = told.server in kept
            new |= not stays
            if stays and went_on:  # a restart that is not over yet goes on
                ready = max(self.time, had.get(copy.server, waits))
            else:
                left = copy.seats if stays and i not in book.failed else self._left(i)
                ready = self.time + self.physics.lost(i, left, copy.seats, self.time)
            ready_on[copy.server] = ready
            runs.append(Running(copy, ready + merge))
            self.record.start(self.time, job.name, job.tenant, copy.seats, (job.name, copy.server))
        where: Where = {place: n for copy in runs for place, n in copy.copy.seats.items()}
        book.switches[i] += new and before is not None
        book.running[i], book.since[i], book.held[i], book.where[i] = True, self.time, gpus, where
        book.forked[i], book.rate[i] = Forked(tuple(runs)), sum(copy.copy.rate for copy in runs)
        book.ready_on[i], book.ready[i] = ready_on, min(ready_on.values())
        book.goes_on(i, self.time)
        if not self.rounds and math.isinf(book.forked[i].when(float(book.left[i]))):
            self.wake = min(self.wake, book.forked[i].over)
