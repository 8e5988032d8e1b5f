"""Blocks of a binary program (sets of columns with at most one 1), and Lagrangian bounds over them.

Rows like ``sum_k share[e, k] <= 1`` split a scheduling program into blocks that are linked by only a few coupling rows.
Given prices of the coupling rows, the program decomposes by block. So any prices bound the optimum (weak duality), and
give lower bounds on the loss if a column is 1 or a block is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.programs.linear import LinearProgram, Names, largest_sum
from hetopt.tolerances import PROVEN, scale

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Partition of the binary columns of ``program`` into b blocks.

    Attributes
    ----------
    of:
        (columns,) block of each binary column, -1 for continuous ones.
    row:
        (b,) the row "at most one", -1 for a single column without that row.
    must:
        (b,) True where exactly one column must be 1.
    coupling:
        (c,) the other rows.
    """

    program: LinearProgram
    of: Positions
    row: Positions
    must: Flags
    coupling: Positions

    @cached_property
    def binary(self) -> Positions:
        """Positions of the binary columns with upper bound 1."""
        return np.flatnonzero((self.of >= 0) & (self.program.col_upper > 0))

    @cached_property
    def coupled(self) -> sparse.csc_array:
        """(c, columns) the coupling rows."""
        return sparse.csc_array(sparse.csr_array(self.program.A)[self.coupling])


def blocks_of(program: LinearProgram) -> Blocks:
    """The blocks of a binary program; a column in no suitable row forms a separate block."""
    m, n = program.shape
    A = sparse.csr_array(program.A)
    length = np.diff(A.indptr)
    row = np.repeat(np.arange(m), length)
    unfit = np.bincount(row, weights=(A.data != 1.0) | ~program.integer[A.indices], minlength=m) > 0
    at_most_one = (program.row_upper == 1.0) & ((program.row_lower <= 0.0) | (program.row_lower == 1.0))
    suited = np.flatnonzero(at_most_one & ~unfit & (length > 0))
    kept = np.isin(row, suited)
    holder = np.full(n, -1)
    holder[A.indices[kept][::-1]] = row[kept][::-1]  # the first suitable row of each column is written last
    clash = np.bincount(row[kept], weights=holder[A.indices[kept]] != row[kept], minlength=m) > 0
    rows = suited[~clash[suited]]
    number = np.full(m + 1, -1)
    number[rows] = np.arange(len(rows))
    of = np.where(program.integer, number[holder], -1)
    alone = np.flatnonzero(program.integer & (of < 0))
    of[alone] = len(rows) + np.arange(len(alone))
    return Blocks(
        program=program,
        of=of,
        row=np.concatenate([rows, np.full(len(alone), -1)]),
        must=np.concatenate([program.row_lower[rows] == 1.0, np.zeros(len(alone), dtype=bool)]),
        coupling=np.setdiff1d(np.arange(m), rows, assume_unique=True),
    )


@dataclass(frozen=True, eq=False)
class Losses:
    """Bounds implied by prices of the coupling rows.

    Attributes
    ----------
    bound:
        Upper bound on the optimum.
    column:
        (columns,) least loss relative to ``bound`` of a point in which this column is 1 (0 if it is continuous,
        infinite if it cannot be 1).
    block:
        (b,) least loss relative to ``bound`` of a point in which this block is empty.
    """

    bound: float
    column: Floats
    block: Floats


def losses(blocks: Blocks, prices: Floats) -> Losses:
    """Bound and losses from (c,) ``prices`` of the coupling rows; valid for any prices."""
    program = blocks.program
    low, up = program.row_lower[blocks.coupling], program.row_upper[blocks.coupling]
    y = np.where(np.isfinite(np.where(prices > 0, up, low)), prices, 0.0)
    value = np.where(y > 0, up, low)
    bound = program.offset + float(y[y != 0] @ value[y != 0])
    gain = program.c - blocks.coupled.T @ y
    top = np.where(blocks.must, -np.inf, 0.0)
    np.maximum.at(top, blocks.of[blocks.binary], gain[blocks.binary])
    column = np.full(len(gain), np.inf)
    column[blocks.binary] = top[blocks.of[blocks.binary]] - gain[blocks.binary]
    free = np.flatnonzero(blocks.of < 0)
    column[free] = 0.0
    bound += float(top.sum()) + largest_sum(
        gain[free], program.col_lower[free], program.col_upper[free], PROVEN * scale(program.c)
    )
    return Losses(bound, column, np.where(blocks.must, np.inf, top))


def restricted(program: LinearProgram, columns: Positions) -> tuple[LinearProgram, Positions]:
    """``program`` with all columns but ``columns`` fixed to 0, and the positions of its non-redundant rows.

    The shares are dropped.
    """
    A = program.A[:, columns]
    m = program.shape[0]
    rows = np.flatnonzero((np.bincount(A.indices, minlength=m) > 0) | (program.row_lower > 0) | (program.row_upper < 0))
    place = np.zeros(m, dtype=A.indices.dtype)
    place[rows] = np.arange(len(rows))
    part = LinearProgram(
        c=program.c[columns],
        A=sparse.csc_array((A.data, place[A.indices], A.indptr), shape=(len(rows), len(columns))),
        row_lower=program.row_lower[rows],
        row_upper=program.row_upper[rows],
        col_lower=program.col_lower[columns],
        col_upper=program.col_upper[columns],
        integer=program.integer[columns],
        row_names=Names(len(rows), lambda i: program.row_names[rows[i]]),
        col_names=Names(len(columns), lambda i: program.col_names[columns[i]]),
        offset=program.offset,
    )
    return part, rows
