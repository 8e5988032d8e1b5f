"""Run a policy on an instance through time: events, and the decisions between them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from os import PathLike
from time import perf_counter
from typing import TypeAlias

import numpy as np

from hetopt.checks import at_least, expect, shown
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance
from hetopt.decisions.online import OnlinePolicy
from hetopt.decisions.placers import Placer
from hetopt.decisions.rounders import Rounder
from hetopt.decisions.selection import Selection
from hetopt.decisions.system import DecisionSteps, System
from hetopt.errors import InvalidOption, Stalled
from hetopt.formulations.policies import Policy
from hetopt.formulations.traits import traits_of
from hetopt.simulation.checkpoints import CheckpointFile, Checkpoints
from hetopt.simulation.deciders import Decider, OnlineDecider, PolicyDecider, garbage_kept, stall_reason
from hetopt.simulation.dispatcher import Dispatcher
from hetopt.simulation.environment import Environment
from hetopt.simulation.execution_model import ExecutionModel
from hetopt.simulation.log import EventKind, Log, Recorder, check_job_window, in_window
from hetopt.simulation.overheads import Overhead
from hetopt.simulation.profiling_runs import ProfilingRuns
from hetopt.simulation.progress import REPORT_SECONDS, ProgressFunction, SimulationProgress, part_done
from hetopt.simulation.server_changes import ServerChange, check_changes, servers_up_at
from hetopt.simulation.view import InstanceView
from hetopt.stages.speed_models import SpeedModel, StageSpeeds


def simulate(
    policy: Policy | System,
    instance: Instance,
    *,
    round_seconds: float | None = None,
    fluid: bool = False,
    rounder: Rounder | None = None,
    selection: Selection | None = None,
    placer: Placer | None = None,
    overheads: Overhead | None = None,
    speeds: SpeedModel | None = None,
    environment: Environment | None = None,
    until: float = math.inf,
    max_rounds: int | None = None,
    patience: int = 1000,
    job_window: tuple[int, int] | None = None,
    progress: bool | ProgressFunction = False,
    checkpoint: str | PathLike[str] | Checkpoints | None = None,
) -> Log:
    """Run ``policy`` on the jobs of ``instance`` until all are finished.

    Parameters
    ----------
    policy:
        A formulation or policy over tenants or jobs, or a :class:`~hetopt.decisions.system.System`; steps given here
        override the system's. The policy sees the unfinished jobs that have arrived, their tenants and job types, the
        time, the work done, the GPUs held and the servers; its only memory is the state that it returns.
    instance:
        The jobs, with their arrivals; time starts at ``instance.time``. Jobs that hold GPUs or are placed, run.
    round_seconds:
        Length of a round: decisions are made at the start of each round, jobs that arrive in between wait, and a job
        that finishes frees its GPUs at the end of the round. Default: the policy's traits. Without rounds, a decision
        is made at each arrival and at each completion.
    fluid:
        Run shares of jobs as rates, without rounding and restarts.
    rounder, selection, placer:
        From shares to whole GPUs or jobs (default :class:`~hetopt.decisions.rounders.ByKind`), from tenants' GPUs to
        jobs (:class:`~hetopt.decisions.selection.LongestStarved`), from GPU types to servers (default: jobs get GPU
        types only).
    environment:
        Costs, speeds, datasets, profiling, server failures and wrong estimates, the same for every policy. Default
        :class:`~hetopt.simulation.environment.Environment`: only the transfer of checkpoints takes time.
    overheads, speeds:
        Replace these parts of the environment.
    until, max_rounds:
        Stop at this second, or after this number of decisions; unfinished jobs have no finish time.
    patience:
        Successive decisions without progress after which the simulation counts as stalled.
    job_window:
        (first, end): stop at the first decision after all jobs with these numbers have finished, counted from 0 in
        order of arrival, the end exclusive. The log's metrics of jobs are over them (:attr:`Log.job_window`), so that
        they are those of a steady state, as Gavel reports them.
    progress:
        True: show the progress on standard error, in a terminal continually, elsewhere by a line each minute. A
        function: called with the :class:`~hetopt.simulation.progress.SimulationProgress`, at most once per second and
        at the end.
    checkpoint:
        File to which the state is written about every minute of wall-clock time; the same call continues from there
        after an interruption, with the same log except for ``decision_seconds``. See
        :class:`~hetopt.simulation.checkpoints.Checkpoints`.

    Returns
    -------
    Log

    Raises
    ------
    Stalled
        No job makes progress any more.
    InvalidPlan
        The policy, rounder or placer returned a result that the cluster cannot carry out.
    InvalidInstance, InvalidOption
        No jobs, or settings out of range.
    OtherCheckpoint
        The checkpoint belongs to another instance, system or environment, other limits or versions.
    UnusableFile
        The checkpoint cannot be read or written.

    Warns
    -----
    CheckpointWarning
        The checkpoint is damaged, or no state can be written; the simulation runs nevertheless.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import gavel
    >>> jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    >>> log = hetopt.simulate(gavel.max_min_fairness(), jobs, fluid=True)
    >>> round(float(log.jobs["jct"].sum()) / 300, 4)
    7.1111
    """
    system = System.of(
        policy, round_seconds=round_seconds, rounder=rounder, selection=selection, placer=placer, fluid=fluid
    )
    expect(Instance, instance, "instance").entities("jobs")
    limit = math.inf if max_rounds is None else at_least(max_rounds, "max_rounds", 1, InvalidOption)
    at_least(patience, "patience", 1, InvalidOption)
    if until != math.inf and not at_least(until, "until", 0.0, InvalidOption) > instance.time:
        raise InvalidOption(f"is {until!r} s; it must be later than instance.time = {instance.time:g} s", "until")
    conditions = _environment(environment, overheads, speeds)
    window = None if job_window is None else check_job_window(job_window, len(instance.jobs))
    file, saved = None, None
    if checkpoint is not None:
        limits = {"until": until, "max_rounds": max_rounds, "patience": patience, "job_window": window}
        inputs = {"instance": instance, "system": system, "environment": conditions, "limits": limits}
        file = CheckpointFile(Checkpoints.of(checkpoint), inputs)
        saved = file.read()
    simulator, spent = saved or (_simulator(system, instance, conditions, patience), 0.0)
    if window is not None and saved is None:
        simulator.stop_after(window)
    with _reporting(progress) as report:
        began, earlier = perf_counter() - spent, simulator.progress(until, limit, spent)
        going, last = True, -math.inf
        while going:
            going = simulator.step(until, limit)
            seconds = perf_counter() - began
            if file is not None and going:
                file.write_if_due((simulator, seconds))
            if report is not None and (seconds >= last + REPORT_SECONDS or not going):
                last = seconds
                report(simulator.progress(until, limit, seconds, earlier))
    return replace(simulator.log(), job_window=window)


@contextmanager
def _reporting(progress: bool | ProgressFunction) -> Iterator[ProgressFunction | None]:
    """The function to call; for True that of the presentation, found by name: simulations do not depend on it."""
    if progress is True:
        with import_module("hetopt.presentation.simulation_progress").shown_progress() as report:
            yield report
    else:
        if progress and not callable(progress):
            raise InvalidOption(f"is {shown(progress)}; it must be True, False or a function", "progress")
        yield progress or None


def _environment(given: Environment | None, overheads: Overhead | None, speeds: SpeedModel | None) -> Environment:
    environment = Environment() if given is None else expect(Environment, given, "environment", InvalidOption)
    return replace(environment, overheads=overheads or environment.overheads, speeds=speeds or environment.speeds)


def _simulator(system: System, instance: Instance, environment: Environment, patience: int) -> Simulator:
    """The simulator for the policy: event by event for an online policy without rounds, else the general one."""
    policy, seconds = system.policy, system.seconds
    speeds = environment.speeds or traits_of(policy).speeds or StageSpeeds()
    steps = system.steps(speeds)
    if environment.datasets is not None and not steps.places:
        raise InvalidOption("needs servers, and this policy chooses none: give a placer", "Environment.datasets")
    if isinstance(policy, OnlinePolicy) and seconds is None and not instance.held and not system.fluid:
        if environment.changes or environment.estimate_errors is not None:
            raise InvalidOption(
                f"{type(policy).__name__} decides event by event and never preempts a job; Environment.changes and "
                "Environment.estimate_errors need decisions in rounds: give round_seconds"
            )
        return Simulator(instance, steps, environment, None, partial(OnlineDecider, policy, instance))
    return Simulator(instance, steps, environment, seconds, partial(PolicyDecider, steps, patience))


ScheduledEvent: TypeAlias = tuple[float, EventKind, int, Callable[[], None]]
"""(time, kind, counter, handler)."""


class Simulator:
    """Handles events in the order (time, kind, counter), and has the decider decide between them.

    Parameters
    ----------
    seconds:
        Length of a round; None: without rounds.
    decider:
        Makes the decider, see :mod:`hetopt.simulation.deciders`.

    Attributes
    ----------
    full_cluster, cluster:
        The cluster of the instance, and that of the servers that are up; None if they have no GPU.
    coming, present:
        The unfinished jobs that have not arrived, and those that the policy may see, in order of arrival. A job that is
        being profiled is in neither.
    agenda:
        The scheduled events: changes of servers and profiling. Completions, arrivals and decisions are not among them.
    awaited:
        The unfinished jobs for which the simulation goes on.
    round, decisions:
        Number of the round of the next decision, and of the decisions so far; rounds without visible jobs have none.
    changed:
        Whether something has happened since the last decision, so that one is needed now; for decisions without rounds.
    policy_wake:
        Second at which the policy decides again if nothing happens before, without rounds; infinity: not specified.
    """

    def __init__(
        self,
        instance: Instance,
        steps: DecisionSteps,
        environment: Environment,
        seconds: float | None,
        decider: Callable[[Dispatcher], Decider],
    ) -> None:
        self.began, self.seconds = instance.time, seconds
        self.environment, self.full_cluster = environment, instance.cluster
        self.round, self.decisions, self.changed = 0, 0, False
        self.policy_wake = math.inf
        errors = environment.estimate_errors
        view = InstanceView(instance, instance if errors is None else errors.of(instance))
        self.record = Recorder(float(sum(instance.cluster.capacity.values())), view.throughput_column)
        model = ExecutionModel(instance, environment, steps.speeds, steps.fluid)
        self.dispatcher = Dispatcher(instance, view, self.record, model, in_rounds=seconds is not None)
        self.states, self.decider = self.dispatcher.states, decider(self.dispatcher)
        self.agenda: list[ScheduledEvent] = []
        self._scheduled = 0
        changes = check_changes(environment.changes, self.full_cluster)
        self.up = servers_up_at(self.began, changes, self.full_cluster)
        self.cluster = self._available_cluster()
        for change in changes:
            if change.time >= self.began:
                kind = EventKind.UP if change.up else EventKind.DOWN
                self._schedule(change.time, kind, partial(self._change, change))
        unfinished = np.flatnonzero(self.states.left > 0)
        arrival = instance.job_array("arrival")
        self.coming = deque(unfinished[np.argsort(arrival[unfinished], kind="stable")].tolist())
        self.present: dict[int, None] = {}
        self.stop_after((0, len(self.states.jobs)))
        self.profiling_runs = ProfilingRuns(
            0.0 if environment.profiling is None else environment.profiling.seconds,
            self.dispatcher,
            self._capacity,
            self.present,
            self._schedule_profiling,
            self._arrive,
        )
        places = steps.places
        for i in unfinished.tolist() if instance.held or instance.placed else ():
            self.dispatcher.start_held(instance, i, places)

    @property
    def time(self) -> float:
        """Now, in seconds."""
        return self.dispatcher.time

    def stop_after(self, window: tuple[int, int]) -> None:
        """Stop when the jobs with these numbers, in order of arrival, have finished."""
        inside = np.flatnonzero(in_window(self.states.entities.source.job_array("arrival"), window))
        self.awaited = set(inside[self.states.left[inside] > 0].tolist())
        self.window = window

    def step(self, until: float, limit: float) -> bool:
        """Advance to the next event and handle all events of that time; False at the end of the simulation."""
        if not self._has_jobs():
            return self._close(self.time if self.seconds is None else min(self._next_decision(), until))
        time = min(self._next_outside_event(), self.states.next_end, self._next_decision())
        if math.isinf(time):
            raise self._stalled("no job runs and no more jobs arrive")
        if time > until:
            return self._close(until)
        self.dispatcher.time = time
        while (i := self.states.pop_finished(time)) is not None:
            self._finish(i)
        self._handle_events(EventKind.ARRIVE)
        while self.coming and self.states.jobs[self.coming[0]].arrival <= time:
            self._submit(self.coming.popleft())
        self._handle_events(EventKind.DECIDE)
        if self._next_decision() == time:
            if time == until or not self.awaited or (self.decisions >= limit and self.present):
                return self._close(time)
            self._decide()
        return True

    def progress(
        self, until: float, limit: float, seconds: float, earlier: SimulationProgress | None = None
    ) -> SimulationProgress:
        """The progress after ``seconds`` of wall-clock time; arguments as of :meth:`step`."""
        jobs, simulated = self.window[1] - self.window[0], self.time - self.began
        finished = jobs - len(self.awaited)
        before_end = np.flatnonzero(in_window(self.states.entities.source.job_array("arrival"), (0, self.window[1])))
        part = 1.0 if not self.awaited else part_done(*self.states.parts_done(self.time, before_end))
        part = max(part, simulated / (until - self.began), self.decisions / limit)
        return SimulationProgress(simulated, finished, jobs, self.decisions, part, seconds, earlier)

    def _schedule(self, time: float, kind: EventKind, what: Callable[[], None]) -> None:
        heappush(self.agenda, (time, kind, self._scheduled, what))
        self._scheduled += 1

    def _schedule_profiling(self, time: float, what: Callable[[], None]) -> None:
        self._schedule(time, EventKind.PROFILE, what)

    def _handle_events(self, before: EventKind) -> None:
        """Handle the scheduled events of now and of kinds before this one."""
        while self.agenda and self.agenda[0][:2] < (self.time, before):
            heappop(self.agenda)[3]()

    def _has_jobs(self) -> bool:
        """Whether a job is unfinished."""
        return bool(self.coming or self.present or self.profiling_runs.pending)

    def _next_outside_event(self) -> float:
        """Second of the next arrival or scheduled event; infinity for never."""
        arrival = max(self.time, self.states.jobs[self.coming[0]].arrival) if self.coming else math.inf
        return min(arrival, self.agenda[0][0]) if self.agenda else arrival

    def _next_decision(self) -> float:
        if self.seconds is None:
            return self.time if self.changed else max(self.time, min(self.policy_wake, self.dispatcher.copies_end))
        return self.began + self.round * self.seconds

    def _round_at(self, time: float) -> int:
        """The first round that starts at ``time`` or later."""
        if self.seconds is None:
            return 0
        number = max(0, math.floor((time - self.began) / self.seconds) - 1)
        while self.began + number * self.seconds < time:
            number += 1
        return number

    def _stalled(self, why: str) -> Stalled:
        return Stalled(f"at {self.time:g} s {why}; {stall_reason(self.states, self.present)}")

    def _submit(self, i: int) -> None:
        """Submit a job; it is profiled first if the environment has profiling."""
        job, profiling = self.states.jobs[i], self.environment.profiling
        self.record.event(self.time, EventKind.ARRIVE, job.name)
        types = () if profiling is None or self.cluster is None else profiling.types(job, self.cluster)
        if types and not self.states.running[i]:
            self._schedule_profiling(self.time, partial(self.profiling_runs.submit, i, types))
        else:
            self._arrive(i)

    def _arrive(self, i: int) -> None:
        """Make the job visible to the policy."""
        self.present[i], self.changed = None, True
        self.states.first_round[i] = self._round_at(self.time)
        self.decider.arrive(i)

    def _finish(self, i: int) -> None:
        self.dispatcher.finish(i)
        if self.seconds is not None:
            self.states.rounds[i] = self.round - self.states.first_round[i]
        self.record.event(self.time, EventKind.FINISH, self.states.jobs[i].name)
        del self.present[i]
        self.awaited.discard(i)
        self.changed = True
        self.decider.finish(i)

    def _capacity(self, gpu_type: str) -> int:
        """GPUs of the type that are up."""
        return 0 if self.cluster is None else self.cluster.capacity[gpu_type]

    def _available_cluster(self) -> Cluster | None:
        """The cluster of the servers that are up; None if they have no GPU."""
        if len(self.up) == len(self.full_cluster.servers):
            return self.full_cluster
        servers = tuple(server for server in self.full_cluster.servers if server.name in self.up)
        return Cluster(self.full_cluster.gpu_types, servers) if any(any(s.gpus.values()) for s in servers) else None

    def _change(self, change: ServerChange) -> None:
        """Bring a server up, or take it down, so that its jobs lose their GPUs."""
        self.record.event(self.time, EventKind.UP if change.up else EventKind.DOWN, change.server)
        (self.up.add if change.up else self.up.discard)(change.server)
        self.cluster = self._available_cluster()
        self.changed = True
        self.decider.change_servers()
        if change.up:
            return
        if self.dispatcher.model.disks is not None:
            self.dispatcher.model.disks.lose(change.server)
        for i in self.present:
            if self.states.running[i] and any(server == change.server for server, _ in self.states.where[i] or {}):
                self.dispatcher.fail(i, change.server)
        self._shrink()

    def _shrink(self) -> None:
        """Take the GPUs of the jobs that started last until the others fit the capacity; for jobs without servers."""
        for k, t in enumerate(self.dispatcher.model.entities.types):
            there = self._capacity(t)
            holders = sorted(
                (i for i in self.present if self.states.held[i, k] > 0), key=lambda i: self.states.since[i]
            )
            while sum(float(self.states.held[i, k]) for i in holders) > there:
                self.dispatcher.fail(holders.pop())

    def _decide(self) -> None:
        """Have the decider decide, and record it."""
        self.record.end_round(self.time)
        self.changed, self.policy_wake = False, math.inf
        done = self.decider.decide(self.present, self.cluster)
        if done is None:
            self._skip()
            return
        self.record.event(self.time, EventKind.DECIDE)
        self.decisions, self.round, self.policy_wake = self.decisions + 1, self.round + 1, done.wake
        if self.profiling_runs.pending:
            self.profiling_runs.make_way()
        running = self.states.number_running
        self.record.begin_round(self.time, len(self.present), running, done.held, done.given_up, done.seconds)
        self.record.estimate(done.estimated)

    def _skip(self) -> None:
        """Skip to the round of the next arrival or scheduled event, since no job is visible."""
        if not self._has_jobs():
            return
        if math.isinf(soon := self._next_outside_event()):
            raise self._stalled("too few servers are up, and none comes back")
        self.round = self._round_at(soon)

    def _close(self, time: float) -> bool:
        """End the simulation: record the work done until then."""
        self.dispatcher.time = time
        self.dispatcher.preempt([i for i in self.present if self.states.running[i]])
        self.record.end_round(time)
        return False

    def log(self) -> Log:
        """The tables."""
        with garbage_kept():
            return self.record.log(self.states.rows(self.time), self.time)
