"""Separable concave gains of rates: sum_e size[e] * shape(rate[e] / unit[e]).

The Pyomo model contains the nonlinear gain. For LP solvers each entity gets a column ``gain[e]`` below tangents of the
shape (:class:`~hetopt.programs.arrays.Curves`): a few at first, and more where a point overestimates its gain. The
relaxation gives an upper bound, the measured gain a lower one; tangents are added until the difference is within
``Options.gap``. So a concave gain can be combined with any other component and any solver.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyomo.environ as pyo
from numpy.typing import NDArray

from hetopt.data.array_types import Floats
from hetopt.data.entities import Entities, Kind
from hetopt.data.rates import isolated_rate
from hetopt.formulations.formulation import ArrayComponent
from hetopt.programs.arrays import Arrays, Columns, Curves
from hetopt.programs.mathematics import Mathematics
from hetopt.programs.model import Block, Expression, Model
from hetopt.programs.symbols import shared


@dataclass(frozen=True, eq=False)
class AlphaFair:
    """The concave, increasing gain ``size * log y`` (alpha 1), or ``-size / ((alpha - 1) y**(alpha - 1))`` (alpha > 1).

    Attributes
    ----------
    alpha:
        1: proportional fairness; 2: time per unit of work.
    size:
        A scalar, or one number for each y.
    """

    alpha: float
    size: Floats | float = 1.0

    def value(self, y: Floats) -> Floats:
        """The gain; -inf at 0."""
        with np.errstate(divide="ignore"):
            if self.alpha == 1:
                return np.asarray(self.size * np.log(y))
            return np.asarray(-self.size / ((self.alpha - 1) * np.asarray(y) ** (self.alpha - 1)))

    def slope(self, y: Floats) -> Floats:
        """First derivative."""
        return np.asarray(self.size / y**self.alpha)

    def curvature(self, y: Floats) -> Floats:
        """Minus the second derivative."""
        return np.asarray(self.size * self.alpha / y ** (self.alpha + 1))

    def at_slope(self, slope: Floats) -> Floats:
        """The argument at which the first derivative has this value."""
        return np.asarray((self.size / slope) ** (1 / self.alpha))

    def inverse(self, value: Floats) -> Floats:
        """The argument at which the gain has this value; 0 if the gain never has it."""
        if self.alpha == 1:
            return np.asarray(np.exp(value / self.size))
        part = np.divide(-self.size, (self.alpha - 1) * value, out=np.zeros_like(value), where=value < 0)
        return np.asarray(part ** (1 / (self.alpha - 1)))


@dataclass(frozen=True, eq=False)
class ConcaveTerms:
    """gain = constant + sum over ``active`` of size * shape(rate / unit).

    Entities that can use none of the available GPUs have no term, since it would always be minus infinity.

    Attributes
    ----------
    active:
        Positions of the r entities that have a term.
    size, unit:
        (r,) positive.
    """

    active: NDArray[np.intp]
    size: Floats
    unit: Floats
    constant: float = 0.0


class Concave(ArrayComponent):
    """Base of components with a separable concave gain, see the module docstring."""

    shape: AlphaFair

    @abstractmethod
    def terms(self, entities: Entities) -> ConcaveTerms:
        """The entities with a term, and their terms."""

    @abstractmethod
    def printed(self, entities: Entities, e: int, rate: Expression) -> Expression:
        """The term of entity e as printed in the paper."""

    def add(self, block: Block, model: Model) -> Expression:
        """The nonlinear gain; no rows."""
        entities = model.entities
        active = self.terms(entities).active.tolist()
        start_inside(model)
        if not active:
            return model.weighted_shares(0.0)
        return pyo.quicksum(self.printed(entities, e, model.rate[entities.names[e]]) for e in active)

    def rows(self, entities: Entities) -> Arrays:
        """The columns ``gain[e]`` below the shape."""
        terms = self.terms(entities)
        r = len(terms.active)
        if not r:
            return Arrays(gain=np.zeros(entities.shape))
        where, none = np.arange(r), np.zeros(r)
        return Arrays(
            own_gain={"gain": terms.size},
            constant=terms.constant,
            columns=(Columns("gain", [entities.names[e] for e in terms.active], lower=-np.inf),),
            curves=(Curves("gain", 1.0, where, terms.active, self.shape, np.ones(r), terms.unit, none),),
            size=float(terms.size.sum()),
        )


def start_inside(model: Model) -> None:
    """Initialise shares without a value so that every rate is positive and gains and slopes are finite."""
    entities = model.entities
    part = 1.0 / (len(entities.names) * entities.demand[:, None])
    inside = np.where(entities.allowed, part * np.minimum(entities.capacity, 1.0), 0.0)
    for row, values in zip(model.share_grid, inside.tolist(), strict=True):
        for variable, value in zip(row, values, strict=True):
            if variable.value is None:
                variable.set_value(value, skip_validation=True)


@dataclass(frozen=True)
class LogRate(Concave):
    """Weighted logarithms of rates: gain = sum_e weight[e] * log(rate[e]), the Eisenberg-Gale objective."""

    name: str = "log_rate"
    shape = AlphaFair(1)

    def terms(self, entities: Entities) -> ConcaveTerms:
        """Terms of all entities, in units of their isolated rates."""
        rate = isolated_rate(entities)
        active = np.flatnonzero(rate)
        unit, weight = rate[active], entities.weight[active]
        return ConcaveTerms(active, weight, unit, float(weight @ np.log(unit)))

    def printed(self, entities: Entities, e: int, rate: Expression) -> Expression:
        """Weight times log rate."""
        return float(entities.weight[e]) * pyo.log(rate)

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            """
            maximise
              gain [Eisenberg and Gale, 1959] | weighted logarithms of the rates; entities that can use no GPU have none
                sum(pi[e] * log(rate[e]) for e in E if f[e] > 0)
            """,
            symbols=shared(kind),
        )


@dataclass(frozen=True)
class CompletionTime(Concave):
    """Seconds until each job completes if shares stay constant: gain = -sum_e weight[e] * work_left[e] / rate[e].

    A convex cost: [FFT, section 2.3] calls this objective Gavel's minimum of the total JCT. Jobs without work left and
    jobs that can use no GPU now have no term.
    """

    name: str = "completion_time"
    kind: Literal["jobs"] = "jobs"
    shape = AlphaFair(2)

    def terms(self, entities: Entities) -> ConcaveTerms:
        """Terms of jobs with work left, in units of their isolated rates."""
        work, rate = entities.source.job_array("work_left"), isolated_rate(entities)
        active = np.flatnonzero((work > 0) & (rate > 0))
        unit = rate[active]
        return ConcaveTerms(active, entities.weight[active] * work[active] / unit, unit)

    def printed(self, entities: Entities, e: int, rate: Expression) -> Expression:
        """Minus weight times work left over rate."""
        return -float(entities.weight[e] * entities.source.job_array("work_left")[e]) / rate

    def mathematics(self, kind: Kind) -> Mathematics:
        """The gain as a formula."""
        return Mathematics.read(
            """
            maximise
              gain [FFT, section 2.3] | time until each job is done if shares stay as they are, by weight | s
                -sum(pi[e] * W_left[e] / rate[e] for e in E if W_left[e] > 0 if f[e] > 0)
            """,
            symbols=shared(kind),
        )
