"""Tenants with their job types, and jobs with their stages, sizes and phases."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hetopt.checks import (
    LEAST,
    MOST,
    FrozenDict,
    boolean,
    coefficient,
    count,
    counted,
    known,
    mapping,
    members,
    number,
    shown,
    text,
    unique,
)
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidInstance, Item, KeyPath, SuspiciousSpeedups, format_path
from hetopt.tolerances import EQUAL, scale


class Parallelism(StrEnum):
    """How a job uses several GPUs; decides which jobs are packed first (FFT, section 4.3)."""

    DATA = "data"
    TENSOR = "tensor"
    PIPELINE = "pipeline"


def speeds(value: Mapping[str, float], key: KeyPath) -> FrozenDict[str, float]:
    """The checked speeds: each zero or from ``LEAST`` to ``MOST`` (:mod:`hetopt.checks`), at least one positive."""
    given = mapping(value, key)
    result = {  # the inline test saves a million calls for 100,000 tenants
        t: v if type(v) is float and (LEAST <= v <= MOST or v == 0.0) else coefficient(v, (*key, Item(t)))
        for t, v in given.items()
    }
    if not any(result.values()):
        raise InvalidInstance(f"is {dict(result)!r}; at least one GPU type must have a value > 0", key)
    return FrozenDict(result)


def _relative(throughput: Mapping[str, float], key: KeyPath) -> dict[str, float]:
    """GPU type -> speedup: throughputs (any work per second) over the one on the slowest type that runs it."""
    given = speeds(throughput, key)
    least = slowest(given)
    for t, v in given.items():
        if v / least > MOST:
            times = f"{v / least:g} times the smallest above 0, {least:g}"
            raise InvalidInstance(f"is {v:g}, {times}; it must be at most {MOST:g} times that", (*key, Item(t)))
    return {t: v / least for t, v in given.items()}


@dataclass(frozen=True)
class JobType:
    """One kind of jobs of a tenant: a row of OEF's speedup matrix W (section 2.3).

    Parameters
    ----------
    name:
        Unique within the tenant.
    speedup:
        GPU type -> throughput of one such GPU relative to the slowest type that it can run on (no unit); 0 where it
        cannot run.
    memory_bytes:
        Memory that one worker needs, in bytes; a type with less has speed zero.
    any_scale:
        Do not warn of speedups that are relative to something other than the slowest type. Not stored:
        :func:`dataclasses.replace` needs it again.

    Raises
    ------
    InvalidInstance
        NaN, negative or all-zero speedups; positive ones below 1e-18 or above 1e18.

    Warns
    -----
    SuspiciousSpeedups
        The smallest speedup above zero is not 1, as if these were throughputs.
    """

    name: str
    speedup: Mapping[str, float]
    memory_bytes: float = 0.0
    any_scale: InitVar[bool] = field(default=False, kw_only=True)

    def __post_init__(self, any_scale: bool) -> None:
        key = "job_types", Item(text(self.name, "job type name"))
        object.__setattr__(self, "speedup", speeds(self.speedup, (*key, "speedup")))
        object.__setattr__(self, "memory_bytes", number(self.memory_bytes, (*key, "memory_bytes")))
        _warn(any_scale, self.speedup, key, "JobType")

    @classmethod
    def from_throughput(cls, name: str, throughput: Mapping[str, float], memory_bytes: float = 0.0) -> JobType:
        """Normalise throughputs (any work per second) by the slowest GPU type that runs the job.

        Raises
        ------
        InvalidInstance
            As :class:`JobType`, of the throughputs or of the speedups that they give.
        """
        return cls(name, _relative(throughput, ("job_types", Item(name), "throughput")), memory_bytes, any_scale=True)


ONLY_JOB_TYPE = "jobs"
"""Name of the job type of a tenant whose speedups are given without job types."""


@dataclass(frozen=True)
class Tenant:
    """A user or group that gets a fair share of the cluster.

    Parameters
    ----------
    name:
        Unique in the instance.
    job_types:
        One or more; several share the tenant's weight equally (OEF, section 4.2.4).
        A bare mapping GPU type -> speedup is a single job type.
    weight:
        Importance pi > 0 (OEF, section 4.2.3).
    any_scale:
        As of :class:`JobType`, for a bare mapping.

    Raises
    ------
    InvalidInstance
        No job type, duplicate job types, a weight outside 1e-18 .. 1e18.

    Warns
    -----
    SuspiciousSpeedups
        The smallest value above zero of a bare mapping is not 1, as if these were throughputs.
    """

    name: str
    job_types: tuple[JobType, ...]
    weight: float = 1.0
    any_scale: InitVar[bool] = field(default=False, kw_only=True)

    def __post_init__(self, any_scale: bool) -> None:
        key = "tenants", Item(text(self.name, "tenant name"))
        if isinstance(self.job_types, (dict, Mapping)):  # dict first: the abstract test is slow
            only = _only_type(self.job_types, key)
            object.__setattr__(self, "job_types", (only,))
            _warn(any_scale, only.speedup, key, "Tenant")
        object.__setattr__(self, "job_types", members(self.job_types, JobType, (*key, "job_types")))
        if not self.job_types:
            raise InvalidInstance("is empty; a tenant needs at least one job type", (*key, "job_types"))
        unique((j.name for j in self.job_types), f"job type of {format_path(key)}")
        object.__setattr__(self, "weight", coefficient(self.weight, (*key, "weight"), strict=True))

    @classmethod
    def from_throughput(cls, name: str, throughput: Mapping[str, float], weight: float = 1.0) -> Tenant:
        """A tenant of a single job type, whose throughputs are normalised as by :meth:`JobType.from_throughput`.

        Raises
        ------
        InvalidInstance
            As :class:`Tenant`, of the throughputs or of the speedups that they give.
        """
        only = JobType(ONLY_JOB_TYPE, _relative(throughput, ("tenants", Item(name), "throughput")), any_scale=True)
        return cls(name, (only,), weight)

    @property
    def has_single_type(self) -> bool:
        """Whether the tenant has a single job type, given without a name."""
        return len(self.job_types) == 1 and self.job_types[0].name == ONLY_JOB_TYPE


def _only_type(speedup: Mapping[str, float], key: KeyPath) -> JobType:
    try:
        return JobType(ONLY_JOB_TYPE, speedup, any_scale=True)
    except InvalidInstance as problem:
        raise problem.at((*key, *problem.path[2:])) from None


@dataclass(frozen=True)
class Stage:
    """One stage of a job's pipeline: consecutive layers, copied for data parallelism [ASRPT, section III].

    Parameters
    ----------
    replicas:
        Data-parallel copies k_s of the stage.
    forward_s, backward_s:
        Time of one iteration through one replica, in seconds, on the GPU type on which the job is fastest; on others
        they grow as the job's throughput falls.
    parameter_bytes:
        Gradients h_s exchanged in an AllReduce among the replicas in one iteration, in bytes.
    output_bytes:
        Activations d_out that one replica hands to the next stage in one iteration, in bytes.
    input_bytes:
        Activations d_in that one replica takes from the previous stage, in bytes. They follow from the output of that
        stage; a given value is checked.
    slices:
        GPUs of one server over which tensor parallelism splits each replica [ASRPT, section VI].
    slice_bytes:
        Traffic of the AllReduces among the slices of a replica in one iteration, in bytes.
    token_bytes:
        Tokens that two replicas of the stage exchange in one iteration on average, both ways together, in bytes: the
        traffic of expert parallelism, where each replica holds a group of experts [ASRPT, section VI].

    Raises
    ------
    InvalidInstance
        Negative numbers or NaN, no replica, no slice.
    """

    replicas: int
    forward_s: float
    backward_s: float
    parameter_bytes: float = 0.0
    output_bytes: float = 0.0
    input_bytes: float | None = None
    slices: int = 1
    slice_bytes: float = 0.0
    token_bytes: float = 0.0

    def __post_init__(self) -> None:
        for key in ("replicas", "slices"):
            object.__setattr__(self, key, count(getattr(self, key), ("stages[]", key), least=1))
        for key in ("forward_s", "backward_s", "parameter_bytes", "output_bytes", "slice_bytes", "token_bytes"):
            object.__setattr__(self, key, number(getattr(self, key), ("stages[]", key)))
        if self.input_bytes is not None:
            object.__setattr__(self, "input_bytes", number(self.input_bytes, ("stages[]", "input_bytes")))

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.slices


@dataclass(frozen=True)
class GangSize:
    """A number of GPUs on which an elastic job can run.

    Parameters
    ----------
    gpus:
        GPUs of the whole gang, all of one type.
    throughput:
        GPU type -> work per second of the whole gang on that type, in the unit of ``Job.work``; 0, or missing, where it
        cannot run (zeros are left out). Gangs of several sizes may have several batch sizes; then this is the work that
        counts, the goodput [Sia, section 3.2].
    batch_size:
        GPU type -> examples in a batch of the whole gang; types may be missing.

    Raises
    ------
    InvalidInstance
        No GPU, no positive throughput, a batch size below 1.
    """

    gpus: int
    throughput: Mapping[str, float]
    batch_size: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", count(self.gpus, ("sizes[]", "gpus"), least=1))
        rates = speeds(self.throughput, ("sizes[]", "throughput"))
        object.__setattr__(self, "throughput", FrozenDict({t: rate for t, rate in rates.items() if rate}))
        key: KeyPath = ("sizes[]", "batch_size")
        sizes = {t: count(n, (*key, Item(t)), least=1) for t, n in mapping(self.batch_size, key).items()}
        object.__setattr__(self, "batch_size", FrozenDict(sizes))


@dataclass(frozen=True)
class TrainingPhase:
    """Consecutive epochs of a job at one batch size, as dynamic adaptation sets it [Shockwave].

    Parameters
    ----------
    epochs:
        Number of epochs; 0 for a batch size that the job may also have, see
        :func:`~hetopt.simulation.seen_phases.as_seen`.
    batch_size:
        Samples per iteration of the whole gang or of each worker, as the source counts them.
    epoch_work:
        Work of an epoch, in the unit of ``Job.work``. With larger batches an epoch takes less work, so that the work
        per second of a GPU type is the same in all phases.

    Raises
    ------
    InvalidInstance
        Numbers that are no counts, or no work.
    """

    epochs: int
    batch_size: int
    epoch_work: float

    def __post_init__(self) -> None:
        for key, least in (("epochs", 0), ("batch_size", 1)):
            object.__setattr__(self, key, count(getattr(self, key), ("phases[]", key), least=least))
        object.__setattr__(self, "epoch_work", coefficient(self.epoch_work, ("phases[]", "epoch_work"), strict=True))

    @property
    def work(self) -> float:
        """Work of all its epochs."""
        return self.epochs * self.epoch_work


@dataclass(frozen=True)
class Job:
    """One training job; its workers run as a gang (all or none).

    Parameters
    ----------
    name:
        Unique in the instance.
    throughput:
        GPU type -> work per second of the whole gang on that type (epochs/s or iterations/s, the unit of
        ``work``); 0 where it cannot run.
    work:
        Total work in epochs or iterations, > 0 (W_j in FFT).
    demand:
        GPUs that the gang needs (d_j in FFT).
    arrival:
        Seconds (a_j).
    tenant:
        Name of the tenant it belongs to, or None.
    weight:
        Importance > 0 under policies that are fair to jobs (Gavel, section 4).
    memory_bytes:
        Memory that one worker needs; GPU types with less are not allowed (FFT, section 4.4.1).
    checkpoint_bytes:
        Training state that moves with the job, in bytes (FFT, Fig. 1b).
    dataset, dataset_bytes:
        Name and size of what must be on the host's disk; None if there is none.
    parallelism:
        Kind of parallelism; decides which jobs are packed first.
    stages:
        Pipeline stages where known [ASRPT, section III]; their GPUs sum to ``demand``.
    phases:
        Its epochs by batch size, in order, where they change the work of an epoch [Shockwave]; their work sums to
        ``work``. Equal batch sizes have equal work per epoch.
    utility:
        Name of the utility of the completion time (Hadar), e.g. ``"effective-throughput"``, or None.
    job_type:
        Name of its job type among those of the tenant; None if the tenant has a single one.
    group:
        Identifier common to all submissions of the same training (a hash of user, script, dataset …), or None. Lengths
        are predicted from earlier jobs of the group [ASRPT, section IV-C].
    deadline:
        Time by which it should be done, in seconds on the clock of ``arrival``, after the arrival; None for none. Read
        by utilities (Hadar).
    model:
        Name of the trained model, e.g. ``"resnet50"``, or None; profiles and the execution model are looked up by it.
    copies:
        Largest number of servers on which it may run at once, each copy with a part of its work (HadarE); None for no
        limit.
    sizes:
        Sizes of its gang other than ``demand``, if it is elastic: a policy may change the size in each decision.
        Policies for rigid gangs give it ``demand`` GPUs. A size equal to ``demand`` adds batch sizes.

    Raises
    ------
    InvalidInstance
        Anything negative, NaN, all-zero throughput, a positive throughput or a weight below 1e-18, a deadline that is
        not after the arrival, stages or phases that do not add up, stages between which more or less enters than
        leaves, two sizes with as many GPUs, or one of ``demand`` GPUs with another throughput, a batch size with two
        values of work per epoch.
    """

    name: str
    throughput: Mapping[str, float]
    work: float
    demand: int = 1
    arrival: float = 0.0
    tenant: str | None = None
    weight: float = 1.0
    memory_bytes: float = 0.0
    checkpoint_bytes: float = 0.0
    dataset: str | None = None
    dataset_bytes: float = 0.0
    parallelism: Parallelism = Parallelism.DATA
    stages: tuple[Stage, ...] = ()
    utility: str | None = None
    job_type: str | None = None
    group: str | None = None
    deadline: float | None = None
    model: str | None = None
    copies: int | None = None
    sizes: tuple[GangSize, ...] = ()
    phases: tuple[TrainingPhase, ...] = ()

    def __post_init__(self) -> None:
        key = "jobs", Item(text(self.name, "job name"))
        object.__setattr__(self, "throughput", speeds(self.throughput, (*key, "throughput")))
        object.__setattr__(self, "work", coefficient(self.work, (*key, "work"), strict=True))
        object.__setattr__(self, "weight", coefficient(self.weight, (*key, "weight"), strict=True))
        object.__setattr__(self, "demand", count(self.demand, (*key, "demand"), least=1))
        for name in ("arrival", "memory_bytes", "checkpoint_bytes", "dataset_bytes"):
            object.__setattr__(self, name, number(getattr(self, name), (*key, name)))
        for name in ("tenant", "dataset", "utility", "job_type", "group", "model"):
            if getattr(self, name) is not None:
                text(getattr(self, name), (*key, name))
        if self.copies is not None:
            object.__setattr__(self, "copies", count(self.copies, (*key, "copies"), least=1))
        if self.deadline is not None:
            deadline = number(self.deadline, (*key, "deadline"), least=self.arrival, strict=True)
            object.__setattr__(self, "deadline", deadline)
        try:
            object.__setattr__(self, "parallelism", Parallelism(self.parallelism))
        except ValueError:
            kinds = ", ".join(Parallelism)
            raise InvalidInstance(
                f"is {shown(self.parallelism)}; it must be one of {kinds}", (*key, "parallelism")
            ) from None
        object.__setattr__(self, "stages", members(self.stages, Stage, (*key, "stages")))
        workers = sum(s.gpus for s in self.stages)
        if self.stages and workers != self.demand:
            raise InvalidInstance(f"have {workers} GPUs; they must sum to demand = {self.demand}", (*key, "stages"))
        _check_flow(self.stages, (*key, "stages"))
        object.__setattr__(self, "sizes", members(self.sizes, GangSize, (*key, "sizes")))
        if self.sizes:
            self._check_sizes((*key, "sizes"))
        object.__setattr__(self, "phases", members(self.phases, TrainingPhase, (*key, "phases")))
        _check_phases(self.phases, self.work, (*key, "phases"))

    def _check_sizes(self, key: KeyPath) -> None:
        first: dict[int, int] = {}
        for i, size in enumerate(self.sizes):
            if first.setdefault(size.gpus, i) != i:
                raise InvalidInstance(f"has {size.gpus} GPUs twice; give each size once", (*key, i, "gpus"))
            for t in size.throughput:
                known(t, self.throughput, (*key, i, "throughput"), "GPU type")
            own = {t: size.throughput.get(t, 0.0) for t in self.throughput}
            if size.gpus == self.demand and own != self.throughput:
                raise InvalidInstance(
                    f"is {dict(size.throughput)}, but the throughput of the job, on {counted(self.demand, 'GPU')}, is "
                    f"{dict(self.throughput)}; they must agree",
                    (*key, i, "throughput"),
                )

    @cached_property
    def rates(self) -> Mapping[int, Mapping[str, float]]:
        """GPUs -> GPU type -> work per second of the whole gang; missing where it cannot run."""
        own = {size.gpus: size.throughput for size in self.sizes}
        return FrozenDict(dict(sorted((own | {self.demand: self.throughput}).items())))

    def with_throughput(self, throughput: Mapping[str, float]) -> Job:
        """The job with another ``throughput``; on each type the rates of its other sizes change by the same factor."""
        factor = {t: throughput[t] / rate for t, rate in self.throughput.items() if rate}

        def changed(size: GangSize) -> GangSize:
            if size.gpus == self.demand:
                return replace(size, throughput=throughput)
            return replace(size, throughput={t: rate * factor.get(t, 1.0) for t, rate in size.throughput.items()})

        return replace(self, throughput=throughput, sizes=tuple(map(changed, self.sizes)))

    def rate(self, gpu_type: str, gpus: int) -> float:
        """Work per second of a gang of ``gpus`` GPUs at the speed of this type; 0 where it cannot run."""
        if gpus == self.demand:
            return self.throughput[gpu_type]
        return self.rates[gpus].get(gpu_type, 0.0) if gpus in self.rates else 0.0


def _check_flow(stages: tuple[Stage, ...], key: KeyPath) -> None:
    """Raise :class:`InvalidInstance` unless the bytes between stages agree: k_{s-1} d_out = k_s d_in."""
    for i, (before, stage) in enumerate(pairwise((None, *stages))):
        if stage is None or stage.input_bytes is None:
            continue
        leaves = 0.0 if before is None else before.replicas * before.output_bytes
        enters = stage.replicas * stage.input_bytes
        if abs(leaves - enters) > EQUAL * scale(leaves, enters):
            raise InvalidInstance(
                f"is {stage.input_bytes:g}, so {enters:g} bytes enter its {stage.replicas} "
                f"replicas, but {leaves:g} leave the stage before; it must be {leaves / stage.replicas:g}",
                (*key, i, "input_bytes"),
            )


def _check_phases(phases: tuple[TrainingPhase, ...], work: float, key: KeyPath) -> None:
    """Raise :class:`InvalidInstance` unless the phases have this work, and one work per epoch for each batch size."""
    total = sum(phase.work for phase in phases)
    if phases and abs(total - work) > EQUAL * work:
        raise InvalidInstance(f"sum to {total:g}; they must sum to work = {work:g}", key)
    first: dict[int, float] = {}
    for i, phase in enumerate(phases):
        if (other := first.setdefault(phase.batch_size, phase.epoch_work)) != phase.epoch_work:
            problem = f"is {phase.epoch_work:g}; an epoch of batch size {phase.batch_size} has {other:g} before"
            raise InvalidInstance(problem, (*key, i, "epoch_work"))


def slowest(speeds: Mapping[str, float]) -> float:
    """The smallest positive speed, at least one being positive: of every type, since a job type knows no cluster."""
    return min(v for v in speeds.values() if v > 0)


def slowest_of_rows(table: Floats, usable: NDArray[np.bool_] | None = None) -> Floats:
    """(n,) smallest speed of each row of an (n, k) table on its ``usable`` types; None: those with a positive speed.

    Only a cluster shows that a type with a positive speed has too little memory, or too few GPUs for a gang.
    """
    return np.asarray(np.where(table > 0 if usable is None else usable, table, np.inf).min(axis=1))


def warn_of_scale(smallest: ArrayLike, where: Callable[[int], str], remedy: str) -> None:
    """Warn of speedups that do not begin at 1; the warning points at the caller outside hetopt.

    Parameters
    ----------
    smallest:
        (n,) smallest speedup above zero of each row; no unit.
    where:
        Position of a row -> its name in messages.
    remedy:
        The remedy if they are throughputs.

    Warns
    -----
    SuspiciousSpeedups
        A row's smallest is not 1, within :data:`~hetopt.tolerances.EQUAL`.
    """
    values = np.asarray(smallest, dtype=float)
    off = np.flatnonzero(np.abs(values - 1.0) > EQUAL).tolist()
    if not off:
        return
    others = f" (rows like this: {len(off)})" if len(off) > 1 else ""
    warnings.warn(
        f"{where(off[0])} has {values[off[0]]:g} as its smallest value above 0, not 1{others}; speedups are relative "
        f"to the slowest GPU type that a tenant can run on. If these are throughputs, {remedy}; "
        "if they are speedups of another scale, any_scale=True in Python accepts them without this warning",
        SuspiciousSpeedups,
        stacklevel=_caller(),
    )


def _warn(any_scale: object, speedup: Mapping[str, float], key: KeyPath, name: str) -> None:
    """:func:`warn_of_scale` for one row of the class ``name``, unless ``any_scale``."""
    if not boolean(any_scale, (*key, "any_scale"), InvalidInstance):
        warn_of_scale([slowest(speedup)], lambda _: format_path((*key, "speedup")), f"call {name}.from_throughput")


def _caller() -> int:
    """The ``stacklevel``, seen from the caller, of the nearest frame outside hetopt."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hetopt":
        level, frame = level + 1, frame.f_back
    return level
