"""What the solver claims of a result, and what was measured on the result itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hetopt.checks import shown
from hetopt.data.entities import Entities, Floats
from hetopt.errors import InvalidFormulation
from hetopt.programs.formulation import Formulation, Measure, Measured
from hetopt.solving.point import Point
from hetopt.tolerances import EQUAL, TRUSTED, scale

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum


@dataclass(frozen=True, eq=False)
class Certificate:
    """Claims of the solver beside measurements on the shares.

    Attributes
    ----------
    status:
        ``"optimal"``, ``"gap"`` (proven up to :attr:`gap`), ``"time_limit"``, ``"inaccurate"`` (the shares violate a
        row, or gain more than the bound allows, by more than rounding: the numbers of the instance are too far apart
        for the solver, or a component measures another gain than it gives to the model), or ``"rule"`` (made by a rule
        that claims no optimum, such as equal division; the bound is then the largest total rate).
    objective:
        The gains of priority 0 (where no gain has that, of the highest). Measured on the shares from the instance's
        arrays, where every component can do so (``measured`` is then True); else what the solver reports. Costs count
        negative.
    bound:
        No feasible allocation is better, claims the solver (for a specialist: proven by weak duality).
    violation:
        Largest violation of capacity or of a component's rows, measured on the shares; relative, no unit.
    measured:
        Whether every component measured its own gain and rows.
    seconds:
        Wall time of the whole road, building included.
    solver_seconds:
        Wall time inside the solver.
    solver, method, passes:
        What was used, and how many runs it took.
    size:
        What the gap is relative to where the objective may be near 0 by the choice of units; see
        :class:`~hetopt.programs.formulation.Measure`.
    exact:
        The optimum in rational numbers where ``Options(exact=True)`` asked for it, else None.
    """

    status: str
    objective: float
    bound: float
    violation: float
    measured: bool
    seconds: float
    solver_seconds: float
    solver: str
    method: str
    passes: int = 1
    size: float = 0.0
    exact: ExactOptimum | None = None
    _point: Point | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """(bound - objective), relative to the largest of both and ``size``."""
        return max(0.0, self.bound - self.objective) / scale(self.bound, self.objective, self.size)

    @property
    def duals(self) -> pd.Series[float]:
        """Row name -> increase of :attr:`objective` per unit of the row's bound; empty for integer programs."""
        point = None if self._point is None else self._point.main
        if point is None or point.row_dual is None:
            return pd.Series(dtype=float, name="dual")
        return pd.Series(point.row_dual, index=list(point.program.row_names), name="dual")

    @property
    def prices(self) -> pd.Series[float]:
        """Shadow prices of the GPU types: objective per GPU more of the type."""
        duals = self.duals
        capacity = duals[[name.startswith("capacity[") for name in duals.index]]
        capacity.index = pd.Index([name[len("capacity[") : -1] for name in capacity.index], name="gpu_type")
        return capacity.rename("price")

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and words, for JSON."""
        return {
            "status": self.status,
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "violation": self.violation,
            "measured": self.measured,
            "seconds": self.seconds,
            "solver_seconds": self.solver_seconds,
            "solver": self.solver,
            "method": self.method,
            "passes": self.passes,
            "exact_objective": str(self.exact) if self.exact else None,
        }


def capacity_violation(entities: Entities, share: Floats) -> float:
    """Largest overuse of a GPU type, or negative share, relative to the largest capacity."""
    size = scale(entities.capacity)
    over = entities.gpus(share).sum(axis=0) - entities.capacity
    forbidden = np.abs(share[~entities.allowed])
    parts = [over.max(), -share.min(), forbidden.max() if forbidden.size else 0.0]
    return max(0.0, float(max(parts)) / size)


def measure(formulation: Formulation, entities: Entities, share: Floats, priority: int = 0) -> tuple[Measure, bool]:
    """(gain and size at ``priority`` and largest violation, whether all components could be measured) of a share."""
    gain, size, violation, complete = 0.0, 0.0, capacity_violation(entities, share), True
    for part in formulation:
        if not isinstance(part, Measured):
            complete = False
            continue
        own = part.measure(entities, share)
        if not isinstance(own, Measure):
            raise InvalidFormulation(f"{part.name!r}: measure(entities, share) returned {shown(own)}; return a Measure")
        violation = max(violation, own.violation)
        if getattr(part, "priority", 0) == priority:
            gain += own.gain
            size += own.size
    return Measure(gain, violation, size), complete


def certify(
    formulation: Formulation,
    entities: Entities,
    point: Point,
    seconds: float,
    exact: ExactOptimum | None = None,
) -> Certificate:
    """The certificate of ``point`` for ``formulation``."""
    main = point.main
    own, complete = measure(formulation, entities, point.share, main.program.priority)
    objective = own.gain if complete else main.objective
    return Certificate(
        status=_status(point, objective, main.bound, own),
        objective=objective,
        bound=main.bound,
        violation=own.violation,
        measured=complete,
        seconds=seconds,
        solver_seconds=point.seconds,
        solver=point.solver,
        method=point.method,
        passes=point.passes,
        size=own.size,
        exact=exact,
        _point=point,
    )


def _status(point: Point, objective: float, bound: float, own: Measure) -> str:
    """What the solver says, unless the measurements on the shares say otherwise."""
    if own.violation > TRUSTED or objective - bound > TRUSTED * scale(bound, objective, own.size):
        return "inaccurate"
    if point.status == "optimal" and bound - objective > EQUAL * scale(bound, objective, own.size):
        return "gap"
    return point.status
