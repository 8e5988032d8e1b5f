"""Baselines of the papers' policies: equal division, efficiency only, sharing incentive only."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind, check_kind
from hetopt.data.instance import Instance, present_entities
from hetopt.data.rates import isolated_time
from hetopt.formulations.formulation import Formulation
from hetopt.formulations.traits import Traits
from hetopt.models.fairness_components import SharingIncentive
from hetopt.models.gavel.gavel_components import TimeFraction
from hetopt.models.objectives import TotalRate
from hetopt.programs.compiled import capacity_violation
from hetopt.results.allocation import Allocation, as_table
from hetopt.results.certificate import Certificate


def by_rule(entities: Entities, share: ArrayLike, method: str, seconds: float) -> Allocation:
    """``share`` (n, k) as the result of a rule: with its total rate, the largest total rate, and its overuse.

    Raises
    ------
    InvalidPlan
        ``share`` is not a table of numbers of that shape.
    """
    share = as_table(entities, share, "share")
    return Allocation(
        entities,
        share,
        Certificate(
            status="rule",
            objective=float(entities.rate(share).sum()),
            bound=float(entities.capacity @ entities.per_gpu.max(axis=0)),
            violation=capacity_violation(entities, share),
            measured=True,
            seconds=seconds,
            solver_seconds=0.0,
            solver="none",
            method=method,
        ),
    )


@dataclass(frozen=True)
class EqualSplit:
    """Equal division: each entity gets the fraction weight / sum(weight) of every GPU type, [OEF, section 2.3.3].

    A job gets this fraction as time of its gang. If its time fractions on all types sum to more than 1, they are scaled
    down in proportion.

    Parameters
    ----------
    kind:
        ``"tenants"`` or ``"jobs"``; None: tenants if the instance has any.

    Raises
    ------
    InvalidOption
        Another kind.
    InvalidInstance
        On a call: see :func:`~hetopt.data.instance.present_entities`.
    """

    kind: Kind | None = None

    def __post_init__(self) -> None:
        check_kind("EqualSplit.kind", self.kind)

    @property
    def traits(self) -> Traits:
        """Its allocations share GPUs in time."""
        return Traits(fractional=True)

    def __call__(self, instance: Instance, state: Any = None) -> tuple[Allocation, None]:
        """The allocation, and no state."""
        began = time.perf_counter()
        entities = present_entities(instance, self.kind, "EqualSplit")
        share = equal_shares(entities)
        return by_rule(entities, share, "equal split", time.perf_counter() - began), None


def equal_shares(entities: Entities) -> Floats:
    """(n, k) the shares of :class:`EqualSplit`; GPUs of types that cannot run an entity stay idle."""
    return np.where(entities.allowed, isolated_time(entities)[:, None] * entities.capacity, 0.0)


def equal_split() -> EqualSplit:
    """Equal division: each entity gets the fraction weight / sum(weight) of every GPU type."""
    return EqualSplit()


def isolated() -> EqualSplit:
    """Each of N jobs gets the fraction 1/N of every GPU type, by weight: the reference of finish-time fairness."""
    return EqualSplit(kind="jobs")


def efficiency_only() -> Formulation:
    """The largest total rate, without fairness, [OEF, eq. 4]; gangs of jobs run at most all the time."""
    return Formulation((TotalRate(), TimeFraction()), title="Efficiency only")


def sharing_incentive_only() -> Formulation:
    """The largest total rate under the sharing incentive.

    Each entity gets at least the rate that its fair part of the cluster would give it. Gangs of jobs run at most all
    the time, also on that part.
    """
    return Formulation((TotalRate(), SharingIncentive(), TimeFraction()), title="Sharing incentive only")
