"""Fairness as rows: envy-freeness, the sharing incentive, equal rates, largest least rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyomo.environ as pyo
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import Rows
from hetopt.solving.point import Point
from hetopt.tolerances import VIOLATED


def envy(entities: Entities, share: Floats) -> Floats:
    """(n, n) how much e would gain, per unit of weight, with o's GPUs: positive where e envies o.

    ``weight[e] * (e's rate with o's GPUs) - weight[o] * rate[e]``, divided by ``weight[o]``.
    """
    gpus = entities.gpus(share)
    other = entities.per_gpu @ gpus.T
    own = np.diag(other)
    return np.asarray(other * (entities.weight[:, None] / entities.weight[None, :]) - own[:, None])


@dataclass(frozen=True)
class EnvyFree:
    """No entity would rather have the GPUs of another, [OEF, eq. 10c] (its right side is misprinted there).

    Rows, for all e != o:
    ``weight[o] * sum_k v[e,k] gpus[e,k]  >=  weight[e] * sum_k v[e,k] gpus[o,k]``
    with v the speed per GPU. Weighted as replicas of the entity would be [OEF, section 4.2.3].

    Parameters
    ----------
    eager_up_to:
        Up to so many entities all n(n-1) rows stand in the model; above, rows are added as points violate them.
    """

    eager_up_to: int = 40
    name: str = "envy_free"

    def add(self, block: Block, model: Model) -> Expression:
        """The rows ``row[e, o]`` (where not lazy); no gain."""
        entities = model.entities
        block.row = pyo.Constraint(model.E, model.E)
        if len(entities.names) > self.eager_up_to:
            return 0
        v, pi, demand = entities.per_gpu, entities.weight, entities.demand
        for e, first in enumerate(entities.names):
            for o, second in enumerate(entities.names):
                if e != o:
                    own = model.weighted_row(e, pi[o] * v[e] * demand[e])
                    other = model.weighted_row(o, pi[e] * v[e] * demand[o])
                    block.row[first, second] = own - other >= 0
        return 0

    def violated(self, entities: Entities, point: Point) -> Rows:
        """For each entity the row of the one whom it envies most, if it envies at all."""
        n, k = entities.shape
        if n <= self.eager_up_to:
            return Rows.none(n * k)
        excess = envy(entities, np.maximum(point.share, 0))
        most = excess.argmax(axis=1)
        size = entities.per_gpu @ entities.capacity
        found = np.flatnonzero(excess[np.arange(n), most] > VIOLATED * size)
        return self.rows(entities, found, most[found])

    def every_row(self, entities: Entities) -> Rows:
        """The rows of all pairs, where ``add`` has left them out."""
        n, k = entities.shape
        if n <= self.eager_up_to:
            return Rows.none(n * k)
        first, second = np.nonzero(~np.eye(n, dtype=bool))
        return self.rows(entities, first, second)

    def rows(self, entities: Entities, first: np.ndarray, second: np.ndarray) -> Rows:
        """The rows ``row[first, second]`` of pairs of entities (positions), in one array operation."""
        n, k = entities.shape
        r = len(first)
        v, pi, demand = entities.per_gpu, entities.weight, entities.demand
        own = pi[second, None] * v[first] * demand[first, None]
        other = -pi[first, None] * v[first] * demand[second, None]
        types = np.arange(k)
        columns = np.concatenate([first[:, None] * k + types, second[:, None] * k + types], axis=1)
        data = np.concatenate([own, other], axis=1)
        index = np.repeat(np.arange(r), 2 * k)
        matrix = sparse.csr_array(sparse.coo_array((data.ravel(), (index, columns.ravel())), shape=(r, n * k)))
        names = [f"envy_free.row[{entities.names[e]},{entities.names[o]}]" for e, o in zip(first, second, strict=True)]
        return Rows(matrix, np.zeros(r), np.full(r, np.inf), names)

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest envy, relative to the rate with the whole cluster."""
        size = (entities.per_gpu @ entities.capacity)[:, None]
        return Measure(violation=max(0.0, float((envy(entities, share) / size).max())))


@dataclass(frozen=True)
class SharingIncentive:
    """Everyone gets at least the rate of a partition of its own, [OEF, section 2.3.1 (3)].

    Rows, for all e: ``rate[e] >= sum_k v[e,k] * capacity[k] * weight[e] / sum(weight)``.
    """

    name: str = "sharing_incentive"

    def add(self, block: Block, model: Model) -> Expression:
        """The rows ``row[e]``; no gain."""
        fair = model.entities.fair_rate
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(model.entities.names):
            block.row[name] = (float(fair[e]), model.weighted_row(e, model.entities.speed[e]), None)
        return 0

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest shortfall, relative to the fair rate."""
        short = (entities.fair_rate - entities.rate(share)) / entities.fair_rate
        return Measure(violation=max(0.0, float(short.max())))


@dataclass(frozen=True)
class EqualRates:
    """All rates are equal per unit of weight, [OEF, eq. 9c].

    Rows, with one free column ``level``, for all e: ``rate[e] - weight[e] * level = 0``.
    """

    name: str = "equal_rates"

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``level`` and the rows ``row[e]``; no gain."""
        weight = model.entities.weight
        block.level = pyo.Var(domain=pyo.NonNegativeReals)
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(model.entities.names):
            own = model.weighted_row(e, model.entities.speed[e])
            block.row[name] = own - float(weight[e]) * block.level == 0
        return 0

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The spread of rate per weight, relative to its largest value."""
        level = entities.rate(share) / entities.weight
        top = float(level.max())
        return Measure(violation=float(top - level.min()) / top if top > 0 else 0.0)
