"""Linear programs as CPLEX LP text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.errors import InvalidOption
from hetopt.programs.encoded_names import constant_name, lp_name, objective_name
from hetopt.programs.linear import LinearProgram

TERMS_PER_LINE = 5


def lp_text(program: LinearProgram) -> str:
    """``program`` (its last objective) as a CPLEX LP file; ranges are written as two rows, ``name`` and ``name~high``.

    The objective's constant is written as a column fixed at 1, since Gurobi reads a bare number as a variable. Numbers
    are written so that reading them gives the same floats.

    Raises
    ------
    InvalidOption
        The program has no columns.
    """
    names = [lp_name(name) for name in program.col_names]
    if not names:
        raise InvalidOption("the program has no columns, and an LP file must name one; write MPS or JSON")
    gains, goal = np.flatnonzero(program.c), objective_name(program.row_names)
    lines = ["Maximize", *_sum(goal, gains, program.c[gains], names)]
    constant = []
    if program.offset:
        name = constant_name(program.col_names)
        lines.append(f"  {_signed(program.offset)} {name}")
        constant = [f" {name} = 1.0"]
    lines += ["Subject To", *_rows(program, names), "Bounds", *_bounds(program, names), *constant]
    whole = [names[j] for j in np.flatnonzero(program.integer)]
    if whole:
        lines += ["General", *(f" {name}" for name in whole)]
    return "\n".join([*lines, "End", ""])


def _rows(program: LinearProgram, names: Sequence[str]) -> Iterator[str]:
    matrix = sparse.csr_array(program.A)
    for i in range(program.shape[0]):
        part = slice(matrix.indptr[i], matrix.indptr[i + 1])
        terms, name = (matrix.indices[part], matrix.data[part]), lp_name(program.row_names[i])
        low, high = float(program.row_lower[i]), float(program.row_upper[i])
        sides = [("=", low)] if low == high else [(">=", low), ("<=", high)]
        finite = [side for side in sides if np.isfinite(side[1])]
        for label, (sign, bound) in zip((name, f"{name}~high"), finite, strict=False):
            *lines, last = _sum(label, *terms, names)
            yield from [*lines, f"{last} {sign} {bound!r}"]


def _sum(label: str, columns: NDArray[Any], values: NDArray[Any], names: Sequence[str]) -> list[str]:
    """Lines of a labelled sum; an empty sum becomes 0 times the first column, since the format has no empty sums."""
    terms = [f"{_signed(v)} {names[j]}" for j, v in zip(columns.tolist(), values.tolist(), strict=True)] or [
        f"+ 0 {names[0]}"
    ]
    parts = [" ".join(terms[i : i + TERMS_PER_LINE]) for i in range(0, len(terms), TERMS_PER_LINE)]
    return [f" {label}: {parts[0]}", *(f"  {part}" for part in parts[1:])]


def _signed(value: float) -> str:
    return f"- {-value!r}" if value < 0 else f"+ {value!r}"


def _bounds(program: LinearProgram, names: Sequence[str]) -> Iterator[str]:
    for name, low, high in zip(names, program.col_lower.tolist(), program.col_upper.tolist(), strict=True):
        if low == -np.inf and high == np.inf:
            yield f" {name} free"
        elif low == high:
            yield f" {name} = {low!r}"
        elif low != 0 or high != np.inf:
            first = "-inf" if low == -np.inf else repr(low)
            yield f" {first} <= {name}" + ("" if high == np.inf else f" <= {high!r}")
