"""Themis: partial auctions of GPUs among the jobs with the worst finish-time fairness (NSDI'20)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hetopt.checks import FrozenDict, at_least, check_round_seconds, expect
from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance, present_entities
from hetopt.data.rates import isolated_part
from hetopt.decisions.rounders import heaviest_packing
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.errors import InvalidOption
from hetopt.formulations.traits import Traits
from hetopt.models.fft.tie_breaking import settled
from hetopt.models.policy_checks import elapsed_since
from hetopt.models.queues.gpu_pool import GPUPool, can_run, fastest_type, running_gangs, type_capacities, type_plan
from hetopt.models.queues.job_orders import PreemptiveQueuePolicy
from hetopt.results.allocation import Plan
from hetopt.solving.options import Options
from hetopt.tolerances import INTEGRAL


@dataclass(frozen=True)
class ThemisState:
    """State of Themis between calls.

    Attributes
    ----------
    time:
        Time of the last call, in seconds.
    crowd:
        Job -> integral of the total weight of present jobs over the time since its first call, in seconds.
    seen:
        Job -> time of its first call, in seconds.
    present:
        Total weight of the jobs that were present at the last call.
    """

    time: float
    crowd: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    present: float = 0.0

    def __post_init__(self) -> None:
        for key in ("crowd", "seen"):
            object.__setattr__(self, key, FrozenDict(getattr(self, key)))


@dataclass(frozen=True)
class Themis:
    """Each round, the jobs with the worst finish-time fairness share the GPUs so that the product of values is largest.

    A job's rho is its finish time since arrival over the time that it would take alone on 1/N of every GPU type, where
    N is the average number of jobs since it arrived. The fraction 1 - ``fairness`` of the jobs, those with the largest
    rho, takes part in the auction of all GPUs; a job's value for GPUs is 1 / rho with them. An integer program
    allocates whole gangs on one type each so that the product of all values is largest. The remaining GPUs go to the
    other jobs in descending order of rho, each on its fastest type with enough free GPUs.

    An allocation lasts for one round, a lease. So a job without GPUs loses a round, and a job with slow GPUs loses part
    of one (see :func:`finish_seconds`); after the lease it counts as running on its fastest type. With GPUs of one type
    this is the usual estimate, work left over rate. The hidden payments of the auction, which withhold part of each
    winner's GPUs so that misreports do not pay, are not applied: a gang cannot run on part of its GPUs, and there are
    no bids.

    Parameters
    ----------
    fairness:
        The fairness knob f in [0, 1): at 0 all jobs take part in the auction; the larger f, the fewer, but at least
        one.
    round_seconds:
        Length of a lease.
    time_limit:
        Time limit of the search in seconds; at the limit the best packing found is used. None: no limit.

    Raises
    ------
    InvalidOption
        A setting out of range.
    """

    fairness: float = 0.8
    round_seconds: float = ROUND_SECONDS
    time_limit: float | None = 10.0

    def __post_init__(self) -> None:
        at_least(self.fairness, "Themis.fairness", 0.0, InvalidOption, below=1.0)
        check_round_seconds(self)
        Options(time_limit=self.time_limit)  # rejects invalid limits

    @property
    def traits(self) -> Traits:
        """It decides in rounds."""
        return Traits(self.round_seconds)

    def __call__(self, instance: Instance, state: ThemisState | None = None) -> tuple[Plan, ThemisState]:
        """The plan of the round that begins now, and the next state.

        Raises
        ------
        InvalidInstance
            See :func:`~hetopt.data.instance.present_entities`; the time is before that of the state.
        """
        jobs = present_entities(instance, "jobs", "Themis")
        now = advanced(jobs, state)
        rho = rho_of(jobs, now, self.round_seconds)
        order = np.lexsort((instance.job_array("arrival"), -rho[:, -1]))
        order = order[can_run(jobs)[order]]
        pool = GPUPool(type_capacities(jobs), {})
        for job, kind in self._auction(jobs, order, rho).items():
            pool.give(job, ((kind, int(jobs.demand[job])),))
        choose = fastest_type(jobs)
        for job in order.tolist():
            if not pool.left:
                break
            if job not in pool.given:
                pool.start(job, choose)
        return type_plan(jobs, pool.given), now

    def rho(self, instance: Instance, state: ThemisState | None = None) -> Floats:
        """(n, k + 1) rho of each job with its gang on each type for the next round, and (last) without GPUs.

        Infinite on types that cannot run the gang; 0 for jobs that are finished or that no GPU type can run now.
        """
        jobs = present_entities(instance, "jobs", "Themis")
        return rho_of(jobs, advanced(jobs, state), self.round_seconds)

    def _auction(self, jobs: Entities, order: NDArray[np.intp], rho: Floats) -> dict[int, int]:
        """Job -> GPU type, for the jobs that win GPUs."""
        bidders = order[: max(1, math.ceil((1 - self.fairness) * len(order) - INTEGRAL))]
        gain = np.zeros(jobs.shape)
        e, k = np.nonzero(jobs.allowed & np.isin(np.arange(len(gain)), bidders)[:, None])
        gain[e, k] = np.log(rho[e, -1] / rho[e, k])
        x = heaviest_packing(jobs, gain, Options(time_limit=self.time_limit))
        choice = np.where(x.any(axis=1), x.argmax(axis=1), -1)
        last = np.full(len(jobs.names), -1)
        for runs, ((kind, _),) in running_gangs(jobs).items():
            last[runs] = kind
        choice = settled(choice, np.where(gain > 0, -gain, np.inf), jobs, last)
        return {e: int(choice[e]) for e in np.flatnonzero(choice >= 0).tolist()}


def advanced(jobs: Entities, state: ThemisState | None) -> ThemisState:
    """The state at the time of the instance, from that of the last call; None: there was no call.

    Raises
    ------
    InvalidInstance
        The time is before that of the state.
    """
    instance = jobs.source
    state = ThemisState(instance.time) if state is None else expect(ThemisState, state, "state", InvalidOption)
    passed = elapsed_since(instance, state.time) * state.present
    crowd = {name: state.crowd[name] + passed if name in state.crowd else 0.0 for name in jobs.names}
    seen = {name: state.seen.get(name, instance.time) for name in jobs.names}
    return ThemisState(instance.time, crowd, seen, float(jobs.weight.sum()))


def rho_of(jobs: Entities, now: ThemisState, lease: float) -> Floats:
    """(n, k + 1) rho as of :meth:`Themis.rho`; ``now`` is the state at this time, ``lease`` in seconds."""
    instance = jobs.source
    since = instance.time - np.array([now.seen[name] for name in jobs.names])
    crowd = np.array([now.crowd[name] for name in jobs.names])
    with np.errstate(divide="ignore", invalid="ignore"):
        many = np.where(since > 0, crowd / since, now.present) / jobs.weight  # N
        part = isolated_part(1.0 / (many * jobs.demand), jobs.capacity.sum())
        alone = instance.job_array("work") / ((jobs.speed @ jobs.capacity) * part)
        rho = finish_seconds(jobs, lease) / alone[:, None]
    return np.where(can_run(jobs)[:, None], rho, 0.0)


def finish_seconds(jobs: Entities, lease: float) -> Floats:
    """(n, k + 1) seconds from a job's arrival to completion, with its gang on each type for one lease, or (last) idle.

    After the lease the job counts as running on its fastest type: with s its speed in the lease, s* its best speed and
    w the work left, ``elapsed + w / s* + lease (1 - s / s*)``; if the lease suffices, ``elapsed + w / s``. Infinite on
    types that cannot run the gang.
    """
    instance = jobs.source
    elapsed = np.maximum(instance.time - instance.job_array("arrival"), 0.0)[:, None]
    work = instance.job_array("work_left")[:, None]
    speed = np.hstack([jobs.speed, np.zeros((len(work), 1))])
    with np.errstate(divide="ignore", invalid="ignore"):
        best = jobs.speed.max(axis=1, keepdims=True)
        longer = work / best + lease * (1 - speed / best)
        seconds = elapsed + np.where(speed * lease >= work, work / speed, longer)
    seconds[:, :-1][~jobs.allowed] = np.inf
    return seconds


@dataclass(frozen=True)
class FinishTimeQueue(PreemptiveQueuePolicy):
    """The job with the worst finish-time fairness first: Themis' estimate of rho without GPUs, without its auction.

    Running jobs stay where they are unless jobs ahead of them need their GPUs. A job with d GPUs and speed v_k on the
    M_k GPUs of type k, which arrived t seconds ago and has w of its work W left, has::

        rho = (t + w / max_k v_k + lease) / (W / (part sum_k M_k v_k))
        part = min(1 / (N d), 1 / sum_k M_k)

    with N the average number of jobs since it came, by weight: the denominator is its time alone on 1/N of all GPUs.

    Parameters
    ----------
    round_seconds:
        Length of a round and of the lease that a waiting job loses, in seconds; None: decisions at arrivals and
        completions, and a lease of :data:`~hetopt.decisions.system.ROUND_SECONDS`.
    moves:
        A job that stays may move to a faster type.
    """

    round_seconds: float | None = ROUND_SECONDS
    moves: bool = False

    def ranked(self, jobs: Entities, state: ThemisState | None) -> tuple[Floats, ThemisState]:
        """Minus rho, and the state of :class:`Themis`."""
        now = advanced(jobs, state)
        return -rho_of(jobs, now, self.round_seconds or ROUND_SECONDS)[:, -1], now
