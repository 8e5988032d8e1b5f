"""What a solver hands back: a point of a linear program, and what it claims of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, SupportsInt

import numpy as np
from numpy.typing import NDArray

from hetopt.data.entities import Floats
from hetopt.programs.linear import LinearProgram, main_priority
from hetopt.tolerances import GAP

Status = Literal["optimal", "gap", "time_limit"]
"""``optimal``: proven up to the solver's tolerances; ``gap``: proven up to the gap that was asked for;
``time_limit``: stopped by the limit with a usable point, see the gap."""


AT_LOWER, BASIC, AT_UPPER, AT_ZERO, NONBASIC = range(5)
"""Codes of a basis, as HiGHS has them: at the lower bound, basic, at the upper, free and at zero, at some."""


@dataclass(frozen=True, eq=False)
class Basis:
    """A simplex basis: for every column and row whether it is basic, at its lower or at its upper bound.

    Parameters
    ----------
    read:
        Gives the solver's statuses of columns and of rows; asked once :attr:`codes` are.
    native:
        The solver's own form, where it has one.
    """

    read: Callable[[], tuple[Sequence[SupportsInt], Sequence[SupportsInt]]]
    native: Any = None

    @cached_property
    def codes(self) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Codes (:data:`AT_LOWER` …) of the (columns,) and of the (rows,)."""
        columns, rows = (np.fromiter(map(int, part), dtype=np.int8) for part in self.read())
        return columns, rows

    @property
    def columns(self) -> NDArray[np.int8]:
        """(columns,) codes."""
        return self.codes[0]

    @property
    def rows(self) -> NDArray[np.int8]:
        """(rows,) codes."""
        return self.codes[1]

    def extended(self, rows: int) -> Basis:
        """The basis of a program with ``rows`` rows, of which the last have been added: these are basic."""
        codes = self.rows
        if len(codes) >= rows:
            return self
        return Basis(_Read(self.columns, np.concatenate([codes, np.full(rows - len(codes), BASIC, dtype=np.int8)])))

    def __reduce__(self) -> tuple[type[Basis], tuple[_Read]]:
        """Pickled as codes."""
        return Basis, (_Read(*self.codes),)


@dataclass(frozen=True, eq=False)
class _Read:
    """Statuses that are known."""

    columns: NDArray[np.int8]
    rows: NDArray[np.int8]

    def __call__(self) -> tuple[Sequence[SupportsInt], Sequence[SupportsInt]]:
        return self.columns.tolist(), self.rows.tolist()


@dataclass(frozen=True, eq=False)
class Point:
    """A feasible point of ``program``.

    Attributes
    ----------
    program:
        The program that was finally solved, lazy rows and kept stages included.
    x:
        (columns,) values.
    objective:
        c.x + offset, as the solver reports it.
    bound:
        No feasible point is better than this, says the solver.
    row_dual:
        (rows,) increase of the optimum per unit of the row's bound; None for integer programs.
    basis:
        The optimal basis where simplex was used.
    seconds:
        Wall time in the solver.
    solver, method:
        What was used.
    passes:
        How often the solver ran (lazy rows, stages, widening cores).
    iterations:
        Simplex iterations of the last run.
    asked_gap:
        ``Options.gap``: lazy rows that only approximate (tangents) stop within it.
    earlier:
        Where the program had several objectives: the points of the stages before, first things first.
    """

    program: LinearProgram
    x: Floats
    objective: float
    bound: float
    status: Status
    row_dual: Floats | None = None
    basis: Basis | None = None
    seconds: float = 0.0
    solver: str = "highs"
    method: str = "simplex"
    passes: int = 1
    iterations: int = 0
    asked_gap: float = GAP
    earlier: tuple[Point, ...] = ()

    @property
    def reduced_cost(self) -> Floats | None:
        """(columns,) increase of the optimum per unit of the column's bound; None for integer programs."""
        return None if self.row_dual is None else self.program.priced(self.row_dual)

    @property
    def main(self) -> Point:
        """The stage that maximised the gains of priority 0; where there are none, the first."""
        stages = {stage.program.priority: stage for stage in (*self.earlier, self)}
        return stages[main_priority(stages)]

    @property
    def share(self) -> Floats:
        """(n, k) shares at this point."""
        if self.program.share is None:
            raise ValueError("this program has no shares")
        return np.asarray(self.x[self.program.share])
