"""Linear programs as free MPS text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

from hetopt.errors import InvalidOption
from hetopt.programs.encoded_names import mps_name, objective_name
from hetopt.programs.linear import LinearProgram


def mps_text(program: LinearProgram) -> str:
    """``program`` (its last objective) as a free MPS file with an OBJSENSE section.

    The right-hand side of the objective is its constant, negated as the format requires. Numbers are written so that
    reading them gives the same floats; but a row with two different bounds is written as its lower bound and range, so
    rounding may change its upper bound.

    Raises
    ------
    InvalidOption
        The lower bound of a row is above its upper one.
    """
    for i in np.flatnonzero(program.row_lower > program.row_upper)[:1].tolist():
        raise InvalidOption(
            f"the row {program.row_names[i]!r} has a lower bound above its upper one, not possible in MPS; write LP"
        )
    goal = objective_name(program.row_names)
    rows = [mps_name(name) for name in program.row_names]
    columns = [mps_name(name) for name in program.col_names]
    lines = ["NAME hetopt", "OBJSENSE", "    MAX", "ROWS", f" N {goal}"]
    bounds = list(zip(rows, program.row_lower.tolist(), program.row_upper.tolist(), strict=True))
    lines += [f" {_row_type(low, high)} {name}" for name, low, high in bounds]
    lines += ["COLUMNS", *_columns(program, goal, rows, columns), "RHS"]
    if program.offset:
        lines.append(f" RHS {goal} {-program.offset!r}")
    sides = [(name, _side(low, high)) for name, low, high in bounds]
    lines += [f" RHS {name} {side!r}" for name, side in sides if side]
    ranges = [
        f" RANGE {name} {high - low!r}" for name, low, high in bounds if np.isfinite([low, high]).all() and low != high
    ]
    return "\n".join(
        [*lines, *(["RANGES", *ranges] if ranges else []), "BOUNDS", *_bounds(program, columns), "ENDATA", ""]
    )


def _row_type(low: float, high: float) -> str:
    if low == high:
        return "E"
    if np.isfinite(low):
        return "G"
    return "L" if np.isfinite(high) else "N"


def _side(low: float, high: float) -> float:
    return low if np.isfinite(low) else high if np.isfinite(high) else 0.0


def _columns(program: LinearProgram, goal: str, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    matrix, marked = sparse.csc_array(program.A), False
    for j, name in enumerate(columns):
        if bool(program.integer[j]) != marked:
            marked = not marked
            yield f" MARKER{j} 'MARKER' '{'INTORG' if marked else 'INTEND'}'"
        entries = range(matrix.indptr[j], matrix.indptr[j + 1])
        if program.c[j] or not entries:  # every column must occur, if only with a 0
            yield f" {name} {goal} {float(program.c[j])!r}"
        for p in entries:
            yield f" {name} {rows[matrix.indices[p]]} {float(matrix.data[p])!r}"
    if marked:
        yield " MARKER 'MARKER' 'INTEND'"


def _bounds(program: LinearProgram, columns: Sequence[str]) -> Iterator[str]:
    for name, low, high in zip(columns, program.col_lower.tolist(), program.col_upper.tolist(), strict=True):
        if low == -np.inf and high == np.inf:
            yield f" FR BOUND {name}"
        elif low == high:
            yield f" FX BOUND {name} {low!r}"
        else:
            yield f" MI BOUND {name}" if low == -np.inf else f" LO BOUND {name} {low!r}"
            yield f" PL BOUND {name}" if high == np.inf else f" UP BOUND {name} {high!r}"
