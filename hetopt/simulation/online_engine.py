"""The clockwork for policies that decide event by event: what an event does not touch takes no time."""

from __future__ import annotations

import math
import time as clock

import numpy as np

from hetopt.data.instance import Instance
from hetopt.errors import InvalidPlan
from hetopt.simulation.engine import Engine
from hetopt.simulation.log import Kind
from hetopt.simulation.online import Online, Start
from hetopt.simulation.physics import Place
from hetopt.simulation.pipeline import Pipeline, check_replicas
from hetopt.simulation.world import World


class OnlineEngine(Engine):
    """A simulation between two events; the scheduler is told of each. No job may run at the beginning."""

    def __init__(self, policy: Online, instance: Instance, pipeline: Pipeline, world: World) -> None:
        super().__init__(instance, pipeline, world, None, 1)
        self.scheduler = policy.online(instance)
        self.free = {(s.name, t): n for s in instance.cluster.servers for t, n in s.gpus.items()}
        self.position = {job.name: i for i, job in enumerate(instance.jobs)}
        self.type = {t: k for k, t in enumerate(instance.cluster.type_names)}
        self.running, self.held = 0, 0

    def _arrive(self, i: int) -> None:
        super()._arrive(i)
        self.scheduler.arrive(self.time, self.book.jobs[i])

    def _finish(self, i: int) -> None:
        job = self.book.jobs[i]
        for where, n in (self.book.where[i] or {}).items():
            self.free[where] += int(n)
        super()._finish(i)
        self.running -= 1
        self.held -= job.demand
        self.scheduler.finish(self.time, job)

    def _decide(self) -> None:
        """Ask the scheduler, and let the jobs that it starts run."""
        self.record.end_round(self.time)
        self.changed, self.wake = False, math.inf
        if not self.present:
            return
        self.record.event(self.time, Kind.DECIDE)
        self.decisions += 1
        began = clock.perf_counter()
        starts = self.scheduler.decide(self.time)
        took = clock.perf_counter() - began
        for start in starts:
            self._begin(self._known(start), start)
        self.wake = self.scheduler.wake
        self.record.begin_round(self.time, len(self.present), self.running, float(self.held), {}, took)

    def _known(self, start: Start) -> int:
        i = self.position.get(start.job, -1)
        runs = i in self.present and bool(self.book.running[i])
        if i not in self.present or runs:
            raise InvalidPlan(f"the policy starts job {start.job!r}, which {'runs' if runs else 'is not there'}")
        gpus = sum(n for there in start.hosts.values() for n in there.values())
        if gpus != (demand := self.book.jobs[i].demand):
            raise InvalidPlan(f"the policy starts job {start.job!r} on {gpus} GPUs; it runs on {demand}")
        return i

    def _begin(self, i: int, start: Start) -> None:
        job = self.book.jobs[i]
        where = {(server, t): n for server, gpus in start.hosts.items() for t, n in gpus.items() if n}
        held = np.zeros(len(self.type))
        for (server, t), n in where.items():
            left = self.free.get((server, t), 0) - n
            if n < 0 or left < 0 or not job.throughput.get(t, 0.0):
                why = "fewer than none" if n < 0 else f"{left + n} are free" if left < 0 else "it cannot run there"
                raise InvalidPlan(f"the policy starts job {job.name!r} on {n} GPUs {t!r} of {server!r}; {why}")
            self.free[server, t] = left
            held[self.type[t]] += n
        if start.replicas:
            check_replicas(job, start.hosts, start.replicas)
        self.floor.run(i, Place(held, where, start.hosts, start.replicas))
        self.running += 1
        self.held += job.demand
