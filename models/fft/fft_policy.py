"""FFT: a small integer program per round chooses the GPU type of every job, with compensation for unfairness.

Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025. The round maximises, over
jobs j and GPU types i, first the GPUs in use and then ::

    -sum (phi[j, i] + s[j, i] - rho[j] theta[j, i]) x[j, i],   phi = (t - a) theta / W + d W / theta,   [FFT, eq. 6]

with one type per job and within capacity. The claim ledger documents the choices that the paper leaves open.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import at_least, check_round_seconds, expect
from hetopt.data.array_types import Floats, Positions
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
from hetopt.models.fft.fft_method import small_plan
from hetopt.models.fft.fft_state import ByJob, FFTState, covers, numbers_of, types_of
from hetopt.models.fft.proven_round import (
    DRIFT,
    KNAPSACKS,
    Proof,
    ProvenRound,
    RoundGains,
    best_types,
    gpus_of,
    proof_of_last_plan,
)
from hetopt.models.fft.tie_breaking import settled
from hetopt.models.objectives import LinearGain, is_linear_gain
from hetopt.models.policy_checks import elapsed_since
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Component, ComponentTraits
from hetopt.results.allocation import Allocation, Plan
from hetopt.results.certificate import Certificate
from hetopt.solving.choices import value_of
from hetopt.solving.options import Options
from hetopt.tolerances import SEARCHED_GAP


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
        """It decides in rounds; the largest packable demand runs unless ``extra`` rows forbid it."""
        return Traits(self.round_seconds, idles="rows of extra components must hold" if self.extra else "")

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
        began, now = time.perf_counter(), self.advanced(instance, state)
        entities = instance.entities("jobs")
        proven: ProvenRound | None = None
        if self._only_costs:
            proven, certificate = self._proven(instance, now, None if state is None else state.proven, began)
            choice, x = proven.choice, proven.x
        else:
            allocation = self._round(now).solve(instance, self.options)
            choice, certificate = _chosen(allocation.x), allocation.certificate
            x = gpus_of(entities, choice)
        if certificate.status == "time_limit":
            proven = None  # the plan may use fewer GPUs than others, to which no bound applies
        planned = ByJob(entities.names, choice, entities.types)
        return Plan(entities, x, certificate=certificate), replace(now, planned=planned, proven=proven)

    @property
    def _only_costs(self) -> bool:
        """Whether the objective is only GPUs in use, then linear cost, and no component adds rows."""
        return all(is_linear_gain(part) and not ComponentTraits.of(part).priority for part in self.extra)

    def _proven(
        self, instance: Instance, now: FFTState, before: ProvenRound | None, began: float
    ) -> tuple[ProvenRound, Certificate]:
        """The plan of the round with its certificate: the last one if it is still optimal, else another.

        Without a round before, the program is compiled and solved.
        """
        entities = instance.entities("jobs")
        gains = self._gains(entities, types_of(now.last, entities), before)
        gain = self._gain(gains, entities, numbers_of(now.rho, entities, 0.0))
        proof = None
        if before is not None:
            if before.serves(entities):
                proof = proof_of_last_plan(before, entities, gain, self.options.gap)
            proof = proof or best_types(entities, gain) or self._small(entities, gain, before)
        if proof is None:
            allocation = self._searched(instance, now, before)
            choice = _chosen(allocation.x)
            certificate = replace(allocation.certificate, size=value_of(gain, choice)[1])
        else:
            choice, certificate = proof.choice, proof.certificate(time.perf_counter() - began)
        choice = settled(choice, np.where(entities.allowed, -gain, np.inf), entities, gains.last)
        if before is not None and proof is not None and choice is before.choice:
            kept = replace(before, gains=gains) if gains is not before.gains else before
            return kept if proof.method == DRIFT else before.at(gain, proof.bound, gains), certificate
        bound = max(certificate.bound, value_of(gain, choice)[0])
        return ProvenRound.of(entities, choice, gain, bound, gains), certificate

    def _small(self, entities: Entities, gain: Floats, before: ProvenRound) -> Proof | None:
        """The optimum by small tables if these suffice: without a compiled program."""
        start = before.choice if before.serves(entities) else None
        found = small_plan(entities, gain, self._searching(start is not None), start)
        if found is None or found.choice is None:
            return None
        value, size = value_of(gain, found.choice)
        return Proof(KNAPSACKS, found.choice, value, size, max(value, -found.bound))

    def _searching(self, from_last: bool) -> Options:
        """Options of a search; one from the last plan leaves most of the gap to the rounds that follow.

        A plan that is kept as gains drift is nearly optimal, so that such a search is short.
        """
        return replace(self.options, gap=SEARCHED_GAP * self.options.gap) if from_last else self.options

    def _searched(self, instance: Instance, now: FFTState, before: ProvenRound | None) -> Allocation:
        """The optimum of the round's program, from the plan before if that is still a plan."""
        if before is None:
            return self._round(now).solve(instance, self.options)
        entities = instance.entities("jobs")
        kept = before.serves(entities)
        start = (before.x > 0).astype(float) if kept else None
        return self._round(now).solve(instance, self._searching(kept), start=start)

    def _gains(self, entities: Entities, last: Positions, before: ProvenRound | None) -> RoundGains:
        """The gains of the components of FFT, from the round before if jobs and types are the same."""
        settings = self.round_seconds, self.restart_seconds, self.normalise
        if before is not None and before.gains is not None and before.gains.serves(entities, last, settings):
            return before.gains
        return RoundGains.of(entities, last, *settings)

    def _gain(self, gains: RoundGains, entities: Entities, rho: Floats) -> Floats:
        """(n, k) gains of the round, those of ``extra`` included; 0 where a job cannot run."""
        gain = gains.at(entities, rho)
        for part in self.extra:
            assert isinstance(part, LinearGain)
            gain += part.coefficients(entities)
        return gain

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
        executed = held_types(entities) if entities.held is not None else types_of(state.planned, entities)
        last = np.where(executed >= 0, executed, types_of(state.last, entities))
        rho = self._rho(instance, entities, state, executed, elapsed)
        names = entities.names
        return FFTState(
            instance.time, ByJob(names, rho), self._tau(instance, entities, state), ByJob(names, last, entities.types)
        )

    def _rho(
        self, instance: Instance, entities: Entities, state: FFTState, executed: Positions, elapsed: float
    ) -> Floats:
        """(n,) [FFT, eq. 5] with mu = (t - a) / (tau - a) at the time t of the last call; 0 for later jobs."""
        arrival, work = instance.job_array("arrival"), instance.job_array("work")
        before, tau = numbers_of(state.rho, entities, 0.0), numbers_of(state.tau, entities, np.inf)
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
        able = np.asarray(entities.allowed.any(axis=1))
        if covers(state.tau, entities, able):
            return state.tau
        alone = instance.job_array("work")[able] / entities.speed[able].max(axis=1)
        crowd = np.maximum(1.0, entities.demand[able] * np.count_nonzero(able) / entities.capacity.sum())
        tau = np.full(len(able), np.nan)
        tau[able] = instance.job_array("arrival")[able] + alone * crowd
        return ByJob(entities.names, tau)


def _present(instance: Instance) -> Entities:
    """The jobs; every job must have work left."""
    entities = present_entities(instance, "jobs", "FFT")
    for e in np.flatnonzero(instance.job_array("work_left") == 0)[:1].tolist():
        raise InvalidInstance("is all the work of the job; leave finished jobs out", ("done", Item(entities.names[e])))
    return entities


def _chosen(share: Floats) -> Positions:
    """(n,) position of the type with a share, -1 where there is none."""
    whole = np.rint(share)
    return np.where(whole.any(axis=1), whole.argmax(axis=1), -1)
