"""Shockwave: jobs get rounds of a future window by a program that trades progress, fairness and makespan.

Zheng, Pan, Khan, Venkataraman, Akella: Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in
Machine Learning, NSDI 2023.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from hetopt.checks import FrozenDict, at_least, boolean, check_round_seconds, expect, whole
from hetopt.data.array_types import Floats
from hetopt.data.cluster import Cluster
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.errors import InvalidOption, NotSolved
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.baselines import by_rule
from hetopt.models.policy_checks import elapsed_since
from hetopt.models.queues.gpu_pool import GPUPool, can_run, fastest_type, type_capacities
from hetopt.models.shockwave.epoch_estimates import EpochEstimate, epoch_estimate
from hetopt.models.shockwave.shockwave_components import (
    BASES,
    LEAST,
    ROUND_SECONDS,
    LogProgress,
    LongestTimeLeft,
    OneTypePerRound,
    TrainingTime,
    checked_bases,
    window,
)
from hetopt.models.shockwave.window_search import best_rounds, in_order
from hetopt.programs.mathematics import Mathematics
from hetopt.results.allocation import Allocation, Plan
from hetopt.results.certificate import Certificate
from hetopt.solving.options import Options
from hetopt.tolerances import INTEGRAL

MOMENTUM = 0.9
"""Weight of the average over time in a job's fair finish time; the rest is that of the last estimate (public code)."""

OPTIONS = Options(gap=1e-3, time_limit=15.0)
"""``solver_rel_gap`` and ``solver_timeout`` of the public code."""

LAST_ROUND_POWER = 100.0
"""Power of rho of jobs that end within a round (public code)."""

HEAVIEST = 1e6
"""Larger weights of late jobs are cut, since a solver with a gap of a thousandth sees only these jobs anyway."""


@dataclass(frozen=True)
class FinishTime:
    """Estimates of a job's finish time under an equal share, over time.

    Attributes
    ----------
    since, at:
        Times of the first and of the last estimate, in seconds.
    integral:
        Integral of the estimate from the first time to the last, in seconds squared.
    last:
        The last estimate, in seconds.
    """

    since: float
    at: float
    integral: float
    last: float

    def estimated(self, now: float, value: float) -> FinishTime:
        """With the estimate ``value`` from ``now`` on."""
        return FinishTime(self.since, now, self.integral + self.last * (now - self.at), value)

    def average(self, now: float) -> float:
        """The average over time and the last estimate, by :data:`MOMENTUM`."""
        mean = self.last
        if now > self.since:
            mean = (self.integral + self.last * (now - self.at)) / (now - self.since)
        return MOMENTUM * mean + (1.0 - MOMENTUM) * self.last


@dataclass(frozen=True)
class ShockwaveState:
    """State of Shockwave between calls.

    Attributes
    ----------
    time:
        Time of the last call, in seconds.
    began:
        Time from which finish times count: the first arrival, in seconds.
    finish:
        Job -> estimates of its finish time under an equal share.
    planned:
        Time at which the window was planned, in seconds.
    names, cluster:
        Jobs and cluster for which it was planned.
    plan:
        For each round of the window: job -> GPU type, for the jobs that run.
    """

    time: float
    began: float
    finish: Mapping[str, FinishTime] = field(default_factory=dict)
    planned: float = 0.0
    names: tuple[str, ...] = ()
    cluster: Cluster | None = None
    plan: tuple[Mapping[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "finish", FrozenDict(self.finish))
        object.__setattr__(self, "plan", tuple(FrozenDict(row) for row in self.plan))


@dataclass(frozen=True)
class _Outlook:
    """Estimates of the n jobs of a window.

    Attributes
    ----------
    estimates:
        Job -> its progress and work left.
    left, most:
        (n,) predicted seconds left, and seconds left by the epochs so far, on the job's fastest type.
    share:
        (n,) part of its fastest type's speed that a job has under an equal share.
    fair:
        (n,) fair finish time, in seconds since :attr:`ShockwaveState.began`.
    """

    estimates: Mapping[str, EpochEstimate]
    left: Floats
    most: Floats
    share: Floats
    fair: Floats


@dataclass(frozen=True)
class Shockwave:
    """Jobs get rounds of a window by a program that trades progress, finish times and makespan, with predictions.

    Called once a round: ``Shockwave()(instance, state) -> (Plan, ShockwaveState)``. The window is planned again when a
    job comes or leaves, and after ``replan_rounds``. The program of the window maximises
    the logarithm of the jobs' progress at its end minus ``makespan_weight`` times the longest training time that is
    then left. Each job must finish by ``rho_limit`` times its fair finish time if its training after the window has an
    equal share of the GPUs. Where no plan does this, a job that is later, by a factor of rho, instead has the weight
    ``rho ** power``. Jobs of more weight get the earlier of the rounds in which jobs run. GPUs that are left go to
    waiting jobs, those with most time left first.

    The work left of a job with phases is predicted (:func:`~hetopt.models.shockwave.epoch_estimates.epoch_estimate`).
    With several GPU types, a job may have another type in each round; its times count on its fastest type.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    window_rounds:
        Rounds of a window: ``future_rounds`` of the public code.
    replan_rounds:
        A window is planned again after this number of rounds.
    makespan_weight:
        Cost of a second of the longest time left: ``k`` of the public code.
    power:
        Power of rho in the weight of a late job: ``lambda`` of the public code.
    rho_limit:
        Limit on rho, the finish time relative to the fair one: ``rhomax`` of the public code.
    bases, least:
        See :class:`~hetopt.models.shockwave.shockwave_components.LogProgress`.
    options:
        Solver options; the public code's gap and time limit by default.

    Raises
    ------
    InvalidOption
        A setting out of range.

    Examples
    --------
    >>> import hetopt
    >>> from hetopt.models import shockwave
    >>> jobs = hetopt.Instance.from_jobs([[1], [1]], demand=[1, 1], work=[3, 1], capacity=[1], round_seconds=120)
    >>> plan, state = shockwave.Shockwave(window_rounds=4)(jobs)
    >>> [sorted(row) for row in state.plan]
    [['j2'], ['j1'], ['j1'], ['j1']]
    """

    round_seconds: float = ROUND_SECONDS
    window_rounds: int = 20
    replan_rounds: int = 8
    makespan_weight: float = 1e-3
    power: float = 12.0
    rho_limit: float = 1.0
    bases: tuple[float, ...] = BASES
    least: float = LEAST
    options: Options = OPTIONS

    def __post_init__(self) -> None:
        check_round_seconds(self)
        for key in ("window_rounds", "replan_rounds"):
            whole(getattr(self, key), f"Shockwave.{key}", 1)
        for key in ("makespan_weight", "power"):
            at_least(getattr(self, key), f"Shockwave.{key}", 0.0, InvalidOption)
        at_least(self.rho_limit, "Shockwave.rho_limit", 0.0, InvalidOption, strict=True)
        object.__setattr__(self, "bases", checked_bases(self.bases, self.least, "Shockwave"))
        expect(Options, self.options, "Shockwave.options", InvalidOption)

    @property
    def traits(self) -> Traits:
        """It decides in rounds."""
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: ShockwaveState | None = None) -> tuple[Plan, ShockwaveState]:
        """The plan of the round that begins now, and the next state.

        The plan has a certificate where a window was planned.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; the time is before that of the state.
        """
        jobs = present_entities(instance, "jobs", "Shockwave")
        state = self._continued(instance, state)
        number = int((instance.time - state.planned) / self.round_seconds + INTEGRAL)
        certificate = None
        if not (state.names == jobs.names and state.cluster == instance.cluster and number < len(state.plan)):
            now = self._estimated(jobs, state)
            plan, certificate = self._planned(instance, now)
            state, number = replace(now, planned=instance.time, plan=plan), 0
        x = np.zeros(jobs.shape)
        for name, t in state.plan[number].items():
            e = jobs.position[name]
            x[e, jobs.types.index(t)] = jobs.demand[e]
        idle = float(jobs.capacity.sum() - x.sum())
        return Plan(jobs, x, given_up={"idle": idle}, certificate=certificate), state

    def program(
        self, instance: Instance, state: ShockwaveState | None = None, *, limits: bool = True
    ) -> tuple[Formulation, Instance]:
        """The program of a window that begins now, and the instance that it is for: its GPU types are those of rounds.

        Parameters
        ----------
        instance, state:
            As of :meth:`__call__`.
        limits:
            With the limits on finish times, where each of them alone can hold; they may contradict each other. False:
            with the weights of late jobs.

        Raises
        ------
        InvalidInstance
            See :meth:`__call__`; or no job can run.
        """
        jobs = present_entities(instance, "jobs", "Shockwave")
        now = self._estimated(jobs, self._continued(instance, state))
        spread = window(instance, self.window_rounds)
        first, *others = self._programs(spread, self._outlook(spread, instance, now), now)
        chosen = first if boolean(limits, "limits") or not others else others[0]
        return chosen[0], spread

    def mathematics(self) -> Mathematics:
        """The program of a window with limits on finish times, as formulas."""
        nothing = np.zeros(0)
        outlook = _Outlook({}, nothing, nothing, nothing, nothing)
        return self._formulation(outlook, {}, TrainingTime({}, self.round_seconds)).mathematics()

    def _continued(self, instance: Instance, state: ShockwaveState | None) -> ShockwaveState:
        first = float(instance.job_array("arrival").min())
        if state is None:
            return ShockwaveState(instance.time, first)
        elapsed_since(instance, expect(ShockwaveState, state, "state", InvalidOption).time)
        return replace(state, time=instance.time, began=min(first, state.began))

    def _estimated(self, jobs: Entities, state: ShockwaveState) -> ShockwaveState:
        """``state`` with new estimates of fair finish times if other jobs are present, or another cluster."""
        instance, able = jobs.source, np.flatnonzero(can_run(jobs)).tolist()
        same = state.names == jobs.names and state.cluster == instance.cluster
        if same and all(jobs.names[e] in state.finish for e in able):
            return state
        share, now = _equal_share(jobs), instance.time
        finish = {}
        for e in able:
            job, left = instance.jobs[e], float(instance.job_array("work_left")[e])
            ahead = epoch_estimate(job, left).left
            value = job.arrival + float((job.work - left + ahead) / jobs.speed[e].max() / share[e])
            known = state.finish.get(job.name)
            finish[job.name] = FinishTime(now, now, 0.0, value) if known is None else known.estimated(now, value)
        return replace(state, finish=finish, names=jobs.names, cluster=instance.cluster)

    def _outlook(self, spread: Instance, instance: Instance, state: ShockwaveState) -> _Outlook:
        jobs, every = spread.entities("jobs"), instance.entities("jobs")
        left = spread.job_array("work_left").tolist()
        estimates = {n: epoch_estimate(instance.job[n], rest) for n, rest in zip(jobs.names, left, strict=True)}
        seconds = np.array([(own.left, own.most) for own in estimates.values()]) / jobs.speed.max(axis=1)[:, None]
        share = _equal_share(every)[[every.position[name] for name in jobs.names]]
        fair = [state.finish[name].average(state.time) - state.began for name in jobs.names]
        return _Outlook(estimates, seconds[:, 0], seconds[:, 1], share, np.array(fair))

    def _limits(self, spread: Instance, outlook: _Outlook, state: ShockwaveState) -> dict[str, float] | None:
        """Job -> seconds that it must train in the window to finish in time; None if a job cannot."""
        length = self.window_rounds * self.round_seconds
        slack = self.rho_limit * outlook.fair - (state.time + length - state.began)
        least = outlook.left - slack * outlook.share
        if (slack < 0).any() or (least > np.minimum(outlook.most, length)).any():
            return None
        return {job.name: float(s) for job, s in zip(spread.jobs, least, strict=True) if s > 0}

    def _weights(self, spread: Instance, outlook: _Outlook, state: ShockwaveState) -> dict[str, float]:
        """Job -> its weight, times that of its lateness."""
        finish = state.time - state.began + outlook.left / outlook.share
        rho = np.divide(finish, outlook.fair, out=np.ones_like(finish), where=outlook.fair > 0)
        power = np.where(outlook.left < self.round_seconds, LAST_ROUND_POWER, self.power)
        with np.errstate(over="ignore"):
            late = np.where(rho > self.rho_limit, np.minimum(rho**power, HEAVIEST), 1.0)
        return {job.name: job.weight * times for job, times in zip(spread.jobs, late.tolist(), strict=True)}

    def _programs(
        self, spread: Instance, outlook: _Outlook, state: ShockwaveState
    ) -> Iterator[tuple[Formulation, dict[str, float]]]:
        """The programs of a window with the weights of jobs: the first that has a solution counts."""
        if (seconds := self._limits(spread, outlook, state)) is not None:
            own = {job.name: job.weight for job in spread.jobs}
            yield self._formulation(outlook, own, TrainingTime(seconds, self.round_seconds)), own
        weight = self._weights(spread, outlook, state)
        yield self._formulation(outlook, weight), weight

    def _formulation(self, outlook: _Outlook, weight: Mapping[str, float], *limits: TrainingTime) -> Formulation:
        rounds, length = self.window_rounds, self.round_seconds
        return Formulation(
            (
                OneTypePerRound(rounds),
                LogProgress(rounds, length, weight, outlook.estimates, self.bases, self.least),
                LongestTimeLeft(self.makespan_weight, length, outlook.estimates),
                *limits,
            ),
            title="Shockwave",
        )

    def _planned(self, instance: Instance, state: ShockwaveState) -> tuple[tuple[dict[str, str], ...], Certificate]:
        """The rounds of a window until it is planned again, and the certificate of its program."""
        jobs, used = instance.entities("jobs"), min(self.window_rounds, self.replan_rounds)
        if not can_run(jobs).any():
            return ({},) * used, by_rule(jobs, np.zeros(jobs.shape), "no job can run", 0.0).certificate
        spread = window(instance, self.window_rounds)
        outlook = self._outlook(spread, instance, state)
        found, weight = self._solved(instance, spread, outlook, state)
        chosen = in_order(found, spread, self.window_rounds, weight, self.options)
        order = np.argsort(-outlook.left, kind="stable").tolist()
        names = [job.name for job in spread.jobs]
        made = tuple(_filled(jobs, dict(zip(names, chosen[:, r].tolist(), strict=True)), order) for r in range(used))
        return made, found.certificate

    def _solved(
        self, instance: Instance, spread: Instance, outlook: _Outlook, state: ShockwaveState
    ) -> tuple[Allocation, dict[str, float]]:
        """The optimum of the window, and the weights of its jobs."""
        *limited, (late, weight) = self._programs(spread, outlook, state)
        for formulation, own in limited:
            with suppress(NotSolved):
                return best_rounds(formulation, instance, self.window_rounds, self.options), own
        return best_rounds(late, instance, self.window_rounds, self.options), weight


def _equal_share(jobs: Entities) -> Floats:
    """(n,) part of the time that each job runs under an equal share by weight: ``weight * GPUs / total weight``, or 1.

    The size of its gang does not count, as in the public code, where it is min(1, GPUs / jobs): with gangs
    of several GPUs, these parts may need more than all GPUs.
    """
    total = float(jobs.weight[can_run(jobs)].sum())
    return np.asarray(np.minimum(1.0, jobs.weight * jobs.capacity.sum() / (total or 1.0)))


def _filled(jobs: Entities, chosen: Mapping[str, int], order: list[int]) -> dict[str, str]:
    """Job -> GPU type of a round: the chosen ones (-1: waits), and waiting jobs on GPUs that are left, in order."""
    pool, choose = GPUPool(type_capacities(jobs), {}), fastest_type(jobs)
    position = [jobs.position[name] for name in chosen]
    for e, kind in zip(position, chosen.values(), strict=True):
        if kind >= 0:
            pool.give(e, ((kind, int(jobs.demand[e])),))
    for e in (position[i] for i in order):
        if e not in pool.given:
            pool.start(e, choose)
    return {jobs.names[e]: jobs.types[kind] for e, ((kind, _),) in pool.given.items()}
