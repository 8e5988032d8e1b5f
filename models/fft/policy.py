"""FFT: each round the GPU type of every job by a small integer program, with compensation for what fairness owes.

Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025. The round maximises, over
jobs j and GPU types i, first the GPUs in use and then ::

    -sum (phi[j, i] + s[j, i] - rho[j] theta[j, i]) x[j, i],   phi = (t - a) theta / W + d W / theta,   [FFT, eq. 6]

with one type per job and within capacity. What the papers leave open is settled as the ledger of truth says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.allocation import Plan
from hetopt.checks import FrozenDict, at_least, expect
from hetopt.data.entities import Entities, Floats
from hetopt.data.instance import Instance
from hetopt.data.present import present_entities
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.models.fft.parts import (
    ROUND_SECONDS,
    AgeCost,
    Compensation,
    OneType,
    Switching,
    VolumeCost,
    WorkConserving,
    held_types,
    theta,
)
from hetopt.models.fft.ties import settled
from hetopt.models.objectives import LinearGain
from hetopt.programs.formulation import Component, Formulation
from hetopt.programs.mathematics import Mathematics
from hetopt.solving.options import Options
from hetopt.solving.policies import solve_formulation


@dataclass(frozen=True)
class FFTState:
    """What FFT remembers from one call to the next.

    Attributes
    ----------
    time:
        When the last round began, in seconds.
    rho:
        Job -> how far it had fallen behind its fair share then, [FFT, eq. 5]: in parts of the job (normalised), or in
        work as printed.
    tau:
        Job -> when it would complete under the fair share, in seconds since the instance's time 0. Its keys are the
        jobs that were present and could run.
    last:
        Job -> GPU type on which it had been executed last, before that round.
    planned:
        Job -> GPU type that the round gave it; jobs that waited are absent.
    """

    time: float
    rho: Mapping[str, float] = field(default_factory=dict)
    tau: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)
    planned: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("rho", "tau", "last", "planned"):
            object.__setattr__(self, key, FrozenDict(getattr(self, key)))


@dataclass(frozen=True)
class FFT:
    """FFT's policy: ``FFT()(instance, state) -> (Plan, FFTState)``, to be called once a round.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    restart_seconds:
        What a move to another GPU type takes besides the transfer of the checkpoint.
    normalise:
        Measure theta in rho theta, and rho, in parts of the job (True) or in work as printed (False). As printed,
        decisions depend on the unit of work.
    extra:
        More components for every round, e.g. ``EnvyFree()``.
    options:
        Of the solver.

    Raises
    ------
    InvalidOption
        A setting out of range.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import fft
    >>> jobs = hetopt.Instance.from_jobs([[8, 1], [8, 1]], demand=[1, 1], work=[16, 16], capacity=[1, 1])
    >>> plan, state = fft.FFT(round_seconds=300.0)(jobs)
    >>> plan.assigned
    {'j1': 'GPU1', 'j2': 'GPU2'}
    """

    round_seconds: float = ROUND_SECONDS
    restart_seconds: float = 0.0
    normalise: bool = True
    extra: tuple[Component, ...] = ()
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        at_least(self.round_seconds, "FFT.round_seconds", 0.0, InvalidOption, strict=True)
        at_least(self.restart_seconds, "FFT.restart_seconds", 0.0, InvalidOption)
        object.__setattr__(self, "extra", Formulation(self.extra).components)  # refuses what is no component
        expect(Options, self.options, "FFT.options", InvalidOption)

    def __add__(self, component: Component) -> FFT:
        """This policy with one more component in ``extra``."""
        return replace(self, extra=(*self.extra, component))

    __radd__ = __add__

    def __call__(self, instance: Instance, state: FFTState | None = None) -> tuple[Plan, FFTState]:
        """The GPU type of every job for the round that begins now, and the state for the next call.

        Among plans of equal cost, one is taken in which no two jobs of equal demand, and no single job, could change
        places without cost so that more of them stay on their last type, or else so that the earlier job of the
        instance gets the better place.

        Raises
        ------
        InvalidInstance
            A job that has not arrived, that is finished, or that demands more GPUs than any type it can run on has.
        NotSolved
            Components in ``extra`` leave no plan.
        """
        now = self.advanced(instance, state)
        formulation = self._round(now)
        allocation = solve_formulation(formulation, instance, self.options)
        entities = allocation.entities
        share = np.rint(allocation.x)
        choice = np.where(share.any(axis=1), share.argmax(axis=1), -1)
        if _only_costs(formulation):
            choice = settled(choice, _places(formulation, entities), entities, now.last)
        x = np.zeros(entities.shape)
        runs = np.flatnonzero(choice >= 0)
        x[runs, choice[runs]] = entities.demand[runs]
        planned = {entities.names[e]: entities.types[choice[e]] for e in runs.tolist()}
        plan = Plan(entities, x, certificate=allocation.certificate)
        return plan, FFTState(now.time, now.rho, now.tau, now.last, planned)

    def formulation(self, instance: Instance, state: FFTState | None = None) -> Formulation:
        """The program of the round that begins now; components can be added, removed and exchanged.

        Raises
        ------
        InvalidInstance
            See :meth:`__call__`.
        """
        return self._round(self.advanced(instance, state))

    def mathematics(self) -> Mathematics:
        """The program of a round as formulas."""
        return self._round(FFTState(0.0)).mathematics()

    def _round(self, now: FFTState) -> Formulation:
        seconds = self.round_seconds
        parts: tuple[Component, ...] = (
            OneType(),
            AgeCost(seconds),
            VolumeCost(seconds),
            Switching(now.last, seconds, self.restart_seconds),
            Compensation(now.rho, seconds, self.normalise),
            WorkConserving(),
            *self.extra,
        )
        return Formulation(parts, title="FFT")

    def advanced(self, instance: Instance, state: FFTState | None) -> FFTState:
        """``state`` brought forward to the instance's time: what holds when the round is planned.

        A job was executed where the instance says that it is held now; if it says of no job, where it was planned.
        With that, rho follows [FFT, eq. 5] for the round that has passed. Calls are meant to be a round apart; after
        more or less time the step counts as so many rounds. ``planned`` is empty in the result.

        tau is estimated anew for all jobs when one has come or gone, and is relative to the arrival: ``tau - a`` is
        the time that the whole job takes from its arrival if there are always as many jobs as now. For W / (tau - a)
        is an average over the whole job, and so must tau - a be.
        """
        entities = _present(instance)
        if state is None:
            state = FFTState(instance.time)
        expect(FFTState, state, "state", InvalidOption)
        if instance.time < state.time:
            raise InvalidInstance(
                f"time is {instance.time:g} s, before the last call at {state.time:g} s; a policy cannot go back"
            )
        executed = _executed(entities, state)
        last = {name: state.last[name] for name in entities.names if state.last.get(name) in entities.types}
        last |= {entities.names[e]: entities.types[executed[e]] for e in np.flatnonzero(executed >= 0).tolist()}
        rho = dict(zip(entities.names, self._rho(instance, entities, state, executed).tolist(), strict=True))
        return FFTState(instance.time, rho, self._tau(instance, entities, state), last)

    def _rho(self, instance: Instance, entities: Entities, state: FFTState, executed: np.ndarray) -> Floats:
        """(n,) [FFT, eq. 5] with mu = (t - a) / (tau - a) at the time t of the last call; 0 for jobs new since then."""
        arrival, work = instance.job_array("arrival"), instance.job_array("work")
        before = np.array([state.rho.get(name, 0.0) for name in entities.names])
        tau = np.array([state.tau.get(name, np.inf) for name in entities.names])
        rounds = (instance.time - state.time) / self.round_seconds
        mu = np.maximum(0.0, state.time - arrival) / (tau - arrival)
        fair = (1.0 if self.normalise else work) / ((tau - arrival) / self.round_seconds)
        done = theta(entities, self.round_seconds, self.normalise)[np.arange(len(work)), executed]
        behind = fair - np.where(executed >= 0, done, 0.0)
        return np.asarray(np.maximum(0.0, before + rounds * mu * behind))

    def _tau(self, instance: Instance, entities: Entities, state: FFTState) -> Mapping[str, float]:
        """Job -> a + p max(1, d |A| / sum(Y)) in seconds, with p the time on the fastest type that takes its gang.

        Jobs whose types have no GPUs now have none: nothing is their fair share.
        """
        able = np.flatnonzero(entities.allowed.any(axis=1))
        names = [entities.names[e] for e in able.tolist()]
        if state.tau.keys() == set(names):
            return state.tau
        alone = instance.job_array("work")[able] / entities.speed[able].max(axis=1)
        crowd = np.maximum(1.0, entities.demand[able] * len(able) / entities.capacity.sum())
        tau = instance.job_array("arrival")[able] + alone * crowd
        return dict(zip(names, tau.tolist(), strict=True))


def _executed(entities: Entities, state: FFTState) -> np.ndarray:
    """(n,) position of the GPU type on which each job ran in the last round, -1 for none."""
    if entities.held is not None:
        return held_types(entities)
    place = {name: i for i, name in enumerate(entities.types)}
    return np.array([place.get(state.planned.get(name, ""), -1) for name in entities.names], dtype=np.intp)


def _present(instance: Instance) -> Entities:
    """The jobs, of which every one must have work left."""
    entities = present_entities(instance, "jobs", "FFT")
    for e in np.flatnonzero(instance.job_array("work_left") == 0)[:1].tolist():
        raise InvalidInstance(f"done[{entities.names[e]!r}] is all the work of the job; leave finished jobs out")
    return entities


def _only_costs(formulation: Formulation) -> bool:
    """Whether GPUs in use and then equal linear cost are all that counts, so that exchanges of equal cost are free."""
    levels = [getattr(part, "priority", 0) for part in formulation if not isinstance(part, WorkConserving)]
    return all(isinstance(part, OneType | LinearGain) for part in formulation) and not any(levels)


def _places(formulation: Formulation, entities: Entities) -> Floats:
    """(n, k + 1) cost of each type and of waiting; infinite where the job cannot be."""
    cost = np.zeros(entities.shape)
    for part in formulation:
        if isinstance(part, LinearGain) and not getattr(part, "priority", 0):
            cost -= part.coefficients(entities)
    return np.hstack([np.where(entities.allowed, cost, np.inf), np.zeros((len(cost), 1))])
