"""Deciders: what the simulator calls when jobs arrive and finish, and at each decision.

A policy decides over all present jobs (:class:`PolicyDecider`), an online scheduler event by event
(:class:`OnlineDecider`).
"""

from __future__ import annotations

import gc
import math
import time as clock
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hetopt.checks import counted
from hetopt.data.array_types import Positions
from hetopt.data.cluster import Cluster
from hetopt.data.gpu_locations import held_gpus
from hetopt.data.instance import Instance
from hetopt.decisions.online import JobStart, OnlinePolicy
from hetopt.decisions.system import Decision, DecisionSteps, check_replicas
from hetopt.errors import InvalidPlan, Stalled
from hetopt.simulation.dispatcher import Dispatcher
from hetopt.simulation.execution_model import JobPlacement
from hetopt.simulation.job_states import JobStates
from hetopt.simulation.seen_phases import as_seen


@dataclass(frozen=True)
class CarriedOut:
    """A decision that has been carried out.

    Attributes
    ----------
    seconds:
        Wall-clock time of the policy.
    wake:
        Second of the next decision if nothing happens before; infinity: not specified.
    held:
        GPUs of all jobs.
    given_up, estimated:
        As in :class:`~hetopt.decisions.system.Decision`.
    """

    seconds: float
    wake: float
    held: float
    given_up: Mapping[str, float] = field(default_factory=dict)
    estimated: Mapping[str, float] | None = None


class Decider(Protocol):
    """Decides which jobs run; jobs are given by their positions in the instance."""

    def arrive(self, i: int) -> None:
        """Job i is present from now on."""
        ...

    def finish(self, i: int) -> None:
        """Job i has finished, and its GPUs are free."""
        ...

    def change_servers(self) -> None:
        """A server has gone down or come back."""
        ...

    def decide(self, present: Collection[int], cluster: Cluster | None) -> CarriedOut | None:
        """Decide now, and carry it out; None if no job is visible.

        Parameters
        ----------
        present:
            The jobs that have arrived and are unfinished, in order of arrival.
        cluster:
            The servers that are up; None if they have no GPU.

        Raises
        ------
        Stalled
            No job makes progress any more.
        InvalidPlan
            The decision cannot be carried out.
        """
        ...


def stall_reason(states: JobStates, present: Collection[int]) -> str:
    """The unfinished jobs, and why none of them makes progress, for :class:`Stalled`."""
    names = [states.jobs[i].name for i in present]
    listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    why = "The policy gives them no GPUs that they can run on"
    if restarting := int(states.running[list(present)].sum()):
        why = f"The policy moves the {restarting} running jobs before they have restarted, so that no work is done"
    return f"{counted(len(names), 'unfinished job')}: {listed}. {why}"


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Collect no garbage meanwhile.

    Most lists of a decision or a table live only briefly, and each collection looks through all objects. Unlike Pyomo's
    ``PauseGC``, this may overlap in several threads.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class PolicyDecider:
    """Calls the policy and its steps with all visible jobs.

    A decision takes the time of the policy, of some operations on arrays of the present jobs, and of handling the jobs
    whose GPUs change; the other jobs take no further time.
    """

    def __init__(self, steps: DecisionSteps, patience: int, dispatcher: Dispatcher) -> None:
        self.steps, self.patience, self.dispatcher = steps, patience, dispatcher
        self.states = dispatcher.states
        self.state: tuple[Any, Any, Any] | None = None  # of the steps
        self._last: Decision | None = None  # for the jobs in self._visible_jobs
        self.without_progress = 0  # successive decisions since the last event
        self.last_decision = -math.inf
        self.ready_before = np.full(len(self.states.jobs), np.nan)  # JobStates.ready before the last decision
        self._visible_jobs: Positions | None = None  # None: computed at the next decision

    def arrive(self, i: int) -> None:
        """Job i may be visible from now on."""
        self.change_servers()

    def finish(self, i: int) -> None:
        """Job i is not visible any more."""
        self.change_servers()

    def change_servers(self) -> None:
        """After an event other jobs may be visible, and decisions without progress count from 0."""
        self._visible_jobs = self._last = None
        self.without_progress = 0

    def decide(self, present: Collection[int], cluster: Cluster | None) -> CarriedOut | None:
        """Record the work of copies, call the policy, and carry out its decision."""
        who, time = self._visible(present, cluster), self.dispatcher.time
        progressed = self._progressed(who)
        self.dispatcher.record_all_copies()
        if cluster is None or not len(who):
            return None
        self.without_progress = 0 if progressed or math.isinf(self.last_decision) else self.without_progress + 1
        if self.without_progress >= self.patience:
            reason = stall_reason(self.states, present)
            raise Stalled(f"no progress in {self.without_progress} decisions up to {time:g} s; {reason}")
        began = clock.perf_counter()
        instance = self.dispatcher.view.instance(time, who, cluster, self.states)
        last = self._last  # what jobs hold now, unless a failure has taken it
        if last is not None and not np.array_equal(self.states.held[who], last.gpus):
            last = None
        with garbage_kept():
            decision, self.state = self.steps(instance, self.state, last)
        took = clock.perf_counter() - began
        self.last_decision, self._last = time, decision
        if not decision.same_gpus(last):
            self.dispatcher.carry_out(who, decision)
        wake = math.inf if decision.wake is None else decision.wake
        return CarriedOut(took, wake, float(decision.gpus.sum()), decision.given_up, decision.estimated)

    def _progressed(self, who: Positions) -> bool:
        """Whether a job has trained since the last decision, or will, as it continues the start-up from before."""
        states, last, ready = self.states, self.last_decision, self.states.ready[who]
        began = np.maximum(np.maximum(ready, states.since[who]), last)
        trained = (states.rate[who] > 0) & (began < self.dispatcher.time)
        starting = (ready > last) & (ready == self.ready_before[who])
        self.ready_before[who] = ready
        return bool((states.running[who] & (trained | starting)).any())

    def _visible(self, present: Collection[int], cluster: Cluster | None) -> Positions:
        """The jobs that the policy sees: those present, without gangs that do not fit on the servers that are up."""
        if self._visible_jobs is None:
            who = np.fromiter(present, dtype=np.intp, count=len(present))
            model = self.dispatcher.model
            if cluster is not model.cluster:
                jobs = model.entities
                there = [0 if cluster is None else cluster.capacity[t] for t in jobs.types]
                room = np.where(jobs.task_speed[who] > 0, there, 0)
                enough = room.sum(axis=1) if self.steps.mixes else room.max(axis=1, initial=0)
                who = who[enough >= jobs.demand[who]]
            who.flags.writeable = False
            self._visible_jobs = who
        return self._visible_jobs


class OnlineDecider:
    """Passes each arrival and completion to an online scheduler. No job may run at the beginning."""

    def __init__(self, policy: OnlinePolicy, instance: Instance, dispatcher: Dispatcher) -> None:
        self.scheduler, self.dispatcher, self.states = policy.online(instance), dispatcher, dispatcher.states
        self.free = held_gpus({server.name: server.gpus for server in instance.cluster.servers})
        self.position = {job.name: i for i, job in enumerate(instance.jobs)}
        self.type = {t: k for k, t in enumerate(instance.cluster.type_names)}
        self.gpus_held = 0.0

    def arrive(self, i: int) -> None:
        """Pass the arrival to the scheduler."""
        self.scheduler.arrive(self.dispatcher.time, as_seen(self.states.jobs[i], 0))

    def finish(self, i: int) -> None:
        """Pass the completion to the scheduler."""
        for place, n in (self.states.where[i] or {}).items():
            self.free[place] += int(n)
            self.gpus_held -= n
        self.scheduler.finish(self.dispatcher.time, self.states.jobs[i])

    def change_servers(self) -> None:
        """Does not happen: these policies are not simulated with changes of servers."""

    def decide(self, present: Collection[int], _: Cluster | None) -> CarriedOut | None:
        """Call the scheduler, and start the jobs that it returns."""
        if not present:
            return None
        began = clock.perf_counter()
        starts = self.scheduler.decide(self.dispatcher.time)
        took = clock.perf_counter() - began
        for start in starts:
            self._begin(self._checked(start, present), start)
        return CarriedOut(took, self.scheduler.wake, self.gpus_held)

    def _checked(self, start: JobStart, present: Collection[int]) -> int:
        """Position of the job, which must be present, not running, and get all its GPUs."""
        i = self.position.get(start.job, -1)
        runs = i in present and bool(self.states.running[i])
        if i not in present or runs:
            raise InvalidPlan(f"the policy starts job {start.job!r}, which {'runs' if runs else 'is not present'}")
        gpus = sum(n for there in start.hosts.values() for n in there.values())
        if gpus != (demand := self.states.jobs[i].demand):
            raise InvalidPlan(f"the policy starts job {start.job!r} on {counted(gpus, 'GPU')}; it runs on {demand}")
        return i

    def _begin(self, i: int, start: JobStart) -> None:
        job = self.states.jobs[i]
        where, gpus = held_gpus(start.hosts), np.zeros(len(self.type))
        for (server, t), n in where.items():
            left = self.free.get((server, t), 0) - n
            if n < 0 or left < 0 or not job.throughput.get(t, 0.0):
                why = "fewer than 0" if n < 0 else f"free: {left + n}" if left < 0 else "it cannot run there"
                raise InvalidPlan(
                    f"the policy starts job {job.name!r} on {counted(n, 'GPU')} {t!r} of {server!r}; {why}"
                )
            self.free[server, t] = left
            gpus[self.type[t]] += n
            self.gpus_held += n
        if start.replicas:
            check_replicas(job, start.hosts, start.replicas)
        self.dispatcher.run(i, JobPlacement(gpus, where, start.hosts, start.replicas))
