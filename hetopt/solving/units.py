"""Scaling of programs for solvers: rows and columns in units in which their numbers are about 1.

Models have rows as printed in the papers. A solver's absolute tolerances have the same meaning for every row only if
the numbers are of similar size. So rows are divided by ``row_unit`` and columns expressed in multiples of ``col_unit``
before the solve, and points and duals are scaled back after it. Scaling by powers of two is exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetopt.programs.linear import Cuts, LinearProgram, with_data
from hetopt.programs.point import Point


def scaled(program: LinearProgram) -> LinearProgram:
    """``program`` scaled by its units; ``program`` itself if all are 1."""
    if program.row_unit is None and program.col_unit is None:
        return program
    data = program.A.data
    if program.row_unit is not None:
        data = data / program.row_unit[program.A.indices]
    if program.col_unit is not None:
        data = data * program.col_unit[program.entry_columns]
    row, column = _units(program)
    return replace(
        program,
        c=program.c * column,
        A=with_data(program.A, data),
        row_lower=program.row_lower / row,
        row_upper=program.row_upper / row,
        col_lower=program.col_lower / column,
        col_upper=program.col_upper / column,
        row_unit=None,
        col_unit=None,
    )


def scaled_cuts(cuts: Cuts, program: LinearProgram) -> Cuts:
    """``cuts`` scaled for the scaled ``program``."""
    if cuts.unit is None and program.col_unit is None:
        return cuts
    row = np.ones(len(cuts)) if cuts.unit is None else cuts.unit
    data = cuts.matrix.data / np.repeat(row, np.diff(cuts.matrix.indptr))
    if program.col_unit is not None:
        data = data * program.col_unit[cuts.matrix.indices]
    return Cuts(with_data(cuts.matrix, data), cuts.lower / row, cuts.upper / row, cuts.names)


def restored(point: Point, program: LinearProgram) -> Point:
    """A point of the scaled ``program`` as a point of ``program``; duals are per unit of the model."""
    if program.row_unit is None and program.col_unit is None:
        return point if point.program is program else replace(point, program=program)
    row, column = _units(program)
    return replace(
        point,
        program=program,
        x=point.x * column,
        row_dual=None if point.row_dual is None else point.row_dual / row,
    )


def _units(program: LinearProgram) -> tuple[np.ndarray | float, np.ndarray | float]:
    return (
        1.0 if program.row_unit is None else program.row_unit,
        1.0 if program.col_unit is None else program.col_unit,
    )
