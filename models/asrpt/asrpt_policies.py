"""A-SRPT and its baselines, on the same placement [ASRPT, sections IV-C and V-A]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from hetopt.checks import at_least, boolean, check_no_classes, one_of, shown
from hetopt.data.cluster import Cluster
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.decisions.online import JobStart
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.formulations.traits import Traits
from hetopt.models.asrpt.fleet import CandidatePlacement, Fleet, PredictedJob, TypeOptions
from hetopt.models.asrpt.heavy_edge import HeavyEdge
from hetopt.models.asrpt.non_preemptive import ListScheduler, NonPreemptiveScheduler, VirtualSRPTScheduler
from hetopt.prediction.predictors import Learner, Perfect, Predictor
from hetopt.results.allocation import Placement, Plan
from hetopt.stages.iteration_time import Asynchronous, Timing
from hetopt.stages.mapping import Mapper
from hetopt.stages.servers import Servers
from hetopt.stages.speed_models import StageSpeeds

Key = Literal["duration", "workload", "submission"]

ServerChoice = Literal["least-available", "most-available", "by-communication"]


class FleetScheduler:
    """An event-driven scheduler of jobs: it predicts their iterations and learns from finished jobs.

    It is also the state of :class:`NonPreemptivePolicy`.
    """

    def __init__(
        self, cluster: Cluster, fleets: Sequence[Fleet | None], scheduler: NonPreemptiveScheduler, learner: Learner
    ) -> None:
        self.cluster, self.scheduler, self.learner = cluster, scheduler, learner
        self.options = TypeOptions(cluster, fleets)
        self.present: dict[str, Job] = {}
        self.time = -np.inf

    def copy(self) -> FleetScheduler:
        """An independent copy."""
        made = copy(self)
        made.scheduler, made.learner, made.present = self.scheduler.copy(), self.learner.copy(), dict(self.present)
        return made

    def arrive(self, time: float, job: Job) -> None:
        """``job`` arrives at ``time``.

        Raises
        ------
        InvalidInstance
            It does not fit on the empty cluster.
        InvalidOption
            The prediction is not a number of iterations.
        """
        self.present[job.name] = job
        options = self.options.of(job)
        if not options:  # no GPUs that it can run on now
            return
        self.scheduler.arrive(time, PredictedJob(job.name, job.demand, options, self._predicted(job)))

    def _predicted(self, job: Job) -> float:
        prediction = self.learner.predict([job])
        try:
            (predicted,) = np.asarray(prediction, dtype=float).tolist()
        except (TypeError, ValueError):  # no numbers, or not one
            raise InvalidOption(
                f"the predictor returned {shown(prediction)} for one job; it must be one number"
            ) from None
        if not 0 <= predicted < np.inf:
            raise InvalidOption(
                f"the predictor returned {predicted} for job {job.name!r}; it must be a finite number >= 0"
            )
        return float(predicted)

    def finish(self, time: float, job: Job) -> None:
        """``job`` finishes at ``time``."""
        del self.present[job.name]
        self.scheduler.finish(job.name)
        self.learner.observe([job])

    def leave(self, time: float, job: Job) -> None:
        """``job`` leaves at ``time``: it finishes if it runs, else it is withdrawn."""
        if job.name in self.scheduler.running:
            self.finish(time, job)
        else:
            del self.present[job.name]
            self.scheduler.withdraw(time, job.name)

    def decide(self, time: float) -> list[JobStart]:
        """The jobs that start."""
        self.time = time
        return [self._start(started.job.name, started.placement) for started in self.scheduler.decide(time)]

    @property
    def wake(self) -> float:
        """Time of the next decision if nothing happens before."""
        return float(self.scheduler.wake)

    def running(self) -> list[JobStart]:
        """All running jobs in the order of arrival."""
        there = self.scheduler.running
        return [self._start(name, there[name]) for name in self.present if name in there]

    def _start(self, name: str, placement: CandidatePlacement) -> JobStart:
        fleet = self.scheduler.fleets[placement.fleet]
        assert fleet is not None
        gpu_type, names = self.cluster.type_names[placement.fleet], fleet.servers.names
        hosts = {names[slot.server]: {gpu_type: slot.gpus} for slot in placement.slots}
        staged = bool(self.present[name].stages)
        return JobStart(name, hosts, {names[s.server]: s.replicas for s in placement.slots} if staged else {})


@dataclass(frozen=True)
class NonPreemptivePolicy(ABC):
    """Base of A-SRPT and its baselines, with their common settings.

    Jobs without stages take ``1 / throughput`` seconds per unit of work on any placement. A job uses GPUs of one type:
    the fastest of its types with enough free GPUs (the paper's cluster has one type).

    Parameters
    ----------
    predictor:
        Predictor of the number of iterations (units of work) of a job; by default perfect, as in A-SRPT-Perfect.
    comm_heavy:
        Ratio alpha_max / alpha~_min from which a job is communication-heavy and gets servers with many free GPUs.
    mapper:
        Maps replicas to the chosen GPUs; it must treat equal servers equally.
    timing:
        Model of the iteration time.

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
        check_no_classes(self, "predictor", "mapper", "timing")
        for key, method in (("predictor", "learner"), ("mapper", "__call__"), ("timing", "__call__")):
            if not callable(getattr(made := getattr(self, key), method, None)):
                hint = f"; hetopt.registry.make_{key} finds one by name" if isinstance(made, str) else ""
                raise InvalidOption(f"is {shown(made)}, which is not a {key}{hint}", f"{type(self).__name__}.{key}")

    @abstractmethod
    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptiveScheduler:
        """The order of jobs, on fleets of GPU types (None: a type without GPUs)."""

    @property
    def traits(self) -> Traits:
        """It chooses servers, and assumes its own model of the iteration time."""
        return Traits(places=True, speeds=StageSpeeds(self.timing))

    def online(self, instance: Instance) -> FleetScheduler:
        """An event-driven scheduler; jobs that are placed in ``instance`` continue.

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
            raise InvalidOption(
                f"is {shown(learner)}, which cannot predict", f"{type(self.predictor).__name__}.learner()"
            )
        events = FleetScheduler(instance.cluster, fleets, self.scheduler(fleets), learner)
        for name in instance.placed:
            events.present[name] = instance.job[name]
            events.scheduler.adopt(name, _adopted(instance, name, events.options, fleets))
        return events

    def __call__(self, instance: Instance, state: FleetScheduler | None = None) -> tuple[Plan, FleetScheduler]:
        """The plan from now on with its placement; the state holds the queue and the learned predictor.

        Jobs that are no longer in ``instance`` count as finished if they ran, else as withdrawn; new jobs arrive at
        their arrival time. If servers have changed, the queue is rebuilt, and only the learned predictor is kept:
        running jobs stay where they are, other jobs arrive again at their arrival time.

        Raises
        ------
        InvalidInstance
            No jobs, jobs that arrive later or that fit on no GPU type, a state of a later time; see :meth:`online`.
        """
        present_entities(instance, "jobs", type(self).__name__)
        events = self.online(instance) if state is None else state.copy()
        if instance.time < events.time:
            raise InvalidInstance(
                f"is {instance.time:g}; the state is of {events.time:g} s, later than that", "instance.time"
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


def _adopted(instance: Instance, name: str, options: TypeOptions, fleets: Sequence[Fleet | None]) -> CandidatePlacement:
    placed = instance.placed[name]
    gpu_types = {t for gpus in placed.values() for t, n in gpus.items() if n}
    for option in options.of(instance.job[name]):
        fleet, gpu_type = fleets[option.fleet], instance.cluster.type_names[option.fleet]
        if gpu_types == {gpu_type} and fleet is not None:
            gpus = [
                (fleet.servers.names.index(server), n[gpu_type]) for server, n in placed.items() if n.get(gpu_type, 0)
            ]
            if (placement := fleet.on(option.pipeline, gpus)) is not None:
                return placement
    raise InvalidInstance(
        f"is {dict(placed)!r}; it must hold GPUs of one type with room for its stages", ("placed", Item(name))
    )


def _plan(instance: Instance, events: FleetScheduler) -> Plan:
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
        tau >= 0: how long a communication-heavy job waits for better GPUs, in units of its predicted time on the
        virtual machine. The paper's testbed uses 0; the value of its simulations is not printed (1 is our choice).
    """

    delay: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.delay, "ASRPT.delay", 0.0, InvalidOption)

    @property
    def traits(self) -> Traits:
        """Jobs wait for the virtual machine."""
        waits = "jobs start in the order in which the virtual machine completes them, not before"
        return replace(super().traits, idles=waits)

    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptiveScheduler:
        """Algorithm 1."""
        return VirtualSRPTScheduler(fleets, self.comm_heavy, self.delay)


@dataclass(frozen=True)
class ListPolicy(NonPreemptivePolicy):
    """List scheduling: jobs start in a fixed order, the baselines of [ASRPT, section V-A].

    The paper does not say how baselines choose servers. By default they ignore communication (Algorithm 1, line 22).

    Parameters
    ----------
    key:
        ``"duration"``: shortest predicted duration first; ``"workload"``: smallest duration times GPUs first;
        ``"submission"``: order of arrival. Ties in the order of arrival.
    conserving:
        Whether a job may overtake jobs that do not fit (WCS, work-conserving); else no job starts before the first.
    servers:
        ``"least-available"``: those with the fewest free GPUs first; ``"most-available"``: those with the most, the
        order of Heavy-Edge; ``"by-communication"``: as A-SRPT, the most for communication-heavy jobs and the fewest for
        others; only this uses ``comm_heavy``.
    """

    key: Key = "duration"
    conserving: bool = False
    servers: ServerChoice = "least-available"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.key, get_args(Key), "ListPolicy.key")
        boolean(self.conserving, "ListPolicy.conserving")
        one_of(self.servers, get_args(ServerChoice), f"{type(self).__name__}.servers")

    @property
    def traits(self) -> Traits:
        """Without overtaking jobs wait for the first."""
        waits = "" if self.conserving else "no job starts before the first in the order"
        return replace(super().traits, idles=waits)

    def scheduler(self, fleets: Sequence[Fleet | None]) -> NonPreemptiveScheduler:
        """List scheduling in that order."""
        heavy = {"least-available": np.inf, "most-available": 0.0, "by-communication": self.comm_heavy}[self.servers]
        return ListScheduler(fleets, heavy, self.key, conserving=self.conserving)


@dataclass(frozen=True)
class SPJF(ListPolicy):
    """SPJF: shortest predicted job first, without overtaking."""

    key: Key = field(default="duration", init=False)
    conserving: bool = field(default=False, init=False)


@dataclass(frozen=True)
class SPWF(ListPolicy):
    """SPWF: smallest predicted workload (duration times GPUs) first, without overtaking."""

    key: Key = field(default="workload", init=False)
    conserving: bool = field(default=False, init=False)


@dataclass(frozen=True)
class WCSDuration(ListPolicy):
    """WCS-Duration: any job that fits starts, shortest predicted duration first."""

    key: Key = field(default="duration", init=False)
    conserving: bool = field(default=True, init=False)


@dataclass(frozen=True)
class WCSWorkload(ListPolicy):
    """WCS-Workload: any job that fits starts, smallest predicted workload first."""

    key: Key = field(default="workload", init=False)
    conserving: bool = field(default=True, init=False)


@dataclass(frozen=True)
class WCSSubTime(ListPolicy):
    """WCS-SubTime: any job that fits starts, in the order of submission."""

    key: Key = field(default="submission", init=False)
    conserving: bool = field(default=True, init=False)
