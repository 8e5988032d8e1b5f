"""Parts of Gavel's policies: its row on time, least rates, jobs in an order.

Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-Aware Cluster Scheduling Policies for Deep
Learning Workloads, OSDI 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from hetopt.checks import at_least
from hetopt.data.entities import Entities, Floats
from hetopt.data.fractions import ExactEntities
from hetopt.errors import InvalidInstance, InvalidOption
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import ExactRow


def fastest_rate(entities: Entities) -> Floats:
    """(n,) rate of a unit of share on the fastest GPU type of which there are any."""
    return np.asarray(np.where(entities.capacity > 0, entities.speed, 0.0).max(axis=1))


@dataclass(frozen=True)
class TimeFraction:
    """Nobody uses more than all of its time: Gavel's own row, [Gavel, section 3.1], which OEF does not have.

    Rows, for all jobs e: ``sum_k share[e, k] <= 1``; for tenants ``sum_k share[e, k] <= tenant_gpus``.

    Parameters
    ----------
    tenant_gpus:
        GPUs that a tenant can use at a time. Infinite (default): no rows for tenants, as in OEF's setting. 1: every
        tenant is one job on one GPU, as [OEF, eq. 3] reads Gavel.

    Raises
    ------
    InvalidOption
        Not positive.
    """

    tenant_gpus: float = np.inf
    name: str = "time_fraction"

    def __post_init__(self) -> None:
        if self.tenant_gpus != np.inf:
            at_least(self.tenant_gpus, "TimeFraction.tenant_gpus", 0.0, InvalidOption, strict=True)

    def limit(self, entities: Entities) -> float:
        """Largest sum of an entity's shares."""
        return 1.0 if entities.kind == "jobs" else self.tenant_gpus

    def add(self, block: Block, model: Model) -> Expression:
        """The rows ``row[e]``; no gain."""
        limit = self.limit(model.entities)
        if limit == np.inf:
            return 0
        block.row = pyo.Constraint(model.E)
        ones = np.ones(len(model.entities.types))
        for e, name in enumerate(model.entities.names):
            block.row[name] = (None, model.weighted_row(e, ones), float(limit))
        return 0

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest excess over the limit, relative to it."""
        limit = self.limit(entities)
        return Measure(violation=max(0.0, float(share.sum(axis=1).max()) / limit - 1.0))


class _Least(ABC):
    """Largest least rate: gain = level, a column; rows, for all e: ``rate[e] >= base[e] * level``.

    Who can use no GPU of which there are any has base 0 and holds nobody back; where that is everybody, the level is 0.
    """

    name: str

    @abstractmethod
    def base(self, entities: Entities) -> Floats:
        """(n,) rate that makes the level 1."""

    def scaled(self, entities: Entities) -> tuple[Floats, Floats]:
        """(n, k) and (n,): the rows ``table[e] @ share[e] >= growth[e] * level``, in numbers of size 1."""
        base = self.base(entities)
        size = np.where(base > 0, base, entities.speed.max(axis=1))
        size[size == 0] = 1.0  # can run nowhere now: a row of zeros, which holds nobody back
        return entities.speed / size[:, None], base / size

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``level`` and the rows ``row[e]``; the level."""
        table, growth = self.scaled(model.entities)
        block.level = pyo.Var(bounds=(0, None if growth.any() else 0))  # of nobody: any level would be reached
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(model.entities.names):
            block.row[name] = model.weighted_row(e, table[e]) - float(growth[e]) * block.level >= 0
        return block.level

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The least rate per base."""
        base = self.base(entities)
        with np.errstate(divide="ignore"):
            return Measure(
                gain=float((entities.rate(share)[base > 0] / base[base > 0]).min(initial=np.inf if base.any() else 0.0))
            )


@dataclass(frozen=True)
class LeastRatio(_Least):
    """Largest least ratio of rate to ``weight * (rate under the equal share)``, [Gavel, section 4.1].

    Gain = level; rows, for all e: ``rate[e] >= base[e] * level`` with base = ``entities.fair_rate``, the rate with the
    part weight / sum(weight) of every type's GPUs. So a level of at least 1 is the sharing incentive.

    Parameters
    ----------
    scale_by_demand:
        Count a gang's rate once per GPU (Gavel's scale factor), so that GPUs are shared equally. False: time is
        shared equally, and the base is that of a single GPU for everyone's gang.
    """

    scale_by_demand: bool = True
    name: str = "least_ratio"

    def base(self, entities: Entities) -> Floats:
        """(n,) rate that makes the level 1."""
        return self._base(entities)

    def _base(self, entities: Entities | ExactEntities) -> NDArray[Any]:
        return np.asarray(entities.fair_rate if self.scale_by_demand else entities.fair_rate * entities.demand)

    def exact_rows(self, entities: Entities, names: Collection[str]) -> dict[str, ExactRow]:
        """Those of ``names`` that are rows of this component, in fractions; of any size, which changes no row."""
        exact = ExactEntities.of(entities)
        base = self._base(exact)
        rows = {}
        for e, name in enumerate(entities.names):
            size = base[e] or exact.speed[e].max() or Fraction(1)
            own = {(e, j): v / size for j, v in enumerate(exact.speed[e])}
            rows[f"{self.name}.row[{name}]"] = ExactRow(own, own={f"{self.name}.level": -base[e] / size})
        return {name: row for name, row in rows.items() if name in names}


@dataclass(frozen=True)
class SoonestEnd(_Least):
    """Least makespan: the last of all present jobs shall be done as soon as possible, [Gavel, section 4.2].

    Gain = level; rows, for all e: ``rate[e] >= work_left[e] / horizon * level``, where horizon [s] is the makespan of
    equal division: the makespan is horizon / level, see :func:`makespan_seconds`. Weights play no part,
    nor do jobs that can use no GPU now.
    """

    name: str = "soonest_end"
    kind: Literal["jobs"] = "jobs"

    def base(self, entities: Entities) -> Floats:
        """(n,) rate that makes the level 1."""
        work = entities.source.job_array("work_left")
        if not work.any():
            raise InvalidInstance("no job has work left, so there is no makespan to minimise")
        fair = entities.fair_rate
        able = (work > 0) & (fair > 0)
        horizon = (work[able] / fair[able]).max(initial=0.0)
        return np.asarray(np.divide(work, horizon, out=np.zeros(len(work)), where=able))


def makespan_seconds(entities: Entities, share: Floats) -> float:
    """Seconds until the last present job is done if shares stay as they are; infinite if one gets nothing."""
    work, rate = entities.source.job_array("work_left"), entities.rate(share)
    with np.errstate(divide="ignore"):
        return float((work[work > 0] / rate[work > 0]).max(initial=0.0))


@dataclass(frozen=True)
class InOrder:
    """Earlier jobs first, on their fastest GPU types, [Gavel, section 4.2].

    Gain = ``sum_e (n - rank[e]) / n * demand[e] * rate[e] / fastest[e]``, with rank 0 for the first in order: a GPU for
    a second on a job's fastest type is worth the more the earlier the job. Jobs without work left come to nothing.

    Parameters
    ----------
    order:
        ``"arrival"``: first in, first out. ``"time_left"``: shortest time left on the fastest type first.

    Raises
    ------
    InvalidOption
        Another order.
    """

    order: Literal["arrival", "time_left"] = "arrival"
    name: str = "in_order"
    kind: Literal["jobs"] = "jobs"

    def __post_init__(self) -> None:
        if self.order not in ("arrival", "time_left"):
            raise InvalidOption(f"InOrder.order is {self.order!r}; it must be 'arrival' or 'time_left'")

    def profit(self, entities: Entities) -> Floats:
        """(n, k) gain per unit of share."""
        instance, n = entities.source, len(entities.names)
        fastest = fastest_rate(entities)
        runs = fastest > 0
        work = instance.job_array("work_left")
        key = np.full(n, np.inf)
        if self.order == "arrival":
            key = instance.job_array("arrival")
        else:
            key[runs] = work[runs] / fastest[runs]
        rank = np.empty(n)
        rank[np.argsort(key, kind="stable")] = np.arange(n)
        worth = np.divide((1.0 - rank / n) * entities.demand, fastest, out=np.zeros(n), where=runs & (work > 0))
        return np.asarray(worth[:, None] * entities.speed)

    def add(self, block: Block, model: Model) -> Expression:
        """The gain; no rows."""
        return model.weighted_shares(self.profit(model.entities))

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The gain of ``share``."""
        return Measure(gain=float((self.profit(entities) * share).sum()))
