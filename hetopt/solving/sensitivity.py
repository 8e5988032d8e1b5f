"""Sensitivity analysis: duals, reduced costs and their ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hetopt.checks import expect
from hetopt.data.array_types import Floats
from hetopt.errors import InvalidFormulation
from hetopt.programs.linear import BASIC, Basis, LinearProgram, Point, nearest_powers
from hetopt.programs.model import LARGE
from hetopt.solving.highs import Session
from hetopt.solving.optimising import optimise
from hetopt.solving.options import DEFAULT, Options
from hetopt.tolerances import scale

if TYPE_CHECKING:
    from hetopt.programs.compiled import Compiled


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Sensitivity of a linear program's optimum to small changes, in the units of the model.

    Attributes
    ----------
    rows:
        Index: row names. ``activity``: the left-hand side; ``lower``, ``upper``: its bounds; ``dual``: increase of the
        optimum per unit of the binding bound (0 if none binds); ``from``, ``to``: range of that bound in which the dual
        stays valid (for a row that does not bind, range of the nearer bound).
    columns:
        Index: column names. ``value``; ``gain``: objective coefficient; ``reduced_cost``: increase of the optimum per
        unit of the column's bound; ``from``, ``to``: range of the coefficient in which the point stays optimal.
    relaxed:
        Whether the numbers refer to the linear relaxation of an integer program.

    Ranges refer to one optimal basis; with several optimal bases a dual may be valid farther. They are NaN if the
    program has too many rows to list, or a concave gain; its tangents are omitted.
    """

    rows: pd.DataFrame
    columns: pd.DataFrame
    relaxed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinite numbers become ``"inf"`` and ``"-inf"``, unknown ones None."""
        return {"relaxed": self.relaxed, "rows": _table_as_dict(self.rows), "columns": _table_as_dict(self.columns)}


def _table_as_dict(frame: pd.DataFrame) -> dict[str, dict[str, float | str | None]]:
    def finite_or_text(value: float) -> float | str | None:
        return None if np.isnan(value) else str(value) if np.isinf(value) else value

    return {
        str(name): {str(key): finite_or_text(float(v)) for key, v in zip(frame.columns, row, strict=True)}
        for name, row in zip(frame.index, frame.to_numpy(), strict=True)
    }


def sensitivity(program: LinearProgram, options: Options | None = None) -> Sensitivity:
    """The sensitivity of ``program`` (its last objective), solved by HiGHS's simplex method.

    Raises
    ------
    NotSolved
        There is no optimum.
    """
    expect(LinearProgram, program, "program", InvalidFormulation)
    return _solved(_relaxed(program), None, options or DEFAULT, ranged=True, relaxed=bool(program.integer.any()))


def sensitivity_of(compiled: Compiled, point: Point) -> Sensitivity:
    """The sensitivity of the objective of ``point`` in the certificate, with all rows of ``compiled``."""
    main = point.main.program
    if len(main.c) < compiled.width:  # a method without columns for curves
        main = compiled.program
    found = optimise(_relaxed(main), Options(method="simplex"), compiled.separation())
    program, relaxed = found.program, bool(main.integer.any())
    listed = sum(len(family) * family.entries for _, family in compiled.lazy_families) <= LARGE
    if listed and (every := compiled.all_lazy_rows()) is not None:
        present = set(program.row_names)
        program = program.with_rows(every.part(np.flatnonzero([name not in present for name in every.names])))
    ranged = listed and not compiled.curved
    changes = _solved(program, found.basis, Options(), ranged=ranged, relaxed=relaxed)
    if not compiled.curved:
        return changes
    own = tuple(f"{name}." for name in compiled.curved)
    rows, columns = (
        table[[not name.startswith(own) for name in table.index]] for table in (changes.rows, changes.columns)
    )
    return Sensitivity(rows, columns.assign(gain=np.nan), relaxed)


def _relaxed(program: LinearProgram) -> LinearProgram:
    return replace(program.relaxation, earlier=())


def _solved(
    program: LinearProgram, start: Basis | None, options: Options, *, ranged: bool, relaxed: bool
) -> Sensitivity:
    """The sensitivity of ``program``, solved from the basis ``start``; ``ranged``: with ranges."""
    size = float(nearest_powers(scale(program.c)))  # so that HiGHS does not scale the objective itself
    session = Session(replace(program, c=program.c / size, offset=0.0).scaled(), replace(options, method="simplex"))
    if start is not None:
        session.start_at(start.extended(program.shape[0]))
    point = session.solve().unscaled(program)
    assert point.row_dual is not None
    activity, dual = np.asarray(program.A @ point.x), point.row_dual * size
    ranges = session.ranges() if ranged else None
    basis = point.basis
    if ranges is None or basis is None:
        bound, cost = np.full((2, program.shape[0]), np.nan), np.full((2, program.shape[1]), np.nan)
    else:
        row, column = program.units
        bound, cost = ranges[0] * row, ranges[1] * size / column
        loose = basis.rows == BASIC
        bound[:, loose] = _ranges_of_loose(activity, program.row_lower, program.row_upper)[:, loose]
    rows_of: dict[str, Floats] = {
        "activity": activity,
        "lower": program.row_lower,
        "upper": program.row_upper,
        "dual": dual,
        "from": bound[0],
        "to": bound[1],
    }
    columns_of: dict[str, Floats] = {
        "value": point.x,
        "gain": program.c,
        "reduced_cost": program.priced(dual),
        "from": cost[0],
        "to": cost[1],
    }
    return Sensitivity(
        pd.DataFrame(rows_of, index=pd.Index(list(program.row_names), name="row")),
        pd.DataFrame(columns_of, index=pd.Index(list(program.col_names), name="column")),
        relaxed,
    )


def _ranges_of_loose(activity: Floats, lower: Floats, upper: Floats) -> Floats:
    """(2, rows) range of the nearer bound of a row that keeps the point feasible; a single value for an equation."""
    below, equal = activity - lower < upper - activity, lower == upper
    low = np.where(below & ~equal, -np.inf, activity)
    return np.array([low, np.where(below | equal, activity, np.inf)])
