"""Fairness as rows: envy-freeness, the sharing incentive, equal rates, largest least rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.data.worth import most_at_once, worth
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import Rows
from hetopt.solving.point import Point
from hetopt.tolerances import VIOLATED

Ints = NDArray[np.intp]


def nearest_powers(size: Floats) -> Floats:
    """The powers of two nearest to ``size``, 1 where that is 0: dividing by them makes a row's numbers about 1.

    So a solver's absolute tolerances mean the same for every row, and no coefficient is rounded.
    """
    return np.asarray(np.exp2(np.rint(np.log2(np.where(size > 0, size, 1.0)))))


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
    with v the speed per GPU; divided by :meth:`sizes`. Weighted as replicas of the entity would be,
    [OEF, section 4.2.3]. Of jobs it asks more than :func:`hetopt.auditing.envy_free` does, for which GPUs beyond the
    gang's size are worth nothing: that is no linear row, but follows from these.

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
        names, (first, second) = entities.names, _pairs(entities)
        own, other = self._coefficients(entities, first, second)
        for r, (e, o) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            block.row[names[e], names[o]] = model.weighted_row(e, own[r]) - model.weighted_row(o, other[r]) >= 0
        return 0

    def violated(self, entities: Entities, point: Point) -> Rows:
        """For each entity the row of the one whom it envies most, if it envies at all."""
        n, k = entities.shape
        if n <= self.eager_up_to:
            return Rows.none(n * k)
        excess = envy(entities, np.maximum(point.share, 0))
        most = excess.argmax(axis=1)
        found = np.flatnonzero(excess[np.arange(n), most] > VIOLATED * _whole(entities))
        return self.rows(entities, found, most[found])

    def every_row(self, entities: Entities) -> Rows:
        """The rows of all pairs, where ``add`` has left them out."""
        n, k = entities.shape
        if n <= self.eager_up_to:
            return Rows.none(n * k)
        return self.rows(entities, *_pairs(entities))

    def sizes(self, entities: Entities, first: Ints, second: Ints) -> Floats:
        """(r,) what ``row[first, second]`` is divided by: a power of two near ``weight[o] * max_k v[e,k]``.

        Of types that have GPUs. So a violation counts in the row as it does in the measure, relative to a rate of e.
        """
        top = np.where(entities.capacity > 0, entities.per_gpu, 0.0).max(axis=1)
        return nearest_powers(entities.weight[second] * top[first])

    def _coefficients(self, entities: Entities, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        """(r, k) and (r, k): the rows ``own . share[first] - other . share[second] >= 0``."""
        pi, demand = entities.weight[:, None], entities.demand[:, None]
        v = entities.per_gpu[first] / self.sizes(entities, first, second)[:, None]
        return pi[second] * v * demand[first], pi[first] * v * demand[second]

    def rows(self, entities: Entities, first: Ints, second: Ints) -> Rows:
        """The rows ``row[first, second]`` of pairs of entities (positions), in one array operation."""
        n, k = entities.shape
        r = len(first)
        own, other = self._coefficients(entities, first, second)
        types = np.arange(k)
        columns = np.concatenate([first[:, None] * k + types, second[:, None] * k + types], axis=1)
        data = np.concatenate([own, -other], axis=1)
        index = np.repeat(np.arange(r), 2 * k)
        matrix = sparse.csr_array(sparse.coo_array((data.ravel(), (index, columns.ravel())), shape=(r, n * k)))
        names = [
            f"{self.name}.row[{entities.names[e]},{entities.names[o]}]" for e, o in zip(first, second, strict=True)
        ]
        return Rows(matrix, np.zeros(r), np.full(r, np.inf), names)

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest envy, relative to the rate with the whole cluster."""
        return Measure(violation=max(0.0, float((envy(entities, share) / _whole(entities)[:, None]).max())))


def _pairs(entities: Entities) -> tuple[Ints, Ints]:
    """All pairs of different entities."""
    first, second = np.nonzero(~np.eye(len(entities.names), dtype=bool))
    return first, second


def _whole(entities: Entities) -> Floats:
    """(n,) rate with all GPUs; 1 where there are none that the entity can use, so that its violations count."""
    rate = entities.per_gpu @ entities.capacity
    return np.where(rate > 0, rate, 1.0)


@dataclass(frozen=True)
class SharingIncentive:
    """Everyone gets at least the rate of a partition of its own, [OEF, section 2.3.1 (3)].

    Rows, for all e: ``rate[e] >=`` its rate with ``weight[e] / sum(weight)`` of every GPU type, divided by a power of
    two near that. A job's gang runs at most all the time there, too, as in :func:`hetopt.auditing.sharing_incentive`.
    """

    name: str = "sharing_incentive"

    def add(self, block: Block, model: Model) -> Expression:
        """The rows ``row[e]``; no gain."""
        entities = model.entities
        fair = self.fair(entities)
        size = nearest_powers(fair)
        table = entities.speed / size[:, None]
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(entities.names):
            block.row[name] = (float(fair[e] / size[e]), model.weighted_row(e, table[e]), None)
        return 0

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest shortfall, relative to the fair rate."""
        fair = self.fair(entities)
        short = (fair - entities.rate(share)) / np.where(fair > 0, fair, 1.0)
        return Measure(violation=max(0.0, float(short.max())))

    def fair(self, entities: Entities) -> Floats:
        """(n,) rate with the own part of the cluster."""
        part = entities.weight / entities.weight.sum()
        return worth(entities.per_gpu, part[:, None] * entities.capacity, most_at_once(entities))


@dataclass(frozen=True)
class EqualRates:
    """All rates are equal per unit of weight, [OEF, eq. 9c].

    Rows, with one free column ``level``, for all e: ``rate[e] - weight[e] * unit * level = 0``, divided by
    :meth:`sizes`. Who can use no GPU of which there are any has the row ``rate[e] = 0`` and holds nobody back.
    """

    name: str = "equal_rates"

    def add(self, block: Block, model: Model) -> Expression:
        """The column ``level`` and the rows ``row[e]``; no gain."""
        table, growth = self.scaled(model.entities)
        block.level = pyo.Var(domain=pyo.NonNegativeReals)
        block.row = pyo.Constraint(model.E)
        for e, name in enumerate(model.entities.names):
            block.row[name] = model.weighted_row(e, table[e]) - float(growth[e]) * block.level == 0
        return 0

    def unit(self, entities: Entities) -> float:
        """Rate per weight of a level of 1: a power of two near the least fair rate per weight."""
        fair = entities.fair_rate / entities.weight
        return float(nearest_powers(fair[fair > 0].min(initial=np.inf))) if fair.any() else 1.0

    def sizes(self, entities: Entities) -> Floats:
        """(n,) what ``row[e]`` is divided by: a power of two near ``weight[e] * unit``."""
        return nearest_powers(entities.weight * self.unit(entities))

    def scaled(self, entities: Entities) -> tuple[Floats, Floats]:
        """(n, k) and (n,): the rows ``table[e] . share[e] - growth[e] * level = 0``."""
        size = self.sizes(entities)
        growth = np.where(entities.fair_rate > 0, entities.weight * (self.unit(entities) / size), 0.0)
        return entities.speed / size[:, None], growth

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The spread of rate per weight, relative to its largest value."""
        level = (entities.rate(share) / entities.weight)[entities.fair_rate > 0]
        top = float(level.max(initial=0.0))
        return Measure(violation=float(top - level.min()) / top if top > 0 else 0.0)
