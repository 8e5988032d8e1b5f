"""Small programs and components written by hand, for the tests of solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

import hetopt
from hetopt.programs.linear import LinearProgram


def lp(
    c: list[float],
    rows: list[tuple[float, list[float], float]],
    box: list[tuple[float, float]],
    whole: bool = False,
    names: list[str] | None = None,
) -> LinearProgram:
    """A program from rows (lower, coefficients, upper) and a box (lower, upper) per column."""
    matrix = np.array([row for _, row, _ in rows], dtype=float).reshape(len(rows), len(c))
    return LinearProgram(
        c=np.array(c, dtype=float),
        A=sparse.csc_array(matrix),
        row_lower=np.array([low for low, _, _ in rows], dtype=float),
        row_upper=np.array([high for _, _, high in rows], dtype=float),
        col_lower=np.array([low for low, _ in box], dtype=float),
        col_upper=np.array([high for _, high in box], dtype=float),
        integer=np.full(len(c), whole),
        row_names=names or [f"r{i}" for i in range(len(rows))],
        col_names=[f"x{j}" for j in range(len(c))],
    )


@dataclass(frozen=True)
class Whole:
    """Every share is 0 or 1."""

    name: str = "whole"
    binary: bool = True

    def add(self, block: Any, model: hetopt.Model) -> float:
        return 0

    def measure(self, entities: Any, share: Any) -> hetopt.Measure:
        return hetopt.Measure(violation=float(np.abs(share - np.rint(share)).max()))
