"""Small programs and components written by hand, for the tests of solvers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import hetopt
from hetopt.programs.linear import LinearProgram
from hetopt.tolerances import EQUAL


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


def as_tables(program: LinearProgram) -> tuple[dict[str, tuple[float, ...]], dict[str, tuple[object, ...]]]:
    """Column name -> (cost, bounds, whole), and row name -> (bounds, {column name: coefficient})."""
    names = list(program.col_names)
    columns = {
        name: (program.c[i], program.col_lower[i], program.col_upper[i], float(program.integer[i]))
        for i, name in enumerate(names)
    }
    matrix = sparse.csr_array(program.A)
    rows: dict[str, tuple[object, ...]] = {}
    for r, (name, (a, b)) in enumerate(zip(program.row_names, pairwise(matrix.indptr), strict=True)):
        entries = {names[i]: v for i, v in zip(matrix.indices[a:b], matrix.data[a:b], strict=True) if v}
        rows[name] = (program.row_lower[r], program.row_upper[r], entries)
    return columns, rows


def assert_same_program(fast: LinearProgram, slow: LinearProgram) -> None:
    """Same columns, rows and objective, up to order."""
    assert fast.shape == slow.shape
    (columns, rows), (columns_too, rows_too) = as_tables(fast), as_tables(slow)
    assert columns.keys() == columns_too.keys()
    assert rows.keys() == rows_too.keys()
    for name, column in columns.items():
        assert column == pytest.approx(columns_too[name], rel=EQUAL), name
    for name, (low, up, entries) in rows.items():
        assert (low, up) == pytest.approx(rows_too[name][:2], rel=EQUAL), name
        assert entries == pytest.approx(rows_too[name][2], rel=EQUAL), name
    assert fast.offset == slow.offset


@dataclass(frozen=True)
class Whole:
    """Every share is 0 or 1."""

    name: str = "whole"
    binary: bool = True

    def add(self, block: Any, model: hetopt.Model) -> float:
        return 0

    def measure(self, entities: Any, share: Any) -> hetopt.Measure:
        return hetopt.Measure(violation=float(np.abs(share - np.rint(share)).max()))
