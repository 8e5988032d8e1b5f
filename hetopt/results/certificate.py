"""Certificates: the solver's claims about a result, and measurements on the result itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from pyomo.core.base.component_namer import index_repr

from hetopt.errors import InvalidOption
from hetopt.programs.arrays import Measure
from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.tolerances import EQUAL, TRUSTED, scale

if TYPE_CHECKING:
    from hetopt.solving.exact import ExactOptimum
    from hetopt.solving.sensitivity import Sensitivity


@dataclass(frozen=True, eq=False)
class Certificate:
    """Claims of the solver, and measurements on the shares.

    Attributes
    ----------
    status:
        ``"optimal"``, ``"gap"`` (proven up to :attr:`gap`), ``"time_limit"``, ``"inaccurate"`` (the shares violate a
        row or exceed the bound by more than rounding: the numbers of the instance differ too much in size for the
        solver, or a component measures a gain other than that in its model), or ``"rule"`` (from a rule that claims no
        optimum, such as equal division; the bound is then the largest total rate).
    objective:
        The sum of the gains of priority 0 (of the highest priority if no gain has 0). Measured on the shares from the
        instance's arrays if every component supports it (``measured`` is then True), else as reported by the solver.
        Costs count negative.
    bound:
        Upper bound on the objective, as claimed by the solver (for methods by structure: proven by weak duality).
    violation:
        Largest violation of capacity or of a component's rows, measured on the shares; relative, no unit.
    measured:
        Whether every component measured its own gain and rows.
    seconds:
        Wall time of the whole solve, building included.
    solver_seconds:
        Wall time inside the solver.
    solver, method, passes:
        Solver and method used, and number of runs (0: proven without one, such as a plan that stays).
    size:
        Scale of the gap, for objectives that the choice of units may bring near 0; see
        :class:`~hetopt.programs.arrays.Measure`.
    exact:
        The optimum in rational numbers if ``Options(exact=True)`` requested it, else None.
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
    _types: tuple[str, ...] = field(default=(), repr=False)
    _point: Point | None = field(default=None, repr=False)
    _compiled: Compiled | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Omit the data for :attr:`sensitivity`, which cannot be pickled."""
        return {**self.__dict__, "_compiled": None}

    def write(self, path: str | Path, comments: Mapping[str, str] | None = None, *, overwrite: bool = False) -> None:
        """Write the proof of an exact optimum as a file in VIPR's format; see :meth:`hetopt.ExactOptimum.write`.

        Raises
        ------
        InvalidOption
            The result is not exact.
        UnusableFile
            The file exists and ``overwrite`` is False, or it cannot be written.
        """
        if self.exact is None:
            raise InvalidOption("this result is not exact, so there is no proof to write; solve with exact=True")
        self.exact.write(path, comments, overwrite=overwrite)

    @property
    def gap(self) -> float:
        """(bound - objective), relative to the largest of both and ``size``."""
        return max(0.0, self.bound - self.objective) / scale(self.bound, self.objective, self.size)

    @property
    def duals(self) -> pd.Series[float]:
        """Row name -> increase of :attr:`objective` per unit of the row's bound; empty where none are proven."""
        point = None if self._point is None else self._point.main
        if point is None or point.row_dual is None:
            return pd.Series(dtype=float, name="dual")
        return pd.Series(point.row_dual, index=list(point.program.row_names), name="dual")

    @property
    def prices(self) -> pd.Series[float]:
        """Shadow prices of the GPU types: increase of the objective per additional GPU."""
        duals, rows = self.duals, {f"capacity{index_repr(name)}": name for name in self._types}
        found = {row: t for row in duals.index for end, t in rows.items() if row == end or row.endswith(f".{end}")}
        return duals[list(found)].rename(index=found).rename_axis("gpu_type").rename("price")

    @property
    def reduced_costs(self) -> pd.Series[float]:
        """Column name -> increase of :attr:`objective` per unit of the column's bound; empty without duals."""
        point = None if self._point is None else self._point.main
        if point is None or (costs := point.reduced_cost) is None:
            return pd.Series(dtype=float, name="reduced_cost")
        return pd.Series(costs, index=list(point.program.col_names), name="reduced_cost")

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """Duals, reduced costs and their ranges; None for results of rules or of several programs, and after pickling.

        Computed by simplex on demand; for integer programs, of the linear relaxation.
        """
        from hetopt.solving.sensitivity import sensitivity_of

        if self._point is None or self._compiled is None:
            return None
        return sensitivity_of(self._compiled, self._point)

    def as_dict(self) -> dict[str, object]:
        """Plain numbers and words, for JSON."""
        measured = ("status", "objective", "bound", "gap", "violation", "measured", "seconds", "solver_seconds")
        return {
            **{key: getattr(self, key) for key in (*measured, "solver", "method", "passes")},
            "prices": self.prices.to_dict(),
            "exact_objective": str(self.exact) if self.exact else None,
        }


def certify(
    compiled: Compiled,
    point: Point,
    seconds: float,
    exact: ExactOptimum | None = None,
    *,
    with_sensitivity: bool = True,
) -> Certificate:
    """The certificate of ``point`` for the formulation in ``compiled``.

    ``with_sensitivity``: False if ``point`` is the result of several programs, which have no common sensitivity.
    """
    main = point.main
    own, complete = compiled.measure(point.share, main.program.priority, compiled.own_values(point.x))
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
        _types=compiled.entities.types,
        _point=point,
        _compiled=compiled if with_sensitivity else None,
    )


def _status(point: Point, objective: float, bound: float, own: Measure) -> str:
    """The solver's status, unless the measurements on the shares contradict it."""
    if own.violation > TRUSTED or objective - bound > TRUSTED * scale(bound, objective, own.size):
        return "inaccurate"
    if point.status == "optimal" and bound - objective > EQUAL * scale(bound, objective, own.size):
        return "gap"
    return point.status
