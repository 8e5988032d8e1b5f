"""Fairness as rows: envy-freeness, the sharing incentive, equal rates, largest least rate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.data.fractions import ExactEntities
from hetopt.data.worth import Numbers, most_at_once, usable, worth
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import ExactRow, Rows
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

    ``weight[e] * (e's rate with o's GPUs) - weight[o] * rate[e]``, divided by ``weight[o]``. Of a gang larger than its
    own a job uses as many GPUs as it has workers.
    """
    gpus = entities.gpus(share)
    other = entities.per_gpu @ gpus.T
    own = np.diag(other)
    return np.asarray(other * usable(entities.weight, most_at_once(entities)) - own[:, None])


@dataclass(frozen=True)
class EnvyFree:
    """No entity would rather have the GPUs of another, [OEF, eq. 10c] (its right side is misprinted there).

    Rows, for all e != o:
    ``weight[o] * sum_k v[e,k] gpus[e,k]  >=  weight[e] * sum_k v[e,k] gpus[o,k]``
    with v the speed per GPU; divided by :meth:`sizes`. Weighted as replicas of the entity would be,
    [OEF, section 4.2.3]. For jobs the right side is at most ``weight[o] * demand[e] / demand[o] * sum_k v[e,k]
    gpus[o,k]``: in the time of a larger gang than its own, a job uses as many GPUs as it has workers.

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
        v = entities.per_gpu[first] / self.sizes(entities, first, second)[:, None]
        own, other = _claims(entities, first, second)
        return own[:, None] * v, other[:, None] * v

    def exact_rows(self, entities: Entities, names: Collection[str]) -> dict[str, ExactRow]:
        """Those of ``names`` that are rows of this component, in fractions."""
        exact = ExactEntities.of(entities)
        pairs = {
            self._name(entities, e, o): (e, o) for e, o in zip(*map(np.ndarray.tolist, _pairs(entities)), strict=True)
        }
        found = [(name, *pairs[name]) for name in names if name in pairs]
        first, second = (np.array([pair[i] for pair in found], dtype=np.intp) for i in (1, 2))
        v, claims = exact.per_gpu, _claims(exact, first, second)
        rows = {}
        for (name, e, o), size, mine, others in zip(found, self.sizes(entities, first, second), *claims, strict=True):
            own = {(e, j): mine * value / Fraction(size) for j, value in enumerate(v[e])}
            rows[name] = ExactRow({**own, **{(o, j): -others * value / Fraction(size) for j, value in enumerate(v[e])}})
        return rows

    def _name(self, entities: Entities, e: int, o: int) -> str:
        return f"{self.name}.row[{entities.names[e]},{entities.names[o]}]"

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
        names = [self._name(entities, e, o) for e, o in zip(first.tolist(), second.tolist(), strict=True)]
        return Rows(matrix, np.zeros(r), np.full(r, np.inf), names)

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest envy, relative to the rate with the whole cluster."""
        return Measure(violation=max(0.0, float((envy(entities, share) / _whole(entities)[:, None]).max())))


def _claims(entities: Entities | ExactEntities, first: Ints, second: Ints) -> tuple[Numbers, Numbers]:
    """(r,) and (r,): what the own share and the other's are multiplied by, besides the speed per GPU."""
    pi, demand = entities.weight, entities.demand
    most = pi[first] * demand[second]
    if entities.kind == "jobs":
        most = np.minimum(most, pi[second] * demand[first])
    return pi[second] * demand[first], most


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

    def exact_rows(self, entities: Entities, names: Collection[str]) -> dict[str, ExactRow]:
        """Those of ``names`` that are rows of this component, in fractions."""
        exact, size = ExactEntities.of(entities), nearest_powers(self.fair(entities))
        fair = _fair(exact, None if most_at_once(entities) is None else exact.demand)
        rows = {}
        for e, name in enumerate(entities.names):
            own = {(e, j): v / Fraction(size[e]) for j, v in enumerate(exact.speed[e])}
            rows[f"{self.name}.row[{name}]"] = ExactRow(own, lower=fair[e] / Fraction(size[e]))
        return {name: row for name, row in rows.items() if name in names}

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The largest shortfall, relative to the fair rate."""
        fair = self.fair(entities)
        short = (fair - entities.rate(share)) / np.where(fair > 0, fair, 1.0)
        return Measure(violation=max(0.0, float(short.max())))

    def fair(self, entities: Entities) -> Floats:
        """(n,) rate with the own part of the cluster."""
        return _fair(entities, most_at_once(entities))


def _fair(entities: Entities | ExactEntities, most: Numbers | None) -> Numbers:
    part = entities.weight / entities.weight.sum()
    return worth(entities.per_gpu, part[:, None] * entities.capacity, most)


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

    def exact_rows(self, entities: Entities, names: Collection[str]) -> dict[str, ExactRow]:
        """Those of ``names`` that are rows of this component, in fractions."""
        exact, size, unit = ExactEntities.of(entities), self.sizes(entities), Fraction(self.unit(entities))
        rows = {}
        for e, name in enumerate(entities.names):
            own = {(e, j): v / Fraction(size[e]) for j, v in enumerate(exact.speed[e])}
            growth = exact.weight[e] * unit / Fraction(size[e]) if entities.fair_rate[e] > 0 else Fraction(0)
            rows[f"{self.name}.row[{name}]"] = ExactRow(own, own={f"{self.name}.level": -growth})
        return {name: row for name, row in rows.items() if name in names}

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The spread of rate per weight, relative to its largest value."""
        level = (entities.rate(share) / entities.weight)[entities.fair_rate > 0]
        top = float(level.max(initial=0.0))
        return Measure(violation=float(top - level.min()) / top if top > 0 else 0.0)
