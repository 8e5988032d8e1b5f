"""What the solver claims of a result, and what was measured on the result itself."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from hetopt.programs.arrays import Measure
from hetopt.programs.compiled import Compiled
from hetopt.solving.point import Point
from hetopt.tolerances import EQUAL, TRUSTED, scale

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum
    from hetopt.solving.sensitivity import Sensitivity


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
        No feasible allocation is better, claims the solver (of a method by structure: proven by weak duality).
    violation:
        Largest violation of capacity or of a component's rows, measured on the shares; relative, no unit.
    measured:
        Whether every component measured its own gain and rows.
    seconds:
        Wall time of the whole solve path, building included.
    solver_seconds:
        Wall time inside the solver.
    solver, method, passes:
        What was used, and how many runs it took.
    size:
        What the gap is relative to where the objective may be near 0 by the choice of units; see
        :class:`~hetopt.programs.arrays.Measure`.
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
    _compiled: Compiled | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Without what only :attr:`sensitivity` needs, which cannot be pickled."""
        return {**self.__dict__, "_compiled": None}

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
        types = [name[len("capacity[") : -1] for name in capacity.index]
        types = [literal_eval(name) if name[0] in "'\"" else name for name in types]  # quoted where Pyomo does so
        capacity.index = pd.Index(types, name="gpu_type")
        return capacity.rename("price")

    @property
    def reduced_costs(self) -> pd.Series[float]:
        """Column name -> increase of :attr:`objective` per unit of the column's bound; empty for integer programs."""
        point = None if self._point is None else self._point.main
        if point is None or (costs := point.reduced_cost) is None:
            return pd.Series(dtype=float, name="reduced_cost")
        return pd.Series(costs, index=list(point.program.col_names), name="reduced_cost")

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """Duals, reduced costs and the ranges in which they hold; None for results of rules and after pickling.

        Computed by simplex when asked for; of the linear relaxation for integer programs.
        """
        from hetopt.solving.sensitivity import sensitivity_of

        if self._point is None or self._compiled is None:
            return None
        return sensitivity_of(self._compiled, self._point)

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
            "prices": self.prices.to_dict(),
            "exact_objective": str(self.exact) if self.exact else None,
        }


def certify(compiled: Compiled, point: Point, seconds: float, exact: ExactOptimum | None = None) -> Certificate:
    """The certificate of ``point`` for the formulation that ``compiled`` is of."""
    main = point.main
    own, complete = compiled.measure(point.share, main.program.priority)
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
        _compiled=compiled,
    )


def _status(point: Point, objective: float, bound: float, own: Measure) -> str:
    """What the solver says, unless the measurements on the shares say otherwise."""
    if own.violation > TRUSTED or objective - bound > TRUSTED * scale(bound, objective, own.size):
        return "inaccurate"
    if point.status == "optimal" and bound - objective > EQUAL * scale(bound, objective, own.size):
        return "gap"
    return point.status
