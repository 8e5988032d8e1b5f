"""The clockwork for policies that decide event by event: what an event does not touch takes no time."""

from __future__ import annotations

import math
from heapq import heappush

from hetopt.data.instance import Instance
from hetopt.errors import InvalidPlan
from hetopt.simulation.engine import Engine, Life
from hetopt.simulation.log import Kind
from hetopt.simulation.online import Online, Start
from hetopt.simulation.overheads import Overhead
from hetopt.simulation.pipeline import Pipeline, check_replicas
from hetopt.simulation.speeds import Speeds


class OnlineEngine(Engine):
    """A simulation between two events; the scheduler is told of each. No job may run at the beginning."""

    def __init__(self, policy: Online, instance: Instance, overheads: Overhead, speeds: Speeds) -> None:
        super().__init__(instance, Pipeline(policy, rounds=False, speeds=speeds), overheads, None, 1)
        self.scheduler = policy.online(instance)
        self.rate_of = speeds.on(instance.cluster)
        self.free = {(s.name, t): n for s in instance.cluster.servers for t, n in s.gpus.items()}
        self.running, self.held = 0, 0

    def _arrive(self, life: Life) -> None:
        super()._arrive(life)
        self.scheduler.arrive(self.time, life.job)

    def _finish(self, life: Life) -> None:
        for where, n in (life.last or {}).items():
            self.free[where] += int(n)
        super()._finish(life)
        self.running -= 1
        self.held -= life.job.demand
        self.scheduler.finish(self.time, life.job)

    def _decide(self) -> None:
        """Ask the scheduler, and let the jobs that it starts run."""
        self.record.end_round(self.time)
        self.changed, self.wake = False, math.inf
        if not self.present:
            return
        self.record.event(self.time, Kind.DECIDE)
        self.decisions += 1
        for start in self.scheduler.decide(self.time):
            self._begin(self._known(start), start)
        self.wake = self.scheduler.wake
        self.record.begin_round(self.time, len(self.present), self.running, float(self.held), {})

    def _known(self, start: Start) -> Life:
        life = self.present.get(start.job)
        if life is None or life.running:
            raise InvalidPlan(f"the policy starts job {start.job!r}, which {'runs' if life else 'is not there'}")
        gpus = sum(n for there in start.hosts.values() for n in there.values())
        if gpus != life.job.demand:
            raise InvalidPlan(f"the policy starts job {start.job!r} on {gpus} GPUs; it runs on {life.job.demand}")
        return life

    def _begin(self, life: Life, start: Start) -> None:
        where = {(server, t): n for server, gpus in start.hosts.items() for t, n in gpus.items() if n}
        for (server, t), n in where.items():
            left = self.free.get((server, t), 0) - n
            if n < 0 or left < 0 or not life.job.throughput.get(t, 0.0):
                why = "fewer than none" if n < 0 else f"{left + n} are free" if left < 0 else "it cannot run there"
                raise InvalidPlan(f"the policy starts job {life.job.name!r} on {n} GPUs {t!r} of {server!r}; {why}")
            self.free[server, t] = left
        if start.replicas:
            check_replicas(life.job, start.hosts, start.replicas)
        life.start, life.running, life.last, life.since = self.time, True, where, self.time
        life.ready = self.time + self.overheads(life.job, None, where, self.cluster)
        life.rate = self.rate_of(life.job, start.hosts, start.replicas)
        self.running += 1
        self.held += life.job.demand
        self.record.start(self.time, life.job.name, life.job.tenant, where)
        heappush(self.ending, (life.end, life.position, life))
