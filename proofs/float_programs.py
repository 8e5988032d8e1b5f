"""Many small linear programs of the same shape at once, in floats: fast estimates for searches, never a verdict.

Programs have the form ``max c.x, A x <= b, x >= 0`` with ``b >= 0``, so that x = 0 is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetopt.data.array_types import Floats

TINY = 2.0**-34
"""Pivots and reduced costs up to this size count as 0."""

NUDGE = 2.0**-40
"""Size of the random increases of b, which prevent cycling."""


@dataclass(frozen=True)
class FloatOptima:
    """The optima of a batch of programs.

    Attributes
    ----------
    value:
        (programs,) largest ``c.x``; NaN if the pivots were used up.
    x:
        (programs, columns) optimal vertices.
    reduced:
        (programs, columns) what the value loses per unit of a column that is 0; 0 for basic columns.
    """

    value: Floats
    x: Floats
    reduced: Floats


def maximise_in_floats(c: Floats, a: Floats, b: Floats, pivots: int = 200) -> FloatOptima:
    """Solve all programs by the simplex method, pivot by pivot for the whole batch.

    Parameters
    ----------
    c, a, b:
        (programs, columns), (programs, rows, columns) and (programs, rows), with b >= 0.
    pivots:
        Largest number of pivots; programs that need more have the value NaN.
    """
    count, rows, columns = a.shape
    rng = np.random.default_rng(0)
    table = np.zeros((count, rows + 1, columns + rows + 1))
    table[:, :rows, :columns] = a
    table[:, np.arange(rows), columns + np.arange(rows)] = 1
    table[:, :rows, -1] = b + NUDGE * rng.random((count, rows)) * np.maximum(1, np.abs(a).max(axis=2))
    table[:, rows, :columns] = c
    basis = np.tile(columns + np.arange(rows), (count, 1))
    value, x, reduced = np.full(count, np.nan), np.zeros((count, columns)), np.zeros((count, columns))
    active = np.arange(count)
    for _ in range(pivots):
        entering = table[:, rows, :-1].argmax(axis=1)
        done = table[np.arange(len(active)), rows, entering] <= TINY
        if done.any():
            _read(table[done], basis[done], columns, active[done], value, x, reduced)
            table, basis, active, entering = table[~done], basis[~done], active[~done], entering[~done]
        if not len(active):
            break
        every = np.arange(len(active))
        column = table[every, :, entering]
        ratio = np.where(
            column[:, :rows] > TINY,
            table[:, :rows, -1] / np.where(column[:, :rows] > TINY, column[:, :rows], 1),
            np.inf,
        )
        leaving = ratio.argmin(axis=1)
        bounded = np.isfinite(ratio[every, leaving])
        if not bounded.all():
            table, basis, active = table[bounded], basis[bounded], active[bounded]
            entering, leaving, column = entering[bounded], leaving[bounded], column[bounded]
            every = np.arange(len(active))
        row = table[every, leaving] / column[every, leaving][:, None]
        table -= column[:, :, None] * row[:, None, :]
        table[every, leaving] = row
        basis[every, leaving] = entering
    return FloatOptima(value, x, reduced)


def _read(
    table: Floats, basis: np.ndarray, columns: int, where: np.ndarray, value: Floats, x: Floats, reduced: Floats
) -> None:
    """Copy the optima of finished programs."""
    rows = basis.shape[1]
    value[where] = -table[:, rows, -1]
    point = np.zeros((len(where), columns + rows))
    np.put_along_axis(point, basis, table[:, :rows, -1], axis=1)
    x[where] = np.maximum(point[:, :columns], 0)
    reduced[where] = np.maximum(-table[:, rows, :columns], 0)
