"""Result of a solver: a point of a linear program, and the solver's claims about it."""

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
"""``optimal``: proven up to the solver's tolerances; ``gap``: proven up to the requested gap; ``time_limit``: stopped
by the limit with a usable point, see the gap."""

AT_LOWER, BASIC, AT_UPPER, AT_ZERO, NONBASIC = range(5)
"""Basis codes, as in HiGHS: at the lower bound, basic, at the upper bound, free and at zero, nonbasic."""


@dataclass(frozen=True, eq=False)
class Basis:
    """A simplex basis: for every column and row whether it is basic, at its lower or at its upper bound.

    Parameters
    ----------
    read:
        Returns the solver's statuses of columns and of rows; called when :attr:`codes` is first used.
    native:
        The solver's own basis object, if it has one.
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
        """The basis of a program with ``rows`` rows: rows added at the end are basic."""
        codes = self.rows
        if len(codes) >= rows:
            return self
        return Basis(_Read(self.columns, np.concatenate([codes, np.full(rows - len(codes), BASIC, dtype=np.int8)])))

    def __reduce__(self) -> tuple[type[Basis], tuple[_Read]]:
        """Pickle as codes."""
        return Basis, (_Read(*self.codes),)


@dataclass(frozen=True, eq=False)
class _Read:
    """Reader of known statuses."""

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
        The final program, including lazy rows and rows that keep earlier stages.
    x:
        (columns,) values.
    objective:
        c.x + offset, as the solver reports it.
    bound:
        Upper bound on the objective, as claimed by the solver.
    row_dual:
        (rows,) increase of the optimum per unit of the row's bound; None for integer programs, at a time limit, and
        where a solver gives none that prove the optimum.
    basis:
        The optimal basis, if simplex was used.
    seconds:
        Wall time in the solver.
    solver, method:
        Solver and method used.
    passes:
        Number of solver runs (lazy rows, stages, widening cores).
    iterations:
        Simplex iterations of the last run.
    requested_gap:
        ``Options.gap``: separation of tangents stops within it.
    earlier:
        Points of the earlier stages, in order of priority, if the program had several objectives.
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
    requested_gap: float = GAP
    earlier: tuple[Point, ...] = ()

    @property
    def reduced_cost(self) -> Floats | None:
        """(columns,) increase of the optimum per unit of the column's bound; None without duals."""
        return None if self.row_dual is None else self.program.priced(self.row_dual)

    @property
    def main(self) -> Point:
        """The stage of priority 0; the first stage if none has that priority."""
        stages = {stage.program.priority: stage for stage in (*self.earlier, self)}
        return stages[main_priority(stages)]

    @property
    def share(self) -> Floats:
        """(n, k) shares at this point."""
        if self.program.share is None:
            raise ValueError("this program has no shares")
        return np.asarray(self.x[self.program.share])
