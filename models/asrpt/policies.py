"""A-SRPT and the policies that it is compared with, on the same placement [ASRPT, sections IV-C and V-A]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from hetopt.checks import at_least, boolean, shown
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.decisions.online import JobStart
from hetopt.decisions.speed_models import StageSpeeds
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.asrpt.fleet import Fleet, Offer
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.scheduler import InOrder, NonPreemptive, ShortestRemaining
from hetopt.models.asrpt.tasks import Choices, Task
from hetopt.prediction.predictors import Learner, Perfect, Predictor
from hetopt.results.allocation import Placement, Plan
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.mapping import Mapper
from hetopt.stages.servers import Servers

Key = Literal["duration", "workload", "submission"]


class Events:
    """A scheduler of tasks, told of jobs: predicts their iterations, and learns from those that finish.

    The state that a policy returns; see :class:`NonPreemptivePolicy`.
    """

    def __init__(
        self, cluster: Cluster, fleets: Sequence[Fleet | None], scheduler: NonPreemptive, learner: Learner
    ) -> None:
        self.cluster, self.scheduler, self.learner = cluster, scheduler, learner
        self.choices = Choices(cluster, fleets)
        self.present: dict[str, Job] = {}
        self.time = -np.inf

    def copy(self) -> Events:
        """An independent one in the same state."""
        made = object.__new__(Events)
        made.__dict__.update(self.__dict__)
        made.scheduler, made.learner, made.present = self.scheduler.copy(), self.learner.copy(), dict(self.present)
        return made

    def arrive(self, time: float, job: Job) -> None:
        """``job`` has arrived.

        Raises
        ------
        InvalidInstance
            The cluster never has room for it.
        InvalidOption
            The predictor says what is no number of iterations.
        """
        self.present[job.name] = job
        choices = self.choices.of(job)
        if not choices:  # until there are GPUs that it can run on
            return
        self.scheduler.arrive(time, Task(job.name, job.demand, choices, self._predicted(job)))

    def _predicted(self, job: Job) -> float:
        answer = self.learner.predict([job])
        try:
            (predicted,) = np.asarray(answer, dtype=float).tolist()
        except (TypeError, ValueError):  # no numbers, or not one
            raise InvalidOption(f"the predictor says {shown(answer)} for one job; it must be one number") from None
        if not 0 <= predicted < np.inf:
            raise InvalidOption(f"the predictor says {predicted} for job {job.name!r}; it must be a finite number >= 0")
        return float(predicted)

    def finish(self, time: float, job: Job) -> None:
        """``job`` is done."""
        del self.present[job.name]
        self.scheduler.finish(job.name)
        self.learner.observe([job])

    def leave(self, time: float, job: Job) -> None:
        """``job`` is no longer there: done if it ran, else withdrawn."""
        if job.name in self.scheduler.running:
            self.finish(time, job)
        else:
            del self.present[job.name]
            self.scheduler.withdraw(time, job.name)

    def decide(self, time: float) -> list[JobStart]:
        """The jobs that start."""
        self.time = time
        return [self._start(started.task.name, started.offer) for started in self.scheduler.decide(time)]

    @property
    def wake(self) -> float:
        """When to ask again if nothing happens before."""
        return float(self.scheduler.wake)

    def running(self) -> list[JobStart]:
        """All jobs that run, in the order in which they arrived."""
        there = self.scheduler.running
        return [self._start(name, there[name]) for name in self.present if name in there]

    def _start(self, name: str, offer: Offer) -> JobStart:
        fleet = self.scheduler.fleets[offer.fleet]
        assert fleet is not None
        kind, names = self.cluster.type_names[offer.fleet], fleet.servers.names
        hosts = {names[seat.server]: {kind: seat.gpus} for seat in offer.seats}
        staged = bool(self.present[name].stages)
        return JobStart(name, hosts, {names[s.server]: s.replicas for s in offer.seats} if staged else {})


@dataclass(frozen=True)
class NonPreemptivePolicy(ABC):
    """Settings that all of them share.

    Jobs without stages take ``1 / throughput`` seconds per unit of work wherever they are. A job uses GPUs of one type:
    the fastest of its types that has enough free (the paper's cluster has one type).

    Parameters
    ----------
    predictor:
        Tells how many iterations (units of work) a job will take; the truth by default, as in A-SRPT-Perfect.
    comm_heavy:
        Ratio alpha_max / alpha~_min from which a job is heavy in communication and gets servers with many free GPUs.
    mapper:
        Maps replicas to the GPUs chosen; equal servers must have equal rights.
    timing:
        What an iteration takes.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    predictor: Predictor = field(default_factory=Perfect)
    comm_heavy: float = 1.5
    mapper: Mapper = field(default_factory=HeavyEdge)
    timing: Timing = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        at_least(self.comm_heavy, f"{type(self).__name__}.comm_heavy", 1.0, InvalidOption)
        for key, method in (("predictor", "learner"), ("mapper", "__call__"), ("timing", "__call__")):
            if isinstance(made := getattr(self, key), type):
                raise InvalidOption(f"{key} is the class {made.__name__}; give one of it: {made.__name__}()")
            if not callable(getattr(made, method, None)):
                hint = f"; hetopt.registry.make_{key} finds one by name" if isinstance(made, str) else ""
                raise InvalidOption(f"{type(self).__name__}.{key} is {shown(made)}, which is no {key}{hint}")

    @abstractmethod
    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptive:
        """The order of jobs, on fleets of GPU types (None: a type without GPUs)."""

    @property
    def speeds(self) -> StageSpeeds:
        """What a simulation takes for true unless it is told otherwise: the same iteration times."""
        return StageSpeeds(self.timing)

    def online(self, instance: Instance) -> Events:
        """A scheduler that is told of each event; jobs that are placed in ``instance`` run on.

        Raises
        ------
        InvalidInstance
            A server without GPUs, a job placed on several GPU types, or on GPUs that its slices do not fit.
        """
        fleets = [
            Fleet(Servers.of(instance, t, busy=False), self.mapper, self.timing, i) if n else None
            for i, (t, n) in enumerate(instance.cluster.capacity.items())
        ]
        learner = self.predictor.learner()
        if not callable(getattr(learner, "predict", None)):
            raise InvalidOption(f"{type(self.predictor).__name__}.learner() is {shown(learner)}, which cannot predict")
        events = Events(instance.cluster, fleets, self.scheduler(fleets), learner)
        for name in instance.placed:
            events.present[name] = instance.job[name]
            events.scheduler.adopt(name, _adopted(instance, name, events.choices, fleets))
        return events

    def __call__(self, instance: Instance, state: Events | None = None) -> tuple[Plan, Events]:
        """Who runs where from now on; the state remembers who waits in which order, and what was learned.

        Jobs that are no longer in ``instance`` count as finished if they ran, else as withdrawn; those that are new as
        arrived when they say. Where servers have come or gone, the order begins anew, with what was learned: jobs that
        still run stay where they are, the others arrive again when they said.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later or that no GPU type has room for, a state of a later time; see
            :meth:`online`.
        """
        present_entities(instance, "jobs", type(self).__name__)
        events = self.online(instance) if state is None else state.copy()
        if instance.time < events.time:
            raise InvalidInstance(
                f"instance.time is {instance.time:g}; the state is of {events.time:g} s, later than that"
            )
        for name in [name for name in events.present if name not in instance.job]:
            events.leave(instance.time, events.present[name])
        if events.cluster != instance.cluster:
            learner, events = events.learner, self.online(instance)
            events.learner = learner
        new = [job for job in instance.jobs if job.name not in events.present]
        for job in sorted(new, key=lambda job: job.arrival):
            events.arrive(job.arrival, job)
        events.decide(instance.time)
        return _plan(instance, events), events


def _adopted(instance: Instance, name: str, choices: Choices, fleets: Sequence[Fleet | None]) -> Offer:
    placed = instance.placed[name]
    kinds = {t for gpus in placed.values() for t, n in gpus.items() if n}
    for choice in choices.of(instance.job[name]):
        fleet, kind = fleets[choice.fleet], instance.cluster.type_names[choice.fleet]
        if kinds == {kind} and fleet is not None:
            gpus = [(fleet.servers.names.index(server), n[kind]) for server, n in placed.items() if n.get(kind, 0)]
            if (offer := fleet.on(choice.pipeline, gpus)) is not None:
                return offer
    raise InvalidInstance(
        f"placed[{name!r}] is {dict(placed)!r}; it must hold GPUs of one type with room for its stages"
    )


def _plan(instance: Instance, events: Events) -> Plan:
    entities = instance.entities("jobs")
    x = np.zeros(entities.shape)
    running = events.running()
    for start in running:
        for gpus in start.hosts.values():
            for t, n in gpus.items():
                x[entities.position[start.job], entities.types.index(t)] += n
    replicas = {start.job: start.replicas for start in running if start.replicas}
    placement = Placement({start.job: start.hosts for start in running}, replicas=replicas)
    wake = events.wake
    return Plan(entities, x, placement=placement, wake=None if np.isinf(wake) else wake)


@dataclass(frozen=True)
class ASRPT(NonPreemptivePolicy):
    """A-SRPT: jobs in the order in which a virtual machine completes them by shortest remaining predicted time.

    [ASRPT, Algorithm 1], in continuous time, decided at arrivals, completions, completions on the virtual machine and
    ends of delays.

    Parameters
    ----------
    delay:
        tau >= 0: how long a job that is heavy in communication waits for better GPUs, in units of its predicted time on
        the virtual machine. The paper's testbed takes 0; what its simulations take is not printed (1 is our choice).
    """

    delay: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.delay, "ASRPT.delay", 0.0, InvalidOption)

    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptive:
        """Algorithm 1."""
        return ShortestRemaining(fleets, self.comm_heavy, self.delay)


@dataclass(frozen=True)
class Ordered(NonPreemptivePolicy):
    """Jobs start in a fixed order: the baselines of [ASRPT, section V-A].

    Parameters
    ----------
    key:
        ``"duration"``: shortest predicted duration first; ``"workload"``: that times GPUs; ``"submission"``: as they
        arrive. Equals in the order in which they arrive.
    conserving:
        Whether a job may overtake those that do not fit (WCS, work-conserving); else nobody starts before the first.
    """

    key: Key = "duration"
    conserving: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.key not in get_args(Key):
            raise InvalidOption(f"Ordered.key is {self.key!r}; it must be one of {', '.join(get_args(Key))}")
        boolean(self.conserving, "Ordered.conserving")

    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptive:
        """A queue in that order."""
        return InOrder(fleets, self.comm_heavy, self.key, conserving=self.conserving)


@dataclass(frozen=True)
class SPJF(Ordered):
    """SPJF: shortest predicted job first; nobody overtakes it."""

    key: Key = field(default="duration", init=False)
    conserving: bool = field(default=False, init=False)


@dataclass(frozen=True)
class SPWF(Ordered):
    """SPWF: smallest predicted workload (duration times GPUs) first; nobody overtakes it."""

    key: Key = field(default="workload", init=False)
    conserving: bool = field(default=False, init=False)


@dataclass(frozen=True)
class WCSDuration(Ordered):
    """WCS-Duration: whoever fits starts, shortest predicted duration first."""

    key: Key = field(default="duration", init=False)
    conserving: bool = field(default=True, init=False)


@dataclass(frozen=True)
class WCSWorkload(Ordered):
    """WCS-Workload: whoever fits starts, smallest predicted workload first."""

    key: Key = field(default="workload", init=False)
    conserving: bool = field(default=True, init=False)


@dataclass(frozen=True)
class WCSSubTime(Ordered):
    """WCS-SubTime: whoever fits starts, in the order of submission."""

    key: Key = field(default="submission", init=False)
    conserving: bool = field(default=True, init=False)
