"""Sia: each round an integer program chooses the GPU type and the number of GPUs of every elastic job.

Jayaram Subramanya, Arfeen, Lin, Qiao, Jia, Ganger: Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling,
SOSP 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect
from hetopt.data.cluster import Cluster
from hetopt.data.gangs import Gangs, gangs_of
from hetopt.data.instance import Instance, present_entities
from hetopt.data.workload import Job
from hetopt.errors import InvalidOption
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.policy_checks import elapsed_since
from hetopt.models.sia.sia_components import (
    LEAST_GOODPUT,
    GradualScaleUp,
    NormalisedGoodput,
    OneGang,
    WaitingPenalty,
)
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Component
from hetopt.results.allocation import Plan
from hetopt.solving.options import Options
from hetopt.traces.goodput import gang_sizes

ROUND_SECONDS = 60.0
"""Length of a round [Sia, section 4.3]."""


@dataclass(frozen=True)
class SiaState:
    """State of :class:`Sia`.

    Attributes
    ----------
    time:
        Second of the last call.
    last:
        Job -> (GPU type, GPUs) on which it last ran.
    restarts:
        Job -> how often it was restarted on other GPUs; jobs that never were are missing.
    """

    time: float
    last: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", FrozenDict(self.last))
        object.__setattr__(self, "restarts", FrozenDict(self.restarts))


@dataclass(frozen=True)
class Sia:
    """Sia: each round the GPU type and the number of GPUs of every job, by normalised goodput.

    An elastic job (:attr:`hetopt.Job.sizes`) runs on one of its sizes that is a configuration of Sia: a power of two of
    GPUs within a server, or whole servers. Other jobs keep their size; only their GPU type is chosen.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    power, penalty:
        p and lambda of [Sia, eq. 1], see :class:`~hetopt.models.sia.NormalisedGoodput` and
        :class:`~hetopt.models.sia.WaitingPenalty`.
    restart_seconds:
        S of [Sia, eq. 2]: GPU time of a gang that a restart wastes.
    growth:
        A running job grows at most by this factor in a round; others start with their smallest gang.
    extra:
        Additional components for every round; their entities are gangs.
    options:
        Solver options.

    Raises
    ------
    InvalidOption
        A setting out of range.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import sia
    >>> sizes = (hetopt.GangSize(2, {"A": 1.8}), hetopt.GangSize(4, {"A": 3.0}))
    >>> jobs = [hetopt.Job(name, {"A": 1.0}, work=100, sizes=sizes) for name in ("a", "b")]
    >>> log = hetopt.simulate(sia.Sia(), hetopt.Instance(hetopt.Cluster.of({"A": 4}), jobs=jobs))
    >>> log.spans[["job", "start", "gpus"]].to_numpy().tolist()
    [['a', 0.0, 1], ['b', 0.0, 1], ['a', 60.0, 2], ['b', 60.0, 2]]
    """

    round_seconds: float = ROUND_SECONDS
    power: float = -0.5
    penalty: float = 1.1
    restart_seconds: float = 30.0
    growth: float = 2.0
    extra: tuple[Component, ...] = ()
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        check_round_seconds(self)
        NormalisedGoodput(power=self.power)  # rejects invalid settings, as the next lines do
        WaitingPenalty(penalty=self.penalty)
        at_least(self.restart_seconds, "Sia.restart_seconds", 0.0, InvalidOption)
        at_least(self.growth, "Sia.growth", 1.0, InvalidOption)
        object.__setattr__(self, "extra", Formulation(self.extra).components)
        expect(Options, self.options, "Sia.options", InvalidOption)

    def __add__(self, component: Component) -> Sia:
        """This policy with one more component in ``extra``."""
        return replace(self, extra=(*self.extra, component))

    @property
    def traits(self) -> Traits:
        """It decides in rounds; a job may wait beside idle GPUs rather than restart, or for rows in ``extra``."""
        idles = ["rows of extra components must hold"] if self.extra else []
        dearest = LEAST_GOODPUT**self.power if self.restart_seconds else 1.0
        if self.power < 0 and self.penalty <= dearest:
            dear = "a restart may cost a job more than waiting"
            idles.append(dear if self.penalty > 1 else "waiting costs no more than running")
        return Traits(self.round_seconds, idles="; ".join(idles))

    def __call__(self, instance: Instance, state: SiaState | None = None) -> tuple[Plan, SiaState]:
        """The GPUs of every job for the round that begins now, and the state for the next call.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; the time is before that of the state.
        NotSolved
            Components in ``extra`` make the program infeasible.
        """
        jobs = present_entities(instance, "jobs", "Sia")
        gangs, state = _configurations(instance), self._state(instance, state)
        formulation = self._round(instance, gangs, state)
        allocation = formulation.solve(gangs.instance, self.options)
        x, last, restarts = np.zeros(jobs.shape), dict[str, tuple[str, int]](), dict[str, int]()
        entities = allocation.entities
        for g, k in np.argwhere(np.rint(allocation.x)).tolist():
            job, gpus = gangs.job[entities.names[g]], int(entities.demand[g])
            x[jobs.position[job], k] = gpus
            last[job] = entities.types[k], gpus
        for name in jobs.names:
            before, moves = state.last.get(name), state.restarts.get(name, 0)
            if before is not None:
                now = last.setdefault(name, before)
                moves += now != before
            if moves:
                restarts[name] = moves
        given_up = {"idle": float(jobs.capacity.sum() - x.sum())}
        return Plan(jobs, x, None, given_up, allocation.certificate), SiaState(instance.time, last, restarts)

    def program(self, instance: Instance, state: SiaState | None = None) -> tuple[Formulation, Instance]:
        """The program of the round that begins now, and the instance that it is for: its jobs are gangs.

        Components can be added, removed and exchanged.

        Raises
        ------
        InvalidInstance
            As of :meth:`__call__`.
        """
        present_entities(instance, "jobs", "Sia")
        gangs, state = _configurations(instance), self._state(instance, state)
        return self._round(instance, gangs, state), gangs.instance

    def _state(self, instance: Instance, state: SiaState | None) -> SiaState:
        state = SiaState(instance.time) if state is None else expect(SiaState, state, "state", InvalidOption)
        elapsed_since(instance, state.time)
        return state

    def mathematics(self) -> Mathematics:
        """The program of a round as formulas."""
        return self._program({}, {}, {}).mathematics()

    def _program(self, job: Mapping[str, str], restart: Mapping[str, float], most: Mapping[str, float]) -> Formulation:
        parts: tuple[Component, ...] = (
            OneGang(job),
            NormalisedGoodput(job, self.power, restart),
            WaitingPenalty(job, self.penalty),
            GradualScaleUp(job, most),
            *self.extra,
        )
        return Formulation(parts, title="Sia")

    def _round(self, instance: Instance, gangs: Gangs, state: SiaState) -> Formulation:
        jobs, most, restart = instance.entities("jobs"), dict[str, float](), dict[str, float]()
        held = np.zeros(len(jobs.names)) if jobs.held is None else jobs.held.sum(axis=1)
        ages = np.maximum(instance.time - instance.job_array("arrival"), 0.0)
        fewest: dict[str, float] = {}
        for gang in gangs.instance.jobs:
            job = gangs.job[gang.name]
            fewest[job] = min(gang.demand, fewest.get(job, np.inf))
        for name, gpus, age in zip(jobs.names, held.tolist(), ages.tolist(), strict=True):
            most[name] = max(fewest[name], self.growth * gpus)
            if gpus:
                wasted = state.restarts.get(name, 0) * self.restart_seconds
                whole = age + self.restart_seconds
                restart[name] = max(0.0, age - wasted) / whole if whole else 1.0
        return self._program(gangs.job, restart, most)


def _configurations(instance: Instance) -> Gangs:
    """The gangs that are configurations of Sia [Sia, section 3.2]; of rigid jobs all gangs are."""
    sizes = _sizes(instance.cluster)

    def allowed(job: Job, gpu_type: str, gpus: int) -> bool:
        return not job.sizes or gpus in sizes[gpu_type]

    return gangs_of(instance, allowed)


def _sizes(cluster: Cluster) -> dict[str, frozenset[int]]:
    """GPU type -> GPUs of its configurations, on those of its servers that have most GPUs of it."""
    sizes = {}
    for t, seats in cluster.seats.items():
        on_server = max(seats.values(), default=1)
        whole = sum(n == on_server for n in seats.values())
        sizes[t] = frozenset(gang_sizes(on_server * whole, on_server))
    return sizes
