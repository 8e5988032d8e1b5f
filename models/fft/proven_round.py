"""Plans of FFT that stay optimal as time passes, and those that need no search.

From round to round only the ages and rho of the jobs move the gains, and mostly no job arrives or finishes. Bounds of
:mod:`hetopt.solving.choices` then prove that the last plan is still optimal within the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hetopt.data.array_types import Floats, Positions
from hetopt.data.entities import Entities
from hetopt.models.fft.fft_components import age, moving_rounds, theta, volume
from hetopt.results.certificate import Certificate
from hetopt.solving.choices import drift_bound, price_bound, value_of
from hetopt.tolerances import EQUAL, PROVEN, scale


@dataclass(frozen=True, eq=False)
class RoundGains:
    """Gains of FFT's components while jobs, types and last types stay the same: ``fixed - age part + rho work``.

    Attributes
    ----------
    entities, last:
        The jobs and types, and the (n,) positions of the last types.
    settings:
        Length of a round and of a restart in seconds; whether rho counts parts of jobs.
    fixed:
        (n, k) minus the costs of volume and moving.
    part, work:
        (n, k) progress of each job in a round, as part of the job, and as rho counts it.
    """

    entities: Entities
    last: Positions
    settings: tuple[float, float, bool]
    fixed: Floats
    part: Floats
    work: Floats

    @classmethod
    def of(
        cls, entities: Entities, last: Positions, round_seconds: float, restart_seconds: float, normalise: bool
    ) -> RoundGains:
        """For these jobs, whose last types are ``last``."""
        part = theta(entities, round_seconds, True)
        work = part if normalise else theta(entities, round_seconds, False)
        fixed = -volume(entities, part) - moving_rounds(entities, last, round_seconds, restart_seconds)
        return cls(entities, last, (round_seconds, restart_seconds, normalise), fixed, part, work)

    def serves(self, entities: Entities, last: Positions, settings: tuple[float, float, bool]) -> bool:
        """Whether settings agree, and all arrays are the same objects, which is cheaper to see than that they agree."""
        if self.settings != settings:
            return False
        before, now = self.entities, entities
        if not (before.names is now.names and before.speed is now.speed and before.demand is now.demand):
            return False
        old, new = before.source, now.source
        same = old.cluster is new.cluster and old.job_array("work") is new.job_array("work")
        for key in ("arrival", "checkpoint_bytes") if same else ():
            same = same and old.job_array(key) is new.job_array(key)
        return same and np.array_equal(self.last, last)

    def at(self, entities: Entities, rho: Floats) -> Floats:
        """(n, k) gains at the time of these entities."""
        return np.asarray(self.fixed - age(entities, self.settings[0])[:, None] * self.part + rho[:, None] * self.work)


@dataclass(frozen=True, eq=False)
class ProvenRound:
    """A plan, and an upper bound on the gain of every plan, at the gains for which it was proven.

    Attributes
    ----------
    names, types, demand, capacity, allowed:
        Of the jobs and types: the rows of the program.
    choice, x:
        (n,) position of each job's type, -1 where it waits; (n, k) its GPUs.
    gain, bound:
        (n, k) gains, 0 where a job cannot run, for which the upper bound was proven.
    gains:
        For the next round; None after pickling.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    demand: Floats
    capacity: Floats
    allowed: NDArray[np.bool_]
    choice: Positions
    x: Floats
    gain: Floats
    bound: float
    gains: RoundGains | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, entities: Entities, choice: Positions, gain: Floats, bound: float, gains: RoundGains | None
    ) -> ProvenRound:
        """For these jobs and types."""
        own, x = entities, gpus_of(entities, choice)
        return cls(own.names, own.types, own.demand, own.capacity, own.allowed, choice, x, gain, bound, gains)

    def at(self, gain: Floats, bound: float, gains: RoundGains) -> ProvenRound:
        """The same plan with an upper bound at other gains."""
        return replace(self, gain=gain, bound=bound, gains=gains)

    def __getstate__(self) -> dict[str, object]:
        """Leave out :attr:`gains`, which refers to a whole instance."""
        return {**self.__dict__, "gains": None}

    def serves(self, entities: Entities) -> bool:
        """Whether the program has the same rows for these entities, so that it has the same plans."""
        own = (self.demand, entities.demand), (self.capacity, entities.capacity), (self.allowed, entities.allowed)
        same = self.names == entities.names and self.types == entities.types
        return same and all(before is now or np.array_equal(before, now) for before, now in own)


def gpus_of(entities: Entities, choice: Positions) -> Floats:
    """(n, k) GPUs of the plan ``choice``; read-only."""
    x, runs = np.zeros(entities.shape), np.flatnonzero(choice >= 0)
    x[runs, choice[runs]] = entities.demand[runs]
    x.flags.writeable = False
    return x


BEST_TYPES, PRICES, DRIFT, KNAPSACKS = "best-types", "prices", "drift", "knapsacks"
"""Methods of proofs."""


@dataclass(frozen=True, eq=False)
class Proof:
    """A plan that is optimal within the gap, proven from the gains alone.

    Attributes
    ----------
    method:
        :data:`BEST_TYPES`, :data:`PRICES`, :data:`DRIFT` or :data:`KNAPSACKS`.
    choice:
        (n,) position of each job's type, -1 where it waits.
    value, size, bound:
        Gain of the plan, the sum of its absolute gains, and upper bound on the gain of every plan.
    """

    method: str
    choice: Positions
    value: float
    size: float
    bound: float

    def certificate(self, seconds: float) -> Certificate:
        """The certificate of the plan; ``seconds``: wall time of the round."""
        gap = (self.bound - self.value) / scale(self.bound, self.value, self.size)
        return Certificate(
            status="optimal" if gap <= EQUAL else "gap",
            objective=self.value,
            bound=self.bound,
            violation=0.0,
            measured=True,
            seconds=seconds,
            solver_seconds=0.0,
            solver="none",
            method=self.method,
            passes=0,
            size=self.size,
        )


def proof_of_last_plan(proven: ProvenRound, entities: Entities, gain: Floats, gap: float) -> Proof | None:
    """The proof that the plan of ``proven`` is optimal within the gap at the gains ``gain``, or None.

    Parameters
    ----------
    entities:
        Those that ``proven`` serves.
    gap:
        Relative to the plan's size, the sum of its absolute gains.
    """
    value, size = value_of(gain, proven.choice)
    limit = value + max(gap, PROVEN) * size
    used = float(proven.x.sum())
    if (bound := drift_bound(proven.bound, proven.gain, gain, entities, used)) <= limit:
        return Proof(DRIFT, proven.choice, value, size, max(value, bound))
    if (bound := price_bound(gain, entities, proven.choice)) <= limit:
        return Proof(PRICES, proven.choice, value, size, max(value, bound))
    return None


def best_types(entities: Entities, gain: Floats) -> Proof | None:
    """The plan in which each job that can run has the type of most gain, if there is room for all; else None.

    No plan uses more GPUs, and none that uses as many gains more.
    """
    able = entities.allowed.any(axis=1)
    best = np.where(entities.allowed, gain, -np.inf).argmax(axis=1)
    used = np.bincount(best[able], weights=entities.demand[able], minlength=gain.shape[1])
    if (used > entities.capacity).any():
        return None
    choice = np.where(able, best, -1)
    value, size = value_of(gain, choice)
    return Proof(BEST_TYPES, choice, value, size, value)
