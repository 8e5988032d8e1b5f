"""Separable concave gains of rates: tangents for any composition, and the whole curve for interior points.

A gain sum_e size[e] * shape(rate[e] / unit[e]) is no linear program. Each entity gets a column ``gain[e]`` that lies
below tangents of the shape; a few stand in the model, and others join where a point overestimates its gain. The
relaxation is a bound from above, the measured gain a value that is reached, and their difference the true duality gap:
tangents stop once it is within ``Options.gap``. So a concave gain goes with any other component, on any solver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.entities import Entities, Floats
from hetopt.programs.formulation import Block, Expression, Measure, Model
from hetopt.programs.rows import Rows
from hetopt.solving.point import Point
from hetopt.tolerances import VIOLATED, scale

FIRST = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Rates, in units of the equal part, whose tangents stand in the model from the beginning."""


class Shape(Protocol):
    """A strictly concave, increasing function of y > 0."""

    def value(self, y: Floats) -> Floats:
        """The function; -inf at 0."""
        ...

    def slope(self, y: Floats) -> Floats:
        """First derivative."""
        ...

    def curvature(self, y: Floats) -> Floats:
        """Minus the second derivative."""
        ...

    def inverse(self, value: Floats) -> Floats:
        """Where the function has this value."""
        ...

    def at_slope(self, slope: Floats) -> Floats:
        """Where the first derivative has this value."""
        ...


class Logarithm:
    """log y."""

    def value(self, y: Floats) -> Floats:
        """The function; -inf at 0."""
        with np.errstate(divide="ignore"):
            return np.log(y)

    def slope(self, y: Floats) -> Floats:
        """First derivative."""
        return 1.0 / y

    def curvature(self, y: Floats) -> Floats:
        """Minus the second derivative."""
        return 1.0 / y**2

    def inverse(self, value: Floats) -> Floats:
        """Where the function has this value."""
        return np.exp(value)

    def at_slope(self, slope: Floats) -> Floats:
        """Where the first derivative has this value."""
        return 1.0 / slope


class Reciprocal:
    """-1 / y."""

    def value(self, y: Floats) -> Floats:
        """The function; -inf at 0."""
        with np.errstate(divide="ignore"):
            return -1.0 / np.asarray(y)

    def slope(self, y: Floats) -> Floats:
        """First derivative."""
        return 1.0 / y**2

    def curvature(self, y: Floats) -> Floats:
        """Minus the second derivative."""
        return 2.0 / y**3

    def inverse(self, value: Floats) -> Floats:
        """Where the function has this value; 0 where it has not, since it stays negative."""
        return np.divide(-1.0, value, out=np.zeros_like(value), where=value < 0)

    def at_slope(self, slope: Floats) -> Floats:
        """Where the first derivative has this value."""
        return 1.0 / np.sqrt(slope)


@dataclass(frozen=True, eq=False)
class Terms:
    """gain = constant + sum over ``who`` of size * shape(rate / unit).

    Who can use no GPU of which there are any has no term, for it would be minus infinity whatever the others get.

    Attributes
    ----------
    who:
        Positions of the r entities that have a term.
    size, unit:
        (r,) positive.
    """

    who: NDArray[np.intp]
    size: Floats
    unit: Floats
    constant: float = 0.0


class Concave(ABC):
    """Base of components with a separable concave gain; see the module's docstring."""

    name: str
    shape: Shape

    @abstractmethod
    def terms(self, entities: Entities) -> Terms:
        """Who gains how much."""

    def add(self, block: Block, model: Model) -> Expression:
        """The columns ``gain[e]`` with first tangents ``tangent[e, i]``; the gain."""
        entities, terms = model.entities, self.terms(model.entities)
        names = [entities.names[e] for e in terms.who]
        block.gain = pyo.Var(names)
        block.tangent = pyo.Constraint(names, range(len(FIRST)))
        for i, y in enumerate(FIRST):
            value, slope = self._tangent(np.array(y))
            for e, name, unit in zip(terms.who.tolist(), names, terms.unit.tolist(), strict=True):
                own = model.weighted_row(e, float(slope) * entities.speed[e] / unit)
                block.tangent[name, i] = block.gain[name] - own <= float(value)
        if not names:
            return model.weighted_shares(0.0)
        columns = [block.gain[name] for name in names]
        return terms.constant + pyo.quicksum(s * c for s, c in zip(terms.size.tolist(), columns, strict=True))

    def _tangent(self, y: Floats) -> tuple[Floats, Floats]:
        """(value at 0, slope) of the tangent at ``y``."""
        slope = self.shape.slope(y)
        return self.shape.value(y) - slope * y, slope

    def measure(self, entities: Entities, share: Floats) -> Measure:
        """The gain itself; its size is what it would be at a rate of one unit, or a slope of one."""
        terms = self.terms(entities)
        y = entities.rate(share)[terms.who] / terms.unit
        return Measure(terms.constant + float(terms.size @ self.shape.value(y)), size=float(terms.size.sum()))

    def violated(self, entities: Entities, point: Point) -> Rows:
        """Tangents where ``point`` overestimates most of the gain; none once all is within the gap asked for."""
        n, k = entities.shape
        terms = self.terms(entities)
        names = [f"{self.name}.gain[{entities.names[e]}]" for e in terms.who]
        column = point.x[[point.program.column[name] for name in names]]
        y = np.maximum(entities.rate(point.share)[terms.who], 0.0) / terms.unit
        over = terms.size * (column - self.shape.value(y))
        allowed = point.asked_gap * scale(point.objective, terms.size.sum())
        if over.sum() <= allowed:
            return Rows.none(n * k)
        least = np.maximum(allowed / len(over), VIOLATED * terms.size * scale(column))
        found = np.flatnonzero(over > least)
        # Not at the point itself where that is nearly 0: the tangent would be too steep to be of use elsewhere.
        at = np.maximum(y[found], 0.5 * self.shape.inverse(column[found]))
        value, slope = self._tangent(at)
        who, r = terms.who[found], len(found)
        data = -(slope / terms.unit[found])[:, None] * entities.speed[who]
        columns = who[:, None] * k + np.arange(k)
        share = sparse.csr_array((data.ravel(), columns.ravel(), np.arange(0, r * k + 1, k)), shape=(r, n * k))
        return Rows(
            share=share,
            lower=np.full(r, -np.inf),
            upper=value,
            names=[f"{self.name}.tangent[{entities.names[e]},{p:.6g}]" for e, p in zip(who, at, strict=True)],
            own=sparse.eye_array(r, format="csr"),
            own_names=[names[i] for i in found],
        )


@dataclass(frozen=True)
class LogRate(Concave):
    """Weighted logarithms of rates: gain = sum_e weight[e] * log(rate[e]), the Eisenberg-Gale objective."""

    name: str = "log_rate"
    shape = Logarithm()

    def terms(self, entities: Entities) -> Terms:
        """Everyone, in units of the rate on an own part of the cluster."""
        who = np.flatnonzero(entities.isolated_rate)
        unit, weight = entities.isolated_rate[who], entities.weight[who]
        return Terms(who, weight, unit, float(weight @ np.log(unit)))


@dataclass(frozen=True)
class CompletionTime(Concave):
    """Seconds until each job is done if shares stay as they are: gain = -sum_e weight[e] * work_left[e] / rate[e].

    Convex, and what [FFT, section 2.3] calls Gavel's minimum of the total JCT. Jobs without work left have no term,
    and those that can use no GPU now have none either.
    """

    name: str = "completion_time"
    kind: Literal["jobs"] = "jobs"
    shape = Reciprocal()

    def terms(self, entities: Entities) -> Terms:
        """Jobs with work left, in units of the rate on an own part of the cluster."""
        work = entities.source.job_array("work_left")
        who = np.flatnonzero((work > 0) & (entities.isolated_rate > 0))
        unit = entities.isolated_rate[who]
        return Terms(who, entities.weight[who] * work[who] / unit, unit)
