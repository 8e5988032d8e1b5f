"""Optima of linear programs that outlive a change of the program: weak duality proves them again.

A point x that was optimal with row duals y is a candidate for every program of the same shape. It is optimal there if
it is feasible, and its objective is the bound that y proves (:meth:`~hetopt.programs.linear.LinearProgram.dual_bound`).
Both are read from the new program, so that nothing about the change has to be known: coefficients, bounds and even the
entities may be others.
"""

from __future__ import annotations

from dataclasses import replace

from hetopt.programs.compiled import Compiled
from hetopt.programs.linear import Point
from hetopt.tolerances import FEASIBILITY, GAP, PROVEN, scale


def may_stay(compiled: Compiled, point: Point) -> bool:
    """Whether duals of ``point`` prove something about later programs of this kind.

    They do not for integer columns, for several objectives, and for rows that are added as points violate them.
    """
    has_duals = point.row_dual is not None and not point.earlier and not compiled.program.earlier
    return has_duals and compiled.separation() is None and not compiled.program.integer.any()


def still_optimal(compiled: Compiled, point: Point) -> Point | None:
    """``point`` of another program as a point of this one, if its duals prove that it is optimal here; else None.

    The gap may be as large as that of ``point`` in its own program.
    """
    program = compiled.program
    if point.row_dual is None or not may_stay(compiled, point) or point.program.shape != program.shape:
        return None
    own = (point.bound - point.objective) / scale(point.bound, point.objective)
    value, bound = program.objective(point.x), program.dual_bound(point.row_dual)
    if bound - value > min(max(own, PROVEN), GAP) * scale(bound, value) or program.violation(point.x) > FEASIBILITY:
        return None
    return replace(
        point,
        program=program,
        objective=value,
        bound=max(bound, value),
        basis=None,
        seconds=0.0,
        method="weak duality",
        passes=0,
    )
