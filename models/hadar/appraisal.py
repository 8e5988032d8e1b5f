"""From an instance to the market of one round: the bids of the jobs and the bounds of the prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetopt.data.array_types import Floats
from hetopt.data.cluster import NIC_BYTES_PER_S
from hetopt.data.entities import Entities
from hetopt.data.instance import Instance
from hetopt.data.workload import Job
from hetopt.decisions.system import GAVEL_ROUND_SECONDS
from hetopt.models.hadar.prices import whole_slots
from hetopt.models.hadar.round_market import Bid, GPUMarket, Level, ServerGPUs, Types
from hetopt.models.hadar.utilities import NegativeJCT, Utility, checked_utility, utility_of
from hetopt.tolerances import WORK


@dataclass(frozen=True)
class RoundSettings:
    """Settings of a round.

    Parameters
    ----------
    round_seconds:
        Length of a slot.
    restart_seconds:
        Time that a job loses if its GPUs change [Hadar, section IV: 10 s].
    communication:
        Cost of a gang that spans servers, per server with a 10 Gbit/s card, as a fraction of the job's best utility.
        The cost is inversely proportional to the bandwidth of the card.
    whole:
        A job pays for all slots until it completes, as its schedule does in [Hadar, eq. 4]; else for one slot, as
        printed in [Hadar, Algorithm 2].
    utility:
        Utility of jobs that name none.
    """

    round_seconds: float = GAVEL_ROUND_SECONDS
    restart_seconds: float = 10.0
    communication: float = 0.01
    whole: bool = True
    utility: Utility = field(default_factory=NegativeJCT)


class Appraisal(NamedTuple):
    """A job's bid, and the values that the bounds of prices depend on.

    Attributes
    ----------
    best:
        Utility if the job ran alone on its fastest type from now on, U_j(t_min).
    least:
        The least utility > 0 over its possible completion times, up to the horizon, U_j(T - a_j); 0 if all are 0.
    longest:
        Slots on its slowest type, t_max.
    """

    bid: Bid
    best: float
    least: float
    longest: float


def appraise(
    instance: Instance, jobs: Entities, settings: RoundSettings, now: Mapping[str, ServerGPUs], horizon: float
) -> list[Appraisal]:
    """Bids of the jobs; finished jobs and jobs that no GPU type can run are omitted.

    Parameters
    ----------
    now:
        Job -> GPUs that it runs on; waiting jobs are absent.
    horizon:
        Seconds from now until all jobs would be done, one after another.
    """
    left = instance.job_array("work_left")
    cards = tuple(NIC_BYTES_PER_S / server.nic_bytes_per_s for server in instance.cluster.servers)
    speeds = jobs.task_speed_now.tolist()
    appraised = []
    for j, job in enumerate(instance.jobs):
        paces = levels_of(speeds[j])
        if not paces or left[j] <= WORK * job.work:
            continue
        seconds = [float(left[j]) / v for v, _ in paces]
        placed = now.get(job.name, ())
        value = _values(instance, job, seconds, settings, bool(placed), horizon)
        kept, moved, last = value[: len(paces)], value[len(paces) : -1], value[-1]
        slots = [whole_slots(s / settings.round_seconds) for s in seconds]
        levels = tuple(
            Level(v, types, slots[i] if settings.whole else 1, moved[i], kept[i]) for i, (v, types) in enumerate(paces)
        )
        charge = settings.communication * kept[0] if job.demand > 1 else 0.0
        least = min((u for u in (*kept, last) if u > 0), default=0.0)
        appraised.append(Appraisal(Bid(j, job.demand, levels, charge, cards, placed), kept[0], least, slots[-1]))
    return appraised


def levels_of(speeds: Sequence[float]) -> list[tuple[float, Types]]:
    """The speeds > 0 that a gang may have, in descending order, each with the types that are not slower.

    Parameters
    ----------
    speeds:
        (k,) speeds of one job by GPU type.
    """
    paces = sorted({v for v in speeds if v > 0}, reverse=True)
    return [(v, tuple(k for k, speed in enumerate(speeds) if speed >= v)) for v in paces]


def _values(
    instance: Instance, job: Job, seconds: list[float], settings: RoundSettings, runs: bool, horizon: float
) -> list[float]:
    """Utilities of completion after ``seconds`` without and with a restart, and at the horizon.

    The utility must not increase up to twice the last of these times.
    """
    elapsed = instance.time - job.arrival
    restart = settings.restart_seconds
    times = [s + (0.0 if runs else restart) for s in seconds] + [s + restart for s in seconds] + [horizon + restart]
    after = np.array([*times, 2 * max(times)]) + elapsed
    order = np.argsort(after, kind="stable")
    value = np.empty(len(after))
    value[order] = checked_utility(utility_of(job, settings.utility), job, after[order])
    return [float(u) for u in value[:-1]]


def open_market(
    instance: Instance, jobs: Entities, settings: RoundSettings, now: Mapping[str, ServerGPUs]
) -> tuple[GPUMarket, list[Appraisal]]:
    """The empty market of a round with its prices, and the bids of the jobs."""
    horizon = serial_seconds(instance, jobs)
    appraised = appraise(instance, jobs, settings, now, horizon)
    slots = math.ceil(horizon / settings.round_seconds) + len(appraised) if settings.whole else None
    market = GPUMarket.of(instance.cluster, *price_bounds(appraised, jobs.capacity, slots))
    market.expect_bids(a.bid for a in appraised)
    return market, appraised


def placed_gpus(instance: Instance) -> dict[str, ServerGPUs]:
    """Job -> its GPUs, for jobs that are placed."""
    servers = {server.name: h for h, server in enumerate(instance.cluster.servers)}
    types = {t: k for k, t in enumerate(instance.cluster.type_names)}
    placed = {
        name: tuple(sorted((servers[m], types[t], n) for m, own in hosts.items() for t, n in own.items() if n))
        for name, hosts in instance.placed.items()
    }
    return {name: placed for name, placed in placed.items() if placed}


def serial_seconds(instance: Instance, jobs: Entities) -> float:
    """Seconds until all jobs would be done, one after another, each on its slowest type."""
    slowest = np.where(jobs.task_speed_now > 0, jobs.task_speed_now, np.inf).min(axis=1)
    return float((instance.job_array("work_left") / slowest).sum())


def price_bounds(appraised: list[Appraisal], capacity: Floats, slots: float | None = None) -> tuple[Floats, Floats]:
    """(k,) U_min and U_max of the round, [Hadar, eq. 6 and 7].

    They are interpreted as by :func:`~hetopt.models.hadar.prices.printed_prices`, but times count from now,
    and the least utility is that of a completion when all jobs would be done, one after another.

    Parameters
    ----------
    capacity:
        (k,) GPUs of each type.
    slots:
        T, if jobs pay for all of their slots: U_min is then the least utility over 2 T sum c, as the guarantee requires
        (:func:`~hetopt.models.hadar.prices.proven_prices`). The printed bound omits T, and would reject a job
        of many slots on an empty cluster.
    """
    types = len(capacity)
    worthy = [a for a in appraised if a.least > 0]
    if not worthy:
        return np.ones(types), np.ones(types)
    if slots is None:
        eta = float(capacity.sum()) / min(a.longest * a.bid.gpus for a in worthy)
        low = min(a.least / (a.longest * a.bid.gpus) for a in worthy) / (4 * eta)
    else:
        low = min(a.least for a in worthy) / (2 * max(1.0, slots) * float(capacity.sum()))
    high = np.zeros(types)
    for a in worthy:
        own = list(a.bid.levels[-1].types)
        high[own] = np.maximum(high[own], a.best / a.bid.gpus)
    high = np.where(high > 0, high, high.max())
    return np.full(types, low), np.maximum(high, low)
