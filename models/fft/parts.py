"""Parts of FFT's round: one GPU type per job, the costs of a round, compensation, and work conservation.

Mo, Xu, Lau: Fast and Fair Training for Deep Learning in Heterogeneous GPU Clusters, ICS 2025. Costs are negative gains.
Time is in rounds of ``round_seconds``, and theta is the work that a job's whole gang does in one round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyomo.environ as pyo

from hetopt.checks import FrozenDict, at_least, choices
from hetopt.data.entities import Entities, Floats, Kind
from hetopt.errors import InvalidFormulation, InvalidOption
from hetopt.programs.formulation import Block, Expression, Measure, Model

ROUND_SECONDS = 300.0
"""Length of a round in seconds, [FFT, section 6.4.1]."""


class LinearGain(ABC):
    """A gain that is linear in the shares: sum_ek coefficients[e, k] * share[e, k], and no rows."""

    @abstractmethod
    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) gain of a unit of share; 0 where the entity cannot run."""

    def add(self, block: Block, model: Model) -> Expression:
        """The gain; no rows."""
        return model.weighted_shares(self.coefficients(model.entities))

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The gain of ``share``."""
        return Measure(gain=float((self.coefficients(entities) * share).sum()))


@dataclass(frozen=True)
class OneType:
    """A job runs on one GPU type or waits: share is 0 or 1, [FFT, eq. 1].

    Rows, for all jobs e: ``sum_k share[e, k] <= 1``.
    """

    name: str = "one_type"
    kind: Kind = field(default="jobs", init=False)
    binary: bool = field(default=True, init=False)

    def add(self, block: Block, model: Model) -> Expression:
        """The rows ``row[e]``; no gain."""
        ones = np.ones(len(model.entities.types))
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(model.entities.names):
            block.row[name] = (None, model.weighted_row(e, ones), 1.0)
        return 0

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """How far the shares are from whole, or their sum above 1."""
        over = share.sum(axis=1).max(initial=0.0) - 1.0
        return Measure(violation=max(0.0, float(over), float(np.abs(share - np.rint(share)).max(initial=0.0))))


@dataclass(frozen=True)
class WorkConserving(LinearGain):
    """As many GPUs as can be packed are used before any cost counts: the repaired [FFT, eq. 7].

    Gain of priority 1: ``sum_ek demand[e] * share[e, k]``. So the largest packable demand K* is the first stage and
    the least cost with ``sum demand * share >= K*`` the second. The paper's K(t), the lesser of available and demanded
    GPUs, can be out of reach: 4 GPUs and two gangs of 3.
    """

    name: str = "work_conserving"
    priority: int = field(default=1, init=False)

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) GPUs."""
        return np.where(entities.allowed, entities.demand[:, None], 0.0)


@dataclass(frozen=True)
class AgeCost(LinearGain):
    """The present round's part in the (approximate) completion time: cost (t - a) theta / W, [FFT, eq. 3], first term.

    Age t - a in rounds, theta / W the part of the job done in the round; so the cost is in rounds.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    """

    round_seconds: float = ROUND_SECONDS
    name: str = "age_cost"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        check_round(self)

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) minus the cost, in rounds."""
        instance = entities.source
        age = (instance.time - instance.job_array("arrival")) / self.round_seconds
        return -age[:, None] * theta(entities, self.round_seconds, normalise=True)


@dataclass(frozen=True)
class VolumeCost(LinearGain):
    """The volume of the whole job, GPUs times rounds on the type: cost d W / theta, [FFT, eq. 3], second term.

    Parameters
    ----------
    round_seconds:
        Length of a round in seconds.
    """

    round_seconds: float = ROUND_SECONDS
    name: str = "volume_cost"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        check_round(self)

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) minus the cost, in GPU rounds."""
        part = theta(entities, self.round_seconds, normalise=True)
        return -np.divide(entities.demand[:, None], part, out=np.zeros(entities.shape), where=entities.allowed)


@dataclass(frozen=True)
class Switching(LinearGain):
    """Rounds that a job loses when it moves to another GPU type: cost s[e, k], [FFT, section 4.2.3].

    ``s[e, k] = (checkpoint_bytes[e] / bandwidth[k] + restart_seconds) / round_seconds`` where the type on which e was
    executed last is known and is not k, else 0; bandwidth[k] in bytes/s is that of the slowest network card among the
    servers that have GPUs of type k. A job that paused on its last type may resume there for nothing.

    Parameters
    ----------
    last:
        Job -> GPU type on which it was executed last. For jobs that it does not name, the type that they hold now.
    round_seconds:
        Length of a round in seconds.
    restart_seconds:
        What a restart takes besides the transfer (containers, communication groups).
    """

    last: Mapping[str, str] = field(default_factory=dict)
    round_seconds: float = ROUND_SECONDS
    restart_seconds: float = 0.0
    name: str = "switching"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", FrozenDict(self.last))
        check_round(self)
        at_least(self.restart_seconds, "Switching.restart_seconds", 0.0, InvalidOption)

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) minus the cost, in rounds."""
        instance = entities.source
        last = positions(self.last, entities, "Switching.last")
        last = np.where(last >= 0, last, held_types(entities))
        cards = [[s.nic_bytes_per_s for s in instance.cluster.servers if s.gpus.get(t)] for t in entities.types]
        bandwidth = np.array([min(own, default=np.inf) for own in cards])
        seconds = instance.job_array("checkpoint_bytes")[:, None] / bandwidth + self.restart_seconds
        moves = (last[:, None] >= 0) & (last[:, None] != np.arange(len(entities.types))) & entities.allowed
        return np.where(moves, -seconds / self.round_seconds, 0.0)


@dataclass(frozen=True)
class Compensation(LinearGain):
    """What a job is owed by fairness: gain rho[e] * theta[e, k] * share[e, k], [FFT, eq. 4].

    Works on divisible shares as well, where ``theta * share`` is the work done in part of a round.

    Parameters
    ----------
    rho:
        Job -> rho >= 0; jobs that it does not name are owed nothing.
    round_seconds:
        Length of a round in seconds.
    normalise:
        True: theta is the part of the job done in a round (1 / rounds). False, as printed: work per round, and then
        doubling the unit of work changes decisions (rho theta grows with its square).

    Raises
    ------
    InvalidOption
        rho is negative or not finite.
    """

    rho: Mapping[str, float]
    round_seconds: float = ROUND_SECONDS
    normalise: bool = True
    name: str = "compensation"
    kind: Kind = field(default="jobs", init=False)

    def __post_init__(self) -> None:
        rho = {job: at_least(r, f"Compensation.rho[{job!r}]", 0.0, InvalidOption) for job, r in self.rho.items()}
        object.__setattr__(self, "rho", FrozenDict(rho))
        check_round(self)

    def coefficients(self, entities: Entities) -> Floats:
        """(n, k) gain."""
        check_names(self.rho, entities, "Compensation.rho")
        rho = np.array([self.rho.get(name, 0.0) for name in entities.names])
        return rho[:, None] * theta(entities, self.round_seconds, self.normalise)


def theta(entities: Entities, round_seconds: float, normalise: bool) -> Floats:
    """(n, k) what a job's gang does in one round: part of the job if ``normalise``, else work."""
    done = entities.speed * round_seconds
    return np.asarray(done / entities.source.job_array("work")[:, None] if normalise else done)


def held_types(entities: Entities) -> np.ndarray:
    """(n,) position of the GPU type of which a job holds most GPUs now, -1 where it holds none."""
    if entities.held is None:
        return np.full(len(entities.names), -1)
    return np.where(entities.held.any(axis=1), entities.held.argmax(axis=1), -1)


def positions(types: Mapping[str, str], entities: Entities, key: str) -> np.ndarray:
    """(n,) position of the GPU type of each job, -1 for jobs that ``types`` does not name."""
    check_names(types, entities, key)
    place = {name: i for i, name in enumerate(entities.types)}
    for job, kind in types.items():
        if kind not in place:
            raise InvalidFormulation(f"{key}[{job!r}] is {kind!r}; it must be a GPU type: {choices(kind, place)}")
    return np.array([place[types[name]] if name in types else -1 for name in entities.names], dtype=np.intp)


def check_names(names: Mapping[str, object], entities: Entities, key: str) -> None:
    """Raise :class:`InvalidFormulation` where ``names`` has somebody who is not there."""
    for name in names:
        if name not in entities.position:
            raise InvalidFormulation(f"{key} names {name!r}, which is no job here; {choices(name, entities.names)}")


def check_round(part: object) -> None:
    """Raise :class:`InvalidOption` unless ``part.round_seconds`` is positive."""
    value = getattr(part, "round_seconds", None)
    at_least(value, f"{type(part).__name__}.round_seconds", 0.0, InvalidOption, strict=True)
