"""FFT: a small integer program per round chooses the GPU type of every job, with compensation for unfairness.

Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025. The round maximises, over
jobs j and GPU types i, first the GPUs in use and then ::

    -sum (phi[j, i] + s[j, i] - rho[j] theta[j, i]) x[j, i],   phi = (t - a) theta / W + d W / theta,   [FFT, eq. 6]

with one type per job and within capacity. The claim ledger documents the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidInstance, InvalidOption, Item
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.fft.fft_components import (
    AgeCost,
    Compensation,
    OneType,
    Switching,
    VolumeCost,
    WorkConserving,
    held_types,
    theta,
)
from hetopt.models.fft.tie_breaking import settled
from hetopt.models.objectives import LinearGain, is_linear_gain
from hetopt.models.policy_checks import elapsed_since
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Component, ComponentTraits
from hetopt.results.allocation import Plan
from hetopt.solving.options import Options


@dataclass(frozen=True)
class FFTState:
    """State of FFT between calls.

    Attributes
    ----------
    time:
        Start of the last round, in seconds.
    rho:
        Job -> its deficit relative to the fair share at that time, [FFT, eq. 5]: in parts of the job (normalised), or
        in work as printed.
    tau:
        Job -> completion time under the fair share, in seconds since the instance's time 0. Its keys are the jobs that
        were present and could run.
    last:
        Job -> GPU type on which it was last executed before that round.
    planned:
        Job -> GPU type assigned in the round; waiting jobs are absent.
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
    """FFT: each round an integer program that trades completion time, switching and fairness compensation.

    Called once a round: ``FFT()(instance, state) -> (Plan, FFTState)``.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    restart_seconds:
        Duration of a move to another GPU type besides the transfer of the checkpoint.
    normalise:
        Measure rho, and theta in rho theta, in parts of the job (True) or in work as printed (False). As printed,
        decisions depend on the unit of work.
    extra:
        Additional components for every round, e.g. ``EnvyFree()``.
    options:
        Solver options.

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
        check_round_seconds(self)
        at_least(self.restart_seconds, "FFT.restart_seconds", 0.0, InvalidOption)
        object.__setattr__(self, "extra", Formulation(self.extra).components)  # rejects invalid components
        expect(Options, self.options, "FFT.options", InvalidOption)

    def __add__(self, component: Component) -> FFT:
        """This policy with one more component in ``extra``."""
        return replace(self, extra=(*self.extra, component))

    __radd__ = __add__

    @property
    def traits(self) -> Traits:
        """It decides in rounds."""
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: FFTState | None = None) -> tuple[Plan, FFTState]:
        """The GPU type of every job for the round that begins now, and the state for the next call.

        Ties between plans of equal cost are broken by exchanges of two jobs of equal demand and by moves of single jobs
        (:func:`~hetopt.models.fft.tie_breaking.settled`): more jobs stay on their last type or, secondarily, the
        earlier job of the instance gets the better place.

        Raises
        ------
        InvalidInstance
            A job has not arrived, is finished, or demands more GPUs than there are of any type that it can run on.
        NotSolved
            Components in ``extra`` make the program infeasible.
        """
        now = self.advanced(instance, state)
        formulation = self._round(now)
        allocation = formulation.solve(instance, self.options)
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
        """``state`` advanced to the instance's time, at which the round is planned.

        Jobs were executed on the types that they hold in the instance or, if it specifies none, on the planned types.
        With these, rho follows [FFT, eq. 5] for the past round. Calls should be one round apart; a step of another
        length counts as the corresponding number of rounds. ``planned`` is empty in the result.

        tau is re-estimated for all jobs when one arrives or leaves, and is relative to the arrival: ``tau - a`` is the
        time that the whole job takes from its arrival if the number of jobs stays constant. Since W / (tau - a) is an
        average over the whole job, tau - a must be one, too.
        """
        entities = _present(instance)
        if state is None:
            state = FFTState(instance.time)
        expect(FFTState, state, "state", InvalidOption)
        elapsed = elapsed_since(instance, state.time)
        executed = _executed(entities, state)
        last = {name: state.last[name] for name in entities.names if state.last.get(name) in entities.types}
        last |= {entities.names[e]: entities.types[executed[e]] for e in np.flatnonzero(executed >= 0).tolist()}
        rho = dict(zip(entities.names, self._rho(instance, entities, state, executed, elapsed).tolist(), strict=True))
        return FFTState(instance.time, rho, self._tau(instance, entities, state), last)

    def _rho(
        self, instance: Instance, entities: Entities, state: FFTState, executed: np.ndarray, elapsed: float
    ) -> Floats:
        """(n,) [FFT, eq. 5] with mu = (t - a) / (tau - a) at the time t of the last call; 0 for later jobs."""
        arrival, work = instance.job_array("arrival"), instance.job_array("work")
        before = np.array([state.rho.get(name, 0.0) for name in entities.names])
        tau = np.array([state.tau.get(name, np.inf) for name in entities.names])
        rounds = elapsed / self.round_seconds
        mu = np.maximum(0.0, state.time - arrival) / (tau - arrival)
        fair = (1.0 if self.normalise else work) / ((tau - arrival) / self.round_seconds)
        done = theta(entities, self.round_seconds, self.normalise)[np.arange(len(work)), executed]
        behind = fair - np.where(executed >= 0, done, 0.0)
        return np.asarray(np.maximum(0.0, before + rounds * mu * behind))

    def _tau(self, instance: Instance, entities: Entities, state: FFTState) -> Mapping[str, float]:
        """Job -> a + p max(1, d |A| / sum(Y)) in seconds, with p the time on the fastest type that takes its gang.

        Jobs whose types have no GPUs now are omitted: their fair share is zero.
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
    """The jobs; every job must have work left."""
    entities = present_entities(instance, "jobs", "FFT")
    for e in np.flatnonzero(instance.job_array("work_left") == 0)[:1].tolist():
        raise InvalidInstance("is all the work of the job; leave finished jobs out", ("done", Item(entities.names[e])))
    return entities


def _only_costs(formulation: Formulation) -> bool:
    """Whether the objective is only GPUs in use, then linear cost, so that exchanges of equal cost are free."""
    others = [part for part in formulation if type(part) is not WorkConserving]
    return not any(ComponentTraits.of(part).priority for part in others) and all(
        type(part) is OneType or is_linear_gain(part) for part in formulation
    )


def _places(formulation: Formulation, entities: Entities) -> Floats:
    """(n, k + 1) cost of each type and of waiting; infinite where the job cannot be."""
    cost = np.zeros(entities.shape)
    for part in formulation:
        if isinstance(part, LinearGain) and not ComponentTraits.of(part).priority:
            cost -= part.coefficients(entities)
    return np.hstack([np.where(entities.allowed, cost, np.inf), np.zeros((len(cost), 1))])
