"""Prices of the coupling rows at the optimum of a binary program's relaxation, by sifting over its columns.

With few coupling rows, prices alone decide nearly all blocks. The initial prices come from every sixteenth block with
a sixteenth of the right-hand side of every coupling row. Then a linear program over the columns of least loss at these
prices, enough to fill each row several times, is extended by columns with attractive reduced costs until the bound of
its prices equals its value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from hetopt.data.array_types import Floats, Positions
from hetopt.errors import NotSolved
from hetopt.programs.linear import Names
from hetopt.solving.blocks import Blocks, Flags, Losses, losses, restricted
from hetopt.solving.highs import Session
from hetopt.solving.options import Options
from hetopt.tolerances import PROVEN, scale

MANY = 4_000
"""Number of columns up to which the whole relaxation is solved at once, in some 10 ms."""

FEW_ROWS = 100
"""Number of coupling rows up to which prices from a sample of the blocks are close to the optimal ones."""

STRIDE = 16
"""The initial prices come from every sixteenth block: 2% of the work, and an error of about 1%."""

COVER = 4.0
"""Number of times that the initial columns can fill each row. With half as many, additional passes cost more."""


def relaxed(blocks: Blocks, options: Options) -> Losses:
    """Bound and losses at the optimum of the relaxation of ``blocks.program``.

    Raises
    ------
    NotSolved
        The relaxation is infeasible or unbounded, or the time limit came first.
    """
    if len(blocks.binary) > MANY and len(blocks.coupling) <= FEW_ROWS:
        try:
            return _sifted(blocks, options)
        except NotSolved as problem:  # a part may be infeasible or unbounded although the whole is not
            if problem.status == "time_limit":
                raise
    _, dual, _ = Session(blocks.program.relaxation, replace(options, method="simplex")).values()
    return losses(blocks, dual[blocks.coupling])


def _sifted(blocks: Blocks, options: Options) -> Losses:
    sample = _Part(blocks, np.flatnonzero((blocks.of < 0) | (blocks.of % STRIDE == 0)), options, 1.0 / STRIDE)
    _, prices = sample.solve()
    chosen = _promising(blocks, losses(blocks, prices).column)
    part = _Part(blocks, np.flatnonzero(chosen), options)
    while True:
        value, prices = part.solve()
        found = losses(blocks, prices)
        missing = ~chosen & (found.column <= 0)
        if found.bound - value <= PROVEN * scale(found.bound) or not missing.any():
            return found
        chosen |= missing
        part.add(np.flatnonzero(missing))


def _promising(blocks: Blocks, loss: Floats) -> Flags:
    """The columns of least loss per coupling row, enough to fill it several times, and all continuous ones."""
    chosen: Flags = blocks.of < 0
    rows = sparse.csr_array(blocks.coupled)
    low, up = blocks.program.row_lower[blocks.coupling], blocks.program.row_upper[blocks.coupling]
    full = np.abs(np.where(np.isfinite(up), up, low))
    for start, end, most in zip(rows.indptr[:-1], rows.indptr[1:], full, strict=True):
        columns = rows.indices[start:end]
        order = np.argsort(loss[columns])
        filled = np.cumsum(np.abs(rows.data[start:end])[order])
        chosen[columns[order[: 1 + np.searchsorted(filled, COVER * most)]]] = True
    return chosen


class _Part:
    """The relaxation over a growing set of columns, warm in HiGHS, without blocks that have no columns."""

    def __init__(self, blocks: Blocks, columns: Positions, options: Options, share: float = 1.0) -> None:
        self.blocks, self.whole = blocks, blocks.program
        stated = blocks.row[blocks.row >= 0]
        lower = self.whole.row_lower.copy()
        lower[np.setdiff1d(stated, self.whole.A[:, columns].indices)] = 0.0
        part, self.rows = restricted(replace(self.whole, row_lower=lower), columns)
        size = np.where(np.isin(self.rows, blocks.coupling), share, 1.0)
        part = replace(
            part.relaxation,
            row_lower=part.row_lower * size,
            row_upper=part.row_upper * size,
        )
        self.session = Session(part, replace(options, method="simplex"), presolve=False, explain=False)

    def solve(self) -> tuple[float, Floats]:
        """The optimum, and (c,) prices of the coupling rows."""
        _, dual, value = self.session.values()
        prices = np.zeros(self.whole.shape[0])
        prices[self.rows] = dual
        return value, prices[self.blocks.coupling]

    def add(self, columns: Positions) -> None:
        """Add columns, and the rows of their blocks."""
        program, A = self.whole, self.whole.A[:, columns]
        new = np.setdiff1d(A.indices, self.rows)
        empty = sparse.csr_array((len(new), len(self.session.program.c)))
        self.session.add_rows(empty, program.row_lower[new], program.row_upper[new], Names(len(new), str))
        self.rows = np.concatenate([self.rows, new])
        place = np.zeros(program.shape[0], dtype=A.indices.dtype)
        place[self.rows] = np.arange(len(self.rows))
        matrix = sparse.csc_array((A.data, place[A.indices], A.indptr), shape=(len(self.rows), len(columns)))
        names = Names(len(columns), str)
        self.session.add_columns(
            program.c[columns], matrix, program.col_lower[columns], program.col_upper[columns], names
        )
